#!/usr/bin/env python3
"""make_llama.py - numbers of a tiny Llama-style decoder, for tests/golden/test_llama.c

An implementation of its own in plain Python: loops over scalars, derivatives by the complex step
(f(x + ih) has the derivative in its imaginary part, without cancellation). Weights are a formula, so
the file holds results only. Writes llama_small.json beside it: the loss, and for each parameter the
derivative by two of its elements.
"""
import cmath
import json
import math
import os

LAYERS, HEADS, KV_HEADS, WIDTH, HIDDEN, VOCAB, CONTEXT = 2, 4, 2, 16, 24, 11, 6
BATCH, TOKENS, BASE, EPSILON = 2, 5, 10000.0, 1e-5
DIM = WIDTH // HEADS


def shapes():
    kv = KV_HEADS * DIM
    yield "model.embed_tokens.weight", (VOCAB, WIDTH)
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (WIDTH,)
        yield p + "self_attn.q_proj.weight", (WIDTH, WIDTH)
        yield p + "self_attn.k_proj.weight", (kv, WIDTH)
        yield p + "self_attn.v_proj.weight", (kv, WIDTH)
        yield p + "self_attn.o_proj.weight", (WIDTH, WIDTH)
        yield p + "post_attention_layernorm.weight", (WIDTH,)
        yield p + "mlp.gate_proj.weight", (HIDDEN, WIDTH)
        yield p + "mlp.up_proj.weight", (HIDDEN, WIDTH)
        yield p + "mlp.down_proj.weight", (WIDTH, HIDDEN)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (VOCAB, WIDTH)


def weight(place, i, rank):
    return (1.0 if rank == 1 else 0.0) + 0.3 * math.sin(1.7 * place + 0.61 * i + 0.002 * i * i)


def token(batch, t):
    return (7 * batch + 3 * t + batch * t) % VOCAB


def target(batch, t):
    return (5 * batch + 2 * t + 1) % VOCAB


def matrix(w, x):
    n = len(x)
    return [sum(w[r * n + c] * x[c] for c in range(n)) for r in range(len(w) // n)]


def norm(x, w):
    root = cmath.sqrt(sum(v * v for v in x) / len(x) + EPSILON)
    return [v / root * g for v, g in zip(x, w)]


def rotate(x, t):
    out = []
    for head in range(len(x) // DIM):
        part, half = x[head * DIM:(head + 1) * DIM], DIM // 2
        for i in range(DIM):
            angle = t * BASE ** (-2.0 * (i % half) / DIM)
            other = -part[i + half] if i < half else part[i - half]
            out.append(part[i] * math.cos(angle) + other * math.sin(angle))
    return out


def attend(q, k, v, t):
    out = []
    for head in range(HEADS):
        kv = head // (HEADS // KV_HEADS)
        mine = q[t][head * DIM:(head + 1) * DIM]
        scores = [sum(a * b for a, b in zip(mine, k[s][kv * DIM:(kv + 1) * DIM])) / math.sqrt(DIM)
                  for s in range(t + 1)]
        most = max(s.real for s in scores)
        weights = [cmath.exp(s - most) for s in scores]
        total = sum(weights)
        out += [sum(weights[s] * v[s][kv * DIM + i] for s in range(t + 1)) / total
                for i in range(DIM)]
    return out


def loss(p):
    total = 0
    for b in range(BATCH):
        table = p["model.embed_tokens.weight"]
        xs = [table[token(b, t) * WIDTH:(token(b, t) + 1) * WIDTH] for t in range(TOKENS)]
        for i in range(LAYERS):
            w = {k[len(f"model.layers.{i}."):]: v for k, v in p.items()
                 if k.startswith(f"model.layers.{i}.")}
            hs = [norm(x, w["input_layernorm.weight"]) for x in xs]
            q = [rotate(matrix(w["self_attn.q_proj.weight"], h), t) for t, h in enumerate(hs)]
            k = [rotate(matrix(w["self_attn.k_proj.weight"], h), t) for t, h in enumerate(hs)]
            v = [matrix(w["self_attn.v_proj.weight"], h) for h in hs]
            for t in range(TOKENS):
                o = matrix(w["self_attn.o_proj.weight"], attend(q, k, v, t))
                xs[t] = [a + c for a, c in zip(xs[t], o)]
            for t in range(TOKENS):
                h = norm(xs[t], w["post_attention_layernorm.weight"])
                gate = matrix(w["mlp.gate_proj.weight"], h)
                up = matrix(w["mlp.up_proj.weight"], h)
                inner = [g / (1 + cmath.exp(-g)) * u for g, u in zip(gate, up)]
                down = matrix(w["mlp.down_proj.weight"], inner)
                xs[t] = [a + c for a, c in zip(xs[t], down)]
        for t in range(TOKENS):
            logits = matrix(p["lm_head.weight"], norm(xs[t], p["model.norm.weight"]))
            most = max(z.real for z in logits)
            total += most + cmath.log(sum(cmath.exp(z - most) for z in logits)) - logits[target(b, t)]
    return total / (BATCH * TOKENS)


def main():
    p, result = {}, {"loss": 0, "gradients": []}
    for place, (name, shape) in enumerate(shapes()):
        p[name] = [weight(place, i, len(shape)) for i in range(math.prod(shape))]
    result["loss"] = loss(p).real
    for name, shape in shapes():
        for i in {math.prod(shape) // 3, math.prod(shape) - 2}:
            kept, step = p[name][i], 1e-30
            p[name][i] = complex(kept, step)
            result["gradients"].append({"name": name, "element": i,
                                        "value": loss(p).imag / step})
            p[name][i] = kept
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama_small.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(result, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()

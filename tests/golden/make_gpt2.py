#!/usr/bin/env python3
"""Writes gpt2_small.json: what PyTorch makes of a small GPT-2 in float64.

Debian's python3-torch made the committed file: /usr/bin/python3 tests/golden/make_gpt2.py
Names and shapes are those of framework/nn/gpt2.c. The file holds the configuration, tokens, all
parameters before training, logits and loss of the first batch, every gradient of that loss, and
loss, gradient norm and all parameters after 10 steps of AdamW with clipping, each step over two
micro-batches.
"""
import json
import math
import pathlib

import torch

LAYERS, HEADS, WIDTH, VOCAB, CONTEXT = 2, 2, 8, 13, 6
BATCH, TOKENS, STEPS, MICRO = 3, 5, 10, 2
BETAS, EPSILON, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 0.05

torch.manual_seed(20240607)
torch.set_default_dtype(torch.float64)


def parameters():
    p = {"wte.weight": torch.randn(VOCAB, WIDTH) * 0.2, "wpe.weight": torch.randn(CONTEXT, WIDTH) * 0.2}

    def linear(name, inputs, outputs):
        p[name + ".weight"] = torch.randn(outputs, inputs) * 0.2
        p[name + ".bias"] = torch.randn(outputs) * 0.1

    def norm(name):
        p[name + ".weight"] = 1 + torch.randn(WIDTH) * 0.1
        p[name + ".bias"] = torch.randn(WIDTH) * 0.1

    for i in range(LAYERS):
        norm(f"h.{i}.ln_1")
        linear(f"h.{i}.attn.c_attn", WIDTH, 3 * WIDTH)
        linear(f"h.{i}.attn.c_proj", WIDTH, WIDTH)
        norm(f"h.{i}.ln_2")
        linear(f"h.{i}.mlp.c_fc", WIDTH, 4 * WIDTH)
        linear(f"h.{i}.mlp.c_proj", 4 * WIDTH, WIDTH)
    norm("ln_f")
    return {name: value.requires_grad_() for name, value in p.items()}


def forward(p, ids):
    functional = torch.nn.functional

    def linear(name, x):
        return functional.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(name, x):
        return functional.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    batch, tokens = ids.shape
    x = p["wte.weight"][ids] + p["wpe.weight"][:tokens]
    mask = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))
    for i in range(LAYERS):
        q, k, v = (part.view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)).split(WIDTH, 2))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(WIDTH // HEADS)
        heads = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
        x = x + linear(f"h.{i}.attn.c_proj", heads.transpose(1, 2).reshape(batch, tokens, WIDTH))
        hidden = functional.gelu(linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x)), approximate="tanh")
        x = x + linear(f"h.{i}.mlp.c_proj", hidden)
    return norm("ln_f", x) @ p["wte.weight"].T


def loss_of(p, ids, targets):
    logits = forward(p, ids)
    return torch.nn.functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1)), logits


def numbers(tensor):
    return [float(x) for x in tensor.detach().reshape(-1)]


def main():
    p = parameters()
    ids = torch.randint(0, VOCAB, (STEPS, MICRO, BATCH, TOKENS))
    targets = torch.randint(0, VOCAB, (STEPS, MICRO, BATCH, TOKENS))
    out = {
        "torch": torch.__version__,
        "layers": LAYERS, "heads": HEADS, "width": WIDTH, "vocab": VOCAB, "context": CONTEXT,
        "batch": BATCH, "tokens": TOKENS, "steps": STEPS, "micro_batches": MICRO,
        "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON, "weight_decay": DECAY, "clip": CLIP,
        "ids": [int(x) for x in ids.reshape(-1)], "targets": [int(x) for x in targets.reshape(-1)],
        "before": {name: numbers(value) for name, value in p.items()},
    }
    loss, logits = loss_of(p, ids[0, 0], targets[0, 0])
    loss.backward()
    out["loss"], out["logits"] = float(loss), numbers(logits)
    out["gradients"] = {name: numbers(value.grad) for name, value in p.items()}

    groups = [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": DECAY},
              {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0, betas=BETAS, eps=EPSILON)
    out["lr"], out["step_loss"], out["step_norm"] = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for micro in range(MICRO):
            loss, _ = loss_of(p, ids[step, micro], targets[step, micro])
            (loss / MICRO).backward()
            total += float(loss) / MICRO
        norm = torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
        lr = 0.01 * (step + 1) / STEPS
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        out["lr"].append(lr)
        out["step_loss"].append(total)
        out["step_norm"].append(float(norm))
    out["after"] = {name: numbers(value) for name, value in p.items()}
    path = pathlib.Path(__file__).with_name("gpt2_small.json")
    path.write_text(json.dumps(out, indent=None, separators=(",", ":")) + "\n")


main()

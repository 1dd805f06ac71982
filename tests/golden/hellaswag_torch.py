#!/usr/bin/env python3
"""HellaSwag by PyTorch, from text and weights, beside what bt-bench hellaswag says.

    hellaswag_torch.py make MODEL_DIR [LAYERS HEADS WIDTH]      a GPT-2 of random weights
    hellaswag_torch.py score MODEL_DIR QUESTIONS RANKS ANSWERS [--device cuda] [--limit N]

An implementation of its own: safetensors, byte-pair encoding, GPT-2 and the score; nothing of
framework/ is in it. ANSWERS is what `bt-bench hellaswag --answers` wrote for the same model: each
ending's tokens must be as many, its loss may differ by ANSWER_TOLERANCE per token, and where the
best two endings are further apart than that, both must choose the same. Needs PyTorch; the
encoding is exact for ASCII and the letters and digits that Python's re knows.
"""
import argparse
import base64
import ctypes
import json
import math
import pathlib
import re
import struct

import torch

VOCAB, CONTEXT = 50304, 1024
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")


# ---- weights ------------------------------------------------------------------------------------

def make(folder, layers, heads, width):
    """Random weights, larger than those that training begins with, so that endings differ."""
    torch.manual_seed(20240714)
    tensors = {"wte.weight": torch.randn(VOCAB, width) * 0.08, "wpe.weight": torch.randn(CONTEXT, width) * 0.04}
    for i in range(layers):
        for name, inputs, outputs in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                      ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            tensors[f"h.{i}.{name}.weight"] = torch.randn(inputs, outputs) * 0.05
            tensors[f"h.{i}.{name}.bias"] = torch.randn(outputs) * 0.02
    for name in [f"h.{i}.ln_{k}" for i in range(layers) for k in (1, 2)] + ["ln_f"]:
        tensors[name + ".weight"] = 1 + torch.randn(width) * 0.1
        tensors[name + ".bias"] = torch.randn(width) * 0.1
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + 4 * tensor.numel()]}
        at += 4 * tensor.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(ctypes.string_at(tensor.data_ptr(), 4 * tensor.numel()))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": layers, "n_head": heads,
                                                    "n_embd": width, "vocab_size": VOCAB, "n_positions": CONTEXT}))


def load(folder, device):
    with open(folder / "model.safetensors", "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.float32, offset=begin, count=(end - begin) // 4)
        tensors[name.removeprefix("transformer.")] = flat.reshape(entry["shape"]).to(device)
    return tensors, json.loads((folder / "config.json").read_text())


def forward(p, config, ids):
    functional, width, heads = torch.nn.functional, config["n_embd"], config["n_head"]

    def norm(name, x):
        return functional.layer_norm(x, (width,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def conv1d(name, x):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    batch, tokens = ids.shape
    x = p["wte.weight"][ids] + p["wpe.weight"][:tokens]
    mask = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool, device=ids.device))
    for i in range(config["n_layer"]):
        q, k, v = (part.view(batch, tokens, heads, width // heads).transpose(1, 2)
                   for part in conv1d(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)).split(width, 2))
        scores = ((q @ k.transpose(2, 3)) / math.sqrt(width // heads)).masked_fill(~mask, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + conv1d(f"h.{i}.attn.c_proj", mixed)
        hidden = functional.gelu(conv1d(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x)), approximate="tanh")
        x = x + conv1d(f"h.{i}.mlp.c_proj", hidden)
    return norm("ln_f", x) @ p["wte.weight"].T


# ---- text ---------------------------------------------------------------------------------------

def read_ranks(path):
    return {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in open(path, "rb")}


def encode(ranks, text):
    ids = []
    for piece in PIECES.findall(text):
        parts = [bytes([b]) for b in piece.encode()]
        while len(parts) > 1:
            rank, at = min((ranks.get(parts[i] + parts[i + 1], math.inf), i) for i in range(len(parts) - 1))
            if rank == math.inf:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        ids += [ranks[part] for part in parts]
    return ids


# ---- the score ----------------------------------------------------------------------------------

def answer(p, config, ranks, lines, device):
    context = encode(ranks, lines[0])
    losses, counts = [], []
    for ending in lines[2:6]:
        tail = encode(ranks, " " + ending)
        ids = torch.tensor([context + tail], device=device)
        logits = forward(p, config, ids)[0, :-1].double()
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")[-len(tail):]
        losses.append(float(loss.sum()))
        counts.append(len(tail))
    return losses, counts


# Nats a token, for losses near 11: 40 eps(fp32), one eps(tf32), one eps(bf16) of them.
ANSWER_TOLERANCE = {"fp32": 5e-5, "tf32": 1e-2, "bf16": 1e-1}


def compare(number, theirs, ours, losses, counts, tolerance):
    means = [loss / count for loss, count in zip(losses, counts)]
    assert theirs["tokens"] == counts, f"question {number}: {theirs['tokens']} tokens, here {counts}"
    off = max(abs(a - b) / n for a, b, n in zip(theirs["loss"], losses, counts))
    assert off <= tolerance, f"question {number}: losses {theirs['loss']}, here {losses}"
    for name, values, scale in (("choice", losses, max(counts)), ("normalised", means, 1)):
        best, second = sorted(values)[:2]
        same = theirs[name] == values.index(best)
        assert same or second - best <= 2 * tolerance * scale, f"question {number}: {name} {theirs[name]}, {values}"
    ours[0] += losses.index(min(losses)) == theirs["label"]
    ours[1] += means.index(min(means)) == theirs["label"]
    return off


def score(args):
    torch.backends.cuda.matmul.allow_tf32 = False
    p, config = load(args.model, args.device)
    ranks = read_ranks(args.ranks)
    lines = args.questions.read_text().splitlines()
    answers = [json.loads(line) for line in open(args.answers)][:args.limit]
    ours, theirs, worst = [0, 0], [0, 0], 0.0
    with torch.no_grad():
        for i, given in enumerate(answers):
            question = lines[6 * i:6 * i + 6]
            assert given["question"] == i and given["label"] == int(question[1])
            losses, counts = answer(p, config, ranks, question, args.device)
            worst = max(worst, compare(i, given, ours, losses, counts, ANSWER_TOLERANCE[args.precision]))
            theirs[0] += given["choice"] == given["label"]
            theirs[1] += given["normalised"] == given["label"]
    print(f"torch {torch.__version__}, {len(answers)} questions: accuracy {ours[0] / len(answers):.4f}, normalised "
          f"{ours[1] / len(answers):.4f}; bt-bench {theirs[0] / len(answers):.4f}, {theirs[1] / len(answers):.4f}; "
          f"losses differ by at most {worst:.3g} nats a token")


def main():
    parser = argparse.ArgumentParser()
    actions = parser.add_subparsers(dest="action", required=True)
    maker = actions.add_parser("make")
    maker.add_argument("model", type=pathlib.Path)
    maker.add_argument("shape", type=int, nargs="*", default=[12, 12, 768])
    scorer = actions.add_parser("score")
    for name in ("model", "questions", "ranks", "answers"):
        scorer.add_argument(name, type=pathlib.Path)
    scorer.add_argument("--device", default="cpu")
    scorer.add_argument("--limit", type=int)
    scorer.add_argument("--precision", choices=ANSWER_TOLERANCE, default="fp32")
    args = parser.parse_args()
    if args.action == "make":
        make(args.model, *args.shape)
    else:
        score(args)


main()

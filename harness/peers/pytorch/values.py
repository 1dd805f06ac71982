#!/usr/bin/env python3
"""The values of training steps in PyTorch, under the names of 'bt-bench diff-run'.

    bt-bench diff-run fp32 fp32 --suite SUITE --steps 3 --dump ours/
    python3 harness/peers/pytorch/values.py ours/ theirs/ --device cuda --precision fp32
    bt-bench diff-run cuda,fp32 theirs/ --suite SUITE --steps 3

ours/ contains the initial parameters, the batches of each step and the case (case.json); nothing else
of it is read. theirs/ gets a file a step: activations and their gradients by module, gradients of
parameters, parameters and moments after the update (names: framework/train/trace.h).
"""
import argparse
import json
import math
import os

import safetensors_file
from training import attend, rate_at

TYPES = {"F32": "float32", "BF16": "bfloat16", "I32": "int32"}


def to_torch(torch, tensor):
    dtype, shape, data = tensor
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, TYPES[dtype])).reshape(shape)


def from_torch(torch, tensor):
    tensor = tensor.detach().cpu().contiguous()
    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int32: "I32"}
    if tensor.dtype not in names:
        tensor = tensor.float()
    return names[tensor.dtype], list(tensor.shape), \
        tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


class Model:
    """GPT-2 from its parameters, keeping each value that 'diff-run' names."""

    def __init__(self, torch, parameters, shape):
        self.torch, self.parameters, self.shape = torch, parameters, shape
        self.kept = {}

    def keep(self, name, value):
        value.retain_grad()
        self.kept[name] = value
        return value

    def linear(self, x, name):
        return self.torch.nn.functional.linear(x, self.parameters[f"{name}.weight"],
                                               self.parameters[f"{name}.bias"])

    def norm(self, x, name):
        return self.torch.nn.functional.layer_norm(
            x, x.shape[-1:], self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def attend(self, qkv):
        batch, length, width = qkv.shape
        width //= 3
        q, k, v = (part.view(batch, length, self.shape["heads"], -1).transpose(1, 2)
                   for part in qkv.split(width, dim=2))
        y = attend(self.torch, q, k, v)
        return y.transpose(1, 2).reshape(batch, length, width)

    def block(self, x, h):
        keep, functional = self.keep, self.torch.nn.functional
        normed = keep(f"{h}.ln_1.layernorm", self.norm(x, f"{h}.ln_1"))
        qkv = keep(f"{h}.attn.c_attn.linear", self.linear(normed, f"{h}.attn.c_attn"))
        heads = keep(f"{h}.attention", self.attend(qkv))
        x = keep(f"{h}.attn.c_proj.linear", x + self.linear(heads, f"{h}.attn.c_proj"))
        normed = keep(f"{h}.ln_2.layernorm", self.norm(x, f"{h}.ln_2"))
        hidden = functional.gelu(self.linear(normed, f"{h}.mlp.c_fc"), approximate="tanh")
        return keep(f"{h}.mlp.c_fc.feed_forward", x + self.linear(hidden, f"{h}.mlp.c_proj"))

    def loss(self, ids, targets):
        positions = self.torch.arange(ids.shape[1], device=ids.device)
        x = self.keep("wte.embedding", self.parameters["wte.weight"][ids] +
                      self.parameters["wpe.weight"][positions])
        for i in range(self.shape["layers"]):
            x = self.block(x, f"h.{i}")
        x = self.keep("ln_f.layernorm", self.norm(x, "ln_f"))
        logits = x @ self.parameters["wte.weight"].t()
        return self.keep("wte.linear_cross_entropy", self.torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten()))

    def inputs(self):
        """The call of each op and the value whose gradient its input 0 has."""
        rows, before = [], "wte.embedding"
        for i in range(self.shape["layers"]):
            h = f"h.{i}"
            names = [f"{h}.ln_1.layernorm", f"{h}.attn.c_attn.linear", f"{h}.attention",
                     f"{h}.attn.c_proj.linear", f"{h}.ln_2.layernorm", f"{h}.mlp.c_fc.feed_forward"]
            rows += zip(names, [before] + names[:-1])
            before = names[-1]
        return rows + [("ln_f.layernorm", before), ("wte.linear_cross_entropy", "ln_f.layernorm")]


def make_optimizer(torch, parameters, values):
    groups = [{"params": [p for p in parameters.values() if p.dim() >= 2],
               "weight_decay": values["weight_decay"]},
              {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=values["lr"], eps=values["epsilon"],
                             betas=(values["beta1"], values["beta2"]))


def run_step(torch, model, optimizer, given, train, number):
    """One step on the batches of `given`; its values by name."""
    parameters, out, micro = model.parameters, {}, 0
    device = parameters["wte.weight"].device
    while f"input.{micro}.ids" in given:
        ids, targets = (to_torch(torch, given[f"input.{micro}.{name}"]).long().to(device)
                        for name in ("ids", "targets"))
        with torch.autocast(device.type, dtype=torch.bfloat16,
                            enabled=train["precision"] == "bf16"):
            model.loss(ids, targets).backward()
        for name, value in model.kept.items():
            out[f"forward.{micro}.{name}"] = from_torch(torch, value)
        for call, source in model.inputs():
            gradient = model.kept[source].grad
            if call == "wte.linear_cross_entropy":  # ours has rows there
                gradient = gradient.flatten(0, 1)
            out[f"backward.{micro}.{call}.in0"] = from_torch(torch, gradient)
        micro += 1
    for name, parameter in parameters.items():
        out[f"gradient.{name}"] = from_torch(torch, parameter.grad)
        parameter.grad /= micro
    values = train["optimizer"]
    clip = values["clip"] if values["clip"] > 0 else math.inf
    torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
    for group in optimizer.param_groups:
        group["lr"] = rate_at(values, number, train["steps"])
    optimizer.step()
    for name, parameter in parameters.items():
        moments = optimizer.state[parameter]
        out[f"state.{name}"] = from_torch(torch, parameter)
        out[f"state.adamw.m.{name}"] = from_torch(torch, moments["exp_avg"])
        out[f"state.adamw.v.{name}"] = from_torch(torch, moments["exp_avg_sq"])
    optimizer.zero_grad(set_to_none=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"))
    given = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    with open(os.path.join(given.ours, "case.json"), encoding="utf-8") as file:
        train = json.load(file)["train"]
    train["precision"] = given.precision or train["precision"]
    torch.set_float32_matmul_precision("high" if train["precision"] == "tf32" else "highest")
    os.makedirs(given.theirs, exist_ok=True)
    number, model, optimizer = 0, None, None
    while os.path.exists(os.path.join(given.ours, f"step-{number:08}.safetensors")):
        name = f"step-{number:08}.safetensors"
        batches = safetensors_file.read(os.path.join(given.ours, name))
        if model is None:
            parameters = {key[len("initial."):]:
                          to_torch(torch, tensor).to(given.device).requires_grad_()
                          for key, tensor in batches.items() if key.startswith("initial.")}
            model = Model(torch, parameters, train["model"])
            optimizer = make_optimizer(torch, parameters, train["optimizer"])
        values = run_step(torch, model, optimizer, batches, train, number)
        safetensors_file.write(os.path.join(given.theirs, name), values)
        number += 1
    print(f"{number} steps in {given.theirs}")


if __name__ == "__main__":
    main()

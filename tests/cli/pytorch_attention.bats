#!/usr/bin/env bats
# pytorch-cudnn and its siblings: which kernel they ask PyTorch for, with a PyTorch made up here

load ../support/cli

setup() {
    enter_scratch
    mkdir -p torch/nn
    echo "__version__ = '0'" >torch/__init__.py
    touch torch/nn/__init__.py
    cat >torch/nn/attention.py <<'PY'
from contextlib import contextmanager
from enum import Enum

SDPBackend = Enum("SDPBackend", "FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION")
used = []


@contextmanager
def sdpa_kernel(backend):
    used.append(backend.name)
    yield
PY
}

teardown() {
    leave_scratch
}

# Runs the Python program on standard input with the peer's modules and this PyTorch.
with_peer() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD:$root/harness/peers/pytorch python3 -
}

@test "the system's name chooses the kernel, and only it is asked for" {
    with_peer <<'PY'
from types import SimpleNamespace
import torch
import torch.nn.attention
import kernels
from protocol import Cannot

names = {"pytorch-cudnn": "CUDNN_ATTENTION", "pytorch-flash": "FLASH_ATTENTION",
         "pytorch-efficient": "EFFICIENT_ATTENTION", "pytorch-eager": None, "pytorch-compile": None,
         "pytorch-eager-power-of-two": None, "pytorch": None, "cudnn": "CUDNN_ATTENTION"}
for system, backend in names.items():
    assert kernels.attention_backend(system) == backend, system

case = SimpleNamespace(torch=torch, op="attention", dtype="bf16", shape_text="1x1x1x64")
assert kernels.by_backend(case, lambda a, b: a + b, "FLASH_ATTENTION")(1, 2) == 3
assert torch.nn.attention.used == ["FLASH_ATTENTION"]


def none(*_):
    raise RuntimeError("No available kernel. Aborting execution.")


def broken(*_):
    raise RuntimeError("out of memory")


def outcome(call):
    try:
        return call()
    except (Cannot, RuntimeError) as error:
        return type(error).__name__, error.args


assert outcome(kernels.by_backend(case, none, "CUDNN_ATTENTION")) == \
    ("Cannot", ("unsupported", "CUDNN_ATTENTION has no kernel for attention of bf16, 1x1x1x64"))
assert outcome(kernels.by_backend(case, broken, "CUDNN_ATTENTION"))[0] == "RuntimeError"
assert outcome(lambda: kernels.by_backend(case, none, "OVERRIDEABLE"))[0] == "Cannot"
PY
}

@test "float64 judges all heads that fit, else as many as fit, at least one" {
    with_peer <<'PY'
from types import SimpleNamespace
import kernels


class Tensor:
    def __getitem__(self, parts):
        return tuple(part.stop for part in parts)


def taken(op, *axes):
    return kernels.judged(SimpleNamespace(op=op, axes=list(axes)))(Tensor())


assert taken("attention", 64, 12, 1024, 64) == (64, 12)
assert taken("attention_causal", 2, 12, 16384, 64) == (2, 2)
assert taken("attention", 8, 12, 16384, 64) == (4, 1)
assert taken("attention", 1, 2, 131072, 64) == (1, 1)
whole = Tensor()
assert kernels.judged(SimpleNamespace(op="gelu", axes=[8, 8]))(whole) is whole
PY
}

@test "other cases are refused before anything is loaded" {
    task='{"system":"pytorch-flash","device":"cpu","case":{"kind":"train","train":{}}}'
    PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1 run python3 "$root/harness/peers/pytorch/peer.py" <<<"$task"
    [ "$status" = 4 ]
    [[ $output == *'"status": "unsupported", "message": "pytorch-flash runs cases of attention only"'* ]]
}

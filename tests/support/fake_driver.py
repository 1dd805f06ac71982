#!/usr/bin/env python3
"""Every operation of the peer hyperkernels with a driver that launches nothing, on the CPU.

Prints a line per operation and direction; fails where a launch gets something that the driver could
not take, or where outputs and their reference differ in number or shape.
"""
import ctypes
import os
import sys

peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness", "peers")
sys.path[:0] = [os.path.join(peers, "pytorch"), os.path.join(peers, "hyperkernels")]

import torch  # noqa: E402
import kernels  # noqa: E402
import ops  # noqa: E402


class Driver:
    def __init__(self):
        self.launches = []

    def find(self, _file, name, _shared_bytes=0):
        return name

    def launch(self, function, grid, block, values, shared_bytes=0):
        for value in values:
            simple = (ctypes._SimpleCData, ctypes.Structure)  # pylint: disable=protected-access
            assert hasattr(value, "data_ptr") or isinstance(value, simple), (function, value)
        self.launches.append((function, grid, block, shared_bytes))


SHAPES = {"gelu": "2x4x8", "layernorm": "4x8", "cross_entropy": "4x12", "adamw": "block"}
if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
    SHAPES.update({"attention": "1x2x32x64", "attention_causal": "1x2x32x64"})
for op, shape in SHAPES.items():
    for direction in ("forward", "backward") if op != "adamw" else ("forward",):
        dtype = "tf32" if "attention" in op else "f32"
        case = kernels.Case(torch, {"device": "cpu", "case": {"kernel": {
            "op": op, "direction": direction, "dtype": dtype, "cache": "cold", "shape": shape,
            "seed": 1, "max_time_s": 1}}})
        case.reset()
        driver = Driver()
        made = ops.MAKERS[op](driver, case)
        made.call()
        right = made.right()
        assert [x.shape for x in made.outputs] == [x.shape for x in right], op
        print(op, direction, len(driver.launches), "launches")

# What the kernels take by value has the layout of C.
assert [ctypes.sizeof(x) for x in (ops.Forward, ops.Backward, ops.Launch)] == [192, 328, 3520]
groups = [(torch.empty(count),) * 4 for count in [100000] * 50]
launches = ops.launches_of(groups)
assert sum(blocks for _, blocks in launches) == 50 * 4 and len(launches) == 2

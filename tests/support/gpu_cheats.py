#!/usr/bin/env python3
"""Two ways to cheat that need a GPU, given to the PyTorch peer's clock: it must catch them."""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness",
                                "peers", "pytorch"))

import torch  # noqa: E402
import kernels  # noqa: E402

CASE = {"device": "cuda", "case": {"kernel": {
    "op": "copy", "direction": "forward", "dtype": "f32", "cache": "cold", "shape": "4194304",
    "seed": 1, "max_time_s": 1}}}


def side_stream():
    """All of the work on a stream that the events do not wait for."""
    other = torch.cuda.Stream()
    x = torch.randn(64 << 20, device="cuda")

    def call():
        with torch.cuda.stream(other):
            for _ in range(8):
                x.mul_(1.0)
    try:
        kernels.measure(kernels.Case(torch, CASE), [call])
    except ArithmeticError as error:
        return "caught" if "after the timed interval" in str(error) else str(error)
    return "not caught"


def persisting_lines():
    """Reserves L2 for lines that persist: the median must not gain from it."""
    driver = ctypes.CDLL("libcuda.so.1")
    x = torch.randn(4 << 20, device="cuda")

    def median():
        samples = kernels.measure(kernels.Case(torch, CASE), [lambda: x.sum()])[0]
        return sorted(samples)[len(samples) // 2]
    plain = median()
    limit_persisting = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    driver.cuCtxSetLimit(limit_persisting, ctypes.c_size_t(32 << 20))
    kept = median()
    driver.cuCtxSetLimit(limit_persisting, ctypes.c_size_t(0))
    return "no gain" if kept > 0.9 * plain else f"{plain:.0f} ns became {kept:.0f} ns"


print("side stream:", side_stream())
print("persisting lines:", persisting_lines())

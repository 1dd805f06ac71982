#!/usr/bin/env python3
"""A peer that returns the outputs of a copy in f32, right or wrong as $BT_RETURNING says:
right, stale (those of the calls that were timed), wrong (one element), short (a byte is missing),
silent (returns nothing)."""
import json
import os
import sys

mode = os.environ.get("BT_RETURNING", "right")


def say(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)


task = json.loads(sys.stdin.readline())
say("start", protocol=1, system=task["system"], device="CPU")
say("samples", times_ns=[1e6] * 3)
say("measured", error_share=0.5)
if mode != "silent":
    asked = task["returns"]
    x, y = asked["inputs"][0], asked["outputs"][0]
    with open(os.path.join(asked["folder"], "x.0" if mode == "stale" else "x.1"), "rb") as file:
        tile = file.read()
    values = (tile * (4 * x["count"] // len(tile) + 1))[:4 * x["count"]]
    parts = [values[4 * (first + run * stride):4 * (first + run * stride + length)]
             for first, runs, stride, length in y["windows"] for run in range(runs)]
    result = b"".join(parts)
    if mode == "wrong":
        result = result[:-2] + bytes([result[-2] ^ 1]) + result[-1:]
    with open(os.path.join(asked["folder"], "y.out"), "wb") as file:
        file.write(result[:-1] if mode == "short" else result)
    say("outputs")
say("result", steps_done=0)

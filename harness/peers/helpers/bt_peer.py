"""What a peer in Python needs besides its kernel: the protocol, operands, cache mode, timing, and
the outputs that the recorder checks.

    #!/usr/bin/env python3
    import bt_peer                          # PYTHONPATH=harness/peers/helpers
    import numpy

    def make(kernel, inputs, outputs):
        if kernel["op"] != "copy" or kernel["dtype"] != "f32":
            raise bt_peer.Unsupported("only copies of f32")
        x = numpy.frombuffer(inputs["x"], numpy.float32)
        y = numpy.frombuffer(outputs["y"], numpy.float32)
        return lambda: numpy.copyto(y, x)   # one call; it is timed

    bt_peer.main(make, device="numpy")

make gets the case's `kernel` object (op, direction, dtype, shape ...) and its operands as writable
bytearrays in the case's type, and returns what makes one call. It is called once for each copy of
the operands. A call that only starts work on another device must wait for its end.
"""
import json
import os
import sys
import time

SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "tf32": 4, "bf16": 2, "i16": 2, "u16": 2, "u8": 1}


class Unsupported(Exception):
    """This peer has no such kernel. It is recorded; the run continues."""


def say(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)


def cache_bytes():
    """Of the last level, at most 128 MiB a processor: virtual machines report the whole socket's."""
    known = max(os.sysconf(name) for name in (194, 191))  # glibc: _SC_LEVEL3_, _SC_LEVEL2_CACHE_SIZE
    share = (128 << 20) * len(os.sched_getaffinity(0))
    return min(known if known > 0 else 128 << 20, share)


def read_inputs(returns, which):
    """The operands of set 0 (timed) or 1 (checked): element i is element i modulo the file's."""
    inputs = {}
    for operand in returns["inputs"]:
        size = SIZES[operand["dtype"]] * operand["count"]
        with open(os.path.join(returns["folder"], f"{operand['name']}.{which}"), "rb") as file:
            tile = file.read()
        inputs[operand["name"]] = bytearray((tile * (size // len(tile) + 1))[:size])
    return inputs


def write_outputs(returns, outputs):
    for operand in returns["outputs"]:
        size, data = SIZES[operand["dtype"]], memoryview(outputs[operand["name"]])
        with open(os.path.join(returns["folder"], operand["name"] + ".out"), "wb") as file:
            for first, runs, stride, length in operand["windows"]:
                for run in range(runs):
                    start = first + run * stride
                    file.write(data[size * start:size * (start + length)])


def make_call(make, kernel, returns, which):
    outputs = {operand["name"]: bytearray(SIZES[operand["dtype"]] * operand["count"])
               for operand in returns["outputs"]}
    return make(kernel, read_inputs(returns, which), outputs), outputs


def median_interval(samples):
    """Half the 95 % interval of the median as a fraction of it."""
    ordered = sorted(samples)
    away = int(0.98 * len(ordered) ** 0.5) + 1
    middle = len(ordered) // 2
    low, high = ordered[max(0, middle - away)], ordered[min(len(ordered) - 1, middle + away)]
    return (high - low) / (2 * ordered[middle])


def take_samples(calls, rules):
    """Times in ns, and why there are no more: by the rule of the harness's own kernels."""
    scrub = None
    if rules["cache"] == "cold":
        scrub = bytearray(int(rules["scrub_caches"] * cache_bytes()))
    for i in range(rules["warmup_calls"]):
        calls[i % len(calls)]()
    samples, began, look = [], time.perf_counter(), rules["samples_min"]
    while True:
        if scrub is not None:
            scrub[:] = bytes([len(samples) % 256]) * len(scrub)
        call = calls[len(samples) % len(calls)]
        start = time.perf_counter_ns()
        call()
        samples.append(max(1, time.perf_counter_ns() - start))
        passed = time.perf_counter() - began
        if passed >= rules["max_time_s"] and len(samples) >= 3:
            return samples, "time limit"
        if len(samples) >= look and passed >= rules["time_min_s"]:
            look = len(samples) * 9 // 8 + 1
            if median_interval(samples) <= rules["interval_share"]:
                return samples, "interval reached"


def measure(make, task):
    kernel, returns, rules = task["case"]["kernel"], task["returns"], task["rules"]
    copies = 1
    if rules["cache"] == "rotating":
        size = sum(SIZES[o["dtype"]] * o["count"] for o in returns["inputs"] + returns["outputs"])
        copies = min(256, int(rules["rotate_caches"] * cache_bytes()) // (size + 1) + 1)
    calls = [make_call(make, kernel, returns, 0)[0] for _ in range(copies)]
    samples, stop = take_samples(calls, rules)
    for at in range(0, len(samples), 1000):
        say("samples", times_ns=samples[at:at + 1000])
    say("measured", calls_per_sample=1, stop=stop)
    call, outputs = make_call(make, kernel, returns, 1)
    call()
    write_outputs(returns, outputs)
    say("outputs")


def main(make, device):
    """Reads the task, measures, writes the result and ends the process."""
    task = json.loads(sys.stdin.readline())
    try:
        if "returns" not in task or "rules" not in task:
            raise Unsupported("only kernel cases whose outputs the recorder can check")
        say("start", protocol=1, system=task["system"], device=device)
        measure(make, task)
    except Unsupported as reason:
        say("error", status="unsupported", message=str(reason))
        sys.exit(4)
    say("result", steps_done=0)

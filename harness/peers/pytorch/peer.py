#!/usr/bin/env python3
"""PyTorch as a peer: one case on standard input, events on standard output.

The protocol is harness/run/PROTOCOL.md. The system's name says how PyTorch runs: pytorch-eager,
pytorch-compile; pytorch-cudnn, pytorch-flash and pytorch-efficient run cases of attention with only that
kernel. If PyTorch, the device or the operation is missing, the answer is an error event
with the status unavailable or unsupported, and exit code 4.
"""
import os
import sys

# torch.compile starts a pool of compiler processes, one a core, when it is imported. A case is a
# few kernels: compiling them here costs less than the pool, which would also load the machine
# during the measurement. Read when PyTorch is imported.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# pylint: disable=wrong-import-position
import kernels  # noqa: E402
import training  # noqa: E402
from protocol import Cannot, import_ahead, read_task, say  # noqa: E402

KINDS = {"kernel": kernels.run, "train": training.run}


def run():
    # Takes seconds and needs no task: a peer may be started before it. Missing modules are reported in
    # answer to the task. After PyTorch: what a gradient and an optimizer import when first used.
    import_ahead(["torch", "torch.fx.experimental.symbolic_shapes", "torch._dynamo"])
    task = read_task()
    kind = task["case"]["kind"]
    if kind not in KINDS:
        raise Cannot("unsupported", f"this peer runs cases of kind {', '.join(KINDS)}; not {kind}")
    if kind != "kernel" and kernels.attention_backend(task["system"]):
        raise Cannot("unsupported", f"{task['system']} runs cases of attention only")
    KINDS[kind](task)


def main():
    try:
        run()
    except Cannot as reason:
        say("error", status=reason.args[0], message=reason.args[1])
        return 4
    except Exception as error:  # pylint: disable=broad-except # whatever it is, the record has it
        memory = "OutOfMemory" in type(error).__name__ or isinstance(error, MemoryError)
        say("error", status="out of memory" if memory else "internal error",
            message=f"{type(error).__name__}: {error}"[:900])
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""HyperKernels as a peer: the kernels that the authors of arXiv 2606.24780 published.

Nothing of theirs is in this repository. BT_HYPERKERNELS names a checkout of theirs whose kernel
objects have been built as its README says; PyTorch supplies memory, streams, events and the
reference in float64. Without any of them the answer is an error event with the status unavailable.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pytorch"))

# pylint: disable=wrong-import-position
import kernels as pytorch  # noqa: E402
import peer as entry  # noqa: E402
from protocol import Cannot, device_name, load_torch, say, say_versions  # noqa: E402

VARIABLE = "BT_HYPERKERNELS"


def check_case(task):
    kernel, folder = task["case"].get("kernel", {}), os.environ.get(VARIABLE, "")
    if not folder:
        raise Cannot("unavailable", f"set {VARIABLE} to a checkout of HyperKernels with its kernel "
                     "objects built (harness/peers/hyperkernels/README.md)")
    if not os.path.isdir(os.path.join(folder, "kernels")):
        raise Cannot("unavailable", f"{VARIABLE}={folder}: no folder 'kernels' there")
    if task["device"] != "cuda":
        raise Cannot("unsupported", "HyperKernels runs on CUDA devices only")
    if kernel.get("dtype") not in ("f32", "tf32"):
        raise Cannot("unsupported", "this peer runs f32 and tf32 only")
    return os.path.join(folder, "kernels", "tests")


def share_of(op):
    """The largest error over a tolerance of sqrt(length) epsilons of the largest value."""
    if op.case.returned.asked() or not pytorch.fits_float64([max(op.inputs, key=lambda x: x.numel())]):
        return None
    op.call()
    worst = 0.0
    for got, right in zip(op.outputs, op.right()):
        length = max(1, sum(x.numel() for x in op.inputs) // max(1, right.numel()))
        coarse = max(1.0, op.epsilon / pytorch.epsilon_of(got))
        worst = pytorch.worst_of(worst, got, right, 32 * coarse * length ** 0.5)
    return pytorch.right_or_raise(op.name, worst)


def run(task):
    folder = check_case(task)
    torch = load_torch("cuda")
    import objects  # pylint: disable=import-outside-toplevel
    import ops  # pylint: disable=import-outside-toplevel
    name = task["case"]["kernel"]["op"]
    if name not in ops.MAKERS:
        raise Cannot("unsupported", f"no {name} in this peer; available: {', '.join(sorted(ops.MAKERS))}")
    case = pytorch.Case(torch, task)
    case.reset()
    found = objects.Kernels(torch, folder)
    made = [ops.MAKERS[name](found, case)]
    size_bytes = sum(x.numel() * x.element_size() for x in made[0].inputs)
    made += [ops.MAKERS[name](found, case) for _ in range(pytorch.copies_of(case, size_bytes) - 1)]
    share = share_of(made[0])
    say("start", protocol=1, system=task["system"], device=device_name(torch, "cuda"))
    say_versions(task)
    say("kernel", op=name, kernel=made[0].name)
    samples, stop, calls_per_sample = pytorch.measure(case, [op.call for op in made])
    if share is not None:
        case.reseed()
        share = max(share, share_of(ops.MAKERS[name](found, case)))  # new values, new addresses
    pytorch.say_samples(samples, calls_per_sample, share, stop)
    if case.returned.asked():
        case.reseed()
        fresh = ops.MAKERS[name](found, case)  # new values, new addresses
        fresh.call()
        pytorch.return_results(case, fresh.returned(), fresh.precision())
    say("result", steps_done=0)


if __name__ == "__main__":
    entry.KINDS = {"kernel": run}
    sys.exit(entry.main())

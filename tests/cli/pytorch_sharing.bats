#!/usr/bin/env bats
# The PyTorch peer's tensor and context parallel: what it refuses. Needs Python alone; the rest runs
# where PyTorch and GPUs are.

load ../support/cli

setup() {
    enter_scratch
}

teardown() {
    leave_scratch
}

# Says why this peer cannot run a mesh on a device; nothing where it can, but for a missing PyTorch.
refusal() { # device mesh-keys [model-keys] [train-keys]
    PYTHONDONTWRITEBYTECODE=1 python3 - "$root/harness/peers/pytorch" "$@" <<'PY'
import json
import sys
import types

sys.path.insert(0, sys.argv[1])
import protocol
import sharing

device, mesh, model, train = sys.argv[2], *(json.loads("{%s}" % text) for text in
                                            (sys.argv[3:] + ["", ""])[:3])
model = {"layers": 2, "heads": 4, "width": 32, "vocab": 64, "context": 32, **model}
plan = {"model": model, "micro_batch": 2, "sequence": 16, "mesh": mesh, **train}
try:
    sharing.check(types.SimpleNamespace(__version__="0"),
                  {"device": device, "case": {"train": plan}})
except protocol.Cannot as reason:
    print(*reason.args)
PY
}

@test "what PyTorch's ranks cannot share is said before any starts" {
    [ -z "$(refusal cpu '"data": 4')" ]
    [[ $(refusal cuda '"data": 2, "tensor": 2') == "unsupported train.mesh has data and tensor"* ]]
    [[ $(refusal cuda '"tensor": 3') == "unsupported train.mesh.tensor is 3, which does not divide model.heads 4"* ]]
    [[ $(refusal cuda '"tensor": 4' '"vocab": 62') == *"does not divide model.vocab 62"* ]]
    [[ $(refusal cuda '"tensor": 4, "sequence_parallel": true' '' '"sequence": 18') == *"does not divide train.sequence 18"* ]]
    [[ $(refusal cuda '"tensor": 2' '"family": "llama"') == *"supports it only for GPT-2"* ]]
    [[ $(refusal cuda '"tensor": 2' '' '"checkpoint": {"at_end": true}') == *"has only a part of the state"* ]]
    [[ $(refusal cpu '"context": 2') == *"supports only CUDA"* ]]
    [[ $(refusal cuda '"context": 2' '' '"sequence": 18') == *"does not divide train.sequence 18"* ]]
    [[ $(refusal cuda '"context": 2, "rotation": "point_to_point"') == *"PyTorch has all_gather, all_to_all"* ]]
    [[ $(refusal cuda '"context": 2, "shared_heads": 2') == *"PyTorch's context parallelism supports only a ring"* ]]
}

@test "a mesh that it can run asks for PyTorch's modules alone" {
    for mesh in '"tensor": 2' '"tensor": 4, "sequence_parallel": true' '"context": 2' \
        '"context": 4, "rotation": "all_to_all"'; do
        answer=$(refusal cuda "$mesh")
        [ -z "$answer" ] || [[ $answer == "unavailable PyTorch 0 has no torch.distributed.tensor"* ]]
    done
}

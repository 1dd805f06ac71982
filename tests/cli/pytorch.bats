#!/usr/bin/env bats
# PyTorch's peer with PyTorch, on its own: nothing of ours runs, so sanitizers see nothing here

load ../support/cli

setup() {
    enter_scratch
    peer=$root/harness/peers/pytorch/peer.py
    python=
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import importlib.util as i; exit(not i.find_spec("torch"))' && python=$p && break
    done
    [ -n "$python" ] || skip "no PyTorch"
}

teardown() {
    leave_scratch
}

make_shard() {
    "$python" - <<'PY'
import array
tokens = array.array("H", ((i * i + 7 * i) % 61 for i in range(4000)))
header = array.array("i", [20240520, 1, len(tokens)] + [0] * 253)
open("train.bin", "wb").write(header.tobytes() + tokens.tobytes())
PY
}

# A training case of 8 micro-batches a step on so many ranks, in the file `task`.
ranks_task() { # ranks [more keys of mesh]
    cat >task.json <<JSON
{"protocol":1,"system":"pytorch-eager","round":0,"device":"cpu","ordinal":0,"case":{"name":"t","kind":"train","train":{"model":{"layers":2,"heads":2,"width":32,"vocab":64,"context":32},"optimizer":{"lr":0.01,"min_lr":0.001,"warmup_steps":2,"decay_steps":0,"beta1":0.9,"beta2":0.95,"epsilon":1e-8,"weight_decay":0.1,"clip":1.0},"precision":"fp32","micro_batch":1,"sequence":16,"tokens_per_step":128,"steps":6,"warmup_timing_steps":1,"eval_every":3,"eval_batches":2,"recompute":"none","recompute_blocks":0,"order":"shuffled","seed":1,"mesh":{"data":$1,"sharding":"zero1","bucket_mb":0.01${2:-}}}},"shards":{"train":["train.bin"],"val":["train.bin"]}}
JSON
    { tr -d '\n' <task.json && echo; } >task
}

# The peer with an input that stays open.
run_peer() {
    mkfifo -m 600 input.$$ && exec 4<>input.$$ && rm input.$$
    cat task >&4
    run --separate-stderr "$python" "$peer" <&4
    exec 4>&-
}

@test "every operation that it has is right and timed; of another it says so" {
    forward="copy cast gelu bias layernorm residual_layernorm softmax cross_entropy reduce_sum
        reduce_sum_rows embedding adamw chain_rms_norm chain_residual_rms_norm chain_swiglu chain_rope
        chain_softmax chain_cross_entropy chain_scores"
    backward="gelu layernorm softmax cross_entropy embedding chain_rms_norm chain_residual_rms_norm
        chain_swiglu chain_rope chain_softmax chain_cross_entropy chain_scores"
    declare -A shapes=([cross_entropy]=8x50 [chain_rope]=8x2x4 [chain_scores]=4x8x8x8 [embedding]=8x4x9 [adamw]=64)
    task() { # op direction
        printf '{"system":"pytorch-eager","device":"cpu","case":{"kind":"kernel","kernel":{"op":"%s","direction":"%s","dtype":"f32","cache":"hot","shape":"%s","seed":1,"max_time_s":0.01}}}\n' \
            "$1" "$2" "${shapes[$1]:-8x8}"
    }
    for op in $forward; do task "$op" forward; done >tasks
    for op in $backward; do task "$op" backward; done >>tasks
    "$python" "$root/tests/support/peer_tasks.py" "$peer" <tasks >events
    [ "$(grep -c '"event": "measured"' events)" = 31 ]
    task fft forward >tasks
    run "$python" "$root/tests/support/peer_tasks.py" "$peer" <tasks
    [ "$status" = 4 ]
    [[ $output == *'"status": "unsupported"'* ]]
}

@test "it trains what we train" {
    make_shard
    cat >task.json <<'JSON'
{"protocol":1,"system":"pytorch-eager","round":0,"device":"cpu","ordinal":0,"case":{"name":"t","kind":"train","train":{"model":{"layers":2,"heads":2,"width":32,"vocab":64,"context":32},"optimizer":{"lr":0.01,"min_lr":0.001,"warmup_steps":2,"decay_steps":0,"beta1":0.9,"beta2":0.95,"epsilon":1e-8,"weight_decay":0.1,"clip":1.0},"precision":"fp32","micro_batch":4,"sequence":16,"tokens_per_step":128,"steps":20,"warmup_timing_steps":1,"eval_every":10,"eval_batches":2,"recompute":"block","recompute_blocks":1,"order":"shuffled","seed":1}},"shards":{"train":["train.bin"],"val":["train.bin"]}}
JSON
    tr -d '\n' <task.json >line.json && echo >>line.json
    mkfifo input
    exec 4<>input # stays open: nobody asks it to stop
    cat line.json >&4
    run "$python" "$peer" <&4
    exec 4>&-
    [[ $output == *'"event": "start"'*'"parameters": '*'"tensors": 28'* ]]
    [ "$(grep -c '"event": "step"' <<<"$output")" = 20 ]
    [ "$(grep -c '"event": "eval"' <<<"$output")" = 3 ]
    [[ $output == *'"event": "result", "steps_done": 20, "stopped": false'* ]]
    first=$(grep -o '"step": 0, "loss": [0-9.]*' <<<"$output" | tail -1 | grep -o '[0-9.]*$')
    last=$(grep -o '"step": 19, "loss": [0-9.]*' <<<"$output" | grep -o '[0-9.]*$')
    "$python" -c "assert 3.5 < $first < 4.5 and $last < $first - 0.3, ($first, $last)"
    # The end of its input, too, means: stop after this step.
    run bash -c "'$python' '$peer' <line.json"
    [[ $output == *'"steps_done": 1, "stopped": true'* ]]
}

@test "ranks under torchrun train what one rank trains" {
    make_shard
    losses() { # ranks
        ranks_task "$1"
        run_peer
        [ "$status" = 0 ]
        [[ ${lines[-1]} == *'"event": "result", "steps_done": 6, "stopped": false'* ]]
        printf '%s\n' "${lines[@]}" >said
        grep -o '"loss": [0-9.]*' said | grep -o '[0-9]*\.[0-9]*'
    }
    losses 1 >one
    losses 2 >two
    grep -q 'DistributedDataParallel, 2 x gloo' said
    [ "$(wc -l <one)" = 9 ]
    paste one two | "$python" -c '
import sys
for line in sys.stdin:
    one, two = map(float, line.split())
    assert abs(one - two) < 1e-5 * one, line'
    # The end of its input, too, means: stop after this step.
    run bash -c "'$python' '$peer' <task 2>/dev/null"
    [[ $output == *'"steps_done": 1, "stopped": true'* ]]
}

@test "ranks that cannot be are refused, and one that dies ends the case" {
    make_shard
    ranks_task 2 ',"faults":["kill rank 1 at step 2"]'
    run_peer
    [ "$status" = 4 ]
    [[ $output == *'"status": "unsupported", "message": "train.mesh.faults: '* ]]
    ranks_task 2
    sed -i 's/zero1/zero3/' task
    run_peer
    [ "$status" = 4 ]
    [[ $output == *'"status": "unsupported", "message": "train.mesh.sharding is zero3: '* ]]
    ranks_task 2
    sed -i 's/"train":\["train.bin"\]/"train":["none.bin"]/' task
    run_peer
    [ "$status" = 5 ]
    [ "${#lines[@]}" = 1 ]
    [[ $output == *'"event": "error", "status": "internal error", "message": "rank '[01]': FileNotFoundError'* ]]
    mkdir torch
    echo 'raise ImportError("not installed here")' >torch/__init__.py
    PYTHONPATH=. run_peer
    [ "$status" = 4 ]
    [[ $output == *'"status": "unavailable", "message": "PyTorch cannot be imported: not installed here"'* ]]
}

@test "no rank is left when the peer is killed" {
    make_shard
    ranks_task 2
    sed -i 's/"steps":6/"steps":1000000/' task
    mkfifo input
    mkdir ranks
    exec 4<>input
    TMPDIR=$PWD/ranks "$python" "$peer" <input >out 2>err &
    killed=$!
    cat task >&4
    eventually grep -q '"step": 3,' out
    ours() { pgrep -f "$PWD/ranks" >/dev/null; } # torchrun and its ranks have the folder as an argument
    ours
    kill -KILL $killed
    gone() { ! ours; }
    eventually gone
    exec 4>&-
}

@test "the kernels of HyperKernels get what they take, operation by operation" {
    run "$python" "$root/tests/support/fake_driver.py"
    [ "$status" = 0 ]
    [[ $output == *"layernorm backward 3 launches"*"adamw forward 2 launches"* ]]
}

@test "work on a side stream and lines that persist in L2 gain nothing on a GPU" {
    "$python" -c 'import torch; exit(not torch.cuda.is_available())' || skip "no GPU"
    run "$python" "$root/tests/support/gpu_cheats.py"
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *"side stream: caught"*"persisting lines: no gain"* ]]
}

@test "a clock that is not waited for is noticed" {
    run "$python" - "$root/harness/peers/pytorch" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import kernels
clock = kernels.Clock.__new__(kernels.Clock)
clock.inside_ns, clock.outside_ns = [], []
clock.check_streams()
clock.inside_ns, clock.outside_ns = [1e6] * 3, [2e4, 9e9, 3e4]  # once the host was busy
clock.check_streams()
clock.outside_ns = [6e5] * 3
try:
    clock.check_streams()
except ArithmeticError as error:
    print(error)
PY
    [ "$status" = 0 ]
    [[ $output == "work continued after the timed interval: 6e+05 ns on other streams, 1e+06 ns between the events" ]]
}

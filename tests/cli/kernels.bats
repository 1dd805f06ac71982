#!/usr/bin/env bats
# Kernel cases from a user's side: the table, peers that take turns, peers that are missing

bats_require_minimum_version 1.5.0

setup() {
    root=$(readlink -f "$BATS_TEST_DIRNAME/../..")
    bench=${BT_BENCH:-$root/build/bin/bt-bench}
    bench=$(readlink -f "$bench")
    peer=$root/tests/support/kernel_peer.sh
    dir=$(mktemp -d /tmp/bt-kernels-XXXXXX)
    cd "$dir" || exit
    cat >s.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": ["64x16", "4x5"], "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
    unset KERNEL_PEER KERNEL_PEER_TASKS
}

teardown() {
    cd /
    rm -rf "$dir"
}

@test "kernel cases are a table: time, bandwidth, share of the copy, the kernel that ran" {
    run --separate-stderr "$bench" run s.json
    [ "$status" = 0 ]
    [[ $output == *"gelu forward, f32, hot cache"* ]]
    [[ $output =~ 64x16\ +[0-9.]+\ [nu]s\ +[0-9.]+\ [MG]B/s\ +[0-9.]+\ %\ +unary_cpu_f32 ]]
    [[ $stderr == *"plan      tiny, profile cpu"*"gelu.forward.f32.64x16"*"case    1/3  ceiling.hot"* ]]
    run "$bench" show 1 --format json
    [[ $output == *'"name": "gelu.forward.f32.4x5"'*'"time_ns"'* ]]
    run "$bench" report 1 -o r.md
    grep -q "| time | bandwidth |.* of copy |" r.md
    grep -q "gelu.forward.f32.64x16" results/run-1/report.html
    "$bench" run s.json -q >/dev/null
    run "$bench" compare 1 2
    [ "$status" = 0 ]
    [[ $output == *"time_ns"*"ratio"* || $output == *"ratio"*"time_ns"* ]]
    [[ $output != *"loss curve"* ]]
}

@test "a product's rate is in FLOP/s, and a product of its type is measured as the machine's own" {
    cat >p.json <<'JSON'
{ "name": "products", "description": "One.", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "square", "kind": "kernel",
      "kernel": { "op": "gemm_nt", "shape": "64x64x64", "cache": "hot", "max_time_s": 0.01 } } ] } } }
JSON
    run --separate-stderr "$bench" run p.json
    [ "$status" = 0 ]
    [[ $output == *"gemm_nt forward, f32, hot cache"* ]]
    [[ $output =~ 1024x1024x1024\ .*FLOP/s ]]
    [[ $output =~ \ 64x64x64\ +[0-9.]+\ [num]s\ +[0-9.]+\ [MG]FLOP/s\ +gemm_cpu_f32 ]]
    [[ $stderr == *"ceiling.gemm.f32"* ]]
}

@test "a filter keeps the copy that shares are of" {
    run --separate-stderr "$bench" run s.json --filter 4x5 --dry-run --format json
    [ "$status" = 0 ]
    [[ $output == *'"name":"ceiling.hot"'* && $output == *'"name":"gelu.forward.f32.4x5"'* ]]
    [[ $output != *64x16* ]]
}

@test "systems take turns, round by round the other way round; ratios are shown" {
    export KERNEL_PEER_TASKS=$dir/tasks
    ln -s "$peer" other-peer.sh
    run --separate-stderr "$bench" run s.json --filter 4x5 --rounds 2 --system "blutrain,$peer,./other-peer.sh"
    [ "$status" = 0 ]
    [[ $output =~ 4x5\ .*\ 1.00\ ms\ +[0-9.]+x\ +1.00\ ms\ +[0-9.]+x ]]
    grep -o '"system":"[^"]*"' tasks | sed 's/.*:"\(.*\)"/\1/' >order
    diff order - <<<$'kernel_peer.sh\nother-peer.sh\nother-peer.sh\nkernel_peer.sh'
    grep -q '"op":"gelu"' tasks
    run "$bench" show 1 --format json
    [[ $output == *'"system": "kernel_peer.sh"'*'"time_ns": 1000000.5'* ]]
}

@test "a peer that is missing here says so, and the run passes" {
    KERNEL_PEER=unavailable run --separate-stderr "$bench" run s.json --system "blutrain,$peer"
    [ "$status" = 0 ]
    [[ $output == *"run 1 passed"*"unavailable"*"no framework of that name here"* ]]
    [[ $output == *"unary_cpu_f32"* ]]
}

@test "a peer without a measurement, or with an impossible one, has failed" {
    KERNEL_PEER=unmeasured run --separate-stderr "$bench" run s.json --filter 4x5 --system "$peer"
    [ "$status" = 5 ]
    [[ $output == *"without having said samples and measured"* ]]
    run "$bench" show 1 --format json
    [[ $output != *'"system": "kernel_peer.sh"'*'"time_ns": 1000000.5'* ]]
    KERNEL_PEER=negative run --separate-stderr "$bench" run s.json --filter 4x5 --system "$peer"
    [ "$status" = 5 ]
    [[ $output == *"wrong type or range of times_ns"* ]]
}

@test "an unknown system is refused with what there is" {
    run --separate-stderr "$bench" run s.json --system blutrain,tinygrad
    [ "$status" = 2 ]
    [[ $stderr == *'no system "tinygrad"'*'allowed: blutrain; a peer of harness/peers (cublaslt, pytorch)'* ]]
}

@test "PyTorch's peer without PyTorch is unavailable, not failed" {
    command -v python3 >/dev/null || skip "no python3"
    mkdir shadow
    echo 'raise ImportError("hidden by the test")' >shadow/torch.py
    PYTHONPATH=$dir/shadow BT_ROOT=$root run --separate-stderr "$bench" run s.json --filter 4x5 --system blutrain,pytorch-eager
    [ "$status" = 0 ]
    [[ $output == *"pytorch-eager"*"PyTorch cannot be imported: hidden by the test"* ]]
}

@test "PyTorch's peer with PyTorch: every operation that it has is right and timed" {
    python=
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import torch' 2>/dev/null && python=$p && break
    done
    [ -n "$python" ] || skip "no PyTorch"
    task() {
        printf '{"system":"pytorch-eager","device":"cpu","case":{"kind":"kernel","kernel":{"op":"%s","direction":"%s","dtype":"f32","cache":"hot","shape":"%s","seed":1,"max_time_s":0.01}}}\n' "$@" |
            "$python" "$root/harness/peers/pytorch/peer.py"
    }
    for op in "copy 8x8" "cast 8x8" "gelu 8x8" "bias 8x8" "layernorm 8x8" "residual_layernorm 8x8" \
        "softmax 8x8" "cross_entropy 8x50" "reduce_sum 8x8" "reduce_sum_rows 8x8" "embedding 8x4x9" "adamw 64"; do
        # shellcheck disable=SC2086 # two words
        set -- $op
        task "$1" forward "$2" | grep -q '"event": "measured"' || { echo "$op"; false; }
    done
    for op in "gelu 8x8" "layernorm 8x8" "softmax 8x8" "cross_entropy 8x50" "embedding 8x4x9"; do
        # shellcheck disable=SC2086 # two words
        set -- $op
        task "$1" backward "$2" | grep -q '"event": "measured"' || { echo "$op"; false; }
    done
    run task fft forward 8
    [[ $output == *'"status": "unsupported"'* ]]
}

@test "PyTorch's peer with PyTorch trains what we train" {
    python=
    for p in python3 /usr/bin/python3; do
        "$p" -c 'import torch' 2>/dev/null && python=$p && break
    done
    [ -n "$python" ] || skip "no PyTorch"
    "$python" - <<'PY'
import array
tokens = array.array("H", ((i * i + 7 * i) % 61 for i in range(4000)))
header = array.array("i", [20240520, 1, len(tokens)] + [0] * 253)
open("train.bin", "wb").write(header.tobytes() + tokens.tobytes())
PY
    cat >task.json <<'JSON'
{"protocol":1,"system":"pytorch-eager","round":0,"device":"cpu","ordinal":0,"case":{"name":"t","kind":"train","train":{"model":{"layers":2,"heads":2,"width":32,"vocab":64,"context":32},"optimizer":{"lr":0.01,"min_lr":0.001,"warmup_steps":2,"decay_steps":0,"beta1":0.9,"beta2":0.95,"epsilon":1e-8,"weight_decay":0.1,"clip":1.0},"precision":"fp32","micro_batch":4,"sequence":16,"tokens_per_step":128,"steps":20,"warmup_timing_steps":1,"eval_every":10,"eval_batches":2,"recompute":true,"order":"shuffled","seed":1}},"shards":{"train":["train.bin"],"val":["train.bin"]}}
JSON
    tr -d '\n' <task.json >line.json && echo >>line.json
    mkfifo input
    exec 4<>input # stays open: nobody asks it to stop
    cat line.json >&4
    run "$python" "$root/harness/peers/pytorch/peer.py" <&4
    exec 4>&-
    [[ $output == *'"event": "start"'*'"parameters": '*'"tensors": 28'* ]]
    [ "$(grep -c '"event": "step"' <<<"$output")" = 20 ]
    [ "$(grep -c '"event": "eval"' <<<"$output")" = 3 ]
    [[ $output == *'"event": "result", "steps_done": 20, "stopped": false'* ]]
    first=$(grep -o '"step": 0, "loss": [0-9.]*' <<<"$output" | tail -1 | grep -o '[0-9.]*$')
    last=$(grep -o '"step": 19, "loss": [0-9.]*' <<<"$output" | grep -o '[0-9.]*$')
    "$python" -c "assert 3.5 < $first < 4.5 and $last < $first - 0.3, ($first, $last)"
    # The end of its input, too, means: stop after this step.
    run bash -c "'$python' '$root/harness/peers/pytorch/peer.py' <line.json"
    [[ $output == *'"steps_done": 1, "stopped": true'* ]]
}

@test "the twenty lines of the README are a peer" {
    command -v python3 >/dev/null || skip "no python3"
    sed -n '/^```python$/,/^```$/p' "$root/harness/peers/README.md" | sed '1d;$d' >mine.py
    [ "$(wc -l <mine.py)" -le 26 ]
    chmod +x mine.py
    sed -i 's/"gelu", "shape": \["64x16", "4x5"\]/"copy", "shape": "64x16"/' s.json
    run --separate-stderr "$bench" run s.json --system blutrain,./mine.py
    [ "$status" = 0 ]
    [[ $output == *"mine.py"*"64x16"* ]]
}

@test "every kernel suite expands on both profiles" {
    for suite in "$root"/suites/kernels/*.json; do
        for profile in cpu gpu; do
            run --separate-stderr "$bench" run "$suite" --profile $profile --dry-run --format json
            [ "$status" = 0 ] || { echo "$suite $profile: $stderr"; false; }
            [ "$(grep -o '"name":"[^"]*"' <<<"$output" | sort | uniq -d | wc -l)" = 0 ]
        done
    done
    run "$bench" list suites
    [[ $output == *"suites/kernels/layernorm"* ]]
}

@test "replicate gives a verdict per claim, and its exit code" {
    ln -s "$peer" pytorch-eager
    cat >claims.json <<'JSON'
{ "paper": "a paper", "stands_for": [ { "name": "pytorch", "system": "pytorch-eager" } ], "claims": [
  { "id": "mild", "metric": "time", "better": "lower", "margin": 0.02, "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.4x5" },
    "values": [ { "system": "blutrain", "value": 1 }, { "system": "pytorch", "value": 2 } ] },
  { "id": "wild", "metric": "time", "better": "lower", "margin": 0.02, "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.64x16" },
    "values": [ { "system": "blutrain", "value": 1 }, { "system": "pytorch", "value": 1e12 } ] },
  { "id": "other", "metric": "time", "better": "lower", "margin": 0.02, "untested": "no such case",
    "values": [ { "system": "blutrain", "value": 1 } ] } ] }
JSON
    "$bench" run s.json -q --rounds 3 --system blutrain,./pytorch-eager >/dev/null
    run --separate-stderr "$bench" replicate 1 --claims claims.json
    [ "$status" = 1 ]
    [[ $output == *"mild"*"2.00x"*"EXCEEDED"*"wild"*"NOT REPLICATED"*"1 not testable here: no such case"* ]]
    run --separate-stderr "$bench" replicate 1 --format json
    [ "$status" = 4 ]
    [[ $output == *'"paper": "arXiv 2606.24780"'*'"verdict": "NOT TESTABLE HERE"'* ]]
    run --separate-stderr "$bench" replicate 1 --claims nothing.json
    [ "$status" = 5 ]
}

@test "replicate SUITE runs the cases that claims are about, beside the systems they name" {
    mkdir -p home/harness/peers/other home/suites/claims
    cp "$peer" home/harness/peers/other/peer.sh
    cat >home/suites/claims/blutrain-2606.24780.json <<'JSON'
{ "paper": "a paper", "stands_for": [ { "name": "torch", "system": "other-fast" } ], "claims": [
  { "id": "mild", "metric": "time", "better": "lower", "margin": 0.02,
    "case": { "suite": "kernels/tiny", "profile": "cpu", "name": "gelu.forward.f32.4x5" },
    "values": [ { "system": "blutrain", "value": 1 }, { "system": "torch", "value": 2 } ] } ] }
JSON
    sed -i 's/"name": "tiny"/"name": "kernels_tiny"/' s.json
    BT_ROOT=$dir/home run --separate-stderr "$bench" replicate s.json
    echo "$output $stderr"
    [ "$status" = 0 ]
    [[ $stderr == *"systems blutrain, other-fast"*"4 rounds each"* && $stderr != *"64x16"* ]]
    [[ $output == *"mild"*"EXCEEDED"*"1 replicated or exceeded"* ]]
    [ "$(sqlite3 results/bt.sqlite "select kind || subject || verdict || rounds from verdict")" = replicatemildEXCEEDED4 ]
    grep -q EXCEEDED results/run-1/report.html || skip "the page does not show verdicts yet"
}

#!/usr/bin/env bats
# Runs that are broken off and go on, and runs beside each other, from a user's side

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/fake_worker.sh
    peer=$root/tests/support/kernel_peer.sh
    tiny_shard t.bin
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"] },
  "profiles": {
    "cpu": { "device": "cpu", "train": { "micro_batch": 1, "sequence": 16, "steps": 20 },
      "cases": [ { "name": "a", "kind": "train" }, { "name": "b", "kind": "train" } ] },
    "gpu": { "device": "cuda", "automatic": false, "train": { "micro_batch": 1, "sequence": 16, "steps": 20 },
      "cases": [ { "name": "g", "kind": "train" } ] } } }
JSON
    cat >k.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "gelu", "kind": "kernel",
      "kernel": { "op": "gelu", "shape": "4x5", "cache": "hot", "max_time_s": 0.2 } } ] } } }
JSON
    export BT_FAKE_STEPS=20
}

teardown() {
    leave_scratch
}

@test "the command that resumes an interrupted run names the run's database" {
    BT_FAKE_WORKER=slow "$bench" run s.json --db other.db --worker "$worker" >out 2>err 3>&- &
    pid=$!
    eventually grep -q 'step ' err
    kill -INT "$pid"
    wait "$pid" || true
    grep -qF "resume it with 'bt-bench run --resume 1 --db other.db'" err
}

@test "a training run that was interrupted goes on: finished rounds stay, the gap is noted" {
    BT_FAKE_WORKER=slow "$bench" run s.json --rounds 2 --worker "$worker" >out 2>err 3>&- &
    pid=$!
    eventually has_rounds 1 1
    kill -INT "$pid"
    wait "$pid" || true
    grep -q "resume it with 'bt-bench run --resume 1'" err
    sed -i 's/"steps": 20/"steps": 99/' s.json # the record has the plan
    run --separate-stderr "$bench" run --resume 1 --worker "$worker"
    [ "$status" = 0 ]
    [[ $stderr == *"resumed: "[123]" of 4 rounds to run"* ]]
    [[ $output == "run 1 passed"*"paused for"* ]]
    run "$bench" show 1 --format json
    [ "$(grep -c '"status": "passed"' <<<"$output")" = 5 ] # the run and its four rounds
    [ "$(grep -c '"status": "interrupted"' <<<"$output")" -ge 1 ] # the gap, and the round in flight
    run "$bench" run --resume 1 --worker "$worker"
    [ "$status" = 2 ]
    [ "$output" = "results/bt.sqlite: run 1 has passed: it has no rounds left to run" ]
}

@test "a killed run of kernel cases on two systems goes on" {
    "$bench" run k.json --rounds 3 --system "blutrain,$peer" >out 2>err 3>&- &
    pid=$!
    eventually has_rounds 1 1
    kill -9 "$pid"
    wait "$pid" || true
    run "$bench" watch 1
    [ "$status" = 130 ]
    [[ ${lines[-1]} == "next      bt-bench run --resume 1" ]]
    run --separate-stderr "$bench" run --resume 1
    [ "$status" = 0 ]
    [[ $output == "run 1 passed"*"kernel_peer.sh"*"blutrain"* || $output == "run 1 passed"*"blutrain"*"kernel_peer.sh"* ]]
    run "$bench" history gelu.forward.f32.4x5 --system kernel_peer.sh
    [[ $output =~ 1\ +20.*\ 3\ +1.67\ ms ]]
}

@test "what cannot be resumed is refused in one line" {
    "$bench" run s.json --worker "$worker" -q >/dev/null
    run "$bench" run --resume 2
    [ "$status" = 2 ]
    [ "$output" = "results/bt.sqlite: no run 2; the newest is 1" ]
    run "$bench" run --resume 1 --rounds 3
    [ "$status" = 2 ]
    [ "$output" = "--resume uses the recorded plan and cannot be combined with --rounds" ]
    run "$bench" run s.json --resume 1
    [ "$status" = 2 ]
    [ "${#lines[@]}" = 1 ]
    run "$bench" run --resume one
    [ "$status" = 2 ]
    BT_FAKE_WORKER=slow "$bench" run s.json --worker "$worker" -q >/dev/null 2>&1 3>&- &
    pid=$!
    eventually "$bench" watch 2 --once
    run "$bench" run --resume 2 --worker "$worker"
    kill -INT "$pid"
    wait "$pid" || true
    [ "$status" = 2 ]
    [ "$output" = "results/bt.sqlite: run 2 is running in process $pid; 'bt-bench watch 2' shows it" ]
}

@test "another machine is refused, with what differs" {
    [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null || skip "one processor"
    "$bench" run k.json --rounds 3 --worker "$peer" >out 2>err 3>&- &
    pid=$!
    eventually "$bench" watch 1 --once
    kill -9 "$pid" || true
    wait "$pid" || true
    "$bench" watch 1 --once | grep -q "run 1 passed" && skip "it was faster"
    cpu=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    run taskset -c "$cpu" "$bench" run --resume 1 --worker "$peer"
    [ "$status" = 4 ]
    [[ ${lines[0]} == "run 1 cannot be resumed here: its rounds would not be comparable" ]]
    [[ $output == *"environment cpu.usable: was \"$(nproc)\", is \"1\""* ]]
}

@test "four runs at once on one database all succeed" {
    pids=()
    for _ in 1 2 3 4; do
        "$bench" run k.json --rounds 2 --worker "$peer" -q >/dev/null 2>>err 3>&- &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || { cat err; false; }
    done
    run "$bench" list runs --format json
    [ "$(grep -o '"status":"passed"' <<<"$output" | wc -l)" = 4 ]
    [ "$(grep -o '"rounds":4' <<<"$output" | wc -l)" = 4 ]
}

@test "on a GPU the second run waits for the first, says for whom, and Ctrl-C gives up" {
    mkdir tmp
    export TMPDIR=$dir/tmp
    # Five seconds: a start of the others takes one on a busy machine.
    BT_FAKE_WORKER=slow BT_FAKE_STEPS=100 "$bench" run s.json --profile gpu --worker "$worker" \
        --set train.steps=100 -q >/dev/null 2>&1 3>&- &
    first=$!
    eventually "$bench" watch 1 --once
    "$bench" run s.json --profile gpu --worker "$worker" >/dev/null 2>err2 3>&- &
    second=$!
    "$bench" run s.json --profile gpu --worker "$worker" >/dev/null 2>err3 3>&- &
    third=$!
    eventually grep -q waiting err3
    kill -INT "$third"
    code=0
    wait "$third" || code=$?
    [ "$code" = 130 ]
    grep -q "interrupted while run 1 of $dir/results/bt.sqlite, process $first had the GPU" err3
    wait "$first"
    wait "$second"
    grep -q "^waiting   run 1 of $dir/results/bt.sqlite, process $first has the GPU; Ctrl-C stops waiting" err2
    run "$bench" list runs --format json
    [ "$(grep -o '"status":"passed"' <<<"$output" | wc -l)" = 2 ]
}

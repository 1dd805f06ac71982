#!/usr/bin/env bats
# bt-bench watch from a user's side, and runs that lose their terminal

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/fake_worker.sh
    tiny_shard t.bin
    cat >s.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu", "train": { "micro_batch": 1, "sequence": 16, "steps": 40 },
      "cases": [ { "name": "a", "kind": "train" }, { "name": "b", "kind": "train" } ] } } }
JSON
    export BT_FAKE_STEPS=40
}

teardown() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    leave_scratch
}

start_slow() { # starts a run of four seconds in the background: $pid
    BT_FAKE_WORKER=slow "$bench" run s.json --worker "$worker" >out 2>err 3>&- &
    pid=$!
    eventually has_steps
}

@test "a run is watched to its end: plain lines, the run's exit code, one word on what is next" {
    start_slow
    TERM=xterm run --separate-stderr "$bench" watch
    [ "$status" = 0 ]
    [[ ${lines[0]} == "run 1 running   tiny, profile cpu   process $pid"* ]]
    [[ $output == *"case    1/2  a on fake_worker.sh, round 1/1"*"step "*"/40  loss "* ]]
    [[ $output == *"b  fake_worker.sh  round 1  passed"*"run 1 passed in 0:0"*": 2 rounds passed"* ]]
    [[ ${lines[-1]} == "next      bt-bench show 1" ]]
    [[ $output != *$'\033'* ]]
    wait "$pid"
}

@test "--format json is an object per change; --once one; watching leaves the run alone" {
    start_slow
    "$bench" watch 1 --format json >json 3>&- &
    watcher=$!
    run "$bench" watch --once
    [ "$status" = 0 ]
    [[ $output == "run 1 running"*"left"* ]]
    timeout -s INT 0.3 "$bench" watch >/dev/null || true # Ctrl-C
    wait "$pid"
    wait "$watcher"
    [ "$(wc -l <json)" -ge 3 ]
    [ -z "$(uniq -d json)" ]
    tail -n 1 json | grep -q '"status":"passed".*"rounds_done":2.*"current":null'
    "$bench" watch 1 --format json | head -n 1 | grep -q passed
}

@test "a failed run's watcher fails; what is not there is one clear line" {
    run "$bench" watch
    [ "$status" = 4 ]
    BT_FAKE_WORKER=die "$bench" run s.json --worker "$worker" -q >/dev/null 2>&1 || true
    run "$bench" watch 1
    [ "$status" = 5 ]
    [[ $output == *"run 1 failed in "*"0 rounds passed, 2 failed"*"message   a: the worker was killed"* ]]
    run "$bench" watch
    [ "$status" = 2 ]
    [ "$output" = "results/bt.sqlite: no run is running; the last is 1, 'bt-bench show 1'" ]
    run "$bench" watch 3
    [ "$status" = 2 ]
    [ "$output" = "results/bt.sqlite: no run 3; the newest is 1" ]
    run "$bench" watch one
    [ "$status" = 2 ]
    [[ ${lines[0]} == *'no run "one"' ]]
    [[ ${lines[1]} == "expected: its number or --name"* ]]
}

@test "a run that loses its terminal goes on to its end" {
    # Its output ends (a pipe that nobody reads), then it is told that the terminal is gone.
    BT_FAKE_WORKER=slow "$bench" run s.json --worker "$worker" 2>&1 3>&- > >(head -c 10 >/dev/null) &
    pid=$!
    eventually has_steps
    kill -HUP "$pid"
    wait "$pid"
    run "$bench" show 1
    [[ $output == "run 1 passed"* ]]
}

@test "on a terminal the block is drawn anew, as wide as it is" {
    script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no pseudo-terminal can be made here"
    start_slow
    # shellcheck disable=SC2016 # for the shell inside
    bench=$bench TERM=xterm script -qec 'stty cols 50 rows 20; "$bench" watch' drawn >/dev/null 3>&-
    wait "$pid"
    grep -q $'\033\\[[0-9]*A' drawn
    grep -q $'run 1 passed in .*\r$' drawn
    # Without the sequences no line is wider than the terminal (the last words may be).
    widest=$(sed -e '1d;$d' -e $'s/\033\\[[0-9]*[A-Z]//g' -e 's/\r//g' drawn | grep -v "^run 1 passed in" |
        LC_ALL=C.UTF-8 wc -L)
    [ "$widest" -le 50 ]
    [ "$widest" -ge 40 ]
}

#!/usr/bin/env bats
# bt-bench calibrate from a user's side: what it says and records, and that a gate heeds it

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/kernel_peer.sh
    gelu_suite '"64x16"' >s.json
    echo '{ "name": "strict", "rounds": 4, "calibration": { "required": true } }' >strict.json
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

@test "a worker without noise: no false alarms, the tolerance is found; a gate heeds it" {
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --policy strict.json
    [ "$status" = 4 ]
    [[ $output == *"not calibrated in this environment"* ]]
    run --separate-stderr "$bench" calibrate s.json --worker "$worker" --rounds 6 --seed 4 --format json
    [ "$status" = 0 ]
    [ "$(jq -r '.cases[0] | [.case, .pairs, .false_alarm_rate, .pair_deviation, .misses] | join(" ")' <<<"$output")" = "gelu.forward.f32.64x16 6 0 0 false" ]
    [ "$(jq '.cases[0].smallest | . > 0.0099 and . < 0.0101' <<<"$output")" = true ]
    [ "$(jq '.cases[0].injected' <<<"$output")" = 0.02 ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from calibration where metric='time_ns'")" = 1 ]
    [ "$(sqlite3 results/bt.sqlite "select group_concat(name) from session_system where session_id=2")" = a,b,slowed ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where session_id=2")" = 19 ] # a copy
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --policy strict.json
    [ "$status" = 0 ]
    [[ $output == *"SAME"* ]]
}

@test "for real: a build against itself and against itself made slower" {
    run --separate-stderr "$bench" calibrate s.json --rounds 8 --slowdown 5 --tolerance 1
    [ "$status" = 0 ] || [ "$status" = 1 ]
    [[ $output == *"made slower by 500 %"*"gelu.forward.f32.64x16"*"1 case, recorded"* ]]
    seen=$(sqlite3 results/bt.sqlite "select pairs from calibration")
    [ "$seen" = 8 ]
}

@test "a worker that fails, rounds that are too few, and mistakes" {
    BT_KERNEL_PEER=negative run --separate-stderr "$bench" calibrate s.json --worker "$worker"
    [ "$status" = 5 ]
    [[ $output == *"gelu.forward.f32.64x16   no answer, 0 whole pairs: "* ]]
    run --separate-stderr "$bench" calibrate s.json --worker "$worker" --rounds 3
    [ "$status" = 4 ]
    [[ $output == *"no answer, 3 whole pairs"* ]]
    for wrong in "--slowdown 0" "--slowdown 2%" "--rounds 0" "--tolerance x"; do
        # shellcheck disable=SC2086 # two words
        run --separate-stderr "$bench" calibrate s.json $wrong
        [ "$status" = 2 ]
    done
}

@test "an interrupted calibration goes on" {
    printf '#!/bin/sh\nsleep 0.1\nexec "%s"\n' "$worker" >slow.sh
    chmod +x slow.sh
    "$bench" calibrate s.json --worker "$PWD/slow.sh" --rounds 8 --seed 6 --slowdown 0.3 >out 2>err &
    pid=$!
    eventually has_rounds 1 4
    kill -INT "$pid"
    wait "$pid" || [ $? = 130 ]
    run --separate-stderr "$bench" calibrate --resume 1 --worker "$PWD/slow.sh" --format json
    [ "$status" = 0 ]
    [ "$(jq -r '[.run, .seed, .cases[0].pairs, .cases[0].injected] | join(" ")' <<<"$output")" = "1 6 8 0.3" ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where status=1")" = 25 ]
}

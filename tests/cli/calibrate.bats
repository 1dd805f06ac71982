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
    run --separate-stderr "$bench" calibrate s.json --worker "$worker" --policy strict.json --rounds 4 --seed 4 --format json
    [ "$status" = 4 ] # too few pairs do not lock the case out; they say what to run
    [ "$(jq -r '.cases[0] | [.pairs, .pairs_needed] | join(" ")' <<<"$output")" = "4 24" ]
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --policy strict.json
    [ "$status" = 4 ]
    [[ $output == *"not calibrated (4 of 24 pairs); run 'bt-bench calibrate s.json' again"* ]]
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --rounds-max 4
    [ "$status" = 0 ] # where it is not required
    run --separate-stderr "$bench" calibrate s.json --worker "$worker" --policy strict.json --rounds 20 --seed 4 --format json
    [ "$status" = 0 ]
    [ "$(jq -r '.cases[0] | [.case, .pairs, .sessions, .false_alarm_high, .pair_deviation, .misses] | join(" ")' <<<"$output")" = "gelu.forward.f32.64x16 24 2 0 0 false" ]
    [ "$(jq '.cases[0].smallest_high | . > 0.0099 and . < 0.0101' <<<"$output")" = true ]
    [ "$(jq '.cases[0].injected' <<<"$output")" = 0.02 ]
    [ "$(sqlite3 results/bt.sqlite "select group_concat(name) from session_system where session_id=2")" = a,b,slowed ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where session_id=2")" = 13 ] # a copy
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --policy strict.json
    [ "$status" = 0 ]
    [[ $output == *"SAME"* ]]
    "$bench" export "$(sqlite3 results/bt.sqlite 'select max(id) from session')" -o ab.tar.zst
    run "$bench" verify ab.tar.zst
    [ "$status" = 0 ] || { echo "$output"; false; }
    run "$bench" calibrate list
    [[ $output == *"24 pairs of 2 sessions: false alarms at most 0 %"* ]]
    run "$bench" calibrate list --format json
    [ "$(jq -r '[.[] | select(.pairs == 24)][0] | [.case, .metric, .needed, .false_alarm_high] | join(" ")' <<<"$output")" = "gelu.forward.f32.64x16 time_ns 24 0" ]
    run "$bench" calibrate rm 'gelu*'
    [ "$status" = 0 ]
    [[ $output == "removed 2 calibrations"* ]]
    run "$bench" calibrate rm 'gelu*'
    [ "$status" = 2 ]
    run --separate-stderr "$bench" ab . . s.json --worker "$worker" --policy strict.json
    [ "$status" = 4 ]
}

@test "for real: a build against itself and against itself made slower" {
    run --separate-stderr "$bench" calibrate s.json --rounds 8 --slowdown 5 --tolerance 1
    [ "$status" = 4 ]
    [[ $output == *"made slower by 500 %"*"gelu.forward.f32.64x16"*"not calibrated (8 of 24 pairs, in sessions of 8 or more)"*"1 case, recorded"* ]]
    seen=$(sqlite3 results/bt.sqlite "select pairs from calibration")
    [ "$seen" = 8 ]
}

@test "a worker that fails, rounds that are too few, and mistakes" {
    BT_KERNEL_PEER=negative run --separate-stderr "$bench" calibrate s.json --worker "$worker"
    [ "$status" = 5 ]
    [[ $output == *"gelu.forward.f32.64x16   not calibrated (0 of 24 pairs, in sessions of 8 or more): "* ]]
    run --separate-stderr "$bench" calibrate s.json --worker "$worker" --rounds 3
    [ "$status" = 4 ]
    [[ $output == *"not calibrated (0 of 24 pairs, in sessions of 8 or more)"* ]]
    for wrong in "--slowdown 0" "--slowdown 2%" "--rounds 0" "--tolerance x"; do
        # shellcheck disable=SC2086 # two words
        run --separate-stderr "$bench" calibrate s.json $wrong
        [ "$status" = 2 ]
    done
}

@test "every case is calibrated, whatever systems the suite names for it" {
    jq '.profiles.cpu.systems = ["blutrain", "pytorch-eager", "pytorch-compile"] | .profiles.cpu.cases[0].systems = ["blutrain"]' s.json >t.json
    run --separate-stderr "$bench" calibrate t.json --worker "$worker" --rounds 8 --format json
    [ "$status" = 4 ] # too few pairs
    [ "$(jq '.cases[0].pairs' <<<"$output")" = 8 ]
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
    [ "$status" = 4 ]
    [ "$(jq -r '[.run, .seed, .cases[0].pairs, .cases[0].injected] | join(" ")' <<<"$output")" = "1 6 8 0.3" ]
    [ "$(sqlite3 results/bt.sqlite "select count(*) from round where status=1")" = 25 ]
}

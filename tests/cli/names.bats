#!/usr/bin/env bats
# Runs by other words than their numbers: last, last-1, @BASELINE, --name; and notes about them

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/timed_worker.sh
    gelu_suite '"4x5"' >s.json
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

measure() { # option...
    "$bench" run s.json --rounds 2 -q --worker "$worker" "$@" >/dev/null
}

@test "a run is found by its name, as last, last-1 and as the run of a baseline" {
    measure --name before --note "as it was"
    measure --name after
    measure
    run "$bench" list runs
    [[ $output == *"name"*"note"* && $output == *"before"*"as it was"* ]]
    run "$bench" show before
    [[ $output == "run 1 passed"*"name    before"*"note    as it was"* ]]
    run "$bench" show last
    [[ $output == "run 3 passed"* ]]
    run "$bench" show last-1 --format json
    [[ $output == *'"run": 2,'*'"name": "after"'* ]]
    run "$bench" compare before after
    [ "$status" = 0 ]
    [[ $output == *"run 1"*"run 2"* ]]
    "$bench" baseline set main after --reason x --accept-noise "a test" >/dev/null
    run "$bench" show @main
    [[ $output == "run 2 passed"* ]]
    for verb in "gate after --baseline main" "report before last -o x.html" "export @main -o x.tar.zst" \
        "watch last --once" "env diff before last" "gate @main --baseline main" "gate last --baseline main"; do
        # shellcheck disable=SC2086 # words
        run "$bench" $verb
        [ "$status" = 0 ] || { echo "$verb: $output"; false; }
    done
    run "$bench" replicate last
    [[ $output != *"no suite"* ]]
    "$bench" import x.tar.zst --db other.sqlite # a name is the user's own: it stays behind
    run "$bench" show last --db other.sqlite
    [[ $output != *"after"* ]]
}

@test "of several runs of a name the newest is meant; a label changes" {
    measure --name x
    measure --name x
    run "$bench" show x
    [[ $output == "run 2 "* ]]
    run "$bench" label 2 --name y --note "two words"
    [ "$output" = "run 2, name y, note: two words" ]
    run "$bench" show x
    [[ $output == "run 1 "* ]]
    run "$bench" label y --name "" --note ""
    [ "$output" = "run 2, no name, no note" ]
    run "$bench" show y
    [ "$status" = 2 ]
}

@test "rm finds all runs before it removes the first" {
    measure
    measure
    measure
    run "$bench" rm last last-1
    [ "$status" = 0 ]
    [ "$("$bench" list runs --format json | grep -o '"run":[0-9]*')" = '"run":1' ]
    run "$bench" rm last 1
    [ "$status" = 2 ]
    [[ $output == *"run 1 is given twice"* ]]
}

@test "mistakes: no such name, baseline or distance; names that cannot be" {
    measure --name before
    fails() { # message word...
        message=$1
        shift
        run "$bench" "$@"
        [ "$status" = 2 ]
        [[ $output == *"$message"* ]] || { echo "$output"; false; }
    }
    fails 'no run "befor"; did you mean "before"?'$'\nexpected: its number or --name' show befor
    fails 'last-1: results/bt.sqlite does not have that many runs' show last-1
    fails "@main: no baseline of this name; 'bt-bench baseline list' lists them" show @main
    fails 'no run "last-x"' show last-x
    for name in 7 last last-3 here "a b" "" @x .x; do
        fails "a run's name has 1 to 64 letters" run s.json --name "$name"
    done
    fails "--name NAME or --note TEXT is missing" label 1
    fails "cannot be combined with --name" run --resume 1 --name x
}

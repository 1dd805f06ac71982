#!/usr/bin/env bats
# Colour on a terminal, and on nothing else

load ../support/cli

setup() {
    enter_scratch
    export OMP_NUM_THREADS=1 TERM=xterm
    unset NO_COLOR
    gelu_suite '"4x5"' >s.json
    "$bench" run s.json -q --worker "$root/tests/support/timed_worker.sh" >/dev/null
}

teardown() {
    leave_scratch
}

terminal() { # command: run on one
    script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no terminal can be made here"
    script -qec "$1" /dev/null </dev/null
}

@test "states are green or red on a terminal" {
    [[ $(terminal "'$bench' list runs") == *$'\e[32mpassed\e[0m'* ]]
}

@test "NO_COLOR, a dumb terminal, a pipe and JSON stay plain" {
    [[ $(NO_COLOR=1 terminal "'$bench' list runs") != *$'\e['* ]]
    [[ $(TERM=dumb terminal "'$bench' list runs") != *$'\e['* ]]
    [[ $(terminal "'$bench' list runs --format json") != *$'\e['* ]]
    run "$bench" list runs
    [[ $output == *passed* && $output != *$'\e['* ]]
}

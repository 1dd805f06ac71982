#!/usr/bin/env bats
# bt-bench history from a user's side

load ../support/cli

setup() {
    enter_scratch
    peer=$root/tests/support/kernel_peer.sh
    gelu_suite '"4x5"' >s.json
}

teardown() {
    leave_scratch
}

@test "a line per run and series, as text and as JSON" {
    for _ in 1 2 3; do
        "$bench" run s.json --worker "$peer" --rounds 2 -q >/dev/null
    done
    run --separate-stderr "$bench" history gelu.forward.f32.4x5
    [ "$status" = 0 ]
    [[ $output == "gelu.forward.f32.4x5, kernel_peer.sh   time_ns, lower is better"*"3 sessions"* ]]
    [[ $output =~ 3\ +20[0-9-]+\ [0-9:]+\ .*\ 2\ +1.67\ ms ]]
    # A digest of another set of facts than the environment of 'show' and 'env'.
    [[ $output =~ "hard facts "[0-9a-f]{8}, ]]
    [[ $output != *environment* ]]
    run --separate-stderr "$bench" history gelu.forward.f32.4x5 --format json
    [ "$status" = 0 ]
    [[ $output == *'"case": "gelu.forward.f32.4x5"'*'"median": 1666666.8'*'"changes": []'* ]]
    "$bench" history gelu.forward.f32.4x5 | head -n 1 2>err # a reader that stops is no failure
    [ ! -s err ]
}

@test "a case of a suite is the history of all that a plan makes of it" {
    gelu_suite '["4x5", "64x16"]' >two.json
    "$bench" run two.json --worker "$peer" -q >/dev/null
    "$bench" run two.json --worker "$peer" -q --filter 64x16 >/dev/null
    run --separate-stderr "$bench" history gelu
    [ "$status" = 0 ]
    [ "$(grep -c '^gelu.forward.f32.*, kernel_peer.sh   time_ns' <<<"$output")" = 2 ]
    [[ $output == "gelu.forward.f32.64x16, kernel_peer.sh "*" 2 sessions,"*"gelu.forward.f32.4x5, "*" 1 session,"* ]]
    [ "$("$bench" history gelu --format json | jq -r '.case, .series[].case')" = $'gelu\ngelu.forward.f32.64x16\ngelu.forward.f32.4x5' ]
    [ "$("$bench" history gelu.forward.f32.4x5 --format json | jq '.series | length')" = 1 ]
    run "$bench" history gleu
    [ "$status" = 2 ]
    [[ $output == *'no case "gleu" has been recorded; did you mean "gelu"?' ]]
    run "$bench" history gel # not the begin of a name, but the name
    [ "$status" = 2 ]
    run "$bench" history gelu --system pytorch
    [[ $output == *'case "gelu" has no passed round with a time on pytorch' ]]
}

@test "what is not there is one clear line, and exit 2 or 4" {
    run "$bench" history gelu
    [ "$status" = 4 ]
    [[ $output == "results/bt.sqlite: no such database; "* ]]
    "$bench" run s.json --worker "$peer" -q >/dev/null
    run "$bench" history gelu.forward.f32.4x6
    [ "$status" = 2 ]
    [ "${#lines[@]}" = 1 ]
    [[ $output == *'no case "gelu.forward.f32.4x6" has been recorded; did you mean "gelu.forward.f32.4x5"?' ]]
    run "$bench" history gelu.forward.f32.4x5 --metric times
    [ "$status" = 2 ]
    [[ $output == *'no metric "times"; expected one of: tokens_per_s,'* ]]
    run "$bench" history gelu.forward.f32.4x5 --system pytorch
    [ "$status" = 2 ]
    [[ $output == *"has no passed round with a time on pytorch"* ]]
    run "$bench" history
    [ "$status" = 2 ]
}

#!/usr/bin/env bats
# ci/self-check.sh: for real on a small CPU case, and against programs that are wrong

load ../support/cli

setup() {
    enter_scratch
}

teardown() {
    leave_scratch
}

# A bt-bench that says what the test wants: its answers lie in $dir/answers/<verb or name>.json.
liar() {
    mkdir -p "$dir/answers"
    cat >"$dir/bt-bench" <<'SH'
#!/bin/sh
name=$1
case "$*" in *--inject-slowdown*) name=slowed ;; esac
cat "$(dirname "$0")/answers/$name.json"
SH
    chmod +x "$dir/bt-bench"
    echo '{"cases":[{"case":"x","pair_deviation":0.01,"smallest":0.3,"smallest_high":0.4}]}' >"$dir/answers/calibrate.json"
    verdict slowed SLOWER
    verdict ab SAME
}

verdict() { # name, word
    echo "{\"gate\":{\"verdicts\":[{\"metric\":\"time_ns\",\"verdict\":\"$2\"}]}}" >"$dir/answers/$1.json"
}

@test "a slowdown of what calibrate says can be found is found, an equal build is not called slower" {
    run --separate-stderr "$root/ci/self-check.sh" --bench "$bench" --keep "$dir"
    echo "$output" "$stderr"
    [ "$status" = 0 ]
    [[ $output == *"is found nine times in ten"*"found: true"*"self-check: sound" ]]
}

@test "a harness that finds nothing, or alarms for nothing, is not sound" {
    liar
    run --separate-stderr "$root/ci/self-check.sh" --bench "$dir/bt-bench"
    [ "$status" = 0 ]
    [[ $output == *"slower by 120 %: found: true"* ]] # three times 40 %
    verdict slowed INCONCLUSIVE
    run --separate-stderr "$root/ci/self-check.sh" --bench "$dir/bt-bench"
    [ "$status" = 1 ]
    [[ $output == *"120 %: found: false"*"480 %: found: false"*"1920 %: found: false"* ]]
    [[ $stderr == *"an injected slowdown was not detected"* ]]
    verdict slowed SLOWER
    verdict ab SLOWER
    run --separate-stderr "$root/ci/self-check.sh" --bench "$dir/bt-bench"
    [ "$status" = 1 ]
    [[ $stderr == *"a build was judged slower than itself"* ]]
    verdict ab SAME
    run --separate-stderr "$root/ci/self-check.sh" --bench "$dir/bt-bench" --device cuda
    [ "$status" = 1 ]
    [[ $stderr == *"too noisy: a slowdown of 2 % is detected fewer"* ]]
    run "$root/ci/self-check.sh" --device tpu
    [ "$status" = 2 ]
}

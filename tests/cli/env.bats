#!/usr/bin/env bats
# bt-bench env: this machine's facts, and what differs between two environments

load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/fake_worker.sh
    tiny_shard t.bin
    training_suite >s.json
    unset OMP_TEST_FACT
}

teardown() {
    leave_scratch
}

record() { "$bench" run s.json --worker "$worker" --quiet "$@" >/dev/null; }

@test "env groups facts by level and names the environment" {
    SECRET_TOKEN=hunter2 OMP_TEST_FACT=7 run --separate-stderr "$bench" env
    [ "$status" = 0 ]
    [ -z "$stderr" ]
    [[ $output == "environment "* ]]
    [[ $output == *"hard: must be equal"*"cpu.model"*"soft: may explain"*"build.compiler"*"info"*"build.id"* ]]
    [[ $output == *"env.OMP_TEST_FACT"*"7"* ]]
    [[ $output != *hunter2* ]]
    [[ $output == *"gpu.name"* || $output == *"gpu.unavailable"* ]]
    [[ $output == *"next"*"env diff"* ]]
}

@test "env --format json holds every fact with its level" {
    run --separate-stderr "$bench" env --format json
    [ "$status" = 0 ]
    echo "$output" | python3 -c '
import json, sys
env = json.load(sys.stdin)
assert len(env["environment"]) == 32
levels = {fact["key"]: fact["level"] for fact in env["facts"]}
assert levels["cpu.model"] == "hard" and levels["os.kernel"] == "soft", levels
assert levels["build.id"] == "info" and set(levels.values()) == {"hard", "soft", "info"}'
}

@test "env diff says only what differs, and whether speeds are comparable" {
    record
    OMP_TEST_FACT=7 record
    run --separate-stderr "$bench" env diff 1 2
    [ "$status" = 0 ]
    [[ $output == *"soft"*"env.OMP_TEST_FACT"*"-"*"7"* ]]
    [[ $output == *"the hard facts are the same"* ]]
    [[ $output != *cpu.model* ]]
    run --separate-stderr "$bench" env diff 2 here
    [ "$status" = 0 ]
    [[ $output == *"run 2"*"here"* ]]
    [[ $output == *"env.OMP_TEST_FACT"* ]]
    [[ $output != *"data.a"* ]]
    run --separate-stderr "$bench" env diff here here
    [ "$status" = 0 ]
}

@test "cases of two names on the same data do not differ in hard facts; other data do" {
    tiny_shard t.bin
    tiny_shard u.bin
    training_suite >s.json
    worker=$root/tests/support/fake_worker.sh
    "$bench" run s.json -q --worker "$worker" >/dev/null
    sed 's/"name": "a"/"name": "b"/' s.json >b.json
    "$bench" run b.json -q --worker "$worker" >/dev/null
    run --separate-stderr "$bench" env diff 1 2
    [ "$status" = 0 ]
    [[ $output == *"hard facts are the same"* || $output == *"are the same"* ]]
    sed 's/t.bin/u.bin/' s.json >u.json
    "$bench" run u.json -q --worker "$worker" >/dev/null
    run --separate-stderr "$bench" env diff 1 3
    [ "$status" = 4 ]
    [[ $output == *"hard"*"data.shards-"* ]]
    run --separate-stderr "$bench" compare 1 2
    [ "$status" = 0 ]
    run --separate-stderr "$bench" compare 1 3
    [ "$status" = 4 ]
    [[ $output == *"loss curve"*"hard facts of the environments differ: speeds are not comparable" ]]
    run --separate-stderr "$bench" compare 1 3 --format json
    [ "$status" = 4 ]
    [[ $output == *'"hard_facts_differ": true'* ]]
}

@test "other hard facts: exit 4, first in the list, in JSON too" {
    record
    python3 -c '
import sqlite3
db = sqlite3.connect("results/bt.sqlite")
db.execute("UPDATE env_fact SET value=? WHERE key=?", ("Another CPU", "cpu.model"))
db.commit()'
    run --separate-stderr "$bench" env diff here 1
    [ "$status" = 4 ]
    [[ ${lines[1]} == "hard"*"cpu.model"*"Another CPU" ]]
    [[ $output == *"1 hard fact differs: speeds are not comparable"* ]]
    run --separate-stderr "$bench" env diff here 1 --format json
    [ "$status" = 4 ]
    [[ $output == *'"hard_facts_differ": true'* ]]
    [[ $output == *'"right": "Another CPU"'* ]]
}

@test "mistakes are named" {
    run --separate-stderr "$bench" env frob
    [ "$status" = 2 ]
    [[ $stderr == *"env frob: expected no argument, or diff and two of RUN, here"* ]]
    run --separate-stderr "$bench" env diff 1
    [ "$status" = 2 ]
    run --separate-stderr "$bench" env diff 1 here
    [ "$status" != 0 ]
    record
    run --separate-stderr "$bench" env diff 9 here
    [ "$status" = 2 ]
    [[ $stderr == *"no run 9"* ]]
    run --separate-stderr "$bench" env diff one here
    [ "$status" = 2 ]
    [[ $stderr == *'no run "one"'* ]]
}

@test "doctor says what makes times vary" {
    run --separate-stderr "$bench" doctor --format json
    [[ $output == *'"check":"noise","state":"'*'"found":"load '* ]]
    [[ $output == *'"check":"gpu alone"'* ]]
}

@test "doctor says whether kernels can be generated" {
    run --separate-stderr "$bench" doctor --format json
    [[ $output == *'"check":"compiler","state":"ok"'* || $output == *'compiler: '* ]]
}

@test "doctor --env lists the variables that are read, and what is set" {
    BT_GEMM_TUNE=1 TERM='a "b"' run --separate-stderr "$bench" doctor --env
    [ "$status" -eq 0 ]
    [[ $output == *"BT_GEMM_TUNE "*"= 1"*"allowed: 0, 1; read by libblutrain"* ]]
    env -u BT_CACHE_DIR BT_GEMM_TUNE=1 TERM='a "b"' "$bench" doctor --env --format json >"$dir/env.json"
    [ "$(jq -r '.[] | select(.variable == "TERM") | .value' "$dir/env.json")" = 'a "b"' ]
    [ "$(jq -r '.[] | select(.variable == "BT_CACHE_DIR") | .value' "$dir/env.json")" = null ]
    [ "$(jq length "$dir/env.json")" -eq \
        "$(grep -c '^BT_ENVIRONMENT(' "$BATS_TEST_DIRNAME/../../framework/base/environment.inl")" ]
}

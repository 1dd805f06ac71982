#!/usr/bin/env bats
# bt-bench rm from a user's side, and that verbs that only read leave the database alone
load ../support/cli

setup() {
    enter_scratch
    worker=$root/tests/support/timed_worker.sh
    gelu_suite '["64x16", "4x5"]' >s.json
    export OMP_NUM_THREADS=1
}

teardown() {
    leave_scratch
}

measure() {
    "$bench" run s.json --filter 4x5 --rounds 4 -q --worker "$worker" >/dev/null
}

query() { # sql
    sqlite3 results/bt.sqlite "$1"
}

@test "the next comparison is with the last run of the suite that is still recorded" {
    measure
    sed 's/"tiny"/"other"/' s.json >other.json
    run --separate-stderr "$bench" run other.json --filter 4x5 -q --worker "$worker"
    [[ ${lines[-1]} == "next           bt-bench show 2" ]]
    run --separate-stderr "$bench" run s.json --filter 4x5 -q --worker "$worker"
    [[ ${lines[-1]} == "next           bt-bench show 3 · bt-bench compare 1 3" ]]
    "$bench" rm 1 3 >/dev/null
    run --separate-stderr "$bench" run s.json --filter 4x5 -q --worker "$worker"
    [[ ${lines[-1]} == "next           bt-bench show 4" ]]
}

@test "a run goes with all of its rows, and what others use stays" {
    measure
    rows=$(query "select (select count(*) from round), (select count(*) from content), (select count(*) from env)")
    "$bench" run s.json --rounds 30 -q --worker "$worker" >/dev/null
    "$bench" baseline set main 2 --reason x --accept-noise "a test" >/dev/null
    "$bench" gate 2 --baseline main >/dev/null
    run --separate-stderr "$bench" rm 2
    [ "$status" = 2 ]
    [[ $stderr == *"run 2 is in use: other results were compared with it (baseline main of "*"--force"* ]]
    [ "$(query "select count(*) from session")" = 2 ]
    run "$bench" rm 2 --force
    [ "$status" = 0 ]
    [[ $output == *"run 2: its files in results/run-2 were kept (--files removes them)"* ]]
    [[ $output == *"removed 1 run from results/bt.sqlite; "*"B freed"* ]]
    [[ $output != *"; 0 B freed"* ]]
    [ -e results/run-2/report.html ]
    [ "$(query "select (select count(*) from round), (select count(*) from content), (select count(*) from env)")" = "$rows" ]
    [ "$(query "select count(*) from verdict")" = 0 ]
    [ "$(query "select count(*) from pragma_foreign_key_check")" = 0 ]
    run "$bench" show 1
    [ "$status" = 0 ]
    run "$bench" show 2
    [ "$status" = 2 ]
    run "$bench" gate 1 --baseline main # the baseline has its own copies
    [[ $output == *"ADVISORY"* ]]
    measure
    "$bench" baseline set other 3 --reason x --accept-noise "a test" >/dev/null
    "$bench" gate 1 --baseline other >/dev/null
    run --separate-stderr "$bench" rm 3
    [ "$status" = 2 ]
    [[ $stderr == *"baseline other of "*", the verdicts of run 1"* ]]
}

@test "several at once, with their files; a mistake removes none" {
    measure
    measure
    measure
    touch results/run-3/notes.txt
    for wrong in "1 9" "1 x" "2 1 2" ""; do
        # shellcheck disable=SC2086 # words
        run "$bench" rm $wrong
        [ "$status" = 2 ]
    done
    [ "$(query "select count(*) from session")" = 3 ]
    run "$bench" rm 2 3 --files
    [ "$status" = 0 ]
    [[ $output == *"and the folder results/run-2"*"other files stay in results/run-3"*"removed 2 runs"* ]]
    [ ! -e results/run-2 ]
    [ -e results/run-3/notes.txt ]
    [ ! -e results/run-3/report.html ]
    [ "$(query "select group_concat(id) from session")" = 1 ]
    measure # numbers are not used again
    [ "$(query "select group_concat(id) from session")" = 1,4 ]
}

@test "a folder that somebody else removed is not said to have files, nor a report" {
    measure
    run "$bench" show 1
    [ "${lines[-1]}" = "report         results/run-1/report.html" ]
    rm -r results/run-1
    run "$bench" show 1
    [ "${lines[-1]}" = "report         results/run-1/report.html (not found)" ]
    run "$bench" rm 1 --files
    [ "$status" = 0 ]
    [[ ${lines[0]} == "run 1: removed 0 files; there is no folder results/run-1" ]]
}

@test "a training goes with its checkpoints, and every table has forgotten it" {
    "$root/tests/support/small_shard.sh" t.bin
    cat >train.json <<'JSON'
{ "name": "tiny", "dataset": { "train": ["t.bin"], "val": ["t.bin"] },
  "profiles": { "cpu": { "device": "cpu",
    "train": { "model": { "layers": 1, "heads": 2, "width": 16, "vocab": 64, "context": 16 },
      "micro_batch": 2, "sequence": 16, "steps": 6, "eval_every": 3, "eval_batches": 1,
      "tokens_per_step": 256, "mesh": { "data": 2, "faults": ["kill rank 1 at step 4"] },
      "digest_every": 3, "checkpoint": { "every_steps": 3, "asynchronous": false } },
    "cases": [ { "name": "c", "kind": "train" } ] } } }
JSON
    "$bench" run train.json -q >/dev/null
    [ -e results/run-1/checkpoints/c-blutrain-0/step-00000006/manifest.json ]
    [ -e results/run-1/ranks.json ]
    for table in launch recovery; do
        [ "$(query "select count(*) from $table")" != 0 ]
    done
    mkdir -p elsewhere/step-00000001
    ln -s "$PWD/elsewhere" results/run-1/checkpoints/link
    tables=$(query "select group_concat(name, ' ') from sqlite_master where type='table' and name not like 'sqlite_%'")
    run "$bench" rm 1 --files
    [ "$status" = 0 ]
    [[ $output == *" checkpoints; other files stay in results/run-1"* ]]
    [ "$(ls -A results/run-1)" = checkpoints ]
    [ "$(ls -A results/run-1/checkpoints)" = link ]
    [ -d elsewhere/step-00000001 ]
    for table in $tables; do
        [ "$(query "select count(*) from \"$table\"")" = 0 ] || { echo "$table"; false; }
    done
}

@test "a folder that two runs name keeps its files until the second goes" {
    "$bench" run s.json --filter 4x5 --rounds 4 -q --worker "$worker" --out both >/dev/null
    mkdir -p both/checkpoints/c-blutrain-0/step-00000001
    "$bench" run s.json --filter 4x5 --rounds 4 -q --worker "$worker" >/dev/null
    query "update session set out_dir='$PWD/both' where id=2" # as earlier versions allowed
    run "$bench" rm 2 --files
    [ "$status" = 0 ]
    [[ $output == *"run 2: its files in "*"/both were kept, because run 1 has files there"* ]]
    [ -e both/report.html ]
    [ -d both/checkpoints/c-blutrain-0/step-00000001 ]
    run "$bench" rm 1 --files
    [ "$status" = 0 ]
    [ ! -e both/report.html ]
}

@test "a baseline of another database refers to no run of this one, whatever its number" {
    measure
    "$bench" baseline set main 1 --reason x --accept-noise "a test" >/dev/null
    # As if another database had made it: its run 1 began at another moment.
    query "update baseline set document=json_set(document, '$.sessions[0].started_ns', '1'), run=7"
    run "$bench" rm 1
    [ "$status" = 0 ]
}

@test "verbs that read leave the database as it is" {
    measure
    measure
    query "pragma wal_checkpoint(truncate)" >/dev/null
    before=$(sha256sum results/bt.sqlite)
    chmod 444 results/bt.sqlite
    for verb in "show 1" "list runs" "compare 1 2" "history gelu.forward.f32.4x5" "report 1 -o x.html" \
        "watch 1 --once" "export 1 -o x.tar.zst" "baseline list" "calibrate list"; do
        # shellcheck disable=SC2086 # words
        run "$bench" $verb
        [ "$status" = 0 ] || { echo "$verb: $output"; false; }
        [ "$(sha256sum results/bt.sqlite)" = "$before" ] || { echo "$verb"; false; }
    done
}

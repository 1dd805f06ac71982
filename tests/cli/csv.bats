#!/usr/bin/env bats
# Runs as CSV

load ../support/cli

setup() {
    enter_scratch
    export OMP_NUM_THREADS=1
    tiny_shard t.bin
}

teardown() {
    leave_scratch
}

# A CSV file read by somebody else's reader: the values of a column, one a line.
column() { # file name
    python3 -c 'import csv, sys
for row in csv.DictReader(open(sys.argv[1])): print(row[sys.argv[2]])' "$1" "$2"
}

@test "metrics, samples and steps of several runs are one table each" {
    gelu_suite '["64x16", "4x5"]' >s.json
    "$bench" run s.json --rounds 2 -q --name 'first' --worker "$root/tests/support/timed_worker.sh" >/dev/null
    training_suite >t.json
    "$bench" run t.json -q --worker "$root/tests/support/fake_worker.sh" >/dev/null
    "$bench" report first last -o x.csv
    [ "$(column x.csv run | sort -u | xargs)" = "1 2" ]
    [ "$(column x.csv name | sort -u | xargs)" = first ]
    [[ $(column x.csv metric | sort -u | xargs) == *loss_last*time_ns*tokens_per_s* ]]
    value=$("$bench" show 1 --format json | grep -m 1 '"time_ns": [0-9]' | grep -o '[0-9.]*' | head -n 1)
    grep -q ",time_ns,ns,$value" x.csv
    "$bench" report 1 -o x.samples.csv
    [ "$(head -n 1 x.samples.csv)" = run,name,suite,profile,case,kind,system,round,status,noise,sample,time_ns ]
    [ "$(column x.samples.csv sample | sort -nu | head -n 2 | xargs)" = "0 1" ]
    "$bench" report 2 -o x.steps.csv
    [ "$(column x.steps.csv step | xargs)" = "0 1 2 3 4 5" ]
    [ "$(column x.steps.csv lr | wc -l)" = 6 ]
}

@test "the text of a suite stays a text" {
    sed 's/"name": "tiny"/"name": "tiny-x"/; s/"name": "gelu"/"name": "a-b.c"/' <(gelu_suite '"4x5"') >s.json
    "$bench" run s.json -q --worker "$root/tests/support/timed_worker.sh" >/dev/null
    "$bench" report 1 -o x.csv
    [ "$(column x.csv suite | sort -u)" = tiny-x ]
    [[ $(column x.csv case | sort -u) == *a-b.c.forward.f32.4x5* ]]
    run "$bench" report 1 -o x.tsv
    [ "$status" = 2 ]
    [[ $output == *"expected .html, .md, .json, .csv, .steps.csv or .samples.csv"* ]]
}

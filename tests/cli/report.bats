#!/usr/bin/env bats
# bt-bench report, from a user's side: files by their ending, and folders for others

load ../support/cli

setup() {
    make=$(readlink -f "${BT_BUILD:-$BATS_TEST_DIRNAME/../../build}/tests/make_report")
    enter_scratch
    "$make" bt.sqlite replicate made.html
}

teardown() {
    leave_scratch
}

@test "a publication is a folder that README.md explains" {
    run --separate-stderr "$bench" report 1 --db bt.sqlite --publish first --draft
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [[ $stderr == *reports/first/README.md* ]]
    cd reports/first
    for file in README.md index.html report.json environment.json ratios-replicate-1.svg; do
        [ -s "$file" ]
    done
    # Every file that it names is there, with the digest that it gives.
    grep -oE '^\| \[[^]]+\].*`[0-9a-f]{64}`' README.md |
        sed -E 's/^\| \[([^]]+)\].*`([0-9a-f]{64})`/\2  \1/' >sums
    [ "$(wc -l <sums)" -ge 5 ]
    sha256sum --check --quiet sums
    rm sums
    python3 -c 'import json, sys; json.load(open("report.json")); json.load(open("environment.json"))'
    for plot in *.svg; do
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$plot"
    done
}

@test "another publication is left alone, and so is any other folder" {
    "$bench" report 1 --db bt.sqlite --publish ./out --draft
    run "$bench" report 1 --db bt.sqlite --publish ./out --draft
    [ "$status" -eq 2 ]
    [[ $output == *"--force replaces it"* ]]
    "$bench" report 1 --db bt.sqlite --publish ./out --draft --force
    touch out/mine
    run "$bench" report 1 --db bt.sqlite --publish ./out --draft --force
    [ "$status" -eq 2 ]
    [[ $output == *"'mine'"* ]]
    [ -e out/mine ]
}

@test "a file is named when it is written" {
    run --separate-stderr "$bench" report 1 --db bt.sqlite -o a.md
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ "$stderr" = "report         a.md" ]
    [ -s a.md ]
    run --separate-stderr "$bench" report 1 --db bt.sqlite -o a.pdf
    [ "$status" -eq 2 ]
    [[ $stderr == "report 'a.pdf': the extension selects the format; expected .html, .md, "* ]]
    [ ! -e a.pdf ]
}

@test "a report of two runs says in Markdown which way their ratio goes" {
    gelu_suite '"4x5"' >s.json
    for time_ns in 1000000 2000000; do
        BT_TIMED_NS=$time_ns "$bench" run s.json --rounds 8 -q --worker "$root/tests/support/timed_worker.sh" >/dev/null
    done
    "$bench" report 1 2 -o r.md
    grep -qx 'Time of later runs divided by that of the first run: more than 1 is slower.' r.md
    grep -Eq '^. gelu\.forward\.f32\.4x5, .*, run 2 \| 2\.00x \| \[1\.99[0-9]*, 2\.0[0-9]*\]' r.md
}

@test "what does not go together is refused" {
    run "$bench" report 1 --db bt.sqlite
    [ "$status" -eq 2 ]
    [[ $output == *"--publish DIR"* ]]
    run "$bench" report 1 --db bt.sqlite -o a.html --force
    [ "$status" -eq 2 ]
    [[ $output == *"--force needs --publish"* ]]
    run "$bench" report 2 --db bt.sqlite --publish ./out --draft
    [ "$status" -eq 2 ]
    [ ! -e out ]
    run "$bench" report 1 --db bt.sqlite --publish ./out --draft --claims missing.json
    [ "$status" -ne 0 ]
    [[ $output == *missing.json* ]]
}

@test "without --draft a publication needs its bundle" {
    run "$bench" report 1 --db bt.sqlite --publish ./out
    [ "$status" -eq 2 ]
    [[ $output == *"not published: "*"the bundle is missing"*"--draft publishes it marked as a draft"* ]]
    [ ! -e out ]
    "$bench" report 1 --db bt.sqlite --publish ./out --draft
    grep -q '^# DRAFT: ' out/README.md
    grep -q '"draft": ' out/report.json
}

@test "the samples of each case are a histogram; too few of them are none" {
    gelu_suite '"4x5"' >k.json
    export OMP_NUM_THREADS=1
    "$bench" run k.json -q --rounds 2 --db k.sqlite --set kernel.max_time_s=0.2 >/dev/null
    "$bench" report 1 --db k.sqlite -o k.html
    "$bench" report 1 --db k.sqlite -o k.samples.csv
    count=$(grep -c 'gelu.*,passed,' k.samples.csv)
    [ "$count" -ge 20 ]
    [ "$(grep -c '<svg class=density' k.html)" = 1 ] # of the case, not of the machine's own copy
    grep -q "aria-label=\"$count samples: median " k.html
    "$bench" run k.json -q --db few.sqlite --worker "$root/tests/support/timed_worker.sh" >/dev/null
    "$bench" report 1 --db few.sqlite -o few.html
    [ "$(grep -c '<svg class=density' few.html)" = 0 ]
}

#!/usr/bin/env bats
# bt-bench index: one page over all runs

load ../support/cli

setup() {
    enter_scratch
    export OMP_NUM_THREADS=1
    worker=$root/tests/support/timed_worker.sh
    gelu_suite '"4x5"' >s.json
}

teardown() {
    leave_scratch
}

@test "every run is a row with a link to its report, every case a line of points" {
    for note in one "two <b>" three; do
        "$bench" run s.json --rounds 2 -q --worker "$worker" --note "$note" >/dev/null
    done
    "$bench" run s.json -q --name lost --set kernel.seed=5 --worker /bin/false >/dev/null || true
    run "$bench" index
    [ "$status" = 0 ]
    [ "$output" = "index          results/index.html" ]
    page=$(cat results/index.html)
    [[ $page == *"4 runs in results/bt.sqlite"*"3 passed"*"1 failed"* ]]
    [[ $page == *'<a href="run-1/report.html">1</a>'* && -e results/run-1/report.html ]]
    [[ $page == *"two &lt;b&gt;"* && $page != *"two <b>"* ]]
    # Three points of equal settings; the case with another seed did not pass: it has no line.
    line=$(grep -o 'polyline points="[^"]*"' results/index.html | tail -n 1)
    [ "$(wc -w <<<"${line#*points=}")" = 3 ]
    [[ $page == *"3 runs, the last "* ]]
    [ "$(grep -c '^<tr id=run-' results/index.html)" = 4 ]
    [ "$(grep -cE 'https?://' results/index.html)" = 0 ]
}

@test "it goes where it is told; links follow; no database is no page" {
    "$bench" run s.json -q --worker "$worker" --db other/o.sqlite >/dev/null
    run "$bench" index --db other/o.sqlite -o all.html
    [ "$status" = 0 ]
    grep -q '<a href="other/o-run-1/report.html">1</a>' all.html
    run "$bench" index --db other/o.sqlite -o all.txt
    [ "$status" = 2 ]
    [ "$output" = "index 'all.txt': the extension selects the format; expected .html" ]
    [ ! -e all.txt ]
    run "$bench" index --db nowhere.sqlite
    [ "$status" = 4 ] || [ "$status" = 2 ]
    [ ! -e index.html ]
}

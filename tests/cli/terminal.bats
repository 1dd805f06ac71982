#!/usr/bin/env bats
# What fits a terminal: help, tables and notes, broken at words

load ../support/cli

setup() {
    enter_scratch
    cat >s.json <<'JSON'
{ "name": "tiny", "profiles": { "cpu": { "device": "cpu", "cases": [
    { "name": "true", "kind": "command", "command": { "run": "true", "max_time_s": 0.1 } } ] } } }
JSON
}

teardown() {
    leave_scratch
}

# The words of standard input, a line each.
words() {
    tr -s ' \n' '\n'
}

# At $columns, 80, no line is longer; the output is in the file `narrow`. The program exits with
# `code`.
is_narrow() { # code argument...
    local code=0 columns=${columns:-80}
    COLUMNS=$columns "$bench" "${@:2}" >narrow || code=$?
    [ "$code" = "$1" ]
    awk -v most="$columns" 'length($0) > most || / $/ { print; found = 1 } END { exit found }' narrow
}

# Also, the words are those that the program prints to a pipe, there in some line of more than 80.
folds() { # code argument...
    is_narrow "$@"
    "$bench" "${@:2}" >wide || [ "$?" = "$1" ]
    grep -Eq '.{81}' wide
    diff <(words <narrow | sort) <(words <wide | sort)
}

# The words in the same order as well; not every line of a help is long.
fits() { # argument...
    is_narrow 0 "$@"
    "$bench" "$@" >wide
    diff <(words <narrow) <(words <wide)
}

@test "the help of every verb is broken at words" {
    fits --help
    "$bench" --help | awk '/^  [a-z]/ { print $1 }' >verbs
    [ "$(wc -l <verbs)" -gt 25 ]
    while read -r verb; do
        fits "$verb" --help || { echo "$verb"; false; }
        diff <(grep -o '^Exit codes\?' narrow) <(grep -o '^Exit codes\?' wide) || { echo "$verb"; false; }
    done <verbs
    COLUMNS=80 "$bench" run --help >narrow
    grep -q '^      --set KEY=VALUE      set a key' narrow
    # A continuation is below the text of its option.
    [ -z "$(sed '1,/^options/d' narrow | grep -Ev '^  (-., |    )--|^ {27}[^ ]')" ]
}

@test "a long note and a long description continue on further lines" {
    note="without the fused epilogue, with the clocks of the card at their default, after a reboot"
    "$bench" run s.json -q --trust --note "$note" >/dev/null
    is_narrow 0 list runs
    [ "$(wc -l <narrow)" -gt 2 ]
    [[ $("$bench" list runs) == *"$note"* ]]
    is_narrow 0 show 1
    grep -q '^note    without the fused epilogue' narrow
    grep -q '^        [a-z]' narrow
    for list in suites kernels; do
        is_narrow 0 list $list
    done
}

@test "checks and facts of a machine, and how two machines differ" {
    sqlite3 other.sqlite "create table other(x)"
    is_narrow 4 doctor --db other.sqlite # the load changes, so that two calls are not compared
    grep -q '^cpu  *ok  ' narrow
    grep -q '^database  *BAD  *other.sqlite: this SQLite database was' narrow
    grep -q '^                    .*choose another file' narrow
    is_narrow 0 doctor --env
    grep -q '^BT_GEMM  ' narrow
    is_narrow 0 env
    grep -q '^  cpu.model  ' narrow
    "$bench" run s.json -q --trust >/dev/null
    sqlite3 results/bt.sqlite "update env set digest='another', facts_digest='another';
        update env_fact set value='a processor of which its vendor says more than a column holds'
        where key='cpu.model'"
    "$bench" run s.json -q --trust >/dev/null
    folds 4 env diff 1 2
    grep -q '^1 hard fact differs' narrow
    folds 0 history true
    [ "$(grep -c '^true, blutrain' narrow)" = 2 ]
}

@test "a case over all runs, baselines and the verdicts of a gate" {
    "$bench" run s.json -q --trust --rounds 2 >/dev/null
    "$bench" run s.json -q --trust --rounds 2 >/dev/null
    "$bench" baseline set main 1 --accept-noise "only the words matter" >/dev/null \
        --reason "the release of the year, after a reboot, with the clocks of the card at their default"
    is_narrow 0 baseline list # without the time if the machine has a long name
    folds 0 baseline show main
    folds 0 gate 2 --baseline main
    grep -q '^          [a-z]' narrow # below the words, not below the label
    tr -s ' \n' ' ' <narrow | grep -q 'the baseline has 1 session of the 5'
    "$bench" gate 2 --baseline main --format json >wide
    COLUMNS=80 "$bench" gate 2 --baseline main --format json >narrow
    diff narrow wide
}

@test "show, compare and the list of runs fit 40 columns" {
    gelu_suite '["64x16", "4x5"]' >k.json
    "$bench" run k.json -q --trust >/dev/null
    "$bench" run k.json -q --trust --rounds 2 >/dev/null
    columns=40
    is_narrow 0 show 1
    is_narrow 0 compare 1 2
    grep -qx '    run 2/run 1  [0-9.]*x' narrow
    is_narrow 0 list runs
}

@test "an error is broken at words on a terminal, and nowhere else" {
    script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no terminal can be made here"
    in_terminal() { # arguments: standard error alone is a terminal
        COLUMNS=40 script -qec "'$bench' $1 >/dev/null" /dev/null </dev/null | tr -d '\r' >narrow
        # shellcheck disable=SC2086 # words
        COLUMNS=40 "$bench" $1 >/dev/null 2>wide || true
        awk 'length($0) > 40 { print; found = 1 } END { exit found }' narrow
        grep -Eq '.{41}' wide
        diff <(words <narrow) <(words <wide)
    }
    in_terminal "run missing.json"
    in_terminal "run --unknown"
    in_terminal "show 77"
    in_terminal "bogus"
}

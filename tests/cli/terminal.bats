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

# The words of a program at 80 columns are those that it prints to a pipe, in lines of at most 80.
fits() { # argument...
    COLUMNS=80 "$bench" "$@" >narrow
    "$bench" "$@" >wide
    awk 'length($0) > 80 { print; found = 1 } END { exit found }' narrow
    diff <(words <narrow) <(words <wide)
}

@test "the help of every verb is broken at words" {
    fits --help
    "$bench" --help | awk '/^  [a-z]/ { print $1 }' >verbs
    [ "$(wc -l <verbs)" -gt 25 ]
    while read -r verb; do
        fits "$verb" --help || { echo "$verb"; false; }
    done <verbs
    COLUMNS=80 "$bench" run --help >narrow
    grep -q '^      --set KEY=VALUE      set a key' narrow
    # A continuation is below the text of its option.
    [ -z "$(sed '1,/^options/d' narrow | grep -Ev '^  (-., |    )--|^ {27}[^ ]')" ]
}

@test "a long note and a long description continue on further lines" {
    note="without the fused epilogue, with the clocks of the card at their default, after a reboot"
    "$bench" run s.json -q --trust --note "$note" >/dev/null
    COLUMNS=80 "$bench" list runs >narrow
    awk 'length($0) > 80 { print; found = 1 } END { exit found }' narrow
    [ "$(wc -l <narrow)" -gt 2 ]
    [[ $("$bench" list runs) == *"$note"* ]]
    COLUMNS=80 "$bench" show 1 >narrow
    awk 'length($0) > 80 { print; found = 1 } END { exit found }' narrow
    grep -q '^note    without the fused epilogue' narrow
    grep -q '^        [a-z]' narrow
    for list in suites kernels; do
        COLUMNS=80 "$bench" list $list >narrow
        awk 'length($0) > 80 { print; found = 1 } END { exit found }' narrow
    done
}

#!/usr/bin/env bats
# README.md holds: its suite expands to a plan, its verbs and links exist

load ../support/cli

setup() {
    enter_scratch
}

teardown() {
    leave_scratch
}

@test "the suite expands to a plan of two cases" {
    awk '/^```json$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" >suite.json
    [ -s suite.json ]
    run "$bench" run suite.json --dry-run
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"2 cases"* ]]
}

@test "each verb and long option that is named exists" {
    while read -r verb rest; do
        run "$bench" "$verb" --help
        echo "$verb: $output"
        [ "$status" -eq 0 ]
        for option in $(grep -oE -- '--[a-z-]+' <<<"$rest"); do
            [[ "$output" == *"$option"* ]]
        done
    done < <(grep -oE '\./bt-bench [a-z]+[^#`]*' "$root/README.md" | cut -d ' ' -f 2-)
}

@test "each link leads somewhere" {
    for link in $(grep -oE '\]\([^)#]+\)' "$root/README.md" | tr -d '()]'); do
        echo "$link"
        [ -e "$root/$link" ]
    done
}

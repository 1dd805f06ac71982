# README.md holds: its suite expands to a plan, its verbs and links exist

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d /tmp/bt-readme.XXXXXX)
}

teardown() {
    rm -rf "$tree"
}

@test "the suite expands to a plan of two cases" {
    awk '/^```json$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" >"$tree/suite.json"
    [ -s "$tree/suite.json" ]
    run "$BT_BENCH" run "$tree/suite.json" --dry-run
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"2 cases"* ]]
}

@test "each verb and long option that is named exists" {
    while read -r verb rest; do
        run "$BT_BENCH" "$verb" --help
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

# ci/fresh.sh where it cannot work; that it works is shown by running it (minutes, root, a mirror)

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-fresh.XXXXXX")
    printf '#!/bin/sh\necho ${FAKE_UID:-0}\n' >"$tree/id"
    chmod +x "$tree/id"
    for tool in bash sh env dirname cat; do
        ln -s "$(command -v $tool)" "$tree/$tool"
    done
}

teardown() {
    rm -rf "$tree"
}

@test "an unknown argument, and an option without its value, are usage errors" {
    run "$root/ci/fresh.sh" everything
    [ "$status" -eq 2 ]
    run "$root/ci/fresh.sh" -s
    [ "$status" -eq 2 ]
}

@test "without root it says so" {
    FAKE_UID=1000 PATH="$tree:$PATH" run "$root/ci/fresh.sh" run
    [ "$status" -eq 4 ]
    [[ "$output" == *"needs root"* ]]
}

@test "without debootstrap it says how to get it" {
    PATH="$tree" run "$tree/bash" "$root/ci/fresh.sh" run
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"apt-get install debootstrap"* ]]
}

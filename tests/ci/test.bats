# ci/test.sh with fake stages' tools: counts, exit codes, what a failure shows

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-test.XXXXXX")
    mkdir -p "$tree/ci" "$tree/bin" "$tree/tests/fuzz"
    cp "$root/ci/test.sh" "$tree/ci/"
    script "$tree/ci/setup.sh" 'exit ${FAKE_SETUP:-0}'
    script "$tree/ci/lint.sh" 'echo "finding in a.c"; exit ${FAKE_LINT:-0}'
    script "$tree/tests/fuzz/run.sh" 'echo "fuzz $*"'
    script "$tree/bin/cmake" 'case "$*" in
        "--preset "*) mkdir -p "build-$2"; : >"build-$2/build.ninja"; : >"build-$2/compile_commands.json" ;;
        "--build $FAKE_BROKEN") echo "error: expected ;"; exit 1 ;;
        esac'
    script "$tree/bin/ctest" 'printf "<testsuite name=\"x\"\n\ttests=\"9\"\n\tfailures=\"%s\"\n\tdisabled=\"0\"\n\tskipped=\"2\"\n>" ${FAKE_FAILURES:-0} >"$2/junit.xml"
        [ ${FAKE_FAILURES:-0} = 0 ]'
    export PATH="$tree/bin:$PATH"
}

teardown() {
    rm -rf "$tree"
}

script() { # path body
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

has_archer() { # 1 or 0: without it a stage skips
    compgen -G '/usr/lib/llvm-*/lib/libarcher.so' >/dev/null && echo 1 || echo 0
}

test_sh() {
    run "$tree/ci/test.sh" "$@"
    echo "$output"
    last=${lines[-1]}
}

@test "all stages pass: tests and stages are added up, exit 0" {
    test_sh
    [ "$status" -eq 0 ]
    [ "$last" = "$((19 + 7 * $(has_archer))) passed, 0 failed, $((5 + $(has_archer))) skipped" ]
}

@test "a failing test fails the run" {
    FAKE_FAILURES=1 test_sh tests build tests
    [ "$status" -eq 1 ]
    [ "$last" = "7 passed, 1 failed, 3 skipped" ]
}

@test "a failing test says what it said, however much came behind it" {
    script "$tree/bin/ctest" 'echo "    Start  1: unit.a"
        echo "1/3 Test  #1: unit.a ....   Passed    0.01 sec"
        echo "    Start  2: unit.b"
        echo "2/3 Test  #2: unit.b ....***Failed    0.01 sec"
        seq 100 | sed "s/^/b says /"
        echo "    Start  3: unit.c"
        echo "3/3 Test  #3: unit.c ....***Skipped   0.01 sec"
        echo "no GPU here"
        seq 100
        printf "<testsuite name=\"x\"\n\ttests=\"3\"\n\tfailures=\"1\"\n\tdisabled=\"0\"\n\tskipped=\"1\"\n>" >"$2/junit.xml"
        exit 8'
    test_sh build tests
    [ "$status" -eq 1 ]
    [[ $output == *"| 2/3 Test  #2: unit.b"*"| b says 61"*"| b says 100"* ]]
    [[ $output != *"b says 60"* && $output != *"no GPU here"* && $output != *"unit.a"* ]]
    [ "$last" = "2 passed, 1 failed, 1 skipped" ]
}

@test "a broken build shows its end and where the rest is; other stages go on" {
    FAKE_BROKEN=build-tsan test_sh
    [ "$status" -eq 1 ]
    [[ "$output" == *"| error: expected ;"*"build-ci/logs/clang.log"* ]]
    [[ "$last" == *" $((1 + $(has_archer))) failed, "* ]] # tsan is of that build
    [[ "$output" == *"fuzz     passed"* ]]
}

@test "lint findings fail" {
    FAKE_LINT=1 test_sh lint
    [ "$status" -eq 1 ]
    [[ "$output" == *"| finding in a.c"* ]]
    [ "$last" = "0 passed, 1 failed, 0 skipped" ]
}

@test "set-up that fails ends the run" {
    FAKE_SETUP=4 test_sh
    [ "$status" -eq 1 ]
    [ "$last" = "0 passed, 1 failed, 0 skipped" ]
}

@test "no results at all is a failure" {
    script "$tree/bin/ctest" 'echo "No tests were found"; exit 8'
    test_sh build tests
    [ "$status" -eq 1 ]
    script "$tree/bin/ctest" 'exit 0'
    test_sh build tests
    [ "$status" -eq 1 ]
    [ "$last" = "1 passed, 1 failed, 0 skipped" ]
}

@test "an unknown stage is a usage error" {
    test_sh everything
    [ "$status" -eq 2 ]
}

# ./bt-bench against fake setup and cmake: when it builds, what it prints, what it passes on

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-start.XXXXXX")
    repo="$tree/a repo"
    mkdir -p "$repo/ci" "$repo/framework" "$repo/kernels" "$repo/harness" "$tree/bin"
    cp "$root/bt-bench" "$repo/"
    touch "$repo/CMakeLists.txt" "$repo/CMakePresets.json" "$repo/harness/main.c"
    script "$repo/ci/setup.sh" 'case $1 in --missing) cat "'"$tree"'/missing" 2>/dev/null || : ;;
        *) echo setup >>"'"$tree"'/calls"; rm -f "'"$tree"'/missing"; exit ${FAKE_SETUP:-0} ;; esac'
    script "$tree/bin/cmake" 'echo "cmake $*" >>"'"$tree"'/calls"
        [ -z "$FAKE_CMAKE" ] || { echo "error: expected ;"; exit 1; }
        sleep ${FAKE_SLEEP:-0}
        case $1 in
        --fresh) : >build/build.ninja
            echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/CMakeCache.txt ;;
        --build) mkdir -p build/bin && cp "'"$tree"'/program" build/bin/bt-bench ;;
        esac'
    script "$tree/program" 'printf "<%s>" "$@"; echo; pwd; exit ${FAKE_EXIT:-0}'
    export PATH="$tree/bin:$PATH"
}

teardown() {
    rm -rf "$tree"
}

script() { # path body
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

calls() { # pattern: how many there were
    grep -c -e "$1" "$tree/calls" || :
}

@test "first use sets up, configures, builds and hands over arguments, folder and exit code" {
    printf 'libcjson-dev\nlibzstd-dev\nnpm packages of ci/data\n' >"$tree/missing"
    cd "$tree"
    FAKE_EXIT=3 run "$repo/bt-bench" run "a suite" --flag=''
    echo "$output"
    [ "$status" -eq 3 ]
    [[ "$output" == *"setup     packages from apt and npm (once)"*"done"*"build     "*"done"* ]]
    [[ "$output" == *"<run><a suite><--flag=>"$'\n'"$tree"* ]]
    [ "$(calls 'setup')" -eq 1 ]
    [ "$(calls 'cmake --fresh --preset release')" -eq 1 ]
    [ "$(calls 'cmake --build')" -eq 1 ]
}

@test "a note with the word --help is no request for help: the first run builds" {
    cp "$root/ci/unbuilt.sh" "$repo/ci/"
    run "$repo/bt-bench" run s.json --note "without the -h and --help options"
    [ "$status" -eq 0 ]
    [[ "$output" == *"<run><s.json><--note><without the -h and --help options>"* ]]
    [ "$(calls 'cmake --build')" -eq 1 ]
}

@test "progress is on stderr, the program has stdout to itself" {
    "$repo/bt-bench" show 1 2>"$tree/err" >"$tree/out"
    [ "$(head -n 1 "$tree/out")" = "<show><1>" ]
    grep -q '^build .*done' "$tree/err"
}

@test "a second start builds nothing, says nothing and is quick" {
    "$repo/bt-bench" show 1
    : >"$tree/calls"
    # Processor time, since others may keep the machine busy.
    TIMEFORMAT='%U %S'
    spent=$({ time "$repo/bt-bench" show 1 >"$tree/out"; } 2>&1)
    echo "$spent s"
    [ "$(head -n 1 "$tree/out")" = "<show><1>" ]
    awk '{ exit !($1 + $2 < 0.1) }' <<<"$spent"
    [ ! -s "$tree/calls" ]
}

@test "a changed, a new and a removed source are built, without configuring again" {
    "$repo/bt-bench" show 1
    : >"$tree/calls"
    echo '//' >>"$repo/harness/main.c"
    "$repo/bt-bench" show 1
    [ "$(calls 'cmake --build')" -eq 1 ]
    touch "$repo/kernels/new.c"
    "$repo/bt-bench" show 1
    [ "$(calls 'cmake --build')" -eq 2 ]
    rm "$repo/kernels/new.c"
    "$repo/bt-bench" show 1
    [ "$(calls 'cmake --build')" -eq 3 ]
    [ "$(calls 'cmake --fresh')" -eq 0 ]
}

@test "a source that changes during the build is built the next time" {
    FAKE_SLEEP=0.3 "$repo/bt-bench" show 1 &
    until grep -qs 'cmake --build' "$tree/calls"; do
        sleep 0.02
    done
    echo '//' >>"$repo/harness/main.c"
    wait $!
    : >"$tree/calls"
    "$repo/bt-bench" show 1
    [ "$(calls 'cmake --build')" -eq 1 ]
}

@test "through a symlink, from another folder, with spaces in the path" {
    mkdir "$tree/else where"
    ln -s "$repo/bt-bench" "$tree/else where/bench"
    cd "$tree/else where"
    run ./bench show 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "$tree/else where" ]
}

@test "a build that fails: the end of its output, the path of all of it, exit 5" {
    FAKE_CMAKE=fail run "$repo/bt-bench" show 1
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"FAILED"*"error: expected ;"*"$repo/build/setup.log"* ]]
    run "$repo/bt-bench" show 1
    [ "$status" -eq 0 ]
}

@test "setup that may not install: exit 4, no build" {
    echo libcjson-dev >"$tree/missing"
    FAKE_SETUP=4 run "$repo/bt-bench" show 1
    [ "$status" -eq 4 ]
    [ "$(calls cmake)" -eq 0 ]
}

@test "two at once: one builds, the other waits for it" {
    FAKE_SLEEP=0.5 "$repo/bt-bench" one >"$tree/one" 2>&1 &
    first=$!
    until grep -qs cmake "$tree/calls"; do
        sleep 0.02
    done
    FAKE_SLEEP=0.5 "$repo/bt-bench" two >"$tree/two" 2>&1
    wait $first
    cat "$tree/one" "$tree/two"
    [ "$(calls 'cmake --build')" -eq 1 ]
    grep -q 'waiting for another bt-bench' "$tree/two"
    grep -q '<two>' "$tree/two"
    grep -q '<one>' "$tree/one"
}

@test "a repository that was moved is configured again" {
    "$repo/bt-bench" show 1
    mv "$repo" "$tree/moved"
    : >"$tree/calls"
    echo '//' >>"$tree/moved/harness/main.c"
    "$tree/moved/bt-bench" show 1
    [ "$(calls 'cmake --fresh')" -eq 1 ]
}

@test "an nvcc that appeared is noticed" {
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] && was=nvcc || was=none
    "$repo/bt-bench" show 1
    : >"$tree/calls"
    script "$tree/bin/nvcc" ''
    run "$repo/bt-bench" show 1
    echo "$was: $output"
    [ "$(calls 'cmake --fresh')" -eq 1 ]
    [[ "$output" == *"CPU and CUDA backends"* ]]
}

@test "how long the first build takes is said, with and without CUDA" {
    script "$tree/bin/nvcc" :
    run "$repo/bt-bench" show 1
    [[ "$output" == *"build     the first build takes about 10 minutes on two cores"* ]]
    echo '//' >>"$repo/harness/main.c"
    run "$repo/bt-bench" show 1
    [[ "$output" != *"the first build"* ]]
    echo 'BT_CUDA:STRING=OFF' >>"$repo/build/CMakeCache.txt"
    rm "$repo/build/bin/bt-bench"
    run "$repo/bt-bench" show 1
    [[ "$output" == *"build     the first build takes about 2 minutes on two cores"* ]]
}

@test "that a build without CUDA is faster is said to who has no GPU, and not to who left it out" {
    compgen -G '/dev/nvidia[0-9]*' >/dev/null && skip "there is a GPU"
    script "$tree/bin/nvcc" :
    run "$repo/bt-bench" show 1
    [[ "$output" == *"no GPU; a build without CUDA takes a fifth"* ]]
    echo 'BT_CUDA:STRING=OFF' >>"$repo/build/CMakeCache.txt"
    echo '//' >>"$repo/harness/main.c"
    run "$repo/bt-bench" show 1
    [[ "$output" == *"CPU backend (BT_CUDA=OFF)"* ]]
    [[ "$output" != *"a build without CUDA"* ]]
}

@test "help, version, doctor and lists are answered before anything is installed or built" {
    echo libcjson-dev >"$tree/missing"
    cp "$root/ci/unbuilt.sh" "$repo/ci/"
    mkdir -p "$repo/harness/cli"
    cp "$root/harness/cli/verbs.c" "$repo/harness/cli/"
    cp -r "$root/suites" "$root/CMakeLists.txt" "$repo/"
    for words in "" --help "run --help" "help run" --version list "list suites" "list runs" "list --help" \
        "list cases suites/kernels/gelu" "list schema" "list schema policy"; do
        # shellcheck disable=SC2086 # words
        run "$repo/bt-bench" $words
        [ "$status" -eq 0 ] || { echo "$words: $output"; false; }
        [ -n "$output" ]
    done
    run "$repo/bt-bench" doctor
    [ "$status" -eq 4 ]
    [[ "$output" == *"missing: libcjson-dev"*"ci/setup.sh run installs"* ]]
    run "$repo/bt-bench" list kernels
    [ "$status" -eq 4 ]
    [[ "$output" == "bt-bench list kernels: only the program can answer, and it is not built yet"* ]]
    run "$repo/bt-bench" list cases kernels/geluu
    [ "$status" -eq 2 ]
    [ "$output" = "kernels/geluu: no such suite file or folder"$'\n'"'bt-bench list suites' lists the suites" ]
    run "$repo/bt-bench" list cases kernels/gelu --format json
    [ "$status" -eq 4 ]
    echo '{ "include": "own.json" }' >"$tree/own.json"
    run "$repo/bt-bench" list cases "$tree/own.json"
    [ "$status" -eq 2 ]
    [[ "$output" == *"includes are more than 4 deep"* ]]
    echo '{ "include": ["kernels/gelu", "absent"] }' >"$tree/other.json"
    run "$repo/bt-bench" list cases "$tree/other.json"
    [ "$status" -eq 2 ]
    [ "$output" = "$tree/other.json: the included suite absent does not exist" ]
    echo '{ "include": "kernels/gelu" }' >"$tree/text.json"
    run "$repo/bt-bench" list cases "$tree/text.json"
    [ "$status" -eq 0 ]
    [ "$output" = "$("$repo/bt-bench" list cases kernels/gelu)" ]
    [ ! -e "$tree/calls" ]
    [ ! -e "$repo/build" ]
    # The same words as the program's own.
    [ "$("$repo/bt-bench" --help)" = "$("$BT_BENCH" --help)" ]
    "$BT_BENCH" --help | sed -n 's/^  \([a-z][-a-z]*\) .*/\1/p' | grep -vx doctor >"$tree/verbs"
    [ "$(wc -l <"$tree/verbs")" -gt 25 ]
    while read -r verb; do
        diff <("$repo/bt-bench" "$verb" --help | sed '/^Its options/,$d') \
            <("$BT_BENCH" "$verb" --help | sed '/^options/,$d') || { echo "$verb"; false; }
    done <"$tree/verbs"
    # Both fit the terminal.
    for columns in 50 80 120; do
        export COLUMNS=$columns
        diff <("$repo/bt-bench" --help) <("$BT_BENCH" --help)
        diff <("$repo/bt-bench" run --help | sed '/^Its options/,$d') \
            <("$BT_BENCH" run --help | sed '/^options/,$d')
    done
    COLUMNS=80 diff <("$repo/bt-bench" list) <(BT_ROOT=$root "$BT_BENCH" list)
    printf 'libcjson-dev\nlibzstd-dev\nlibsodium-dev\nlibarchive-dev\nlibcurl4-openssl-dev\n' >"$tree/missing"
    COLUMNS=70 run "$repo/bt-bench" doctor
    [[ "$output" == *"packages   missing: libcjson-dev, libzstd-dev, libsodium-dev,"$'\n'"           libarchive-dev, "* ]]
    unset COLUMNS
    [ "$("$repo/bt-bench" help gate)" = "$("$repo/bt-bench" gate --help)" ]
    [ "$("$BT_BENCH" help gate)" = "$("$BT_BENCH" gate --help)" ]
    [ "$("$repo/bt-bench" list)" = "$(BT_ROOT=$root "$BT_BENCH" list)" ]
    for schema in suite policy; do
        [ "$("$repo/bt-bench" list schema $schema)" = "$("$BT_BENCH" list schema $schema)" ]
    done
    cd "$repo"
    "$BT_BENCH" list suites | sed 's/  .*//' | while read -r suite; do
        diff <("$repo/bt-bench" list cases "$suite") <("$BT_BENCH" list cases "$suite")
    done
    for bench in "$repo/bt-bench" "$BT_BENCH"; do
        run "$bench" list cases
        [ "$status" -eq 2 ]
        [ "$output" = "bt-bench list cases: SUITE is missing
usage: bt-bench list [suites | cases SUITE | runs | kernels | schema [suite | policy]]" ]
    done
}

@test "they are answered by the program as it is when sources have changed" {
    "$repo/bt-bench" show 1
    : >"$tree/calls"
    echo '//' >>"$repo/harness/main.c"
    for what in runs kernels "cases gelu"; do
        # shellcheck disable=SC2086 # words
        run "$repo/bt-bench" list $what
        [ "$output" = "<list><${what/ /><}>"$'\n'"$PWD" ]
    done
    [ ! -s "$tree/calls" ]
    "$repo/bt-bench" show 1
    [ "$(calls 'cmake --build')" -eq 1 ]
}

@test "another PATH, as of sudo or cron, does not configure again" {
    script "$tree/bin/nvcc" ''
    "$repo/bt-bench" show 1
    : >"$tree/calls"
    mkdir "$tree/tools"
    for tool in sh cmake readlink dirname cat find; do
        ln -s "$(command -v $tool)" "$tree/tools/$tool"
    done
    PATH=$tree/tools run "$repo/bt-bench" show 1
    [ "${lines[0]}" = "<show><1>" ]
    [ ! -s "$tree/calls" ]
}

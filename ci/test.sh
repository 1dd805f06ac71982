#!/usr/bin/env bash
# ci/test.sh [STAGE...] - sets a fresh machine up and runs every test; no STAGE: all of them
#
#   setup   packages (ci/setup.sh test)            lint   ci/lint.sh, every check
#   build   gcc, release, CUDA if nvcc is found    clang  the same sources, also no warnings,
#   tests   all tests of that build                       built for tsan
#   asan    tests under address and UB sanitizers
#   tsan    what uses our threads and OpenMP, under the thread sanitizer
#   fuzz    a minute of libFuzzer over all targets
#
# A stage that fails does not stop the others, unless they depend on it. Output goes to
# build-ci/logs; for failures, its end and the output of each failing test are printed here. Last
# line: 'N passed, N failed, N skipped', where each test counts as one, and so does each stage
# without tests.
# Environment: BT_CMAKE_ARGS, options for every configuration; BT_FUZZ_SECONDS, default 60 in total.
# Exit 0 when nothing failed, 1 otherwise, 2 usage.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
jobs=$(nproc)
logs=$root/build-ci/logs
passed=0 failed=0 skipped=0
lines=()
PATH=$root/.cache/cmake/bin:$PATH
# One cache for all build folders and clones: paths are hashed relative to the repository.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
unset BT_ROOT BT_BENCH

skip() { # reason: ends a stage
    echo "skipped: $1"
    exit 77
}

configure() { # preset option...
    # shellcheck disable=SC2086 # a word is an option
    cmake --preset "$@" ${BT_CMAKE_ARGS:-}
}

# Makes a folder for the tests' files, which other users may enter, and prints its path. It is in
# memory if there is room, because each commit of a database waits for the disk.
scratch_folder() {
    local folder='' free
    free=$(df --output=avail -B 1G /dev/shm 2>/dev/null | tail -n 1)
    if [ "${free:-0}" -ge 8 ] && folder=$(mktemp -d /dev/shm/bt-tests-XXXXXX); then
        printf '#!/bin/sh\n' >"$folder/program"
        chmod +x "$folder/program"
        if ! "$folder/program"; then # mounted without permission to run programs
            rm -r "$folder"
            folder=
        fi
    fi
    [ -n "$folder" ] || folder=$(mktemp -d)
    rm -f "$folder/program"
    chmod 755 "$folder"
    echo "$folder"
}

# Runs the tests of a build folder; results for the count go to its junit.xml. They share the
# processors, so a thread that waits gives its own up: spinning took two seconds of five. Many tests
# wait for what they have started: half as many more tests as processors use the time.
run_tests() { # folder option...
    local folder=$1
    shift
    TMPDIR=$(scratch_folder)
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    rm -f "$folder/junit.xml"
    OMP_WAIT_POLICY=passive ctest --test-dir "$folder" -j $((jobs + jobs / 2)) --output-on-failure \
        --no-tests=error --output-junit "$folder/junit.xml" "$@"
}

stage_setup() {
    ci/setup.sh test
}

stage_build() {
    local cuda=AUTO
    if command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; then
        cuda=ON
    fi
    configure ci -DBT_CUDA=$cuda && cmake --build build-ci
}

stage_tests() {
    [ -e build-ci/build.ninja ] || skip "nothing is built"
    run_tests "$root/build-ci"
}

stage_clang() {
    configure tsan && cmake --build build-tsan
}

stage_lint() {
    configure clang && cmake --build build-clang --target generated && ci/lint.sh
}

stage_asan() {
    configure asan && cmake --build build-asan || return
    # Scripts and what measures time say nothing more under sanitizers. One thread: LeakSanitizer's
    # tracer crashes at times on threads of OpenMP that wait; tests of threads use their own.
    # Frames of calls that returned are kept, 128 KiB for each size of frame: with the default of
    # 1 MiB a thread takes long to start.
    local options=detect_stack_use_after_return=1:max_uar_stack_size_log=17
    OMP_NUM_THREADS=1 ASAN_OPTIONS=$options UBSAN_OPTIONS=print_stacktrace=1 \
        run_tests "$root/build-asan" -LE '^(ci|release)$'
}

stage_tsan() {
    local archer
    archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | sort -V | tail -n 1)
    [ -n "$archer" ] || skip "no libarcher, which tells the sanitizer of OpenMP's barriers"
    configure tsan && cmake --build build-tsan || return
    OMP_TOOL_LIBRARIES=$archer TSAN_OPTIONS='ignore_noninstrumented_modules=1 halt_on_error=1' \
        run_tests "$root/build-tsan" -L '^(unit|conformance|threads|dist)$' -LE '^release$'
}

stage_fuzz() {
    [ -x tests/fuzz/run.sh ] || skip "there are no fuzz targets"
    configure fuzz && cmake --build build-fuzz || return
    tests/fuzz/run.sh build-fuzz "${BT_FUZZ_SECONDS:-60}"
}

# Adds a junit file's counts: <testsuite ... tests="9" failures="0" disabled="0" skipped="1" ...>
count_junit() { # file
    local tests failures not_run
    read -r tests failures not_run < <(tr '\n\t' '  ' <"$1" | sed -E \
        's/.*<testsuite [^>]* tests="([0-9]+)" +failures="([0-9]+)" +disabled="[0-9]+" +skipped="([0-9]+)".*/\1 \2 \3/')
    passed=$((passed + tests - failures - not_run))
    failed=$((failed + failures))
    skipped=$((skipped + not_run))
    counts="$((tests - failures - not_run)) passed, $failures failed, $not_run skipped"
}

# The last 40 lines of output of each failing test, and what names a failure in the lines before them
# (of cmocka and bats), from ctest's log.
failing_tests() { # log
    awk '
        function flush(  i) {
            for (i = 0; i < count; i++)
                if (i >= count - 40 || words[i] ~ /^\[  (FAILED|ERROR ) |^\[   LINE   \]|^not ok /) print words[i]
            count = 0
        }
        /^ *[0-9]+\/[0-9]+ Test +#/ { flush(); failed = /\*\*\*/ && !/\*\*\*Skipped/; if (failed) print; next }
        /^ +Start +[0-9]+: / || /^[0-9]+% tests passed/ { flush(); failed = 0 }
        failed { words[count++] = $0 }
        END { flush() }' "$1"
}

run_stage() { # name
    local code=0 begin=$SECONDS junit='' result
    case $1 in
    tests) junit=$root/build-ci/junit.xml ;;
    asan | tsan) junit=$root/build-$1/junit.xml ;;
    esac
    printf '%-8s ' "$1"
    [ -z "$junit" ] || rm -f "$junit"
    ("stage_$1") >"$logs/$1.log" 2>&1 </dev/null || code=$?
    counts=
    if [ -n "$junit" ] && [ -e "$junit" ]; then
        count_junit "$junit"
        # Failed with no test to blame: the run itself did.
        [ $code = 0 ] || [[ $counts != *" 0 failed"* ]] || failed=$((failed + 1))
    elif [ $code = 0 ] && [ -z "$junit" ]; then
        passed=$((passed + 1))
    elif [ $code = 77 ]; then
        skipped=$((skipped + 1))
    else
        [ $code != 0 ] || code=1 # tests without results are no tests
        failed=$((failed + 1))
    fi
    case $code in
    0) result=passed ;;
    77) result="skipped ($(sed -n 's/^skipped: //p' "$logs/$1.log" | tail -n 1))" ;;
    *) result=FAILED ;;
    esac
    lines+=("$(printf '%-8s %-8s %5d s  %s' "$1" "$result" $((SECONDS - begin)) "$counts")")
    printf '%-8s %5d s  %s\n' "$result" $((SECONDS - begin)) "$counts"
    if [ "$result" = FAILED ]; then
        { [ -z "$junit" ] || failing_tests "$logs/$1.log"; tail -n 60 "$logs/$1.log"; } | sed 's/^/    | /'
        echo "    complete log: $logs/$1.log"
        return 1
    fi
}

all=(setup build tests clang lint asan tsan fuzz)
[ $# -gt 0 ] || set -- "${all[@]}"
for stage in "$@"; do
    case " ${all[*]} " in
    *" $stage "*) ;;
    *)
        echo "usage: ci/test.sh [${all[*]}]" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$logs"
for stage in "$@"; do
    if ! run_stage "$stage" && [ "$stage" = setup ]; then
        break # nothing else can work
    fi
done

printf '\n%s\n' "ci/test.sh, $((SECONDS / 60)) min $((SECONDS % 60)) s"
printf '  %s\n' "${lines[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

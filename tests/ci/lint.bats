# ci/lint.sh on a small tree of its own: each check finds what it is there to find

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-lint.XXXXXX")
    export XDG_CACHE_HOME=$tree/cache
    repo=$tree/repo
    mkdir -p "$repo/ci" "$repo/.ci" "$repo/framework/base" "$repo/build-clang" "$repo/tests/unit"
    cp "$root/ci/lint.sh" "$root/ci/layers.sh" "$root/ci/cppcheck.txt" "$repo/ci/"
    cp "$root/tests/.clang-tidy" "$repo/tests/"
    cp "$root/.clang-tidy" "$root/.clang-format" "$root/.shellcheckrc" "$repo/"
    cp "$root/bt-bench" "$repo/"
    cp "$root/.ci/run" "$repo/.ci/"
    echo '# base' >"$repo/framework/base/README.md"
    cp "$root/framework/base/environment."* "$repo/framework/base/"
    echo '/build-clang' >"$repo/.gitignore"
    git -C "$repo" init -q
    code 'int clean(int a);' 'int clean(int a) { return a + 1; }'
}

teardown() {
    rm -rf "$tree"
}

code() { # line...
    printf '%s\n' "$@" >"$repo/framework/base/a.c"
    printf '[{"directory": "%s", "command": "clang -std=gnu17 -o a.o -c %s", "file": "%s"}]' \
        "$repo/build-clang" "$repo/framework/base/a.c" "$repo/framework/base/a.c" \
        >"$repo/build-clang/compile_commands.json"
}

clean() { # check
    run "$repo/ci/lint.sh" "$1"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" != *"lint $1: skipped"* ]] || skip "$output"
    [ "$output" = "lint $1: clean" ]
}

finds() { # check, words
    run "$repo/ci/lint.sh" "$1"
    echo "$output"
    [[ "$output" != *"lint $1: skipped"* ]] || skip "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$2"* ]]
}

@test "a clean tree is clean" {
    for check in layers files shell environment format tidy cppcheck; do
        clean $check
    done
}

@test "format" {
    code 'int f( void );'
    finds format "framework/base/a.c: not formatted"
}

@test "layers" {
    code '#include "harness/run/run.h"'
    finds layers "framework/base/a.c:1:"
}

@test "files: too long, no README, unfinished, NaN" {
    seq -f '// %g' 801 >"$repo/framework/base/a.c"
    finds files "framework/base/a.c: over 800 lines"
    code '// TODO'
    finds files "framework/base/a.c:1:// TODO"
    code 'int x;'
    echo 'if (max_err > tolerance) {' >"$repo/tests/unit/test_a.c"
    finds files "test_a.c:1:if (max_err > tolerance)"
    mkdir -p "$repo/kernels/cuda"
    echo '# cuda' >"$repo/kernels/cuda/README.md"
    echo 'attribute.val.programmaticStreamSerializationAllowed = 1;' >"$repo/kernels/cuda/a.cu"
    finds files "kernels/cuda/a.cu:1:"
    rm "$repo/tests/unit/test_a.c" "$repo/framework/base/README.md"
    finds files "framework/base: has no README.md"
}

@test "files: a README is a page; the root's and the harness's may be longer, logs and reports are exempt" {
    mkdir -p "$repo/harness/run" "$repo/framework/base/lab" "$repo/reports/one"
    page() { # words
        for _ in $(seq "$1"); do printf 'word '; done
    }
    echo '# run' >"$repo/harness/run/README.md"
    page 701 >"$repo/framework/base/lab/README.md"
    page 701 >"$repo/reports/one/README.md"
    page 700 >"$repo/framework/base/README.md"
    page 900 >"$repo/harness/README.md"
    page 1500 >"$repo/README.md"
    clean files
    for file in framework/base/README.md:701:700 harness/README.md:901:900 README.md:1501:1500; do
        IFS=: read -r name words most <<<"$file"
        page "$words" >"$repo/$name"
        finds files "$name: $words words, at most $most"
        page "$most" >"$repo/$name"
    done
}

@test "environment: a variable is read past the table" {
    mkdir -p "$repo/kernels/cuda" "$repo/harness/run"
    clean environment
    for call in 'getenv("BT_X")' 'secure_getenv("BT_X")' 'environ[0]'; do
        printf 'static bool skip(void) { return %s; }\n' "$call" >"$repo/kernels/cuda/a.cu"
        finds environment "kernels/cuda/a.cu:1:"
    done
    rm "$repo/kernels/cuda/a.cu"
    echo 'const char *a(void) { return getenv("HOME"); }' >"$repo/harness/run/a.c"
    finds environment "harness/run/a.c:1:"
    rm "$repo/harness/run/a.c"
    echo 'echo "${BT_SECRET:-}"' >"$repo/ci/a.sh"
    finds environment "BT_SECRET has no row"
    echo 'echo "${BT_BENCH:-}"' >"$repo/ci/a.sh"
    clean environment
    echo 'add_library(product kernels/cuda/lab/a.c)' >"$repo/CMakeLists.txt"
    finds environment "a laboratory is linked"
}

@test "shell" {
    printf '#!/bin/sh\nrm $1\n' >"$repo/ci/bad.sh"
    finds shell "SC2086"
}

@test "tidy: a finding stays one until it is mended; what was clean is remembered" {
    code '#include <stdlib.h>' 'int *leak(void);' \
        'int *leak(void) {' '    int *a = malloc(4);' '    free(a);' '    return a;' '}'
    finds tidy "clang-analyzer-unix.Malloc"
    finds tidy "clang-analyzer-unix.Malloc"
    code 'int clean(int a);' 'int clean(int a) { return a + 1; }'
    clean tidy
    mkdir "$tree/bin"
    printf '#!/bin/sh\n[ "$1" = --version ] && exec %s --version\nexit 9\n' "$(command -v clang-tidy)" >"$tree/bin/clang-tidy"
    chmod +x "$tree/bin/clang-tidy"
    PATH="$tree/bin:$PATH" clean tidy
    # In a clone elsewhere, too.
    mv "$repo" "$tree/elsewhere"
    repo=$tree/elsewhere
    code 'int clean(int a);' 'int clean(int a) { return a + 1; }'
    PATH="$tree/bin:$PATH" clean tidy
}

@test "tidy sees a change in a header" {
    echo 'static inline int h(int a) { return a; }' >"$repo/framework/base/a.h"
    code '#include "a.h"' 'int f(void);' 'int f(void) { return h(1); }'
    clean tidy
    printf '#include <stdlib.h>\nstatic inline int h(int a) { int *p = malloc(4); free(p); return *p + a; }\n' \
        >"$repo/framework/base/a.h"
    finds tidy "clang-analyzer-unix.Malloc"
}

@test "cppcheck" {
    code 'int f(void);' 'int f(void) {' '    int a[2] = {0, 1};' '    return a[2];' '}'
    finds cppcheck "arrayIndexOutOfBounds"
}

@test "another version of a tool skips its check, and says so" {
    mkdir "$tree/bin"
    for tool in clang-format clang-tidy cppcheck; do
        printf '#!/bin/sh\necho "%s version 99.1.0"\n' $tool >"$tree/bin/$tool"
        chmod +x "$tree/bin/$tool"
    done
    for tool in bash sh env git nproc dirname sed grep head; do
        ln -s "$(command -v $tool)" "$tree/bin/$tool"
    done
    for check in format tidy cppcheck; do
        PATH="$tree/bin" run "$repo/ci/lint.sh" $check
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"found 99.1.0"*"lint $check: skipped"* ]]
    done
}

@test "an unknown check is a usage error; no compile commands is not clean" {
    run "$repo/ci/lint.sh" everything
    [ "$status" -eq 2 ]
    rm "$repo/build-clang/compile_commands.json"
    finds tidy "cmake --preset clang"
}

@test "presets for tests and sanitizers keep the library's asserts; a sanitizer without is refused" {
    run jq -r '.configurePresets[] | select(.cacheVariables |
        .BT_TESTS == "ON" or has("BT_SANITIZE") or has("BT_FUZZ")) |
        select(.cacheVariables.BT_ASSERTS != "ON") | .name' "$root/CMakePresets.json"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    run grep NDEBUG "$root/CMakePresets.json"
    [ "$status" -eq 1 ]
    cd "$root"
    run cmake --preset asan -B "$tree/asan" -DBT_ASSERTS=OFF
    [ "$status" -ne 0 ]
    [[ $output == *"need BT_ASSERTS=ON"* ]]
}

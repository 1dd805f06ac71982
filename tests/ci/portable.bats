# ci/portable.sh on a small build of its own, and on the real one when it is there

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-portable.XXXXXX")
    mkdir -p "$tree/build/bin" "$tree/elsewhere"
    cat >"$tree/library.c" <<'C'
#include <sodium.h>
int answer(void);
int answer(void) { return sodium_init() < 0 ? 1 : 42; }
C
    cat >"$tree/program.c" <<'C'
#include <stdio.h>
int answer(void);
int main(int argc, char **argv) { return printf("%d %s\n", answer(), argv[argc - 1]) < 0; }
C
    gcc -g -shared -fPIC -Wl,-soname,libblutrain.so -o "$tree/build/bin/libblutrain.so" "$tree/library.c" -lsodium
    gcc -g -o "$tree/build/bin/bt-bench" "$tree/program.c" -L"$tree/build/bin" -lblutrain \
        -Wl,-rpath,"$tree/build/bin"
}

teardown() {
    rm -rf "$tree"
}

pack() {
    run "$root/ci/portable.sh" -b "$tree/build" -o "$tree/out" "$@"
    echo "$output"
}

@test "the folder runs from anywhere, with an empty environment, after a move" {
    pack
    [ "$status" -eq 0 ]
    mv "$tree/out" "$tree/elsewhere/a folder"
    rm -r "$tree/build"
    cd /
    run env -i "$tree/elsewhere/a folder/bin/bt-bench" hello
    [ "$output" = "42 hello" ]
}

@test "what a plain system lacks travels, what it has does not" {
    pack
    compgen -G "$tree/out/lib/libsodium.so.*"
    [ ! -e "$tree/out/lib/libc.so.6" ]
    [ -d "$tree/out/suites" ]
    [ -d "$tree/out/harness/peers" ]
}

@test "everything is stripped and names no path of this machine" {
    pack
    for file in "$tree"/out/bin/* "$tree"/out/lib/*; do
        file_sections=$(readelf -SW "$file")
        [[ "$file_sections" != *.debug_info* ]]
        readelf -d "$file" | grep RUNPATH | grep -q '\[$ORIGIN'
        run grep -c -e "$tree/build" "$file"
        [ "$output" = 0 ]
    done
}

@test "prepared data comes along at its place" {
    mkdir -p "$tree/data/books"
    echo tokens >"$tree/data/books/train.bin"
    pack --data "$tree/data/books"
    [ "$status" -eq 0 ]
    [ -n "$(find "$tree/out" -name train.bin)" ]
}

@test "a folder that is not ours is left alone" {
    mkdir "$tree/out"
    echo mine >"$tree/out/file"
    pack
    [ "$status" -eq 2 ]
    [ "$(ls "$tree/out")" = file ]
    rm "$tree/out/file"
    pack
    [ "$status" -eq 0 ]
    pack # over its own earlier result
    [ "$status" -eq 0 ]
}

@test "more than 64 MiB is an error that names the largest" {
    head -c 70000000 /dev/zero >"$tree/zeros"
    echo 'const char zeros[70000000] = {1};' >"$tree/big.c"
    gcc -shared -fPIC -o "$tree/build/bin/libbt_cuda.so" "$tree/big.c"
    pack
    [ "$status" -eq 1 ]
    [[ "$output" == *"more than 64 MiB"*"bin/libbt_cuda.so"* ]]
}

@test "a build without the program, and a library that is nowhere, are errors" {
    mv "$tree/build/bin/libblutrain.so" "$tree/gone.so"
    pack
    [ "$status" -ne 0 ]
    rm "$tree/build/bin/bt-bench"
    pack
    [ "$status" -eq 1 ]
    [[ "$output" == *"does not contain bin/bt-bench"* ]]
}

@test "the real build packs and starts" {
    [ -x "${BT_BENCH:-}" ] || skip "no build at hand"
    run "$root/ci/portable.sh" -b "$BT_BUILD" -o "$tree/out"
    echo "$output"
    [ "$status" -eq 0 ]
    mv "$tree/out" "$tree/elsewhere/moved"
    cd "$tree/elsewhere"
    run env -i moved/bin/bt-bench --version
    echo "$output"
    [ "$status" -eq 0 ]
    run env -i moved/bin/bt-bench list --help
    [ "$status" -eq 0 ]
}

# ci/layers.sh accepts the repository and refuses what it is there to refuse

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$(mktemp -d "${TMPDIR:-/tmp}/bt-layers.XXXXXX")
    source_file framework/base/str.c '#include "framework/base/str.h"' '#include <string.h>'
}

teardown() {
    rm -rf "$tree"
}

source_file() { # path line...
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "${@:2}" >"$tree/$1"
}

accepts() {
    run "$root/ci/layers.sh" "$tree"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

refuses() { # words
    run "$root/ci/layers.sh" "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$1"* ]]
}

@test "the repository is clean" {
    run "$root/ci/layers.sh"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "downward and sideways includes are accepted" {
    source_file framework/ops/add.c '#include "framework/tensor/tensor.h"' '#include "framework/linalg/gemm.h"'
    source_file kernels/cuda/add.cu '#include <type_traits>' '#include "framework/base/dtype.h"'
    source_file harness/run/worker.c '#include "framework/train/train.h"'
    accepts
}

@test "an upward include is refused, with file and line" {
    source_file framework/tensor/tensor.c '#include <stdio.h>' '  # include "framework/ops/ops.h"'
    refuses "framework/tensor/tensor.c:2: framework/tensor may not include framework/ops/ops.h"
}

@test "an op may not include the tape" {
    source_file framework/ops/add.c '#include "framework/autograd/tape.h"'
    refuses "framework/ops may not include framework/autograd/tape.h"
}

@test "a kernel that includes a tensor is refused" {
    source_file kernels/cpu/add.c '#include "framework/tensor/tensor.h"'
    refuses "kernels may not include framework/tensor/tensor.h"
}

@test "the framework may not include the harness" {
    source_file framework/train/train.c '#include "harness/run/run.h"'
    refuses "harness is a layer above it"
}

@test "a folder of the harness includes lower folders only, and has a rank" {
    source_file harness/stats/stats.c '#include "harness/record/record.h"' '#include "harness/stats/stats.h"'
    accepts
    source_file harness/stats/more.c '#include "harness/store/store.h"'
    refuses "harness/stats/more.c:1: harness/stats may not include harness/store/store.h: harness/store is not below it"
    rm "$tree/harness/stats/more.c"
    source_file harness/gate/gate.c '#include "harness/watch/watch.h"'
    refuses "harness/gate may not include harness/watch/watch.h"
    rm "$tree/harness/gate/gate.c"
    source_file harness/newcomer/a.c '#include "harness/record/record.h"'
    refuses "the folder harness/newcomer has no rank among those of the harness"
}

@test "only three folders of harness call the framework" {
    source_file harness/report/html.c '#include "framework/train/train.h"'
    refuses "harness/report/html.c:1: only harness/run, harness/cases and harness/launch call"
}

@test "the table's exceptions hold for their files only" {
    source_file harness/cli/verb_data.c '#include "framework/data/shard.h"'
    accepts
    source_file harness/cli/main.c '#include "framework/data/shard.h"'
    refuses "harness/cli/main.c:1:"
}

@test "sqlite3.h is harness/store's" {
    source_file harness/store/db.c '#include <sqlite3.h>'
    accepts
    source_file harness/report/html.c '#include <sqlite3.h>'
    refuses "only harness/store includes sqlite3.h"
}

@test "C++ outside .cu files is refused, as an include and as a file" {
    source_file framework/base/vector.c '#include <vector>'
    refuses "<vector> is C++"
    rm "$tree/framework/base/vector.c"
    source_file framework/base/vector.cpp 'int x;'
    refuses "framework/base/vector.cpp: C++ belongs in .cu files"
}

@test "a folder without a place in the order, and an include through .., are refused" {
    source_file framework/misc/a.c '#include "framework/base/str.h"'
    refuses "has no place in the layer order"
    rm "$tree/framework/misc/a.c"
    source_file framework/base/a.c '#include "../base/str.h"'
    refuses "include by the path from the root"
}

@test "a tree without sources is not called clean" {
    rm -rf "$tree/framework"
    refuses "no sources"
}

@test "no_circles.sh finds files that need each other, and a shared table is no circle" {
    cd "$tree"
    printf 'int bt_b(void); int bt_a(void); int bt_a(void) { return bt_b(); }\n' >a.c
    printf 'int bt_c(void); int bt_b(void); int bt_b(void) { return bt_c(); }\n' >b.c
    printf 'int bt_c(void); int bt_c(void) { return 3; }\n' >c.c
    cc -c a.c b.c c.c
    run "$root/tests/support/no_circles.sh" "" a.o b.o c.o
    echo "$output"
    [ "$status" -eq 0 ]
    printf 'int bt_a(void); int bt_c(void); int bt_c(void) { return bt_a(); }\n' >c.c
    cc -c c.c
    run "$root/tests/support/no_circles.sh" "" a.o b.o c.o
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *a.o*b.o*c.o* ]]
    run "$root/tests/support/no_circles.sh" bt_a a.o b.o c.o
    [ "$status" -eq 0 ]
    run "$root/tests/support/no_circles.sh" "" no-such-file.o
    [ "$status" -eq 2 ]
}

@test "no_circles.sh names each circle once, with what its files need of each other" {
    cd "$tree"
    printf 'int bt_b(void), bt_d(void), bt_a(void); int bt_a(void) { return bt_b() + bt_d(); }\n' >a.c
    printf 'int bt_a(void), bt_b(void), bt_d(void);\nint bt_b(void) { return bt_a(); }\nint bt_d(void) { return 4; }\n' >b.c
    printf 'int bt_a(void), bt_e(void); int bt_e(void) { return bt_a(); }\n' >e.c
    cc -c a.c b.c e.c
    run "$root/tests/support/no_circles.sh" "" a.o b.o e.o
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^a circle:$' <<<"$output")" -eq 1 ]
    [[ "$output" == *"a.o needs bt_b of b.o"*"a.o needs bt_d of b.o"*"b.o needs bt_a of a.o"* ]]
    [[ "$output" != *e.o* ]]
}

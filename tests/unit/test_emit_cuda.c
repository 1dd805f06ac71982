// tests/unit/test_emit_cuda.c - generated CUDA code: the contents of its PTX, and that ptxas
// accepts it
//
// Looked for: accesses of 16 bytes, shuffles, barriers, no local memory, nothing unresolved, no
// spills. Skipped parts: without libdevice texts that need it, without ptxas the assembling.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

static const int archs[] = {80, 89, 90};

static int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        ++count;
    }
    return count;
}

static const char *ptxas(void)
{
    static const char *const places[] = {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
    return access(places[0], X_OK) == 0   ? places[0]
           : access(places[1], X_OK) == 0 ? places[1]
                                          : NULL;
}

// ptxas makes a cubin without spilling.
static void assemble(const bt_target *target, const bt_code *ptx)
{
    char command[1024];
    void *said = NULL;
    size_t size = 0;
    const char *path = test_scratch_write("k.ptx", ptx->bytes, ptx->size_bytes);
    if (!ptxas()) {
        return;
    }
    (void)snprintf(command, sizeof command, "%s -v -arch=%s %s -o %s > %s 2>&1", ptxas(),
                   target->processor, path, test_scratch_path("k.cubin"),
                   test_scratch_path("said"));
    const int status = system(command); // NOLINT(cert-env33-c): a fixed command
    ASSERT_OK(bt_file_read(test_scratch_path("said"), &said, &size));
    if (status != 0 || !strstr(said, "0 bytes spill stores")) {
        print_message("%s\n", (char *)said);
    }
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "0 bytes spill stores, 0 bytes spill loads"));
    bt_mem_free(said);
}

// On sm_90 each kernel waits once for the previous one, before its first access to memory, and does
// not launch the next one early. Older targets lack the instruction.
static void look_for_waits(const char *ptx, bool expected)
{
    static const char wait[] = "griddepcontrol.wait;";
    assert_int_equal(occurrences(ptx, "griddepcontrol"), occurrences(ptx, wait));
    if (!expected) {
        assert_null(strstr(ptx, wait));
        return;
    }
    for (const char *kernel = strstr(ptx, ".entry"); kernel;
         kernel = strstr(kernel + 1, ".entry")) {
        const char *waits = strstr(kernel, wait), *next = strstr(kernel + 1, ".entry");
        const char *load = strstr(kernel, "ld.global"), *store = strstr(kernel, "st.global");
        assert_true(waits && (!next || waits < next));
        assert_true((!load || waits < load) && (!store || waits < store));
    }
}

// Calls look at (PTX) for every architecture.
static void lower(const bt_fused *group, void (*look)(const char *ptx, const void *with),
                  const void *with)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; ++i) {
        bt_emitted_cuda emitted;
        bt_target target;
        bt_code code;
        ASSERT_OK(bt_target_cuda(archs[i], &target));
        ASSERT_OK(bt_emit_cuda(group, NULL, target.has_early_launch, &emitted));
        assert_int_equal(emitted.is_early, archs[i] >= 90);
        const bt_status status = bt_lower(&target, bt_str_text(&emitted.text), NULL, &code, NULL);
        bt_str_release(&emitted.text);
        if (status == BT_STATUS_UNSUPPORTED && strstr(bt_error_message(), "libdevice")) {
            break;
        }
        ASSERT_OK(status);
        const char *ptx = code.bytes;
        assert_null(strstr(ptx, ".local"));
        assert_null(strstr(ptx, ".extern"));
        assert_null(strstr(ptx, "call"));
        look_for_waits(ptx, archs[i] >= 90);
        look(ptx, with);
        assemble(&target, &code);
        bt_code_release(&code);
    }
}

// What a kernel's PTX must contain.
typedef struct expected {
    const char *name;
    int wide_loads, wide_stores, shuffles, barriers; // wide: 16 bytes
} expected;

static void look_at(const char *ptx, const void *with)
{
    const expected *x = with;
    const int loads = occurrences(ptx, "ld.global.v4.") + occurrences(ptx, "ld.global.nc.v4.");
    const int stores = occurrences(ptx, "st.global.v4.");
    const int shuffles = occurrences(ptx, "shfl.sync.bfly.b32");
    const int barriers = occurrences(ptx, "bar.sync");
    if (loads != x->wide_loads || stores != x->wide_stores || shuffles != x->shuffles ||
        barriers != x->barriers) {
        fail_msg("%s: %d loads and %d stores of 16 bytes, %d shuffles, %d barriers; expected %d, "
                 "%d, %d, %d",
                 x->name, loads, stores, shuffles, barriers, x->wide_loads, x->wide_stores,
                 x->shuffles, x->barriers);
    }
}

static void test_rows(void **state)
{
    (void)state;
    const struct {
        bt_fused group;
        expected expected;
    } cases[] = {
        {group_softmax(BT_F32, 64, 256, BT_F32), {"softmax f32 256", 2, 2, 10, 0}},
        {group_softmax(BT_F32, 64, 1024, BT_F32), {"softmax f32 1024", 2, 2, 10, 2}},
        {group_softmax(BT_BF16, 64, 1024, BT_F32), {"softmax bf16 1024", 4, 4, 10, 0}},
        {group_layernorm(BT_F32, 64, 768, 1e-5, BT_F32), {"LayerNorm f32 768", 6, 2, 10, 2}},
        {group_layernorm(BT_BF16, 64, 768, 1e-5, BT_F32), {"LayerNorm bf16 768", 9, 3, 10, 0}},
        {group_rmsnorm(BT_F32, 64, 4096, 1e-6, BT_F32), {"RMSNorm f32 4096", 12, 8, 5, 1}},
        {group_rmsnorm(BT_BF16, 64, 1024, 1e-6, BT_F32), {"RMSNorm bf16 1024", 12, 8, 5, 0}},
        {group_cross_entropy(BT_F32, 64, 1024, BT_F32), {"cross-entropy f32", 2, 0, 15, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        lower(&cases[i].group, look_at, &cases[i].expected);
    }
}

// Rows that are no multiple of a pack, or end within the last: narrower accesses, the same tree.
static void test_odd_rows(void **state)
{
    (void)state;
    const struct {
        bt_fused group;
        expected expected;
    } cases[] = {
        {group_softmax(BT_F32, 5, 1, BT_F32), {"softmax of 1", 0, 0, 10, 0}},
        {group_softmax(BT_F32, 5, 33, BT_F32), {"softmax of 33", 0, 0, 10, 0}},
        {group_softmax(BT_F32, 5, 100, BT_F32), {"softmax of 100", 1, 1, 10, 0}},
        {group_softmax(BT_F32, 5, 1000, BT_F32), {"softmax of 1000", 2, 2, 10, 2}},
        {group_softmax(BT_BF16, 5, 5000, BT_F32), {"softmax of 5000", 3, 3, 10, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        lower(&cases[i].group, look_at, &cases[i].expected);
    }
}

// Four rows of two operands a turn (f32: both turns are unrolled); a barrier a kernel.
static void test_columns(void **state)
{
    (void)state;
    const struct {
        bt_fused group;
        expected expected;
    } cases[] = {
        {group_column(BT_F32, 1000, 768, BT_F32), {"columns f32", 16, 8, 0, 2}},
        {group_column(BT_BF16, 1000, 768, BT_F32), {"columns bf16", 8, 4, 0, 2}},
        {group_column(BT_F32, 7, 33, BT_F32), {"columns of 7 x 33", 0, 0, 0, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        lower(&cases[i].group, look_at, &cases[i].expected);
    }
}

// Wide accesses of A and B where their rows allow it, products on tensor cores, two barriers a
// step. Each case has one step of k, which is straight code.
typedef struct expected_product {
    const char *name, *multiply;
    int products, wide_loads;
} expected_product;

static void look_at_product(const char *ptx, const void *with)
{
    const expected_product *x = with;
    const int products = occurrences(ptx, x->multiply);
    const int loads = occurrences(ptx, "ld.global.v4.");
    const int barriers = occurrences(ptx, "bar.sync");
    if (products != x->products || loads != x->wide_loads || barriers != 2) {
        fail_msg("%s: %d mma, %d loads of 16 bytes, %d barriers; expected %d, %d, 2", x->name,
                 products, loads, barriers, x->products, x->wide_loads);
    }
}

static void test_products(void **state)
{
    (void)state;
    static const char bf16[] = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    static const char tf32[] = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
    const struct {
        bt_dtype dtype;
        product_sizes sizes;
        expected_product expected;
    } cases[] = {
        {BT_BF16, {1, 256, 192, 64, false, true, 0}, {"NT", bf16, 8, 4}},
        {BT_BF16, {1, 256, 192, 64, true, false, 0}, {"TN", bf16, 8, 4}},
        {BT_BF16, {48, 256, 192, 32, false, false, 0}, {"large tiles", bf16, 16, 4}},
        {BT_BF16, {2, 255, 193, 63, false, true, 0}, {"odd", bf16, 8, 0}},
        {BT_F32, {1, 256, 192, 32, false, true, 0}, {"tf32", tf32, 8, 4}},
        {BT_F32, {1, 255, 193, 31, true, true, 0}, {"odd tf32", tf32, 8, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const bt_fused group = group_product(cases[i].dtype, &cases[i].sizes, false);
        lower(&group, look_at_product, &cases[i].expected);
    }
}

static void any(const char *ptx, const void *with) { assert_non_null(strstr(ptx, with)); }

static void test_elementwise(void **state)
{
    (void)state;
    for (int f = 0; f < BT_UNARY_COUNT; ++f) {
        const bt_fused wide = group_unary(BT_F32, 1003, (bt_unary)f, 0.5);
        lower(&wide, any, "st.global.v4.");
        const bt_fused narrow = group_unary(BT_BF16, 1003, (bt_unary)f, 0.5);
        lower(&narrow, any, "st.global.v4.");
    }
}

static void test_refused(void **state)
{
    (void)state;
    bt_emitted_cuda emitted;
    const bt_fused column = group_column(BT_F32, 8, 8, BT_F64);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "column", bt_emit_cuda(&column, NULL, false, &emitted));
    const bt_fused ordered = group_softmax(BT_F32, 8, 1024, BT_F64);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "its order", bt_emit_cuda(&ordered, NULL, false, &emitted));
    bt_str_release(&emitted.text);
    const product_sizes sizes = {1, 8, 8, 8, false, true, 0};
    const bt_fused ascending = group_product(BT_BF16, &sizes, true);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "in their own order",
                 bt_emit_cuda(&ascending, NULL, false, &emitted));
    const bt_fused wide = group_product(BT_F64, &sizes, false);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "bf16 and tf32",
                 bt_emit_cuda(&wide, NULL, false, &emitted));
    bt_fused moved = group_product(BT_BF16, &sizes, false);
    moved.operands[0].offset_bytes = 8;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "a multiple of 16 bytes",
                 bt_emit_cuda(&moved, NULL, false, &emitted));
    // What is refused for its functions is known before it is emitted.
    const bt_fused doubles = group_unary(BT_F64, 8, BT_UNARY_SILU, 0);
    assert_non_null(bt_emit_cuda_refuses(&doubles));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "function of f64",
                 bt_emit_cuda(&doubles, NULL, false, &emitted));
    const bt_fused roots = group_unary(BT_F64, 8, BT_UNARY_SQRT, 0);
    assert_null(bt_emit_cuda_refuses(&roots));
    const bt_fused long_rows = group_softmax(BT_F32, 8, BT_CUDA_ROW_MOST * 4, BT_F32);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "rows of", bt_emit_cuda(&long_rows, NULL, false, &emitted));
}

// Blocks of generated code are counted in 32 bits, with the threads of each. Rows of 256 take a
// warp.
static void test_most_rows(void **state)
{
    (void)state;
    enum { WARP = 32, BLOCK_ROWS = 4 };
    const int64_t most = ((int64_t)UINT32_MAX / (WARP * BLOCK_ROWS)) * BLOCK_ROWS;
    bt_emitted_cuda emitted;
    bt_fused group = group_softmax(BT_F32, 8, 256, BT_F32);
    group.dynamic_rows = true;
    ASSERT_OK(bt_emit_cuda(&group, NULL, false, &emitted));
    assert_int_equal(emitted.threads, WARP * BLOCK_ROWS);
    ASSERT_OK(bt_emit_check_rows(&group, &emitted, most));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "at most 2^32 threads",
                 bt_emit_check_rows(&group, &emitted, most + 1));
    bt_str_release(&emitted.text);
}

int main(void)
{
    if (bt_compiler_available() == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_columns),   cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_products),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_most_rows),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}

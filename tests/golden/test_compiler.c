// tests/golden/test_compiler.c - the MLIR that each emitter writes, against kept texts
//
//   golden_compiler_test           compares
//   golden_compiler_test --write   writes tests/golden/compiler anew; look at the difference
// A changed text is not an error by itself: the tests of numbers and PTX check what the code does.
// This one shows in a review what a change of an emitter does to the code.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

static bool writing;

static void compare(const char *name, const bt_str *text)
{
    char path[256];
    void *kept = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "tests/golden/compiler/%s.mlir", name);
    if (writing) {
        ASSERT_OK(bt_file_write(path, bt_str_text(text), text->length_bytes));
        return;
    }
    ASSERT_OK(bt_file_read(path, &kept, &size));
    const char *a = kept, *b = bt_str_text(text);
    int line = 1;
    size_t at = 0;
    for (; a[at] && a[at] == b[at]; ++at) {
        line += a[at] == '\n';
    }
    if (a[at] != b[at]) {
        fail_msg("%s differs from line %d on; golden_compiler_test --write keeps what is made now",
                 path, line);
    }
    bt_mem_free(kept);
}

static void cpu(const char *name, const bt_fused group)
{
    bt_emitted emitted;
    ASSERT_OK(bt_emit_cpu(&group, &emitted));
    compare(name, &emitted.text);
    bt_emitted_release(&emitted);
}

static void cuda(const char *name, bool is_early, const bt_fused group)
{
    bt_emitted_cuda emitted;
    ASSERT_OK(bt_emit_cuda(&group, NULL, is_early, &emitted));
    compare(name, &emitted.text);
    bt_str_release(&emitted.text);
}

static void test_texts(void **state)
{
    (void)state;
    cpu("cpu_elementwise", group_unary(BT_F32, 100, BT_UNARY_RELU, 0));
    cpu("cpu_row", group_softmax(BT_F32, 8, 1000, BT_F64));
    cpu("cpu_column", group_column(BT_BF16, 8, 100, BT_F64));
    cuda("cuda_elementwise", false, group_unary(BT_BF16, 100, BT_UNARY_SQUARE, 0));
    cuda("cuda_column", false, group_column(BT_BF16, 300, 96, BT_F32));
    cuda("cuda_column_early", true, group_column(BT_BF16, 300, 96, BT_F32));
    const product_sizes sizes = {2, 40, 24, 48, false, true, 0};
    cpu("cpu_product", group_product(BT_BF16, &sizes, true));
    cuda("cuda_product", false, group_product(BT_BF16, &sizes, false));
    cuda("cuda_row", false, group_rmsnorm(BT_F32, 8, 512, 1e-5, BT_F32));
}

int main(int count, char **arguments)
{
    writing = count > 1 && strcmp(arguments[1], "--write") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

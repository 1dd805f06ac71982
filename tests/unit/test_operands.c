// tests/unit/test_operands.c - operands.inl against the structs of kernels.h
#include <stdlib.h>
#include <string.h>

#include "kernels/operands.h"
#include "tests/support/test.h"

static size_t attribute_bytes(bt_kernel_attribute_type type)
{
    return type == BT_KERNEL_ATTRIBUTE_BOOL   ? sizeof(bool)
           : type == BT_KERNEL_ATTRIBUTE_AXES ? BT_MAX_RANK * sizeof(int64_t)
           : type == BT_KERNEL_ATTRIBUTE_INT || type == BT_KERNEL_ATTRIBUTE_I32 ? sizeof(int)
                                                                                : sizeof(int64_t);
}

static void cover(unsigned char *seen, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        assert_int_equal(seen[offset + i], 0); // no byte is in two rows
        seen[offset + i] = 1;
    }
}

// Each byte of each struct belongs to one row, but padding, which is shorter than what it aligns;
// a field without a row leaves a hole after an aligned place.
static void rows_cover_each_struct(void **state)
{
    (void)state;
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        const size_t bytes = bt_kernel_operands_struct_bytes((bt_kernel_op)op);
        unsigned char *seen = calloc(bytes, 1);
        void *args = calloc(bytes, 1);
        bt_kernel_operand operands[BT_KERNEL_OPERANDS_MOST];
        const int count = bt_kernel_operands_of((bt_kernel_op)op, args, operands);
        const bt_kernel_attribute *attribute = NULL;
        for (int i = 0; i < count; ++i) {
            char *slot = (char *)bt_kernel_operand_slot((bt_kernel_op)op, args, i);
            cover(seen, (size_t)(slot - (char *)args), sizeof(void *));
            assert_false(operands[i].reads || operands[i].writes); // NULL is not an operand
        }
        for (int i = 0; (attribute = bt_kernel_attribute_at((bt_kernel_op)op, i)); ++i) {
            cover(seen, attribute->offset, attribute_bytes(attribute->type));
        }
        for (size_t i = 0; i < bytes && op != BT_KERNEL_GEMM_GROUPED; ++i) {
            const bool list = bt_kernel_operands_has_items((bt_kernel_op)op) && i < sizeof(void *);
            if (!seen[i] && !list && i % 4 == 0) {
                // 4 bytes of padding stand before what is aligned to 8, or at the end.
                if (i % 8 == 0) {
                    fail_msg("%s: byte %zu has no row", bt_kernel_op_name((bt_kernel_op)op), i);
                }
            }
        }
        free(args);
        free(seen);
    }
}

static void a_call_says_what_it_touches(void **state)
{
    (void)state;
    float x[64], y[64];
    bt_kernel_operand o[BT_KERNEL_OPERANDS_MOST];
    const bt_unary_backward_args unary = {
        .x = x, .dy = x, .dx = y, .count = 21, .dtype = BT_F32, .accumulate = true};
    assert_int_equal(bt_kernel_operands_of(BT_KERNEL_UNARY_BACKWARD, &unary, o), 3);
    assert_true(o[0].reads && !o[0].writes && o[2].reads && o[2].writes);
    // [3, 4] with b broadcast along the rows, a a column of a wider matrix
    const bt_binary_args binary = {.rank = 2,
                                   .shape = {3, 4},
                                   .a = x,
                                   .a_stride = {10, 1},
                                   .b = x,
                                   .b_stride = {0, 1},
                                   .y = y,
                                   .dtype = BT_F32};
    assert_int_equal(bt_kernel_operands_of(BT_KERNEL_BINARY, &binary, o), 3);
    assert_int_equal(o[0].count, 12);
    assert_int_equal(o[0].span, 24);
    assert_int_equal(o[1].count, 4);
    assert_int_equal(o[1].span, 4);
    assert_int_equal(o[2].span, 12);
    // A product that reads c, twice in a list
    const bt_gemm_args products[2] = {{.m = 2,
                                       .n = 3,
                                       .k = 4,
                                       .a = x,
                                       .b = x,
                                       .c = y,
                                       .d = y,
                                       .lda = 4,
                                       .ldb = 3,
                                       .ldc = 5,
                                       .ldd = 5,
                                       .batch = 1,
                                       .beta = 1},
                                      {.batch = 0}};
    const bt_gemm_grouped_args grouped = {products, 2};
    assert_int_equal(bt_kernel_operands_item_count(BT_KERNEL_GEMM_GROUPED, &grouped), 2);
    assert_int_equal(bt_kernel_operands_of_item(BT_KERNEL_GEMM_GROUPED, &grouped, 0, o), 7);
    assert_true(o[2].reads && o[3].writes && !o[4].reads);
    assert_int_equal(o[3].span, 8);
    assert_int_equal(bt_kernel_operands_of_item(BT_KERNEL_GEMM_GROUPED, &grouped, 1, o), 7);
    assert_false(o[0].reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_cover_each_struct),
                                       cmocka_unit_test(a_call_says_what_it_touches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

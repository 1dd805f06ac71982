// tests/unit/test_dialect.c - graphs in the bt dialect: verified, and damaged texts refused
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/compiler/dialect.h"
#include "framework/compiler/lower.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

static void need_compiler(void)
{
    if (bt_compiler_available()) {
        bt_error_clear();
        skip();
    }
}

// A node of every op, of fields that are all there. Zeros are attributes of f64.
static void every_op_verifies(void **state)
{
    (void)state;
    need_compiler();
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        void *args = calloc(bt_kernel_operands_struct_bytes((bt_kernel_op)op), 1);
        bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
        BT_SCOPED(bt_dag) g = {0};
        BT_SCOPED(bt_str) text = {0};
        bt_dag_node node = {.op = (bt_kernel_op)op, .args = args};
        void **slot = NULL;
        for (int i = 0; (slot = bt_kernel_operand_slot((bt_kernel_op)op, args, i)); ++i) {
            *slot = &node; // any memory: nothing is called
        }
        node.operand_count = bt_kernel_operands_of((bt_kernel_op)op, args, fields);
        for (int i = 0; i < node.operand_count; ++i) {
            bt_dag_operand *x = &node.operands[i];
            *x = (bt_dag_operand){.field = i, .result = -1};
            ASSERT_OK(bt_dag_input(&g, fields[i].dtype, 8, "before", &x->value));
            if (fields[i].writes) {
                ASSERT_OK(bt_dag_input(&g, fields[i].dtype, 8, "after", &x->result));
                g.values[x->result].producer = 0; // the node's
            }
        }
        if (!bt_kernel_operands_has_items((bt_kernel_op)op)) {
            ASSERT_OK(bt_dag_node_append(&g, &node));
            bt_dialect_print_graph(&g, &text);
            ASSERT_OK(bt_str_status(&text));
            ASSERT_OK(bt_dialect_verify(bt_str_text(&text)));
        }
        free(args);
    }
}

static void random_graphs_verify(void **state)
{
    (void)state;
    need_compiler();
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        BT_SCOPED(bt_dag) g = {0};
        BT_SCOPED(bt_str) text = {0};
        random_dag_make(seed, &g);
        bt_dialect_print_graph(&g, &text);
        ASSERT_OK(bt_str_status(&text));
        ASSERT_OK(bt_dialect_verify(bt_str_text(&text)));
    }
}

// `text` with its first `from` replaced.
static void refused(const char *text, const char *from, const char *to, const char *message)
{
    BT_SCOPED(bt_str) damaged = {0};
    const char *at = strstr(text, from);
    assert_non_null(at);
    bt_str_append_bytes(&damaged, text, (size_t)(at - text));
    bt_str_append(&damaged, to);
    bt_str_append(&damaged, at + strlen(from));
    ASSERT_OK(bt_str_status(&damaged));
    assert_int_equal(bt_dialect_verify(bt_str_text(&damaged)), BT_STATUS_INVALID_ARGUMENT);
    if (!strstr(bt_error_message(), message)) {
        fail_msg("%s", bt_error_message());
    }
    bt_error_clear();
}

static void damaged_texts_are_refused(void **state)
{
    (void)state;
    need_compiler();
    BT_SCOPED(bt_dag) g = {0};
    BT_SCOPED(bt_str) text = {0};
    int x = -1, y = -1;
    ASSERT_OK(bt_dag_input(&g, BT_F32, 6, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_GELU, 0, x, &y));
    ASSERT_OK(bt_dag_output(&g, y));
    bt_dialect_print_graph(&g, &text);
    ASSERT_OK(bt_str_status(&text));
    const char *good = bt_str_text(&text);
    ASSERT_OK(bt_dialect_verify(good));
    refused(good, "bt.unary", "bt.unari", "unregistered operation 'bt.unari'");
    refused(good, "\"(%v0) {phase", "\"(%v0, %v0) {phase", "expected 2 operand types");
    refused(good, "function = \"gelu\", ", "", "function");
    refused(good, "function = \"gelu\"", "function = 3 : i32", "string");
    refused(good, "dtype = f32", "dtype = bf16", "f32");
    refused(good, "(!bt.value<f32, 6 : i64>) -> (!bt.value<f32, 6 : i64>)",
            "(!bt.value<f32, 6 : i64>) -> (!bt.value<i32, 6 : i64>)", "i32");
    refused(good, "!bt.value<f32, 6 : i64>", "!bt.value<f32>", "expected 2 type arguments");
}

// A product without its second matrix, one whose bias has another type than its use, and one of
// another type than its attribute.
static void operands_must_be_there_and_of_one_type(void **state)
{
    (void)state;
    need_compiler();
    BT_SCOPED(bt_dag) g = {0};
    BT_SCOPED(bt_str) good = {0};
    BT_SCOPED(bt_str) missing = {0};
    const bt_gemm_args args = {.m = 2,
                               .n = 3,
                               .k = 4,
                               .lda = 4,
                               .ldb = 3,
                               .ldd = 3,
                               .batch = 1,
                               .alpha = 1,
                               .epilogue = BT_EPILOGUE_BIAS,
                               .ab_dtype = BT_BF16,
                               .d_dtype = BT_F32};
    int values[3] = {-1, -1, -1}, results[4];
    ASSERT_OK(bt_dag_input(&g, BT_BF16, 8, "a", &values[0]));
    ASSERT_OK(bt_dag_input(&g, BT_BF16, 12, "b", &values[1]));
    ASSERT_OK(bt_dag_input(&g, BT_BF16, 3, "bias", &values[2]));
    const bt_dag_binding bindings[] = {{.field = "a", .value = values[0]},
                                       {.field = "b", .value = values[1]},
                                       {.field = "bias", .value = values[2]},
                                       {.field = "d", .value = -1}};
    ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &args, bindings, 4, results));
    ASSERT_OK(bt_dag_output(&g, results[3]));
    bt_dialect_print_graph(&g, &good);
    ASSERT_OK(bt_str_status(&good));
    ASSERT_OK(bt_dialect_verify(bt_str_text(&good)));
    refused(bt_str_text(&good), "!bt.value<bf16, 3 : i64> {", "!bt.value<f32, 3 : i64> {",
            "expects different type");
    refused(bt_str_text(&good), "d_dtype = f32", "d_dtype = bf16", "bf16");
    for (int i = 0; i < g.nodes[0].operand_count; ++i) {
        bt_dag_operand *x = &g.nodes[0].operands[i];
        x->value = x->value == values[1] ? -1 : x->value;
    }
    bt_dialect_print_graph(&g, &missing);
    assert_int_equal(bt_dialect_verify(bt_str_text(&missing)), BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(bt_error_message(), "operand"));
    bt_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_verifies),
        cmocka_unit_test(random_graphs_verify),
        cmocka_unit_test(damaged_texts_are_refused),
        cmocka_unit_test(operands_must_be_there_and_of_one_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

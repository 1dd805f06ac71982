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

// A node of every op, of fields that are all there.
static void every_op_verifies(void **state)
{
    (void)state;
    need_compiler();
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        void *args = calloc(bt_kernel_operands_struct_bytes((bt_kernel_op)op), 1);
        bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
        BT_SCOPED(bt_dag) g = {0};
        BT_SCOPED(bt_str) text = {0};
        int x = -1;
        ASSERT_OK(bt_dag_input(&g, BT_F32, 8, "x", &x));
        bt_dag_node node = {.op = (bt_kernel_op)op, .args = args};
        node.operand_count = bt_kernel_operands_of((bt_kernel_op)op, args, fields);
        for (int i = 0; i < node.operand_count; ++i) {
            node.operands[i] = (bt_dag_operand){.field = i, .value = x, .result = -1};
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
    refused(good, "operand_segment_sizes = array<i32: 1, 0>",
            "operand_segment_sizes = array<i32: 0, 0>", "operand");
    refused(good, "function = \"gelu\", ", "", "function");
    refused(good, "function = \"gelu\"", "function = 3 : i32", "string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_verifies),
        cmocka_unit_test(random_graphs_verify),
        cmocka_unit_test(damaged_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

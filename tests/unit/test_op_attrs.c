// tests/unit/test_op_attrs.c - attributes of ops: their tables cover every field, compare and print
#include <string.h>

#include "framework/ops/ops.h"
#include "framework/ops/view.h"
#include "tests/support/op_samples.h"
#include "tests/support/test.h"

// Calls check() with every case of every op.
static void each_sample(void (*check)(const bt_op *op, const op_sample *sample))
{
    int count = 0;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        const bt_op *op = bt_op_row((bt_op_id)id);
        op_sample sample;
        for (int variant = 0; op_sample_of((bt_op_id)id, variant, &sample); ++variant, ++count) {
            check(op, &sample);
        }
    }
    assert_true(count > BT_OP_COUNT);
}

// Fields follow each other without a gap that could hold one more; each is whole values of its
// kind.
static void tables_cover_their_structs(void **state)
{
    (void)state;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        const bt_op_attrs *attrs = bt_op_row((bt_op_id)id)->attrs;
        size_t end = 0, widest = 1;
        assert_true(attrs->size_bytes <= BT_OP_ATTRS_BYTES);
        for (int i = 0; i < attrs->field_count; ++i) {
            const bt_attr_field *field = &attrs->fields[i];
            const size_t size = bt_attr_size(field->kind);
            const size_t align = field->kind == BT_ATTR_SHAPE ? sizeof(int64_t) : size;
            assert_true(field->size_bytes > 0 && field->size_bytes % size == 0);
            assert_int_equal(field->offset, (end + align - 1) / align * align);
            end = field->offset + field->size_bytes;
            widest = align > widest ? align : widest;
        }
        assert_int_equal(attrs->size_bytes,
                         attrs->field_count ? (end + widest - 1) / widest * widest : 0);
    }
}

static void check_print(const bt_op *op, const op_sample *sample)
{
    bt_str text = {0};
    bt_op_attrs_print(op->attrs, sample->attrs, &text);
    ASSERT_OK(bt_str_status(&text));
    assert_int_equal(strlen(bt_str_text(&text)) > 0, op->attrs->field_count > 0);
    for (int i = 0; i < op->attrs->field_count; ++i) {
        assert_non_null(strstr(bt_str_text(&text), op->attrs->fields[i].name));
    }
    assert_null(strstr(bt_str_text(&text), "unknown"));
    bt_str_release(&text);
}

static void every_field_is_printed(void **state)
{
    (void)state;
    each_sample(check_print);
}

static void assert_prints(bt_op_id id, int variant, const char *expected)
{
    bt_str text = {0};
    op_sample sample;
    assert_true(op_sample_of(id, variant, &sample));
    bt_op_attrs_print(bt_op_row(id)->attrs, sample.attrs, &text);
    assert_string_equal(bt_str_text(&text), expected);
    bt_str_release(&text);
}

static void values_are_printed_as_users_write_them(void **state)
{
    (void)state;
    assert_prints(BT_OP_UNARY, 0, "function gelu, alpha 1.5");
    assert_prints(BT_OP_SUM, 1, "axis 1");
    assert_prints(BT_OP_LAYERNORM, 0, "epsilon 1.0000000000000001e-05");
    assert_prints(BT_OP_LINEAR, 3, "activation gelu");
    assert_prints(BT_OP_CAST, 0, "dtype f64");
    assert_prints(BT_OP_RESHAPE, 0, "shape [2, 3, 2]");
    assert_prints(BT_OP_PERMUTE, 0, "axis 2 0 1 0 0 0 0 0");
    assert_prints(BT_OP_ALL_GATHER, 1,
                  "group none, axis 1, in_place false, aside none, slot 0, awaits 0");
    assert_prints(BT_OP_SOFTMAX, 0, "");
}

static void roles_name_inputs_and_outputs(void **state)
{
    (void)state;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        const bt_op *op = bt_op_row((bt_op_id)id);
        for (int i = 0; i < BT_OP_MAX_INPUTS; ++i) {
            assert_int_equal(op->in_role[i] != NULL, i < op->in_count);
            for (int k = 0; k < i && i < op->in_count; ++k) {
                assert_string_not_equal(op->in_role[i], op->in_role[k]);
            }
        }
        for (int i = 0; i < BT_OP_MAX_OUTPUTS; ++i) {
            assert_int_equal(op->out_role[i] != NULL, i < op->out_count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_cover_their_structs),
        cmocka_unit_test(every_field_is_printed),
        cmocka_unit_test(values_are_printed_as_users_write_them),
        cmocka_unit_test(roles_name_inputs_and_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// framework/ops/attrs.c - compares and prints attributes using their tables
#include "framework/ops/attrs.h"

#include <string.h>

#include "framework/ops/ops.h"

const bt_op_attrs bt_attrs_none = {0};

// ---- one printer per kind -----------------------------------------------------------------------

static void print_bool(const void *at, bt_str *out)
{
    bt_str_append(out, *(const bool *)at ? "true" : "false");
}

static void print_int(const void *at, bt_str *out) { bt_str_format(out, "%d", *(const int *)at); }

static void print_i32(const void *at, bt_str *out)
{
    bt_str_format(out, "%lld", (long long)*(const int32_t *)at);
}

static void print_i64(const void *at, bt_str *out)
{
    bt_str_format(out, "%lld", (long long)*(const int64_t *)at);
}

static void print_u64(const void *at, bt_str *out)
{
    bt_str_format(out, "%llu", (unsigned long long)*(const uint64_t *)at);
}

static void print_real(const void *at, bt_str *out)
{
    bt_str_format(out, "%.17g", *(const double *)at);
}

static void print_unary(const void *at, bt_str *out)
{
    bt_str_append(out, bt_unary_name(*(const bt_unary *)at));
}

static void print_binary(const void *at, bt_str *out)
{
    bt_str_append(out, bt_binary_name(*(const bt_binary *)at));
}

static void print_activation(const void *at, bt_str *out)
{
    bt_str_append(out, *(const bt_activation *)at == BT_ACTIVATION_GELU ? "gelu" : "none");
}

static void print_dtype(const void *at, bt_str *out)
{
    bt_str_append(out, bt_dtype_name(*(const bt_dtype *)at));
}

static void print_shape(const void *at, bt_str *out)
{
    char text[BT_SHAPE_TEXT_BYTES];
    bt_str_append(out, bt_shape_text(at, text));
}

static bool is_null(const void *at)
{
    static const unsigned char zeros[sizeof(void *)];
    return memcmp(at, zeros, sizeof zeros) == 0;
}

// Addresses differ between runs.
static void print_pointer(const void *at, bt_str *out)
{
    bt_str_append(out, is_null(at) ? "none" : "given");
}

static const struct {
    size_t size_bytes;
    void (*print)(const void *at, bt_str *out);
} kinds[BT_ATTR_KIND_COUNT] = {
    [BT_ATTR_BOOL] = {sizeof(bool), print_bool},
    [BT_ATTR_INT] = {sizeof(int), print_int},
    [BT_ATTR_I32] = {sizeof(int32_t), print_i32},
    [BT_ATTR_I64] = {sizeof(int64_t), print_i64},
    [BT_ATTR_U64] = {sizeof(uint64_t), print_u64},
    [BT_ATTR_REAL] = {sizeof(double), print_real},
    [BT_ATTR_UNARY] = {sizeof(bt_unary), print_unary},
    [BT_ATTR_BINARY] = {sizeof(bt_binary), print_binary},
    [BT_ATTR_ACTIVATION] = {sizeof(bt_activation), print_activation},
    [BT_ATTR_DTYPE] = {sizeof(bt_dtype), print_dtype},
    [BT_ATTR_SHAPE] = {sizeof(bt_shape), print_shape},
    [BT_ATTR_POINTER] = {sizeof(void *), print_pointer},
};

size_t bt_attr_size(bt_attr_kind kind) { return kinds[kind].size_bytes; }

// ---- structs ------------------------------------------------------------------------------------

void bt_op_attrs_print(const bt_op_attrs *attrs, const void *values, bt_str *out)
{
    for (int i = 0; i < attrs->field_count; ++i) {
        const bt_attr_field *field = &attrs->fields[i];
        bt_str_format(out, "%s%s", i ? ", " : "", field->name);
        for (size_t at = 0; at < field->size_bytes; at += kinds[field->kind].size_bytes) {
            bt_str_append(out, " ");
            kinds[field->kind].print((const char *)values + field->offset + at, out);
        }
    }
}

// kernels/operands.c - operands.inl as functions
#include "kernels/operands.h"

#include <string.h>

#define ARGS(name, text, args) typedef args args_##name;
BT_KERNEL_OP_LIST(ARGS)
#undef ARGS

size_t bt_kernel_operands_struct_bytes(bt_kernel_op op)
{
    static const size_t bytes[] = {
#define BYTES(name, text, args) sizeof(args),
        BT_KERNEL_OP_LIST(BYTES)
#undef BYTES
    };
    return bytes[op];
}

static int64_t product_of(int rank, const int64_t *shape)
{
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) {
        product *= shape[i];
    }
    return product;
}

// Elements that are not broadcast copies of another.
static int64_t distinct_of(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) {
        product *= stride[i] == 0 && shape[i] > 0 ? 1 : shape[i];
    }
    return product;
}

static int64_t span_of(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t last = 0;
    for (int i = 0; i < rank; ++i) {
        if (shape[i] == 0) {
            return 0;
        }
        last += (shape[i] - 1) * stride[i];
    }
    return last + 1;
}

static int64_t rows_span_of(int64_t rows, int64_t cols, int64_t stride)
{
    return span_of(2, (int64_t[]){rows, cols}, (int64_t[]){stride, 1});
}

static int64_t batch_span_of(int64_t batch, int64_t step, int64_t rows, int64_t cols,
                             int64_t stride)
{
    return span_of(3, (int64_t[]){batch, rows, cols}, (int64_t[]){step, stride, 1});
}

static int64_t view_span_of(const bt_attention_view *view, int64_t batch, int64_t tokens,
                            int64_t heads, int64_t dim)
{
    return span_of(4, (int64_t[]){batch, tokens, heads, dim},
                   (int64_t[]){view->batch_stride, view->token_stride, view->head_stride, 1});
}

static void describe(const char *name, const void *pointer, bool reads, bool writes, bt_dtype dtype,
                     int64_t count, int64_t span, bt_kernel_operand *out)
{
    *out =
        (bt_kernel_operand){name, pointer, pointer && reads, pointer && writes, dtype, count, span};
}

int bt_kernel_operands_of(bt_kernel_op op, const void *args, bt_kernel_operand *out)
{
    int n = 0;
#define BT_OPERAND(OP, field, reads, writes, dtype, count, span)                                   \
    if (op == BT_KERNEL_##OP) {                                                                    \
        const args_##OP *o = args;                                                                 \
        describe(#field, o->field, reads, writes, dtype, count, span, &out[n++]);                  \
    }
#include "kernels/operands.inl"
    return n;
}

void **bt_kernel_operand_slot(bt_kernel_op op, void *args, int n)
{
    static const struct {
        bt_kernel_op op;
        size_t offset;
    } fields[] = {
#define BT_OPERAND(OP, field, ...) {BT_KERNEL_##OP, offsetof(args_##OP, field)},
#include "kernels/operands.inl"
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (fields[i].op == op && n-- == 0) {
            return (void **)(void *)((char *)args + fields[i].offset);
        }
    }
    return NULL;
}

bool bt_kernel_operands_has_items(bt_kernel_op op)
{
#define BT_OPERAND_OF(OP, ...)                                                                     \
    if (op == BT_KERNEL_##OP) {                                                                    \
        return true;                                                                               \
    }
#include "kernels/operands.inl"
    return op == BT_KERNEL_GEMM_GROUPED;
}

int64_t bt_kernel_operands_item_count(bt_kernel_op op, const void *args)
{
#define BT_OPERAND_OF(OP, ...)                                                                     \
    if (op == BT_KERNEL_##OP) {                                                                    \
        const args_##OP *o = args;                                                                 \
        return o->item_count;                                                                      \
    }
#include "kernels/operands.inl"
    return op == BT_KERNEL_GEMM_GROUPED ? ((const bt_gemm_grouped_args *)args)->count : 0;
}

int bt_kernel_operands_of_item(bt_kernel_op op, const void *args, int64_t item,
                               bt_kernel_operand *out)
{
    int n = 0;
    if (op == BT_KERNEL_GEMM_GROUPED) {
        const bt_gemm_grouped_args *o = args;
        return bt_kernel_operands_of(BT_KERNEL_GEMM, &o->products[item], out);
    }
#define BT_OPERAND_OF(OP, list, field, reads, writes, dtype, elements)                             \
    if (op == BT_KERNEL_##OP) {                                                                    \
        const args_##OP *o = args;                                                                 \
        const __typeof__(*o->list) *i = &o->list[item];                                            \
        describe(#field, i->field, reads, writes, dtype, elements, elements, &out[n++]);           \
    }
#include "kernels/operands.inl"
    return n;
}

const bt_kernel_attribute *bt_kernel_attribute_at(bt_kernel_op op, int n)
{
    static const bt_kernel_attribute attributes[] = {
#define BT_ATTRIBUTE(OP, field, type)                                                              \
    {BT_KERNEL_##OP, #field, offsetof(args_##OP, field), BT_KERNEL_ATTRIBUTE_##type},
#include "kernels/operands.inl"
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; ++i) {
        if (attributes[i].op == op && n-- == 0) {
            return &attributes[i];
        }
    }
    return NULL;
}

bt_dtype bt_kernel_main_dtype(bt_kernel_op op, const void *args)
{
    const bt_kernel_attribute *attribute = NULL;
    bt_dtype dtype = BT_DTYPE_COUNT;
    if (op == BT_KERNEL_GEMM_GROUPED) {
        const bt_gemm_grouped_args *grouped = args;
        return grouped->count ? grouped->products[0].ab_dtype : BT_DTYPE_COUNT;
    }
    for (int i = 0; (attribute = bt_kernel_attribute_at(op, i)); ++i) {
        const size_t length = strlen(attribute->name);
        if (length >= 5 && strcmp(attribute->name + length - 5, "dtype") == 0) {
            memcpy(&dtype, (const char *)args + attribute->offset, sizeof dtype);
            break;
        }
    }
    return dtype;
}

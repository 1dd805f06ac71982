// framework/compiler/group_shape.c - merging the axes of a group, and the bytes that it moves
#include "framework/compiler/group.h"

// Can axis i be merged with the next axis?
static bool merges(const bt_fused *g, int i, bool reduces)
{
    if ((reduces && i + 2 == g->rank) || g->kind >= BT_FUSED_PRODUCT) {
        return false;
    }
    for (int k = 0; k < g->operand_count; ++k) {
        const int64_t *stride = g->operands[k].stride;
        if (stride[i] != stride[i + 1] * g->shape[i + 1]) {
            return false;
        }
    }
    for (int k = 0; k < g->code_count; ++k) {
        if (g->code[k].op == BT_FUSED_INDEX) {
            return false;
        }
    }
    return true;
}

static void merge(bt_fused *g, int i)
{
    g->shape[i + 1] *= g->shape[i];
    for (int k = i; k + 1 < g->rank; ++k) {
        g->shape[k] = g->shape[k + 1];
        for (int n = 0; n < g->operand_count; ++n) {
            g->operands[n].stride[k] = g->operands[n].stride[k + 1];
        }
    }
    g->rank -= 1;
    g->shape[g->rank] = 0;
    for (int n = 0; n < g->operand_count; ++n) {
        g->operands[n].stride[g->rank] = 0;
    }
}

void bt_fused_collapse(bt_fused *group)
{
    bool reduces = false;
    for (int i = 0; i < group->code_count; ++i) {
        reduces = reduces || bt_fused_op_reduces(group->code[i].op);
    }
    for (int i = group->rank - 2; i >= 0; --i) {
        if (merges(group, i, reduces)) {
            merge(group, i);
        }
    }
    for (int i = 0; i < group->code_count; ++i) {
        group->code[i].extent = bt_fused_extent_of(group, &group->code[i]);
    }
}

// The number of distinct elements of an operand.
static int64_t distinct(const bt_fused *g, const bt_fused_operand *operand)
{
    int64_t count = 1;
    for (int i = 0; i < g->rank; ++i) {
        count *= operand->stride[i] ? g->shape[i] : 1;
    }
    return count;
}

// No stride of the group describes the operands of the product or attention itself.
static bool is_of_call(const bt_fused *g, int operand)
{
    return operand == g->call_operand[0] || operand == g->call_operand[1] ||
           operand == g->call_operand[2];
}

int64_t bt_fused_bytes(const bt_fused *group)
{
    int64_t bytes = 0;
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *x = &group->operands[i];
        const int64_t count = is_of_call(group, i) ? x->count : distinct(group, x);
        bytes += (x->is_read + x->is_written) * count * (int64_t)bt_dtype_size(x->dtype);
    }
    return bytes;
}

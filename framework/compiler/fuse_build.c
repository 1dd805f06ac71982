// framework/compiler/fuse_build.c - operands of a group of calls, and the values that it makes
#include "framework/compiler/fuse_build.h"

#include <string.h>

void bt_fuse_refuse(bt_fuse_build *b, const char *why) { b->why = b->why ? b->why : why; }

const bt_dag_operand *bt_fuse_operand(const bt_dag_node *node, int field)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].field == field) {
            return &node->operands[i];
        }
    }
    return NULL;
}

static bt_dtype computed_in(bt_dtype dtype) { return dtype == BT_F64 ? BT_F64 : BT_F32; }

// The layout of a value that the group computes: that of its domain.
static void own_strides(const bt_fused *g, bt_fuse_domain domain, int64_t *stride)
{
    int64_t step = 1;
    const int axes = domain == BT_FUSE_ROWS ? g->rank - 1 : g->rank;
    memset(stride, 0, BT_MAX_RANK * sizeof *stride);
    for (int i = axes - 1; i >= 0; --i) {
        stride[i] = g->shape[i] > 1 ? step : 0;
        step *= g->shape[i];
    }
}

static bool same_strides(const bt_fused *g, const int64_t *a, const int64_t *b)
{
    for (int i = 0; i < g->rank; ++i) {
        if (g->shape[i] > 1 && a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

static int find_made(const bt_fuse_build *b, int value)
{
    for (int i = 0; i < b->made_count; ++i) {
        if (b->made[i].value == value) {
            return i;
        }
    }
    return -1;
}

// The operand if the group already reads it, else a new one.
static int find_load(bt_fuse_build *b, int value, int64_t offset_bytes, bt_dtype dtype,
                     const int64_t *stride)
{
    bt_fused *g = b->group;
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        const bt_fused_operand *y = x->op == BT_FUSED_LOAD ? &g->operands[x->operand] : NULL;
        if (y && y->value == value && y->offset_bytes == offset_bytes && y->dtype == dtype &&
            same_strides(g, y->stride, stride)) {
            return i;
        }
    }
    const int operand = bt_fused_operand_add(&b->builder, dtype, stride);
    if (operand >= 0) {
        g->operands[operand].value = value;
        g->operands[operand].offset_bytes = offset_bytes;
    }
    return bt_fused_load(&b->builder, operand);
}

int bt_fuse_load(bt_fuse_build *b, const bt_dag_node *node, int field, bt_fuse_domain domain,
                 int shape_rank, const int64_t *shape, const int64_t *stride)
{
    const bt_fused *g = b->group;
    const bt_dag_operand *x = bt_fuse_operand(node, field);
    int64_t seen[BT_MAX_RANK], own[BT_MAX_RANK];
    if (b->why || !x) {
        bt_fuse_refuse(b, "an operand is missing");
        return -1;
    }
    const bt_dtype dtype = b->graph->values[x->value].dtype;
    const int made = find_made(b, x->value);
    if (dtype != BT_F64 && dtype != BT_F32 && dtype != BT_BF16) {
        bt_fuse_refuse(b, "it reads integers");
        return -1;
    }
    own_strides(g, domain, seen);
    if (stride) {
        bt_fuse_strides(g->rank, g->shape, shape_rank, shape, stride, seen);
    }
    if (made < 0) {
        const int loaded = find_load(b, x->value, x->offset_bytes, dtype, seen);
        return bt_fused_cast(&b->builder, loaded, computed_in(dtype));
    }
    own_strides(g, b->made[made].domain, own);
    if (x->offset_bytes != 0 || !same_strides(g, own, seen)) {
        bt_fuse_refuse(b, "it reads a value of the group in another layout");
        return -1;
    }
    return bt_fused_cast(&b->builder, b->made[made].instruction, computed_in(dtype));
}

static bool in_group(const bt_fuse_build *b, int node)
{
    for (int i = 0; i < b->count; ++i) {
        if (b->nodes[i] == node) {
            return true;
        }
    }
    return false;
}

// Do calls outside of the group read the value?
static bool leaves_group(const bt_fuse_build *b, int value)
{
    if (b->graph->values[value].is_output) {
        return true;
    }
    for (int i = b->graph->values[value].producer + 1; i < b->graph->node_count; ++i) {
        const bt_dag_node *node = &b->graph->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].value == value && !in_group(b, i)) {
                return true;
            }
        }
    }
    return false;
}

void bt_fuse_define(bt_fuse_build *b, const bt_dag_node *node, int field, bt_fuse_domain domain,
                    int instruction)
{
    bt_fused *g = b->group;
    const bt_dag_operand *y = bt_fuse_operand(node, field);
    if (b->why || !y) {
        return;
    }
    const bt_dag_value *value = &b->graph->values[y->result];
    const int64_t count =
        bt_fuse_elements(domain == BT_FUSE_ROWS ? g->rank - 1 : g->rank, g->shape);
    if (y->offset_bytes != 0 || bt_dag_value_count(value) != count) {
        bt_fuse_refuse(b, "it writes a part of a storage");
        return;
    }
    const int rounded = bt_fused_cast(&b->builder, instruction, value->dtype);
    if (b->made_count == BT_FUSED_CODE_MOST || rounded < 0) {
        return; // the builder reports why
    }
    b->made[b->made_count].value = y->result;
    b->made[b->made_count].instruction = rounded;
    b->made[b->made_count++].domain = domain;
    if (leaves_group(b, y->result) && domain == BT_FUSE_ROWS && !b->row_reduction) {
        bt_fuse_refuse(b, "its value per row is read outside, and only groups of rows store one");
    } else if (leaves_group(b, y->result)) {
        int64_t stride[BT_MAX_RANK];
        own_strides(g, domain, stride);
        const int operand = bt_fused_operand_add(&b->builder, value->dtype, stride);
        if (operand >= 0) {
            g->operands[operand].value = y->result;
            bt_fused_store(&b->builder, operand, rounded);
        }
    }
}

// framework/compiler/group.c - building and checking fused groups
#include "framework/compiler/group.h"

#include <string.h>

enum { USES_MOST = 3 }; // a, b, c

bool bt_fused_is_softmax_exp(const bt_fused *g, const bt_fused_instruction *x)
{
    const bt_fused_instruction *a = x->op == BT_FUSED_UNARY ? &g->code[x->a] : NULL;
    return a && x->function == BT_UNARY_EXP && a->op == BT_FUSED_SUB &&
           g->code[a->b].op == BT_FUSED_ROW_MAX && g->code[a->b].a == a->a;
}

static bool is_store(bt_fused_op op) { return op == BT_FUSED_STORE || op == BT_FUSED_STORE_ADD; }

static bool uses_operand(bt_fused_op op) { return op == BT_FUSED_LOAD || is_store(op); }

bt_fused_order bt_fused_lanes(bt_dtype part, int64_t block, bt_dtype sum)
{
    return (bt_fused_order){.lanes = 32, .block = block, .part = part, .sum = sum};
}

bt_status bt_fused_init(bt_fused *group, bt_fused_kind kind, const int64_t *shape, int rank)
{
    *group = (bt_fused){.kind = kind, .rank = rank, .call_operand = {-1, -1, -1}};
    if (rank < 1 || rank > BT_MAX_RANK) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a group of rank %d, allowed 1 to %d", rank,
                        BT_MAX_RANK);
    }
    for (int i = 0; i < rank; ++i) {
        group->shape[i] = shape[i];
        if (shape[i] < 1) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "axis %d of a group is %lld, allowed from 1", i, (long long)shape[i]);
        }
    }
    return BT_OK;
}

// ---- building -----------------------------------------------------------------------------------

static bool fail(bt_fused_builder *b, bt_status status)
{
    b->status = b->status ? b->status : status;
    return b->status != BT_OK;
}

int bt_fused_operand_add(bt_fused_builder *b, bt_dtype dtype, const int64_t *stride)
{
    bt_fused *g = b->group;
    if (b->status) {
        return -1;
    }
    if (g->operand_count == BT_FUSED_OPERANDS_MOST) {
        (void)fail(b, bt_error(BT_STATUS_UNSUPPORTED, "a group of more than %d operands",
                               BT_FUSED_OPERANDS_MOST));
        return -1;
    }
    bt_fused_operand *operand = &g->operands[g->operand_count];
    *operand = (bt_fused_operand){.dtype = dtype, .count = 1, .value = -1};
    for (int i = g->rank - 1; i >= 0 && !stride; --i) {
        operand->stride[i] = i == g->rank - 1 ? 1 : operand->stride[i + 1] * g->shape[i + 1];
    }
    for (int i = 0; i < g->rank; ++i) {
        operand->stride[i] = stride ? stride[i] : operand->stride[i];
        operand->count += (g->shape[i] - 1) * operand->stride[i];
    }
    return g->operand_count++;
}

// Does an operand differ along the last axis, along any other?
static bt_fused_extent operand_extent(const bt_fused *g, const bt_fused_operand *operand)
{
    bool rows = false;
    const bool columns = operand->stride[g->rank - 1] != 0 && g->shape[g->rank - 1] > 1;
    for (int i = 0; i + 1 < g->rank; ++i) {
        rows = rows || (operand->stride[i] != 0 && g->shape[i] > 1);
    }
    return rows && columns ? BT_FUSED_FULL
           : rows          ? BT_FUSED_PER_ROW
           : columns       ? BT_FUSED_PER_COLUMN
                           : BT_FUSED_SCALAR;
}

// Extent of a value that differs at every index.
static bt_fused_extent whole(const bt_fused *g)
{
    bt_fused_operand contiguous = {.dtype = BT_F32};
    for (int i = 0; i < g->rank; ++i) {
        contiguous.stride[i] = 1;
    }
    return operand_extent(g, &contiguous);
}

static bt_fused_extent join(bt_fused_extent a, bt_fused_extent b)
{
    return a == b ? a : a == BT_FUSED_SCALAR ? b : b == BT_FUSED_SCALAR ? a : BT_FUSED_FULL;
}

bt_fused_extent bt_fused_extent_of(const bt_fused *g, const bt_fused_instruction *x)
{
    const int uses[] = {x->a, x->b, x->c};
    bt_fused_extent extent = BT_FUSED_SCALAR;
    for (int i = 0; i < USES_MOST && i < bt_fused_op_uses(x->op); ++i) {
        extent = join(extent, g->code[uses[i]].extent);
    }
    switch (x->op) {
    case BT_FUSED_LOAD:
        return operand_extent(g, &g->operands[x->operand]);
    case BT_FUSED_INDEX:
        return x->axis == g->rank - 1 ? BT_FUSED_PER_COLUMN : BT_FUSED_PER_ROW;
    case BT_FUSED_RESULT:
    case BT_FUSED_KEEP:
        return whole(g);
    case BT_FUSED_ROW_SUM:
    case BT_FUSED_ROW_DOT:
    case BT_FUSED_ROW_MAX:
        return extent == BT_FUSED_FULL || extent == BT_FUSED_PER_ROW ? BT_FUSED_PER_ROW
                                                                     : BT_FUSED_SCALAR;
    case BT_FUSED_COLUMN_SUM:
        return extent == BT_FUSED_FULL || extent == BT_FUSED_PER_COLUMN ? BT_FUSED_PER_COLUMN
                                                                        : BT_FUSED_SCALAR;
    case BT_FUSED_CONST:
    case BT_FUSED_CAST:
    case BT_FUSED_UNARY:
    case BT_FUSED_SLOPE:
    case BT_FUSED_ADD:
    case BT_FUSED_SUB:
    case BT_FUSED_MUL:
    case BT_FUSED_DIV:
    case BT_FUSED_MAX:
    case BT_FUSED_FMA:
    case BT_FUSED_EQUAL:
    case BT_FUSED_SELECT:
    case BT_FUSED_STORE:
    case BT_FUSED_STORE_ADD:
    case BT_FUSED_OP_COUNT:
        break;
    }
    return extent;
}

static bt_status check_uses(const bt_fused *g, const bt_fused_instruction *x, int at)
{
    const int uses[] = {x->a, x->b, x->c};
    if ((unsigned)x->op >= BT_FUSED_OP_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d has no op", at);
    }
    for (int i = 0; i < USES_MOST && i < bt_fused_op_uses(x->op); ++i) {
        if (uses[i] < 0 || uses[i] >= at || is_store(g->code[uses[i]].op)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "instruction %d, %s, uses %d, which is not an earlier result", at,
                            bt_fused_op_text(x->op), uses[i]);
        }
    }
    return BT_OK;
}

static bt_status check_types(const bt_fused *g, const bt_fused_instruction *x, int at)
{
    const int uses[] = {x->a, x->b, x->c};
    const bool converts = x->op == BT_FUSED_CAST || x->op == BT_FUSED_EQUAL || is_store(x->op);
    const int first = x->op == BT_FUSED_SELECT ? 1 : 0;
    for (int i = first; i < USES_MOST && i < bt_fused_op_uses(x->op) && !converts; ++i) {
        if (g->code[uses[i]].dtype != x->dtype) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d, %s %s, uses %d, %s", at,
                            bt_fused_op_text(x->op), bt_dtype_name(x->dtype), uses[i],
                            bt_dtype_name(g->code[uses[i]].dtype));
        }
    }
    if (uses_operand(x->op) && (x->operand < 0 || x->operand >= g->operand_count)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d, %s, names operand %d of %d",
                        at, bt_fused_op_text(x->op), x->operand, g->operand_count);
    }
    if (x->op == BT_FUSED_LOAD && x->dtype != g->operands[x->operand].dtype) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d loads %s from operand %d, %s",
                        at, bt_dtype_name(x->dtype), x->operand,
                        bt_dtype_name(g->operands[x->operand].dtype));
    }
    if (x->op == BT_FUSED_INDEX && (x->axis < 0 || x->axis >= g->rank)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d names axis %d of %d", at,
                        x->axis, g->rank);
    }
    if (bt_fused_op_reduces(x->op) && (x->order.lanes & (x->order.lanes - 1)) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "instruction %d reduces in %d lanes; expected a power of two", at,
                        x->order.lanes);
    }
    return BT_OK;
}

// A store writes each element of its operand once, so the stored value must not vary further.
static bt_status check_store(const bt_fused *g, const bt_fused_instruction *x, int at)
{
    const bt_fused_extent to = operand_extent(g, &g->operands[x->operand]);
    const bt_fused_extent from = g->code[x->a].extent;
    if (join(to, from) != to) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "instruction %d stores a value per %s to operand %d, which has one per %s",
                        at, bt_fused_extent_text(from), x->operand, bt_fused_extent_text(to));
    }
    return BT_OK;
}

int bt_fused_append(bt_fused_builder *b, const bt_fused_instruction *made)
{
    bt_fused *g = b->group;
    const int at = g->code_count;
    if (b->status) {
        return -1;
    }
    if (at == BT_FUSED_CODE_MOST) {
        (void)fail(b, bt_error(BT_STATUS_UNSUPPORTED, "a group of more than %d instructions",
                               BT_FUSED_CODE_MOST));
        return -1;
    }
    if (fail(b, check_uses(g, made, at)) || fail(b, check_types(g, made, at)) ||
        (is_store(made->op) && fail(b, check_store(g, made, at)))) {
        return -1;
    }
    g->code[at] = *made;
    g->code[at].extent = bt_fused_extent_of(g, made);
    if (uses_operand(made->op)) {
        bt_fused_operand *operand = &g->operands[made->operand];
        operand->is_read = operand->is_read || made->op != BT_FUSED_STORE;
        operand->is_written = operand->is_written || is_store(made->op);
    }
    return g->code_count++;
}

static bt_fused_instruction blank(bt_fused_op op, bt_dtype dtype)
{
    return (bt_fused_instruction){
        .op = op, .dtype = dtype, .a = -1, .b = -1, .c = -1, .operand = -1};
}

static bt_dtype dtype_of(const bt_fused_builder *b, int a)
{
    return a >= 0 && a < b->group->code_count ? b->group->code[a].dtype : BT_F32;
}

int bt_fused_load(bt_fused_builder *b, int operand)
{
    const bool known = operand >= 0 && operand < b->group->operand_count;
    bt_fused_instruction x =
        blank(BT_FUSED_LOAD, known ? b->group->operands[operand].dtype : BT_F32);
    x.operand = operand;
    return bt_fused_append(b, &x);
}

static void store(bt_fused_builder *b, bt_fused_op op, int operand, int a)
{
    bt_fused_instruction x = blank(op, dtype_of(b, a));
    x.operand = operand;
    x.a = a;
    (void)bt_fused_append(b, &x);
}

void bt_fused_store(bt_fused_builder *b, int operand, int a)
{
    store(b, BT_FUSED_STORE, operand, a);
}

void bt_fused_store_add(bt_fused_builder *b, int operand, int a)
{
    store(b, BT_FUSED_STORE_ADD, operand, a);
}

int bt_fused_const(bt_fused_builder *b, bt_dtype dtype, double value)
{
    bt_fused_instruction x = blank(BT_FUSED_CONST, dtype);
    x.value = value;
    return bt_fused_append(b, &x);
}

int bt_fused_cast(bt_fused_builder *b, int a, bt_dtype dtype)
{
    bt_fused_instruction x = blank(BT_FUSED_CAST, dtype);
    x.a = a;
    return dtype_of(b, a) == dtype ? a : bt_fused_append(b, &x);
}

static int function(bt_fused_builder *b, bt_fused_op op, bt_unary of, double alpha, int a)
{
    bt_fused_instruction x = blank(op, dtype_of(b, a));
    x.a = a;
    x.function = of;
    x.value = alpha;
    return bt_fused_append(b, &x);
}

int bt_fused_unary(bt_fused_builder *b, bt_unary of, double alpha, int a)
{
    return function(b, BT_FUSED_UNARY, of, alpha, a);
}

int bt_fused_slope(bt_fused_builder *b, bt_unary of, double alpha, int a)
{
    return function(b, BT_FUSED_SLOPE, of, alpha, a);
}

int bt_fused_binary(bt_fused_builder *b, bt_fused_op op, int first, int second)
{
    bt_fused_instruction x = blank(op, dtype_of(b, first));
    x.a = first;
    x.b = second;
    return bt_fused_append(b, &x);
}

int bt_fused_ternary(bt_fused_builder *b, bt_fused_op op, int first, int second, int third)
{
    bt_fused_instruction x = blank(op, dtype_of(b, second));
    x.a = first;
    x.b = second;
    x.c = third;
    return bt_fused_append(b, &x);
}

int bt_fused_reduce(bt_fused_builder *b, bt_fused_op op, int first, int second,
                    bt_fused_order order)
{
    bt_fused_instruction x = blank(op, dtype_of(b, first));
    x.a = first;
    x.b = second;
    x.order = order;
    return bt_fused_append(b, &x);
}

// ---- queries ------------------------------------------------------------------------------------

bt_status bt_fused_check(const bt_fused *group)
{
    bool writes = false;
    if (group->rank < 1 || group->rank > BT_MAX_RANK || group->code_count < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a group of rank %d with %d instructions",
                        group->rank, group->code_count);
    }
    for (int i = 0; i < group->code_count; ++i) {
        const bt_fused_instruction *x = &group->code[i];
        BT_TRY(check_uses(group, x, i));
        BT_TRY(check_types(group, x, i));
        if (is_store(x->op)) {
            BT_TRY(check_store(group, x, i));
        }
        writes = writes || is_store(x->op);
        if (x->extent != bt_fused_extent_of(group, x)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "instruction %d has one value per %s", i,
                            bt_fused_extent_text(bt_fused_extent_of(group, x)));
        }
    }
    return writes ? BT_OK : bt_error(BT_STATUS_INVALID_ARGUMENT, "a group that stores nothing");
}

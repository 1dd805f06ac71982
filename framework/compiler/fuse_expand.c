// framework/compiler/fuse_expand.c - calls as instructions, with the arithmetic of the CPU's
// kernels
//
// Types and orders are those of kernels/cpu/*.inl: sums in double over 32 lanes, some with partial
// sums in the type; so a group has the bits of its calls.
#include <math.h>
#include <string.h>

#include "framework/compiler/fuse_build.h"
#include "kernels/cpu/bf16.h"

// Fields in the order of operands.inl.
enum { FIRST, SECOND, THIRD };
enum { NORM_X, NORM_RESIDUAL, NORM_SUM, NORM_GAMMA, NORM_BETA, NORM_Y, NORM_MEAN, NORM_RSTD };
enum { ATTENTION_Q, ATTENTION_O, ATTENTION_K, ATTENTION_V, ATTENTION_LSE };

// Number of terms that the kernels add in the type itself.
enum { VARIANCE_TERMS = 8, EXP_TERMS = 16 };

static int load(bt_fuse_build *b, const bt_dag_node *node, int field)
{
    return bt_fuse_load(b, node, field, BT_FUSE_FULL, 0, NULL, NULL);
}

static int binary(bt_fuse_build *b, bt_fused_op op, int first, int second)
{
    return b->why ? -1 : bt_fused_binary(&b->builder, op, first, second);
}

static int cast(bt_fuse_build *b, int a, bt_dtype dtype)
{
    return b->why ? -1 : bt_fused_cast(&b->builder, a, dtype);
}

static int constant(bt_fuse_build *b, bt_dtype dtype, double value)
{
    return b->why ? -1 : bt_fused_const(&b->builder, dtype, value);
}

static int unary(bt_fuse_build *b, bt_unary function, double alpha, int a)
{
    return b->why ? -1 : bt_fused_unary(&b->builder, function, alpha, a);
}

static bt_dtype wide(bt_dtype dtype) { return dtype == BT_F64 ? BT_F64 : BT_F32; }

// The group's axes that correspond to a call of so many elements.
static bool domain_of(bt_fuse_build *b, int64_t count, bt_fuse_domain *domain)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < b->group->rank; ++i) {
        rows *= b->group->shape[i];
    }
    if (count == rows * b->group->shape[b->group->rank - 1]) {
        *domain = BT_FUSE_FULL;
        return true;
    }
    *domain = BT_FUSE_ROWS;
    const bool has_rows =
        b->row_reduction || (b->group->kind == BT_FUSED_ELEMENTWISE && b->group->rank > 1);
    if (!has_rows || count != rows) {
        bt_fuse_refuse(b, "it has fewer elements than the group, and no value per row");
        return false;
    }
    return true;
}

static int load_flat(bt_fuse_build *b, const bt_dag_node *node, int field, bt_fuse_domain domain)
{
    return bt_fuse_load(b, node, field, domain, 0, NULL, NULL);
}

static void fill(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_fill_args *args = node->args;
    bt_fuse_domain domain;
    if (args->dtype != BT_F32 && args->dtype != BT_F64) {
        bt_fuse_refuse(b, "it fills with another type");
    } else if (domain_of(b, args->count, &domain)) {
        bt_fuse_define(b, node, FIRST, domain, constant(b, args->dtype, args->value));
    }
}

static void function(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_unary_args *args = node->args;
    bt_fuse_domain domain;
    if (args->as_epilogue && args->dtype == BT_BF16) {
        bt_fuse_refuse(b, "it must have the bits of an epilogue");
    } else if (domain_of(b, args->count, &domain)) {
        const int x = load_flat(b, node, FIRST, domain);
        bt_fuse_define(b, node, SECOND, domain, unary(b, args->function, args->alpha, x));
    }
}

static void slope(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_unary_backward_args *args = node->args;
    bt_fuse_domain domain;
    if (!domain_of(b, args->count, &domain)) {
        return;
    }
    const int x = load_flat(b, node, FIRST, domain), dy = load_flat(b, node, SECOND, domain);
    const int along = b->why ? -1 : bt_fused_slope(&b->builder, args->function, args->alpha, x);
    int dx = binary(b, BT_FUSED_MUL, dy, along);
    if (args->accumulate) {
        const int before = load_flat(b, node, THIRD, domain);
        dx = binary(b, BT_FUSED_ADD, before, dx);
    }
    bt_fuse_define(b, node, THIRD, domain, dx);
}

// a <= limit ? 1 : 0; 1 for a NaN.
static int at_most(bt_fuse_build *b, int a, int limit)
{
    return binary(b, BT_FUSED_EQUAL, binary(b, BT_FUSED_MAX, a, limit), limit);
}

// A power of two by which y is multiplied so that neither the product nor its inverse leaves the
// normal range: 1 for most y.
static int scale_of_divisor(bt_fuse_build *b, int y)
{
    const bt_dtype dtype = b->why ? BT_F32 : b->group->code[y].dtype;
    const int exponent = dtype == BT_F64 ? 512 : 64;
    const int small = constant(b, dtype, ldexp(1, -exponent));
    const int large = constant(b, dtype, ldexp(1, exponent));
    const int size = binary(b, BT_FUSED_MAX, y, unary(b, BT_UNARY_NEGATE, 0, y));
    const int is_small = at_most(b, size, small), is_fine = at_most(b, size, large);
    const int one = constant(b, dtype, 1);
    const int falling =
        b->why ? -1 : bt_fused_ternary(&b->builder, BT_FUSED_SELECT, is_fine, one, small);
    return b->why ? -1 : bt_fused_ternary(&b->builder, BT_FUSED_SELECT, is_small, large, falling);
}

// One division per row instead of one per element, where an error bound is enough: 1.5 ulp of a
// normal result. (x (1 / (y s))) s: 1 / y itself may be infinite or subnormal.
static int quotient(bt_fuse_build *b, int x, int y)
{
    const bt_fused *g = b->group;
    const bt_fused_extent extent = b->why || y < 0 ? BT_FUSED_FULL : g->code[y].extent;
    if (!b->any_order || (extent != BT_FUSED_PER_ROW && extent != BT_FUSED_SCALAR)) {
        return binary(b, BT_FUSED_DIV, x, y);
    }
    const int one = constant(b, g->code[y].dtype, 1), scale = scale_of_divisor(b, y);
    const int inverse = binary(b, BT_FUSED_DIV, one, binary(b, BT_FUSED_MUL, y, scale));
    return binary(b, BT_FUSED_MUL, binary(b, BT_FUSED_MUL, x, inverse), scale);
}

static void two(bt_fuse_build *b, const bt_dag_node *node)
{
    static const bt_fused_op ops[BT_BINARY_COUNT] = {[BT_BINARY_ADD] = BT_FUSED_ADD,
                                                     [BT_BINARY_SUB] = BT_FUSED_SUB,
                                                     [BT_BINARY_MUL] = BT_FUSED_MUL,
                                                     [BT_BINARY_DIV] = BT_FUSED_DIV};
    const bt_binary_args *args = node->args;
    int64_t count = 1;
    bt_fuse_domain domain;
    for (int i = 0; i < args->rank; ++i) {
        count *= args->shape[i];
    }
    if (!domain_of(b, count, &domain)) {
        return;
    }
    if (domain == BT_FUSE_ROWS) { // its axes are not the group's: only values with the layout of
                                  // rows
        int64_t step = 1;
        for (int i = args->rank - 1; i >= 0; step *= args->shape[i--]) {
            if (args->shape[i] > 1 && (args->a_stride[i] != step || args->b_stride[i] != step)) {
                bt_fuse_refuse(b, "it broadcasts a value per row");
            }
        }
        const int x = load_flat(b, node, FIRST, domain), y = load_flat(b, node, SECOND, domain);
        bt_fuse_define(b, node, THIRD, domain, binary(b, ops[args->function], x, y));
        return;
    }
    const int x = bt_fuse_load(b, node, FIRST, domain, args->rank, args->shape, args->a_stride);
    const int y = bt_fuse_load(b, node, SECOND, domain, args->rank, args->shape, args->b_stride);
    bt_fuse_define(b, node, THIRD, domain,
                   args->function == BT_BINARY_DIV ? quotient(b, x, y)
                                                   : binary(b, ops[args->function], x, y));
}

static void copy(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_copy_args *args = node->args;
    int64_t count = 1, step = 1;
    bt_fuse_domain domain;
    for (int i = args->rank - 1; i >= 0; --i) {
        if (args->shape[i] > 1 && args->y_stride[i] != step) {
            bt_fuse_refuse(b, "its result has gaps or is transposed");
        }
        step *= args->shape[i];
        count *= args->shape[i];
    }
    if (!domain_of(b, count, &domain)) {
        return;
    }
    if (domain == BT_FUSE_ROWS) {
        bt_fuse_refuse(b, "it moves values per row");
    }
    const int x = bt_fuse_load(b, node, FIRST, domain, args->rank, args->shape, args->x_stride);
    bt_fuse_define(b, node, SECOND, domain, cast(b, x, wide(args->y_dtype)));
}

static void dropout(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_dropout_args *args = node->args;
    bt_fuse_domain domain;
    if (!domain_of(b, args->count, &domain)) {
        return;
    }
    if (domain == BT_FUSE_ROWS) {
        bt_fuse_refuse(b, "it drops values per row");
        return;
    }
    const int x = load_flat(b, node, FIRST, domain);
    const bt_dtype dtype = wide(args->dtype);
    const int scaled = binary(b, BT_FUSED_DIV, x, constant(b, dtype, 1 - args->rate));
    const bt_fused_instruction keep = {.op = BT_FUSED_KEEP,
                                       .dtype = dtype,
                                       .a = -1,
                                       .b = -1,
                                       .c = -1,
                                       .operand = -1,
                                       .dropout = {args->rate, args->seed, args->stream}};
    const int kept = b->why ? -1 : bt_fused_append(&b->builder, &keep);
    const int zero = constant(b, dtype, 0);
    int y = b->why ? -1 : bt_fused_ternary(&b->builder, BT_FUSED_SELECT, kept, scaled, zero);
    if (args->accumulate) {
        const int before = load_flat(b, node, SECOND, domain);
        y = binary(b, BT_FUSED_ADD, before, y);
    }
    bt_fuse_define(b, node, SECOND, domain, y);
}

// ---- rows ---------------------------------------------------------------------------------------

static int reduce(bt_fuse_build *b, bt_fused_op op, int a, int with, bt_fused_order order)
{
    return b->why ? -1 : bt_fused_reduce(&b->builder, op, a, with, order);
}

// The accumulator type of sums.
static bt_dtype sum_type(const bt_fuse_build *b, bt_dtype dtype)
{
    return b->any_order ? wide(dtype) : BT_F64;
}

static int row_sum(bt_fuse_build *b, int x, bt_dtype dtype)
{
    if (b->any_order) {
        return reduce(b, BT_FUSED_ROW_SUM, x, -1, (bt_fused_order){.sum = wide(dtype)});
    }
    return reduce(b, BT_FUSED_ROW_SUM, cast(b, x, BT_F64), -1, bt_fused_lanes(BT_F64, 0, BT_F64));
}

static bool is_real(bt_fuse_build *b, bt_dtype dtype)
{
    if (dtype != BT_F32 && dtype != BT_F64) {
        bt_fuse_refuse(b, "its rows are sums of another type");
        return false;
    }
    return true;
}

// Rows of bf16 are summed as rows of f32; the CPU's kernel cuts rows that do not fit in a block.
static bool sums_as_f32(const bt_fuse_build *b, const bt_reduce_sum_args *args)
{
    return args->dtype == BT_BF16 && args->inner == 1 && !args->accumulate &&
           (b->any_order || args->reduce < BT_BF16_BLOCK);
}

static void sum(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_reduce_sum_args *args = node->args;
    const bool row = args->inner == 1;
    const bt_dtype type = sum_type(b, args->dtype);
    const bt_fused_order any = {.sum = type};
    if (!sums_as_f32(b, args) && !is_real(b, args->dtype)) {
        return;
    }
    if (!row) { // its result has no domain of the group
        bt_fuse_refuse(b, args->accumulate ? "it adds to column sums" : NULL);
    }
    const int x = load(b, node, FIRST);
    const int total = row ? row_sum(b, x, args->dtype)
                          : reduce(b, BT_FUSED_COLUMN_SUM, cast(b, x, type), -1, any);
    int y = binary(b, BT_FUSED_MUL, constant(b, type, args->scale), total);
    if (args->accumulate && row) {
        const int before = load_flat(b, node, SECOND, BT_FUSE_ROWS);
        y = binary(b, BT_FUSED_ADD, cast(b, before, type), y);
    }
    y = cast(b, cast(b, y, wide(args->dtype)), args->y_dtype);
    if (row) {
        bt_fuse_define(b, node, SECOND, BT_FUSE_ROWS, y);
        return;
    }
    const bt_dag_operand *out = bt_fuse_operand(node, SECOND);
    int64_t stride[BT_MAX_RANK] = {0};
    stride[b->group->rank - 1] = 1;
    const int operand = b->why ? -1 : bt_fused_operand_add(&b->builder, args->y_dtype, stride);
    if (operand >= 0) {
        b->group->operands[operand].value = out->result;
        b->group->operands[operand].offset_bytes = out->offset_bytes;
        bt_fused_store(&b->builder, operand, y);
    }
    if (out->value >= 0) {
        bt_fuse_refuse(b, "it writes a part of a storage");
    }
}

static bool stays_alone(bt_fuse_build *b)
{
    if (b->rows_alone) {
        bt_fuse_refuse(b, "its own kernel is efficient");
    }
    return b->rows_alone;
}

// The specified order, unless any order is allowed.
static bt_fused_order order_of(const bt_fuse_build *b, bt_dtype dtype, bt_fused_order order)
{
    const bt_fused_order any = {.sum = wide(dtype)};
    return b->any_order ? any : order;
}

static void softmax(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_softmax_args *args = node->args;
    if (stays_alone(b)) {
        return;
    }
    if (!is_real(b, args->dtype)) {
        return;
    }
    const bt_dtype type = sum_type(b, args->dtype);
    bt_fused_order lanes = bt_fused_lanes(args->dtype, EXP_TERMS, BT_F64);
    lanes.tail = true;
    const int x = load(b, node, FIRST);
    const int most =
        reduce(b, BT_FUSED_ROW_MAX, x, -1, bt_fused_lanes(args->dtype, 0, args->dtype));
    const int e = unary(b, BT_UNARY_EXP, 0, binary(b, BT_FUSED_SUB, x, most));
    const int total =
        reduce(b, BT_FUSED_ROW_SUM, cast(b, e, type), -1, order_of(b, args->dtype, lanes));
    const int one = constant(b, type, 1);
    const int inverse = binary(b, BT_FUSED_DIV, one, total);
    bt_fuse_define(b, node, SECOND, BT_FUSE_FULL,
                   binary(b, BT_FUSED_MUL, e, cast(b, inverse, args->dtype)));
}

static void softmax_backward(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_softmax_backward_args *args = node->args;
    if (stays_alone(b)) {
        return;
    }
    if (!is_real(b, args->dtype)) {
        return;
    }
    const int y = load(b, node, FIRST), dy = load(b, node, SECOND);
    const bt_dtype type = sum_type(b, args->dtype);
    const int wide_y = cast(b, y, type), wide_dy = cast(b, dy, type);
    const int dot =
        cast(b, row_sum(b, binary(b, BT_FUSED_MUL, wide_y, wide_dy), type), args->dtype);
    bt_fuse_define(b, node, THIRD, BT_FUSE_FULL,
                   binary(b, BT_FUSED_MUL, y, binary(b, BT_FUSED_SUB, dy, dot)));
}

// A parameter of length [cols], loaded for each row.
static int load_column(bt_fuse_build *b, const bt_dag_node *node, int field, int64_t cols)
{
    return bt_fuse_load(b, node, field, BT_FUSE_FULL, 1, &cols, (int64_t[]){1});
}

static void layernorm(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_layernorm_args *args = node->args;
    const bt_dtype dtype = args->dtype, type = sum_type(b, dtype);
    if (stays_alone(b)) {
        return;
    }
    if (!is_real(b, dtype) || args->param_dtype != dtype) {
        bt_fuse_refuse(b, "its parameters have another type");
        return;
    }
    int s = load(b, node, NORM_X);
    if (bt_fuse_operand(node, NORM_RESIDUAL)) {
        const int residual = load(b, node, NORM_RESIDUAL);
        s = binary(b, BT_FUSED_ADD, s, residual);
        bt_fuse_define(b, node, NORM_SUM, BT_FUSE_FULL, s);
    }
    const int cols = constant(b, type, (double)args->cols);
    const int mean = binary(b, BT_FUSED_DIV, row_sum(b, s, dtype), cols);
    const int center = cast(b, mean, dtype);
    const int offset = binary(b, BT_FUSED_SUB, s, center);
    const int wide_offset = cast(b, offset, type);
    const int squares = reduce(b, BT_FUSED_ROW_DOT, wide_offset, wide_offset,
                               order_of(b, dtype, bt_fused_lanes(dtype, VARIANCE_TERMS, BT_F64)));
    const int off = binary(b, BT_FUSED_SUB, mean, cast(b, center, type));
    const int spread = binary(b, BT_FUSED_DIV, squares, cols);
    const int variance = binary(b, BT_FUSED_SUB, spread, binary(b, BT_FUSED_MUL, off, off));
    const int positive = unary(b, BT_UNARY_RELU, 0, variance); // propagates NaN
    const int root = unary(b, BT_UNARY_SQRT, 0,
                           binary(b, BT_FUSED_ADD, positive, constant(b, type, args->epsilon)));
    const int one = constant(b, type, 1);
    const int rstd = cast(b, binary(b, BT_FUSED_DIV, one, root), dtype);
    const int normal = binary(b, BT_FUSED_MUL, offset, rstd);
    const int gamma = load_column(b, node, NORM_GAMMA, args->cols);
    int y = -1;
    if (bt_fuse_operand(node, NORM_BETA)) {
        const int beta = load_column(b, node, NORM_BETA, args->cols);
        y = b->why ? -1 : bt_fused_ternary(&b->builder, BT_FUSED_FMA, normal, gamma, beta);
    } else {
        y = binary(b, BT_FUSED_MUL, normal, gamma);
    }
    bt_fuse_define(b, node, NORM_Y, BT_FUSE_FULL, y);
    bt_fuse_define(b, node, NORM_MEAN, BT_FUSE_ROWS, center);
    bt_fuse_define(b, node, NORM_RSTD, BT_FUSE_ROWS, rstd);
}

static void attention(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_attention_args *args = node->args;
    if (args->dtype != BT_F32 && args->dtype != BT_F64) {
        bt_fuse_refuse(b, "its result is rounded to bf16");
        return;
    }
    bt_fuse_refuse(b, "its statistics and documents are operands of the kernel itself");
}

void bt_fuse_expand(bt_fuse_build *b, const bt_dag_node *node)
{
    static void (*const expand[BT_KERNEL_OP_COUNT])(bt_fuse_build *, const bt_dag_node *) = {
        [BT_KERNEL_FILL] = fill,
        [BT_KERNEL_UNARY] = function,
        [BT_KERNEL_UNARY_BACKWARD] = slope,
        [BT_KERNEL_BINARY] = two,
        [BT_KERNEL_COPY] = copy,
        [BT_KERNEL_DROPOUT] = dropout,
        [BT_KERNEL_REDUCE_SUM] = sum,
        [BT_KERNEL_SOFTMAX] = softmax,
        [BT_KERNEL_SOFTMAX_BACKWARD] = softmax_backward,
        [BT_KERNEL_LAYERNORM] = layernorm,
        [BT_KERNEL_GEMM] = bt_fuse_product,
        [BT_KERNEL_ATTENTION] = attention};
    if (expand[node->op]) {
        expand[node->op](b, node);
    } else {
        bt_fuse_refuse(b, "it has no instructions");
    }
}

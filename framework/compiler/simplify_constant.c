// framework/compiler/simplify_constant.c - rules about functions and constant operands
#include <math.h>

#include "framework/compiler/simplify_parts.h"

// ---- functions ----------------------------------------------------------------------------------

bool bt_rule_identity_function(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bool identity = false;
    if (node->op == BT_KERNEL_UNARY) {
        const bt_unary_args *args = node->args;
        const bool nothing = args->alpha == 0 && signbit(args->alpha);
        identity = (args->function == BT_UNARY_SCALE && args->alpha == 1) ||
                   (args->function == BT_UNARY_SHIFT && nothing);
    } else if (node->op == BT_KERNEL_DROPOUT) {
        const bt_dropout_args *args = node->args;
        identity = args->rate == 0 && !args->accumulate;
    }
    const bt_dag_operand *x = bt_simplify_operand(node, UNARY_X),
                         *y = bt_simplify_operand(node, UNARY_Y);
    return identity && bt_simplify_makes_whole(y) && x->offset_bytes == 0 &&
           bt_simplify_redirect(w, y->result, x->value);
}

bool bt_rule_inverse_function(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_unary_args *args = node->args;
    if (node->op != BT_KERNEL_UNARY || args->function != BT_UNARY_NEGATE) {
        return false;
    }
    const bt_dag_operand *x = bt_simplify_operand(node, UNARY_X),
                         *y = bt_simplify_operand(node, UNARY_Y);
    bt_dag_node *first = bt_simplify_maker(w, x->value, BT_KERNEL_UNARY, UNARY_Y);
    const bt_unary_args *before = first ? first->args : NULL;
    return before && before->function == BT_UNARY_NEGATE && bt_simplify_makes_whole(y) &&
           x->offset_bytes == 0 && bt_simplify_operand(first, UNARY_X)->offset_bytes == 0 &&
           bt_simplify_redirect(w, y->result, bt_simplify_operand(first, UNARY_X)->value);
}

// ---- constants ----------------------------------------------------------------------------------

bool bt_simplify_constant_of(const bt_simplify *w, int value, double *number)
{
    const bt_dag_node *node = bt_simplify_maker(w, value, BT_KERNEL_FILL, 0);
    const bt_fill_args *args = node ? node->args : NULL;
    if (!args || !bt_simplify_computes_in(args->dtype) ||
        args->count != bt_simplify_count_of(w, value)) {
        return false;
    }
    *number = bt_simplify_rounded(args->value, args->dtype);
    return true;
}

// A binary call with one constant operand and one that has the layout of the result.
typedef struct half {
    const bt_dag_operand *other;
    double constant;
    bool constant_first;
} half;

static bool find_half(bt_simplify *w, bt_dag_node *node, half *out)
{
    const bt_binary_args *args = node->args;
    if (node->op != BT_KERNEL_BINARY || !bt_simplify_computes_in(args->dtype) ||
        !bt_simplify_makes_whole(bt_simplify_operand(node, BINARY_Y))) {
        return false;
    }
    const bt_dag_operand *a = bt_simplify_operand(node, BINARY_A),
                         *b = bt_simplify_operand(node, BINARY_B);
    out->constant_first = !bt_simplify_constant_of(w, b->value, &out->constant);
    if (out->constant_first && !bt_simplify_constant_of(w, a->value, &out->constant)) {
        return false;
    }
    out->other = out->constant_first ? b : a;
    const int64_t *stride = out->constant_first ? args->b_stride : args->a_stride;
    return out->other->offset_bytes == 0 &&
           bt_simplify_is_contiguous(args->rank, args->shape, stride) &&
           bt_simplify_count_of(w, out->other->value) ==
               bt_simplify_product(args->rank, args->shape);
}

bool bt_rule_identity_operand(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    half h;
    if (!find_half(w, node, &h)) {
        return false;
    }
    const bt_binary function = ((const bt_binary_args *)node->args)->function;
    const bool negative = signbit(h.constant);
    const bool identity =
        (function == BT_BINARY_MUL && h.constant == 1) ||
        (function == BT_BINARY_DIV && h.constant == 1 && !h.constant_first) ||
        (function == BT_BINARY_SUB && h.constant == 0 && !negative && !h.constant_first) ||
        (function == BT_BINARY_ADD && h.constant == 0 && negative);
    return identity &&
           bt_simplify_redirect(w, bt_simplify_operand(node, BINARY_Y)->result, h.other->value);
}

// 1 / number if it is exact: then x / number and x (1 / number) round the same quotient.
static bool exact_inverse(double number, bt_dtype dtype, double *inverse)
{
    int exponent = 0;
    const int most = dtype == BT_F32 ? 120 : 1000;
    *inverse = 1 / number;
    return fabs(frexp(number, &exponent)) == 0.5 && exponent > -most && exponent < most;
}

bool bt_rule_constant_operand(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    half h;
    if (!find_half(w, node, &h)) {
        return false;
    }
    const bt_binary_args *args = node->args;
    bt_unary_args unary = {.function = BT_UNARY_SCALE,
                           .alpha = h.constant,
                           .count = bt_simplify_product(args->rank, args->shape),
                           .dtype = args->dtype};
    switch (args->function) {
    case BT_BINARY_ADD:
        unary.function = BT_UNARY_SHIFT;
        break;
    case BT_BINARY_SUB:
        unary.function = BT_UNARY_SHIFT;
        unary.alpha = -h.constant;
        if (h.constant_first) {
            return false;
        }
        break;
    case BT_BINARY_MUL:
        break;
    case BT_BINARY_DIV:
        if (h.constant_first || !exact_inverse(h.constant, args->dtype, &unary.alpha)) {
            return false;
        }
        break;
    case BT_BINARY_COUNT:
        return false;
    }
    const bt_dag_operand operands[] = {
        {UNARY_X, h.other->value, -1, 0},
        {UNARY_Y, -1, bt_simplify_operand(node, BINARY_Y)->result, 0}};
    return bt_simplify_become(w, node, BT_KERNEL_UNARY, &unary, operands, 2);
}

static bool unary_constant(const bt_unary_args *args, double x, double *y)
{
    const float narrow = (float)x, alpha = (float)args->alpha;
    const bool wide = args->dtype == BT_F64;
    switch (args->function) {
    case BT_UNARY_RELU:
        *y = x < 0 ? 0 : x;
        return true;
    case BT_UNARY_NEGATE:
        *y = -x;
        return true;
    case BT_UNARY_SQUARE:
        *y = wide ? x * x : (double)(narrow * narrow);
        return true;
    case BT_UNARY_SCALE:
        *y = wide ? args->alpha * x : (double)(alpha * narrow);
        return true;
    case BT_UNARY_SHIFT:
        *y = wide ? x + args->alpha : (double)(narrow + alpha);
        return true;
    case BT_UNARY_GELU:
    case BT_UNARY_SILU:
    case BT_UNARY_TANH:
    case BT_UNARY_SIGMOID:
    case BT_UNARY_EXP:
    case BT_UNARY_LOG:
    case BT_UNARY_SQRT:
    case BT_UNARY_COUNT:
        break;
    }
    return false;
}

static bool binary_constant(const bt_binary_args *args, double a, double b, double *y)
{
    const float x = (float)a, z = (float)b;
    const bool wide = args->dtype == BT_F64;
    switch (args->function) {
    case BT_BINARY_ADD:
        *y = wide ? a + b : (double)(x + z);
        return true;
    case BT_BINARY_SUB:
        *y = wide ? a - b : (double)(x - z);
        return true;
    case BT_BINARY_MUL:
        *y = wide ? a * b : (double)(x * z);
        return true;
    case BT_BINARY_DIV:
        *y = wide ? a / b : (double)(x / z);
        return true;
    case BT_BINARY_COUNT:
        break;
    }
    return false;
}

// The number that every element of the call's result equals.
static bool folded(bt_simplify *w, bt_dag_node *node, bt_dtype *dtype, double *y)
{
    double a = 0, b = 0;
    const bt_dag_operand *x = bt_simplify_operand(node, 0);
    if (node->op == BT_KERNEL_UNARY) {
        *dtype = ((const bt_unary_args *)node->args)->dtype;
        return bt_simplify_constant_of(w, x->value, &a) && unary_constant(node->args, a, y);
    }
    if (node->op == BT_KERNEL_BINARY) {
        *dtype = ((const bt_binary_args *)node->args)->dtype;
        return bt_simplify_constant_of(w, x->value, &a) &&
               bt_simplify_constant_of(w, bt_simplify_operand(node, BINARY_B)->value, &b) &&
               binary_constant(node->args, a, b, y);
    }
    if (node->op == BT_KERNEL_COPY) {
        const bt_copy_args *args = node->args;
        *dtype = args->y_dtype;
        *y = 0;
        if (!bt_simplify_computes_in(args->y_dtype) || !bt_simplify_constant_of(w, x->value, y) ||
            !bt_simplify_is_contiguous(args->rank, args->shape, args->y_stride)) {
            return false;
        }
        *y = bt_simplify_rounded(*y, *dtype);
        return true;
    }
    return false;
}

bool bt_rule_constant_result(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_fill_args fill = {.dtype = BT_F32};
    const int last = node->op == BT_KERNEL_BINARY ? BINARY_Y : UNARY_Y;
    if (!folded(w, node, &fill.dtype, &fill.value) || isnan(fill.value) ||
        !bt_simplify_makes_whole(bt_simplify_operand(node, last))) {
        return false;
    }
    const int y = bt_simplify_operand(node, last)->result;
    fill.count = bt_simplify_count_of(w, y);
    return bt_simplify_become(w, node, BT_KERNEL_FILL, &fill, &(bt_dag_operand){0, -1, y, 0}, 1);
}

// framework/compiler/simplify.c - the rules of simplify.inl, and applying them
//
// A rule looks at one call. It redirects readers of what the call makes to a value that was there
// before, or changes the call; dead_call then leaves out what nobody reads.
#include "framework/compiler/simplify.h"

#include <math.h>
#include <string.h>

// Fields in the order of operands.inl.
enum { UNARY_X, UNARY_Y };
enum { BINARY_A, BINARY_B, BINARY_Y };
enum { COPY_X, COPY_Y };

typedef struct work {
    bt_dag *graph;
    int *uses;  // owned [value_count]
    bool *gone; // owned [node_count]
    bt_status status;
} work;

// ---- looking ------------------------------------------------------------------------------------

static bt_dag_operand *operand(bt_dag_node *node, int field)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].field == field) {
            return &node->operands[i];
        }
    }
    return NULL;
}

static bool makes_whole(const bt_dag_operand *x)
{
    return x && x->result >= 0 && x->value < 0 && x->offset_bytes == 0;
}

static int64_t count_of(const work *w, int value)
{
    return bt_dag_value_count(&w->graph->values[value]);
}

// The call that makes the value as a whole, of this op; NULL: another, or none.
static bt_dag_node *maker(const work *w, int value, bt_kernel_op op, int field)
{
    const int at = value >= 0 ? w->graph->values[value].producer : -1;
    bt_dag_node *node = at >= 0 && !w->gone[at] ? &w->graph->nodes[at] : NULL;
    const bt_dag_operand *y = node && node->op == op ? operand(node, field) : NULL;
    return makes_whole(y) && y->result == value ? node : NULL;
}

static double rounded(double value, bt_dtype dtype)
{
    return dtype == BT_F32 ? (double)(float)value : value;
}

static bool computes_in(bt_dtype dtype) { return dtype == BT_F32 || dtype == BT_F64; }

// The number that all elements of the value are.
static bool constant_of(const work *w, int value, double *number)
{
    const bt_dag_node *node = maker(w, value, BT_KERNEL_FILL, 0);
    const bt_fill_args *args = node ? node->args : NULL;
    if (!args || !computes_in(args->dtype) || args->count != count_of(w, value)) {
        return false;
    }
    *number = rounded(args->value, args->dtype);
    return true;
}

// Do the strides walk an array of the shape as it lies? Axes of size 1 may have any.
static bool is_contiguous(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
        if (shape[i] != 1 && stride[i] != step) {
            return false;
        }
        step *= shape[i];
    }
    return true;
}

static int64_t product(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) {
        count *= shape[i];
    }
    return count;
}

// ---- changing -----------------------------------------------------------------------------------

// Readers of `from` read `to`, which has the same contents. False where there is none.
static bool redirect(work *w, int from, int to)
{
    const bt_dag_value *a = &w->graph->values[from], *b = &w->graph->values[to];
    bool any = false;
    if (a->size_bytes != b->size_bytes || a->dtype != b->dtype) {
        return false;
    }
    for (int i = 0; i < w->graph->node_count; ++i) {
        bt_dag_node *node = &w->graph->nodes[i];
        for (int k = 0; k < node->operand_count && !w->gone[i]; ++k) {
            if (node->operands[k].value == from) {
                node->operands[k].value = to;
                any = true;
            }
        }
    }
    for (int i = 0; i < w->graph->value_count; ++i) {
        if (w->graph->values[i].base == from) {
            w->graph->values[i].base = to;
        }
    }
    return any;
}

// The call becomes one of another op. Pointers in args are NULL.
static bool become(work *w, bt_dag_node *node, bt_kernel_op op, const void *args,
                   const bt_dag_operand *operands, int count)
{
    void *own = NULL;
    const bt_status status = bt_mem_alloc(1, bt_kernel_operands_struct_bytes(op), &own);
    if (status) {
        w->status = status;
        return false;
    }
    memcpy(own, args, bt_kernel_operands_struct_bytes(op));
    bt_mem_free(node->args);
    node->args = own;
    node->op = op;
    node->operand_count = count;
    memcpy(node->operands, operands, (size_t)count * sizeof *operands);
    return true;
}

// ---- functions ----------------------------------------------------------------------------------

static bool identity_function(work *w, int at)
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
    const bt_dag_operand *x = operand(node, UNARY_X), *y = operand(node, UNARY_Y);
    return identity && makes_whole(y) && x->offset_bytes == 0 && redirect(w, y->result, x->value);
}

static bool inverse_function(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_unary_args *args = node->args;
    if (node->op != BT_KERNEL_UNARY || args->function != BT_UNARY_NEGATE) {
        return false;
    }
    const bt_dag_operand *x = operand(node, UNARY_X), *y = operand(node, UNARY_Y);
    bt_dag_node *first = maker(w, x->value, BT_KERNEL_UNARY, UNARY_Y);
    const bt_unary_args *before = first ? first->args : NULL;
    return before && before->function == BT_UNARY_NEGATE && makes_whole(y) &&
           x->offset_bytes == 0 && operand(first, UNARY_X)->offset_bytes == 0 &&
           redirect(w, y->result, operand(first, UNARY_X)->value);
}

// ---- constants ----------------------------------------------------------------------------------

// A binary call with one constant operand and one that lies as the result does.
typedef struct half {
    const bt_dag_operand *other;
    double constant;
    bool constant_first;
} half;

static bool find_half(work *w, bt_dag_node *node, half *out)
{
    const bt_binary_args *args = node->args;
    if (node->op != BT_KERNEL_BINARY || !computes_in(args->dtype) ||
        !makes_whole(operand(node, BINARY_Y))) {
        return false;
    }
    const bt_dag_operand *a = operand(node, BINARY_A), *b = operand(node, BINARY_B);
    out->constant_first = !constant_of(w, b->value, &out->constant);
    if (out->constant_first && !constant_of(w, a->value, &out->constant)) {
        return false;
    }
    out->other = out->constant_first ? b : a;
    const int64_t *stride = out->constant_first ? args->b_stride : args->a_stride;
    return out->other->offset_bytes == 0 && is_contiguous(args->rank, args->shape, stride) &&
           count_of(w, out->other->value) == product(args->rank, args->shape);
}

static bool identity_operand(work *w, int at)
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
    return identity && redirect(w, operand(node, BINARY_Y)->result, h.other->value);
}

// 1 / number without rounding: then x / number and x (1 / number) round the same quotient.
static bool exact_inverse(double number, bt_dtype dtype, double *inverse)
{
    int exponent = 0;
    const int most = dtype == BT_F32 ? 120 : 1000;
    *inverse = 1 / number;
    return fabs(frexp(number, &exponent)) == 0.5 && exponent > -most && exponent < most;
}

static bool constant_operand(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    half h;
    if (!find_half(w, node, &h)) {
        return false;
    }
    const bt_binary_args *args = node->args;
    bt_unary_args unary = {.function = BT_UNARY_SCALE,
                           .alpha = h.constant,
                           .count = product(args->rank, args->shape),
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
    const bt_dag_operand operands[] = {{UNARY_X, h.other->value, -1, 0},
                                       {UNARY_Y, -1, operand(node, BINARY_Y)->result, 0}};
    return become(w, node, BT_KERNEL_UNARY, &unary, operands, 2);
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

// The number that each element of what the call makes is.
static bool folded(work *w, bt_dag_node *node, bt_dtype *dtype, double *y)
{
    double a = 0, b = 0;
    const bt_dag_operand *x = operand(node, 0);
    if (node->op == BT_KERNEL_UNARY) {
        *dtype = ((const bt_unary_args *)node->args)->dtype;
        return constant_of(w, x->value, &a) && unary_constant(node->args, a, y);
    }
    if (node->op == BT_KERNEL_BINARY) {
        *dtype = ((const bt_binary_args *)node->args)->dtype;
        return constant_of(w, x->value, &a) && constant_of(w, operand(node, BINARY_B)->value, &b) &&
               binary_constant(node->args, a, b, y);
    }
    if (node->op == BT_KERNEL_COPY) {
        const bt_copy_args *args = node->args;
        *dtype = args->y_dtype;
        *y = 0;
        if (!computes_in(args->y_dtype) || !constant_of(w, x->value, y) ||
            !is_contiguous(args->rank, args->shape, args->y_stride)) {
            return false;
        }
        *y = rounded(*y, *dtype);
        return true;
    }
    return false;
}

static bool constant_result(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_fill_args fill = {.dtype = BT_F32};
    const int last = node->op == BT_KERNEL_BINARY ? BINARY_Y : UNARY_Y;
    if (!folded(w, node, &fill.dtype, &fill.value) || isnan(fill.value) ||
        !makes_whole(operand(node, last))) {
        return false;
    }
    const int y = operand(node, last)->result;
    fill.count = count_of(w, y);
    return become(w, node, BT_KERNEL_FILL, &fill, &(bt_dag_operand){0, -1, y, 0}, 1);
}

// ---- casts and layouts --------------------------------------------------------------------------

// A copy that makes all of its result, in order.
static bool is_plain(bt_dag_node *node)
{
    const bt_copy_args *args = node->args;
    return makes_whole(operand(node, COPY_Y)) &&
           is_contiguous(args->rank, args->shape, args->y_stride);
}

// One that also reads all of its operand in order.
static bool is_cast(const work *w, bt_dag_node *node)
{
    const bt_copy_args *args = node->args;
    const bt_dag_operand *x = operand(node, COPY_X);
    return is_plain(node) && x->offset_bytes == 0 &&
           is_contiguous(args->rank, args->shape, args->x_stride) &&
           count_of(w, x->value) == product(args->rank, args->shape);
}

static bool identity_copy(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_copy_args *args = node->args;
    return node->op == BT_KERNEL_COPY && args->x_dtype == args->y_dtype && is_cast(w, node) &&
           redirect(w, operand(node, COPY_Y)->result, operand(node, COPY_X)->value);
}

static bool holds_all_of(bt_dtype wide, bt_dtype narrow)
{
    return (wide == BT_F64 && (narrow == BT_F32 || narrow == BT_BF16)) ||
           (wide == BT_F32 && narrow == BT_BF16);
}

static bool narrow_after_widen(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_copy_args *args = node->args;
    if (node->op != BT_KERNEL_COPY || !is_cast(w, node)) {
        return false;
    }
    bt_dag_node *first = maker(w, operand(node, COPY_X)->value, BT_KERNEL_COPY, COPY_Y);
    const bt_copy_args *before = first ? first->args : NULL;
    return before && is_cast(w, first) && before->x_dtype == args->y_dtype &&
           holds_all_of(before->y_dtype, before->x_dtype) &&
           redirect(w, operand(node, COPY_Y)->result, operand(first, COPY_X)->value);
}

// Strides into what a copy reads, for a reader of what it makes with strides `seen` over `shape`.
// False where an axis of the reader is none of the copy's.
static bool compose(const bt_copy_args *copy, int rank, const int64_t *shape, const int64_t *seen,
                    int64_t *through)
{
    bool taken[BT_MAX_RANK] = {false};
    for (int i = 0; i < rank; ++i) {
        bool found = seen[i] == 0 || shape[i] == 1;
        through[i] = 0;
        int64_t step = 1;
        for (int k = copy->rank - 1; k >= 0 && !found; --k) {
            if (copy->shape[k] > 1 && step == seen[i] && shape[i] <= copy->shape[k] && !taken[k]) {
                through[i] = copy->x_stride[k];
                taken[k] = found = true;
            }
            step *= copy->shape[k];
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

// The copy of the same type, read by nobody else, that makes the operand; NULL: none.
static bt_dag_node *copy_before(const work *w, const bt_dag_operand *x)
{
    bt_dag_node *first = maker(w, x->value, BT_KERNEL_COPY, COPY_Y);
    const bt_copy_args *args = first ? first->args : NULL;
    return args && args->x_dtype == args->y_dtype && is_plain(first) && x->offset_bytes == 0 &&
                   w->uses[x->value] == 1
               ? first
               : NULL;
}

static bool read_through(work *w, bt_dag_operand *x, int rank, const int64_t *shape,
                         int64_t *stride)
{
    int64_t through[BT_MAX_RANK];
    bt_dag_node *first = copy_before(w, x);
    if (!first || !compose(first->args, rank, shape, stride, through)) {
        return false;
    }
    memcpy(stride, through, (size_t)rank * sizeof *stride);
    x->value = operand(first, COPY_X)->value;
    x->offset_bytes = operand(first, COPY_X)->offset_bytes;
    return true;
}

static bool copy_of_copy(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_copy_args *args = node->args;
    return node->op == BT_KERNEL_COPY &&
           read_through(w, operand(node, COPY_X), args->rank, args->shape, args->x_stride);
}

static bool operand_layout(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_binary_args *args = node->args;
    return node->op == BT_KERNEL_BINARY &&
           (read_through(w, operand(node, BINARY_A), args->rank, args->shape, args->a_stride) ||
            read_through(w, operand(node, BINARY_B), args->rank, args->shape, args->b_stride));
}

// y = f(copy(u)) becomes y = copy(f(u)); f is taken in u's type.
static bool swap_with_copy(work *w, bt_dag_node *node, bt_dag_node *first)
{
    bt_unary_args unary = *(const bt_unary_args *)node->args;
    bt_copy_args copy = *(const bt_copy_args *)first->args;
    const bt_dag_operand x = *operand(first, COPY_X);
    const int y = operand(node, UNARY_Y)->result;
    bt_dag_value made = w->graph->values[x.value];
    int between = -1;
    made.base = -1;
    made.is_output = false;
    made.name[0] = '\0';
    made.producer = (int)(first - w->graph->nodes);
    unary.count = bt_dag_value_count(&made);
    unary.dtype = made.dtype;
    w->status = bt_dag_value_append(w->graph, &made, &between);
    if (w->status) {
        return false;
    }
    const bt_dag_operand before[] = {{UNARY_X, x.value, -1, 0}, {UNARY_Y, -1, between, 0}};
    const bt_dag_operand after[] = {{COPY_X, between, -1, 0}, {COPY_Y, -1, y, 0}};
    w->graph->values[operand(first, COPY_Y)->result].producer = BT_DAG_REMOVED;
    return become(w, first, BT_KERNEL_UNARY, &unary, before, 2) &&
           become(w, node, BT_KERNEL_COPY, &copy, after, 2);
}

// The copy that makes a function's operand, all of whose source it reads from its start.
static bt_dag_node *copy_of_all(const work *w, bt_dag_node *node)
{
    if (node->op != BT_KERNEL_UNARY || !makes_whole(operand(node, UNARY_Y))) {
        return NULL;
    }
    const bt_dag_operand *x = operand(node, UNARY_X);
    bt_dag_node *first = maker(w, x->value, BT_KERNEL_COPY, COPY_Y);
    return first && is_plain(first) && x->offset_bytes == 0 && w->uses[x->value] == 1 &&
                   operand(first, COPY_X)->offset_bytes == 0 && operand(first, COPY_X)->value >= 0
               ? first
               : NULL;
}

static bool function_before_broadcast(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_dag_node *first = copy_of_all(w, node);
    const bt_copy_args *copy = first ? first->args : NULL;
    return copy && copy->x_dtype == copy->y_dtype &&
           count_of(w, operand(first, COPY_X)->value) < product(copy->rank, copy->shape) &&
           swap_with_copy(w, node, first);
}

static bool function_before_widen(work *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_dag_node *first = copy_of_all(w, node);
    const bt_copy_args *copy = first ? first->args : NULL;
    const bt_unary function = copy ? ((const bt_unary_args *)node->args)->function : BT_UNARY_GELU;
    return copy && holds_all_of(copy->y_dtype, copy->x_dtype) && is_cast(w, first) &&
           (function == BT_UNARY_NEGATE || function == BT_UNARY_RELU) &&
           swap_with_copy(w, node, first);
}

// ---- calls --------------------------------------------------------------------------------------

static bool same_attributes(const bt_dag_node *a, const bt_dag_node *b)
{
    static const size_t bytes[] = {[BT_KERNEL_ATTRIBUTE_BOOL] = sizeof(bool),
                                   [BT_KERNEL_ATTRIBUTE_INT] = sizeof(int),
                                   [BT_KERNEL_ATTRIBUTE_I32] = sizeof(int32_t),
                                   [BT_KERNEL_ATTRIBUTE_I64] = sizeof(int64_t),
                                   [BT_KERNEL_ATTRIBUTE_U64] = sizeof(uint64_t),
                                   [BT_KERNEL_ATTRIBUTE_F64] = sizeof(double),
                                   [BT_KERNEL_ATTRIBUTE_AXES] = BT_MAX_RANK * sizeof(int64_t)};
    const bt_kernel_attribute *x = NULL;
    for (int i = 0; (x = bt_kernel_attribute_at(a->op, i)); ++i) {
        if (memcmp((const char *)a->args + x->offset, (const char *)b->args + x->offset,
                   bytes[x->type]) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_call(const bt_dag_node *a, const bt_dag_node *b)
{
    if (a->op != b->op || a->operand_count != b->operand_count) {
        return false;
    }
    for (int i = 0; i < a->operand_count; ++i) {
        const bt_dag_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->field != y->field || x->value != y->value || x->offset_bytes != y->offset_bytes ||
            (x->result < 0) != (y->result < 0)) {
            return false;
        }
    }
    return same_attributes(a, b);
}

static bool common_call(work *w, int at)
{
    const bt_dag_node *node = &w->graph->nodes[at];
    for (int i = 0; i < at; ++i) {
        const bt_dag_node *earlier = &w->graph->nodes[i];
        bool any = false;
        if (w->gone[i] || !same_call(earlier, node)) {
            continue;
        }
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                any = redirect(w, node->operands[k].result, earlier->operands[k].result) || any;
            }
        }
        if (any) {
            return true;
        }
    }
    return false;
}

static bool dead_call(work *w, int at)
{
    const bt_dag_node *node = &w->graph->nodes[at];
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0 && w->uses[node->operands[i].result] > 0) {
            return false;
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0) {
            w->graph->values[node->operands[i].result].producer = BT_DAG_REMOVED;
        }
    }
    w->gone[at] = true;
    return true;
}

// ---- applying -----------------------------------------------------------------------------------

static const struct {
    const char *name, *text;
    bool (*apply)(work *w, int at);
} rules[] = {
#define BT_DAG_RULE(name, text) {#name, text, name},
#include "framework/compiler/simplify.inl"
#undef BT_DAG_RULE
};

const char *bt_dag_rule_text(bt_dag_rule_id rule) { return rules[rule].text; }

const char *bt_dag_rule_name(bt_dag_rule_id rule) { return rules[rule].name; }

static bt_status count_uses(work *w)
{
    void *uses = w->uses;
    BT_TRY(bt_mem_resize(&uses, (size_t)w->graph->value_count + 1, sizeof *w->uses));
    w->uses = uses;
    bt_dag_uses(w->graph, w->uses);
    for (int i = 0; i < w->graph->node_count; ++i) {
        const bt_dag_node *node = &w->graph->nodes[i];
        for (int k = 0; k < node->operand_count && w->gone[i]; ++k) {
            if (node->operands[k].value >= 0) {
                w->uses[node->operands[k].value] -= 1;
            }
        }
    }
    return BT_OK;
}

static bool apply_one(work *w, int at, bt_dag_simplified *report)
{
    for (int rule = 0; rule < BT_DAG_RULE_COUNT; ++rule) {
        if (rules[rule].apply(w, at)) {
            report->applied[rule] += 1;
            return true;
        }
    }
    return false;
}

static void compact(work *w)
{
    int kept = 0;
    for (int i = 0; i < w->graph->node_count; ++i) {
        bt_dag_node *node = &w->graph->nodes[i];
        if (w->gone[i]) {
            bt_mem_free(node->args);
            continue;
        }
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                w->graph->values[node->operands[k].result].producer = kept;
            }
        }
        w->graph->nodes[kept++] = *node;
    }
    w->graph->node_count = kept;
}

bt_status bt_dag_simplify(bt_dag *graph, bt_dag_simplified *report)
{
    work w = {.graph = graph};
    void *gone = NULL;
    *report = (bt_dag_simplified){.nodes_before = graph->node_count};
    BT_TRY(bt_mem_alloc((size_t)graph->node_count + 1, sizeof *w.gone, &gone));
    w.gone = gone;
    w.status = count_uses(&w);
    for (bool changed = true; changed && w.status == BT_OK;) {
        changed = false;
        for (int at = graph->node_count - 1; at >= 0 && w.status == BT_OK; --at) {
            while (!w.gone[at] && w.status == BT_OK && apply_one(&w, at, report)) {
                changed = true;
                w.status = w.status ? w.status : count_uses(&w);
            }
        }
    }
    compact(&w);
    bt_mem_free(w.gone);
    bt_mem_free(w.uses);
    report->nodes_after = graph->node_count;
    return w.status;
}

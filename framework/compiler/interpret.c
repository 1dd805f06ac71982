// framework/compiler/interpret.c - a fused group run instruction by instruction, on the CPU
//
// The reference for generated kernels: plain loops over the whole index space; every value is a
// double that its type can represent exactly. Functions and products use the CPU kernels.
#include <math.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/compiler/fuse.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/math.h"

typedef struct state {
    bt_context *context;
    const bt_fused *group;
    void *const *at;
    int64_t count, cols;
    double *values; // owned [code_count, count]
} state;

static double *value_of(const state *s, int instruction)
{
    return s->values + (int64_t)instruction * s->count;
}

// Element of an operand at an index.
static int64_t place(const bt_fused *g, const bt_fused_operand *x, int64_t index)
{
    int64_t element = 0;
    for (int i = g->rank - 1; i >= 0; --i) {
        element += index % g->shape[i] * x->stride[i];
        index /= g->shape[i];
    }
    return element;
}

static double read_as(bt_dtype dtype, const void *from, int64_t i)
{
    return dtype == BT_F64    ? ((const double *)from)[i]
           : dtype == BT_F32  ? (double)((const float *)from)[i]
           : dtype == BT_BF16 ? (double)bt_bf16_to_f32(((const uint16_t *)from)[i])
           : dtype == BT_I64  ? (double)((const int64_t *)from)[i]
                              : (double)((const int32_t *)from)[i];
}

static void write_as(bt_dtype dtype, void *to, int64_t i, double value)
{
    if (dtype == BT_F64) {
        ((double *)to)[i] = value;
    } else if (dtype == BT_F32) {
        ((float *)to)[i] = (float)value;
    } else if (dtype == BT_BF16) {
        ((uint16_t *)to)[i] = bt_f32_to_bf16((float)value);
    } else if (dtype == BT_I64) {
        ((int64_t *)to)[i] = (int64_t)value;
    } else {
        ((int32_t *)to)[i] = (int32_t)value;
    }
}

static double rounded(bt_dtype dtype, double value)
{
    return dtype == BT_F32    ? (double)(float)value
           : dtype == BT_BF16 ? (double)bt_bf16_to_f32(bt_f32_to_bf16((float)value))
                              : value;
}

// For sums, differences, products and quotients of two floats, rounding to double first does not
// change the result.
static double arithmetic(const bt_fused_instruction *x, double a, double b, double c)
{
    switch (x->op) {
    case BT_FUSED_CAST:
        return rounded(x->dtype, a);
    case BT_FUSED_ADD:
        return rounded(x->dtype, a + b);
    case BT_FUSED_SUB:
        return rounded(x->dtype, a - b);
    case BT_FUSED_MUL:
        return rounded(x->dtype, a * b);
    case BT_FUSED_DIV:
        return rounded(x->dtype, a / b);
    case BT_FUSED_MAX:
        return a > b ? a : b;
    case BT_FUSED_FMA:
        return x->dtype == BT_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
    case BT_FUSED_EQUAL:
        return a == b ? 1 : 0;
    case BT_FUSED_SELECT:
        return a != 0 ? b : c;
    case BT_FUSED_CONST:
        return rounded(x->dtype, x->value);
    case BT_FUSED_LOAD:
    case BT_FUSED_RESULT:
    case BT_FUSED_UNARY:
    case BT_FUSED_SLOPE:
    case BT_FUSED_INDEX:
    case BT_FUSED_KEEP:
    case BT_FUSED_ROW_SUM:
    case BT_FUSED_ROW_DOT:
    case BT_FUSED_ROW_MAX:
    case BT_FUSED_COLUMN_SUM:
    case BT_FUSED_STORE:
    case BT_FUSED_STORE_ADD:
    case BT_FUSED_OP_COUNT:
        break;
    }
    return 0;
}

static void elementwise(const state *s, const bt_fused_instruction *x, double *y)
{
    const double *a = x->a >= 0 ? value_of(s, x->a) : y, *b = x->b >= 0 ? value_of(s, x->b) : y;
    const double *c = x->c >= 0 ? value_of(s, x->c) : y;
    for (int64_t i = 0; i < s->count; ++i) {
        y[i] = arithmetic(x, a[i], b[i], c[i]);
    }
}

static bt_status launch(const state *s, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    return bt_context_launch(s->context, op, dtype, args);
}

// As the CPU's softmax, in f32.
static void softmax_exps(const state *s, const bt_fused_instruction *x, double *y)
{
    const double *a = value_of(s, x->a);
    const float lowest = bt_exp_lowest_f32();
    for (int64_t i = 0; i < s->count; ++i) {
        y[i] = (double)bt_exp_normal_f32((float)a[i], lowest);
    }
}

// By the CPU kernels, in the instruction's type.
static bt_status functions(const state *s, const bt_fused_instruction *x, double *y)
{
    void *in = NULL, *out = NULL, *ones = NULL;
    const double *a = value_of(s, x->a);
    const size_t size = bt_dtype_size(x->dtype), count = (size_t)s->count;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_mem_alloc(count, size, &in), done);
    BT_TRY_GOTO(bt_mem_alloc(count, size, &out), done);
    BT_TRY_GOTO(bt_mem_alloc(count, size, &ones), done);
    for (int64_t i = 0; i < s->count; ++i) {
        write_as(x->dtype, in, i, a[i]);
        write_as(x->dtype, ones, i, 1);
    }
    const bt_unary_args forward = {.function = x->function,
                                   .alpha = x->value,
                                   .x = in,
                                   .y = out,
                                   .count = s->count,
                                   .dtype = x->dtype};
    const bt_unary_backward_args slope = {.function = x->function,
                                          .alpha = x->value,
                                          .x = in,
                                          .dy = ones,
                                          .dx = out,
                                          .count = s->count,
                                          .dtype = x->dtype};
    BT_TRY_GOTO(x->op == BT_FUSED_UNARY ? launch(s, BT_KERNEL_UNARY, x->dtype, &forward)
                                        : launch(s, BT_KERNEL_UNARY_BACKWARD, x->dtype, &slope),
                done);
    for (int64_t i = 0; i < s->count; ++i) {
        y[i] = read_as(x->dtype, out, i);
    }
done:
    bt_mem_free(in);
    bt_mem_free(out);
    bt_mem_free(ones);
    return status;
}

// The sums over k in the order that the instruction gives.
static void ascending(const state *s, const bt_fused_instruction *x, double *y)
{
    const bt_gemm_args *p = &s->group->product;
    const void *a = s->at[s->group->call_operand[0]], *b = s->at[s->group->call_operand[1]];
    for (int64_t i = 0; i < s->count; ++i) {
        const int64_t entry = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        y[i] = 0;
        for (int64_t k = 0; k < p->k; ++k) {
            const double left =
                read_as(p->ab_dtype, a,
                        entry * p->stride_a + (p->trans_a ? k * p->lda + row : row * p->lda + k));
            const double right =
                read_as(p->ab_dtype, b,
                        entry * p->stride_b + (p->trans_b ? col * p->ldb + k : k * p->ldb + col));
            y[i] = x->dtype == BT_F32 ? (double)fmaf((float)left, (float)right, (float)y[i])
                                      : fma(left, right, y[i]);
        }
    }
}

static bt_status result(const state *s, const bt_fused_instruction *x, double *y)
{
    const bt_fused *g = s->group;
    bt_gemm_args args = g->product;
    void *d = NULL;
    if (g->kind != BT_FUSED_PRODUCT) {
        return bt_error(BT_STATUS_UNSUPPORTED, "interpret: a group of %s",
                        bt_fused_kind_text(g->kind));
    }
    if (x->order.lanes) {
        ascending(s, x, y);
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)s->count, bt_dtype_size(args.d_dtype), &d));
    args.a = s->at[g->call_operand[0]];
    args.b = s->at[g->call_operand[1]];
    args.c = NULL;
    args.d = d;
    bt_status status = launch(s, BT_KERNEL_GEMM, args.ab_dtype, &args);
    for (int64_t i = 0; i < s->count; ++i) {
        y[i] = rounded(x->dtype, read_as(args.d_dtype, d, i));
    }
    bt_mem_free(d);
    return status;
}

static void keep(const state *s, const bt_fused_instruction *x, double *y)
{
    const bt_rng rng = {x->dropout.seed, x->dropout.stream};
    uint32_t words[BT_DROPOUT_WORDS] = {0};
    for (int64_t i = 0; i < s->count; ++i) {
        if (i % BT_DROPOUT_WORDS == 0) {
            bt_rng_block(rng, (uint64_t)(i / BT_DROPOUT_WORDS), words);
        }
        y[i] = bt_dropout_keeps(words[i % BT_DROPOUT_WORDS], x->dropout.rate);
    }
}

// ---- reductions ---------------------------------------------------------------------------------

static double add(bt_dtype dtype, double a, double b) { return rounded(dtype, a + b); }

// One row, of elements a (times b).
static double row_sum(const bt_fused_instruction *x, const double *a, const double *b, int64_t cols)
{
    enum { LANES_MOST = 1024 };
    const bt_fused_order order = x->order;
    const int64_t lanes = order.lanes ? order.lanes : 1;
    const int64_t whole = cols - cols % lanes;
    double sum[LANES_MOST] = {0}, part[LANES_MOST] = {0};
    for (int64_t i = 0; i < cols; ++i) {
        const int64_t lane = i % lanes, nth = i / lanes;
        const bool apart = order.block == 0 || (order.tail && i >= whole);
        const bt_dtype dtype = apart ? order.sum : order.part;
        if (apart && order.block) { // an unfinished part precedes the elements after it
            sum[lane] = add(order.sum, sum[lane], part[lane]);
            part[lane] = 0;
        }
        double *into = apart ? &sum[lane] : &part[lane];
        const double element = rounded(dtype, a[i]);
        *into = !b                ? add(dtype, *into, element)
                : dtype == BT_F32 ? (double)fmaf((float)a[i], (float)b[i], (float)*into)
                                  : fma(element, b[i], *into);
        if (!apart && (nth + 1) % order.block == 0) {
            sum[lane] = add(order.sum, sum[lane], part[lane]);
            part[lane] = 0;
        }
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
        sum[lane] = add(order.sum, sum[lane], part[lane]);
    }
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
        for (int64_t lane = 0; lane < half; ++lane) {
            sum[lane] = add(order.sum, sum[lane], sum[lane + half]);
        }
    }
    return rounded(x->dtype, sum[0]);
}

static double row_max(const double *a, int64_t cols)
{
    double most = -(double)INFINITY;
    for (int64_t i = 0; i < cols; ++i) {
        most = a[i] > most ? a[i] : most;
    }
    return most;
}

static void row_reduction(const state *s, const bt_fused_instruction *x, double *y)
{
    for (int64_t row = 0; row < s->count; row += s->cols) {
        const double *a = value_of(s, x->a) + row;
        const double *b = x->op == BT_FUSED_ROW_DOT ? value_of(s, x->b) + row : NULL;
        const double made =
            x->op == BT_FUSED_ROW_MAX ? row_max(a, s->cols) : row_sum(x, a, b, s->cols);
        for (int64_t i = 0; i < s->cols; ++i) {
            y[row + i] = made;
        }
    }
}

static void column_sum(const state *s, const bt_fused_instruction *x, double *y)
{
    const double *a = value_of(s, x->a);
    for (int64_t c = 0; c < s->cols; ++c) {
        double sum = 0;
        for (int64_t row = 0; row < s->count; row += s->cols) {
            sum = add(x->order.sum, sum, a[row + c]);
        }
        for (int64_t row = 0; row < s->count; row += s->cols) {
            y[row + c] = rounded(x->dtype, sum);
        }
    }
}

// ---- the program --------------------------------------------------------------------------------

static void move(const state *s, const bt_fused_instruction *x, double *y)
{
    const bt_fused_operand *operand = &s->group->operands[x->operand];
    void *memory = s->at[x->operand];
    for (int64_t i = 0; i < s->count; ++i) {
        const int64_t element = place(s->group, operand, i);
        if (x->op == BT_FUSED_LOAD) {
            y[i] = read_as(operand->dtype, memory, element);
            continue;
        }
        const double before =
            x->op == BT_FUSED_STORE_ADD ? read_as(operand->dtype, memory, element) : 0;
        const double stored = value_of(s, x->a)[i];
        write_as(operand->dtype, memory, element,
                 x->op == BT_FUSED_STORE_ADD ? rounded(x->dtype, before + stored) : stored);
    }
}

static void index_of(const state *s, const bt_fused_instruction *x, double *y)
{
    for (int64_t i = 0; i < s->count; ++i) {
        int64_t rest = i;
        for (int axis = s->group->rank - 1; axis > x->axis; --axis) {
            rest /= s->group->shape[axis];
        }
        y[i] = (double)(rest % s->group->shape[x->axis]);
    }
}

static bt_status step(const state *s, int at)
{
    const bt_fused_instruction *x = &s->group->code[at];
    double *y = value_of(s, at);
    switch (x->op) {
    case BT_FUSED_LOAD:
    case BT_FUSED_STORE:
    case BT_FUSED_STORE_ADD:
        move(s, x, y);
        return BT_OK;
    case BT_FUSED_UNARY:
    case BT_FUSED_SLOPE:
        if (x->dtype == BT_F32 && bt_fused_is_softmax_exp(s->group, x)) {
            softmax_exps(s, x, y);
            return BT_OK;
        }
        return functions(s, x, y);
    case BT_FUSED_RESULT:
        return result(s, x, y);
    case BT_FUSED_INDEX:
        index_of(s, x, y);
        return BT_OK;
    case BT_FUSED_KEEP:
        keep(s, x, y);
        return BT_OK;
    case BT_FUSED_ROW_SUM:
    case BT_FUSED_ROW_DOT:
    case BT_FUSED_ROW_MAX:
        row_reduction(s, x, y);
        return BT_OK;
    case BT_FUSED_COLUMN_SUM:
        column_sum(s, x, y);
        return BT_OK;
    case BT_FUSED_CONST:
    case BT_FUSED_CAST:
    case BT_FUSED_ADD:
    case BT_FUSED_SUB:
    case BT_FUSED_MUL:
    case BT_FUSED_DIV:
    case BT_FUSED_MAX:
    case BT_FUSED_FMA:
    case BT_FUSED_EQUAL:
    case BT_FUSED_SELECT:
    case BT_FUSED_OP_COUNT:
        break;
    }
    elementwise(s, x, y);
    return BT_OK;
}

bt_status bt_fused_interpret(void *self, bt_context *context, const bt_fused *group,
                             void *const *at)
{
    state s = {.context = context, .group = group, .at = at, .count = 1};
    void *values = NULL;
    (void)self;
    if (context->device->backend->kind != BT_DEVICE_CPU) {
        return bt_error(BT_STATUS_UNSUPPORTED, "interpret: groups run on the CPU only");
    }
    for (int i = 0; i < group->rank; ++i) {
        s.count *= group->shape[i];
    }
    s.cols = group->shape[group->rank - 1];
    BT_TRY(bt_mem_alloc((size_t)s.count * (size_t)group->code_count, sizeof(double), &values));
    s.values = values;
    bt_status status = BT_OK;
    for (int i = 0; i < group->code_count && status == BT_OK; ++i) {
        status = step(&s, i);
    }
    bt_mem_free(values);
    return status;
}

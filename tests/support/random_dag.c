// tests/support/random_dag.c - drawing, running and shrinking graphs of kernel calls
#include "tests/support/random_dag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

bool random_dag_large;
const bt_fusion_plan *random_dag_plan;
bt_fused_launch random_dag_launch;

// A value and its shape: [rows or 1, cols or 1].
typedef struct drawn {
    int value;
    bool rows, cols;
    bt_dtype dtype;
} drawn;

typedef struct maker {
    bt_dag *graph;
    bt_rng rng;
    uint64_t next;
    int64_t rows, cols;
    drawn values[4 * RANDOM_DAG_NODES];
    int count;
} maker;

static int below(maker *m, int bound)
{
    return (int)bt_rng_below(m->rng, m->next++, (uint64_t)bound);
}

static int64_t count_of(const maker *m, const drawn *x)
{
    return (x->rows ? m->rows : 1) * (x->cols ? m->cols : 1);
}

static void keep(maker *m, int value, bool rows, bool cols, bt_dtype dtype)
{
    if (m->count < (int)(sizeof m->values / sizeof m->values[0])) {
        m->values[m->count++] = (drawn){value, rows, cols, dtype};
    }
}

static const drawn *pick(maker *m)
{
    // newer ones more often, so that graphs are deep
    const int a = below(m, m->count), b = below(m, m->count);
    if (below(m, 4) == 0) {
        return &m->values[m->count - 1];
    }
    return &m->values[a > b ? a : b];
}

static const drawn *pick_like(maker *m, bt_dtype dtype, bool full)
{
    for (int tries = 0; tries < 40; ++tries) {
        const drawn *x = pick(m);
        if (x->dtype == dtype && (!full || (x->rows && x->cols))) {
            return x;
        }
    }
    return NULL;
}

static void draw_unary(maker *m)
{
    static const bt_unary functions[] = {BT_UNARY_GELU,    BT_UNARY_RELU,   BT_UNARY_SILU,
                                         BT_UNARY_TANH,    BT_UNARY_NEGATE, BT_UNARY_SCALE,
                                         BT_UNARY_SIGMOID, BT_UNARY_SHIFT,  BT_UNARY_NEGATE};
    static const double alphas[] = {0, 1, -1, 0.5, 2};
    const drawn x = *pick(m);
    int y = -1;
    const bt_unary function = functions[below(m, 9)];
    ASSERT_OK(bt_dag_unary(m->graph, function, alphas[below(m, 5)], x.value, &y));
    keep(m, y, x.rows, x.cols, x.dtype);
}

// A function of a matrix's first rows, made a matrix again by a broadcast of its last one.
static void draw_part(maker *m)
{
    const drawn *x = pick_like(m, below(m, 2) ? BT_F32 : BT_F64, true);
    int results[2] = {-1, -1};
    if (!x || m->rows == 0) {
        return;
    }
    const drawn from = *x;
    const int64_t rows = 1 + below(m, (int)m->rows);
    const bt_unary_args unary = {
        .function = BT_UNARY_RELU, .count = rows * m->cols, .dtype = from.dtype};
    ASSERT_OK(bt_dag_call(
        m->graph, BT_KERNEL_UNARY, &unary,
        (bt_dag_binding[]){{.field = "x", .value = from.value}, {.field = "y", .value = -1}}, 2,
        results));
    const int part = results[1];
    const bt_copy_args copy = {.rank = 2,
                               .shape = {m->rows, m->cols},
                               .x_stride = {0, 1},
                               .y_stride = {m->cols, 1},
                               .x_dtype = from.dtype,
                               .y_dtype = from.dtype};
    ASSERT_OK(bt_dag_call(m->graph, BT_KERNEL_COPY, &copy,
                          (bt_dag_binding[]){{.field = "x",
                                              .value = part,
                                              .offset_bytes = (rows - 1) * m->cols *
                                                              (int64_t)bt_dtype_size(from.dtype)},
                                             {.field = "y", .value = -1}},
                          2, results));
    keep(m, results[1], true, true, from.dtype);
}

static void draw_slope(maker *m)
{
    const drawn x = *pick(m);
    const drawn *dy = pick_like(m, x.dtype, x.rows && x.cols);
    int results[3] = {-1, -1, -1};
    if (!dy || count_of(m, dy) != count_of(m, &x) || dy->rows != x.rows) {
        return;
    }
    const bt_unary_backward_args args = {.function = below(m, 2) ? BT_UNARY_GELU : BT_UNARY_SILU,
                                         .count = count_of(m, &x),
                                         .dtype = x.dtype,
                                         .accumulate = below(m, 3) == 0};
    const drawn *to = args.accumulate ? pick_like(m, x.dtype, x.rows && x.cols) : NULL;
    if (args.accumulate && (!to || count_of(m, to) != args.count || to->rows != x.rows)) {
        return;
    }
    ASSERT_OK(bt_dag_call(m->graph, BT_KERNEL_UNARY_BACKWARD, &args,
                          (bt_dag_binding[]){{.field = "x", .value = x.value},
                                             {.field = "dy", .value = dy->value},
                                             {.field = "dx", .value = to ? to->value : -1}},
                          3, results));
    keep(m, results[2], x.rows, x.cols, x.dtype);
}

static void draw_binary(maker *m)
{
    const drawn a = *pick(m);
    const drawn *b = pick_like(m, a.dtype, false);
    int y = -1;
    if (!b) {
        return;
    }
    const bool rows = a.rows || b->rows, cols = a.cols || b->cols;
    const int64_t shape[] = {rows ? m->rows : 1, cols ? m->cols : 1};
    const int64_t as[] = {a.rows ? (a.cols ? m->cols : 1) : 0, a.cols ? 1 : 0};
    const int64_t bs[] = {b->rows ? (b->cols ? m->cols : 1) : 0, b->cols ? 1 : 0};
    ASSERT_OK(
        bt_dag_binary(m->graph, (bt_binary)below(m, 3), 2, shape, a.value, as, b->value, bs, &y));
    keep(m, y, rows, cols, a.dtype);
}

static void draw_cast(maker *m)
{
    const drawn x = *pick(m);
    const bt_dtype dtype = below(m, 3) == 0 ? x.dtype : x.dtype == BT_F32 ? BT_F64 : BT_F32;
    const int64_t shape[] = {count_of(m, &x)}, stride[] = {1};
    int y = -1;
    ASSERT_OK(bt_dag_copy_of(m->graph, 1, shape, x.value, stride, dtype, &y));
    keep(m, y, x.rows, x.cols, dtype);
}

// A square transpose, or a broadcast of a row, a column or a scalar.
static void draw_layout(maker *m)
{
    const drawn x = *pick(m);
    const bool turn = x.rows && x.cols && m->rows == m->cols;
    const int64_t shape[] = {m->rows, m->cols};
    const int64_t seen[] = {x.rows ? (x.cols ? m->cols : 1) : 0, x.cols ? 1 : 0};
    const int64_t turned[] = {1, m->cols};
    int y = -1;
    ASSERT_OK(bt_dag_copy_of(m->graph, 2, shape, x.value, turn ? turned : seen, x.dtype, &y));
    keep(m, y, true, true, x.dtype);
}

static void draw_sum(maker *m)
{
    const drawn *x = pick_like(m, below(m, 2) ? BT_F32 : BT_F64, true);
    const bool last = below(m, 2);
    int y = -1;
    if (!x) {
        return;
    }
    const drawn from = *x;
    ASSERT_OK(last ? bt_dag_sum(m->graph, from.value, m->rows, m->cols, 1, 0.125, &y)
                   : bt_dag_sum(m->graph, from.value, 1, m->rows, m->cols, 0.25, &y));
    keep(m, y, last, !last, from.dtype);
}

static void draw_softmax(maker *m)
{
    const drawn *x = pick_like(m, below(m, 2) ? BT_F32 : BT_F64, true);
    int results[2] = {-1, -1};
    if (!x) {
        return;
    }
    const drawn from = *x;
    int scaled = from.value;
    if (m->count % 3 == 0) { // so far apart that exponentials are subnormal, or 0
        ASSERT_OK(bt_dag_unary(m->graph, BT_UNARY_SCALE, 60, from.value, &scaled));
    }
    const bt_softmax_args args = {.rows = m->rows, .cols = m->cols, .dtype = from.dtype};
    ASSERT_OK(bt_dag_call(
        m->graph, BT_KERNEL_SOFTMAX, &args,
        (bt_dag_binding[]){{.field = "x", .value = scaled}, {.field = "y", .value = -1}}, 2,
        results));
    keep(m, results[1], true, true, from.dtype);
}

static const drawn *pick_column(maker *m, bt_dtype dtype)
{
    for (int i = 0; i < m->count; ++i) {
        if (m->values[i].dtype == dtype && !m->values[i].rows && m->values[i].cols) {
            return &m->values[i];
        }
    }
    return NULL;
}

static void draw_layernorm(maker *m)
{
    const drawn *x = pick_like(m, below(m, 2) ? BT_F32 : BT_F64, true);
    const drawn *gamma = x ? pick_column(m, x->dtype) : NULL;
    int results[5] = {-1, -1, -1, -1, -1};
    if (!gamma) {
        return;
    }
    const drawn from = *x;
    const bt_layernorm_args args = {.rows = m->cols ? m->rows : 0, // as the op calls it
                                    .cols = m->cols,
                                    .epsilon = 1e-5,
                                    .dtype = from.dtype,
                                    .param_dtype = from.dtype};
    ASSERT_OK(bt_dag_call(m->graph, BT_KERNEL_LAYERNORM, &args,
                          (bt_dag_binding[]){{.field = "x", .value = from.value},
                                             {.field = "gamma", .value = gamma->value},
                                             {.field = "y", .value = -1},
                                             {.field = "mean", .value = -1},
                                             {.field = "rstd", .value = -1}},
                          5, results));
    keep(m, results[2], true, true, from.dtype);
    if (m->cols) {
        keep(m, results[3], true, false, from.dtype);
    }
}

// The value as bf16, for a product's operand.
static int narrowed(maker *m, const drawn *x)
{
    const int64_t shape[] = {count_of(m, x)}, stride[] = {1};
    int y = -1;
    ASSERT_OK(bt_dag_copy_of(m->graph, 1, shape, x->value, stride, BT_BF16, &y));
    return y;
}

static int product(maker *m, const bt_gemm_args *args, int a, int b, int c)
{
    bt_dag_binding bindings[] = {{.field = "a", .value = a},
                                 {.field = "b", .value = b},
                                 {.field = "c", .value = c},
                                 {.field = "d", .value = -1}};
    int results[4] = {-1, -1, -1, -1};
    if (c < 0) {
        bindings[2] = bindings[3];
    }
    ASSERT_OK(bt_dag_call(m->graph, BT_KERNEL_GEMM, args, bindings, c < 0 ? 3 : 4, results));
    return results[c < 0 ? 2 : 3];
}

// a b^T, [rows, rows], and that times c: [rows, cols]. Square ones may be two entries of half the
// rows each, and have any layout.
static void draw_product(maker *m)
{
    const drawn *a = pick_like(m, BT_F32, true), *b = pick_like(m, BT_F32, true);
    const drawn *c = pick_like(m, BT_F32, true);
    if (!a || !b || !c) {
        return;
    }
    const bool square = m->rows == m->cols, two = square && m->rows % 2 == 0 && below(m, 2);
    const bool narrow = below(m, 3) == 0, adds = square && below(m, 3) == 0;
    const int left = narrow ? narrowed(m, a) : a->value, right = narrow ? narrowed(m, b) : b->value;
    bt_gemm_args args = {.m = m->rows,
                         .n = m->rows,
                         .k = m->cols,
                         .trans_b = true,
                         .lda = m->cols,
                         .ldb = m->cols,
                         .ldc = m->rows,
                         .ldd = m->rows,
                         .batch = 1,
                         .alpha = 0.1,
                         .ab_dtype = narrow ? BT_BF16 : BT_F32,
                         .d_dtype = BT_F32};
    if (square) {
        args.trans_a = below(m, 2) && !two;
        args.trans_b = below(m, 2);
        args.beta = adds ? 0.5 : 0;
    }
    if (two) {
        args.batch = 2;
        args.m /= 2;
        args.stride_a = args.stride_c = args.stride_d = args.m * args.n;
    }
    const int made = product(m, &args, left, right, adds ? c->value : -1);
    if (square) {
        keep(m, made, true, true, BT_F32);
        return;
    }
    const bt_gemm_args second = {.m = m->rows,
                                 .n = m->cols,
                                 .k = m->rows,
                                 .lda = m->rows,
                                 .ldb = m->cols,
                                 .ldd = m->cols,
                                 .batch = 1,
                                 .alpha = 0.25,
                                 .ab_dtype = BT_F32,
                                 .d_dtype = BT_F32};
    keep(m, product(m, &second, made, c->value, -1), true, true, BT_F32);
}

static void draw_dropout(maker *m)
{
    const drawn x = *pick(m);
    const bt_dropout_args args = {.count = count_of(m, &x),
                                  .rate = 0.25,
                                  .seed = 5,
                                  .stream = (uint64_t)below(m, 2),
                                  .dtype = x.dtype};
    int results[2] = {-1, -1};
    ASSERT_OK(bt_dag_call(
        m->graph, BT_KERNEL_DROPOUT, &args,
        (bt_dag_binding[]){{.field = "x", .value = x.value}, {.field = "y", .value = -1}}, 2,
        results));
    keep(m, results[1], x.rows, x.cols, x.dtype);
}

static void draw_fill(maker *m)
{
    static const double values[] = {0, 1, 0.5};
    const bool rows = below(m, 2), cols = below(m, 2);
    const drawn like = {0, rows, cols, below(m, 2) ? BT_F32 : BT_F64};
    int y = -1;
    ASSERT_OK(bt_dag_fill(m->graph, like.dtype, count_of(m, &like), values[below(m, 3)], &y));
    keep(m, y, rows, cols, like.dtype);
}

// Writes one row of a matrix anew.
static void draw_write(maker *m)
{
    const drawn *x = pick_like(m, BT_F32, true);
    int y = -1;
    if (!x || m->rows == 0) {
        return;
    }
    const bt_fill_args args = {.count = m->cols, .dtype = BT_F32, .value = 0.75};
    ASSERT_OK(bt_dag_call(m->graph, BT_KERNEL_FILL, &args,
                          &(bt_dag_binding){.field = "y",
                                            .value = x->value,
                                            .offset_bytes = (m->rows - 1) * m->cols * 4},
                          1, &y));
    keep(m, y, true, true, BT_F32);
}

void random_dag_make(uint64_t seed, bt_dag *graph)
{
    static void (*const draws[])(maker *) = {
        draw_unary,  draw_unary,   draw_unary,   draw_slope, draw_binary,  draw_binary,
        draw_binary, draw_cast,    draw_layout,  draw_sum,   draw_softmax, draw_layernorm,
        draw_fill,   draw_product, draw_dropout, draw_write};
    maker m = {.graph = graph, .rng = {seed, 77}};
    *graph = (bt_dag){0};
    m.rows = 1 + below(&m, random_dag_large ? 60 : 5);
    m.cols = below(&m, 2) ? m.rows : 1 + below(&m, random_dag_large ? 1200 : 70);
    if (seed % 12 == 5) { // none of one dimension, or of both where it is square
        *(seed % 24 == 5 ? &m.rows : &m.cols) = 0;
    }
    for (int i = 0; i < 8; ++i) { // two types of matrix, row, column, scalar
        const drawn x = {0, i & 1, i & 2, i & 4 ? BT_F64 : BT_F32};
        int value = -1;
        ASSERT_OK(bt_dag_input(graph, x.dtype, count_of(&m, &x), "input", &value));
        keep(&m, value, x.rows, x.cols, x.dtype);
    }
    const int nodes = 1 + below(&m, RANDOM_DAG_NODES);
    for (int i = 0; i < nodes; ++i) {
        draws[below(&m, (int)(sizeof draws / sizeof draws[0]))](&m);
    }
    if (seed % 3 == 0) {
        draw_part(&m);
    }
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(bt_dag_output(graph, pick(&m)->value));
    }
    ASSERT_OK(bt_dag_check(graph));
}

// ---- running ------------------------------------------------------------------------------------

static void fill_input(const bt_dag_value *value, int place, void *memory)
{
    const int64_t count = bt_dag_value_count(value);
    float *numbers = calloc((size_t)count + 1, sizeof *numbers);
    bt_rng_uniform_fill((bt_rng){99, (uint64_t)place}, numbers, count, -1.5, 1.5);
    for (int64_t i = 0; i < count; ++i) {
        if (value->dtype == BT_F64) {
            ((double *)memory)[i] = (double)numbers[i];
        } else if (value->dtype == BT_BF16) {
            ((uint16_t *)memory)[i] = bt_f32_to_bf16(numbers[i]);
        } else {
            ((float *)memory)[i] = numbers[i];
        }
    }
    free(numbers);
}

size_t random_dag_run(fixture *f, const bt_dag *graph, unsigned char **out)
{
    void **memory = calloc((size_t)graph->value_count + 1, sizeof *memory);
    size_t bytes = 0, at = 0;
    for (int i = 0; i < graph->value_count; ++i) {
        if (graph->values[i].producer < 0) {
            memory[i] = calloc(1, (size_t)graph->values[i].size_bytes + 1);
            fill_input(&graph->values[i], i, memory[i]);
        }
        bytes += graph->values[i].is_output ? (size_t)graph->values[i].size_bytes : 0;
    }
    ASSERT_OK(
        bt_dag_run_fused(&f->context, graph, random_dag_plan, random_dag_launch, NULL, memory));
    *out = calloc(1, bytes + 1);
    for (int i = 0; i < graph->value_count; ++i) {
        const bt_dag_value *value = &graph->values[i];
        if (value->is_output) {
            memcpy(*out + at, memory[i], (size_t)value->size_bytes);
            at += (size_t)value->size_bytes;
        }
        if (value->producer < 0) {
            free(memory[i]);
        } else if (value->is_output) {
            bt_pool_free(f->context.pool, memory[i]);
        } else {
            assert_null(memory[i]); // memory that is not needed any more is returned
        }
    }
    free(memory);
    return bytes;
}

// ---- shrinking ----------------------------------------------------------------------------------

// The graph without one node, whose results become inputs.
static void without_node(const bt_dag *graph, int node, bt_dag *smaller)
{
    int number = 0;
    *smaller = (bt_dag){0};
    for (int i = 0; i < graph->value_count; ++i) {
        bt_dag_value value = graph->values[i];
        value.base = value.producer == node ? -1 : value.base;
        value.producer = -1;
        ASSERT_OK(bt_dag_value_append(smaller, &value, &number));
    }
    for (int i = 0; i < graph->node_count; ++i) {
        if (i != node) {
            ASSERT_OK(bt_dag_node_append(smaller, &graph->nodes[i]));
        }
    }
}

void random_dag_shrink(random_dag_fails fails, void *self, bt_dag *graph)
{
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = graph->node_count - 1; i >= 0; --i) {
            bt_dag candidate;
            without_node(graph, i, &candidate);
            if (fails(self, &candidate)) {
                bt_dag_release(graph);
                *graph = candidate;
                smaller = true;
            } else {
                bt_dag_release(&candidate);
            }
        }
        for (int i = 0; i < graph->value_count; ++i) {
            if (graph->values[i].is_output) {
                graph->values[i].is_output = false;
                const bool still = fails(self, graph);
                graph->values[i].is_output = !still;
                smaller = smaller || still;
            }
        }
    }
}

void random_dag_show(const char *what, uint64_t seed, const bt_dag *graph)
{
    bt_str text = {0};
    bt_dag_print(graph, &text);
    (void)fprintf(stderr, "%s, seed %llu; the smallest graph that fails:\n%s", what,
                  (unsigned long long)seed, bt_str_text(&text));
    bt_str_release(&text);
}

// Attention beyond the plain call on CUDA against the CPU in double, by every row that serves the
// call: grouped heads, windows, parts of the keys, packed documents, dropout, gradients that are
// added or not wanted, head sizes up to 256 and odd ones, operands off alignment; each separately,
// around tile edges, and many of them together at every token count up to 300; large scores; the
// same bits from every schedule. With the argument `wide` ten times as many combinations, and
// larger calls.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const struct precision {
    const char *name;
    bt_dtype dtype;
    bt_compute compute;
    double roundoff; // of the products' operands
} precisions[] = {
    {"bf16", BT_BF16, BT_COMPUTE_NATIVE, 0x1p-8},
    {"tf32", BT_F32, BT_COMPUTE_TF32, 0x1p-11},
    {"f32", BT_F32, BT_COMPUTE_NATIVE, 0x1p-24},
};

enum { PRECISIONS = sizeof precisions / sizeof precisions[0], DOCUMENTS_MOST = 8 };

// Which gradients a backward computes, and whether it writes delta or is given it.
enum { WANT_ALL, WANT_DQ, WANT_DKV };
enum { DELTA_NONE, DELTA_WRITTEN, DELTA_GIVEN };

// Which results are added to old ones.
enum { ADD_O = 1, ADD_DQ = 2, ADD_DKV = 4, ADD_ALL = 7 };

typedef struct call {
    int64_t batch, heads, kv_heads, q_tokens, kv_tokens, dim;
    int64_t q_first, window;
    bool causal;
    double dropout;
    int adds;                    // ADD_*
    int64_t gap;                 // elements between two tokens' rows
    int64_t offset;              // elements off 16-byte alignment
    int64_t documents;           // 0: not packed
    double ends[DOCUMENTS_MOST]; // of the documents, as parts of all tokens
    double spread;               // of q, k and v; 0: 1
    int wants, delta;            // WANT_*, DELTA_*
} call;

// Each feature separately and combined with others; B, H, kv H, queries, keys, head size, first
// query, window, causal, dropout, what is added to.
static const call calls[] = {
    {2, 4, 4, 70, 70, 64, 0, 0, true, 0, ADD_ALL, .gap = 0},
    {2, 6, 2, 65, 65, 64, 0, 0, true, 0, 0, .gap = 0},
    {1, 8, 1, 130, 130, 128, 0, 0, false, 0, ADD_ALL, .gap = 0},
    {1, 6, 6, 300, 300, 64, 0, 0, true, 0, ADD_ALL, .gap = 8},
    {2, 90, 90, 130, 130, 128, 0, 0, true, 0, ADD_ALL, .gap = 0},
    {2, 3, 3, 257, 257, 96, 0, 0, false, 0, ADD_ALL, .gap = 8},
    {1, 3, 3, 100, 100, 64, 0, 0, true, 0, ADD_O | ADD_DQ, .gap = 0},
    {1, 3, 3, 100, 100, 72, 0, 0, false, 0, ADD_DKV, .gap = 0},
    {1, 2, 2, 200, 200, 64, 0, 1, true, 0, 0, .gap = 0},
    {1, 2, 2, 200, 200, 64, 0, 64, true, 0, 0, .gap = 0},
    {1, 2, 2, 200, 200, 64, 0, 65, false, 0, 0, .gap = 0},
    {1, 2, 2, 200, 200, 64, 0, 1000, true, 0, 0, .gap = 0},
    {1, 2, 2, 50, 200, 64, 150, 0, true, 0, 0, .gap = 0},
    {1, 2, 2, 64, 128, 64, 64, 0, true, 0, 0, .gap = 0},
    {1, 2, 2, 64, 128, 64, -30, 0, true, 0, 0, .gap = 0},
    {1, 2, 2, 64, 64, 64, -64, 0, true, 0, ADD_ALL, .gap = 0},
    {1, 2, 2, 64, 64, 64, 500, 0, true, 0, ADD_ALL, .gap = 0},
    {1, 2, 2, 64, 64, 64, 500, 30, true, 0, ADD_ALL, .gap = 0},
    {1, 2, 1, 1, 300, 64, 299, 0, true, 0, 0, .gap = 0},
    {1, 2, 1, 300, 1, 64, 0, 0, false, 0, 0, .gap = 0},
    {1, 2, 2, 0, 20, 64, 0, 0, false, 0, 0, .gap = 0},
    {1, 2, 2, 20, 0, 64, 0, 0, false, 0, 0, .gap = 0},
    {0, 2, 2, 20, 20, 64, 0, 0, false, 0, 0, .gap = 0},
    {2, 2, 2, 100, 100, 64, 0, 0, true, 0.1, 0, .gap = 0},
    {2, 4, 2, 97, 131, 64, 34, 0, true, 0.5, ADD_ALL, .gap = 0},
    {1, 2, 2, 64, 64, 64, 0, 0, false, 0.9, 0, .gap = 0},
    {1, 2, 2, 70, 70, 256, 0, 0, true, 0, 0, .gap = 0},
    {1, 4, 2, 130, 130, 256, 0, 40, true, 0.2, ADD_ALL, .gap = 0},
    {1, 2, 2, 100, 100, 192, 0, 0, false, 0, 0, .gap = 0},
    {1, 2, 2, 100, 100, 1, 0, 0, true, 0, 0, .gap = 0},
    {1, 2, 2, 100, 100, 33, 0, 0, true, 0, 0, .gap = 0},
    {1, 2, 1, 100, 100, 255, 0, 0, true, 0, ADD_ALL, .gap = 0},
    {1, 2, 2, 100, 100, 64, 0, 0, true, 0, 0, .gap = 3},
    {1, 2, 2, 100, 100, 64, 0, 0, true, 0, 0, .offset = 1},
    {1, 2, 2, 200, 200, 64, 0, 0, true, 0, 0, .documents = 1, .ends = {1}},
    {1, 2, 2, 200, 200, 64, 0, 0, true, 0, 0, .documents = 3, .ends = {0.32, 0.32, 1}},
    {1, 2, 2, 256, 256, 64, 0, 0, false, 0, 0, .documents = 3, .ends = {0.25, 0.5, 1}},
    {1, 4, 2, 300, 300, 64, 0, 20, true, 0.1, ADD_ALL, .documents = 4, .ends = {0, 0.1, 0.7, 1}},
    {1, 2, 2, 77, 77, 96, 0, 9, false, 0, 0, .documents = 4, .ends = {0.2, 0.5, 0.5, 1}},
};

typedef struct operands {
    test_twin *q, *k, *v, *o, *lse, *starts;
    test_twin *d_o, *dq, *dk, *dv, *delta;
} operands;

static int64_t width_of(const call *c, int64_t heads) { return heads * c->dim + c->gap; }

static int64_t q_count(const call *c) { return c->batch * c->q_tokens * width_of(c, c->heads); }

static int64_t k_count(const call *c) { return c->batch * c->kv_tokens * width_of(c, c->kv_heads); }

static bt_attention_view view_of(const call *c, const test_twin *twin, bool query, test_side side)
{
    int64_t width = width_of(c, query ? c->heads : c->kv_heads);
    int64_t tokens = query ? c->q_tokens : c->kv_tokens;
    return (bt_attention_view){test_at(twin, side), tokens * width, width, c->dim};
}

static bt_attention_shape shape_of(const call *c, const operands *at, test_side side)
{
    return (bt_attention_shape){.batch = c->batch,
                                .heads = c->heads,
                                .kv_heads = c->kv_heads,
                                .q_tokens = c->q_tokens,
                                .kv_tokens = c->kv_tokens,
                                .head_dim = c->dim,
                                .q_first = c->q_first,
                                .window = c->window,
                                .starts = test_at(at->starts, side),
                                .documents = c->documents,
                                .scale = 1 / sqrt((double)c->dim),
                                .causal = c->causal,
                                .dropout = c->dropout,
                                .seed = 0x123456789abcdefULL,
                                .stream = 77};
}

static bt_attention_args forward_args(const call *c, const struct precision *with,
                                      const operands *at, test_side side)
{
    return (bt_attention_args){.q = view_of(c, at->q, true, side),
                               .o = view_of(c, at->o, true, side),
                               .k = view_of(c, at->k, false, side),
                               .v = view_of(c, at->v, false, side),
                               .lse = test_at(at->lse, side),
                               .accumulate = (c->adds & ADD_O) != 0,
                               .shape = shape_of(c, at, side),
                               .compute = side == TEST_HOST ? BT_COMPUTE_NATIVE : with->compute,
                               .dtype = test_type(with->dtype, side)};
}

static bt_attention_backward_args backward_args(const call *c, const struct precision *with,
                                                const operands *at, test_side side)
{
    const bt_attention_view none = {NULL, 0, 0, 0};
    bt_attention_args f = forward_args(c, with, at, side);
    return (bt_attention_backward_args){
        .q = f.q,
        .o = f.o,
        .d_o = view_of(c, at->d_o, true, side),
        .k = f.k,
        .v = f.v,
        .lse = f.lse,
        .dq = c->wants == WANT_DKV ? none : view_of(c, at->dq, true, side),
        .dk = c->wants == WANT_DQ ? none : view_of(c, at->dk, false, side),
        .dv = c->wants == WANT_DQ ? none : view_of(c, at->dv, false, side),
        .accumulate_dq = (c->adds & ADD_DQ) != 0,
        .accumulate_dkv = (c->adds & ADD_DKV) != 0,
        .delta = test_at(at->delta, side),
        .delta_given = c->delta == DELTA_GIVEN,
        .shape = f.shape,
        .compute = f.compute,
        .dtype = f.dtype};
}

// Twins have gaps between rows, which no kernel writes: outputs start from values, not from poison,
// so that both sides agree there.
static test_twin *gradient(bt_dtype dtype, int64_t count, uint64_t seed)
{
    return test_twin_inout(dtype, count, seed, -1, 1);
}

static operands operands_make(const call *c, const struct precision *with)
{
    operands at = {.starts = NULL};
    bt_dtype dtype = with->dtype;
    test_twin_offset(0);
    if (c->documents > 0) {
        double starts[DOCUMENTS_MOST + 1] = {0};
        for (int64_t i = 0; i < c->documents; ++i) {
            starts[i + 1] = floor(c->ends[i] * (double)c->q_tokens);
        }
        at.starts = test_twin_values(BT_I32, starts, c->documents + 1);
    }
    at.lse = gradient(BT_F32, c->batch * c->heads * c->q_tokens, 9);
    test_twin_offset(c->offset);
    const double spread = c->spread > 0 ? c->spread : 1;
    at.q = test_twin_random(dtype, q_count(c), 1, -spread, spread);
    at.k = test_twin_random(dtype, k_count(c), 2, -spread, spread);
    at.v = test_twin_random(dtype, k_count(c), 3, -spread, spread);
    at.o = gradient(dtype, q_count(c), 4);
    test_twin_offset(0);
    return at;
}

// The host's results as inputs of the backward, which both sides see alike.
static test_twin *as_input(const test_twin *twin, bt_dtype dtype)
{
    double *values = test_doubles(twin->count);
    for (int64_t i = 0; i < twin->count; ++i) {
        values[i] = test_twin_get(twin, TEST_HOST, i);
    }
    test_twin *input = test_twin_values(dtype, values, twin->count);
    free(values);
    return input;
}

// delta of o and d_o as both sides see them.
static test_twin *delta_of(const call *c, const operands *at)
{
    const int64_t rows = c->batch * c->heads * c->q_tokens, width = width_of(c, c->heads);
    double *delta = test_doubles(rows);
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t token = row / (c->heads * c->q_tokens) * c->q_tokens + row % c->q_tokens;
        const int64_t from = token * width + row / c->q_tokens % c->heads * c->dim;
        for (int64_t d = from; d < from + c->dim; ++d) {
            delta[row] += test_twin_get(at->d_o, TEST_HOST, d) * test_twin_get(at->o, TEST_HOST, d);
        }
    }
    test_twin *input = test_twin_values(BT_F32, delta, rows);
    free(delta);
    return input;
}

// What a sum of terms of size `bound` may be off by: the roundings of its operands, and those of
// fp32 in the score, in exp2 (4 units) and along the sum, whose errors add up like a random walk.
static double tolerance(const call *c, const struct precision *with, double bound)
{
    double steps = 16 + sqrt((double)c->dim) + sqrt((double)(c->q_tokens + c->kv_tokens));
    return bound * (4 * with->roundoff + steps * 0x1p-23);
}

// Elementwise, and in the norm, where errors of many elements must average out and those of a sum
// of `bound` terms grow like a random walk.
static void check(const call *c, const struct precision *with, const test_twin *twin, double bound,
                  const char *what)
{
    double error = 0, size = 0, unit = tolerance(c, with, 1);
    test_twin_check(twin, tolerance(c, with, bound), bt_dtype_epsilon(twin->dtype), what);
    for (int64_t i = 0; i < twin->count; ++i) {
        double expected = test_twin_get(twin, TEST_HOST, i);
        if (isfinite(expected)) {
            error += pow(test_twin_get(twin, TEST_NEAR, i) - expected, 2);
            size += expected * expected;
        }
    }
    double limit = unit * (sqrt(size) + 0.25 * sqrt(bound * (double)twin->count));
    if (!(sqrt(error) <= limit)) {
        fail_msg("%s: norm of the error %g, at most %g", what, sqrt(error), limit);
    }
}

static void name_case(const call *c, const struct precision *with, const char *row)
{
    test_case_name("%s %s [%d, %d/%d, %d+%d, %d, %d] window %d %s dropout %g documents %d adds %d "
                   "wants %d delta %d",
                   with->name, row, (int)c->batch, (int)c->heads, (int)c->kv_heads, (int)c->q_first,
                   (int)c->q_tokens, (int)c->kv_tokens, (int)c->dim, (int)c->window,
                   c->causal ? "causal" : "full", c->dropout, (int)c->documents, c->adds, c->wants,
                   c->delta);
}

static bool serves(const bt_kernel *row, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    return row->op == op && row->dtype == dtype && row->min_arch <= test_device()->info.arch &&
           row->accepts(test_device(), args);
}

static const bt_kernel *last_row; // that run_rows ran, which is the one that a program would get

// Runs every row that serves the call; returns how many.
static int run_rows(bt_kernel_op op, const call *c, const struct precision *with, const void *host,
                    const void *near,
                    void (*check_row)(const call *, const struct precision *, const operands *),
                    const operands *at)
{
    int count = 0, served = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &count);
    for (int i = 0; i < count; ++i) {
        if (serves(&table[i], op, with->dtype, near)) {
            name_case(c, with, table[i].name);
            test_run_row(&table[i], served == 0 ? host : NULL, near);
            check_row(c, with, at);
            last_row = &table[i];
            ++served;
        }
    }
    return served;
}

static void check_forward(const call *c, const struct precision *with, const operands *at)
{
    if (c->spread > 1) { // fp32 sums leave 1e-2 in exponents of 1e4, tf32 changes the scores
        const double limit = with->compute == BT_COMPUTE_TF32 ? 2.01 : 0.05;
        test_twin_check(at->o, limit * c->spread, 0, "o");
        return;
    }
    check(c, with, at->o, 1 / (1 - c->dropout), "o");
    check(c, with, at->lse, 1, "lse");
}

// A key's gradients sum over the queries that see it and the group's heads. Its weights are about
// queries / keys, more under a causal mask (about log T); dropout scales P and dP.
static void check_backward(const call *c, const struct precision *with, const operands *at)
{
    double kept = 1 / (1 - c->dropout), group = (double)c->heads / (double)c->kv_heads;
    double weight = 4 * (1 + (double)c->q_tokens / (double)(c->kv_tokens + 1)) * kept * kept;
    check(c, with, at->dq, 4 * kept * kept, "dq");
    check(c, with, at->dk, weight * group, "dk");
    check(c, with, at->dv, weight * group, "dv");
    if (c->delta == DELTA_WRITTEN) {
        check(c, with, at->delta, 4, "delta");
    }
}

static void check_call(const call *c, const struct precision *with)
{
    operands at = operands_make(c, with);
    bt_attention_args forward[TEST_SIDES] = {forward_args(c, with, &at, TEST_HOST),
                                             forward_args(c, with, &at, TEST_NEAR)};
    assert_true(run_rows(BT_KERNEL_ATTENTION, c, with, &forward[TEST_HOST], &forward[TEST_NEAR],
                         check_forward, &at) > 0);
    if (c->spread > 1) {
        test_twins_release();
        return;
    }
    test_twin_offset(c->offset);
    at.o = as_input(at.o, with->dtype);
    at.d_o = test_twin_random(with->dtype, q_count(c), 5, -1, 1);
    at.dq = gradient(with->dtype, q_count(c), 6);
    at.dk = gradient(with->dtype, k_count(c), 7);
    at.dv = gradient(with->dtype, k_count(c), 8);
    test_twin_offset(0);
    at.lse = as_input(at.lse, BT_F32);
    at.delta = c->delta == DELTA_GIVEN     ? delta_of(c, &at)
               : c->delta == DELTA_WRITTEN ? test_twin_output(BT_F32, at.lse->count)
                                           : NULL;
    bt_attention_backward_args backward[TEST_SIDES] = {backward_args(c, with, &at, TEST_HOST),
                                                       backward_args(c, with, &at, TEST_NEAR)};
    assert_true(run_rows(BT_KERNEL_ATTENTION_BACKWARD, c, with, &backward[TEST_HOST],
                         &backward[TEST_NEAR], check_backward, &at) > 0);
    test_twins_release();
}

static void each_feature(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0] * PRECISIONS; ++i) {
        check_call(&calls[i / PRECISIONS], &precisions[i % PRECISIONS]);
    }
}

static const int sides[][2] = {
    {WANT_DQ, DELTA_WRITTEN}, {WANT_DKV, DELTA_GIVEN}, {WANT_ALL, DELTA_WRITTEN}};
enum { SIDES = sizeof sides / sizeof sides[0] };

static void each_side_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIDES * sizeof calls / sizeof calls[0] * PRECISIONS; ++i) {
        call c = calls[i / (SIDES * PRECISIONS)];
        c.wants = sides[i % SIDES][0], c.delta = sides[i % SIDES][1];
        check_call(&c, &precisions[i / SIDES % PRECISIONS]);
    }
}

// So many heads that the kernels of the sides do not run at once: then those of Hopper serve each.
static void each_side_of_many_heads(void **state)
{
    (void)state;
    static const call many[] = {
        {4, 60, 60, 200, 200, 64, 0, 0, true, 0, 0, .gap = 0},
        {4, 60, 60, 200, 130, 64, 0, 0, false, 0, ADD_ALL, .gap = 0},
        {2, 60, 20, 200, 200, 64, 0, 70, true, 0, ADD_ALL, .gap = 8},
        {2, 60, 60, 130, 130, 128, 0, 0, true, 0, ADD_ALL, .gap = 0},
    };
    for (size_t i = 0; i < SIDES * sizeof many / sizeof many[0] * 2; ++i) {
        const struct precision *with = &precisions[i / SIDES % 2]; // bf16 and tf32
        call c = many[i / (SIDES * 2)];
        c.wants = sides[i % SIDES][0], c.delta = sides[i % SIDES][1];
        check_call(&c, with);
        assert_true(test_device()->info.arch < 90 || last_row->min_arch >= 90);
    }
}

// Features drawn anew for every token count; each precision is tested with every third count three
// times. Wide: from the second time on also other groups of heads, and head sizes that Hopper's
// rows take.
static void features_together(void **state)
{
    (void)state;
    static const int64_t dims[] = {64, 64, 32, 128, 40, 17, 256, 100};
    for (int64_t i = 0; i < (test_is_wide() ? 3000 : 300); ++i) {
        uint32_t a[4], b[4], tokens = (uint32_t)(1 + i % 300);
        bt_rng_block((bt_rng){2026, 11}, (uint64_t)(2 * i), a);
        bt_rng_block((bt_rng){2026, 11}, (uint64_t)(2 * i + 1), b);
        call c = {1, 2, a[0] % 2 + 1, tokens, tokens, dims[a[0] >> 8 & 7], .causal = a[1] & 1};
        c.window = a[1] >> 8 & 1 ? 1 + a[2] % 150 : 0;
        c.dropout = a[1] >> 9 & 1 ? 0.25 : 0;
        c.adds = a[1] >> 13 & ADD_ALL;
        c.wants = (int)((a[0] >> 16) % 3), c.delta = (int)((a[0] >> 20) % 3);
        if (a[1] >> 11 & 1) {
            c.documents = 4;
            c.ends[0] = 0.5 * (b[0] % 101) / 100, c.ends[1] = c.ends[0];
            c.ends[2] = c.ends[1] + (1 - c.ends[1]) * (b[1] % 101) / 100, c.ends[3] = 1;
        } else {
            c.batch = 1 + (a[1] >> 12 & 1);
            c.kv_tokens = 1 + b[2] % 300;
            c.q_first = (int64_t)(b[3] % 200) - 50;
        }
        if (i >= 300) {
            c.heads = c.kv_heads << (a[2] >> 8) % 3;
            c.dim = 8 * (1 + (a[3] >> 8) % 16);
        }
        check_call(&c, &precisions[i % PRECISIONS]);
    }
}

// Old results with NaN, or over keys of which no score is finite, spread to their rows alone.
static void old_results_that_are_not_numbers(void **state)
{
    (void)state;
    static const call adding[] = {
        {1, 2, 2, 100, 100, 64, 0, 0, true, 0, ADD_O, .gap = 0},
        {1, 2, 2, 100, 100, 128, 0, 0, false, 0, ADD_O, .gap = 0},
        {1, 2, 2, 64, 64, 64, 500, 30, true, 0, ADD_O, .gap = 0}, // no key is seen
        {1, 4, 2, 130, 70, 64, 20, 25, true, 0, ADD_O, .gap = 0},
    };
    for (size_t i = 0; i < sizeof adding / sizeof adding[0] * PRECISIONS; ++i) {
        const call *c = &adding[i / PRECISIONS];
        const struct precision *with = &precisions[i % PRECISIONS];
        operands at = operands_make(c, with);
        for (int64_t row = 0; row < c->heads * c->q_tokens; ++row) {
            const int64_t head = row / c->q_tokens, token = row % c->q_tokens;
            const int64_t o = token * width_of(c, c->heads) + head * c->dim;
            if (row % 7 < 3) {
                test_twin_set(at.lse, row, row % 7 == 0 ? (double)NAN : -(double)INFINITY);
            }
            for (int64_t d = 0; d < c->dim && row % 7 < 3; ++d) { // the last saw no key
                test_twin_set(at.o, o + d, row % 7 < 2 ? (double)NAN : 0);
            }
        }
        const bt_attention_args host = forward_args(c, with, &at, TEST_HOST);
        const bt_attention_args near = forward_args(c, with, &at, TEST_NEAR);
        assert_true(run_rows(BT_KERNEL_ATTENTION, c, with, &host, &near, check_forward, &at) > 0);
        test_twins_release();
    }
}

static void large_scores(void **state)
{
    (void)state;
    static const call steep[] = {
        {1, 2, 2, 400, 400, 64, 0, 90, true, 0, 0, .spread = 100},
        {1, 2, 2, 400, 400, 128, 37, 0, true, 0, 0, .spread = 100},
    };
    for (size_t i = 0; i < sizeof steep / sizeof steep[0] * PRECISIONS; ++i) {
        check_call(&steep[i / PRECISIONS], &precisions[i % PRECISIONS]);
    }
}

// A Hopper row gives the same bits whatever the number of SMs, so whichever block does what.
static void check_schedules(const bt_kernel *row, const void *args, const test_twin *const *outputs)
{
    bt_device *device = test_device();
    const int processors = device->info.processor_count;
    unsigned char *first[3] = {NULL, NULL, NULL};
    for (int run = 0; run < 8; ++run) {
        device->info.processor_count = run == 0 ? processors : 1 + 16 * run;
        test_run_row(row, NULL, args);
        for (int i = 0; i < 3 && outputs[i]; ++i) {
            if (run == 0) {
                first[i] = malloc(outputs[i]->total_bytes);
                assert_non_null(first[i]);
                memcpy(first[i], outputs[i]->result, outputs[i]->total_bytes);
            }
            assert_memory_equal(first[i], outputs[i]->result, outputs[i]->total_bytes);
        }
    }
    device->info.processor_count = processors;
    for (int i = 0; i < 3; ++i) {
        free(first[i]);
    }
}

static void same_bits_from_every_schedule(void **state)
{
    (void)state;
    static const call schedules[] = {
        {2, 4, 2, 450, 450, 64, 0, 0, true, 0, ADD_ALL, .gap = 0},
        {1, 6, 3, 450, 450, 64, 0, 100, true, 0, 0, .documents = 3, .ends = {0.2, 0.5, 1}},
        {4, 12, 4, 1024, 1024, 64, 0, 0, true, 0, ADD_ALL, .gap = 0},
        {1, 12, 3, 3000, 3000, 64, 0, 300, true, 0, 0, .documents = 4, .ends = {0.1, 0.3, 0.6, 1}},
    };
    enum { SMALL = 2, ALL = sizeof schedules / sizeof schedules[0] };
    const int count = test_is_wide() ? ALL : SMALL;
    for (int i = 0; i < count * PRECISIONS; ++i) {
        const call *c = &schedules[i / PRECISIONS];
        const struct precision *with = &precisions[i % PRECISIONS];
        operands at = operands_make(c, with);
        at.d_o = test_twin_random(with->dtype, q_count(c), 5, -1, 1);
        at.dq = gradient(with->dtype, q_count(c), 6);
        at.dk = gradient(with->dtype, k_count(c), 7);
        at.dv = gradient(with->dtype, k_count(c), 8);
        const bt_attention_args forward = forward_args(c, with, &at, TEST_NEAR);
        const bt_attention_backward_args backward = backward_args(c, with, &at, TEST_NEAR);
        int rows = 0;
        const bt_kernel *table = bt_kernel_table(test_device(), &rows);
        for (const bt_kernel *row = table; row < table + rows; ++row) {
            name_case(c, with, row->name);
            if (row->min_arch < 90) {
                continue;
            }
            if (serves(row, BT_KERNEL_ATTENTION, with->dtype, &forward)) {
                check_schedules(row, &forward, (const test_twin *[]){at.o, at.lse, NULL});
            }
            if (serves(row, BT_KERNEL_ATTENTION_BACKWARD, with->dtype, &backward)) {
                check_schedules(row, &backward, (const test_twin *[]){at.dq, at.dk, at.dv});
            }
        }
        test_twins_release();
    }
}

// Which heads of an operand contain a NaN, one bit each.
static unsigned heads_with_nan(const call *c, const test_twin *twin, int64_t heads)
{
    unsigned found = 0;
    for (int64_t i = 0; i < twin->count; ++i) {
        if (isnan(test_twin_get(twin, TEST_NEAR, i))) {
            found |= 1U << i / c->dim % heads;
        }
    }
    return found;
}

static void expect_heads(const call *c, const operands *at, unsigned queries, unsigned keys)
{
    assert_int_equal(heads_with_nan(c, at->dq, c->heads), queries);
    assert_int_equal(heads_with_nan(c, at->dk, c->kv_heads), keys);
    assert_int_equal(heads_with_nan(c, at->dv, c->kv_heads), keys);
}

// A NaN in query head 1 of 4 stays in it and in its head of keys, 0 of 2.
static void nan_stays_in_its_group(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        const struct precision *with = &precisions[i];
        const call c = {1, 4, 2, 70, 70, 64, .causal = true, .window = 40, .dropout = 0.1};
        operands at = operands_make(&c, with);
        test_twin_set(at.q, 30 * c.heads * c.dim + c.dim + 3, TEST_NAN);
        const bt_attention_args forward = forward_args(&c, with, &at, TEST_NEAR);
        const bt_kernel *row = NULL;
        name_case(&c, with, "NaN");
        ASSERT_OK(bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, with->dtype, &forward, &row));
        test_run_row(row, NULL, &forward);
        assert_int_equal(heads_with_nan(&c, at.o, c.heads), 2);
        at.d_o = test_twin_random(with->dtype, q_count(&c), 5, -1, 1);
        test_twin *seen[2] = {test_twin_random(with->dtype, at.o->count, 1, 0, 1),
                              test_twin_random(BT_F32, at.lse->count, 1, 0, 1)};
        for (int64_t j = 0; j < at.o->count; ++j) {
            test_twin_set(seen[0], j, test_twin_get(at.o, TEST_NEAR, j));
        }
        for (int64_t j = 0; j < at.lse->count; ++j) {
            test_twin_set(seen[1], j, test_twin_get(at.lse, TEST_NEAR, j));
        }
        at.o = seen[0], at.lse = seen[1];
        at.dq = test_twin_output(with->dtype, q_count(&c));
        at.dk = test_twin_output(with->dtype, k_count(&c));
        at.dv = test_twin_output(with->dtype, k_count(&c));
        const bt_attention_backward_args backward = backward_args(&c, with, &at, TEST_NEAR);
        ASSERT_OK(bt_kernel_find(test_device(), BT_KERNEL_ATTENTION_BACKWARD, with->dtype,
                                 &backward, &row));
        test_run_row(row, NULL, &backward);
        expect_heads(&c, &at, 2, 1);
        test_twins_release();
    }
}

// The tiles of the general kernels are 16, 32 and 64 tokens.
static void around_tile_edges(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 3 * 3 * 6 * PRECISIONS; ++i) {
        int64_t around = (int64_t)64 << i % 3;
        int64_t tokens = around + i / 3 % 3 - 1, way = i / 9 % 6;
        call c = {1, 2, 1, tokens, tokens, 64, .window = way & 1 ? 64 : 0, .causal = way % 3 > 0};
        if (way >= 3) {
            c.documents = 2, c.ends[0] = 64.0 / (double)tokens, c.ends[1] = 1;
            c.ends[0] = c.ends[0] < 1 ? c.ends[0] : 1;
        }
        check_call(&c, &precisions[i / 54]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_feature),
        cmocka_unit_test(each_side_alone),
        cmocka_unit_test(each_side_of_many_heads),
        cmocka_unit_test(around_tile_edges),
        cmocka_unit_test(features_together),
        cmocka_unit_test(old_results_that_are_not_numbers),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(same_bits_from_every_schedule),
        cmocka_unit_test(nan_stays_in_its_group),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}

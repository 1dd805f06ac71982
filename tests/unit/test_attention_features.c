// tests/unit/test_attention_features.c - all of attention's interface on the CPU, against the
// definition written out pair by pair in double
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "kernels/attention.h"
#include "tests/support/kernel.h"

enum { STARTS_MOST = 7 };

typedef struct call {
    int64_t batch, heads, kv_heads, q_tokens, kv_tokens, dim;
    int64_t q_first, window;
    bool causal, accumulate;
    double dropout;
    int64_t documents;
    int32_t starts[STARTS_MOST];
} call;

// B, H, kv H, queries, keys, head size, first query, window, causal, accumulate, dropout, documents
static const call calls[] = {
    {2, 2, 2, 9, 9, 4, 0, 0, true, false, 0, 0, {0}},
    {2, 2, 2, 9, 9, 4, 0, 0, true, true, 0, 0, {0}},
    {2, 6, 2, 9, 9, 4, 0, 0, true, false, 0, 0, {0}},
    {2, 6, 1, 70, 70, 3, 0, 0, false, true, 0, 0, {0}},
    {1, 2, 2, 12, 12, 5, 0, 1, true, false, 0, 0, {0}},
    {1, 2, 2, 12, 12, 5, 0, 4, true, false, 0, 0, {0}},
    {1, 2, 2, 12, 12, 5, 0, 4, false, false, 0, 0, {0}},
    {1, 2, 2, 150, 150, 5, 0, 66, true, false, 0, 0, {0}},
    {1, 2, 2, 150, 150, 5, 0, 66, false, false, 0, 0, {0}},
    {1, 2, 2, 5, 20, 8, 15, 0, true, false, 0, 0, {0}},
    {1, 2, 2, 20, 5, 8, -10, 0, true, false, 0, 0, {0}},
    {1, 2, 2, 20, 5, 8, -10, 0, true, true, 0, 0, {0}},
    {1, 2, 2, 20, 5, 8, 0, 3, true, false, 0, 0, {0}},
    {1, 2, 2, 6, 6, 8, -6, 0, true, false, 0, 0, {0}},
    {1, 2, 2, 6, 6, 8, 1000, 9, false, true, 0, 0, {0}},
    {1, 2, 1, 130, 70, 8, -40, 30, true, false, 0, 0, {0}},
    {1, 2, 1, 0, 7, 8, 0, 0, false, false, 0, 0, {0}},
    {1, 2, 1, 7, 0, 8, 0, 0, false, false, 0, 0, {0}},
    {0, 2, 1, 7, 7, 8, 0, 0, false, false, 0, 0, {0}},
    {2, 2, 1, 9, 9, 4, 0, 0, true, false, 0.5, 0, {0}},
    {2, 4, 2, 70, 33, 4, 0, 0, false, true, 0.25, 0, {0}},
    {1, 2, 2, 9, 9, 4, 0, 0, true, false, 0, 1, {0, 9}},
    {1, 2, 2, 9, 9, 4, 0, 0, true, false, 0, 3, {0, 3, 3, 9}},
    {1, 2, 1, 9, 9, 4, 0, 0, false, false, 0, 5, {0, 0, 1, 5, 9, 9}},
    {1, 2, 2, 200, 200, 4, 0, 0, false, true, 0, 4, {0, 64, 70, 129, 200}},
    {1, 4, 2, 200, 200, 4, 0, 20, true, true, 0.3, 4, {0, 64, 70, 129, 200}},
};

// Operands as doubles, [B, T, H, D] and [B, H, T].
typedef struct operands {
    double *q, *k, *v, *o, *d_o, *dq, *dk, *dv, *lse;
    int64_t q_count, k_count, rows;
} operands;

static operands operands_make(const call *c)
{
    operands at = {.rows = c->batch * c->heads * c->q_tokens};
    at.q_count = at.rows * c->dim;
    at.k_count = c->batch * c->kv_heads * c->kv_tokens * c->dim;
    double **const all[] = {&at.q, &at.o, &at.d_o, &at.dq, &at.k, &at.v, &at.dk, &at.dv};
    for (int i = 0; i < 8; ++i) {
        int64_t count = i < 4 ? at.q_count : at.k_count;
        *all[i] = test_doubles(count);
        test_random(*all[i], count, (uint64_t)i, -2, 2);
    }
    at.lse = test_doubles(at.rows);
    return at;
}

static void operands_release(operands *at)
{
    free(at->q), free(at->o), free(at->d_o), free(at->dq), free(at->lse);
    free(at->k), free(at->v), free(at->dk), free(at->dv);
}

static int64_t document_of(const call *c, int64_t token)
{
    int64_t document = 0;
    for (int64_t n = 0; n < c->documents; ++n) {
        document = token >= c->starts[n] ? n : document;
    }
    return document;
}

static bool sees(const call *c, int64_t query, int64_t key)
{
    int64_t position = c->q_first + query, away = position - key;
    return document_of(c, query) == document_of(c, key) && (!c->causal || key <= position) &&
           (c->window == 0 || (away < c->window && away > -c->window));
}

// Dropout's factor for a probability.
static double mask_of(const call *c, uint64_t seed, uint64_t element)
{
    uint32_t words[4];
    bt_rng_block((bt_rng){seed, 5}, element / 4, words);
    float uniform = (float)(((words[element % 4] >> 8) + 0.5) * 0x1p-24);
    return (double)uniform >= c->dropout ? 1 / (1 - c->dropout) : 0;
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += x[i] * y[i];
    }
    return sum;
}

static void add(double *y, double factor, const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        y[i] += factor * x[i];
    }
}

static double scale_of(const call *c) { return 1 / sqrt((double)c->dim); }

// One query row: o, lse, and its part of the gradients. `p` has room for a weight a key.
static void reference_row(const call *c, operands *at, int64_t b, int64_t h, int64_t i, double *p)
{
    const int64_t D = c->dim, head = h / (c->heads / c->kv_heads), row = (b * c->heads + h);
    const int64_t query = ((b * c->q_tokens + i) * c->heads + h) * D;
    const double scale = scale_of(c);
    double sum = 0;
    for (int64_t j = 0; j < c->kv_tokens; ++j) {
        const int64_t key = ((b * c->kv_tokens + j) * c->kv_heads + head) * D;
        p[j] = sees(c, i, j) ? exp(scale * dot(at->q + query, at->k + key, D)) : 0;
        sum += p[j];
    }
    at->lse[row * c->q_tokens + i] = sum > 0 ? log(sum) : -TEST_INFINITY;
    memset(at->o + query, 0, (size_t)D * sizeof(double));
    for (int pass = 0; pass < 2 && sum > 0; ++pass) {
        const double delta = dot(at->o + query, at->d_o + query, D);
        for (int64_t j = 0; j < c->kv_tokens; ++j) {
            const int64_t key = ((b * c->kv_tokens + j) * c->kv_heads + head) * D;
            const uint64_t element = (uint64_t)((row * c->q_tokens + i) * c->kv_tokens + j);
            const double mask = c->dropout > 0 ? mask_of(c, 99, element) : 1;
            const double weight = p[j] / sum;
            if (pass == 0) {
                add(at->o + query, weight * mask, at->v + key, D);
                continue;
            }
            const double dp = mask * dot(at->d_o + query, at->v + key, D);
            const double ds = scale * weight * (dp - delta);
            add(at->dv + key, weight * mask, at->d_o + query, D);
            add(at->dk + key, ds, at->q + query, D);
            add(at->dq + query, ds, at->k + key, D);
        }
    }
}

static void reference(const call *c, operands *at)
{
    double *p = test_doubles(c->kv_tokens);
    for (int i = 0; i < 3 && !c->accumulate; ++i) {
        double *const gradients[] = {at->dq, at->dk, at->dv};
        memset(gradients[i], 0, (size_t)(i ? at->k_count : at->q_count) * sizeof(double));
    }
    for (int64_t row = 0; row < at->rows; ++row) {
        const int64_t i = row % c->q_tokens, h = row / c->q_tokens % c->heads;
        reference_row(c, at, row / c->q_tokens / c->heads, h, i, p);
    }
    free(p);
}

static bt_attention_shape shape_of(const call *c)
{
    return (bt_attention_shape){.batch = c->batch,
                                .heads = c->heads,
                                .kv_heads = c->kv_heads,
                                .q_tokens = c->q_tokens,
                                .kv_tokens = c->kv_tokens,
                                .head_dim = c->dim,
                                .q_first = c->q_first,
                                .window = c->window,
                                .starts = c->documents ? c->starts : NULL,
                                .documents = c->documents,
                                .scale = scale_of(c),
                                .causal = c->causal,
                                .dropout = c->dropout,
                                .seed = 99,
                                .stream = 5};
}

static bt_attention_view view_of(const call *c, bool query, const test_buffer *buffer)
{
    const int64_t width = (query ? c->heads : c->kv_heads) * c->dim;
    return (bt_attention_view){buffer->data, (query ? c->q_tokens : c->kv_tokens) * width, width,
                               c->dim};
}

static void compare(const test_buffer *buffer, const double *expected, double tolerance,
                    const char *what)
{
    double *got = test_doubles(buffer->count);
    test_buffer_read(buffer, got);
    test_assert_close(got, expected, buffer->count, tolerance, tolerance, what);
    free(got);
}

static void same_values(const test_buffer *buffer, const test_buffer *expected, const char *what)
{
    double *values = test_doubles(expected->count);
    test_buffer_read(expected, values);
    compare(buffer, values, 0, what);
    free(values);
}

// dq alone, which writes delta, then dk and dv with it: what the call for all gives. dq, dk, dv:
// what that call began with.
static void check_sides(bt_attention_backward_args args, const double *const before[3],
                        const test_buffer *const all[3], int64_t rows)
{
    const bt_attention_view none = {NULL, 0, 0, 0};
    test_buffer side[3];
    for (int i = 0; i < 3; ++i) {
        side[i] = test_buffer_make(args.dtype, before[i], all[i]->count);
    }
    test_buffer delta = test_buffer_make(args.dtype == BT_F64 ? BT_F64 : BT_F32, NULL, rows);
    const bt_attention_view dk = args.dk, dv = args.dv;
    args.delta = delta.data;
    args.dq.base = side[0].data;
    args.dk = args.dv = none;
    TEST_KERNEL(BT_KERNEL_ATTENTION_BACKWARD, args.dtype, &args, &side[0], &delta);
    args.dq = none;
    args.dk = dk, args.dk.base = side[1].data;
    args.dv = dv, args.dv.base = side[2].data;
    args.delta_given = true;
    TEST_KERNEL(BT_KERNEL_ATTENTION_BACKWARD, args.dtype, &args, &side[1], &side[2]);
    for (int i = 0; i < 3; ++i) {
        same_values(&side[i], all[i], "a side alone");
        test_buffer_release(&side[i]);
    }
    test_buffer_release(&delta);
}

static void check_call(const call *c, bt_dtype dtype)
{
    operands at = operands_make(c);
    const bt_dtype sums = dtype == BT_BF16 ? BT_F32 : dtype;
    test_buffer q = test_buffer_make(dtype, at.q, at.q_count);
    test_buffer k = test_buffer_make(dtype, at.k, at.k_count);
    test_buffer v = test_buffer_make(dtype, at.v, at.k_count);
    test_buffer d_o = test_buffer_make(dtype, at.d_o, at.q_count);
    test_buffer dq = test_buffer_make(dtype, at.dq, at.q_count);
    test_buffer dk = test_buffer_make(dtype, at.dk, at.k_count);
    test_buffer dv = test_buffer_make(dtype, at.dv, at.k_count);
    test_buffer o = test_buffer_make(dtype, NULL, at.q_count);
    test_buffer lse = test_buffer_make(sums, NULL, at.rows);
    test_buffer_read(&q, at.q), test_buffer_read(&k, at.k), test_buffer_read(&v, at.v);
    test_buffer_read(&d_o, at.d_o), test_buffer_read(&dq, at.dq);
    test_buffer_read(&dk, at.dk), test_buffer_read(&dv, at.dv);
    const bt_attention_args args = {.q = view_of(c, true, &q),
                                    .o = view_of(c, true, &o),
                                    .k = view_of(c, false, &k),
                                    .v = view_of(c, false, &v),
                                    .lse = lse.data,
                                    .shape = shape_of(c),
                                    .dtype = dtype};
    TEST_KERNEL(BT_KERNEL_ATTENTION, dtype, &args, &o, &lse);
    const bt_attention_backward_args back = {.q = args.q,
                                             .o = args.o,
                                             .d_o = view_of(c, true, &d_o),
                                             .k = args.k,
                                             .v = args.v,
                                             .lse = lse.data,
                                             .dq = view_of(c, true, &dq),
                                             .dk = view_of(c, false, &dk),
                                             .dv = view_of(c, false, &dv),
                                             .accumulate_dq = c->accumulate,
                                             .accumulate_dkv = c->accumulate,
                                             .shape = args.shape,
                                             .dtype = dtype};
    TEST_KERNEL(BT_KERNEL_ATTENTION_BACKWARD, dtype, &back, &dq, &dk, &dv);
    check_sides(back, (const double *[]){at.dq, at.dk, at.dv},
                (const test_buffer *[]){&dq, &dk, &dv}, at.rows);
    reference(c, &at);
    // Scores of size up to 4 sqrt(D) are rounded before exp; then sums over D or T products. A
    // key's gradients sum over all queries of the group.
    const double steps = sqrt((double)(c->dim + c->q_tokens + c->kv_tokens) + 16);
    const double tolerance = 16 * bt_dtype_epsilon(sums) * steps;
    const double rounding = dtype == BT_BF16 ? bt_dtype_epsilon(dtype) : 0;
    const double group = (double)c->heads / (double)c->kv_heads / (1 - c->dropout);
    compare(&o, at.o, tolerance + rounding, "o");
    compare(&lse, at.lse, tolerance, "lse");
    // The backward reads o, rounded: delta is off by its epsilon times sqrt(D).
    const double slack = 8 * group * (tolerance + rounding * sqrt((double)c->dim));
    compare(&dq, at.dq, slack, "dq");
    compare(&dk, at.dk, slack * steps / 4, "dk");
    compare(&dv, at.dv, slack * steps / 4, "dv");
    test_buffer *const all[] = {&q, &k, &v, &d_o, &dq, &dk, &dv, &o, &lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        test_buffer_release(all[i]);
    }
    operands_release(&at);
}

static void against_the_definition(void **state)
{
    (void)state;
    const bt_dtype types[] = {BT_F64, BT_F32, BT_BF16};
    for (size_t i = 0; i < 3 * sizeof calls / sizeof calls[0]; ++i) {
        check_call(&calls[i / 3], types[i % 3]);
    }
}

// A range never names a key that the pairwise rule drops, nor drops one that it keeps, and both
// directions agree.
static void ranges_are_the_rule(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof calls / sizeof calls[0]; ++n) {
        const call *c = &calls[n];
        const bt_attention_shape shape = shape_of(c);
        for (int64_t pair = 0; pair < c->q_tokens * c->kv_tokens; ++pair) {
            const int64_t i = pair / c->kv_tokens, j = pair % c->kv_tokens;
            const bt_attention_range keys = bt_attention_keys(&shape, i);
            const bt_attention_range queries = bt_attention_queries(&shape, j);
            assert_true((j >= keys.begin && j < keys.end) == sees(c, i, j));
            assert_true((i >= queries.begin && i < queries.end) == sees(c, i, j));
        }
    }
}

// Documents that the host could not check: no token outside of the operands is named.
static void bad_documents_stay_inside(void **state)
{
    (void)state;
    const int32_t bad[][4] = {{0, 3, 5, 90}, {2, 4, 5, 8}, {0, 2, 4, 6}, {-5, 2, 900, 8}};
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; ++n) {
        const bt_attention_shape shape = {.batch = 1,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .q_tokens = 8,
                                          .kv_tokens = 8,
                                          .starts = bad[n],
                                          .documents = 3};
        for (int64_t i = 0; i < 8; ++i) {
            const bt_attention_range keys = bt_attention_keys(&shape, i);
            assert_true(keys.begin >= 0 && keys.end <= 8);
        }
    }
}

static void expect_finite_outside(const double *x, int64_t count, int64_t per_token,
                                  const int32_t *document)
{
    for (int64_t i = 0; i < count; ++i) {
        const int64_t token = i / per_token;
        assert_true(isfinite(x[i]) || (token >= document[0] && token < document[1]));
    }
}

// A NaN in the first or last token of a document, in q, k, v or the gradient of o.
static void nan_stays_in_its_document(void **state)
{
    (void)state;
    const call c = {1, 2, 2, 200, 200, 4, 0, 0, false, false, 0, 3, {0, 71, 150, 200}};
    const int64_t width = c.heads * c.dim;
    for (int n = 0; n < 8; ++n) {
        operands at = operands_make(&c);
        double *const inputs[] = {at.q, at.k, at.v, at.d_o};
        double *const outputs[] = {at.o, at.dq, at.dk, at.dv};
        inputs[n / 2][(n % 2 ? 149 : 71) * width + 3] = TEST_NAN;
        const bt_attention_view view = {NULL, at.q_count, width, c.dim};
        bt_attention_backward_args args = {.lse = at.lse, .shape = shape_of(&c), .dtype = BT_F64};
        args.q = args.o = args.d_o = args.k = args.v = args.dq = args.dk = args.dv = view;
        args.q.base = at.q, args.o.base = at.o, args.d_o.base = at.d_o, args.k.base = at.k;
        args.v.base = at.v, args.dq.base = at.dq, args.dk.base = at.dk, args.dv.base = at.dv;
        const bt_attention_args forward = {.q = args.q,
                                           .k = args.k,
                                           .v = args.v,
                                           .o = args.o,
                                           .lse = at.lse,
                                           .shape = args.shape,
                                           .dtype = BT_F64};
        ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION, BT_F64, &forward));
        ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION_BACKWARD, BT_F64, &args));
        for (int i = 0; i < 4; ++i) {
            expect_finite_outside(outputs[i], at.q_count, width, &c.starts[1]);
        }
        operands_release(&at);
    }
}

typedef struct part {
    int64_t first, count; // keys
} part;

// The keys dealt out to three parts, as context parallelism does: partial results merge into the
// whole by the formula of kernels.h, or as each call adds its own, and the backward of the parts
// adds up.
static void parts_of_the_keys_merge(void **state)
{
    (void)state;
    static const part parts[] = {{0, 30}, {30, 1}, {31, 39}};
    const call whole = {1, 4, 2, 50, 70, 8, 10, 0, true, false, 0, 0, {0}};
    operands at = operands_make(&whole);
    double *lse[3], *o[3], *merged = test_doubles(at.q_count), *top = test_doubles(at.rows);
    double *dq = test_doubles(at.q_count);
    const int64_t key = whole.kv_heads * whole.dim;
    bt_attention_args args = {.dtype = BT_F64};
    const bt_attention_view query = {at.q, at.q_count, whole.heads * whole.dim, whole.dim};
    reference(&whole, &at);
    double *dk = test_doubles(at.k_count), *dv = test_doubles(at.k_count);
    double *sum_o = test_doubles(at.q_count), *sum_lse = test_doubles(at.rows);
    for (int64_t row = 0; row < at.rows; ++row) {
        sum_lse[row] = -(double)INFINITY; // no key yet
    }
    for (int n = 0; n < 3; ++n) {
        lse[n] = test_doubles(at.rows), o[n] = test_doubles(at.q_count);
        args.q = args.o = query, args.o.base = o[n], args.lse = lse[n];
        args.k = (bt_attention_view){at.k + parts[n].first * key, at.k_count, key, whole.dim};
        args.v = args.k, args.v.base = at.v + parts[n].first * key;
        args.shape = shape_of(&whole);
        args.shape.kv_tokens = parts[n].count, args.shape.q_first -= parts[n].first;
        ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION, BT_F64, &args));
        bt_attention_args adding = args;
        adding.accumulate = true, adding.o.base = sum_o, adding.lse = sum_lse;
        ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION, BT_F64, &adding));
    }
    test_assert_close(sum_lse, at.lse, at.rows, 1e-13, 1e-13, "accumulated lse");
    test_assert_close(sum_o, at.o, at.q_count, 1e-13, 1e-13, "accumulated o");
    for (int64_t row = 0; row < at.rows; ++row) { // [H, T] of lse, [T, H] of o
        const int64_t place =
            (row % whole.q_tokens * whole.heads + row / whole.q_tokens) * whole.dim;
        double sum = 0;
        for (int n = 0; n < 3; ++n) {
            sum += exp(lse[n][row]);
        }
        top[row] = log(sum);
        for (int n = 0; n < 3; ++n) {
            add(merged + place, exp(lse[n][row] - top[row]), o[n] + place, whole.dim);
        }
    }
    test_assert_close(top, at.lse, at.rows, 1e-13, 1e-13, "merged lse");
    test_assert_close(merged, at.o, at.q_count, 1e-13, 1e-13, "merged o");
    for (int n = 0; n < 3; ++n) {
        bt_attention_backward_args back = {.q = query, .o = query, .d_o = query, .dq = query};
        back.o.base = merged, back.d_o.base = at.d_o, back.dq.base = dq, back.lse = top;
        back.k = (bt_attention_view){at.k + parts[n].first * key, at.k_count, key, whole.dim};
        back.v = back.dk = back.dv = back.k;
        back.v.base = at.v + parts[n].first * key;
        back.dk.base = dk + parts[n].first * key, back.dv.base = dv + parts[n].first * key;
        back.accumulate_dq = back.accumulate_dkv = true, back.dtype = BT_F64,
        back.shape = shape_of(&whole);
        back.shape.kv_tokens = parts[n].count, back.shape.q_first -= parts[n].first;
        ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION_BACKWARD, BT_F64, &back));
        free(lse[n]), free(o[n]);
    }
    test_assert_close(dq, at.dq, at.q_count, 1e-12, 1e-12, "dq of the parts");
    test_assert_close(dk, at.dk, at.k_count, 1e-12, 1e-12, "dk of the parts");
    test_assert_close(dv, at.dv, at.k_count, 1e-12, 1e-12, "dv of the parts");
    free(merged), free(top), free(dq), free(dk), free(dv), free(sum_o), free(sum_lse);
    operands_release(&at);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    static const int32_t starts[] = {0, 8};
    const bt_attention_shape good = {.batch = 1,
                                     .heads = 6,
                                     .kv_heads = 2,
                                     .q_tokens = 8,
                                     .kv_tokens = 8,
                                     .head_dim = 4,
                                     .scale = 1};
    assert_true(bt_attention_valid(&good) && !bt_attention_plain(&good));
    bt_attention_shape bad[10];
    for (int i = 0; i < 10; ++i) {
        bad[i] = good;
    }
    bad[0].kv_heads = 4, bad[1].kv_heads = 0, bad[2].window = -1, bad[3].dropout = 1;
    bad[4].dropout = TEST_NAN, bad[5].documents = 1, bad[6].starts = starts;
    bad[7].starts = starts, bad[7].documents = 1, bad[7].batch = 2;
    bad[8].starts = starts, bad[8].documents = 1, bad[8].q_tokens = 7;
    bad[9].starts = starts, bad[9].documents = 1, bad[9].q_first = 1;
    for (int i = 0; i < 10; ++i) {
        const bt_attention_args args = {.shape = bad[i], .dtype = BT_F32};
        assert_false(bt_attention_valid(&bad[i]));
        ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "attention_cpu_f32",
                     test_kernel_status(BT_KERNEL_ATTENTION, BT_F32, &args));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_definition),      cmocka_unit_test(ranges_are_the_rule),
        cmocka_unit_test(bad_documents_stay_inside),   cmocka_unit_test(parts_of_the_keys_merge),
        cmocka_unit_test(refuses_what_makes_no_sense), cmocka_unit_test(nan_stays_in_its_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Attention on CUDA against the CPU in double, by every row that serves the call: packed and
// separate operands, causal and not, every token count up to 300 and those around the tiles of
// every kernel, head sizes that fill a bucket or do not, few heads (dealt out to several blocks)
// and many, large, equal and infinite scores, NaN, the same bits from every schedule, and calls
// that no kernel takes. With the argument `wide` more shapes, up to 2000 tokens.
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

// batch, heads, tokens, head size
static const int64_t shapes[][4] = {{0, 2, 5, 64},   {1, 1, 1, 64},   {2, 3, 7, 64},
                                    {1, 2, 64, 64},  {1, 2, 65, 32},  {2, 1, 129, 64},
                                    {1, 3, 200, 40}, {1, 2, 131, 96}, {1, 2, 150, 128},
                                    {1, 2, 321, 64}, {9, 16, 140, 64}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

// Heads of 64 columns beyond which the Hopper rows of bf16 and tf32, the first two precisions, take
// kernels for many items.
enum { WITH_MANY = 2 };
static int64_t many_heads(const struct precision *precision, int64_t tokens)
{
    return (precision->dtype == BT_BF16 ? 264 : 640) / ((tokens + 63) / 64) + 1;
}

// [B, T, 3, H, D]; three of [B, T, H, D]; three of [B, H, T, D].
typedef enum layout { PACKED, FLAT, BY_HEAD, LAYOUTS } layout;

static const char *const layout_names[] = {"packed", "flat", "by head"};

typedef struct problem {
    const struct precision *precision;
    int64_t batch, heads, tokens, dim;
    bool causal;
    layout layout;
    double spread; // of the inputs
} problem;

static int64_t count_of(const problem *p) { return p->batch * p->heads * p->tokens * p->dim; }

// Operand `part` of a twin that holds `parts` of them: side by side in each token if packed, else
// one after the other. A single operand is never packed.
static bt_attention_view view_of(const problem *p, const test_twin *twin, int part, int parts,
                                 test_side side)
{
    int64_t width = p->heads * p->dim;
    bool packed = p->layout == PACKED && parts > 1;
    int64_t offset = part * (packed ? width : count_of(p));
    size_t size = bt_dtype_size(test_type(p->precision->dtype, side));
    char *base = (char *)test_at(twin, side) + (size_t)offset * size;
    if (p->layout == BY_HEAD) {
        return (bt_attention_view){base, p->tokens * width, p->dim, p->tokens * p->dim};
    }
    int64_t token_stride = packed ? parts * width : width;
    return (bt_attention_view){base, p->tokens * token_stride, token_stride, p->dim};
}

static bt_attention_shape shape_of(const problem *p)
{
    return (bt_attention_shape){.batch = p->batch,
                                .heads = p->heads,
                                .kv_heads = p->heads,
                                .q_tokens = p->tokens,
                                .kv_tokens = p->tokens,
                                .head_dim = p->dim,
                                .scale = 1 / sqrt((double)p->dim),
                                .causal = p->causal};
}

static bt_attention_args forward_args(const problem *p, test_twin *qkv, test_twin *o,
                                      test_twin *lse, test_side side)
{
    return (bt_attention_args){.q = view_of(p, qkv, 0, 3, side),
                               .k = view_of(p, qkv, 1, 3, side),
                               .v = view_of(p, qkv, 2, 3, side),
                               .o = view_of(p, o, 0, 1, side),
                               .lse = test_at(lse, side),
                               .shape = shape_of(p),
                               .compute =
                                   side == TEST_HOST ? BT_COMPUTE_NATIVE : p->precision->compute,
                               .dtype = test_type(p->precision->dtype, side)};
}

static bt_attention_backward_args backward_args(const problem *p, test_twin *qkv, test_twin *o,
                                                test_twin *d_o, test_twin *lse, test_twin *dqkv,
                                                test_side side)
{
    bt_attention_args f = forward_args(p, qkv, o, lse, side);
    return (bt_attention_backward_args){.q = f.q,
                                        .k = f.k,
                                        .v = f.v,
                                        .o = f.o,
                                        .d_o = view_of(p, d_o, 0, 1, side),
                                        .lse = f.lse,
                                        .dq = view_of(p, dqkv, 0, 3, side),
                                        .dk = view_of(p, dqkv, 1, 3, side),
                                        .dv = view_of(p, dqkv, 2, 3, side),
                                        .shape = f.shape,
                                        .compute = f.compute,
                                        .dtype = f.dtype};
}

// What a sum of terms of size `bound` may be off by: the roundings of its operands, and those of
// fp32 in the score, in exp2 (4 units) and along the sum, whose errors add up like a random walk.
static double tolerance(const problem *p, double bound)
{
    double steps = 16 + sqrt((double)p->dim) + sqrt((double)p->tokens);
    return bound * (4 * p->precision->roundoff + steps * 0x1p-23);
}

static void name_case(const problem *p, const char *what)
{
    test_case_name("%s %s [%d, %d, %d, %d] %s %s", p->precision->name, what, (int)p->batch,
                   (int)p->heads, (int)p->tokens, (int)p->dim, p->causal ? "causal" : "full",
                   layout_names[p->layout]);
}

// The values that the host found, as an input that both sides see alike.
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

// Tries the rows that serve a call, the general ones first; the CPU computes it once.
typedef struct serving {
    const bt_kernel *at[8];
    int count;
} serving;

static serving rows_of(bt_kernel_op op, bt_dtype dtype, const void *args)
{
    const bt_device *device = test_device();
    serving found = {.count = 0};
    int count = 0;
    const bt_kernel *table = bt_kernel_table(device, &count);
    for (int i = 0; i < count; ++i) {
        if (table[i].op == op && table[i].dtype == dtype &&
            table[i].min_arch <= device->info.arch && table[i].accepts(device, args)) {
            assert_true(found.count < 8);
            found.at[found.count++] = &table[i];
        }
    }
    assert_true(found.count > 0);
    return found;
}

// fp32 sums leave some 1e-2 in exponents of 1e4, so weights are off by 1 %; operands rounded to
// tf32 change the scores themselves, and the only requirement is that nothing overflows.
static void check_steep(const problem *p, const test_twin *o)
{
    bool exact = p->precision->compute != BT_COMPUTE_TF32;
    for (int64_t i = 0; i < o->count; ++i) {
        double expected = exact ? test_twin_get(o, TEST_HOST, i) : 0;
        double limit = p->spread * (exact ? 0.05 : 1.01);
        assert_true(fabs(test_twin_get(o, TEST_NEAR, i) - expected) <= limit);
    }
}

// `largest` is that of the scaled scores beyond 1: fp32 rounds them along their sums.
static void check_forward(const problem *p, double largest, test_twin *qkv, test_twin *o,
                          test_twin *lse)
{
    double steps = 16 + sqrt((double)p->dim) + sqrt((double)p->tokens);
    bt_dtype dtype = p->precision->dtype;
    bt_attention_args forward[TEST_SIDES] = {forward_args(p, qkv, o, lse, TEST_HOST),
                                             forward_args(p, qkv, o, lse, TEST_NEAR)};
    serving rows = rows_of(BT_KERNEL_ATTENTION, dtype, &forward[TEST_NEAR]);
    for (int i = 0; i < rows.count; ++i) {
        name_case(p, rows.at[i]->name);
        test_run_row(rows.at[i], i == 0 ? &forward[TEST_HOST] : NULL, &forward[TEST_NEAR]);
        if (p->spread > 1) {
            check_steep(p, o);
        } else {
            test_twin_check(o, tolerance(p, 1), bt_dtype_epsilon(dtype), "o");
            test_twin_check(lse, tolerance(p, 1) + largest * steps * 0x1p-23, 0x1p-22, "lse");
        }
    }
}

static void check_backward(const problem *p, test_twin *qkv, test_twin *o, test_twin *lse)
{
    bt_dtype dtype = p->precision->dtype;
    test_twin *d_o = test_twin_random(dtype, count_of(p), 12, -1, 1);
    test_twin *dqkv = test_twin_output(dtype, 3 * count_of(p));
    test_twin *seen_o = as_input(o, dtype);
    test_twin *seen_lse = as_input(lse, BT_F32);
    bt_attention_backward_args backward[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        backward[side] = backward_args(p, qkv, seen_o, d_o, seen_lse, dqkv, side);
    }
    serving rows = rows_of(BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward[TEST_NEAR]);
    for (int i = 0; i < rows.count; ++i) {
        name_case(p, rows.at[i]->name);
        test_run_row(rows.at[i], i == 0 ? &backward[TEST_HOST] : NULL, &backward[TEST_NEAR]);
        // dk and dv of an early key sum over all queries, with weights that add up to about log(T).
        test_twin_check(dqkv, tolerance(p, 4), bt_dtype_epsilon(dtype), "dqkv");
    }
}

static void check_case(const problem *p)
{
    bt_dtype dtype = p->precision->dtype;
    test_twin *qkv = test_twin_random(dtype, 3 * count_of(p), 11, -p->spread, p->spread);
    test_twin *o = test_twin_output(dtype, count_of(p));
    test_twin *lse = test_twin_output(BT_F32, p->batch * p->heads * p->tokens);
    check_forward(p, 0, qkv, o, lse);
    if (p->spread <= 1) {
        check_backward(p, qkv, o, lse);
    }
    test_twins_release();
}

static void against_the_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS * SHAPES * 2 * LAYOUTS; ++i) {
        const int64_t *shape = shapes[i / 2 / LAYOUTS % SHAPES];
        problem p = {&precisions[i / 2 / LAYOUTS / SHAPES],
                     shape[0],
                     shape[1],
                     shape[2],
                     shape[3],
                     (i & 1) != 0,
                     (layout)(i / 2 % LAYOUTS),
                     1};
        check_case(&p);
    }
}

// Causal, full or neither in turn, both where tiles begin and end; each count is met by one of the
// precisions. f32 (the last one) has no tiles of its own for Hopper.
static void every_token_count(void **state)
{
    (void)state;
    for (int i = 0; i < (PRECISIONS - 1) * 300 * 2; ++i) {
        int64_t tokens = 1 + i / 2 % 300;
        bool causal = (i & 1) != 0, edge = (tokens + 1) % 64 <= 2 || tokens <= 16;
        if (edge || (tokens + i / 600) % 3 == (causal ? 1 : 0)) {
            problem p = {&precisions[i / 600],       1, 1, tokens, 64, causal,
                         (layout)(tokens % LAYOUTS), 1};
            check_case(&p);
        }
    }
}

// Every token count with both head sizes that have tiles of their own, and some columns less;
// counts around tiles beyond; every fourth with many heads.
static void wide_token_counts(void **state)
{
    static const int64_t edges[] = {319, 320, 321, 383, 384, 385,  447,  448,
                                    449, 511, 513, 577, 639, 1023, 1024, 1025};
    enum { ALL = 300, COUNTS = ALL + sizeof edges / sizeof edges[0] };
    (void)state;
    if (!test_is_wide()) {
        skip();
    }
    for (int i = 0; i < WITH_MANY * 2 * COUNTS * 2; ++i) {
        const int64_t at = 1 + i / 2 % COUNTS, tokens = at <= ALL ? at : edges[at - ALL - 1];
        const int64_t less = at % 29 == 0 ? 24 : at % 31 == 0 ? 32 : 0;
        problem p = {&precisions[i / 4 / COUNTS],
                     1,
                     1 + at % 3,
                     tokens,
                     64 * (1 + i / 2 / COUNTS % 2) - less,
                     (i & 1) != 0,
                     (layout)(at % LAYOUTS),
                     1};
        if (at % 4 == 0 && at <= ALL) {
            p.heads = many_heads(p.precision, tokens);
        }
        check_case(&p);
    }
}

// The same edges with so many heads that the Hopper rows choose other kernels.
static void token_counts_of_many_heads(void **state)
{
    static const int64_t counts[] = {1, 63, 64, 65, 127, 128, 129, 193};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    (void)state;
    for (int i = 0; i < 2 * WITH_MANY * COUNTS; ++i) {
        int64_t tokens = counts[i / 2 % COUNTS];
        problem p = {&precisions[i / 2 / COUNTS], 1, 1, tokens, 64, (i & 1) != 0,
                     (layout)(i % LAYOUTS),       1};
        p.heads = many_heads(p.precision, tokens);
        check_case(&p);
    }
}

static void every_head_size(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        for (int64_t dim = 1; dim <= 256; dim += dim < 8 ? 7 : dim < 128 ? 8 : 31) {
            problem p = {
                &precisions[i], 1, 3, 75, dim, dim % 16 == 0, (layout)(dim / 8 % LAYOUTS), 1};
            check_case(&p);
        }
    }
}

static void large_scores(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS * 4; ++i) {
        problem p = {&precisions[i / 4], 1,      2,  (i & 1) != 0 ? 150 : 333, 64,
                     (i & 2) != 0,       PACKED, 100};
        check_case(&p); // scores up to 1e5 / 8
    }
    for (int i = 0; i < 2 * WITH_MANY; ++i) {
        problem p = {&precisions[i / 2], 1, 1, 150, 64, (i & 1) != 0, PACKED, 100};
        p.heads = many_heads(p.precision, p.tokens);
        check_case(&p);
    }
    for (int i = 0; i < PRECISIONS * 4; ++i) {
        problem p = {&precisions[i / 4], 1, i & 2 ? 53 : 3, 300, 128, (i & 1) != 0, PACKED, 100};
        check_case(&p);
    }
}

// Element `d` of operand `part` in a twin of FLAT operands.
static int64_t flat_at(const problem *p, int part, int64_t token, int64_t head, int64_t d)
{
    return part * count_of(p) + (token * p->heads + head) * p->dim + d;
}

// Keys 64 and later are out of all queries' sight by scores of -inf, so a full row begins with
// tiles of weight zero; one query of zeros weights all other keys equally, and one key is far above
// all.
static void unequal_scores(void **state)
{
    (void)state;
    for (int i = 0; i < (PRECISIONS + WITH_MANY) * 4; ++i) { // at the end with many heads
        problem p = {&precisions[i / 4 % PRECISIONS], 1, 2, 190, 64, (i & 1) != 0, FLAT, 1};
        p.heads = i < PRECISIONS * 4 ? 2 : many_heads(p.precision, p.tokens);
        bool infinite = (i & 2) != 0;
        bt_dtype dtype = p.precision->dtype;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 15, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.heads * p.tokens);
        for (int64_t token = 0; token < p.tokens; ++token) {
            for (int64_t d = 0; d < p.dim && token == 100; ++d) {
                test_twin_set(qkv, flat_at(&p, 0, token, 0, d), 0);
            }
            test_twin_set(qkv, flat_at(&p, 0, token, 1, 0), 1);
            test_twin_set(qkv, flat_at(&p, 1, token, 1, 0),
                          infinite && token >= 64 ? -TEST_INFINITY : 0.5);
        }
        if (!infinite) { // 512 / 8 above the others, exactly so in tf32, too
            test_twin_set(qkv, flat_at(&p, 1, 3, 1, 0), 512);
        }
        check_forward(&p, infinite ? 0 : 64, qkv, o, lse);
        test_twins_release();
    }
}

// A NaN in a query reaches its own row and no other.
static void nan_in_a_query(void **state)
{
    (void)state;
    for (int i = 0; i < (PRECISIONS + WITH_MANY) * 2; ++i) { // at the end with many heads
        problem p = {&precisions[i / 2 % PRECISIONS], 1, 2, 150, 64, (i & 1) != 0, FLAT, 1};
        p.heads = i < PRECISIONS * 2 ? 2 : many_heads(p.precision, p.tokens);
        bt_dtype dtype = p.precision->dtype;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 13, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.batch * p.heads * p.tokens);
        test_twin_set(qkv, 70 * p.heads * p.dim + 3, (double)NAN);
        check_forward(&p, 0, qkv, o, lse);
        test_twins_release();
    }
}

// Fails unless head 0 has a NaN and head 1 none.
static void check_heads(const problem *p, const test_twin *twin, int parts, const char *what)
{
    int64_t nans[2] = {0, 0};
    for (int64_t i = 0; i < parts * count_of(p); ++i) {
        nans[i / p->dim % p->heads] += isnan(test_twin_get(twin, TEST_NEAR, i)) != 0;
    }
    if (nans[0] == 0 || nans[1] != 0) {
        fail_msg("%s: %lld NaN in head 0, %lld in head 1", what, (long long)nans[0],
                 (long long)nans[1]);
    }
}

// A NaN in q, k, v or do of a head: its gradients show it, those of the other head do not.
static void nan_stays_in_its_head(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS * 8; ++i) {
        problem p = {&precisions[i / 8], 1, 2, 150, 64, (i & 1) != 0, FLAT, 1};
        bt_dtype dtype = p.precision->dtype;
        int part = i / 2 % 4;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 16, -1, 1);
        test_twin *d_o = test_twin_random(dtype, count_of(&p), 17, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.heads * p.tokens);
        test_twin_set(part < 3 ? qkv : d_o, flat_at(&p, part % 3, 70, 0, 5), (double)NAN);
        bt_attention_args forward = forward_args(&p, qkv, o, lse, TEST_NEAR);
        serving rows = rows_of(BT_KERNEL_ATTENTION, dtype, &forward);
        name_case(&p, "NaN");
        test_run_row(rows.at[rows.count - 1], NULL, &forward);
        if (part < 3) {
            check_heads(&p, o, 1, "o");
        }
        // Runs start from the inputs' images: what the forward found must become an input.
        test_twin *seen[2] = {test_twin_random(dtype, count_of(&p), 1, 0, 1),
                              test_twin_random(BT_F32, p.heads * p.tokens, 1, 0, 1)};
        for (int64_t j = 0; j < count_of(&p); ++j) {
            test_twin_set(seen[0], j, test_twin_get(o, TEST_NEAR, j));
        }
        for (int64_t j = 0; j < p.heads * p.tokens; ++j) {
            test_twin_set(seen[1], j, test_twin_get(lse, TEST_NEAR, j));
        }
        test_twin *dqkv = test_twin_output(dtype, 3 * count_of(&p));
        bt_attention_backward_args backward =
            backward_args(&p, qkv, seen[0], d_o, seen[1], dqkv, TEST_NEAR);
        rows = rows_of(BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward);
        for (int j = 0; j < rows.count; ++j) {
            test_run_row(rows.at[j], NULL, &backward);
            check_heads(&p, dqkv, 3, rows.at[j]->name);
        }
        test_twins_release();
    }
}

// The Hopper kernels' bits depend neither on the number of SMs nor on which block does what. Few
// blocks take many items each; 450 tokens are no whole number of a warpgroups' tiles.
static void check_schedules(const problem *p)
{
    bt_dtype dtype = p->precision->dtype;
    test_twin *qkv = test_twin_random(dtype, 3 * count_of(p), 18, -1, 1);
    test_twin *o = test_twin_output(dtype, count_of(p));
    test_twin *lse = test_twin_random(BT_F32, p->batch * p->heads * p->tokens, 19, 6, 7);
    test_twin *lse_out = test_twin_output(BT_F32, lse->count);
    test_twin *dqkv = test_twin_output(dtype, 3 * count_of(p));
    test_twin *d_o = test_twin_random(dtype, count_of(p), 20, -1, 1);
    bt_attention_args forward = forward_args(p, qkv, o, lse_out, TEST_NEAR);
    bt_attention_backward_args backward = backward_args(p, qkv, d_o, d_o, lse, dqkv, TEST_NEAR);
    const bt_kernel *rows[2];
    ASSERT_OK(bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, dtype, &forward, &rows[0]));
    ASSERT_OK(
        bt_kernel_find(test_device(), BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward, &rows[1]));
    int processors = test_device()->info.processor_count;
    unsigned char *first[2] = {NULL, NULL};
    for (int run = 0; run < 20 && rows[0]->min_arch == 90; ++run) {
        test_device()->info.processor_count = run == 0 ? processors : 1 + 6 * run;
        for (int which = 0; which < 2; ++which) {
            const test_twin *out = which == 0 ? o : dqkv;
            name_case(p, rows[which]->name);
            test_run_row(rows[which], NULL,
                         which == 0 ? (const void *)&forward : (const void *)&backward);
            if (run == 0) {
                first[which] = malloc(out->total_bytes);
                assert_non_null(first[which]);
                memcpy(first[which], out->result, out->total_bytes);
            }
            assert_memory_equal(first[which], out->result, out->total_bytes);
        }
    }
    test_device()->info.processor_count = processors;
    free(first[0]);
    free(first[1]);
    test_twins_release();
}

static void same_bits_from_every_schedule(void **state)
{
    (void)state;
    for (int i = 0; i < (PRECISIONS + WITH_MANY) * 2; ++i) { // at the end with many heads
        problem p = {&precisions[i / 2 % PRECISIONS], 3, 5, 450, 64, (i & 1) != 0, PACKED, 1};
        p.heads = i < PRECISIONS * 2 ? 5 : many_heads(p.precision, p.tokens);
        check_schedules(&p);
    }
    static const problem large[] = {{NULL, 4, 12, 1024, 64, true, PACKED, 1},
                                    {NULL, 1, 12, 1024, 64, true, PACKED, 1},
                                    {NULL, 4, 12, 1000, 64, false, PACKED, 1},
                                    {NULL, 3, 5, 1990, 64, true, FLAT, 1},
                                    {NULL, 4, 12, 1024, 128, true, PACKED, 1}};
    enum { LARGE = sizeof large / sizeof large[0] };
    for (int i = 0; test_is_wide() && i < WITH_MANY * LARGE; ++i) {
        problem p = large[i % LARGE];
        p.precision = &precisions[i / LARGE];
        check_schedules(&p);
    }
}

static void refuse(const bt_attention_args *args)
{
    const bt_kernel *row = NULL;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "attention",
                 bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, args->dtype, args, &row));
}

static void refuses_what_it_cannot(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        problem p = {&precisions[i], 1, 2, 16, 64, true, PACKED, 1};
        bt_dtype dtype = p.precision->dtype;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 14, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.heads * p.tokens);
        const bt_attention_args good = forward_args(&p, qkv, o, lse, TEST_NEAR);
        const bt_kernel *row = NULL;
        ASSERT_OK(bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, dtype, &good, &row));
        bt_attention_args bad = good;
        bad.shape.head_dim = 0;
        refuse(&bad);
        bad.shape.head_dim = 257;
        refuse(&bad);
        bad = good;
        bad.shape.scale = (double)NAN;
        refuse(&bad);
        bad = good;
        bad.shape.heads = 3, bad.shape.kv_heads = 2;
        refuse(&bad);
        bad = good;
        bad.shape.window = -1;
        refuse(&bad);
        bad = good;
        bad.shape.dropout = 1;
        refuse(&bad);
        bad = good;
        bad.shape.documents = 1; // without starts
        refuse(&bad);
        bad.shape.starts = bad.lse, bad.shape.kv_tokens = 15;
        refuse(&bad);

        test_twin *dqkv = test_twin_output(dtype, 3 * count_of(&p));
        bt_attention_backward_args backward = backward_args(&p, qkv, o, o, lse, dqkv, TEST_NEAR);
        ASSERT_OK(
            bt_kernel_find(test_device(), BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward, &row));
        assert_true(row->workspace(test_device(), &backward) > 0);
        bt_launch launch = {.device = test_device()};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "workspace", row->launch(&launch, &backward));
        test_twins_release();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_cpu),        cmocka_unit_test(every_token_count),
        cmocka_unit_test(wide_token_counts),      cmocka_unit_test(token_counts_of_many_heads),
        cmocka_unit_test(every_head_size),        cmocka_unit_test(large_scores),
        cmocka_unit_test(unequal_scores),         cmocka_unit_test(nan_in_a_query),
        cmocka_unit_test(nan_stays_in_its_head),  cmocka_unit_test(same_bits_from_every_schedule),
        cmocka_unit_test(refuses_what_it_cannot),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}

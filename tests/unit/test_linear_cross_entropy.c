// tests/unit/test_linear_cross_entropy.c - the fused head against a product and its loss
//
// The oracle is bt_linear followed by bt_cross_entropy. In f64 both may differ by the order of
// sums; in f32 and bf16 they are held to the f64 gradients. Gradients in the operands themselves
// are checked against finite differences by tests/gradient.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/tape.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { ROWS = 37, WIDTH = 12, VOCAB = 29, IGNORE = -100 };

typedef struct answer {
    double loss, dx[ROWS * WIDTH], dw[VOCAB * WIDTH];
    int64_t bad_row;
} answer;

typedef struct setting {
    fixture f;
    bt_dtype dtype;
    bt_tensor *x, *w, *targets; // x and w are leaves
    int64_t chunk_rows;         // -1: the unfused pair
    double dmean;
    int passes; // backward passes, whose gradients add up
} setting;

// Multiples of 1/64, which every type represents.
static bt_tensor *leaf(setting *s, int64_t rows, uint64_t seed)
{
    bt_tensor *drawn = fixture_random(&s->f, BT_F64, BT_SHAPE(rows, WIDTH), -64, 64, seed);
    double *values = bt_tensor_data(drawn); // the CPU's memory
    for (int64_t i = 0; i < rows * WIDTH; ++i) {
        values[i] = round(values[i]) / 64;
    }
    bt_tensor *out = fixture_doubles(&s->f, s->dtype, BT_SHAPE(rows, WIDTH), values);
    bt_tensor_release(drawn);
    out->requires_grad = true;
    out->grad_dtype = s->dtype == BT_F64 ? BT_F64 : BT_F32;
    return out;
}

static void open_setting(setting *s, bt_dtype dtype)
{
    *s = (setting){.dtype = dtype, .dmean = 1, .passes = 1};
    fixture_open(&s->f, 0);
    int32_t targets[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        targets[r] = r % 5 == 2 ? IGNORE : r * 7 % VOCAB;
    }
    s->x = leaf(s, ROWS, 1);
    s->w = leaf(s, VOCAB, 2);
    s->targets = fixture_values(&s->f, BT_I32, BT_SHAPE(ROWS), targets);
}

static void close_setting(setting *s)
{
    bt_tensor_release(s->x);
    bt_tensor_release(s->w);
    bt_tensor_release(s->targets);
    fixture_close(&s->f);
}

static bt_status head(bt_context *context, const setting *s, bt_tensor *x, bt_tensor **loss,
                      bt_tensor **bad_row)
{
    bt_tensor *logits = NULL;
    if (s->chunk_rows >= 0) {
        return bt_linear_cross_entropy(context, x, s->w, s->targets, IGNORE, s->chunk_rows, loss,
                                       bad_row);
    }
    BT_TRY(bt_linear(context, x, s->w, NULL, NULL, BT_ACTIVATION_NONE, &logits));
    bt_status status = bt_cross_entropy(context, logits, s->targets, IGNORE, false, loss, bad_row);
    bt_tensor_release(logits);
    return status;
}

static void take(setting *s, bt_tensor *of, double *values)
{
    if (of->grad) {
        double *read = fixture_read(&s->f, of->grad);
        memcpy(values, read, (size_t)bt_tensor_count(of) * sizeof *values);
        free(read);
    }
    BT_TENSOR_RELEASE(of->grad);
}

// The loss and, with a tape, the gradients of dmean times it.
static answer run(setting *s)
{
    bt_context *context = &s->f.context;
    answer got = {.bad_row = -2};
    for (int pass = 0; pass < s->passes; ++pass) {
        bt_tensor *x = NULL, *loss = NULL, *bad = NULL, *scaled = NULL;
        ASSERT_OK(bt_scale(context, s->x, 1, &x)); // an activation
        ASSERT_OK(head(context, s, x, &loss, &bad));
        double *value = fixture_read(&s->f, loss);
        got.loss = *value;
        free(value);
        ASSERT_OK(bt_tensor_read(context, bad, &got.bad_row));
        if (context->tape) {
            ASSERT_OK(bt_scale(context, loss, s->dmean, &scaled));
            ASSERT_OK(bt_backward(context, scaled, NULL));
        }
        bt_tensor_release(scaled);
        bt_tensor_release(loss);
        bt_tensor_release(bad);
        bt_tensor_release(x);
    }
    take(s, s->x, got.dx);
    take(s, s->w, got.dw);
    return got;
}

static void compare(const answer *got, const answer *expected, double allowed)
{
    double most = 0;
    for (int i = 0; i < VOCAB * WIDTH; ++i) {
        most = fmax(most, fabs(expected->dw[i]));
    }
    test_assert_close(&got->loss, &expected->loss, 1, allowed, allowed, "loss");
    test_assert_close(got->dx, expected->dx, ROWS * WIDTH, allowed * most, allowed, "dx");
    test_assert_close(got->dw, expected->dw, VOCAB * WIDTH, allowed * most, allowed, "dw");
}

static answer reference(double dmean, int passes)
{
    setting s;
    open_setting(&s, BT_F64);
    s.chunk_rows = -1;
    s.dmean = dmean;
    s.passes = passes;
    const answer expected = run(&s);
    close_setting(&s);
    return expected;
}

// Rounded to a type whose unit roundoff is u, logits err by a few u (|logit| <= 12) and so do the
// exponentials; dx and dw are sums of at most 37 such terms.
static void chunks_give_what_the_pair_gives(void **state)
{
    (void)state;
    static const struct {
        bt_dtype dtype;
        double allowed;
    } types[] = {{BT_F64, 1e-13}, {BT_F32, 64 * 0x1p-24}, {BT_BF16, 16 * 0x1p-8}};
    static const int64_t chunks[] = {0, 1, 2, 5, 36, 37, 1000};
    static const double factors[] = {1, -0.3};
    for (int k = 0; k < 4; ++k) {
        const answer expected = reference(factors[k % 2], 1 + k / 2);
        for (int t = 0; t < 3; ++t) {
            for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; ++c) {
                setting s;
                open_setting(&s, types[t].dtype);
                s.chunk_rows = chunks[c];
                s.dmean = factors[k % 2];
                s.passes = 1 + k / 2;
                const answer got = run(&s);
                compare(&got, &expected, types[t].allowed);
                assert_int_equal(got.bad_row, -1);
                close_setting(&s);
            }
        }
    }
}

static void bits_repeat(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        setting s;
        open_setting(&s, t ? BT_BF16 : BT_F32);
        s.chunk_rows = 5;
        const answer first = run(&s), second = run(&s);
        assert_memory_equal(&first, &second, sizeof first);
        close_setting(&s);
    }
}

static void without_a_tape_there_is_only_the_loss(void **state)
{
    (void)state;
    setting s;
    bt_pool_stats before, after;
    open_setting(&s, BT_F64);
    struct bt_tape *tape = s.f.context.tape;
    const answer with = run(&s);
    s.f.context.tape = NULL;
    s.chunk_rows = 4;
    const answer got = run(&s);
    test_assert_close(&got.loss, &with.loss, 1, 1e-14, 1e-14, "loss");
    // One row at a time takes less memory by the logits of the other rows.
    s.chunk_rows = ROWS;
    bt_pool_reset_peak(s.f.pool);
    (void)run(&s);
    bt_pool_stats_read(s.f.pool, &before);
    s.chunk_rows = 1;
    bt_pool_reset_peak(s.f.pool);
    (void)run(&s);
    bt_pool_stats_read(s.f.pool, &after);
    assert_true(after.peak_allocated_bytes + (ROWS - 2) * VOCAB * sizeof(double) <
                before.peak_allocated_bytes);
    s.f.context.tape = tape;
    close_setting(&s);
}

static bt_status body(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    bt_tensor *bad_row = NULL;
    (void)in_count;
    bt_status status = head(context, self, in[0], out, &bad_row);
    bt_tensor_release(bad_row);
    return status;
}

// In a recomputed body that captures w, to whose gradient a later product adds as well: tied
// weights.
static answer run_recomputed(setting *s, bool recomputed)
{
    bt_context *context = &s->f.context;
    bt_tensor *loss = NULL, *sum = NULL, *total = NULL;
    answer got = {.bad_row = -1};
    if (recomputed) {
        ASSERT_OK(bt_recompute(context, body, s, &s->x, 1, &loss));
    } else {
        ASSERT_OK(body(context, s, &s->x, 1, &loss));
    }
    ASSERT_OK(bt_sum_all(context, s->w, &sum));
    ASSERT_OK(bt_add(context, loss, sum, &total));
    ASSERT_OK(bt_backward(context, total, NULL));
    take(s, s->x, got.dx);
    take(s, s->w, got.dw);
    bt_tensor_release(loss);
    bt_tensor_release(sum);
    bt_tensor_release(total);
    return got;
}

static void recomputed_and_tied(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, BT_F64);
    s.chunk_rows = -1;
    const answer expected = run_recomputed(&s, false);
    s.chunk_rows = 6;
    const answer got = run_recomputed(&s, false), again = run_recomputed(&s, true);
    compare(&got, &expected, 1e-13);
    compare(&again, &expected, 1e-13);
    close_setting(&s);
}

static void only_wanted_gradients_are_made(void **state)
{
    (void)state;
    for (int i = 0; i < 2; ++i) {
        setting s;
        open_setting(&s, BT_F64);
        (i ? s.x : s.w)->requires_grad = false;
        s.chunk_rows = -1;
        const answer expected = run(&s);
        s.chunk_rows = 5;
        const answer got = run(&s);
        compare(&got, &expected, 1e-13);
        close_setting(&s);
    }
}

static void bad_labels_are_reported(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, BT_F32);
    ((int32_t *)bt_tensor_data(s.targets))[23] = VOCAB;
    ((int32_t *)bt_tensor_data(s.targets))[30] = -7;
    s.chunk_rows = 4;
    const answer got = run(&s);
    assert_true(isnan(got.loss));
    assert_int_equal(got.bad_row, 23);
    s.f.context.anomaly = true;
    bt_tensor *loss = NULL;
    ASSERT_FAILS(
        BT_STATUS_INVALID_ARGUMENT, "29",
        bt_linear_cross_entropy(&s.f.context, s.x, s.w, s.targets, IGNORE, 4, &loss, NULL));
    close_setting(&s);
}

static void nothing_counts(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, BT_F32);
    for (int r = 0; r < ROWS; ++r) {
        ((int32_t *)bt_tensor_data(s.targets))[r] = IGNORE;
    }
    s.chunk_rows = 5;
    const answer got = run(&s), zero = {.bad_row = -1};
    assert_memory_equal(&got, &zero, sizeof got);
    close_setting(&s);
}

static void wrong_operands_are_refused(void **state)
{
    (void)state;
    setting s;
    bt_tensor *loss = NULL;
    open_setting(&s, BT_F32);
    bt_context *context = &s.f.context;
    bt_tensor *wide = fixture_random(&s.f, BT_F32, BT_SHAPE(VOCAB, WIDTH + 1), 0, 1, 3);
    bt_tensor *narrow = fixture_random(&s.f, BT_F64, BT_SHAPE(VOCAB, WIDTH), 0, 1, 3);
    bt_tensor *few = fixture_random(&s.f, BT_I32, BT_SHAPE(ROWS - 1), 0, 5, 3);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "[29, 13]",
                 bt_linear_cross_entropy(context, s.x, wide, s.targets, IGNORE, 0, &loss, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "f64",
                 bt_linear_cross_entropy(context, s.x, narrow, s.targets, IGNORE, 0, &loss, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "[36]",
                 bt_linear_cross_entropy(context, s.x, s.w, few, IGNORE, 0, &loss, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "chunks of -1 rows",
                 bt_linear_cross_entropy(context, s.x, s.w, s.targets, IGNORE, -1, &loss, NULL));
    bt_tensor_release(wide);
    bt_tensor_release(narrow);
    bt_tensor_release(few);
    close_setting(&s);
}

static void the_rule_fills_the_device(void **state)
{
    (void)state;
    bt_device device = {.info.processor_count = 132};
    // GPT-2 on a GPU of 132 processors: 44 tiles down, 3 across.
    assert_int_equal(bt_linear_cross_entropy_rows(&device, 50304, 768, BT_BF16), 2 * 44 * 128);
    assert_int_equal(bt_linear_cross_entropy_rows(&device, 50304, 768, BT_F32), 44 * 128);
    // A round is too large: whole tiles; not even one fits.
    assert_int_equal(bt_linear_cross_entropy_rows(&device, 500000, 768, BT_F32), 4 * 128);
    assert_int_equal(bt_linear_cross_entropy_rows(&device, 50000000, 768, BT_F32), 128);
    // Wider than the device, and nothing at all.
    assert_int_equal(bt_linear_cross_entropy_rows(&device, 1 << 21, 1 << 16, BT_F32), 128);
    assert_true(bt_linear_cross_entropy_rows(&device, 0, 0, BT_F32) >= 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_give_what_the_pair_gives),
        cmocka_unit_test(bits_repeat),
        cmocka_unit_test(without_a_tape_there_is_only_the_loss),
        cmocka_unit_test(recomputed_and_tied),
        cmocka_unit_test(only_wanted_gradients_are_made),
        cmocka_unit_test(bad_labels_are_reported),
        cmocka_unit_test(nothing_counts),
        cmocka_unit_test(wrong_operands_are_refused),
        cmocka_unit_test(the_rule_fills_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

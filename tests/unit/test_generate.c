// tests/unit/test_generate.c - cached keys and values, draws, and texts longer than the context
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/eval/generate.h"
#include "framework/nn/gpt2_cache.h"
#include "tests/support/fixture.h"

static const bt_gpt2_config shape = {
    .layers = 2, .heads = 3, .width = 24, .vocab = 31, .context = 9};
static fixture session;
static bt_params params;
static bt_gpt2 model;

// Weights ten times those of an untrained model, so that tokens are far from equally likely.
static int setup(void **state)
{
    (void)state;
    fixture_open(&session, 0);
    session.context.tape = NULL;
    bt_params_init(&params, &session.context, BT_F32, BT_F32, 5);
    ASSERT_OK(bt_gpt2_init(&params, &shape, &model));
    for (int64_t i = 0; i < params.count; ++i) {
        bt_tensor *master = params.items[i].master;
        bt_tensor *scaled = NULL;
        ASSERT_OK(bt_scale(&session.context, master, 10, &scaled));
        ASSERT_OK(bt_tensor_copy(&session.context, scaled, master));
        bt_tensor_release(scaled);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bt_gpt2_release(&model);
    bt_params_release(&params);
    fixture_close(&session);
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

// Logits after ids [count] by the whole forward pass.
static double *expected_logits(const int32_t *ids, int64_t count)
{
    bt_tensor *tokens = fixture_values(&session, BT_I32, BT_SHAPE(1, count), ids);
    bt_tensor *logits = NULL;
    ASSERT_OK(bt_gpt2_forward(&session.context, &model, tokens, &logits));
    double *all = fixture_read(&session, logits);
    memmove(all, all + (count - 1) * shape.vocab, (size_t)shape.vocab * sizeof *all);
    bt_tensor_release(logits);
    bt_tensor_release(tokens);
    return all;
}

static void check_logits(bt_gpt2_cache *cache, const int32_t *ids, int64_t count)
{
    bt_tensor *tokens =
        fixture_values(&session, BT_I32, BT_SHAPE(1, count - cache->used), ids + cache->used);
    bt_tensor *logits = NULL;
    ASSERT_OK(bt_gpt2_cache_extend(&session.context, cache, tokens, &logits));
    assert_int_equal(cache->used, count);
    double *got = fixture_read(&session, logits);
    double *expected = expected_logits(ids, count);
    double largest = 0;
    for (int64_t i = 0; i < shape.vocab; ++i) {
        largest = fmax(largest, fabs(expected[i]));
    }
    // eps(f32) times the some 300 operations in a row
    test_assert_close(got, expected, shape.vocab, 4e-5 * largest, 0, "logits");
    free(expected);
    free(got);
    bt_tensor_release(logits);
    bt_tensor_release(tokens);
}

// From every length of the first piece to a full context, token by token.
static void cache_is_forward(void **state)
{
    (void)state;
    const int32_t ids[9] = {3, 30, 0, 7, 7, 12, 29, 1, 18};
    bt_gpt2_cache cache;
    ASSERT_OK(bt_gpt2_cache_init(&session.context, &model, &cache));
    for (int64_t first = 1; first <= shape.context; ++first) {
        cache.used = 0;
        for (int64_t count = first; count <= shape.context; ++count) {
            check_logits(&cache, ids, count);
        }
    }
    bt_gpt2_cache_release(&cache);
}

static void cache_refuses(void **state)
{
    (void)state;
    const int32_t ids[10] = {0};
    bt_gpt2_cache cache;
    bt_tensor *logits = NULL;
    ASSERT_OK(bt_gpt2_cache_init(&session.context, &model, &cache));
    const struct {
        bt_shape shape;
        int64_t used;
    } rows[] = {
        {BT_SHAPE(1, 10), 0}, {BT_SHAPE(1, 2), 3}, {BT_SHAPE(1, 1), 9}, {BT_SHAPE(2, 1), 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bt_tensor *tokens = fixture_values(&session, BT_I32, rows[i].shape, ids);
        cache.used = rows[i].used;
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "at most 9 tokens in total",
                     bt_gpt2_cache_extend(&session.context, &cache, tokens, &logits));
        assert_null(logits);
        bt_tensor_release(tokens);
    }
    bt_gpt2_cache_release(&cache);
}

// ---- draws --------------------------------------------------------------------------------------

static int32_t choose(const float *logits, int64_t vocab, double temperature, int64_t top_k,
                      double u)
{
    int32_t order[8];
    int32_t id = -1;
    ASSERT_OK(bt_generate_choose(logits, vocab, temperature, top_k, u, order, &id));
    return id;
}

// Probabilities 1/2, 1/4, 1/8, 1/8 of the tokens 2, 0, 1, 3.
static void draws(void **state)
{
    (void)state;
    const float l2 = 0.69314718f;
    const float logits[4] = {2 * l2, l2, 3 * l2, l2};
    assert_int_equal(choose(logits, 4, 0, 0, 0.99), 2);
    assert_int_equal(choose(logits, 4, 1, 1, 0.99), 2);
    const struct {
        double temperature, u;
        int64_t top_k;
        int32_t id;
    } rows[] = {
        {1, 0, 0, 2},       {1, 0.49, 0, 2},   {1, 0.51, 0, 0},   {1, 0.74, 0, 0},
        {1, 0.76, 0, 1},    {1, 0.874, 0, 1},  {1, 0.876, 0, 3},  {1, 0.9999999, 0, 3},
        {1, 0.66, 2, 2},    {1, 0.67, 2, 0},   {1, 0.9999, 2, 0}, // 2/3, 1/3
        {1, 0.9999, 3, 1},                                        // of equals the lower id
        {0.5, 0.75, 2, 2},  {0.5, 0.81, 2, 0},                    // 4/5, 1/5
        {1, 0.9999, 99, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        assert_int_equal(choose(logits, 4, rows[i].temperature, rows[i].top_k, rows[i].u),
                         rows[i].id);
    }
    const float equal[3] = {1, 1, 1};
    assert_int_equal(choose(equal, 3, 0, 0, 0.5), 0);
}

static void broken_logits(void **state)
{
    (void)state;
    int32_t order[3];
    int32_t id = 0;
    const float rows[][3] = {{0, NAN, 0}, {0, INFINITY, 0}, {0, -INFINITY, 0}};
    for (size_t i = 0; i < 3; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the logit of token 1",
                     bt_generate_choose(rows[i], 3, 1, 0, 0.5, order, &id));
    }
}

// ---- texts --------------------------------------------------------------------------------------

typedef struct heard {
    uint16_t ids[64];
    int64_t count;
    int64_t fails_at; // the listener's own failure; 0: never
} heard;

static bt_status hear(void *self, uint16_t id)
{
    heard *h = self;
    h->ids[h->count++] = id;
    return h->count == h->fails_at ? bt_error(BT_STATUS_IO, "no more paper") : BT_OK;
}

static heard text(const bt_generate_options *options, const uint16_t *prompt, int64_t count)
{
    heard h = {0};
    ASSERT_OK(bt_generate(&session.context, &model, options, prompt, count,
                          (bt_generate_listener){&h, hear}));
    return h;
}

static const uint16_t prompt[14] = {3, 30, 0, 7, 7, 12, 29, 1, 18, 2, 2, 5, 11, 23};

// The likeliest token each time, by the whole forward pass over the same window.
static void greedy(void **state)
{
    (void)state;
    const bt_generate_options options = {.tokens = 25, .end = -1};
    for (int64_t count = 1; count <= 14; count += count < 8 ? 7 : 1) {
        int32_t window[9];
        int64_t used = count < shape.context ? count : shape.context;
        for (int64_t i = 0; i < used; ++i) {
            window[i] = prompt[count - used + i];
        }
        const heard got = text(&options, prompt, count);
        assert_int_equal(got.count, 25);
        for (int64_t i = 0; i < got.count; ++i) {
            double *logits = expected_logits(window, used);
            for (int64_t j = 0; j < shape.vocab; ++j) { // the margin: rounding
                assert_true(logits[got.ids[i]] >= logits[j] - 1e-3);
            }
            free(logits);
            if (used == shape.context) {
                used = shape.context / 2;
                memmove(window, window + shape.context - used, (size_t)used * sizeof *window);
            }
            window[used++] = got.ids[i];
        }
    }
}

static void seeds(void **state)
{
    (void)state;
    bt_generate_options options = {.tokens = 40, .temperature = 1.5, .seed = 3, .end = -1};
    const heard first = text(&options, prompt, 4);
    const heard again = text(&options, prompt, 4);
    assert_memory_equal(&first, &again, sizeof first);
    options.tokens = 20; // a shorter text is the longer one's beginning
    const heard shorter = text(&options, prompt, 4);
    assert_memory_equal(shorter.ids, first.ids, 20 * sizeof *first.ids);
    options.seed = 4;
    const heard other = text(&options, prompt, 4);
    assert_memory_not_equal(other.ids, first.ids, 20 * sizeof *first.ids);
}

static void limits(void **state)
{
    (void)state;
    bt_generate_options options = {.tokens = 40, .temperature = 100, .end = -1, .vocab = 7};
    const heard low = text(&options, prompt, 4);
    bool drawn[7] = {false};
    for (int64_t i = 0; i < low.count; ++i) {
        assert_true(low.ids[i] < 7);
        drawn[low.ids[i]] = true;
    }
    assert_true(drawn[0] && drawn[6]);
    options.end = low.ids[10];
    int64_t first = 0;
    while (low.ids[first] != options.end) {
        ++first;
    }
    const heard ended = text(&options, prompt, 4);
    assert_int_equal(ended.count, first);
    options.before = 3; // in place of an empty prompt
    const heard begun = text(&options, prompt, 1);
    const heard empty = text(&options, NULL, 0);
    assert_memory_equal(&begun, &empty, sizeof begun);
}

static void refused(void **state)
{
    (void)state;
    const uint16_t beyond[2] = {3, 31};
    heard h = {.fails_at = 2};
    const bt_generate_listener listener = {&h, hear};
    const struct {
        bt_generate_options options;
        const uint16_t *prompt;
        int64_t count;
        const char *message;
    } rows[] = {
        {{.tokens = 1},
         beyond,
         2,
         "token 1 of the prompt is 31; the model's vocabulary ends at 30"},
        {{.tokens = 1, .before = 50256}, NULL, 0, "the token 50256 used instead"},
        {{.tokens = -1}, prompt, 1, "-1 tokens after a prompt of 1"},
        {{.tokens = 1, .temperature = (double)NAN}, prompt, 1, "temperature nan"},
        {{.tokens = 1, .top_k = -1}, prompt, 1, "top-k -1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, rows[i].message,
                     bt_generate(&session.context, &model, &rows[i].options, rows[i].prompt,
                                 rows[i].count, listener));
    }
    const bt_generate_options options = {.tokens = 9, .end = -1};
    ASSERT_FAILS(BT_STATUS_IO, "no more paper",
                 bt_generate(&session.context, &model, &options, prompt, 3, listener));
    assert_int_equal(h.count, 2);
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    const bt_generate_options options = {.tokens = 3, .end = -1};
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 1;
    (void)text(&options, prompt, 3); // what the pool keeps, it has by now
    for (; status != BT_OK; ++n) {
        heard h = {0};
        const int64_t before = bt_mem_live_count();
        bt_mem_fail_at(n);
        status = bt_generate(&session.context, &model, &options, prompt, 3,
                             (bt_generate_listener){&h, hear});
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
        assert_true(n < 2000);
    }
    assert_true(n > 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(cache_is_forward),
        TEST(cache_refuses),
        cmocka_unit_test(draws),
        cmocka_unit_test(broken_logits),
        TEST(greedy),
        TEST(seeds),
        TEST(limits),
        TEST(refused),
        TEST(every_host_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

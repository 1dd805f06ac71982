// tests/dist/test_head_exchange.c - heads for tokens and back: every element in its place, and
// gradients as the exchange's reverse, for heads that ranks can and cannot share evenly
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/ops/ops.h"
#include "tests/dist/ranks.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

typedef struct exchange_case {
    bt_head_layout layout;
    int64_t batch, half, dim; // half: tokens of half a rank's part
} exchange_case;

static const exchange_case cases[] = {
    {{3, {4, 4, 4}, 4}, 2, 2, 3},
    {{1, {12}, 12}, 1, 1, 2},      // 12 heads of 8 ranks
    {{3, {10, 5, 5}, 5}, 2, 3, 1}, // grouped, uneven
    {{3, {16, 8, 8}, 8}, 1, 2, 2},
};

// A value that names batch, token of the whole sequence, head of all parts, and column.
static float value_of(const exchange_case *c, int64_t b, int64_t token, int64_t head, int64_t d)
{
    return (float)(((b * 1000 + token) * 100 + head) * c->dim + d);
}

static int64_t heads_of(const exchange_case *c, int size, int rank)
{
    int64_t sum = 0;
    for (int part = 0; part < c->layout.parts; ++part) {
        sum += bt_head_count(&c->layout, part, size, rank);
    }
    return sum;
}

// The head of all parts that is a rank's `own`-th.
static int64_t head_at(const exchange_case *c, int size, int rank, int64_t own)
{
    int64_t before = 0;
    for (int part = 0; part < c->layout.parts; ++part) {
        const int64_t count = bt_head_count(&c->layout, part, size, rank);
        int64_t first = 0;
        for (int lower = 0; lower < rank; ++lower) {
            first += bt_head_count(&c->layout, part, size, lower);
        }
        if (own < count) {
            return before + first + own;
        }
        own -= count;
        before += c->layout.heads[part];
    }
    return -1;
}

// The tokens of a rank, or all of them: by place.
static bt_status expect(const exchange_case *c, int size, int rank, bool all_tokens,
                        const float *got, double factor)
{
    int64_t all = 0, at = 0;
    for (int part = 0; part < c->layout.parts; ++part) {
        all += c->layout.heads[part];
    }
    const int64_t tokens = 2 * c->half * (all_tokens ? size : 1);
    const int64_t heads = all_tokens ? heads_of(c, size, rank) : all;
    for (int64_t b = 0; b < c->batch; ++b) {
        for (int64_t t = 0; t < tokens; ++t) {
            const int64_t token =
                all_tokens ? t : t / c->half * c->half * size + rank * c->half + t % c->half;
            for (int64_t h = 0; h < heads; ++h) {
                const int64_t head = all_tokens ? head_at(c, size, rank, h) : h;
                for (int64_t d = 0; d < c->dim; ++d, ++at) {
                    const double want = factor * (double)value_of(c, b, token, head, d);
                    if (!((double)got[at] >= want && (double)got[at] <= want)) {
                        return bt_error(BT_STATUS_INTERNAL,
                                        "rank %d, batch %lld, token %lld, head %lld: %g, expected "
                                        "%g",
                                        rank, (long long)b, (long long)token, (long long)head,
                                        (double)got[at], want);
                    }
                }
            }
        }
    }
    return BT_OK;
}

static bt_status make_own(const exchange_case *c, const bt_group *group, bt_context *context,
                          bt_tensor **x)
{
    int64_t heads = 0, at = 0;
    for (int part = 0; part < c->layout.parts; ++part) {
        heads += c->layout.heads[part];
    }
    float *values = malloc((size_t)(c->batch * 2 * c->half * heads * c->dim) * sizeof *values + 8);
    for (int64_t b = 0; b < c->batch; ++b) {
        for (int64_t t = 0; t < 2 * c->half; ++t) {
            const int64_t token =
                t / c->half * c->half * group->size + group->rank * c->half + t % c->half;
            for (int64_t h = 0; h < heads; ++h) {
                for (int64_t d = 0; d < c->dim; ++d) {
                    values[at++] = value_of(c, b, token, h, d);
                }
            }
        }
    }
    bt_status status =
        bt_tensor_create(context, BT_F32, BT_SHAPE(c->batch, 2 * c->half, heads * c->dim), "x", x);
    status = status ? status : bt_tensor_write(context, *x, values);
    free(values);
    return status;
}

static bt_status exchange(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    const exchange_case *c = argument;
    bt_session session = {0};
    bt_tensor *x = NULL, *shared = NULL, *back = NULL, *twice = NULL;
    bt_status status = BT_OK;
    BT_TRY(bt_session_open("cpu", 0, 0, &session));
    bt_context *context = &session.context;
    BT_TRY_GOTO(make_own(c, group, context, &x), done);
    x->requires_grad = true;
    x->grad_dtype = BT_F32;
    BT_TRY_GOTO(bt_share_heads(context, group, x, &c->layout, &shared), done);
    BT_TRY_GOTO(expect(c, group->size, group->rank, true, bt_tensor_data(shared), 1), done);
    // L = sum (2 shared) * shared: its gradient goes through both directions.
    BT_TRY_GOTO(bt_scale(context, shared, 2, &twice), done);
    BT_TRY_GOTO(bt_share_tokens(context, group, twice, &c->layout, &back), done);
    BT_TRY_GOTO(expect(c, group->size, group->rank, false, bt_tensor_data(back), 2), done);
    BT_TRY_GOTO(bt_backward(context, back, back), done); // d(sum back * seed), seed = 2 x
    BT_TRY_GOTO(expect(c, group->size, group->rank, false, bt_tensor_data(x->grad), 4), done);
done:
    bt_tape_reset(session.tape);
    bt_tensor_release(x);
    bt_tensor_release(shared);
    bt_tensor_release(twice);
    bt_tensor_release(back);
    bt_session_close(&session);
    return status;
}

static void elements_are_in_their_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (int size = 1; size <= 8; size += size < 4 ? 1 : 4) {
            rank_result results[RANKS_MAX];
            exchange_case c = cases[i];
            if (c.layout.groups < size) {
                continue;
            }
            run_ranks(size == 3 ? RANKS_MEMORY : RANKS_THREADS, size, timeout_ns, exchange, &c,
                      results);
            for (int rank = 0; rank < size; ++rank) {
                if (results[rank].ended || results[rank].status != BT_OK) {
                    fail_msg("case %zu, %d ranks: %s", i, size, results[rank].message);
                }
            }
        }
    }
}

static void too_few_heads_are_refused(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    exchange_case c = cases[2];
    run_ranks(RANKS_THREADS, 8, timeout_ns, exchange, &c, results);
    assert_int_equal(results[3].status, BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(results[3].message, "5 heads"));
}

static void layouts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const bt_head_layout layouts[] = {
        {1, {2}, 0}, {0, {2}, 2}, {BT_HEAD_PARTS + 1, {2, 2, 2}, 2}, {2, {2, 3}, 2}, {1, {0}, 1}};
    bt_session session = {0};
    bt_tensor *x = NULL, *y = NULL;
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    ASSERT_OK(bt_tensor_create(&session.context, BT_F32, BT_SHAPE(1, 4, 8), "x", &x));
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
        assert_int_equal(bt_share_heads(&session.context, NULL, x, &layouts[i], &y),
                         BT_STATUS_INVALID_ARGUMENT);
        assert_int_equal(bt_share_tokens(&session.context, NULL, x, &layouts[i], &y),
                         BT_STATUS_INVALID_ARGUMENT);
    }
    bt_tensor_release(x);
    bt_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_in_their_places),
        cmocka_unit_test(too_few_heads_are_refused),
        cmocka_unit_test(layouts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

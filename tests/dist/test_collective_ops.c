// Collectives as ops: gradients by central differences over all ranks, and what they refuse.
//
// The loss is f64; with step h central differences err by O(h^2) truncation and O(eps |L| / h)
// rounding. h = 1e-5 keeps both under 1e-8 for values of size 1; the tolerance is ten times that.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/autograd/tape.h"
#include "framework/ops/ops.h"
#include "tests/dist/ranks.h"
#include "tests/dist/slow.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;
static const double step = 1e-5, tolerance = 1e-7;

enum { SIDE = 4, COUNT = SIDE * SIDE * SIDE, LEAVES = 6, STRIDE = 7 };
enum { X, W, V, U, Z, Q }; // X and V are the same on all ranks, the others each rank's own

typedef struct run {
    bt_group *group;
    bt_session session;
    int axis;
    bool in_place;
    double values[LEAVES][COUNT]; // of Z the first COUNT / ranks
} run;

static bool is_shared(int leaf) { return leaf == X || leaf == V; }

static double drawn(int leaf, int rank, int i)
{
    return sin(1.7 * (leaf + 1) + 0.9 * (is_shared(leaf) ? 0 : rank + 1) + 0.37 * i);
}

static bt_shape shape_of(const run *r, int leaf)
{
    bt_shape shape = BT_SHAPE(SIDE, SIDE, SIDE);
    shape.size[r->axis] /= leaf == Z ? r->group->size : 1;
    return shape;
}

static bt_status open_leaf(run *r, int leaf, bt_tensor **out)
{
    bt_context *context = &r->session.context;
    BT_TRY(bt_tensor_create(context, BT_F64, shape_of(r, leaf), "leaf", out));
    (*out)->requires_grad = true;
    (*out)->grad_dtype = BT_F64;
    return bt_tensor_write(context, *out, r->values[leaf]);
}

// Sum over ranks of q_r gather(z_r gelu(scatter(u_r v sum(gelu(w_r x)))))
static bt_status forward(run *r, bt_tensor *const *leaf, bt_tensor **loss)
{
    bt_context *context = &r->session.context;
    enum { STEPS = 12 };
    bt_tensor *t[STEPS] = {NULL};
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_group_replicate(context, r->group, leaf[X], &t[0]), done);
    BT_TRY_GOTO(bt_mul(context, t[0], leaf[W], &t[1]), done);
    BT_TRY_GOTO(bt_gelu(context, t[1], &t[2]), done);
    BT_TRY_GOTO(bt_group_all_reduce(context, r->group, t[2], r->in_place, &t[3]), done);
    BT_TRY_GOTO(bt_mul(context, t[3], leaf[V], &t[4]), done);
    BT_TRY_GOTO(bt_group_replicate(context, r->group, t[4], &t[5]), done);
    BT_TRY_GOTO(bt_mul(context, t[5], leaf[U], &t[6]), done);
    BT_TRY_GOTO(bt_group_reduce_scatter(context, r->group, t[6], r->axis, &t[7]), done);
    BT_TRY_GOTO(bt_gelu(context, t[7], &t[8]), done);
    BT_TRY_GOTO(bt_mul(context, t[8], leaf[Z], &t[9]), done);
    BT_TRY_GOTO(bt_group_all_gather(context, r->group, t[9], r->axis, &t[10]), done);
    BT_TRY_GOTO(bt_mul(context, t[10], leaf[Q], &t[11]), done);
    bt_tensor *own = NULL;
    BT_TRY_GOTO(bt_sum_all(context, t[11], &own), done);
    status = bt_group_all_reduce(context, r->group, own, false, loss);
    bt_tensor_release(own);
done:
    for (int i = 0; i < STEPS; ++i) {
        bt_tensor_release(t[i]);
    }
    return status;
}

// The loss, and the gradients of the leaves where `grads` is given.
static bt_status evaluate(run *r, double *loss, double (*grads)[COUNT])
{
    bt_context *context = &r->session.context;
    bt_tensor *leaf[LEAVES] = {NULL}, *root = NULL;
    bt_status status = BT_OK;
    context->tape = grads ? r->session.tape : NULL;
    for (int i = 0; i < LEAVES; ++i) {
        BT_TRY_GOTO(open_leaf(r, i, &leaf[i]), done);
    }
    BT_TRY_GOTO(forward(r, leaf, &root), done);
    BT_TRY_GOTO(bt_tensor_read(context, root, loss), done);
    BT_TRY_GOTO(grads ? bt_backward(context, root, NULL) : BT_OK, done);
    for (int i = 0; i < LEAVES && grads; ++i) {
        BT_TRY_GOTO(bt_tensor_read(context, leaf[i]->grad, grads[i]), done);
    }
done:
    bt_tensor_release(root);
    for (int i = 0; i < LEAVES; ++i) {
        bt_tensor_release(leaf[i]);
    }
    context->tape = NULL;
    return status;
}

// The slope of the loss along element i of a leaf: of rank `owner`, or of all.
static bt_status slope(run *r, int leaf, int owner, int i, double *out)
{
    const bool mine = is_shared(leaf) || owner == r->group->rank;
    const double was = r->values[leaf][i];
    double up = 0, down = 0;
    r->values[leaf][i] = mine ? was + step : was;
    BT_TRY(evaluate(r, &up, NULL));
    r->values[leaf][i] = mine ? was - step : was;
    BT_TRY(evaluate(r, &down, NULL));
    r->values[leaf][i] = was;
    *out = (up - down) / (2 * step);
    return BT_OK;
}

static bt_status compare(run *r)
{
    double grads[LEAVES][COUNT], loss = 0, numeric = 0;
    BT_TRY(evaluate(r, &loss, grads));
    for (int leaf = 0; leaf < LEAVES; ++leaf) {
        const int count = leaf == Z ? COUNT / r->group->size : COUNT;
        for (int owner = 0; owner < (is_shared(leaf) ? 1 : r->group->size); ++owner) {
            for (int i = 0; i < count; i += STRIDE) {
                const bool mine = is_shared(leaf) || owner == r->group->rank;
                BT_TRY(slope(r, leaf, owner, i, &numeric));
                if (mine && !(fabs(grads[leaf][i] - numeric) <= tolerance)) {
                    return bt_error(BT_STATUS_INTERNAL,
                                    "leaf %d, element %d, axis %d: gradient %.12g, differences "
                                    "give %.12g",
                                    leaf, i, r->axis, grads[leaf][i], numeric);
                }
            }
        }
    }
    return BT_OK;
}

typedef struct how {
    unsigned slow_seed;
} how;

static bt_status differentiate(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    (void)result;
    run *r = calloc(1, sizeof *r);
    r->group = group;
    if (with->slow_seed) {
        slow_transport(group, with->slow_seed);
    }
    bt_status status = bt_session_open("cpu", 0, 0, &r->session);
    for (int variant = 0; variant < 4 && status == BT_OK; ++variant) {
        r->axis = variant % 3;
        r->in_place = variant == 3;
        for (int leaf = 0; leaf < LEAVES; ++leaf) {
            for (int i = 0; i < COUNT; ++i) {
                r->values[leaf][i] = drawn(leaf, group->rank, i);
            }
        }
        status = compare(r);
    }
    bt_session_close(&r->session);
    free(r);
    return status;
}

static void expect_ok(int ranks, const rank_result *results)
{
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
        }
    }
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        rank_result results[RANKS_MAX];
        how with = {0};
        run_ranks(RANKS_THREADS, ranks, timeout_ns, differentiate, &with, results);
        expect_ok(ranks, results);
    }
}

// ---- the same bits whatever the delays ----------------------------------------------------------

static bt_status take_bits(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    run *r = calloc(1, sizeof *r);
    double grads[LEAVES][COUNT], loss = 0;
    r->group = group;
    if (with->slow_seed) {
        slow_transport(group, with->slow_seed);
    }
    for (int leaf = 0; leaf < LEAVES; ++leaf) {
        for (int i = 0; i < COUNT; ++i) {
            r->values[leaf][i] = drawn(leaf, group->rank, i);
        }
    }
    bt_status status = bt_session_open("cpu", 0, 0, &r->session);
    status = status ? status : evaluate(r, &loss, grads);
    for (int i = 0; i < COUNT && status == BT_OK; ++i) { // of what all ranks have alike
        uint64_t bits[2];
        memcpy(&bits[0], &grads[X][i], sizeof bits[0]);
        memcpy(&bits[1], &grads[V][i], sizeof bits[1]);
        result->digest = ((result->digest ^ bits[0]) * 1099511628211U ^ bits[1]) * 1099511628211U;
    }
    bt_session_close(&r->session);
    free(r);
    return status;
}

static void delays_change_no_bit(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    uint64_t expected = 0;
    for (unsigned seed = 0; seed < 4; ++seed) {
        how with = {.slow_seed = seed * 11};
        run_ranks(RANKS_THREADS, 4, timeout_ns, take_bits, &with, results);
        expect_ok(4, results);
        expected = seed ? expected : results[0].digest;
        for (int rank = 0; rank < 4; ++rank) {
            assert_int_equal(results[rank].digest, expected);
        }
    }
}

static bt_status scatter_unevenly(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_session session;
    bt_tensor *x = NULL, *y = NULL;
    bt_status status = BT_OK;
    BT_TRY(bt_session_open("cpu", 0, 0, &session));
    BT_TRY_GOTO(bt_tensor_create(&session.context, BT_F32, BT_SHAPE(5, 4), "x", &x), done);
    status = bt_group_reduce_scatter(&session.context, group, x, 0, &y);
done:
    bt_tensor_release(x);
    bt_session_close(&session);
    return status;
}

static void uneven_parts_are_refused(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, 2, timeout_ns, scatter_unevenly, NULL, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(results[rank].message, "shape [5, 4] along axis 0 over 2 ranks"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(delays_change_no_bit),
        cmocka_unit_test(uneven_parts_are_refused),
    };
    return cmocka_run_group_tests_name("dist.collective_ops", tests, NULL, NULL);
}

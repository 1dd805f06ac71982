// A block whose matrices and rows ranks share: gradients by central differences over all ranks, and
// rows that the ranks cannot share.
//
// The loss is f64; with step h central differences err by O(h^2) truncation and O(eps |L| / h)
// rounding. h = 1e-5 keeps both under 1e-8 for values of size 1; the tolerance is ten times that.
#include <math.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/nn/tensor_parallel.h"
#include "tests/dist/ranks.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;
static const double step = 1e-5, tolerance = 1e-7;

enum { BATCH = 2, TOKENS = 6, ROWS = BATCH * TOKENS, WIDTH = 8, HEADS = 4, COUNT = ROWS * WIDTH };

typedef struct run {
    bt_group *group;
    bt_session session;
    bt_params params;
    bt_nn_block block;
    bt_tensor *x, *weight; // leaf and constant, [ROWS / ranks, WIDTH]: this rank's rows
} run;

static bt_status rows_of(run *r, double seed, bool is_leaf, bt_tensor **out)
{
    const int own = COUNT / r->group->size;
    double values[COUNT];
    for (int i = 0; i < own; ++i) {
        values[i] = sin(seed + 0.731 * (own * r->group->rank + i));
    }
    BT_TRY(
        bt_tensor_create(&r->session.context, BT_F64, BT_SHAPE(own / WIDTH, WIDTH), "rows", out));
    (*out)->requires_grad = is_leaf;
    (*out)->grad_dtype = BT_F64;
    return bt_tensor_write(&r->session.context, *out, values);
}

static double *data_of(bt_tensor *x) { return bt_tensor_data(x); }

static bt_status open_run(run *r)
{
    const bt_nn_tensor_ranks ranks = {.group = r->group, .sequence_parallel = true};
    BT_TRY(bt_session_open("cpu", 0, 0, &r->session));
    bt_params_init(&r->params, &r->session.context, BT_F64, BT_F64, 7);
    BT_TRY(bt_nn_block_init(&r->params, "h", WIDTH, HEADS, &ranks, 0.5, 0.5, &r->block));
    for (int64_t p = 0; p < r->params.count; ++p) { // biases are zero, scales one
        bt_tensor *master = r->params.items[p].master;
        for (int64_t i = 0; master->shape.rank == 1 && i < bt_tensor_count(master); ++i) {
            data_of(master)[i] += 0.3 * sin((double)(p + i));
        }
    }
    BT_TRY(rows_of(r, 1, true, &r->x));
    return rows_of(r, 2, false, &r->weight);
}

static void close_run(run *r)
{
    bt_tensor_release(r->x);
    bt_tensor_release(r->weight);
    bt_params_clear_grads(&r->params);
    bt_params_release(&r->params);
    bt_session_close(&r->session);
}

// Sum over ranks and rows of weight * block(x); with its gradients where asked.
static bt_status evaluate(run *r, bool differentiate, double *loss)
{
    bt_context *context = &r->session.context;
    bt_tensor *y = NULL, *weighted = NULL, *own = NULL, *root = NULL;
    bt_status status = BT_OK;
    context->tape = differentiate ? r->session.tape : NULL;
    BT_TRY_GOTO(bt_nn_block_forward(context, &r->block, TOKENS, r->x, &y), done);
    BT_TRY_GOTO(bt_mul(context, y, r->weight, &weighted), done);
    BT_TRY_GOTO(bt_sum_all(context, weighted, &own), done);
    BT_TRY_GOTO(bt_group_all_reduce(context, r->group, own, false, &root), done);
    BT_TRY_GOTO(bt_tensor_read(context, root, loss), done);
    status = differentiate ? bt_backward(context, root, NULL) : BT_OK;
done:
    bt_tensor_release(y);
    bt_tensor_release(weighted);
    bt_tensor_release(own);
    bt_tensor_release(root);
    return status;
}

// x: of rank `owner`; NULL: of another rank, whose element is moved. All ranks call it.
static bt_status compare(run *r, bt_tensor *x, int64_t i, const char *name)
{
    const double was = x ? data_of(x)[i] : 0;
    double up = 0, down = 0;
    if (x) {
        data_of(x)[i] = was + step;
    }
    BT_TRY(evaluate(r, false, &up));
    if (x) {
        data_of(x)[i] = was - step;
    }
    BT_TRY(evaluate(r, false, &down));
    if (!x) {
        return BT_OK;
    }
    data_of(x)[i] = was;
    const double numeric = (up - down) / (2 * step), got = data_of(x->grad)[i];
    return fabs(got - numeric) <= tolerance * (1 + fabs(numeric))
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "%s, element %lld: gradient %.12g, differences %.12g",
                          name, (long long)i, got, numeric);
}

// Adds up the ranks' terms of the gradients of what all have.
static bt_status sum_terms(run *r)
{
    for (int64_t s = 0; s < r->params.spec_count; ++s) {
        const bt_param_spec *spec = &r->params.specs[s];
        if (!spec->is_shared && r->group->size > 1) {
            bt_tensor *grad = r->params.items[spec->item].value->grad;
            BT_TRY(bt_all_reduce(r->group, bt_tensor_data(grad), bt_tensor_count(grad), BT_F64,
                                 BT_REDUCE_SUM, NULL));
        }
    }
    return BT_OK;
}

// The first, a middle and the last element of what a rank has; of what all have, of all at once.
static bt_status compare_spec(run *r, const bt_param_spec *spec)
{
    bt_tensor *own = spec->item >= 0 ? r->params.items[spec->item].master : NULL;
    for (int owner = 0; owner < (spec->is_shared ? r->group->size : 1); ++owner) {
        const bool mine = own && (!spec->is_shared || owner == r->group->rank);
        const int64_t count = mine ? bt_tensor_count(own) : 1;
        const int64_t places[] = {0, count / 2, count - 1};
        for (int i = 0; i < 3; ++i) {
            BT_TRY(compare(r, mine ? own : NULL, places[i], spec->name));
        }
    }
    return BT_OK;
}

static bt_status differentiates(bt_group *group, void *argument, rank_result *result)
{
    run r = {.group = group};
    double loss = 0;
    (void)argument;
    (void)result;
    bt_status status = open_run(&r);
    status = status ? status : evaluate(&r, true, &loss);
    status = status ? status : sum_terms(&r);
    for (int64_t s = 0; s < r.params.spec_count && status == BT_OK; ++s) {
        status = compare_spec(&r, &r.params.specs[s]);
    }
    for (int i = 0; i < COUNT && status == BT_OK; i += 5) {
        const int own = COUNT / group->size;
        status = compare(&r, i / own == group->rank ? r.x : NULL, i % own, "input");
    }
    close_run(&r);
    return status;
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 4};
    for (size_t d = 0; d < sizeof degrees / sizeof *degrees; ++d) {
        rank_result results[RANKS_MAX];
        run_ranks(RANKS_THREADS, degrees[d], timeout_ns, differentiates, NULL, results);
        for (int rank = 0; rank < degrees[d]; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("rank %d of %d: %s", rank, degrees[d], results[rank].message);
            }
        }
    }
}

static bt_status leaves(bt_group *group, void *argument, rank_result *result)
{
    const bt_nn_tensor_ranks ranks = {.group = group, .sequence_parallel = true};
    bt_session session;
    bt_tensor *partial = NULL, *y = NULL;
    (void)argument;
    (void)result;
    BT_TRY(bt_session_open("cpu", 0, 0, &session));
    bt_status status =
        bt_tensor_zeros(&session.context, BT_F64, BT_SHAPE(1, 5, WIDTH), "rows", &partial);
    status = status ? status : bt_nn_leave(&session.context, &ranks, &partial, NULL, &y);
    bt_tensor_release(y);
    bt_session_close(&session);
    return status;
}

static void rows_that_ranks_cannot_share_are_refused(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, 2, timeout_ns, leaves, NULL, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(results[rank].message, "[5, 8] along axis 0 over 2 ranks"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(rows_that_ranks_cannot_share_are_refused),
    };
    return cmocka_run_group_tests_name("dist.sequence_parallel", tests, NULL, NULL);
}

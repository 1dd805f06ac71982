// GPT-2 on two halves of a batch in turn, whose matrices ranks share: one rank's loss and
// gradients, and the bits of the halves computed apart.
#include <omp.h>
#include <string.h>

#include "framework/nn/half_batches.h"
#include "tests/dist/gpt_ranks.h"
#include "tests/support/test.h"

static void half_batches_agree_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 8};
    how with = {.heads = 12, .width = 24, .half_batches = true};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        with.master = with.compute = BT_F64;
        gpt_expect_one_rank(with, degrees[i]);
        with.master = with.compute = BT_F32;
        gpt_expect_one_rank(with, degrees[i]);
    }
    with.master = with.compute = BT_F64;
    with.slow_seed = 11;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        gpt_expect_one_rank(with, 2);
    }
}

// The loss of one half, whose gradient counts half.
static bt_status run_half(gpt *g, bt_tensor *ids, bt_tensor *targets, double *loss)
{
    bt_context *context = &g->session.context;
    bt_tensor *whole = NULL, *part = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_gpt2_loss(context, &g->model, ids, targets, &whole), done);
    BT_TRY_GOTO(bt_tensor_read(context, whole, loss), done);
    BT_TRY_GOTO(bt_scale(context, whole, 0.5, &part), done);
    status = bt_backward(context, part, NULL);
done:
    bt_tensor_release(whole);
    bt_tensor_release(part);
    return status;
}

// Without half-batches, the second half in front of the first; with them, both in one call.
static bt_status run_halves(gpt *g, bool together, double *loss)
{
    bt_tensor *ids = NULL, *targets = NULL, *id[BT_NN_HALVES] = {NULL};
    bt_tensor *target[BT_NN_HALVES] = {NULL};
    double part[BT_NN_HALVES] = {0};
    bt_status status = BT_OK;
    BT_TRY_GOTO(gpt_ids(g, 11, &ids), done);
    BT_TRY_GOTO(gpt_ids(g, 17, &targets), done);
    if (together) {
        BT_TRY_GOTO(bt_gpt2_loss(&g->session.context, &g->model, ids, targets, &g->loss), done);
        BT_TRY_GOTO(bt_tensor_read(&g->session.context, g->loss, loss), done);
        status = bt_backward(&g->session.context, g->loss, NULL);
        goto done;
    }
    BT_TRY_GOTO(bt_nn_halves(ids, id), done);
    BT_TRY_GOTO(bt_nn_halves(targets, target), done);
    for (int half = BT_NN_HALVES - 1; half >= 0; --half) {
        BT_TRY_GOTO(run_half(g, id[half], target[half], &part[half]), done);
    }
    *loss = 0.5 * (part[0] + part[1]);
done:
    bt_tensor_release(ids);
    bt_tensor_release(targets);
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        bt_tensor_release(id[half]);
        bt_tensor_release(target[half]);
    }
    return status;
}

static bt_status same_bits(bt_group *group, void *argument, rank_result *result)
{
    how halves = *(const how *)argument;
    gpt apart = {.loss = NULL}, together = {.loss = NULL};
    double loss[2] = {0};
    (void)result;
    omp_set_num_threads(1);
    bt_status status = gpt_open(&apart, &halves, group);
    halves.half_batches = true;
    status = status ? status : gpt_open(&together, &halves, group);
    status = status ? status : run_halves(&apart, false, &loss[0]);
    status = status ? status : run_halves(&together, true, &loss[1]);
    if (status == BT_OK && !(loss[0] == loss[1])) {
        status =
            bt_error(BT_STATUS_INTERNAL, "loss %.17g, of halves apart %.17g", loss[1], loss[0]);
    }
    for (int64_t i = 0; i < together.params.count && status == BT_OK; ++i) {
        const bt_param *one = &together.params.items[i], *other = &apart.params.items[i];
        if (strcmp(one->name, "wte.weight") == 0) {
            continue; // the head's parts of both halves come first: a bound is above
        }
        if (memcmp(bt_tensor_data(one->value->grad), bt_tensor_data(other->value->grad),
                   bt_tensor_bytes(one->value->grad)) != 0) {
            status = bt_error(BT_STATUS_INTERNAL, "the gradient of %s has other bits", one->name);
        }
    }
    gpt_close(&apart);
    gpt_close(&together);
    return status;
}

static void half_batches_have_the_bits_of_halves_apart(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 4, .width = 32, .master = BT_F64, .compute = BT_F64};
    for (int ranks = 2; ranks <= 4; ++ranks) {
        run_ranks(RANKS_THREADS, ranks, gpt_timeout_ns, same_bits, &with, results);
        for (int rank = 0; rank < ranks; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
            }
        }
    }
}

typedef struct stages {
    const char *names[3];
    int counts[3], depth;
} stages;

static void count_stage(void *self, const char *name)
{
    stages *seen = self;
    for (int i = 0; i < 3; ++i) {
        seen->counts[i] += seen->depth == 0 && strcmp(seen->names[i], name) == 0;
    }
    ++seen->depth;
}

static void end_stage(void *self) { --((stages *)self)->depth; }

static bt_status staged_pass(bt_group *group, void *argument, rank_result *result)
{
    gpt g = {.loss = NULL};
    stages seen = {.names = {"embedding", "block", "head"}};
    (void)result;
    omp_set_num_threads(1);
    bt_status status = gpt_open(&g, argument, group);
    g.session.context.range_hook = (bt_range_hook){&seen, count_stage, end_stage};
    status = status ? status : gpt_pass(&g);
    gpt_close(&g);
    for (int i = 0; i < 3 && status == BT_OK; ++i) {
        if (seen.counts[i] < 1) {
            status = bt_error(BT_STATUS_INTERNAL, "there is no range %s", seen.names[i]);
        }
    }
    return status;
}

// A report compares the stages of a step with and without half-batches.
static void half_batches_have_the_stages_of_whole_ones(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 4, .width = 32, .master = BT_F32, .compute = BT_F32};
    for (int halves = 0; halves < 2; ++halves) {
        with.half_batches = halves;
        run_ranks(RANKS_THREADS, 2, gpt_timeout_ns, staged_pass, &with, results);
        for (int rank = 0; rank < 2; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("half-batches %d, rank %d: %s", halves, rank, results[rank].message);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_batches_agree_with_one_rank),
        cmocka_unit_test(half_batches_have_the_bits_of_halves_apart),
        cmocka_unit_test(half_batches_have_the_stages_of_whole_ones),
    };
    return cmocka_run_group_tests_name("dist.half_batches", tests, NULL, NULL);
}

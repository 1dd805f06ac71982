// GPT-2 whose matrices ranks share, against one rank's: loss, gradients, initial values. With
// sequence parallel besides: the same, the bits of the forward, and less memory.
//
// Bound in the type's epsilon: a gradient is a chain of a few products a layer, whose sums of at
// most VOCAB, 4 WIDTH or ROWS terms are taken in another order; what each rounding adds goes
// through the layers behind it. ROUNDINGS * eps * (1 + the tensor's largest element) covers that
// for these sizes, and is a thousandth of what a missing term would change.
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/nn/gpt2.h"
#include "framework/nn/half_batches.h"
#include "framework/ops/aside.h"
#include "tests/dist/ranks.h"
#include "tests/dist/slow.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

enum { VOCAB = 61, CONTEXT = 8, LAYERS = 3, BATCH = 2, ROWS_MOST = BATCH * CONTEXT };
enum { ROUNDINGS = 256 };

typedef struct how {
    int64_t heads, width;
    bt_dtype master, compute;
    bt_recompute_mode recompute;
    unsigned slow_seed;
    int64_t tokens; // of a sequence; 0: 7
    bool sequence_parallel, half_batches;
} how;

typedef struct gpt {
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *loss;
    bt_aside *aside;
    int64_t tokens;
} gpt;

static bt_status ids_of(gpt *g, int factor, bt_tensor **out)
{
    int32_t ids[ROWS_MOST];
    for (int i = 0; i < BATCH * g->tokens; ++i) {
        ids[i] = (i * factor + 3) % VOCAB;
    }
    BT_TRY(bt_tensor_create(&g->session.context, BT_I32, BT_SHAPE(BATCH, g->tokens), "ids", out));
    return bt_tensor_write(&g->session.context, *out, ids);
}

static bt_status open_gpt(gpt *g, const how *with, bt_group *group)
{
    BT_TRY(with->half_batches ? bt_aside_create(&g->aside) : BT_OK);
    const bt_gpt2_config config = {.layers = LAYERS,
                                   .heads = with->heads,
                                   .width = with->width,
                                   .vocab = VOCAB,
                                   .context = CONTEXT,
                                   .tensor = group,
                                   .sequence_parallel = with->sequence_parallel,
                                   .aside = g->aside};
    g->tokens = with->tokens ? with->tokens : CONTEXT - 1;
    BT_TRY(bt_session_open("cpu", 0, 0, &g->session));
    bt_params_init(&g->params, &g->session.context, with->master, with->compute, 1337);
    BT_TRY(bt_gpt2_init(&g->params, &config, &g->model));
    g->model.recompute = with->recompute;
    return BT_OK;
}

static bt_status run_gpt(gpt *g)
{
    bt_tensor *ids = NULL, *targets = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(ids_of(g, 11, &ids), done);
    BT_TRY_GOTO(ids_of(g, 17, &targets), done);
    for (int twice = 0; twice < 2; ++twice) { // gradients add up
        BT_TENSOR_RELEASE(g->loss);
        BT_TRY_GOTO(bt_gpt2_loss(&g->session.context, &g->model, ids, targets, &g->loss), done);
        BT_TRY_GOTO(bt_backward(&g->session.context, g->loss, NULL), done);
    }
done:
    bt_tensor_release(ids);
    bt_tensor_release(targets);
    return status;
}

static void close_gpt(gpt *g)
{
    bt_tensor_release(g->loss);
    bt_params_clear_grads(&g->params);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    bt_aside_destroy(g->aside);
    bt_session_close(&g->session);
}

static double at(bt_dtype dtype, const void *data, int64_t i)
{
    return dtype == BT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

// The part of `whole` that `spec` says must be `piece`, up to `bound` eps.
static bt_status compare(gpt *g, const bt_param_spec *spec, bt_tensor *whole, bt_tensor *piece,
                         double bound, const char *what)
{
    const int64_t count = bt_tensor_count(piece);
    const double eps = piece->dtype == BT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    bt_tensor *expected = NULL;
    double largest = 0;
    bt_status status = BT_OK;
    BT_TRY(
        bt_tensor_create(&g->session.context, piece->dtype, piece->shape, "expected", &expected));
    if (spec->is_shared) {
        BT_TRY_GOTO(bt_param_part_copy(&g->session.context, &spec->whole, &spec->part, whole,
                                       expected, false),
                    done);
    } else {
        BT_TRY_GOTO(bt_tensor_copy(&g->session.context, whole, expected), done);
    }
    for (int64_t i = 0; i < count; ++i) {
        largest = fmax(largest, fabs(at(piece->dtype, bt_tensor_data(expected), i)));
    }
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        const double e = at(piece->dtype, bt_tensor_data(expected), i);
        const double got = at(piece->dtype, bt_tensor_data(piece), i);
        if (!(fabs(got - e) <= bound * eps * (1 + largest))) {
            status =
                bt_error(BT_STATUS_INTERNAL, "%s of %s, element %lld: %.17g, one rank has %.17g",
                         what, spec->name, (long long)i, got, e);
        }
    }
done:
    bt_tensor_release(expected);
    return status;
}

static bt_status compare_all(gpt *part, gpt *whole, double bound)
{
    for (int64_t s = 0; s < part->params.spec_count; ++s) {
        const bt_param_spec *spec = &part->params.specs[s];
        const bt_param *all = bt_params_find(&whole->params, spec->name);
        if (!all || strcmp(spec->name, whole->params.specs[s].name) != 0) {
            return bt_error(BT_STATUS_INTERNAL, "one rank has no %s", spec->name);
        }
        if (spec->item < 0) {
            continue;
        }
        const bt_param *own = &part->params.items[spec->item];
        BT_TRY(compare(part, spec, all->master, own->master, 0, "initial value"));
        BT_TRY(compare(part, spec, all->value->grad, own->value->grad, bound, "gradient"));
    }
    return BT_OK;
}

static bt_status agrees(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    const bool wide = with->compute == BT_BF16;
    gpt part = {.loss = NULL}, whole = {.loss = NULL};
    float loss[2] = {0};
    double wide_loss[2] = {0};
    (void)result;
    omp_set_num_threads(1);
    if (with->slow_seed) {
        slow_transport(group, with->slow_seed);
    }
    bt_status status = open_gpt(&part, with, group);
    status = status ? status : open_gpt(&whole, with, NULL);
    status = status ? status : run_gpt(&part);
    status = status ? status : run_gpt(&whole);
    // bf16 rounds each activation to 2^-8: ROUNDINGS of them, in epsilons of f32.
    status =
        status ? status : compare_all(&part, &whole, wide ? ROUNDINGS * 65536.0 / 16 : ROUNDINGS);
    if (with->master == BT_F64) {
        status = status ? status : bt_tensor_read(&part.session.context, part.loss, &wide_loss[0]);
        status =
            status ? status : bt_tensor_read(&whole.session.context, whole.loss, &wide_loss[1]);
    } else {
        status = status ? status : bt_tensor_read(&part.session.context, part.loss, &loss[0]);
        status = status ? status : bt_tensor_read(&whole.session.context, whole.loss, &loss[1]);
        wide_loss[0] = (double)loss[0];
        wide_loss[1] = (double)loss[1];
    }
    const double eps = with->master == BT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    if (status == BT_OK &&
        !(fabs(wide_loss[0] - wide_loss[1]) <= (wide ? 65536.0 : ROUNDINGS) * eps * wide_loss[1])) {
        status = bt_error(BT_STATUS_INTERNAL, "loss %.17g, one rank has %.17g", wide_loss[0],
                          wide_loss[1]);
    }
    close_gpt(&part);
    close_gpt(&whole);
    return status;
}

static void run_all(how with, int ranks)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, agrees, &with, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%lld heads, rank %d of %d: %s", (long long)with.heads, rank, ranks,
                     results[rank].message);
        }
    }
}

static void every_degree_agrees_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        // 12 heads on 8 ranks: four ranks have two
        run_all((how){.heads = 12, .width = 24, .master = BT_F64, .compute = BT_F64}, degrees[i]);
        run_all((how){.heads = 12, .width = 48, .master = BT_F32, .compute = BT_F32}, degrees[i]);
    }
    run_all((how){.heads = 4, .width = 64, .master = BT_F32, .compute = BT_BF16}, 2);
}

static void recomputation_and_delays_change_nothing(void **state)
{
    (void)state;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        run_all((how){.heads = 4,
                      .width = 32,
                      .master = BT_F64,
                      .compute = BT_F64,
                      .recompute = (bt_recompute_mode)mode,
                      .slow_seed = 5},
                2);
    }
}

static void sequence_parallel_agrees_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 4, 8};
    how with = {.heads = 12, .width = 24, .tokens = CONTEXT, .sequence_parallel = true};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        with.master = with.compute = BT_F64;
        run_all(with, degrees[i]); // 12 heads on 8 ranks
        with.master = with.compute = BT_F32;
        run_all(with, degrees[i]);
    }
    with = (how){.heads = 3, .width = 24, .tokens = 6, .sequence_parallel = true};
    with.master = with.compute = BT_F64;
    run_all(with, 3); // parts of four rows, of which one is from both sequences
    with = (how){.heads = 4, .width = 64, .tokens = CONTEXT, .sequence_parallel = true};
    with.master = BT_F32;
    with.compute = BT_BF16;
    run_all(with, 2);
    with.master = with.compute = BT_F64;
    with.slow_seed = 7;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        run_all(with, 4);
    }
}

// Parameters, gradients, and what two passes needed at most besides.
static bt_status peak_of(gpt *g, uint64_t *peak_bytes)
{
    bt_pool_stats stats;
    BT_TRY(run_gpt(g));
    bt_pool_stats_read(g->session.pool, &stats);
    *peak_bytes = stats.peak_allocated_bytes;
    return BT_OK;
}

// The loss is that of tensor parallel alone, to the bit: sums have one order. Of each layer the
// two sums of the residual stream shrink to a part, and with GELU_LN the gathered rows go.
static bt_status keeps_less(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    how sequence = *with;
    gpt whole = {.loss = NULL}, dealt = {.loss = NULL};
    uint64_t whole_bytes = 0, dealt_bytes = 0;
    float loss[2] = {0};
    (void)result;
    omp_set_num_threads(1);
    sequence.sequence_parallel = true;
    bt_status status = open_gpt(&whole, with, group);
    status = status ? status : open_gpt(&dealt, &sequence, group);
    status = status ? status : peak_of(&whole, &whole_bytes);
    status = status ? status : peak_of(&dealt, &dealt_bytes);
    status = status ? status : bt_tensor_read(&whole.session.context, whole.loss, &loss[0]);
    status = status ? status : bt_tensor_read(&dealt.session.context, dealt.loss, &loss[1]);
    const uint64_t stream = (uint64_t)(BATCH * with->tokens * with->width) * sizeof(float);
    const uint64_t less = 2 * LAYERS * (stream - stream / (uint64_t)group->size);
    if (status == BT_OK && !(loss[0] == loss[1])) {
        status = bt_error(BT_STATUS_INTERNAL, "loss %.9g, of tensor parallel alone %.9g",
                          (double)loss[1], (double)loss[0]);
    }
    if (status == BT_OK && !(dealt_bytes + less * 3 / 4 <= whole_bytes)) {
        status = bt_error(BT_STATUS_INTERNAL,
                          "%llu bytes, tensor parallel alone %llu; expected about %llu less",
                          (unsigned long long)dealt_bytes, (unsigned long long)whole_bytes,
                          (unsigned long long)less);
    }
    close_gpt(&whole);
    close_gpt(&dealt);
    return status;
}

static void sequence_parallel_has_the_same_loss_in_less_memory(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 8, .width = 128, .tokens = CONTEXT, .master = BT_F32, .compute = BT_F32};
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        run_ranks(RANKS_THREADS, 4, timeout_ns, keeps_less, &with, results);
        for (int rank = 0; rank < 4; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("mode %d, rank %d: %s", mode, rank, results[rank].message);
            }
        }
    }
}

static void half_batches_agree_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 8};
    how with = {.heads = 12, .width = 24, .half_batches = true};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        with.master = with.compute = BT_F64;
        run_all(with, degrees[i]);
        with.master = with.compute = BT_F32;
        run_all(with, degrees[i]);
    }
    with.master = with.compute = BT_F64;
    with.slow_seed = 11;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        run_all(with, 2);
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
    BT_TRY_GOTO(ids_of(g, 11, &ids), done);
    BT_TRY_GOTO(ids_of(g, 17, &targets), done);
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
    bt_status status = open_gpt(&apart, &halves, group);
    halves.half_batches = true;
    status = status ? status : open_gpt(&together, &halves, group);
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
    close_gpt(&apart);
    close_gpt(&together);
    return status;
}

static void half_batches_have_the_bits_of_halves_apart(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 4, .width = 32, .master = BT_F64, .compute = BT_F64};
    for (int ranks = 2; ranks <= 4; ++ranks) {
        run_ranks(RANKS_THREADS, ranks, timeout_ns, same_bits, &with, results);
        for (int rank = 0; rank < ranks; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
            }
        }
    }
}

static bt_status opens(bt_group *group, void *argument, rank_result *result)
{
    gpt part = {.loss = NULL};
    (void)result;
    bt_status status = open_gpt(&part, argument, group);
    close_gpt(&part);
    return status;
}

static void more_ranks_than_heads_are_refused(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 2, .width = 16, .master = BT_F32, .compute = BT_F32};
    run_ranks(RANKS_THREADS, 4, timeout_ns, opens, &with, results);
    for (int rank = 0; rank < 4; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(results[rank].message, "train.mesh.tensor is 4, and model.heads 2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_degree_agrees_with_one_rank),
        cmocka_unit_test(recomputation_and_delays_change_nothing),
        cmocka_unit_test(sequence_parallel_agrees_with_one_rank),
        cmocka_unit_test(sequence_parallel_has_the_same_loss_in_less_memory),
        cmocka_unit_test(half_batches_agree_with_one_rank),
        cmocka_unit_test(half_batches_have_the_bits_of_halves_apart),
        cmocka_unit_test(more_ranks_than_heads_are_refused),
    };
    return cmocka_run_group_tests_name("dist.tensor_parallel", tests, NULL, NULL);
}

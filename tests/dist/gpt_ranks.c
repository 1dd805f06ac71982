// tests/dist/gpt_ranks.c - loss, gradients and initial values of ranks beside those of one
//
// Bound in the type's epsilon: a gradient is a chain of a few products a layer, whose sums of at
// most GPT_VOCAB, 4 WIDTH or ROWS terms are added in another order; each rounding error goes
// through the layers after it. ROUNDINGS * eps * (1 + the tensor's largest element) covers that
// for these sizes, and is a thousandth of what a missing term would change.
#include "tests/dist/gpt_ranks.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "tests/dist/slow.h"
#include "tests/support/test.h"

const int64_t gpt_timeout_ns = 60000000000;

enum { ROUNDINGS = 256 };

bt_status gpt_ids(gpt *g, int factor, bt_tensor **out)
{
    int32_t ids[GPT_BATCH_MAX * GPT_CONTEXT];
    for (int i = 0; i < g->sequences * g->tokens; ++i) {
        ids[i] = (i * factor + 3) % GPT_VOCAB;
    }
    BT_TRY(bt_tensor_create(&g->session.context, BT_I32, BT_SHAPE(g->sequences, g->tokens), "ids",
                            out));
    return bt_tensor_write(&g->session.context, *out, ids);
}

bt_status gpt_open(gpt *g, const how *with, bt_group *group)
{
    BT_TRY(with->half_batches ? bt_aside_create(&g->aside) : BT_OK);
    BT_TRY(with->row_chunks && group ? bt_row_chunks_create(group, &g->chunks) : BT_OK);
    const bt_gpt2_config config = {.layers = GPT_LAYERS,
                                   .heads = with->heads,
                                   .width = with->width,
                                   .vocab = GPT_VOCAB,
                                   .context = GPT_CONTEXT,
                                   .tensor = group,
                                   .sequence_parallel = with->sequence_parallel,
                                   .aside = g->aside,
                                   .chunks = g->chunks};
    g->tokens = with->tokens ? with->tokens : GPT_CONTEXT - 1;
    g->sequences = with->sequences ? with->sequences : GPT_BATCH;
    BT_TRY(bt_session_open("cpu", 0, 0, &g->session));
    bt_params_init(&g->params, &g->session.context, with->master, with->compute, 1337);
    BT_TRY(bt_gpt2_init(&g->params, &config, &g->model));
    g->model.recompute = with->recompute;
    return BT_OK;
}

static bt_status sum_terms(const gpt *g)
{
    for (int64_t i = 0; i < g->params.spec_count; ++i) {
        const bt_param_spec *spec = &g->params.specs[i];
        if (!spec->is_shared) {
            bt_tensor *grad = g->params.items[spec->item].value->grad;
            BT_TRY(bt_all_reduce(g->model.config.tensor, bt_tensor_data(grad),
                                 bt_tensor_count(grad), grad->dtype, BT_REDUCE_SUM, NULL));
        }
    }
    return BT_OK;
}

bt_status gpt_pass(gpt *g)
{
    bt_tensor *ids = NULL, *targets = NULL;
    bt_status status = BT_OK;
    BT_TENSOR_RELEASE(g->loss);
    BT_TRY_GOTO(gpt_ids(g, 11, &ids), done);
    BT_TRY_GOTO(gpt_ids(g, 17, &targets), done);
    BT_TRY_GOTO(bt_gpt2_loss(&g->session.context, &g->model, ids, targets, &g->loss), done);
    status = bt_backward(&g->session.context, g->loss, NULL);
done:
    bt_tensor_release(ids);
    bt_tensor_release(targets);
    return status;
}

bt_status gpt_run(gpt *g)
{
    BT_TRY(gpt_pass(g));
    BT_TRY(gpt_pass(g)); // gradients add up
    return g->model.config.sequence_parallel && g->model.config.tensor ? sum_terms(g) : BT_OK;
}

void gpt_close(gpt *g)
{
    bt_tensor_release(g->loss);
    bt_params_clear_grads(&g->params);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    bt_aside_destroy(g->aside);
    bt_row_chunks_destroy(g->chunks);
    bt_session_close(&g->session);
}

static double at(bt_dtype dtype, const void *data, int64_t i)
{
    return dtype == BT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

// The part of `whole` given by `spec` must be `piece`, up to `bound` eps.
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
    bt_status status = gpt_open(&part, with, group);
    status = status ? status : gpt_open(&whole, with, NULL);
    status = status ? status : gpt_run(&part);
    status = status ? status : gpt_run(&whole);
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
    gpt_close(&part);
    gpt_close(&whole);
    return status;
}

void gpt_expect_one_rank(how with, int ranks)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, gpt_timeout_ns, agrees, &with, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%lld heads, rank %d of %d: %s", (long long)with.heads, rank, ranks,
                     results[rank].message);
        }
    }
}

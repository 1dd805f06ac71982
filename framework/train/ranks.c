// framework/train/ranks.c - runs on several ranks: agreement between ranks, and gathered values
//
// On one rank everything here is the identity. Ranks call the same functions in the same order.
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "framework/base/mem.h"
#include "framework/dist/agree.h"
#include "framework/eval/pretrained.h"
#include "framework/ops/aside.h"
#include "framework/ops/row_chunks.h"
#include "framework/train/trainer.h"

static const bt_train_parallel *options_of(const bt_trainer *t) { return &t->plan->parallel; }

int bt_ranks_count(const bt_trainer *t) { return t->mesh.degrees.data * t->mesh.degrees.context; }

int bt_ranks_own(const bt_trainer *t)
{
    return t->mesh.at.data * t->mesh.degrees.context + t->mesh.at.context;
}

int bt_ranks_world(const bt_trainer *t) { return t->mesh.world ? t->mesh.world->size : 1; }

bool bt_ranks_is_first(const bt_trainer *t) { return !t->mesh.world || t->mesh.world->rank == 0; }

bt_status bt_ranks_meet(bt_trainer *t)
{
    BT_TRY(bt_mesh_create(options_of(t)->group, &options_of(t)->mesh, &t->mesh));
    if (t->mesh.tensor && options_of(t)->row_chunks) {
        BT_TRY(bt_row_chunks_create(t->mesh.tensor, &t->chunks));
    }
    return t->mesh.tensor && options_of(t)->half_batches ? bt_aside_create(&t->aside) : BT_OK;
}

int bt_ranks_sharing(const bt_trainer *t) { return t->mesh.degrees.context; }

// ---- small exchanges ----------------------------------------------------------------------------

// out [ranks, size_bytes] = in [size_bytes] of each rank of the group, host memory.
static bt_status gather(bt_trainer *t, bt_group *group, const void *in, size_t size_bytes,
                        void *out)
{
    bt_context *context = &t->session.context;
    const int64_t bytes = (int64_t)size_bytes, ranks = group ? group->size : 1;
    bt_tensor *own = NULL, *all = NULL;
    bt_status status = BT_OK;
    if (ranks == 1) {
        memcpy(out, in, size_bytes);
        return BT_OK;
    }
    BT_TRY_GOTO(bt_tensor_create(context, BT_U8, BT_SHAPE(bytes), "exchange", &own), done);
    BT_TRY_GOTO(bt_tensor_create(context, BT_U8, BT_SHAPE(ranks * bytes), "exchange", &all), done);
    BT_TRY_GOTO(bt_tensor_write(context, own, in), done);
    BT_TRY_GOTO(
        bt_all_gather(group, bt_tensor_data(own), bt_tensor_data(all), bytes, context->stream),
        done);
    BT_TRY_GOTO(bt_tensor_read(context, all, out), done);
done:
    bt_tensor_release(own);
    bt_tensor_release(all);
    return status;
}

bt_status bt_ranks_share(bt_trainer *t, void *data, size_t size_bytes)
{
    return bt_ranks_world(t) == 1 ? BT_OK
                                  : bt_group_tell(t->mesh.world, data, (int64_t)size_bytes, 0);
}

bt_status bt_ranks_sum_rounds(bt_trainer *t, const float *own, int64_t rounds, int64_t count,
                              double *sum)
{
    const int64_t ranks = bt_ranks_count(t);
    void *block = NULL;
    *sum = 0;
    BT_TRY(bt_mem_alloc((size_t)(ranks * rounds), sizeof(float), &block));
    const float *all = block;
    bt_status status = gather(t, t->mesh.replicas, own, (size_t)rounds * sizeof(float), block);
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        *sum += (double)all[i % ranks * rounds + i / ranks];
    }
    bt_mem_free(block);
    return status;
}

bt_status bt_ranks_read_losses(bt_trainer *t)
{
    bt_context *context = &t->session.context;
    if (bt_ranks_count(t) == 1) {
        return bt_tensor_read(context, t->losses, t->host_losses);
    }
    BT_TRY(bt_all_gather(t->mesh.replicas, bt_tensor_data(t->losses), bt_tensor_data(t->all_losses),
                         (int64_t)bt_tensor_bytes(t->losses), context->stream));
    return bt_tensor_read(context, t->all_losses, t->host_losses);
}

// ---- plan comparison ----------------------------------------------------------------------------

// The values that determine the sizes and order of exchanges, and the bits.
static uint64_t fingerprint(const bt_trainer *t)
{
    const bt_train_plan *plan = t->plan;
    const bt_model_config *model = &plan->model;
    const bt_train_optimizer *o = &plan->optimizer;
    const int64_t whole[] = {model->layers,
                             model->heads,
                             model->width,
                             model->vocab,
                             model->context,
                             model->kv_heads,
                             model->hidden,
                             plan->precision,
                             plan->micro_batch,
                             plan->sequence,
                             plan->tokens_per_step,
                             plan->steps,
                             plan->eval_every,
                             plan->eval_batches,
                             plan->hellaswag_every,
                             plan->digest_every,
                             plan->verify_every,
                             plan->train_shard_count,
                             plan->val_shard_count,
                             bt_loader_tokens(t->train),
                             t->val ? bt_loader_tokens(t->val) : 0,
                             plan->sequential,
                             (int64_t)plan->seed,
                             plan->on_nonfinite,
                             plan->recompute,
                             plan->recompute_blocks,
                             plan->compile,
                             o->warmup_steps,
                             o->decay_steps,
                             plan->parallel.sharding,
                             plan->parallel.invariant,
                             t->mesh.degrees.data,
                             t->mesh.degrees.tensor,
                             bt_ranks_sharing(t),
                             plan->parallel.sequence_parallel,
                             plan->parallel.half_batches,
                             plan->parallel.row_chunks,
                             plan->parallel.rotation,
                             plan->parallel.shared_heads,
                             plan->parallel.no_overlap,
                             plan->init != NULL,
                             t->observer->value != NULL,
                             plan->checkpoints.folder != NULL,
                             plan->checkpoints.resume,
                             plan->checkpoints.every_steps,
                             plan->checkpoints.at_end,
                             plan->checkpoints.asynchronous,
                             plan->checkpoints.reload};
    const double real[] = {o->lr,
                           o->min_lr,
                           o->beta1,
                           o->beta2,
                           o->epsilon,
                           o->weight_decay,
                           o->clip,
                           plan->parallel.bucket_mb,
                           plan->checkpoints.every_minutes};
    const char *family = model->family ? model->family : "";
    const uint64_t seed =
        XXH3_64bits_withSeed(family, strlen(family), XXH3_64bits(whole, sizeof whole));
    return XXH3_64bits_withSeed(real, sizeof real, seed);
}

// The lowest rank whose `size_bytes` differ from rank 0's; the number of ranks if all are equal.
static bt_status find_other(bt_trainer *t, const void *own, size_t size_bytes, int *other)
{
    const int ranks = bt_ranks_world(t);
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)ranks, size_bytes, &block));
    const char *all = block;
    bt_status status = gather(t, t->mesh.world, own, size_bytes, block);
    for (*other = 0; status == BT_OK && *other < ranks; ++*other) {
        if (memcmp(all + (size_t)*other * size_bytes, all, size_bytes) != 0) {
            break;
        }
    }
    bt_mem_free(block);
    return status;
}

static bt_status expect_same_plan(bt_trainer *t)
{
    const uint64_t own = fingerprint(t);
    int other = 0;
    BT_TRY(find_other(t, &own, sizeof own, &other));
    return other == bt_ranks_world(t) ? BT_OK
                                      : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                                 "rank %d runs another plan than rank 0: start all "
                                                 "ranks with the same suite, case, data and build",
                                                 other);
}

// Of each matrix a hash of this rank's part, 0 where it has none or the whole; before them one
// of its device. They decide which kernels serve its products of gathered rows.
static void describe_parts(const bt_trainer *t, uint64_t *out)
{
    const bt_kernel_device device = bt_kernel_device_of(&t->session.device);
    out[0] = XXH3_64bits(&device, sizeof device);
    for (int64_t i = 0; i < t->params.spec_count; ++i) {
        const bt_param_spec *spec = &t->params.specs[i];
        const bt_tensor *part = spec->item < 0 ? NULL : t->params.items[spec->item].value;
        const bool is_part =
            part && part->shape.rank == 2 && !bt_shape_equal(&part->shape, &spec->whole);
        out[1 + i] = is_part ? XXH3_64bits(part->shape.size,
                                           (size_t)part->shape.rank * sizeof *part->shape.size)
                             : 0;
    }
}

// Whether all ranks have the same in column i of [ranks, width].
static bool is_even(const uint64_t *all, int ranks, int64_t width, int64_t i)
{
    for (int rank = 1; rank < ranks; ++rank) {
        if (all[rank * width + i] != all[i]) {
            return false;
        }
    }
    return true;
}

// Whether some rank has the same in a column that is not even.
static bool is_elsewhere(const uint64_t *all, int ranks, int64_t width, uint64_t part)
{
    for (int64_t i = 0; i < ranks * width; ++i) {
        if (all[i] == part && !is_even(all, ranks, width, i % width)) {
            return true;
        }
    }
    return false;
}

static bt_status allow_pieces(bt_trainer *t)
{
    const int ranks = bt_ranks_world(t);
    const int64_t width = t->params.spec_count + 1;
    void *block = NULL;
    if (!t->chunks) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)((ranks + 1) * width), sizeof(uint64_t), &block));
    uint64_t *own = block, *all = own + width;
    describe_parts(t, own);
    const bt_status status = gather(t, t->mesh.world, own, (size_t)width * sizeof *own, all);
    const bool alike = status == BT_OK && is_even(all, ranks, width, 0); // the devices
    for (int64_t i = 1; alike && i < width; ++i) {
        if (own[i] != 0 && is_even(all, ranks, width, i) &&
            !is_elsewhere(all, ranks, width, own[i])) {
            const int64_t item = t->params.specs[i - 1].item;
            bt_row_chunks_allow_pieces(t->chunks, &t->params.items[item].value->shape);
        }
    }
    bt_mem_free(block);
    return status;
}

// Random weights follow from the plan; weights from a file may differ between hosts.
static bt_status expect_same_weights(bt_trainer *t)
{
    char digest[33] = "";
    int other = 0;
    bt_state state = {0};
    if (!t->plan->init || bt_ranks_world(t) == 1) {
        return BT_OK;
    }
    bt_status status = bt_pretrained_state(&t->params, &state);
    if (status == BT_OK) {
        status = bt_state_tensors_digest(&t->session.context, &state, digest);
    }
    bt_state_release(&state);
    BT_TRY(status);
    BT_TRY(find_other(t, digest, sizeof digest, &other));
    return other == bt_ranks_world(t)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "rank %d starts with other weights than rank 0: train.init must be the "
                          "same file on all hosts",
                          other);
}

static bt_status share_choice(void *self, void *data, size_t size_bytes)
{
    const bt_trainer *t = self;
    return bt_group_tell(t->mesh.replicas, data, (int64_t)size_bytes, 0);
}

// Replicas make the same products. Tensor parallel ranks may not: their parts may differ, and one
// of them may add a bias that the others do not have.
static bt_status agree_on_products(bt_trainer *t)
{
    const bt_group *replicas = t->mesh.replicas;
    const bool shares = replicas && replicas->size > 1;
    const bt_gemm_agreement agreement = {.self = t,
                                         .measures = shares && replicas->rank == 0,
                                         .share = shares ? share_choice : NULL,
                                         .part = t->mesh.at.tensor};
    return t->session.tuner ? bt_gemm_tuner_agree(t->session.tuner, agreement) : BT_OK;
}

// ---- context parallelism ------------------------------------------------------------------------

// U consecutive ranks share heads; ranks with the same index within their U form a ring.
bt_status bt_ranks_open_sharing(bt_trainer *t)
{
    const bt_train_parallel *plan = options_of(t);
    bt_group *all = t->mesh.context, *ring = all;
    const int heads = plan->shared_heads > 1 ? (int)plan->shared_heads : 1;
    if (heads > 1) {
        BT_TRY(bt_group_split(all, all->rank / heads, all->rank, &t->head_ranks));
        t->sharing.heads = t->head_ranks;
        ring = NULL;
    }
    if (heads > 1 && heads < all->size) {
        BT_TRY(bt_group_split(all, all->rank % heads, all->rank, &t->ring_ranks));
        ring = t->ring_ranks;
    }
    if (ring) {
        BT_TRY(bt_context_ring_create(ring, plan->rotation, &t->ring));
        t->sharing.ring = bt_context_ring_of(t->ring);
    }
    return bt_nn_context_positions(&t->session.context, &t->sharing, t->plan->sequence,
                                   &t->positions);
}

void bt_ranks_close_sharing(bt_trainer *t)
{
    bt_aside_destroy(t->aside);
    bt_row_chunks_destroy(t->chunks);
    bt_tensor_release(t->positions);
    bt_context_ring_destroy(t->ring);
    bt_group_destroy(t->ring_ranks);
    bt_group_destroy(t->head_ranks);
}

// ---- opening ------------------------------------------------------------------------------------

// The first rank of a tensor group counts replicated parameters in the norm. With sequence_parallel
// each rank has a term of their gradients.
static void mark_replicated(bt_trainer *t)
{
    for (int64_t i = 0; i < t->params.spec_count; ++i) {
        const bt_param_spec *spec = &t->params.specs[i];
        if (spec->item >= 0) {
            bt_param *param = &t->params.items[spec->item];
            param->elsewhere = !spec->is_shared && t->mesh.at.tensor > 0;
            param->partial = !spec->is_shared && t->mesh.tensor && options_of(t)->sequence_parallel;
        }
    }
}

bt_status bt_ranks_open(bt_trainer *t, const bt_adamw_config *config)
{
    const bt_train_parallel *plan = options_of(t);
    if (!plan->group && plan->invariant == 0) {
        return bt_adamw_init(&t->params, config, &t->optimizer);
    }
    const bt_data_parallel_options options = {.group = t->mesh.replicas,
                                              .sharding = plan->sharding,
                                              .bucket_mb = plan->bucket_mb,
                                              .shards = plan->invariant,
                                              .micro_batches = t->accumulation,
                                              .no_overlap = plan->no_overlap,
                                              .tied = t->model.tied,
                                              .lookups = t->plan->tokens_per_step,
                                              .tensor = t->mesh.tensor};
    BT_TRY(expect_same_plan(t));
    BT_TRY(expect_same_weights(t));
    BT_TRY(allow_pieces(t));
    mark_replicated(t);
    BT_TRY(agree_on_products(t));
    BT_TRY(bt_data_parallel_create(&t->params, &options, &t->parallel));
    return bt_data_parallel_optimizer(t->parallel, config, &t->optimizer);
}

// Says what changes the bits. The first rank says it, and not again after a restart.
bt_status bt_ranks_note(bt_trainer *t)
{
    const bt_train_parallel *plan = options_of(t);
    const bool summed_first = plan->sharding == BT_SHARDING_ZERO2 && t->accumulation > 1;
    const int ranks = bt_ranks_count(t);
    char text[192];
    if (!t->observer->note || !bt_ranks_is_first(t) || t->first_step > 0) {
        return BT_OK;
    }
    if (t->mesh.tensor) {
        (void)snprintf(text, sizeof text,
                       "losses and weights have other bits with another train.mesh.tensor than %d",
                       t->mesh.degrees.tensor);
    } else if (ranks > 1 && (plan->invariant == 0 || summed_first)) {
        (void)snprintf(text, sizeof text,
                       "losses and weights have other bits on another number of ranks than %d, "
                       "because train.mesh.%s",
                       ranks, summed_first ? "sharding is zero2" : "invariant is 0");
    } else {
        return BT_OK;
    }
    return t->observer->note(t->observer->self, text);
}

bt_tensor *bt_ranks_state(const bt_trainer *t, int64_t i, int kind)
{
    bt_tensor *of[BT_STATE_KINDS] = {t->params.items[i].master, NULL, NULL};
    if (t->parallel) {
        bt_data_parallel_state(t->parallel, &t->optimizer, i, &of[BT_STATE_MASTER],
                               &of[BT_STATE_FIRST_MOMENT], &of[BT_STATE_SECOND_MOMENT]);
    } else {
        of[BT_STATE_FIRST_MOMENT] = t->optimizer.m[i];
        of[BT_STATE_SECOND_MOMENT] = t->optimizer.v[i];
    }
    return of[kind];
}

void bt_ranks_fail(const bt_train_plan *plan)
{
    if (plan->parallel.group) {
        bt_group_abort(plan->parallel.group, bt_error_message());
    }
}

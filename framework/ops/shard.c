// framework/ops/shard.c - embedding and cross-entropy where each rank has a part of the vocabulary
//
// Embedding: each rank looks up the ids that it has and gives zeros for the others; in the sum over
// ranks, which the caller makes, each id has one row that is not zero.
// Cross-entropy: for each row, a rank knows the log-sum-exp of its logits, and the owner of the
// target also its logit. With the log-sum-exps of all ranks as logits, the cross-entropy with the
// owner as target is lse - lse_owner; the owner adds lse_owner - logit.
// Sums with a single nonzero term are exact. The bits are the same on every rank and in every run.
#include "framework/ops/shard.h"

#include "framework/dist/group.h"
#include "framework/ops/linear.h"
#include "framework/ops/loss.h"

int64_t bt_shard_rows(int64_t vocab, int ranks, int rank, int64_t *first)
{
    const int64_t each = (vocab + ranks - 1) / ranks;
    *first = each * rank;
    const int64_t rest = vocab - *first;
    return rest < 0 ? 0 : rest < each ? rest : each;
}

// ---- embedding ----------------------------------------------------------------------------------

// own [B, T]: the row of an id that this rank has, else 0. mask [B, T, 1]: 1 for such ids, 0 for
// those of other ranks, NaN for ids outside of the table.
static bt_status place_ids(bt_context *context, const bt_group *group, bt_tensor *ids,
                           int64_t vocab, bt_dtype dtype, bt_tensor **own, bt_tensor **mask)
{
    BT_TRY(bt_tensor_create(context, BT_I32, ids->shape, "own ids", own));
    BT_TRY(bt_tensor_create(context, dtype, BT_SHAPE(ids->shape.size[0], ids->shape.size[1], 1),
                            "mask of own ids", mask));
    bt_shard_ids_args args = {.ids = bt_tensor_data(ids),
                              .own = bt_tensor_data(*own),
                              .mask = bt_tensor_data(*mask),
                              .count = bt_tensor_count(ids),
                              .vocab = vocab,
                              .dtype = dtype};
    args.rows = bt_shard_rows(vocab, group->size, group->rank, &args.first);
    return bt_context_launch(context, BT_KERNEL_SHARD_IDS, dtype, &args);
}

bt_status bt_embedding_shard(bt_context *context, struct bt_group *group, bt_tensor *ids,
                             bt_tensor *table, int64_t vocab, bt_tensor **out)
{
    bt_tensor *own = NULL, *mask = NULL, *rows = NULL;
    bt_status status = BT_OK;
    *out = NULL;
    if (!group || group->size == 1) {
        return bt_embedding(context, ids, table, NULL, out, NULL);
    }
    BT_TRY(bt_tensor_expect(ids, BT_I32, "ids"));
    if (ids->shape.rank != 2) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "ids of shape %s; expected [batch, tokens]",
                        bt_shape_text(&ids->shape, text));
    }
    BT_TRY_GOTO(place_ids(context, group, ids, vocab, table->dtype, &own, &mask), done);
    BT_TRY_GOTO(bt_embedding(context, own, table, NULL, &rows, NULL), done);
    status = bt_mul(context, rows, mask, out);
done:
    bt_tensor_release(own);
    bt_tensor_release(mask);
    bt_tensor_release(rows);
    return status;
}

// ---- cross-entropy ------------------------------------------------------------------------------

// State of one call. All tensors are owned and [rows] unless stated otherwise.
typedef struct shard_loss {
    bt_group *group; // borrowed
    bt_dtype dtype;  // of losses
    int64_t rows;
    bt_tensor *mine, *owner;               // i32: bt_shard_targets_args' own and owner
    bt_tensor *loss, *lse;                 // of this shard
    bt_tensor *gathered;                   // log-sum-exps, [ranks, rows]
    bt_tensor *table;                      // the same, [rows, ranks]
    bt_tensor *rest;                       // lse - lse_owner
    bt_tensor *mean, *inv_count, *bad_row; // [1], scratch
} shard_loss;

static void release(shard_loss *s)
{
    enum { TENSORS = 10 };
    bt_tensor *const all[TENSORS] = {s->mine,  s->owner, s->loss, s->lse,       s->gathered,
                                     s->table, s->rest,  s->mean, s->inv_count, s->bad_row};
    for (int i = 0; i < TENSORS; ++i) {
        bt_tensor_release(all[i]);
    }
}

static bt_status create(bt_context *context, bt_op_call *call, shard_loss *s)
{
    const bt_shape rows = BT_SHAPE(s->rows), one = BT_SHAPE(1);
    const int64_t ranks = s->group->size;
    const struct {
        bt_tensor **at;
        bt_dtype dtype;
        bt_shape shape;
    } all[] = {{&s->mine, BT_I32, rows},
               {&s->owner, BT_I32, rows},
               {&call->saved[1], BT_I32, rows},
               {&s->loss, s->dtype, rows},
               {&s->lse, s->dtype, rows},
               {&s->gathered, s->dtype, BT_SHAPE(ranks, s->rows)},
               {&s->table, s->dtype, BT_SHAPE(s->rows, ranks)},
               {&s->rest, s->dtype, rows},
               {&s->mean, s->dtype, one},
               {&s->inv_count, s->dtype, one},
               {&s->bad_row, BT_I64, one},
               {&call->saved[2], s->dtype, rows},
               {&call->saved[3], s->dtype, one}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        BT_TRY(bt_tensor_create(context, all[i].dtype, all[i].shape, "loss of shards", all[i].at));
    }
    return BT_OK;
}

// Log-sum-exp and loss of the rows of `logits`; invalid targets make their row NaN.
static bt_status launch_rows(bt_context *context, shard_loss *s, bt_tensor *logits,
                             bt_tensor *targets, bt_tensor *loss, bt_tensor *lse)
{
    const bt_cross_entropy_args args = {.logits = bt_tensor_data(logits),
                                        .targets = bt_tensor_data(targets),
                                        .loss = bt_tensor_data(loss),
                                        .lse = bt_tensor_data(lse),
                                        .mean = bt_tensor_data(s->mean),
                                        .inv_count = bt_tensor_data(s->inv_count),
                                        .bad_row = bt_tensor_data(s->bad_row),
                                        .rows = s->rows,
                                        .vocab = logits->shape.size[1],
                                        .logits_stride = logits->shape.size[1],
                                        .ignore = BT_SHARD_IGNORED,
                                        .dtype = logits->dtype};
    return bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY, logits->dtype, &args);
}

// The targets as columns of this rank: `mine` for the forward, saved[1] for the backward, in which
// rows of other ranks' targets have a gradient, too.
static bt_status map_targets(bt_context *context, const bt_op_call *call, const shard_loss *s)
{
    const int64_t vocab = BT_ATTRS(call, cross_entropy)->vocab;
    bt_shard_targets_args args = {.targets = bt_tensor_data(call->in[1]),
                                  .own = bt_tensor_data(s->mine),
                                  .column = bt_tensor_data(call->saved[1]),
                                  .owner = bt_tensor_data(s->owner),
                                  .count = s->rows,
                                  .vocab = vocab,
                                  .each = (vocab + s->group->size - 1) / s->group->size,
                                  .ignore = BT_ATTRS(call, cross_entropy)->ignore};
    args.rows = bt_shard_rows(vocab, s->group->size, s->group->rank, &args.first);
    return bt_context_launch(context, BT_KERNEL_SHARD_TARGETS, BT_I32, &args);
}

// table [rows, ranks] = the log-sum-exps of all ranks; loss = sum over ranks of loss.
static bt_status exchange(bt_context *context, shard_loss *s)
{
    const bt_shape shape = s->table->shape;
    const int64_t across[] = {1, s->rows};
    bt_tensor *turned = NULL;
    bt_range_push(context, "communication");
    bt_status status = bt_all_gather(s->group, bt_tensor_data(s->lse), bt_tensor_data(s->gathered),
                                     (int64_t)bt_tensor_bytes(s->lse), context->stream);
    status = status ? status
                    : bt_all_reduce(s->group, bt_tensor_data(s->loss), s->rows, s->dtype,
                                    BT_REDUCE_SUM, context->stream);
    bt_range_pop(context);
    BT_TRY(status);
    BT_TRY(bt_tensor_view(s->gathered, shape, across, 0, &turned));
    status = bt_tensor_copy(context, turned, s->table);
    bt_tensor_release(turned);
    return status;
}

// loss += rest, then its mean over the rows that count.
static bt_status finish(bt_context *context, const bt_op_call *call, shard_loss *s)
{
    const bt_binary_args sum = {.function = BT_BINARY_ADD,
                                .rank = 1,
                                .shape = {s->rows},
                                .a = bt_tensor_data(s->loss),
                                .a_stride = {1},
                                .b = bt_tensor_data(s->rest),
                                .b_stride = {1},
                                .y = bt_tensor_data(s->loss),
                                .dtype = s->dtype};
    const bt_cross_entropy_mean_args mean = {.targets = bt_tensor_data(call->in[1]),
                                             .loss = bt_tensor_data(s->loss),
                                             .mean = bt_tensor_data(call->out[0]),
                                             .inv_count = bt_tensor_data(call->saved[3]),
                                             .bad_row = bt_tensor_data(call->out[1]),
                                             .rows = s->rows,
                                             .vocab = BT_ATTRS(call, cross_entropy)->vocab,
                                             .ignore = BT_ATTRS(call, cross_entropy)->ignore,
                                             .dtype = s->dtype};
    BT_TRY(bt_context_launch(context, BT_KERNEL_BINARY, s->dtype, &sum));
    return bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY_MEAN, s->dtype, &mean);
}

bt_status bt_cross_entropy_shard_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *logits = call->in[0];
    shard_loss s = {.group = BT_ATTRS(call, cross_entropy)->group,
                    .dtype = bt_loss_dtype(logits->dtype),
                    .rows = logits->shape.size[0]};
    bt_status status = BT_OK;
    call->saved[0] = bt_tensor_retain(logits);
    BT_TRY_GOTO(create(context, call, &s), done);
    BT_TRY_GOTO(map_targets(context, call, &s), done);
    BT_TRY_GOTO(launch_rows(context, &s, logits, s.mine, s.loss, s.lse), done);
    BT_TRY_GOTO(exchange(context, &s), done);
    BT_TRY_GOTO(launch_rows(context, &s, s.table, s.owner, s.rest, call->saved[2]), done);
    BT_TRY_GOTO(finish(context, call, &s), done);
    if (context->anomaly) {
        status =
            bt_check_ids(context, call->in[1], BT_ATTRS(call, cross_entropy)->vocab, call->out[1]);
    }
done:
    release(&s);
    return status;
}

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

// ---- ids ----------------------------------------------------------------------------------------
// There are no kernels that compare integers. In f32, where ids are exact, relu(x + 1) - relu(x) is
// 1 for x >= 0 and 0 below; the other tests of ids follow from that.

static const double far = 1 << 23; // not a valid id, and sums with ids are still exact

// *x becomes alpha x + beta.
static bt_status line(bt_context *context, bt_tensor **x, double alpha, double beta)
{
    bt_tensor *scaled = NULL, *shifted = NULL;
    BT_TRY(bt_scale(context, *x, alpha, &scaled));
    bt_status status = bt_unary_op(context, BT_UNARY_SHIFT, beta, scaled, &shifted);
    bt_tensor_release(scaled);
    BT_TRY(status);
    bt_tensor_release(*x);
    *x = shifted;
    return BT_OK;
}

static bt_status positive_part(bt_context *context, bt_tensor *x, double beta, bt_tensor **out)
{
    bt_tensor *shifted = NULL;
    BT_TRY(bt_unary_op(context, BT_UNARY_SHIFT, beta, x, &shifted));
    bt_status status = bt_relu(context, shifted, out);
    bt_tensor_release(shifted);
    return status;
}

// 1 where x >= bound, else 0.
static bt_status at_least(bt_context *context, bt_tensor *x, int64_t bound, bt_tensor **out)
{
    bt_tensor *above = NULL, *below = NULL;
    bt_status status = BT_OK;
    *out = NULL;
    BT_TRY_GOTO(positive_part(context, x, 1 - (double)bound, &above), done);
    BT_TRY_GOTO(positive_part(context, x, -(double)bound, &below), done);
    status = bt_sub(context, above, below, out);
done:
    bt_tensor_release(above);
    bt_tensor_release(below);
    return status;
}

// 1 where low <= x < high, else 0.
static bt_status between(bt_context *context, bt_tensor *x, int64_t low, int64_t high,
                         bt_tensor **out)
{
    bt_tensor *a = NULL, *b = NULL;
    bt_status status = BT_OK;
    *out = NULL;
    BT_TRY_GOTO(at_least(context, x, low, &a), done);
    BT_TRY_GOTO(at_least(context, x, high, &b), done);
    status = bt_sub(context, a, b, out);
done:
    bt_tensor_release(a);
    bt_tensor_release(b);
    return status;
}

// *x becomes *x f(y); y is unchanged.
static bt_status apply(bt_context *context, bt_binary function, bt_tensor **x, bt_tensor *y)
{
    bt_tensor *out = NULL;
    BT_TRY(bt_binary_op(context, function, *x, y, &out));
    bt_tensor_release(*x);
    *x = out;
    return BT_OK;
}

// ---- embedding ----------------------------------------------------------------------------------

// local: the row of an id that this rank has, else 0. own, [B, T, 1]: 1 for such ids, 0 for those
// of other ranks, NaN for ids outside of the table.
static bt_status place_ids(bt_context *context, const bt_group *group, bt_tensor *ids,
                           int64_t vocab, bt_dtype dtype, bt_tensor **local, bt_tensor **own)
{
    bt_tensor *x = NULL, *mine = NULL, *known = NULL, *mask = NULL;
    int64_t first = 0;
    const int64_t rows = bt_shard_rows(vocab, group->size, group->rank, &first);
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_cast(context, ids, BT_F32, &x), done);
    BT_TRY_GOTO(between(context, x, first, first + rows, &mine), done);
    BT_TRY_GOTO(between(context, x, 0, vocab, &known), done);
    BT_TRY_GOTO(line(context, &x, 1, -(double)first), done);
    BT_TRY_GOTO(apply(context, BT_BINARY_MUL, &x, mine), done);
    BT_TRY_GOTO(bt_cast(context, x, BT_I32, local), done);
    BT_TRY_GOTO(apply(context, BT_BINARY_DIV, &mine, known), done); // 0 / 0 is NaN
    BT_TRY_GOTO(bt_cast(context, mine, dtype, &mask), done);
    status = bt_reshape(context, mask, BT_SHAPE(ids->shape.size[0], ids->shape.size[1], 1), own);
done:
    bt_tensor_release(x);
    bt_tensor_release(mine);
    bt_tensor_release(known);
    bt_tensor_release(mask);
    return status;
}

bt_status bt_embedding_shard(bt_context *context, struct bt_group *group, bt_tensor *ids,
                             bt_tensor *table, int64_t vocab, bt_tensor **out)
{
    bt_tensor *local = NULL, *own = NULL, *rows = NULL;
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
    BT_TRY_GOTO(place_ids(context, group, ids, vocab, table->dtype, &local, &own), done);
    BT_TRY_GOTO(bt_embedding(context, local, table, NULL, &rows, NULL), done);
    status = bt_mul(context, rows, own, out);
done:
    bt_tensor_release(local);
    bt_tensor_release(own);
    bt_tensor_release(rows);
    return status;
}

// ---- cross-entropy ------------------------------------------------------------------------------

// State of one call. All tensors are owned and [rows] unless stated otherwise.
typedef struct shard_loss {
    bt_group *group; // borrowed
    bt_dtype dtype;  // of losses
    int64_t rows;
    bt_tensor *mine;                       // i32: targets of this shard; the others are set to
                                           // ignored
    bt_tensor *owner;                      // i32
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
    } all[] = {{&s->loss, s->dtype, rows},
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

// The rank that has x: the number of parts before it.
static bt_status count_before(bt_context *context, bt_tensor *x, int64_t each, int ranks,
                              bt_tensor **owner)
{
    BT_TRY(bt_scale(context, x, 0, owner));
    for (int rank = 1; rank < ranks; ++rank) {
        bt_tensor *behind = NULL;
        BT_TRY(at_least(context, x, each * rank, &behind));
        bt_status status = apply(context, BT_BINARY_ADD, owner, behind);
        bt_tensor_release(behind);
        BT_TRY(status);
    }
    return BT_OK;
}

// For an x that counts and that this rank has: its column here; for the other cases see the
// results.
typedef struct columns {
    bt_tensor *x, *counts, *known, *own;
    bt_tensor *mine;   // IGNORED but for this rank's
    bt_tensor *others; // IGNORED for ignored ones, `far` for the rest: no column, but a gradient
    bt_tensor *owner;  // IGNORED, or `far` for ids outside of the vocabulary
} columns;

static void columns_release(columns *c)
{
    enum { TENSORS = 7 };
    bt_tensor *const all[TENSORS] = {c->x,    c->counts, c->known, c->own,
                                     c->mine, c->others, c->owner};
    for (int i = 0; i < TENSORS; ++i) {
        bt_tensor_release(all[i]);
    }
}

static bt_status find_columns(bt_context *context, const bt_op_call *call, const bt_group *group,
                              columns *c)
{
    const int64_t vocab = BT_ATTRS(call, cross_entropy)->vocab;
    const int64_t ignore = BT_ATTRS(call, cross_entropy)->ignore;
    int64_t first = 0;
    const int64_t rows = bt_shard_rows(vocab, group->size, group->rank, &first);
    BT_TRY(bt_cast(context, call->in[1], BT_F32, &c->x));
    BT_TRY(between(context, c->x, ignore, ignore + 1, &c->counts));
    BT_TRY(line(context, &c->counts, -1, 1));
    BT_TRY(between(context, c->x, 0, vocab, &c->known));
    BT_TRY(between(context, c->x, first, first + rows, &c->own));
    BT_TRY(apply(context, BT_BINARY_MUL, &c->own, c->counts));
    // mine = own (x - first + 1) - 1
    BT_TRY(bt_unary_op(context, BT_UNARY_SHIFT, 1 - (double)first, c->x, &c->mine));
    BT_TRY(apply(context, BT_BINARY_MUL, &c->mine, c->own));
    BT_TRY(line(context, &c->mine, 1, BT_SHARD_IGNORED));
    // others = mine + (counts - own) far
    BT_TRY(bt_sub(context, c->counts, c->own, &c->others));
    BT_TRY(line(context, &c->others, far, 0));
    BT_TRY(apply(context, BT_BINARY_ADD, &c->others, c->mine));
    // owner = counts (before + 1 + (1 - known) far) - 1
    BT_TRY(count_before(context, c->x, (vocab + group->size - 1) / group->size, group->size,
                        &c->owner));
    BT_TRY(line(context, &c->known, -far, far));
    BT_TRY(apply(context, BT_BINARY_ADD, &c->owner, c->known));
    BT_TRY(line(context, &c->owner, 1, 1));
    BT_TRY(apply(context, BT_BINARY_MUL, &c->owner, c->counts));
    return line(context, &c->owner, 1, BT_SHARD_IGNORED);
}

static bt_status map_targets(bt_context *context, bt_op_call *call, shard_loss *s)
{
    columns c = {0};
    bt_status status = find_columns(context, call, s->group, &c);
    status = status ? status : bt_cast(context, c.mine, BT_I32, &s->mine);
    status = status ? status : bt_cast(context, c.others, BT_I32, &call->saved[1]);
    status = status ? status : bt_cast(context, c.owner, BT_I32, &s->owner);
    columns_release(&c);
    return status;
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

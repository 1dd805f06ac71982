// framework/nn/block.c - the transformer block
#include "framework/base/str.h"
#include "framework/nn/layers.h"
#include "framework/nn/tensor_parallel.h"
#include "framework/ops/row_chunks.h"

// The rank's inner units of the MLP; multiples of a tile if possible.
enum { MLP_UNIT = 64 };

static bt_status init_matrices(bt_params *params, const bt_str *path, int64_t width, int64_t heads,
                               double deviation, double residual_deviation, bt_nn_block *block)
{
    const bt_group *group = block->ranks.group;
    const int64_t inner = 4 * width, head = width / heads;
    const int64_t unit =
        inner % MLP_UNIT == 0 && group && inner / MLP_UNIT >= group->size ? MLP_UNIT : 1;
    bt_param_part own = bt_nn_part(group, 0, 3, heads, head);
    bt_param_part mlp = bt_nn_part(group, 0, 1, inner / unit, unit);
    block->heads = own.count / head;
    BT_TRY(bt_nn_column_init(params, bt_str_text(&path[1]), width, 3 * width, group, own, deviation,
                             &block->attn_qkv));
    own.axis = 1;
    own.repeats = 1;
    BT_TRY(bt_nn_row_init(params, bt_str_text(&path[2]), width, width, group, own,
                          residual_deviation, &block->attn_proj));
    BT_TRY(bt_nn_layernorm_init(params, bt_str_text(&path[3]), width, &block->ln_2));
    BT_TRY(bt_nn_column_init(params, bt_str_text(&path[4]), width, inner, group, mlp, deviation,
                             &block->mlp_fc));
    mlp.axis = 1;
    return bt_nn_row_init(params, bt_str_text(&path[5]), inner, width, group, mlp,
                          residual_deviation, &block->mlp_proj);
}

bt_status bt_nn_block_init(bt_params *params, const char *prefix, int64_t width, int64_t heads,
                           const bt_nn_tensor_ranks *ranks, double deviation,
                           double residual_deviation, bt_nn_block *block)
{
    const bt_group *group = ranks ? ranks->group : NULL;
    static const char *const names[] = {"ln_1", "attn.c_attn", "attn.c_proj",
                                        "ln_2", "mlp.c_fc",    "mlp.c_proj"};
    bt_str path[6] = {{0}};
    bt_status status = BT_OK;
    *block = (bt_nn_block){.heads = heads};
    if (ranks) {
        block->ranks = *ranks;
    }
    if (width < 1 || width > INT64_MAX / 4) { // the MLP is four times as wide
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: width %lld, allowed 1 to 2^61 - 1", prefix,
                        (long long)width);
    }
    BT_TRY(group ? bt_nn_check_heads(heads, group->size) : BT_OK);
    for (int i = 0; i < 6; ++i) {
        bt_str_format(&path[i], "%s.%s", prefix, names[i]);
        BT_TRY_GOTO(bt_str_status(&path[i]), done);
    }
    BT_TRY_GOTO(bt_nn_layernorm_init(params, bt_str_text(&path[0]), width, &block->ln_1), done);
    status = init_matrices(params, path, width, heads, deviation, residual_deviation, block);
done:
    for (int i = 0; i < 6; ++i) {
        bt_str_release(&path[i]);
    }
    return status;
}

static bt_status causal(bt_context *context, const void *self, bt_tensor *qkv, int64_t heads,
                        bt_tensor **y)
{
    (void)self;
    return bt_attention(context, qkv, heads, true, y);
}

// x of sequences of `tokens` tokens, possibly flattened to rows: viewed as [B, T, C].
static bt_status in_sequences(bt_context *context, int64_t tokens, bt_tensor **x)
{
    const int64_t rows = (*x)->shape.size[0], width = (*x)->shape.size[1];
    bt_tensor *view = NULL;
    if ((*x)->shape.rank != 2) {
        return BT_OK;
    }
    BT_TRY(bt_reshape(context, *x, BT_SHAPE(rows / tokens, tokens, width), &view));
    bt_tensor_release(*x);
    *x = view;
    return BT_OK;
}

// Only two ranks do: with more, each call of attention has few sequences and few heads, which do
// not fill a GPU.
static bool attends_by_sequences(const bt_nn_tensor_ranks *ranks, const bt_tensor *qkv)
{
    const int count = ranks->chunks ? bt_row_chunks_ranks(ranks->chunks) : 0;
    return count > 0 && count <= 2 && qkv->shape.size[0] % count == 0;
}

static bt_status attend(bt_context *context, const bt_nn_block *block, bt_nn_attention attention,
                        const void *self, int64_t tokens, bt_tensor *x, bt_tensor **y)
{
    const bt_nn_tensor_ranks *ranks = &block->ranks;
    bt_tensor *normed = NULL;
    bt_tensor *qkv = NULL;
    bt_tensor *heads = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_nn_layernorm_forward(context, &block->ln_1, x, &normed), done);
    BT_TRY_GOTO(bt_nn_column_forward(context, ranks, &block->attn_qkv, &normed, &qkv), done);
    BT_TENSOR_RELEASE(normed);
    BT_TRY_GOTO(in_sequences(context, tokens, &qkv), done);
    if (attention == causal && attends_by_sequences(ranks, qkv)) {
        status = bt_attention_scatter(context, ranks->chunks, qkv, block->heads, true,
                                      block->attn_proj.weight, block->attn_proj.bias, x, y);
    } else {
        BT_TRY_GOTO(attention(context, self, qkv, block->heads, &heads), done);
        BT_TENSOR_RELEASE(qkv);
        status = bt_nn_row_forward(context, ranks, &block->attn_proj, heads, x, y);
    }
done:
    bt_tensor_release(normed);
    bt_tensor_release(qkv);
    bt_tensor_release(heads);
    return status;
}

static bt_status transform(bt_context *context, const bt_nn_block *block, bt_tensor *x,
                           bt_tensor **y)
{
    bt_tensor *normed = NULL;
    BT_TRY(bt_nn_layernorm_forward(context, &block->ln_2, x, &normed));
    bt_status status =
        bt_nn_feed_forward(context, &block->ranks, &block->mlp_fc, &block->mlp_proj, &normed, x, y);
    bt_tensor_release(normed);
    return status;
}

bt_status bt_nn_block_forward(bt_context *context, const bt_nn_block *block, int64_t tokens,
                              bt_tensor *x, bt_tensor **y)
{
    return bt_nn_block_forward_with(context, block, causal, NULL, tokens, x, y);
}

bt_status bt_nn_block_forward_with(bt_context *context, const bt_nn_block *block,
                                   bt_nn_attention attention, const void *self, int64_t tokens,
                                   bt_tensor *x, bt_tensor **y)
{
    bt_tensor *middle = NULL;
    *y = NULL;
    bt_range_push(context, "attention");
    bt_status status = attend(context, block, attention, self, tokens, x, &middle);
    bt_range_pop(context);
    if (status == BT_OK) {
        bt_range_push(context, "mlp");
        status = transform(context, block, middle, y);
        bt_range_pop(context);
    }
    bt_tensor_release(middle);
    return status;
}

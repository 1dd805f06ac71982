// framework/nn/half_batches.c - a block on two halves of a batch, overlapping sums and products
#include "framework/nn/half_batches.h"

#include "framework/ops/aside.h"

// One of the two sublayers of a block: from its normalized input to this rank's term of its output.
typedef struct sublayer {
    const bt_nn_block *block;
    const bt_nn_layernorm *norm;
    bt_nn_attention attention; // NULL: causal
    const void *self;
    bt_status (*products)(bt_context *context, const struct sublayer *of, bt_tensor *x,
                          bt_tensor **partial);
} sublayer;

static bt_status attention_products(bt_context *context, const sublayer *of, bt_tensor *x,
                                    bt_tensor **partial)
{
    const bt_nn_block *block = of->block;
    bt_tensor *qkv = NULL, *heads = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_nn_linear_forward(context, &block->attn_qkv, x, NULL, BT_ACTIVATION_NONE, &qkv),
                done);
    BT_TRY_GOTO(of->attention ? of->attention(context, of->self, qkv, block->heads, &heads)
                              : bt_attention(context, qkv, block->heads, true, &heads),
                done);
    status =
        bt_nn_linear_forward(context, &block->attn_proj, heads, NULL, BT_ACTIVATION_NONE, partial);
done:
    bt_tensor_release(qkv);
    bt_tensor_release(heads);
    return status;
}

static bt_status mlp_products(bt_context *context, const sublayer *of, bt_tensor *x,
                              bt_tensor **partial)
{
    const bt_nn_linear *column = &of->block->mlp_fc, *row = &of->block->mlp_proj;
    return bt_feed_forward(context, x, column->weight, column->bias, row->weight, row->bias, NULL,
                           partial);
}

// *out: the norm of x; its backward waits for the gradient of `slot`.
static bt_status normalise(bt_context *context, const sublayer *of, int slot, bt_tensor *x,
                           bt_tensor **out)
{
    bt_tensor *normed = NULL;
    BT_TRY(bt_nn_layernorm_forward(context, of->norm, x, &normed));
    bt_status status = bt_group_await(context, normed, of->block->ranks.aside, slot, true, out);
    bt_tensor_release(normed);
    return status;
}

// Begins the sum of the products over the ranks.
static bt_status multiply(bt_context *context, const sublayer *of, int slot, bt_tensor *normed,
                          bt_tensor **sum)
{
    const bt_nn_tensor_ranks *ranks = &of->block->ranks;
    bt_tensor *shared = NULL, *partial = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(
        bt_group_replicate_aside(context, ranks->group, normed, ranks->aside, slot, &shared), done);
    BT_TRY_GOTO(of->products(context, of, shared, &partial), done);
    status = bt_group_all_reduce_aside(context, ranks->group, partial, ranks->aside, slot, sum);
done:
    bt_tensor_release(shared);
    bt_tensor_release(partial);
    return status;
}

static bt_status add(bt_context *context, const sublayer *of, int slot, bt_tensor *sum,
                     bt_tensor *residual, bt_tensor **y)
{
    bt_tensor *whole = NULL;
    BT_TRY(bt_group_await(context, sum, of->block->ranks.aside, slot, false, &whole));
    bt_status status = bt_add(context, whole, residual, y);
    bt_tensor_release(whole);
    return status;
}

static bt_status run(bt_context *context, const sublayer *of, bt_tensor *const *x, bt_tensor **y)
{
    bt_tensor *normed[BT_NN_HALVES] = {NULL}, *sum[BT_NN_HALVES] = {NULL};
    bt_status status = BT_OK;
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        BT_TRY_GOTO(normalise(context, of, half, x[half], &normed[half]), done);
    }
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        BT_TRY_GOTO(multiply(context, of, half, normed[half], &sum[half]), done);
        BT_TENSOR_RELEASE(normed[half]);
    }
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        BT_TRY_GOTO(add(context, of, half, sum[half], x[half], &y[half]), done);
    }
done:
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        bt_tensor_release(normed[half]);
        bt_tensor_release(sum[half]);
    }
    return status;
}

bt_status bt_nn_block_forward_halves(bt_context *context, const bt_nn_block *block,
                                     bt_nn_attention attention, const void *self,
                                     bt_tensor *const x[BT_NN_HALVES], bt_tensor *y[BT_NN_HALVES])
{
    const sublayer attend = {block, &block->ln_1, attention, self, attention_products};
    const sublayer transform = {block, &block->ln_2, NULL, NULL, mlp_products};
    bt_tensor *middle[BT_NN_HALVES] = {NULL};
    bt_range_push(context, "attention");
    bt_status status = run(context, &attend, x, middle);
    bt_range_pop(context);
    if (status == BT_OK) {
        bt_range_push(context, "mlp");
        status = run(context, &transform, middle, y);
        bt_range_pop(context);
    }
    bt_tensor_release(middle[0]);
    bt_tensor_release(middle[1]);
    return status;
}

bt_status bt_nn_halves(bt_tensor *x, bt_tensor *half[BT_NN_HALVES])
{
    int64_t stride[BT_MAX_RANK];
    bt_shape shape = x->shape;
    shape.size[0] /= BT_NN_HALVES;
    bt_shape_strides(&shape, stride);
    for (int i = 0; i < BT_NN_HALVES; ++i) {
        BT_TRY(bt_tensor_view(x, shape, stride, i * bt_shape_count(&shape), &half[i]));
    }
    return BT_OK;
}

bt_status bt_nn_mean_of_halves(bt_context *context, bt_tensor *const x[BT_NN_HALVES],
                               bt_tensor **mean)
{
    bt_tensor *sum = NULL;
    BT_TRY(bt_add(context, x[0], x[1], &sum));
    bt_status status = bt_scale(context, sum, 1.0 / BT_NN_HALVES, mean);
    bt_tensor_release(sum);
    return status;
}

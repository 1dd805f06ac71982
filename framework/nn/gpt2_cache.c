// framework/nn/gpt2_cache.c - the key-value cache, and attention of one token to it
#include "framework/nn/gpt2_cache.h"

#include <math.h>

#include "framework/base/mem.h"
#include "framework/linalg/gemm.h"

bt_status bt_gpt2_cache_init(bt_context *context, const bt_gpt2 *model, bt_gpt2_cache *cache)
{
    const bt_gpt2_config *config = &model->config;
    void *block = NULL;
    *cache = (bt_gpt2_cache){.model = model};
    BT_TRY(bt_mem_alloc((size_t)config->layers, sizeof(bt_tensor *), &block));
    cache->qkv = block;
    for (int64_t i = 0; i < config->layers; ++i) {
        BT_TRY(bt_tensor_create(context, model->wte->dtype,
                                BT_SHAPE(config->context, 3 * config->width), "cached qkv",
                                &cache->qkv[i]));
    }
    return BT_OK;
}

void bt_gpt2_cache_release(bt_gpt2_cache *cache)
{
    for (int64_t i = 0; cache->qkv && i < cache->model->config.layers; ++i) {
        bt_tensor_release(cache->qkv[i]);
    }
    bt_mem_free(cache->qkv);
    *cache = (bt_gpt2_cache){0};
}

// One block's part of the cache.
typedef struct place {
    bt_tensor *qkv; // borrowed [context, 3 width]
    int64_t used;
} place;

// A view of contiguous rows: [shape] starting at row `start` of a matrix.
static bt_status rows_of(bt_tensor *matrix, int64_t start, bt_shape shape, bt_tensor **view)
{
    int64_t stride[BT_MAX_RANK];
    bt_shape_strides(&shape, stride);
    return bt_tensor_view(matrix, shape, stride, start * matrix->shape.size[1], view);
}

// scores[h, 0, j] = q_h . k_hj / sqrt(size), for j below `count`. A row of the cache has queries,
// keys, values, each with its heads side by side.
static bt_gemm_args scores_args(const place *at, const bt_tensor *qkv, int64_t heads, int64_t size,
                                int64_t count)
{
    const int64_t width = heads * size;
    const size_t element = bt_dtype_size(qkv->dtype);
    return (bt_gemm_args){.m = 1,
                          .n = count,
                          .k = size,
                          .trans_b = true,
                          .a = bt_tensor_data(qkv),
                          .b = (const char *)bt_tensor_data(at->qkv) + (size_t)width * element,
                          .lda = size,
                          .ldb = 3 * width,
                          .ldd = count,
                          .batch = heads,
                          .stride_a = size,
                          .stride_b = size,
                          .stride_d = count,
                          .alpha = 1.0 / sqrt((double)size),
                          .ab_dtype = qkv->dtype,
                          .d_dtype = qkv->dtype};
}

// y[h, 0, :] = sum over j of weights[h, 0, j] v_hj
static bt_gemm_args mix_args(const place *at, const bt_tensor *weights, int64_t heads, int64_t size,
                             int64_t count)
{
    const int64_t width = heads * size;
    const size_t element = bt_dtype_size(weights->dtype);
    return (bt_gemm_args){.m = 1,
                          .n = size,
                          .k = count,
                          .a = bt_tensor_data(weights),
                          .b = (const char *)bt_tensor_data(at->qkv) + 2 * (size_t)width * element,
                          .lda = count,
                          .ldb = 3 * width,
                          .ldd = size,
                          .batch = heads,
                          .stride_a = count,
                          .stride_b = size,
                          .stride_d = size,
                          .alpha = 1,
                          .ab_dtype = weights->dtype,
                          .d_dtype = weights->dtype};
}

static bt_status attend_one(bt_context *context, const place *at, bt_tensor *qkv, int64_t heads,
                            bt_tensor **y)
{
    const int64_t width = qkv->shape.size[2] / 3;
    const int64_t size = width / heads;
    const int64_t count = at->used + 1;
    bt_tensor *scores = NULL;
    bt_tensor *weights = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, qkv->dtype, BT_SHAPE(heads, 1, count), "scores", &scores),
                done);
    bt_gemm_args args = scores_args(at, qkv, heads, size, count);
    args.d = bt_tensor_data(scores);
    args.compute = context->compute;
    BT_TRY_GOTO(bt_gemm(context, &args), done);
    BT_TRY_GOTO(bt_softmax(context, scores, &weights), done);
    BT_TRY_GOTO(bt_tensor_create(context, qkv->dtype, BT_SHAPE(1, 1, width), "attention", y), done);
    args = mix_args(at, weights, heads, size, count);
    args.d = bt_tensor_data(*y);
    args.compute = context->compute;
    BT_TRY_GOTO(bt_gemm(context, &args), done);
done:
    if (status != BT_OK) {
        BT_TENSOR_RELEASE(*y);
    }
    bt_tensor_release(weights);
    bt_tensor_release(scores);
    return status;
}

// Stores the new rows, then attends to all rows so far.
static bt_status attend(bt_context *context, const void *self, bt_tensor *qkv, int64_t heads,
                        bt_tensor **y)
{
    const place *at = self;
    bt_tensor *kept = NULL;
    *y = NULL;
    BT_TRY(rows_of(at->qkv, at->used, qkv->shape, &kept));
    bt_status status = bt_tensor_copy(context, qkv, kept);
    bt_tensor_release(kept);
    BT_TRY(status);
    return at->used == 0 ? bt_attention(context, qkv, heads, true, y)
                         : attend_one(context, at, qkv, heads, y);
}

static bt_status check(const bt_context *context, const bt_gpt2_cache *cache, const bt_tensor *ids)
{
    char text[BT_SHAPE_TEXT_BYTES];
    const int64_t most = cache->used == 0 ? cache->model->config.context : 1;
    BT_TRY(bt_tensor_expect(ids, BT_I32, "ids"));
    if (ids->shape.rank != 2 || ids->shape.size[0] != 1 || ids->shape.size[1] < 1 ||
        ids->shape.size[1] > most || cache->used >= cache->model->config.context) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "ids of shape %s after %lld cached tokens; expected [1, 1 to %lld], and at "
                        "most %lld tokens in total",
                        bt_shape_text(&ids->shape, text), (long long)cache->used, (long long)most,
                        (long long)cache->model->config.context);
    }
    return context->tape ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                                    "the cache of GPT-2 does not support gradients")
                         : BT_OK;
}

// *x [1, T, width]: applies the embedding and the blocks to the tokens.
static bt_status run_blocks(bt_context *context, const bt_gpt2_cache *cache, bt_tensor *ids,
                            bt_tensor **x)
{
    const bt_gpt2 *model = cache->model;
    bt_tensor *positions = NULL;
    BT_TRY(rows_of(model->wpe, cache->used, BT_SHAPE(ids->shape.size[1], model->config.width),
                   &positions));
    bt_status status = bt_embedding(context, ids, model->wte, positions, x, NULL);
    bt_tensor_release(positions);
    for (int64_t i = 0; i < model->config.layers && status == BT_OK; ++i) {
        const place at = {cache->qkv[i], cache->used};
        bt_tensor *next = NULL;
        status = bt_nn_block_forward_with(context, &model->blocks[i], attend, &at,
                                          (*x)->shape.size[1], *x, &next);
        bt_tensor_release(*x);
        *x = next;
    }
    return status;
}

bt_status bt_gpt2_cache_extend(bt_context *context, bt_gpt2_cache *cache, bt_tensor *ids,
                               bt_tensor **logits)
{
    const bt_gpt2 *model = cache->model;
    bt_tensor *x = NULL;
    bt_tensor *last = NULL;
    bt_tensor *normed = NULL;
    bt_status status = BT_OK;
    *logits = NULL;
    BT_TRY(check(context, cache, ids));
    const int64_t count = ids->shape.size[1];
    const int64_t width = model->config.width;
    BT_TRY_GOTO(run_blocks(context, cache, ids, &x), done);
    const int64_t stride[] = {width, 1};
    BT_TRY_GOTO(bt_tensor_view(x, BT_SHAPE(1, width), stride, (count - 1) * width, &last), done);
    BT_TRY_GOTO(bt_nn_layernorm_forward(context, &model->ln_f, last, &normed), done);
    BT_TRY_GOTO(bt_linear(context, normed, model->wte, NULL, NULL, BT_ACTIVATION_NONE, logits),
                done);
    cache->used += count;
done:
    bt_tensor_release(normed);
    bt_tensor_release(last);
    bt_tensor_release(x);
    return status;
}

// framework/nn/context_parallel.c - a rank's part of a sequence, and attention across ranks
#include "framework/nn/context_parallel.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/group.h"

static int ring_size(const bt_nn_context *sharing)
{
    return sharing && sharing->ring ? sharing->ring->size : 1;
}

static int heads_size(const bt_nn_context *sharing)
{
    return sharing && sharing->heads ? sharing->heads->size : 1;
}

int bt_nn_context_size(const bt_nn_context *sharing)
{
    return ring_size(sharing) * heads_size(sharing);
}

int64_t bt_nn_context_first(const bt_nn_context *sharing, int64_t tokens, int piece)
{
    const int size = ring_size(sharing), rank = size > 1 ? sharing->ring->rank : 0;
    const int64_t within = heads_size(sharing) > 1 ? sharing->heads->rank : 0;
    return bt_ring_chunk(tokens, size, piece == 0 ? rank : 2 * size - 1 - rank) +
           within * (tokens / bt_nn_context_size(sharing) / 2);
}

// The exchange between all tokens of one head group and this rank's tokens of all heads of the U
// ranks.
static bt_status attend(bt_context *context, const bt_nn_context *sharing, bt_tensor *qkv,
                        int64_t heads, bt_tensor **y)
{
    const bt_attention_options options = {.heads = heads, .causal = true};
    return ring_size(sharing) > 1
               ? bt_ring_attention(context, qkv, sharing->ring,
                                   qkv->shape.size[1] * ring_size(sharing), &options, y)
               : bt_attention(context, qkv, heads, true, y);
}

bt_status bt_nn_context_attention(bt_context *context, const void *self, bt_tensor *qkv,
                                  int64_t heads, bt_tensor **y)
{
    const bt_nn_context *sharing = self;
    const bt_head_layout in = {3, {heads, heads, heads}, heads}, out = {1, {heads}, heads};
    bt_tensor *shared = NULL, *attended = NULL;
    bt_status status = BT_OK;
    if (heads_size(sharing) == 1) {
        return attend(context, sharing, qkv, heads, y);
    }
    const int64_t own = bt_head_count(&out, 0, sharing->heads->size, sharing->heads->rank);
    BT_TRY_GOTO(bt_share_heads(context, sharing->heads, qkv, &in, &shared), done);
    BT_TRY_GOTO(attend(context, sharing, shared, own, &attended), done);
    BT_TENSOR_RELEASE(shared);
    BT_TRY_GOTO(bt_share_tokens(context, sharing->heads, attended, &out, y), done);
done:
    bt_tensor_release(shared);
    bt_tensor_release(attended);
    return status;
}

bt_status bt_nn_context_positions(bt_context *context, const bt_nn_context *sharing, int64_t tokens,
                                  bt_tensor **positions)
{
    const int64_t own = tokens / bt_nn_context_size(sharing), half = own / 2;
    void *block = NULL;
    *positions = NULL;
    BT_TRY(bt_mem_alloc((size_t)own, sizeof(int32_t), &block));
    int32_t *place = block;
    for (int64_t i = 0; i < own; ++i) {
        const int piece = i >= half;
        place[i] = (int32_t)(bt_nn_context_first(sharing, tokens, piece) + i - piece * half);
    }
    bt_status status = bt_tensor_create(context, BT_I32, BT_SHAPE(1, own), "positions", positions);
    status = status ? status : bt_tensor_write(context, *positions, place);
    status = status ? status : bt_context_synchronize(context); // place goes
    bt_mem_free(block);
    return status;
}

void bt_nn_context_own(const bt_nn_context *sharing, const int32_t *whole, int64_t rows,
                       int64_t tokens, int32_t *own)
{
    const int64_t half = tokens / bt_nn_context_size(sharing) / 2;
    for (int64_t row = 0; row < rows; ++row) {
        for (int piece = 0; piece < 2; ++piece) {
            memcpy(own + (2 * row + piece) * half,
                   whole + row * tokens + bt_nn_context_first(sharing, tokens, piece),
                   (size_t)half * sizeof *own);
        }
    }
}

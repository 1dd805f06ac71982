// kernels/attention.h - the mask of attention: which keys a query attends to; for CPU and CUDA
// kernels
//
// The visible keys of a query are a range, and so are the queries that attend to a key. Both ends
// of both ranges are nondecreasing in the token, so the keys of a tile of queries are between the
// first query's begin and the last one's end.
#ifndef BT_KERNELS_ATTENTION_H
#define BT_KERNELS_ATTENTION_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define BT_ATTENTION_INLINE static __host__ __device__ inline
#else
#define BT_ATTENTION_INLINE static inline
#endif

typedef struct bt_attention_range {
    int64_t begin, end; // empty if end <= begin
} bt_attention_range;

BT_ATTENTION_INLINE int64_t bt_attention_least(int64_t a, int64_t b) { return a < b ? a : b; }
BT_ATTENTION_INLINE int64_t bt_attention_most(int64_t a, int64_t b) { return a > b ? a : b; }

// The tokens [begin, end) of the document of a token, clamped to [0, tokens): for any contents of
// `starts`, no token outside of the operands is accessed.
BT_ATTENTION_INLINE bt_attention_range bt_attention_document(const bt_attention_shape *shape,
                                                             int64_t token, int64_t tokens)
{
    bt_attention_range range = {0, tokens};
    if (shape->starts) {
        // The last document that starts at or before the token.
        int64_t low = 0, high = shape->documents; // starts[low] <= token < starts[high]
        if (token < shape->starts[0] || token >= shape->starts[high]) {
            range.begin = range.end = token;
            return range;
        }
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            if (shape->starts[middle] <= token) {
                low = middle;
            } else {
                high = middle;
            }
        }
        range.begin = bt_attention_most(shape->starts[low], 0);
        range.end = bt_attention_least(shape->starts[high], tokens);
    }
    return range;
}

// The keys visible to a query.
BT_ATTENTION_INLINE bt_attention_range bt_attention_keys(const bt_attention_shape *shape,
                                                         int64_t query)
{
    const int64_t position = shape->q_first + query;
    bt_attention_range range = bt_attention_document(shape, query, shape->kv_tokens);
    if (shape->window > 0) {
        range.begin = bt_attention_most(range.begin, position - shape->window + 1);
        range.end = bt_attention_least(range.end, position + shape->window);
    }
    if (shape->causal) {
        range.end = bt_attention_least(range.end, position + 1);
    }
    return range;
}

// The queries that attend to a key.
BT_ATTENTION_INLINE bt_attention_range bt_attention_queries(const bt_attention_shape *shape,
                                                            int64_t key)
{
    const int64_t own = key - shape->q_first; // the query at the key's position
    bt_attention_range range = bt_attention_document(shape, key, shape->q_tokens);
    if (shape->window > 0) {
        range.begin = bt_attention_most(range.begin, own - shape->window + 1);
        range.end = bt_attention_least(range.end, own + shape->window);
    }
    if (shape->causal) {
        range.begin = bt_attention_most(range.begin, own);
    }
    return range;
}

// Whether a call is valid; the host cannot check its documents. Limits keep sums of positions
// within 64 bits.
BT_ATTENTION_INLINE bool bt_attention_valid(const bt_attention_shape *s)
{
    const int64_t most = INT64_MAX / 8;
    const bool packs = s->starts != NULL;
    return s->batch >= 0 && s->heads >= 0 && s->q_tokens >= 0 && s->kv_tokens >= 0 &&
           s->head_dim >= 0 && s->kv_heads > 0 && s->heads % s->kv_heads == 0 &&
           s->q_first > -most && s->q_first < most && s->window >= 0 && s->window < most &&
           s->dropout >= 0 && s->dropout < 1 &&
           (packs ? s->documents > 0 && s->batch == 1 && s->q_first == 0 &&
                        s->q_tokens == s->kv_tokens
                  : s->documents == 0);
}

// Whether the outputs of a backward are valid: dk and dv both or neither.
BT_ATTENTION_INLINE bool bt_attention_outputs_valid(const bt_attention_backward_args *a)
{
    return !a->dk.base == !a->dv.base && (a->delta || !a->delta_given);
}

// Whether a backward wants all gradients at once, the only calls of kernels that fuse them.
BT_ATTENTION_INLINE bool bt_attention_wants_all(const bt_attention_backward_args *a)
{
    return a->dq.base && a->dk.base && a->dv.base && !a->delta;
}

// Causal or full self-attention: the calls of kernels without further features.
BT_ATTENTION_INLINE bool bt_attention_plain(const bt_attention_shape *s)
{
    return bt_attention_valid(s) && s->kv_heads == s->heads && s->q_tokens == s->kv_tokens &&
           s->q_first == 0 && s->window == 0 && !s->starts && s->dropout == 0;
}

#endif

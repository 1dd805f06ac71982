// framework/ops/ring.h - ranks that hold parts of the same sequences, as an op sees them
//
// A sequence of T tokens is cut into 2 P chunks for P ranks; rank r holds chunks r and 2 P - 1 - r,
// in this order. So under a causal mask all ranks have the same number of pairs to compute
// (head-tail balance). An op exchanges blocks of bytes with the other ranks through bt_ring;
// framework/dist/context_ring.h makes one of a process group. All ranks call the same functions
// with the same sizes in the same order.
#ifndef BT_OPS_RING_H
#define BT_OPS_RING_H

#include "framework/tensor/context.h"

// A round of blocks: begin, send, then fetch of the steps 1 to size - 1 in order. A round of
// gradients besides: place and give of the steps in order, then collect; what is computed between
// the last give and collect hides their way. Nothing is called where
// size is 1. Device memory; work is ordered with the context's stream, and runs beside it where the
// device can.
typedef struct bt_ring {
    void *self; // borrowed
    int rank, size;
    // *own: where this rank's block is to be written, by the context's stream: a kernel beside it
    // would wait for the attention that follows. block_bytes: of the largest block.
    bt_status (*begin)(void *self, bt_context *context, int64_t block_bytes, void **own);
    // The own block is written.
    bt_status (*send)(void *self, bt_context *context);
    // The block of rank (rank - step) mod size, readable until the next begin.
    bt_status (*fetch)(void *self, bt_context *context, int step, const void **block);
    // Where the gradient of that block is to be written.
    bt_status (*place)(void *self, bt_context *context, int step, void **gradient);
    bt_status (*give)(void *self, bt_context *context, int step);
    // The gradients of the own block by rank; NULL: the own one. Readable until the next begin.
    // Shapes  gradients [size]
    bt_status (*collect)(void *self, bt_context *context, const void **gradients);
} bt_ring;

// Where chunk `chunk` of 2 * size begins.
int64_t bt_ring_chunk(int64_t tokens, int size, int chunk);
// The tokens of a rank's first and of its second chunk.
int64_t bt_ring_low(int64_t tokens, int size, int rank);
int64_t bt_ring_high(int64_t tokens, int size, int rank);

// Queries of one rank against keys of another, as one call of attention: places among the rank's
// tokens, and kernels.h's q_first, causal and window.
typedef struct bt_ring_visit {
    int64_t q_begin, q_count, k_begin, k_count;
    int64_t q_first, window;
    bool causal;
} bt_ring_visit;

typedef struct bt_ring_mask {
    int64_t tokens, window; // window 0: none
    bool causal;
    bool square; // as many keys as queries, where both ranks' chunks have the same length
} bt_ring_mask;

enum { BT_RING_VISITS = 4 };

// The calls in which `queries`' tokens meet all keys of rank `keys` that they see, disjoint in the
// keys of each query; returns how many. Shapes  out [BT_RING_VISITS]
int bt_ring_visits(const bt_ring_mask *mask, int size, int queries, int keys, bt_ring_visit *out);

#endif

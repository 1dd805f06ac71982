// framework/ops/ring.h - the interface of ops to ranks that have parts of the same sequences
//
// A sequence of T tokens is split into 2 P chunks for P ranks; rank r has chunks r and 2 P - 1 - r,
// in this order. So with a causal mask all ranks compute the same number of pairs (head-tail
// balance). An op exchanges blocks of bytes with the other ranks through bt_ring;
// framework/dist/context_ring.h implements it with a process group. All ranks call the same
// functions with the same sizes in the same order.
#ifndef BT_OPS_RING_H
#define BT_OPS_RING_H

#include "framework/tensor/context.h"

// Rows without gaps from byte `from` of a gradient on, and where they go.
typedef struct bt_ring_copy {
    int64_t from;
    void *to; // rows pitch_bytes apart
    int64_t rows, row_bytes, pitch_bytes;
} bt_ring_copy;

// A round of blocks: begin, send, then fetch of steps 1 to size - 1 in order. A round of gradients
// in addition: place and give of the steps in order, then collect; computation between the last
// give and collect runs beside the transfers if the ring `overlaps`. Nothing is called if size is
// 1. Device memory; work is ordered with the context's stream.
typedef struct bt_ring {
    void *self; // borrowed
    int rank, size;
    bool overlaps; // transfers run beside computation
    // block_bytes: of the largest block.
    bt_status (*begin)(void *self, bt_context *context, int64_t block_bytes);
    // Sends this rank's block, rows that lie in the context's memory. They are kept until the last
    // block is fetched.
    bt_status (*send)(void *self, bt_context *context, const bt_byte_rows *own);
    // The block of rank (rank - step) mod size, readable until the next begin.
    bt_status (*fetch)(void *self, bt_context *context, int step, const void **block);
    // Where to write the gradient of that block.
    bt_status (*place)(void *self, bt_context *context, int step, void **gradient);
    bt_status (*give)(void *self, bt_context *context, int step);
    // Two ranks may call this instead of give, both or neither: it copies the gradient that the
    // other rank placed for this one. Until collect nobody else touches or frees the targets; the
    // gradients that collect gives are then undefined. NULL on both ranks where it is not possible.
    // Shapes  copies [count]
    bt_status (*take)(void *self, bt_context *context, const bt_ring_copy *copies, int count);
    // The gradients of this rank's block, by rank; NULL: this rank's own. Readable until the next
    // begin.
    // Shapes  gradients [size]
    bt_status (*collect)(void *self, bt_context *context, const void **gradients);
} bt_ring;

// The first token of chunk `chunk` of 2 * size.
int64_t bt_ring_chunk(int64_t tokens, int size, int chunk);
// The number of tokens of a rank's first and second chunk.
int64_t bt_ring_low(int64_t tokens, int size, int rank);
int64_t bt_ring_high(int64_t tokens, int size, int rank);

// Queries of one rank against keys of another, as one call of attention: offsets among the rank's
// tokens, and kernels.h's q_first, causal and window.
typedef struct bt_ring_visit {
    int64_t q_begin, q_count, k_begin, k_count;
    int64_t q_first, window;
    bool causal;
} bt_ring_visit;

typedef struct bt_ring_mask {
    int64_t tokens, window; // window 0: none
    bool causal;
    bool square; // as many keys as queries, if both ranks' chunks have the same length
} bt_ring_mask;

enum { BT_RING_VISITS = 4 };

// The calls that cover all pairs of the tokens of `queries` and the visible keys of rank `keys`,
// disjoint in the keys of each query; returns their number. Shapes  out [BT_RING_VISITS]
int bt_ring_visits(const bt_ring_mask *mask, int size, int queries, int keys, bt_ring_visit *out);

#endif

// framework/ops/ring_job.h - declarations shared by forward and backward of ring attention
//
// Internal to these files. Invariants: ring_attention.c.
#ifndef BT_OPS_RING_JOB_H
#define BT_OPS_RING_JOB_H

#include "framework/ops/ops.h"
#include "framework/ops/ring.h"
#include "kernels/attention.h"

typedef struct bt_ring_attention_attrs {
    const bt_ring *ring; // borrowed, outlives the backward
    int64_t tokens;      // of a sequence, over all ranks
    bt_attention_options options;
} bt_ring_attention_attrs;

enum { BT_RING_SAVED_QKV, BT_RING_SAVED_Y, BT_RING_SAVED_LSE };

// What all attention calls of an op have in common.
typedef struct bt_ring_job {
    bt_context *context;
    const bt_ring *ring;
    bt_attention_shape shape; // q_tokens: of this rank; for a call: bt_ring_shape
    bt_ring_mask mask;
    bt_dtype dtype;
    int *first;            // owned [size + 1]: index of a rank's first visit
    bt_ring_visit *visits; // owned [first[size]], by rank
} bt_ring_job;

// A value for each of this rank's queries, [B, H, tokens]: lse or delta.
typedef struct bt_ring_rows {
    bt_tensor *all;   // borrowed
    bt_tensor *chunk; // owned: a copy of one chunk's, from query `first` on, or NULL
    int64_t first;
} bt_ring_rows;

// Elements of a token in a block.
int64_t bt_ring_width(const bt_ring_job *j);
// The tokens of a rank.
int64_t bt_ring_tokens(const bt_ring_job *j, int rank);
// The rank whose block is fetched in a step.
int bt_ring_source(const bt_ring_job *j, int step);
void *bt_ring_place_at(void *base, int64_t elements, bt_dtype dtype);

// Q, K or V (part 0, 1, 2) of packed tokens, starting at `token`.
bt_attention_view bt_ring_packed(const bt_ring_job *j, const bt_tensor *qkv, int part,
                                 int64_t token);
// K or V (part 1, 2) of a block of `tokens` tokens.
bt_attention_view bt_ring_blocked(const bt_ring_job *j, void *block, int64_t tokens, int part,
                                  int64_t token);
// Queries [B, tokens, H D] starting at `token`.
bt_attention_view bt_ring_queries(const bt_ring_job *j, const bt_tensor *x, int64_t token);
// K or V of the keys of a visit: of a block, or of own tokens.
bt_attention_view bt_ring_keys(const bt_ring_job *j, const bt_tensor *qkv, const void *block,
                               int source, int part, const bt_ring_visit *visit);
bt_attention_shape bt_ring_shape(const bt_ring_job *j, const bt_ring_visit *visit);

void bt_ring_job_fill(bt_ring_job *j, bt_context *context, const bt_ring_attention_attrs *attrs,
                      const bt_tensor *qkv);
// Lists the visits. After a failure call bt_ring_job_close, too.
BT_CHECKED bt_status bt_ring_job_open(bt_ring_job *j);
void bt_ring_job_close(bt_ring_job *j);
// *(void **)out: zeroed memory for `count` items; owns: the caller, bt_mem_free.
BT_CHECKED bt_status bt_ring_allocate(int64_t count, size_t size_bytes, void *out);

// Sends own keys and values.
BT_CHECKED bt_status bt_ring_send_own(const bt_ring_job *j, const bt_tensor *qkv);
// Whether the first call, on own keys, gives all queries a result, which the others add to.
bool bt_ring_begins(const bt_ring_job *j);
// The values of a visit's queries for a call: all of this rank's, or a copy of one chunk's, which
// is kept for further calls. Its contents are undefined unless the call `reads` them. After a call
// that wrote them, put copies them back.
BT_CHECKED bt_status bt_ring_rows_get(const bt_ring_job *j, bt_ring_rows *rows,
                                      const bt_ring_visit *visit, bool reads, void **out);
BT_CHECKED bt_status bt_ring_rows_put(const bt_ring_job *j, const bt_ring_rows *rows,
                                      const bt_ring_visit *visit);

#endif

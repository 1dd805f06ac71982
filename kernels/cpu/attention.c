// kernels/cpu/attention.c - attention, forward and backward, O(tokens) memory per thread
//
// A tile is ATTENTION_ROWS query rows of one batch entry and head. Their scores against all keys
// visible to any of them, which are a range, fit a thread's workspace, so softmax needs one pass
// and the matrix of scores is never stored. The four products of a tile are single-threaded BLAS
// calls on the operands in place.
//   forward   S = scale Q K^T;  P = exp(S - max);  O = M P V / sum;  lse = max + log sum
//   backward  P = exp(S - lse);  dV += (M P)^T dO;  dP = M (dO V^T);  delta = rowsum(dO O);
//             dS = P (dP - delta);  dQ = scale dS K;  dK += scale dS^T Q
//   where M is dropout's mask: 1 / (1 - rate) where kept, else 0
// Shapes   views of kernels.h's kind: rows of head_dim contiguous elements, strides below 2^31;
//          outputs must not alias inputs (they may share a packed buffer)
// Types    f32, f64; products in the type (OpenBLAS' order), row sums in double
// Threads  forward: tiles, longest first; backward: whole key/value heads, whose dK and dV are
//          summed over the group's heads and their tiles in ascending order. Bits do not depend on
//          the number of threads
// Workspace ATTENTION_ROWS * kv_tokens elements a thread, twice that in backward
// NaN      spreads to its row; in backward also to every key's gradient that the row touches. A NaN
//          in a key or value may also reach rows of the tile that do not attend to it, but none of
//          another document
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

enum { ATTENTION_ROWS = 64 };

// Workspace of one thread, rounded so that threads do not share cache lines.
static size_t tile_bytes(int64_t tokens, bt_dtype dtype)
{
    const size_t bytes = (size_t)tokens * ATTENTION_ROWS * bt_dtype_size(dtype);
    return (bytes + 63) / 64 * 64;
}

size_t bt_attention_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_args *op = args;
    return tile_bytes(op->shape.kv_tokens, op->dtype) * (size_t)omp_get_max_threads();
}

size_t bt_attention_backward_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_backward_args *op = args;
    return 2 * tile_bytes(op->shape.kv_tokens, op->dtype) * (size_t)omp_get_max_threads();
}

static bool view_fits(const bt_attention_view *view) { return view->token_stride <= INT32_MAX; }

static bool shape_fits(const bt_attention_shape *shape)
{
    return bt_attention_valid(shape) && shape->q_tokens <= INT32_MAX &&
           shape->kv_tokens <= INT32_MAX;
}

bool bt_attention_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_args *op = args;
    return op->compute == BT_COMPUTE_NATIVE && view_fits(&op->q) && view_fits(&op->k) &&
           view_fits(&op->v) && view_fits(&op->o) && shape_fits(&op->shape);
}

bool bt_attention_backward_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_backward_args *op = args;
    return op->compute == BT_COMPUTE_NATIVE && view_fits(&op->q) && view_fits(&op->k) &&
           view_fits(&op->v) && view_fits(&op->o) && view_fits(&op->d_o) && view_fits(&op->dq) &&
           view_fits(&op->dk) && view_fits(&op->dv) && shape_fits(&op->shape) &&
           bt_attention_outputs_valid(op);
}

// The number of threads that the workspace suffices for.
static bt_status count_threads(const bt_launch *launch, size_t bytes_each, int *threads)
{
    const size_t room = bytes_each ? launch->workspace_bytes / bytes_each : 1;
    const int most = omp_get_max_threads();
    *threads = room < (size_t)most ? (int)room : most;
    return *threads > 0
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "attention: workspace of %zu bytes, needs %zu",
                          launch->workspace_bytes, bytes_each);
}

static int64_t view_offset(const bt_attention_view *view, int64_t batch, int64_t head)
{
    return batch * view->batch_stride + head * view->head_stride;
}

// Up to ATTENTION_ROWS queries and the keys visible to any of them. A tile ends with its document:
// products multiply unseen keys by zero, and 0 * NaN would carry a NaN to another document.
typedef struct query_tile {
    int64_t first, rows;
    int64_t key0, keys;                                 // keys is 0 if none is visible
    int64_t begin[ATTENTION_ROWS], end[ATTENTION_ROWS]; // a row's keys, relative to key0
} query_tile;

static query_tile tile_at(const bt_attention_shape *shape, int64_t first)
{
    query_tile tile = {.first = first};
    tile.rows = ATTENTION_ROWS - first % ATTENTION_ROWS;
    tile.rows = bt_attention_least(tile.rows, shape->q_tokens - first);
    if (shape->starts) {
        const int64_t rest = bt_attention_document(shape, first, shape->q_tokens).end - first;
        tile.rows = bt_attention_least(tile.rows, bt_attention_most(rest, 1));
    }
    tile.key0 = bt_attention_keys(shape, first).begin;
    const int64_t end = bt_attention_keys(shape, first + tile.rows - 1).end;
    tile.keys = bt_attention_most(end - tile.key0, 0);
    for (int64_t r = 0; r < tile.rows; ++r) {
        const bt_attention_range seen = bt_attention_keys(shape, first + r);
        tile.begin[r] = bt_attention_least(seen.begin - tile.key0, tile.keys);
        tile.end[r] = bt_attention_most(seen.end - tile.key0, tile.begin[r]);
    }
    return tile;
}

// Dropout's mask for one query and the keys key0 .. key0 + count - 1.
typedef struct row_mask {
    bt_rng rng;
    double rate;
    uint64_t element; // index of key 0
} row_mask;

static row_mask mask_of(const bt_attention_shape *shape, int64_t batch, int64_t head, int64_t query)
{
    const int64_t row = (batch * shape->heads + head) * shape->q_tokens + query;
    return (row_mask){
        {shape->seed, shape->stream}, shape->dropout, (uint64_t)row * (uint64_t)shape->kv_tokens};
}

#define BT_BODY "kernels/cpu/attention.inl"
#include "kernels/cpu/both.h"

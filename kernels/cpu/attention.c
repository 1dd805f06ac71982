// kernels/cpu/attention.c - causal or full attention, forward and backward, O(T) memory a thread
//
// A tile is ATTENTION_ROWS query rows of one batch entry and head. Their scores against all the
// keys that they may see fit a thread's workspace, so softmax is exact in one go and T x T is never
// stored. The four products of a tile are single-threaded BLAS calls on the operands in place.
//   forward   S = scale Q K^T;  P = exp(S - max);  O = P V / sum;  lse = max + log sum
//   backward  P = exp(S - lse);  dV += P^T dO;  dP = dO V^T;  delta = rowsum(dO O);
//             dS = P (dP - delta);  dQ = scale dS K;  dK += scale dS^T Q
// Shapes   views of attention.h's kind: rows of head_dim contiguous elements, strides below 2^31;
//          outputs must not alias inputs (they may share a packed buffer)
// Types    f32, f64; products in the type (OpenBLAS' order), row sums in double
// Threads  forward: tiles, longest first; backward: whole heads, whose dK and dV are summed over
//          tiles in ascending order. Bits do not depend on the number of threads
// Workspace ATTENTION_ROWS * tokens elements a thread, twice that in backward
// NaN      spreads to its row; in backward also to every key's gradient that the row touches
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
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
    return tile_bytes(op->tokens, op->dtype) * (size_t)omp_get_max_threads();
}

size_t bt_attention_backward_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_backward_args *op = args;
    return 2 * tile_bytes(op->tokens, op->dtype) * (size_t)omp_get_max_threads();
}

static bool view_fits(const bt_attention_view *view) { return view->token_stride <= INT32_MAX; }

bool bt_attention_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_args *op = args;
    return op->compute == BT_COMPUTE_NATIVE && view_fits(&op->q) && view_fits(&op->k) &&
           view_fits(&op->v) && view_fits(&op->o) && op->tokens <= INT32_MAX;
}

bool bt_attention_backward_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_backward_args *op = args;
    return op->compute == BT_COMPUTE_NATIVE && view_fits(&op->q) && view_fits(&op->k) &&
           view_fits(&op->v) && view_fits(&op->o) && view_fits(&op->d_o) && view_fits(&op->dq) &&
           view_fits(&op->dk) && view_fits(&op->dv) && op->tokens <= INT32_MAX;
}

// The threads that the workspace has room for.
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

#define BT_BODY "kernels/cpu/attention.inl"
#include "kernels/cpu/both.h"

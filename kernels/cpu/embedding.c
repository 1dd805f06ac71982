// kernels/cpu/embedding.c - token and position embedding, and their backward
//   y[r,:] = table[ids[r],:] + position[r % positions,:], NaN where ids[r] is not in the table
//   dtable[ids[r],:] (+)= dy[r,:], dposition[r % positions,:] (+)= dy[r,:], ascending r
// Shapes   ids [rows], table [vocab, cols], position [positions, cols] or none, y [rows, cols]
// Types    f32, f64; dtable is summed in the type, dposition in double
// Cost     forward copies; backward reads dy once and writes each row that occurs, or all of dtable
//          if it does not accumulate, once. A thread computes whole rows, so the order by r is kept
// Memory   workspace: the rows of each id, linked
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

enum {
    TOKENS = 64,          // rows of dtable that a thread takes at a time
    POSITION_BLOCK = 1024 // columns of dposition that one thread takes at a time
};

bool bt_embedding_backward_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_embedding_backward_args *op = args;
    return op->grad_dtype == op->dtype;
}

size_t bt_embedding_backward_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_embedding_backward_args *op = args;
    return (size_t)(op->vocab + op->rows) * sizeof(int64_t);
}

#define BT_BODY "kernels/cpu/embedding.inl"
#include "kernels/cpu/both.h"

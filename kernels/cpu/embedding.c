// kernels/cpu/embedding.c - token and position embedding, and their backward
//   y[r,:] = table[ids[r],:] + position[r % positions,:]
//   dtable[ids[r],:] (+)= dy[r,:], dposition[r % positions,:] (+)= dy[r,:], ascending r
// Shapes   ids [rows], table [vocab, cols], position [positions, cols] or none, y [rows, cols]
// Types    f32, f64; dtable is summed in the type in its own memory, dposition in double
// Cost     forward copies; backward touches the rows that were met, and all of dtable when it does
//          not accumulate. Threads share ids (dtable) or positions: order by r is kept
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

enum {
    ID_SHARES = 64, // tasks of dtable: each looks at all ids, and takes every 64th of the table
    POSITION_BLOCK = 1024 // columns of dposition that one thread takes at a time
};

bool bt_embedding_backward_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_embedding_backward_args *op = args;
    return op->grad_dtype == op->dtype;
}

#define BT_BODY "kernels/cpu/embedding.inl"
#include "kernels/cpu/both.h"

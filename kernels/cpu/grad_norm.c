// kernels/cpu/grad_norm.c - global gradient norm over many tensors, and the scale for clipping; in
// one call or in two halves, with the same bits
//   norm = grad_scale sqrt(sum of squares);  scale = grad_scale min(1, max_norm / (norm + 1e-6))
// Shapes   items in host memory, each contiguous [count]
// Types    f32, f64; squares and sums in double
// Order    a partial sum per BT_CHUNK elements of an item, in the lanes of lanes.inl; the partial
//          sums are in the workspace and are added in order
// NaN      a norm that is not finite makes the scale NaN: AdamW then changes nothing
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

_Static_assert((int)BT_SQUARES_BLOCK == (int)BT_CHUNK, "a partial sum is one of both");

static int64_t chunks_of(int64_t count) { return (count + BT_CHUNK - 1) / BT_CHUNK; }

size_t bt_grad_norm_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_grad_norm_args *op = args;
    int64_t chunks = 0;
    for (int64_t i = 0; i < op->item_count; ++i) {
        chunks += chunks_of(op->items[i].count);
    }
    return (size_t)chunks * sizeof(double);
}

#define BT_BODY "kernels/cpu/grad_norm.inl"
#include "kernels/cpu/both.h"

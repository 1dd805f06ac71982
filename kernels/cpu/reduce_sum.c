// kernels/cpu/reduce_sum.c - y[o,i] (+)= scale * sum_r x[o,r,i]
// Shapes   x [outer, reduce, inner], y [outer, inner], contiguous, must not alias; a sum over
//          nothing is zero
// Types    f32, f64; sums in double, rounded once: bitwise repeatable
//          inner == 1: in the lanes of lanes.inl; otherwise in parts of the rows, which are added
//          in ascending order; within a part rows r, r + n/4, r + n/2, r + 3n/4 at a time
// Cost     reads x once, as four interleaved streams, which is faster than one.
//          Bound by memory. One thread per ROWS_TOGETHER rows (inner == 1), or per part and
//          SUM_COLUMNS columns
// Memory   workspace: the parts' sums, where there is more than one part
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

#include <math.h>

enum {
    ROWS_TOGETHER = 4,
    PLACE = 8192,       // consecutive elements read from each stream
    SUM_COLUMNS = 2048, // that one thread takes at a time: their sums stay in the first cache
    PART_ROWS = 64,     // minimum size of a part
    PARTS_MOST = 64
};

// Number of parts of the rows of one entry of `outer`. It depends on the number of rows alone.
static int64_t parts_of(const bt_reduce_sum_args *op)
{
    const int64_t parts = op->reduce / PART_ROWS;
    return parts < 1 || op->inner == 1 ? 1 : parts < PARTS_MOST ? parts : PARTS_MOST;
}

// Distance in rows between the rows of ROWS_TOGETHER: larger for short rows.
static int64_t rows_apart(int64_t cols)
{
    const int64_t most = PLACE / (cols > 1 ? cols : 1);
    return most > 1 ? most : 1;
}

size_t bt_reduce_sum_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_reduce_sum_args *op = args;
    const int64_t parts = parts_of(op);
    return parts > 1 ? (size_t)(op->outer * parts * op->inner) * sizeof(double) : 0;
}

bool bt_reduce_sum_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_reduce_sum_args *op = args;
    return op->y_dtype == op->dtype;
}

#define BT_BODY "kernels/cpu/reduce_sum.inl"
#include "kernels/cpu/both.h"

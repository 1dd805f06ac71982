// kernels/cuda/gemm/column_sums_sm90.cu - dbias[n] (+)= sum over rows of parts[row, n]
//   Adds up the partial column sums of D, or of A, that the blocks of a Hopper GEMM have written.
// Shapes   parts [rows, n]; any n
// Types    parts f32; dbias bf16 or f32; sums f32, in the order of parts.cuh: bitwise repeatable
// NaN      in a column's parts makes it NaN
// Oracle   reduce_sum of D, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/sm90.h"
#include "kernels/cuda/parts.cuh"

namespace bt_gemm_sm90
{

template <typename T>
static __global__ void __launch_bounds__(PART_THREADS)
    column_sums_kernel(const float *parts, int64_t rows, int64_t n, T *dbias, bool accumulate)
{
    const int64_t at = (int64_t)blockIdx.x * WARP + threadIdx.x;
    wait_for_previous();
    const float sum = parts_sum(parts + at, at < n ? rows : 0, n);
    if (threadIdx.y == 0 && at < n) {
        dbias[at] = from_float<T>(accumulate ? sum + to_float(dbias[at]) : sum);
    }
}

bt_status add_column_sums(const bt_launch *launch, const bt_gemm_args *args, const float *parts,
                          int64_t rows, int64_t count)
{
    const unsigned grid = (unsigned)bt_div_up(count, WARP);
    const dim3 block(WARP, PART_WARPS);
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->dbias_dtype == BT_F32) {
        launch_after(launch->device, column_sums_kernel<float>, grid, block, 0, stream, parts, rows,
                     count, (float *)args->dbias, args->dbias_accumulate);
    } else {
        launch_after(launch->device, column_sums_kernel<bf16>, grid, block, 0, stream, parts, rows,
                     count, (bf16 *)args->dbias, args->dbias_accumulate);
    }
    return bt_cuda_launched("column sums of a product");
}

} // namespace bt_gemm_sm90

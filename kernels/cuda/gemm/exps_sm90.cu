// kernels/cuda/gemm/exps_sm90.cu - the row linear_exps_bf16_sm90: loss and gradient of a linear
//   layer's logits from their product's epilogue (bt_linear_exps_args)
//
// Three launches: the targets' logits, which are the references of exponents; the product, whose
// epilogue stores exponentials in place of logits and sums them by row and tile; losses and scales.
// An exponential is relative to the target's logit, so the sum of a row is at least 1, what
// underflows is below 2^-126 of it, and what overflows belongs to a loss of more than 88. Rows
// whose sum exceeds 2^64 are computed again by dot products, relative to their largest logit.
// Shapes   rows, vocab, width >= 1; vocab and width multiples of 8; matrices at multiples of 16
//          bytes
// Types    bf16; sums, scale and loss f32. Logits are not rounded
// Bitwise  every sum's order is fixed by shape and number of SMs
// NaN      as bt_linear_exps_args says
// Oracle   linear_exps of the CPU in f64, tests/conformance/test_linear_exps.c
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/sm90.h"
#include "kernels/cuda/parts.cuh"

namespace bt_gemm_sm90
{

constexpr int ROW_WARPS = 8;                        // of a block of logits_kernel, each with a row
constexpr float SUM_MOST = 18446744073709551616.0f; // 2^64

struct operands {
    const bf16 *x, *w;
    const int32_t *targets;
    const float *inv_count;
    bf16 *exps, *scaled_x;
    float *scale, *loss;
    int64_t rows;
    int32_t vocab, width, ignore;
};

// The logit of a row and a column, in every lane of the warp.
static __device__ __forceinline__ float dot(const operands &with, int64_t row, int64_t column)
{
    constexpr int V = WIDE<bf16>;
    float sum = 0.0f;
    for (int at = (int)threadIdx.x % WARP * V; at < with.width; at += WARP * V) {
        float a[V], b[V];
        load<V>(with.x + row * with.width + at, a);
        load<V>(with.w + column * with.width + at, b);
#pragma unroll
        for (int i = 0; i < V; ++i) {
            sum = fmaf(a[i], b[i], sum);
        }
    }
    return warp_sum(sum);
}

// reference[r] = the target's logit, NaN if it is not finite or there is no such target; +inf, for
// exponentials of 0, where the row is ignored.
static __global__ void __launch_bounds__(ROW_WARPS *WARP)
    logits_kernel(const __grid_constant__ operands with, float *reference)
{
    const int64_t row = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    wait_for_previous();
    if (row >= with.rows) {
        return;
    }
    const int32_t target = with.targets[row];
    float logit = INFINITY;
    if (target != with.ignore) {
        logit = target >= 0 && target < with.vocab ? dot(with, row, target) : NAN;
        logit = isfinite(logit) ? logit : NAN;
    }
    if (threadIdx.x % WARP == 0) {
        reference[row] = logit;
    }
}

// What the losses and gradients of a row follow from.
struct row_sums {
    float others, chosen; // sums of exponentials: of all columns but the target's, of the target's
    float reference;
};

static __device__ float block_joined(float value, bool largest)
{
    __shared__ float values[PART_WARPS];
    __syncthreads();
    if (threadIdx.x == 0) {
        values[threadIdx.y] = value;
    }
    __syncthreads();
    value = values[0];
    for (int warp = 1; warp < PART_WARPS; ++warp) {
        value = largest ? fmaxf(value, values[warp]) : value + values[warp];
    }
    return value;
}

// The row again, relative to its largest logit, by a whole block, in which each warp takes every
// 32nd column. Two dot products for each column: slow, and rare.
static __device__ row_sums again(const operands &with, int64_t row, float target_logit)
{
    const int32_t target = with.targets[row];
    float most = target_logit, sum = 0.0f;
    for (int column = (int)threadIdx.y; column < with.vocab; column += PART_WARPS) {
        most = fmaxf(most, dot(with, row, column));
    }
    most = block_joined(most, true);
    for (int column = (int)threadIdx.y; column < with.vocab; column += PART_WARPS) {
        const float value = exp_base2(dot(with, row, column) - most);
        if (column != target) {
            sum += value;
            if (threadIdx.x == 0) {
                with.exps[row * with.vocab + column] = from_float<bf16>(value);
            }
        }
    }
    return {block_joined(sum, false), exp_base2(target_logit - most), most};
}

// Loss, scale, scaled x and the target's entry of a row, by a warp.
static __device__ __forceinline__ void finish_row(const operands &with, int64_t row,
                                                  const row_sums &s, float target_logit)
{
    constexpr int V = WIDE<bf16>;
    const int32_t target = with.targets[row];
    const bool ignored = target == with.ignore;
    const float scale = ignored ? 0.0f : with.inv_count[0] / (s.others + s.chosen);
    for (int at = (int)threadIdx.x * V; at < with.width; at += WARP * V) {
        float held[V];
        load<V>(with.x + row * with.width + at, held);
#pragma unroll
        for (int i = 0; i < V; ++i) {
            held[i] = ignored ? 0.0f : held[i] * scale;
        }
        store<V>(with.scaled_x + row * with.width + at, held);
    }
    if (threadIdx.x == 0) {
        // chosen is 1 if the reference is the target's logit
        const float most = s.reference - target_logit;
        const float log_total = s.chosen == 1.0f ? log1pf(s.others) : logf(s.others + s.chosen);
        with.scale[row] = scale;
        with.loss[row] = ignored ? 0.0f : log_total + most;
        if (!ignored && target >= 0 && target < with.vocab) {
            with.exps[row * with.vocab + target] = from_float<bf16>(-s.others);
        }
    }
}

// A block takes 32 rows: their sums over tiles, rows that overflow one by one, then a row a warp.
static __global__ void __launch_bounds__(PART_THREADS)
    losses_kernel(const __grid_constant__ operands with, const float *reference, const float *parts,
                  int64_t part_count)
{
    __shared__ row_sums rows[WARP];
    const int64_t first = (int64_t)blockIdx.x * WARP, mine = first + threadIdx.x;
    const bool there = mine < with.rows;
    wait_for_previous();
    const float sum = parts_sum(parts + mine, there ? part_count : 0, with.rows);
    if (threadIdx.y == 0) {
        rows[threadIdx.x] = {sum, 1.0f, there ? reference[mine] : 0.0f};
    }
    __syncthreads();
    for (int i = 0; i < WARP && first + i < with.rows; ++i) {
        if (rows[i].others > SUM_MOST) { // the same in all threads
            const row_sums s = again(with, first + i, reference[first + i]);
            __syncthreads();
            if (threadIdx.x == 0 && threadIdx.y == 0) {
                rows[i] = s;
            }
            __syncthreads();
        }
    }
    if (first + threadIdx.y < with.rows) {
        finish_row(with, first + threadIdx.y, rows[threadIdx.y], reference[first + threadIdx.y]);
    }
}

static bt_gemm_args product_of(const bt_linear_exps_args *args)
{
    bt_gemm_args product = {};
    product.m = args->rows;
    product.n = args->vocab;
    product.k = product.lda = product.ldb = args->width;
    product.ldd = args->vocab;
    product.trans_b = true;
    product.a = args->x;
    product.b = args->w;
    product.d = args->exps;
    product.batch = 1;
    product.alpha = 1;
    product.ab_dtype = product.d_dtype = BT_BF16;
    return product;
}

static size_t parts_bytes(const bt_device *device, const bt_linear_exps_args *args)
{
    const bt_gemm_args product = product_of(args);
    const int64_t parts = exps_parts(family_bf16, &product, device->info.processor_count);
    return bt_align_256((size_t)(parts * args->rows) * sizeof(float));
}

} // namespace bt_gemm_sm90

bool bt_linear_exps_bf16_sm90_accepts(const bt_device *device, const void *call)
{
    const bt_linear_exps_args *args = (const bt_linear_exps_args *)call;
    const bt_gemm_args product = bt_gemm_sm90::product_of(args);
    return args->width % 8 == 0 && bt_aligned_16(args->scaled_x) &&
           bt_gemm_sm90::accepts(bt_gemm_sm90::family_bf16, device, &product);
}

size_t bt_linear_exps_bf16_sm90_workspace(const bt_device *device, const void *call)
{
    const bt_linear_exps_args *args = (const bt_linear_exps_args *)call;
    return bt_gemm_sm90::parts_bytes(device, args) +
           bt_align_256((size_t)args->rows * sizeof(float));
}

bt_status bt_linear_exps_bf16_sm90(const bt_launch *launch, const void *call)
{
    using namespace bt_gemm_sm90;
    const bt_linear_exps_args *args = (const bt_linear_exps_args *)call;
    const bt_gemm_args product = product_of(args);
    const operands with = {
        (const bf16 *)args->x,          (const bf16 *)args->w, args->targets,
        (const float *)args->inv_count, (bf16 *)args->exps,    (bf16 *)args->scaled_x,
        (float *)args->scale,           (float *)args->loss,   args->rows,
        (int32_t)args->vocab,           (int32_t)args->width,  args->ignore};
    const size_t needed = bt_linear_exps_bf16_sm90_workspace(launch->device, call);
    if (needed > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "linear_exps_bf16_sm90: expected a workspace of %zu bytes, got %zu", needed,
                        launch->workspace_bytes);
    }
    float *const parts = (float *)launch->workspace;
    float *const reference =
        (float *)((char *)launch->workspace + parts_bytes(launch->device, args));
    cudaStream_t stream = bt_cuda_stream(launch);
    launch_after(launch->device, logits_kernel, (unsigned)bt_div_up(args->rows, ROW_WARPS),
                 ROW_WARPS * WARP, 0, stream, with, reference);
    BT_TRY(bt_cuda_launched("target logits"));
    BT_TRY(launch_exps(launch, family_bf16, &product, reference, args->targets, parts));
    launch_after(launch->device, losses_kernel, (unsigned)bt_div_up(args->rows, WARP),
                 dim3(WARP, PART_WARPS), 0, stream, with, reference, parts,
                 exps_parts(family_bf16, &product, launch->device->info.processor_count));
    return bt_cuda_launched("losses of exponentials");
}

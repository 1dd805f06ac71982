// kernels/cuda/gemm/lab/reference.cuh - random operands, and what lab_gemm holds a product against:
//   float64, element by element, sums of its columns, other bits, what was written beside the
//   output
//
// Bound    |alpha| k 2^-23 sum |a||b| for the product, then the epilogue's own: half a unit of
//          bf16, 2^-10 for the tensor unit's tanh
#ifndef BT_KERNELS_CUDA_GEMM_LAB_REFERENCE_CUH
#define BT_KERNELS_CUDA_GEMM_LAB_REFERENCE_CUH

#include "kernels/cuda/cuda.cuh"

static __device__ uint32_t hash(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return (uint32_t)(x ^ (x >> 33));
}

template <typename T> static __global__ void fill(T *to, int64_t count, float scale, uint64_t seed)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        float unit = (float)hash(seed * 0x9E3779B97F4A7C15ULL + (uint64_t)i) * 2.3283064e-10f;
        to[i] = from_float<T>(scale * (2 * unit - 1));
    }
}

static __device__ double gelu_64(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static __device__ double gelu_slope_64(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// What was in c and aux before the call, for reference and restoration.
struct before {
    const void *c, *aux, *d;
};

// An operand as the kernel multiplies it: in tf32 rounded to nearest, ties to even.
static __device__ double operand(const bt_gemm_args &args, float x, bool rounds)
{
    if (rounds && args.compute == BT_COMPUTE_TF32 && args.ab_dtype == BT_F32) {
        uint32_t bits;
        asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
        return __uint_as_float(bits);
    }
    return x;
}

template <typename IN, typename T>
static __global__ void verify(bt_gemm_args args, bool rounds, before old, int64_t samples,
                              unsigned long long *wrong, float *worst)
{
    const int64_t total = args.batch * args.m * args.n;
    const int64_t sample = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (sample >= samples) {
        return;
    }
    const int64_t i = samples == total ? sample : (int64_t)((double)sample * total / samples);
    const int64_t batch = i / (args.m * args.n), row = i / args.n % args.m, col = i % args.n;
    const IN *a = (const IN *)args.a + batch * args.stride_a;
    const IN *b = (const IN *)args.b + batch * args.stride_b;
    double sum = 0, size = 0;
    for (int64_t k = threadIdx.x % 32; k < args.k; k += 32) {
        const double x = operand(
            args, to_float(args.trans_a ? a[k * args.lda + row] : a[row * args.lda + k]), rounds);
        const double y = operand(
            args, to_float(args.trans_b ? b[col * args.ldb + k] : b[k * args.ldb + col]), rounds);
        sum += x * y;
        size += fabs(x * y);
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, lane);
        size += __shfl_xor_sync(ALL_LANES, size, lane);
    }
    if (threadIdx.x % 32 != 0) {
        return;
    }
    const int64_t at = batch * args.stride_d + row * args.ldd + col;
    const double unit = sizeof(T) == 2 ? 0x1p-8 : 0x1p-22;
    double value = args.alpha * sum;
    const double fast_tanh = sizeof(T) == 2 ? 0x1p-10 : 0x1p-20; // bf16: the tensor unit's
    const double cut =
        !rounds && args.compute == BT_COMPUTE_TF32 ? 0x1p-9 : 0; // who does not round
    double bound = fabs(args.alpha) * size * ((double)args.k * 0x1p-23 + cut) + 1e-30;
    if (args.bias) {
        value += to_float(((const IN *)args.bias)[col]);
        bound += 0x1p-23 * fabs(to_float(((const IN *)args.bias)[col]));
    }
    if (args.epilogue == BT_EPILOGUE_DGELU) {
        double x = to_float(((const T *)old.aux)[at]);
        bound = bound * 1.13 + fabs(value) * fast_tanh * (1 + fabs(x));
        value *= gelu_slope_64(x);
    }
    if (args.epilogue == BT_EPILOGUE_BIAS_GELU) {
        double aux = to_float(((const T *)args.aux)[at]);
        if (!(fabs(aux - value) <= bound + unit * fabs(value))) {
            atomicAdd(wrong, 1ULL);
        }
        bound = bound * 1.13 + fabs(value) * fast_tanh / 2;
        value = gelu_64(value);
    }
    if (args.beta != 0) {
        value += args.beta * to_float(((const T *)old.c)[at]);
        bound += 0x1p-22 * fabs(args.beta * to_float(((const T *)old.c)[at])); // it may cancel
    }
    const double error = fabs((double)to_float(((const T *)args.d)[at]) - value);
    if (!(error <= bound + unit * fabs(value))) {
        atomicAdd(wrong, 1ULL);
    }
    atomicMax((int *)worst, __float_as_int((float)(error / (bound + unit * fabs(value)))));
}

// The f32 sums of columns against those of the matrix: D, or A [k, m]; batch 1.
template <typename T>
static __global__ void verify_columns(bt_gemm_args args, const T *matrix, int64_t rows,
                                      int64_t cols, int64_t ld, unsigned long long *wrong)
{
    const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0, size = 0;
    if (col >= cols) {
        return;
    }
    for (int64_t row = 0; row < rows; ++row) {
        const double value = to_float(matrix[row * ld + col]);
        sum += value;
        size += fabs(value);
    }
    if (!(fabs(((const float *)args.dbias)[col] - sum) <= (double)(rows + 1) * 0x1p-23 * size)) {
        atomicAdd(wrong, 1ULL);
    }
}

static __global__ void differ(const unsigned *x, const unsigned *y, int64_t words,
                              unsigned long long *wrong)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words;
         i += (int64_t)gridDim.x * blockDim.x) {
        if (x[i] != y[i]) {
            atomicAdd(wrong, 1ULL);
        }
    }
}

// Counts elements between rows (of the padding) that a call changed.
template <typename T>
static __global__ void padding(const T *now, const T *was, int64_t rows, int64_t cols, int64_t ld,
                               unsigned long long *wrong)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * ld;
         i += (int64_t)gridDim.x * blockDim.x) {
        if (i % ld >= cols && to_float(now[i]) != to_float(was[i])) {
            atomicAdd(wrong, 1ULL);
        }
    }
}

#endif

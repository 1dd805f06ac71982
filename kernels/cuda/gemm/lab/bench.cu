// kernels/cuda/gemm/lab/bench.cu - the Hopper GEMM's plans: are they right, how fast beside
// cuBLASLt
//
//   lab_gemm check [WORD]   every legal plan of odd shapes in every layout and ending (those whose
//                           name holds WORD), each element against float64, repeats bit for bit,
//                           with other work beside them, nothing written beside the output
//   lab_gemm time [WORD]    GPT-2's products (those whose name holds WORD): a sample against
//   float64,
//                           then the row cuBLASLt has, the planner's choice, and the best of the
//                           other plans, launched in turn over two sets of operands; medians
//   lab_gemm plans [WORD]   the same, every plan
//   lab_gemm once [WORD]    one launch of the best plan of each tile, for a profiler
//   lab_gemm sustain [WORD] as time, but each version by itself at the speed to which the card
//   settles
//
// Bound    |alpha| k 2^-23 sum |a||b| for the product, then the ending's own: half a unit of bf16,
//          2^-10 for the tensor unit's tanh
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/sm80.h"
#include "kernels/cuda/gemm/sm90.h"

extern "C" const bt_backend *bt_backend_entry(void);

static bt_device device;

static void require(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_gemm: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

// Who computes a call: cuBLASLt (no family), or one of our kernels by a plan of it.
struct candidate {
    const bt_gemm_sm90::family *sm90;
    const bt_gemm_sm80::family *sm80;
    bt_gemm_sm90::plan plan90;
    bt_gemm_sm80::plan plan80;

    bool ours() const { return sm90 || sm80; }
    double cycles() const { return sm90 ? plan90.cycles : plan80.cycles; }
    int splits() const { return sm90 ? plan90.splits : sm80 ? plan80.splits : 0; }
    std::string name() const
    {
        const int m = sm90 ? plan90.how->tile_m : sm80 ? plan80.how->tile_m : 0;
        const int n = sm90 ? plan90.how->tile_n : sm80 ? plan80.how->tile_n : 0;
        return !ours()
                   ? "cuBLASLt"
                   : std::string(sm90 ? "" : "sm80 ") + std::to_string(m) + "x" +
                         std::to_string(n) + (sm80 ? "d" + std::to_string(plan80.how->depth) : "") +
                         "/" + std::to_string(splits());
    }
};

static void require(cudaError_t result) { require(bt_cuda_check(result, "lab_gemm")); }

// ---- operands -----------------------------------------------------------------------------------

static std::vector<void *> blocks;

static void *take(size_t size_bytes)
{
    void *block = NULL;
    require(cudaMalloc(&block, size_bytes + 256));
    blocks.push_back(block);
    return block;
}

static void release_all()
{
    for (void *block : blocks) {
        require(cudaFree(block));
    }
    blocks.clear();
}

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

static void *numbers(bt_dtype dtype, int64_t count, float scale)
{
    static uint64_t seed = 1;
    void *to = take((size_t)count * bt_dtype_size(dtype));
    if (dtype == BT_F32) {
        fill<<<1024, 256>>>((float *)to, count, scale, seed++);
    } else {
        fill<<<1024, 256>>>((bf16 *)to, count, scale, seed++);
    }
    require(cudaGetLastError());
    return to;
}

struct shape {
    std::string name;
    int64_t m, n, k;
    bool trans_a, trans_b;
    bt_epilogue epilogue;
    double beta;
    bool to_f32;
    bool biased;    // with GELU's slope: the sums of D's columns are wanted
    bt_dtype dtype; // of the operands
    bt_compute compute;
};

// Operands of a call; row strides are `pad` elements longer than rows.
static bt_gemm_args make_args(const shape &s, int64_t pad, int64_t batch, double alpha)
{
    bt_gemm_args args = {};
    const bt_dtype d = s.to_f32 ? BT_F32 : s.dtype;
    args.m = s.m;
    args.n = s.n;
    args.k = s.k;
    args.trans_a = s.trans_a;
    args.trans_b = s.trans_b;
    args.lda = (s.trans_a ? s.m : s.k) + pad;
    args.ldb = (s.trans_b ? s.k : s.n) + pad;
    args.ldc = args.ldd = s.n + pad;
    if (pad == 8) { // odd shapes: rows still start at multiples of 16 bytes
        args.lda = (args.lda + 7) / 8 * 8;
        args.ldb = (args.ldb + 7) / 8 * 8;
        args.ldc = args.ldd = (args.ldd + 7) / 8 * 8;
    }
    args.batch = batch;
    args.stride_a = args.lda * (s.trans_a ? s.k : s.m);
    args.stride_b = args.ldb * (s.trans_b ? s.n : s.k);
    args.stride_c = args.stride_d = args.ldd * s.m;
    args.a = numbers(s.dtype, args.stride_a * batch, 1);
    args.b = numbers(s.dtype, args.stride_b * batch, 3 / sqrtf((float)s.k));
    args.d = numbers(d, args.stride_d * batch, 1);
    args.c = s.to_f32 && s.beta == 1 && s.trans_a ? args.d : numbers(d, args.stride_d * batch, 1);
    args.aux = s.epilogue >= BT_EPILOGUE_BIAS_GELU ? numbers(d, args.stride_d * batch, 2) : NULL;
    if (s.biased && s.epilogue == BT_EPILOGUE_DGELU) {
        args.dbias = numbers(BT_F32, s.n, 1);
        args.dbias_dtype = BT_F32;
    } else if (s.biased) {
        args.bias = numbers(s.dtype, s.n, 1);
    }
    args.alpha = alpha;
    args.beta = s.beta;
    args.epilogue = s.epilogue;
    args.ab_dtype = s.dtype;
    args.compute = s.compute;
    args.d_dtype = d;
    return args;
}

// ---- the reference ------------------------------------------------------------------------------

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

// ---- running ------------------------------------------------------------------------------------

static void *workspace;
static void *busy; // for work that runs beside the calls under test
static const size_t WORKSPACE_BYTES = (size_t)256 << 20, BUSY_BYTES = (size_t)16 << 20;
static unsigned long long *counts; // [3]: wrong, other bits, padding

// The call without the sums of D's columns.
static bt_gemm_args product_of(bt_gemm_args args)
{
    args.dbias = NULL;
    return args;
}

static void run(const bt_gemm_args &args, const candidate &by)
{
    bt_launch launch = {&device, NULL, workspace, WORKSPACE_BYTES};
    if (by.sm90) {
        require(bt_gemm_sm90::launch_plan(&launch, *by.sm90, &args, by.plan90));
    } else if (by.sm80) {
        require(bt_gemm_sm80::launch_plan(&launch, *by.sm80, &args, by.plan80));
    } else {
        const bt_gemm_args plain = product_of(args);
        require(args.ab_dtype == BT_F32 ? bt_gemm_cublaslt_f32(&launch, &plain)
                                        : bt_gemm_cublaslt_bf16(&launch, &plain));
        if (args.dbias) { // bf16 alone
            const bt_reduce_sum_args sums = {args.d, args.dbias,   1,     args.m, args.n, 1,
                                             false,  args.d_dtype, BT_F32};
            require(bt_reduce_sum_cuda_bf16(&launch, &sums));
        }
    }
}

// Every plan of every family that can compute the call; each family's best first.
static std::vector<candidate> candidates_of(const bt_gemm_args &args)
{
    static const bt_gemm_sm90::family *const families90[] = {&bt_gemm_sm90::family_bf16,
                                                             &bt_gemm_sm90::family_tf32};
    static const bt_gemm_sm80::family *const families80[] = {
        &bt_gemm_sm80::family_bf16, &bt_gemm_sm80::family_tf32, &bt_gemm_sm80::family_fp32};
    const int processors = device.info.processor_count;
    std::vector<candidate> all;
    for (const auto *of : families90) {
        bt_gemm_sm90::plan plans[bt_gemm_sm90::PLANS_MOST];
        if (bt_gemm_sm90::is_legal(*of, &args)) {
            const int count = bt_gemm_sm90::plans_of(*of, &args, processors, plans);
            for (int i = 0; i < count; ++i) {
                all.push_back({of, NULL, plans[i], {}});
            }
        }
    }
    for (const auto *of : families80) {
        bt_gemm_sm80::plan plans[bt_gemm_sm80::PLANS_MOST];
        if (bt_gemm_sm80::is_legal(*of, &args)) {
            const int count = bt_gemm_sm80::plans_of(*of, &args, processors, plans);
            for (int i = 0; i < count; ++i) {
                all.push_back({NULL, of, {}, plans[i]});
            }
        }
    }
    return all;
}

static cudaStream_t stream() { return ((bt_cuda_device *)device.impl)->stream; }

template <typename IN, typename T>
static bool is_right(bt_gemm_args args, const candidate &by, int64_t samples, int repeats,
                     const char *what)
{
    const size_t d_bytes = (size_t)(args.stride_d * args.batch) * sizeof(T);
    const bool writes_aux = args.epilogue == BT_EPILOGUE_BIAS_GELU;
    const int64_t words = (int64_t)(d_bytes / 4);
    void *was = take(d_bytes), *first = take(d_bytes), *aux = take(d_bytes);
    const before old = {args.c == args.d ? was : args.c, aux, was};
    unsigned long long found[3];
    float worst = 0;
    float *worst_at = (float *)(counts + 3);
    require(cudaMemcpy(was, args.d, d_bytes, cudaMemcpyDeviceToDevice));
    if (args.aux) {
        require(cudaMemcpy(aux, args.aux, d_bytes, cudaMemcpyDeviceToDevice));
    }
    require(cudaMemset(counts, 0, 4 * sizeof *counts));
    for (int i = 0; i < repeats; ++i) {
        require(cudaDeviceSynchronize());
        require(cudaMemcpyAsync(args.d, was, d_bytes, cudaMemcpyDeviceToDevice, stream()));
        require(cudaMemsetAsync(workspace, 0xff, 1 << 20, stream()));
        if (i > 0) { // other work on the device, beside the call
            fill<<<(unsigned)(64 * i), 256>>>((float *)busy, (int64_t)BUSY_BYTES / 4, 1, 1);
        }
        run(args, by);
        require(cudaStreamSynchronize(stream()));
        if (i == 0) {
            require(cudaMemcpy(first, args.d, d_bytes, cudaMemcpyDeviceToDevice));
        }
        differ<<<1024, 256>>>((unsigned *)first, (unsigned *)args.d, words, counts + 1);
    }
    padding<<<1024, 256>>>((const T *)args.d, (const T *)was, args.batch * args.m, args.n, args.ldd,
                           counts + 2);
    if (writes_aux) {
        padding<<<1024, 256>>>((const T *)args.aux, (const T *)aux, args.batch * args.m, args.n,
                               args.ldd, counts + 2);
    }
    samples = std::min(samples, args.batch * args.m * args.n);
    verify<IN, T>
        <<<(unsigned)bt_div_up(samples, 4), 128>>>(args, by.ours(), old, samples, counts, worst_at);
    require(cudaMemcpy(found, counts, sizeof found, cudaMemcpyDeviceToHost));
    require(cudaMemcpy(&worst, worst_at, sizeof worst, cudaMemcpyDeviceToHost));
    require(cudaMemcpy(args.d, was, d_bytes, cudaMemcpyDeviceToDevice));
    if (args.aux) {
        require(cudaMemcpy(args.aux, aux, d_bytes, cudaMemcpyDeviceToDevice));
    }
    for (int i = 0; i < 3; ++i) {
        require(cudaFree(blocks.back()));
        blocks.pop_back();
    }
    bool good = found[0] == 0 && found[1] == 0 && found[2] == 0;
    if (!good) {
        printf("WRONG %s by %s: %llu wrong (worst %g of the bound), %llu other bits, %llu in the "
               "padding\n",
               what, by.name().c_str(), found[0], (double)worst, found[1], found[2]);
    }
    return good;
}

static bool is_right(const bt_gemm_args &args, const candidate &by, int64_t samples, int repeats,
                     const char *what)
{
    return args.ab_dtype == BT_F32  ? is_right<float, float>(args, by, samples, repeats, what)
           : args.d_dtype == BT_F32 ? is_right<bf16, float>(args, by, samples, repeats, what)
                                    : is_right<bf16, bf16>(args, by, samples, repeats, what);
}

// ---- check --------------------------------------------------------------------------------------

struct precision {
    const char *name;
    bt_dtype dtype;
    bt_compute compute;
};
static const precision precisions[] = {{"bf16", BT_BF16, BT_COMPUTE_NATIVE},
                                       {"tf32", BT_F32, BT_COMPUTE_TF32},
                                       {"fp32", BT_F32, BT_COMPUTE_NATIVE}};

static int check_call(const bt_gemm_args &args, const char *what, int *calls, int *refused)
{
    const std::vector<candidate> all = candidates_of(args);
    int wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        // Of many splits a few: the first ones, and every fifth.
        if (all[i].splits() < 4 || all[i].splits() % 5 == 0) {
            wrong += !is_right(args, all[i], INT64_MAX, all[i].splits() > 1 ? 20 : 4, what);
            ++*calls;
        }
    }
    *refused += all.empty();
    return wrong;
}

static int check_all(const char *word)
{
    static const struct {
        const char *name;
        bool trans_a, trans_b;
        bt_epilogue epilogue;
        double beta;
        bool to_f32, biased;
    } kinds[] = {
        {"nt", false, true, BT_EPILOGUE_NONE, 0, false, false},
        {"nt + bias", false, true, BT_EPILOGUE_BIAS, 0, false, true},
        {"nt + bias + c", false, true, BT_EPILOGUE_BIAS, 1, false, true},
        {"nt - c/2", false, true, BT_EPILOGUE_NONE, -0.5, false, false},
        {"nt + bias, gelu", false, true, BT_EPILOGUE_BIAS_GELU, 0, false, true},
        {"nt, gelu", false, true, BT_EPILOGUE_BIAS_GELU, 0, false, false},
        {"nn", false, false, BT_EPILOGUE_NONE, 0, false, false},
        {"nn + c", false, false, BT_EPILOGUE_NONE, 1, false, false},
        {"nn, dgelu", false, false, BT_EPILOGUE_DGELU, 0, false, false},
        {"nn, dgelu, columns", false, false, BT_EPILOGUE_DGELU, 0, false, true},
        {"nt f32 + bias", false, true, BT_EPILOGUE_BIAS, 0, true, true},
        {"nn f32", false, false, BT_EPILOGUE_NONE, 0, true, false},
        {"tn f32", true, false, BT_EPILOGUE_NONE, 0, true, false},
        {"tn f32 + d", true, false, BT_EPILOGUE_NONE, 1, true, false},
        {"tt", true, true, BT_EPILOGUE_NONE, 0, false, false},
    };
    static const int64_t sizes[][3] = {{1, 8, 1},        {64, 64, 64},    {130, 200, 65},
                                       {128, 192, 4096}, {257, 96, 200},  {1008, 776, 840},
                                       {1000, 1544, 72}, {9, 2056, 1111}, {513, 260, 33},
                                       {33, 17, 129},    {1, 1, 1},       {7, 129, 2}};
    int calls = 0, wrong = 0, refused = 0;
    for (const precision &with : precisions) {
        for (const auto &kind : kinds) {
            for (const auto &size : sizes) {
                for (int64_t batch = 1; batch <= 4; ++batch) {
                    const int64_t pad = batch % 2 ? 8 : 1; // 1: nothing is aligned
                    const std::string name = std::string(with.name) + " " + kind.name;
                    const shape s = {name,         size[0],      size[1],       size[2],
                                     kind.trans_a, kind.trans_b, kind.epilogue, kind.beta,
                                     kind.to_f32,  kind.biased,  with.dtype,    with.compute};
                    char what[120];
                    if (!strstr(name.c_str(), word)) {
                        continue;
                    }
                    (void)snprintf(what, sizeof what, "%s %lld x %lld x %lld, batch %lld",
                                   name.c_str(), (long long)s.m, (long long)s.n, (long long)s.k,
                                   (long long)batch);
                    wrong += check_call(make_args(s, pad, (batch + 1) / 2, batch == 1 ? 1 : 0.75),
                                        what, &calls, &refused);
                    release_all();
                }
            }
        }
    }
    printf("check: %d plans of odd shapes, %d wrong; %d calls that none serves\n", calls, wrong,
           refused);
    return wrong != 0;
}

// ---- time ---------------------------------------------------------------------------------------

struct entry {
    candidate by;
    std::vector<float> ms, sustained_ms;
    float median()
    {
        std::sort(ms.begin(), ms.end());
        return ms.empty() ? 0 : ms[ms.size() / 2];
    }
};

static void time_entries(const bt_gemm_args sets[2], std::vector<entry> &entries, double flops)
{
    cudaEvent_t start, stop;
    const int rounds = flops > 2e12 ? 6 : 16;
    const int launches = flops > 2e12 ? 2 : flops < 2e11 ? 20 : 4;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    std::vector<size_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(1);
    for (int round = 0; round < rounds; ++round) {
        // Whoever runs before leaves the card warm: nobody has the same neighbour every time.
        std::shuffle(order.begin(), order.end(), random);
        for (size_t at : order) {
            entry &e = entries[at];
            float ms = 0;
            run(sets[0], e.by);
            require(cudaEventRecord(start, stream()));
            for (int j = 0; j < launches; ++j) {
                run(sets[(j + 1) % 2], e.by);
            }
            require(cudaEventRecord(stop, stream()));
            require(cudaEventSynchronize(stop));
            require(cudaEventElapsedTime(&ms, start, stop));
            e.ms.push_back(ms / (float)launches);
        }
    }
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(stop));
}

// Each version by itself, for so long that the card settles at the power it may draw: what counts
// inside of a long training step.
static void sustain_entries(const bt_gemm_args sets[2], std::vector<entry> &entries)
{
    constexpr float SETTLE_MS = 70;
    cudaEvent_t start, stop;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    for (int round = 0; round < 3; ++round) {
        for (entry &e : entries) {
            float ms = 0;
            const int launches = (int)(SETTLE_MS / e.median()) + 1;
            for (int i = 0; i < 2 * launches; ++i) {
                if (i == launches) {
                    require(cudaEventRecord(start, stream()));
                }
                run(sets[i % 2], e.by);
            }
            require(cudaEventRecord(stop, stream()));
            require(cudaEventSynchronize(stop));
            require(cudaEventElapsedTime(&ms, start, stop));
            e.sustained_ms.push_back(ms / (float)launches);
        }
    }
    for (entry &e : entries) {
        e.ms = e.sustained_ms;
    }
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(stop));
}

static void time_shape(const shape &s, bool every, bool sustained)
{
    const bt_gemm_args sets[2] = {make_args(s, 0, 1, 1), make_args(s, 0, 1, 1)};
    const double flops = 2.0 * (double)s.m * (double)s.n * (double)s.k;
    const double peak = s.dtype == BT_BF16             ? 4096
                        : s.compute == BT_COMPUTE_TF32 ? 2048
                                                       : 256; // a cycle and SM
    std::vector<entry> entries;
    const bt_gemm_args plain = product_of(sets[0]);
    if (bt_gemm_cublaslt_accepts(&device, &plain) &&
        is_right(sets[0], {}, 2048, 1, s.name.c_str())) {
        entries.push_back({{}, {}, {}});
    }
    // Of each tile the best few plans.
    std::vector<std::pair<std::string, int>> seen;
    for (const candidate &by : candidates_of(sets[0])) {
        const std::string tile = by.name().substr(0, by.name().find('/'));
        auto at = std::find_if(seen.begin(), seen.end(), [&](auto &x) { return x.first == tile; });
        if (at == seen.end()) {
            at = seen.insert(seen.end(), {tile, 0});
        }
        if ((every || ++at->second <= (sustained ? 1 : 2)) &&
            is_right(sets[0], by, 2048, 3, s.name.c_str())) {
            entries.push_back({by, {}, {}});
        }
    }
    time_entries(sets, entries, flops);
    if (sustained) {
        sustain_entries(sets, entries);
    }
    const float library = entries.empty() || entries[0].by.ours() ? 0 : entries[0].median();
    printf("%-36s cuBLASLt %8.4f ms %4.0f TF", s.name.c_str(), library,
           library > 0 ? flops / library * 1e-9 : 0);
    for (entry &e : entries) {
        if (e.by.ours()) {
            printf(" | %s %.4f %5.3fx %.0f TF m%.2f", e.by.name().c_str(), e.median(),
                   library / e.median(), flops / e.median() * 1e-9,
                   flops / (peak * device.info.processor_count) / e.by.cycles());
        }
    }
    printf("\n");
    (void)fflush(stdout);
    release_all();
}

// Runs the best plan of each tile once, for a profiler to look at.
static void run_once(const shape &s)
{
    const bt_gemm_args args = make_args(s, 0, 1, 1);
    std::string last;
    for (const candidate &by : candidates_of(args)) {
        const std::string tile = by.name().substr(0, by.name().find('/'));
        if (last.find(tile) == std::string::npos) {
            run(args, by);
            last += " " + tile;
        }
    }
    require(cudaDeviceSynchronize());
    printf("%s:%s\n", s.name.c_str(), last.c_str());
    release_all();
}

static std::vector<shape> gpt2_shapes(int64_t m, const precision &with)
{
    static const struct {
        const char *name;
        int64_t out, in;
    } layers[] = {{"qkv", 2304, 768},
                  {"proj", 768, 768},
                  {"fc", 3072, 768},
                  {"fcproj", 768, 3072},
                  {"head", 50304, 768}};
    std::vector<shape> shapes;
    for (const auto &l : layers) {
        const std::string name = std::string(l.name) + " " + with.name + " M=" + std::to_string(m);
        const bool head = !strcmp(l.name, "head"), fc = !strcmp(l.name, "fc");
        const bool residual = l.out == 768;
        shapes.push_back({"fwd " + name, m, l.out, l.in, false, true, BT_EPILOGUE_NONE, 0, false,
                          false, with.dtype, with.compute});
        if (!head) {
            shapes.push_back({std::string("fwd ") +
                                  (fc         ? "bias gelu "
                                   : residual ? "bias resid "
                                              : "bias ") +
                                  name,
                              m, l.out, l.in, false, true,
                              fc ? BT_EPILOGUE_BIAS_GELU : BT_EPILOGUE_BIAS, residual ? 1.0 : 0.0,
                              false, true, with.dtype, with.compute});
        }
        shapes.push_back({"dgrad " + name, m, l.in, l.out, false, false, BT_EPILOGUE_NONE, 0, false,
                          false, with.dtype, with.compute});
        if (!strcmp(l.name, "fcproj")) {
            shapes.push_back({"dgrad dgelu " + name, m, l.in, l.out, false, false,
                              BT_EPILOGUE_DGELU, 0, false, false, with.dtype, with.compute});
            if (with.dtype == BT_BF16) {
                shapes.push_back({"dgrad dgelu columns " + name, m, l.in, l.out, false, false,
                                  BT_EPILOGUE_DGELU, 0, false, true, with.dtype, with.compute});
            }
        }
        shapes.push_back({"wgrad " + name, l.out, l.in, m, true, false, BT_EPILOGUE_NONE, 1, true,
                          false, with.dtype, with.compute});
    }
    return shapes;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "check";
    const char *word = argc > 2 ? argv[2] : "";
    device.backend = bt_backend_entry();
    require(device.backend->device_open(0, &device));
    require(cudaMalloc(&workspace, WORKSPACE_BYTES));
    require(cudaMalloc(&busy, BUSY_BYTES));
    require(cudaMalloc((void **)&counts, 4 * sizeof *counts));
    if (!strcmp(verb, "check")) {
        return check_all(word);
    }
    std::vector<shape> shapes;
    for (const precision &with : precisions) {
        for (int64_t m : {65536, 4096}) {
            for (const shape &s : gpt2_shapes(m, with)) {
                shapes.push_back(s);
            }
        }
        for (int64_t n : {4096, 8192}) {
            shapes.push_back({std::string("square ") + with.name + " " + std::to_string(n), n, n, n,
                              false, true, BT_EPILOGUE_NONE, 0, false, false, with.dtype,
                              with.compute});
        }
    }
    for (const shape &s : shapes) {
        if (strstr(s.name.c_str(), word)) {
            if (!strcmp(verb, "once")) {
                run_once(s);
                continue;
            }
            time_shape(s, !strcmp(verb, "plans"), !strcmp(verb, "sustain"));
        }
    }
    return 0;
}

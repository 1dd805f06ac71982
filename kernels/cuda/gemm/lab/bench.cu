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
#include "kernels/cuda/gemm/bf16_sm90.h"

using bt_gemm_sm90::plan;

extern "C" const bt_backend *bt_backend_entry(void);

static bt_device device;

static void require(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_gemm: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

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
    bool to_f32, biased;
};

// Operands of a call; row strides are `pad` elements longer than rows.
static bt_gemm_args make_args(const shape &s, int64_t pad, int64_t batch, double alpha)
{
    bt_gemm_args args = {};
    const bt_dtype d = s.to_f32 ? BT_F32 : BT_BF16;
    args.m = s.m;
    args.n = s.n;
    args.k = s.k;
    args.trans_a = s.trans_a;
    args.trans_b = s.trans_b;
    args.lda = (s.trans_a ? s.m : s.k) + pad;
    args.ldb = (s.trans_b ? s.k : s.n) + pad;
    args.ldc = args.ldd = s.n + pad;
    if (pad) { // odd shapes: rows must still start at multiples of 16 bytes
        args.lda = (args.lda + 7) / 8 * 8;
        args.ldb = (args.ldb + 7) / 8 * 8;
        args.ldc = args.ldd = (args.ldd + 7) / 8 * 8;
    }
    args.batch = batch;
    args.stride_a = args.lda * (s.trans_a ? s.k : s.m);
    args.stride_b = args.ldb * (s.trans_b ? s.n : s.k);
    args.stride_c = args.stride_d = args.ldd * s.m;
    args.a = numbers(BT_BF16, args.stride_a * batch, 1);
    args.b = numbers(BT_BF16, args.stride_b * batch, 3 / sqrtf((float)s.k));
    args.d = numbers(d, args.stride_d * batch, 1);
    args.c = s.to_f32 ? args.d : numbers(d, args.stride_d * batch, 1);
    args.aux = s.epilogue >= BT_EPILOGUE_BIAS_GELU ? numbers(d, args.stride_d * batch, 2) : NULL;
    args.bias = s.biased ? numbers(BT_BF16, s.n, 1) : NULL;
    args.alpha = alpha;
    args.beta = s.beta;
    args.epilogue = s.epilogue;
    args.ab_dtype = BT_BF16;
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

template <typename T>
static __global__ void verify(bt_gemm_args args, before old, int64_t samples,
                              unsigned long long *wrong, float *worst)
{
    const int64_t total = args.batch * args.m * args.n;
    const int64_t sample = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (sample >= samples) {
        return;
    }
    const int64_t i = samples == total ? sample : (int64_t)((double)sample * total / samples);
    const int64_t batch = i / (args.m * args.n), row = i / args.n % args.m, col = i % args.n;
    const bf16 *a = (const bf16 *)args.a + batch * args.stride_a;
    const bf16 *b = (const bf16 *)args.b + batch * args.stride_b;
    double sum = 0, size = 0;
    for (int64_t k = threadIdx.x % 32; k < args.k; k += 32) {
        double x = to_float(args.trans_a ? a[k * args.lda + row] : a[row * args.lda + k]);
        double y = to_float(args.trans_b ? b[col * args.ldb + k] : b[k * args.ldb + col]);
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
    double bound = fabs(args.alpha) * size * (double)args.k * 0x1p-23 + 1e-30;
    if (args.bias) {
        value += to_float(((const bf16 *)args.bias)[col]);
    }
    if (args.epilogue == BT_EPILOGUE_DGELU) {
        double x = to_float(((const T *)old.aux)[at]);
        bound = bound * 1.13 + fabs(value) * 0x1p-10 * (1 + fabs(x));
        value *= gelu_slope_64(x);
    }
    if (args.epilogue == BT_EPILOGUE_BIAS_GELU) {
        double aux = to_float(((const T *)args.aux)[at]);
        if (!(fabs(aux - value) <= bound + unit * fabs(value))) {
            atomicAdd(wrong, 1ULL);
        }
        bound = bound * 1.13 + fabs(value) * 0x1p-11;
        value = gelu_64(value);
    }
    if (args.beta != 0) {
        value += args.beta * to_float(((const T *)old.c)[at]);
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

static void run(const bt_gemm_args &args, const plan *chosen)
{
    bt_launch launch = {&device, NULL, workspace, WORKSPACE_BYTES};
    if (chosen) {
        require(bt_gemm_sm90::launch_plan(&launch, &args, *chosen));
    } else {
        require(bt_gemm_cublaslt_bf16(&launch, &args));
    }
}

static cudaStream_t stream() { return ((bt_cuda_device *)device.impl)->stream; }

template <typename T>
static bool is_right(bt_gemm_args args, const plan *chosen, int64_t samples, int repeats,
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
        run(args, chosen);
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
    verify<T><<<(unsigned)bt_div_up(samples, 4), 128>>>(args, old, samples, counts, worst_at);
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
        printf("WRONG %s tile %d splits %d: %llu wrong, %llu other bits, %llu in the "
               "padding\n",
               what, chosen ? chosen->tile_n : 0, chosen ? chosen->splits : 0, found[0], found[1],
               found[2]);
    }
    return good;
}

static bool is_right(const bt_gemm_args &args, const plan *chosen, int64_t samples, int repeats,
                     const char *what)
{
    return args.d_dtype == BT_F32 ? is_right<float>(args, chosen, samples, repeats, what)
                                  : is_right<bf16>(args, chosen, samples, repeats, what);
}

// ---- check --------------------------------------------------------------------------------------

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
        {"tn f32", true, false, BT_EPILOGUE_NONE, 0, true, false},
        {"tn f32 + d", true, false, BT_EPILOGUE_NONE, 1, true, false},
    };
    static const int64_t sizes[][3] = {{1, 8, 1},        {64, 64, 64},   {130, 200, 65},
                                       {128, 192, 4096}, {257, 96, 200}, {1008, 776, 840},
                                       {1000, 1544, 72}, {9, 2056, 1111}};
    int calls = 0, wrong = 0;
    for (const auto &kind : kinds) {
        for (const auto &size : sizes) {
            if (!strstr(kind.name, word)) {
                continue;
            }
            for (int64_t batch = 1; batch <= 3; batch += 2) {
                shape s = {kind.name,    size[0],       size[1],   size[2],     kind.trans_a,
                           kind.trans_b, kind.epilogue, kind.beta, kind.to_f32, kind.biased};
                const bt_gemm_args args = make_args(s, 8, batch, batch == 1 ? 1 : 0.75);
                plan plans[bt_gemm_sm90::PLANS_MOST];
                char what[120];
                (void)snprintf(what, sizeof what, "%s %lld x %lld x %lld, batch %lld", kind.name,
                               (long long)s.m, (long long)s.n, (long long)s.k, (long long)batch);
                if (!bt_gemm_sm90::is_legal(&args)) {
                    printf("WRONG %s: not legal\n", what);
                    ++wrong;
                    continue;
                }
                int count = bt_gemm_sm90::plans_of(&args, device.info.processor_count, plans);
                for (int i = 0; i < count; ++i) {
                    wrong +=
                        !is_right(args, &plans[i], INT64_MAX, plans[i].splits > 1 ? 20 : 4, what);
                    ++calls;
                }
                release_all();
            }
        }
    }
    printf("check: %d plans of odd shapes, %d wrong\n", calls, wrong);
    return wrong != 0;
}

// ---- time ---------------------------------------------------------------------------------------

struct entry {
    bool ours;
    plan how;
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
            run(sets[0], e.ours ? &e.how : NULL);
            require(cudaEventRecord(start, stream()));
            for (int j = 0; j < launches; ++j) {
                run(sets[(j + 1) % 2], e.ours ? &e.how : NULL);
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
                run(sets[i % 2], e.ours ? &e.how : NULL);
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
    plan plans[bt_gemm_sm90::PLANS_MOST];
    std::vector<entry> entries;
    int count = bt_gemm_sm90::plans_of(&sets[0], device.info.processor_count, plans);
    if (bt_gemm_cublaslt_accepts(&device, &sets[0]) &&
        is_right(sets[0], NULL, 2048, 1, s.name.c_str())) {
        entries.push_back({false, {}, {}, {}});
    }
    for (int i = 0; i < (every ? count : std::min(count, sustained ? 2 : 4)); ++i) {
        if (is_right(sets[0], &plans[i], 2048, 3, s.name.c_str())) {
            entries.push_back({true, plans[i], {}, {}});
        }
    }
    time_entries(sets, entries, flops);
    if (sustained) {
        sustain_entries(sets, entries);
    }
    float library = entries.empty() || entries[0].ours ? 0 : entries[0].median();
    bool worth = bt_gemm_sm90::is_worth_it(&sets[0], device.info.processor_count);
    printf("%-34s cuBLASLt %8.4f ms %s", s.name.c_str(), library, worth ? "   " : " - ");
    for (entry &e : entries) {
        if (e.ours) {
            printf(" | %dx%d %8.4f %5.3fx (%.0f TF, model %.2f)", e.how.tile_n, e.how.splits,
                   e.median(), library / e.median(), flops / e.median() * 1e-9,
                   flops / (4096.0 * device.info.processor_count) / e.how.cycles);
        }
    }
    printf("\n");
    (void)fflush(stdout);
    release_all();
}

static std::vector<shape> gpt2_shapes(int64_t m)
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
        const std::string name = std::string(l.name) + " M=" + std::to_string(m);
        const bool head = !strcmp(l.name, "head"), fc = !strcmp(l.name, "fc");
        const bool residual = l.out == 768;
        shapes.push_back(
            {"fwd " + name, m, l.out, l.in, false, true, BT_EPILOGUE_NONE, 0, false, false});
        if (!head) {
            shapes.push_back({std::string("fwd ") +
                                  (fc         ? "bias gelu "
                                   : residual ? "bias resid "
                                              : "bias ") +
                                  name,
                              m, l.out, l.in, false, true,
                              fc ? BT_EPILOGUE_BIAS_GELU : BT_EPILOGUE_BIAS, residual ? 1.0 : 0.0,
                              false, true});
        }
        shapes.push_back(
            {"dgrad " + name, m, l.in, l.out, false, false, BT_EPILOGUE_NONE, 0, false, false});
        if (!strcmp(l.name, "fcproj")) {
            shapes.push_back({"dgrad dgelu " + name, m, l.in, l.out, false, false,
                              BT_EPILOGUE_DGELU, 0, false, false});
        }
        shapes.push_back(
            {"wgrad " + name, l.out, l.in, m, true, false, BT_EPILOGUE_NONE, 1, true, false});
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
    for (int64_t m : {65536, 4096}) {
        for (const shape &s : gpt2_shapes(m)) {
            shapes.push_back(s);
        }
    }
    for (int64_t n : {4096, 8192}) {
        shapes.push_back({"square " + std::to_string(n), n, n, n, false, true, BT_EPILOGUE_NONE, 0,
                          false, false});
    }
    for (const shape &s : shapes) {
        if (strstr(s.name.c_str(), word)) {
            time_shape(s, !strcmp(verb, "plans"), !strcmp(verb, "sustain"));
        }
    }
    return 0;
}

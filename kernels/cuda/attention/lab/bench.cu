// kernels/cuda/attention/lab/bench.cu - checks and times the attention kernels by themselves
//
//   bench check   every kernel against float64 on small shapes, three runs bit for bit, guard
//   bands,
//                 NaN, large scores
//   bench time    medians of CUDA events, cold L2 (a buffer of 256 MiB is written between samples);
//                 `time hopper rested` pauses 30 ms before each sample
//   bench profile one launch each, for ncu
//   bench small   a few tiny cases only, for compute-sanitizer
//   bench sweep   the Hopper kernels at every token count up to 300 and around edges of tiles
//   bench soak    20 launches, each with another schedule: all bits equal
// A second argument leaves out the kernels that are not for Hopper. Exit code 0 when everything
// checked is right. Not part of the product; see README.md.
#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda.h"

cudaStream_t bt_cuda_stream_of(const bt_device *, bt_stream stream) { return (cudaStream_t)stream; }

bt_status bt_cuda_check(cudaError_t result, const char *what)
{
    return result == cudaSuccess
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "%s: %s", what, cudaGetErrorString(result));
}

bt_status bt_cuda_launched(const char *kernel) { return bt_cuda_check(cudaGetLastError(), kernel); }

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t check = (call);                                                                \
        if (check != cudaSuccess) {                                                                \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check));       \
            exit(5);                                                                               \
        }                                                                                          \
    } while (0)

struct shape {
    int batch, heads, tokens, dim;
    bool causal, packed;
    float spread; // of q and k
};

struct kind {
    const char *name;
    bt_dtype dtype;
    bt_compute compute;
    bt_status (*forward)(const bt_launch *, const void *);
    bt_status (*backward)(const bt_launch *, const void *);
    bool (*accepts)(const bt_device *, const void *);
    bool (*backward_accepts)(const bt_device *, const void *);
    size_t (*workspace)(const bt_device *, const void *); // of the backward
    double norm_limit;                                    // of |error| / |reference|, both norms
    size_t (*forward_workspace)(const bt_device *, const void *); // NULL: none
    int head_dim_least, head_dim_most;
    bool hopper; // for sm_90a; the bits do not depend on the number of SMs
};

static const kind kinds[] = {
    {"bf16", BT_BF16, BT_COMPUTE_NATIVE, bt_attention_bf16_sm80, bt_attention_backward_bf16_sm80,
     bt_attention_bf16_accepts, bt_attention_backward_bf16_accepts,
     bt_attention_backward_bf16_workspace, 1e-2, nullptr, 8, 128, false},
    {"tf32", BT_F32, BT_COMPUTE_TF32, bt_attention_tf32_sm80, bt_attention_backward_tf32_sm80,
     bt_attention_tf32_accepts, bt_attention_backward_tf32_accepts,
     bt_attention_backward_tf32_workspace, 1e-3, nullptr, 8, 128, false},
    {"f32", BT_F32, BT_COMPUTE_NATIVE, bt_attention_f32_sm80, bt_attention_backward_f32_sm80,
     bt_attention_f32_accepts, bt_attention_backward_f32_accepts,
     bt_attention_backward_f32_workspace, 3e-6, nullptr, 8, 128, false},
    {"bf16 sm90", BT_BF16, BT_COMPUTE_NATIVE, bt_attention_bf16_sm90,
     bt_attention_backward_bf16_sm90, bt_attention_bf16_sm90_accepts,
     bt_attention_backward_bf16_sm90_accepts, bt_attention_backward_bf16_sm90_workspace, 1e-2,
     nullptr, 8, 64, true},
    {"tf32 sm90", BT_F32, BT_COMPUTE_TF32, bt_attention_tf32_sm90, bt_attention_backward_tf32_sm90,
     bt_attention_tf32_sm90_accepts, bt_attention_backward_tf32_sm90_accepts,
     bt_attention_backward_tf32_sm90_workspace, 1e-3, bt_attention_tf32_sm90_workspace, 8, 64,
     true},
    {"bf16 wide", BT_BF16, BT_COMPUTE_NATIVE, bt_attention_wide_bf16_sm90,
     bt_attention_backward_wide_bf16_sm90, bt_attention_wide_bf16_sm90_accepts,
     bt_attention_backward_wide_bf16_sm90_accepts, bt_attention_backward_wide_bf16_sm90_workspace,
     1e-2, nullptr, 72, 128, true},
};

// The head size that a kind is made for.
static int dim_of(const kind &k) { return k.head_dim_least > 64 ? 128 : 64; }

static bt_device device;
static bool rested; // the card rests between samples, so that power does not limit its clock
static bool quiet;  // print failures alone
static int passed;  // cases
static uint64_t seed;

// Everything of one case on the device. Element [b,t,h,d] of operand i lies at
// base[i] + (b T + t) * token_stride[i] + h D + d.
struct problem {
    shape s;
    const kind *k;
    bt_attention_args forward;
    bt_attention_backward_args backward;
    char *inputs, *o, *d_o, *grads, *workspace;
    float *lse;
    size_t size, count, workspace_bytes; // of an element; elements of one operand
};

constexpr size_t GUARD = 4096; // bytes after each output

static bt_attention_view view_of(const problem &p, char *base, int index)
{
    const int64_t columns = (int64_t)p.s.heads * p.s.dim;
    if (p.s.packed) {
        return {base + index * columns * p.size, 3 * columns * p.s.tokens, 3 * columns, p.s.dim};
    }
    return {base + index * p.count * p.size, columns * p.s.tokens, columns, p.s.dim};
}

static char *device_alloc(size_t bytes)
{
    void *block = nullptr;
    CHECK(cudaMalloc(&block, bytes));
    return (char *)block;
}

// About normal, a sum of four uniforms of a hash of the index.
template <typename T>
__global__ void fill_kernel(T *to, size_t count, uint64_t seed, float spread, bool coarse)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t x = (i + seed) * 0x9e3779b97f4a7c15ULL;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL, x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
        x ^= x >> 31;
        float sum = -2.0f;
        for (int part = 0; part < 4; ++part) {
            sum += (float)(x >> 16 * part & 0xffff) / 65536.0f;
        }
        const float value = sum * 1.732f * spread;
        to[i] = (T)(coarse ? (float)(__nv_bfloat16)value : value);
    }
}

static void fill_random(char *to, size_t count, const kind *k, float spread, bool coarse)
{
    seed += 0x100000000ULL;
    if (k->dtype == BT_BF16) {
        fill_kernel<<<1024, 256>>>((__nv_bfloat16 *)to, count, seed, spread, coarse);
    } else {
        fill_kernel<<<1024, 256>>>((float *)to, count, seed, spread, coarse);
    }
    CHECK(cudaGetLastError());
}

static problem problem_make(const shape &s, const kind *k, bool random)
{
    problem p = {};
    p.s = s, p.k = k, p.size = bt_dtype_size(k->dtype);
    p.count = (size_t)s.batch * s.tokens * s.heads * s.dim;
    p.inputs = device_alloc(3 * p.count * p.size);
    p.o = device_alloc(p.count * p.size + GUARD);
    p.d_o = device_alloc(p.count * p.size);
    p.grads = device_alloc(3 * p.count * p.size + GUARD);
    p.lse = (float *)device_alloc((size_t)s.batch * s.heads * s.tokens * 4 + GUARD);
    const bt_attention_view q = view_of(p, p.inputs, 0), key = view_of(p, p.inputs, 1),
                            v = view_of(p, p.inputs, 2);
    shape flat = s;
    flat.packed = false;
    problem f = p;
    f.s = flat;
    const bt_attention_view o = view_of(f, p.o, 0), d_o = view_of(f, p.d_o, 0);
    const double scale = 1.0 / sqrt((double)s.dim);
    bt_attention_shape called = {};
    called.batch = s.batch;
    called.heads = called.kv_heads = s.heads;
    called.q_tokens = called.kv_tokens = s.tokens;
    called.head_dim = s.dim;
    called.scale = scale;
    called.causal = s.causal;
    p.forward = {q, o, key, v, p.lse, called, k->compute, k->dtype};
    p.backward = {q,
                  o,
                  d_o,
                  key,
                  v,
                  p.lse,
                  view_of(p, p.grads, 0),
                  view_of(p, p.grads, 1),
                  view_of(p, p.grads, 2),
                  false,
                  called,
                  k->compute,
                  k->dtype};
    p.workspace_bytes =
        std::max(k->workspace(&device, &p.backward),
                 k->forward_workspace ? k->forward_workspace(&device, &p.forward) : 0);
    p.workspace = device_alloc(p.workspace_bytes + GUARD);
    if (random) {
        fill_random(p.inputs, 3 * p.count, k, s.spread, s.spread > 1.0f);
        fill_random(p.d_o, p.count, k, 1.0f, false);
    }
    return p;
}

static void problem_free(problem &p)
{
    for (void *block : {(void *)p.inputs, (void *)p.o, (void *)p.d_o, (void *)p.grads,
                        (void *)p.lse, (void *)p.workspace}) {
        CHECK(cudaFree(block));
    }
}

static void launch(const problem &p, bool backward)
{
    const bt_launch l = {&device, nullptr, p.workspace, p.workspace_bytes, 0};
    const bt_status status =
        backward ? p.k->backward(&l, &p.backward) : p.k->forward(&l, &p.forward);
    if (status != BT_OK) {
        printf("%s\n", bt_error_message());
        exit(5);
    }
}

// ---- float64 reference: a thread per query row, then a thread per key ---------------------------

template <typename T>
__device__ double element(const bt_attention_view &v, int b, int h, int t, int d)
{
    return (
        double)(float)((const T *)
                           v.base)[b * v.batch_stride + t * v.token_stride + h * v.head_stride + d];
}

template <typename T>
__global__ void reference_rows(bt_attention_backward_args a, double *o, double *lse, double *delta,
                               double *dq)
{
    const int T_ = (int)a.shape.q_tokens, D = (int)a.shape.head_dim, H = (int)a.shape.heads;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.shape.batch * H * T_) {
        return;
    }
    const int t = i % T_, h = i / T_ % H, b = i / T_ / H;
    const int keys = a.shape.causal ? t + 1 : T_;
    auto score = [&](int j) {
        double s = 0;
        for (int d = 0; d < D; ++d) {
            s += element<T>(a.q, b, h, t, d) * element<T>(a.k, b, h, j, d);
        }
        return s * a.shape.scale;
    };
    double top = -1e300, sum = 0;
    for (int j = 0; j < keys; ++j) {
        top = fmax(top, score(j));
    }
    for (int j = 0; j < keys; ++j) {
        sum += exp(score(j) - top);
    }
    lse[i] = top + log(sum);
    double *row = o + (int64_t)i * D, *dq_row = dq + (int64_t)i * D;
    for (int d = 0; d < D; ++d) {
        row[d] = dq_row[d] = 0;
    }
    for (int j = 0; j < keys; ++j) {
        const double p = exp(score(j) - lse[i]);
        for (int d = 0; d < D; ++d) {
            row[d] += p * element<T>(a.v, b, h, j, d);
        }
    }
    double dot = 0;
    for (int d = 0; d < D; ++d) {
        dot += row[d] * element<T>(a.d_o, b, h, t, d);
    }
    delta[i] = dot;
    for (int j = 0; j < keys; ++j) {
        double dp = 0;
        for (int d = 0; d < D; ++d) {
            dp += element<T>(a.d_o, b, h, t, d) * element<T>(a.v, b, h, j, d);
        }
        const double ds = exp(score(j) - lse[i]) * (dp - dot) * a.shape.scale;
        for (int d = 0; d < D; ++d) {
            dq_row[d] += ds * element<T>(a.k, b, h, j, d);
        }
    }
}

template <typename T>
__global__ void reference_keys(bt_attention_backward_args a, const double *lse, const double *delta,
                               double *dk, double *dv)
{
    const int T_ = (int)a.shape.q_tokens, D = (int)a.shape.head_dim, H = (int)a.shape.heads;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.shape.batch * H * T_) {
        return;
    }
    const int j = i % T_, h = i / T_ % H, b = i / T_ / H, row0 = i - j;
    for (int d = 0; d < D; ++d) {
        dk[(int64_t)i * D + d] = dv[(int64_t)i * D + d] = 0;
    }
    for (int t = a.shape.causal ? j : 0; t < T_; ++t) {
        double s = 0, dp = 0;
        for (int d = 0; d < D; ++d) {
            s += element<T>(a.q, b, h, t, d) * element<T>(a.k, b, h, j, d);
            dp += element<T>(a.d_o, b, h, t, d) * element<T>(a.v, b, h, j, d);
        }
        const double p = exp(s * a.shape.scale - lse[row0 + t]);
        const double ds = p * (dp - delta[row0 + t]) * a.shape.scale;
        for (int d = 0; d < D; ++d) {
            dk[(int64_t)i * D + d] += ds * element<T>(a.q, b, h, t, d);
            dv[(int64_t)i * D + d] += p * element<T>(a.d_o, b, h, t, d);
        }
    }
}

// Sums of squares of error and reference, largest error and reference; a NaN poisons the first.
struct gap {
    double error2, reference2, worst, largest;
};

template <typename T>
static gap compare(const problem &p, const bt_attention_view &view, const char *block, size_t bytes,
                   const std::vector<double> &reference)
{
    std::vector<char> host(bytes);
    CHECK(cudaMemcpy(host.data(), block, bytes, cudaMemcpyDeviceToHost));
    gap g = {};
    size_t i = 0;
    for (int b = 0; b < p.s.batch; ++b) {
        for (int h = 0; h < p.s.heads; ++h) {
            for (int t = 0; t < p.s.tokens; ++t) {
                for (int d = 0; d < p.s.dim; ++d, ++i) {
                    const size_t at = ((const char *)view.base - block) / sizeof(T) +
                                      b * view.batch_stride + t * view.token_stride +
                                      h * view.head_stride + d;
                    double x;
                    if (sizeof(T) == 2) {
                        x = bt_bf16_to_f32(((const uint16_t *)host.data())[at]);
                    } else {
                        x = ((const float *)host.data())[at];
                    }
                    const double e = fabs(x - reference[i]);
                    g.error2 += e * e;
                    g.reference2 += reference[i] * reference[i];
                    g.worst = !(e <= g.worst) ? e : g.worst;
                    g.largest = std::max(g.largest, fabs(reference[i]));
                }
            }
        }
    }
    return g;
}

static std::vector<char> outputs_of(const problem &p)
{
    const size_t sizes[3] = {p.count * p.size + GUARD, 3 * p.count * p.size + GUARD,
                             (size_t)p.s.batch * p.s.heads * p.s.tokens * 4 + GUARD};
    const char *blocks[3] = {p.o, p.grads, (const char *)p.lse};
    std::vector<char> all;
    for (int i = 0; i < 3; ++i) {
        std::vector<char> one(sizes[i]);
        CHECK(cudaMemcpy(one.data(), blocks[i], sizes[i], cudaMemcpyDeviceToHost));
        for (size_t j = sizes[i] - GUARD; j < sizes[i]; ++j) {
            if ((unsigned char)one[j] != 0xff) {
                printf("guard band of output %d overwritten at +%zu\n", i, j);
                return {};
            }
        }
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

static void poison(const problem &p)
{
    CHECK(cudaMemset(p.o, 0xff, p.count * p.size + GUARD));
    CHECK(cudaMemset(p.grads, 0xff, 3 * p.count * p.size + GUARD));
    CHECK(cudaMemset(p.lse, 0xff, (size_t)p.s.batch * p.s.heads * p.s.tokens * 4 + GUARD));
    CHECK(cudaMemset(p.workspace, 0xff, p.workspace_bytes + GUARD));
}

template <typename T> static bool check(const shape &s, const kind *k, int repeats)
{
    problem p = problem_make(s, k, true);
    bool good = k->accepts(&device, &p.forward) && k->backward_accepts(&device, &p.backward);
    std::vector<char> first;
    const int sms = device.info.processor_count;
    for (int run = 0; run < repeats; ++run) {
        device.info.processor_count = k->hopper && run > 0 ? 1 + (run * 37 + 4) % sms : sms;
        poison(p);
        launch(p, false);
        launch(p, true);
        CHECK(cudaDeviceSynchronize());
        std::vector<char> now = outputs_of(p);
        good = good && !now.empty() && (run == 0 || now == first);
        first = run == 0 ? now : first;
    }
    device.info.processor_count = sms;
    const char *same = good ? "" : "  NOT REPEATABLE, REFUSED OR OVERRUN";
    const size_t rows = (size_t)s.batch * s.heads * s.tokens;
    double *ref = (double *)device_alloc((4 * p.count + 2 * rows) * 8);
    double *lse = ref + 4 * p.count, *delta = lse + rows;
    const int blocks = (int)((rows + 63) / 64);
    reference_rows<T><<<blocks, 64>>>(p.backward, ref, lse, delta, ref + p.count);
    reference_keys<T><<<blocks, 64>>>(p.backward, lse, delta, ref + 2 * p.count, ref + 3 * p.count);
    std::vector<double> host(4 * p.count + rows);
    CHECK(cudaMemcpy(host.data(), ref, host.size() * 8, cudaMemcpyDeviceToHost));
    std::vector<float> lse_got(rows);
    CHECK(cudaMemcpy(lse_got.data(), p.lse, rows * 4, cudaMemcpyDeviceToHost));
    const bool steep = s.spread > 1.0f;       // lse in float leaves 2^-24 |lse| in every exponent
    const double few = s.tokens < 16 ? 4 : 1; // errors of few terms do not average out
    const double limit = std::max(few * k->norm_limit, steep ? 1e-2 : 0.0);
    double lse_worst = 0;
    for (size_t i = 0; i < rows; ++i) {
        const double want = host[4 * p.count + i], e = fabs(lse_got[i] - want) / (1 + fabs(want));
        lse_worst = !(e <= lse_worst) ? e : lse_worst;
    }
    good = good && lse_worst <= limit;
    std::string line(512, '\0');
    int length =
        snprintf(&line[0], line.size(), "%-9s %2dx%2dx%4dx%3d %s %s sms %3d spread %3.0f  lse %.1e",
                 k->name, s.batch, s.heads, s.tokens, s.dim, s.causal ? "causal" : "full  ",
                 s.packed ? "packed" : "flat  ", device.info.processor_count, s.spread, lse_worst);
    const bt_attention_view views[4] = {p.forward.o, p.backward.dq, p.backward.dk, p.backward.dv};
    const char *names[4] = {"o", "dq", "dk", "dv"};
    for (int i = 0; i < 4; ++i) {
        const std::vector<double> want(host.begin() + i * p.count,
                                       host.begin() + (i + 1) * p.count);
        const gap g =
            compare<T>(p, views[i], i ? p.grads : p.o, (i ? 3 : 1) * p.count * p.size, want);
        // One token sees itself alone: dq and dk are zero but for rounding, so compare with 1.
        const double least = s.tokens == 1 ? 1.0 : 1e-3;
        const double norm = sqrt(g.error2 / std::max(g.reference2, least * (double)p.count));
        const double most = g.worst / std::max(g.largest, s.tokens == 1 ? 1.0 : 0.1);
        // One-hot rows: dq and dk are differences of equals, judged only as finite.
        const bool judged = !steep || i == 0 || i == 3;
        good = good && (judged ? norm <= limit && most <= 4 * limit : std::isfinite(norm));
        length +=
            snprintf(&line[length], line.size() - length, "  %s %.1e %.1e", names[i], norm, most);
    }
    if (!quiet || !good) {
        printf("%s%s%s\n", line.c_str(), same, good ? "" : "  FAILED");
    }
    passed += good;
    CHECK(cudaFree(ref));
    problem_free(p);
    return good;
}

// A NaN in a query row, and in v of a key: the rows that see it are NaN, rows of other heads not.
static bool check_nan(const kind *k)
{
    bool good = true;
    for (int which = 0; which < 3; which += 2) {
        const int dim = dim_of(*k), token = 150;
        problem p = problem_make({1, 2, 200, dim, true, false, 1.0f}, k, true);
        const size_t at = which * p.count + (size_t)token * 2 * dim + 5; // head 0
        CHECK(cudaMemset(p.inputs + at * p.size, 0xff, p.size));
        poison(p);
        launch(p, false);
        launch(p, true);
        std::vector<char> host(p.count * p.size);
        CHECK(cudaMemcpy(host.data(), p.o, host.size(), cudaMemcpyDeviceToHost));
        for (int t = 0; t < 200; ++t) {
            for (int h = 0; h < 2; ++h) {
                const size_t i = (size_t)(t * 2 + h) * dim + 5;
                const float x = p.size == 2 ? bt_bf16_to_f32(((uint16_t *)host.data())[i])
                                            : ((float *)host.data())[i];
                const bool must = h == 0 && (which == 0 ? t == token : t >= token);
                const bool may = must || (h == 0 && which == 2 && t >= 128);
                good = good && (must ? std::isnan(x) : may || !std::isnan(x));
            }
        }
        CHECK(cudaDeviceSynchronize());
        problem_free(p);
    }
    printf("%-9s NaN %s\n", k->name, good ? "reaches the rows that see it" : "FAILED");
    return good;
}

static bool check_shape(const shape &s, const kind *k, int repeats)
{
    return k->dtype == BT_BF16 ? check<__nv_bfloat16>(s, k, repeats) : check<float>(s, k, repeats);
}

static bool check_all(bool small, bool hopper_only)
{
    static const int sizes[][4] = {{2, 3, 1, 64},   {1, 2, 7, 64},   {2, 2, 63, 64},
                                   {1, 3, 64, 64},  {1, 2, 65, 32},  {1, 2, 129, 64},
                                   {1, 2, 257, 64}, {1, 2, 200, 40}, {2, 2, 333, 128},
                                   {2, 2, 130, 96}, {2, 3, 384, 64}, {1, 2, 577, 64}};
    static const int tiny[][4] = {{1, 2, 1, 64}, {1, 2, 150, 64}, {1, 2, 70, 128}, {1, 1, 130, 40}};
    const int(*list)[4] = small ? tiny : sizes;
    const int count = small ? 4 : 12, sms = device.info.processor_count;
    bool good = true;
    for (const kind &k : kinds) {
        for (int i = 0; i < count * 4; ++i) {
            const int *z = list[i / 4];
            if (z[3] < k.head_dim_least || z[3] > k.head_dim_most || (hopper_only && !k.hopper)) {
                continue;
            }
            device.info.processor_count = i & 2 ? 2 : sms; // one block a head, or several
            good &= check_shape({z[0], z[1], z[2], z[3], (i & 1) != 0, (i & 2) != 0, 1.0f}, &k,
                                small ? 1 : 3);
        }
        device.info.processor_count = sms;
        if (!small && (k.hopper || !hopper_only)) {
            good &= check_shape({1, 2, 300, dim_of(k), true, true, 100.0f}, &k, 3);
            good &= check_shape({12, 12, 320, dim_of(k), true, true, 1.0f}, &k, 3);
            good &= check_nan(&k);
        }
    }
    return good;
}

// Prints only what failed, and how many passed.
static bool sweep()
{
    static const int edges[] = {319, 320, 321, 383, 384, 385,  447,  448,
                                449, 511, 513, 577, 639, 1023, 1024, 1025};
    bool good = true;
    const int sms = device.info.processor_count;
    for (const kind &k : kinds) {
        for (int few = 1; k.hopper && few <= 4; ++few) { // many rounds of items
            device.info.processor_count = few;
            good &= check_shape({2, 3, 400 + 61 * few, dim_of(k), few % 2 == 0, true, 1}, &k, 3);
            device.info.processor_count = sms;
        }
    }
    for (const kind &k : kinds) {
        for (int tokens = 1; k.hopper && tokens <= 300 + 16; ++tokens) {
            for (int way = 0; way < 2; ++way) {
                const int t = tokens <= 300 ? tokens : edges[tokens - 301];
                const int dim = dim_of(k) - (tokens % 29 == 0 ? 24 : tokens % 31 == 0 ? 32 : 0);
                good &= check_shape(
                    {1, 1 + tokens % 3, t, dim, way == 0, (tokens + way) % 4 < 2, 1}, &k, 2);
            }
        }
        if (k.hopper) {
            good &= check_shape({3, 37, 200, dim_of(k), true, true, 1}, &k, 3);
            good &= check_shape({3, 37, 200, dim_of(k), false, true, 1}, &k, 3);
            good &= check_shape({1, 3, 300, dim_of(k), true, true, 100}, &k, 3);
            good &= check_shape({1, 3, 300, dim_of(k), false, true, 100}, &k, 3);
            good &= check_nan(&k);
        }
    }
    return good;
}

static bool soak()
{
    static const shape shapes[] = {{4, 12, 1024, 64, true, true, 1},
                                   {4, 12, 1000, 64, false, true, 1},
                                   {3, 5, 1990, 64, true, false, 1}};
    const int sms = device.info.processor_count;
    bool good = true;
    for (const kind &k : kinds) {
        for (int i = 0; k.hopper && i < 3; ++i) {
            shape shaped = shapes[i];
            shaped.dim = dim_of(k);
            problem p = problem_make(shaped, &k, true);
            std::vector<char> first;
            int differ = 0;
            for (int run = 0; run < 20; ++run) {
                device.info.processor_count = sms - run * 5;
                poison(p);
                launch(p, false);
                launch(p, true);
                CHECK(cudaDeviceSynchronize());
                std::vector<char> now = outputs_of(p);
                differ += run > 0 && now != first;
                first = run == 0 ? now : first;
            }
            device.info.processor_count = sms;
            problem_free(p);
            printf("%-9s 20 launches of %dx%dx%d: %d differ from the first\n", k.name,
                   shapes[i].batch, shapes[i].heads, shapes[i].tokens, differ);
            good = good && differ == 0;
        }
    }
    return good;
}

static double median_ms(const problem &p, bool backward, char *scrub, size_t scrub_bytes)
{
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<float> times;
    for (int i = 0; i < 18; ++i) {
        if (rested) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
        CHECK(cudaMemsetAsync(scrub, i, scrub_bytes));
        CHECK(cudaEventRecord(start));
        launch(p, backward);
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        if (i >= 3) {
            times.push_back(ms);
        }
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    return times[times.size() / 2];
}

static void time_all(bool hopper_only)
{
    struct timed {
        int kind;
        shape s;
    };
    static const timed list[] = {
        {0, {64, 12, 1024, 64, true, true, 1}},  {0, {64, 12, 1024, 64, false, true, 1}},
        {0, {32, 12, 1024, 64, true, true, 1}},  {0, {4, 12, 1024, 64, true, true, 1}},
        {0, {4, 32, 2048, 128, true, true, 1}},  {0, {2, 12, 16384, 64, true, true, 1}},
        {1, {64, 12, 1024, 64, true, true, 1}},  {1, {32, 12, 1024, 64, true, true, 1}},
        {1, {4, 12, 1024, 64, true, true, 1}},   {1, {4, 32, 2048, 128, true, true, 1}},
        {1, {2, 12, 16384, 64, true, true, 1}},  {2, {32, 12, 1024, 64, true, true, 1}},
        {2, {16, 12, 1024, 64, true, true, 1}},  {2, {64, 12, 1024, 64, true, true, 1}},
        {2, {4, 32, 2048, 128, true, true, 1}},  {3, {64, 12, 1024, 64, true, true, 1}},
        {3, {64, 12, 1024, 64, false, true, 1}}, {3, {32, 12, 1024, 64, true, true, 1}},
        {3, {4, 12, 1024, 64, true, true, 1}},   {3, {2, 12, 16384, 64, true, true, 1}},
        {4, {64, 12, 1024, 64, true, true, 1}},  {4, {32, 12, 1024, 64, true, true, 1}},
        {4, {4, 12, 1024, 64, true, true, 1}},   {5, {4, 32, 2048, 128, true, true, 1}},
        {5, {4, 32, 2048, 128, false, true, 1}}, {5, {1, 32, 2048, 128, true, true, 1}},
        {4, {2, 12, 16384, 64, true, true, 1}},
    };
    const size_t scrub_bytes = (size_t)256 << 20;
    char *scrub = device_alloc(scrub_bytes);
    printf("                              forward ms  TFLOP/s   backward ms  TFLOP/s   workspace "
           "MiB\n");
    for (const timed &t : list) {
        if (hopper_only && !kinds[t.kind].hopper) {
            continue;
        }
        problem p = problem_make(t.s, &kinds[t.kind], true);
        launch(p, false);
        const double flop = 4.0 * t.s.batch * t.s.heads * (double)t.s.tokens * t.s.tokens *
                            t.s.dim / (t.s.causal ? 2 : 1);
        const double fwd = median_ms(p, false, scrub, scrub_bytes);
        const double bwd = median_ms(p, true, scrub, scrub_bytes);
        printf("%-9s %2dx%2dx%5dx%3d %s  %9.3f %8.1f   %11.3f %8.1f   %8.1f\n", p.k->name,
               t.s.batch, t.s.heads, t.s.tokens, t.s.dim, t.s.causal ? "causal" : "full  ", fwd,
               flop / fwd * 1e-9, bwd, 2.5 * flop / bwd * 1e-9, p.workspace_bytes / 1048576.0);
        problem_free(p);
    }
    CHECK(cudaFree(scrub));
}

// One launch of each direction at the shape that matters, for a profiler.
static void profile_all()
{
    static const shape shapes[3] = {{64, 12, 1024, 64, true, true, 1},
                                    {32, 12, 1024, 64, true, true, 1},
                                    {32, 12, 1024, 64, true, true, 1}};
    for (int i = 0; i < 3; ++i) {
        problem p = problem_make(shapes[i], &kinds[i], true);
        launch(p, false);
        launch(p, true);
        CHECK(cudaDeviceSynchronize());
        problem_free(p);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "check";
    setvbuf(stdout, nullptr, _IOLBF, 0);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    device.info.processor_count = properties.multiProcessorCount;
    device.info.shared_bytes = properties.sharedMemPerBlockOptin;
    device.info.arch = properties.major * 10 + properties.minor;
    printf("%s, %d SMs\n", properties.name, properties.multiProcessorCount);
    bool good = true;
    if (strcmp(what, "check") == 0 || strcmp(what, "small") == 0) {
        good = check_all(strcmp(what, "small") == 0, argc > 2);
        printf("%s\n", good ? "ALL CHECKS PASSED" : "SOME CHECKS FAILED");
    }
    if (strcmp(what, "time") == 0) {
        rested = argc > 3;
        time_all(argc > 2);
    }
    if (strcmp(what, "sweep") == 0) {
        quiet = true;
        good = sweep();
        printf("%d cases passed: %s\n", passed, good ? "ALL CHECKS PASSED" : "SOME CHECKS FAILED");
    }
    if (strcmp(what, "soak") == 0) {
        good = soak();
    }
    if (strcmp(what, "profile") == 0) {
        profile_all();
    }
    return good ? 0 : 1;
}

// kernels/cuda/attention/lab/problem.cuh - one case of the attention bench on the device
#ifndef BT_KERNELS_CUDA_ATTENTION_LAB_PROBLEM_CUH
#define BT_KERNELS_CUDA_ATTENTION_LAB_PROBLEM_CUH

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/cuda/cuda.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t check = (call);                                                                \
        if (check != cudaSuccess) {                                                                \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check));       \
            exit(5);                                                                               \
        }                                                                                          \
    } while (0)

// The part of a case that goes beyond batch, heads, tokens, head_dim: zeros mean none.
struct extras {
    int kv_heads, kv_tokens; // 0: as many as of queries
    int q_first, window, documents;
    bool accumulate;
};

struct shape {
    int batch, heads, tokens, dim;
    bool causal, packed;
    float spread; // of q and k
    extras more;
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
    int head_dim_most;
    bool hopper; // for sm_90a; the bits do not depend on the number of SMs
};

static bt_device device;
static uint64_t seed;

// Inputs and gradients hold q, then k, then v: side by side in each token if packed, else one after
// the other.
struct problem {
    shape s;
    const kind *k;
    bt_attention_args forward;
    bt_attention_backward_args backward;
    char *inputs, *o, *d_o, *grads, *old_grads, *workspace;
    int32_t *starts;
    float *lse;
    size_t size, q_count, kv_count, workspace_bytes; // of an element; elements of q, of k

    size_t inputs_count() const { return q_count + 2 * kv_count; }
    size_t rows() const { return (size_t)s.batch * s.heads * s.tokens; }
};

constexpr size_t GUARD = 4096; // bytes after each output

static int kv_heads_of(const shape &s) { return s.more.kv_heads ? s.more.kv_heads : s.heads; }
static int kv_tokens_of(const shape &s) { return s.more.kv_tokens ? s.more.kv_tokens : s.tokens; }

// Operand `index` of q, k, v.
static bt_attention_view view_of(const problem &p, char *base, int index)
{
    const int64_t q_columns = (int64_t)p.s.heads * p.s.dim;
    const int64_t kv_columns = (int64_t)kv_heads_of(p.s) * p.s.dim;
    const int64_t tokens = index ? kv_tokens_of(p.s) : p.s.tokens;
    const int64_t before = index ? q_columns + (index - 1) * kv_columns : 0;
    if (p.s.packed) {
        const int64_t row = q_columns + 2 * kv_columns;
        return {base + before * p.size, row * tokens, row, p.s.dim};
    }
    const size_t skipped = index ? p.q_count + (index - 1) * p.kv_count : 0;
    const int64_t row = index ? kv_columns : q_columns;
    return {base + skipped * p.size, row * tokens, row, p.s.dim};
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

// Documents of unequal lengths, the second one empty where there are three or more.
static int32_t *starts_make(const shape &s)
{
    const int count = s.more.documents;
    std::vector<int32_t> starts(count + 1);
    for (int i = 0; i <= count; ++i) {
        const double part = (double)i / count;
        starts[i] = (int32_t)(s.tokens * (0.3 * part + 0.7 * part * part));
    }
    if (count > 2) {
        starts[2] = starts[1];
    }
    int32_t *to = (int32_t *)device_alloc(starts.size() * 4);
    CHECK(cudaMemcpy(to, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
    return to;
}

static problem problem_make(const shape &s, const kind *k)
{
    problem p = {};
    p.s = s, p.k = k, p.size = bt_dtype_size(k->dtype);
    p.q_count = (size_t)s.batch * s.tokens * s.heads * s.dim;
    p.kv_count = (size_t)s.batch * kv_tokens_of(s) * kv_heads_of(s) * s.dim;
    p.inputs = device_alloc(p.inputs_count() * p.size);
    p.o = device_alloc(p.q_count * p.size + GUARD);
    p.d_o = device_alloc(p.q_count * p.size);
    p.grads = device_alloc(p.inputs_count() * p.size + GUARD);
    p.old_grads = s.more.accumulate ? device_alloc(p.inputs_count() * p.size) : nullptr;
    p.lse = (float *)device_alloc(p.rows() * 4 + GUARD);
    p.starts = s.more.documents ? starts_make(s) : nullptr;
    problem flat = p;
    flat.s.packed = false;
    bt_attention_args &f = p.forward;
    f.q = view_of(p, p.inputs, 0), f.k = view_of(p, p.inputs, 1), f.v = view_of(p, p.inputs, 2);
    f.o = view_of(flat, p.o, 0);
    f.lse = p.lse;
    f.shape.batch = s.batch, f.shape.heads = s.heads, f.shape.kv_heads = kv_heads_of(s);
    f.shape.q_tokens = s.tokens, f.shape.kv_tokens = kv_tokens_of(s), f.shape.head_dim = s.dim;
    f.shape.q_first = s.more.q_first, f.shape.window = s.more.window;
    f.shape.starts = p.starts, f.shape.documents = s.more.documents;
    f.shape.scale = 1.0 / sqrt((double)s.dim), f.shape.causal = s.causal;
    f.compute = k->compute, f.dtype = k->dtype;
    bt_attention_backward_args &b = p.backward;
    b.q = f.q, b.k = f.k, b.v = f.v, b.o = f.o, b.lse = f.lse, b.shape = f.shape;
    b.d_o = view_of(flat, p.d_o, 0);
    b.dq = view_of(p, p.grads, 0), b.dk = view_of(p, p.grads, 1), b.dv = view_of(p, p.grads, 2);
    b.accumulate = s.more.accumulate;
    b.compute = k->compute, b.dtype = k->dtype;
    p.workspace_bytes =
        std::max(k->workspace(&device, &p.backward),
                 k->forward_workspace ? k->forward_workspace(&device, &p.forward) : 0);
    p.workspace = device_alloc(p.workspace_bytes + GUARD);
    fill_random(p.inputs, p.inputs_count(), k, s.spread, s.spread > 1.0f);
    fill_random(p.d_o, p.q_count, k, 1.0f, false);
    if (p.old_grads) {
        fill_random(p.old_grads, p.inputs_count(), k, 1.0f, false);
    }
    return p;
}

static void problem_free(problem &p)
{
    for (void *block :
         {(void *)p.inputs, (void *)p.o, (void *)p.d_o, (void *)p.grads, (void *)p.old_grads,
          (void *)p.lse, (void *)p.workspace, (void *)p.starts}) {
        CHECK(cudaFree(block));
    }
}

// Outputs hold NaN before a run, or the old gradients where they are added to.
static void poison(const problem &p)
{
    CHECK(cudaMemset(p.o, 0xff, p.q_count * p.size + GUARD));
    CHECK(cudaMemset(p.grads, 0xff, p.inputs_count() * p.size + GUARD));
    CHECK(cudaMemset(p.lse, 0xff, p.rows() * 4 + GUARD));
    CHECK(cudaMemset(p.workspace, 0xff, p.workspace_bytes + GUARD));
    if (p.old_grads) {
        CHECK(
            cudaMemcpy(p.grads, p.old_grads, p.inputs_count() * p.size, cudaMemcpyDeviceToDevice));
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

static std::vector<char> outputs_of(const problem &p)
{
    const size_t sizes[3] = {p.q_count * p.size + GUARD, p.inputs_count() * p.size + GUARD,
                             p.rows() * 4 + GUARD};
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

#endif

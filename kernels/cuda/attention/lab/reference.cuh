// kernels/cuda/attention/lab/reference.cuh - attention in float64, a thread for each row or key
#ifndef BT_KERNELS_CUDA_ATTENTION_LAB_REFERENCE_CUH
#define BT_KERNELS_CUDA_ATTENTION_LAB_REFERENCE_CUH

#include "kernels/cuda/attention/lab/problem.cuh"

template <typename T>
__device__ double element(const bt_attention_view &v, int b, int h, int t, int d)
{
    const int64_t at = b * v.batch_stride + t * v.token_stride + h * v.head_stride + d;
    return (double)(float)((const T *)v.base)[at];
}

__device__ inline int document_of(const bt_attention_shape &s, int token)
{
    int n = 0;
    while (n < s.documents && s.starts[n + 1] <= token) {
        ++n;
    }
    return n;
}

__device__ inline bool sees(const bt_attention_shape &s, int query, int key)
{
    const int64_t behind = s.q_first + query - key;
    return (!s.causal || behind >= 0) &&
           (s.window == 0 || (behind < s.window && -behind < s.window)) &&
           (!s.starts || document_of(s, query) == document_of(s, key));
}

template <typename T>
__device__ double score(const bt_attention_backward_args &a, int b, int h, int query, int key)
{
    const int group = (int)(a.shape.heads / a.shape.kv_heads);
    double sum = 0;
    for (int d = 0; d < a.shape.head_dim; ++d) {
        sum += element<T>(a.q, b, h, query, d) * element<T>(a.k, b, h / group, key, d);
    }
    return sum * a.shape.scale;
}

template <typename T>
__device__ double d_probability(const bt_attention_backward_args &a, int b, int h, int query,
                                int key)
{
    const int group = (int)(a.shape.heads / a.shape.kv_heads);
    double sum = 0;
    for (int d = 0; d < a.shape.head_dim; ++d) {
        sum += element<T>(a.d_o, b, h, query, d) * element<T>(a.v, b, h / group, key, d);
    }
    return sum;
}

// o and dq [B, H, q_tokens, D], lse and delta [B, H, q_tokens]
template <typename T>
__global__ void reference_rows(bt_attention_backward_args a, double *o, double *lse, double *delta,
                               double *dq)
{
    const bt_attention_shape &s = a.shape;
    const int T_ = (int)s.q_tokens, keys = (int)s.kv_tokens, D = (int)s.head_dim, H = (int)s.heads;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, group = H / (int)s.kv_heads;
    if (i >= s.batch * H * T_) {
        return;
    }
    const int t = i % T_, h = i / T_ % H, b = i / T_ / H;
    double top = -1e300, sum = 0;
    for (int j = 0; j < keys; ++j) {
        top = sees(s, t, j) ? fmax(top, score<T>(a, b, h, t, j)) : top;
    }
    for (int j = 0; j < keys; ++j) {
        sum += sees(s, t, j) ? exp(score<T>(a, b, h, t, j) - top) : 0;
    }
    lse[i] = sum > 0 ? top + log(sum) : -INFINITY;
    double *row = o + (int64_t)i * D, *dq_row = dq + (int64_t)i * D;
    for (int d = 0; d < D; ++d) {
        row[d] = dq_row[d] = 0;
    }
    for (int j = 0; j < keys; ++j) {
        const double p = sees(s, t, j) ? exp(score<T>(a, b, h, t, j) - lse[i]) : 0;
        for (int d = 0; p > 0 && d < D; ++d) {
            row[d] += p * element<T>(a.v, b, h / group, j, d);
        }
    }
    double dot = 0;
    for (int d = 0; d < D; ++d) {
        dot += row[d] * element<T>(a.d_o, b, h, t, d);
    }
    delta[i] = dot;
    for (int j = 0; j < keys; ++j) {
        if (sees(s, t, j)) {
            const double ds = exp(score<T>(a, b, h, t, j) - lse[i]) *
                              (d_probability<T>(a, b, h, t, j) - dot) * s.scale;
            for (int d = 0; d < D; ++d) {
                dq_row[d] += ds * element<T>(a.k, b, h / group, j, d);
            }
        }
    }
}

// dk and dv [B, kv_heads, kv_tokens, D]
template <typename T>
__global__ void reference_keys(bt_attention_backward_args a, const double *lse, const double *delta,
                               double *dk, double *dv)
{
    const bt_attention_shape &s = a.shape;
    const int T_ = (int)s.kv_tokens, rows = (int)s.q_tokens, D = (int)s.head_dim;
    const int H = (int)s.kv_heads, group = (int)s.heads / H;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.batch * H * T_) {
        return;
    }
    const int j = i % T_, kv_head = i / T_ % H, b = i / T_ / H;
    for (int d = 0; d < D; ++d) {
        dk[(int64_t)i * D + d] = dv[(int64_t)i * D + d] = 0;
    }
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        for (int t = 0; t < rows; ++t) {
            if (!sees(s, t, j)) {
                continue;
            }
            const int64_t row = ((int64_t)b * s.heads + h) * rows + t;
            const double p = exp(score<T>(a, b, h, t, j) - lse[row]);
            const double ds = p * (d_probability<T>(a, b, h, t, j) - delta[row]) * s.scale;
            for (int d = 0; d < D; ++d) {
                dk[(int64_t)i * D + d] += ds * element<T>(a.q, b, h, t, d);
                dv[(int64_t)i * D + d] += p * element<T>(a.d_o, b, h, t, d);
            }
        }
    }
}

// Sums of squares of error and reference, largest error and reference; a NaN poisons the first.
struct gap {
    double error2, reference2, worst, largest;
};

static double host_value(const problem &p, const std::vector<char> &block, size_t at)
{
    return p.size == 2 ? (double)bt_bf16_to_f32(((const uint16_t *)block.data())[at])
                       : (double)((const float *)block.data())[at];
}

static std::vector<char> to_host(const char *from, size_t bytes)
{
    std::vector<char> host(bytes);
    CHECK(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
    return host;
}

// An output against its reference [batch, heads, tokens, D], plus what was there before.
static gap compare(const problem &p, const bt_attention_view &view, char *base, size_t elements,
                   const char *old, const double *reference, int heads, int tokens)
{
    const std::vector<char> got = to_host(base, elements * p.size);
    const std::vector<char> before = old ? to_host(old, elements * p.size) : std::vector<char>();
    const int64_t first = ((const char *)view.base - base) / (int64_t)p.size;
    gap g = {};
    for (int b = 0; b < p.s.batch; ++b) {
        for (int h = 0; h < heads; ++h) {
            for (int t = 0; t < tokens; ++t) {
                for (int d = 0; d < p.s.dim; ++d, ++reference) {
                    const size_t at = (size_t)(first + b * view.batch_stride +
                                               t * view.token_stride + h * view.head_stride + d);
                    const double want = *reference + (old ? host_value(p, before, at) : 0);
                    const double e = fabs(host_value(p, got, at) - want);
                    g.error2 += e * e;
                    g.reference2 += want * want;
                    g.worst = !(e <= g.worst) ? e : g.worst;
                    g.largest = std::max(g.largest, fabs(want));
                }
            }
        }
    }
    return g;
}

#endif

// kernels/cuda/attention/general.cuh - code shared by the general attention kernels
//
// A warp owns 16 rows of the block's own tile (queries, or keys in the backward for dk and dv) and
// processes the other side in tiles of BN tokens. Products yield C fragments in mma.cuh's layout
// for every arithmetic: sum[n][.] is rows g and g + 8, columns 8 n + 2t and the next.
//   product_nt   s[16, BN] += own rows times stream rows, summed over the head dimension
//   product_nn   sum[16, 8 N] += p[16, BN] times columns of a stream tile
//   BF16  m16n8k16; TF32  m16n8k8, operands rounded in shared memory; FP32  FFMA, ascending order
// What a row sees is a range of the other side (kernels/attention.h), so the block's tiles begin
// at its first row's begin and end at its last row's end.
#ifndef BT_KERNELS_CUDA_ATTENTION_GENERAL_CUH
#define BT_KERNELS_CUDA_ATTENTION_GENERAL_CUH

#include "kernels/attention.h"
#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/philox.cuh"

namespace
{

struct bf16_math {
    using T = bf16;
    static constexpr bool ROUND = false;
};
struct tf32_math {
    using T = float;
    static constexpr bool ROUND = true;
};
struct fp32_math {
    using T = float;
    static constexpr bool ROUND = false;
};

// ---- what a row sees ---------------------------------------------------------------------------

struct seen_range {
    int begin, end;
};

__device__ __forceinline__ seen_range clip(const bt_attention_range &range, int64_t tokens)
{
    const int64_t begin = bt_attention_most(0, bt_attention_least(range.begin, tokens));
    return {(int)begin, (int)bt_attention_most(begin, bt_attention_least(range.end, tokens))};
}

// What query `row` sees of the keys, or key `row` of the queries; nothing past the last row.
template <bool KEYS>
__device__ __forceinline__ seen_range seen_by(const bt_attention_shape &s, int64_t row)
{
    if (row >= (KEYS ? s.kv_tokens : s.q_tokens)) {
        return {0, 0};
    }
    return KEYS ? clip(bt_attention_queries(&s, row), s.q_tokens)
                : clip(bt_attention_keys(&s, row), s.kv_tokens);
}

// The union over a block's rows.
template <bool KEYS, int ROWS>
__device__ __forceinline__ seen_range seen_by_tile(const bt_attention_shape &s, int64_t row0)
{
    const int64_t last = bt_attention_least(row0 + ROWS, KEYS ? s.kv_tokens : s.q_tokens) - 1;
    return {seen_by<KEYS>(s, row0).begin, seen_by<KEYS>(s, last).end};
}

// Ranges of a thread's rows g and g + 8.
struct seen_rows {
    seen_range of[2];

    // Whether any row of the warp sees any of the columns; the same for all lanes.
    __device__ __forceinline__ bool any(int column0, int count) const
    {
        bool sees = false;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sees |= of[half].begin < column0 + count && of[half].end > column0 &&
                    of[half].begin < of[half].end;
        }
        return __any_sync(0xffffffffU, sees);
    }

    // Whether all rows of the warp see all of the columns.
    __device__ __forceinline__ bool whole(int column0, int count) const
    {
        return __all_sync(0xffffffffU, of[0].begin <= column0 && of[0].end >= column0 + count &&
                                           of[1].begin <= column0 && of[1].end >= column0 + count);
    }

    __device__ __forceinline__ bool sees(int half, int column) const
    {
        return column >= of[half].begin && column < of[half].end;
    }
};

// ---- tiles -------------------------------------------------------------------------------------

// Rows row0 .. row0 + ROWS - 1 of a head into a tile, zeros past the last token and column. Any
// head_dim, stride and alignment; `aligned`: 16 bytes at a time, asynchronously.
template <typename T, int ROWS, int COLS, int THREADS>
__device__ __forceinline__ void rows_load(unsigned char *tile, const T *head, int64_t token_stride,
                                          int row0, int tokens, int head_dim, bool aligned)
{
    constexpr int PER_CHUNK = 16 / (int)sizeof(T), CHUNKS = COLS / PER_CHUNK;
    static_assert(ROWS * CHUNKS % THREADS == 0, "the threads must copy a tile in whole passes");
#pragma unroll 4
    for (int i = 0; i < ROWS * CHUNKS / THREADS; ++i) {
        const int index = i * THREADS + (int)threadIdx.x;
        const int row = index / CHUNKS, chunk = index % CHUNKS, column = chunk * PER_CHUNK;
        const bool valid = row0 + row < tokens && column < head_dim;
        const T *source = head + (valid ? (int64_t)(row0 + row) * token_stride + column : 0);
        unsigned char *target = tile + tile_offset<T, COLS>(row, chunk);
        if (aligned) {
            cp_async16(shared_address(target), source, valid);
        } else {
            T *to = (T *)target;
#pragma unroll
            for (int j = 0; j < PER_CHUNK; ++j) {
                to[j] = valid && column + j < head_dim ? source[j] : T(0.0f);
            }
        }
    }
}

// Waits for this thread's copies; tf32 rounds what this same thread copied.
template <typename M, int ROWS, int COLS, int THREADS>
__device__ __forceinline__ void rows_finish(unsigned char *tile)
{
    if constexpr (M::ROUND) {
        tile_round<ROWS, COLS, THREADS>((float *)tile);
    }
}

// ---- products ----------------------------------------------------------------------------------

// own: the warp's 16 rows.
template <typename M, int D, int N>
__device__ __forceinline__ void product_nt(float (&s)[N][4], const unsigned char *own,
                                           const unsigned char *stream)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    if constexpr (sizeof(typename M::T) == 2) {
        const lane_place rows = lane_rows(lane), cols = lane_cols(lane);
        const uint32_t a_base = shared_address(own) + swizzle<D>(rows.row, rows.chunk);
        const uint32_t b_base = shared_address(stream) + swizzle<D>(cols.row, cols.chunk);
#pragma unroll 4
        for (int k = 0; k < D / 16; ++k) {
            uint32_t a[4];
            ldmatrix(a, fragment<D>(a_base, 0, k));
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                uint32_t b[4];
                ldmatrix(b, fragment<D>(b_base, n, k));
                mma_bf16(s[2 * n], a, b[0], b[1]);
                mma_bf16(s[2 * n + 1], a, b[2], b[3]);
            }
        }
    } else if constexpr (M::ROUND) {
        const float *a_at = (const float *)own + g * (D + 4) + 2 * t;
        const float *b_at = (const float *)stream + g * (D + 4) + 2 * t;
#pragma unroll 4
        for (int k = 0; k < D; k += 8) {
            const uint2 low = *(const uint2 *)(a_at + k),
                        high = *(const uint2 *)(a_at + 8 * (D + 4) + k);
            const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const uint2 b = *(const uint2 *)(b_at + n * 8 * (D + 4) + k);
                mma_tf32(s[n], a, b.x, b.y);
            }
        }
    } else {
        const float *a_at = (const float *)own + g * (D + 4);
        const float *b_at = (const float *)stream + 2 * t * (D + 4);
#pragma unroll 2
        for (int k = 0; k < D; k += 4) {
            const float4 a[2] = {*(const float4 *)(a_at + k),
                                 *(const float4 *)(a_at + 8 * (D + 4) + k)};
#pragma unroll
            for (int i = 0; i < 4 * N; ++i) {
                const float4 x = a[(i >> 1) & 1];
                const float4 y = *(const float4 *)(b_at + ((i >> 2) * 8 + (i & 1)) * (D + 4) + k);
                float sum = s[i >> 2][i & 3];
                sum = fmaf(x.x, y.x, sum);
                sum = fmaf(x.y, y.y, sum);
                sum = fmaf(x.z, y.z, sum);
                s[i >> 2][i & 3] = fmaf(x.w, y.w, sum);
            }
        }
    }
}

// N columns of 8 from `column0` (a multiple of 128) on; p has BN / 8 = K fragments.
template <typename M, int D, int N, int K>
__device__ __forceinline__ void product_nn(float (&sum)[N][4], const float (&p)[K][4],
                                           const unsigned char *stream, int column0)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    if constexpr (sizeof(typename M::T) == 2) {
        const lane_place rows = lane_rows(lane);
        const uint32_t base =
            shared_address(stream) + (swizzle<D>(rows.row, rows.chunk) ^ (uint32_t)(column0 * 2));
#pragma unroll
        for (int k = 0; k < K / 2; ++k) {
            const uint32_t a[4] = {pack_bf16(p[2 * k][0], p[2 * k][1]),
                                   pack_bf16(p[2 * k][2], p[2 * k][3]),
                                   pack_bf16(p[2 * k + 1][0], p[2 * k + 1][1]),
                                   pack_bf16(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                uint32_t b[4];
                ldmatrix_trans(b, fragment<D>(base, k, n));
                mma_bf16(sum[2 * n], a, b[0], b[1]);
                mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
            }
        }
    } else if constexpr (M::ROUND) {
        // k = t stands for key 2t, k = t + 4 for 2t + 1: C of the product before is A as it is.
        const uint32_t *b_at = (const uint32_t *)stream + 2 * t * (D + 4) + column0 + g;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const uint32_t a[4] = {
                __float_as_uint(round_tf32(p[k][0])), __float_as_uint(round_tf32(p[k][2])),
                __float_as_uint(round_tf32(p[k][1])), __float_as_uint(round_tf32(p[k][3]))};
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const uint32_t *b = b_at + k * 8 * (D + 4) + n * 8;
                mma_tf32(sum[n], a, b[0], b[D + 4]);
            }
        }
    } else {
        const float *b_at = (const float *)stream + column0 + 2 * t;
#pragma unroll
        for (int k = 0; k < K; ++k) {
#pragma unroll
            for (int j = 0; j < 8; ++j) { // key 8 k + j, which lane j / 2 of the quad holds
                const int from = (lane & ~3) | j >> 1;
                const float low = __shfl_sync(0xffffffffU, p[k][j & 1], from);
                const float high = __shfl_sync(0xffffffffU, p[k][2 + (j & 1)], from);
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    const float2 y = *(const float2 *)(b_at + (k * 8 + j) * (D + 4) + n * 8);
                    sum[n][0] = fmaf(low, y.x, sum[n][0]);
                    sum[n][1] = fmaf(low, y.y, sum[n][1]);
                    sum[n][2] = fmaf(high, y.x, sum[n][2]);
                    sum[n][3] = fmaf(high, y.y, sum[n][3]);
                }
            }
        }
    }
}

// ---- dropout -----------------------------------------------------------------------------------

// Words of 32 columns that a row of the mask takes.
template <int BN> constexpr int MASK_WORDS = (BN + 31) / 32;

// A bit for each element of the own tile (rows own0 ..) and the stream tile (columns column0 ..) of
// one query head, 1 where it is kept. KEYS: rows are keys, columns queries.
template <bool KEYS, int BM, int BN, int THREADS>
__device__ __forceinline__ void mask_fill(uint32_t *mask, const dropout_step &with,
                                          const bt_attention_shape &s, int64_t query_head,
                                          int64_t own0, int64_t column0)
{
    constexpr int COUNT = BN < 32 ? BN : 32;
    for (int i = threadIdx.x; i < BM * MASK_WORDS<BN>; i += THREADS) {
        const int64_t row = own0 + i / MASK_WORDS<BN>, column = column0 + i % MASK_WORDS<BN> * 32;
        const uint64_t query = (uint64_t)(query_head * s.q_tokens + (KEYS ? column : row));
        uint64_t element = query * (uint64_t)s.kv_tokens + (uint64_t)(KEYS ? row : column);
        const uint64_t step = KEYS ? (uint64_t)s.kv_tokens : 1;
        uint64_t block = ~(uint64_t)0;
        uint32_t words[PHILOX_WORDS], bits = 0;
#pragma unroll 1
        for (int j = 0; j < COUNT; ++j, element += step) {
            if (element / PHILOX_WORDS != block) {
                block = element / PHILOX_WORDS;
                philox_block(with, (uint32_t)(block >> 32), (uint32_t)block, words);
            }
            bits |= (uint32_t)(philox_word(words, (int)(element % PHILOX_WORDS)) >= with.least)
                    << j;
        }
        mask[i] = bits;
    }
}

template <int BN>
__device__ __forceinline__ bool mask_keeps(const uint32_t *mask, int row, int column)
{
    return mask[row * MASK_WORDS<BN> + column / 32] >> (column % 32) & 1;
}

// ---- results -----------------------------------------------------------------------------------

__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ float value_of(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void value_set(float *to, float x) { *to = x; }
__device__ __forceinline__ void value_set(bf16 *to, float x) { *to = __float2bfloat16_rn(x); }

// Columns column0 + 8 n + 2t and the next of a row, scaled, plus `keep` times what is there.
template <typename T, int N>
__device__ __forceinline__ void row_store(T *row, const float (&sum)[N][4], int half, float scale,
                                          int column0, int head_dim, float keep)
{
    const int first = column0 + ((int)threadIdx.x & 3) * 2;
#pragma unroll
    for (int i = 0; i < 2 * N; ++i) {
        const int column = first + (i >> 1) * 8 + (i & 1);
        if (column < head_dim) {
            const float x = sum[i >> 1][2 * half + (i & 1)] * scale;
            value_set(row + column, !(keep < 0.0f) ? fmaf(keep, value_of(row[column]), x) : x);
        }
    }
}

// Whether all of a head's rows are whole 16-byte chunks.
inline bool view_is_aligned(const bt_attention_view &view, int64_t head_dim, size_t size)
{
    const int64_t chunk = 16 / (int64_t)size;
    return bt_aligned_16(view.base) && view.batch_stride % chunk == 0 &&
           view.token_stride % chunk == 0 && view.head_stride % chunk == 0 && head_dim % chunk == 0;
}

} // namespace
#endif

// kernels/cuda/attention/transposed_tf32_sm90.cu - transposes and rounds tokens of tf32 operands
// Shapes   views of [B, T, H, D] -> see the header; D <= 128, a multiple of 8
// Types    f32, rounded to the nearest tf32; NaN stays NaN
// Plan     a block takes 64 tokens of a head through shared memory; with do it also sums do o
// Cost     reads and writes each operand once; bound by HBM
#include "kernels/cuda/attention/sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"
#include "kernels/cuda/overlap.cuh"

namespace bt_attention_sm90
{
namespace
{

struct operand_part {
    bt_attention_view from;
    float *to;
    int tokens, tiles, heads, blocks; // heads of a batch entry; blocks: of the launch
};
struct pass {
    operand_part parts[TRANSPOSED_MOST];
    int count, head_dim;
    bt_attention_view o; // as in transposition
    const float *lse;
    float *statistics;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ float4 load_chunk(const bt_attention_view &view, int64_t batch,
                                             int64_t head, int token, int column, bool inside)
{
    const float *from = (const float *)view.base + batch * view.batch_stride +
                        head * view.head_stride + token * view.token_stride + column;
    return inside ? *(const float4 *)from : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// lse log2(e) and delta of a row, whose products of do and o so many lanes hold.
template <int LANES>
__device__ __forceinline__ void write_statistics(const pass &p, const operand_part &part, int head,
                                                 int tile, int row, float delta, bool writes)
{
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        delta += __shfl_xor_sync(0xffffffffu, delta, step);
    }
    const int token = tile * BLOCK + row;
    if (writes) {
        float *to = p.statistics + ((int64_t)head * part.tiles + tile) * STATISTICS + row;
        to[0] =
            token < part.tokens ? p.lse[(int64_t)head * part.tokens + token] * LOG2_OF_E : INFINITY;
        to[BLOCK] = delta;
    }
}

#endif

// N: 64-wide column tiles
template <int N> __global__ void __launch_bounds__(256) transpose_tf32(const pass p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int CHUNKS = N * COLUMNS / 4; // 16 bytes of a row
    __shared__ float tile[BLOCK][N * COLUMNS + 1];
    const int which = (int)blockIdx.x >= p.parts[0].blocks ? 1 : 0;
    const operand_part &part = p.parts[which];
    const int place = (int)blockIdx.x - (which ? p.parts[0].blocks : 0);
    const int head = place / part.tiles, tokens = place % part.tiles;
    const int64_t batch = head / part.heads, of = head % part.heads;
    const bool with_rows = p.statistics && which == p.count - 1;
    wait_for_previous();
    for (int i = (int)threadIdx.x; i < BLOCK * CHUNKS; i += 256) {
        const int row = i / CHUNKS, column = i % CHUNKS * 4, token = tokens * BLOCK + row;
        const bool inside = token < part.tokens && column < p.head_dim;
        const float4 x = load_chunk(part.from, batch, of, token, column, inside);
        float *to = &tile[row][column];
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
        if (with_rows) {
            const float4 o = load_chunk(p.o, batch, of, token, column, inside);
            write_statistics<CHUNKS>(p, part, head, tokens, row,
                                     fmaf(x.x, o.x, fmaf(x.y, o.y, fmaf(x.z, o.z, x.w * o.w))),
                                     column == 0);
        }
    }
    __syncthreads();
    float *to = part.to + ((int64_t)head * p.head_dim * part.tiles + tokens) * BLOCK;
    for (int i = (int)threadIdx.x; i < p.head_dim * (BLOCK / 4); i += 256) {
        const int column = i / (BLOCK / 4), at = i % (BLOCK / 4) * 4;
        const int first = (at & ~7) + (at >> 2 & 1); // places at .. at + 3: tokens first + 0 2 4 6
        uint4 x;
        x.x = tf32_of(tile[first][column]);
        x.y = tf32_of(tile[first + 2][column]);
        x.z = tf32_of(tile[first + 4][column]);
        x.w = tf32_of(tile[first + 6][column]);
        *(uint4 *)(to + (int64_t)column * part.tiles * BLOCK + at) = x;
    }
#endif
}

} // namespace

bt_status transpose(const bt_launch *launch, const shape &s, const transposition &what,
                    const char *name)
{
    pass p = {{}, what.count, (int)s.head_dim, what.o, what.lse, what.statistics};
    int blocks = 0;
    for (int i = 0; i < what.count; ++i) {
        const transposed &x = what.operands[i];
        const bool queries = x.of == QUERIES;
        const int64_t heads = queries ? s.heads : s.kv_heads;
        const int64_t tiles = queries ? q_tiles_of(s) : kv_tiles_of(s);
        p.parts[i] = {x.from,     x.to,       (int)(queries ? s.q_tokens : s.kv_tokens),
                      (int)tiles, (int)heads, (int)(s.batch * heads * tiles)};
        blocks += p.parts[i].blocks;
    }
    const cudaStream_t stream = bt_cuda_stream(launch);
    auto *kernel = s.head_dim <= COLUMNS ? transpose_tf32<1> : transpose_tf32<2>;
    launch_after(launch->device, kernel, (unsigned)blocks, 256, 0, stream, p);
    return bt_cuda_launched(name);
}

bt_status map_transposed(const shape &s, const transposed &operand, CUtensorMap *map)
{
    const bool queries = operand.of == QUERIES;
    const cuuint64_t tokens = (cuuint64_t)(queries ? q_tiles_of(s) : kv_tiles_of(s)) * BLOCK;
    const cuuint64_t row = tokens * sizeof(float), dim = (cuuint64_t)s.head_dim;
    const cuuint64_t heads = (cuuint64_t)(s.batch * (queries ? s.heads : s.kv_heads));
    const bt_tensor_map_shape shape = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_SWIZZLE_128B,          4,
        {tokens, dim, heads, 1},         {row, row * dim, row * dim * heads}, {32, COLUMNS, 1, 1}};
    return bt_tensor_map_make(operand.to, &shape, map);
}

} // namespace bt_attention_sm90

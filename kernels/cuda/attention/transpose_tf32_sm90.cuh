// kernels/cuda/attention/transpose_tf32_sm90.cuh - transposes a tile of f32 in shared memory
//
// wgmma requires K-major tf32 operands: in a product whose sum runs over tokens, tokens must be
// contiguous. Warps that do not multiply transpose such a tile after TMA has loaded it: from 64
// tokens by 64 columns (two halves of 32 columns) to 64 columns by 64 tokens (two halves of 32
// tokens), rows of 128 bytes, swizzled. Each 8 tokens are in the order 0 2 4 6 1 3 5 7, in which
// the C fragments of P and dS are A fragments (sm90.cuh, round_tile).
#ifndef BT_KERNELS_CUDA_ATTENTION_TRANSPOSE_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_TRANSPOSE_TF32_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The share of warp `part` of PARTS. `to` may be `from`: the tile is a grid of 8 x 8 blocks of 8 x
// 8 values, and step k exchanges the blocks (g, g ^ k) and (g ^ k, g) for all g; the warp's steps
// are those with k % PARTS = part. A lane takes column lane % 8 and tokens 2 (lane / 8) and one
// more of each block; neither its loads nor its stores meet those of another lane in a bank.
template <int PARTS>
__device__ __forceinline__ void transpose_tile(uint32_t from, uint32_t to, int part, int lane)
{
    static_assert(PARTS == 2 || PARTS == 4, "a warp must find its steps by their low bits");
    const uint32_t column = (uint32_t)lane & 7, pair = (uint32_t)lane >> 3, low = (uint32_t)part;
    uint32_t load =
        from + pair * 256 + ((((column >> 2) ^ (2 * pair)) << 4) ^ (low << 5)) + (column & 3) * 4;
    uint32_t store = to + column * 144 + pair * 4; // row and chunk `column`
    // Else the compiler keeps what it derives from them between calls, and spills.
    asm volatile("" : "+r"(load), "+r"(store));
#pragma unroll
    for (uint32_t k = 0; k < 8; k += PARTS) {
        uint32_t v[16]; // of each block the even tokens, then the odd ones
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            const uint32_t g = i >> 1, odd = i & 1, e = g ^ k;
            v[i] = load_word((load ^ ((e & 3) << 5) ^ (odd << 4)) + odd * 128 + g * 1024 +
                             (e >> 2) * TILE);
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            const uint32_t g = i >> 1, odd = i & 1, e = g ^ k;
            const uint32_t row = (e & ~(uint32_t)(PARTS - 1)) + ((e & (PARTS - 1)) ^ low);
            store_word((store ^ ((g & 3) << 5) ^ (odd << 4)) + row * 1024 + (g >> 2) * TILE, v[i]);
        }
    }
}

#endif

} // namespace
} // namespace bt_attention_sm90
#endif

// kernels/cuda/attention/transposed_tf32_sm90.h - operands of tf32 products whose sum runs over
//   tokens
//
// wgmma requires K-major tf32 operands: tokens must be contiguous. A pass writes the operand
// transposed and rounded to tf32, as [heads over the batch, D, tiles * 64 tokens], with zeros past
// the last token. Each 8 tokens are in the order 0 2 4 6 1 3 5 7, in which the C fragments of P and
// dS are A fragments (sm90.cuh, round_tile).
#ifndef BT_KERNELS_CUDA_ATTENTION_TRANSPOSED_TF32_SM90_H
#define BT_KERNELS_CUDA_ATTENTION_TRANSPOSED_TF32_SM90_H

#include "kernels/cuda/attention/sm90.h"

namespace bt_attention_sm90
{

constexpr int TRANSPOSED_MOST = 2;

// An operand, and where the pass writes it.
struct transposed {
    bt_attention_view from;
    side of;
    float *to; // [transposed_bytes]
};

// Arguments of the pass.
struct transposition {
    transposed operands[TRANSPOSED_MOST];
    int count;
    // Statistics of rows, for the backward: the last operand is do. NULL: none.
    bt_attention_view o;
    const float *lse;
    float *statistics;
};

inline size_t transposed_bytes(const shape &s, side of)
{
    const int64_t tiles = of == QUERIES ? s.heads * q_tiles_of(s) : s.kv_heads * kv_tiles_of(s);
    return (size_t)(s.batch * tiles * BLOCK * s.head_dim) * sizeof(float);
}
bt_status transpose(const bt_launch *launch, const shape &s, const transposition &what,
                    const char *name);
// Coordinates are token, 0, head over the batch, 0. Boxes are 32 tokens wide.
bt_status map_transposed(const shape &s, const transposed &operand, CUtensorMap *map);

} // namespace bt_attention_sm90
#endif

// kernels/cuda/attention/forward_tf32_sm90.cu - flash attention for Hopper, f32 in memory, products
//   in tf32
//   o = softmax(scale q k^T) v, lse = log sum exp
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 128, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents. Tiles that no
//          query of an item sees are not read
// Types    operands rounded to the nearest tf32 (q and k by TMA as it loads them, v by the pass
//          before, P in registers), fp32 sums and softmax
// Plan     v is transposed and rounded by a pass (transposed_tf32_sm90.h), then forward_sm90.cuh,
//          GENERAL where the mask is not plain
// Bitwise  one warp sums a row, in descending key order; the schedule changes nothing
// Workspace  v transposed; of packed documents also 8 bytes a token
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach other rows whose block sees the key's tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   softmax in float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/forward_sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"

namespace bt_attention_sm90
{
namespace
{

template <int COLUMN_TILES> auto *kernel_for(const shape &s)
{
    return mask_is_plain(s) ? run_forward<tf32_tiles<COLUMN_TILES>, false>
                            : run_forward<tf32_tiles<COLUMN_TILES>, true>;
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_tf32_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    const shape &s = ((const bt_attention_args *)args)->shape;
    return bt_align_256(transposed_bytes(s, KEYS)) + documents_bytes(s);
}

bt_status bt_attention_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    const shape &s = a->shape;
    const size_t at_documents = bt_align_256(transposed_bytes(s, KEYS));
    char *workspace = (char *)launch->workspace;
    bounds *documents = s.starts ? (bounds *)(workspace + at_documents) : nullptr;
    transposition v = {};
    v.operands[0] = {a->v, KEYS, (float *)workspace};
    v.count = 1;
    CUtensorMap v_transposed;
    BT_TRY(check_workspace(launch, "attention tf32", at_documents + documents_bytes(s)));
    BT_TRY(map_transposed(s, v.operands[0], &v_transposed));
    BT_TRY(transpose(launch, s, v, "attention tf32, transposition"));
    if (documents) {
        BT_TRY(find_documents(launch, s, documents));
    }
    auto *run = s.head_dim <= COLUMNS ? kernel_for<1>(s) : kernel_for<2>(s);
    return run(launch, "attention tf32", a, &v_transposed, documents);
}

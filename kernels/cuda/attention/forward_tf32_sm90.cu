// kernels/cuda/attention/forward_tf32_sm90.cu - flash attention for Hopper, f32 in memory, products
//   in tf32
//   o = softmax(scale q k^T) v, lse = log sum exp
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 128, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents. Tiles that no
//          query of an item sees are not read
// Types    operands rounded to the nearest tf32 (q, k and v by TMA as it loads them, P in
//          registers), fp32 sums and softmax
// Plan     forward_sm90.cuh, GENERAL where the mask is not plain; v is transposed in shared memory
//          (transpose_tf32_sm90.cuh)
// Bitwise  one warp sums a row, in descending key order; the schedule changes nothing
// Workspace  of packed documents 8 bytes a token
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach other rows whose block sees the key's tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   softmax in float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/forward_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// Tiles of queries up to which items of two take less time than items of three.
constexpr int FEW_TILES = 640;

auto *kernel_for(const shape &s)
{
    const bool few = s.batch * s.heads * q_tiles_of(s) <= FEW_TILES;
    return s.head_dim > COLUMNS ? mask_is_plain(s) ? run_forward<tf32_tiles<2>, false>
                                                   : run_forward<tf32_tiles<2>, true>
           : !mask_is_plain(s) ? run_forward<tf32_tiles<1>, true>
           : few                ? run_forward<tf32_tiles<1>, false, true>
                                : run_forward<tf32_tiles<1>, false>;
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_tf32_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    return documents_bytes(((const bt_attention_args *)args)->shape);
}

bt_status bt_attention_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    const shape &s = a->shape;
    bounds *documents = s.starts ? (bounds *)launch->workspace : nullptr;
    BT_TRY(check_workspace(launch, "attention tf32", documents_bytes(s)));
    if (documents) {
        BT_TRY(find_documents(launch, s, documents));
    }
    return kernel_for(s)(launch, "attention tf32", a, documents);
}

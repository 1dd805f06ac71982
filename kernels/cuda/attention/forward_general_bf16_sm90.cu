// kernels/cuda/attention/forward_general_bf16_sm90.cu - the bf16 forward for Hopper of any mask
//   o = softmax(scale q k^T) v, lse = log sum exp, over the keys that a query sees
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 256, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents. Tiles that no
//          query of an item sees are not read
// Types    bf16 operands, fp32 sums and softmax; P is rounded to bf16 before P v
// Plan     forward_sm90.cuh
// Bitwise  one warp sums a row, in descending key order; the schedule changes nothing
// Workspace  of packed documents: 8 bytes a token
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach other rows whose block sees the key's tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   softmax in float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/forward_sm90.cuh"

size_t bt_attention_general_bf16_sm90_workspace(const bt_device *, const void *args)
{
    return bt_attention_sm90::documents_bytes(((const bt_attention_args *)args)->shape);
}

bt_status bt_attention_general_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    constexpr const char *NAME = "attention bf16, any mask";
    const bt_attention_args *a = (const bt_attention_args *)args;
    bounds *documents = a->shape.starts ? (bounds *)launch->workspace : nullptr;
    BT_TRY(check_workspace(launch, NAME, documents_bytes(a->shape)));
    if (documents) {
        BT_TRY(find_documents(launch, a->shape, documents));
    }
    auto *run = a->shape.head_dim <= COLUMNS       ? run_forward<bf16_tiles<1>, true>
                : a->shape.head_dim <= 2 * COLUMNS ? run_forward<bf16_tiles<2>, true>
                                                   : run_forward<bf16_tiles<4>, true>;
    return run(launch, NAME, a, documents);
}

// kernels/cuda/attention/backward_general_bf16_sm90.cu - the bf16 backward for Hopper of any mask
//   with p = exp(scale q k^T - lse) of the pairs that see each other, dp = do v^T,
//   delta = rowsum(do o), ds = p (dp - delta): dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 128, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents, accumulation
// Types    as in backward_bf16_sm90.cu
// Plan     queries_sm90.cuh gives dq and the row statistics, keys_bf16_sm90.cuh dk and dv, query
//          heads of a key/value head in ascending order
// Bitwise  fixed order of each sum, no atomics; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row; of packed documents another 8 bytes a token
// NaN      as in backward_bf16_sm90.cu; in k, v, q or do it may also reach rows whose block meets
//          its tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/backward_bf16_sm90.cuh"

size_t bt_attention_backward_general_bf16_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    const shape &s = ((const bt_attention_backward_args *)args)->shape;
    return statistics_bytes(s) + documents_bytes(s);
}

bt_status bt_attention_backward_general_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape &s = a->shape;
    const size_t rows = statistics_bytes(s);
    char *workspace = (char *)launch->workspace;
    bounds *documents = s.starts ? (bounds *)(workspace + rows) : nullptr;
    BT_TRY(check_workspace(launch, "attention backward bf16, any mask", rows + documents_bytes(s)));
    if (documents) {
        BT_TRY(find_documents(launch, s, documents));
    }
    auto *run = s.head_dim <= COLUMNS ? run_backward<bf16_tiles<1>, true>
                                      : run_backward<bf16_tiles<2>, true>;
    return run(launch, a, (float *)workspace, documents);
}

// kernels/cuda/attention/forward_bf16_sm90.cu - flash attention for Hopper, bf16 in and out
//   o = softmax(scale q k^T) v, lse = log sum exp
// Shapes   views of [B, T, H, D], lse [B, H, T] f32; D <= 128, a multiple of 8; grouped heads;
//          full, or causal with as many keys as queries, any number of them
// Types    bf16 operands, fp32 sums and softmax; P is rounded to bf16 before P v
// Plan     pairs_bf16_sm90.cuh up to 64 columns, split_bf16_sm90.cuh for few heads of them,
//          forward_sm90.cuh beyond
// Bitwise  a fixed order of each sum, given by the shape alone; the schedule changes nothing
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach earlier rows of the same tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu
// Oracle   softmax in float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; Shah et al. 2024, arXiv:2407.08608; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/split_bf16_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

bt_status run_pairs(const bt_launch *launch, const bt_attention_args *a)
{
    constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const shape &s = a->shape;
    forward_maps maps;
    BT_TRY(map_view(s, QUERIES, &a->q, TYPE, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, TYPE, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, TYPE, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->o, TYPE, &maps.o));
    if (split::pays(s) && !a->accumulate) {
        return split::run(launch, a, maps);
    }
    const forward_rows rows = forward_rows_of(a);
    const void *kernel = a->accumulate ? (const void *)pairs::forward_pairs<true>
                                       : (const void *)pairs::forward_pairs<false>;
    return start(launch, kernel, {"attention bf16", pairs::THREADS, pairs::SHARED}, &maps,
                 work_make(s, QUERIES, 2, 2 * launch->device->info.processor_count), &rows);
}

} // namespace
} // namespace bt_attention_sm90

bt_status bt_attention_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    return a->shape.head_dim <= COLUMNS ? run_pairs(launch, a)
                                        : run_forward<bf16_tiles<2>, false>(
                                              launch, "attention bf16, wide heads", a, nullptr);
}

// kernels/cuda/attention/backward_bf16_sm90.cuh - runs the two kernels of the bf16 backward
#ifndef BT_KERNELS_CUDA_ATTENTION_BACKWARD_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_BACKWARD_BF16_SM90_CUH

#include "kernels/cuda/attention/keys_bf16_sm90.cuh"
#include "kernels/cuda/attention/queries_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

template <class F, bool GENERAL>
bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a,
                      float *statistics, const bounds *documents)
{
    const shape &s = a->shape;
    using kernel = queries<F, GENERAL>;
    query_maps maps = {};
    maps.adds = a->accumulate_dq;
    BT_TRY(map_view(s, QUERIES, &a->q, F::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, F::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, F::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->o, F::LOADED, &maps.o));
    BT_TRY(map_view(s, QUERIES, &a->d_o, F::LOADED, &maps.d_o));
    BT_TRY(map_view(s, QUERIES, &a->dq, F::STORED, &maps.dq));
    work w = work_make(s, QUERIES, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward bf16, queries", maps, w,
                                {(const float *)a->lse, statistics});
}

template <class F, bool GENERAL>
bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a,
                   const float *statistics, const bounds *documents)
{
    const shape &s = a->shape;
    using kernel = keys<F, GENERAL>;
    key_maps maps = {};
    maps.adds = a->accumulate_dkv;
    BT_TRY(map_view(s, QUERIES, &a->q, F::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, F::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, F::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, F::LOADED, &maps.d_o));
    BT_TRY(map_view(s, KEYS, &a->dk, F::STORED, &maps.dk));
    BT_TRY(map_view(s, KEYS, &a->dv, F::STORED, &maps.dv));
    BT_TRY(map_statistics(s, statistics, &maps.statistics));
    work w = work_make(s, KEYS, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward bf16, keys", maps, w, nullptr);
}

// The gradients that are wanted. `documents`: NULL, or the bounds of each token's document.
template <class F, bool GENERAL>
bt_status run_backward(const bt_launch *launch, const bt_attention_backward_args *a,
                       float *statistics, const bounds *documents)
{
    BT_TRY((a->dq.base ? run_queries<F, GENERAL>(launch, a, statistics, documents)
                       : statistics_of_delta(launch, a, statistics)));
    if (a->delta && !a->delta_given) {
        BT_TRY(delta_of_statistics(launch, a, statistics));
    }
    return a->dk.base ? run_keys<F, GENERAL>(launch, a, statistics, documents) : BT_OK;
}

} // namespace
} // namespace bt_attention_sm90
#endif

// kernels/cuda/gemm/bf16_block_sm90.cuh - one block of the Hopper GEMM in bf16: the pipeline of
//   bf16_sm90.cuh and the configured epilogue
#ifndef BT_KERNELS_CUDA_GEMM_BF16_BLOCK_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_BF16_BLOCK_SM90_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/epilogue_bf16_sm90.cuh"
#include "kernels/cuda/gemm/epilogue_f32_sm90.cuh"

namespace bt_gemm_sm90
{

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class C, class WORK>
static __device__ __forceinline__ void consume(WORK work, const shared_map<C> &shared,
                                               unsigned char *memory, int index)
{
    const consumer me(index);
    const uint32_t boxes = shared.boxes(index);
    float *bias = shared.bias(memory, index);
    int position = 0, turn = 0, used = 0;
    tile_sums<C> sums;
    if (C::EPILOGUE == EPILOGUE_DGELU && me.thread < 4) {
        bias[me.thread] = 0.0f;
    }
    while (work.more()) {
        const unit t = work.next();
        const problem &p = work.product();
        const int begin = position;
        position += t.k_end - t.k_begin;
        if (!C::SHARED_TILE && (turn++ & 1) != index) {
            continue;
        }
        if (C::BIASED) {
            load_bias<C>(p, t, me, bias); // while the other consumer multiplies
        }
        if (!C::SHARED_TILE && turn > 1) {
            barrier_sync(ORDER + index, CONSUMERS * GROUP_THREADS);
        }
        if constexpr (C::EPILOGUE == EPILOGUE_ADD || C::EPILOGUE == EPILOGUE_DGELU) {
            begin_boxes<C>(p, t, me, shared, used);
        }
        multiply<C>(sums, shared, begin, t.k_end - t.k_begin, 1 - index, work.more());
        if constexpr (C::EPILOGUE == EPILOGUE_F32) {
            finish_f32<C>(p, t, me, sums, bias, boxes, used);
        } else if constexpr (C::EPILOGUE == EPILOGUE_ADD || C::EPILOGUE == EPILOGUE_DGELU) {
            finish_with_input<C>(p, t, me, sums, bias, shared, used);
        } else if constexpr (C::EPILOGUE == EPILOGUE_EXP) {
            finish_exp<C>(p, t, me, sums, boxes, used);
        } else {
            finish_store<C>(p, t, me, sums, bias, boxes, used);
        }
        if (me.leads()) {
            work.written(t);
        }
    }
    if (me.leads()) {
        tma_store_wait<0>(); // shared memory must stay valid until the stores have read it
    }
}

template <class C, class WORK> static __device__ __forceinline__ void run_block(WORK work)
{
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    // The role, the same for the whole warp: ptxas must see that it is.
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    const bool sums_a = SUMMERS<C> > 0 && work.product().a_sums;
    if (threadIdx.x == 0) {
        init_barriers<C>(shared, 1, (C::SHARED_TILE ? CONSUMERS : 1) + (sums_a ? SUMMERS<C> : 0));
        tma_prefetch(&work.product().a);
        tma_prefetch(&work.product().b);
    }
    __syncthreads();
    wait_for_predecessor();
    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) {
            produce<C>(work, shared);
        }
        if constexpr (SUMMERS < C >> 0) {
            if (sums_a && threadIdx.x >= 32 && summer_index() < SUMMERS<C>) {
                sum_columns<C>(work, shared);
            }
        }
    } else {
        registers_take<232>();
        consume<C>(work, shared, memory, role - 1);
    }
}
#endif

} // namespace bt_gemm_sm90

#endif

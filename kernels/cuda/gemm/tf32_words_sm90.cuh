// kernels/cuda/gemm/tf32_words_sm90.cuh - an MN-major A in the consumers of tf32 products
//   The layout of its words in shared memory, and the sums of op(A)'s rows.
//
// A stage of A consists of pieces 32 wide, each with 32 rows of K of 128 bytes in TMA's swizzle. Of
// 8 positions of a k-block, 0..3 stand for k = 0, 2, 4, 6 and 4..7 for 1, 3, 5, 7. So a thread's
// two words of a step are neighbours in k, and reads of A have no bank conflicts. B has the same
// order.
#ifndef BT_KERNELS_CUDA_GEMM_TF32_WORDS_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_TF32_WORDS_SM90_CUH

#include "kernels/cuda/gemm/work_sm90.cuh"

namespace bt_gemm_sm90
{

// Addresses of the words of a thread's fragments in a stage of A: rows r and r + 8 of a fragment,
// at positions c (half 0) and c + 4 (half 1) of a step's eight.
template <class C> struct a_places {
    uint32_t at[2][2]; // [half][row]; of step 0, part 0

    __device__ __forceinline__ explicit a_places(int index)
    {
        const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
        const int m = row_of<C>(index) + 16 * warp + lane / 4, c = lane % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const int r = m + 8 * row, k = 2 * c + half;
                at[half][row] =
                    r / 32 * 32 * 128 + k * 128 + ((r % 32 / 4 ^ (k & 7)) << 4) + r % 4 * 4;
            }
        }
    }
    // Word of a step and part.
    __device__ __forceinline__ uint32_t of(int half, int row, int step, int part) const
    {
        return at[half][row] + step * 8 * 128 + part * 2 * 32 * 128;
    }
};

// A thread's part of the sums of op(A)'s rows: of its rows r and r + 8 of each 64.
template <class C> using row_sums = float[C::M_PARTS][2];

// Reduces the unit's sums over groups of four lanes and writes them to p.a_sums; called for the
// first tile of a row of tiles.
template <class C>
static __device__ __forceinline__ void put_row_sums(const problem &p, const unit &t, int index,
                                                    row_sums<C> &rows)
{
    const int lane = (int)threadIdx.x % 32;
    const int m = t.m + row_of<C>(index) + (int)threadIdx.x % GROUP_THREADS / 32 * 16 + lane / 4;
    const bool writes = p.a_sums && t.n == 0 && lane % 4 == 0;
    float *to = p.a_sums + (int64_t)t.split * p.m + m;
#pragma unroll
    for (int i = 0; i < 2 * C::M_PARTS; ++i) {
        float sum = rows[i / 2][i % 2];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        const int at = i / 2 * 64 + i % 2 * 8;
        if (writes && m + at < p.m) {
            to[at] = sum;
        }
    }
}

template <class C>
static __device__ __forceinline__ void give_back(const shared_map<C> &shared, int stage)
{
    if (stage >= 0 && threadIdx.x % 32 == 0) {
        mbarrier_arrive(shared.empty(stage));
    }
}

} // namespace bt_gemm_sm90

#endif

// kernels/cuda/attention/delta_sm90.cu - delta of a backward call from or for its row statistics
// Shapes   lse and delta [B, H, q_tokens] f32, statistics as in sm90.h
// Cost     reads and writes 8 or 16 bytes a query
#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/overlap.cuh"

namespace bt_attention_sm90
{
namespace
{

constexpr int DELTA_THREADS = 256;

struct delta_args {
    const float *lse;
    float *delta, *statistics;
    int64_t rows; // of all heads' tiles
    int tokens, padded;
};

// A thread takes a row of a tile. TO_STATISTICS, or from them.
template <bool TO_STATISTICS>
__global__ void __launch_bounds__(DELTA_THREADS) copy_delta(const delta_args p)
{
    const int64_t row = (int64_t)blockIdx.x * DELTA_THREADS + threadIdx.x;
    const int64_t head = row / p.padded;
    const int token = (int)(row - head * p.padded);
    const bool inside = token < p.tokens;
    const int64_t query = head * p.tokens + token;
    float *tile = p.statistics + row / BLOCK * STATISTICS + row % BLOCK;
    wait_for_previous();
    allow_next();
    if (row >= p.rows) {
        return;
    }
    if (TO_STATISTICS) {
        tile[0] = inside ? p.lse[query] * LOG2_OF_E : INFINITY;
        tile[BLOCK] = inside ? p.delta[query] : 0.0f;
    } else if (inside) {
        p.delta[query] = tile[BLOCK];
    }
}

bt_status launch_copy(const bt_launch *launch, const bt_attention_backward_args *a,
                      float *statistics, bool to_statistics)
{
    const shape &s = a->shape;
    const int64_t padded = q_tiles_of(s) * BLOCK, rows = s.batch * s.heads * padded;
    const delta_args p = {(const float *)a->lse, (float *)a->delta, statistics, rows,
                          (int)s.q_tokens,       (int)padded};
    launch_after(launch->device, to_statistics ? copy_delta<true> : copy_delta<false>,
                 (unsigned)bt_div_up(rows, DELTA_THREADS), DELTA_THREADS, 0, bt_cuda_stream(launch),
                 p);
    return bt_cuda_launched("attention backward, delta");
}

} // namespace

bt_status statistics_of_delta(const bt_launch *launch, const bt_attention_backward_args *a,
                              float *statistics)
{
    return launch_copy(launch, a, statistics, true);
}

bt_status delta_of_statistics(const bt_launch *launch, const bt_attention_backward_args *a,
                              const float *statistics)
{
    return launch_copy(launch, a, (float *)statistics, false);
}

} // namespace bt_attention_sm90

// kernels/cpu/lanes.inl - reductions over a contiguous row, in BT_LANES partial results
//
// Lane j takes the elements i with i % BT_LANES == j; the lanes are added pairwise. The source
// fixes this order: every machine and number of threads gives the same bits. Sums are double. The
// lanes are arrays in loops of constant length: gcc and clang keep these in registers of any size,
// but keep compiler vectors longer than a register in memory. For inclusion in a body (see both.h).
// NaN: sums propagate it; the maximum ignores it.
#include <stdint.h>

// Prefetches the BT_LANES elements `ahead` bytes later, at any address: a prefetch never faults.
BT_INLINE void FN(prefetch_lanes)(const REAL *x, int64_t ahead)
{
    bt_prefetch(x, ahead, BT_LANES * sizeof(REAL));
}

// lanes[j] += part[j]
BT_INLINE void FN(widen_lanes)(const REAL *part, double *lanes)
{
    for (int j = 0; j < BT_LANES; ++j) {
        lanes[j] += (double)part[j];
    }
}

// Overwrites the lanes.
BT_INLINE double FN(add_lanes)(double *lanes)
{
#define ADD_HALF(width)                                                                            \
    for (int j = 0; j < (width); ++j) {                                                            \
        lanes[j] += lanes[j + (width)];                                                            \
    }
    ADD_HALF(16)
    ADD_HALF(8)
    ADD_HALF(4)
    ADD_HALF(2)
#undef ADD_HALF
    return lanes[0] + lanes[1];
}

// sum[j] += the elements of lane j
BT_INLINE void FN(sum_lanes)(const REAL *x, int64_t count, double *sum)
{
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i, BT_AHEAD);
        for (int j = 0; j < BT_LANES; ++j) {
            sum[j] += (double)x[i + j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        sum[j] += (double)x[i + j];
    }
}

BT_INLINE double FN(row_sum)(const REAL *x, int64_t count)
{
    double sum[BT_LANES] = {0};
    FN(sum_lanes)(x, count, sum);
    return FN(add_lanes)(sum);
}

// sum[j] += the squares of lane j
BT_INLINE void FN(square_lanes)(const REAL *x, int64_t count, double *sum)
{
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i, BT_AHEAD);
        for (int j = 0; j < BT_LANES; ++j) {
            sum[j] += (double)x[i + j] * (double)x[i + j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        sum[j] += (double)x[i + j] * (double)x[i + j];
    }
}

BT_INLINE double FN(row_dot)(const REAL *x, const REAL *y, int64_t count)
{
    double sum[BT_LANES] = {0};
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i, BT_AHEAD);
        FN(prefetch_lanes)(y + i, BT_AHEAD);
        for (int j = 0; j < BT_LANES; ++j) {
            sum[j] += (double)x[i + j] * (double)y[i + j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        sum[j] += (double)x[i + j] * (double)y[i + j];
    }
    return FN(add_lanes)(sum);
}

// -infinity for an empty row.
BT_INLINE REAL FN(row_max)(const REAL *x, int64_t count)
{
    REAL lane[BT_LANES];
    int64_t i = 0;
    for (int j = 0; j < BT_LANES; ++j) {
        lane[j] = R(-INFINITY);
    }
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i, BT_AHEAD);
        for (int j = 0; j < BT_LANES; ++j) {
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
#define MAX_HALF(width)                                                                            \
    for (int j = 0; j < (width); ++j) {                                                            \
        lane[j] = lane[j + (width)] > lane[j] ? lane[j + (width)] : lane[j];                       \
    }
    MAX_HALF(16)
    MAX_HALF(8)
    MAX_HALF(4)
    MAX_HALF(2)
#undef MAX_HALF
    return lane[1] > lane[0] ? lane[1] : lane[0];
}

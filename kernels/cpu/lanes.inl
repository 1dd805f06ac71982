// kernels/cpu/lanes.inl - reductions over a contiguous row, in BT_LANES partial results
//
// Lane j takes the elements i with i % BT_LANES == j; the lanes are added up pairwise. That order
// is the source's own: every machine and every thread count gives the same bits. Sums are double.
// The lanes are vectors of the compiler (GNU C), which it cuts to the machine's size: a loop over
// an array of lanes is not reliably recognised as that.
// For inclusion in a body (see both.h). NaN: sums propagate it; the maximum passes over it.
#include <stdint.h>
#include <string.h>

typedef REAL FN(real_lanes) __attribute__((vector_size(BT_LANES * sizeof(REAL))));
typedef double FN(double_lanes) __attribute__((vector_size(BT_LANES * sizeof(double))));

BT_INLINE void FN(load_lanes)(const REAL *x, FN(real_lanes) * lanes)
{
    memcpy(lanes, x, sizeof *lanes);
}

// Asks for the lanes BT_AHEAD bytes on, also beyond the row: the next one is likely to be wanted,
// and a prefetch never faults.
BT_INLINE void FN(prefetch_lanes)(const REAL *x)
{
    const uintptr_t at = (uintptr_t)x + BT_AHEAD; // no pointer: it may lie outside the array
    for (size_t line = 0; line < sizeof(FN(real_lanes)); line += 64) {
        __builtin_prefetch((const void *)(at + line));
    }
}

// lanes += the lanes of `part`, widened
BT_INLINE void FN(widen_lanes)(const FN(real_lanes) * part, FN(double_lanes) * lanes)
{
    *lanes += __builtin_convertvector(*part, FN(double_lanes));
}

BT_INLINE double FN(add_lanes)(const FN(double_lanes) * lanes)
{
    double sum[BT_LANES];
    memcpy(sum, lanes, sizeof sum);
    for (int width = BT_LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) {
            sum[j] += sum[j + width];
        }
    }
    return sum[0];
}

BT_INLINE double FN(row_sum)(const REAL *x, int64_t count)
{
    FN(double_lanes) sum = {0};
    FN(real_lanes) part;
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i);
        FN(load_lanes)(x + i, &part);
        FN(widen_lanes)(&part, &sum);
    }
    for (int j = 0; i + j < count; ++j) {
        sum[j] += (double)x[i + j];
    }
    return FN(add_lanes)(&sum);
}

// sum_i (x[i] - center)^2
BT_INLINE double FN(row_squares)(const REAL *x, int64_t count, double center)
{
    FN(double_lanes) sum = {0};
    FN(real_lanes) part;
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(load_lanes)(x + i, &part);
        const FN(double_lanes) offset = __builtin_convertvector(part, FN(double_lanes)) - center;
        sum += offset * offset;
    }
    for (int j = 0; i + j < count; ++j) {
        const double offset = (double)x[i + j] - center;
        sum[j] += offset * offset;
    }
    return FN(add_lanes)(&sum);
}

BT_INLINE double FN(row_dot)(const REAL *x, const REAL *y, int64_t count)
{
    FN(double_lanes) sum = {0};
    FN(real_lanes) left, right;
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        FN(prefetch_lanes)(x + i);
        FN(prefetch_lanes)(y + i);
        FN(load_lanes)(x + i, &left);
        FN(load_lanes)(y + i, &right);
        sum += __builtin_convertvector(left, FN(double_lanes)) *
               __builtin_convertvector(right, FN(double_lanes));
    }
    for (int j = 0; i + j < count; ++j) {
        sum[j] += (double)x[i + j] * (double)y[i + j];
    }
    return FN(add_lanes)(&sum);
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
        FN(prefetch_lanes)(x + i);
        for (int j = 0; j < BT_LANES; ++j) {
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
    for (int j = 1; j < BT_LANES; ++j) {
        lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
    }
    return lane[0];
}

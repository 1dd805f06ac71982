// kernels/cpu/lanes.inl - reductions over a contiguous row, in BT_LANES partial results
//
// Lane j takes the elements i with i % BT_LANES == j; the lanes are added up pairwise. That order
// is the source's own: every machine and every thread count gives the same bits. Sums are double.
// For inclusion in a body (see both.h). NaN: sums propagate it; the maximum passes over it.
BT_INLINE double FN(add_lanes)(double lane[BT_LANES])
{
    for (int width = BT_LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) {
            lane[j] += lane[j + width];
        }
    }
    return lane[0];
}

BT_INLINE double FN(row_sum)(const REAL *x, int64_t count)
{
    double lane[BT_LANES] = {0};
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        for (int j = 0; j < BT_LANES; ++j) {
            lane[j] += (double)x[i + j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        lane[j] += (double)x[i + j];
    }
    return FN(add_lanes)(lane);
}

// sum_i (x[i] - center)^2
BT_INLINE double FN(row_squares)(const REAL *x, int64_t count, double center)
{
    double lane[BT_LANES] = {0};
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        for (int j = 0; j < BT_LANES; ++j) {
            const double offset = (double)x[i + j] - center;
            lane[j] += offset * offset;
        }
    }
    for (int j = 0; i + j < count; ++j) {
        const double offset = (double)x[i + j] - center;
        lane[j] += offset * offset;
    }
    return FN(add_lanes)(lane);
}

BT_INLINE double FN(row_dot)(const REAL *x, const REAL *y, int64_t count)
{
    double lane[BT_LANES] = {0};
    int64_t i = 0;
    for (; i + BT_LANES <= count; i += BT_LANES) {
        for (int j = 0; j < BT_LANES; ++j) {
            lane[j] += (double)x[i + j] * (double)y[i + j];
        }
    }
    for (int j = 0; i + j < count; ++j) {
        lane[j] += (double)x[i + j] * (double)y[i + j];
    }
    return FN(add_lanes)(lane);
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

// kernels/cpu/unary.inl - body of unary.c for one type
#define UNARY(NAME, VALUE, SLOPE)                                                                  \
    BT_CLONES static void FN(forward_##NAME)(const REAL *x_row, REAL *y_row, int64_t count,        \
                                             REAL alpha)                                           \
    {                                                                                              \
        (void)alpha;                                                                               \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const REAL x = x_row[i];                                                               \
            y_row[i] = VALUE;                                                                      \
        }                                                                                          \
    }                                                                                              \
    BT_CLONES static void FN(backward_##NAME)(const REAL *x_row, const REAL *dy, REAL *dx,         \
                                              int64_t count, REAL alpha)                           \
    {                                                                                              \
        (void)alpha, (void)x_row;                                                                  \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const REAL x = x_row[i];                                                               \
            (void)x;                                                                               \
            dx[i] = dy[i] * SLOPE;                                                                 \
        }                                                                                          \
    }                                                                                              \
    BT_CLONES static void FN(backward_add_##NAME)(const REAL *x_row, const REAL *dy, REAL *dx,     \
                                                  int64_t count, REAL alpha)                       \
    {                                                                                              \
        (void)alpha, (void)x_row;                                                                  \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const REAL x = x_row[i];                                                               \
            (void)x;                                                                               \
            dx[i] += dy[i] * SLOPE;                                                                \
        }                                                                                          \
    }

// ReLU propagates NaN; its slope at 0 is 0.
UNARY(GELU, FN(bt_gelu)(x), FN(bt_gelu_slope)(x))
UNARY(RELU, (x < 0 ? 0 : x), (x <= 0 ? R(0) : R(1)))
UNARY(SILU, FN(bt_silu)(x), FN(bt_silu_slope)(x))
UNARY(TANH, FN(bt_tanh)(x), FN(bt_tanh_slope)(x))
UNARY(SIGMOID, FN(bt_sigmoid)(x), FN(bt_sigmoid_slope)(x))
UNARY(EXP, FN(bt_exp)(x), FN(bt_exp)(x))
UNARY(LOG, FN(bt_log)(x), (1 / x))
UNARY(SQRT, FN(bt_sqrt)(x), (R(0.5) / FN(bt_sqrt)(x)))
UNARY(NEGATE, (-x), R(-1))
UNARY(SQUARE, (x * x), (2 * x))
UNARY(SCALE, (alpha * x), alpha)
UNARY(SHIFT, (x + alpha), R(1))
#undef UNARY

bt_status FN(bt_unary_cpu)(const bt_launch *launch, const void *args)
{
    static void (*const functions[])(const REAL *, REAL *, int64_t, REAL) = {
#define UNARY_ROW(name, text) FN(forward_##name),
        BT_UNARY_LIST(UNARY_ROW)
#undef UNARY_ROW
    };
    (void)launch;
    const bt_unary_args *op = args;
    const REAL *x = op->x;
    REAL *y = op->y;
    if ((unsigned)op->function >= BT_UNARY_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unary function %d", (int)op->function);
    }
    const bool past = y != x && bt_stream_wanted(op->count * (int64_t)sizeof(REAL));
    const int64_t step = past ? BT_STREAM_BLOCK : BT_CHUNK;
    const int64_t blocks = (op->count + step - 1) / step;
#pragma omp parallel if (op->count > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_BLOCK];
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; ++i) {
            const int64_t at = (past ? bt_stream_order(i, blocks) : i) * step;
            const int64_t count = op->count - at < step ? op->count - at : step;
            if (past) {
                bt_stream_ask(x, i, blocks, sizeof made);
            }
            functions[op->function](x + at, past ? made : y + at, count, R(op->alpha));
            if (past) {
                bt_stream_out(y + at, made, (size_t)count * sizeof(REAL));
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}

bt_status FN(bt_unary_backward_cpu)(const bt_launch *launch, const void *args)
{
    static void (*const functions[][2])(const REAL *, const REAL *, REAL *, int64_t, REAL) = {
#define UNARY_ROW(name, text) {FN(backward_##name), FN(backward_add_##name)},
        BT_UNARY_LIST(UNARY_ROW)
#undef UNARY_ROW
    };
    (void)launch;
    const bt_unary_backward_args *op = args;
    const REAL *x = op->x, *dy = op->dy;
    REAL *dx = op->dx;
    if ((unsigned)op->function >= BT_UNARY_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unary function %d", (int)op->function);
    }
    // Outputs that are accumulated, or in place, are read anyway.
    const bool past = !op->accumulate && dx != dy && dx != x &&
                      bt_stream_wanted(op->count * (int64_t)sizeof(REAL));
    const int64_t step = past ? BT_STREAM_BLOCK : BT_CHUNK;
    const int64_t blocks = (op->count + step - 1) / step;
#pragma omp parallel if (op->count > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_BLOCK];
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; ++i) {
            const int64_t at = (past ? bt_stream_order(i, blocks) : i) * step;
            const int64_t count = op->count - at < step ? op->count - at : step;
            if (past) {
                bt_stream_ask(x, i, blocks, sizeof made);
                bt_stream_ask(dy, i, blocks, sizeof made);
            }
            functions[op->function][op->accumulate](x + at, dy + at, past ? made : dx + at, count,
                                                    R(op->alpha));
            if (past) {
                bt_stream_out(dx + at, made, (size_t)count * sizeof(REAL));
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}

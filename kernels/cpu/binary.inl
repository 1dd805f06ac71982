// kernels/cpu/binary.inl - body of binary.c for one type
#define BINARY(NAME, SYMBOL)                                                                       \
    BT_CLONES static void FN(row_##NAME)(const REAL *a, int64_t a_stride, const REAL *b,           \
                                         int64_t b_stride, REAL *y, int64_t count)                 \
    {                                                                                              \
        if (a_stride == 1 && b_stride == 1) {                                                      \
            for (int64_t i = 0; i < count; ++i) {                                                  \
                y[i] = a[i] SYMBOL b[i];                                                           \
            }                                                                                      \
        } else if (a_stride == 1 && b_stride == 0) {                                               \
            const REAL right = *b;                                                                 \
            for (int64_t i = 0; i < count; ++i) {                                                  \
                y[i] = a[i] SYMBOL right;                                                          \
            }                                                                                      \
        } else if (a_stride == 0 && b_stride == 1) {                                               \
            const REAL left = *a;                                                                  \
            for (int64_t i = 0; i < count; ++i) {                                                  \
                y[i] = left SYMBOL b[i];                                                           \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < count; ++i) {                                                  \
                y[i] = a[i * a_stride] SYMBOL b[i * b_stride];                                     \
            }                                                                                      \
        }                                                                                          \
    }

BINARY(ADD, +)
BINARY(SUB, -)
BINARY(MUL, *)
BINARY(DIV, /)
#undef BINARY

bt_status FN(bt_binary_cpu)(const bt_launch *launch, const void *args)
{
    static void (*const functions[])(const REAL *, int64_t, const REAL *, int64_t, REAL *,
                                     int64_t) = {
#define BINARY_ROW(name, text) FN(row_##name),
        BT_BINARY_LIST(BINARY_ROW)
#undef BINARY_ROW
    };
    (void)launch;
    const bt_binary_args *op = args;
    bt_strided walk;
    BT_TRY(walk_of(op, &walk));
    const REAL *a = op->a, *b = op->b;
    REAL *y = op->y;
    const int64_t rows = bt_strided_rows(&walk), inner = walk.shape[walk.rank - 1];
    const int64_t a_step = walk.stride[0][walk.rank - 1], b_step = walk.stride[1][walk.rank - 1];
    const bool past = bt_stream_wanted(rows * inner * (int64_t)sizeof(REAL));
    const int64_t step = past ? BT_STREAM_BLOCK : BT_CHUNK;
    const int64_t chunks = (inner + step - 1) / step;
#pragma omp parallel if (rows * inner > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_BLOCK];
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows * chunks; ++i) {
            const int64_t task = past ? bt_stream_order(i, rows * chunks) : i;
            int64_t offset[BT_STRIDED_OPERANDS];
            const int64_t at = task % chunks * step;
            const int64_t count = inner - at < step ? inner - at : step;
            bt_strided_offsets(&walk, task / chunks, offset);
            REAL *target = y + offset[2] + at;
            functions[op->function](a + offset[0] + at * a_step, a_step,
                                    b + offset[1] + at * b_step, b_step, past ? made : target,
                                    count);
            if (past) {
                bt_stream_out(target, made, (size_t)count * sizeof(REAL));
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}

// kernels/cpu/gemm.inl - body of gemm.c for one type

#define MULTIPLY FN(bt_blas_gemm)

// target = alpha op(A) op(B) + beta target
static void FN(multiply)(const bt_gemm_args *op, const gemm_tile *tile, double beta, REAL *target,
                         int64_t target_stride)
{
    const REAL *a = (const REAL *)op->a + tile->a, *b = (const REAL *)op->b + tile->b;
    MULTIPLY(op->trans_a, op->trans_b, tile->rows, tile->cols, op->k, op->alpha, a, op->lda, b,
             op->ldb, beta, target, target_stride);
}

BT_CLONES static void FN(add_bias)(REAL *row, const REAL *bias, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        row[i] += bias[i];
    }
}

// d = gelu(aux) + beta c
BT_CLONES static void FN(gelu_row)(const REAL *aux, REAL beta, const REAL *c, REAL *d,
                                   int64_t count)
{
    if (beta == 0) {
        for (int64_t i = 0; i < count; ++i) {
            d[i] = FN(bt_gelu)(aux[i]);
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            d[i] = FN(bt_gelu)(aux[i]) + beta * c[i];
        }
    }
}

// d = product gelu'(aux) + beta c
BT_CLONES static void FN(gelu_slope_row)(const REAL *product, const REAL *aux, REAL beta,
                                         const REAL *c, REAL *d, int64_t count)
{
    if (beta == 0) {
        for (int64_t i = 0; i < count; ++i) {
            d[i] = product[i] * FN(bt_gelu_slope)(aux[i]);
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            d[i] = product[i] * FN(bt_gelu_slope)(aux[i]) + beta * c[i];
        }
    }
}

static void FN(tile_plain)(const bt_gemm_args *op, const gemm_tile *tile)
{
    REAL *d = (REAL *)op->d + tile->d;
    const REAL *bias = op->bias;
    if (op->beta != 0 && op->c != op->d) {
        const REAL *c = (const REAL *)op->c + tile->c;
        for (int64_t r = 0; r < tile->rows; ++r) {
            memcpy(d + r * op->ldd, c + r * op->ldc, (size_t)tile->cols * sizeof(REAL));
        }
    }
    FN(multiply)(op, tile, op->beta, d, op->ldd);
    for (int64_t r = 0; bias && r < tile->rows; ++r) {
        FN(add_bias)(d + r * op->ldd, bias + tile->bias, tile->cols);
    }
}

static void FN(tile_gelu)(const bt_gemm_args *op, const gemm_tile *tile)
{
    REAL *d = (REAL *)op->d + tile->d, *aux = (REAL *)op->aux + tile->d;
    const REAL *bias = op->bias, *c = op->c;
    FN(multiply)(op, tile, 0, aux, op->ldd);
    for (int64_t r = 0; r < tile->rows; ++r) {
        REAL *row = aux + r * op->ldd;
        if (bias) {
            FN(add_bias)(row, bias + tile->bias, tile->cols);
        }
        const REAL *c_row = op->beta != 0 ? c + tile->c + r * op->ldc : NULL;
        FN(gelu_row)(row, R(op->beta), c_row, d + r * op->ldd, tile->cols);
    }
}

static void FN(tile_gelu_slope)(const bt_gemm_args *op, const gemm_tile *tile)
{
    REAL own[DGELU_TILE * DGELU_TILE]; // with beta, d may be c: the product needs separate memory
    REAL *d = (REAL *)op->d + tile->d;
    const REAL *aux = (const REAL *)op->aux + tile->d, *c = op->c;
    REAL *product = op->beta == 0 ? d : own;
    const int64_t stride = op->beta == 0 ? op->ldd : DGELU_TILE;
    FN(multiply)(op, tile, 0, product, stride);
    for (int64_t r = 0; r < tile->rows; ++r) {
        const REAL *c_row = op->beta != 0 ? c + tile->c + r * op->ldc : NULL;
        const REAL *aux_row = aux + r * op->ldd, *product_row = product + r * stride;
        REAL *d_row = d + r * op->ldd;
        FN(gelu_slope_row)(product_row, aux_row, R(op->beta), c_row, d_row, tile->cols);
    }
}

bt_status FN(bt_gemm_cpu)(const bt_launch *launch, const void *args)
{
    static void (*const epilogues[])(const bt_gemm_args *, const gemm_tile *) = {
        [BT_EPILOGUE_NONE] = FN(tile_plain),
        [BT_EPILOGUE_BIAS] = FN(tile_plain),
        [BT_EPILOGUE_BIAS_GELU] = FN(tile_gelu),
        [BT_EPILOGUE_DGELU] = FN(tile_gelu_slope),
    };
    const bt_gemm_args *given = args;
    if ((unsigned)given->epilogue >= BT_EPILOGUE_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "gemm epilogue %d", (int)given->epilogue);
    }
    if (given->m == 0 || given->n == 0 || given->batch == 0) {
        return BT_OK;
    }
    bt_gemm_args op = *given;
    if (op.epilogue == BT_EPILOGUE_NONE || op.epilogue == BT_EPILOGUE_DGELU) {
        op.bias = NULL;
    }
    bt_blas_keep_single_threaded();
    const gemm_tiling tiling = cut(launch->device, &op);
    const int64_t tiles = tiling.row_tiles * tiling.col_tiles;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < op.batch * tiles; ++task) {
        const gemm_tile tile = tile_at(&op, &tiling, task);
        epilogues[op.epilogue](&op, &tile);
    }
    return BT_OK;
}
#undef MULTIPLY

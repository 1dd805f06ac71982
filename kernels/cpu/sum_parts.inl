// kernels/cpu/sum_parts.inl - body of sum_parts.c for one type: ELEMENT in memory, REAL in
// arithmetic

// Up to BT_COLUMN_BLOCK elements of a row, from column `col` on.
BT_CLONES static void FN(sum_cols)(const bt_sum_parts_args *op, int64_t batch, int64_t row,
                                   int64_t col, int64_t cols)
{
    REAL sum[BT_COLUMN_BLOCK] = {0};
    bool held = false;
    for (int64_t n = 0; n < op->item_count; ++n) {
        const bt_sum_parts_item *part = &op->items[n];
        const int64_t own = row - part->first;
        if (own < 0 || own >= part->rows) {
            continue;
        }
        const ELEMENT *x =
            (const ELEMENT *)part->x + batch * part->batch_stride + own * part->row_stride + col;
        for (int64_t c = 0; c < cols; ++c) { // 0 + -0 is 0: the first is not added to 0
            sum[c] = held ? sum[c] + LOAD(x[c]) : LOAD(x[c]);
        }
        held = true;
    }
    ELEMENT *y = (ELEMENT *)op->y + batch * op->y_batch_stride + row * op->y_row_stride + col;
    for (int64_t c = 0; c < cols; ++c) {
        y[c] = STORE(sum[c]);
    }
}

bt_status FN(bt_sum_parts_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_sum_parts_args *op = args;
    const int64_t rows = op->batch * op->rows;
#pragma omp parallel for schedule(static) if (rows * op->width > BT_CHUNK)
    for (int64_t n = 0; n < rows; ++n) {
        for (int64_t col = 0; col < op->width; col += BT_COLUMN_BLOCK) {
            const int64_t rest = op->width - col;
            FN(sum_cols)
            (op, n / op->rows, n % op->rows, col, rest < BT_COLUMN_BLOCK ? rest : BT_COLUMN_BLOCK);
        }
    }
    return BT_OK;
}

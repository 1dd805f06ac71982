// kernels/cpu/attention_merge.inl - body of attention_merge.c for one type: ELEMENT in memory, REAL
// in arithmetic

// One row: a query of a head. `shift` is the largest lse of its parts.
typedef struct FN(merge_row) {
    int64_t batch, head, query;
    REAL shift, inverse; // of the weights' sum
} FN(merge_row);

static REAL FN(lse_of)(const bt_attention_merge_args *op, const bt_attention_part *part,
                       const FN(merge_row) * row)
{
    const int64_t at = (row->batch * op->heads + row->head) * part->tokens;
    return ((const REAL *)part->lse)[at + row->query - part->first];
}

// A part's weight before the division by the sum of all weights; 1 in a plain sum.
static REAL FN(weight_of)(const bt_attention_merge_args *op, const bt_attention_part *part,
                          const FN(merge_row) * row)
{
    return op->lse ? EXPONENT(FN(lse_of)(op, part, row) - row->shift) : 1;
}

// Finds shift and inverse, and writes the row's lse.
static void FN(weigh)(const bt_attention_merge_args *op, FN(merge_row) * row)
{
    const REAL lowest = -(REAL)INFINITY;
    const int64_t at = (row->batch * op->heads + row->head) * op->tokens + row->query;
    REAL largest = lowest, total = 0;
    for (int64_t n = 0; n < op->item_count; ++n) {
        if (part_holds(&op->items[n], row->query)) {
            const REAL lse = FN(lse_of)(op, &op->items[n], row);
            largest = lse > largest ? lse : largest;
        }
    }
    row->shift = largest > lowest ? largest : 0;
    for (int64_t n = 0; n < op->item_count; ++n) {
        if (part_holds(&op->items[n], row->query)) {
            total += FN(weight_of)(op, &op->items[n], row);
        }
    }
    // Without any visible key all weights are 0, and so is o, except for NaN.
    row->inverse = total > 0 || isnan(total) ? 1 / total : 1;
    ((REAL *)op->lse)[at] = total == 1 ? row->shift : row->shift + LOGARITHM(total);
}

static void FN(merge_cols)(const bt_attention_merge_args *op, const FN(merge_row) * row,
                           int64_t col, int64_t cols)
{
    REAL sum[MERGE_COLS] = {0};
    bool first = true; // the first product is assigned, not added to +0: -0 keeps its sign
    for (int64_t n = 0; n < op->item_count; ++n) {
        const bt_attention_part *part = &op->items[n];
        if (part_holds(part, row->query)) {
            const REAL weight = FN(weight_of)(op, part, row);
            const ELEMENT *o = (const ELEMENT *)part->o.base +
                               row_at(&part->o, row->batch, row->query - part->first, row->head) +
                               col;
            for (int64_t c = 0; c < cols; ++c) {
                const REAL product = weight * LOAD(o[c]);
                sum[c] = first ? product : sum[c] + product;
            }
            first = false;
        }
    }
    ELEMENT *to = (ELEMENT *)op->o.base + row_at(&op->o, row->batch, row->query, row->head) + col;
    for (int64_t c = 0; c < cols; ++c) {
        to[c] = STORE(sum[c] * row->inverse);
    }
}

bt_status FN(bt_attention_merge_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_attention_merge_args *op = args;
    const int64_t heads = op->batch * op->heads;
#pragma omp parallel for schedule(static)
    for (int64_t pair = 0; pair < heads; ++pair) {
        for (int64_t query = 0; query < op->tokens; ++query) {
            FN(merge_row)
            row = {
                .batch = pair / op->heads, .head = pair % op->heads, .query = query, .inverse = 1};
            if (op->lse) {
                FN(weigh)(op, &row);
            }
            for (int64_t col = 0; col < op->head_dim; col += MERGE_COLS) {
                FN(merge_cols)
                (op, &row, col, bt_attention_least(op->head_dim - col, MERGE_COLS));
            }
        }
    }
    return BT_OK;
}

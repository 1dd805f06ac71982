// tests/unit/compiled_group.c - fused groups that tests construct, compile and run
#include "tests/unit/compiled_group.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

void run_group(const bt_fused *group, int64_t rows, test_buffer *const *operands)
{
    const int threads[] = {1, 3}, usual = omp_get_max_threads();
    bt_code_cache cache;
    ASSERT_OK(bt_code_cache_open(&bt_file_ops_system, test_scratch_path("code"), 1 << 24, &cache));
    const int count = group->operand_count;
    void *before[GROUP_OPERANDS], *first[GROUP_OPERANDS], *data[GROUP_OPERANDS];
    for (int k = 0; k < count; ++k) {
        before[k] = malloc(operands[k]->size_bytes + 1);
        first[k] = malloc(operands[k]->size_bytes + 1);
        assert_non_null(before[k]);
        assert_non_null(first[k]);
        memcpy(before[k], operands[k]->data, operands[k]->size_bytes);
        data[k] = operands[k]->data;
    }
    for (int t = 0; t < 2; ++t) {
        bt_compiled *compiled = NULL;
        omp_set_num_threads(threads[t]);
        ASSERT_OK(bt_compile(group, &cache, &compiled));
        for (int k = 0; k < count; ++k) {
            memcpy(data[k], before[k], operands[k]->size_bytes);
        }
        ASSERT_OK(bt_compiled_run(compiled, NULL, rows, data, NULL));
        bt_compiled_release(compiled);
        for (int k = 0; k < count; ++k) {
            if (t == 0) {
                memcpy(first[k], data[k], operands[k]->size_bytes);
            }
            assert_memory_equal(first[k], data[k], operands[k]->size_bytes);
        }
    }
    omp_set_num_threads(usual);
    assert_true(cache.hits >= 1); // lowered once at most
    bt_code_cache_close(&cache);
    for (int k = 0; k < count; ++k) {
        free(before[k]);
        free(first[k]);
    }
}

void assert_same_bits(const test_buffer *got, const test_buffer *expected, const char *what)
{
    const size_t size = bt_dtype_size(got->dtype);
    for (int64_t i = 0; i < got->count; ++i) {
        const char *a = (const char *)got->data + (size_t)i * size;
        const char *b = (const char *)expected->data + (size_t)i * size;
        if (memcmp(a, b, size) != 0) {
            double *x = test_doubles(got->count), *y = test_doubles(got->count);
            test_buffer_read(got, x);
            test_buffer_read(expected, y);
            const bool nans = isnan(x[i]) && isnan(y[i]); // whose sign is undefined
            const double mine = x[i], theirs = y[i];
            free(x);
            free(y);
            if (nans) {
                continue;
            }
            fail_msg("%s: element %lld is %a, expected %a", what, (long long)i, mine, theirs);
        }
    }
}

static bt_fused started(bt_fused_kind kind, int rank, int64_t rows, int64_t cols,
                        bt_fused_builder *b)
{
    bt_fused group;
    const int64_t shape[] = {rows, cols};
    ASSERT_OK(bt_fused_init(&group, kind, rank == 1 ? shape + 1 : shape, rank));
    *b = (bt_fused_builder){NULL, BT_OK};
    return group;
}

static const int64_t per_row[] = {1, 0}, per_column[] = {0, 1};

// The element of an operand in the type of arithmetic.
static int loaded(bt_fused_builder *b, bt_dtype dtype, const int64_t *stride)
{
    const int operand = bt_fused_operand_add(b, dtype, stride);
    return bt_fused_cast(b, bt_fused_load(b, operand), dtype == BT_BF16 ? BT_F32 : dtype);
}

static void stored(bt_fused_builder *b, bt_dtype dtype, const int64_t *stride, int value)
{
    bt_fused_store(b, bt_fused_operand_add(b, dtype, stride), value);
}

// The CPU's order where sums are f64, else any.
static bt_fused_order sum_order(bt_dtype part, int64_t block, bt_dtype wide)
{
    return wide == BT_F64 ? bt_fused_lanes(part, block, BT_F64) : (bt_fused_order){.sum = wide};
}

bt_fused group_unary(bt_dtype dtype, int64_t count, bt_unary function, double alpha)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_ELEMENTWISE, 1, 0, count, &b);
    b.group = &g;
    const int x = loaded(&b, dtype, NULL);
    stored(&b, dtype, NULL, bt_fused_unary(&b, function, alpha, x));
    stored(&b, dtype, NULL, bt_fused_slope(&b, function, alpha, x));
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_softmax(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_ROW, 2, rows, cols, &b);
    b.group = &g;
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    bt_fused_order order = sum_order(work, 16, wide);
    order.tail = true;
    const int x = loaded(&b, dtype, NULL);
    const int max = bt_fused_reduce(&b, BT_FUSED_ROW_MAX, x, -1, bt_fused_lanes(work, 0, work));
    const int e = bt_fused_unary(&b, BT_UNARY_EXP, 0, bt_fused_binary(&b, BT_FUSED_SUB, x, max));
    const int sum = bt_fused_reduce(&b, BT_FUSED_ROW_SUM, bt_fused_cast(&b, e, wide), -1, order);
    const int inverse = bt_fused_binary(&b, BT_FUSED_DIV, bt_fused_const(&b, wide, 1), sum);
    stored(&b, dtype, NULL, bt_fused_binary(&b, BT_FUSED_MUL, e, bt_fused_cast(&b, inverse, work)));
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_layernorm(bt_dtype dtype, int64_t rows, int64_t cols, double epsilon, bt_dtype wide)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_ROW, 2, rows, cols, &b);
    b.group = &g;
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    const int x = loaded(&b, dtype, NULL);
    const int gamma = loaded(&b, dtype, per_column), beta = loaded(&b, dtype, per_column);
    const int count = bt_fused_const(&b, wide, (double)cols);
    const int sum = bt_fused_reduce(&b, BT_FUSED_ROW_SUM, bt_fused_cast(&b, x, wide), -1,
                                    sum_order(BT_F64, 0, wide));
    const int mean = bt_fused_binary(&b, BT_FUSED_DIV, sum, count);
    const int center = bt_fused_cast(&b, mean, work);
    const int distance = bt_fused_binary(&b, BT_FUSED_SUB, x, center);
    const int offset = bt_fused_cast(&b, distance, wide);
    const int squares =
        bt_fused_reduce(&b, BT_FUSED_ROW_DOT, offset, offset, sum_order(work, 8, wide));
    const int off = bt_fused_binary(&b, BT_FUSED_SUB, mean, bt_fused_cast(&b, center, wide));
    const int raw =
        bt_fused_binary(&b, BT_FUSED_SUB, bt_fused_binary(&b, BT_FUSED_DIV, squares, count),
                        bt_fused_binary(&b, BT_FUSED_MUL, off, off));
    const int variance = bt_fused_binary(&b, BT_FUSED_MAX, raw, bt_fused_const(&b, wide, 0));
    const int root = bt_fused_unary(
        &b, BT_UNARY_SQRT, 0,
        bt_fused_binary(&b, BT_FUSED_ADD, variance, bt_fused_const(&b, wide, epsilon)));
    const int rstd = bt_fused_cast(
        &b, bt_fused_binary(&b, BT_FUSED_DIV, bt_fused_const(&b, wide, 1), root), work);
    const int normal = bt_fused_binary(&b, BT_FUSED_MUL, distance, rstd);
    stored(&b, dtype, NULL, bt_fused_ternary(&b, BT_FUSED_FMA, normal, gamma, beta));
    stored(&b, work, per_row, center);
    stored(&b, work, per_row, rstd);
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_rmsnorm(bt_dtype dtype, int64_t rows, int64_t cols, double epsilon, bt_dtype wide)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_ROW, 2, rows, cols, &b);
    b.group = &g;
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    const int x = loaded(&b, dtype, NULL), residual = loaded(&b, dtype, NULL);
    const int gamma = loaded(&b, dtype, per_column);
    const int s = bt_fused_binary(&b, BT_FUSED_ADD, x, residual);
    const int squares = bt_fused_reduce(&b, BT_FUSED_ROW_DOT, s, s, (bt_fused_order){.sum = wide});
    const int mean =
        bt_fused_binary(&b, BT_FUSED_DIV, squares, bt_fused_const(&b, work, (double)cols));
    const int root =
        bt_fused_unary(&b, BT_UNARY_SQRT, 0,
                       bt_fused_binary(&b, BT_FUSED_ADD, mean, bt_fused_const(&b, work, epsilon)));
    stored(&b, dtype, NULL, s);
    stored(&b, dtype, NULL,
           bt_fused_binary(&b, BT_FUSED_MUL, bt_fused_binary(&b, BT_FUSED_DIV, s, root), gamma));
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_cross_entropy(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_ROW, 2, rows, cols, &b);
    b.group = &g;
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    const bt_fused_order any = {.sum = wide};
    const int x = loaded(&b, dtype, NULL);
    const int target = bt_fused_cast(&b, loaded(&b, BT_I32, per_row), BT_I64);
    const int column = bt_fused_append(&b, &(bt_fused_instruction){.op = BT_FUSED_INDEX,
                                                                   .dtype = BT_I64,
                                                                   .a = -1,
                                                                   .b = -1,
                                                                   .c = -1,
                                                                   .operand = -1,
                                                                   .axis = 1});
    const int max = bt_fused_reduce(&b, BT_FUSED_ROW_MAX, x, -1, any);
    const int e = bt_fused_unary(&b, BT_UNARY_EXP, 0, bt_fused_binary(&b, BT_FUSED_SUB, x, max));
    const int sum = bt_fused_reduce(&b, BT_FUSED_ROW_SUM, e, -1, any);
    const int here = bt_fused_binary(&b, BT_FUSED_EQUAL, column, target);
    const int mine = bt_fused_ternary(&b, BT_FUSED_SELECT, here, x, bt_fused_const(&b, work, 0));
    const int logit = bt_fused_reduce(&b, BT_FUSED_ROW_SUM, mine, -1, any);
    const int lse =
        bt_fused_binary(&b, BT_FUSED_ADD, bt_fused_unary(&b, BT_UNARY_LOG, 0, sum), max);
    stored(&b, work, per_row, bt_fused_binary(&b, BT_FUSED_SUB, lse, logit));
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_column(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_COLUMN, 2, rows, cols, &b);
    b.group = &g;
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    const int x = loaded(&b, dtype, NULL), weight = loaded(&b, dtype, per_column);
    const int y = bt_fused_binary(&b, BT_FUSED_MUL, x, weight);
    const bt_fused_order ascending = {.lanes = 1, .part = work, .sum = BT_F64};
    const bt_fused_order any = {.sum = wide};
    const int sum =
        bt_fused_reduce(&b, BT_FUSED_COLUMN_SUM, y, -1, wide == BT_F64 ? ascending : any);
    stored(&b, dtype, NULL, y);
    bt_fused_store_add(&b, bt_fused_operand_add(&b, work, per_column), sum);
    ASSERT_OK(b.status);
    return g;
}

bt_fused group_column_of_rows(int64_t rows, int64_t cols)
{
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_COLUMN, 2, rows, cols, &b);
    b.group = &g;
    const int sum = bt_fused_reduce(&b, BT_FUSED_COLUMN_SUM, loaded(&b, BT_F32, per_row), -1,
                                    (bt_fused_order){.sum = BT_F32});
    stored(&b, BT_F32, per_column, bt_fused_unary(&b, BT_UNARY_NEGATE, 0, sum));
    ASSERT_OK(b.status);
    return g;
}

// Of a matrix with `rows` rows of `cols` elements, and of an entry of the batch.
static int64_t stride_of(int64_t rows, int64_t cols, int64_t pad)
{
    return rows * (cols + pad) + pad;
}

int64_t product_a_count(const product_sizes *s)
{
    return s->batch * stride_of(s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, s->pad);
}

int64_t product_b_count(const product_sizes *s)
{
    return s->batch * stride_of(s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, s->pad);
}

bt_fused group_product(bt_dtype dtype, const product_sizes *s, bool ordered)
{
    const bt_dtype work = dtype == BT_F64 ? BT_F64 : BT_F32;
    const int64_t none[BT_MAX_RANK] = {0};
    bt_fused_builder b;
    bt_fused g = started(BT_FUSED_PRODUCT, 2, s->batch * s->m, s->n, &b);
    b.group = &g;
    g.product = (bt_gemm_args){.m = s->m,
                               .n = s->n,
                               .k = s->k,
                               .trans_a = s->trans_a,
                               .trans_b = s->trans_b,
                               .lda = (s->trans_a ? s->m : s->k) + s->pad,
                               .ldb = (s->trans_b ? s->k : s->n) + s->pad,
                               .ldd = s->n,
                               .batch = s->batch,
                               .stride_a = product_a_count(s) / s->batch,
                               .stride_b = product_b_count(s) / s->batch,
                               .stride_d = s->m * s->n,
                               .alpha = 1,
                               .ab_dtype = dtype,
                               .d_dtype = work,
                               .compute = dtype == BT_F32 && !ordered ? BT_COMPUTE_TF32
                                                                      : BT_COMPUTE_NATIVE};
    for (int i = 0; i < 2; ++i) {
        g.call_operand[i] = bt_fused_operand_add(&b, dtype, none);
        g.operands[i].count = i ? product_b_count(s) : product_a_count(s);
        g.operands[i].is_read = true;
    }
    const bt_fused_instruction made = {
        .op = BT_FUSED_RESULT,
        .dtype = work,
        .a = -1,
        .b = -1,
        .c = -1,
        .operand = -1,
        .order = {.lanes = ordered ? 1 : 0, .part = work, .sum = work}};
    const int product = bt_fused_append(&b, &made), bias = loaded(&b, dtype, per_column);
    const int c = loaded(&b, work, NULL), sum = bt_fused_binary(&b, BT_FUSED_ADD, product, bias);
    stored(&b, dtype, NULL,
           bt_fused_binary(&b, BT_FUSED_ADD, bt_fused_unary(&b, BT_UNARY_RELU, 0, sum), c));
    ASSERT_OK(b.status);
    return g;
}

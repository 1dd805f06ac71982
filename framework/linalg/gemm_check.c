// framework/linalg/gemm_check.c - checks the sizes and strides of a product
#include "framework/base/checked.h"
#include "framework/base/status.h"
#include "framework/linalg/gemm.h"

// A matrix of rows x cols with a row stride, `batch` times: its last element must have a valid
// index.
static bool fits(int64_t batch, int64_t stride, int64_t rows, int64_t ld, int64_t cols)
{
    int64_t entries = 0, lines = 0, last = 0;
    return batch == 0 || rows == 0 || cols == 0 ||
           (bt_checked_multiply(batch - 1, stride, &entries) &&
            bt_checked_multiply(rows - 1, ld, &lines) && bt_checked_add(entries, lines, &last) &&
            bt_checked_add(last, cols, &last) && last >= 0 && last <= BT_ELEMENTS_MOST);
}

bt_status bt_gemm_check(const bt_gemm_args *args)
{
    const int64_t m = args->m, n = args->n, k = args->k, batch = args->batch;
    if (m < 0 || n < 0 || k < 0 || batch < 0 ||
        !fits(batch, args->stride_a, args->trans_a ? k : m, args->lda, args->trans_a ? m : k) ||
        !fits(batch, args->stride_b, args->trans_b ? n : k, args->ldb, args->trans_b ? k : n) ||
        !fits(batch, args->stride_d, m, args->ldd, n) ||
        (args->beta != 0 && !fits(batch, args->stride_c, m, args->ldc, n))) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "gemm: %lld x %lld x %lld, batch %lld, row strides %lld, %lld, %lld, %lld: "
            "sizes must not be negative, and no operand may extend beyond 2^56 elements",
            (long long)m, (long long)n, (long long)k, (long long)batch, (long long)args->lda,
            (long long)args->ldb, (long long)args->ldc, (long long)args->ldd);
    }
    return BT_OK;
}

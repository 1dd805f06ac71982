// kernels/cpu/blas.h - OpenBLAS as a single-threaded library
//
// Debian's OpenMP build uses one thread inside a parallel region. A build with threads of its own
// is told to leave them alone, by whoever is about to call it from many threads.
#ifndef BT_KERNELS_CPU_BLAS_H
#define BT_KERNELS_CPU_BLAS_H

#include <cblas.h>
#include <stdbool.h>
#include <stdint.h>

static inline void bt_blas_keep_single_threaded(void)
{
    enum { OWN_THREADS = 1 };
    if (openblas_get_parallel() == OWN_THREADS && openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
}

// BLAS wants strides of at least one even where nothing is read.
static inline int bt_blas_stride(int64_t stride) { return stride > 1 ? (int)stride : 1; }

// c = alpha op(a) op(b) + beta c, row-major; op(a) is [rows, inner]. Sizes and strides below 2^31.
#define BT_DEFINE_GEMM(REAL, SUFFIX, FUNCTION)                                                     \
    static inline void bt_blas_gemm_##SUFFIX(                                                      \
        bool trans_a, bool trans_b, int64_t rows, int64_t cols, int64_t inner, double alpha,       \
        const REAL *a, int64_t a_stride, const REAL *b, int64_t b_stride, double beta, REAL *c,    \
        int64_t c_stride)                                                                          \
    {                                                                                              \
        FUNCTION(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,                               \
                 trans_b ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)inner,            \
                 (REAL)alpha, a, bt_blas_stride(a_stride), b, bt_blas_stride(b_stride),            \
                 (REAL)beta, c, bt_blas_stride(c_stride));                                         \
    }

BT_DEFINE_GEMM(float, f32, cblas_sgemm)
BT_DEFINE_GEMM(double, f64, cblas_dgemm)
#undef BT_DEFINE_GEMM

#endif

// kernels/cpu/blas.h - OpenBLAS as a single-threaded library
//
// An OpenMP build uses one thread inside a parallel region, but a region whose team has one member
// (OMP_THREAD_LIMIT=1, OMP_DYNAMIC under load, OMP_MAX_ACTIVE_LEVELS=0) is not "parallel" to
// OpenMP: OpenBLAS would then open a region of omp_get_max_threads() members, and wait forever for
// those that OpenMP does not start. So each call is made with a maximum of one thread. A build with
// its own threads must be set to one thread by the code that calls it from several.
#ifndef BT_KERNELS_CPU_BLAS_H
#define BT_KERNELS_CPU_BLAS_H

#include <cblas.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>

static inline void bt_blas_keep_single_threaded(void)
{
    enum { OWN_THREADS = 1 };
    if (openblas_get_parallel() == OWN_THREADS && openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
}

// The maximum number of threads before it was set to one; 0: it did not need to be.
static inline int bt_blas_enter(void)
{
    const int most = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (most == 1) {
        return 0;
    }
    omp_set_num_threads(1);
    return most;
}

static inline void bt_blas_leave(int most)
{
    if (most) {
        omp_set_num_threads(most);
    }
}

// BLAS requires strides of at least one even if nothing is read.
static inline int bt_blas_stride(int64_t stride) { return stride > 1 ? (int)stride : 1; }

// c = alpha op(a) op(b) + beta c, row-major; op(a) is [rows, inner]. Sizes and strides below 2^31.
#define BT_DEFINE_GEMM(REAL, SUFFIX, FUNCTION)                                                     \
    static inline void bt_blas_gemm_##SUFFIX(                                                      \
        bool trans_a, bool trans_b, int64_t rows, int64_t cols, int64_t inner, double alpha,       \
        const REAL *a, int64_t a_stride, const REAL *b, int64_t b_stride, double beta, REAL *c,    \
        int64_t c_stride)                                                                          \
    {                                                                                              \
        const int most = bt_blas_enter();                                                          \
        FUNCTION(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,                               \
                 trans_b ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)inner,            \
                 (REAL)alpha, a, bt_blas_stride(a_stride), b, bt_blas_stride(b_stride),            \
                 (REAL)beta, c, bt_blas_stride(c_stride));                                         \
        bt_blas_leave(most);                                                                       \
    }

BT_DEFINE_GEMM(float, f32, cblas_sgemm)
BT_DEFINE_GEMM(double, f64, cblas_dgemm)
#undef BT_DEFINE_GEMM

#endif

// harness/env/blas.h - which kernels OpenBLAS uses on this machine
//
// OpenBLAS picks its kernels by processor model when it is loaded; one that is newer than the
// library gets kernels of 2004 and a tenth of its speed. Workers are told better through
// OPENBLAS_CORETYPE, chosen by the instructions that the processor has.
#ifndef BT_HARNESS_ENV_BLAS_H
#define BT_HARNESS_ENV_BLAS_H

// The kernels that this process uses ("SkylakeX", ...), "?" when it is not OpenBLAS.
const char *bt_blas_core(void);
// Threads that it may use, 0 when it is not OpenBLAS.
int bt_blas_threads(void);
// A better kernel set than bt_blas_core() for workers, NULL when there is none or the user chose.
const char *bt_blas_better_core(void);
// Sets OPENBLAS_CORETYPE for the processes that this one starts, where that helps.
void bt_blas_advise_children(void);

#endif

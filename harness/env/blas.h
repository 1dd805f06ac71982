// harness/env/blas.h - the kernels that OpenBLAS uses on this machine
//
// OpenBLAS selects its kernels by processor model when it is loaded. For a model that is newer than
// the library it uses kernels of 2004, at a tenth of the speed. OPENBLAS_CORETYPE selects better
// ones for workers, by the instructions that the processor has.
#ifndef BT_HARNESS_ENV_BLAS_H
#define BT_HARNESS_ENV_BLAS_H

// The kernels that this process uses ("SkylakeX", ...), "?" if it is not OpenBLAS.
const char *bt_blas_core(void);
// Number of threads that it may use, 0 if it is not OpenBLAS.
int bt_blas_threads(void);
// A better kernel set than bt_blas_core() for workers, NULL if there is none or the user chose one.
const char *bt_blas_better_core(void);
// Sets OPENBLAS_CORETYPE for child processes, if that helps.
void bt_blas_advise_children(void);

#endif

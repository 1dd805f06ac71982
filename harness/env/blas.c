// harness/env/blas.c - OpenBLAS' own functions, looked up at run time, and the processor's
// instructions
#include "harness/env/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/environment.h"

const char *bt_blas_core(void)
{
    char *(*core)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_corename");
    memcpy(&core, &symbol, sizeof core);
    return core ? core() : "?";
}

int bt_blas_threads(void)
{
    int (*threads)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
    memcpy(&threads, &symbol, sizeof threads);
    return threads ? threads() : 0;
}

const char *bt_blas_better_core(void)
{
#if defined(__x86_64__)
    const char *core = bt_blas_core();
    const char *chosen = bt_environment(BT_VARIABLE_OPENBLAS_CORETYPE);
    // OpenBLAS' fallback for unknown models.
    if (chosen || (strcmp(core, "Prescott") != 0 && strcmp(core, "Nehalem") != 0)) {
        return NULL;
    }
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}

void bt_blas_advise_children(void)
{
    const char *better = bt_blas_better_core();
    if (better) {
        (void)setenv("OPENBLAS_CORETYPE", better, 1);
    }
}

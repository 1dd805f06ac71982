// framework/compiler/mlir/library.c - exports of libbt_mlir.so
#include "framework/compiler/mlir/library.h"

#include <stdlib.h>

#include "framework/compiler/mlir/lower.h"

static void release(bt_mlir_result *result)
{
    free(result->bytes);
    free(result->llvm);
    result->bytes = result->llvm = NULL;
}

__attribute__((visibility("default"))) const bt_mlir_library *bt_mlir_entry(void);

const bt_mlir_library *bt_mlir_entry(void)
{
    static const bt_mlir_library library = {BT_MLIR_ABI, BT_MLIR_VERSION, bt_mlir_lower,
                                            bt_mlir_verify, release};
    return &library;
}

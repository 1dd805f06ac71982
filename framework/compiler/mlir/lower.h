// framework/compiler/mlir/lower.h - what the files of libbt_mlir.so share
#ifndef BT_COMPILER_MLIR_LOWER_H
#define BT_COMPILER_MLIR_LOWER_H

#include <llvm-c/Types.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>

#include "framework/compiler/mlir/library.h"

bt_mlir_status bt_mlir_lower(const bt_mlir_request *request, bt_mlir_result *result);

bt_mlir_status bt_mlir_verify(const char *dialect, const char *text, bt_mlir_result *result);
// Keeps the first error with its place, "line:column: text". self: a bt_mlir_result
MlirLogicalResult bt_mlir_diagnose(MlirDiagnostic diagnostic, void *self);

// Registers the passes that lower.c names. Called once per process.
void bt_mlir_register_passes(void);
// A context for one thread with the dialects that the emitters use.
MlirContext bt_mlir_context(void);

// Adds the functions __nv_* that the module calls and makes them internal. Without such calls it
// does nothing. Errors  UNSUPPORTED without a libdevice
bt_mlir_status bt_mlir_link_libdevice(LLVMModuleRef module, const bt_mlir_request *request,
                                      bt_mlir_result *result);

#endif

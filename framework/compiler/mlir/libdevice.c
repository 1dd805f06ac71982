// framework/compiler/mlir/libdevice.c - links CUDA's library of functions into a module
//
// LLVM's C interface cannot link only the needed functions. Definitions with linkonce_odr linkage
// are linked only if they are referenced, so every definition of libdevice gets that linkage first.
#include <stdio.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Linker.h>

#include "framework/compiler/mlir/lower.h"

static const char prefix[] = "__nv_";

// The name of a function of libdevice that the module calls; NULL: none.
static const char *needed(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        size_t length = 0;
        const char *name = LLVMGetValueName2(f, &length);
        if (LLVMIsDeclaration(f) && strncmp(name, prefix, sizeof prefix - 1) == 0) {
            return name;
        }
    }
    return NULL;
}

static void change_linkage(LLVMModuleRef module, LLVMLinkage from, LLVMLinkage to)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMIsDeclaration(f) && LLVMGetLinkage(f) == from) {
            LLVMSetLinkage(f, to);
        }
    }
}

static bt_mlir_status fail(bt_mlir_result *result, bt_mlir_status status, const char *what,
                           const char *name)
{
    (void)snprintf(result->message, sizeof result->message, "%s: %s", what, name);
    return status;
}

bt_mlir_status bt_mlir_link_libdevice(LLVMModuleRef module, const bt_mlir_request *request,
                                      bt_mlir_result *result)
{
    const char *name = request->target == BT_MLIR_PTX ? needed(module) : NULL;
    if (!name) {
        return BT_MLIR_OK;
    }
    if (!request->libdevice) {
        return fail(result, BT_MLIR_UNSUPPORTED,
                    "CUDA's libdevice is needed; it was not found or cannot be read", name);
    }
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        request->libdevice, request->libdevice_bytes, "libdevice");
    LLVMModuleRef library = NULL;
    if (LLVMGetBitcodeModuleInContext2(LLVMGetModuleContext(module), buffer, &library)) {
        LLVMDisposeMemoryBuffer(buffer);
        return fail(result, BT_MLIR_UNSUPPORTED, "libdevice is damaged", "not LLVM bitcode");
    }
    LLVMSetTarget(library, LLVMGetTarget(module));
    LLVMSetDataLayout(library, LLVMGetDataLayoutStr(module));
    change_linkage(library, LLVMExternalLinkage, LLVMLinkOnceODRLinkage);
    if (LLVMLinkModules2(module, library)) {
        return fail(result, BT_MLIR_UNSUPPORTED, "libdevice cannot be linked", name);
    }
    change_linkage(module, LLVMLinkOnceODRLinkage, LLVMInternalLinkage);
    name = needed(module);
    if (name) {
        return fail(result, BT_MLIR_UNSUPPORTED, "libdevice has no such function", name);
    }
    // As nvcc without fast-math: subnormal numbers are preserved.
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetModuleContext(module));
    LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorOverride, "nvvm-reflect-ftz", 16,
                      LLVMValueAsMetadata(LLVMConstInt(i32, 0, 0)));
    return BT_MLIR_OK;
}

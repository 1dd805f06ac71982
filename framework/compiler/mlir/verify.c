// framework/compiler/mlir/verify.c - a text verified against a dialect given as IRDL text
#include <stdio.h>
#include <string.h>

#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/IRDL.h>

#include "framework/compiler/mlir/lower.h"

static MlirContext open_context(bt_mlir_result *result)
{
    const MlirDialectRegistry registry = mlirDialectRegistryCreate();
    mlirDialectHandleInsertDialect(mlirGetDialectHandle__func__(), registry);
    mlirDialectHandleInsertDialect(mlirGetDialectHandle__irdl__(), registry);
    const MlirContext context = mlirContextCreateWithRegistry(registry, false);
    mlirDialectRegistryDestroy(registry);
    (void)mlirContextAttachDiagnosticHandler(context, bt_mlir_diagnose, result, NULL);
    return context;
}

static bt_mlir_status check(MlirContext context, const char *dialect, const char *text)
{
    const MlirModule described =
        mlirModuleCreateParse(context, mlirStringRefCreateFromCString(dialect));
    if (mlirModuleIsNull(described)) {
        return BT_MLIR_BAD_TEXT;
    }
    bool good = mlirLogicalResultIsSuccess(mlirLoadIRDLDialects(described));
    mlirModuleDestroy(described);
    if (!good) {
        return BT_MLIR_BAD_TEXT;
    }
    const MlirModule module = mlirModuleCreateParse(context, mlirStringRefCreateFromCString(text));
    if (mlirModuleIsNull(module)) {
        return BT_MLIR_BAD_TEXT;
    }
    good = mlirOperationVerify(mlirModuleGetOperation(module));
    mlirModuleDestroy(module);
    return good ? BT_MLIR_OK : BT_MLIR_BAD_TEXT;
}

bt_mlir_status bt_mlir_verify(const char *dialect, const char *text, bt_mlir_result *result)
{
    memset(result, 0, sizeof *result);
    const MlirContext context = open_context(result);
    const bt_mlir_status status = check(context, dialect, text);
    mlirContextDestroy(context);
    if (status && !result->message[0]) {
        (void)snprintf(result->message, sizeof result->message, "the dialect cannot be loaded");
    }
    return status;
}

// framework/compiler/mlir/dialects.c - the registered dialects and passes
#include <mlir-c/Conversion.h>
#include <mlir-c/Dialect/Arith.h>
#include <mlir-c/Dialect/ControlFlow.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/GPU.h>
#include <mlir-c/Dialect/LLVM.h>
#include <mlir-c/Dialect/Math.h>
#include <mlir-c/Dialect/NVVM.h>
#include <mlir-c/Dialect/SCF.h>
#include <mlir-c/Dialect/Vector.h>
#include <mlir-c/RegisterEverything.h>
#include <mlir-c/Transforms.h>

#include "framework/compiler/mlir/lower.h"

void bt_mlir_register_passes(void)
{
    mlirRegisterTransformsCanonicalizer();
    mlirRegisterTransformsCSE();
    mlirRegisterConversionSCFToControlFlow();
    mlirRegisterConversionConvertGpuOpsToNVVMOps();
    mlirRegisterConversionConvertVectorToLLVMPass();
    mlirRegisterConversionConvertMathToLibm();
    mlirRegisterConversionConvertMathToLLVMPass();
    mlirRegisterConversionArithToLLVMConversionPass();
    mlirRegisterConversionConvertIndexToLLVMPass();
    mlirRegisterConversionConvertFuncToLLVMPass();
    mlirRegisterConversionConvertControlFlowToLLVMPass();
    mlirRegisterConversionReconcileUnrealizedCasts();
}

MlirContext bt_mlir_context(void)
{
    const MlirDialectHandle dialects[] = {
        mlirGetDialectHandle__arith__(), mlirGetDialectHandle__math__(),
        mlirGetDialectHandle__scf__(),   mlirGetDialectHandle__cf__(),
        mlirGetDialectHandle__func__(),  mlirGetDialectHandle__vector__(),
        mlirGetDialectHandle__gpu__(),   mlirGetDialectHandle__llvm__(),
        mlirGetDialectHandle__nvvm__()};
    MlirDialectRegistry registry = mlirDialectRegistryCreate();
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; ++i) {
        mlirDialectHandleInsertDialect(dialects[i], registry);
    }
    const MlirContext context = mlirContextCreateWithRegistry(registry, false);
    mlirRegisterAllLLVMTranslations(context);
    mlirDialectRegistryDestroy(registry);
    return context;
}

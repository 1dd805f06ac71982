// framework/compiler/mlir/lower.c - from MLIR text to an object file or PTX, by the C interfaces
//
//   text -> MLIR passes -> LLVM dialect -> LLVM IR -> (libdevice) -> O3 -> object or PTX
//
// LLVM reports some errors, and a lack of memory, by ending the process. fatal() leaves the call by
// longjmp, past frames of LLVM, whose state is unknown afterwards; `broken` rejects later calls.
#include "framework/compiler/mlir/lower.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/Pass.h>
#include <mlir-c/Target/LLVMIR.h>

static const char *const cpu_passes =
    "builtin.module(canonicalize,cse,convert-math-to-libm,convert-scf-to-cf,convert-vector-to-llvm,"
    "convert-arith-to-llvm,convert-index-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
    "canonicalize,cse,reconcile-unrealized-casts)";
static const char *const gpu_passes =
    "builtin.module(gpu.module(canonicalize,cse,convert-scf-to-cf,"
    "convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1 has-redux=1},convert-vector-to-llvm,"
    "convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,"
    "canonicalize,cse,reconcile-unrealized-casts))";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool broken;
static _Thread_local jmp_buf *escape; // where fatal() goes; NULL outside of a call
static _Thread_local bt_mlir_result *current;

static void say(bt_mlir_result *result, const char *what, const char *why)
{
    (void)snprintf(result->message, sizeof result->message, "%s%s%s", what, why ? ": " : "",
                   why ? why : "");
}

// Returns outside of a call.
static void fatal(const char *reason)
{
    if (escape) {
        atomic_store(&broken, true);
        say(current, "LLVM failed", reason);
        longjmp(*escape, 1);
    }
}

// No C interface sets what happens when memory runs out, in operator new and in the containers of
// LLVM; hence the names as C++ mangles them.
typedef void (*new_handler)(void);
extern new_handler set_new_handler(new_handler handler) __asm__("_ZSt15set_new_handlerPFvvE");
extern void install_bad_alloc_handler(
    void (*handler)(void *, const char *, bool),
    void *self) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static new_handler handler_before;

// Called by operator new, which tries again where this returns. Outside of a call it is not LLVM
// that asks: then what was installed before decides.
static void new_failed(void)
{
    fatal("out of memory");
    (void)set_new_handler(handler_before);
}

static void container_failed(void *self, const char *reason, bool diagnose)
{
    (void)self;
    (void)reason;
    (void)diagnose;
    fatal("out of memory");
    abort(); // outside of a call: LLVM does not expect this function to return
}

static void initialise(void)
{
    LLVMInstallFatalErrorHandler(fatal);
    install_bad_alloc_handler(container_failed, NULL);
    handler_before = set_new_handler(new_failed);
    LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    bt_mlir_register_passes();
}

// ---- diagnostics --------------------------------------------------------------------------------

static void append(MlirStringRef part, void *self)
{
    bt_mlir_result *result = self;
    const size_t used = strlen(result->message), room = sizeof result->message - used - 1;
    const size_t length = part.length < room ? part.length : room;
    memcpy(result->message + used, part.data, length);
    result->message[used + length] = 0;
}

MlirLogicalResult bt_mlir_diagnose(MlirDiagnostic diagnostic, void *self)
{
    bt_mlir_result *result = self;
    if (mlirDiagnosticGetSeverity(diagnostic) == MlirDiagnosticError && !result->message[0]) {
        mlirLocationPrint(mlirDiagnosticGetLocation(diagnostic), append, result);
        append(mlirStringRefCreateFromCString(": "), result);
        mlirDiagnosticPrint(diagnostic, append, result);
    }
    return mlirLogicalResultSuccess();
}

static void diagnose_llvm(LLVMDiagnosticInfoRef info, void *self)
{
    bt_mlir_result *result = self;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError && !result->message[0]) {
        char *text = LLVMGetDiagInfoDescription(info);
        say(result, "LLVM", text);
        LLVMDisposeMessage(text);
    }
}

// ---- the steps ----------------------------------------------------------------------------------

// The resources of a call, released in one place.
typedef struct state {
    MlirContext context;
    MlirModule module;
    LLVMContextRef llvm_context;
    LLVMModuleRef llvm;
    LLVMTargetMachineRef machine;
} state;

static void release_state(state *s)
{
    if (s->machine) {
        LLVMDisposeTargetMachine(s->machine);
    }
    if (s->llvm) {
        LLVMDisposeModule(s->llvm);
    }
    if (s->llvm_context) {
        LLVMContextDispose(s->llvm_context);
    }
    if (!mlirModuleIsNull(s->module)) {
        mlirModuleDestroy(s->module);
    }
    if (!mlirContextIsNull(s->context)) {
        mlirContextDestroy(s->context);
    }
}

static bt_mlir_status run_passes(state *s, const char *passes, bt_mlir_result *result)
{
    const MlirOperation operation = mlirModuleGetOperation(s->module);
    MlirPassManager manager = mlirPassManagerCreateOnOperation(
        s->context, mlirIdentifierStr(mlirOperationGetName(operation)));
    MlirLogicalResult done =
        mlirParsePassPipeline(mlirPassManagerGetAsOpPassManager(manager),
                              mlirStringRefCreateFromCString(passes), append, result);
    if (mlirLogicalResultIsSuccess(done)) {
        done = mlirPassManagerRunOnOp(manager, operation);
    }
    mlirPassManagerDestroy(manager);
    if (mlirLogicalResultIsFailure(done) && !result->message[0]) {
        say(result, "a pass failed", NULL);
    }
    return mlirLogicalResultIsSuccess(done) ? BT_MLIR_OK : BT_MLIR_BAD_TEXT;
}

// The text's gpu.module, which is what becomes PTX; a null operation without one.
static MlirOperation gpu_module(MlirModule module)
{
    MlirOperation found = {NULL};
    for (MlirOperation at = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
         !mlirOperationIsNull(at); at = mlirOperationGetNextInBlock(at)) {
        const MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(at));
        if (mlirStringRefEqual(name, mlirStringRefCreateFromCString("gpu.module"))) {
            found = at;
        }
    }
    return found;
}

static bt_mlir_status to_llvm(state *s, const bt_mlir_request *request, bt_mlir_result *result)
{
    s->context = bt_mlir_context();
    (void)mlirContextAttachDiagnosticHandler(s->context, bt_mlir_diagnose, result, NULL);
    s->module = mlirModuleCreateParse(s->context, mlirStringRefCreateFromCString(request->text));
    if (mlirModuleIsNull(s->module)) {
        return BT_MLIR_BAD_TEXT;
    }
    const bool gpu = request->target == BT_MLIR_PTX;
    const bt_mlir_status status = run_passes(s, gpu ? gpu_passes : cpu_passes, result);
    if (status) {
        return status;
    }
    const MlirOperation top = gpu ? gpu_module(s->module) : mlirModuleGetOperation(s->module);
    if (mlirOperationIsNull(top)) {
        say(result, "the text has no gpu.module", NULL);
        return BT_MLIR_BAD_TEXT;
    }
    s->llvm_context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(s->llvm_context, diagnose_llvm, result);
    s->llvm = mlirTranslateModuleToLLVMIR(top, s->llvm_context);
    if (!s->llvm) {
        if (!result->message[0]) {
            say(result, "the LLVM dialect cannot be translated to LLVM IR", NULL);
        }
        return BT_MLIR_BAD_TEXT;
    }
    return BT_MLIR_OK;
}

static bt_mlir_status choose_machine(state *s, const bt_mlir_request *request,
                                     bt_mlir_result *result)
{
    const bool gpu = request->target == BT_MLIR_PTX;
    const char *triple = gpu ? "nvptx64-nvidia-cuda" : "x86_64-unknown-linux-gnu";
    LLVMTargetRef target = NULL;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &why)) {
        say(result, "LLVM lacks the target", why);
        LLVMDisposeMessage(why);
        return BT_MLIR_UNSUPPORTED;
    }
    s->machine = LLVMCreateTargetMachine(
        target, triple, request->processor, request->features, LLVMCodeGenLevelAggressive,
        gpu ? LLVMRelocDefault : LLVMRelocPIC, LLVMCodeModelDefault);
    if (!s->machine) {
        say(result, "LLVM does not support the processor", request->processor);
        return BT_MLIR_UNSUPPORTED;
    }
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(s->machine);
    char *text = LLVMCopyStringRepOfTargetData(layout);
    LLVMSetTarget(s->llvm, triple);
    LLVMSetDataLayout(s->llvm, text);
    LLVMDisposeMessage(text);
    LLVMDisposeTargetData(layout);
    for (LLVMValueRef f = LLVMGetFirstFunction(s->llvm); !gpu && f; f = LLVMGetNextFunction(f)) {
        LLVMAddTargetDependentFunctionAttr(f, "target-cpu", request->processor);
        LLVMAddTargetDependentFunctionAttr(f, "target-features", request->features);
        LLVMAddTargetDependentFunctionAttr(f, "prefer-vector-width", "512");
    }
    return BT_MLIR_OK;
}

static bt_mlir_status optimise(state *s, bt_mlir_result *result)
{
    char *why = NULL;
    if (LLVMVerifyModule(s->llvm, LLVMReturnStatusAction, &why)) {
        say(result, "invalid LLVM IR", why);
        LLVMDisposeMessage(why);
        return BT_MLIR_BAD_TEXT;
    }
    LLVMDisposeMessage(why);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(s->llvm, "default<O3>", s->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        say(result, "LLVM cannot optimise", text);
        LLVMDisposeErrorMessage(text);
        return BT_MLIR_BROKEN;
    }
    return BT_MLIR_OK;
}

static bt_mlir_status generate(state *s, const bt_mlir_request *request, bt_mlir_result *result)
{
    LLVMMemoryBufferRef made = NULL;
    char *why = NULL;
    const LLVMCodeGenFileType type =
        request->target == BT_MLIR_PTX ? LLVMAssemblyFile : LLVMObjectFile;
    if (request->keep_llvm) {
        char *text = LLVMPrintModuleToString(s->llvm);
        result->llvm = strdup(text);
        LLVMDisposeMessage(text);
        if (!result->llvm) {
            return BT_MLIR_NO_MEMORY;
        }
    }
    if (LLVMTargetMachineEmitToMemoryBuffer(s->machine, s->llvm, type, &why, &made)) {
        say(result, "LLVM cannot generate code", why);
        LLVMDisposeMessage(why);
        return BT_MLIR_UNSUPPORTED;
    }
    if (result->message[0]) { // errors in inline assembly are reported and do not stop LLVM
        LLVMDisposeMemoryBuffer(made);
        return BT_MLIR_BAD_TEXT;
    }
    result->size_bytes = LLVMGetBufferSize(made);
    result->bytes = malloc(result->size_bytes + 1);
    if (result->bytes) {
        memcpy(result->bytes, LLVMGetBufferStart(made), result->size_bytes);
        result->bytes[result->size_bytes] = 0;
    }
    LLVMDisposeMemoryBuffer(made);
    return result->bytes ? BT_MLIR_OK : BT_MLIR_NO_MEMORY;
}

static bt_mlir_status steps(state *s, const bt_mlir_request *request, bt_mlir_result *result)
{
    bt_mlir_status status = to_llvm(s, request, result);
    status = status ? status : choose_machine(s, request, result);
    status = status ? status : bt_mlir_link_libdevice(s->llvm, request, result);
    status = status ? status : optimise(s, result);
    return status ? status : generate(s, request, result);
}

bt_mlir_status bt_mlir_lower(const bt_mlir_request *request, bt_mlir_result *result)
{
    memset(result, 0, sizeof *result);
    (void)pthread_once(&once, initialise);
    if (atomic_load(&broken)) {
        say(result, "LLVM failed in an earlier call of this process", NULL);
        return BT_MLIR_BROKEN;
    }
    state s = {0};
    jmp_buf here;
    (void)set_new_handler(new_failed); // it removes itself when memory runs out outside of a call
    escape = &here;
    current = result;
    if (setjmp(here)) { // leaks what the call allocated: the state of LLVM is unknown
        escape = NULL;
        return BT_MLIR_BROKEN;
    }
    const bt_mlir_status status = steps(&s, request, result);
    release_state(&s);
    escape = NULL;
    if (status == BT_MLIR_NO_MEMORY) {
        say(result, "out of memory", NULL);
    }
    return status;
}

// framework/compiler/mlir/library.h - the interface of libbt_mlir.so: MLIR text in, machine code
// out
//
// libblutrain opens the library with dlopen (lower.h); nothing of MLIR or LLVM is visible outside.
// Thread-safe: each call has its own context.
//
// Malformed text, a failed pass and an error inside LLVM are results with a message. After a fatal
// error of LLVM or a lack of memory in it, which would end the process, every later call returns
// BT_MLIR_BROKEN: the state of LLVM is unknown.
#ifndef BT_COMPILER_MLIR_LIBRARY_H
#define BT_COMPILER_MLIR_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { BT_MLIR_ABI = 2, BT_MLIR_MESSAGE_BYTES = 1024 };
#define BT_MLIR_ENTRY "bt_mlir_entry"

typedef enum bt_mlir_status {
    BT_MLIR_OK,
    BT_MLIR_BAD_TEXT,    // does not parse or verify, or a pass rejects it
    BT_MLIR_UNSUPPORTED, // unknown processor, or libdevice is needed and not given
    BT_MLIR_NO_MEMORY,
    BT_MLIR_BROKEN // LLVM failed, in this call or in an earlier one
} bt_mlir_status;

typedef enum bt_mlir_target {
    BT_MLIR_OBJECT, // x86-64 ELF object, position-independent
    BT_MLIR_PTX     // of the text's gpu.module
} bt_mlir_target;

typedef struct bt_mlir_request {
    const char *text; // MLIR, zero-terminated
    bt_mlir_target target;
    const char *processor; // "sm_90a", "x86-64-v3"; never NULL
    const char *features;  // "+ptx80"; "" for none
    const void *libdevice; // bitcode of CUDA's library of functions, borrowed; NULL: none
    size_t libdevice_bytes;
    bool keep_llvm; // also return LLVM IR as text
} bt_mlir_request;

typedef struct bt_mlir_result {
    char *bytes; // owned, zero-terminated: the object, or PTX
    size_t size_bytes;
    char *llvm; // owned; NULL unless keep_llvm
    char message[BT_MLIR_MESSAGE_BYTES];
} bt_mlir_result;

typedef struct bt_mlir_library {
    int abi;             // BT_MLIR_ABI
    const char *version; // "19.1.7"
    // *result is always set; release() it.
    bt_mlir_status (*lower)(const bt_mlir_request *request, bt_mlir_result *result);
    // Only *result's message is set. dialect: IRDL text; text: func and that dialect.
    bt_mlir_status (*verify)(const char *dialect, const char *text, bt_mlir_result *result);
    void (*release)(bt_mlir_result *result);
} bt_mlir_library;

typedef const bt_mlir_library *(*bt_mlir_entry_fn)(void);

#endif

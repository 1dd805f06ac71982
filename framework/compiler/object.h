// framework/compiler/object.h - an x86-64 ELF object file made callable in this process
//
// Generated kernels call nothing but a few functions of the C library, which object.c lists. So
// loading only places the sections and applies four kinds of relocation, without a linker or LLVM;
// cached code runs without MLIR installed.
//
// Invariants
//   1. Memory is never writable and executable at once.
//   2. Any bytes may be given: malformed or unknown contents are an error, never a crash.
#ifndef BT_COMPILER_OBJECT_H
#define BT_COMPILER_OBJECT_H

#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_object {
    unsigned char *memory; // owned: the mapping
    size_t size_bytes;     // of the mapping
    void *symbols;         // owned [symbol_count]: defined functions
    int symbol_count;
} bt_object;

// bytes is copied.
// Errors  CORRUPT_DATA (not such a file, with what is wrong), UNSUPPORTED (a relocation or function
//         that the loader does not know; a machine that is no x86-64), OUT_OF_MEMORY
BT_CHECKED bt_status bt_object_load(const void *bytes, size_t size_bytes, bt_object *out);
// The address of a function. Valid until the object is released.
// Errors  INVALID_ARGUMENT naming it
BT_CHECKED bt_status bt_object_function(const bt_object *object, const char *name, void **address);
void bt_object_release(bt_object *object);

#endif

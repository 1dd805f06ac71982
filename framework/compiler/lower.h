// framework/compiler/lower.h - MLIR text to machine code, through libbt_mlir.so and the cache
//
// The library is in the folder of libblutrain and is opened when the first text is lowered. If it
// was not built or cannot be loaded, only these functions fail: UNAVAILABLE, 'compiler: not built'
// or the loader's reason. Cached code needs no library.
#ifndef BT_COMPILER_LOWER_H
#define BT_COMPILER_LOWER_H

#include <stdbool.h>

#include "framework/compiler/code_cache.h"
#include "framework/compiler/mlir/library.h"

typedef enum bt_target_kind { BT_TARGET_CPU, BT_TARGET_CUDA } bt_target_kind;

// The target of code generation.
typedef struct bt_target {
    bt_target_kind kind;
    char processor[16];    // "x86-64-v4", "sm_90a"
    char features[16];     // "+ptx80", ""
    bool has_early_launch; // a kernel may be launched before its predecessor has ended (sm_90)
} bt_target;

// The instruction set that kernels/cpu uses on this machine: x86-64, -v3 or
// -v4 (kernels/cpu/vector.h).
// Errors  UNSUPPORTED on another machine
BT_CHECKED bt_status bt_target_host(bt_target *out);
// arch: compute capability x10. For 90 the target is sm_90a, above it sm_90, whose PTX the driver
// assembles for later GPUs too.
// Errors  UNSUPPORTED below 80
BT_CHECKED bt_status bt_target_cuda(int arch, bt_target *out);

// By name: "cpu", this machine's; "sm_80", "sm_89", "sm_90", which is also "sm_90a".
// Errors  INVALID_ARGUMENT, UNSUPPORTED
BT_CHECKED bt_status bt_target_parse(const char *name, bt_target *out);

// BT_OK if text can be lowered. Opens the library.
// Errors  UNAVAILABLE with the reason
BT_CHECKED bt_status bt_compiler_available(void);

typedef struct bt_lower_options {
    const char *libdevice; // file to read instead of the CUDA toolkit's; NULL: that one
    bool keep_llvm;
} bt_lower_options;

// Code for a text: an object file for the CPU, PTX for CUDA. options NULL: none.
// Owns    the caller: code, and *llvm (bt_mem_free), which is LLVM IR as text; NULL: not wanted
// Errors  INVALID_ARGUMENT with place and reason (the text does not parse, or a pass refuses it);
//         UNAVAILABLE; UNSUPPORTED (a function that needs libdevice, which is missing);
//         INTERNAL (LLVM failed); OUT_OF_MEMORY
BT_CHECKED bt_status bt_lower(const bt_target *target, const char *text,
                              const bt_lower_options *options, bt_code *code, char **llvm);

// Parses and verifies a text of the dialect that `dialect`, IRDL text, describes.
// Errors  INVALID_ARGUMENT with place and reason; UNAVAILABLE
BT_CHECKED bt_status bt_compiler_verify(const char *dialect, const char *text);

// The hash of text, target and the versions of LLVM and of this interface.
void bt_lower_key(const bt_target *target, const char *text, char key[BT_CODE_KEY_BYTES]);
// From the cache, or lowered and added to it. A failure of the cache is not an error: code that
// cannot be read is made again, and cache->unwritten counts failures to write.
BT_CHECKED bt_status bt_lower_cached(bt_code_cache *cache, const bt_target *target,
                                     const char *text, bt_code *code);

// For tests of failures: texts are lowered by `library`, borrowed, from now on; NULL: none. Returns
// the library used so far; NULL: it could not be opened.
const bt_mlir_library *bt_lower_through(const bt_mlir_library *library);

#endif

// kernels/generated.h - running code that was generated at run time on a GPU: the plugin's third
// symbol, for framework/compiler
#ifndef BT_KERNELS_GENERATED_H
#define BT_KERNELS_GENERATED_H

#include "framework/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_generated {
    void *module;   // owned, the driver's
    void *function; // of the module
} bt_generated;

typedef struct bt_generated_table {
    int abi; // BT_GENERATED_ABI of the build
    // The driver's version, as 13000. Code of `assemble` is for one version and device type.
    int (*driver_version)(void);
    // Machine code of PTX, which ends with a zero byte, for the device. *code becomes memory of
    // `size_bytes` bytes, which the caller owns (bt_mem_free).
    // Errors  UNAVAILABLE (the driver lacks a function), INTERNAL with the assembler's words,
    //         OUT_OF_MEMORY
    bt_status (*assemble)(const bt_device *device, const char *ptx, void **code,
                          size_t *size_bytes);
    // The function `name` of such code. Errors  UNAVAILABLE, INTERNAL (code for another device)
    bt_status (*load)(const bt_device *device, const void *code, const char *name,
                      bt_generated *out);
    void (*unload)(bt_generated *generated); // safe on a zeroed one
    // parameters: addresses of the arguments. Neither allocates nor synchronizes; a stream may be
    // captured. is_early: the code begins with griddepcontrol.wait, and may be launched before the
    // previous kernel of the stream has ended.
    // Errors  INVALID_ARGUMENT (more than 2^31 - 1 blocks), INTERNAL
    bt_status (*launch)(const bt_device *device, const bt_generated *generated, int64_t blocks,
                        int threads, bool is_early, void **parameters, bt_stream stream);
} bt_generated_table;

#define BT_GENERATED_ABI   2
#define BT_GENERATED_ENTRY "bt_generated_entry"
typedef const bt_generated_table *(*bt_generated_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif

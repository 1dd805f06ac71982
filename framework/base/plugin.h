// framework/base/plugin.h - shared libraries beside libblutrain.so that are opened when needed
#ifndef BT_BASE_PLUGIN_H
#define BT_BASE_PLUGIN_H

#include "framework/base/status.h"

enum { BT_PLUGIN_PATH_BYTES = 4096 };

// The path of the library of that name, whether it exists or not.
void bt_plugin_path(const char *library, char path[BT_PLUGIN_PATH_BYTES]);
// The address of a symbol of the library, which stays open for the rest of the process.
// Errors  UNAVAILABLE (no such file, a library that it needs is missing, no such symbol), with the
//         loader's reason
BT_CHECKED bt_status bt_plugin_symbol(const char *library, const char *symbol, void **out);

#endif

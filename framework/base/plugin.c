#include "framework/base/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void bt_plugin_path(const char *library, char path[BT_PLUGIN_PATH_BYTES])
{
    static const char here; // an address in libblutrain.so
    Dl_info self;
    const char *slash = NULL;
    if (dladdr(&here, &self) && self.dli_fname) {
        slash = strrchr(self.dli_fname, '/');
    }
    int length = slash ? (int)(slash - self.dli_fname) : 1;
    (void)snprintf(path, BT_PLUGIN_PATH_BYTES, "%.*s/%s", length, slash ? self.dli_fname : ".",
                   library);
}

bt_status bt_plugin_symbol(const char *library, const char *symbol, void **out)
{
    char path[BT_PLUGIN_PATH_BYTES];
    bt_plugin_path(library, path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *out = handle ? dlsym(handle, symbol) : NULL;
    if (!*out) {
        const char *reason = dlerror();
        return bt_error(BT_STATUS_UNAVAILABLE, "%s", reason ? reason : path);
    }
    return BT_OK;
}

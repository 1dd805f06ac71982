// harness/bundle/libarchive.c - opens libarchive and looks up its functions
#include "harness/bundle/libarchive.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

bt_archive_functions bt_archive;

static char reason[512]; // error; "" if there was none

// ISO C does not convert object pointers to function pointers; POSIX guarantees that this copy
// works.
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        (void)snprintf(reason, sizeof reason, "this libarchive is too old: it has no %s", name);
        return false;
    }
    memcpy(function, &symbol, sizeof symbol);
    return true;
}

static void open_once(void)
{
    void *library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)snprintf(reason, sizeof reason,
                       "bundles need libarchive (apt-get install libarchive13): %s", dlerror());
        return;
    }
    bt_archive_functions found = {0};
#define FIND(name)                                                                                 \
    if (!find(library, "archive_" #name, &found.name)) {                                           \
        return;                                                                                    \
    }
    BT_ARCHIVE_LIST(FIND)
#undef FIND
    bt_archive = found;
}

bt_status bt_archive_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_once);
    return reason[0] ? bt_error(BT_STATUS_UNAVAILABLE, "%s", reason) : BT_OK;
}

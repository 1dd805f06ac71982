// harness/data/curl.c - opens libcurl and looks up its functions
#include "harness/data/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

bt_curl_functions bt_curl;

static char reason[512]; // error; "" if there was none

// ISO C does not convert object pointers to function pointers; POSIX guarantees that this copy
// works.
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        (void)snprintf(reason, sizeof reason, "this libcurl is too old: it has no %s", name);
        return false;
    }
    memcpy(function, &symbol, sizeof symbol);
    return true;
}

static void open_once(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    library = library ? library : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)snprintf(reason, sizeof reason,
                       "downloads need libcurl (apt-get install libcurl4): %s", dlerror());
        return;
    }
    bt_curl_functions found = {0};
#define FIND(name)                                                                                 \
    if (!find(library, "curl_" #name, &found.name)) {                                              \
        return;                                                                                    \
    }
    BT_CURL_LIST(FIND)
#undef FIND
    bt_curl = found;
}

bt_status bt_curl_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_once);
    return reason[0] ? bt_error(BT_STATUS_UNAVAILABLE, "%s", reason) : BT_OK;
}

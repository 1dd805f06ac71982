// harness/data/curl.h - libcurl, opened when a download first needs it
//
// Only downloads need it, and it loads thirty libraries. So it is not linked: a machine without it
// runs everything else, and portable folders do not contain it.
#ifndef BT_HARNESS_DATA_CURL_H
#define BT_HARNESS_DATA_CURL_H

#include <curl/curl.h>

#include "framework/base/status.h"

// X(name without curl_): the functions that are called.
#define BT_CURL_LIST(X)                                                                            \
    X(easy_cleanup)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_strerror)                                                                               \
    X(global_cleanup)                                                                              \
    X(global_init)                                                                                 \
    X(multi_add_handle)                                                                            \
    X(multi_cleanup)                                                                               \
    X(multi_info_read)                                                                             \
    X(multi_init)                                                                                  \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_remove_handle)

typedef struct bt_curl_functions {
#define BT_CURL_FIELD(name) __typeof__(curl_##name) *name;
    BT_CURL_LIST(BT_CURL_FIELD)
#undef BT_CURL_FIELD
} bt_curl_functions;

// Filled by bt_curl_open(), once; before that all NULL.
extern bt_curl_functions bt_curl;

// Opens the library; it stays open. Errors  UNAVAILABLE (not installed, with how to install it)
BT_CHECKED bt_status bt_curl_open(void);

#endif

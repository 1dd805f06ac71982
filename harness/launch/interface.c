#include "harness/launch/interface.h"

#include <net/if.h>
#include <stdbool.h>
#include <string.h>

#include "framework/base/scoped.h"

// Whether one of the names of `list` means this interface.
static bool names(const char *list, const char *interface, bool whole)
{
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ",");
        if (length > 0 && strncmp(at, interface, length) == 0 &&
            (!whole || interface[length] == '\0')) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

bt_status bt_interface_check(const char *wanted, int rank)
{
    BT_SCOPED(bt_str) text = {0};
    bool found = false;
    if (!wanted || !*wanted) {
        return BT_OK;
    }
    const bool except = *wanted == '^';
    const bool whole = wanted[except] == '=';
    const char *list = wanted + except + whole;
    struct if_nameindex *all = if_nameindex();
    for (struct if_nameindex *at = all; at && at->if_name; ++at) {
        found = found || names(list, at->if_name, whole) != except;
        bt_str_format(&text, "%s%s", text.length_bytes ? ", " : "", at->if_name);
    }
    if_freenameindex(all);
    const bt_status status =
        found ? BT_OK
              : bt_error(BT_STATUS_INVALID_ARGUMENT,
                         "rank %d: NCCL_SOCKET_IFNAME is %s, which no interface of this host has; "
                         "it has %s",
                         rank, wanted, bt_str_text(&text));
    return status;
}

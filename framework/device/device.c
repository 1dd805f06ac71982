// framework/device/device.c - opens a backend by name
#include "framework/device/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/plugin.h"

static const char plugin[] = "libbt_cuda.so";

enum { ADDED_MAX = 4 };

static const bt_backend *added[ADDED_MAX]; // the newest last
static int added_count;

static const bt_backend *cuda_backend;                 // set once by open_plugin
static char plugin_reason[BT_PLUGIN_PATH_BYTES + 256]; // why there is none

static const bt_backend *find_added(const char *name)
{
    for (int i = added_count; i > 0; --i) {
        if (strcmp(added[i - 1]->name, name) == 0) {
            return added[i - 1];
        }
    }
    return NULL;
}

bt_status bt_device_add(const bt_backend *backend)
{
    if (added_count == ADDED_MAX || backend->abi != BT_BACKEND_ABI) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "backend %s of interface %d: expected %d, and at most %d added backends",
                        backend->name, backend->abi, BT_BACKEND_ABI, ADDED_MAX);
    }
    added[added_count++] = backend;
    return BT_OK;
}

bool bt_device_is_built(const char *name)
{
    char path[BT_PLUGIN_PATH_BYTES];
    bt_plugin_path(plugin, path);
    return find_added(name) || strcmp(name, "cpu") == 0 ||
           (strcmp(name, "cuda") == 0 && access(path, R_OK) == 0);
}

static void open_plugin(void)
{
    void *symbol = NULL;
    bt_backend_entry_fn entry = NULL;
    if (bt_plugin_symbol(plugin, BT_BACKEND_ENTRY, &symbol) != BT_OK) {
        (void)snprintf(plugin_reason, sizeof plugin_reason, "no CUDA backend: %s",
                       bt_error_message());
        return;
    }
    // ISO C does not convert object pointers to function pointers; POSIX guarantees that this copy
    // works.
    memcpy(&entry, &symbol, sizeof entry);
    const bt_backend *backend = entry();
    if (!backend || backend->abi != BT_BACKEND_ABI) {
        (void)snprintf(plugin_reason, sizeof plugin_reason,
                       "%s belongs to another build (interface %d, expected %d)", plugin,
                       backend ? backend->abi : 0, BT_BACKEND_ABI);
        return;
    }
    cuda_backend = backend;
}

bt_status bt_device_backend(const char *name, const bt_backend **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *out = find_added(name);
    if (*out) {
        return BT_OK;
    }
    if (strcmp(name, "cpu") == 0) {
        *out = &bt_cpu_backend;
        return BT_OK;
    }
    if (strcmp(name, "cuda") != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown device \"%s\"; allowed: cpu, cuda",
                        name);
    }
    (void)pthread_once(&once, open_plugin);
    if (!cuda_backend) {
        return bt_error(BT_STATUS_UNAVAILABLE, "%s", plugin_reason);
    }
    *out = cuda_backend;
    return BT_OK;
}

bt_status bt_device_count(const char *backend, int *count)
{
    const bt_backend *found = NULL;
    *count = 0;
    BT_TRY(bt_device_backend(backend, &found));
    return found->device_count(count);
}

bt_status bt_device_open(const char *backend, int ordinal, bt_device *out)
{
    const bt_backend *found = NULL;
    int count = 0;
    memset(out, 0, sizeof *out);
    BT_TRY(bt_device_backend(backend, &found));
    BT_TRY(found->device_count(&count));
    if (ordinal < 0 || ordinal >= count) {
        return bt_error(BT_STATUS_UNAVAILABLE, "no %s device %d: there %s %d", backend, ordinal,
                        count == 1 ? "is" : "are", count);
    }
    out->backend = found;
    out->ordinal = ordinal;
    bt_status status = found->device_open(ordinal, out);
    if (status != BT_OK) {
        memset(out, 0, sizeof *out);
    }
    return status;
}

void bt_device_close(bt_device *device)
{
    if (device->backend) {
        device->backend->device_close(device);
        memset(device, 0, sizeof *device);
    }
}

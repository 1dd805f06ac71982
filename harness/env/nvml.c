// harness/env/nvml.c - opens NVML, selects a device
#include "harness/env/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/environment.h"

bool bt_nvml_open(bt_nvml *out, int *error)
{
    memset(out, 0, sizeof *out);
    *error = 0;
    out->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!out->library) {
        return false;
    }
    const struct {
        const char *symbol;
        void *place;
        bool required;
    } rows[] = {
#define REQUIRED_ROW(member, symbol, parameters) {symbol, &out->member, true},
#define OPTIONAL_ROW(member, symbol, parameters) {symbol, &out->member, false},
        BT_NVML_REQUIRED_LIST(REQUIRED_ROW) BT_NVML_OPTIONAL_LIST(OPTIONAL_ROW)
#undef OPTIONAL_ROW
#undef REQUIRED_ROW
    };
    bool complete = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        void *symbol = dlsym(out->library, rows[i].symbol);
        memcpy(rows[i].place, &symbol, sizeof symbol);
        complete = complete && (symbol || !rows[i].required);
    }
    *error = complete ? out->init() : 0;
    if (!complete || *error != BT_NVML_OK) {
        dlclose(out->library);
        memset(out, 0, sizeof *out);
        return false;
    }
    return true;
}

void bt_nvml_close(bt_nvml *nvml)
{
    if (nvml->library) {
        (void)nvml->shutdown();
        dlclose(nvml->library);
        memset(nvml, 0, sizeof *nvml);
    }
}

bool bt_nvml_visible_device(const bt_nvml *nvml, const char *visible, int ordinal,
                            bt_nvml_device *device)
{
    if (!visible) {
        return nvml->by_index((unsigned)ordinal, device) == BT_NVML_OK;
    }
    for (int i = 0; i < ordinal; ++i) {
        visible += strcspn(visible, ",");
        visible += *visible == ',';
    }
    char entry[96];
    (void)snprintf(entry, sizeof entry, "%.*s", (int)strcspn(visible, ","), visible);
    if (strncmp(entry, "GPU-", 4) == 0) {
        return nvml->by_uuid(entry, device) == BT_NVML_OK;
    }
    char *end = NULL;
    unsigned long index = strtoul(entry, &end, 10);
    bool number = end != entry && !*end && entry[0] != '-' && index < 1024;
    return number && nvml->by_index((unsigned)index, device) == BT_NVML_OK;
}

bool bt_nvml_cuda_device(const bt_nvml *nvml, int ordinal, bt_nvml_device *device)
{
    const char *visible = bt_environment_raw(BT_VARIABLE_CUDA_VISIBLE_DEVICES);
    return bt_nvml_visible_device(nvml, visible, ordinal, device);
}

bool bt_nvml_processes(const bt_nvml *nvml, bt_nvml_device device, bt_nvml_process *list,
                       unsigned capacity, unsigned *count)
{
    *count = capacity;
    int answer = BT_NVML_CALL(nvml, processes, device, count, capacity ? list : NULL);
    return answer == BT_NVML_OK || answer == BT_NVML_INSUFFICIENT_SIZE;
}

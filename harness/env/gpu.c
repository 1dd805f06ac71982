// harness/env/gpu.c - facts about the GPU: what its backend says, and NVML where it is installed
//
// NVML comes with the driver, not with the toolkit, so it is opened by name and the few functions
// that are needed are declared here. Source: NVML API Reference, driver 535 and later.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "harness/env/facts.h"

typedef struct nvml_device_impl *nvml_device;

enum { NVML_OK = 0, NVML_INSUFFICIENT_SIZE = 7, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };

typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*by_index)(unsigned index, nvml_device *device);
    int (*vbios)(nvml_device device, char *text, unsigned size_bytes);
    int (*ecc)(nvml_device device, unsigned *current, unsigned *pending);
    int (*mig)(nvml_device device, unsigned *current, unsigned *pending);
    int (*power_limit)(nvml_device device, unsigned *milliwatt);
    int (*max_clock)(nvml_device device, unsigned kind, unsigned *mhz);
    int (*processes)(nvml_device device, unsigned *count, void *infos);
} nvml;

static bool open_nvml(nvml *library)
{
    const struct {
        const char *symbol;
        void *place;
    } rows[] = {{"nvmlInit_v2", &library->init},
                {"nvmlShutdown", &library->shutdown},
                {"nvmlDeviceGetHandleByUUID", &library->by_uuid},
                {"nvmlDeviceGetHandleByIndex_v2", &library->by_index},
                {"nvmlDeviceGetVbiosVersion", &library->vbios},
                {"nvmlDeviceGetEccMode", &library->ecc},
                {"nvmlDeviceGetMigMode", &library->mig},
                {"nvmlDeviceGetEnforcedPowerLimit", &library->power_limit},
                {"nvmlDeviceGetMaxClockInfo", &library->max_clock},
                {"nvmlDeviceGetComputeRunningProcesses_v3", &library->processes}};
    library->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library->library) {
        return false;
    }
    bool complete = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        void *symbol = dlsym(library->library, rows[i].symbol);
        memcpy(rows[i].place, &symbol, sizeof symbol);
        complete = complete && symbol;
    }
    if (!complete || library->init() != NVML_OK) {
        dlclose(library->library);
        return false;
    }
    return true;
}

static bt_status add_formatted(bt_facts *facts, const char *key, unsigned value, const char *unit,
                               bt_fact_level level)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%u%s", value, unit);
    return bt_facts_add(facts, key, text, level);
}

static bt_status add_nvml(bt_facts *facts, const nvml *library, nvml_device device)
{
    char text[128] = "";
    unsigned value = 0, pending = 0, count = 0;
    if (library->vbios(device, text, sizeof text) == NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.vbios", text, BT_FACT_SOFT));
    }
    if (library->ecc(device, &value, &pending) == NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.ecc", value ? "on" : "off", BT_FACT_HARD));
    }
    if (library->mig(device, &value, &pending) == NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.mig", value ? "on" : "off", BT_FACT_HARD));
    }
    if (library->power_limit(device, &value) == NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.power_limit", value / 1000, " W", BT_FACT_HARD));
    }
    if (library->max_clock(device, NVML_CLOCK_SM, &value) == NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.clock_max_sm", value, " MHz", BT_FACT_SOFT));
    }
    if (library->max_clock(device, NVML_CLOCK_MEMORY, &value) == NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.clock_max_memory", value, " MHz", BT_FACT_SOFT));
    }
    // With no room for the list the answer is 'insufficient size' and the number of processes.
    int answer = library->processes(device, &count, NULL);
    if (answer == NVML_OK || answer == NVML_INSUFFICIENT_SIZE) {
        BT_TRY(add_formatted(facts, "gpu.other_processes", count, "", BT_FACT_SOFT));
    }
    return BT_OK;
}

static bt_status add_device(bt_facts *facts, const bt_device_info *info)
{
    char text[64];
    BT_TRY(bt_facts_add(facts, "gpu.name", info->name, BT_FACT_HARD));
    BT_TRY(bt_facts_add(facts, "gpu.uuid", info->uuid, BT_FACT_SOFT));
    BT_TRY(bt_facts_add(facts, "gpu.driver", info->driver, BT_FACT_HARD));
    BT_TRY(bt_facts_add(facts, "gpu.runtime", info->runtime, BT_FACT_HARD));
    (void)snprintf(text, sizeof text, "%d.%d", info->arch / 10, info->arch % 10);
    BT_TRY(bt_facts_add(facts, "gpu.compute_capability", text, BT_FACT_HARD));
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)info->memory_bytes);
    BT_TRY(bt_facts_add(facts, "gpu.memory_bytes", text, BT_FACT_HARD));
    (void)snprintf(text, sizeof text, "%d", info->processor_count);
    return bt_facts_add(facts, "gpu.sm_count", text, BT_FACT_HARD);
}

bt_status bt_facts_add_gpu(bt_facts *facts, const bt_machine *machine)
{
    BT_TRY(add_device(facts, &machine->cuda));
    nvml library = {0};
    if (!open_nvml(&library)) {
        return BT_OK;
    }
    nvml_device device = NULL;
    bt_status status = BT_OK;
    if (library.by_uuid(machine->cuda.uuid, &device) == NVML_OK ||
        library.by_index(0, &device) == NVML_OK) {
        status = add_nvml(facts, &library, device);
    }
    (void)library.shutdown();
    dlclose(library.library);
    return status;
}

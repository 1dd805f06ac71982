// harness/env/gpu.c - facts about the GPU: what its backend says, and NVML where it is installed
#include <stdio.h>
#include <string.h>

#include "harness/env/facts.h"
#include "harness/env/nvml.h"

static bt_status add_formatted(bt_facts *facts, const char *key, unsigned value, const char *unit,
                               bt_fact_level level)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%u%s", value, unit);
    return bt_facts_add(facts, key, text, level);
}

static bt_status add_nvml(bt_facts *facts, const bt_nvml *library, bt_nvml_device device)
{
    char text[128] = "";
    unsigned value = 0, pending = 0, count = 0;
    if (library->vbios(device, text, sizeof text) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.vbios", text, BT_FACT_SOFT));
    }
    if (library->ecc(device, &value, &pending) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.ecc", value ? "on" : "off", BT_FACT_HARD));
    }
    if (library->mig(device, &value, &pending) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(facts, "gpu.mig", value ? "on" : "off", BT_FACT_HARD));
    }
    if (library->power_limit(device, &value) == BT_NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.power_limit", value / 1000, " W", BT_FACT_HARD));
    }
    if (library->max_clock(device, BT_NVML_CLOCK_SM, &value) == BT_NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.clock_max_sm", value, " MHz", BT_FACT_SOFT));
    }
    if (library->max_clock(device, BT_NVML_CLOCK_MEMORY, &value) == BT_NVML_OK) {
        BT_TRY(add_formatted(facts, "gpu.clock_max_memory", value, " MHz", BT_FACT_SOFT));
    }
    // With no room for the list the answer is 'insufficient size' and the number of processes.
    int answer = library->processes(device, &count, NULL);
    if (answer == BT_NVML_OK || answer == BT_NVML_INSUFFICIENT_SIZE) {
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
    bt_nvml library;
    bt_nvml_device device = NULL;
    int error = 0;
    bt_status status = BT_OK;
    if (!bt_nvml_open(&library, &error)) {
        return BT_OK;
    }
    if (library.by_uuid(machine->cuda.uuid, &device) == BT_NVML_OK) {
        status = add_nvml(facts, &library, device);
    }
    bt_nvml_close(&library);
    return status;
}

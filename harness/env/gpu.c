// harness/env/gpu.c - facts about the GPU: from its backend, and from NVML if installed
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/env/facts.h"
#include "harness/env/nvml.h"

typedef struct asking {
    bt_facts *facts;
    const bt_nvml *nvml;
    bt_nvml_device device;
} asking;

static bt_status add_formatted(bt_facts *facts, const char *key, unsigned value, const char *unit)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%u%s", value, unit);
    return bt_facts_add(facts, key, text);
}

// ---- modes and limits --------------------------------------------------------------------------

static bt_status add_modes(const asking *self)
{
    const bt_nvml *nvml = self->nvml;
    static const char *const compute_modes[] = {"default", "exclusive thread", "prohibited",
                                                "exclusive process"};
    char text[128] = "";
    unsigned value = 0, pending = 0;
    if (BT_NVML_CALL(nvml, vbios, self->device, text, sizeof text) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(self->facts, "gpu.vbios", text));
    }
    if (BT_NVML_CALL(nvml, ecc, self->device, &value, &pending) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(self->facts, "gpu.ecc", value ? "on" : "off"));
    }
    if (BT_NVML_CALL(nvml, mig, self->device, &value, &pending) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(self->facts, "gpu.mig", value ? "on" : "off"));
    }
    if (BT_NVML_CALL(nvml, persistence, self->device, &value) == BT_NVML_OK) {
        BT_TRY(bt_facts_add(self->facts, "gpu.persistence", value ? "on" : "off"));
    }
    if (BT_NVML_CALL(nvml, compute_mode, self->device, &value) == BT_NVML_OK && value < 4) {
        BT_TRY(bt_facts_add(self->facts, "gpu.compute_mode", compute_modes[value]));
    }
    return BT_OK;
}

typedef int (*ask_clock)(bt_nvml_device device, unsigned kind, unsigned *mhz);

static bt_status add_clock(const asking *self, const char *key, ask_clock ask, unsigned kind)
{
    unsigned mhz = 0;
    if (!ask || ask(self->device, kind, &mhz) != BT_NVML_OK) {
        return BT_OK;
    }
    return add_formatted(self->facts, key, mhz, " MHz");
}

static bt_status add_limits(const asking *self)
{
    const bt_nvml *nvml = self->nvml;
    unsigned value = 0;
    if (BT_NVML_CALL(nvml, power_limit, self->device, &value) == BT_NVML_OK) {
        BT_TRY(add_formatted(self->facts, "gpu.power_limit", value / 1000, " W"));
    }
    if (BT_NVML_CALL(nvml, power_default, self->device, &value) == BT_NVML_OK) {
        BT_TRY(add_formatted(self->facts, "gpu.power_limit_default", value / 1000, " W"));
    }
    BT_TRY(add_clock(self, "gpu.clock_max_sm", nvml->max_clock, BT_NVML_CLOCK_SM));
    BT_TRY(add_clock(self, "gpu.clock_max_memory", nvml->max_clock, BT_NVML_CLOCK_MEMORY));
    BT_TRY(add_clock(self, "gpu.clock_application_sm", nvml->application_clock, BT_NVML_CLOCK_SM));
    return add_clock(self, "gpu.clock_application_memory", nvml->application_clock,
                     BT_NVML_CLOCK_MEMORY);
}

// ---- topology ----------------------------------------------------------------------------------

static bt_status add_pci(const asking *self)
{
    const bt_nvml *nvml = self->nvml;
    bt_nvml_pci pci;
    unsigned generation = 0, lanes = 0;
    char text[128];
    if (BT_NVML_CALL(nvml, pci, self->device, &pci) == BT_NVML_OK) {
        (void)snprintf(text, sizeof text, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
        BT_TRY(bt_facts_add(self->facts, "gpu.pci_bus", text));
        (void)snprintf(text, sizeof text, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
                       pci.domain, pci.bus, pci.device);
        BT_TRY(bt_facts_add_line(self->facts, "gpu.numa_node", text));
    }
    if (BT_NVML_CALL(nvml, pcie_generation, self->device, &generation) == BT_NVML_OK &&
        BT_NVML_CALL(nvml, pcie_width, self->device, &lanes) == BT_NVML_OK) {
        (void)snprintf(text, sizeof text, "generation %u, %u lanes", generation, lanes);
        BT_TRY(bt_facts_add(self->facts, "gpu.pcie", text));
    }
    return BT_OK;
}

// Source: nvmlGpuTopologyLevel_t, which leaves gaps between its levels
static const char *ancestor_name(unsigned level)
{
    static const char *const names[] = {"same board",       "one PCIe switch", "PCIe switches",
                                        "PCIe host bridge", "NUMA node",       "system"};
    return level <= 50 && level % 10 == 0 ? names[level / 10] : "unknown";
}

// The number of GPUs and what this one shares with each of the others.
static bt_status add_topology(const asking *self)
{
    const bt_nvml *nvml = self->nvml;
    unsigned count = 0, active = 0, links = 0, level = 0;
    for (unsigned i = 0; i < BT_NVML_LINKS_MAX; ++i) {
        links += BT_NVML_CALL(nvml, link, self->device, i, &active) == BT_NVML_OK && active;
    }
    BT_TRY(add_formatted(self->facts, "gpu.nvlinks", links, ""));
    if (BT_NVML_CALL(nvml, count, &count) != BT_NVML_OK) {
        return BT_OK;
    }
    BT_TRY(add_formatted(self->facts, "gpu.count", count, ""));
    BT_SCOPED(bt_str) text = {0};
    for (unsigned i = 0; i < count; ++i) {
        bt_nvml_device other = NULL;
        if (nvml->by_index(i, &other) == BT_NVML_OK && other != self->device &&
            BT_NVML_CALL(nvml, topology, self->device, other, &level) == BT_NVML_OK) {
            bt_str_format(&text, "%s%u: %s", text.length_bytes ? ", " : "", i,
                          ancestor_name(level));
        }
    }
    BT_TRY(bt_str_status(&text));
    return bt_facts_add(self->facts, "gpu.topology", bt_str_text(&text));
}

static bt_status add_nvml(const asking *self)
{
    int version = 0;
    unsigned count = 0;
    char text[48];
    BT_TRY(add_modes(self));
    BT_TRY(add_limits(self));
    BT_TRY(add_pci(self));
    BT_TRY(add_topology(self));
    if (BT_NVML_CALL(self->nvml, cuda_version, &version) == BT_NVML_OK) {
        (void)snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
        BT_TRY(bt_facts_add(self->facts, "gpu.cuda_of_driver", text));
    }
    // With a list of capacity 0 the result is the number of processes.
    return bt_nvml_processes(self->nvml, self->device, NULL, 0, &count)
               ? add_formatted(self->facts, "gpu.other_processes", count, "")
               : BT_OK;
}

static bt_status add_device(bt_facts *facts, const bt_device_info *info)
{
    char text[64];
    BT_TRY(bt_facts_add(facts, "gpu.name", info->name));
    BT_TRY(bt_facts_add(facts, "gpu.uuid", info->uuid));
    BT_TRY(bt_facts_add(facts, "gpu.driver", info->driver));
    BT_TRY(bt_facts_add(facts, "gpu.runtime", info->runtime));
    (void)snprintf(text, sizeof text, "%d.%d", info->arch / 10, info->arch % 10);
    BT_TRY(bt_facts_add(facts, "gpu.compute_capability", text));
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)info->memory_bytes);
    BT_TRY(bt_facts_add(facts, "gpu.memory_bytes", text));
    (void)snprintf(text, sizeof text, "%d", info->processor_count);
    return bt_facts_add(facts, "gpu.sm_count", text);
}

// NCCL, if installed; its number is 10000 times the major version, and so on.
static bt_status add_nccl(bt_facts *facts)
{
    char text[48] = "";
    int number = 0;
    int (*version)(int *number) = NULL;
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "ncclGetVersion") : NULL;
    memcpy(&version, &symbol, sizeof version);
    if (version && version(&number) == 0) {
        (void)snprintf(text, sizeof text, "%d.%d.%d", number / 10000, number / 100 % 100,
                       number % 100);
    }
    if (library) {
        dlclose(library);
    }
    return bt_facts_add(facts, "lib.nccl", text);
}

bt_status bt_facts_add_gpu(bt_facts *facts, const bt_machine *machine)
{
    BT_TRY(add_device(facts, &machine->cuda));
    BT_TRY(add_nccl(facts));
    bt_nvml library;
    asking self = {.facts = facts, .nvml = &library};
    int error = 0;
    bt_status status = BT_OK;
    if (!bt_nvml_open(&library, &error)) {
        return BT_OK;
    }
    if (library.by_uuid(machine->cuda.uuid, &self.device) == BT_NVML_OK) {
        status = add_nvml(&self);
    }
    bt_nvml_close(&library);
    return status;
}

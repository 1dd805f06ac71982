#include "harness/launch/affinity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/status.h"
#include "harness/env/nvml.h"

enum { NODES_MAX = 64 };

bool bt_affinity_parse(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    while (*text && *text != '\n') {
        char *end = NULL;
        const long first = strtol(text, &end, 10);
        if (end == text || first < 0) {
            return false;
        }
        long last = first;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text) {
                return false;
            }
        }
        if (last < first || last >= CPU_SETSIZE) {
            return false;
        }
        for (long i = first; i <= last; ++i) {
            CPU_SET((size_t)i, out);
        }
        if (*end == ',') {
            ++end;
        } else if (*end && *end != '\n') {
            return false;
        }
        text = end;
    }
    return true;
}

int bt_affinity_processors(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
}

bool bt_affinity_takes_turns(int64_t ranks)
{
    const int processors = bt_affinity_processors();
    return processors > 0 && ranks > processors;
}

static bool read_text(const char *path, char *text, size_t capacity)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    if (!bt_file_exists(path) || bt_file_read(path, &bytes, &size_bytes) != BT_OK) {
        bt_error_clear();
        return false;
    }
    (void)snprintf(text, capacity, "%s", (const char *)bytes);
    bt_mem_free(bytes);
    return true;
}

static int read_nodes(cpu_set_t *nodes)
{
    int count = 0;
    for (int i = 0; i < NODES_MAX; ++i) {
        char path[96], text[4096];
        (void)snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        if (!read_text(path, text, sizeof text) || !bt_affinity_parse(text, &nodes[count])) {
            break;
        }
        ++count;
    }
    return count;
}

// The NUMA node of the GPU in this slot; -1: not known.
static int node_of_gpu(int slot)
{
    bt_nvml nvml;
    bt_nvml_device device;
    bt_nvml_pci pci = {0};
    int error = 0, node = -1;
    if (!bt_nvml_open(&nvml, &error)) {
        return -1;
    }
    if (bt_nvml_cuda_device(&nvml, slot, &device) &&
        BT_NVML_CALL(&nvml, pci, device, &pci) == BT_NVML_OK) {
        char path[96], text[32];
        (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
                       pci.domain, pci.bus, pci.device);
        node = read_text(path, text, sizeof text) ? (int)strtol(text, NULL, 10) : -1;
    }
    bt_nvml_close(&nvml);
    return node;
}

bool bt_affinity_split(const cpu_set_t *allowed, const cpu_set_t *nodes, int node_count,
                       int gpu_node, int slot, int count, cpu_set_t *out)
{
    const int total = CPU_COUNT(allowed);
    CPU_ZERO(out);
    if (gpu_node >= 0) {
        if (gpu_node < node_count) {
            CPU_AND(out, allowed, &nodes[gpu_node]);
        }
        return CPU_COUNT(out) > 0;
    }
    if (node_count < 1) {
        return false;
    }
    const int first = slot * total / count, end = (slot + 1) * total / count;
    const int behind = end > first ? end : first + 1; // more ranks than processors share them
    int at = 0;
    for (int node = 0; node < node_count; ++node) {
        for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, allowed) && CPU_ISSET(cpu, &nodes[node])) {
                if (at >= first && at < behind) {
                    CPU_SET(cpu, out);
                }
                ++at;
            }
        }
    }
    return at == total && CPU_COUNT(out) > 0;
}

bool bt_affinity_of(int slot, int count, bool gpu, cpu_set_t *out)
{
    cpu_set_t allowed, nodes[NODES_MAX];
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return false;
    }
    const int node_count = read_nodes(nodes);
    const int gpu_node = gpu ? node_of_gpu(slot) : -1;
    return (!gpu || gpu_node >= 0) &&
           bt_affinity_split(&allowed, nodes, node_count, gpu_node, slot, count, out);
}

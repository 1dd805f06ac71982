// tests/harness/fake_nvml.c - an NVML with two made-up devices, built as libnvidia-ml.so.1 for
// tests
//
// Its answers are given by environment variables, read at each call:
//   FAKE_NVML_ERROR     its start fails with this number
//   FAKE_NVML_THROTTLE  bits of the clocks' event reasons
//   FAKE_NVML_THROTTLE_SECOND  the same, of the second device
//   FAKE_NVML_CLOCK     SM clock in MHz
//   FAKE_NVML_CLOCK_SECOND     the same, of the second device
//   FAKE_NVML_PIDS      processes on the device, "17,18:0": each with memory, or with so much
//   FAKE_NVML_LOST      calls that still succeed before the device is lost
//   FAKE_NVML_SLOW      milliseconds that asking for the power takes
//   FAKE_NVML_XID       "1:48": an event of device 1 with this XID, reported once
//   FAKE_NVML_SAME      both devices are of one model
// With FAKE_NVML_OLD defined it lacks what old drivers lack, and calls itself 450.0.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/env/nvml.h"

// The functions as NVML declares them, from the tables that the harness opens it by.
#define DECLARE(member, symbol, parameters) int fake_##member parameters __asm__(symbol);
BT_NVML_REQUIRED_LIST(DECLARE)
BT_NVML_OPTIONAL_LIST(DECLARE)
#undef DECLARE

enum { NOT_FOUND = 6, TIMED_OUT = 10 };

struct bt_nvml_device_impl {
    const char *name, *uuid;
    unsigned long long free_bytes;
};

static struct bt_nvml_device_impl devices[] = {{"First", "GPU-1111", 10},
                                               {"Second", "GPU-2222", 20}};

static int put(const char *value, char *text, unsigned size_bytes)
{
    (void)snprintf(text, size_bytes, "%s", value);
    return BT_NVML_OK;
}

static unsigned long long variable(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

// With _SECOND appended to the name for the second device, where that is set.
static unsigned long long variable_of(bt_nvml_device device, const char *name,
                                      unsigned long long otherwise)
{
    char second[64];
    (void)snprintf(second, sizeof second, "%s_SECOND", name);
    return variable(device == &devices[1] && getenv(second) ? second : name, otherwise);
}

// Counts down FAKE_NVML_LOST.
static int alive(void)
{
    static unsigned long long done;
    const char *calls = getenv("FAKE_NVML_LOST");
    if (!calls) {
        done = 0;
        return BT_NVML_OK;
    }
    return done++ < strtoull(calls, NULL, 10) ? BT_NVML_OK : BT_NVML_GPU_IS_LOST;
}

// ---- library and devices -----------------------------------------------------------------------

int fake_init(void) { return (int)variable("FAKE_NVML_ERROR", BT_NVML_OK); }

int fake_shutdown(void) { return BT_NVML_OK; }

int fake_driver(char *text, unsigned size_bytes)
{
#ifdef FAKE_NVML_OLD
    return put("450.0", text, size_bytes);
#else
    return put("580.1", text, size_bytes);
#endif
}

int fake_by_index(unsigned index, bt_nvml_device *device)
{
    *device = index < 2 ? &devices[index] : NULL;
    return index < 2 ? BT_NVML_OK : NOT_FOUND;
}

int fake_by_uuid(const char *uuid, bt_nvml_device *device)
{
    for (unsigned i = 0; i < 2; ++i) {
        if (strcmp(devices[i].uuid, uuid) == 0) {
            *device = &devices[i];
            return BT_NVML_OK;
        }
    }
    return NOT_FOUND;
}

int fake_name(bt_nvml_device device, char *text, unsigned size_bytes)
{
    return put(getenv("FAKE_NVML_SAME") ? devices[0].name : device->name, text, size_bytes);
}

int fake_uuid(bt_nvml_device device, char *text, unsigned size_bytes)
{
    return put(device->uuid, text, size_bytes);
}

int fake_memory(bt_nvml_device device, bt_nvml_memory *memory)
{
    *memory = (bt_nvml_memory){100, device->free_bytes, 100 - device->free_bytes};
    return BT_NVML_OK;
}

int fake_capability(bt_nvml_device device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return BT_NVML_OK;
}

// ---- modes, limits, place ----------------------------------------------------------------------

int fake_vbios(bt_nvml_device device, char *text, unsigned size_bytes)
{
    (void)device;
    return put("96.00", text, size_bytes);
}

int fake_ecc(bt_nvml_device device, unsigned *now, unsigned *pending)
{
    (void)device;
    *now = *pending = 1;
    return BT_NVML_OK;
}

int fake_mig(bt_nvml_device device, unsigned *now, unsigned *pending)
{
    (void)device;
    (void)now;
    (void)pending;
    return BT_NVML_NOT_SUPPORTED;
}

int fake_power_limit(bt_nvml_device device, unsigned *milliwatt)
{
    (void)device;
    *milliwatt = 700000;
    return BT_NVML_OK;
}

int fake_max_clock(bt_nvml_device device, unsigned kind, unsigned *mhz)
{
    (void)device;
    *mhz = kind == BT_NVML_CLOCK_SM ? 1980 : 3201;
    return BT_NVML_OK;
}

int fake_clock(bt_nvml_device device, unsigned kind, unsigned *mhz)
{
    *mhz = kind == BT_NVML_CLOCK_SM ? (unsigned)variable_of(device, "FAKE_NVML_CLOCK", 1755) : 3201;
    return alive();
}

int fake_power(bt_nvml_device device, unsigned *milliwatt)
{
    long ms = (long)variable("FAKE_NVML_SLOW", 0);
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)device;
    (void)nanosleep(&pause, NULL);
    *milliwatt = 312500;
    return alive();
}

#ifndef FAKE_NVML_OLD
// 300 W, all the time.
int fake_energy(bt_nvml_device device, unsigned long long *millijoule)
{
    struct timespec now;
    (void)device;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoule = (unsigned long long)now.tv_sec * 300000 +
                  (unsigned long long)(now.tv_nsec / 1000) * 300 / 1000;
    return alive();
}
#endif

int fake_temperature(bt_nvml_device device, unsigned sensor, unsigned *celsius)
{
    (void)device;
    *celsius = sensor == BT_NVML_TEMPERATURE_GPU ? 51 : 99;
    return alive();
}

int fake_throttle_reasons(bt_nvml_device device, unsigned long long *bits)
{
    *bits = variable_of(device, "FAKE_NVML_THROTTLE", 0);
    return alive();
}

#ifndef FAKE_NVML_OLD

int fake_count(unsigned *count)
{
    *count = 2;
    return BT_NVML_OK;
}

int fake_cuda_version(int *version)
{
    *version = 13020;
    return BT_NVML_OK;
}

int fake_power_default(bt_nvml_device device, unsigned *milliwatt)
{
    (void)device;
    *milliwatt = 650000;
    return BT_NVML_OK;
}

int fake_application_clock(bt_nvml_device device, unsigned kind, unsigned *mhz)
{
    (void)device;
    *mhz = kind == BT_NVML_CLOCK_SM ? 1830 : 3201;
    return BT_NVML_OK;
}

int fake_persistence(bt_nvml_device device, unsigned *mode)
{
    (void)device;
    *mode = 1;
    return BT_NVML_OK;
}

int fake_compute_mode(bt_nvml_device device, unsigned *mode)
{
    (void)device;
    *mode = 3;
    return BT_NVML_OK;
}

int fake_pci(bt_nvml_device device, bt_nvml_pci *pci)
{
    (void)device;
    *pci =
        (bt_nvml_pci){.bus_id_legacy = "0000:1B:00.0", .bus = 0x1b, .bus_id = "00000000:1B:00.0"};
    return BT_NVML_OK;
}

int fake_pcie_generation(bt_nvml_device device, unsigned *generation)
{
    (void)device;
    *generation = 5;
    return BT_NVML_OK;
}

int fake_pcie_width(bt_nvml_device device, unsigned *lanes)
{
    (void)device;
    *lanes = 16;
    return BT_NVML_OK;
}

int fake_link(bt_nvml_device device, unsigned link, unsigned *active)
{
    (void)device;
    *active = link != 3;
    return link < 6 ? BT_NVML_OK : BT_NVML_NOT_SUPPORTED;
}

int fake_topology(bt_nvml_device a, bt_nvml_device b, unsigned *level)
{
    *level = a == b ? 0 : 40;
    return BT_NVML_OK;
}

int fake_event_reasons(bt_nvml_device device, unsigned long long *bits)
{
    return fake_throttle_reasons(device, bits);
}

int fake_event_set_create(bt_nvml_events *events)
{
    *events = NULL;
    return BT_NVML_OK;
}

int fake_event_set_free(bt_nvml_events events)
{
    (void)events;
    return BT_NVML_OK;
}

int fake_register_events(bt_nvml_device device, unsigned long long types, bt_nvml_events events)
{
    (void)device;
    (void)events;
    return types == BT_NVML_EVENT_XID ? BT_NVML_OK : BT_NVML_NOT_SUPPORTED;
}

int fake_event_set_wait(bt_nvml_events events, bt_nvml_event *event, unsigned timeout_ms)
{
    static char told[32];
    const char *text = getenv("FAKE_NVML_XID");
    (void)events;
    (void)timeout_ms;
    if (!text || strcmp(text, told) == 0) {
        (void)snprintf(told, sizeof told, "%s", text ? text : "");
        return TIMED_OUT;
    }
    (void)snprintf(told, sizeof told, "%s", text);
    char *colon = NULL;
    *event = (bt_nvml_event){.type = BT_NVML_EVENT_XID};
    event->device = &devices[strtoul(text, &colon, 10) & 1];
    event->data = strtoull(colon + 1, NULL, 10);
    return BT_NVML_OK;
}

int fake_processes(bt_nvml_device device, unsigned *count, bt_nvml_process *list)
{
    const char *at = getenv("FAKE_NVML_PIDS");
    unsigned capacity = *count, found = 0;
    (void)device;
    while (at && *at) {
        char *end = NULL;
        bt_nvml_process process = {.used_bytes = BT_NVML_UNKNOWN};
        process.pid = (unsigned)strtoul(at, &end, 10);
        if (*end == ':') {
            process.used_bytes = strtoull(end + 1, &end, 10);
        }
        if (list && found < capacity) {
            list[found] = process;
        }
        ++found;
        at = *end ? end + 1 : end;
    }
    *count = found;
    int state = alive();
    return state != BT_NVML_OK ? state : found > capacity ? BT_NVML_INSUFFICIENT_SIZE : BT_NVML_OK;
}

#endif

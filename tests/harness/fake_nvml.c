// tests/harness/fake_nvml.c - an NVML with two made-up devices, built as libnvidia-ml.so.1 for
// harness.env; $FAKE_NVML_ERROR makes its start fail
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/env/nvml.h"

// The functions as NVML declares them, from the table that the harness opens it by.
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *text, unsigned size_bytes);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, bt_nvml_device *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, bt_nvml_device *device);
int nvmlDeviceGetName(bt_nvml_device device, char *text, unsigned size_bytes);
int nvmlDeviceGetUUID(bt_nvml_device device, char *text, unsigned size_bytes);
int nvmlDeviceGetMemoryInfo(bt_nvml_device device, bt_nvml_memory *memory);
int nvmlDeviceGetCudaComputeCapability(bt_nvml_device device, int *major, int *minor);
int nvmlDeviceGetVbiosVersion(bt_nvml_device device, char *text, unsigned size_bytes);
int nvmlDeviceGetEccMode(bt_nvml_device device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMigMode(bt_nvml_device device, unsigned *now, unsigned *pending);
int nvmlDeviceGetEnforcedPowerLimit(bt_nvml_device device, unsigned *milliwatt);
int nvmlDeviceGetMaxClockInfo(bt_nvml_device device, unsigned kind, unsigned *mhz);
int nvmlDeviceGetComputeRunningProcesses_v3(bt_nvml_device device, unsigned *count, void *infos);

enum { NOT_FOUND = 6, NOT_SUPPORTED = 3 };

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

int nvmlInit_v2(void)
{
    const char *error = getenv("FAKE_NVML_ERROR");
    return error ? (int)strtol(error, NULL, 10) : BT_NVML_OK;
}

int nvmlShutdown(void) { return BT_NVML_OK; }

int nvmlSystemGetDriverVersion(char *text, unsigned size_bytes)
{
    return put("580.1", text, size_bytes);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, bt_nvml_device *device)
{
    *device = index < 2 ? &devices[index] : NULL;
    return index < 2 ? BT_NVML_OK : NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, bt_nvml_device *device)
{
    for (unsigned i = 0; i < 2; ++i) {
        if (strcmp(devices[i].uuid, uuid) == 0) {
            *device = &devices[i];
            return BT_NVML_OK;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(bt_nvml_device device, char *text, unsigned size_bytes)
{
    return put(device->name, text, size_bytes);
}

int nvmlDeviceGetUUID(bt_nvml_device device, char *text, unsigned size_bytes)
{
    return put(device->uuid, text, size_bytes);
}

int nvmlDeviceGetMemoryInfo(bt_nvml_device device, bt_nvml_memory *memory)
{
    *memory = (bt_nvml_memory){100, device->free_bytes, 100 - device->free_bytes};
    return BT_NVML_OK;
}

int nvmlDeviceGetCudaComputeCapability(bt_nvml_device device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return BT_NVML_OK;
}

int nvmlDeviceGetVbiosVersion(bt_nvml_device device, char *text, unsigned size_bytes)
{
    (void)device;
    return put("96.00", text, size_bytes);
}

int nvmlDeviceGetEccMode(bt_nvml_device device, unsigned *now, unsigned *pending)
{
    (void)device;
    *now = *pending = 1;
    return BT_NVML_OK;
}

int nvmlDeviceGetMigMode(bt_nvml_device device, unsigned *now, unsigned *pending)
{
    (void)device;
    (void)now;
    (void)pending;
    return NOT_SUPPORTED;
}

int nvmlDeviceGetEnforcedPowerLimit(bt_nvml_device device, unsigned *milliwatt)
{
    (void)device;
    *milliwatt = 700000;
    return BT_NVML_OK;
}

int nvmlDeviceGetMaxClockInfo(bt_nvml_device device, unsigned kind, unsigned *mhz)
{
    (void)device;
    *mhz = kind == BT_NVML_CLOCK_SM ? 1980 : 3201;
    return BT_NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(bt_nvml_device device, unsigned *count, void *infos)
{
    (void)device;
    (void)infos;
    *count = 2;
    return BT_NVML_INSUFFICIENT_SIZE;
}

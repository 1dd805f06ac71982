// harness/env/nvml.h - the driver's management library, opened by name
//
// NVML comes with the driver, not with the toolkit, and answers in milliseconds without making a
// CUDA context. So it is what looks at a GPU before anything is run. The few functions that are
// needed are declared here. Source: NVML API Reference, driver 535 and later.
#ifndef BT_HARNESS_ENV_NVML_H
#define BT_HARNESS_ENV_NVML_H

#include <stdbool.h>

typedef struct bt_nvml_device_impl *bt_nvml_device;

enum {
    BT_NVML_OK = 0,
    BT_NVML_INSUFFICIENT_SIZE = 7,
    BT_NVML_CLOCK_SM = 1,
    BT_NVML_CLOCK_MEMORY = 2
};

typedef struct bt_nvml_memory {
    unsigned long long total_bytes, free_bytes, used_bytes;
} bt_nvml_memory;

// X(member, symbol, parameters): all return BT_NVML_OK or an error number
#define BT_NVML_LIST(X)                                                                            \
    X(init, "nvmlInit_v2", (void))                                                                 \
    X(shutdown, "nvmlShutdown", (void))                                                            \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned size_bytes))                     \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, bt_nvml_device *device))         \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *uuid, bt_nvml_device *device))            \
    X(name, "nvmlDeviceGetName", (bt_nvml_device device, char *text, unsigned size_bytes))         \
    X(uuid, "nvmlDeviceGetUUID", (bt_nvml_device device, char *text, unsigned size_bytes))         \
    X(memory, "nvmlDeviceGetMemoryInfo", (bt_nvml_device device, bt_nvml_memory * memory))         \
    X(capability, "nvmlDeviceGetCudaComputeCapability",                                            \
      (bt_nvml_device device, int *major, int *minor))                                             \
    X(vbios, "nvmlDeviceGetVbiosVersion",                                                          \
      (bt_nvml_device device, char *text, unsigned size_bytes))                                    \
    X(ecc, "nvmlDeviceGetEccMode", (bt_nvml_device device, unsigned *now, unsigned *pending))      \
    X(mig, "nvmlDeviceGetMigMode", (bt_nvml_device device, unsigned *now, unsigned *pending))      \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit",                                              \
      (bt_nvml_device device, unsigned *milliwatt))                                                \
    X(max_clock, "nvmlDeviceGetMaxClockInfo",                                                      \
      (bt_nvml_device device, unsigned kind, unsigned *mhz))                                       \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                        \
      (bt_nvml_device device, unsigned *count, void *infos))

typedef struct bt_nvml {
    void *library; // owned
#define BT_NVML_MEMBER(member, symbol, parameters) int(*member) parameters;
    BT_NVML_LIST(BT_NVML_MEMBER)
#undef BT_NVML_MEMBER
} bt_nvml;

// False when the library is not there, lacks a function or does not answer; *error is then 0, 0 and
// NVML's number. Owns  *out: the caller, bt_nvml_close
bool bt_nvml_open(bt_nvml *out, int *error);
void bt_nvml_close(bt_nvml *nvml);
// The device that CUDA would call 0: the first that CUDA_VISIBLE_DEVICES (`visible`, may be NULL)
// names. False when there is none, or when it names something other than an index or a UUID.
bool bt_nvml_first_device(const bt_nvml *nvml, const char *visible, bt_nvml_device *device);

#endif

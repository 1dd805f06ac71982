// harness/env/nvml.h - the driver's management library, opened by name
//
// NVML is part of the driver, not of the toolkit, and answers in milliseconds without a CUDA
// context. So it is used to query a GPU before a run. The few functions that are needed are
// declared here. Source: NVML API Reference, driver 535 and later.
#ifndef BT_HARNESS_ENV_NVML_H
#define BT_HARNESS_ENV_NVML_H

#include <stdbool.h>

typedef struct bt_nvml_device_impl *bt_nvml_device;

// Return codes, kinds and levels that are used. Source: nvmlReturn_t, nvmlClockType_t,
// nvmlTemperatureSensors_t, nvmlGpuTopologyLevel_t, nvmlComputeMode_t
enum {
    BT_NVML_OK = 0,
    BT_NVML_NOT_SUPPORTED = 3,
    BT_NVML_INSUFFICIENT_SIZE = 7,
    BT_NVML_FUNCTION_NOT_FOUND = 13, // also the result of BT_NVML_CALL for a missing function
    BT_NVML_GPU_IS_LOST = 15,
    BT_NVML_CLOCK_SM = 1,
    BT_NVML_CLOCK_MEMORY = 2,
    BT_NVML_TEMPERATURE_GPU = 0,
    BT_NVML_LINKS_MAX = 18,
    BT_NVML_EVENT_XID = 8
};

typedef struct bt_nvml_memory { // nvmlMemory_t
    unsigned long long total_bytes, free_bytes, used_bytes;
} bt_nvml_memory;

typedef struct bt_nvml_process { // nvmlProcessInfo_t, of _v3
    unsigned pid;
    unsigned long long used_bytes; // BT_NVML_UNKNOWN: unknown
    unsigned gpu_instance, compute_instance;
} bt_nvml_process;

#define BT_NVML_UNKNOWN (~0ULL)

typedef struct bt_nvml_events_impl *bt_nvml_events; // nvmlEventSet_t

typedef struct bt_nvml_event { // nvmlEventData_t
    bt_nvml_device device;
    unsigned long long type, data; // data: the XID
    unsigned gpu_instance, compute_instance;
} bt_nvml_event;

typedef struct bt_nvml_pci { // nvmlPciInfo_t, of _v3
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; // "00000000:1B:00.0"
} bt_nvml_pci;

_Static_assert(sizeof(bt_nvml_process) == 24 && sizeof(bt_nvml_pci) == 68 &&
                   sizeof(bt_nvml_event) == 32,
               "the structures of NVML have unexpected sizes");

// X(member, symbol, parameters): all return BT_NVML_OK or an error number. Required functions:
#define BT_NVML_REQUIRED_LIST(X)                                                                   \
    X(init, "nvmlInit_v2", (void))                                                                 \
    X(shutdown, "nvmlShutdown", (void))                                                            \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned size_bytes))                     \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, bt_nvml_device *device))         \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *uuid, bt_nvml_device *device))            \
    X(name, "nvmlDeviceGetName", (bt_nvml_device device, char *text, unsigned size_bytes))         \
    X(uuid, "nvmlDeviceGetUUID", (bt_nvml_device device, char *text, unsigned size_bytes))         \
    X(memory, "nvmlDeviceGetMemoryInfo", (bt_nvml_device device, bt_nvml_memory * memory))         \
    X(capability, "nvmlDeviceGetCudaComputeCapability",                                            \
      (bt_nvml_device device, int *major, int *minor))

// Optional functions, which a driver may lack; then NULL, so use BT_NVML_CALL.
#define BT_NVML_OPTIONAL_LIST(X)                                                                   \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *count))                                           \
    X(cuda_version, "nvmlSystemGetCudaDriverVersion_v2", (int *version))                           \
    X(vbios, "nvmlDeviceGetVbiosVersion",                                                          \
      (bt_nvml_device device, char *text, unsigned size_bytes))                                    \
    X(ecc, "nvmlDeviceGetEccMode", (bt_nvml_device device, unsigned *now, unsigned *pending))      \
    X(mig, "nvmlDeviceGetMigMode", (bt_nvml_device device, unsigned *now, unsigned *pending))      \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit",                                              \
      (bt_nvml_device device, unsigned *milliwatt))                                                \
    X(power_default, "nvmlDeviceGetPowerManagementDefaultLimit",                                   \
      (bt_nvml_device device, unsigned *milliwatt))                                                \
    X(max_clock, "nvmlDeviceGetMaxClockInfo",                                                      \
      (bt_nvml_device device, unsigned kind, unsigned *mhz))                                       \
    X(application_clock, "nvmlDeviceGetApplicationsClock",                                         \
      (bt_nvml_device device, unsigned kind, unsigned *mhz))                                       \
    X(persistence, "nvmlDeviceGetPersistenceMode", (bt_nvml_device device, unsigned *mode))        \
    X(compute_mode, "nvmlDeviceGetComputeMode", (bt_nvml_device device, unsigned *mode))           \
    X(pci, "nvmlDeviceGetPciInfo_v3", (bt_nvml_device device, bt_nvml_pci * pci))                  \
    X(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration",                                       \
      (bt_nvml_device device, unsigned *generation))                                               \
    X(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth", (bt_nvml_device device, unsigned *lanes))       \
    X(link, "nvmlDeviceGetNvLinkState", (bt_nvml_device device, unsigned link, unsigned *active))  \
    X(topology, "nvmlDeviceGetTopologyCommonAncestor",                                             \
      (bt_nvml_device a, bt_nvml_device b, unsigned *level))                                       \
    X(clock, "nvmlDeviceGetClockInfo", (bt_nvml_device device, unsigned kind, unsigned *mhz))      \
    X(power, "nvmlDeviceGetPowerUsage", (bt_nvml_device device, unsigned *milliwatt))              \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", /* since the driver was loaded */             \
      (bt_nvml_device device, unsigned long long *millijoule))                                     \
    X(temperature, "nvmlDeviceGetTemperature",                                                     \
      (bt_nvml_device device, unsigned sensor, unsigned *celsius))                                 \
    X(event_reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                     \
      (bt_nvml_device device, unsigned long long *bits))                                           \
    X(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons", /* its name up to 530 */      \
      (bt_nvml_device device, unsigned long long *bits))                                           \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                        \
      (bt_nvml_device device, unsigned *count, bt_nvml_process *list))                             \
    X(event_set_create, "nvmlEventSetCreate", (bt_nvml_events * events))                           \
    X(event_set_free, "nvmlEventSetFree", (bt_nvml_events events))                                 \
    X(register_events, "nvmlDeviceRegisterEvents",                                                 \
      (bt_nvml_device device, unsigned long long types, bt_nvml_events events))                    \
    X(event_set_wait, "nvmlEventSetWait_v2",                                                       \
      (bt_nvml_events events, bt_nvml_event * event, unsigned timeout_ms))

typedef struct bt_nvml {
    void *library; // owned
#define BT_NVML_MEMBER(member, symbol, parameters) int(*member) parameters;
    BT_NVML_REQUIRED_LIST(BT_NVML_MEMBER)
    BT_NVML_OPTIONAL_LIST(BT_NVML_MEMBER)
#undef BT_NVML_MEMBER
} bt_nvml;

// Calls an optional function: BT_NVML_CALL(nvml, power, device, &milliwatt).
#define BT_NVML_CALL(nvml, member, ...)                                                            \
    ((nvml)->member ? (nvml)->member(__VA_ARGS__) : BT_NVML_FUNCTION_NOT_FOUND)

// False if the library is missing, lacks a required function or fails; *error is then 0, 0 and
// NVML's number. Owns  *out: the caller, bt_nvml_close
bool bt_nvml_open(bt_nvml *out, int *error);
void bt_nvml_close(bt_nvml *nvml);
// The device that CUDA calls `ordinal`: that entry of CUDA_VISIBLE_DEVICES (`visible`, may be
// NULL). False if there is none, or if the entry is neither an index nor a UUID.
bool bt_nvml_visible_device(const bt_nvml *nvml, const char *visible, int ordinal,
                            bt_nvml_device *device);
// The same with this process's environment.
bool bt_nvml_cuda_device(const bt_nvml *nvml, int ordinal, bt_nvml_device *device);

// Processes that compute on the device, into list [capacity]; *count may be larger than the
// capacity. False if the driver does not report them.
bool bt_nvml_processes(const bt_nvml *nvml, bt_nvml_device device, bt_nvml_process *list,
                       unsigned capacity, unsigned *count);

#endif

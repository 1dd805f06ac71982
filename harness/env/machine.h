// harness/env/machine.h - this machine as input of a plan: devices and memory
#ifndef BT_HARNESS_ENV_MACHINE_H
#define BT_HARNESS_ENV_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "framework/device/device.h"

typedef struct bt_machine {
    uint64_t host_memory_bytes; // usable: the smaller of available memory and cgroup limit
    bool has_cuda;
    char cuda_reason[512]; // why not, "" if there is one
    bt_device_info cuda;   // of device 0; zero without
    uint64_t cuda_free_bytes;
} bt_machine;

// Describes the machine in milliseconds: queries NVML about CUDA device 0 (name, memory, driver,
// arch, uuid) without a context. If NVML is missing but a driver exists, the device is opened as by
// bt_machine_open_cuda.
BT_CHECKED bt_status bt_machine_look(bt_machine *out);
// Opens CUDA device 0 in a child process (this program's hidden verb `probe`), so that this process
// has no context, and fills in its description; if it cannot be opened, has_cuda is false and
// cuda_reason is set.
BT_CHECKED bt_status bt_machine_open_cuda(bt_machine *machine);
// The child's side: one line of JSON about CUDA device 0.
// Errors  as bt_device_open
BT_CHECKED bt_status bt_machine_probe(bt_str *out);

#endif

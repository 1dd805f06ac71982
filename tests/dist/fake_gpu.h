// tests/dist/fake_gpu.h - the device side of groups on GPUs, on the CPU
//
// Windows are files in memory that processes map, kernels run when they are launched, and flags are
// atomics in the windows: what framework/dist does with the table of kernels/collectives.h is
// tested without a GPU, with real processes, descriptors and deaths.
#ifndef BT_TESTS_DIST_FAKE_GPU_H
#define BT_TESTS_DIST_FAKE_GPU_H

#include "kernels/collectives.h"

// It has no NCCL. `ready`: what p2p_ready answers.
const bt_device_collectives *fake_gpu_table(bt_status ready);
// Makes this process' GPU have no memory for more windows.
void fake_gpu_exhaust(void);
// Makes this process' next mapping of another rank's window fail.
void fake_gpu_fail_import(void);

#endif

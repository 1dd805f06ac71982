#include "harness/launch/devices.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/idioms.h"

bt_xid_action bt_xid_action_of(unsigned long long xid, const char **meaning)
{
    static const struct {
        unsigned long long number;
        bt_xid_action action;
        const char *meaning;
    } rows[] = {
#define X(number, action, meaning) {number, BT_XID_##action, meaning},
#include "harness/launch/xids.inl"
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].number == xid) {
            *meaning = rows[i].meaning;
            return rows[i].action;
        }
    }
    *meaning = "not in the table of errors that end a rank";
    return BT_XID_NONE;
}

static bt_status check_devices(const bt_nvml *nvml, int count)
{
    const bool chosen = bt_environment_raw(BT_VARIABLE_CUDA_VISIBLE_DEVICES) != NULL;
    bt_nvml_device device;
    char first[96] = "";
    for (int i = 0; i < count; ++i) {
        BT_FAIL_IF(!bt_nvml_cuda_device(nvml, i, &device), BT_STATUS_UNAVAILABLE,
                   "train.mesh.data: %d ranks need a GPU each, %s %d", count,
                   chosen ? "CUDA_VISIBLE_DEVICES shows" : "this host has", i);
    }
    for (int i = 0; i < count; ++i) {
        char name[96] = "";
        BT_FAIL_IF(!bt_nvml_cuda_device(nvml, i, &device) ||
                       nvml->name(device, name, sizeof name) != BT_NVML_OK,
                   BT_STATUS_UNAVAILABLE, "GPU %d of rank %d does not answer", i, i);
        if (i == 0) {
            (void)snprintf(first, sizeof first, "%s", name);
        } else if (strcmp(name, first) != 0) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "rank %d would run on GPU %d, a %s; rank 0 runs on a %s. Ranks must "
                            "have the same model: set CUDA_VISIBLE_DEVICES or train.mesh.data",
                            i, i, name, first);
        }
    }
    return BT_OK;
}

bt_status bt_launch_devices(int count, bool *usable)
{
    bt_nvml nvml;
    int error = 0;
    for (int i = 0; i < count; ++i) {
        usable[i] = true;
    }
    BT_FAIL_IF(!bt_nvml_open(&nvml, &error), BT_STATUS_UNAVAILABLE,
               "train.mesh.data: %d ranks need a GPU each; the driver's library does not "
               "answer (%d)",
               count, error);
    const bt_status status = check_devices(&nvml, count);
    bt_nvml_close(&nvml);
    return status;
}

void bt_xid_watch_open(int count, bt_xid_watch *watch)
{
    int error = 0;
    *watch = (bt_xid_watch){.count = count < 64 ? count : 64};
    if (!bt_nvml_open(&watch->nvml, &error)) {
        return;
    }
    bool open = BT_NVML_CALL(&watch->nvml, event_set_create, &watch->events) == BT_NVML_OK;
    watch->open = open;
    for (int i = 0; open && i < watch->count; ++i) {
        open = bt_nvml_cuda_device(&watch->nvml, i, &watch->devices[i]) &&
               BT_NVML_CALL(&watch->nvml, register_events, watch->devices[i], BT_NVML_EVENT_XID,
                            watch->events) == BT_NVML_OK;
    }
    if (!open) {
        bt_xid_watch_close(watch);
    }
}

bool bt_xid_watch_next(bt_xid_watch *watch, int *gpu, unsigned long long *xid)
{
    bt_nvml_event event;
    if (!watch->open ||
        BT_NVML_CALL(&watch->nvml, event_set_wait, watch->events, &event, 0) != BT_NVML_OK) {
        return false;
    }
    for (int i = 0; i < watch->count; ++i) {
        if (watch->devices[i] == event.device) {
            *gpu = i;
            *xid = event.data;
            return true;
        }
    }
    return false;
}

void bt_xid_watch_close(bt_xid_watch *watch)
{
    if (watch->open) {
        (void)BT_NVML_CALL(&watch->nvml, event_set_free, watch->events);
    }
    if (watch->nvml.library) {
        bt_nvml_close(&watch->nvml);
    }
    watch->open = false;
    watch->nvml.library = NULL;
}

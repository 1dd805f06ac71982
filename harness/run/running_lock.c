// harness/run/running_lock.c - exclusive use of the GPUs by a run
//
// Every GPU that a case uses is locked from the beginning to the end of the run, in the order of
// their names, so that two runs never deadlock.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/idioms.h"
#include "harness/env/nvml.h"
#include "harness/run/child.h"
#include "harness/run/running.h"

enum {
    LOCK_POLL_MS = 200,
    GPUS_MAX = (int)(sizeof((bt_running *)0)->locks / sizeof(bt_device_lock))
};

typedef char device_name[96];

int bt_running_gpus_of(const cJSON *item)
{
    static const char *const sizes[] = {"data", "tensor", "context"};
    const cJSON *mesh = bt_json_get(bt_json_get(item, "train"), "mesh");
    double ranks = bt_json_number_of(bt_json_get(item, "kernel"), "ranks");
    ranks = ranks > 1 ? ranks : 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        const double size = bt_json_number_of(mesh, sizes[i]);
        ranks *= size > 1 ? size : 1;
    }
    return ranks < GPUS_MAX ? (int)ranks : GPUS_MAX;
}

int bt_running_gpus(const bt_plan *plan)
{
    int most = 1;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const int gpus = bt_running_gpus_of(bt_plan_case(plan, i));
        most = gpus > most ? gpus : most;
    }
    return most;
}

// UUIDs, or "cuda-N" if the driver does not report one. The first is given.
static void name_devices(const char *first, int count, device_name *names)
{
    bt_nvml nvml;
    int error = 0;
    const bool open = count > 1 && bt_nvml_open(&nvml, &error);
    for (int i = 0; i < count; ++i) {
        bt_nvml_device device;
        (void)snprintf(names[i], sizeof names[i], "cuda-%d", i);
        if (i == 0 && *first) {
            (void)snprintf(names[i], sizeof names[i], "%s", first);
        } else if (i > 0 && open && bt_nvml_cuda_device(&nvml, i, &device)) {
            (void)!nvml.uuid(device, names[i], sizeof names[i]);
        }
    }
    if (open) {
        bt_nvml_close(&nvml);
    }
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static bt_status wait_for(bt_running *self, const char *device, bt_device_lock *lock)
{
    static const struct timespec pause = {.tv_nsec = LOCK_POLL_MS * 1000000L};
    bool taken = false, told = false;
    while (!taken) {
        char owner[256] = "";
        if (bt_device_lock_try(device, lock, &taken, owner, sizeof owner) != BT_OK) {
            bt_progress_say(&self->view, "lock      %s; continuing without it\n",
                            bt_error_message());
            bt_error_clear();
            return BT_OK;
        }
        if (!taken && !told) {
            bt_progress_say(&self->view, "waiting   %s has the GPU; Ctrl-C stops waiting\n",
                            *owner ? owner : "another run");
            told = true;
        }
        BT_FAIL_IF(bt_interrupt_count() > 0, BT_STATUS_INTERRUPTED,
                   "interrupted while %s had the GPU", *owner ? owner : "another run");
        if (!taken) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return BT_OK;
}

bt_status bt_running_lock(bt_running *self)
{
    device_name names[GPUS_MAX];
    const int count = bt_running_gpus(self->request->plan);
    name_devices(self->request->machine->cuda.uuid, count, names);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    for (int i = 0; i < count; ++i) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0) {
            continue; // CUDA_VISIBLE_DEVICES lists it twice
        }
        bt_device_lock *lock = &self->locks[self->lock_count];
        *lock = (bt_device_lock){.file = -1};
        ++self->lock_count;
        BT_TRY(wait_for(self, names[i], lock));
    }
    return BT_OK;
}

void bt_running_sign(bt_running *self)
{
    char owner[512], database[PATH_MAX];
    bool known = realpath(bt_store_path(self->store), database) != NULL;
    (void)snprintf(owner, sizeof owner, "run %lld of %.400s, process %lld",
                   (long long)self->outcome->run, known ? database : bt_store_path(self->store),
                   (long long)getpid());
    for (int i = 0; i < self->lock_count; ++i) {
        bt_device_lock_sign(&self->locks[i], owner);
    }
}

void bt_running_unlock(bt_running *self)
{
    while (self->lock_count > 0) {
        bt_device_lock_release(&self->locks[--self->lock_count]);
    }
}

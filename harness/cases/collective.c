// harness/cases/collective.c - a collective case: ranks, checked first, then timed
//
// The worker's process is rank 0 and forks the others before anything opens a device. They end with
// it, if necessary by a signal. Two groups join them: the measured one, and one on the host for
// control.
#include "harness/cases/collective.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "framework/dist/host.h"
#include "framework/dist/nccl.h"
#include "framework/dist/p2p.h"

enum { RANKS_MOST = 64 };

static const int64_t timeout_ns = 60000000000;

// ---- groups ------------------------------------------------------------------------------------

// The groups that a case can name. has_memory: operands are in the group's memory
// (bt_group_memory).
typedef struct group_row {
    const char *name, *device;
    enum { HOST, P2P, NCCL } kind;
    bool engines;   // P2P: copies by copy engines
    bool own_order; // NCCL: sums in our order
    bool has_memory;
} group_row;

static const group_row groups[] = {
    {"host", "cpu", HOST, false, false, false},       {"p2p", "cuda", P2P, false, false, true},
    {"p2p_engines", "cuda", P2P, true, false, true},  {"nccl", "cuda", NCCL, false, true, false},
    {"nccl_tree", "cuda", NCCL, false, false, false},
};

static bt_status make_group(const group_row *row, bt_group *control, bt_device *device,
                            bt_group **out)
{
    const bt_p2p_options p2p = {.timeout_ns = timeout_ns, .engines = row->engines};
    const bt_nccl_options nccl = {.timeout_ns = timeout_ns, .own_order = row->own_order};
    if (row->kind != HOST) {
        return row->kind == P2P ? bt_group_p2p_create(control, device, &p2p, out)
                                : bt_group_nccl_create(control, device, &nccl, out);
    }
    *out = control;
    return BT_OK;
}

static bt_status find_group(const char *name, const char *device, const group_row **out)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i) {
        if (strcmp(groups[i].name, name) == 0 && strcmp(groups[i].device, device) == 0) {
            *out = &groups[i];
            return BT_OK;
        }
    }
    return bt_error(BT_STATUS_UNSUPPORTED, "no group %s on the device %s", name, device);
}

// ---- a rank ------------------------------------------------------------------------------------

typedef struct job {
    const bt_case_work *work;
    const cJSON *kernel;
    const group_row *row;
    int size;
    int control_fd, meeting_fd;
    pid_t children[RANKS_MOST]; // of ranks 1 .. size - 1, [0] unused
} job;

static bt_status allocate(collective_rank *self, const group_row *row, size_t bytes, char **out)
{
    void *block = NULL;
    bt_status status = row->has_memory
                           ? bt_group_memory(self->group, (int64_t)bytes, &block)
                           : self->device.backend->memory_alloc(&self->device, bytes, &block);
    *out = block;
    return status;
}

static bt_status make_operands(collective_rank *self, const group_row *row)
{
    const cJSON *kernel = self->kernel;
    bt_kernel_shape shape;
    const char *dtype = bt_json_text_of(kernel, "dtype");
    self->dtype = strcmp(dtype, "bf16") == 0  ? BT_BF16
                  : strcmp(dtype, "f64") == 0 ? BT_F64
                                              : BT_F32;
    self->call = bt_collective_call(bt_json_text_of(kernel, "op"));
    BT_FAIL_IF(!self->call || !bt_kernel_shape_parse(bt_json_text_of(kernel, "shape"), &shape) ||
                   shape.count % self->group->size != 0,
               BT_STATUS_INVALID_ARGUMENT, "the case names an unknown operation, or has no size");
    self->count = shape.count;
    self->part = shape.count / self->group->size;
    self->max_time_s = bt_json_number_of(kernel, "max_time_s");
    self->owns_memory = !row->has_memory;
    size_t bytes = (size_t)shape.count * bt_dtype_size(self->dtype);
    BT_TRY(allocate(self, row, bytes, &self->in));
    return allocate(self, row, bytes, &self->out);
}

static void close_rank(collective_rank *self)
{
    bt_device *device = &self->device;
    bt_error_quiet_begin();
    if (device->backend) {
        (void)!device->backend->stream_synchronize(device, self->stream);
        if (self->owns_memory && self->in) {
            device->backend->memory_free(device, self->in);
        }
        if (self->owns_memory && self->out) {
            device->backend->memory_free(device, self->out);
        }
    }
    bt_group_destroy(self->group);
    bt_group_destroy(self->meeting);
    if (device->backend && self->stream) {
        device->backend->stream_destroy(device, self->stream);
    }
    bt_device_close(device);
    bt_error_quiet_end();
}

static bt_status open_rank(const job *all, int rank, collective_rank *self)
{
    const char *device = all->work->device;
    int ordinal = all->work->ordinal + (strcmp(device, "cpu") == 0 ? 0 : rank);
    bt_group *control = NULL;
    *self = (collective_rank){.kernel = all->kernel, .inject_slowdown = all->work->inject_slowdown};
    BT_TRY(bt_device_open(device, ordinal, &self->device));
    BT_TRY(self->device.backend->stream_create(&self->device, true, &self->stream));
    BT_TRY(bt_group_host_join(all->meeting_fd, rank, all->size, timeout_ns, &self->meeting));
    BT_TRY(bt_group_host_join(all->control_fd, rank, all->size, timeout_ns, &control));
    bt_status status = make_group(all->row, control, &self->device, &self->group);
    if (status != BT_OK) {
        bt_group_destroy(control);
        return status;
    }
    return make_operands(self, all->row);
}

static bt_status say_start(collective_rank *self, const bt_case_listener *listener)
{
    const bt_train_start start = {.device = &self->device.info};
    BT_TRY(listener->train.start(listener->train.self, &start));
    char label[96];
    (void)snprintf(label, sizeof label, "%s, %d ranks", bt_json_text_of(self->kernel, "group"),
                   self->group->size);
    const bt_train_kernel kernel = {bt_json_text_of(self->kernel, "op"), label};
    return listener->train.kernel(listener->train.self, &kernel);
}

static bt_status say_samples(const kernel_times *times, const bt_case_listener *listener,
                             bt_train_result *result)
{
    const bt_case_measured measured = {.calls_per_sample = times->calls_per_sample,
                                       .stop = times->stop};
    result->stopped = times->stopped;
    BT_TRY(listener->samples(listener->train.self, times->samples, times->count));
    return listener->measured(listener->train.self, &measured);
}

// `listener` and `result`: of rank 0.
static bt_status run_rank(const job *all, int rank, const bt_case_listener *listener,
                          bt_train_result *result)
{
    collective_rank self;
    kernel_times times = {0};
    bt_status status = open_rank(all, rank, &self);
    status = status == BT_OK && listener ? say_start(&self, listener) : status;
    BT_IF_OK(status, bt_collective_check(&self, 1));
    BT_IF_OK(status, bt_collective_time(&self, listener, &times));
    if (status == BT_OK && !times.stopped) {
        // Other values at the addresses that were timed: now a skipped call gives a wrong result.
        status = bt_error_context(bt_collective_check(&self, 2), "after the timed loop");
    }
    status = status == BT_OK && listener ? say_samples(&times, listener, result) : status;
    if (status != BT_OK && self.meeting) {
        bt_group_abort(self.meeting, bt_error_message());
    }
    bt_mem_free(times.samples);
    close_rank(&self);
    return status;
}

// ---- processes ---------------------------------------------------------------------------------

static bt_status start_children(job *all)
{
    const pid_t parent = getpid();
    (void)fflush(NULL);
    for (int rank = 1; rank < all->size; ++rank) {
        pid_t child = fork();
        BT_FAIL_IF(child < 0, BT_STATUS_UNAVAILABLE, "cannot start the process of rank %d", rank);
        if (child == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            bt_status status =
                getppid() == parent ? run_rank(all, rank, NULL, NULL) : BT_STATUS_INTERRUPTED;
            if (status != BT_OK) {
                (void)fprintf(stderr, "rank %d: %s\n", rank, bt_error_message());
            }
            _exit(status != BT_OK);
        }
        all->children[rank] = child;
    }
    return BT_OK;
}

static bt_status end_children(const job *all, bt_status status)
{
    for (int rank = 1; rank < all->size; ++rank) {
        int ended = 0;
        if (all->children[rank] <= 0) {
            continue;
        }
        if (status != BT_OK) {
            (void)kill(all->children[rank], SIGKILL);
        }
        (void)waitpid(all->children[rank], &ended, 0);
        if (status == BT_OK && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)) {
            status = bt_error(BT_STATUS_INTERNAL, "rank %d failed; standard error has its message",
                              rank);
        }
    }
    return status;
}

// Set before anything opens a device, which reads these: a kernel that waits for another rank must
// not wait for one that is still being loaded, and NVLink multicast must not be used.
static void set_environment(void)
{
    (void)setenv(bt_environment_row(BT_VARIABLE_CUDA_MODULE_LOADING)->name, "EAGER", 0);
    (void)setenv(bt_environment_row(BT_VARIABLE_NCCL_NVLS_ENABLE)->name, "0", 1);
}

static bt_status run_all(job *all, const bt_case_listener *listener, bt_train_result *result)
{
    set_environment();
    bt_status status = start_children(all);
    BT_IF_OK(status, run_rank(all, 0, listener, result));
    return end_children(all, status);
}

bt_status bt_case_run_collective(const bt_case_work *work, const bt_case_listener *listener,
                                 bt_train_result *result)
{
    job all = {.work = work, .kernel = bt_json_get(work->item, "kernel"), .control_fd = -1};
    int64_t ranks = (int64_t)bt_json_number_of(all.kernel, "ranks");
    BT_FAIL_IF(ranks < 2 || ranks > RANKS_MOST, BT_STATUS_INVALID_ARGUMENT,
               "collective.ranks is %lld; expected 2 to %d", (long long)ranks, RANKS_MOST);
    BT_FAIL_IF(work->inject_slowdown > 0 && strcmp(work->device, "cpu") != 0, BT_STATUS_UNSUPPORTED,
               "only collective cases on the CPU can be slowed");
    all.size = (int)ranks;
    BT_TRY(find_group(bt_json_text_of(all.kernel, "group"), work->device, &all.row));
    BT_TRY(bt_group_host_memory(all.size, &all.meeting_fd));
    bt_status status = bt_group_host_memory(all.size, &all.control_fd);
    BT_IF_OK(status, run_all(&all, listener, result));
    (void)close(all.meeting_fd);
    if (all.control_fd >= 0) {
        (void)close(all.control_fd);
    }
    return status;
}

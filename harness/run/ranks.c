// harness/run/ranks.c - one rank of several: its group and its flight recorder
#include "harness/run/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "framework/dist/agree.h"
#include "framework/dist/device_group.h"
#include "framework/dist/host.h"
#include "framework/dist/p2p.h"
#include "harness/cases/cases.h"
#include "harness/env/build.h"
#include "harness/env/nvml.h"
#include "harness/launch/interface.h"
#include "harness/plan/plan.h"

enum { BEAT_MS = 10, MEET_S = 60 };

struct bt_ranks {
    bt_group *group;
    bt_device device; // backend of the group; without one, on the CPU
    bt_flight flight;
    const bt_ranges *ranges;
    int slot;
    int64_t generation;
    char gpu[96]; // model of the device, "none" on the CPU
    atomic_bool quit;
    bool beating;
    pthread_t thread;
};

static void *beat(void *context)
{
    bt_ranks *ranks = context;
    uint64_t seen = 0;
    while (!atomic_load(&ranks->quit)) {
        char path[BT_RANGES_TEXT_BYTES];
        const uint64_t moves = bt_ranges_moves(ranks->ranges);
        bt_flight_beat(&ranks->flight, moves != seen, bt_ranges_text(ranks->ranges, path));
        seen = moves;
        (void)nanosleep(&(struct timespec){.tv_nsec = BEAT_MS * 1000000L}, NULL);
    }
    return NULL;
}

// Signals are handled by the training thread.
static bt_status start_beating(bt_ranks *ranks)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    ranks->beating = pthread_create(&ranks->thread, NULL, beat, ranks) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ranks->beating ? BT_OK
                          : bt_error(BT_STATUS_UNAVAILABLE, "cannot start the heartbeat thread");
}

static bool is_on_gpu(const cJSON *task)
{
    return bt_json_get(task, "device") && !bt_json_is_text(task, "device", "cpu");
}

// "none" for a rank on the CPU, or if the driver does not report it.
static void name_gpu(const cJSON *task, int slot, char *text, unsigned capacity)
{
    bt_nvml nvml;
    bt_nvml_device device;
    int error = 0;
    (void)snprintf(text, capacity, "none");
    if (is_on_gpu(task) && bt_nvml_open(&nvml, &error)) {
        if (bt_nvml_cuda_device(&nvml, slot, &device)) {
            (void)nvml.name(device, text, capacity);
        }
        bt_nvml_close(&nvml);
    }
}

static const char *value_or(bt_variable variable, const char *otherwise)
{
    const char *value = bt_environment(variable);
    return value ? value : otherwise;
}

// Ranks with another build or plan would compute other sums. With other kernels a rank waits for
// what the others do not send.
static bt_status check_equal(const cJSON *task, bt_ranks *ranks)
{
    static const char same_value[] = "set it to the same value for all ranks";
    BT_SCOPED(bt_str) identity = {0};
    char build[33], plan[33];
    BT_TRY(bt_case_identity(bt_json_get(task, "case"), &identity));
    bt_build_digest(build);
    bt_plan_hash(bt_str_text(&identity), plan);
    const bt_agreement rows[] = {
        {"build", build, "install the same build on all hosts"},
        {"plan", plan, "start all ranks with the same suite"},
        {"GPU model", ranks->gpu, "use hosts with the same GPUs"},
        {"BT_GEMM", value_or(BT_VARIABLE_GEMM, "auto"), same_value},
        {"BT_GEMM_TUNE", value_or(BT_VARIABLE_GEMM_TUNE, "0"), same_value}};
    name_gpu(task, ranks->slot, ranks->gpu, sizeof ranks->gpu);
    return bt_group_agree(ranks->group, rows, BT_COUNT(rows));
}

static bt_status check_multicast(const cJSON *task)
{
    const char *nvls = bt_environment(BT_VARIABLE_NCCL_NVLS_ENABLE);
    return !is_on_gpu(task) || (nvls && strcmp(nvls, "0") == 0)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "NCCL_NVLS_ENABLE is %s; ranks on GPUs need 0, because NVLink multicast "
                          "must not be used",
                          nvls ? nvls : "not set");
}

// Ranks started by a cluster's launcher connect to rank 0's address. There, nothing outside reads
// the flight recorder.
static bt_status connect_hosts(const cJSON *keys, int rank, int size, int64_t timeout_ns,
                               bt_ranks *ranks)
{
    const int64_t meet_ns = MEET_S * 1000000000LL;
    const bt_rendezvous who = {.rank = rank,
                               .size = size,
                               .host = bt_json_text_of(keys, "host"),
                               .port = (int)bt_json_number_of(keys, "port"),
                               .job = strtoull(bt_json_text_of(keys, "job"), NULL, 16),
                               .timeout_ns = timeout_ns < meet_ns ? timeout_ns : meet_ns};
    return bt_group_host_connect(&who, timeout_ns, &ranks->group);
}

static bt_status open_gpu(const cJSON *task, bt_ranks *ranks)
{
    const cJSON *kind = bt_json_get(task, "device");
    const int ordinal = (int)bt_json_number_of(task, "ordinal") + ranks->slot;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    // CUDA reads it when the device is opened.
    (void)setenv(bt_environment_row(BT_VARIABLE_CUDA_MODULE_LOADING)->name, "EAGER", 0);
    const bt_status status = bt_device_open(kind->valuestring, ordinal, &ranks->device);
    return bt_error_context(status, "train.mesh.data: GPU %d of host %s", ordinal, host);
}

// The current group becomes the control group of one on GPUs.
static bt_status take_gpu(const cJSON *task, int64_t timeout_ns, bt_ranks *ranks)
{
    const cJSON *train = bt_json_get(bt_json_get(task, "case"), "train");
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    // Use copy engines for overlapping communication: its kernels would wait for SMs, and take them
    // from attention and products. Kernels are faster if computation waits for the result.
    const bool overlaps =
        mesh.tensor == 1 || cJSON_IsTrue(bt_json_get(bt_json_get(train, "mesh"), "row_chunks"));
    const bt_p2p_options options = {.timeout_ns = timeout_ns, .engines = overlaps};
    bt_group *control = ranks->group;
    char note[512];
    BT_TRY(bt_device_group_agree(control, open_gpu(task, ranks)));
    BT_TRY(bt_error_context(
        bt_group_gpu_create(control, &ranks->device, &options, note, sizeof note, &ranks->group),
        "train.mesh.data: %d ranks on GPUs", control->size));
    if (*note && ranks->group->rank == 0) {
        (void)fprintf(stderr, "note: %s\n", note);
    }
    return BT_OK;
}

static bt_status join(const cJSON *task, const cJSON *keys, bt_ranks *ranks)
{
    const int rank = (int)bt_json_number_of(keys, "rank");
    const int size = (int)bt_json_number_of(keys, "size");
    // Longer than the launcher's limit: the launcher must end a hang.
    const double silence_s = bt_json_number_of(keys, "timeout_s");
    const int64_t timeout_ns = (int64_t)((silence_s > 0 ? silence_s : 600) * 1e9);
    BT_TRY(check_multicast(task));
    BT_TRY(bt_interface_check(bt_environment(BT_VARIABLE_NCCL_SOCKET_IFNAME), rank));
    ranks->slot = (int)bt_json_number_of(keys, "slot");
    ranks->generation = (int64_t)bt_json_number_of(keys, "generation");
    if (bt_json_get(keys, "host")) {
        BT_TRY(connect_hosts(keys, rank, size, timeout_ns, ranks));
    } else {
        BT_TRY(bt_flight_attach((int)bt_json_number_of(keys, "flight_fd"), &ranks->flight));
        bt_flight_hold(&ranks->flight);
        BT_TRY(start_beating(ranks));
        BT_TRY(bt_group_host_join((int)bt_json_number_of(keys, "group_fd"), rank, size, timeout_ns,
                                  &ranks->group));
    }
    BT_TRY(check_equal(task, ranks));
    BT_TRY(is_on_gpu(task) ? take_gpu(task, timeout_ns, ranks) : BT_OK);
    ranks->group->flight = &ranks->flight;
    bt_flight_joined(&ranks->flight);
    return BT_OK;
}

bt_status bt_ranks_prepare(const cJSON *task, const bt_ranges *ranges, bt_ranks **out)
{
    bt_ranks *ranks = NULL;
    *out = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &ranks));
    ranks->ranges = ranges;
    const bt_status status = join(task, bt_json_get(task, "ranks"), ranks);
    if (status != BT_OK) {
        bt_ranks_leave(ranks);
        return status;
    }
    *out = ranks;
    return BT_OK;
}

bt_status bt_ranks_join(const cJSON *task, const bt_ranges *ranges, bt_ranks **out)
{
    const cJSON *keys = bt_json_get(task, "ranks");
    const int64_t generation = (int64_t)bt_json_number_of(keys, "generation");
    bt_status status = BT_OK;
    if (*out && (!keys || (*out)->generation != generation)) {
        status =
            bt_error(BT_STATUS_INTERNAL, "a spare rank of generation %lld has the task of %lld",
                     (long long)(*out)->generation, (long long)generation);
        bt_ranks_leave(*out);
        *out = NULL;
    } else if (!*out && keys) {
        status = bt_ranks_prepare(task, ranges, out);
    }
    if (*out) {
        bt_flight_beat(&(*out)->flight, 1, NULL); // the path is the heartbeat thread's
    }
    return status;
}

bt_group *bt_ranks_group(const bt_ranks *ranks) { return ranks ? ranks->group : NULL; }

bool bt_ranks_launched(const bt_ranks *ranks) { return ranks && ranks->flight.board; }

int bt_ranks_slot(const bt_ranks *ranks) { return ranks ? ranks->slot : 0; }

void bt_ranks_step(bt_ranks *ranks, int64_t steps)
{
    if (ranks) {
        bt_flight_step(&ranks->flight, steps);
    }
}

void bt_ranks_leave(bt_ranks *ranks)
{
    if (!ranks) {
        return;
    }
    atomic_store(&ranks->quit, true);
    if (ranks->beating) {
        (void)pthread_join(ranks->thread, NULL);
    }
    bt_group_destroy(ranks->group);
    bt_device_close(&ranks->device);
    bt_flight_detach(&ranks->flight);
    bt_mem_free(ranks);
}

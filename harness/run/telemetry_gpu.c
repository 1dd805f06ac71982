// harness/run/telemetry_gpu.c - clocks, power, temperature, throttling and processes, from NVML
//
// Energy is from NVML's cumulative counter, summed over the GPUs of the round's ranks; energy per
// token or call is the mean power while the GPU was busy, divided by the rate.
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/telemetry_internal.h"

// Memory clock, temperature and processes: each query costs as much as all the others together.
#define SLOW_EVERY_NS 400000000
// Inode number of the initial process namespace, which never changes (PROC_PID_INIT_INO).
#define FIRST_NAMESPACE "pid:[4026531836]"

static bool is_first_namespace(void)
{
    char name[64];
    ssize_t length = readlink("/proc/self/ns/pid", name, sizeof name - 1);
    name[length > 0 ? length : 0] = '\0';
    return strcmp(name, FIRST_NAMESPACE) == 0;
}

void bt_gpu_watch_open(gpu_watch *gpu, const char *uuid, int ordinal)
{
    int error = 0;
    memset(gpu, 0, sizeof *gpu);
    gpu->open = bt_nvml_open(&gpu->nvml, &error);
    if (gpu->open && !(uuid ? gpu->nvml.by_uuid(uuid, &gpu->device) == BT_NVML_OK
                            : bt_nvml_cuda_device(&gpu->nvml, ordinal, &gpu->device))) {
        bt_gpu_watch_close(gpu);
    }
    gpu->same_numbers = is_first_namespace();
}

void bt_gpu_watch_close(gpu_watch *gpu)
{
    bt_nvml_close(&gpu->nvml);
    gpu->open = false;
}

// Interprets a return code: a lost device is not queried again.
static bool good(gpu_watch *gpu, int answer)
{
    gpu->lost = gpu->lost || answer == BT_NVML_GPU_IS_LOST;
    return answer == BT_NVML_OK;
}

// ---- processes ---------------------------------------------------------------------------------

static unsigned list_processes(gpu_watch *gpu, bt_nvml_process list[GPU_PROCESSES_MAX], bool *known)
{
    unsigned count = 0;
    *known =
        !gpu->lost && bt_nvml_processes(&gpu->nvml, gpu->device, list, GPU_PROCESSES_MAX, &count);
    // More than fit: then NVML returns none.
    return *known && count <= GPU_PROCESSES_MAX ? count : 0;
}

static bool was_there_before(const gpu_watch *gpu, unsigned pid)
{
    for (unsigned i = 0; i < gpu->before_count; ++i) {
        if (gpu->before[i] == pid) {
            return true;
        }
    }
    return false;
}

// 0: it has exited.
static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    }
    text[length] = '\0';
    const char *at = strrchr(text, ')'); // the name before it may contain any characters
    return at && sscanf(at, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

static bool is_of_worker(const gpu_watch *gpu, pid_t pid)
{
    if (getpgid(pid) == gpu->worker) {
        return true;
    }
    while (pid > 1 && pid != gpu->worker) {
        pid = parent_of(pid);
    }
    return pid > 1;
}

static bool is_foreign(const gpu_watch *gpu, const bt_nvml_process *process)
{
    if (process->used_bytes == 0) {
        return false;
    }
    if (!gpu->same_numbers) {
        return was_there_before(gpu, process->pid);
    }
    pid_t pid = (pid_t)process->pid;
    bool exists = kill(pid, 0) == 0 || errno == EPERM;
    return exists && !is_of_worker(gpu, pid) && pid != getpid();
}

static double count_foreign(const gpu_watch *gpu, const bt_nvml_process *list, unsigned count)
{
    double foreign = 0.0;
    for (unsigned i = 0; i < count; ++i) {
        foreign += is_foreign(gpu, &list[i]);
    }
    return foreign;
}

// Lists processes again; `foreign` becomes `foreign_last`.
static void look_at_processes(gpu_watch *gpu)
{
    bt_nvml_process list[GPU_PROCESSES_MAX];
    bool known = false;
    unsigned count = list_processes(gpu, list, &known);
    gpu->foreign_last = gpu->foreign;
    gpu->foreign = known ? count_foreign(gpu, list, count) : (double)NAN;
}

static double counter_of(gpu_watch *gpu)
{
    unsigned long long millijoule = 0;
    bool known = gpu->open && !gpu->lost &&
                 good(gpu, BT_NVML_CALL(&gpu->nvml, energy, gpu->device, &millijoule));
    return known ? (double)millijoule / 1000.0 : (double)NAN;
}

// The counter restarts when the driver is reloaded: if it decreases, the value is unknown.
double bt_gpu_watch_energy(gpu_watch *gpu)
{
    double drawn = counter_of(gpu) - gpu->energy_began_j;
    return drawn >= 0.0 ? drawn : (double)NAN;
}

void bt_gpu_watch_begin(gpu_watch *gpu, pid_t worker)
{
    bt_nvml_process list[GPU_PROCESSES_MAX];
    bool known = false;
    gpu->worker = worker;
    gpu->before_count = 0;
    gpu->slow_at_ns = 0;
    gpu->foreign = gpu->foreign_last = gpu->energy_began_j = (double)NAN;
    if (!gpu->open) {
        return;
    }
    gpu->energy_began_j = counter_of(gpu);
    unsigned count = list_processes(gpu, list, &known);
    for (unsigned i = 0; i < count; ++i) {
        gpu->before[gpu->before_count++] = list[i].pid;
    }
    if (known) {
        gpu->foreign = count_foreign(gpu, list, count);
    }
}

// ---- samples -----------------------------------------------------------------------------------

static double clock_of(gpu_watch *gpu, unsigned kind)
{
    unsigned mhz = 0;
    return good(gpu, BT_NVML_CALL(&gpu->nvml, clock, gpu->device, kind, &mhz)) ? (double)mhz
                                                                               : (double)NAN;
}

static double throttle_of(gpu_watch *gpu)
{
    unsigned long long bits = 0;
    const bt_nvml *nvml = &gpu->nvml;
    int answer = nvml->event_reasons ? nvml->event_reasons(gpu->device, &bits)
                                     : BT_NVML_CALL(nvml, throttle_reasons, gpu->device, &bits);
    return good(gpu, answer) ? (double)bits : (double)NAN;
}

// Kept for the samples in between.
static void ask_slow(gpu_watch *gpu)
{
    unsigned celsius = 0;
    int answer =
        BT_NVML_CALL(&gpu->nvml, temperature, gpu->device, BT_NVML_TEMPERATURE_GPU, &celsius);
    gpu->temperature_c = good(gpu, answer) ? (double)celsius : (double)NAN;
    gpu->memory_clock_mhz = clock_of(gpu, BT_NVML_CLOCK_MEMORY);
    look_at_processes(gpu);
}

void bt_gpu_watch_sample(gpu_watch *gpu, int64_t now_ns, bt_store_telemetry *out)
{
    unsigned milliwatt = 0;
    if (!gpu->open || gpu->lost) {
        return;
    }
    out->sm_clock_mhz = clock_of(gpu, BT_NVML_CLOCK_SM);
    out->throttle = throttle_of(gpu);
    if (good(gpu, BT_NVML_CALL(&gpu->nvml, power, gpu->device, &milliwatt))) {
        out->power_w = (double)milliwatt / 1000.0;
    }
    if (now_ns - gpu->slow_at_ns >= SLOW_EVERY_NS) {
        ask_slow(gpu);
        gpu->slow_at_ns = now_ns;
    }
    out->memory_clock_mhz = gpu->memory_clock_mhz;
    out->temperature_c = gpu->temperature_c;
    // Seen twice in a row, to exclude a process that ends as the worker starts.
    out->other_processes = gpu->foreign_last > 0.0 ? gpu->foreign
                           : isnan(gpu->foreign)   ? gpu->foreign
                                                   : 0.0;
}

// ---- several GPUs ------------------------------------------------------------------------------

static double throttle_of_both(double one, double other)
{
    if (isnan(one) || isnan(other)) {
        return isnan(one) ? other : one;
    }
    const uint64_t a = (uint64_t)one, b = (uint64_t)other, idle = BT_THROTTLE_IDLE;
    return (double)(((a | b) & ~idle) | (a & b & idle));
}

void bt_gpu_watch_merge(const bt_store_telemetry *other, bt_store_telemetry *sample)
{
    sample->sm_clock_mhz = fmin(sample->sm_clock_mhz, other->sm_clock_mhz);
    sample->memory_clock_mhz = fmin(sample->memory_clock_mhz, other->memory_clock_mhz);
    sample->power_w += other->power_w; // the sum is unknown if one is
    sample->temperature_c = fmax(sample->temperature_c, other->temperature_c);
    sample->throttle = throttle_of_both(sample->throttle, other->throttle);
    sample->other_processes = fmax(sample->other_processes, other->other_processes);
}

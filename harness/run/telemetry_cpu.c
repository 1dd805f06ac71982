// harness/run/telemetry_cpu.c - use of the processors: differences of sums from /proc and the
// cgroup
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "harness/env/system_file.h"
#include "harness/run/telemetry_internal.h"

enum { PROCESSES_MAX = 64 };

// The kernel counts time in ticks of 10 ms: over a shorter period the fractions would be rounding
// noise.
#define ELAPSED_MIN_S 0.2

// ---- own time ----------------------------------------------------------------------------------

// User and system time of a process and of its children that have ended; 0 if it has exited.
static double ticks_of(pid_t pid)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[length] = '\0';
    const char *at = strrchr(text, ')'); // the name before it may contain any characters
    double sum = 0.0;
    // 11 fields follow the name, then utime, stime, cutime, cstime.
    for (int field = 0; at && field < 15; ++field) {
        at = strchr(at + 1, ' ');
        if (at && field >= 11) {
            sum += strtod(at, NULL);
        }
    }
    return sum;
}

// Appends the children of a process to list [PROCESSES_MAX]; returns the new count.
static int add_children(pid_t pid, pid_t *list, int count)
{
    char path[64];
    long child = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "r");
    while (file && count < PROCESSES_MAX && fscanf(file, "%ld", &child) == 1) {
        list[count++] = (pid_t)child;
    }
    if (file) {
        fclose(file);
    }
    return count;
}

static double own_seconds(pid_t worker)
{
    pid_t list[PROCESSES_MAX] = {getpid(), worker};
    int count = worker > 0 ? 2 : 1;
    double ticks = ticks_of(list[0]);
    for (int i = 1; i < count; ++i) {
        ticks += ticks_of(list[i]);
        count = add_children(list[i], list, count);
    }
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

// ---- sums --------------------------------------------------------------------------------------

// A line "cpuN user nice system idle iowait irq softirq steal ..." of an allowed core.
static void add_core(const cpu_watch *cpu, const char *line, cpu_sums *sums)
{
    char *at = NULL;
    long core = strtol(line + 3, &at, 10);
    double ticks[8] = {0};
    if (at == line + 3 || core < 0 || core >= CPU_SETSIZE ||
        !CPU_ISSET((size_t)core, &cpu->allowed)) {
        return;
    }
    for (int i = 0; i < 8; ++i) {
        ticks[i] = strtod(at, &at);
    }
    double second = (double)sysconf(_SC_CLK_TCK);
    sums->busy_s += (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / second;
    sums->idle_s += (ticks[3] + ticks[4]) / second;
    sums->steal_s += ticks[7] / second;
}

static void read_stat(const cpu_watch *cpu, cpu_sums *sums)
{
    char line[1024];
    FILE *file = fopen("/proc/stat", "r");
    bool starts = true; // a long line is read in parts
    if (!file) {
        sums->busy_s = sums->idle_s = sums->steal_s = (double)NAN;
    }
    while (file && fgets(line, sizeof line, file)) {
        if (starts && strncmp(line, "cpu", 3) == 0) {
            add_core(cpu, line, sums);
        } else if (starts && strncmp(line, "ctxt ", 5) == 0) {
            sums->switches = strtod(line + 5, NULL);
        }
        starts = strchr(line, '\n') != NULL;
    }
    if (file) {
        fclose(file);
    }
}

// Time for which the cgroup's CPU limit throttled threads; NaN without a limit.
static double held_seconds(const char *path)
{
    char line[128];
    double held = (double)NAN;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "throttled_usec ", 15) == 0) {
            held = strtod(line + 15, NULL) / 1e6;
        }
    }
    if (file) {
        fclose(file);
    }
    return held;
}

static cpu_sums read_sums(const cpu_watch *cpu)
{
    cpu_sums sums = {.at_ns = bt_clock_ns(), .switches = (double)NAN};
    read_stat(cpu, &sums);
    sums.own_s = own_seconds(cpu->worker);
    sums.held_s = held_seconds(cpu->cgroup_stat);
    return sums;
}

// The first number in a file, NaN if there is none.
static double number_in(const char *path)
{
    double value = (double)NAN;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%lf", &value) != 1) {
            value = (double)NAN;
        }
        fclose(file);
    }
    return value;
}

void bt_cpu_watch_begin(cpu_watch *cpu, pid_t worker)
{
    memset(cpu, 0, sizeof *cpu);
    cpu->worker = worker;
    bt_cgroup_file("cpu.stat", cpu->cgroup_stat, sizeof cpu->cgroup_stat);
    if (sched_getaffinity(0, sizeof cpu->allowed, &cpu->allowed) != 0) {
        CPU_ZERO(&cpu->allowed);
    }
    cpu->allowed_count = CPU_COUNT(&cpu->allowed);
    cpu->last = read_sums(cpu);
}

static double at_least_zero(double value) { return value < 0.0 ? 0.0 : value; } // NaN is kept

void bt_cpu_watch_sample(cpu_watch *cpu, bt_store_telemetry *out)
{
    cpu_sums now = read_sums(cpu), last = cpu->last;
    double elapsed_s = (double)(now.at_ns - last.at_ns) / 1e9;
    double cores = (double)cpu->allowed_count;
    int first = 0;
    char path[96];
    out->load = number_in("/proc/loadavg");
    if (!(elapsed_s >= ELAPSED_MIN_S) || cpu->allowed_count == 0) {
        return;
    }
    cpu->last = now;
    // A worker that has exited is no longer counted.
    double own = now.own_s - last.own_s;
    out->other_cores =
        own < 0.0 ? (double)NAN : at_least_zero((now.busy_s - last.busy_s - own) / elapsed_s);
    out->idle_cores = at_least_zero((now.idle_s - last.idle_s) / elapsed_s);
    out->steal_share = at_least_zero((now.steal_s - last.steal_s) / (elapsed_s * cores));
    out->held_share = at_least_zero((now.held_s - last.held_s) / elapsed_s);
    out->switches_per_s = at_least_zero((now.switches - last.switches) / elapsed_s);
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET((size_t)first, &cpu->allowed)) {
        ++first;
    }
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
                   first);
    out->cpu_clock_mhz = number_in(path) / 1000.0;
}

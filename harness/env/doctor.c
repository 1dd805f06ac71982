// harness/env/doctor.c - a table of checks, one function each
#include "harness/env/doctor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/compiler/lower.h"
#include "harness/env/blas.h"
#include "harness/env/nvml.h"
#include "harness/env/system_file.h"
#include "harness/suite/suite.h"

#define GIB 1073741824.0

typedef struct looking {
    const bt_machine *machine;
    const char *database;
} looking;

static void set(bt_check *check, bt_check_state state, const char *found, const char *advice)
{
    check->state = state;
    (void)snprintf(check->found, sizeof check->found, "%s", found);
    (void)snprintf(check->advice, sizeof check->advice, "%s", advice);
}

// Whether a program is on the PATH; its path in `found`.
static bool program_found(const char *name, char *found, size_t size_bytes)
{
    const char *path = bt_environment(BT_VARIABLE_PATH);
    while (path && *path) {
        size_t length = strcspn(path, ":");
        (void)snprintf(found, size_bytes, "%.*s/%s", (int)length, path, name);
        if (access(found, X_OK) == 0) {
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

static int usable_cores(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

// The first word of a file, "" if it cannot be read.
static void read_word(const char *path, char *word, size_t size_bytes)
{
    FILE *file = fopen(path, "r");
    word[0] = '\0';
    if (file && !fgets(word, (int)size_bytes, file)) {
        word[0] = '\0';
    }
    if (file) {
        fclose(file);
    }
    word[strcspn(word, " \n")] = '\0';
}

static void check_cpu(const looking *self, bt_check *check)
{
    (void)self;
    char text[64];
    (void)snprintf(text, sizeof text, "%d usable cores", usable_cores());
    set(check, BT_CHECK_GOOD, text, "");
}

static void check_memory(const looking *self, bt_check *check)
{
    char text[64];
    double gib = (double)self->machine->host_memory_bytes / GIB;
    (void)snprintf(text, sizeof text, "%.1f GiB usable", gib);
    set(check, gib >= 4 ? BT_CHECK_GOOD : BT_CHECK_BAD, text,
        gib >= 4 ? ""
                 : "suites/gpt2_124m needs about 3 GiB on a CPU; use a smaller model: --set "
                   "train.model.layers=2");
}

static void check_gpu(const looking *self, bt_check *check)
{
    const bt_machine *machine = self->machine;
    char text[256];
    if (machine->has_cuda) {
        (void)snprintf(text, sizeof text, "%.80s, %.1f GiB free, driver %.60s", machine->cuda.name,
                       (double)machine->cuda_free_bytes / GIB, machine->cuda.driver);
        set(check, BT_CHECK_GOOD, text, "");
        return;
    }
    (void)snprintf(text, sizeof text, "%.250s", machine->cuda_reason);
    bool no_plugin = strstr(machine->cuda_reason, "is not built") != NULL;
    set(check, BT_CHECK_MISSING, text,
        no_plugin ? "with an NVIDIA GPU: install the CUDA toolkit (nvcc), then start ./bt-bench "
                    "again; if the build has BT_CUDA=OFF: cmake --preset release "
                    "-DBT_CUDA=AUTO; without a GPU suites run their CPU profile"
                  : "needs an NVIDIA GPU and its driver (nvidia-smi must work); until then suites "
                    "run their CPU profile");
}

// Causes of varying times: a power-saving governor, cores used by others, a CPU limit.
static void check_noise(const looking *self, bt_check *check)
{
    (void)self;
    char governor[64] = "", limit[64] = "", path[640], text[256];
    double load = 0.0;
    int cores = usable_cores();
    (void)getloadavg(&load, 1);
    read_word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    bt_cgroup_file("cpu.max", path, sizeof path);
    read_word(path, limit, sizeof limit);
    bool saves = *governor && strcmp(governor, "performance") != 0;
    bool limited = *limit && strcmp(limit, "max") != 0;
    bool loaded = load > 0.5 * cores;
    (void)snprintf(text, sizeof text, "load %.1f on %d cores%s%s%s", load, cores,
                   saves ? ", governor " : "", saves ? governor : "",
                   limited ? ", the cgroup limits the CPU" : "");
    set(check, saves || limited || loaded ? BT_CHECK_NOISY : BT_CHECK_GOOD, text,
        loaded    ? "times will vary: stop other programs; rounds get the label 'loaded machine'"
        : saves   ? "times on the CPU will vary: cpupower frequency-set -g performance"
        : limited ? "times on the CPU will vary: run outside of the container's CPU limit"
                  : "");
}

// Other processes that compute on the GPU: rounds next to them are invalid.
static void check_gpu_alone(const looking *self, bt_check *check)
{
    bt_nvml nvml;
    bt_nvml_device device = NULL;
    int error = 0;
    unsigned count = 0;
    char text[64];
    if (!self->machine->has_cuda) {
        set(check, BT_CHECK_GOOD, "no GPU to share", "");
        return;
    }
    bool known = bt_nvml_open(&nvml, &error) &&
                 nvml.by_uuid(self->machine->cuda.uuid, &device) == BT_NVML_OK &&
                 bt_nvml_processes(&nvml, device, NULL, 0, &count);
    bt_nvml_close(&nvml);
    (void)snprintf(text, sizeof text, "%u other processes on the GPU", count);
    set(check,
        !known      ? BT_CHECK_MISSING
        : count > 0 ? BT_CHECK_NOISY
                    : BT_CHECK_GOOD,
        known ? text : "NVML does not report the processes on the GPU",
        !known      ? "clocks and throttling are not recorded: install the driver's libnvidia-ml"
        : count > 0 ? "rounds are invalid while other processes use the GPU: stop these, or choose "
                      "another GPU with "
                      "CUDA_VISIBLE_DEVICES"
                    : "");
}

static void check_blas(const looking *self, bt_check *check)
{
    (void)self;
    const char *core = bt_blas_core();
    const char *better = bt_blas_better_core();
    char text[192];
    bool slow = strcmp(core, "Prescott") == 0 && !better;
    (void)snprintf(text, sizeof text, "%d threads, kernels for %.32s%s%s", bt_blas_threads(),
                   better ? better : core, better ? "; OpenBLAS detected the processor as " : "",
                   better ? core : "");
    bool good = bt_blas_threads() > 0 && !slow;
    set(check, good ? BT_CHECK_GOOD : BT_CHECK_MISSING,
        bt_blas_threads() > 0 ? text : "not OpenBLAS",
        good ? "" : "matrix products on the CPU will be slow: apt-get install libopenblas0-openmp");
}

static void check_dataset(const looking *self, bt_check *check)
{
    (void)self;
    BT_SCOPED(bt_str) home = {0};
    bt_home_path(&home);
    bt_str_append(&home, "/data/books/dataset.json");
    bool here = bt_file_exists("data/books/dataset.json");
    bool there = bt_file_exists(bt_str_text(&home));
    set(check, here || there ? BT_CHECK_GOOD : BT_CHECK_MISSING,
        here || there ? "books is prepared" : "books is not prepared",
        here || there ? "" : "the first run prepares it, or: bt-bench data prepare");
}

static void check_program(bt_check *check, const char *name, const char *package, const char *why)
{
    char found[256], advice[256];
    if (program_found(name, found, sizeof found)) {
        set(check, BT_CHECK_GOOD, found, "");
        return;
    }
    (void)snprintf(advice, sizeof advice, "%s: apt-get install %s", why, package);
    set(check, BT_CHECK_MISSING, "not found", advice);
}

static void check_npm(const looking *self, bt_check *check)
{
    (void)self;
    check_program(check, "npm", "npm",
                  "downloads the text and tokenizer packages for 'data prepare'");
}

static void check_chromium(const looking *self, bt_check *check)
{
    (void)self;
    check_program(check, "chromium", "chromium", "needed only for the tests of the report page");
}

static void check_compiler(const looking *self, bt_check *check)
{
    (void)self;
    const bool works = bt_compiler_available() == BT_OK;
    set(check, works ? BT_CHECK_GOOD : BT_CHECK_MISSING,
        works ? "generates kernels for groups of ops" : bt_error_message(),
        works ? ""
              : "fused kernels need it: ci/setup.sh compiler installs MLIR 19, then build again");
}

static void check_disk(const looking *self, bt_check *check)
{
    (void)self;
    uint64_t free_bytes = 0;
    char text[64];
    if (bt_disk_free(".", &free_bytes) != BT_OK) {
        set(check, BT_CHECK_BAD, bt_error_message(), "start in a writable folder");
        return;
    }
    (void)snprintf(text, sizeof text, "%.1f GiB free here", (double)free_bytes / GIB);
    bool enough = (double)free_bytes >= 0.2 * GIB;
    bool writable = access(".", W_OK) == 0;
    set(check, enough && writable ? BT_CHECK_GOOD : BT_CHECK_BAD,
        writable ? text : "this folder is not writable",
        enough && writable ? ""
                           : "data and records need 200 MiB; start elsewhere, or use --db, --out");
}

static void check_database(const looking *self, bt_check *check)
{
    bool there = bt_file_exists(self->database);
    bool writable = there && access(self->database, W_OK) == 0;
    set(check, there && !writable ? BT_CHECK_BAD : BT_CHECK_GOOD,
        !there ? "none yet: the first run creates it" : self->database,
        there && !writable ? "it is not writable: change its owner, or use --db" : "");
}

static const struct {
    const char *name;
    void (*look)(const looking *self, bt_check *check);
} rows[] = {{"cpu", check_cpu},
            {"noise", check_noise},
            {"memory", check_memory},
            {"gpu", check_gpu},
            {"gpu alone", check_gpu_alone},
            {"blas", check_blas},
            {"dataset", check_dataset},
            {"npm", check_npm},
            {"chromium", check_chromium},
            {"compiler", check_compiler},
            {"disk", check_disk},
            {"database", check_database}};

int bt_doctor_look(const bt_machine *machine, const char *database, bt_check checks[BT_CHECKS_MAX])
{
    const looking self = {machine, database};
    int count = (int)(sizeof rows / sizeof rows[0]);
    for (int i = 0; i < count; ++i) {
        checks[i] = (bt_check){.name = rows[i].name};
        rows[i].look(&self, &checks[i]);
    }
    return count;
}

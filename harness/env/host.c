// harness/env/host.c - facts about processor, memory, system, libraries and variables
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/scoped.h"
#include "harness/env/build.h"
#include "harness/env/facts.h"
#include "harness/env/system_file.h"

bt_status bt_facts_add_line(bt_facts *facts, const char *key, const char *path)
{
    char text[512];
    bt_system_line(path, text, sizeof text);
    return bt_facts_add(facts, key, text);
}

static bt_status add_number(bt_facts *facts, const char *key, long long value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", value);
    return bt_facts_add(facts, key, value > 0 ? text : "");
}

// Instruction sets by which our kernels and libraries select code.
static bt_status add_cpu_features(bt_facts *facts)
{
    static const char *const known[] = {"avx2",        "fma",      "avx512f",  "avx512bw",
                                        "avx512_bf16", "amx_bf16", "amx_tile", "avx512_fp16"};
    char flags[8192];
    bt_system_value("/proc/cpuinfo", "flags", ':', flags, sizeof flags);
    BT_SCOPED(bt_str) found = {0};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        size_t length = strlen(known[i]);
        for (const char *at = strstr(flags, known[i]); at; at = strstr(at + 1, known[i])) {
            bool begins = at == flags || at[-1] == ' ';
            if (begins && (at[length] == ' ' || at[length] == '\0')) {
                bt_str_format(&found, "%s%s", found.length_bytes ? " " : "", known[i]);
                break;
            }
        }
    }
    BT_TRY(bt_str_status(&found));
    return bt_facts_add(facts, "cpu.features", bt_str_text(&found));
}

#define CPUFREQ "/sys/devices/system/cpu/cpu0/cpufreq/"

// Facts from files: the first line, or the value after a name.
static bt_status add_files(bt_facts *facts)
{
    static const struct {
        const char *key, *path, *name; // NULL: the first line
        char separator;
    } rows[] = {
        {"cpu.governor", CPUFREQ "scaling_governor", NULL, 0},
        {"cpu.clock_driver", CPUFREQ "scaling_driver", NULL, 0},
        {"cpu.clock_min_khz", CPUFREQ "scaling_min_freq", NULL, 0},
        {"cpu.clock_max_khz", CPUFREQ "scaling_max_freq", NULL, 0},
        {"cpu.boost", "/sys/devices/system/cpu/cpufreq/boost", NULL, 0},
        {"cpu.no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo", NULL, 0},
        {"cpu.smt", "/sys/devices/system/cpu/smt/active", NULL, 0},
        {"cpu.isolated", "/sys/devices/system/cpu/isolated", NULL, 0},
        {"cpu.numa_nodes", "/sys/devices/system/node/online", NULL, 0},
        {"cpu.model", "/proc/cpuinfo", "model name", ':'},
        {"cpu.microcode", "/proc/cpuinfo", "microcode", ':'},
        {"cpu.allowed", "/proc/self/status", "Cpus_allowed_list", ':'},
        {"memory.numa_allowed", "/proc/self/status", "Mems_allowed_list", ':'},
        {"memory.total", "/proc/meminfo", "MemTotal", ':'},
        {"memory.huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled", NULL, 0},
        {"os.name", "/etc/os-release", "PRETTY_NAME", '='},
        {"os.hypervisor", "/sys/hypervisor/type", NULL, 0},
        {"os.platform", "/sys/class/dmi/id/product_name", NULL, 0},
    };
    char text[512];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].name) {
            bt_system_value(rows[i].path, rows[i].name, rows[i].separator, text, sizeof text);
        } else {
            bt_system_line(rows[i].path, text, sizeof text);
        }
        BT_TRY(bt_facts_add(facts, rows[i].key, text));
    }
    return BT_OK;
}

static bt_status add_cgroup(bt_facts *facts)
{
    static const struct {
        const char *key, *file;
    } rows[] = {{"cgroup.cpu_max", "cpu.max"},
                {"cgroup.cpu_weight", "cpu.weight"},
                {"cgroup.memory_max_bytes", "memory.max"}};
    char path[640];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_cgroup_file(rows[i].file, path, sizeof path);
        BT_TRY(bt_facts_add_line(facts, rows[i].key, path));
    }
    return BT_OK;
}

static bt_status add_system(bt_facts *facts)
{
    char text[512];
    struct utsname names;
    cpu_set_t usable;
    if (uname(&names) == 0) {
        (void)snprintf(text, sizeof text, "%s %s", names.sysname, names.release);
        BT_TRY(bt_facts_add(facts, "os.kernel", text));
        BT_TRY(bt_facts_add(facts, "os.machine", names.machine));
    }
    BT_TRY(bt_facts_add(facts, "os.libc", gnu_get_libc_version()));
    BT_TRY(add_number(facts, "cpu.online", sysconf(_SC_NPROCESSORS_ONLN)));
    const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
    return add_number(facts, "cpu.usable", known ? CPU_COUNT(&usable) : 0);
}

bt_status bt_facts_add_host(bt_facts *facts, const bt_machine *machine)
{
    BT_TRY(add_files(facts));
    BT_TRY(add_cpu_features(facts));
    BT_TRY(add_system(facts));
    BT_TRY(add_cgroup(facts));
    return add_number(facts, "memory.usable_bytes", (long long)machine->host_memory_bytes);
}

// ---- libraries and variables -------------------------------------------------------------------

// Version functions of libraries that are loaded anyway, looked up by name, so that the harness
// needs none of their headers.
static bt_status add_libraries(bt_facts *facts)
{
    static const struct {
        const char *key, *symbol;
    } rows[] = {{"lib.cjson", "cJSON_Version"},
                {"lib.openblas", "openblas_get_config"},
                {"lib.sqlite", "sqlite3_libversion"},
                {"lib.zstd", "ZSTD_versionString"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        const char *(*version)(void) = NULL;
        void *symbol = dlsym(RTLD_DEFAULT, rows[i].symbol);
        memcpy(&version, &symbol, sizeof version); // ISO C has no such conversion; POSIX guarantees
                                                   // it
        BT_TRY(bt_facts_add(facts, rows[i].key, version ? version() : ""));
    }
    return BT_OK;
}

static bt_status add_variables(bt_facts *facts)
{
    static const char *const allowed[] = {"CUDA_",     "NCCL_", "OMP_",
                                          "OPENBLAS_", "GOMP_", "BT_GEMM"};
    for (char **entry = bt_environment_all(); entry && *entry; ++entry) {
        const char *equals = strchr(*entry, '=');
        bool listed = false;
        for (size_t i = 0; equals && i < sizeof allowed / sizeof allowed[0]; ++i) {
            listed = listed || strncmp(*entry, allowed[i], strlen(allowed[i])) == 0;
        }
        if (listed) {
            char key[256];
            (void)snprintf(key, sizeof key, "env.%.*s", (int)(equals - *entry), *entry);
            BT_TRY(bt_facts_add(facts, key, equals + 1));
        }
    }
    return BT_OK;
}

bt_status bt_facts_add_software(bt_facts *facts)
{
    const bt_build *build = bt_build_get();
    char digest[33];
    bt_build_digest(digest);
    const struct {
        const char *key, *value;
    } rows[] = {{"build.id", digest},          {"build.version", build->version},
                {"build.type", build->type},   {"build.compiler", build->compiler},
                {"build.flags", build->flags}, {"build.git_commit", build->git_commit},
                {"build.cuda", build->cuda},   {"build.git_diff", build->git_diff}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        BT_TRY(bt_facts_add(facts, rows[i].key, rows[i].value));
    }
    BT_TRY(add_libraries(facts));
    return add_variables(facts);
}

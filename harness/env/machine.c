// harness/env/machine.c - describes this machine; the GPU through a child process
#include "harness/env/machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/env/nvml.h"
#include "harness/env/system_file.h"
#include "harness/suite/json.h"
#include "harness/text/json_writer.h"

// ---- the child's side --------------------------------------------------------------------------

bt_status bt_machine_probe(bt_str *out)
{
    bt_device device;
    BT_TRY(bt_device_open("cuda", 0, &device));
    uint64_t free_bytes = 0, total_bytes = 0;
    bt_status status = device.backend->memory_info(&device, &free_bytes, &total_bytes);
    const bt_device_info *info = &device.info;
    bt_json_writer json = {.out = out};
    BT_JSON_OBJECT(&json, NULL, BT_OF(info, name), BT_OF(info, uuid), BT_OF(info, driver),
                   BT_OF(info, runtime), BT_OF(info, arch), BT_OF(info, processor_count),
                   BT_KV("memory_bytes", (int64_t)info->memory_bytes),
                   BT_KV("l2_bytes", (int64_t)info->l2_bytes),
                   BT_KV("shared_bytes", (int64_t)info->shared_bytes),
                   BT_KV("free_bytes", (int64_t)free_bytes));
    bt_str_append(out, "\n");
    bt_device_close(&device);
    BT_TRY(status);
    return bt_str_status(out);
}

// ---- the parent's side -------------------------------------------------------------------------

static void copy_text(const cJSON *object, const char *key, char *out, size_t size_bytes)
{
    (void)snprintf(out, size_bytes, "%s", bt_json_text_of(object, key));
}

static uint64_t number(const cJSON *object, const char *key)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsNumber(node) && node->valuedouble > 0 ? (uint64_t)node->valuedouble : 0;
}

static bt_status take(bt_machine *machine, const char *line, size_t size_bytes)
{
    BT_SCOPED(bt_json_doc) json = {0};
    bt_status status = bt_json_parse("device probe", line, size_bytes, &json);
    BT_TRY(status);
    bt_device_info *cuda = &machine->cuda;
    copy_text(json.root, "name", cuda->name, sizeof cuda->name);
    copy_text(json.root, "uuid", cuda->uuid, sizeof cuda->uuid);
    copy_text(json.root, "driver", cuda->driver, sizeof cuda->driver);
    copy_text(json.root, "runtime", cuda->runtime, sizeof cuda->runtime);
    cuda->arch = (int)number(json.root, "arch");
    cuda->processor_count = (int)number(json.root, "processor_count");
    cuda->memory_bytes = number(json.root, "memory_bytes");
    cuda->l2_bytes = number(json.root, "l2_bytes");
    cuda->shared_bytes = number(json.root, "shared_bytes");
    machine->cuda_free_bytes = number(json.root, "free_bytes");
    machine->has_cuda = cuda->name[0] != '\0';
    return BT_OK;
}

bt_status bt_machine_open_cuda(bt_machine *machine)
{
    machine->has_cuda = false;
    int ends[2];
    BT_FAIL_IF(pipe(ends) != 0, BT_STATUS_IO,
               "cannot start the device probe: cannot create a pipe");
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "bt-bench", "probe", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char text[4096];
    size_t length = 0;
    for (ssize_t part = 1; child > 0 && part > 0 && length < sizeof text - 1;) {
        part = read(ends[0], text + length, sizeof text - 1 - length);
        length += part > 0 ? (size_t)part : 0;
    }
    close(ends[0]);
    int state = 0;
    BT_FAIL_IF(child < 0 || waitpid(child, &state, 0) != child, BT_STATUS_IO,
               "cannot start the device probe");
    text[length] = '\0';
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) {
        return take(machine, text, length);
    }
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(machine->cuda_reason, sizeof machine->cuda_reason, "%.500s",
                   text[0] ? text : "the device probe crashed");
    return BT_OK;
}

// Bytes that can be allocated; 0: unknown.
static uint64_t available_bytes(void)
{
    char text[64];
    bt_system_value("/proc/meminfo", "MemAvailable", ':', text, sizeof text);
    return strtoull(text, NULL, 10) * 1024;
}

// Bytes that the control group allows; 0: no limit.
static uint64_t cgroup_limit(void)
{
    char path[640], line[64];
    bt_cgroup_file("memory.max", path, sizeof path);
    bt_system_line(path, line, sizeof line);
    return strtoull(line, NULL, 10); // "max" reads as 0
}

// Fills in what NVML knows; false if it does not know the device.
static bool ask_nvml(const bt_nvml *nvml, bt_machine *machine)
{
    bt_device_info *cuda = &machine->cuda;
    bt_nvml_device device = NULL;
    bt_nvml_memory memory;
    int major = 0, minor = 0;
    if (!bt_nvml_cuda_device(nvml, 0, &device) ||
        nvml->name(device, cuda->name, sizeof cuda->name) != BT_NVML_OK ||
        nvml->uuid(device, cuda->uuid, sizeof cuda->uuid) != BT_NVML_OK ||
        nvml->driver(cuda->driver, sizeof cuda->driver) != BT_NVML_OK ||
        nvml->memory(device, &memory) != BT_NVML_OK ||
        nvml->capability(device, &major, &minor) != BT_NVML_OK) {
        return false;
    }
    cuda->arch = 10 * major + minor;
    cuda->memory_bytes = memory.total_bytes;
    machine->cuda_free_bytes = memory.free_bytes;
    machine->has_cuda = true;
    return true;
}

static void set_reason(bt_machine *machine, const char *reason)
{
    (void)snprintf(machine->cuda_reason, sizeof machine->cuda_reason, "%s", reason);
}

static bt_status look_at_gpu(bt_machine *machine)
{
    bt_nvml nvml;
    int error = 0;
    if (!bt_device_is_built("cuda")) {
        set_reason(machine, "the CUDA backend, libbt_cuda.so, is not built");
        return BT_OK;
    }
    if (bt_nvml_open(&nvml, &error)) {
        bool known = ask_nvml(&nvml, machine);
        bt_nvml_close(&nvml);
        const char *visible = bt_environment_raw(BT_VARIABLE_CUDA_VISIBLE_DEVICES);
        if (!known && visible && (!*visible || *visible == '-')) {
            set_reason(machine, "CUDA_VISIBLE_DEVICES hides all GPUs");
            return BT_OK;
        }
        return known ? BT_OK : bt_machine_open_cuda(machine);
    }
    if (error) {
        (void)snprintf(machine->cuda_reason, sizeof machine->cuda_reason,
                       "the NVIDIA driver does not answer (NVML error %d)", error);
        return BT_OK;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        set_reason(machine, "no NVIDIA driver: libcuda.so.1 and libnvidia-ml.so.1 are missing");
        return BT_OK;
    }
    dlclose(driver);
    return bt_machine_open_cuda(machine);
}

bt_status bt_machine_look(bt_machine *out)
{
    memset(out, 0, sizeof *out);
    uint64_t limit = cgroup_limit();
    out->host_memory_bytes = available_bytes();
    if (limit && limit < out->host_memory_bytes) {
        out->host_memory_bytes = limit;
    }
    return look_at_gpu(out);
}

// harness/env/machine.c - look at this machine; the GPU through a child process
#include "harness/env/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "harness/suite/json.h"

// ---- the child's side --------------------------------------------------------------------------

bt_status bt_machine_probe(bt_str *out)
{
    bt_device device;
    BT_TRY(bt_device_open("cuda", 0, &device));
    uint64_t free_bytes = 0, total_bytes = 0;
    bt_status status = device.backend->memory_info(&device, &free_bytes, &total_bytes);
    const bt_device_info *info = &device.info;
    const char *const texts[] = {"name",   info->name,   "uuid",    info->uuid,
                                 "driver", info->driver, "runtime", info->runtime};
    bt_str_append(out, "{");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i += 2) {
        bt_str_format(out, "\"%s\":", texts[i]);
        bt_json_string(texts[i + 1], out);
        bt_str_append(out, ",");
    }
    bt_str_format(out,
                  "\"arch\":%d,\"processor_count\":%d,\"memory_bytes\":%llu,\"l2_bytes\":%llu,"
                  "\"shared_bytes\":%llu,\"free_bytes\":%llu}\n",
                  info->arch, info->processor_count, (unsigned long long)info->memory_bytes,
                  (unsigned long long)info->l2_bytes, (unsigned long long)info->shared_bytes,
                  (unsigned long long)free_bytes);
    bt_device_close(&device);
    BT_TRY(status);
    return bt_str_status(out);
}

// ---- the parent's side -------------------------------------------------------------------------

static void copy_text(const cJSON *object, const char *key, char *out, size_t size_bytes)
{
    const cJSON *node = bt_json_get(object, key);
    (void)snprintf(out, size_bytes, "%s", cJSON_IsString(node) ? node->valuestring : "");
}

static uint64_t number(const cJSON *object, const char *key)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsNumber(node) && node->valuedouble > 0 ? (uint64_t)node->valuedouble : 0;
}

static bt_status take(bt_machine *machine, const char *line, size_t size_bytes)
{
    bt_json_doc json;
    bt_status status = bt_json_parse("device probe", line, size_bytes, &json);
    if (status != BT_OK) {
        return status;
    }
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
    bt_json_release(&json);
    return BT_OK;
}

// Runs `bt-bench probe` and reads what it says: JSON on success, the reason otherwise.
static bt_status ask_child(bt_machine *machine)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return bt_error(BT_STATUS_IO, "cannot start the device probe: no pipe");
    }
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
    if (child < 0 || waitpid(child, &state, 0) != child) {
        return bt_error(BT_STATUS_IO, "cannot start the device probe");
    }
    text[length] = '\0';
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) {
        return take(machine, text, length);
    }
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(machine->cuda_reason, sizeof machine->cuda_reason, "%.500s",
                   text[0] ? text : "the device probe died");
    return BT_OK;
}

// The number behind `key` in /proc/meminfo, in bytes; 0 when it is not there.
static uint64_t meminfo(const char *key)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':') {
            kib = strtoull(line + strlen(key) + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return kib * 1024;
}

static uint64_t cgroup_limit(void)
{
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    char line[64] = "";
    uint64_t limit = file && fgets(line, sizeof line, file) ? strtoull(line, NULL, 10) : 0;
    if (file) {
        fclose(file);
    }
    return limit; // "max" reads as 0
}

bt_status bt_machine_look(bt_machine *out)
{
    memset(out, 0, sizeof *out);
    uint64_t limit = cgroup_limit();
    out->host_memory_bytes = meminfo("MemAvailable");
    if (limit && limit < out->host_memory_bytes) {
        out->host_memory_bytes = limit;
    }
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        (void)snprintf(out->cuda_reason, sizeof out->cuda_reason, "%s", bt_error_message());
        return BT_OK;
    }
    return ask_child(out);
}

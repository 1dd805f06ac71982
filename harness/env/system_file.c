// harness/env/system_file.c - small files of the system: /proc, /sys, control groups
#include "harness/env/system_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void bt_system_line(const char *path, char *line, size_t size_bytes)
{
    FILE *file = fopen(path, "r");
    line[0] = '\0';
    if (file) {
        if (!fgets(line, (int)size_bytes, file)) {
            line[0] = '\0';
        }
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
}

void bt_system_value(const char *path, const char *key, char separator, char *value,
                     size_t size_bytes)
{
    char line[8192];
    FILE *file = fopen(path, "r");
    value[0] = '\0';
    while (file && !value[0] && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        const char *at = strncmp(line, key, length) == 0 ? line + length : NULL;
        at = at ? at + strspn(at, " \t") : NULL;
        if (at && *at == separator) {
            at += 1 + strspn(at + 1, " \t\"");
            (void)snprintf(value, size_bytes, "%.*s", (int)strcspn(at, "\"\n"), at);
        }
    }
    if (file) {
        fclose(file);
    }
}

#define ROOT "/sys/fs/cgroup"

void bt_cgroup_file_of(const char *root, const char *group, const char *name, char *path,
                       size_t size_bytes)
{
    char above[512];
    (void)snprintf(above, sizeof above, "%.500s", group);
    for (char *last = strrchr(above, '/'); last; last = strrchr(above, '/')) {
        (void)snprintf(path, size_bytes, "%s%s%s%s", root, above, last[1] ? "/" : "", name);
        if (access(path, R_OK) == 0) {
            return;
        }
        *last = '\0';
    }
    (void)snprintf(path, size_bytes, "%s/%s", root, name);
}

void bt_cgroup_file(const char *name, char *path, size_t size_bytes)
{
    char line[512], group[512];
    bt_system_value("/proc/self/cgroup", "0", ':', line, sizeof line); // "0::/group"
    (void)snprintf(group, sizeof group, "%s", line[0] == ':' ? line + 1 : "/");
    bt_cgroup_file_of(ROOT, group, name, path, size_bytes);
}

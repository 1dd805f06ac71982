// harness/env/cgroup.c - files of a control group
#include "harness/env/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    char line[512], group[512] = "/";
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) == 0) {
            (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
        }
    }
    if (file) {
        fclose(file);
    }
    bt_cgroup_file_of(ROOT, group, name, path, size_bytes);
}

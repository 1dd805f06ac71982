// harness/env/cgroup.h - where the limits of this process's control group are (cgroup v2)
#ifndef BT_HARNESS_ENV_CGROUP_H
#define BT_HARNESS_ENV_CGROUP_H

#include <stddef.h>

// Path of a file ("cpu.max") of the group that this process is in, or of the nearest one above that
// has it; in a container's own view that is the root. The root's path where none has it.
void bt_cgroup_file(const char *name, char *path, size_t size_bytes);
// The same for a group as /proc/self/cgroup names it ("/user.slice/a"), under `root`.
void bt_cgroup_file_of(const char *root, const char *group, const char *name, char *path,
                       size_t size_bytes);

#endif

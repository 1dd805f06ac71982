// harness/env/cgroup.h - paths of the limits of this process's control group (cgroup v2)
#ifndef BT_HARNESS_ENV_CGROUP_H
#define BT_HARNESS_ENV_CGROUP_H

#include <stddef.h>

// Path of a file ("cpu.max") of this process's group, or of the nearest ancestor that has it; in a
// container's view that is the root. The root's path if none has it.
void bt_cgroup_file(const char *name, char *path, size_t size_bytes);
// The same for a group named as in /proc/self/cgroup ("/user.slice/a"), under `root`.
void bt_cgroup_file_of(const char *root, const char *group, const char *name, char *path,
                       size_t size_bytes);

#endif

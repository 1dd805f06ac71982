// harness/env/system_file.h - small files of the system: /proc, /sys, control groups
#ifndef BT_HARNESS_ENV_SYSTEM_FILE_H
#define BT_HARNESS_ENV_SYSTEM_FILE_H

#include <stddef.h>

// The first line of a file without its newline, "" if it cannot be read.
void bt_system_line(const char *path, char *line, size_t size_bytes);
// The value of the first line "key<blanks><separator> value" of a file, "" if there is none.
void bt_system_value(const char *path, const char *key, char separator, char *value,
                     size_t size_bytes);
// Path of a file ("cpu.max") of this process's group, or of the nearest ancestor that has it; in a
// container's view that is the root. The root's path if none has it.
void bt_cgroup_file(const char *name, char *path, size_t size_bytes);
// The same for a group named as in /proc/self/cgroup ("/user.slice/a"), under `root`.
void bt_cgroup_file_of(const char *root, const char *group, const char *name, char *path,
                       size_t size_bytes);

#endif

// harness/store/process.c - whether the process that began a run still exists
//
// Process numbers are reused, so the mark also contains the boot and the start time of the process.
// A database from another machine has another boot: its runs are not running here.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/store/internal.h"

// Reads the start of a small file of /proc into text; no allocation, "" on failure.
static void read_small(const char *path, char *text, size_t capacity)
{
    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    ssize_t length = read(file, text, capacity - 1);
    text[length > 0 ? length : 0] = '\0';
    close(file);
}

// Field 22 of /proc/PID/stat, counted after the name, which may contain spaces and brackets. False
// if there is no such process, or it is a zombie.
static bool start_time(int64_t pid, int64_t *started)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    read_small(path, text, sizeof text);
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X') {
        return false;
    }
    at += 2; // field 3
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at) {
            return false;
        }
        at++;
    }
    *started = strtoll(at, NULL, 10);
    return true;
}

static void boot_id(char text[40])
{
    read_small("/proc/sys/kernel/random/boot_id", text, 40);
    text[strcspn(text, "\n")] = '\0';
}

void bt_process_mark_self(process_mark *mark)
{
    memset(mark, 0, sizeof *mark);
    mark->pid = getpid();
    if (!start_time(mark->pid, &mark->started)) {
        mark->started = 0;
    }
    boot_id(mark->boot_id);
}

bool bt_process_mark_alive(const process_mark *mark)
{
    char boot[40];
    int64_t started = 0;
    boot_id(boot);
    return strcmp(boot, mark->boot_id) == 0 && start_time(mark->pid, &started) &&
           started == mark->started;
}

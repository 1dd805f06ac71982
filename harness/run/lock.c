// harness/run/lock.c - one locked file per device
#include "harness/run/lock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/idioms.h"

// The path of a device's lock; letters, digits and '-' of its name are kept.
static void path_of(const char *device, char *path, size_t capacity)
{
    const char *folder = bt_environment(BT_VARIABLE_TMPDIR);
    char name[80];
    size_t length = 0;
    for (; *device && length + 1 < sizeof name; device++) {
        name[length++] = isalnum((unsigned char)*device) ? *device : '-';
    }
    name[length] = '\0';
    (void)snprintf(path, capacity, "%s/bt-bench-%s.lock", folder ? folder : "/tmp", name);
}

// The file may belong to another user; locking needs no write permission.
static int open_lock(const char *path)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW;
    int file = open(path, O_RDWR | flags);
    if (file < 0 && errno == ENOENT) {
        file = open(path, O_RDWR | O_CREAT | flags, 0666);
        if (file >= 0) {
            (void)fchmod(file, 0666); // whatever the umask is: other users lock it, too
        }
    }
    return file < 0 && errno == EACCES ? open(path, O_RDONLY | flags) : file;
}

bt_status bt_device_lock_try(const char *device, bt_device_lock *lock, bool *taken, char *owner,
                             size_t capacity)
{
    char path[512];
    path_of(device, path, sizeof path);
    *taken = false;
    lock->file = open_lock(path);
    BT_FAIL_IF(lock->file < 0, BT_STATUS_IO, "%s: cannot open the lock of the device: %s", path,
               strerror(errno));
    if (flock(lock->file, LOCK_EX | LOCK_NB) == 0) {
        *taken = true;
        bt_device_lock_sign(lock, "a run that begins");
        return BT_OK;
    }
    int code = errno;
    ssize_t length = pread(lock->file, owner, capacity - 1, 0);
    owner[length > 0 ? length : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    close(lock->file);
    lock->file = -1;
    return code == EWOULDBLOCK
               ? BT_OK
               : bt_error(BT_STATUS_IO, "%s: cannot lock the device: %s", path, strerror(code));
}

void bt_device_lock_sign(bt_device_lock *lock, const char *owner)
{
    char line[512];
    int length = snprintf(line, sizeof line, "%s\n", owner);
    size_t size_bytes = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    // The contents are informative only: a lock whose file cannot be written is still valid.
    if (lock->file >= 0 && ftruncate(lock->file, 0) == 0) {
        ssize_t written = pwrite(lock->file, line, size_bytes, 0);
        (void)written;
    }
}

void bt_device_lock_release(bt_device_lock *lock)
{
    if (lock->file >= 0) {
        int emptied = ftruncate(lock->file, 0);
        (void)emptied;
        close(lock->file);
    }
    lock->file = -1;
}

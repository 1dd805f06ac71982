#include "harness/launch/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char parent[] = "/dev/shm";
static const char prefix[] = "bt-state-";

// Removes a folder and its contents recursively, without following links.
static void remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) {
        return;
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char below[512];
        struct stat about;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= (int)sizeof below ||
            lstat(below, &about) != 0) {
            continue;
        }
        if (S_ISDIR(about.st_mode)) {
            remove_tree(below);
        } else {
            (void)unlink(below);
        }
    }
    (void)closedir(folder);
    (void)rmdir(path);
}

// Takes the lock of a folder; -1: no lock file, or it is held.
static int take_lock(const char *path, int flags)
{
    char name[160];
    (void)snprintf(name, sizeof name, "%s/lock", path);
    const int lock = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0) {
        (void)close(lock);
        return -1;
    }
    return lock;
}

// Removes folders of this user's launchers that were killed.
static void remove_stale(void)
{
    DIR *folder = opendir(parent);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[128];
        struct stat about;
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 ||
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= (int)sizeof path ||
            lstat(path, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid()) {
            continue;
        }
        const int lock = take_lock(path, 0);
        if (lock >= 0) {
            remove_tree(path);
            (void)close(lock);
        }
    }
    if (folder) {
        (void)closedir(folder);
    }
}

bt_status bt_state_folder_make(bt_state_folder *folder)
{
    folder->lock = -1;
    remove_stale();
    (void)snprintf(folder->path, sizeof folder->path, "%s/%sXXXXXX", parent, prefix);
    if (!mkdtemp(folder->path)) {
        const int error = errno;
        *folder->path = '\0';
        return bt_error(BT_STATUS_IO, "cannot make a folder in %s for the state of the ranks: %s",
                        parent, strerror(error));
    }
    folder->lock = take_lock(folder->path, O_CREAT);
    if (folder->lock < 0) {
        bt_state_folder_remove(folder);
        return bt_error(BT_STATUS_IO, "cannot lock the folder in %s", parent);
    }
    return BT_OK;
}

void bt_state_folder_remove(bt_state_folder *folder)
{
    if (*folder->path) {
        remove_tree(folder->path);
    }
    if (folder->lock >= 0) {
        (void)close(folder->lock);
    }
    *folder = (bt_state_folder){.lock = -1};
}

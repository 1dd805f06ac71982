#include "harness/launch/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char parent[] = "/dev/shm";
static const char prefix[] = "bt-ranks-";
// Another launcher removes a folder that is not locked yet.
enum { ATTEMPTS = 8 };

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

// Locks the folder itself, which lasts as long as the folder; -1: another process holds the lock,
// or the folder is gone.
static int take_lock(const char *path)
{
    struct stat locked, named;
    const int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0) {
        return -1;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 || fstat(lock, &locked) != 0 ||
        lstat(path, &named) != 0 || locked.st_ino != named.st_ino) {
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
        const int lock = take_lock(path);
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
    remove_stale();
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        *folder = (bt_state_folder){.lock = -1};
        (void)snprintf(folder->path, sizeof folder->path, "%s/%sXXXXXX", parent, prefix);
        if (!mkdtemp(folder->path)) {
            const int error = errno;
            *folder->path = '\0';
            return bt_error(BT_STATUS_IO,
                            "cannot create a folder in %s for the state of the ranks: %s", parent,
                            strerror(error));
        }
        folder->lock = take_lock(folder->path);
        if (folder->lock >= 0) {
            return BT_OK;
        }
        bt_state_folder_remove(folder);
    }
    return bt_error(BT_STATUS_IO, "cannot lock a folder in %s", parent);
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

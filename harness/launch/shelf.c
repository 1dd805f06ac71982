#include "harness/launch/shelf.h"

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

// Removes a folder and what is in it, folders included, not behind links.
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

// The lock of a folder; -1: it has none, or somebody holds it.
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

// What launchers of this user left that were killed.
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

bt_status bt_shelf_make(bt_shelf *shelf)
{
    shelf->lock = -1;
    remove_stale();
    (void)snprintf(shelf->path, sizeof shelf->path, "%s/%sXXXXXX", parent, prefix);
    if (!mkdtemp(shelf->path)) {
        const int error = errno;
        *shelf->path = '\0';
        return bt_error(BT_STATUS_IO, "cannot make a folder in %s for the state of the ranks: %s",
                        parent, strerror(error));
    }
    shelf->lock = take_lock(shelf->path, O_CREAT);
    if (shelf->lock < 0) {
        bt_shelf_remove(shelf);
        return bt_error(BT_STATUS_IO, "cannot lock the folder in %s", parent);
    }
    return BT_OK;
}

void bt_shelf_remove(bt_shelf *shelf)
{
    if (*shelf->path) {
        remove_tree(shelf->path);
    }
    if (shelf->lock >= 0) {
        (void)close(shelf->lock);
    }
    *shelf = (bt_shelf){.lock = -1};
}

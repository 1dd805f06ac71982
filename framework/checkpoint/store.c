// framework/checkpoint/store.c - the names in a store: list, remove, retain
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/image.h"

static const char temporary_prefix[] = ".tmp-";

const bt_file_ops *bt_store_ops(const bt_checkpoint_store *store)
{
    return store->ops ? store->ops : &bt_file_ops_system;
}

static void name_of(int64_t step, bool temporary, char name[64])
{
    (void)snprintf(name, 64, "%sstep-%08lld", temporary ? temporary_prefix : "", (long long)step);
}

bt_status bt_checkpoint_path(const bt_checkpoint_store *store, int64_t step, bool temporary,
                             char *path)
{
    char name[64];
    name_of(step, temporary, name);
    return bt_io_path(store->folder, name, path);
}

// The step in a checkpoint's name, -1 for any other name.
static int64_t step_of(const char *name)
{
    char again[64];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) > 5 + 18 || !isdigit(name[5])) {
        return -1;
    }
    int64_t step = strtoll(name + 5, NULL, 10);
    name_of(step, false, again);
    return strcmp(name, again) == 0 ? step : -1;
}

static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Does nothing if the store does not exist.
static bt_status list_names(const bt_checkpoint_store *store, bt_io_names *names)
{
    const bt_file_ops *ops = bt_store_ops(store);
    *names = (bt_io_names){0};
    int folder = ops->open(ops->self, store->folder, BT_FILE_FOLDER);
    if (folder == -ENOENT) {
        return BT_OK;
    }
    if (folder < 0) {
        return bt_io_failed(folder, "open the folder", store->folder);
    }
    (void)ops->close(ops->self, folder);
    return bt_io_list(ops, store->folder, names);
}

bt_status bt_checkpoint_list(const bt_checkpoint_store *store, int64_t **steps, int64_t *count)
{
    bt_io_names names;
    void *block = NULL;
    *steps = NULL;
    *count = 0;
    bt_status status = list_names(store, &names);
    if (status == BT_OK) {
        status = bt_mem_alloc((size_t)names.count + 1, sizeof **steps, &block);
    }
    if (status == BT_OK) {
        *steps = block;
        for (int64_t i = 0; i < names.count; ++i) {
            int64_t step = step_of(names.items[i]);
            if (step >= 0) {
                (*steps)[(*count)++] = step;
            }
        }
        qsort(*steps, (size_t)*count, sizeof **steps, compare_steps);
    }
    bt_io_names_release(&names);
    return status;
}

bt_status bt_store_clean(const bt_checkpoint_store *store)
{
    bt_io_names names;
    char path[BT_PATH_CAPACITY];
    bt_status status = list_names(store, &names);
    for (int64_t i = 0; i < names.count && status == BT_OK; ++i) {
        const size_t prefix = sizeof temporary_prefix - 1;
        if (strncmp(names.items[i], temporary_prefix, prefix) == 0 &&
            step_of(names.items[i] + prefix) >= 0) {
            status = bt_io_path(store->folder, names.items[i], path);
            status = status == BT_OK ? bt_io_remove_folder(bt_store_ops(store), path) : status;
        }
    }
    bt_io_names_release(&names);
    return status;
}

// Renames first, so that an interrupted removal leaves no incomplete checkpoint.
bt_status bt_checkpoint_remove(const bt_checkpoint_store *store, int64_t step)
{
    char path[BT_PATH_CAPACITY];
    char temporary[BT_PATH_CAPACITY];
    const bt_file_ops *ops = bt_store_ops(store);
    BT_TRY(bt_checkpoint_path(store, step, false, path));
    BT_TRY(bt_checkpoint_path(store, step, true, temporary));
    int error = ops->rename(ops->self, path, temporary);
    if (error == -EEXIST || error == -ENOTEMPTY) { // left by an interrupted save of this step
        BT_TRY(bt_io_remove_folder(ops, temporary));
        error = ops->rename(ops->self, path, temporary);
    }
    return error < 0 ? bt_io_failed(error, "remove", path) : bt_io_remove_folder(ops, temporary);
}

// Checkpoints newer than the saved one are removed first: they are damaged, since training
// continued from an older one. Then the oldest.
bt_status bt_store_retain(const bt_checkpoint_store *store, int64_t saved, int64_t max_to_keep)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    if (max_to_keep <= 0) {
        return BT_OK;
    }
    bt_status status = bt_checkpoint_list(store, &steps, &count);
    int64_t left = count;
    for (int64_t i = count - 1; i >= 0 && left > max_to_keep && status == BT_OK; --i) {
        if (steps[i] > saved) {
            status = bt_checkpoint_remove(store, steps[i]);
            --left;
        }
    }
    for (int64_t i = 0; i < count && left > max_to_keep && status == BT_OK; ++i) {
        if (steps[i] < saved) {
            status = bt_checkpoint_remove(store, steps[i]);
            --left;
        }
    }
    bt_mem_free(steps);
    return status;
}

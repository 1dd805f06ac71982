// framework/data/dataset_open.c - opens and checks a folder of shards
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/dataset_json.h"
#include "framework/data/shard.h"

// Opens each shard of a split and compares its token count with the manifest.
static bt_status check_split(const bt_dataset_split *split)
{
    for (int64_t i = 0; i < split->count; ++i) {
        bt_shard shard;
        BT_TRY(bt_shard_open(split->shards[i].path, &shard));
        int64_t count = shard.count;
        bt_shard_close(&shard);
        if (count != split->shards[i].tokens) {
            return bt_error(BT_STATUS_CORRUPT_DATA,
                            "%s: expected %lld tokens (" BT_DATASET_MANIFEST "), got %lld",
                            split->shards[i].path, (long long)split->shards[i].tokens,
                            (long long)count);
        }
    }
    return BT_OK;
}

static int is_shard_file(const struct dirent *entry)
{
    return fnmatch("*_train_*.bin", entry->d_name, 0) == 0 ||
           fnmatch("*_val_*.bin", entry->d_name, 0) == 0;
}

// Takes the shards of a folder without manifest, in the order of their names.
static bt_status list_folder(bt_dataset *dataset)
{
    struct dirent **entries = NULL;
    int count = scandir(dataset->folder, &entries, is_shard_file, alphasort);
    if (count < 0) {
        return bt_error(BT_STATUS_IO, "cannot read the folder %s: %s", dataset->folder,
                        strerror(errno));
    }
    bt_status status = BT_OK;
    for (int i = 0; i < count; ++i) {
        const char *file = entries[i]->d_name;
        char *path = NULL;
        bt_shard shard = {0};
        status = status == BT_OK ? bt_path_join(dataset->folder, file, &path) : status;
        status = status == BT_OK ? bt_shard_open(path, &shard) : status;
        if (status == BT_OK) {
            bool val = fnmatch("*_val_*.bin", file, 0) == 0;
            status = bt_dataset_add_shard(dataset, val, file, shard.count, NULL);
        }
        bt_shard_close(&shard);
        bt_mem_free(path);
        free(entries[i]);
    }
    free(entries);
    if (status == BT_OK && count == 0) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "%s: not a dataset: expected " BT_DATASET_MANIFEST
                          ", or shards named *_train_*.bin and *_val_*.bin",
                          dataset->folder);
    }
    dataset->train.documents = -1;
    dataset->val.documents = -1;
    return status;
}

bt_status bt_dataset_open(const char *folder, bt_dataset *dataset)
{
    memset(dataset, 0, sizeof *dataset);
    char *path = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_mem_strdup(folder, &dataset->folder), done);
    BT_TRY_GOTO(bt_path_join(folder, BT_DATASET_MANIFEST, &path), done);
    dataset->has_manifest = bt_file_exists(path);
    if (dataset->has_manifest) {
        BT_TRY_GOTO(bt_dataset_read_json(dataset, path), done);
        BT_TRY_GOTO(check_split(&dataset->train), done);
        BT_TRY_GOTO(check_split(&dataset->val), done);
    } else {
        BT_TRY_GOTO(bt_mem_strdup("", &dataset->name), done);
        BT_TRY_GOTO(list_folder(dataset), done);
    }
done:
    bt_mem_free(path);
    if (status != BT_OK) {
        bt_dataset_release(dataset);
    }
    return status;
}

static bt_status verify_shard(const bt_dataset *dataset, const bt_dataset_shard *expected)
{
    if (expected->digest.hex[0]) {
        bt_digest digest;
        BT_TRY(bt_digest_file(expected->path, &digest));
        if (strcmp(digest.hex, expected->digest.hex) != 0) {
            return bt_error(BT_STATUS_CORRUPT_DATA, "%s: expected sha256 %s, got %s",
                            expected->path, expected->digest.hex, digest.hex);
        }
    }
    bt_shard shard;
    BT_TRY(bt_shard_open(expected->path, &shard));
    bt_status status = dataset->vocab > 0 ? bt_shard_scan(&shard, dataset->vocab) : BT_OK;
    bt_shard_close(&shard);
    return status;
}

bt_status bt_dataset_verify(const bt_dataset *dataset)
{
    for (int64_t i = 0; i < dataset->train.count; ++i) {
        BT_TRY(verify_shard(dataset, &dataset->train.shards[i]));
    }
    for (int64_t i = 0; i < dataset->val.count; ++i) {
        BT_TRY(verify_shard(dataset, &dataset->val.shards[i]));
    }
    return BT_OK;
}

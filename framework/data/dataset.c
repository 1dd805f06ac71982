// framework/data/dataset.c - the struct of a dataset: its shards, its release
#include "framework/data/dataset.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/data/shard.h"

bt_status bt_path_join(const char *folder, const char *name, char **path)
{
    bt_str text = {0};
    bt_str_format(&text, "%s/%s", folder, name);
    bt_status status = bt_str_take(&text, path);
    bt_str_release(&text);
    return status;
}

static void release_split(bt_dataset_split *split)
{
    for (int64_t i = 0; i < split->count; ++i) {
        bt_mem_free(split->shards[i].path);
    }
    bt_mem_free(split->shards);
    bt_mem_free(split->paths);
}

void bt_dataset_release(bt_dataset *dataset)
{
    release_split(&dataset->train);
    release_split(&dataset->val);
    for (int64_t i = 0; i < dataset->source_count; ++i) {
        bt_mem_free(dataset->sources[i].path);
    }
    bt_mem_free(dataset->sources);
    bt_mem_free(dataset->folder);
    bt_mem_free(dataset->name);
    memset(dataset, 0, sizeof *dataset);
}

bt_status bt_dataset_add_shard(bt_dataset *dataset, bool val, const char *file, int64_t tokens,
                               const bt_digest *digest)
{
    bt_dataset_split *split = val ? &dataset->val : &dataset->train;
    if (split->count == split->capacity) {
        int64_t capacity = split->capacity ? 2 * split->capacity : 8;
        void *block = split->shards;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *split->shards));
        split->shards = block;
        block = split->paths;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *split->paths));
        split->paths = block;
        split->capacity = capacity;
    }
    bt_dataset_shard *shard = &split->shards[split->count];
    memset(shard, 0, sizeof *shard);
    BT_TRY(bt_path_join(dataset->folder, file, &shard->path));
    shard->tokens = tokens;
    shard->size_bytes = BT_SHARD_HEADER_BYTES + 2 * (uint64_t)tokens;
    if (digest) {
        shard->digest = *digest;
    }
    split->paths[split->count++] = shard->path;
    split->tokens += tokens;
    return BT_OK;
}

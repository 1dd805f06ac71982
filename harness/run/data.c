// harness/run/data.c - finds or prepares the shards of a dataset
#include "harness/run/data.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/data/shard.h"
#include "harness/data/corpus.h"
#include "harness/record/keep.h"
#include "harness/run/child.h"
#include "harness/suite/json.h"
#include "harness/suite/suite.h"

// ---- shards by path ----------------------------------------------------------------------------

// Opens each shard and reads its header and size, so that errors show before the run begins.
static bt_status add_shards(const cJSON *list, bt_arena *arena, const char *const **out,
                            int64_t *count, int64_t *tokens)
{
    const cJSON *node = NULL;
    const char **paths = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, cJSON_GetArraySize(list), &paths));
    *out = paths;
    cJSON_ArrayForEach(node, list) {
        bt_shard shard = {0};
        BT_TRY(bt_shard_open(node->valuestring, &shard));
        *tokens += shard.count;
        bt_shard_close(&shard);
        BT_TRY(bt_keep(arena, node->valuestring, &paths[(*count)++]));
    }
    return BT_OK;
}

static bt_status find_by_path(const cJSON *dataset, bt_run_data *out)
{
    const cJSON *train = bt_json_get(dataset, "train"), *val = bt_json_get(dataset, "val");
    int64_t val_tokens = 0;
    (void)snprintf(out->name, sizeof out->name, "shards by path");
    BT_TRY(add_shards(train, &out->arena, &out->train, &out->train_count, &out->tokens));
    BT_TRY(add_shards(val, &out->arena, &out->val, &out->val_count, &val_tokens));
    return out->train_count ? BT_OK
                            : bt_error(BT_STATUS_INVALID_ARGUMENT, "dataset.train names no shard");
}

// ---- datasets by name --------------------------------------------------------------------------

void bt_run_data_folder(const char *name, bt_str *folder, bool *found)
{
    BT_SCOPED(bt_str) home = {0};
    bt_str_format(folder, "data/%s", name);
    *found = bt_file_exists(bt_str_text(folder));
    if (!*found) {
        bt_home_path(&home);
        bt_str_format(&home, "/data/%s", name);
        *found = bt_file_exists(bt_str_text(&home));
        if (*found) {
            bt_str_clear(folder);
            bt_str_append(folder, bt_str_text(&home));
        }
    }
}

typedef struct teller {
    bt_run_data_say say;
    void *self;
} teller;

static bool on_progress(void *context, const bt_progress_event *event)
{
    const teller *to = context;
    if (event->note) {
        to->say(to->self, event->note);
    }
    return bt_interrupt_count() == 0;
}

bt_status bt_run_data_prepare(const char *folder, bt_run_data_say say, void *self)
{
    teller to = {say, self};
    BT_SCOPED(bt_str) packages = {0}, installer = {0};
    bt_home_path(&packages);
    bt_str_append(&packages, "/ci/data/node_modules");
    bt_home_path(&installer);
    bt_str_append(&installer, "/ci/data/install.sh");
    BT_TRY(bt_str_status(&packages));
    BT_TRY(bt_str_status(&installer));
    bt_prepare_options options = {
        .node_modules = bt_str_text(&packages),
        .installer = bt_file_exists(bt_str_text(&installer)) ? bt_str_text(&installer) : NULL,
        .out_dir = folder,
        .progress = {on_progress, &to}};
    return bt_data_prepare(&options, NULL);
}

bt_status bt_run_data_ranks(char **path)
{
    BT_SCOPED(bt_str) packages = {0};
    BT_SCOPED_MEM(char *) found = NULL;
    *path = NULL;
    bt_home_path(&packages);
    bt_str_append(&packages, "/ci/data/node_modules");
    BT_TRY(bt_str_status(&packages));
    BT_TRY(bt_data_ranks_path(bt_str_text(&packages), &found));
    BT_FAIL_IF(!bt_file_exists(found), BT_STATUS_UNAVAILABLE,
               "GPT-2's tokenizer is missing: %s\nget it with 'bt-bench data prepare', or give a "
               "rank file with --ranks",
               found);
    *path = found;
    found = NULL;
    return BT_OK;
}

bt_status bt_run_data_questions(const char *given, bt_str *path)
{
    bool found = given != NULL;
    if (given) {
        bt_str_append(path, given);
    } else {
        bt_run_data_folder("hellaswag.txt", path, &found);
    }
    BT_TRY(bt_str_status(path));
    return found ? BT_OK
                 : bt_error(
                       BT_STATUS_UNAVAILABLE,
                       "HellaSwag's questions are missing: %s\nput hellaswag_val_full.txt "
                       "there (six lines a question; "
                       "https://github.com/klosax/hellaswag_text_data), or name another file with "
                       "--questions",
                       bt_str_text(path));
}

static bt_status not_there(const char *name, const char *folder)
{
    return bt_error(
        BT_STATUS_UNAVAILABLE,
        "dataset \"%s\" is missing: no folder %s\n'bt-bench data fetch' lists what can be "
        "fetched, 'bt-bench data tokenize FILE... -o data/%s' makes it from text, or "
        "name shards: --set dataset.train=FILE",
        name, folder, name);
}

// Whether a folder has part of a corpus: a file still being fetched and no manifest yet.
static bool is_half_fetched(const char *folder)
{
    BT_SCOPED(bt_str) pattern = {0};
    glob_t found = {0};
    bt_str_format(&pattern, "%s/" BT_DATASET_MANIFEST, folder);
    bool half = !bt_file_exists(bt_str_text(&pattern));
    bt_str_clear(&pattern);
    bt_str_format(&pattern, "%s/*.part", folder);
    half =
        half && glob(bt_str_text(&pattern), GLOB_NOSORT, NULL, &found) == 0 && found.gl_pathc > 0;
    globfree(&found);
    return half;
}

// Up to this many bytes of shards are compared with their digests before a run: at most a second.
// Larger data are checked by 'bt-bench data verify'.
#define VERIFY_BYTES_MAX (256ULL << 20)

static bt_status verify_if_small(const bt_dataset *dataset)
{
    uint64_t size_bytes = 0;
    for (int64_t i = 0; i < dataset->train.count; ++i) {
        size_bytes += dataset->train.shards[i].size_bytes;
    }
    for (int64_t i = 0; i < dataset->val.count; ++i) {
        size_bytes += dataset->val.shards[i].size_bytes;
    }
    return dataset->has_manifest && size_bytes <= VERIFY_BYTES_MAX ? bt_dataset_verify(dataset)
                                                                   : BT_OK;
}

static bt_status find_by_name(const char *name, bt_run_data_say say, void *self, bt_run_data *out)
{
    BT_SCOPED(bt_str) folder = {0};
    bool found = false;
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    bt_run_data_folder(name, &folder, &found);
    bt_dataset *dataset = &out->dataset;
    BT_TRY(bt_str_status(&folder));
    if (!found) {
        BT_TRY(strcmp(name, "books") == 0 ? bt_run_data_prepare(bt_str_text(&folder), say, self)
                                          : not_there(name, bt_str_text(&folder)));
    }
    BT_FAIL_IF(is_half_fetched(bt_str_text(&folder)), BT_STATUS_UNAVAILABLE,
               "dataset \"%s\" is incomplete: %s\nget the rest with 'bt-bench data fetch %s'", name,
               bt_str_text(&folder), name);
    BT_TRY(bt_dataset_open(bt_str_text(&folder), dataset));
    BT_TRY(verify_if_small(dataset));
    out->tokens = dataset->train.tokens;
    out->vocab = dataset->vocab;
    out->train = dataset->train.paths;
    out->train_count = dataset->train.count;
    out->val = dataset->val.paths;
    out->val_count = dataset->val.count;
    (void)snprintf(out->digest, sizeof out->digest, "%s", dataset->digest.hex);
    (void)snprintf(out->tokenizer, sizeof out->tokenizer, "%s", dataset->tokenizer.hex);
    return BT_OK;
}

bt_status bt_run_data_find(const cJSON *dataset, bt_run_data_say say, void *self, bt_run_data *out)
{
    memset(out, 0, sizeof *out);
    const cJSON *name = bt_json_get(dataset, "name");
    bt_status status = cJSON_IsString(name) ? find_by_name(name->valuestring, say, self, out)
                                            : find_by_path(dataset, out);
    if (status != BT_OK) {
        bt_run_data_release(out);
    }
    return status;
}

bt_status bt_run_data_find_hellaswag(bt_run_data *out)
{
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(char *) ranks = NULL;
    BT_TRY(bt_run_data_questions(NULL, &path));
    BT_TRY(bt_keep(&out->arena, bt_str_text(&path), &out->questions));
    BT_TRY(bt_run_data_ranks(&ranks));
    return bt_keep(&out->arena, ranks, &out->ranks);
}

void bt_run_data_release(bt_run_data *data)
{
    bt_dataset_release(&data->dataset);
    bt_arena_release(&data->arena);
    memset(data, 0, sizeof *data);
}

// harness/cases/identity.c - the identity of a training case, stored with its checkpoints
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/file_ops.h"
#include "harness/cases/cases.h"
#include "harness/suite/json.h"

// Values of `train` that affect what is measured, kept or printed, but no bit.
static const char *const without_effect[] = {
    "anomaly",          "checkpoint",
    "digest_every",     "eval_batches",
    "eval_every",       "graph",
    "hang_s",           "hellaswag_every",
    "hellaswag_limit",  "memory_limit_bytes",
    "profile_steps",    "recompute",
    "recompute_blocks", "timeout_s",
    "verify_every",     "warmup_timing_steps",
};

// If the bits of a mesh do not depend on the number of ranks, only the virtual shards matter. With
// zero2 they depend on it if a rank has several micro-batches.
static void reduce_mesh(cJSON *mesh)
{
    static const char *const never[] = {"bucket_mb", "shrink", "spare", "faults"};
    static const char *const of_invariant[] = {"data", "sharding"};
    const bool sums_ranks_first = bt_json_is_text(mesh, "sharding", "zero2");
    const bool invariant = bt_json_number_of(mesh, "invariant") > 0 && !sums_ranks_first;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; ++i) {
        cJSON_DeleteItemFromObjectCaseSensitive(mesh, never[i]);
    }
    for (size_t i = 0; invariant && i < sizeof of_invariant / sizeof of_invariant[0]; ++i) {
        cJSON_DeleteItemFromObjectCaseSensitive(mesh, of_invariant[i]);
    }
}

bt_status bt_case_identity(const cJSON *item, bt_str *out)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *train = cJSON_Duplicate(bt_json_get(item, "train"), 1);
    cJSON *dataset = cJSON_Duplicate(bt_json_get(item, "dataset"), 1);
    for (size_t i = 0; i < sizeof without_effect / sizeof without_effect[0]; ++i) {
        cJSON_DeleteItemFromObjectCaseSensitive(train, without_effect[i]);
    }
    reduce_mesh(cJSON_GetObjectItemCaseSensitive(train, "mesh"));
    bool whole = root && train && cJSON_AddItemToObject(root, "train", train);
    if (whole && dataset) {
        whole = cJSON_AddItemToObject(root, "dataset", dataset);
    }
    if (whole) {
        bt_json_write(root, out);
    }
    cJSON_Delete(root);
    return whole ? bt_str_status(out)
                 : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for a case's identity");
}

// "train.optimizer.lr: was 0.0006, is 0.001", for every leaf that differs or exists on one side
// only.
static void list_differences(const cJSON *was, const cJSON *is, const char *path, bt_str *out)
{
    char below[256];
    if (was && is && cJSON_IsObject(was) && cJSON_IsObject(is)) {
        for (const cJSON *node = was->child; node; node = node->next) {
            (void)snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", node->string);
            list_differences(node, bt_json_get(is, node->string), below, out);
        }
        for (const cJSON *node = is->child; node; node = node->next) {
            if (!bt_json_get(was, node->string)) {
                (void)snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", node->string);
                list_differences(NULL, node, below, out);
            }
        }
    } else if (!cJSON_Compare(was, is, 1)) {
        bt_str_format(out, "\n  %s: was ", path);
        was ? bt_json_write(was, out) : bt_str_append(out, "not there");
        bt_str_append(out, ", is ");
        is ? bt_json_write(is, out) : bt_str_append(out, "not there");
    }
}

static bt_status compare(const char *folder, const char *path, const char *was, const char *is)
{
    BT_SCOPED(bt_json_doc) a = {0}, b = {0};
    BT_SCOPED(bt_str) differs = {0};
    const bt_status status = bt_json_parse(path, was, strlen(was), &a);
    BT_TRY(status == BT_STATUS_INVALID_ARGUMENT ? bt_error_context(BT_STATUS_CORRUPT_DATA, "plan")
                                                : status);
    BT_TRY(bt_json_parse("case", is, strlen(is), &b));
    list_differences(a.root, b.root, "", &differs);
    BT_TRY(bt_str_status(&differs));
    BT_FAIL_IF(differs.length_bytes > 0, BT_STATUS_INVALID_ARGUMENT,
               "the checkpoints in %s belong to another plan:%.1200s", folder,
               bt_str_text(&differs));
    return BT_OK;
}

bt_status bt_case_settle(const char *folder, const char *identity)
{
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) text = NULL;
    size_t size_bytes = 0;
    bt_str_format(&path, "%s/plan.json", folder);
    BT_TRY(bt_str_status(&path));
    if (access(bt_str_text(&path), F_OK) == 0) {
        BT_TRY(bt_file_read(bt_str_text(&path), &text, &size_bytes));
        return compare(folder, bt_str_text(&path), text, identity);
    }
    BT_TRY(bt_io_make_folders(&bt_file_ops_system, folder));
    return bt_file_write(bt_str_text(&path), identity, strlen(identity));
}

// ---- removing checkpoints -----------------------------------------------------------------------

static int64_t remove_store(const char *folder)
{
    const bt_checkpoint_store store = {.folder = folder};
    BT_SCOPED(bt_str) plan = {0};
    BT_SCOPED_MEM(int64_t *) steps = NULL;
    int64_t count = 0, removed = 0;
    bt_status status = bt_checkpoint_list(&store, &steps, &count);
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        status = bt_checkpoint_remove(&store, steps[i]);
        removed += status == BT_OK;
    }
    bt_str_format(&plan, "%s/plan.json", folder);
    if (status == BT_OK && bt_str_status(&plan) == BT_OK) {
        (void)unlink(bt_str_text(&plan));
        (void)rmdir(folder); // other files stay
    }
    return removed;
}

int64_t bt_case_checkpoints_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    BT_SCOPED(bt_str) path = {0};
    struct stat info;
    int64_t removed = 0;
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        bt_str_clear(&path);
        bt_str_format(&path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && bt_str_status(&path) == BT_OK &&
            lstat(bt_str_text(&path), &info) == 0 && S_ISDIR(info.st_mode)) {
            removed += remove_store(bt_str_text(&path));
        }
    }
    if (dir) {
        (void)closedir(dir);
        (void)rmdir(folder);
    }
    bt_error_clear();
    return removed;
}

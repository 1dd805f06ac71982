// harness/diff/source.c - converts a case of a plan to a training
#include "harness/diff/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/cases/cases.h"
#include "harness/plan/plan.h"
#include "harness/suite/json.h"

// "cuda:1" is device 1 of "cuda".
static bt_status read_device(const char *text, bt_diff_source *out)
{
    const size_t length = strcspn(text, ":");
    char *end = NULL;
    const long ordinal = text[length] ? strtol(text + length + 1, &end, 10) : 0;
    BT_FAIL_IF(length == 0 || length >= sizeof out->device ||
                   (end && (*end || end == text + length + 1)) || ordinal < 0 || ordinal > 1024,
               BT_STATUS_INVALID_ARGUMENT, "device %s; allowed: cpu, cuda, cuda:N", text);
    (void)snprintf(out->device, sizeof out->device, "%.*s", (int)length, text);
    out->ordinal = (int)ordinal;
    return BT_OK;
}

bt_status bt_diff_source_open(const cJSON *item, const char *device, bool ranks,
                              bt_run_data_say say, bt_diff_source *out)
{
    *out = (bt_diff_source){0};
    const char *name = bt_json_text_or_null(item, "name");
    BT_FAIL_IF(!cJSON_IsObject(bt_json_get(item, "train")), BT_STATUS_INVALID_ARGUMENT,
               "case %s is not a training case", name ? name : "(without a name)");
    BT_TRY(read_device(device, out));
    BT_TRY(bt_run_data_find(bt_json_get(item, "dataset"), say, NULL, &out->data));
    const int64_t all = bt_plan_mesh_of(bt_json_get(item, "train")).ranks;
    const bool apart = ranks && all > 1 && strcmp(out->device, "cpu") == 0;
    out->ranks = apart ? (int)all : 1;
    const bt_case_work work = {.item = item,
                               .device = out->device,
                               .ordinal = out->ordinal,
                               .alone = !apart,
                               .group_later = apart,
                               .train_shards = out->data.train,
                               .train_shard_count = out->data.train_count,
                               .val_shards = out->data.val,
                               .val_shard_count = out->data.val_count};
    BT_TRY(bt_case_train_plan(&work, &out->train));
    BT_TRY(apart ? bt_train_check_mesh(&out->train, out->ranks) : BT_OK);
    out->train.eval_every = out->train.profile_steps = out->train.warmup_timing_steps = 0;
    out->train.verify_every = out->train.digest_every = 0;
    return BT_OK;
}

void bt_diff_source_close(bt_diff_source *source)
{
    bt_run_data_release(&source->data);
    *source = (bt_diff_source){0};
}

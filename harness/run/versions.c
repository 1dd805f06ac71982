// harness/run/versions.c - package versions of a run's peers
#include "harness/run/versions.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/suite/json.h"

static bt_status no_memory(void)
{
    return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for the versions of peers");
}

void bt_versions_take(bt_versions *versions, const bt_store_run *run)
{
    BT_EACH(const bt_store_file, file, run->files, run->file_count) {
        if (strcmp(file->kind, "versions") == 0) {
            bt_versions_release(versions);
            versions->said = cJSON_ParseWithLength(file->bytes, (size_t)file->size_bytes);
        }
    }
}

bool bt_versions_know(const bt_versions *versions, const char *system)
{
    return bt_json_get(versions->said, system) != NULL;
}

bt_status bt_versions_note(bt_versions *versions, const char *system, const char *packages)
{
    if (!versions->said) {
        versions->said = cJSON_CreateObject();
    }
    if (!versions->said) {
        return no_memory();
    }
    cJSON_DeleteItemFromObjectCaseSensitive(versions->said, system);
    if (!cJSON_AddStringToObject(versions->said, system, packages)) {
        return no_memory();
    }
    versions->changed = true;
    return BT_OK;
}

bt_status bt_versions_save(bt_versions *versions, bt_store *store, int64_t run)
{
    BT_SCOPED(bt_str) text = {0};
    if (!versions->changed) {
        return BT_OK;
    }
    bt_json_write(versions->said, &text);
    bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        const bt_store_file file = {"versions", "versions.json", bt_str_text(&text),
                                    (int64_t)text.length_bytes};
        status = bt_store_file_set(store, run, &file);
    }
    versions->changed = status != BT_OK;
    return status;
}

void bt_versions_release(bt_versions *versions)
{
    cJSON_Delete(versions->said);
    memset(versions, 0, sizeof *versions);
}

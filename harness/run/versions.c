// harness/run/versions.c - package versions of a run's peers
#include "harness/run/versions.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/suite/json.h"

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
    versions->said = versions->said ? versions->said : cJSON_CreateObject();
    BT_TRY(
        bt_json_put(versions->said, system, cJSON_CreateString(packages), "the versions of peers"));
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
    BT_TRY(bt_str_status(&text));
    const bt_store_file file = {"versions", "versions.json", bt_str_text(&text),
                                (int64_t)text.length_bytes};
    BT_TRY(bt_store_file_set(store, run, &file));
    versions->changed = false;
    return BT_OK;
}

void bt_versions_release(bt_versions *versions)
{
    cJSON_Delete(versions->said);
    memset(versions, 0, sizeof *versions);
}

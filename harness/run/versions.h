// harness/run/versions.h - package versions of the peers of a run
//
// The first task of each peer in a session requests them ("versions":true); the peer may answer
// with the event `versions` after `start`. They are stored with the run as its file of kind
// "versions":
// {"pytorch-eager": "torch==2.11.0\n..."}, as 'pip freeze' prints them.
#ifndef BT_HARNESS_RUN_VERSIONS_H
#define BT_HARNESS_RUN_VERSIONS_H

#include <cjson/cJSON.h>

#include "harness/store/store.h"

typedef struct bt_versions {
    cJSON *said; // owned; NULL: nothing yet
    bool changed;
} bt_versions;

// Loads the versions of a resumed run.
void bt_versions_take(bt_versions *versions, const bt_store_run *run);
bool bt_versions_know(const bt_versions *versions, const char *system);
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_versions_note(bt_versions *versions, const char *system,
                                      const char *packages);
// Writes changes to the record.
BT_CHECKED bt_status bt_versions_save(bt_versions *versions, bt_store *store, int64_t run);
void bt_versions_release(bt_versions *versions);

#endif

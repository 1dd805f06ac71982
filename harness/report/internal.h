// harness/report/internal.h - what the files of this folder share; nobody else includes it
#ifndef BT_HARNESS_REPORT_INTERNAL_H
#define BT_HARNESS_REPORT_INTERNAL_H

#include "harness/stats/summary.h"
#include "harness/store/store.h"
#include "harness/text/json.h"

// Path of the newest artifact of kind "report", NULL when there is none. Borrowed from the run.
const char *bt_run_report_path(const bt_store_run *run);

// Keys of an open object: what `show --format json` and the JSON report have in common.
void bt_json_run_head(bt_json *json, const bt_store_run *run);
BT_CHECKED bt_status bt_json_case_head(bt_json *json, const bt_store_round *round);
void bt_json_metrics(bt_json *json, const bt_summary *summary);

#endif

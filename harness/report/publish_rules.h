// harness/report/publish_rules.h - the requirements for a publication
#ifndef BT_HARNESS_REPORT_PUBLISH_RULES_H
#define BT_HARNESS_REPORT_PUBLISH_RULES_H

#include "framework/base/str.h"
#include "harness/record/record.h"

// Appends "; " and a reason for each rule that the run breaks: an unmodified tree of a known
// commit, an uninterrupted run, and the versions of every peer. Nothing if it satisfies all.
void bt_publish_faults(const bt_store_run *run, bt_str *out);
// Whether the run has a round of a system other than blutrain.
bool bt_publish_has_peer(const bt_store_run *run);
// The file of the run with its peers' versions, NULL: it has none.
const bt_store_file *bt_publish_versions(const bt_store_run *run);

#endif

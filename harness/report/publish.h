// harness/report/publish.h - a report that others read: a folder with page, Markdown, JSON, plots
//
// Invariants
//   1. A publication holds what the database held, with the paths of the machine shortened and what
//      identifies it (harness/env/facts.inl) named and left out; equal runs give equal files.
//   2. A run from a modified tree, an interrupted one, one whose peers' versions are not recorded,
//      or one without its bundle is refused; a draft of it says so in every file.
//   3. The folder of another publication is left alone unless `force` says otherwise, and only the
//      files of a publication are ever replaced.
#ifndef BT_HARNESS_REPORT_PUBLISH_H
#define BT_HARNESS_REPORT_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/store/store.h"
#include "harness/suite/json.h"

typedef struct bt_publication {
    const char *folder; // made if missing
    const char *bundle; // a public one, to put beside the report; NULL: none
    // Says whether it may be put there (bt_bundle_check_public).
    bt_status (*check_bundle)(const char *name, const void *bytes, size_t size_bytes,
                              const bt_store_run *of);
    const bt_json_doc *claims; // for the paper's own conditions; NULL: they are left out
    bool force;
    bool draft; // publish what breaks the rules, marked as a draft
} bt_publication;

// Writes index.html, README.md, report.json, environment.json, ratios-*.svg, roofline.svg,
// loss.svg, speed.svg as far as there is something to draw, and a copy of the bundle. Errors
// INVALID_ARGUMENT (no runs, rules broken, a folder with something else in it), IO
BT_CHECKED bt_status bt_report_publish(bt_store *store, const int64_t *runs, int64_t count,
                                       const bt_publication *publication);

#endif

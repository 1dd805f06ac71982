// harness/report/publish.h - a publication: a folder with page, Markdown, JSON, plots
//
// Invariants
//   1. A publication contains the data of the database, with shortened paths and without what
//      identifies the machine (harness/env/facts.inl); equal runs give equal files.
//   2. A run from a modified tree, an interrupted one, one whose peers' versions are not recorded,
//      or one without its bundle is refused; a draft of it says so in every file.
//   3. The folder of another publication is not changed without `force`, and only the files of a
//      publication are ever replaced.
#ifndef BT_HARNESS_REPORT_PUBLISH_H
#define BT_HARNESS_REPORT_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/store/store.h"
#include "harness/suite/json.h"

typedef struct bt_publication {
    const char *folder; // created if missing
    const char *bundle; // a public one, copied to the folder; NULL: none
    // Checks whether it may be published (bt_bundle_check_public).
    bt_status (*check_bundle)(const char *name, const void *bytes, size_t size_bytes,
                              const bt_store_run *of);
    const bt_json_doc *claims; // for the paper's conditions, of runs that have recorded no claims;
                               // NULL: omitted
    bool force;
    bool draft; // publish although rules are broken, marked as a draft
} bt_publication;

// Writes index.html, README.md, report.json, environment.json, ratios-*.svg, roofline.svg,
// loss.svg, speed.svg as far as there is something to draw, and a copy of the bundle. Errors
// INVALID_ARGUMENT (no runs, rules broken, a folder with something else in it), IO
BT_CHECKED bt_status bt_report_publish(bt_store *store, const int64_t *runs, int64_t count,
                                       const bt_publication *publication);

#endif

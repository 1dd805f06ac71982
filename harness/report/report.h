// harness/report/report.h - reports of runs: terminal text, page, Markdown, JSON
//
// Read-only. Everything from the database is escaped for its destination.
#ifndef BT_HARNESS_REPORT_REPORT_H
#define BT_HARNESS_REPORT_REPORT_H

#include "framework/base/str.h"
#include "harness/store/store.h"

// ---- show: on a terminal -----------------------------------------------------------------------

// Appends a description of a run and its results: a paragraph per case, no colour.
// Tables are fitted to `columns` of a terminal, 0: any number.
BT_CHECKED bt_status bt_show_text(bt_store *store, int64_t run, int columns, bt_str *out);
// Appends one object: run, status, message, suite, profile, report, cases; each case with name,
// system, status, message, metrics (tag to number, in the units of metrics.inl), intervals and
// params_digest. `report` is the path of the newest artifact of kind "report", or null. This is
// also what `run --format json` prints.
BT_CHECKED bt_status bt_show_json(bt_store *store, int64_t run, bt_str *out);
// The list of runs, newest first, as an aligned table.
BT_CHECKED bt_status bt_show_list_text(bt_store *store, int columns, bt_str *out);

// ---- report: files -----------------------------------------------------------------------------

// Writes a report of runs [count >= 1], in their order, to one file; its extension selects the
// format: .html (one self-contained page), .md, .json (suites/schema/report.schema.json), .csv (one
// line per round and metric), .steps.csv, .samples.csv.
// Errors  INVALID_ARGUMENT (ending, no runs, no such run), IO
BT_CHECKED bt_status bt_report_write(bt_store *store, const int64_t *runs, int64_t count,
                                     const char *path);

// The same, appended to a string.
BT_CHECKED bt_status bt_report_html(bt_store *store, const int64_t *runs, int64_t count,
                                    bt_str *out);
BT_CHECKED bt_status bt_report_markdown(bt_store *store, const int64_t *runs, int64_t count,
                                        bt_str *out);
BT_CHECKED bt_status bt_report_json(bt_store *store, const int64_t *runs, int64_t count,
                                    bt_str *out);
// One line per round and metric, per training step, and per timed call.
BT_CHECKED bt_status bt_report_csv(bt_store *store, const int64_t *runs, int64_t count,
                                   bt_str *out);
BT_CHECKED bt_status bt_report_steps_csv(bt_store *store, const int64_t *runs, int64_t count,
                                         bt_str *out);
BT_CHECKED bt_status bt_report_samples_csv(bt_store *store, const int64_t *runs, int64_t count,
                                           bt_str *out);

// One page over all runs: a table with filters, and the history of each case. `folder`, empty or
// with a trailing slash, is the folder of the page: links to reports are relative to it.
BT_CHECKED bt_status bt_report_index(bt_store *store, const char *folder, bt_str *out);

// SHA-256 of what every page of this build has in common: frame, style and scripts. Programs with
// the same revision and digest make the same page from a run.
BT_CHECKED bt_status bt_report_page_digest(char digest[65]);

#endif

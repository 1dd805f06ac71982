// harness/report/internal.h - what the files of this folder share; nobody else includes it
#ifndef BT_HARNESS_REPORT_INTERNAL_H
#define BT_HARNESS_REPORT_INTERNAL_H

#include <stdbool.h>

#include "framework/base/str.h"
#include "harness/compare/compare.h"
#include "harness/stats/summary.h"
#include "harness/store/store.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

// ---- show.c ------------------------------------------------------------------------------------

// Path of the newest artifact of kind "report", NULL when there is none. Borrowed from the run.
const char *bt_run_report_path(const bt_store_run *run);

// Keys of an open object: what `show --format json` and the JSON report have in common.
void bt_report_json_run(bt_json_writer *json, const bt_store_run *run);
BT_CHECKED bt_status bt_report_json_case(bt_json_writer *json, const bt_store_round *round);

// ---- set.c: the runs of a report, read once ----------------------------------------------------

// A round as the report shows it, with a letter that stands for it wherever colour does too.
typedef struct report_case {
    const bt_store_run *run;     // borrowed from the set
    const bt_store_round *round; // likewise
    bt_summary summary;
    char tag[4];       // A, B, ... Z, A1 ...
    const char *label; // "fp32", or "run 1, fp32, pytorch" as far as needed to tell it apart
} report_case;

typedef struct report_set {
    bt_store_run *runs; // in the order asked for
    int64_t run_count;
    report_case *cases; // all rounds of all runs
    int64_t case_count;
    bt_arena arena; // holds runs (not what they own), cases, labels
} report_set;

// Owns    the caller, until bt_report_set_release
BT_CHECKED bt_status bt_report_set_read(bt_store *store, const int64_t *runs, int64_t count,
                                        report_set *out);
void bt_report_set_release(report_set *set);
// "run 1 of gpt2_124m (cpu) passed: loss 10.991 -> 7.236 ...", the one sentence at the top.
void bt_report_headline(const report_set *set, bt_str *out);

// ---- kernels.c ---------------------------------------------------------------------------------

bool bt_report_is_kernel(const bt_store_round *round);
// The kernel cases of a run as tables of text; nothing when it has none.
BT_CHECKED bt_status bt_report_kernel_tables(const bt_store_run *run, bt_str *out);

// A column of the table of cases, on the page and in Markdown.
typedef struct report_column {
    const char *title;
    bt_metric metric;
    bool of_kernels; // shown where there are kernel cases; the others where there are training ones
} report_column;

extern const report_column bt_report_columns[];
extern const int bt_report_column_count;
bool bt_report_column_shown(const report_set *set, const report_column *column);

// ---- ranges.c: NVTX ranges as a tree -----------------------------------------------------------

typedef struct range_node {
    const char *path; // borrowed from the round
    const char *name; // its last part
    int depth;        // 0: outermost
    double time_ns;   // per profiled step; device time where there is any, host time otherwise
    double calls;     // per profiled step
    double offset_ns; // from the start of the outermost one, siblings laid end to end
    double rest_ns;   // of its time, what its children do not account for; itself when none
    bool has_children;
} range_node;

typedef struct range_tree {
    range_node *nodes; // parents before children, siblings by falling time; in the arena
    int64_t count;
    int64_t steps;   // profiled steps behind it
    bool on_device;  // times are device times
    double total_ns; // of the outermost ranges together
} range_tree;

BT_CHECKED bt_status bt_range_tree_make(const bt_store_round *round, bt_arena *arena,
                                        range_tree *out);

// ---- html.c, and the parts of the page ---------------------------------------------------------

// Appends text escaped for HTML content and quoted attributes.
void bt_html_text(bt_str *out, const char *text);

// Around `count` foldable items of one kind: more than three are folded once more, together, so
// that twenty runs look as calm as two.
void bt_html_group_open(bt_str *out, const char *name, int64_t count);
void bt_html_group_close(bt_str *out, int64_t count);

typedef BT_CHECKED bt_status (*report_part)(const report_set *set, bt_str *out);

bt_status bt_page_head(const report_set *set, bt_str *out);    // head.c: sentence, tiles, numbers
bt_status bt_page_curves(const report_set *set, bt_str *out);  // curves.c: loss, speed, memory
bt_status bt_page_data(const report_set *set, bt_str *out);    // curves.c: JSON for the script
bt_status bt_page_ranges(const report_set *set, bt_str *out);  // bars.c
bt_status bt_page_differs(const report_set *set, bt_str *out); // facts.c
bt_status bt_page_facts(const report_set *set, bt_str *out);  // facts.c: environment, plan, kernels
bt_status bt_page_tables(const report_set *set, bt_str *out); // tables.c
bt_status bt_page_csv(const report_set *set, bt_str *out);    // tables.c: raw steps for the script

// ---- curves.c ----------------------------------------------------------------------------------

// Thins a curve to at most 2 * buckets points: per bucket of equal step count the smallest and the
// largest value, in step order; NaN and infinity are left out. x, y [count] are overwritten.
// Returns the number of points left.
int64_t bt_curve_thin(double *x, double *y, int64_t count, int64_t buckets);
// Replaces a curve of finite values by the median of each bucket at its middle step; likewise.
int64_t bt_curve_medians(double *x, double *y, int64_t count, int64_t buckets);

#endif

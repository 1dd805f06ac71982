// harness/report/internal.h - declarations shared by the files of this folder; private
#ifndef BT_HARNESS_REPORT_INTERNAL_H
#define BT_HARNESS_REPORT_INTERNAL_H

#include <stdbool.h>

#include "framework/base/str.h"
#include "harness/compare/compare.h"
#include "harness/report/ratios.h"
#include "harness/stats/summary.h"
#include "harness/store/store.h"
#include "harness/suite/json.h"
#include "harness/text/escape.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

// ---- show.c ------------------------------------------------------------------------------------

// Path of the newest artifact of kind "report", NULL when there is none. Borrowed from the run.
const char *bt_run_report_path(const bt_store_run *run);

// "paused for 2 min from ...: interrupted, then resumed".
void bt_report_gap(const bt_store_gap *gap, bt_str *out);

// Keys of an open object that `show --format json` and the JSON report have in common.
void bt_report_json_run(bt_json_writer *json, const bt_store_run *run);
BT_CHECKED bt_status bt_report_json_case(bt_json_writer *json, const bt_store_round *round);

// ---- set.c: the runs of a report, read once ----------------------------------------------------

// The operation of a kernel case, from its axes; "" if it is none, or unknown.
typedef struct report_kernel {
    const char *op, *direction, *dtype, *shape;
    const char *group; // "layernorm backward, f32, cold cache"
    bool ceiling;      // measures the machine, not a kernel: "ceiling.cold"
} report_kernel;

// A case on a system in one run, with all its rounds.
enum { BT_REPORT_RECOMPUTE_BYTES = 64 };

typedef struct report_case {
    const bt_store_run *run;       // borrowed from the set
    const bt_store_round *round;   // the representative one: the first of those in the worst state
    const bt_store_round **rounds; // [round_count], in the order begun
    int64_t round_count;
    int64_t noisy;         // rounds with a noise label
    bt_summary *summaries; // [round_count], one entry per round
    bt_summary summary;    // of all rounds that count (cases.c)
    report_kernel kernel;
    char tag[4];  // A, B, ... Z, A1 ...: represents it wherever colour does; "" for kernel cases,
                  // which have no curves
    int64_t gpus; // on which its ranks train; 1 on CPUs and for other cases
    char recompute[BT_REPORT_RECOMPUTE_BYTES]; // from bt_report_recompute
    const char *label; // "fp32", or "run 1, fp32, pytorch" as far as needed to tell it apart
} report_case;

typedef struct report_set {
    bt_store_run *runs; // in the order requested
    int64_t run_count;
    report_case *cases; // of all runs
    int64_t case_count;
    ratio_list *ratios; // what is compared (ratios.h)
    int64_t ratio_count;
    const bt_json_doc *claims;   // borrowed; of runs that have recorded none. NULL: not known
    const char *draft;           // of a publication that breaks rules: their names; NULL: none
    struct report_trend *trends; // histories of cases (trends.c); only for a page
    int64_t trend_count;
    bt_arena arena; // arena of runs (not their contents), cases, labels, ratios
} report_set;

// Changes a run after reading, for example to shorten paths for a publication.
typedef BT_CHECKED bt_status (*report_edit)(bt_store_run *run);

// edit NULL: as recorded.
// Owns    the caller, until bt_report_set_release
BT_CHECKED bt_status bt_report_set_read(bt_store *store, const int64_t *runs, int64_t count,
                                        report_edit edit, report_set *out);
void bt_report_set_release(report_set *set);

// Adds the histories of its cases, which bt_report_set_release releases.
BT_CHECKED bt_status bt_trends_read(bt_store *store, report_set *set);
void bt_trends_release(report_set *set);

// "gpt2_124m (cpu) passed: loss 10.991 -> 7.236 ...", the one sentence at the top (headline.c).
void bt_report_headline(const report_set *set, bt_str *out);
// The kind of comparison in the report; NULL: none.
const ratio_list *bt_report_main_list(const report_set *set);
// The first device that a case names, "this machine" if none does.
const char *bt_report_device(const report_set *set);
// The case with the best value of a metric, NULL if none has it.
const report_case *bt_report_best(const report_set *set, bt_metric metric);
int64_t bt_report_verdict_count(const ratio_list *list, const char *verdict);

// ---- kernels.c ---------------------------------------------------------------------------------

// The kernel cases of a set of one run as tables of text; nothing if there are none. `columns` of
// the terminal, 0: any number.
BT_CHECKED bt_status bt_report_kernel_tables(const report_set *set, int columns, bt_str *out);

// ---- cases.c -----------------------------------------------------------------------------------

// Whether calls are timed: a kernel case, or a command case. Whether it is a command case.
bool bt_report_is_kernel(const bt_store_round *round);
bool bt_report_is_command(const bt_store_round *round);
// Why steps that were to be compiled ran eagerly; NULL: none did.
const char *bt_report_eager(const bt_store_round *round);
bool bt_report_has_steps(const report_case *item);
bool bt_report_has_passed(const report_case *item);
// The number of cases for which `is` holds.
int64_t bt_report_count(const report_set *set, bool (*is)(const report_case *item));
// "recompute block in 17 blocks", from the case's plan; "" without recomputation.
BT_CHECKED bt_status bt_report_recompute(const bt_store_round *round,
                                         char text[BT_REPORT_RECOMPUTE_BYTES]);
// The noise label of a round, "" if none.
const char *bt_noise_of(const bt_store_round *round);
// Whether a round's numbers count in its case: an invalid one is kept, but is not a measurement.
bool bt_round_counts(const report_case *item, int64_t index);
// The number of rounds that count.
int64_t bt_report_counted(const report_case *item);
// Fills summaries (in the arena), summary and kernel.
BT_CHECKED bt_status bt_case_summarise(report_case *item, bt_arena *arena);
// The same case in a run, on a system; NULL if there is none.
const report_case *bt_report_counterpart(const report_set *set, const report_case *item,
                                         const bt_store_run *run, const char *system);

// A column of the table of cases, on the page and in Markdown.
typedef struct report_column {
    const char *title;
    bt_metric metric;
    bool of_kernels; // shown if there are kernel cases; the others if there are training cases
} report_column;

extern const report_column bt_report_columns[];
extern const int bt_report_column_count;
bool bt_report_column_shown(const report_set *set, const report_column *column);
// Whether a kernel case has so many operations per byte that it is not memory-bound: its rate is
// then in FLOP/s. No elementwise operation or norm qualifies; a product of 64 x 64 x 64 does.
bool bt_report_flops_dominate(double flop_per_s, double bytes_per_s);

// ---- a whole report of each format: page.c, markdown.c, json.c ---------------------------------

BT_CHECKED bt_status bt_page_write(const report_set *set, bt_str *out);
BT_CHECKED bt_status bt_markdown_write(const report_set *set, bt_str *out);
BT_CHECKED bt_status bt_json_write_report(const report_set *set, bt_str *out);

// The keys "build" and "environment" of an open object.
void bt_json_write_setting(bt_json_writer *json, const bt_store_run *run);
// A whole page around `body` (HTML), with the style of the report; its tables sort and copy, and
// the filters of index.js select rows.
BT_CHECKED bt_status bt_page_of_tables(const char *title, const char *body, bt_str *out);
// The style of a plot that is a file of its own, as an element of the SVG.
void bt_page_plot_style(bt_str *out);
// Parts of the Markdown, which a publication arranges differently.
void bt_markdown_headline(const report_set *set, bt_str *out);
void bt_markdown_ratios(const report_set *set, bt_str *out);
// The facts of the environment up to a level.
void bt_markdown_facts(const bt_store_run *run, bt_fact_level up_to, bt_str *out);
BT_CHECKED bt_status bt_markdown_cases(const report_set *set, bt_str *out);
BT_CHECKED bt_status bt_markdown_deviations(const report_set *set, bt_str *out); // deviations.c
BT_CHECKED bt_status bt_markdown_ranks(const report_set *set, bt_str *out);      // ranks.c
BT_CHECKED bt_status bt_markdown_groups(const report_set *set, bt_str *out);     // groups.c
BT_CHECKED bt_status bt_show_groups(const bt_store_round *round, bt_str *out);
void bt_markdown_timelines(const report_set *set, bt_str *out); // timeline.c
BT_CHECKED bt_status bt_markdown_ranges(const report_set *set, bt_str *out);

// ---- deviations.c: how claims' cases and this machine differ from the paper's ------------------

// The section of a list of claims; nothing for other lists.
BT_CHECKED bt_status bt_html_deviations(const report_set *set, const ratio_list *list, bt_str *out);
// A line with the number of claims of which the case differs, and a link to the section; nothing if
// there are none.
void bt_html_deviations_note(const ratio_list *list, bt_str *out);

// ---- ranges.c: NVTX ranges as a tree -----------------------------------------------------------

typedef struct range_node {
    const char *path; // borrowed from the round
    const char *name; // its last part
    int depth;        // 0: outermost
    double time_ns;   // per profiled step; device time if available, otherwise host time
    double calls;     // per profiled step
    double offset_ns; // from the start of the outermost one, siblings laid end to end
    double rest_ns;   // its time minus that of its children; all of it without children
    bool has_children;
} range_node;

typedef struct range_tree {
    range_node *nodes; // parents before children, siblings by descending time; in the arena
    int64_t count;
    int64_t steps;   // number of profiled steps
    bool on_device;  // times are device times
    double total_ns; // of the outermost ranges together
} range_tree;

BT_CHECKED bt_status bt_range_tree_make(const bt_store_round *round, bt_arena *arena,
                                        range_tree *out);

// ---- machine.c: the machine's state during the rounds ------------------------------------------

// Lines of `show` about one round: its label with the reason, clocks, power.
BT_CHECKED bt_status bt_show_machine(const bt_store_round *round, bt_str *out);
// A line with the labels of all rounds; nothing if all were quiet.
void bt_show_noise(const bt_store_run *run, bt_str *out);
// Keys "label" and "machine" of a round; raw samples.
BT_CHECKED bt_status bt_report_json_machine(bt_json_writer *json, const bt_store_round *round);
void bt_report_json_telemetry(bt_json_writer *json, const bt_store_round *round);

// ---- html.c, and the parts of the page ---------------------------------------------------------

// Appends the id of a case's row in the table of cases.
void bt_html_case_id(bt_str *out, const report_set *set, const report_case *item);
// An id or fragment: the texts joined by dashes, with all characters except letters, digits, '.',
// '_' and '-' replaced.
void bt_html_anchor(bt_str *out, const char *prefix, const char *name, const char *metric);
// The letter of a case, if it has one.
void bt_html_tag(bt_str *out, const report_case *item);
// The letter and the label of a case.
void bt_html_label(bt_str *out, const report_case *item);
// The next cell: the same.
void bt_html_case(bt_table *table, const report_case *item);
// The next cell: a number, or nothing.
void bt_html_number(bt_table *table, bool known, bt_unit unit, double value);
// A collapsed table: "Steps of A fp32, 1,200 steps". item NULL: no case; note "": none. Releases
// the table.
void bt_html_details(const char *title, const report_case *item, const char *note, bt_table *table,
                     bt_str *out);
// The same without a note, if the table has rows.
void bt_html_rows(const char *title, const report_case *item, bt_table *table, bt_str *out);
// Wraps `count` collapsible items of one kind: more than three are collapsed once more, together,
// so that a report of twenty runs is as short as one of two.
void bt_html_group_open(bt_str *out, const char *name, int64_t count);
void bt_html_group_close(bt_str *out, int64_t count);

// A section with a part per case. The first case's is open, because the others are similar in most
// reports; those are collapsed.
typedef struct report_section {
    const char *id, *title, *note;
    bool (*has)(const report_case *item);
    bt_status (*write)(const report_set *set, int64_t index, bool open, bt_str *out);
} report_section;

BT_CHECKED bt_status bt_html_section(const report_section *section, const report_set *set,
                                     bt_str *out);
// Begins the part of a case, up to a remark in its summary.
void bt_html_open_case(const report_case *item, bool open, bt_str *out);

typedef BT_CHECKED bt_status (*report_part)(const report_set *set, bt_str *out);

bt_status bt_page_head(const report_set *set, bt_str *out);   // head.c: sentence, tiles, numbers
bt_status bt_page_forest(const report_set *set, bt_str *out); // forest.c
bt_status bt_page_kernel_cases(const report_set *set, bt_str *out); // caselist.c
bt_status bt_page_cases(const report_set *set, bt_str *out);        // caselist.c
bt_status bt_page_trends(const report_set *set, bt_str *out);       // trends.c
bt_status bt_page_roofline(const report_set *set, bt_str *out);     // roofline.c
bt_status bt_page_density(const report_set *set, bt_str *out);      // density.c: histograms
bt_status bt_page_curves(const report_set *set, bt_str *out);       // curves.c: loss, speed, memory
bt_status bt_page_data(const report_set *set, bt_str *out);         // curves.c: JSON for the script
bt_status bt_page_ranks(const report_set *set, bt_str *out);        // ranks.c: several ranks
bt_status bt_page_timelines(const report_set *set, bt_str *out);    // timeline.c: a step by ranks
bt_status bt_page_groups(const report_set *set, bt_str *out);       // groups.c: compiled steps
bt_status bt_page_ranges(const report_set *set, bt_str *out);       // bars.c
bt_status bt_page_differs(const report_set *set, bt_str *out);      // facts.c
bt_status bt_page_facts(const report_set *set, bt_str *out);  // facts.c: environment, plan, kernels
bt_status bt_page_tables(const report_set *set, bt_str *out); // tables.c

#endif

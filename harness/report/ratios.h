// harness/report/ratios.h - ratios of two sides, one per case: the data of a forest plot
//
// A list contains either verdicts (of one kind, from the store) or, if there are none, what the
// rounds show: the geometric mean over the pairs of rounds of two systems. A list of several runs
// compares each with the first; its intervals come from the steps of one round.
//
// Invariants
//   1. Rows of a group are consecutive; within a group the worst come first.
//   2. Nothing here decides: verdicts come from the store, other rows have none.
#ifndef BT_HARNESS_REPORT_RATIOS_H
#define BT_HARNESS_REPORT_RATIOS_H

#include <stdbool.h>

#include "framework/base/mem.h"
#include "harness/record/record.h"
#include "harness/stats/summary.h"
#include "harness/text/format.h"

struct report_set;
struct report_case;

typedef struct ratio_row {
    const char *name;   // case, or claim's id
    const char *title;  // of a claim: its subject; "" if the name is sufficient
    const char *group;  // operation or experiment; "": none
    const char *metric; // tag, "" if the list's is sufficient
    double ratio;
    double low, high;           // 95 %; NaN: none
    double mark;                // the paper's ratio; NaN: none
    double band_low, band_high; // the tolerance; NaN: none
    const char *verdict;        // as stored, "" without a verdict
    const char *reason;         // likewise
    const char *deviations;     // how it differs from the paper's; "" if unknown
    bool repeated;              // a claim about a measurement for which another claim counts
    int64_t rounds;             // of this run, each paired with one of the other if interleaved
    int64_t noisy;              // number of those with a noise label
    bool wide;                  // of one pair of rounds whose own intervals are wide
} ratio_row;

// A row of which nothing is known: texts are "", ratios NaN.
extern const ratio_row bt_ratio_unknown;

typedef struct ratio_list {
    char id[40];              // "ab-12": kind and run; prefix of the anchors of its rows
    const char *kind;         // "ab", "gate", "replicate", "pairs", "runs"
    const char *base, *other; // the two sides: builds, systems, "the paper"
    const bt_store_run *run;  // borrowed from the set; NULL for kind "runs"
    bool more_is_slower;      // a ratio above 1 means that `other` is slower; otherwise faster
    ratio_row *rows;          // with a ratio
    int64_t count;
    ratio_row *rest; // judged, but without a ratio: not testable, not comparable, invalid
    int64_t rest_count;
} ratio_list;

// Moves the system that others are compared with to the front: the base of two builds, or ours.
void bt_ratios_base_first(const char **systems, int count);
// The end of the group that begins at a row.
int64_t bt_ratios_group_end(const ratio_list *list, int64_t begin);
// The words for a ratio below 1 and above 1: "faster", "slower", "ahead".
const char *bt_ratios_less(const ratio_list *list);
const char *bt_ratios_more(const ratio_list *list);

// The ratios that the intervals of two values allow: from 0 to infinity where the ends do not limit
// it, NaN if a value has no interval.
typedef struct ratio_range {
    double low, high;
} ratio_range;

ratio_range bt_ratio_range(const bt_metric_value *over, const bt_metric_value *under);
// Whether its ends differ by more than 25 %, as for two rounds of +-6 % each.
bool bt_ratio_is_wide(ratio_range range);

// "[1.027, 1.035]"; "wide open" if it is uninformative, "one round" or "-" if there is none.
bt_text bt_format_ratio_interval(const ratio_row *row);

// Appends "other/base: from pairs of rounds; below 1 takes less ...".
void bt_ratio_note(const char *other, const char *base, bt_str *out);

// Fills the set's lists, in its arena.
BT_CHECKED bt_status bt_ratios_read(struct report_set *set);

// A case on another system relative to the same case on a base: the verdict of 'ab' if it judged
// the two, otherwise from pairs of their rounds. The ratio is NaN if no rounds can be paired.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_ratio_of_case(const struct report_set *set, const struct report_case *base,
                                      const struct report_case *other, ratio_row *row);
// The comparison of two builds or systems by 'ab' in a run; NULL if there is none.
const ratio_list *bt_ratios_of_ab(const struct report_set *set, const bt_store_run *run);

// Whether a row counts in the mean, and as the slowest or fastest: its metric is a time or rate,
// and it does not repeat the measurement of another row. Memory and 95th percentiles are separate
// rows. If a list has nothing else, they count.
bool bt_ratios_counts(const ratio_row *rows, int64_t count, const ratio_row *row);

// The geometric mean of the rows that count, with the interval that follows from their intervals;
// the interval is NaN if a row has none.
typedef struct ratio_mean {
    double value, low, high;
    int64_t count; // of rows that count
} ratio_mean;

ratio_mean bt_ratios_mean(const ratio_row *rows, int64_t count);

// ---- shared by ratios.c and pairs.c ------------------------------------------------------------

// Puts rows with a ratio into the list's rows, the others into its rest, both in their order.
BT_CHECKED bt_status bt_ratios_sort(bt_arena *arena, ratio_row *rows, int64_t count,
                                    ratio_list *list);
// The cases of the list's run on its base and on each of `others` [count].
BT_CHECKED bt_status bt_ratios_of_systems(struct report_set *set, ratio_list *list,
                                          const char *const *others, int count);
// Each later run against the first.
BT_CHECKED bt_status bt_ratios_of_runs(struct report_set *set, ratio_list *list);

#endif

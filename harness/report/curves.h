// harness/report/curves.h - curves over the steps: the data between gathering and drawing
#ifndef BT_HARNESS_REPORT_CURVES_H
#define BT_HARNESS_REPORT_CURVES_H

#include "harness/report/internal.h"
#include "harness/report/picture.h"

enum { CHART_LINES = 3, CHART_STYLES = 6, CHART_KINDS = 7, CHART_CALM_CASES = 6 };

// The lines that a chart draws for each case.
typedef struct chart_kind {
    const char *id, *title, *note;
    bt_unit unit;
    bool from_zero, with_evals, with_scores;
    bool decades; // y is the decimal logarithm of the tick's value
    // A value of a step, or of a telemetry sample. With one case, all lines are drawn; otherwise
    // the first that has values.
    struct {
        const char *name; // "" if the case's label is sufficient
        bool (*of_step)(const bt_store_step *step, double *y); // false: not drawn
        double (*of_sample)(const bt_store_telemetry *sample); // NaN: unknown
    } lines[CHART_LINES];
} chart_kind;

// X(enumerator, word in the data of the script)
#define CURVE_SHAPE_LIST(X)                                                                        \
    X(LINE, "line")                                                                                \
    X(FAINT, "faint") /* minimum and maximum, with a line of medians on top */                     \
    X(DOTS, "dots")                                                                                \
    X(BAND, "band") /* from low to high, with a line of medians on top */

typedef enum curve_shape {
#define CURVE_SHAPE_ENUM(name, word) CURVE_##name,
    CURVE_SHAPE_LIST(CURVE_SHAPE_ENUM)
#undef CURVE_SHAPE_ENUM
} curve_shape;

typedef struct curve {
    const report_case *item; // borrowed
    const char *name;        // of the curve, "" for that of the case
    double *x, *y;           // [count], finite
    double *high;            // [count] for a BAND, whose y is its lower edge; NULL otherwise
    int64_t count;
    int style; // 0..CHART_STYLES-1
    curve_shape shape;
    bool quiet; // one of many: drawn grey until selected
} curve;

typedef struct chart {
    const chart_kind *kind;
    curve *curves; // in the arena
    int64_t count;
    double x_max, y_min, y_max; // of the axes
    bt_arena arena;
} chart;

extern const chart_kind bt_chart_kinds[CHART_KINDS];
extern const int bt_chart_kind_count;

// Gathers the curves of one chart, each with at most about 2 * `buckets` points.
// Owns    the caller, bt_arena_release(&out->arena), also after a failure
BT_CHECKED bt_status bt_chart_make(const report_set *set, const chart_kind *kind, int64_t buckets,
                                   chart *out);
// The static picture with its legend; `first`: no other chart is above it.
void bt_chart_write(const chart *from, bool first, bt_str *out);
// Its grid, curves and ticks.
void bt_chart_draw(const chart *from, picture *to);
// The number of its curves with a line of the legend.
int bt_chart_lines(const chart *from);
// The data from which the script redraws the picture when zooming.
void bt_chart_write_data(const chart *from, const report_set *set, bt_json_writer *json);

// ---- telemetry.c -------------------------------------------------------------------------------

// The telemetry samples of a round on the axis of steps: a sample's position is the step reached at
// its time, from the ends of steps that the samples have. In records of earlier versions they have
// none: then the times of steps and evaluations are laid end to end backwards from the round's
// end. x, y [telemetry_count]; samples before the first step or after the last are omitted. Returns
// the number of points.
int64_t bt_curve_of_samples(const bt_store_round *round,
                            double (*of_sample)(const bt_store_telemetry *sample), double *x,
                            double *y);

// ---- thin.c ------------------------------------------------------------------------------------

// Thins a curve to at most 2 * buckets points: per bucket of equal step count the minimum and the
// maximum, in step order; NaN and infinity are omitted. x, y [count] are overwritten. Returns the
// number of remaining points, like all functions below.
int64_t bt_curve_thin(double *x, double *y, int64_t count, int64_t buckets);
// Replaces a curve of finite values by the median of each bucket at its middle step; of a band also
// by the smallest low and the largest high (NULL: no band). More buckets than points change
// nothing.
int64_t bt_curve_medians(double *x, double *y, double *low, double *high, int64_t count,
                         int64_t buckets);
// Removes points between equal neighbors, which a line does not need.
int64_t bt_curve_flatten(double *x, double *y, int64_t count);

#endif

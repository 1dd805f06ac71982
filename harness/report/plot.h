// harness/report/plot.h - plots and a page for other data than runs: used by harness/diff
#ifndef BT_HARNESS_REPORT_PLOT_H
#define BT_HARNESS_REPORT_PLOT_H

#include <stdint.h>

#include "framework/base/str.h"

enum { BT_PLOT_LINES_MAX = 6 };

typedef struct bt_plot_line {
    const char *label;
    const double *x, *y; // [count], x ascending from 0 on
    int64_t count;
} bt_plot_line;

// Lines over a logarithmic y axis as a complete SVG. Points with y not above 0 are omitted. At most
// BT_PLOT_LINES_MAX lines. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_svg_plot(const char *title, const char *x_name, const bt_plot_line *lines,
                                 int64_t count, bt_str *out);
// A self-contained page without scripts, in the style of the reports. `body` is HTML.
BT_CHECKED bt_status bt_report_plain_page(const char *title, const char *body, bt_str *out);

#endif

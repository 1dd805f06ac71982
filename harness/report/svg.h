// harness/report/svg.h - plots as separate SVG files
//
// Each is complete: text, light and dark, no script, no external resources.
#ifndef BT_HARNESS_REPORT_SVG_H
#define BT_HARNESS_REPORT_SVG_H

#include "harness/report/curves.h"
#include "harness/report/roofline.h"

// Ratios with their intervals on a logarithmic axis: one row each up to 60, beyond that one row per
// group with all of its ratios as marks.
void bt_svg_ratios(const ratio_list *list, bt_str *out);
// Curves over the steps.
void bt_svg_chart(const report_set *set, const chart *from, bt_str *out);
// Kernel cases under the ceilings of their session.
void bt_svg_roofline(const roofline *from, bt_str *out);

#endif

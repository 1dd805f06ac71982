// harness/text/format.h - formats numbers: three significant digits, a suitable unit
//
// Functions fill a bt_text, a small value that can be passed around and printed as .text. An
// unknown number (NaN) is "-".
#ifndef BT_HARNESS_TEXT_FORMAT_H
#define BT_HARNESS_TEXT_FORMAT_H

#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/record/metrics.h"

typedef struct bt_text {
    char text[80];
} bt_text;

// As printf, for short texts: longer ones are truncated.
bt_text bt_textf(const char *format, ...) BT_PRINTF(1, 2);
// With a suitable scale: 27.1 us, 1.90 s, 5 min 12 s; 2.40 GiB; 213 tok/s, 412K tok/s; 3.71 TB/s;
// 799 TFLOP/s; a loss with three decimals.
bt_text bt_format_value(bt_unit unit, double value);
// "213.4 tok/s" and "[212.8, 213.9]": as many digits as the interval needs, three to five; the
// interval is "" if low or high is NaN.
void bt_format_interval(bt_unit unit, double value, double low, double high, bt_text *number,
                        bt_text *interval);
// 124,475,904
bt_text bt_format_count(int64_t count);
// "1 round", "3 rounds"
bt_text bt_format_items(int64_t count, const char *noun);
// 1.87x
bt_text bt_format_ratio(double ratio);
// 5:12 or 1:05:12, from ns; "-" for NaN
bt_text bt_format_clock(double time_ns);
// 2026-11-20 16:24:05 UTC, from ns since 1970
bt_text bt_format_date(int64_t wall_ns);
// Replaces control bytes except newlines by '?', for untrusted text printed to a terminal.
void bt_text_make_printable(char *text);
// Ends an output: does so with what was appended from offset `start` on. Returns its status.
BT_CHECKED bt_status bt_text_end(bt_str *out, size_t start);

#endif

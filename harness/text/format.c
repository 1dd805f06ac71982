// harness/text/format.c - formats numbers
#include "harness/text/format.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct unit_scale {
    double factor;
    const char *suffix; // with the space before it, if any
} unit_scale;

// Per unit, the scales in ascending order, terminated by a NULL suffix; the largest that is at most
// the value is used.
static const unit_scale scales[BT_UNIT_COUNT][8] = {
    [BT_UNIT_NS] = {{1.0, " ns"}, {1e3, " us"}, {1e6, " ms"}, {1e9, " s"}},
    [BT_UNIT_BYTES] = {{1.0, " B"},
                       {1024.0, " KiB"},
                       {1048576.0, " MiB"},
                       {1073741824.0, " GiB"},
                       {1099511627776.0, " TiB"}},
    [BT_UNIT_TOKENS_PER_S] = {{1.0, " tok/s"}, {1e4, "K tok/s"}, {1e6, "M tok/s"}},
    [BT_UNIT_BYTES_PER_S] =
        {{1.0, " B/s"}, {1e3, " kB/s"}, {1e6, " MB/s"}, {1e9, " GB/s"}, {1e12, " TB/s"}},
    [BT_UNIT_FLOP_PER_S] = {{1.0, " FLOP/s"},
                            {1e3, " kFLOP/s"},
                            {1e6, " MFLOP/s"},
                            {1e9, " GFLOP/s"},
                            {1e12, " TFLOP/s"},
                            {1e15, " PFLOP/s"}},
    [BT_UNIT_NATS] = {{1.0, ""}},
    [BT_UNIT_JOULES] =
        {{1e-9, " nJ"}, {1e-6, " uJ"}, {1e-3, " mJ"}, {1.0, " J"}, {1e3, " kJ"}, {1e6, " MJ"}},
    [BT_UNIT_SHARE] = {{0.01, " %"}},
    [BT_UNIT_STEPS] = {{1.0, " steps"}},
};

enum { MINUTE_NS_E9 = 120 }; // from two minutes on, minutes and seconds are easier to read

static const unit_scale *pick(bt_unit unit, double value)
{
    const unit_scale *best = &scales[unit][0];
    for (int i = 1; i < 8 && scales[unit][i].suffix; i++) {
        // 999.6 ns would print as 1000 ns: the next unit begins where rounding crosses into it.
        if (!(fabs(value) < scales[unit][i].factor * 0.9995)) {
            best = &scales[unit][i];
        }
    }
    // "K" counts thousands, but is used from ten thousand on: 9,870 tok/s is easier to read than
    // 9.87K.
    static const unit_scale thousand = {1e3, "K tok/s"};
    return unit == BT_UNIT_TOKENS_PER_S && best->factor == 1e4 ? &thousand : best;
}

// Number of decimals that show `value` with that many significant digits; integers are never
// truncated.
static int decimals_for(double value, int digits)
{
    if (value == 0.0 || !isfinite(value)) {
        return 0;
    }
    char text[40]; // printed, since rounding may carry into another digit
    (void)snprintf(text, sizeof text, "%.*e", digits - 1, value);
    int decimals = digits - 1 - (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    return decimals < 0 ? 0 : decimals > 9 ? 9 : decimals;
}

static bt_text long_time(double seconds)
{
    if (seconds >= 1e9) { // and values that no integer type holds
        return bt_textf("%.3g h", seconds / 3600);
    }
    const long long whole = llround(seconds);
    return whole < 3600 ? bt_textf("%lld min %02lld s", whole / 60, whole % 60)
                        : bt_textf("%lld h %02lld min", whole / 3600, whole % 3600 / 60);
}

static bt_text not_finite(double value)
{
    return bt_textf("%s", isnan(value) ? "-" : value > 0.0 ? "inf" : "-inf");
}

bt_text bt_textf(const char *format, ...)
{
    bt_text out;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out.text, sizeof out.text, format, arguments);
    va_end(arguments);
    return out;
}

bt_text bt_format_value(bt_unit unit, double value)
{
    if (!isfinite(value)) {
        return not_finite(value);
    }
    if (unit == BT_UNIT_NS && value >= MINUTE_NS_E9 * 1e9) {
        return long_time(value / 1e9);
    }
    const unit_scale *scale = pick(unit, value);
    double scaled = value / scale->factor;
    const bool whole = unit == BT_UNIT_STEPS && scaled == floor(scaled);
    int decimals = unit == BT_UNIT_NATS ? 3 : whole ? 0 : decimals_for(scaled, 3);
    return bt_textf("%.*f%s", decimals, scaled, scale->suffix);
}

void bt_format_interval(bt_unit unit, double value, double low, double high, bt_text *number,
                        bt_text *interval)
{
    interval->text[0] = '\0';
    *number = bt_format_value(unit, value);
    if (!isfinite(value) || !isfinite(low) || !isfinite(high)) {
        return;
    }
    const unit_scale *scale = pick(unit, value);
    double scaled = value / scale->factor, width = (high - low) / scale->factor;
    int decimals = decimals_for(scaled, 3);
    int wanted = width > 0.0 ? decimals_for(width, 2) : decimals; // two digits of the width are
                                                                  // shown
    int most = decimals_for(scaled, 5);
    wanted = wanted > most ? most : wanted;
    decimals = wanted > decimals ? wanted : decimals;
    *number = bt_textf("%.*f%s", decimals, scaled, scale->suffix);
    *interval =
        bt_textf("[%.*f, %.*f]", decimals, low / scale->factor, decimals, high / scale->factor);
}

void bt_text_make_printable(char *text)
{
    for (; *text; text++) {
        if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7f) {
            *text = '?';
        }
    }
}

bt_text bt_format_items(int64_t count, const char *noun)
{
    return bt_textf("%lld %s%s", (long long)count, noun, count == 1 ? "" : "s");
}

bt_text bt_format_count(int64_t count)
{
    bt_text out;
    const bt_text digits = bt_textf("%lld", (long long)count);
    size_t length = strlen(digits.text), at = 0;
    for (size_t i = 0; i < length; i++) {
        out.text[at++] = digits.text[i];
        size_t left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits.text[i] != '-') {
            out.text[at++] = ',';
        }
    }
    out.text[at] = '\0';
    return out;
}

bt_text bt_format_ratio(double ratio)
{
    if (!isfinite(ratio)) {
        return not_finite(ratio);
    }
    // Near one a third digit would hide percents.
    int decimals = fabs(ratio - 1.0) < 0.1 ? 3 : decimals_for(ratio, 3);
    return bt_textf("%.*fx", decimals, ratio);
}

bt_text bt_format_clock(double time_ns)
{
    if (!isfinite(time_ns)) {
        return not_finite(time_ns);
    }
    const long long seconds = (long long)(time_ns / 1e9);
    return seconds >= 3600
               ? bt_textf("%lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60)
               : bt_textf("%lld:%02lld", seconds / 60, seconds % 60);
}

bt_text bt_format_date(int64_t wall_ns)
{
    bt_text out;
    struct tm parts;
    time_t seconds = (time_t)(wall_ns / 1000000000);
    if (!gmtime_r(&seconds, &parts) ||
        strftime(out.text, sizeof out.text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        return bt_textf("-");
    }
    return out;
}

bt_status bt_text_end(bt_str *out, size_t start)
{
    if (out->status == BT_OK && out->length_bytes > start) {
        bt_text_make_printable(out->text + start);
    }
    return bt_str_status(out);
}

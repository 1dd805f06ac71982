// harness/run/plausible.c - checks that times are possible
#include "harness/run/plausible.h"

#include <string.h>

#include "harness/text/format.h"

static const double slack_share = 1.05, slack_ns = 1e9; // clocks differ slightly
static const double short_share = 0.005, short_from_ns = 1e9;
static const double cold_factor = 10.0, hot_factor = 100.0;
// Factor by which a call may exceed this session's ceilings: caches keep data that was just
// written, reads alone are faster than a copy, and ceilings are measured with noise, more of it on
// a CPU.
static const double floor_cold[2] = {5.0, 3.0}, floor_hot[2] = {50.0, 20.0}; // CPU, GPU
static const double floor_flops[2] = {4.0, 1.5};
static const double bytes_per_s_max = 1e14, flop_per_s_max = 1e17, call_ns_min = 1.0;

static bool is_too_long(double told_ns, double wall_ns)
{
    return !(told_ns <= wall_ns * slack_share + slack_ns);
}

static void say_too_long(const char *what, double told_ns, double wall_ns, bt_str *out)
{
    bt_str_format(out,
                  "implausible timing: %s take %s in total, but the round took %s; check that all "
                  "times are in ns",
                  what, bt_format_value(BT_UNIT_NS, told_ns).text,
                  bt_format_value(BT_UNIT_NS, wall_ns).text);
}

void bt_plausible_check_kernel(const bt_plausible_kernel *seen, bt_str *out)
{
    double rate = seen->bytes * 1e9 / seen->median_ns;
    double copy = seen->copy_bytes_per_s, factor = seen->hot ? hot_factor : cold_factor;
    if (is_too_long(seen->total_ns, seen->wall_ns)) {
        say_too_long("the samples", seen->total_ns, seen->wall_ns, out);
    } else if (!(seen->median_ns >= call_ns_min)) {
        bt_str_format(out, "implausible timing: a call takes %.3g ns; check that times_ns is in ns",
                      seen->median_ns);
    } else if (copy > 0 && rate > factor * copy) {
        bt_str_format(out,
                      "implausible timing: %s is %.3g times the rate of this session's copy, %s; "
                      "check that times_ns is in ns",
                      bt_format_value(BT_UNIT_BYTES_PER_S, rate).text, rate / copy,
                      bt_format_value(BT_UNIT_BYTES_PER_S, copy).text);
    } else if (rate > bytes_per_s_max || seen->flops * 1e9 / seen->median_ns > flop_per_s_max) {
        bt_str_format(
            out,
            "implausible timing: %s and %s exceed the rates of any machine; check that times_ns is "
            "in ns",
            bt_format_value(BT_UNIT_BYTES_PER_S, rate).text,
            bt_format_value(BT_UNIT_FLOP_PER_S, seen->flops * 1e9 / seen->median_ns).text);
    }
}

bool bt_plausible_is_invalid(const char *message)
{
    static const char *const texts[] = {BT_INVALID_BELOW_FLOOR, BT_INVALID_UNJOINED,
                                        BT_INVALID_UNJOINED_OLD, BT_INVALID_OUTPUTS};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        if (strncmp(message, texts[i], strlen(texts[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void say_below_floor(double seen, double ceiling, bt_unit unit, const char *what,
                            double slack, bt_str *out)
{
    bt_str_format(out,
                  BT_INVALID_BELOW_FLOOR
                  "%s is %.3g times the rate of this session's %s, %s; allowed: %g times",
                  bt_format_value(unit, seen).text, seen / ceiling, what,
                  bt_format_value(unit, ceiling).text, slack);
}

void bt_plausible_check_floor(const bt_plausible_kernel *seen, bt_str *out)
{
    const double bytes_per_s = seen->bytes * 1e9 / seen->median_ns;
    const double flop_per_s = seen->flops * 1e9 / seen->median_ns;
    const double slack = seen->hot ? floor_hot[seen->gpu] : floor_cold[seen->gpu];
    const double copy = seen->copy_bytes_per_s, product = seen->product_flop_per_s;
    if (copy > 0 && bytes_per_s > slack * copy) {
        say_below_floor(bytes_per_s, copy, BT_UNIT_BYTES_PER_S, "copy", slack, out);
    } else if (product > 0 && flop_per_s > floor_flops[seen->gpu] * product) {
        say_below_floor(flop_per_s, product, BT_UNIT_FLOP_PER_S, "large product",
                        floor_flops[seen->gpu], out);
    }
}

void bt_plausible_check_steps(const bt_plausible_steps *seen, bt_str *out)
{
    double host_ns = seen->evals_ns, device_ns = 0.0, between_ns = seen->evals_ns;
    for (int64_t i = 0; i < seen->count; ++i) {
        host_ns += (double)seen->steps[i].host_ns;
        device_ns += (double)seen->steps[i].device_ns;
        between_ns += i > 0 ? (double)seen->steps[i].host_ns : 0.0;
    }
    if (is_too_long(host_ns, seen->wall_ns)) {
        say_too_long("steps and evaluations", host_ns, seen->wall_ns, out);
    } else if (is_too_long(device_ns, seen->wall_ns)) {
        say_too_long("steps on the device", device_ns, seen->wall_ns, out);
    } else if (seen->count > 1 && seen->arrivals_ns >= short_from_ns &&
               between_ns < short_share * seen->arrivals_ns) {
        bt_str_format(out,
                      "implausible timing: %lld steps take %s in total, but were received within "
                      "%s; check that host_ns is in ns",
                      (long long)seen->count - 1, bt_format_value(BT_UNIT_NS, between_ns).text,
                      bt_format_value(BT_UNIT_NS, seen->arrivals_ns).text);
    }
}

// harness/run/plausible.c - can these times be?
#include "harness/run/plausible.h"

#include "harness/text/format.h"

static const double slack_share = 1.05, slack_ns = 1e9; // clocks differ, and so do their readers
static const double short_share = 0.005, short_from_ns = 1e9;
static const double cold_factor = 10.0, hot_factor = 100.0;
static const double bytes_per_s_max = 1e14, flop_per_s_max = 1e17, call_ns_min = 1.0;

static bool is_too_long(double told_ns, double wall_ns)
{
    return !(told_ns <= wall_ns * slack_share + slack_ns);
}

static void say_too_long(const char *what, double told_ns, double wall_ns, bt_str *out)
{
    bt_str_format(
        out,
        "the times cannot be: %s take %s in all, and the round took %s; is something else "
        "than ns said as ns?",
        what, bt_format_value(BT_UNIT_NS, told_ns).text, bt_format_value(BT_UNIT_NS, wall_ns).text);
}

void bt_plausible_check_kernel(const bt_plausible_kernel *seen, bt_str *out)
{
    double rate = seen->bytes * 1e9 / seen->median_ns;
    double copy = seen->copy_bytes_per_s, factor = seen->hot ? hot_factor : cold_factor;
    if (is_too_long(seen->total_ns, seen->wall_ns)) {
        say_too_long("the samples", seen->total_ns, seen->wall_ns, out);
    } else if (!(seen->median_ns >= call_ns_min)) {
        bt_str_format(out,
                      "the times cannot be: a call takes %.3g ns; are times_ns said in "
                      "seconds or milliseconds?",
                      seen->median_ns);
    } else if (copy > 0 && rate > factor * copy) {
        bt_str_format(out,
                      "the times cannot be: %s is %.3g times what this session's copy moves, %s; "
                      "are times_ns said in another unit?",
                      bt_format_value(BT_UNIT_BYTES_PER_S, rate).text, rate / copy,
                      bt_format_value(BT_UNIT_BYTES_PER_S, copy).text);
    } else if (rate > bytes_per_s_max || seen->flops * 1e9 / seen->median_ns > flop_per_s_max) {
        bt_str_format(
            out,
            "the times cannot be: %s and %s are more than any machine does; are times_ns "
            "said in another unit?",
            bt_format_value(BT_UNIT_BYTES_PER_S, rate).text,
            bt_format_value(BT_UNIT_FLOP_PER_S, seen->flops * 1e9 / seen->median_ns).text);
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
                      "the times cannot be: %lld steps take %s in all, and came in %s; are host_ns "
                      "said in another unit?",
                      (long long)seen->count - 1, bt_format_value(BT_UNIT_NS, between_ns).text,
                      bt_format_value(BT_UNIT_NS, seen->arrivals_ns).text);
    }
}

// harness/report/axis.c - a logarithmic axis for ratios
#include "harness/report/axis.h"

#include <math.h>

#include "framework/base/idioms.h"

double bt_axis_place(const ratio_axis *on, double ratio)
{
    double share = 100.0 * log(ratio / on->low) / log(on->high / on->low);
    return share < 0.0 ? 0.0 : share > 100.0 ? 100.0 : share;
}

static void add_tick(ratio_axis *on, double tick)
{
    if (tick >= on->low * 0.9999 && tick <= on->high * 1.0001 && on->tick_count < RATIO_TICKS_MAX) {
        on->ticks[on->tick_count++] = tick;
    }
}

// Near one, even steps of 1, 2 or 5 times a power of ten; over more than a factor of three, fewer
// numbers per decade the more decades there are.
static void set_ticks(ratio_axis *on)
{
    static const double leads[] = {1.0, 2.0, 5.0, 1.5, 3.0, 7.0};
    double span = on->high / on->low;
    if (span < 3.0) {
        double raw = (on->high - on->low) / 5.0, power = pow(10.0, floor(log10(raw)));
        double lead = raw / power, step = power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : 5);
        for (double k = ceil(on->low / step); k * step <= on->high; k += 1.0) {
            add_tick(on, k * step);
        }
        return;
    }
    for (double power = 1e-6; power < 1e7; power *= 10.0) {
        for (int i = 0; i < (span > 1000.0 ? 1 : span > 12.0 ? 3 : 6); i++) {
            add_tick(on, power * leads[i]);
        }
    }
}

// Contains 1, every ratio and mark, and the intervals up to three times the range of the ratios.
ratio_axis bt_axis_of(const ratio_list *list)
{
    double low = 1.0, high = 1.0, widest_low = 1.0, widest_high = 1.0;
    BT_EACH(const ratio_row, row, list->rows, list->count) {
        low = fmin(low, fmin(row->ratio, row->mark));
        high = fmax(high, fmax(row->ratio, row->mark));
        widest_low = fmin(widest_low, fmin(row->low, row->band_low));
        widest_high = fmax(widest_high, fmax(row->high, row->band_high));
    }
    double reach = fmax(high / low, 1.02);
    low = fmin(low, fmax(widest_low, low / reach));
    high = fmax(high, fmin(widest_high, high * reach));
    double margin = pow(fmax(high / low, 1.005), 0.06);
    ratio_axis on = {.low = low / margin, .high = high * margin};
    set_ticks(&on);
    return on;
}

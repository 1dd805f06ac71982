// harness/gate/ceiling.c - compares the machine's own speed in two runs
#include "harness/gate/ceiling.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "harness/stats/summary.h"
#include "harness/text/format.h"

#define EQUAL 0.02 // fractions within which two values are shown as equal

bool bt_gate_is_ceiling(const bt_store_round *round)
{
    return strncmp(round->what.name, BT_GATE_CEILING_PREFIX, strlen(BT_GATE_CEILING_PREFIX)) == 0;
}

static bool is_product(const char *name)
{
    return strncmp(name, BT_GATE_PRODUCT_PREFIX, strlen(BT_GATE_PRODUCT_PREFIX)) == 0;
}

static const bt_gate_ceiling *find(const bt_gate_ceilings *list, const char *name)
{
    const int64_t at = BT_FIND(list->items, list->count, name, name);
    return at < 0 ? NULL : &list->items[at];
}

// The ceiling of that name, from all rounds that passed.
static bt_status gather(const bt_store_run *run, const char *name, bt_arena *arena,
                        bt_gate_ceiling *out)
{
    double *values = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, run->round_count, &values));
    *out = (bt_gate_ceiling){.name = name, .rates = values};
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        bt_summary summary;
        if (round->status != BT_RUN_PASSED || strcmp(round->what.name, name) != 0) {
            continue;
        }
        BT_TRY(bt_summary_of(round, &summary));
        double value =
            summary.metrics[is_product(name) ? BT_METRIC_COMPUTE : BT_METRIC_BANDWIDTH].value;
        if (value > 0 && isfinite(value)) {
            values[out->count++] = value;
        }
    }
    return BT_OK;
}

bt_status bt_gate_ceilings_of_run(const bt_store_run *run, bt_arena *arena, bt_gate_ceilings *out)
{
    memset(out, 0, sizeof *out);
    bt_gate_ceiling *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, run->round_count, &items));
    out->items = items;
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        if (bt_gate_is_ceiling(round) && !find(out, round->what.name)) {
            assert(items); // this loop has a round, so the array is not empty
            BT_TRY(gather(run, round->what.name, arena, &items[out->count]));
            ++out->count;
        }
    }
    return BT_OK;
}

bt_status bt_gate_ceilings_differ(const bt_gate_ceilings *base, const bt_gate_ceilings *candidate,
                                  bt_str *out)
{
    for (int64_t i = 0; i < base->count; ++i) {
        const char *name = base->items[i].name;
        const bt_gate_ceiling *other = find(candidate, name);
        double before = 0, now = 0;
        BT_TRY(bt_stats_median(base->items[i].rates, base->items[i].count, &before));
        BT_TRY(bt_stats_median(other ? other->rates : NULL, other ? other->count : 0, &now));
        if (!(fabs(now / before - 1) > EQUAL)) {
            continue; // also if one side does not know it
        }
        const bool product = is_product(name);
        const bt_unit unit = product ? BT_UNIT_FLOP_PER_S : BT_UNIT_BYTES_PER_S;
        const char *prefix = product ? BT_GATE_PRODUCT_PREFIX : BT_GATE_CEILING_PREFIX;
        bt_str_format(out, "%sthis machine's %s, %s: %s", out->length_bytes ? "; " : "",
                      product ? "product" : "copy", name + strlen(prefix),
                      bt_format_value(unit, before).text);
        bt_str_format(out, " -> %s", bt_format_value(unit, now).text);
    }
    return bt_str_status(out);
}

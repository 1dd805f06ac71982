// harness/gate/explain.c - describes a verdict in a sentence, and what else changed
#include "harness/gate/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/compare/items.h"
#include "harness/gate/differ.h"
#include "harness/text/format.h"

enum { LISTED_MAX = 6 }; // maximum number of settings or kernels

#define CLOCKS_EQUAL 0.005 // fractions within which two values are shown as equal
#define POWER_EQUAL  0.05

#define PERCENT_SHOWN_MAX 9999.0 // a larger value gives no more information

// ---- the sentence ------------------------------------------------------------------------------

// A fraction in percent, without its sign if words give it.
static bt_text percent(double share)
{
    bt_text out;
    double value = 100 * share;
    if (value > PERCENT_SHOWN_MAX) { // of an interval from two or three sessions
        (void)snprintf(out.text, sizeof out.text, "over %g", PERCENT_SHOWN_MAX);
    } else {
        (void)snprintf(out.text, sizeof out.text, fabs(value) < 1 ? "%.2f" : "%.1f", value);
    }
    return out;
}

static void append_interval(double low, double high, bt_str *out)
{
    if (!isnan(low) && !isnan(high)) {
        bt_str_format(out, " [%s, %s]", percent(low).text, percent(high).text);
    }
}

static void append_time(const bt_gate_item *item, bt_str *out)
{
    const bt_gate_verdict *verdict = &item->verdict;
    double change = verdict->ratio - 1;
    bool faster = verdict->word == BT_GATE_FASTER;
    if (verdict->word == BT_GATE_SLOWER || faster) {
        bt_str_format(out, "%s by %s %%", faster ? "faster" : "slower", percent(fabs(change)).text);
        append_interval(faster ? 1 - verdict->high : verdict->low - 1,
                        faster ? 1 - verdict->low : verdict->high - 1, out);
    } else if (isnan(change)) {
        bt_str_append(out, "no ratio");
    } else {
        bt_str_format(out, "%s%s %%", change > 0 ? "+" : "", percent(change).text);
        append_interval(verdict->low - 1, verdict->high - 1, out);
    }
    bt_str_format(out, ", tolerance %g %%, %s", 100 * item->rule.tolerance,
                  bt_format_items(verdict->rounds, "round").text);
}

static void append_memory(const bt_gate_item *item, bt_str *out)
{
    const bt_gate_verdict *verdict = &item->verdict;
    double grown = verdict->candidate - verdict->base;
    if (verdict->word == BT_GATE_SAME) {
        bt_str_format(out, "%s", bt_format_value(BT_UNIT_BYTES, verdict->candidate).text);
    } else {
        bt_str_format(out, "%s by %s", grown > 0 ? "more" : "less",
                      bt_format_value(BT_UNIT_BYTES, fabs(grown)).text);
        bt_str_format(out, ": %s", bt_format_value(BT_UNIT_BYTES, verdict->base).text);
        bt_str_format(out, " -> %s", bt_format_value(BT_UNIT_BYTES, verdict->candidate).text);
    }
    bt_str_format(out, ", tolerance %s",
                  bt_format_value(BT_UNIT_BYTES, item->rule.memory_tolerance_bytes).text);
}

// The limits of a SAME.
static void append_blind_spot(const bt_gate_item *item, bt_str *out)
{
    double share = item->verdict.blind_share;
    const char *what = item->metric == BT_GATE_MEMORY ? "a larger peak"
                       : item->metric == BT_GATE_LOSS ? "a difference"
                                                      : "a slowdown";
    if (share < 1) {
        bt_str_format(out, "; not excluded: %s in fewer than %.2g %% of the rounds", what,
                      100 * share);
    } else if (share >= 1) {
        bt_str_format(out, "; too few rounds to exclude %s in some of them", what);
    }
}

void bt_gate_sentence(const bt_gate_item *item, const bt_policy *policy, bt_str *out)
{
    const bt_gate_verdict *verdict = &item->verdict;
    if (item->metric < BT_GATE_METRIC_COUNT && item->metric != BT_GATE_TIME) {
        bt_str_format(out, "%s: ", bt_gate_metric_info(item->metric)->words);
    }
    const bool timed = item->metric < BT_GATE_METRIC_COUNT && item->metric != BT_GATE_MEMORY &&
                       item->metric != BT_GATE_LOSS && !isnan(verdict->ratio);
    if (*verdict->reason && !timed) {
        bt_str_append(out, verdict->reason);
    } else if (item->metric == BT_GATE_MEMORY) {
        append_memory(item, out);
    } else if (item->metric < BT_GATE_METRIC_COUNT) {
        append_time(item, out);
    }
    if (*verdict->doubt) {
        bt_str_format(out, "; %s", verdict->doubt);
    }
    append_blind_spot(item, out);
    if (*verdict->reason && timed) {
        bt_str_format(out, "; %s%s", verdict->word == BT_GATE_ADVISORY ? "advisory: " : "",
                      verdict->reason);
    } else if (verdict->word == BT_GATE_INCONCLUSIVE && verdict->next_rounds > verdict->rounds) {
        bt_str_format(out, "; %" PRId64 " rounds may decide", verdict->next_rounds);
    } else if (verdict->word == BT_GATE_INCONCLUSIVE && verdict->rounds >= policy->rounds) {
        bt_str_append(out, *verdict->doubt ? "; more rounds would not explain it"
                                           : "; too noisy to decide in this number of rounds");
    }
    bool allowed = item->rule.gated && item->rule.allow[BT_GATE_ALLOW_INCONCLUSIVE];
    if (verdict->word == BT_GATE_INCONCLUSIVE && allowed && !item->excused) {
        bt_str_format(
            out,
            "; it may be slower by more than the %g %% up to which the policy allows inconclusive",
            100 * item->rule.inconclusive_limit);
    }
}

// ---- other changes ------------------------------------------------------------------------------

static void part(bt_str *out, const char *separator)
{
    if (out->length_bytes) {
        bt_str_append(out, separator);
    }
}

static void append_number(double base, double candidate, double equal, const char *what,
                          const char *unit, bt_str *out)
{
    if (!(base > 0) || !(candidate > 0)) {
        return;
    }
    part(out, ", ");
    if (fabs(candidate / base - 1) <= equal) {
        bt_str_format(out, "%s equal", what);
    } else {
        bt_str_format(out, "%s %.0f -> %.0f %s", what, base, candidate, unit);
    }
}

static void append_labels(const bt_gate_side *side, const char *which, bt_str *out)
{
    if (side->labelled > 0) {
        part(out, ", ");
        bt_str_format(out, "%s%" PRId64 " of %" PRId64 " rounds: %s", which, side->labelled,
                      side->round_count, side->label);
    }
}

static bool has(const bt_gate_side *side, const char *kernel)
{
    return BT_FIND_WORD(side->kernels, side->kernel_count, kernel) >= 0;
}

// Length of "op: " in "op: kernel".
static size_t op_length(const char *text)
{
    const char *colon = strstr(text, ": ");
    return colon ? (size_t)(colon - text) + 2 : 0;
}

// The candidate's kernel that serves the same op and is not in the base, NULL: none.
static const char *successor(const bt_gate_side *base, const bt_gate_side *candidate,
                             const char *text)
{
    size_t length = op_length(text);
    for (int64_t i = 0; length && i < candidate->kernel_count; ++i) {
        const char *other = candidate->kernels[i];
        if (strncmp(other, text, length) == 0 && !has(base, other)) {
            return other;
        }
    }
    return NULL;
}

static void append_kernels(const bt_gate_side *base, const bt_gate_side *candidate, bt_str *out)
{
    BT_SCOPED(bt_str) changes = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < base->kernel_count; ++i) {
        const char *text = base->kernels[i];
        if (has(candidate, text) || ++count > LISTED_MAX) {
            continue;
        }
        const char *next = successor(base, candidate, text);
        bt_str_format(&changes, "%s%s -> %s", changes.length_bytes ? ", " : "",
                      text + op_length(text), next ? next + op_length(next) : "none");
    }
    for (int64_t i = 0; i < candidate->kernel_count; ++i) {
        const char *text = candidate->kernels[i];
        bool known = has(base, text) || successor(candidate, base, text) != NULL;
        if (!known && ++count <= LISTED_MAX) {
            bt_str_format(&changes, "%snone -> %s", changes.length_bytes ? ", " : "",
                          text + op_length(text));
        }
    }
    if (count > 0) {
        part(out, "; ");
        bt_str_format(out, "the kernel%s that ran changed: %s%s", count > 1 ? "s" : "",
                      bt_str_text(&changes), count > LISTED_MAX ? ", ..." : "");
    } else if (base->kernel_count > 0) {
        part(out, "; ");
        bt_str_append(out, base->kernel_count > 1 ? "the same kernels ran" : "the same kernel ran");
    }
    out->status = out->status == BT_OK ? changes.status : out->status;
}

static bt_status append_settings(const bt_gate_side *base, const bt_gate_side *candidate,
                                 bt_arena *arena, bt_str *out)
{
    item_list list = {.arena = arena};
    BT_TRY(bt_items_add_plans(&list, base->axes_json, candidate->axes_json));
    for (int64_t i = 0; i < list.count && i < LISTED_MAX; ++i) {
        const bt_compare_item *item = &list.items[i];
        bt_gate_append_difference(item->key, item->left, item->right, out);
    }
    if (list.count > LISTED_MAX) {
        bt_str_format(out, "; and %" PRId64 " more", list.count - LISTED_MAX);
    }
    return BT_OK;
}

bt_status bt_gate_changes(const bt_gate_side *base, const bt_gate_side *candidate,
                          const bt_store_env *base_env, const bt_store_env *env, bt_arena *arena,
                          bt_str *out)
{
    append_number(base->clock_mhz, candidate->clock_mhz, CLOCKS_EQUAL, "clocks", "MHz", out);
    append_number(base->power_w, candidate->power_w, POWER_EQUAL, "power", "W", out);
    append_labels(base, "base ", out);
    append_labels(candidate, base->labelled > 0 ? "candidate " : "", out);
    append_kernels(base, candidate, out);
    if (base_env && strcmp(base->environment, candidate->environment) != 0) {
        BT_TRY(bt_gate_append_facts(base_env, env, BT_FACT_HARD, candidate, false, out));
    }
    if (strcmp(base->settings, candidate->settings) != 0) {
        BT_TRY(append_settings(base, candidate, arena, out));
    }
    return bt_str_status(out);
}

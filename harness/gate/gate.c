// harness/gate/gate.c - selects the cases and metrics to judge and their rules, and adds up the
// result
#include "harness/gate/gate.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/card.h"
#include "harness/gate/explain.h"
#include "harness/record/keep.h"
#include "harness/text/format.h"

enum { SUSPICIOUS_MIN = 5 }; // number of slower cases from which a common cause is likely

typedef struct gating {
    const bt_gate_request *request;
    bt_gate_sides sides;         // of the run
    const bt_baseline *baseline; // NULL: paired
    bool session;                // of 'ab': its base is not judged
    int64_t family;
    bt_gate_item *items; // [capacity]
    bt_gate_result *out;
} gating;

// Names of the two systems of an 'ab' session: two named systems, or base and candidate.
static const char *paired_system(const bt_store_run *run, int which)
{
    static const char *const usual[] = {BT_GATE_SYSTEM_BASE, BT_GATE_SYSTEM_CANDIDATE};
    const bt_store_schedule *schedule = &run->schedule;
    return schedule->system_count == 2 ? schedule->systems[which].name : usual[which];
}

bool bt_gate_is_paired(const bt_store_run *run)
{
    const char *base_name = paired_system(run, 0), *candidate_name = paired_system(run, 1);
    bool base = false, candidate = false;
    for (int64_t i = 0; i < run->round_count; ++i) {
        const char *system = run->rounds[i].what.system;
        base = base || strcmp(system, base_name) == 0;
        candidate = candidate || strcmp(system, candidate_name) == 0;
    }
    return base && candidate;
}

// ---- matching sides -----------------------------------------------------------------------------

// The baseline's name for a system of a run.
static const char *recorded_system(const char *system)
{
    return strcmp(system, BT_GATE_SYSTEM_CANDIDATE) == 0 ? BT_GATE_SYSTEM_OURS : system;
}

// Whether a filter matches a case: NULL, part of its name, or a glob.
static bool selects(const char *filter, const char *name)
{
    return !filter || strstr(name, filter) || fnmatch(filter, name, 0) == 0;
}

// Is this side of the run judged? The base of an 'ab' session is not.
static bool is_judged(const gating *self, const bt_gate_side *side)
{
    bool base = strcmp(side->system, paired_system(self->request->run, 0)) == 0;
    return selects(self->request->filter, side->name) && !(self->session && base);
}

static const bt_gate_side *base_of(const gating *self, const bt_gate_side *side)
{
    return self->baseline ? bt_gate_side_find(&self->baseline->sides, side->bench, side->name,
                                              recorded_system(side->system))
                          : bt_gate_side_find(&self->sides, side->bench, side->name,
                                              paired_system(self->request->run, 0));
}

// The side of the run for which a recorded one is the base.
static const bt_gate_side *candidate_of(const gating *self, const bt_gate_side *recorded)
{
    BT_EACH(const bt_gate_side, side, self->sides.items, self->sides.count) {
        if (is_judged(self, side) && base_of(self, side) == recorded) {
            return side;
        }
    }
    return NULL;
}

static bt_gate_way way_of(bt_gate_metric metric) { return bt_gate_metric_info(metric)->way; }

// Is it decided by the rule of stats/decide.h?
static bool is_timed(bt_gate_metric metric)
{
    const bt_gate_way way = way_of(metric);
    return way == BT_GATE_WAY_TOTAL || way == BT_GATE_WAY_P95 || way == BT_GATE_WAY_RECOVERY;
}

static bool has_metric(const bt_gate_side *side, bt_gate_metric metric)
{
    bool found = metric == BT_GATE_LOSS && side->curve_count > 0;
    for (int64_t i = 0; i < side->round_count && !found; ++i) {
        found = side->rounds[i].values[metric] > 0;
    }
    return found;
}

// Number of decisions on times and rates of one side.
static int64_t family_of(const bt_gate_side *side)
{
    int64_t count = 0;
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        count += is_timed((bt_gate_metric)i) && has_metric(side, (bt_gate_metric)i);
    }
    return count;
}

// Number of simultaneous decisions on times and rates, at least 1.
static int64_t count_family(const gating *self)
{
    int64_t family = 0;
    BT_EACH(const bt_gate_side, side, self->sides.items, self->sides.count) {
        const bt_gate_side *base = is_judged(self, side) ? base_of(self, side) : NULL;
        family += base ? family_of(base) : 0;
    }
    return family > 0 ? family : 1;
}

// ---- one verdict -------------------------------------------------------------------------------

static bt_status set_subject(gating *self, const bt_gate_side *side, bt_gate_item *item)
{
    bool plain = strcmp(recorded_system(side->system), BT_GATE_SYSTEM_OURS) == 0;
    return bt_keep_format(&self->out->arena, &item->subject, "%s%s%s", side->name, plain ? "" : " ",
                          plain ? "" : side->system);
}

// Does the interval of an INCONCLUSIVE time end below the limit? Losses have no ratio.
static bool is_within_limit(const bt_gate_item *item)
{
    return item->metric >= BT_GATE_METRIC_COUNT || !is_timed(item->metric) ||
           item->verdict.high <= 1 + item->rule.inconclusive_limit;
}

static bool is_excused(const bt_gate_item *item, bt_gate_presence presence)
{
    const bool *allow = item->rule.allow;
    switch (item->verdict.word) {
    case BT_GATE_INCONCLUSIVE:
        return !item->rule.gated || (allow[BT_GATE_ALLOW_INCONCLUSIVE] && is_within_limit(item));
    case BT_GATE_NOT_COMPARABLE:
        return !item->rule.gated ||
               (presence == BT_GATE_PRESENCE_NEW       ? allow[BT_GATE_ALLOW_NEW]
                : presence == BT_GATE_PRESENCE_MISSING ? allow[BT_GATE_ALLOW_MISSING]
                                                       : allow[BT_GATE_ALLOW_INCOMPARABLE]);
    case BT_GATE_SAME:
    case BT_GATE_FASTER:
    case BT_GATE_ADVISORY:
    case BT_GATE_SMALLER:
        return false;
    case BT_GATE_SLOWER:
    case BT_GATE_LARGER:
    case BT_GATE_DIFFERENT:
    case BT_GATE_INVALID:
    case BT_GATE_WORD_COUNT:
        break;
    }
    return !item->rule.gated;
}

// Additions to the verdict on a total: the rate, clocks that differ in interleaved rounds, a
// missing 95th percentile.
static bt_status append_beside(const gating *self, const bt_gate_side *base,
                               const bt_gate_side *side, bt_gate_item *item, bt_str *out)
{
    double rates[2];
    bool training = item->metric == BT_GATE_STEP_TIME;
    bt_gate_metric p95 = training ? BT_GATE_STEP_TIME_P95 : BT_GATE_TIME_P95;
    BT_TRY(bt_gate_side_median(base, BT_GATE_TOKENS_PER_S, &rates[0]));
    BT_TRY(bt_gate_side_median(side, BT_GATE_TOKENS_PER_S, &rates[1]));
    if (training && rates[0] > 0 && rates[1] > 0) {
        bt_str_format(out, "; %s", bt_format_value(BT_UNIT_TOKENS_PER_S, rates[0]).text);
        bt_str_format(out, " -> %s", bt_format_value(BT_UNIT_TOKENS_PER_S, rates[1]).text);
    }
    double clocks = side->clock_mhz / base->clock_mhz;
    if (!self->baseline && fabs(clocks - 1) > self->request->policy->clock_tolerance) {
        item->clocks_differ = true;
        bt_str_format(out, "; median clocks differ: %.0f and %.0f MHz", base->clock_mhz,
                      side->clock_mhz);
    }
    if (has_metric(base, item->metric) && has_metric(side, item->metric) &&
        !(has_metric(base, p95) && has_metric(side, p95))) {
        bt_str_append(out, "; no 95th percentile (fewer than 20 samples a round)");
    }
    return BT_OK;
}

static bt_status describe(gating *self, const bt_gate_side *base, const bt_gate_side *side,
                          bt_gate_item *item)
{
    bt_arena *arena = &self->out->arena;
    BT_SCOPED(bt_str) sentence = {0}, changes = {0};
    bool total = item->metric < BT_GATE_METRIC_COUNT && way_of(item->metric) == BT_GATE_WAY_TOTAL;
    bt_gate_sentence(item, self->request->policy, &sentence);
    if (base && side && total) {
        BT_TRY(append_beside(self, base, side, item, &sentence));
    }
    if (base && side) {
        BT_TRY(bt_gate_changes(base, side, self->baseline ? &self->baseline->env : NULL,
                               &self->request->run->info.env, arena, &changes));
    }
    BT_TRY(bt_keep_str(arena, &sentence, &item->sentence));
    return bt_keep_str(arena, &changes, &item->changes);
}

// A calibration is for pairs: it does not apply to a gate against a baseline, whose sessions show
// how much the machine varies.
static bt_status ask_calibration(gating *self, const bt_gate_side *side, bt_rule *out)
{
    const bt_gate_request *request = self->request;
    char card[33];
    if (self->baseline) {
        (void)snprintf(out->calibration.why, sizeof out->calibration.why,
                       "a calibration of pairs does not apply to a gate against a baseline; "
                       "compare with 'bt-bench ab', or do not require a calibration");
        return BT_OK;
    }
    if (!request->calibration) {
        return BT_OK;
    }
    bt_gate_card(&request->run->info.env, card);
    const bt_gate_calibration_query query = {.side = side,
                                             .metric = out->metric,
                                             .rule = &out->decision,
                                             .card = card,
                                             .at_ns = request->run->started_ns,
                                             .days = request->policy->calibration_days,
                                             .suite = request->run->info.suite.path};
    return request->calibration(request->calibration_self, &query, &out->calibration);
}

static bt_status make_rule(gating *self, const bt_gate_side *base, const bt_gate_side *side,
                           bt_gate_item *item, bt_rule *out)
{
    const bt_gate_request *request = self->request;
    const bt_gate_side *known = side ? side : base;
    const bt_gate_metric metric = item->metric;
    double time_ns = 0; // for the tolerance; NaN if unknown
    BT_TRY(bt_gate_side_median(base ? base : side, BT_GATE_TIME, &time_ns));
    item->rule = bt_policy_rule(request->policy, known->name, metric,
                                bt_gate_side_is_training(known), time_ns);
    *out = bt_rule_of(request->policy, &item->rule, metric, known->precision, self->family);
    out->bench = known->bench;
    out->name = known->name;
    out->candidate = known->system;
    out->presence = !base   ? BT_GATE_PRESENCE_NEW
                    : !side ? BT_GATE_PRESENCE_MISSING
                            : BT_GATE_PRESENCE_BOTH;
    if (self->baseline) {
        out->baseline = self->baseline->name;
        out->baseline_digest = self->baseline->digest;
        out->baseline_system = base ? base->system : "";
        out->other_card =
            !bt_gate_same_card(&self->baseline->env, self->baseline->card, &request->run->info.env);
    } else {
        out->base = paired_system(request->run, 0);
    }
    bool calibrated = metric < BT_GATE_METRIC_COUNT && way_of(metric) == BT_GATE_WAY_TOTAL;
    out->calibration.required = request->policy->calibration_required && calibrated;
    return calibrated && side ? ask_calibration(self, side, out) : BT_OK;
}

static bt_status judge(gating *self, const bt_gate_side *base, const bt_gate_side *side,
                       bt_gate_metric metric, bt_gate_item *item)
{
    bt_rule rule;
    BT_SCOPED(bt_str) text = {0};
    *item = (bt_gate_item){.metric = metric};
    BT_TRY(make_rule(self, base, side, item, &rule));
    BT_TRY(bt_rule_write(&rule, &text));
    BT_TRY(bt_keep_str(&self->out->arena, &text, &item->rule_json));
    BT_TRY(bt_gate_judge(&self->sides, self->baseline ? &self->baseline->sides : NULL,
                         item->rule_json, &item->verdict));
    BT_TRY(set_subject(self, side ? side : base, item));
    item->excused = is_excused(item, rule.presence);
    return describe(self, base, side, item);
}

// ---- one case, all cases ------------------------------------------------------------------------

// Whether both sides must have the metric. A peer may report less than our own program, which
// always has a build: metrics that one of a session's two systems does not report are not judged.
static bool needs_both(const gating *self, bt_gate_metric metric)
{
    const bt_store_schedule *schedule = &self->request->run->schedule;
    bool peer = false;
    for (int64_t i = 0; i < schedule->system_count; ++i) {
        peer = peer || !*schedule->systems[i].build.version;
    }
    return way_of(metric) == BT_GATE_WAY_P95 || (metric == BT_GATE_MEMORY && peer);
}

// Judges the case as a whole; if that gives no verdict, each of its metrics.
static bt_status judge_case(gating *self, const bt_gate_side *base, const bt_gate_side *side)
{
    bt_gate_result *out = self->out;
    bt_gate_item *whole = &self->items[out->count];
    BT_TRY(judge(self, base, side, BT_GATE_METRIC_COUNT, whole));
    ++out->case_count;
    if (whole->verdict.word != BT_GATE_SAME || !base || !side) {
        ++out->count;
        return BT_OK;
    }
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        bt_gate_metric metric = (bt_gate_metric)i;
        bool wanted = has_metric(base, metric) || has_metric(side, metric);
        if (needs_both(self, metric)) {
            out->unreported +=
                has_metric(base, metric) != has_metric(side, metric) && metric == BT_GATE_MEMORY;
            wanted = has_metric(base, metric) && has_metric(side, metric);
        }
        wanted = wanted && way_of(metric) != BT_GATE_WAY_SHOWN;
        if (metric == BT_GATE_LOSS) {
            bt_gate_rule rule = bt_policy_rule(self->request->policy, side->name, metric, true, 0);
            wanted = wanted && strcmp(rule.loss, "none") != 0;
        }
        if (wanted) {
            BT_TRY(judge(self, base, side, metric, &self->items[out->count]));
            ++out->count;
        }
    }
    return BT_OK;
}

static bt_status judge_all(gating *self)
{
    int64_t recorded = self->baseline ? self->baseline->sides.count : 0;
    size_t capacity =
        (size_t)(self->sides.count * BT_GATE_METRIC_COUNT + self->sides.count + recorded);
    BT_TRY(BT_ARENA_ARRAY(&self->out->arena, capacity, &self->items));
    self->out->items = self->items;
    self->family = count_family(self);
    BT_EACH(const bt_gate_side, side, self->sides.items, self->sides.count) {
        if (is_judged(self, side)) {
            BT_TRY(judge_case(self, base_of(self, side), side));
        }
    }
    for (int64_t i = 0; i < recorded; ++i) {
        const bt_gate_side *side = &self->baseline->sides.items[i];
        if (selects(self->request->filter, side->name) && !candidate_of(self, side)) {
            BT_TRY(judge_case(self, side, NULL));
        }
    }
    return BT_OK;
}

static void add_up(bt_gate_result *out)
{
    static const int order[] = {5, 1, 4, 3};
    bool found[6] = {false};
    BT_EACH(const bt_gate_item, item, out->items, out->count) {
        ++out->words[item->verdict.word];
        out->excused += item->excused;
        if (!item->excused && item->verdict.exit_code < (int)sizeof found) {
            found[item->verdict.exit_code] = true;
        }
    }
    out->exit_code = out->count == 0 ? 4 : 0;
    for (int i = (int)(sizeof order / sizeof order[0]) - 1; i >= 0; --i) {
        out->exit_code = found[order[i]] ? order[i] : out->exit_code;
    }
}

// Many cases worse and none better: the cause is probably the machine or the setup, not the change.
static void find_suspicion(bt_gate_result *out)
{
    int64_t timed = 0, slower = 0, faster = 0;
    BT_EACH(const bt_gate_item, item, out->items, out->count) {
        if (item->metric < BT_GATE_METRIC_COUNT && way_of(item->metric) == BT_GATE_WAY_TOTAL) {
            ++timed;
            slower += item->verdict.word == BT_GATE_SLOWER;
            faster += item->verdict.word == BT_GATE_FASTER;
        }
    }
    if (slower >= SUSPICIOUS_MIN && 2 * slower >= timed && faster == 0) {
        (void)snprintf(out->warning, sizeof out->warning,
                       "%" PRId64 " of %" PRId64
                       " cases are slower and none is faster: the comparison may be broken. Check "
                       "builds, power limit, clocks and other processes before the change",
                       slower, timed);
    }
}

bt_status bt_gate_run(const bt_gate_request *request, bt_gate_result *out)
{
    memset(out, 0, sizeof *out);
    gating self = {.request = request,
                   .baseline = request->baseline,
                   .session = bt_gate_is_paired(request->run),
                   .out = out};
    BT_FAIL_IF(request->run->status == BT_RUN_RUNNING, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is still running", (long long)request->run->id);
    BT_FAIL_IF(!request->baseline && !self.session, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is not a session of 'bt-bench ab', so it needs a baseline: "
               "--baseline NAME or FILE",
               (long long)request->run->id);
    out->request = *request;
    bt_status status = bt_gate_sides_of_run(request->run, &out->arena, &self.sides);
    BT_IF_OK(status, judge_all(&self));
    if (status != BT_OK) {
        bt_gate_result_release(out);
        return status;
    }
    add_up(out);
    find_suspicion(out);
    return BT_OK;
}

void bt_gate_result_release(bt_gate_result *result)
{
    bt_arena_release(&result->arena);
    memset(result, 0, sizeof *result);
}

// ---- storing -----------------------------------------------------------------------------------

static bt_status stored_of(const bt_gate_item *item, bt_arena *arena, bt_store_verdict *out)
{
    bool changes = *item->changes && item->verdict.word != BT_GATE_SAME;
    *out = (bt_store_verdict){
        .subject = item->subject,
        .metric = item->metric < BT_GATE_METRIC_COUNT ? bt_gate_metric_info(item->metric)->tag : "",
        .verdict = bt_gate_word_name(item->verdict.word),
        .ratio = item->verdict.ratio,
        .low = item->verdict.low,
        .high = item->verdict.high,
        .rounds = item->verdict.rounds,
        .rule_json = item->rule_json};
    return bt_keep_format(arena, &out->reason, "%s%s%s", item->sentence, changes ? "; " : "",
                          changes ? item->changes : "");
}

bt_status bt_gate_verdicts(const bt_gate_result *result, bt_arena *arena, bt_store_verdict **out)
{
    BT_TRY(BT_ARENA_ARRAY(arena, result->count, out));
    for (int64_t i = 0; i < result->count; ++i) {
        BT_TRY(stored_of(&result->items[i], arena, &(*out)[i]));
    }
    return BT_OK;
}

bt_status bt_gate_store(bt_store *store, const char *kind, const bt_gate_result *result)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_verdict *verdicts = NULL;
    const bt_baseline *baseline = result->request.baseline;
    const int64_t run = result->request.run->id;
    BT_TRY(bt_gate_verdicts(result, &arena, &verdicts));
    BT_TRY(bt_store_verdicts_set(store, run, kind, verdicts, result->count));
    if (!baseline) {
        return BT_OK;
    }
    // The baseline's document is stored with the run, so that `verify` has it.
    const bt_store_file file = {.kind = BT_BASELINE_FILE_KIND,
                                .name = baseline->name,
                                .bytes = baseline->document,
                                .size_bytes = (int64_t)strlen(baseline->document)};
    return bt_store_file_set(store, run, &file);
}

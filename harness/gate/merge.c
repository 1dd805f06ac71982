// harness/gate/merge.c - checks that runs match a baseline, and adds their rounds and curves
#include "harness/gate/merge.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/gate/card.h"
#include "harness/gate/gate.h"
#include "harness/record/keep.h"
#include "harness/text/format.h"

// ---- settings ----------------------------------------------------------------------------------

// The settings without the seed and those that may differ in a further run.
static bt_status common_settings(const bt_gate_side *side, bt_str *out, double *seed)
{
    static const char *const free_keys[] = {"micro_batch", "seed"};
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse(side->name, side->axes_json, strlen(side->axes_json), &json));
    cJSON *train = cJSON_GetObjectItemCaseSensitive(json.root, "train");
    *seed = bt_json_number_of(train, "seed");
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; ++i) {
        cJSON_DeleteItemFromObjectCaseSensitive(train, free_keys[i]);
    }
    bt_json_write(json.root, out);
    return bt_str_status(out);
}

// Whether the settings that must agree do; returns the seeds of both.
static bt_status compare_settings(const bt_gate_side *first, const bt_gate_side *side, bool *same,
                                  double seeds[2])
{
    BT_SCOPED(bt_str) expected = {0}, got = {0};
    BT_TRY(common_settings(first, &expected, &seeds[0]));
    BT_TRY(common_settings(side, &got, &seeds[1]));
    *same = strcmp(bt_str_text(&expected), bt_str_text(&got)) == 0;
    return BT_OK;
}

// ---- one further run ---------------------------------------------------------------------------

// State while a further run is added.
typedef struct further {
    const bt_store_run *run;
    bt_gate_sides sides;
    bool same_build, same_card;
    bool session; // of any case
} further;

static bool same_steps(const bt_loss_curve *expected, const bt_loss_curve *got)
{
    bool same = expected->count == got->count;
    for (int64_t i = 0; same && i < got->count; ++i) {
        same = expected->steps[i].step == got->steps[i].step &&
               expected->steps[i].tokens == got->steps[i].tokens;
    }
    return same;
}

// Why a side of a further run cannot be added to the first's; NULL: it can.
static const char *misfit(const bt_gate_side *first, const bt_gate_side *side, bool same_settings,
                          bool session)
{
    if (strcmp(first->environment, side->environment) != 0) {
        return "hard facts of the environments, or the data, differ";
    }
    if (!same_settings) {
        return "its settings differ in more than train.micro_batch and train.seed";
    }
    if (session && first->curve_count == 0) {
        return NULL;
    }
    if (first->curve_count == 0) {
        return strcmp(first->settings, side->settings) != 0 ? "its settings differ"
               : side->round_count < BT_BASELINE_ROUNDS_MIN
                   ? "it has fewer than 2 rounds of this case"
                   : "its build differs, and all sessions of a baseline must have one build";
    }
    if (side->curve_count == 0) {
        return "none of its rounds has a loss curve";
    }
    for (int64_t i = 0; i < side->curve_count; ++i) {
        if (!same_steps(&first->curves[0], &side->curves[i])) {
            return "its number of steps or of tokens per step differs";
        }
    }
    return NULL;
}

// ---- all sessions and curves of a case ---------------------------------------------------------

typedef enum source { OWN, PERMUTED, SEED, SOURCE_COUNT } source;

typedef struct kept_curve {
    bt_loss_curve curve;
    source from;
    double seed; // of SEED; NaN: unknown
} kept_curve;

// State while one case is merged.
typedef struct gathering {
    const char *what; // the baseline so far, for messages
    bool adding;      // adding to an existing baseline: sessions only
    bt_gate_side *side;
    kept_curve *curves; // in order of occurrence
    int64_t curve_count;
    bt_gate_round *rounds;
    const char **kernels;
    int64_t sessions;
    bt_arena *arena;
} gathering;

static void add_curve(gathering *self, const bt_loss_curve *curve, source from, double seed)
{
    BT_EACH(kept_curve, kept, self->curves, self->curve_count) {
        bool alike = (kept->from == SEED) == (from == SEED);
        if (alike && bt_gate_same_curve(&kept->curve, curve)) {
            kept->curve.rounds += curve->rounds;
            kept->from = from < kept->from ? from : kept->from;
            return;
        }
    }
    self->curves[self->curve_count++] = (kept_curve){*curve, from, seed};
}

static void add_kernels(gathering *self, const char *const *kernels, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        if (BT_FIND_WORD(self->kernels, self->side->kernel_count, kernels[i]) < 0) {
            self->kernels[self->side->kernel_count++] = kernels[i];
        }
    }
}

// The mean over sessions, with `count` so far; NaN: unknown.
static double mean_with(double mean, int64_t count, double value)
{
    return value > 0 && mean > 0 ? mean + (value - mean) / (double)(count + 1) : mean;
}

static void add_session(gathering *self, const bt_gate_side *side)
{
    bt_gate_side *out = self->side;
    for (int64_t i = 0; i < side->round_count; ++i) {
        bt_gate_round *round = &self->rounds[out->round_count];
        *round = side->rounds[i];
        round->ordinal = out->round_count++;
        round->session = self->sessions;
    }
    out->clock_mhz = mean_with(out->clock_mhz, self->sessions, side->clock_mhz);
    out->power_w = mean_with(out->power_w, self->sessions, side->power_w);
    out->labelled += side->labelled;
    out->label = *out->label ? out->label : side->label;
    ++self->sessions;
    add_kernels(self, side->kernels, side->kernel_count);
    for (int64_t i = 0; i < side->curve_count; ++i) {
        add_curve(self, &side->curves[i], OWN, 0);
    }
}

static bt_status refuse(const gathering *self, const bt_store_run *run, const char *why)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "run %" PRId64 " cannot be combined with %s, case %s: %s", run->id, self->what,
                    self->side->name, why);
}

static bt_status add_curves(gathering *self, const bt_store_run *run, const bt_gate_side *side,
                            const double seeds[2])
{
    bool permuted = seeds[0] == seeds[1];
    if (self->adding) {
        return refuse(self, run,
                      "its build or settings differ, so it cannot be a session of this baseline; "
                      "'bt-bench baseline set' accepts loss curves of such runs");
    }
    for (int64_t i = 0; !permuted && i < self->curve_count; ++i) {
        if (self->curves[i].from == SEED && self->curves[i].seed == seeds[1]) {
            return refuse(self, run, "another run already has the same seed");
        }
    }
    for (int64_t i = 0; i < (permuted ? side->curve_count : 1); ++i) {
        add_curve(self, &side->curves[i], permuted ? PERMUTED : SEED, seeds[1]);
    }
    return BT_OK;
}

static bt_status add_side(gathering *self, further *from)
{
    const bt_gate_side *first = self->side;
    const bt_gate_side *side =
        bt_gate_side_find(&from->sides, first->bench, first->name, first->system);
    double seeds[2] = {0, 0};
    bool same = true;
    if (!side) {
        return refuse(self, from->run, "it lacks this case");
    }
    BT_TRY(compare_settings(first, side, &same, seeds));
    bool session = from->same_build && strcmp(first->settings, side->settings) == 0 &&
                   side->round_count >= BT_BASELINE_ROUNDS_MIN;
    const char *why = misfit(first, side, same, session);
    if (!why && session && !from->same_card) {
        why = "it ran on another card, or the card of one of the runs is not recorded";
    }
    if (why) {
        return refuse(self, from->run, why);
    }
    if (!session) {
        return add_curves(self, from->run, side, seeds);
    }
    add_session(self, side);
    from->session = true;
    return BT_OK;
}

// The curves in the order of their sources.
static bt_status sort_curves(const gathering *self)
{
    bt_gate_side *out = self->side;
    int64_t *const ends[SOURCE_COUNT] = {&out->own_count, &out->data_count, &out->curve_count};
    bt_loss_curve *sorted = NULL;
    BT_TRY(BT_ARENA_ARRAY(self->arena, self->curve_count, &sorted));
    out->curves = sorted;
    for (int from = OWN, count = 0; from < SOURCE_COUNT; ++from) {
        BT_EACH(const kept_curve, kept, self->curves, self->curve_count) {
            if ((int)kept->from == from) {
                sorted[count++] = kept->curve;
            }
        }
        *ends[from] = count;
    }
    return BT_OK;
}

// Moves the side's contents to arrays with capacity for all.
static bt_status begin(gathering *self, const further *runs, int64_t count)
{
    bt_gate_side *out = self->side;
    int64_t curves = out->curve_count, rounds = out->round_count, kernels = out->kernel_count;
    for (int64_t i = 0; i < count; ++i) {
        const bt_gate_side *side =
            bt_gate_side_find(&runs[i].sides, out->bench, out->name, out->system);
        curves += side ? side->curve_count : 0;
        rounds += side ? side->round_count : 0;
        kernels += side ? side->kernel_count : 0;
    }
    BT_TRY(BT_ARENA_ARRAY(self->arena, curves, &self->curves));
    BT_TRY(BT_ARENA_ARRAY(self->arena, rounds, &self->rounds));
    BT_TRY(BT_ARENA_ARRAY(self->arena, kernels, &self->kernels));
    for (int64_t i = 0; i < out->curve_count; ++i) {
        source from = i < out->own_count ? OWN : i < out->data_count ? PERMUTED : SEED;
        add_curve(self, &out->curves[i], from, (double)NAN);
    }
    for (int64_t i = 0; i < out->round_count; ++i) {
        self->rounds[i] = out->rounds[i];
        self->sessions = out->rounds[i].session + 1;
    }
    kernels = out->kernel_count;
    out->kernel_count = 0;
    add_kernels(self, out->kernels, kernels);
    out->rounds = self->rounds;
    out->kernels = self->kernels;
    return BT_OK;
}

// ---- sides that are kept ------------------------------------------------------------------------

static bool is_kept(const bt_gate_side *side, bool few)
{
    return (few || side->round_count >= BT_BASELINE_ROUNDS_MIN) &&
           strcmp(side->system, BT_GATE_SYSTEM_BASE) != 0;
}

bt_status bt_gate_kept_sides(const bt_store_run *run, bool few, bt_arena *arena, bt_gate_sides *out)
{
    bt_gate_sides all = {0};
    BT_TRY(bt_gate_sides_of_run(run, arena, &all));
    bt_gate_side *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, all.count, &items));
    *out = (bt_gate_sides){.items = items};
    for (int64_t i = 0; i < all.count; ++i) {
        if (is_kept(&all.items[i], few)) {
            bt_gate_side *side = &items[out->count++];
            *side = all.items[i];
            bool candidate = strcmp(side->system, BT_GATE_SYSTEM_CANDIDATE) == 0;
            side->system = candidate ? BT_GATE_SYSTEM_OURS : side->system;
        }
    }
    return BT_OK;
}

const bt_store_build *bt_gate_kept_build(const bt_store_run *run)
{
    bool pair = run->schedule.system_count == 2 &&
                strcmp(run->schedule.systems[1].name, BT_GATE_SYSTEM_CANDIDATE) == 0;
    return pair ? &run->schedule.systems[1].build : &run->info.build;
}

// ---- all cases ---------------------------------------------------------------------------------

bt_status bt_gate_session_of(const bt_store_run *run, const bt_gate_sides *sides, bt_arena *arena,
                             bt_baseline_session *out)
{
    *out = (bt_baseline_session){.run = run->id};
    BT_EACH(const bt_gate_side, side, sides->items, sides->count) {
        out->disturbed += side->labelled;
    }
    BT_TRY(bt_keep(arena, bt_format_date(run->started_ns).text, &out->started));
    return bt_keep_format(arena, &out->started_ns, "%" PRId64, run->started_ns);
}

static bool is_session(const bt_baseline_session *session, const bt_store_run *run)
{
    return *session->started_ns
               ? strcmp(session->started_ns, bt_textf("%" PRId64, run->started_ns).text) == 0
               : session->run == run->id &&
                     strcmp(session->started, bt_format_date(run->started_ns).text) == 0;
}

static bt_status open_runs(const bt_store_run *const *runs, int64_t count, const bt_baseline *into,
                           further *out, bt_arena *arena)
{
    for (int64_t i = 0; i < count; ++i) {
        const bt_store_run *run = runs[i];
        bool twice = false, there = false;
        for (int64_t j = 0; j < i; ++j) {
            twice = twice || runs[j]->id == run->id;
        }
        for (int64_t j = 0; j < into->session_count; ++j) {
            there = there || is_session(&into->sessions[j], run);
        }
        BT_FAIL_IF(twice || there, BT_STATUS_INVALID_ARGUMENT, "run %" PRId64 " is given twice%s",
                   run->id, there ? ", or is a session of the baseline already" : "");
        out[i] = (further){.run = run,
                           .same_build =
                               strcmp(bt_gate_kept_build(run)->digest, into->build.digest) == 0,
                           .same_card = bt_gate_same_card(&into->env, into->card, &run->info.env)};
        BT_TRY(bt_gate_kept_sides(run, true, arena, &out[i].sides));
    }
    return BT_OK;
}

static bt_status add_sessions(const further *runs, int64_t count, bt_baseline *into)
{
    bt_baseline_session *sessions = NULL;
    BT_TRY(BT_ARENA_ARRAY(&into->arena, into->session_count + count, &sessions));
    if (into->session_count > 0) {
        memcpy(sessions, into->sessions, (size_t)into->session_count * sizeof *sessions);
    }
    into->sessions = sessions;
    for (int64_t i = 0; i < count; ++i) {
        if (runs[i].session) {
            BT_TRY(bt_gate_session_of(runs[i].run, &runs[i].sides, &into->arena,
                                      &sessions[into->session_count++]));
        }
    }
    return BT_OK;
}

bt_status bt_gate_merge(const bt_store_run *const *runs, int64_t count, const char *what,
                        bt_baseline *into)
{
    bt_arena *arena = &into->arena;
    further *others = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, count, &others));
    BT_TRY(open_runs(runs, count, into, others, arena));
    bt_gate_side *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, into->sides.count, &items));
    bool adding = into->created != NULL;
    for (int64_t i = 0; i < into->sides.count; ++i) {
        items[i] = into->sides.items[i];
        gathering self = {.what = what, .adding = adding, .side = &items[i], .arena = arena};
        BT_TRY(begin(&self, others, count));
        for (int64_t j = 0; j < count; ++j) {
            BT_TRY(add_side(&self, &others[j]));
        }
        BT_TRY(sort_curves(&self));
    }
    into->sides.items = items;
    return add_sessions(others, count, into);
}

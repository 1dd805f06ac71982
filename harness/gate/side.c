// harness/gate/side.c - collects the rounds of a run by case and system
#include "harness/gate/side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/gate/ceiling.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/stats/noise.h"
#include "harness/stats/summary.h"

// ---- settings ----------------------------------------------------------------------------------

// Canonical JSON in which every text keeps only what follows its last slash: the location of files
// is not a setting, so that clones, machines and bundles agree.
static bt_status without_folders(const char *json, bt_arena *arena, const char **out)
{
    void *block = NULL;
    BT_TRY(bt_arena_alloc(arena, strlen(json) + 1, &block));
    char *to = block, *text = NULL; // text: start of the current one
    for (const char *from = json; *from; ++from) {
        bool escaped = text && *from == '\\' && from[1];
        *to++ = *from;
        if (escaped) {
            *to++ = *++from;
        } else if (*from == '"') {
            text = text ? NULL : to;
        } else if (text && *from == '/') {
            to = text;
        }
    }
    *to = '\0';
    *out = block;
    return BT_OK;
}

// ---- one round ---------------------------------------------------------------------------------

static bt_status take_values(const bt_store_round *round, bt_gate_round *out)
{
    bt_summary summary;
    out->ordinal = round->ordinal;
    BT_TRY(bt_summary_of(round, &summary));
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        bt_metric metric = bt_gate_metric_info((bt_gate_metric)i)->metric;
        double value = metric < BT_METRIC_COUNT ? summary.metrics[metric].value : (double)NAN;
        out->values[i] = value > 0 && isfinite(value) ? value : (double)NAN;
        out->older[i] = out->values[i];
    }
    out->older[BT_GATE_TIME] = summary.metrics[BT_METRIC_TIME_MEDIAN].value;
    out->older[BT_GATE_STEP_TIME] = summary.metrics[BT_METRIC_STEP_TIME_MEDIAN].value;
    out->older[BT_GATE_TOKENS_PER_S] = summary.median_tok_s;
    return BT_OK;
}

bool bt_gate_same_curve(const bt_loss_curve *left, const bt_loss_curve *right)
{
    bool same =
        left->count == right->count && strcmp(left->params_digest, right->params_digest) == 0;
    for (int64_t i = 0; same && i < left->count; ++i) {
        const bt_store_step *a = &left->steps[i], *b = &right->steps[i];
        same = a->step == b->step && bt_loss_bits(a->loss) == bt_loss_bits(b->loss);
    }
    return same;
}

// ---- gathering ---------------------------------------------------------------------------------

// A side under construction; the arrays have capacity for all rounds of the run.
typedef struct growing {
    bt_gate_side *side;
    bt_gate_round *rounds;
    bt_loss_curve *curves;
    const char **kernels;
    double *clocks, *powers; // medians of rounds, [clock_count], [power_count]
    int64_t clock_count, power_count;
    bt_arena *arena; // borrowed
} growing;

static void add_curve(growing *self, const bt_store_round *round)
{
    bt_loss_curve curve = bt_loss_curve_of(round);
    bt_gate_side *side = self->side;
    if (curve.count == 0) {
        return;
    }
    int64_t at = 0;
    while (at < side->curve_count && !bt_gate_same_curve(&self->curves[at], &curve)) {
        ++at;
    }
    if (at == side->curve_count) {
        self->curves[side->curve_count++] = curve;
    } else {
        ++self->curves[at].rounds;
    }
}

static bt_status add_kernel(growing *self, const bt_store_kernel *kernel)
{
    bt_gate_side *side = self->side;
    const char *text = NULL;
    BT_TRY(bt_keep_format(self->arena, &text, "%s: %s", kernel->op, kernel->kernel));
    if (BT_FIND_WORD(self->kernels, side->kernel_count, text) < 0) {
        self->kernels[side->kernel_count++] = text;
    }
    return BT_OK;
}

static bt_status add_telemetry(growing *self, const bt_store_round *round)
{
    bt_telemetry_summary summary;
    BT_TRY(bt_telemetry_summary_of(round, &summary));
    if (summary.sm_clock_mhz > 0) {
        self->clocks[self->clock_count++] = summary.sm_clock_mhz;
    }
    if (summary.power_w > 0) {
        self->powers[self->power_count++] = summary.power_w;
    }
    return BT_OK;
}

static void note(bt_gate_side *side, int64_t *counter, const char *message)
{
    ++*counter;
    if (!*side->message && message) {
        side->message = message;
    }
}

static bt_status add_round(growing *self, const bt_store_round *round)
{
    bt_gate_side *side = self->side;
    if (round->status == BT_RUN_FAILED) {
        note(side, &side->failed, round->message);
    } else if (round->status == BT_RUN_UNAVAILABLE) {
        note(side, &side->unavailable, round->message);
    } else if (round->status == BT_RUN_INVALID) {
        note(side, &side->invalid, round->label);
    }
    if (round->status != BT_RUN_PASSED) {
        return BT_OK;
    }
    BT_TRY(take_values(round, &self->rounds[side->round_count++]));
    if (*round->label) {
        side->label = side->labelled++ ? side->label : round->label;
    }
    add_curve(self, round);
    BT_TRY(add_telemetry(self, round));
    for (int64_t i = 0; i < round->kernel_count; ++i) {
        BT_TRY(add_kernel(self, &round->kernels[i]));
    }
    if (!*side->precision) {
        side->precision = round->shape.precision;
    }
    return BT_OK;
}

static bool is_of(const bt_gate_side *side, const bt_store_round *round)
{
    return strcmp(side->name, round->what.name) == 0 &&
           strcmp(side->system, round->what.system) == 0 &&
           strcmp(side->bench, round->what.bench) == 0;
}

static int by_ordinal(const void *left, const void *right)
{
    const bt_gate_round *a = left;
    const bt_gate_round *b = right;
    return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

static int by_text(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

static bt_status make_room(growing *self, int64_t rounds, int64_t kernels)
{
    BT_TRY(BT_ARENA_ARRAY(self->arena, rounds, &self->rounds));
    BT_TRY(BT_ARENA_ARRAY(self->arena, rounds, &self->curves));
    BT_TRY(BT_ARENA_ARRAY(self->arena, rounds, &self->clocks));
    BT_TRY(BT_ARENA_ARRAY(self->arena, rounds, &self->powers));
    return BT_ARENA_ARRAY(self->arena, kernels, &self->kernels);
}

// The side that begins with round `first` of the run.
static bt_status gather(const bt_store_run *run, int64_t first, bt_arena *arena, bt_gate_side *out)
{
    const bt_store_case *what = &run->rounds[first].what;
    *out = (bt_gate_side){.bench = what->bench,
                          .kind = what->kind,
                          .name = what->name,
                          .system = what->system,
                          .axes_json = what->axes_json,
                          .precision = "",
                          .message = "",
                          .label = ""};
    growing self = {.side = out, .arena = arena};
    int64_t rounds = 0, kernels = 0;
    for (int64_t i = first; i < run->round_count; ++i) {
        if (is_of(out, &run->rounds[i])) {
            ++rounds;
            kernels += run->rounds[i].kernel_count;
        }
    }
    BT_TRY(make_room(&self, rounds, kernels));
    for (int64_t i = first; i < run->round_count; ++i) {
        if (is_of(out, &run->rounds[i])) {
            BT_TRY(add_round(&self, &run->rounds[i]));
        }
    }
    qsort(self.rounds, (size_t)out->round_count, sizeof *self.rounds, by_ordinal);
    qsort((void *)self.kernels, (size_t)out->kernel_count, sizeof *self.kernels, by_text);
    out->rounds = self.rounds;
    out->curves = self.curves;
    out->own_count = out->data_count = out->curve_count;
    out->kernels = self.kernels;
    BT_TRY(without_folders(what->axes_json, arena, &out->axes_json));
    bt_plan_hash(out->axes_json, out->settings);
    BT_TRY(bt_stats_median(self.clocks, self.clock_count, &out->clock_mhz));
    BT_TRY(bt_stats_median(self.powers, self.power_count, &out->power_w));
    return bt_plan_environment(&run->info.env, out->name, out->axes_json, out->environment);
}

bt_status bt_gate_sides_of_run(const bt_store_run *run, bt_arena *arena, bt_gate_sides *out)
{
    memset(out, 0, sizeof *out);
    bt_gate_side *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, run->round_count, &items));
    out->items = items;
    for (int64_t i = 0; i < run->round_count; ++i) {
        bool known = bt_gate_is_ceiling(&run->rounds[i]);
        for (int64_t j = 0; j < out->count && !known; ++j) {
            known = is_of(&items[j], &run->rounds[i]);
        }
        if (!known) {
            BT_TRY(gather(run, i, arena, &items[out->count]));
            ++out->count;
        }
    }
    return BT_OK;
}

// ---- queries ------------------------------------------------------------------------------------

const bt_gate_side *bt_gate_side_find(const bt_gate_sides *sides, const char *bench,
                                      const char *name, const char *system)
{
    BT_EACH(const bt_gate_side, side, sides->items, sides->count) {
        if (strcmp(side->bench, bench) == 0 && strcmp(side->name, name) == 0 &&
            strcmp(side->system, system) == 0) {
            return side;
        }
    }
    return NULL;
}

int64_t bt_gate_side_values(const bt_gate_side *side, bt_gate_metric metric, double *values)
{
    int64_t count = 0;
    for (int64_t i = 0; i < side->round_count; ++i) {
        double value = side->rounds[i].values[metric];
        if (value > 0) {
            values[count++] = value;
        }
    }
    return count;
}

int64_t bt_gate_side_sessions(const bt_gate_side *side, bt_gate_metric metric, double *values,
                              int64_t *sessions)
{
    int64_t count = 0, session = -1, found = 0;
    BT_EACH(const bt_gate_round, round, side->rounds, side->round_count) {
        if (!(round->values[metric] > 0)) {
            continue;
        }
        if (found == 0 || round->session != session) {
            sessions[found++] = 0;
            session = round->session;
        }
        ++sessions[found - 1];
        values[count++] = round->values[metric];
    }
    return found;
}

bt_status bt_gate_side_median(const bt_gate_side *side, bt_gate_metric metric, double *median)
{
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(BT_MEM_ARRAY(side->round_count, &values));
    return bt_stats_median(values, bt_gate_side_values(side, metric, values), median);
}

bool bt_gate_side_is_training(const bt_gate_side *side) { return strcmp(side->kind, "train") == 0; }

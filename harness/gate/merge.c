// harness/gate/merge.c - checks that runs are of one data, and gathers their curves
#include "harness/gate/merge.h"

#include <inttypes.h>
#include <string.h>

#include "harness/suite/json.h"

// ---- settings ----------------------------------------------------------------------------------

// The settings without what a further run may have otherwise, and its seed.
static bt_status common_settings(const bt_gate_side *side, bt_str *out, double *seed)
{
    static const char *const free_keys[] = {"micro_batch", "seed"};
    bt_json_doc json = {0};
    BT_TRY(bt_json_parse(side->name, side->axes_json, strlen(side->axes_json), &json));
    cJSON *train = cJSON_GetObjectItemCaseSensitive(json.root, "train");
    *seed = bt_json_number_of(train, "seed");
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; ++i) {
        cJSON_DeleteItemFromObjectCaseSensitive(train, free_keys[i]);
    }
    bt_json_write(json.root, out);
    bt_json_release(&json);
    return bt_str_status(out);
}

// Whether the settings agree where they must; the seeds of both.
static bt_status compare_settings(const bt_gate_side *first, const bt_gate_side *side, bool *same,
                                  double seeds[2])
{
    bt_str expected = {0}, got = {0};
    bt_status status = common_settings(first, &expected, &seeds[0]);
    if (status == BT_OK) {
        status = common_settings(side, &got, &seeds[1]);
    }
    *same = status == BT_OK && strcmp(bt_str_text(&expected), bt_str_text(&got)) == 0;
    bt_str_release(&expected);
    bt_str_release(&got);
    return status;
}

// ---- one further run ---------------------------------------------------------------------------

static bool same_steps(const bt_loss_curve *expected, const bt_loss_curve *got)
{
    bool same = expected->count == got->count;
    for (int64_t i = 0; same && i < got->count; ++i) {
        same = expected->steps[i].step == got->steps[i].step &&
               expected->steps[i].tokens == got->steps[i].tokens;
    }
    return same;
}

// What keeps a side of a further run from standing beside the first's; NULL: nothing does.
static const char *misfit(const bt_gate_side *first, const bt_gate_side *side, bool same_settings)
{
    if (!side) {
        return "it has no such case";
    }
    if (side->curve_count == 0) {
        return "none of its rounds has a loss curve";
    }
    if (strcmp(first->environment, side->environment) != 0) {
        return "hard facts of the environments, or the data, differ";
    }
    if (!same_settings) {
        return "its settings differ in more than train.micro_batch and train.seed";
    }
    for (int64_t i = 0; i < side->curve_count; ++i) {
        if (!same_steps(&first->curves[0], &side->curves[i])) {
            return "its steps are not as many, or not of as many tokens";
        }
    }
    return NULL;
}

// ---- all curves of a case ----------------------------------------------------------------------

typedef enum source { OWN, PERMUTED, SEED, SOURCE_COUNT } source;

// The curves of one case while they are gathered.
typedef struct gathering {
    const bt_gate_side *first;
    bt_loss_curve *curves;
    int64_t *rounds;
    source *sources;
    double *seeds;
    int64_t count;
} gathering;

static void add(gathering *self, const bt_loss_curve *curve, int64_t rounds, source from,
                double seed)
{
    for (int64_t i = 0; i < self->count; ++i) {
        bool alike = (self->sources[i] == SEED) == (from == SEED);
        if (alike && bt_gate_same_curve(&self->curves[i], curve)) {
            self->rounds[i] += rounds;
            return;
        }
    }
    self->curves[self->count] = *curve;
    self->rounds[self->count] = rounds;
    self->sources[self->count] = from;
    self->seeds[self->count++] = seed;
}

static bt_status refuse(const bt_store_run *run, const bt_store_run *first,
                        const bt_gate_side *side, const char *why)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "run %" PRId64 " does not fit beside run %" PRId64 ", case %s: %s ('bt-bench "
                    "compare %" PRId64 " %" PRId64 "' says more)",
                    run->id, first->id, side->name, why, first->id, run->id);
}

static bt_status add_side(gathering *self, const bt_store_run *first, const bt_store_run *run,
                          const bt_gate_side *side)
{
    double seeds[2] = {0, 0};
    bool same = true;
    if (side) {
        BT_TRY(compare_settings(self->first, side, &same, seeds));
    }
    const char *why = misfit(self->first, side, same);
    if (why) {
        return refuse(run, first, self->first, why);
    }
    bool permuted = seeds[0] == seeds[1];
    for (int64_t i = 0; !permuted && i < self->count; ++i) {
        if (self->sources[i] == SEED && self->seeds[i] == seeds[1]) {
            return refuse(run, first, self->first, "another run has its seed already");
        }
    }
    for (int64_t i = 0; i < (permuted ? side->curve_count : 1); ++i) {
        add(self, &side->curves[i], side->curve_rounds[i], permuted ? PERMUTED : SEED, seeds[1]);
    }
    return BT_OK;
}

static bt_status make_room(gathering *self, int64_t count, bt_arena *arena)
{
    void *blocks[4] = {NULL};
    const size_t sizes[4] = {sizeof *self->curves, sizeof *self->rounds, sizeof *self->sources,
                             sizeof *self->seeds};
    for (int i = 0; i < 4; ++i) {
        BT_TRY(bt_arena_alloc(arena, (size_t)count * sizes[i], &blocks[i]));
    }
    self->curves = blocks[0];
    self->rounds = blocks[1];
    self->sources = blocks[2];
    self->seeds = blocks[3];
    return BT_OK;
}

// The curves in the order of their sources, into a side that is else the first's.
static bt_status sort_into(const gathering *self, bt_arena *arena, bt_gate_side *out)
{
    gathering sorted = {0};
    BT_TRY(make_room(&sorted, self->count, arena));
    int64_t counts[SOURCE_COUNT] = {0};
    for (int from = OWN; from < SOURCE_COUNT; ++from) {
        for (int64_t i = 0; i < self->count; ++i) {
            if ((int)self->sources[i] == from) {
                sorted.curves[sorted.count] = self->curves[i];
                sorted.rounds[sorted.count++] = self->rounds[i];
            }
        }
        counts[from] = sorted.count;
    }
    out->curves = sorted.curves;
    out->curve_rounds = sorted.rounds;
    out->own_count = counts[OWN];
    out->data_count = counts[PERMUTED];
    out->curve_count = counts[SEED];
    return BT_OK;
}

static bt_status merge_side(const bt_store_run *const *runs, const bt_gate_sides *sides,
                            int64_t count, bt_arena *arena, bt_gate_side *out)
{
    gathering self = {.first = out};
    int64_t room = 0;
    for (int64_t i = 0; i < count; ++i) {
        const bt_gate_side *side = bt_gate_side_find(&sides[i], out->bench, out->name, out->system);
        room += side ? side->curve_count : 0;
    }
    BT_TRY(make_room(&self, room, arena));
    for (int64_t i = 0; i < out->curve_count; ++i) {
        add(&self, &out->curves[i], out->curve_rounds[i], OWN, 0);
    }
    for (int64_t i = 1; i < count; ++i) {
        BT_TRY(add_side(&self, runs[0], runs[i],
                        bt_gate_side_find(&sides[i], out->bench, out->name, out->system)));
    }
    return sort_into(&self, arena, out);
}

// ---- all cases ---------------------------------------------------------------------------------

static bt_status read_sides(const bt_store_run *const *runs, int64_t count, bt_arena *arena,
                            bt_gate_sides *sides)
{
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < i; ++j) {
            if (runs[j]->id == runs[i]->id) {
                return bt_error(BT_STATUS_INVALID_ARGUMENT, "run %" PRId64 " is named twice",
                                runs[i]->id);
            }
        }
        BT_TRY(bt_gate_sides_of_run(runs[i], arena, &sides[i]));
    }
    return BT_OK;
}

bt_status bt_gate_merge(const bt_store_run *const *runs, int64_t count, bt_arena *arena,
                        bt_gate_sides *out)
{
    void *block = NULL;
    BT_TRY(bt_arena_alloc(arena, (size_t)count * sizeof(bt_gate_sides), &block));
    bt_gate_sides *sides = block;
    BT_TRY(read_sides(runs, count, arena, sides));
    BT_TRY(bt_arena_alloc(arena, (size_t)sides[0].count * sizeof *out->items, &block));
    bt_gate_side *items = block;
    int64_t trained = 0;
    for (int64_t i = 0; i < sides[0].count; ++i) {
        items[i] = sides[0].items[i];
        if (items[i].curve_count > 0) {
            BT_TRY(merge_side(runs, sides, count, arena, &items[i]));
            ++trained;
        }
    }
    if (count > 1 && trained == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "run %" PRId64 " has no loss curve, and nothing else is taken from further "
                        "runs: name one run",
                        runs[0]->id);
    }
    *out = (bt_gate_sides){items, sides[0].count};
    return BT_OK;
}

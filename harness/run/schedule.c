// harness/run/schedule.c - selects the next round
#include "harness/run/schedule.h"

#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/stats/summary.h"

// Random streams: a case's initial direction, and the order of pass 0, 1, ...
#define STREAM_START 0
#define STREAM_ORDER 1

static bt_run_schedule_cell *cell_of(const bt_run_schedule *self, int64_t case_index,
                                     int64_t system, int64_t ordinal)
{
    return &self->cells[(case_index * self->rounds_max + ordinal) * self->system_count + system];
}

const bt_run_schedule_cell *bt_run_schedule_cell_of(const bt_run_schedule *self, int64_t case_index,
                                                    int64_t system, int64_t ordinal)
{
    return cell_of(self, case_index, system, ordinal);
}

static int64_t systems_of(const bt_run_schedule *self, int64_t case_index)
{
    return self->alone[case_index] ? 1 : self->system_count;
}

// ---- creation ----------------------------------------------------------------------------------

static bt_status allocate(bt_run_schedule *self)
{
    size_t cases = (size_t)self->case_count;
    BT_TRY(BT_MEM_ARRAY(cases, &self->alone));
    BT_TRY(BT_MEM_ARRAY(cases, &self->wanted));
    BT_TRY(BT_MEM_ARRAY(cases, &self->spent));
    BT_TRY(BT_MEM_ARRAY(cases, &self->order));
    BT_TRY(
        BT_MEM_ARRAY(cases * (size_t)self->rounds_max * (size_t)self->system_count, &self->cells));
    return BT_OK;
}

static bool names(const cJSON *systems, const char *name)
{
    if (cJSON_IsString(systems)) {
        return strcmp(systems->valuestring, name) == 0;
    }
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, systems) {
        if (strcmp(node->valuestring, name) == 0) {
            return true;
        }
    }
    return false;
}

// Closes the cells of systems that a case does not name.
static void exclude_systems(const bt_plan *plan, bt_run_schedule *out)
{
    bool planned = plan->systems && cJSON_GetArraySize(plan->systems) == out->system_count;
    for (int64_t i = 0; planned && i < out->case_count; ++i) {
        const cJSON *systems = bt_json_get(bt_plan_case(plan, i), "systems");
        for (int64_t system = 0; systems && system < out->system_count; ++system) {
            const char *name = cJSON_GetArrayItem(plan->systems, (int)system)->valuestring;
            for (int64_t ordinal = 0; !names(systems, name) && ordinal < out->rounds_max;
                 ++ordinal) {
                cell_of(out, i, system, ordinal)->state = BT_ROUND_EXCLUDED;
            }
        }
    }
}

bt_status bt_run_schedule_make(const bt_plan *plan, int64_t system_count, int64_t rounds,
                               int64_t rounds_max, uint64_t seed, bt_run_schedule *out)
{
    *out = (bt_run_schedule){.seed = seed,
                             .case_count = plan->case_count,
                             .system_count = system_count,
                             .rounds_max = rounds_max > rounds ? rounds_max : rounds,
                             .order_pass = -1};
    BT_TRY(allocate(out));
    for (int64_t i = 0; i < plan->case_count; ++i) {
        out->alone[i] = bt_plan_kernel_is_ceiling(bt_plan_case(plan, i));
        out->wanted[i] = rounds;
    }
    exclude_systems(plan, out);
    return BT_OK;
}

void bt_run_schedule_release(bt_run_schedule *self)
{
    bt_mem_free(self->alone);
    bt_mem_free(self->wanted);
    bt_mem_free(self->spent);
    bt_mem_free(self->order);
    bt_mem_free(self->cells);
    memset(self, 0, sizeof *self);
}

// ---- the next round ----------------------------------------------------------------------------

// Cases that run alone first, then the others; each in the plan's order, the others shuffled if
// there is a seed, after the first pass (Fisher-Yates).
static void make_order(bt_run_schedule *self, int64_t pass)
{
    const bt_rng rng = {.seed = self->seed, .stream = STREAM_ORDER + (uint64_t)pass};
    int64_t count = 0, alone = 0;
    if (self->order_pass == pass) {
        return;
    }
    for (int wanted = 1; wanted >= 0; --wanted) {
        for (int64_t i = 0; i < self->case_count; ++i) {
            if (self->alone[i] == (wanted != 0)) {
                self->order[count++] = i;
            }
        }
        alone = wanted ? count : alone;
    }
    for (int64_t i = count - 1; self->seed && pass > 0 && i > alone; --i) {
        int64_t j = alone + (int64_t)bt_rng_below(rng, (uint64_t)i, (uint64_t)(i - alone + 1));
        int64_t kept = self->order[i];
        self->order[i] = self->order[j];
        self->order[j] = kept;
    }
    self->order_pass = pass;
}

static bool backwards(const bt_run_schedule *self, int64_t case_index, int64_t ordinal)
{
    const bt_rng rng = {.seed = self->seed, .stream = STREAM_START};
    uint64_t start = self->seed ? bt_rng_below(rng, (uint64_t)case_index, 2) : 0;
    return (start + (uint64_t)ordinal) % 2 == 1;
}

// The first open round of a case in a pass.
static bool next_of_case(const bt_run_schedule *self, int64_t case_index, int64_t pass,
                         bt_run_schedule_round *out)
{
    int64_t count = pass < self->wanted[case_index] ? systems_of(self, case_index) : 0;
    for (int64_t i = 0; i < count; ++i) {
        int64_t system = backwards(self, case_index, pass) ? count - 1 - i : i;
        const bt_run_schedule_cell *cell = cell_of(self, case_index, system, pass);
        if (cell->state == BT_ROUND_OPEN) {
            *out = (bt_run_schedule_round){case_index, system, pass, cell->attempts};
            return true;
        }
    }
    return false;
}

bool bt_run_schedule_next(bt_run_schedule *self, bt_run_schedule_round *out)
{
    for (; self->pass < self->rounds_max; ++self->pass) {
        make_order(self, self->pass);
        for (int64_t i = 0; i < self->case_count; ++i) {
            if (next_of_case(self, self->order[i], self->pass, out)) {
                return true;
            }
        }
    }
    return false;
}

void bt_run_schedule_want(bt_run_schedule *self, int64_t case_index, int64_t rounds)
{
    int64_t before = self->wanted[case_index];
    self->wanted[case_index] = rounds < self->rounds_max ? rounds : self->rounds_max;
    if (rounds > before && before < self->pass) {
        self->pass = before;
    }
}

// ---- completed rounds --------------------------------------------------------------------------

void bt_run_schedule_note(bt_run_schedule *self, const bt_run_schedule_round *round,
                          bt_run_status status, double time_ns)
{
    bt_run_schedule_cell *cell = cell_of(self, round->case_index, round->system, round->ordinal);
    static const bt_round_state states[BT_RUN_STATUS_COUNT] = {
        [BT_RUN_PASSED] = BT_ROUND_KEPT,
        [BT_RUN_FAILED] = BT_ROUND_FAILED,
        [BT_RUN_UNAVAILABLE] = BT_ROUND_UNAVAILABLE,
    };
    if (cell->state != BT_ROUND_OPEN) {
        return;
    }
    cell->time_ns = time_ns;
    cell->state = states[status];
    if (status == BT_RUN_INVALID && ++cell->attempts == BT_ROUND_ATTEMPTS) {
        cell->state = BT_ROUND_LOST;
    }
}

void bt_run_schedule_took(bt_run_schedule *self, int64_t case_index, double took_ns)
{
    self->spent[case_index].count += 1;
    self->spent[case_index].ns += took_ns;
}

static int64_t find_system(const bt_run_schedule *self, const char *const *systems,
                           int64_t case_index, const char *name)
{
    return self->alone[case_index] ? 0 : BT_FIND_WORD(systems, self->system_count, name);
}

bool bt_run_schedule_goes_on(const bt_plan *plan, const bt_store_round *round)
{
    const int64_t index = bt_plan_find(plan, round->what.name);
    const cJSON *item = index < 0 ? NULL : bt_plan_case(plan, index);
    const cJSON *keys = item ? bt_json_get(bt_json_get(item, "train"), "checkpoint") : NULL;
    return round->status == BT_RUN_FAILED && strcmp(round->what.system, "blutrain") == 0 && keys &&
           (bt_json_number_of(keys, "every_steps") > 0 ||
            bt_json_number_of(keys, "every_minutes") > 0);
}

bt_status bt_run_schedule_note_run(bt_run_schedule *self, const bt_plan *plan,
                                   const char *const *systems, const bt_store_run *run)
{
    BT_EACH(const bt_store_round, from, run->rounds, run->round_count) {
        bt_run_schedule_round round = {.case_index = bt_plan_find(plan, from->what.name),
                                       .ordinal = from->ordinal};
        double time_ns = 0;
        if (round.case_index < 0 || from->ordinal < 0 || from->ordinal >= self->rounds_max) {
            continue;
        }
        round.system = find_system(self, systems, round.case_index, from->what.system);
        if (round.system >= 0 && from->ended_ns > from->started_ns) {
            bt_run_schedule_took(self, round.case_index,
                                 (double)(from->ended_ns - from->started_ns));
        }
        if (round.system >= 0) {
            const bool again = bt_run_schedule_goes_on(plan, from);
            BT_TRY(bt_summary_time(from, &time_ns));
            bt_run_schedule_note(self, &round, again ? BT_RUN_INTERRUPTED : from->status, time_ns);
        }
    }
    return BT_OK;
}

// ---- queries -----------------------------------------------------------------------------------

static int64_t count_open(const bt_run_schedule *self, int64_t case_index)
{
    int64_t count = 0;
    for (int64_t ordinal = 0; ordinal < self->wanted[case_index]; ++ordinal) {
        for (int64_t i = 0; i < systems_of(self, case_index); ++i) {
            count += cell_of(self, case_index, i, ordinal)->state == BT_ROUND_OPEN;
        }
    }
    return count;
}

bool bt_run_schedule_settled(const bt_run_schedule *self, int64_t case_index)
{
    return count_open(self, case_index) == 0;
}

void bt_run_schedule_count(const bt_run_schedule *self, int64_t *wanted, int64_t *open)
{
    *wanted = *open = 0;
    for (int64_t i = 0; i < self->case_count; ++i) {
        for (int64_t system = 0; system < systems_of(self, i); ++system) {
            bool runs = cell_of(self, i, system, 0)->state != BT_ROUND_EXCLUDED;
            *wanted += runs ? self->wanted[i] : 0;
        }
        *open += count_open(self, i);
    }
}

double bt_run_schedule_mean_ns(const bt_run_schedule *self, int64_t case_index)
{
    const bt_run_spent *spent = &self->spent[case_index];
    return spent->count > 0 ? spent->ns / (double)spent->count : (double)NAN;
}

// Mean duration of a round over all cases but ceilings, which take longer; NaN: none ran.
static double mean_of_all(const bt_run_schedule *self)
{
    bt_run_spent all = {0};
    for (int64_t i = 0; i < self->case_count; ++i) {
        all.count += self->alone[i] ? 0 : self->spent[i].count;
        all.ns += self->alone[i] ? 0 : self->spent[i].ns;
    }
    return all.count > 0 ? all.ns / (double)all.count : (double)NAN;
}

void bt_run_schedule_left(const bt_run_schedule *self, int64_t last, bt_run_left *out)
{
    const double usual = mean_of_all(self);
    *out = (bt_run_left){.known = true};
    bt_run_schedule_count(self, &out->wanted, &out->open);
    for (int64_t i = 0; i < self->case_count; ++i) {
        const int64_t open = count_open(self, i);
        const bool continues = open > 0 && !self->alone[i] && last > self->wanted[i];
        const int64_t more = continues ? (last - self->wanted[i]) * systems_of(self, i) : 0;
        double mean = bt_run_schedule_mean_ns(self, i);
        if (open > 0) {
            out->known = out->known && !isnan(mean);
            mean = isnan(mean) ? usual : mean;
            out->left_ns += (double)open * mean;
            out->left_most_ns += (double)(open + more) * mean;
        }
    }
}

void bt_run_schedule_logs(const bt_run_schedule *self, int64_t case_index, int64_t system,
                          double *logs)
{
    for (int64_t i = 0; i < self->rounds_max; ++i) {
        const bt_run_schedule_cell *cell = cell_of(self, case_index, system, i);
        const bool timed = cell->state == BT_ROUND_KEPT && cell->time_ns > 0;
        logs[i] = timed ? log(cell->time_ns) : (double)NAN;
    }
}

// harness/report/ranks.c - training on several ranks: speedup and cost
//
// One row per training case of runs in which some case has several ranks; a column is shown if some
// row has a value. "efficiency" is the rate divided by N times that of one rank on the same work in
// the same run; "transfer" is the time of the sent bytes at the best bandwidth of a collective with
// as many ranks in the same run; "bound" is what hiding all communication would reach. Results come
// first, so that a phone shows them without scrolling; settings and memory follow.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

typedef struct ranks_row {
    const report_case *item; // borrowed
    double ranks, tokens;
    bt_text mesh;
    bool take_turns;      // more ranks than processors: their speed says nothing about the mesh
    double bucket_mb;     // 0: no ranks reduce gradients
    const char *sharding; // in the arena; "" if unknown, or if no ranks reduce gradients
    const char *work;     // the settings without ranks and lengths, as JSON
} ranks_row;

typedef struct ranks_table {
    const report_set *set;
    ranks_row *rows; // [count]
    int64_t count;
    bool several; // some row has more than one rank
    bt_arena arena;
} ranks_table;

// ---- rows ---------------------------------------------------------------------------------------

// Settings that must be equal for a row of one rank to be the reference of one of several.
static bt_status keep_work(const cJSON *train, bt_arena *arena, const char **out)
{
    static const char *const own[] = {"mesh",          "steps",      "tokens_per_step",
                                      "profile_steps", "checkpoint", "warmup_timing_steps"};
    bt_str text = {0};
    cJSON *copy = cJSON_Duplicate(train, true);
    BT_FAIL_IF(!copy, BT_STATUS_OUT_OF_MEMORY, "host memory for the report");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(copy, own[i]);
    }
    bt_json_write(copy, &text);
    cJSON_Delete(copy);
    return bt_keep_str(arena, &text, out);
}

// Whether ranks on the CPU are more than the processors that they might use.
static bool take_turns(const bt_store_run *run, double ranks)
{
    const char *usable = bt_fact_of(&run->info.env, "cpu.usable");
    const double processors = usable ? strtod(usable, NULL) : 0;
    return !bt_fact_of(&run->info.env, "gpu.name") && processors > 0 && ranks > processors;
}

// Our own builds shard as planned; a comparison of builds names them itself. A peer, of which the
// schedule knows no version, may not: PyTorch's DistributedDataParallel does not shard.
static bool shards_as_planned(const report_case *item)
{
    const bt_store_schedule *schedule = &item->run->schedule;
    bool is_build = strcmp(item->round->what.system, "blutrain") == 0;
    BT_EACH(const bt_store_system, system, schedule->systems, schedule->system_count) {
        is_build = is_build || (strcmp(item->round->what.system, system->name) == 0 &&
                                system->build.version[0] != '\0');
    }
    return is_build;
}

static bt_status add_row(ranks_table *table, const report_case *item)
{
    BT_SCOPED(bt_json_doc) axes = {0};
    const char *json = item->round->what.axes_json;
    BT_TRY(bt_json_parse("axes", json, strlen(json), &axes));
    const cJSON *train = bt_json_get(axes.root, "train"), *mesh = bt_json_get(train, "mesh");
    const bt_plan_mesh degrees = bt_plan_mesh_of(train);
    const double ranks = (double)degrees.ranks;
    const bool reduces = degrees.data * degrees.context > 1; // tensor parallel ranks alone do not
    ranks_row *row = &table->rows[table->count++];
    *row = (ranks_row){.item = item,
                       .ranks = ranks > 1 ? ranks : 1,
                       .mesh = bt_plan_mesh_text(train),
                       .take_turns = take_turns(item->run, ranks),
                       .bucket_mb = reduces ? bt_json_number_of(mesh, "bucket_mb") : 0,
                       .tokens = bt_json_number_of(train, "tokens_per_step")};
    table->several = table->several || ranks > 1;
    const char *sharding =
        reduces && shards_as_planned(item) ? bt_json_text_of(mesh, "sharding") : "";
    BT_TRY(bt_keep(&table->arena, sharding, &row->sharding));
    return keep_work(train, &table->arena, &row->work);
}

static bt_status read_rows(const report_set *set, ranks_table *out)
{
    *out = (ranks_table){.set = set};
    BT_TRY(BT_ARENA_ARRAY(&out->arena, set->case_count, &out->rows));
    for (int64_t i = 0; i < set->case_count; i++) {
        if (strcmp(set->cases[i].round->what.kind, "train") == 0) {
            BT_TRY(add_row(out, &set->cases[i]));
        }
    }
    return BT_OK;
}

static double value_of(const ranks_row *row, bt_metric metric)
{
    const bt_metric_value *value = &row->item->summary.metrics[metric];
    return value->count > 0 ? value->value : (double)NAN;
}

// The same work on one rank: if possible with as many tokens per rank.
static const ranks_row *alone_of(const ranks_table *table, const ranks_row *row)
{
    const ranks_row *found = NULL;
    BT_EACH(const ranks_row, other, table->rows, table->count) {
        const bool fits =
            other->ranks < 2 && other->item->run == row->item->run &&
            strcmp(other->item->round->what.system, row->item->round->what.system) == 0 &&
            strcmp(other->work, row->work) == 0;
        const bool equal = fits && fabs(other->tokens * row->ranks - row->tokens) < 0.5;
        found = fits && (!found || equal) ? other : found;
    }
    return found;
}

static double ranks_of_collective(const bt_store_round *round)
{
    cJSON *axes = cJSON_Parse(round->what.axes_json);
    const double ranks = bt_json_number_of(bt_json_get(axes, "kernel"), "ranks");
    cJSON_Delete(axes);
    return ranks;
}

static double bus_rate(const ranks_table *table, const ranks_row *row)
{
    double best = (double)NAN;
    BT_EACH(const report_case, item, table->set->cases, table->set->case_count) {
        const bt_metric_value *rate = &item->summary.metrics[BT_METRIC_BANDWIDTH];
        if (item->run == row->item->run && strcmp(item->round->what.kind, "collective") == 0 &&
            rate->count > 0 && !(rate->value <= best) &&
            fabs(ranks_of_collective(item->round) - row->ranks) < 0.5) {
            best = rate->value;
        }
    }
    return best;
}

// ---- columns: the text of a cell, "" if empty ---------------------------------------------------

// As in the list of cases: a value that depends on rounds with a noise label.
static const char noise_mark[] = " \xe2\x96\xb3";

static bt_text value_text(bt_unit unit, double value)
{
    if (isnan(value)) {
        return (bt_text){""};
    }
    return bt_format_value(unit, value);
}

static double efficiency_of(const ranks_table *table, const ranks_row *row)
{
    const ranks_row *alone = row->ranks > 1 && !row->take_turns ? alone_of(table, row) : NULL;
    const double rate = alone ? value_of(alone, BT_METRIC_TOKENS_PER_S) : (double)NAN;
    return value_of(row, BT_METRIC_TOKENS_PER_S) / (row->ranks * rate);
}

static bool has_noise(const ranks_row *row) { return row && row->item->noisy > 0; }

// The rate if steps were shorter by their exposed communication; NaN: unknown.
static double bound_of(const ranks_row *row)
{
    const double step = value_of(row, BT_METRIC_STEP_TIME);
    const double hidden = step - value_of(row, BT_METRIC_EXPOSED);
    return hidden > 0 && !row->take_turns ? value_of(row, BT_METRIC_TOKENS_PER_S) * step / hidden
                                          : (double)NAN;
}

// Half the range of the rounds' rates as a fraction of their median; 0: no range.
static double spread_of(const ranks_row *row)
{
    double least = (double)NAN, most = (double)NAN;
    for (int64_t i = 0; i < row->item->round_count; i++) {
        const bt_metric_value *rate = &row->item->summaries[i].metrics[BT_METRIC_TOKENS_PER_S];
        if (bt_round_counts(row->item, i) && rate->count > 0) {
            least = rate->value >= least ? least : rate->value;
            most = rate->value <= most ? most : rate->value;
        }
    }
    return most > least ? 0.5 * (most - least) / value_of(row, BT_METRIC_TOKENS_PER_S) : 0;
}

typedef enum ranks_cell {
    RANKS,
    MESH,
    SHARDING,
    BUCKET,
    EFFICIENCY,
    SPREAD,
    BOUND,
    TRANSFER,
    METRIC
} ranks_cell;

static const struct {
    const char *title;
    ranks_cell cell;
    bt_metric metric; // of a METRIC
    const char *note; // explains it, and columns that come with it; NULL: none
} columns[] = {
    {"ranks", RANKS, BT_METRIC_COUNT, NULL},
    {"speed", METRIC, BT_METRIC_TOKENS_PER_S, "Speed: tokens of all ranks per second."},
    {"efficiency", EFFICIENCY, BT_METRIC_COUNT,
     "Efficiency: the rate divided by the number of ranks and by the rate of one rank."},
    {"detection", METRIC, BT_METRIC_RECOVERY_DETECT,
     "Detection, group, recovery and first step: time from a fault until it is detected, until "
     "all ranks are in a group again, until training continues, and until a step is done."},
    {"group", METRIC, BT_METRIC_RECOVERY_GROUP, NULL},
    {"recovery", METRIC, BT_METRIC_RECOVERY, NULL},
    {"first step", METRIC, BT_METRIC_RECOVERY_STEP, NULL},
    {"repeated", METRIC, BT_METRIC_RECOVERY_REPEATED,
     "Repeated and caught up: the steps that were done before the fault and had to be done again, "
     "because the restart loaded an earlier state; time from a fault until they are done."},
    {"caught up", METRIC, BT_METRIC_RECOVERY_CAUGHT_UP, NULL},
    {"step", METRIC, BT_METRIC_STEP_TIME, NULL},
    {"spread", SPREAD, BT_METRIC_COUNT,
     "Spread: half the range of the rates of the rounds, as a fraction of their median."},
    {"exposed", METRIC, BT_METRIC_EXPOSED,
     "Exposed: time of a step in which rank 0 computes nothing because it communicates or waits "
     "for other ranks; this includes the wait for a slower rank. The section 'One step of each "
     "rank' lists the times of the other ranks."},
    {"bound", BOUND, BT_METRIC_COUNT, "Bound: the speed if no communication were exposed."},
    {"transfer", TRANSFER, BT_METRIC_COUNT,
     "Transfer: time of the sent bytes at the best collective bandwidth of this run."},
    {"sent", METRIC, BT_METRIC_SENT,
     "Sent: bytes that a rank sends in a step for gradients, weights and lookups, computed from "
     "the "
     "plan; not those of tensor and context parallel layers."},
    {"mesh", MESH, BT_METRIC_COUNT,
     "Mesh: the ranks that share tokens (data), matrices (tensor) and sequences (context), and how "
     "they work if not by default (train.mesh of the suite)."},
    {"sharding", SHARDING, BT_METRIC_COUNT, NULL},
    {"bucket", BUCKET, BT_METRIC_COUNT, NULL},
    {"peak memory", METRIC, BT_METRIC_PEAK_ALLOCATED, NULL},
    {"planned memory", METRIC, BT_METRIC_PLANNED_MEMORY,
     "Planned memory: the peak computed from the plan."},
};

enum { COLUMNS = (int)BT_COUNT(columns) };

static bt_text cell_of(const ranks_table *table, const ranks_row *row, int column)
{
    static const bt_text nothing = {""};
    const bt_metric metric = columns[column].metric;
    double value = 0;
    bool noisy = false;
    switch (columns[column].cell) {
    case RANKS:
        return bt_textf("%.0f", row->ranks);
    case MESH:
        return row->mesh;
    case SHARDING:
        return bt_textf("%s", row->sharding);
    case BUCKET:
        return row->bucket_mb > 0 ? bt_textf("%.4g MiB", row->bucket_mb) : nothing;
    case EFFICIENCY:
        value = efficiency_of(table, row);
        noisy = has_noise(row) || has_noise(alone_of(table, row));
        return isnan(value) ? nothing : bt_textf("%.3f%s", value, noisy ? noise_mark : "");
    case SPREAD:
        value = spread_of(row);
        return value > 0 ? bt_textf("\xc2\xb1%.2g %%", 100 * value) : nothing;
    case BOUND:
        value = bound_of(row);
        return isnan(value) ? nothing
                            : bt_textf("%s%s", bt_format_value(BT_UNIT_TOKENS_PER_S, value).text,
                                       has_noise(row) ? noise_mark : "");
    case TRANSFER:
        return value_text(BT_UNIT_NS, value_of(row, BT_METRIC_SENT) / bus_rate(table, row) * 1e9);
    case METRIC:
        return value_text(bt_metric_info(metric)->unit, value_of(row, metric));
    }
    return nothing;
}

static bool is_shown(const ranks_table *table, int column)
{
    bool shown = false;
    for (int64_t i = 0; i < table->count && !shown; i++) {
        shown = cell_of(table, &table->rows[i], column).text[0] != '\0';
    }
    return shown;
}

// ---- the table on the page and in Markdown -----------------------------------------------------

// `notes`: of the columns shown.
static void fill(const ranks_table *from, bt_table *table, bt_str *notes)
{
    bool turns = false, noisy = false;
    bt_table_heads(table, "case");
    for (int c = 0; c < COLUMNS; c++) {
        if (!is_shown(from, c)) {
            continue;
        }
        bt_table_heads(table, ">%s", columns[c].title);
        if (columns[c].note) {
            bt_str_format(notes, "%s%s", notes->length_bytes ? " " : "", columns[c].note);
        }
    }
    for (int64_t i = 0; i < from->count; i++) {
        turns = turns || from->rows[i].take_turns;
        bt_table_cells(table, "%s", from->rows[i].item->label);
        for (int c = 0; c < COLUMNS; c++) {
            if (is_shown(from, c)) {
                const bt_text cell = cell_of(from, &from->rows[i], c);
                bt_table_cells(table, "%s", cell.text);
                noisy = noisy || strstr(cell.text, noise_mark);
            }
        }
    }
    if (turns) {
        bt_str_append(notes,
                      " Cases with more ranks than processors have no efficiency and no bound: "
                      "their ranks take turns.");
    }
    if (noisy) {
        bt_str_format(notes,
                      "%s: a round of the case, or of one rank, has a noise label, such as that of "
                      "a loaded machine; an efficiency above 1 may come from that.",
                      noise_mark);
    }
}

static bt_status write(const report_set *set, bool markdown, bt_str *out)
{
    ranks_table from;
    bt_table table = {.name = {"ranks"}};
    BT_SCOPED(bt_str) notes = {0};
    bt_status status = read_rows(set, &from);
    if (status == BT_OK && from.several) {
        fill(&from, &table, &notes);
        bt_str_format(out,
                      markdown
                          ? "\n## Several ranks\n\n%s\n\n"
                          : "<section id=ranks><h2>Several ranks</h2>\n<p class=muted>%s</p>\n",
                      bt_str_text(&notes));
        if (markdown) {
            bt_table_markdown(&table, out);
        } else {
            bt_table_html(&table, out);
            bt_str_append(out, "</section>\n");
        }
        status = bt_str_status(&notes);
    }
    bt_arena_release(&from.arena);
    return status;
}

bt_status bt_page_ranks(const report_set *set, bt_str *out) { return write(set, false, out); }

bt_status bt_markdown_ranks(const report_set *set, bt_str *out) { return write(set, true, out); }

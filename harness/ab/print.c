// harness/ab/print.c - a comparison as a table, and as JSON
#include <inttypes.h>
#include <math.h>

#include "framework/base/scoped.h"
#include "harness/ab/ab.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

enum { SHORT_COMMIT = 10 };

static bt_unit unit_of(bt_gate_metric metric)
{
    return bt_metric_info(bt_gate_metric_info(metric)->metric)->unit;
}

// ---- text --------------------------------------------------------------------------------------

// "base  9f3c2d1e07, Release, GNU 12.2.0", for each system.
static bt_status print_systems(const bt_store_run *run, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "|");
    BT_EACH(const bt_store_system, system, run->schedule.systems, run->schedule.system_count) {
        const bt_store_build *build = &system->build;
        BT_SCOPED(bt_str) text = {0};
        if (*build->git_commit) {
            bt_str_format(&text, "%.*s%s, ", SHORT_COMMIT, build->git_commit,
                          *build->git_diff ? " and changes" : "");
        }
        if (*build->version) {
            bt_str_format(&text, "%s, %s, build %.8s", build->type, build->compiler, build->digest);
        } else {
            bt_str_append(&text, system->program);
        }
        if (system->inject_slowdown > 0) {
            bt_str_format(&text, ", made slower by %g %%", 100 * system->inject_slowdown);
        }
        bt_table_cells(&table, "%s|%s", system->name, bt_str_text(&text));
    }
    return bt_table_print(&table, 0, out);
}

// Both values, their ratio and its interval; omits missing ones.
static void add_values(const bt_gate_item *item, bt_table *table)
{
    const bt_gate_verdict *verdict = &item->verdict;
    bool timed = item->metric < BT_GATE_METRIC_COUNT && item->metric != BT_GATE_LOSS;
    if (timed) {
        bt_table_number(table, unit_of(item->metric), verdict->base);
        bt_table_number(table, unit_of(item->metric), verdict->candidate);
    } else {
        bt_table_cells(table, "|");
    }
    bt_table_cells(table, "%s|%s",
                   isnan(verdict->ratio) ? "" : bt_textf("%.3f", verdict->ratio).text,
                   isnan(verdict->ratio) || isnan(verdict->low)
                       ? ""
                       : bt_textf("[%.3f, %.3f]", verdict->low, verdict->high).text);
}

static bt_status print_table(const bt_gate_result *result, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "case||>base|>candidate|>candidate/base|95 %%|>pairs|verdict");
    bt_table_fit(&table, result->request.columns, "pairs");
    BT_EACH(const bt_gate_item, item, result->items, result->count) {
        bool metric = item->metric < BT_GATE_METRIC_COUNT;
        bt_table_cells(&table, "%s|%s", item->subject,
                       metric ? bt_gate_metric_info(item->metric)->words : "");
        add_values(item, &table);
        bt_table_cells(&table, "%lld|%s%s", (long long)item->verdict.rounds,
                       bt_gate_word_name(item->verdict.word),
                       item->excused ? " (allowed by policy)" : "");
    }
    return bt_table_print(&table, 0, out);
}

// For verdicts other than SAME: how much, and what else changed.
static void print_findings(const bt_gate_result *result, bt_str *out)
{
    BT_EACH(const bt_gate_item, item, result->items, result->count) {
        if (item->verdict.word == BT_GATE_SAME && !item->clocks_differ) {
            continue;
        }
        bt_str_format(out, "\n%s  %s   %s\n", bt_gate_word_name(item->verdict.word), item->subject,
                      item->sentence);
        if (*item->changes) {
            bt_str_format(out, "      %s\n", item->changes);
        }
    }
}

bt_status bt_ab_text(const bt_gate_result *result, const char *report, bt_str *out)
{
    const bt_store_run *run = result->request.run;
    size_t start = out->length_bytes;
    bt_str_format(out, "run %" PRId64 " of %s, order of rounds from seed %" PRIu64 "\n", run->id,
                  run->info.suite.name, run->schedule.seed);
    BT_TRY(print_systems(run, out));
    bt_str_append(out, "\n");
    BT_TRY(print_table(result, out));
    print_findings(result, out);
    bt_str_append(out, "\ncandidate/base: from pairs of rounds; below 1 the candidate takes less. "
                       "It may differ from the quotient of the two medians\n");
    bt_gate_notes(result, out);
    bt_str_format(out, "%s: ", bt_format_items(result->case_count, "case").text);
    bt_gate_counts(result, out);
    bt_str_format(out, "   report %s   exit %d\n", report, result->exit_code);
    bt_str_format(out, "next           bt-bench show %" PRId64 "%s\n", run->id,
                  result->request.database ? result->request.database : "");
    bt_wrap_from(out, start, result->request.columns);
    return bt_text_end(out, start);
}

// ---- JSON --------------------------------------------------------------------------------------

static void write_system(const bt_store_system *system, bt_json_writer *json)
{
    const bt_store_build *build = &system->build;
    BT_JSON_OBJECT(json, NULL, BT_OF(system, name), BT_OF(system, program),
                   BT_KV("build", build->digest), BT_OF(build, version), BT_OF(build, git_commit),
                   BT_OF(build, git_diff), BT_OF(build, compiler), BT_OF(build, flags),
                   BT_OF(build, type), BT_OF(build, cuda));
}

bt_status bt_ab_json(const bt_gate_result *result, bt_str *out)
{
    const bt_store_schedule *schedule = &result->request.run->schedule;
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("run", result->request.run->id), BT_KV("seed", (int64_t)schedule->seed));
    BT_JSON_LIST(&json, "systems", i, schedule->system_count) {
        write_system(&schedule->systems[i], &json);
    }
    bt_str_append(out, ",\"gate\":");
    BT_TRY(bt_gate_json(result, out));
    return bt_json_writer_end(&json, '}');
}

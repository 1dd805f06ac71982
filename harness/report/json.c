// harness/report/json.c - the report as JSON: suites/schema/report.schema.json, one entry per round
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/text/record_json.h"

static void json_steps(bt_json_writer *json, const bt_store_round *round)
{
    json->indent = 0; // one step per line would make most of the file white space
    static const char *const columns[] = {"step",
                                          "loss",
                                          "loss_bits",
                                          "grad_norm",
                                          "lr",
                                          "tokens",
                                          "host_ns",
                                          "device_ns",
                                          "peak_allocated_bytes",
                                          "reserved_bytes",
                                          "resident_bytes",
                                          "warmup",
                                          "profiled"};
    BT_JSON_LIST(json, "step_columns", i, (int64_t)(sizeof columns / sizeof columns[0])) {
        bt_json_writer_text(json, NULL, columns[i]);
    }
    BT_JSON_LIST(json, "step_rows", i, round->step_count) {
        const bt_store_step *step = &round->steps[i];
        char bits_text[16];
        uint32_t bits;
        memcpy(&bits, &step->loss, sizeof bits);
        (void)snprintf(bits_text, sizeof bits_text, "%08x", bits);
        bt_json_writer_open(json, NULL, '[');
        bt_json_writer_integer(json, NULL, step->step);
        bt_json_writer_rounded(json, NULL, (double)step->loss, 9);
        bt_json_writer_text(json, NULL, bits_text);
        bt_json_writer_rounded(json, NULL, (double)step->grad_norm, 9);
        BT_JSON(json, BT_KV(NULL, step->lr), BT_KV(NULL, step->tokens), BT_KV(NULL, step->host_ns),
                BT_KV(NULL, step->device_ns), BT_KV(NULL, step->peak_allocated_bytes),
                BT_KV(NULL, step->reserved_bytes), BT_KV(NULL, step->resident_bytes),
                BT_FLAG(NULL, step->warmup), BT_FLAG(NULL, step->profiled));
        bt_json_writer_close(json, ']');
    }
    json->indent = 1;
}

static void json_evals(bt_json_writer *json, const bt_store_round *round)
{
    BT_JSON_LIST(json, "evals", i, round->eval_count) {
        BT_JSON_OBJECT(json, NULL, BT_OF(&round->evals[i], step), BT_OF(&round->evals[i], loss),
                       BT_OF(&round->evals[i], tokens), BT_OF(&round->evals[i], host_ns));
    }
}

static bt_status json_ranges(bt_json_writer *json, const bt_store_round *round)
{
    BT_SCOPED(bt_arena) arena = {0};
    range_tree tree;
    BT_TRY(bt_range_tree_make(round, &arena, &tree));
    BT_JSON_LIST(json, "ranges", i, tree.count) {
        BT_JSON_OBJECT(json, NULL, BT_OF(&tree.nodes[i], path), BT_OF(&tree.nodes[i], time_ns),
                       BT_KV("own_ns", tree.nodes[i].rest_ns), BT_OF(&tree.nodes[i], calls),
                       BT_KV("clock", tree.on_device ? "device" : "host"));
    }
    return BT_OK;
}

static bt_status json_case(bt_json_writer *json, const bt_store_round *round)
{
    BT_TRY(bt_report_json_case(json, round));
    bt_json_writer_integer(json, "ordinal", round->ordinal);
    bt_fields_write_list(json, "kernels", BT_FIELDS_KERNEL, round->kernels, round->kernel_count);
    bt_fields_write_list(json, "launches", BT_FIELDS_LAUNCH, round->launches, round->launch_count);
    bt_fields_write_list(json, "timelines", BT_FIELDS_TIMELINE, round->timelines,
                         round->timeline_count);
    bt_fields_write_list(json, "groups", BT_FIELDS_GROUP, round->groups, round->group_count);
    bt_fields_write_list(json, "group_calls", BT_FIELDS_GROUP_CALLS, round->group_calls,
                         round->group_calls_count);
    json_evals(json, round);
    bt_fields_write_list(json, "scores", BT_FIELDS_SCORE, round->scores, round->score_count);
    BT_TRY(json_ranges(json, round));
    json_steps(json, round);
    bt_report_json_telemetry(json, round);
    return BT_OK;
}

// Verdicts with their rules; a rule is a JSON object of its own.
static void json_verdicts(bt_json_writer *json, const bt_store_run *run)
{
    BT_JSON_LIST(json, "verdicts", i, run->verdict_count) {
        const bt_store_verdict *verdict = &run->verdicts[i];
        BT_JSON_OBJECT(json, NULL, BT_OF(verdict, kind), BT_OF(verdict, subject),
                       BT_OF(verdict, metric), BT_OF(verdict, verdict), BT_OF(verdict, ratio),
                       BT_OF(verdict, low), BT_OF(verdict, high), BT_OF(verdict, rounds),
                       BT_OF(verdict, reason), BT_OF(verdict, rule_json));
    }
}

void bt_json_write_setting(bt_json_writer *json, const bt_store_run *run)
{
    const bt_store_build *build = &run->info.build;
    BT_JSON_OBJECT(json, "build", BT_OF(build, version), BT_OF(build, git_commit),
                   BT_OF(build, git_diff), BT_OF(build, compiler), BT_OF(build, flags),
                   BT_OF(build, type), BT_OF(build, cuda));
    bt_fields_write_list(json, "environment", BT_FIELDS_FACT, run->info.env.facts,
                         run->info.env.fact_count);
}

static bt_status json_run(bt_json_writer *json, const bt_store_run *run)
{
    bt_report_json_run(json, run);
    bt_json_writer_text(json, "plan_json", run->info.suite.plan_json);
    bt_json_write_setting(json, run);
    json_verdicts(json, run);
    BT_JSON_LIST(json, "cases", i, run->round_count) {
        bt_json_writer_open(json, NULL, '{');
        BT_TRY(json_case(json, &run->rounds[i]));
        bt_json_writer_close(json, '}');
    }
    return BT_OK;
}

bt_status bt_json_write_report(const report_set *set, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", "bt-bench report 1");
    if (set->draft) {
        bt_json_writer_text(&json, "draft", set->draft);
    }
    BT_JSON_LIST(&json, "runs", i, set->run_count) {
        bt_json_writer_open(&json, NULL, '{');
        BT_TRY(json_run(&json, &set->runs[i]));
        bt_json_writer_close(&json, '}');
    }
    return bt_json_writer_end(&json, '}');
}

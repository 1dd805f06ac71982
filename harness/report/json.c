// harness/report/json.c - the report as JSON: suites/schema/report.schema.json, an entry a round
#include <stdio.h>
#include <string.h>

#include "harness/report/internal.h"

static void json_steps(bt_json_writer *json, const bt_store_round *round)
{
    json->indent = 0; // a step a line would make most of the file white space
    bt_json_writer_open(json, "step_columns", '[');
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
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        bt_json_writer_text(json, NULL, columns[i]);
    }
    bt_json_writer_close(json, ']');
    bt_json_writer_open(json, "step_rows", '[');
    for (int64_t i = 0; i < round->step_count; i++) {
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
        bt_json_writer_real(json, NULL, step->lr);
        bt_json_writer_integer(json, NULL, step->tokens);
        bt_json_writer_integer(json, NULL, step->host_ns);
        bt_json_writer_integer(json, NULL, step->device_ns);
        bt_json_writer_integer(json, NULL, step->peak_allocated_bytes);
        bt_json_writer_integer(json, NULL, step->reserved_bytes);
        bt_json_writer_integer(json, NULL, step->resident_bytes);
        bt_json_writer_bool(json, NULL, step->warmup);
        bt_json_writer_bool(json, NULL, step->profiled);
        bt_json_writer_close(json, ']');
    }
    bt_json_writer_close(json, ']');
    json->indent = 1;
}

static void json_scores(bt_json_writer *json, const bt_store_round *round)
{
    bt_json_writer_open(json, "scores", '[');
    for (int64_t i = 0; i < round->score_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_integer(json, "step", round->scores[i].step);
        bt_json_writer_integer(json, "questions", round->scores[i].questions);
        bt_json_writer_integer(json, "correct", round->scores[i].correct);
        bt_json_writer_integer(json, "normalised_correct", round->scores[i].normalised_correct);
        bt_json_writer_integer(json, "host_ns", round->scores[i].host_ns);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
}

static void json_faults(bt_json_writer *json, const bt_store_round *round)
{
    bt_json_writer_open(json, "faults", '[');
    for (int64_t i = 0; i < round->fault_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_integer(json, "step", round->faults[i].step);
        bt_json_writer_text(json, "kind", round->faults[i].kind);
        bt_json_writer_text(json, "action", round->faults[i].action);
        bt_json_writer_text(json, "message", round->faults[i].message);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
}

static void json_evals(bt_json_writer *json, const bt_store_round *round)
{
    bt_json_writer_open(json, "evals", '[');
    for (int64_t i = 0; i < round->eval_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_integer(json, "step", round->evals[i].step);
        bt_json_writer_real(json, "loss", round->evals[i].loss);
        bt_json_writer_integer(json, "tokens", round->evals[i].tokens);
        bt_json_writer_integer(json, "host_ns", round->evals[i].host_ns);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
}

static bt_status json_ranges(bt_json_writer *json, const bt_store_round *round)
{
    bt_arena arena = {0};
    range_tree tree;
    bt_status status = bt_range_tree_make(round, &arena, &tree);
    bt_json_writer_open(json, "ranges", '[');
    for (int64_t i = 0; status == BT_OK && i < tree.count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "path", tree.nodes[i].path);
        bt_json_writer_real(json, "time_ns", tree.nodes[i].time_ns);
        bt_json_writer_real(json, "own_ns", tree.nodes[i].rest_ns);
        bt_json_writer_real(json, "calls", tree.nodes[i].calls);
        bt_json_writer_text(json, "clock", tree.on_device ? "device" : "host");
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
    bt_arena_release(&arena);
    return status;
}

static bt_status json_case(bt_json_writer *json, const bt_store_round *round)
{
    BT_TRY(bt_report_json_case(json, round));
    bt_json_writer_integer(json, "ordinal", round->ordinal);
    bt_json_writer_open(json, "kernels", '[');
    for (int64_t i = 0; i < round->kernel_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "op", round->kernels[i].op);
        bt_json_writer_text(json, "kernel", round->kernels[i].kernel);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
    json_faults(json, round);
    json_evals(json, round);
    json_scores(json, round);
    BT_TRY(json_ranges(json, round));
    json_steps(json, round);
    bt_report_json_telemetry(json, round);
    return BT_OK;
}

// Verdicts with the rules behind them, which are JSON of their own.
static void json_verdicts(bt_json_writer *json, const bt_store_run *run)
{
    bt_json_writer_open(json, "verdicts", '[');
    for (int64_t i = 0; i < run->verdict_count; i++) {
        const bt_store_verdict *verdict = &run->verdicts[i];
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "kind", verdict->kind);
        bt_json_writer_text(json, "subject", verdict->subject);
        bt_json_writer_text(json, "metric", verdict->metric);
        bt_json_writer_text(json, "verdict", verdict->verdict);
        bt_json_writer_real(json, "ratio", verdict->ratio);
        bt_json_writer_real(json, "low", verdict->low);
        bt_json_writer_real(json, "high", verdict->high);
        bt_json_writer_integer(json, "rounds", verdict->rounds);
        bt_json_writer_text(json, "reason", verdict->reason);
        bt_json_writer_text(json, "rule_json", verdict->rule_json);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
}

void bt_json_write_setting(bt_json_writer *json, const bt_store_run *run)
{
    const bt_store_build *build = &run->info.build;
    bt_json_writer_open(json, "build", '{');
    bt_json_writer_text(json, "version", build->version);
    bt_json_writer_text(json, "git_commit", build->git_commit);
    bt_json_writer_text(json, "git_diff", build->git_diff);
    bt_json_writer_text(json, "compiler", build->compiler);
    bt_json_writer_text(json, "flags", build->flags);
    bt_json_writer_text(json, "type", build->type);
    bt_json_writer_text(json, "cuda", build->cuda);
    bt_json_writer_close(json, '}');
    bt_json_writer_open(json, "environment", '[');
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "key", run->info.env.facts[i].key);
        bt_json_writer_text(json, "value", run->info.env.facts[i].value);
        bt_json_writer_text(json, "level", bt_fact_level_name(run->info.env.facts[i].level));
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
}

static bt_status json_run(bt_json_writer *json, const bt_store_run *run)
{
    bt_report_json_run(json, run);
    bt_json_writer_text(json, "plan_json", run->info.suite.plan_json);
    bt_json_write_setting(json, run);
    json_verdicts(json, run);
    bt_json_writer_open(json, "cases", '[');
    for (int64_t i = 0; i < run->round_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        BT_TRY(json_case(json, &run->rounds[i]));
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
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
    bt_json_writer_open(&json, "runs", '[');
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_json_writer_open(&json, NULL, '{');
        BT_TRY(json_run(&json, &set->runs[i]));
        bt_json_writer_close(&json, '}');
    }
    bt_json_writer_close(&json, ']');
    return bt_json_writer_end(&json, '}');
}

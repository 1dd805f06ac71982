// harness/report/write.c - the report as a file, as Markdown, and as JSON
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "harness/report/internal.h"
#include "harness/report/report.h"

// Text of a Markdown table's cell: what would end the cell or begin markup is escaped.
static void markdown_text(bt_str *out, const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            bt_str_append(out, " ");
        } else if (strchr("\\`*_[]<>|#&~!", byte)) {
            bt_str_format(out, "\\%c", byte);
        } else {
            bt_str_append_bytes(out, text, 1);
        }
    }
}

static void markdown_cell(bt_str *out, bt_unit unit, const bt_metric_value *value)
{
    bt_text number, interval;
    bt_format_interval(unit, value->value, value->low, value->high, &number, &interval);
    bt_str_format(out, " %s%s%s |", number.text, interval.text[0] ? " " : "", interval.text);
}

static void markdown_case(const report_set *set, const report_case *item, bt_str *out)
{
    const bt_metric_value *metrics = item->summary.metrics;
    bt_str_append(out, "| ");
    markdown_text(out, item->label);
    bt_str_format(out, " | %s |", bt_run_status_name(item->round->status));
    for (int c = 0; c < bt_report_column_count; c++) {
        const report_column *column = &bt_report_columns[c];
        if (bt_report_column_shown(set, column)) {
            markdown_cell(out, bt_metric_info(column->metric)->unit, &metrics[column->metric]);
        }
    }
    bt_str_append(out, " ");
    markdown_text(out, item->round->params_digest[0] ? item->round->params_digest : "-");
    bt_str_append(out, " |\n");
}

static bt_status markdown_ranges(const report_case *item, bt_str *out)
{
    bt_arena arena = {0};
    range_tree tree;
    bt_status status = bt_range_tree_make(item->round, &arena, &tree);
    if (status == BT_OK && tree.count > 0) {
        bt_str_append(out, "\n## Time of a step: ");
        markdown_text(out, item->label);
        bt_str_format(out, "\n\nMean of %lld profiled steps, %s time.\n\n", (long long)tree.steps,
                      tree.on_device ? "device" : "host");
        bt_str_append(out, "| range | time | share | calls |\n|---|--:|--:|--:|\n");
        for (int64_t i = 0; i < tree.count; i++) {
            const range_node *node = &tree.nodes[i];
            bt_str_append(out, "| ");
            markdown_text(out, node->path);
            bt_str_format(out, " | %s | %.1f %% | %.4g |\n",
                          bt_format_value(BT_UNIT_NS, node->time_ns).text,
                          100.0 * node->time_ns / tree.total_ns, node->calls);
        }
    }
    bt_arena_release(&arena);
    return status;
}

static void markdown_facts(const bt_store_run *run, bt_str *out)
{
    bt_str_format(out, "\n## Environment of run %lld\n\n| fact | value | weight |\n|---|---|---|\n",
                  (long long)run->id);
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        const bt_store_fact *fact = &run->info.env.facts[i];
        bt_str_append(out, "| ");
        markdown_text(out, fact->key);
        bt_str_append(out, " | ");
        markdown_text(out, fact->value);
        bt_str_format(out, " | %s |\n", bt_fact_level_name(fact->level));
    }
}

static bt_status markdown_set(const report_set *set, bt_str *out)
{
    bt_str sentence = {0};
    bt_report_headline(set, &sentence);
    bt_str_append(out, "# ");
    markdown_text(out, bt_str_text(&sentence));
    bt_status status = bt_str_status(&sentence);
    bt_str_release(&sentence);
    BT_TRY(status);
    bt_str rule = {0};
    bt_str_append(out, "\n\n| case | status |");
    for (int c = 0; c < bt_report_column_count; c++) {
        if (bt_report_column_shown(set, &bt_report_columns[c])) {
            bt_str_format(out, " %s |", bt_report_columns[c].title);
            bt_str_append(&rule, "--:|");
        }
    }
    bt_str_format(out, " parameters |\n|---|---|%s---|\n", bt_str_text(&rule));
    status = bt_str_status(&rule);
    bt_str_release(&rule);
    BT_TRY(status);
    for (int64_t i = 0; i < set->case_count; i++) {
        markdown_case(set, &set->cases[i], out);
    }
    bt_str_append(out, "\nIntervals: 95 %, of the median over the timed steps of one round.\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        BT_TRY(markdown_ranges(&set->cases[i], out));
    }
    for (int64_t i = 0; i < set->run_count; i++) {
        markdown_facts(&set->runs[i], out);
    }
    return bt_str_status(out);
}

bt_status bt_report_markdown(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    report_set set;
    BT_TRY(bt_report_set_read(store, runs, count, &set));
    bt_status status = markdown_set(&set, out);
    bt_report_set_release(&set);
    return status;
}

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
    bt_json_writer_open(json, "kernels", '[');
    for (int64_t i = 0; i < round->kernel_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "op", round->kernels[i].op);
        bt_json_writer_text(json, "kernel", round->kernels[i].kernel);
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
    json_evals(json, round);
    BT_TRY(json_ranges(json, round));
    json_steps(json, round);
    bt_report_json_telemetry(json, round);
    return BT_OK;
}

static bt_status json_run(bt_json_writer *json, const bt_store_run *run)
{
    const bt_store_build *build = &run->info.build;
    bt_report_json_run(json, run);
    bt_json_writer_text(json, "plan_json", run->info.suite.plan_json);
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
    bt_json_writer_open(json, "cases", '[');
    for (int64_t i = 0; i < run->round_count; i++) {
        bt_json_writer_open(json, NULL, '{');
        BT_TRY(json_case(json, &run->rounds[i]));
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
    return BT_OK;
}

static bt_status json_set(const report_set *set, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", "bt-bench report 1");
    bt_json_writer_open(&json, "runs", '[');
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_json_writer_open(&json, NULL, '{');
        BT_TRY(json_run(&json, &set->runs[i]));
        bt_json_writer_close(&json, '}');
    }
    bt_json_writer_close(&json, ']');
    bt_json_writer_close(&json, '}');
    bt_str_append(out, "\n");
    return bt_str_status(out);
}

bt_status bt_report_json(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    report_set set;
    BT_TRY(bt_report_set_read(store, runs, count, &set));
    bt_status status = json_set(&set, out);
    bt_report_set_release(&set);
    return status;
}

static const struct {
    const char *ending;
    bt_status (*write)(bt_store *store, const int64_t *runs, int64_t count, bt_str *out);
} formats[] = {{".html", bt_report_html}, {".md", bt_report_markdown}, {".json", bt_report_json}};

bt_status bt_report_write(bt_store *store, const int64_t *runs, int64_t count, const char *path)
{
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(ending, formats[i].ending) != 0) {
            continue;
        }
        bt_str text = {0};
        bt_status status = formats[i].write(store, runs, count, &text);
        if (status == BT_OK) {
            status = bt_file_write(path, bt_str_text(&text), text.length_bytes);
        }
        bt_str_release(&text);
        return status;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "report '%s': the ending says the format; it must be .html, .md or .json",
                    path);
}

// harness/report/markdown.c - the report as Markdown: tables of cases, ratios, ranges, environment
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"

static void add_case(const report_set *set, const report_case *item, bt_table *table)
{
    bt_table_cells(table, "%s|%s", item->label, bt_run_status_name(item->round->status));
    BT_EACH(const report_column, column, bt_report_columns, bt_report_column_count) {
        const bt_metric_value *value = &item->summary.metrics[column->metric];
        if (bt_report_column_shown(set, column)) {
            bt_table_interval(table, bt_metric_info(column->metric)->unit, value->value, value->low,
                              value->high);
        }
    }
    bt_table_cells(table, "%lld", (long long)bt_report_counted(item));
    bt_table_cells(table, "%s", item->round->params_digest[0] ? item->round->params_digest : "-");
}

static bt_status markdown_ranges(const report_case *item, bt_str *out)
{
    BT_SCOPED(bt_arena) arena = {0};
    range_tree tree;
    bt_table table = {0};
    BT_TRY(bt_range_tree_make(item->round, &arena, &tree));
    if (tree.count > 0) {
        bt_markdown(out, "\n## Time of a step: %s\n\nMean of %s, %s time.\n\n", item->label,
                    bt_format_items(tree.steps, "profiled step").text,
                    tree.on_device ? "device" : "host");
        bt_table_heads(&table, "range|>time|>fraction|>calls");
        BT_EACH(const range_node, node, tree.nodes, tree.count) {
            bt_table_cells(&table, "%s|%s|%.1f %%|%.4g", node->path,
                           bt_format_value(BT_UNIT_NS, node->time_ns).text,
                           100.0 * node->time_ns / tree.total_ns, node->calls);
        }
        bt_table_markdown(&table, out);
    }
    return BT_OK;
}

void bt_markdown_facts(const bt_store_run *run, bt_fact_level up_to, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "fact|value|weight");
    BT_EACH(const bt_store_fact, fact, run->info.env.facts, run->info.env.fact_count) {
        if (fact->level <= up_to) {
            bt_table_cells(&table, "%s|%s|%s", fact->key, fact->value,
                           bt_fact_level_name(fact->level));
        }
    }
    bt_table_markdown(&table, out);
}

void bt_markdown_headline(const report_set *set, bt_str *out)
{
    BT_SCOPED(bt_str) sentence = {0};
    bt_report_headline(set, &sentence);
    bt_markdown(out, "# %s\n", bt_str_text(&sentence));
    if (bt_str_status(&sentence) != BT_OK) {
        out->status = bt_str_status(&sentence);
    }
}

// ---- ratios ------------------------------------------------------------------------------------

static void add_ratio(const ratio_row *row, bool paper, bt_table *table)
{
    const char *mark = paper && row->deviations[0] ? " *" : "";
    const char *between = row->reason[0] && row->repeated ? "; " : "";
    const char *repeated =
        row->repeated ? "not counted: another claim is about this measurement" : "";
    bt_table_cells(table, "%s%s%s%s%s%s", row->name, row->metric[0] ? " " : "", row->metric, mark,
                   paper && row->title[0] ? ": " : "", paper ? row->title : "");
    if (paper) {
        bt_table_cells(table, "%s", bt_format_ratio(row->mark).text);
    }
    bt_table_cells(table, "%s", bt_format_ratio(row->ratio).text);
    bt_table_cells(table, "%s|%s|%s%s%s", bt_format_ratio_interval(row).text, row->verdict,
                   row->reason, between, repeated);
}

static bool is_alike(const ratio_row *a, const ratio_row *b)
{
    return strcmp(a->verdict, b->verdict) == 0 && strcmp(a->reason, b->reason) == 0;
}

// The first of the list's rows without a ratio that is equal to row `index`, and of its group if
// `same_group`.
static bool is_first(const ratio_list *list, int64_t index, bool same_group)
{
    const ratio_row *row = &list->rest[index];
    for (int64_t i = 0; i < index; i++) {
        if (is_alike(&list->rest[i], row) &&
            (!same_group || strcmp(list->rest[i].group, row->group) == 0)) {
            return false;
        }
    }
    return true;
}

static int64_t count_alike(const ratio_list *list, const ratio_row *row, const char *group)
{
    int64_t count = 0;
    for (int64_t i = 0; i < list->rest_count; i++) {
        count +=
            is_alike(&list->rest[i], row) && (!group || strcmp(list->rest[i].group, group) == 0);
    }
    return count;
}

// Claims without a ratio: a line for each verdict and reason, with the number per experiment.
static void write_folded_claims(const ratio_list *list, bt_str *out)
{
    bt_str_append(out, list->rest_count > 0 ? "\nClaims without a ratio:\n\n" : "");
    for (int64_t i = 0; i < list->rest_count; i++) {
        const ratio_row *row = &list->rest[i];
        if (!is_first(list, i, false)) {
            continue;
        }
        bt_markdown(out, "- %s, %lld: %s", row->verdict, (long long)count_alike(list, row, NULL),
                    row->reason);
        const char *between = " (";
        for (int64_t j = i; j < list->rest_count; j++) {
            if (is_alike(&list->rest[j], row) && is_first(list, j, true)) {
                bt_str_append(out, between);
                bt_markdown(out, "%s: %lld", list->rest[j].group,
                            (long long)count_alike(list, row, list->rest[j].group));
                between = ", ";
            }
        }
        bt_str_append(out, ")\n");
    }
}

static void write_mark(const ratio_list *list, bt_str *out)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (list->rows[i].deviations[0]) {
            bt_str_append(out, "\n\\*: the case differs from the paper's, see 'Deviations'.\n");
            return;
        }
    }
}

static void ratio_list_table(const ratio_list *list, bt_str *out)
{
    bool paper = strcmp(list->kind, "replicate") == 0;
    bt_table table = {0};
    if (list->more_is_slower) {
        bt_markdown(out,
                    "\n## %s over %s\n\nTime of %s divided by that of %s: more than 1 is "
                    "slower.\n\n",
                    list->other, list->base, list->other, list->base);
    } else {
        bt_markdown(out,
                    "\n## %s and %s\n\nHow many times as fast %s is: more than 1 is faster than "
                    "%s.\n\n",
                    list->base, list->other, list->base, list->other);
    }
    bt_table_heads(&table, paper ? "claim|>paper" : "case");
    bt_table_heads(&table, ">ratio|>95 %%|verdict|why");
    for (int64_t i = 0; i < list->count; i++) {
        add_ratio(&list->rows[i], paper, &table);
    }
    for (int64_t i = 0; i < list->rest_count && !paper; i++) {
        add_ratio(&list->rest[i], paper, &table);
    }
    bt_table_markdown(&table, out);
    if (paper) {
        write_mark(list, out);
        write_folded_claims(list, out);
    }
}

void bt_markdown_ratios(const report_set *set, bt_str *out)
{
    for (int64_t i = 0; i < set->ratio_count; i++) {
        ratio_list_table(&set->ratios[i], out);
    }
}

// ---- the whole ---------------------------------------------------------------------------------

bt_status bt_markdown_cases(const report_set *set, bt_str *out)
{
    bt_table table = {0};
    bt_str_append(out, "\n");
    bt_table_heads(&table, "case|status");
    for (int c = 0; c < bt_report_column_count; c++) {
        if (bt_report_column_shown(set, &bt_report_columns[c])) {
            bt_table_heads(&table, ">%s", bt_report_columns[c].title);
        }
    }
    bt_table_heads(&table, ">rounds|parameters");
    for (int64_t i = 0; i < set->case_count; i++) {
        add_case(set, &set->cases[i], &table);
    }
    bt_table_markdown(&table, out);
    bt_str_append(out, "\nIntervals: 95 %, of the mean over the timed steps or samples of one "
                       "round, or of the median over the rounds if several count; none if there "
                       "are fewer than 6 independent values.\n");
    bt_outputs outputs = {0};
    for (int64_t i = 0; i < set->case_count; i++) {
        for (int64_t r = 0; r < set->cases[i].round_count; r++) {
            bt_outputs_note(&outputs, set->cases[i].rounds[r]);
        }
    }
    bt_str_append(out, outputs.count > 0 ? "\n" : "");
    bt_outputs_write(&outputs, "- ", out);
    return BT_OK;
}

bt_status bt_markdown_ranges(const report_set *set, bt_str *out)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        BT_TRY(markdown_ranges(&set->cases[i], out));
    }
    return BT_OK;
}

bt_status bt_markdown_write(const report_set *set, bt_str *out)
{
    bt_markdown_headline(set, out);
    BT_TRY(bt_markdown_cases(set, out));
    BT_TRY(bt_markdown_ranks(set, out));
    BT_TRY(bt_markdown_deviations(set, out));
    bt_markdown_ratios(set, out);
    bt_markdown_timelines(set, out);
    BT_TRY(bt_markdown_groups(set, out));
    BT_TRY(bt_markdown_ranges(set, out));
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_str_format(out, "\n## Environment of run %lld\n\n", (long long)set->runs[i].id);
        bt_markdown_facts(&set->runs[i], BT_FACT_INFO, out);
    }
    return bt_str_status(out);
}

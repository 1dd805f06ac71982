// harness/report/facts.c - plan, build, environment, kernels; with several runs first the
// differences
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/record/fields.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

// ---- what differs ------------------------------------------------------------------------------

typedef struct difference {
    const bt_compare_item *item; // of the first run in which it differs from the base
    const char **values;         // [run_count]
} difference;

typedef struct difference_list {
    difference *items; // owned
    int64_t count, capacity;
} difference_list;

static void difference_list_release(difference_list *list) { bt_mem_free(list->items); }

static bt_status find_difference(const report_set *set, bt_arena *arena, difference_list *list,
                                 const bt_compare_item *item, difference **out)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].item->key, item->key) == 0 &&
            strcmp(list->items[i].item->group, item->group) == 0) {
            *out = &list->items[i];
            return BT_OK;
        }
    }
    BT_TRY(BT_MEM_GROW(list->count + 1, &list->capacity, &list->items));
    *out = &list->items[list->count];
    **out = (difference){.item = item};
    BT_TRY(bt_arena_array(arena, (size_t)set->run_count, sizeof(char *), &(*out)->values));
    for (int64_t i = 0; i < set->run_count; i++) { // as in the first run, until found otherwise
        (*out)->values[i] = item->left;
    }
    list->count++;
    return BT_OK;
}

// Compares each run with the first, grouped by key.
static bt_status find_differences(const report_set *set, bt_arena *arena, difference_list *list,
                                  bool *any_hard)
{
    for (int64_t r = 1; r < set->run_count; r++) {
        const bt_compare_item *items = NULL;
        int64_t count = 0;
        bool hard = false;
        BT_TRY(bt_compare_facts(&set->runs[0], &set->runs[r], arena, &items, &count, &hard));
        for (int64_t i = 0; i < count; i++) {
            difference *found = NULL;
            BT_TRY(find_difference(set, arena, list, &items[i], &found));
            found->values[r] = items[i].right;
        }
        *any_hard = *any_hard || hard;
    }
    return BT_OK;
}

enum { COLUMNS_UP_TO = 4 };

// "580.159 runs 1, 2, 3" for each value, once.
static void add_distinct(const report_set *set, const difference *found, bt_table *table)
{
    bt_table_cells(table, "%s", "");
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=long");
    bt_str *out = bt_table_part(table, BT_CELL_MARKUP);
    for (int64_t i = 0; i < set->run_count; i++) {
        bool first = true;
        for (int64_t j = 0; j < i; j++) {
            first = first && strcmp(found->values[i], found->values[j]) != 0;
        }
        if (!first) {
            continue;
        }
        bt_html_text(out, found->values[i][0] ? found->values[i] : "-");
        int64_t alike = 0;
        for (int64_t j = i; j < set->run_count; j++) {
            alike += strcmp(found->values[i], found->values[j]) == 0;
        }
        bt_str_append(out, alike > 1 ? " <span class=muted>runs" : " <span class=muted>run");
        for (int64_t j = i; j < set->run_count; j++) {
            if (strcmp(found->values[i], found->values[j]) == 0) {
                bt_str_format(out, "%s %lld", j > i ? "," : "", (long long)set->runs[j].id);
            }
        }
        bt_str_append(out, "</span><br>");
    }
}

static void add_difference(const report_set *set, const difference *found, bt_table *table)
{
    const bt_compare_item *item = found->item;
    BT_SCOPED(bt_str) anchor = {0};
    bt_html_anchor(&anchor, "differs", item->group, item->key);
    bt_table_cells(table, "%s", item->key);
    bt_html(bt_table_part(table, BT_CELL_ROW), " id=\"%s\"", bt_str_text(&anchor));
    bt_str_format(bt_table_part(table, BT_CELL_LINK), "#%s", bt_str_text(&anchor));
    bt_table_cells(table, "%s", item->group);
    if (set->run_count > COLUMNS_UP_TO) {
        add_distinct(set, found, table);
    }
    for (int64_t i = 0; i < set->run_count && set->run_count <= COLUMNS_UP_TO; i++) {
        bt_table_cells(table, "%s", found->values[i][0] ? found->values[i] : "-");
    }
    bool fact = strcmp(item->group, "environment") == 0;
    bt_table_cells(table, "%s", fact ? bt_fact_level_name(item->level) : "");
}

static void write_differences(const report_set *set, const difference_list *list, bool hard,
                              bt_str *out)
{
    bt_table table = {.name = {"differs"}};
    if (hard) {
        bt_str_append(out, "<p class=why>Hard facts of the environments differ: the speeds are not "
                           "comparable.</p>\n");
    }
    if (list->count == 0) {
        bt_str_append(out, "<p>Plan, build and environment are the same.</p>\n");
        return;
    }
    bt_table_heads(&table, set->run_count > COLUMNS_UP_TO ? "what|of|values" : "what|of");
    for (int64_t i = 0; i < set->run_count && set->run_count <= COLUMNS_UP_TO; i++) {
        bt_table_heads(&table, "run %lld", (long long)set->runs[i].id);
    }
    bt_table_heads(&table, "weight");
    for (int64_t i = 0; i < list->count; i++) {
        add_difference(set, &list->items[i], &table);
    }
    bt_table_html(&table, out);
}

bt_status bt_page_differs(const report_set *set, bt_str *out)
{
    BT_SCOPED(bt_arena) arena = {0};
    BT_SCOPED(difference_list) list = {0};
    bool hard = false;
    if (set->run_count < 2) {
        return BT_OK;
    }
    BT_TRY(find_differences(set, &arena, &list, &hard));
    bt_str_append(out, "<section id=differs><h2>What differs</h2>\n");
    write_differences(set, &list, hard, out);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

// ---- how it was run ----------------------------------------------------------------------------

static void write_environment(const bt_store_run *run, bt_str *out)
{
    const bt_fields *build = bt_fields_info(BT_FIELDS_BUILD);
    bt_table table = {.name = bt_textf("env-%lld", (long long)run->id)};
    bt_table_heads(&table, "fact|value|weight");
    BT_EACH(const bt_store_fact, fact, run->info.env.facts, run->info.env.fact_count) {
        if (strncmp(fact->key, "build.", 6) != 0) { // below, from the build's own record
            bt_table_cells(&table, "%s|%s|%s", fact->key, fact->value[0] ? fact->value : "-",
                           bt_fact_level_name(fact->level));
        }
    }
    for (size_t i = 1; i < build->count; i++) { // all but the digest of the others
        const char *value = bt_field_text(&build->rows[i], &run->info.build);
        const char *none = strcmp(build->rows[i].key, "git_diff") == 0 ? "clean" : "-";
        bt_table_cells(&table, "build.%s|%s|", build->rows[i].key, value[0] ? value : none);
    }
    bt_html_details(
        bt_textf("Environment of run %lld", (long long)run->id).text, NULL,
        bt_textf("%.8s, %lld facts", run->info.env.digest, (long long)run->info.env.fact_count)
            .text,
        &table, out);
}

// JSON indented; other text is shown unchanged.
static bt_status write_json(const char *text, bt_str *out)
{
    bt_json_doc json;
    BT_SCOPED(bt_str) pretty = {0};
    bt_status status = bt_json_parse("plan", text, strlen(text), &json);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        bt_html_text(out, text);
        return BT_OK;
    }
    BT_TRY(status);
    bt_json_write_pretty(json.root, &pretty);
    bt_html_text(out, bt_str_text(&pretty));
    status = bt_str_status(&pretty);
    bt_json_doc_release(&json);
    return status;
}

static bt_status write_plan(const bt_store_run *run, bt_str *out)
{
    const bt_store_suite *suite = &run->info.suite;
    bt_str_format(out, "<details><summary>Plan of run %lld <span class=muted>%.8s, seed %llu",
                  (long long)run->id, suite->plan_hash, (unsigned long long)run->info.seed);
    bt_html(out, "</span></summary><p class=muted><code>%s</code> from %s</p><pre>",
            run->info.command, suite->path);
    BT_TRY(write_json(suite->plan_json, out));
    bt_str_append(out, "</pre></details>\n");
    return BT_OK;
}

static void write_kernels(const report_case *item, bt_str *out)
{
    bt_table table = {.name = bt_textf("kernels-%s", item->tag)};
    if (item->round->kernel_count == 0 || bt_report_is_kernel(item->round)) {
        return;
    }
    bt_table_heads(&table, "op|kernel");
    BT_EACH(const bt_store_kernel, kernel, item->round->kernels, item->round->kernel_count) {
        bt_table_cells(&table, "%s|%s", kernel->op, kernel->kernel[0] ? kernel->kernel : "-");
    }
    bt_html_details("Kernels that served", item, "", &table, out);
}

// Kernel cases: the kernel that ran, one row per case.
static void write_kernel_cases(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"kernels"}};
    bt_table_heads(&table, "case|kernel|op");
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        for (int64_t k = 0; bt_report_is_kernel(round) && k < round->kernel_count; k++) {
            const char *kernel = round->kernels[k].kernel;
            bt_table_cells(&table, "%s|%s|%s", set->cases[i].label, kernel[0] ? kernel : "-",
                           round->kernels[k].op);
        }
    }
    bt_html_details("Kernels that served the cases", NULL, "", &table, out);
}

static bool is_training(const report_case *item) { return !bt_report_is_kernel(item->round); }

bt_status bt_page_facts(const report_set *set, bt_str *out)
{
    bt_str_append(out, "<section id=facts><h2>How it was run</h2>\n");
    bt_html_group_open(out, "Plans", set->run_count);
    for (int64_t i = 0; i < set->run_count; i++) {
        BT_TRY(write_plan(&set->runs[i], out));
    }
    bt_html_group_close(out, set->run_count);
    bt_html_group_open(out, "Environments", set->run_count);
    for (int64_t i = 0; i < set->run_count; i++) {
        write_environment(&set->runs[i], out);
    }
    bt_html_group_close(out, set->run_count);
    const int64_t training = bt_report_count(set, is_training);
    bt_html_group_open(out, "Kernels that served", training);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_kernels(&set->cases[i], out);
    }
    bt_html_group_close(out, training);
    if (training < set->case_count) {
        write_kernel_cases(set, out);
    }
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

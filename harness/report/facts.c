// harness/report/facts.c - plan, build, environment, kernels; with several runs first what differs
#include <string.h>

#include "harness/report/internal.h"
#include "harness/suite/json.h"

static void write_row(bt_str *out, const char *key, const char *value, const char *level)
{
    bt_str_append(out, "<tr><th scope=row>");
    bt_html_text(out, key);
    bt_str_append(out, "</th><td>");
    bt_html_text(out, value[0] ? value : "-");
    if (level) {
        bt_str_append(out, "<td class=muted>");
        bt_html_text(out, level);
    }
    bt_str_append(out, "\n");
}

static bt_status write_differences(const report_set *set, int64_t index, bt_str *out)
{
    const bt_compare_item *items = NULL;
    int64_t count = 0;
    bool hard = false;
    bt_arena arena = {0};
    bt_status status =
        bt_compare_facts(&set->runs[0], &set->runs[index], &arena, &items, &count, &hard);
    if (status != BT_OK) {
        bt_arena_release(&arena);
        return status;
    }
    long long base = (long long)set->runs[0].id, id = (long long)set->runs[index].id;
    bt_str_format(
        out,
        "<details%s><summary>run %lld against run %lld <span class=muted>%lld difference%s"
        "%s</span></summary>\n",
        set->run_count > 4 ? "" : " open", id, base, (long long)count, count == 1 ? "" : "s",
        hard ? ", hard facts among them" : "");
    if (count == 0) {
        bt_str_append(out, "<p>Plan, build and environment are the same.</p>\n");
    } else {
        bt_str_format(out,
                      "<div class=scroll><table data-name=\"differs-%lld\"><thead><tr><th>of<th>"
                      "what<th>run %lld<th>run %lld<th>weight</thead><tbody>\n",
                      id, base, id);
    }
    for (int64_t i = 0; i < count; i++) {
        bt_str_format(out, "<tr id=\"differs-%lld-%lld\"><td>", id, (long long)i);
        bt_html_text(out, items[i].group);
        bt_str_append(out, "<th scope=row>");
        bt_html_text(out, items[i].key);
        bt_str_append(out, "</th><td>");
        bt_html_text(out, items[i].left[0] ? items[i].left : "-");
        bt_str_append(out, "<td>");
        bt_html_text(out, items[i].right[0] ? items[i].right : "-");
        bool fact = strcmp(items[i].group, "environment") == 0;
        bt_str_format(out, "<td>%s\n", fact ? bt_fact_level_name(items[i].level) : "");
    }
    if (count > 0) {
        bt_str_append(out, "</tbody></table></div>\n");
    }
    if (hard) {
        bt_str_append(out, "<p class=why>Hard facts of the environments differ: the speeds are not "
                           "comparable.</p>\n");
    }
    bt_str_append(out, "</details>\n");
    bt_arena_release(&arena);
    return BT_OK;
}

bt_status bt_page_differs(const report_set *set, bt_str *out)
{
    if (set->run_count < 2) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=differs><h2>What differs</h2>\n");
    for (int64_t i = 1; i < set->run_count; i++) {
        BT_TRY(write_differences(set, i, out));
    }
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

static void write_environment(const bt_store_run *run, bt_str *out)
{
    const bt_store_build *build = &run->info.build;
    bt_str_format(out,
                  "<details><summary>Environment of run %lld <span class=muted>%.8s, %lld facts"
                  "</span></summary><div class=scroll><table data-name=\"env-%lld\"><thead><tr>"
                  "<th>fact<th>value<th>weight</thead><tbody>\n",
                  (long long)run->id, run->info.env.digest, (long long)run->info.env.fact_count,
                  (long long)run->id);
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        const bt_store_fact *fact = &run->info.env.facts[i];
        if (strncmp(fact->key, "build.", 6) == 0) {
            continue; // below, from the build's own record
        }
        write_row(out, fact->key, fact->value, bt_fact_level_name(fact->level));
    }
    write_row(out, "build.version", build->version, "");
    write_row(out, "build.git_commit", build->git_commit, "");
    write_row(out, "build.git_diff", build->git_diff[0] ? build->git_diff : "clean", "");
    write_row(out, "build.compiler", build->compiler, "");
    write_row(out, "build.flags", build->flags, "");
    write_row(out, "build.type", build->type, "");
    write_row(out, "build.cuda", build->cuda, "");
    bt_str_append(out, "</tbody></table></div></details>\n");
}

// JSON indented; what is no JSON is shown as it is.
static bt_status write_json(const char *text, bt_str *out)
{
    bt_json_doc json;
    bt_str pretty = {0};
    bt_status status = bt_json_parse("plan", text, strlen(text), &json);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        bt_html_text(out, text);
        return BT_OK;
    }
    BT_TRY(status);
    bt_json_write_pretty(json.root, &pretty);
    bt_html_text(out, bt_str_text(&pretty));
    status = bt_str_status(&pretty);
    bt_str_release(&pretty);
    bt_json_release(&json);
    return status;
}

static bt_status write_plan(const bt_store_run *run, bt_str *out)
{
    const bt_store_suite *suite = &run->info.suite;
    bt_str_format(out, "<details><summary>Plan of run %lld <span class=muted>%.8s, seed %llu",
                  (long long)run->id, suite->plan_hash, (unsigned long long)run->info.seed);
    bt_str_append(out, "</span></summary><p class=muted><code>");
    bt_html_text(out, run->info.command);
    bt_str_append(out, "</code> from ");
    bt_html_text(out, suite->path);
    bt_str_append(out, "</p><pre>");
    BT_TRY(write_json(suite->plan_json, out));
    bt_str_append(out, "</pre></details>\n");
    return BT_OK;
}

static void write_kernels(const report_case *item, bt_str *out)
{
    if (item->round->kernel_count == 0) {
        return;
    }
    bt_str_format(out, "<details><summary>Kernels that served <b class=tag>%s</b> ", item->tag);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  "</summary><div class=scroll><table data-name=\"kernels-%s\"><thead><tr><th>op"
                  "<th>kernel</thead><tbody>\n",
                  item->tag);
    for (int64_t i = 0; i < item->round->kernel_count; i++) {
        write_row(out, item->round->kernels[i].op, item->round->kernels[i].kernel, NULL);
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

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
    bt_html_group_open(out, "Kernels that served", set->case_count);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_kernels(&set->cases[i], out);
    }
    bt_html_group_close(out, set->case_count);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

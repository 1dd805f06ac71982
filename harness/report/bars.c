// harness/report/bars.c - the time of a step as nested bars
#include "harness/report/internal.h"

// A bar from `offset_ns` that is `time_ns` long, in shares of the whole; both stay inside.
static void write_bar(bt_str *out, double offset_ns, double time_ns, double total_ns, int depth)
{
    double left = total_ns > 0.0 ? 100.0 * offset_ns / total_ns : 0.0;
    double width = total_ns > 0.0 ? 100.0 * time_ns / total_ns : 0.0;
    left = left > 99.8 ? 99.8 : left;
    width = width > 100.0 - left ? 100.0 - left : width;
    bt_str_format(out,
                  "<td class=track><i class=\"bar d%d\" style=\"left:%.2f%%;width:%.2f%%\"></i>",
                  depth > 3 ? 3 : depth, left, width);
}

static void write_node(bt_str *out, const range_node *node, const range_tree *tree, int64_t index,
                       int64_t at)
{
    bt_str_format(out, "<tr id=\"c%lld-range-%lld\"><th scope=row style=\"--depth:%d\">",
                  (long long)index, (long long)at, node->depth);
    bt_str_format(out, "<a href=\"#c%lld-range-%lld\" title=\"", (long long)index, (long long)at);
    bt_html_text(out, node->path);
    bt_str_append(out, "\">");
    bt_html_text(out, node->name);
    bt_str_append(out, "</a></th>");
    write_bar(out, node->offset_ns, node->time_ns, tree->total_ns, node->depth);
    bt_str_format(out, "<td class=n data-v=\"%.0f\">%s<td class=n data-v=\"%.4f\">%.1f %%",
                  node->time_ns, bt_format_value(BT_UNIT_NS, node->time_ns).text,
                  node->time_ns / tree->total_ns, 100.0 * node->time_ns / tree->total_ns);
    bt_str_format(out, "<td class=n data-v=\"%.0f\">%s<td class=n data-v=\"%.3f\">%.4g\n",
                  node->rest_ns,
                  node->has_children ? bt_format_value(BT_UNIT_NS, node->rest_ns).text : "",
                  node->calls, node->calls);
}

static bt_status write_case(const report_set *set, int64_t index, bt_str *out)
{
    const report_case *item = &set->cases[index];
    bt_arena arena = {0};
    range_tree tree;
    bt_status status = bt_range_tree_make(item->round, &arena, &tree);
    if (status == BT_OK && tree.count > 0) {
        bt_str_format(out, "<details%s><summary>", index == 0 ? " open" : "");
        bt_html_tag(out, item);
        bt_html_text(out, item->label);
        bt_str_format(out,
                      " <span class=muted>%s a step, %s time, mean of %lld profiled step%s"
                      "</span></summary>\n",
                      bt_format_value(BT_UNIT_NS, tree.total_ns).text,
                      tree.on_device ? "device" : "host", (long long)tree.steps,
                      tree.steps == 1 ? "" : "s");
        bt_str_format(out,
                      "<div class=scroll><table class=\"ranges\" data-name=\"ranges-%s\"><thead>"
                      "<tr><th>range<th>share of the step<th class=n>time<th class=n>share"
                      "<th class=n>own time<th class=n>calls</thead><tbody>\n",
                      item->tag);
        for (int64_t i = 0; i < tree.count; i++) {
            write_node(out, &tree.nodes[i], &tree, index, i);
        }
        bt_str_append(out, "</tbody></table></div></details>\n");
    }
    bt_arena_release(&arena);
    return status;
}

bt_status bt_page_ranges(const report_set *set, bt_str *out)
{
    bool any = false;
    for (int64_t i = 0; i < set->case_count; i++) {
        any = any || set->cases[i].round->range_count > 0;
    }
    if (!any) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=ranges><h2>Where a step's time goes</h2>\n"
                       "<p class=muted>Taken on steps of their own, which no other figure counts. "
                       "A bar lies under the range that holds it; siblings stand longest first."
                       "</p>\n");
    // The first case stands open; the others are alike in most reports.
    BT_TRY(write_case(set, 0, out));
    bt_html_group_open(out, "The other cases", set->case_count - 1);
    for (int64_t i = 1; i < set->case_count; i++) {
        BT_TRY(write_case(set, i, out));
    }
    bt_html_group_close(out, set->case_count - 1);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

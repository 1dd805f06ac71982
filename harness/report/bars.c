// harness/report/bars.c - the time of a step as nested bars
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"

// A bar from `offset_ns` with length `time_ns`, as fractions of the whole; both are clamped.
static void write_bar(bt_str *out, double offset_ns, double time_ns, double total_ns, int depth)
{
    double left = total_ns > 0.0 ? 100.0 * offset_ns / total_ns : 0.0;
    double width = total_ns > 0.0 ? 100.0 * time_ns / total_ns : 0.0;
    left = left > 99.8 ? 99.8 : left;
    width = width > 100.0 - left ? 100.0 - left : width;
    bt_str_format(out, "<i class=\"bar d%d\" style=\"left:%.2f%%;width:%.2f%%\"></i>",
                  depth > 3 ? 3 : depth, left, width);
}

// Ranges that are not named after their operation: the operation of kernel cases, and of kernels.
typedef struct range_op {
    const char *range, *of_case, *of_kernel;
} range_op;

static range_op op_of(const range_node *node)
{
    static const range_op ops[] = {
        {"optimizer", "adamw", "adamw"},    {"loss", "cross_entropy", "cross_entropy"},
        {"clip", "grad_norm", "grad_norm"}, {"unary", "gelu", "unary"},
        {"matmul", "gemm", "gemm"},         {"linear", "gemm", "gemm"},
        {"feed_forward", "gemm", "gemm"},   {"logits", "gemm", "gemm"},
        {"linear_backward", "gemm", "gemm"}};
    const int64_t at = BT_FIND(ops, BT_COUNT(ops), range, node->name);
    return at < 0 ? (range_op){node->name, node->name, node->name} : ops[at];
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// The kernel case of the report that measures the operation of a range: same operation
// (attention_causal serves attention), same direction, and if possible the round's type.
static const report_case *kernel_case(const report_set *set, const report_case *item,
                                      const range_node *node)
{
    const char *op = op_of(node).of_case;
    const char *direction = strstr(node->path, "backward") ? "backward" : "forward";
    const report_case *found = NULL;
    BT_EACH(const report_case, other, set->cases, set->case_count) {
        if (!other->kernel.op[0] || other->kernel.ceiling || !starts_with(other->kernel.op, op) ||
            strcmp(other->kernel.direction, direction) != 0) {
            continue;
        }
        bool same_type = strcmp(other->kernel.dtype, item->round->shape.precision) == 0;
        if (!found || (same_type && strcmp(found->kernel.dtype, other->kernel.dtype) != 0)) {
            found = other;
        }
    }
    return found;
}

// The kernels that served a range, and a link to the case that measures them.
static void add_kernel(const report_set *set, const report_case *item, const range_node *node,
                       bt_table *table)
{
    const report_case *link = kernel_case(set, item, node);
    const char *op = op_of(node).of_kernel, *comma = "";
    bool backward = strstr(node->path, "backward") != NULL;
    bt_table_cells(table, "%s", "");
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=kernel");
    bt_str *out = bt_table_part(table, BT_CELL_MARKUP);
    if (link) {
        bt_str_append(out, "<a href=\"#");
        bt_html_case_id(out, set, link);
        bt_html(out, "\" title=\"the kernel alone: %s\">", link->label);
    }
    BT_EACH(const bt_store_kernel, kernel, item->round->kernels, item->round->kernel_count) {
        if (starts_with(kernel->op, op) && (strstr(kernel->op, "backward") != NULL) == backward) {
            bt_str_append(out, comma);
            bt_html_text(out, kernel->kernel);
            comma = ", ";
        }
    }
    bt_str_append(out, link ? (comma[0] ? "</a>" : "its case</a>") : "");
}

static void add_node(const range_node *node, const range_tree *tree, int64_t index, int64_t at,
                     bt_table *table)
{
    const double share = node->time_ns / tree->total_ns;
    const bt_text id = bt_textf("c%lld-range-%lld", (long long)index, (long long)at);
    bt_table_cells(table, "%s", node->name);
    bt_str_format(bt_table_part(table, BT_CELL_ROW), " id=\"%s\"", id.text);
    bt_str_format(bt_table_part(table, BT_CELL_ATTRIBUTES), " style=\"--depth:%d\"", node->depth);
    bt_html(bt_table_part(table, BT_CELL_MARKUP), "<a href=\"#%s\" title=\"%s\">%s</a>", id.text,
            node->path, node->name);
    bt_table_cells(table, "%s", "");
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=track");
    write_bar(bt_table_part(table, BT_CELL_MARKUP), node->offset_ns, node->time_ns, tree->total_ns,
              node->depth);
    bt_table_number(table, BT_UNIT_NS, node->time_ns);
    bt_table_cells(table, "%.1f %%", 100.0 * share);
    bt_str_format(bt_table_part(table, BT_CELL_ATTRIBUTES), " data-v=%.4f", share);
    bt_html_number(table, node->has_children, BT_UNIT_NS, node->rest_ns);
    bt_table_cells(table, "%.4g", node->calls);
}

static bt_status write_case(const report_set *set, int64_t index, bool open, bt_str *out)
{
    const report_case *item = &set->cases[index];
    BT_SCOPED(bt_arena) arena = {0};
    range_tree tree;
    bt_table table = {.name = bt_textf("ranges-%s", item->tag)};
    const bool kernels = item->round->kernel_count > 0;
    BT_TRY(bt_range_tree_make(item->round, &arena, &tree));
    bt_html_open_case(item, open, out);
    bt_str_format(out, "%s a step, %s time, mean of %s</span></summary>\n",
                  bt_format_value(BT_UNIT_NS, tree.total_ns).text,
                  tree.on_device ? "device" : "host",
                  bt_format_items(tree.steps, "profiled step").text);
    bt_table_heads(&table, "range|fraction of the step|>time|>fraction|>own time|>calls");
    if (kernels) {
        bt_table_heads(&table, "kernel");
    }
    for (int64_t i = 0; i < tree.count; i++) {
        add_node(&tree.nodes[i], &tree, index, i, &table);
        if (kernels) {
            add_kernel(set, item, &tree.nodes[i], &table);
        }
    }
    bt_table_html(&table, out);
    bt_str_append(out, "</details>\n");
    return BT_OK;
}

static bool has_ranges(const report_case *item) { return item->round->range_count > 0; }

bt_status bt_page_ranges(const report_set *set, bt_str *out)
{
    static const report_section section = {
        .id = "ranges",
        .title = "Where a step's time goes",
        .note = "Measured on separate steps, which no other number includes. A bar is drawn below "
                "the range that contains it; ranges are sorted by length, longest first.",
        .has = has_ranges,
        .write = write_case};
    return bt_html_section(&section, set, out);
}

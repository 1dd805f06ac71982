// framework/compiler/fuse_group.c - a group of calls: its index space, then its program
#include "framework/compiler/fuse.h"
#include "framework/compiler/fuse_build.h"

static bt_fused_kind kind_of(const bt_fuse_build *b, int *products)
{
    bt_fused_kind kind = BT_FUSED_ELEMENTWISE, own = BT_FUSED_ELEMENTWISE;
    int rank = 0;
    int64_t shape[BT_MAX_RANK];
    for (int i = 0; i < b->count; ++i) {
        (void)bt_fuse_space_of(&b->graph->nodes[b->nodes[i]], &own, &rank, shape);
        *products += own == BT_FUSED_PRODUCT || own == BT_FUSED_ATTENTION;
        kind = own > kind ? own : kind;
    }
    return kind;
}

// The largest index space of its calls; with reductions, rows of the reductions' length.
static void find_space(bt_fuse_build *b)
{
    bt_fused *g = b->group;
    int64_t most = 0, last = 0, shape[BT_MAX_RANK], space[BT_MAX_RANK] = {0};
    int rank = 0, space_rank = 0;
    for (int i = 0; i < b->count; ++i) {
        bt_fused_kind own = BT_FUSED_ELEMENTWISE;
        bt_fuse_refuse(b, bt_fuse_space_of(&b->graph->nodes[b->nodes[i]], &own, &rank, shape));
        if (!b->why && bt_fuse_elements(rank, shape) == 0) {
            bt_fuse_refuse(b, "a call of it has no elements");
        }
        if (b->why) {
            return;
        }
        most = bt_fuse_elements(rank, shape) > most ? bt_fuse_elements(rank, shape) : most;
        if (own == BT_FUSED_ROW || own == BT_FUSED_COLUMN || own == BT_FUSED_PRODUCT) {
            if (last > 0 && last != shape[1]) {
                bt_fuse_refuse(b, "its rows have another length");
                return;
            }
            last = shape[1];
            b->row_reduction = b->row_reduction || own == BT_FUSED_ROW;
            b->column_reduction = b->column_reduction || own == BT_FUSED_COLUMN;
        }
    }
    if (last > 0 && most % last != 0) {
        bt_fuse_refuse(b, "it has no whole rows");
        return;
    }
    space_rank = last > 0 ? 2 : 1;
    space[0] = last > 0 ? most / last : most;
    space[1] = last;
    for (int i = 0; i < b->count; ++i) {
        bt_fused_kind own = BT_FUSED_ELEMENTWISE;
        (void)bt_fuse_space_of(&b->graph->nodes[b->nodes[i]], &own, &rank, shape);
        if (bt_fuse_elements(rank, shape) == most &&
            !bt_fuse_refine(&space_rank, space, rank, shape)) {
            bt_fuse_refuse(b, "its axes and the group's have no common split");
            return;
        }
    }
    if (last > 0 && space[space_rank - 1] != last) {
        bt_fuse_refuse(b, "it splits the rows of a reduction");
        return;
    }
    b->builder.status = bt_fused_init(g, BT_FUSED_ELEMENTWISE, space, space_rank);
}

void bt_fused_of_nodes(const bt_dag *graph, const bt_fuse_options *options, const int *nodes,
                       int count, bt_fused *group, const char **why)
{
    bt_fuse_build b = {.graph = graph,
                       .any_order = options->any_order,
                       .rows_alone = options->rows_alone,
                       .products = options->products,
                       .nodes = nodes,
                       .count = count,
                       .group = group};
    int products = 0;
    b.builder = (bt_fused_builder){group, BT_OK};
    find_space(&b);
    const bt_fused_kind kind = b.why ? BT_FUSED_ELEMENTWISE : kind_of(&b, &products);
    if (b.row_reduction && b.column_reduction) {
        bt_fuse_refuse(&b, "row and column reductions do not mix");
    }
    if (products > 1 || (products && (b.row_reduction || b.column_reduction))) {
        bt_fuse_refuse(&b, "an epilogue has one product and no reduction");
    }
    group->kind = kind;
    for (int i = 0; i < count && !b.why; ++i) {
        bt_fuse_expand(&b, &graph->nodes[nodes[i]]);
    }
    if (!b.why && (b.builder.status || bt_fused_check(group))) {
        bt_fuse_refuse(&b, bt_error_message());
    }
    *why = b.why;
}

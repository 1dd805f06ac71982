// framework/compiler/fuse.h - which calls of a graph become one generated kernel
//
// fuse joins calls that share values into groups (group.h) if the group can be expressed and costs
// less than its parts: it saves memory traffic and a launch. Each decision is logged as a line of
// text with its reason.
//
// Invariants
//   1. A group is convex: no path leaves it and comes back. So it can run as one call.
//   2. What a group computes has the bits of the calls it replaces where every reduction in it has
//      an order (bt_fused_order.lanes > 0); column sums have none, nor sums of any_order.
//      Generated products sum over k ascending, or in any_order.
//   3. An ungrouped call runs as before.
#ifndef BT_COMPILER_FUSE_H
#define BT_COMPILER_FUSE_H

#include "framework/compiler/graph.h"
#include "framework/compiler/group.h"

typedef struct bt_fuse_options {
    unsigned kinds;       // bit k: groups of bt_fused_kind k may be made; 0: all
    int64_t launch_bytes; // cost of a launch, as the bytes that memory moves in that time; 0: 1 MiB
    bool any_order;       // sums in their own type, in an order that the emitter chooses; quotients
                          // by a per-row value within 1.5 ulp for normal numbers
    bool rematerialize;   // recompute cheap values where they are read (form.h)
    bool rows_alone;      // softmax and LayerNorm keep their own kernels and join no group
    bool products;        // small and odd products are generated (product.h)
    bool dynamic_rows;    // groups whose code serves any number of rows
    // Returns why code cannot be generated; NULL: it can. A NULL function accepts any group.
    const char *(*refuses)(const bt_fused *group);
} bt_fuse_options;

typedef struct bt_fusion {
    bt_fused *group; // owned; operands[i].value is the graph's
    int *nodes;      // owned [node_count], ascending
    int node_count;
    int64_t bytes_before, bytes_after; // bytes moved by the calls, by the group
} bt_fusion;

typedef struct bt_fusion_plan {
    bt_fusion *groups; // owned [count]
    int count;
    int *unit_of; // owned [node_count]: the node's group, -1: none
    int node_count;
    bt_str decisions; // a line each
} bt_fusion_plan;

int64_t bt_fuse_launch_bytes(const bt_fuse_options *options);

// Owns    the caller, until bt_fusion_plan_release, also after a failure
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_dag_fuse(const bt_dag *graph, const bt_fuse_options *options,
                                 bt_fusion_plan *plan);
void bt_fusion_plan_release(bt_fusion_plan *plan);
// The groups as text: their nodes, bytes before and after, programs.
void bt_fusion_plan_print(const bt_dag *graph, const bt_fusion_plan *plan, bt_str *out);

// Builds one group of the nodes (ascending). *why: NULL, or the reason why they form none: a
// constant, or the message of the thread's last error (valid until the next).
void bt_fused_of_nodes(const bt_dag *graph, const bt_fuse_options *options, const int *nodes,
                       int count, bt_fused *group, const char **why);

// Removes a group from the plan: its calls run as before.
void bt_fusion_dissolve(bt_fusion_plan *plan, int group);

// ---- running ------------------------------------------------------------------------------------

// Runs a group; at[i]: the memory of operand i.
typedef bt_status (*bt_fused_launch)(void *self, bt_context *context, const bt_fused *group,
                                     void *const *at);
// As bt_dag_run, but groups are passed to `launch`.
BT_CHECKED bt_status bt_dag_run_fused(bt_context *context, const bt_dag *graph,
                                      const bt_fusion_plan *plan, bt_fused_launch launch,
                                      void *self, void **memory);
// A bt_fused_launch that interprets the program on the CPU, instruction by instruction: the
// reference for generated kernels. `self` is unused. Errors  UNSUPPORTED on a GPU
BT_CHECKED bt_status bt_fused_interpret(void *self, bt_context *context, const bt_fused *group,
                                        void *const *at);

#endif

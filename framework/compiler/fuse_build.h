// framework/compiler/fuse_build.h - from calls to a group's program; for the files of this folder
#ifndef BT_COMPILER_FUSE_BUILD_H
#define BT_COMPILER_FUSE_BUILD_H

#include "framework/compiler/graph.h"
#include "framework/compiler/group.h"

// Relation of a call's index space to the group's.
typedef enum bt_fuse_domain { BT_FUSE_FULL, BT_FUSE_ROWS } bt_fuse_domain;

typedef struct bt_fuse_build {
    const bt_dag *graph;
    bool any_order, rows_alone, products; // bt_fuse_options
    const int *nodes;
    int count;
    bt_fused *group;
    bt_fused_builder builder;
    struct {
        int value, instruction;
        bt_fuse_domain domain;
    } made[BT_FUSED_CODE_MOST]; // values that the group computes
    int made_count;
    bool row_reduction, column_reduction;
    const char *why; // the first reason why the nodes form no group
} bt_fuse_build;

// ---- fuse_space.c -------------------------------------------------------------------------------
int64_t bt_fuse_elements(int rank, const int64_t *shape);
// A call's index space and its reduction. Returns why it cannot be fused, NULL: it can.
const char *bt_fuse_space_of(const bt_dag_node *node, bt_fused_kind *kind, int *rank,
                             int64_t *shape);
// Splits the axes of space so that it refines shape, which has the same number of elements. False
// if some axis of one is not a product of axes of the other.
bool bt_fuse_refine(int *rank, int64_t *space, int shape_rank, const int64_t *shape);
// The strides over axes 0 .. rank - 1 of space, which refines `shape`, that match `stride` over
// `shape`.
void bt_fuse_strides(int rank, const int64_t *space, int shape_rank, const int64_t *shape,
                     const int64_t *stride, int64_t *out);

// ---- fuse_build.c -------------------------------------------------------------------------------
// Element of a call's operand, in the type of the computation. NULL strides: contiguous.
int bt_fuse_load(bt_fuse_build *b, const bt_dag_node *node, int field, bt_fuse_domain domain,
                 int shape_rank, const int64_t *shape, const int64_t *stride);
// Sets the call's result there. `instruction` has the type of the computation.
void bt_fuse_define(bt_fuse_build *b, const bt_dag_node *node, int field, bt_fuse_domain domain,
                    int instruction);
const bt_dag_operand *bt_fuse_operand(const bt_dag_node *node, int field);
void bt_fuse_refuse(bt_fuse_build *b, const char *why);

// ---- fuse_expand.c ------------------------------------------------------------------------------
// The call as instructions.
void bt_fuse_expand(bt_fuse_build *b, const bt_dag_node *node);

// ---- fuse_product.c -----------------------------------------------------------------------------
void bt_fuse_product(bt_fuse_build *b, const bt_dag_node *node);

#endif

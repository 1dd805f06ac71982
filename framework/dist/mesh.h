// framework/dist/mesh.h - the ranks of a run as a grid: data, tensor and context parallel
//
// Rank = (data * context degree + context) * tensor degree + tensor: ranks of one tensor group are
// adjacent, because they communicate most.
//
// Invariants
//   1. The product of the degrees is the number of ranks.
//   2. Groups of one kind have the ranks in the order of their coordinate.
//   3. All ranks make and destroy their groups in one order.
#ifndef BT_DIST_MESH_H
#define BT_DIST_MESH_H

#include "framework/dist/group.h"

// How many ranks share each kind of work; at least 1.
typedef struct bt_mesh_degrees {
    int data;    // each has other sequences
    int tensor;  // each has a part of every matrix
    int context; // each has a part of every sequence
} bt_mesh_degrees;

typedef struct bt_mesh {
    bt_mesh_degrees degrees, at; // at: this rank's coordinates
    bt_group *world;             // borrowed, outlives it
    // Ranks that differ in this coordinate alone; NULL where the degree is 1. Owned, but for those
    // that are the world.
    bt_group *data, *tensor, *context;
    // Ranks that hold the same parameters, over which gradients are summed: data and context
    // together. NULL: one rank alone. Owned unless it is one of the others.
    bt_group *replicas;
} bt_mesh;

// Whether the degrees fit the number of ranks. Degrees of 0 stand for 1, data's for as many as
// the others leave; they are filled in.
// Errors  INVALID_ARGUMENT naming train.mesh and its key
BT_CHECKED bt_status bt_mesh_check(bt_mesh_degrees *degrees, int ranks);
// All ranks of the world call it. A world of NULL is one rank.
// Owns    *mesh: the caller, until bt_mesh_release, before the world goes; also when this fails
// Errors  as bt_mesh_check and bt_group_split
BT_CHECKED bt_status bt_mesh_create(bt_group *world, const bt_mesh_degrees *degrees, bt_mesh *mesh);
// Safe on a zeroed mesh.
void bt_mesh_release(bt_mesh *mesh);

// Element [first, first + count) of `total` that part `at` of `parts` has, as even as can be: the
// first total % parts have one more.
void bt_mesh_part(int64_t total, int parts, int at, int64_t *first, int64_t *count);

#endif

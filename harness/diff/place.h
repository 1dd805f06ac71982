// harness/diff/place.h - the layout of a rank's values in the values of the whole step
//
// The ranks of a mesh (framework/dist/mesh.h) report values under the names of their own calls.
// This file maps them to the names of a run on one rank (framework/train/trace.h) and describes the
// shard that each rank has, so that a mesh can be compared with one rank or with another mesh.
//
// Values without a counterpart on one rank are ignored: accumulated parameter gradients, which
// start at a data parallel rank's first micro-batch; partial sums that one rank does not compute;
// values computed from ids and logits.
#ifndef BT_HARNESS_DIFF_PLACE_H
#define BT_HARNESS_DIFF_PLACE_H

#include "framework/train/train.h"

enum { BT_DIFF_NAME_BYTES = 208, BT_DIFF_LAYER_BYTES = 48 };

typedef struct bt_diff_mesh {
    bt_mesh_degrees degrees; // each at least 1
    int shared_heads;        // of the context parallel ranks, at least 1
    int64_t batch, tokens;   // sequences of a micro-batch, and tokens of each, on all ranks
    int64_t micro_batches;   // of a step and a data parallel rank
} bt_diff_mesh;

// What each tensor parallel rank has of a value: all of it (with sequence_parallel some of the
// rows), a shard, or a partial sum.
typedef enum bt_diff_share { BT_DIFF_REPLICATED, BT_DIFF_SHARDED, BT_DIFF_PARTIAL } bt_diff_share;

// A rank's value as a matrix [rows, columns], columns the last axis.
typedef struct bt_diff_place {
    bt_diff_share share;
    bool columns;    // shards lie along the columns, else along the rows
    int64_t repeats; // number of equal blocks along that axis; each rank has a shard of each block
    bool tokens;     // rows are the tokens of a micro-batch, sharded over context parallel ranks;
                     // else these ranks have replicas
    double scale;    // factor to the whole's value: a rank's loss is the mean of its own tokens
} bt_diff_place;

typedef struct bt_diff_placed {
    char name[BT_DIFF_NAME_BYTES], layer[BT_DIFF_LAYER_BYTES], op[BT_DIFF_LAYER_BYTES];
    bt_diff_place place;
} bt_diff_placed;

// The mesh of a plan.
bt_diff_mesh bt_diff_mesh_of(const bt_train_plan *plan);
int bt_diff_mesh_ranks(const bt_diff_mesh *mesh);
// The row in the whole micro-batch of a context parallel rank's row.
int64_t bt_diff_mesh_row(const bt_diff_mesh *mesh, int context, int64_t row);
// The name and layout of a value that `rank` has reported. false: it is ignored.
bool bt_diff_place_of(const bt_diff_mesh *mesh, int rank, const bt_train_value *value,
                      bt_diff_placed *out);

#endif

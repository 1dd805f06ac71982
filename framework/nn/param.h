// framework/nn/param.h - parameters and the list that owns them
//
// A parameter has one master tensor, which the optimizer updates and a checkpoint holds, and the
// value that ops read: the master itself, or its bf16 copy, written by the optimizer in the same
// pass. value is the leaf; its gradient is summed in the master's type.
#ifndef BT_NN_PARAM_H
#define BT_NN_PARAM_H

#include "framework/tensor/tensor.h"

// A rank's part of a parameter that ranks share: along `axis` the whole is `repeats` equal blocks,
// of each of which the rank has elements [first, first + count). count 0: nothing.
typedef struct bt_param_part {
    int axis;
    int64_t repeats, first, count;
} bt_param_part;

typedef struct bt_param {
    char *name;        // owned; dotted path: "h.0.attn.c_attn.weight"
    bt_tensor *master; // retained; f32, or f64 in tests
    bt_tensor *value;  // retained; == master unless there is a bf16 copy
    bool elsewhere;    // another rank has the same and counts it in the gradient's norm
} bt_param;

// A parameter of the model as a whole, whatever this rank has of it.
typedef struct bt_param_spec {
    char *name; // owned
    bt_shape whole;
    bool is_shared; // ranks have parts of it, this one `part`
    bt_param_part part;
    int64_t item; // its place in the list; -1: this rank has nothing of it
} bt_param_spec;

typedef struct bt_params {
    bt_context *context; // borrowed
    bt_dtype master;     // type of the masters: f32, f64
    bt_dtype compute;    // type that ops see: master, or bf16
    uint64_t seed;       // of the initialisation
    bt_param *items;     // owned [count]
    int64_t count, capacity;
    bt_param_spec *specs; // owned [spec_count]; the same on all ranks but for parts
    int64_t spec_count, spec_capacity;
} bt_params;

typedef enum bt_param_kind {
    BT_PARAM_COMPUTE, // value has the compute type: weights and biases of matrix products
    BT_PARAM_MASTER   // value is the master in every mode: normalisation parameters
} bt_param_kind;

// An empty list. Release with bt_params_release, also after a failed bt_params_add.
void bt_params_init(bt_params *params, bt_context *context, bt_dtype master, bt_dtype compute,
                    uint64_t seed);
void bt_params_release(bt_params *params);

// Adds a parameter drawn from N(mean, deviation^2); the i-th parameter of a model uses stream i of
// the seed, so the values depend on seed, place and shape alone.
// Owns    the list; *value is borrowed from it
BT_CHECKED bt_status bt_params_add(bt_params *params, const char *name, bt_param_kind kind,
                                   bt_shape shape, double mean, double deviation,
                                   bt_tensor **value);
// The same of which this rank has a part, or with `part` NULL all: its values are those that a
// whole parameter has there. *value is NULL where the part is nothing.
BT_CHECKED bt_status bt_params_add_part(bt_params *params, const char *name, bt_param_kind kind,
                                        bt_shape whole, const bt_param_part *part, double mean,
                                        double deviation, bt_tensor **value);
// Copies between a tensor of the whole and one of a part of it, both contiguous.
BT_CHECKED bt_status bt_param_part_copy(bt_context *context, const bt_shape *whole_shape,
                                        const bt_param_part *part, bt_tensor *whole,
                                        bt_tensor *piece, bool to_whole);
// Elements of the part.
int64_t bt_param_part_count(const bt_shape *whole, const bt_param_part *part);
// NULL when there is none of this name.
bt_param *bt_params_find(const bt_params *params, const char *name);
// Of the model as a whole.
int64_t bt_params_element_count(const bt_params *params);
// Overwrites a master from host memory of the master's type, and its copy.
BT_CHECKED bt_status bt_param_write(bt_params *params, bt_param *param, const void *host);
// Drops all gradients: the next backward writes instead of adding.
void bt_params_clear_grads(bt_params *params);
// XXH3-128 over name, shape and bytes of all masters in order, as 32 hex digits and a zero.
BT_CHECKED bt_status bt_params_digest(const bt_params *params, char digest[33]);

#endif

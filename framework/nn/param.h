// framework/nn/param.h - parameters and the list that owns them
//
// A parameter has a master tensor, which the optimizer updates and checkpoints contain, and a value
// that ops read: the master itself or its bf16 copy, which the optimizer writes in the same pass.
// The value is the leaf; its gradient is accumulated in the master's type.
#ifndef BT_NN_PARAM_H
#define BT_NN_PARAM_H

#include "framework/tensor/tensor.h"

// A rank's part of a shared parameter: along `axis` the whole consists of `repeats` equal blocks,
// and the rank has elements [first, first + count) of each. count 0: nothing.
typedef struct bt_param_part {
    int axis;
    int64_t repeats, first, count;
} bt_param_part;

typedef struct bt_param {
    char *name;        // owned; dotted path: "h.0.attn.c_attn.weight"
    bt_tensor *master; // retained; f32, or f64 in tests
    bt_tensor *value;  // retained; == master unless there is a bf16 copy
    bool elsewhere;    // another rank has the same values and counts them in the gradient's norm
    bool partial;      // tensor-parallel ranks have a term of its gradient each
} bt_param;

// A parameter of the whole model, independent of this rank's part.
typedef struct bt_param_spec {
    char *name; // owned
    bt_shape whole;
    bool is_shared; // ranks share it; this one has `part`
    bt_param_part part;
    int64_t item; // its index in the list; -1: this rank has no part of it
} bt_param_spec;

typedef struct bt_params {
    bt_context *context; // borrowed
    bt_dtype master;     // type of the masters: f32, f64
    bt_dtype compute;    // type that ops see: master, or bf16
    uint64_t seed;       // of the initialisation
    bool uninitialised;  // no values are sampled: the caller writes every master and its copy
    bt_param *items;     // owned [count]
    int64_t count, capacity;
    bt_param_spec *specs; // owned [spec_count]; equal on all ranks except for parts
    int64_t spec_count, spec_capacity;
} bt_params;

typedef enum bt_param_kind {
    BT_PARAM_COMPUTE, // the value has the compute type: weights and biases of matrix products
    BT_PARAM_MASTER   // the value is always the master: normalization parameters
} bt_param_kind;

// An empty list. Release with bt_params_release, also after a failed bt_params_add.
void bt_params_init(bt_params *params, bt_context *context, bt_dtype master, bt_dtype compute,
                    uint64_t seed);
void bt_params_release(bt_params *params);

// Adds a parameter sampled from N(mean, deviation^2); the i-th parameter of a model uses stream i
// of the seed, so the values depend on seed, index and shape alone.
// Owns    the list; *value is borrowed from it
BT_CHECKED bt_status bt_params_add(bt_params *params, const char *name, bt_param_kind kind,
                                   bt_shape shape, double mean, double deviation,
                                   bt_tensor **value);
// The same for a parameter of which this rank has a part (NULL: all): the part has the values of
// the whole parameter there. *value is NULL if the part is empty.
BT_CHECKED bt_status bt_params_add_part(bt_params *params, const char *name, bt_param_kind kind,
                                        bt_shape whole, const bt_param_part *part, double mean,
                                        double deviation, bt_tensor **value);
// Copies between a tensor of the whole and one of a part of it, both contiguous.
BT_CHECKED bt_status bt_param_part_copy(bt_context *context, const bt_shape *whole_shape,
                                        const bt_param_part *part, bt_tensor *whole,
                                        bt_tensor *piece, bool to_whole);
// Elements of the part.
int64_t bt_param_part_count(const bt_shape *whole, const bt_param_part *part);
// NULL if there is none of this name.
bt_param *bt_params_find(const bt_params *params, const char *name);
// The same for the whole model.
int64_t bt_params_element_count(const bt_params *params);
// Overwrites a master from host memory of the master's type, and updates its copy.
BT_CHECKED bt_status bt_param_write(bt_params *params, bt_param *param, const void *host);
// Releases all gradients: the next backward writes instead of adding.
void bt_params_clear_grads(bt_params *params);
// XXH3-128 over name, shape and bytes of all masters in order, as 32 hex digits and a zero.
BT_CHECKED bt_status bt_params_digest(const bt_params *params, char digest[33]);

#endif

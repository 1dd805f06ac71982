// framework/nn/llama.h - a Llama-style decoder built from general ops
//
// Pre-norm with RMSNorm, rotary positions, grouped queries, SwiGLU, no biases, untied head (Touvron
// et al. 2023, arXiv:2307.09288; rotary: Su et al. 2021, arXiv:2104.09864). It has no special
// kernels: norms and gates are elementwise and reduce ops, which framework/compiler fuses.
// Parameter names are those of transformers: "model.layers.0.self_attn.q_proj.weight".
//
// RMSNorm is computed in f32 (f64 for f64) for every type of activations.
#ifndef BT_NN_LLAMA_H
#define BT_NN_LLAMA_H

#include "framework/nn/model.h"

typedef struct bt_llama_config {
    int64_t layers;
    int64_t heads, kv_heads; // of queries; of keys and values: heads divisible by them
    int64_t width;           // divisible by heads, width / heads even
    int64_t hidden;          // of the gated MLP
    int64_t vocab, context;  // rows of the embedding; longest sequence
    double rope_base;        // 0: 10000
    double epsilon;          // of RMSNorm; 0: 1e-5
} bt_llama_config;

typedef struct bt_llama_block {
    bt_tensor *attention_norm, *mlp_norm; // borrowed: [width]
    bt_tensor *q, *k, *v, *o;             // [heads D, width], [kv_heads D, width] twice,
                                          // [width, heads D]
    bt_tensor *gate, *up, *down;          // [hidden, width] twice, [width, hidden]
} bt_llama_block;

typedef struct bt_llama {
    bt_llama_config config;
    bt_tensor *embedding, *norm, *head; // borrowed: [vocab, width], [width], [vocab, width]
    bt_llama_block *blocks;             // owned [layers]
    // Constants, owned, of the type of activations: cos and sin of position times frequency,
    // [context, 1, D]; and the signed permutation of a rotation by a quarter, [D, D].
    bt_tensor *cos, *sin, *quarter;
} bt_llama;

// Adds the model's parameters to the list: N(0, 0.02^2), projections into the residual stream
// divided by sqrt(2 layers), norms 1.
// Errors  INVALID_ARGUMENT (a size below 1, not divisible), OUT_OF_MEMORY
BT_CHECKED bt_status bt_llama_init(bt_params *params, const bt_llama_config *config,
                                   bt_llama *model);
void bt_llama_release(bt_llama *model);

// Shapes  ids [B, T <= context] i32, logits [B * T, vocab]
BT_CHECKED bt_status bt_llama_forward(bt_context *context, const bt_llama *model, bt_tensor *ids,
                                      bt_tensor **logits);
// Mean cross-entropy of the next tokens. Shapes  ids, targets [B, T <= context] i32, loss scalar
BT_CHECKED bt_status bt_llama_loss(bt_context *context, const bt_llama *model, bt_tensor *ids,
                                   bt_tensor *targets, bt_tensor **loss);
bt_model bt_llama_model(const bt_llama *model, bt_params *params);

#endif

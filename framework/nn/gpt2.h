// framework/nn/gpt2.h - GPT-2 of any depth and width
//
// Pre-norm, tanh GELU, learned positions, head tied to the token embedding (Radford et al. 2019).
// Weights from N(0, 0.02^2), projections into the residual stream divided by sqrt(2 layers),
// biases zero. 12 layers of width 768 with 50304 rows: 124,475,904 parameters in 148 tensors.
#ifndef BT_NN_GPT2_H
#define BT_NN_GPT2_H

#include "framework/nn/context_parallel.h"
#include "framework/nn/layers.h"
#include "framework/nn/model.h"

typedef struct bt_gpt2_config {
    int64_t layers, heads, width; // width divisible by heads
    int64_t vocab;                // rows of the token embedding, padded: 50304
    int64_t context;              // longest sequence: rows of the position embedding
    const bt_nn_context *sharing; // borrowed: ranks that share sequences; NULL: none
    struct bt_group *tensor;      // borrowed: ranks that share heads, inner width and vocabulary;
                                  // NULL: one rank has all
    bool sequence_parallel; // sequence parallel: between the products each of these ranks has part
                            // of the rows, whose number they divide (tensor_parallel.h)
    struct bt_aside *aside; // borrowed: the loss processes two halves of an even number of
                            // sequences alternately (half_batches.h); NULL: all at once
    struct bt_row_chunks *chunks; // borrowed: with sequence_parallel, overlap the exchange of rows
                                  // (ops/row_chunks.h); NULL: no overlap
} bt_gpt2_config;

typedef struct bt_gpt2 {
    bt_gpt2_config config;
    bt_tensor *wte; // borrowed from the list, as all parameters: [vocab of this rank, width]
    bt_tensor *wpe; // [context, width]; NULL where another rank of config.tensor adds positions
    bt_nn_block *blocks; // owned [layers]
    bt_nn_layernorm ln_f;
    // What the blocks keep for the backward; BT_RECOMPUTE_NONE initially. The first
    // recompute_blocks blocks (0: all) use this mode, the others the mode that was set before.
    bt_recompute_mode recompute;
    int64_t recompute_blocks;
} bt_gpt2;

// Whether so many ranks can share the heads and the vocabulary of a model.
// Errors  INVALID_ARGUMENT (more ranks than heads; a rank without rows of the vocabulary)
BT_CHECKED bt_status bt_gpt2_check_ranks(int64_t heads, int64_t vocab, int ranks);
// Adds the model's parameters to the list.
// Errors  INVALID_ARGUMENT (a size below 1, width not divisible by heads; as bt_gpt2_check_ranks),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_gpt2_init(bt_params *params, const bt_gpt2_config *config, bt_gpt2 *model);
void bt_gpt2_release(bt_gpt2 *model);

// Errors  UNSUPPORTED where ranks share the vocabulary
// Shapes  ids [B, T <= context] i32, logits [B * T, vocab]
// Errors  UNSUPPORTED where ranks share sequences
BT_CHECKED bt_status bt_gpt2_forward(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                                     bt_tensor **logits);
// Mean cross-entropy of the next tokens. With a tape, the logits' memory is reused for their
// gradient. If ranks share sequences, use the model's loss (model.h), which takes positions.
// Shapes  ids, targets [B, T] i32, loss scalar
// Errors  UNSUPPORTED if ranks share sequences
BT_CHECKED bt_status bt_gpt2_loss(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                                  bt_tensor *targets, bt_tensor **loss);
bt_model bt_gpt2_model(const bt_gpt2 *model, bt_params *params);

#endif

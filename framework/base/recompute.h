// framework/base/recompute.h - names of what a training step keeps for its backward
#ifndef BT_BASE_RECOMPUTE_H
#define BT_BASE_RECOMPUTE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a forward keeps for its backward; the rest is recomputed, with the same bits. X(enumerator,
// name, what is not kept)
#define BT_RECOMPUTE_LIST(X)                                                                       \
    X(NONE, "none", "nothing is recomputed")                                                       \
    X(GELU_LN, "gelu_ln", "the outputs of GELU and LayerNorm are recomputed from their inputs")    \
    X(BLOCK, "block",                                                                              \
      "also the products of linear layers that are not added to a residual stream: of a "          \
      "transformer block, only the two residual sums and the output of attention are kept")        \
    X(BLOCK_OFFLOAD, "block_offload", "as block, with the kept tensors in pinned host memory")

typedef enum bt_recompute_mode {
#define BT_RECOMPUTE_ENUM(name, text, meaning) BT_RECOMPUTE_##name,
    BT_RECOMPUTE_LIST(BT_RECOMPUTE_ENUM)
#undef BT_RECOMPUTE_ENUM
        BT_RECOMPUTE_COUNT
} bt_recompute_mode;

const char *bt_recompute_mode_name(bt_recompute_mode mode);
bool bt_recompute_mode_parse(const char *name, bt_recompute_mode *mode);

#ifdef __cplusplus
}
#endif
#endif

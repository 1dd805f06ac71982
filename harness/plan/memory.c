// harness/plan/memory.c - a training case's device memory, estimated
#include <string.h>

#include "harness/plan/plan.h"

int64_t bt_plan_parameters(const cJSON *train)
{
    int64_t layers = (int64_t)bt_plan_number(train, "model.layers");
    int64_t width = (int64_t)bt_plan_number(train, "model.width");
    int64_t vocab = (int64_t)bt_plan_number(train, "model.vocab");
    int64_t context = (int64_t)bt_plan_number(train, "model.context");
    // Embeddings; per block: qkv, projection and the two of the MLP with biases, two norms; the
    // last norm. The head is tied.
    return (vocab + context) * width + layers * (12 * width * width + 13 * width) + 2 * width;
}

// Values per token and width that a block keeps for its backward: two residual sums and attention's
// output; qkv and the pre-activation; the outputs of both norms and of GELU.
static const double kept_of_block[BT_RECOMPUTE_COUNT] = {[BT_RECOMPUTE_NONE] = 16,
                                                         [BT_RECOMPUTE_GELU_LN] = 10,
                                                         [BT_RECOMPUTE_BLOCK] = 3,
                                                         [BT_RECOMPUTE_BLOCK_OFFLOAD] =
                                                             0}; // in host memory
// Besides, while a block's backward runs: gradients (of the hidden layer 4, of input and output),
// and what is made again for it, or on its way from and to host memory.
static const double used_by_block[BT_RECOMPUTE_COUNT] = {[BT_RECOMPUTE_NONE] = 7,
                                                         [BT_RECOMPUTE_GELU_LN] = 12,
                                                         [BT_RECOMPUTE_BLOCK] = 16,
                                                         [BT_RECOMPUTE_BLOCK_OFFLOAD] = 22};

// Logits that exist at a time, at most (bt_linear_cross_entropy_rows).
#define HEAD_LOGITS_BYTES (1.125 * 1024 * 1024 * 1024)

static double larger_of(double a, double b) { return a > b ? a : b; }
static double smaller_of(double a, double b) { return a < b ? a : b; }

bt_plan_recompute bt_plan_recompute_of(const cJSON *train)
{
    const int64_t layers = (int64_t)bt_plan_number(train, "model.layers");
    const int64_t blocks = (int64_t)bt_plan_number(train, "recompute_blocks");
    const cJSON *mode = bt_json_get(train, "recompute");
    bt_plan_recompute how = {BT_RECOMPUTE_NONE, layers};
    if (cJSON_IsString(mode) && bt_recompute_mode_parse(mode->valuestring, &how.mode) && blocks) {
        how.blocks = blocks < layers ? blocks : layers;
    }
    return how;
}

uint64_t bt_plan_memory_bytes(const cJSON *train, int64_t micro_batch, bt_plan_recompute how)
{
    const char *precision = bt_json_get(train, "precision")->valuestring;
    bool narrow = strcmp(precision, "bf16") == 0;
    double element_bytes = narrow ? 2 : 4;
    double layers = bt_plan_number(train, "model.layers");
    double width = bt_plan_number(train, "model.width");
    double vocab = bt_plan_number(train, "model.vocab");
    double tokens = (double)micro_batch * bt_plan_number(train, "sequence");
    double parameters = (double)bt_plan_parameters(train);
    // Weights, two moments in fp32, and the bf16 copy. Gradients are there from a block's backward
    // to the optimizer's step: where nothing accumulates, they take the place of activations.
    double state = parameters * (narrow ? 14 : 12), gradients = parameters * 4;
    bool accumulates = bt_plan_number(train, "tokens_per_step") > tokens;
    bt_recompute_mode cheaper = how.mode ? (bt_recompute_mode)(how.mode - 1) : BT_RECOMPUTE_NONE;
    double blocks = (double)how.blocks;
    double kept = blocks * kept_of_block[how.mode] + (layers - blocks) * kept_of_block[cheaper];
    double unit = tokens * width * element_bytes;
    // The head: logits of some rows, whose place their gradient takes (the fused head's pieces),
    // the gradients of its input and of the tied embedding, which is fp32.
    double logits = smaller_of(tokens * vocab * element_bytes, HEAD_LOGITS_BYTES);
    double head = logits + 3 * unit + 4 * vocab * width;
    double forward = kept * unit + larger_of(head, used_by_block[how.mode] * unit);
    double peak = accumulates ? forward + gradients : larger_of(forward, gradients + 16 * unit);
    return (uint64_t)(1.04 * (state + peak));
}

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

uint64_t bt_plan_memory_bytes(const cJSON *train, int64_t micro_batch)
{
    const char *precision = bt_json_get(train, "precision")->valuestring;
    bool narrow = strcmp(precision, "bf16") == 0;
    double element_bytes = narrow ? 2 : 4;
    double layers = bt_plan_number(train, "model.layers");
    double width = bt_plan_number(train, "model.width");
    double vocab = bt_plan_number(train, "model.vocab");
    double tokens = (double)micro_batch * bt_plan_number(train, "sequence");
    // Weights, gradients, two moments in fp32, and the bf16 copy.
    double state = (double)bt_plan_parameters(train) * (narrow ? 18 : 16);
    // Per token and block: two norms, qkv (3), attention, two residuals, MLP before and after (8);
    // of a block that is recomputed its input, and one whole block at a time.
    bool recompute = cJSON_IsTrue(bt_json_get(train, "recompute"));
    double kept = recompute ? layers + 16 : 16 * layers;
    double activations = tokens * kept * width * element_bytes;
    double logits = tokens * vocab * element_bytes; // their gradient takes their place
    return (uint64_t)(1.1 * (state + activations + logits));
}

// harness/plan/decoder.c - sizes of the model of a training case
#include "harness/plan/decoder.h"

#include <string.h>

bool bt_plan_is_llama(const cJSON *train)
{
    return strcmp(bt_json_text_of(bt_json_get(train, "model"), "family"), "llama") == 0;
}

int64_t bt_plan_hidden(const cJSON *train)
{
    return (int64_t)bt_json_number_of(bt_json_get(train, "model"), "hidden");
}

int64_t bt_plan_keys_width(const cJSON *train)
{
    const int64_t heads = (int64_t)bt_plan_number(train, "model.heads");
    const int64_t given = (int64_t)bt_json_number_of(bt_json_get(train, "model"), "kv_heads");
    return (int64_t)bt_plan_number(train, "model.width") / heads * (given ? given : heads);
}

int64_t bt_plan_parameters(const cJSON *train)
{
    int64_t layers = (int64_t)bt_plan_number(train, "model.layers");
    int64_t width = (int64_t)bt_plan_number(train, "model.width");
    int64_t vocab = (int64_t)bt_plan_number(train, "model.vocab");
    int64_t context = (int64_t)bt_plan_number(train, "model.context");
    // Embedding and head; q, o, k, v, the gated MLP, two norms; the last norm.
    if (bt_plan_is_llama(train)) {
        return 2 * vocab * width +
               layers * (2 * width * width + 2 * bt_plan_keys_width(train) * width +
                         3 * bt_plan_hidden(train) * width + 2 * width) +
               width;
    }
    // Embeddings; per block: qkv, projection and the two of the MLP with biases, two norms; the
    // last norm. The head is tied.
    return (vocab + context) * width + layers * (12 * width * width + 13 * width) + 2 * width;
}

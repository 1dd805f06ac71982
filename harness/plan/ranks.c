// harness/plan/ranks.c - estimates memory and communication of one of several data-parallel ranks
//
// P parameters, N ranks, S virtual shards, M micro-batches of a rank. Gradients are f32 and have
// buffers during the whole run: log2(S / N) + 1 partial sums of shards.
#include <math.h>
#include <string.h>

#include "harness/plan/decoder.h"

enum { GRADIENT_BLOCK = 16384 };

static double larger_of(double a, double b) { return a > b ? a : b; }
static double smaller_of(double a, double b) { return a < b ? a : b; }

// Bytes of the largest buckets of f32 gradients: the token embedding is one alone.
static double bucket_bytes(const cJSON *train, int64_t count)
{
    const double bucket = bt_plan_number(train, "mesh.bucket_mb") * 1024 * 1024;
    const double largest =
        4 * bt_plan_number(train, "model.vocab") * bt_plan_number(train, "model.width");
    return larger_of(bucket, largest) + (double)(count - 1) * bucket;
}

// Elements of the tied embedding's gradient of its lookups, which has a separate buffer if the ids
// of a step are at most half of its rows and no tensor parallel ranks share them; 0: none. *sent:
// of the rows that a step uses.
static double lookups_of(const cJSON *train, double *sent)
{
    const double rows = bt_plan_number(train, "model.vocab");
    const double width = bt_plan_number(train, "model.width");
    const double ids = bt_plan_number(train, "tokens_per_step");
    const bool tied = strcmp(bt_json_text_of(bt_json_get(train, "model"), "family"), "llama") != 0;
    const bool apart = tied && 2 * ids <= rows && bt_plan_mesh_of(train).tensor == 1;
    *sent = apart ? ids * width : 0;
    return apart ? rows * width : 0;
}

static void add_traffic(const cJSON *train, double parameters, double weight_bytes,
                        bt_plan_ranks *out)
{
    const double tokens = bt_plan_number(train, "micro_batch") * bt_plan_number(train, "sequence");
    const double ranks = (double)out->ranks;
    const double data = (double)bt_plan_mesh_of(train).data; // the others share micro-batches
    const double batches = bt_plan_number(train, "tokens_per_step") / tokens / data;
    const double gradients = 4 * parameters, weights = weight_bytes * parameters;
    const double whole[BT_SHARDING_COUNT] = {
        [BT_SHARDING_DDP] = 2 * gradients,                        // reduce-scatter and all-gather
        [BT_SHARDING_ZERO1] = gradients + weights,                // weights after the update
        [BT_SHARDING_ZERO2] = batches * gradients + weights,      // sent after each micro-batch
        [BT_SHARDING_ZERO3] = gradients + 2 * batches * weights}; // forward and backward gather
    double lookups = 0;
    (void)lookups_of(train, &lookups);
    out->sent_bytes = (ranks - 1) / ranks * (whole[out->sharding] + 2 * 4 * lookups);
}

double bt_plan_tensors(const cJSON *train)
{
    const double layers = bt_plan_number(train, "model.layers");
    return bt_plan_is_llama(train) ? 9 * layers + 3 : 12 * layers + 4;
}

// Padding of buckets: each tensor begins a block (BT_SQUARES_BLOCK), half of which is padding on
// average.
static double padding_of(const cJSON *train) { return bt_plan_tensors(train) * GRADIENT_BLOCK / 2; }

static void add_state(const cJSON *train, double parameters, bool narrow, bt_plan_ranks *out)
{
    const double ranks = (double)out->ranks;
    const double weights = (narrow ? 2 : 4) * parameters;
    const double optimizer = (narrow ? 12 : 8) * parameters; // moments, and masters of bf16 weights
    const bool sharded = ranks > 1 && out->sharding != BT_SHARDING_DDP;
    const double shards = bt_plan_number(train, "mesh.invariant");
    const double levels = shards > ranks ? 1 + log2(shards / ranks) : 1;
    out->state_bytes = weights + optimizer / (sharded ? ranks : 1);
    double sent = 0;
    const double lookups = lookups_of(train, &sent);
    out->gradients_bytes = 4 * (parameters + lookups + padding_of(train)) * levels;
    if (sharded && out->sharding == BT_SHARDING_ZERO2) { // whole only until they are sent
        out->gradients_bytes = 4 * lookups + 4 * parameters / ranks +
                               smaller_of(4 * parameters, bucket_bytes(train, 2));
    } else if (sharded && out->sharding == BT_SHARDING_ZERO3) { // a part, and what ops read now
        const double read = bucket_bytes(train, BT_PLAN_RESIDENT_BUCKETS) * (narrow ? 0.5 : 1);
        out->state_bytes += weights / ranks + smaller_of(weights, read) - weights;
    }
    // framework/dist/bucket_slots.c
    const bool has_slots = out->ranks > 1 && (out->ranks & (out->ranks - 1)) == 0 &&
                           out->sharding != BT_SHARDING_ZERO2;
    out->slots_bytes = has_slots ? 4 * (parameters + padding_of(train)) : 0;
}

bool bt_plan_saves(const cJSON *train)
{
    const cJSON *keys = bt_json_get(train, "checkpoint");
    return bt_json_number_of(keys, "every_steps") > 0 ||
           bt_json_number_of(keys, "every_minutes") > 0 ||
           cJSON_IsTrue(bt_json_get(keys, "at_end"));
}

bt_plan_ranks bt_plan_ranks_of(const cJSON *train)
{
    const cJSON *mesh = bt_json_get(train, "mesh");
    const bool narrow = strcmp(bt_json_text_of(train, "precision"), "bf16") == 0;
    const bt_plan_mesh degrees = bt_plan_mesh_of(train);
    const double whole = (double)bt_plan_parameters(train);
    const double parameters = whole / (double)degrees.tensor; // except for the few that all ranks
                                                              // have
    // Only the first tensor parallel rank has positions: the plan is for that rank.
    const double positions = bt_plan_is_llama(train) ? 0
                                                     : bt_plan_number(train, "model.context") *
                                                           bt_plan_number(train, "model.width");
    const double held = parameters + positions * (1 - 1 / (double)degrees.tensor);
    bt_plan_ranks out = {.ranks = degrees.data * degrees.context};
    (void)bt_sharding_parse(bt_json_text_of(mesh, "sharding"), &out.sharding);
    out.parallel = degrees.ranks > 1 || bt_json_number_of(mesh, "invariant") > 0;
    add_state(train, held, narrow, &out);
    add_traffic(train, parameters, narrow ? 2 : 4, &out);
    return out;
}

// harness/plan/mesh.c - train.mesh: its degrees, and the default of its virtual shards
#include "harness/plan/plan.h"

enum { SHARDS_MOST = 8 }; // by default

static int64_t degree(const cJSON *mesh, const char *key)
{
    const double value = bt_json_number_of(mesh, key);
    return value > 1 ? (int64_t)value : 1;
}

bt_plan_mesh bt_plan_mesh_of(const cJSON *train)
{
    const cJSON *mesh = bt_json_get(train, "mesh");
    bt_plan_mesh out = {.data = degree(mesh, "data"),
                        .tensor = degree(mesh, "tensor"),
                        .context = degree(mesh, "context")};
    out.ranks = out.data * out.tensor * out.context;
    return out;
}

// framework/train/check.c has the rule: S is a power of 2 that divides the micro-batches of a step
// and is a multiple of the data parallel ranks, and each rank has whole sequences.
int64_t bt_plan_default_shards(const cJSON *train, int64_t micro_batch)
{
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    const int64_t batch = micro_batch * (int64_t)bt_plan_number(train, "sequence");
    const int64_t tokens = (int64_t)bt_plan_number(train, "tokens_per_step");
    const int64_t batches = tokens > 0 && batch > 0 ? tokens / batch : 1;
    int64_t shards = mesh.context > 1 ? 0 : SHARDS_MOST;
    while (shards > 0 && (batches % shards != 0 || shards % mesh.data != 0)) {
        shards /= 2;
    }
    return shards;
}

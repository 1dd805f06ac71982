// harness/plan/mesh.c - train.mesh: its degrees and their text, the default of its virtual shards,
// its faults
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
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

// Appends the word, and its value if that is not 0.
static void append(const char *between, const char *word, int64_t value, bt_text *out)
{
    const bt_text before = *out;
    const bt_text number = value ? bt_textf(" %lld", (long long)value) : (bt_text){""};
    *out = bt_textf("%s%s%s%s", before.text, before.text[0] ? between : "", word, number.text);
}

bt_text bt_plan_degrees_text(const bt_plan_mesh *mesh)
{
    const struct {
        const char *word;
        int64_t value;
    } degrees[] = {{"data", mesh->data}, {"tensor", mesh->tensor}, {"context", mesh->context}};
    bt_text out = {""};
    for (int64_t i = 0; i < BT_COUNT(degrees); ++i) {
        if (degrees[i].value > 1) {
            append(" x ", degrees[i].word, degrees[i].value, &out);
        }
    }
    return out;
}

bt_text bt_plan_mesh_text(const cJSON *train)
{
    static const struct {
        const char *key, *word;
    } options[] = {{"sequence_parallel", "sequence parallel"},
                   {"row_chunks", "row chunks"},
                   {"half_batches", "half-batches"}};
    const cJSON *json = bt_json_get(train, "mesh");
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    bt_text out = bt_plan_degrees_text(&mesh);
    for (int64_t i = 0; i < BT_COUNT(options) && mesh.tensor > 1; ++i) {
        if (cJSON_IsTrue(bt_json_get(json, options[i].key))) {
            append(", ", options[i].word, 0, &out);
        }
    }
    const char *rotation = bt_json_text_of(json, "rotation");
    const int64_t shared = (int64_t)bt_json_number_of(json, "shared_heads");
    if (mesh.context > 1 && shared > 1) {
        append(", ", "shared heads", shared, &out);
    }
    if (mesh.context > (shared > 1 ? shared : 1) && rotation[0] &&
        strcmp(rotation, "all_gather") != 0) {
        append(", ", rotation, 0, &out);
    }
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

// ---- faults -------------------------------------------------------------------------------------

static bt_status read_fault(const char *text, int64_t ranks, int64_t steps, bt_plan_fault *out)
{
    static const struct {
        const char *word;
        int signal;
    } kinds[] = {{"kill", SIGKILL}, {"stop", SIGSTOP}, {"segv", SIGSEGV}};
    char word[16] = "";
    long long rank = -1, step = -1;
    int end = 0;
    bool complete = sscanf(text, "%15s rank %lld at step %lld%n", word, &rank, &step, &end) == 3;
    complete = complete && step >= 0;
    if (!complete) {
        step = BT_PLAN_AT_START;
        end = 0;
        complete = sscanf(text, "%15s rank %lld at start%n", word, &rank, &end) == 2 && end > 0;
    }
    const int64_t kind = BT_FIND(kinds, BT_COUNT(kinds), word, word);
    BT_FAIL_IF(!complete || text[end] != '\0' || kind < 0 || rank < 0 || rank >= ranks,
               BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.faults: expected '(kill, stop or segv) rank R at (step S or start)' "
               "with R below %lld, the number of ranks, got '%s'",
               (long long)ranks, text);
    BT_FAIL_IF(step >= steps, BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.faults: '%s': the run's last step is %lld", text, (long long)steps - 1);
    *out = (bt_plan_fault){.signal = kinds[kind].signal, .rank = rank, .step = step};
    return BT_OK;
}

bt_status bt_plan_faults_read(const cJSON *train, bt_plan_fault faults[BT_PLAN_FAULTS_MAX],
                              int64_t *count)
{
    const cJSON *list = bt_json_get(bt_json_get(train, "mesh"), "faults");
    const int64_t ranks = bt_plan_mesh_of(train).ranks;
    const int64_t steps = (int64_t)bt_plan_number(train, "steps");
    *count = 0;
    for (const cJSON *node = cJSON_IsArray(list) ? list->child : list; node;
         node = cJSON_IsArray(list) ? node->next : NULL) {
        BT_FAIL_IF(*count == BT_PLAN_FAULTS_MAX || !cJSON_IsString(node),
                   BT_STATUS_INVALID_ARGUMENT, "train.mesh.faults: expected at most %d texts",
                   BT_PLAN_FAULTS_MAX);
        BT_TRY(read_fault(node->valuestring, ranks, steps, &faults[*count]));
        ++*count;
    }
    return BT_OK;
}

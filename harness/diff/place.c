// harness/diff/place.c - names of one rank for the values of a mesh
#include "harness/diff/place.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/dist/group.h"
#include "framework/nn/context_parallel.h"

// ---- calls --------------------------------------------------------------------------------------

typedef enum place_when {
    ALWAYS,
    WHOLE,        // one rank has all matrices
    SHARED,       // tensor parallel
    WHOLE_HEADS,  // context parallel ranks have all of their heads during attention
    SHARED_HEADS, // or share them (Ulysses)
} place_when;

// A call of a mesh and the matching call of one rank, '*' for a block number; NULL: ignored.
typedef struct place_rule {
    bt_train_value_kind kind;
    place_when when;
    const char *call, *whole;
    bt_diff_share share;
    int64_t repeats; // of shards
} place_rule;

#define FORWARD    BT_TRAIN_VALUE_FORWARD
#define BACKWARD   BT_TRAIN_VALUE_BACKWARD
#define SAME(name) name, name

// clang-format off
static const place_rule rules[] = {
    {FORWARD, ALWAYS, "wte.embedding", NULL, BT_DIFF_PARTIAL, 0}, // without positions
    {FORWARD, ALWAYS, "wpe.embedding", NULL, BT_DIFF_REPLICATED, 0}, // which one rank adds at once
    {BACKWARD, ALWAYS, "wpe.binary.in0", NULL, BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, "wpe.binary.in1", NULL, BT_DIFF_REPLICATED, 0},
    {FORWARD, WHOLE, "wpe.binary", "wte.embedding", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "wte.all_reduce", "wte.embedding", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "wpe.all_reduce", "wte.embedding", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "wte.reduce_scatter", "wte.embedding", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "wpe.reduce_scatter", "wte.embedding", BT_DIFF_REPLICATED, 0},
    {FORWARD, ALWAYS, SAME("h.*.ln_1.layernorm"), BT_DIFF_REPLICATED, 0},
    {FORWARD, ALWAYS, SAME("h.*.attn.c_attn.linear"), BT_DIFF_SHARDED, 3},
    {FORWARD, SHARED, "h.*.attn.c_attn.gather_linear", "h.*.attn.c_attn.linear", BT_DIFF_SHARDED, 3},
    {FORWARD, WHOLE_HEADS, SAME("h.*.attention"), BT_DIFF_SHARDED, 1},
    {FORWARD, WHOLE_HEADS, "h.*.ring_attention", "h.*.attention", BT_DIFF_SHARDED, 1},
    {FORWARD, SHARED_HEADS, "h.*.attention", NULL, BT_DIFF_SHARDED, 0}, // of other heads
    {FORWARD, SHARED_HEADS, "h.*.share_tokens", "h.*.attention", BT_DIFF_SHARDED, 1},
    {FORWARD, SHARED, "h.*.binary", "h.*.attn.c_proj.linear", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "h.*.attn.c_proj.linear_scatter", "h.*.attn.c_proj.linear", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "h.*.attn.c_proj.attention_scatter", "h.*.attn.c_proj.linear", BT_DIFF_REPLICATED, 0},
    {FORWARD, ALWAYS, SAME("h.*.ln_2.layernorm"), BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "h.*.binary#2", "h.*.mlp.c_fc.feed_forward", BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "h.*.mlp.c_fc.feed_forward_chunks", "h.*.mlp.c_fc.feed_forward", BT_DIFF_REPLICATED, 0},
    {FORWARD, ALWAYS, SAME("ln_f.layernorm"), BT_DIFF_REPLICATED, 0},
    {FORWARD, SHARED, "wte.cross_entropy", "wte.linear_cross_entropy", BT_DIFF_REPLICATED, 0},
    {BACKWARD, SHARED, "wte.linear.in0", "wte.linear_cross_entropy.in0", BT_DIFF_PARTIAL, 0},
    {BACKWARD, SHARED, "wte.gather_linear.in0", "wte.linear_cross_entropy.in0", BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, SAME("ln_f.layernorm.in0"), BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, SAME("h.*.mlp.c_fc.feed_forward.in0"), BT_DIFF_PARTIAL, 0},
    {BACKWARD, SHARED, "h.*.mlp.c_fc.feed_forward_chunks.in0", "h.*.mlp.c_fc.feed_forward.in0", BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, SAME("h.*.ln_2.layernorm.in0"), BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, SAME("h.*.attn.c_proj.linear.in0"), BT_DIFF_SHARDED, 1},
    {BACKWARD, SHARED, "h.*.attn.c_proj.linear_scatter.in0", "h.*.attn.c_proj.linear.in0", BT_DIFF_SHARDED, 1},
    {BACKWARD, WHOLE_HEADS, SAME("h.*.attention.in0"), BT_DIFF_SHARDED, 3},
    {BACKWARD, SHARED, "h.*.attn.c_proj.attention_scatter.in0", "h.*.attention.in0", BT_DIFF_SHARDED, 3},
    {BACKWARD, WHOLE_HEADS, "h.*.ring_attention.in0", "h.*.attention.in0", BT_DIFF_SHARDED, 3},
    {BACKWARD, SHARED_HEADS, "h.*.attention.in0", NULL, BT_DIFF_SHARDED, 0},
    {BACKWARD, SHARED_HEADS, "h.*.share_heads.in0", "h.*.attention.in0", BT_DIFF_SHARDED, 3},
    {BACKWARD, ALWAYS, SAME("h.*.attn.c_attn.linear.in0"), BT_DIFF_PARTIAL, 0},
    {BACKWARD, SHARED, "h.*.attn.c_attn.gather_linear.in0", "h.*.attn.c_attn.linear.in0", BT_DIFF_REPLICATED, 0},
    {BACKWARD, ALWAYS, SAME("h.*.ln_1.layernorm.in0"), BT_DIFF_REPLICATED, 0},
};
// clang-format on

static bool holds(const bt_diff_mesh *mesh, place_when when)
{
    switch (when) {
    case ALWAYS:
        return true;
    case WHOLE:
        return mesh->degrees.tensor == 1;
    case SHARED:
        return mesh->degrees.tensor > 1;
    case WHOLE_HEADS:
        return mesh->shared_heads == 1;
    case SHARED_HEADS:
        return mesh->shared_heads > 1;
    }
    return false;
}

// Whether the call matches; *number: its block number in the call's text, with *digits characters.
static bool matches(const char *pattern, const char *call, const char **number, int *digits)
{
    *number = "";
    *digits = 0;
    for (; *pattern && *pattern != '*'; ++pattern, ++call) {
        if (*pattern != *call) {
            return false;
        }
    }
    if (*pattern == '*') {
        *number = call;
        *digits = (int)strspn(call, "0123456789");
        return *digits > 0 && strcmp(pattern + 1, call + *digits) == 0;
    }
    return *call == 0;
}

static void write_whole(const char *whole, const char *number, int digits, char *out, size_t room)
{
    const int head = (int)strcspn(whole, "*");
    (void)snprintf(out, room, "%.*s%.*s%s", head, whole, digits, number,
                   whole[head] ? whole + head + 1 : "");
}

// NULL if no rule matches this call.
static const place_rule *find_rule(const bt_diff_mesh *mesh, bt_train_value_kind kind,
                                   const char *call, char *whole, size_t room)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
        const place_rule *rule = &rules[i];
        const char *number = "";
        int digits = 0;
        if (rule->kind == kind && holds(mesh, rule->when) &&
            matches(rule->call, call, &number, &digits)) {
            write_whole(rule->whole ? rule->whole : "", number, digits, whole, room);
            return rule;
        }
    }
    return NULL;
}

// ---- the mesh -----------------------------------------------------------------------------------

static int at_least_one(int64_t degree) { return degree > 1 ? (int)degree : 1; }

bt_diff_mesh bt_diff_mesh_of(const bt_train_plan *plan)
{
    const bt_train_parallel *parallel = &plan->parallel;
    const bt_mesh_degrees degrees = {.data = at_least_one(parallel->mesh.data),
                                     .tensor = at_least_one(parallel->mesh.tensor),
                                     .context = at_least_one(parallel->mesh.context)};
    return (bt_diff_mesh){.degrees = degrees,
                          .shared_heads = at_least_one(parallel->shared_heads),
                          .batch = plan->micro_batch,
                          .tokens = plan->sequence,
                          .micro_batches = plan->tokens_per_step / plan->micro_batch /
                                           plan->sequence / degrees.data};
}

int bt_diff_mesh_ranks(const bt_diff_mesh *mesh)
{
    return mesh->degrees.data * mesh->degrees.tensor * mesh->degrees.context;
}

int64_t bt_diff_mesh_row(const bt_diff_mesh *mesh, int context, int64_t row)
{
    const int64_t own = mesh->tokens / mesh->degrees.context, half = own / 2;
    if (mesh->degrees.context == 1) {
        return row;
    }
    const int heads = mesh->shared_heads;
    const bt_ring ring = {.rank = context / heads, .size = mesh->degrees.context / heads};
    bt_group sharing = {.rank = context % heads, .size = heads};
    const bt_nn_context at = {.ring = ring.size > 1 ? &ring : NULL,
                              .heads = heads > 1 ? &sharing : NULL};
    const int64_t token = row % own;
    const int piece = token >= half;
    return row / own * mesh->tokens + bt_nn_context_first(&at, mesh->tokens, piece) + token -
           piece * half;
}

// ---- values -------------------------------------------------------------------------------------

// "h.3" of "h.3.attn.c_attn.linear", and "linear" of "h.3.attn.c_attn.linear#2.in0".
static void name_parts(const char *call, bt_diff_placed *out)
{
    size_t length = strcspn(call, ".");
    if (call[length] == '.') {
        const size_t digits = strspn(call + length + 1, "0123456789");
        length += digits ? 1 + digits : 0;
    }
    (void)snprintf(out->layer, sizeof out->layer, "%.*s", (int)length, call);
    const char *end = call + strcspn(call, "#");
    const char *input = strstr(call, ".in");
    while (input && !isdigit((unsigned char)input[3])) {
        input = strstr(input + 1, ".in");
    }
    end = input && input < end ? input : end;
    const char *op = end;
    while (op > call && op[-1] != '.') {
        --op;
    }
    (void)snprintf(out->op, sizeof out->op, "%.*s", (int)(end - op), op);
}

static bool place_call(const bt_diff_mesh *mesh, int rank, const bt_train_value *value,
                       bt_diff_placed *out)
{
    char whole[BT_DIFF_NAME_BYTES - 48];
    char *call = NULL;
    const char *word = bt_train_value_name(value->kind);
    const long long micro = strtoll(value->name + strlen(word) + 1, &call, 10);
    const int data = rank / mesh->degrees.tensor / mesh->degrees.context;
    const bool mixes = mesh->degrees.tensor > 1 || mesh->degrees.context > 1;
    ++call; // the dot
    const place_rule *rule = mixes ? find_rule(mesh, value->kind, call, whole, sizeof whole) : NULL;
    if (value->so_far || (rule && !rule->whole)) {
        return false;
    }
    if (!rule) {
        if (mesh->degrees.tensor > 1 && value->kind != BT_TRAIN_VALUE_INPUT) {
            return false;
        }
        (void)snprintf(whole, sizeof whole, "%s", call);
    }
    const bool backward = value->kind == BT_TRAIN_VALUE_BACKWARD;
    out->place = (bt_diff_place){.share = rule ? rule->share : BT_DIFF_REPLICATED,
                                 .columns = true,
                                 .repeats = rule && rule->repeats ? rule->repeats : 1,
                                 .tokens = bt_tensor_count(value->tensor) > 1,
                                 .scale = backward ? 1.0 / mesh->degrees.context : 1};
    (void)snprintf(out->name, sizeof out->name, "%s.%lld.%s", word,
                   micro + data * (long long)mesh->micro_batches, whole);
    if (rule) {
        name_parts(whole, out);
    }
    return out->place.tokens || mesh->degrees.context == 1;
}

static void place_gradient(const bt_diff_mesh *mesh, const bt_train_value *value,
                           bt_diff_place *place)
{
    place->scale = 1.0 / mesh->degrees.context;
    if (value->spec) {
        const bt_param_part *part = &value->spec->part;
        place->share = BT_DIFF_SHARDED;
        place->columns = part->axis + 1 == value->spec->whole.rank;
        place->repeats = part->repeats;
    }
}

bool bt_diff_place_of(const bt_diff_mesh *mesh, int rank, const bt_train_value *value,
                      bt_diff_placed *out)
{
    *out = (bt_diff_placed){.place = {.repeats = 1, .scale = 1}};
    (void)snprintf(out->name, sizeof out->name, "%s", value->name);
    (void)snprintf(out->layer, sizeof out->layer, "%s", value->layer);
    (void)snprintf(out->op, sizeof out->op, "%s", value->op);
    switch (value->kind) {
    case BT_TRAIN_VALUE_INPUT:
    case BT_TRAIN_VALUE_FORWARD:
    case BT_TRAIN_VALUE_BACKWARD:
        return place_call(mesh, rank, value, out);
    case BT_TRAIN_VALUE_GRADIENT:
        place_gradient(mesh, value, &out->place);
        return true;
    case BT_TRAIN_VALUE_INITIAL:
    case BT_TRAIN_VALUE_STATE:
    case BT_TRAIN_VALUE_COUNT:
        break;
    }
    return true;
}

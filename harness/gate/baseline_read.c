// harness/gate/baseline_read.c - reads a baseline's document into sides
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/baseline.h"
#include "harness/gate/curves.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/text/record_json.h"

static bt_status read_facts(bt_document *in, const cJSON *facts, bt_fact_level level,
                            bt_store_fact *out, int64_t *count)
{
    for (const cJSON *node = facts->child; node; node = node->next) {
        bt_store_fact *fact = &out[(*count)++];
        fact->level = level;
        if (!cJSON_IsString(node)) {
            return bt_json_error(in->json, node, BT_JSON_VALUE, "the fact \"%s\" must be a text",
                                 node->string);
        }
        BT_TRY(bt_keep(in->arena, node->string, &fact->key));
        BT_TRY(bt_keep(in->arena, node->valuestring, &fact->value));
    }
    return BT_OK;
}

static int by_key(const void *left, const void *right)
{
    const bt_store_fact *a = left;
    const bt_store_fact *b = right;
    return strcmp(a->key, b->key);
}

static bt_status read_environment(bt_document *in, const cJSON *root, bt_store_env *out)
{
    const cJSON *environment = NULL, *hard = NULL, *soft = NULL;
    BT_TRY(bt_document_member(in, root, "environment", false, &environment));
    BT_TRY(bt_document_text(in, environment, "digest", &out->digest));
    BT_TRY(bt_document_member(in, environment, "hard", false, &hard));
    BT_TRY(bt_document_member(in, environment, "soft", false, &soft));
    bt_store_fact *facts = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(hard) + cJSON_GetArraySize(soft), &facts));
    BT_TRY(read_facts(in, hard, BT_FACT_HARD, facts, &out->fact_count));
    BT_TRY(read_facts(in, soft, BT_FACT_SOFT, facts, &out->fact_count));
    if (out->fact_count > 0) {
        qsort(facts, (size_t)out->fact_count, sizeof *facts, by_key);
    }
    out->facts = facts;
    return BT_OK;
}

static bt_status read_build(bt_document *in, const cJSON *root, bt_store_build *out)
{
    const cJSON *member = NULL;
    BT_TRY(bt_document_member(in, root, "build", false, &member));
    // A copy: positions in messages are those of the document's own nodes.
    BT_SCOPED(bt_json_doc) build = {.root = cJSON_Duplicate(member, true)};
    BT_FAIL_IF(!build.root, BT_STATUS_OUT_OF_MEMORY, "host memory for a baseline");
    if (!bt_json_get(build.root, "version")) { // documents of earlier versions have none
        BT_TRY(bt_json_put(build.root, "version", cJSON_CreateString(""), "a baseline"));
    }
    return bt_error_context(bt_fields_read(build.root, "build", BT_FIELDS_BUILD, in->arena, out),
                            "%s", in->json->name);
}

static bt_status read_kernels(bt_document *in, const cJSON *item, bt_gate_side *out)
{
    const cJSON *list = NULL;
    BT_TRY(bt_document_member(in, item, "kernels", true, &list));
    const char **kernels = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(list), &kernels));
    for (const cJSON *node = list->child; node; node = node->next) {
        if (!cJSON_IsString(node)) {
            return bt_json_error(in->json, node, BT_JSON_VALUE,
                                 "\"kernels\" must contain only texts");
        }
        BT_TRY(bt_keep(in->arena, node->valuestring, &kernels[out->kernel_count++]));
    }
    out->kernels = kernels;
    return BT_OK;
}

static bt_status read_settings(bt_document *in, const cJSON *item, bt_gate_side *out)
{
    const cJSON *settings = NULL;
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(bt_document_member(in, item, "settings", false, &settings));
    bt_json_write(settings, &text);
    BT_TRY(bt_str_status(&text));
    BT_TRY(bt_keep(in->arena, bt_str_text(&text), &out->axes_json));
    return bt_record_digest_str(&text, out->settings);
}

// Values of a metric: [sessions][rounds], in one array.
typedef struct metric_values {
    const double **sessions; // [session_count]
    int64_t *counts;         // [session_count]
    int64_t session_count;
} metric_values;

// A list of sessions, or, in a document of format 1, the rounds of the only session.
static bt_status read_values(bt_document *in, const cJSON *list, metric_values *out)
{
    bool nested = cJSON_IsArray(list) && cJSON_IsArray(list->child);
    const int room = nested ? cJSON_GetArraySize(list) : 1;
    BT_TRY(BT_ARENA_ARRAY(in->arena, room, &out->sessions));
    BT_TRY(BT_ARENA_ARRAY(in->arena, room, &out->counts));
    for (const cJSON *node = nested ? list->child : list; node; node = nested ? node->next : NULL) {
        BT_TRY(bt_document_numbers(in, node, list->string, &out->sessions[out->session_count],
                                   &out->counts[out->session_count]));
        ++out->session_count;
    }
    return BT_OK;
}

static int64_t rounds_of(const metric_values *values, int64_t session)
{
    int64_t most = 0;
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        bool has = session < values[i].session_count;
        most = has && values[i].counts[session] > most ? values[i].counts[session] : most;
    }
    return most;
}

// The i-th value of each metric of a session belongs to its round i.
static bt_status make_rounds(bt_document *in, const cJSON *metrics, const metric_values *values,
                             bt_gate_side *out)
{
    int64_t sessions = 0;
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        sessions = values[i].session_count > sessions ? values[i].session_count : sessions;
    }
    for (int64_t s = 0; s < sessions; ++s) {
        int64_t rounds = rounds_of(values, s);
        out->round_count += rounds;
        if (rounds < BT_BASELINE_ROUNDS_MIN) {
            return bt_json_error(in->json, metrics, BT_JSON_VALUE,
                                 "a case of a baseline needs at least %d rounds in each session",
                                 BT_BASELINE_ROUNDS_MIN);
        }
    }
    bt_gate_round *rounds = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, out->round_count, &rounds));
    out->rounds = rounds;
    for (int64_t s = 0, at = 0; s < sessions; ++s) {
        for (int64_t i = 0, count = rounds_of(values, s); i < count; ++i, ++at) {
            rounds[at] = (bt_gate_round){.ordinal = at, .session = s};
            for (int j = 0; j < BT_GATE_METRIC_COUNT; ++j) {
                bool known = s < values[j].session_count && i < values[j].counts[s];
                rounds[at].values[j] = known ? values[j].sessions[s][i] : (double)NAN;
                rounds[at].older[j] = rounds[at].values[j];
            }
        }
    }
    return BT_OK;
}

static bt_status read_metrics(bt_document *in, const cJSON *item, bt_gate_side *out)
{
    const cJSON *metrics = NULL;
    metric_values values[BT_GATE_METRIC_COUNT] = {0};
    BT_TRY(bt_document_member(in, item, "metrics", false, &metrics));
    for (const cJSON *node = metrics->child; node; node = node->next) {
        bt_gate_metric metric = BT_GATE_TIME;
        if (!bt_gate_metric_parse(node->string, &metric)) {
            return bt_json_error(in->json, node, BT_JSON_KEY,
                                 "\"%s\" is not a metric that gate compares", node->string);
        }
        BT_TRY(read_values(in, node, &values[metric]));
    }
    BT_TRY(make_rounds(in, metrics, values, out));
    return out->round_count > 0 ? BT_OK
                                : bt_json_error(in->json, metrics, BT_JSON_VALUE,
                                                "a case of a baseline needs at least %d rounds",
                                                BT_BASELINE_ROUNDS_MIN);
}

static bt_status read_case(bt_document *in, const cJSON *item, const bt_store_env *env,
                           bt_gate_side *out)
{
    *out = (bt_gate_side){.message = "", .label = ""};
    if (!cJSON_IsObject(item)) {
        return bt_json_error(in->json, item, BT_JSON_VALUE, "a case must be an object");
    }
    BT_TRY(bt_document_text(in, item, "bench", &out->bench));
    BT_TRY(bt_document_text(in, item, "kind", &out->kind));
    BT_TRY(bt_document_text(in, item, "name", &out->name));
    BT_TRY(bt_document_text(in, item, "system", &out->system));
    BT_TRY(bt_document_text(in, item, "precision", &out->precision));
    BT_TRY(read_settings(in, item, out));
    BT_TRY(read_kernels(in, item, out));
    BT_TRY(bt_document_number_if(in, item, "sm_clock_mhz", &out->clock_mhz));
    BT_TRY(bt_document_number_if(in, item, "power_w", &out->power_w));
    BT_TRY(read_metrics(in, item, out));
    BT_TRY(bt_document_read_curves(in, item, out));
    return bt_plan_environment(env, out->name, out->axes_json, out->environment);
}

static bt_status read_cases(bt_document *in, const cJSON *root, bt_baseline *out)
{
    const cJSON *cases = NULL;
    BT_TRY(bt_document_member(in, root, "cases", true, &cases));
    if (!cases->child) {
        return bt_json_error(in->json, cases, BT_JSON_VALUE, "a baseline needs at least one case");
    }
    bt_gate_side *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(cases), &items));
    for (const cJSON *item = cases->child; item; item = item->next) {
        BT_TRY(read_case(in, item, &out->env, &items[out->sides.count]));
        const bt_gate_side *side = &items[out->sides.count];
        if (bt_gate_side_find(&out->sides, side->bench, side->name, side->system)) {
            return bt_json_error(in->json, item, BT_JSON_VALUE, "the case %s occurs twice",
                                 side->name);
        }
        out->sides.items = items;
        ++out->sides.count;
    }
    return BT_OK;
}

static bt_status read_ceilings(bt_document *in, const cJSON *root, bt_gate_ceilings *out)
{
    const cJSON *ceilings = NULL;
    BT_TRY(bt_document_member(in, root, "ceilings", false, &ceilings));
    bt_gate_ceiling *items = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(ceilings), &items));
    for (const cJSON *node = ceilings->child; node; node = node->next) {
        bt_gate_ceiling *item = &items[out->count++];
        size_t length = strlen(BT_GATE_CEILING_PREFIX);
        if (strncmp(node->string, BT_GATE_CEILING_PREFIX, length) != 0) {
            return bt_json_error(in->json, node, BT_JSON_KEY, "\"%s\" must begin with \"%s\"",
                                 node->string, BT_GATE_CEILING_PREFIX);
        }
        BT_TRY(bt_keep(in->arena, node->string, &item->name));
        BT_TRY(bt_document_numbers(in, node, node->string, &item->rates, &item->count));
    }
    out->items = items;
    return BT_OK;
}

// Format 1 has no card and no sessions.
static bt_status read_sessions(bt_document *in, const cJSON *root, bt_baseline *out)
{
    const cJSON *list = NULL;
    BT_TRY(bt_document_text_if(in, root, "card", &out->card));
    BT_TRY(bt_document_text_if(in, root, "noise_accepted", &out->noise_accepted));
    if (!bt_json_get(root, "sessions")) {
        return BT_OK;
    }
    BT_TRY(bt_document_member(in, root, "sessions", true, &list));
    bt_baseline_session *sessions = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(list), &sessions));
    for (const cJSON *node = list->child; node; node = node->next) {
        bt_baseline_session *session = &sessions[out->session_count++];
        double run = 0, disturbed = 0;
        BT_TRY(bt_document_number(in, node, "run", 0, 1e15, &run));
        BT_TRY(bt_document_number(in, node, "disturbed", 0, 1e15, &disturbed));
        BT_TRY(bt_document_text(in, node, "started", &session->started));
        BT_TRY(bt_document_text_if(in, node, "started_ns", &session->started_ns));
        session->run = (int64_t)run;
        session->disturbed = (int64_t)disturbed;
    }
    out->sessions = sessions;
    return BT_OK;
}

static bt_status read_document(bt_document *in, const cJSON *root, bt_baseline *out)
{
    const cJSON *format = bt_json_get(root, "format");
    const char *given = cJSON_IsString(format) ? format->valuestring : "";
    if (strcmp(given, BT_BASELINE_FORMAT) != 0 && strcmp(given, BT_BASELINE_FORMAT_1) != 0) {
        return bt_json_error(in->json, format ? format : root, BT_JSON_VALUE,
                             "unknown baseline format: \"format\" must be \"%s\" or "
                             "\"%s\"",
                             BT_BASELINE_FORMAT, BT_BASELINE_FORMAT_1);
    }
    BT_TRY(bt_document_text(in, root, "name", &out->name));
    BT_TRY(bt_baseline_check_name(out->name));
    BT_TRY(bt_document_text(in, root, "reason", &out->reason));
    BT_TRY(bt_document_text(in, root, "created", &out->created));
    BT_TRY(bt_document_text(in, root, "machine", &out->machine));
    BT_TRY(bt_document_text(in, root, "suite", &out->suite));
    BT_TRY(bt_document_text(in, root, "profile", &out->profile));
    BT_TRY(bt_document_text(in, root, "plan", &out->plan_hash));
    BT_TRY(read_build(in, root, &out->build));
    BT_TRY(read_environment(in, root, &out->env));
    BT_TRY(read_ceilings(in, root, &out->ceilings));
    BT_TRY(read_sessions(in, root, out));
    return read_cases(in, root, out);
}

// Stores the document as it may be published, and its digest.
static bt_status keep_public(bt_document *in, const char *text, bt_baseline *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    bt_str canonical = {0};
    BT_SCOPED(bt_str) public = {0};
    BT_TRY(bt_baseline_write_public(text, &public));
    BT_TRY(bt_keep(in->arena, bt_str_text(&public), &out->document));
    BT_TRY(bt_json_parse_within("baseline", bt_str_text(&public), public.length_bytes,
                                BT_BASELINE_BYTES_MAX, &json));
    bt_json_write(json.root, &canonical);
    return bt_record_digest_str(&canonical, out->digest);
}

bt_status bt_baseline_parse(const char *path, const char *text, size_t size_bytes, bt_baseline *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_json_parse_within(path, text, size_bytes, BT_BASELINE_BYTES_MAX, &json));
    bt_document in = {&json, &out->arena};
    bt_status status = read_document(&in, json.root, out);
    BT_IF_OK(status, keep_public(&in, json.text, out));
    if (status != BT_OK) {
        bt_baseline_release(out);
    }
    return status;
}

// harness/gate/baseline.c - runs into a baseline's document
//
// The document is written with the JSON writer in any order, then parsed and written again with
// sorted keys: one place decides the form.
#include "harness/gate/baseline.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/env/facts.h"
#include "harness/gate/document.h"
#include "harness/gate/merge.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

#define NAME_BYTES_MAX 64

bt_status bt_baseline_check_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES_MAX || strspn(name, allowed) != length ||
        !isalnum((unsigned char)name[0])) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "\"%s\" is no name of a baseline: 1 to %d letters, digits, '-', '_' or "
                        "'.', the first a letter or digit",
                        name, NAME_BYTES_MAX);
    }
    return BT_OK;
}

// ---- machine -----------------------------------------------------------------------------------

static const char *fact_of(const bt_store_env *env, const char *key)
{
    for (int64_t i = 0; i < env->fact_count; ++i) {
        if (strcmp(env->facts[i].key, key) == 0) {
            return env->facts[i].value;
        }
    }
    return NULL;
}

void bt_baseline_machine(const bt_store_env *env, bt_str *out)
{
    const char *name = fact_of(env, "gpu.name");
    name = name ? name : fact_of(env, "cpu.model");
    size_t start = out->length_bytes;
    bool gap = false;
    for (const char *at = name ? name : ""; *at; ++at) {
        unsigned char byte = (unsigned char)*at;
        if (!isalnum(byte)) {
            gap = out->length_bytes > start;
            continue;
        }
        bt_str_format(out, "%s%c", gap ? "-" : "", tolower(byte));
        gap = false;
    }
    if (out->length_bytes == start) {
        bt_str_append(out, "unknown");
    }
}

// ---- writing -----------------------------------------------------------------------------------

static void write_metrics(const bt_gate_side *side, double *values, bt_json_writer *json)
{
    bt_json_writer_open(json, "metrics", '{');
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        int64_t count = bt_gate_side_values(side, (bt_gate_metric)i, values);
        if (count == 0) {
            continue;
        }
        bt_json_writer_open(json, bt_gate_metric_info((bt_gate_metric)i)->tag, '[');
        for (int64_t j = 0; j < count; ++j) {
            bt_json_writer_real(json, NULL, values[j]);
        }
        bt_json_writer_close(json, ']');
    }
    bt_json_writer_close(json, '}');
}

static bt_status write_side(const bt_gate_side *side, bt_json_writer *json)
{
    void *values = NULL;
    BT_TRY(bt_mem_alloc((size_t)side->round_count, sizeof(double), &values));
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "bench", side->bench);
    bt_json_writer_text(json, "kind", side->kind);
    bt_json_writer_text(json, "name", side->name);
    bool candidate = strcmp(side->system, BT_GATE_SYSTEM_CANDIDATE) == 0;
    bt_json_writer_text(json, "system", candidate ? BT_GATE_SYSTEM_OURS : side->system);
    bt_json_writer_text(json, "precision", side->precision);
    bt_json_writer_text(json, "settings", side->axes_json); // unfolded when all is written
    bt_json_writer_open(json, "kernels", '[');
    for (int64_t i = 0; i < side->kernel_count; ++i) {
        bt_json_writer_text(json, NULL, side->kernels[i]);
    }
    bt_json_writer_close(json, ']');
    if (side->clock_mhz > 0) {
        bt_json_writer_real(json, "sm_clock_mhz", side->clock_mhz);
    }
    if (side->power_w > 0) {
        bt_json_writer_real(json, "power_w", side->power_w);
    }
    write_metrics(side, values, json);
    bt_status status = bt_document_write_curves(side, json);
    bt_json_writer_close(json, '}');
    bt_mem_free(values);
    return bt_error_context(status, "case %s", side->name);
}

static void write_facts(const bt_store_env *env, bt_fact_level level, bt_json_writer *json)
{
    bt_json_writer_open(json, bt_fact_level_name(level), '{');
    for (int64_t i = 0; i < env->fact_count; ++i) {
        if (env->facts[i].level == level) {
            bt_json_writer_text(json, env->facts[i].key, env->facts[i].value);
        }
    }
    bt_json_writer_close(json, '}');
}

static void write_environment(const bt_store_env *env, bt_json_writer *json)
{
    bt_json_writer_open(json, "environment", '{');
    bt_json_writer_text(json, "digest", env->digest);
    write_facts(env, BT_FACT_HARD, json);
    write_facts(env, BT_FACT_SOFT, json);
    bt_json_writer_close(json, '}');
}

static void write_build(const bt_store_build *build, bt_json_writer *json)
{
    bt_json_writer_open(json, "build", '{');
    bt_json_writer_text(json, "digest", build->digest);
    bt_json_writer_text(json, "git_commit", build->git_commit);
    bt_json_writer_text(json, "git_diff", build->git_diff);
    bt_json_writer_text(json, "compiler", build->compiler);
    bt_json_writer_text(json, "flags", build->flags);
    bt_json_writer_text(json, "type", build->type);
    bt_json_writer_text(json, "cuda", build->cuda);
    bt_json_writer_close(json, '}');
}

static void write_ceilings(const bt_gate_ceilings *ceilings, bt_json_writer *json)
{
    bt_json_writer_open(json, "ceilings", '{');
    for (int64_t i = 0; i < ceilings->count; ++i) {
        bt_json_writer_open(json, ceilings->items[i].name, '[');
        for (int64_t j = 0; j < ceilings->items[i].count; ++j) {
            bt_json_writer_real(json, NULL, ceilings->items[i].rates[j]);
        }
        bt_json_writer_close(json, ']');
    }
    bt_json_writer_close(json, '}');
}

typedef struct heading {
    const char *name, *reason, *machine;
    int64_t created_ns;
    bt_gate_ceilings ceilings;
} heading;

// Of a session of 'ab' the candidate is kept, which is the newer build of ours.
static bool is_kept(const bt_gate_side *side)
{
    return side->round_count >= BT_BASELINE_ROUNDS_MIN &&
           strcmp(side->system, BT_GATE_SYSTEM_BASE) != 0;
}

static bt_status write_raw(const bt_store_run *run, const heading *head, const bt_gate_sides *sides,
                           bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", BT_BASELINE_FORMAT);
    bt_json_writer_text(&json, "name", head->name);
    bt_json_writer_text(&json, "reason", head->reason);
    bt_json_writer_text(&json, "created", bt_format_date(head->created_ns).text);
    bt_json_writer_text(&json, "machine", head->machine);
    bt_json_writer_text(&json, "suite", run->info.suite.name);
    bt_json_writer_text(&json, "profile", run->info.suite.profile);
    bt_json_writer_text(&json, "plan", run->info.suite.plan_hash);
    write_build(&run->info.build, &json);
    write_environment(&run->info.env, &json);
    write_ceilings(&head->ceilings, &json);
    bt_json_writer_open(&json, "cases", '[');
    for (int64_t i = 0; i < sides->count; ++i) {
        if (is_kept(&sides->items[i])) {
            BT_TRY(write_side(&sides->items[i], &json));
        }
    }
    bt_json_writer_close(&json, ']');
    bt_json_writer_close(&json, '}');
    return bt_str_status(out);
}

// Each case's settings, which were written as a text, become an object.
static bt_status unfold_settings(cJSON *root)
{
    cJSON *item = NULL;
    cJSON_ArrayForEach(item, bt_json_get(root, "cases"))
    {
        bt_json_doc settings = {0};
        const char *text = bt_json_get(item, "settings")->valuestring;
        BT_TRY(
            bt_json_parse(bt_json_get(item, "name")->valuestring, text, strlen(text), &settings));
        cJSON *made = settings.root;
        bool replaced = cJSON_ReplaceItemInObjectCaseSensitive(item, "settings", made);
        settings.root = replaced ? NULL : made; // NULL: the document's now
        bt_json_release(&settings);
        if (!replaced || !made->string) { // cJSON puts it there without its key when memory ends
            return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for a baseline");
        }
    }
    return BT_OK;
}

static bt_status format_document(const bt_str *raw, bt_str *out)
{
    bt_json_doc json = {0};
    BT_TRY(bt_json_parse("baseline", raw->text, raw->length_bytes, &json));
    bt_status status = unfold_settings(json.root);
    if (status == BT_OK) {
        bt_document_format(json.root, out);
        status = bt_str_status(out);
    }
    bt_json_release(&json);
    return status;
}

bt_status bt_baseline_write_public(const char *document, bt_str *out)
{
    static const char *const levels[] = {"hard", "soft"};
    bt_json_doc json = {0};
    BT_TRY(bt_json_parse("baseline", document, strlen(document), &json));
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; ++i) {
        cJSON *facts = (cJSON *)bt_json_get(bt_json_get(json.root, "environment"), levels[i]);
        for (cJSON *fact = facts ? facts->child : NULL, *next = NULL; fact; fact = next) {
            next = fact->next;
            if (bt_fact_is_private(fact->string)) {
                cJSON_Delete(cJSON_DetachItemViaPointer(facts, fact));
            }
        }
    }
    bt_document_format(json.root, out);
    bt_json_release(&json);
    return bt_str_status(out);
}

// ---- what may become one -----------------------------------------------------------------------

static bt_status check_passed(const bt_store_run *run)
{
    return run->status == BT_RUN_PASSED
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "run %lld %s: a baseline is made of runs that passed", (long long)run->id,
                          run->status == BT_RUN_RUNNING ? "is still running"
                                                        : bt_run_status_name(run->status));
}

static bt_status check_rounds(const bt_store_run *run, const bt_gate_sides *sides)
{
    int64_t kept = 0, most = 0;
    for (int64_t i = 0; i < sides->count; ++i) {
        kept += is_kept(&sides->items[i]);
        most = sides->items[i].round_count > most ? sides->items[i].round_count : most;
    }
    if (kept == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "run %lld has no case with %d rounds or more (the most is %lld), and fewer "
                        "have no spread: run it again with --rounds 8",
                        (long long)run->id, BT_BASELINE_ROUNDS_MIN, (long long)most);
    }
    return BT_OK;
}

bt_status bt_baseline_write(const bt_store_run *const *runs, int64_t count, const char *name,
                            const char *reason, int64_t created_ns, bt_str *out)
{
    bt_arena arena = {0};
    bt_gate_sides sides = {0};
    bt_gate_ceilings ceilings = {0};
    bt_str machine = {0}, raw = {0};
    const bt_store_run *run = runs[0];
    BT_TRY(bt_baseline_check_name(name));
    if (!reason || !*reason) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a baseline needs a reason, for whoever asks later why it is what it is");
    }
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(check_passed(runs[i]));
    }
    bt_status status = bt_gate_merge(runs, count, &arena, &sides);
    if (status == BT_OK) {
        status = bt_gate_ceilings_of_run(run, &arena, &ceilings);
    }
    if (status == BT_OK) {
        status = check_rounds(run, &sides);
    }
    bt_baseline_machine(&run->info.env, &machine);
    if (status == BT_OK) {
        status = bt_str_status(&machine);
    }
    if (status == BT_OK) {
        heading head = {name, reason, bt_str_text(&machine), created_ns, ceilings};
        status = write_raw(run, &head, &sides, &raw);
    }
    if (status == BT_OK) {
        status = format_document(&raw, out);
    }
    bt_str_release(&machine);
    bt_str_release(&raw);
    bt_arena_release(&arena);
    return status;
}

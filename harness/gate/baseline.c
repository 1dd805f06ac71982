// harness/gate/baseline.c - writes a baseline's document from runs
//
// The JSON writer writes the document in any order; it is then parsed and written again with sorted
// keys, so that one place decides the form.
#include "harness/gate/baseline.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/env/facts.h"
#include "harness/gate/card.h"
#include "harness/gate/curves.h"
#include "harness/gate/merge.h"
#include "harness/record/keep.h"
#include "harness/text/format.h"
#include "harness/text/record_json.h"

#define NAME_BYTES_MAX 64

bt_status bt_baseline_check_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t length = strlen(name);
    BT_FAIL_IF(length == 0 || length > NAME_BYTES_MAX || strspn(name, allowed) != length ||
                   !isalnum((unsigned char)name[0]),
               BT_STATUS_INVALID_ARGUMENT,
               "\"%s\" is not a valid baseline name: expected 1 to %d letters, digits, '-', '_' or "
               "'.', the first a letter or digit",
               name, NAME_BYTES_MAX);
    return BT_OK;
}

// ---- machine -----------------------------------------------------------------------------------

void bt_baseline_machine(const bt_store_env *env, bt_str *out)
{
    const char *name = bt_fact_of(env, "gpu.name");
    name = name ? name : bt_fact_of(env, "cpu.model");
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

static void write_metrics(const bt_gate_side *side, double *values, int64_t *sessions,
                          bt_json_writer *json)
{
    bt_json_writer_open(json, "metrics", '{');
    for (int i = 0; i < BT_GATE_METRIC_COUNT; ++i) {
        int64_t count = bt_gate_side_sessions(side, (bt_gate_metric)i, values, sessions), at = 0;
        if (count == 0) {
            continue;
        }
        BT_JSON_LIST(json, bt_gate_metric_info((bt_gate_metric)i)->tag, j, count) {
            bt_json_writer_open(json, NULL, '[');
            for (int64_t end = at + sessions[j]; at < end; ++at) {
                bt_json_writer_real(json, NULL, values[at]);
            }
            bt_json_writer_close(json, ']');
        }
    }
    bt_json_writer_close(json, '}');
}

static bt_status write_side(const bt_gate_side *side, bt_json_writer *json)
{
    BT_SCOPED_MEM(double *) values = NULL;
    BT_SCOPED_MEM(int64_t *) sessions = NULL;
    BT_TRY(BT_MEM_ARRAY(side->round_count, &values));
    BT_TRY(BT_MEM_ARRAY(side->round_count, &sessions));
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_OF(side, bench), BT_OF(side, kind), BT_OF(side, name), BT_OF(side, system),
            BT_OF(side, precision));
    bt_json_writer_raw(json, "settings", side->axes_json);
    BT_JSON_LIST(json, "kernels", i, side->kernel_count) {
        bt_json_writer_text(json, NULL, side->kernels[i]);
    }
    if (side->clock_mhz > 0) {
        bt_json_writer_real(json, "sm_clock_mhz", side->clock_mhz);
    }
    if (side->power_w > 0) {
        BT_JSON(json, BT_OF(side, power_w));
    }
    write_metrics(side, values, sessions, json);
    BT_TRY(bt_error_context(bt_document_write_curves(side, json), "case %s", side->name));
    bt_json_writer_close(json, '}');
    return BT_OK;
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

static void write_ceilings(const bt_gate_ceilings *ceilings, bt_json_writer *json)
{
    bt_json_writer_open(json, "ceilings", '{');
    for (int64_t i = 0; i < ceilings->count; ++i) {
        BT_JSON_LIST(json, ceilings->items[i].name, j, ceilings->items[i].count) {
            bt_json_writer_real(json, NULL, ceilings->items[i].rates[j]);
        }
    }
    bt_json_writer_close(json, '}');
}

static void write_sessions(const bt_baseline *of, bt_json_writer *json)
{
    BT_JSON_LIST(json, "sessions", i, of->session_count) {
        BT_JSON_OBJECT(json, NULL, BT_OF(&of->sessions[i], run), BT_OF(&of->sessions[i], started),
                       BT_OF(&of->sessions[i], started_ns), BT_OF(&of->sessions[i], disturbed));
    }
}

static bt_status write_raw(const bt_baseline *of, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("format", BT_BASELINE_FORMAT), BT_OF(of, name), BT_OF(of, reason),
            BT_OF(of, created), BT_OF(of, machine), BT_OF(of, card), BT_OF(of, suite),
            BT_OF(of, profile), BT_KV("plan", of->plan_hash));
    if (*of->noise_accepted) {
        bt_json_writer_text(&json, "noise_accepted", of->noise_accepted);
    }
    write_sessions(of, &json);
    bt_json_writer_open(&json, "build", '{');
    bt_fields_write(&json, BT_FIELDS_BUILD, &of->build);
    bt_json_writer_close(&json, '}');
    write_environment(&of->env, &json);
    write_ceilings(&of->ceilings, &json);
    BT_JSON_LIST(&json, "cases", i, of->sides.count) {
        BT_TRY(write_side(&of->sides.items[i], &json));
    }
    bt_json_writer_close(&json, '}');
    return bt_str_status(out);
}

static bt_status format_document(const bt_str *raw, bt_str *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse_within("baseline", raw->text, raw->length_bytes, BT_BASELINE_BYTES_MAX,
                                &json));
    bt_json_write_document(json.root, out);
    return bt_str_status(out);
}

bt_status bt_baseline_write_public(const char *document, bt_str *out)
{
    static const char *const levels[] = {"hard", "soft"};
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(
        bt_json_parse_within("baseline", document, strlen(document), BT_BASELINE_BYTES_MAX, &json));
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; ++i) {
        cJSON *facts = (cJSON *)bt_json_get(bt_json_get(json.root, "environment"), levels[i]);
        for (cJSON *fact = facts ? facts->child : NULL, *next = NULL; fact; fact = next) {
            next = fact->next;
            if (bt_fact_is_private(fact->string)) {
                cJSON_Delete(cJSON_DetachItemViaPointer(facts, fact));
            }
        }
    }
    bt_json_write_document(json.root, out);
    return bt_str_status(out);
}

// ---- which runs qualify -------------------------------------------------------------------------

static bt_status check_passed(const bt_store_run *run)
{
    return run->status == BT_RUN_PASSED
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "run %lld %s: expected a run that passed",
                          (long long)run->id,
                          run->status == BT_RUN_RUNNING ? "is still running"
                                                        : bt_run_status_name(run->status));
}

static bt_status check_rounds(const bt_store_run *run, const bt_gate_sides *kept, bt_arena *arena)
{
    bt_gate_sides all = {0};
    int64_t most = 0;
    if (kept->count > 0) {
        return BT_OK;
    }
    BT_TRY(bt_gate_kept_sides(run, true, arena, &all));
    for (int64_t i = 0; i < all.count; ++i) {
        most = all.items[i].round_count > most ? all.items[i].round_count : most;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "run %lld has no case with %d rounds or more (the most is %lld), and fewer "
                    "rounds give no spread: run it again with --rounds 8",
                    (long long)run->id, BT_BASELINE_ROUNDS_MIN, (long long)most);
}

// Disturbed rounds in a baseline make every later run look better than it is.
static bt_status check_quiet(const bt_store_run *run, const bt_baseline_wish *wish, bool *disturbed)
{
    int64_t count = 0;
    const bt_store_round *first = NULL;
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        if (round->status == BT_RUN_PASSED && round->label && *round->label &&
            !bt_gate_is_ceiling(round)) {
            first = count++ ? first : round;
        }
    }
    *disturbed = *disturbed || count > 0;
    BT_FAIL_IF(count > 0 && !(wish->accept_noise && *wish->accept_noise),
               BT_STATUS_INVALID_ARGUMENT,
               "run %lld: the machine was disturbed in %s, first in round %lld of %s "
               "(%s); measure again, or accept them with --accept-noise REASON",
               (long long)run->id, bt_format_items(count, "round").text,
               (long long)first->ordinal + 1, first->what.name, first->label);
    return BT_OK;
}

// ---- writing a baseline -------------------------------------------------------------------------

// A baseline of one run.
static bt_status begin_with_run(const bt_store_run *run, bt_baseline *out)
{
    bt_arena *arena = &out->arena;
    char card[33];
    bt_str machine = {0};
    BT_TRY(bt_gate_kept_sides(run, false, arena, &out->sides));
    BT_TRY(check_rounds(run, &out->sides, arena));
    BT_TRY(bt_gate_ceilings_of_run(run, arena, &out->ceilings));
    bt_gate_card(&run->info.env, card);
    BT_TRY(bt_keep(arena, card, &out->card));
    bt_baseline_machine(&run->info.env, &machine);
    BT_TRY(bt_keep_str(arena, &machine, &out->machine));
    out->suite = run->info.suite.name;
    out->profile = run->info.suite.profile;
    out->plan_hash = run->info.suite.plan_hash;
    out->noise_accepted = "";
    out->build = *bt_gate_kept_build(run);
    out->env = run->info.env;
    bt_baseline_session *session = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, 1, &session));
    out->sessions = session;
    out->session_count = 1;
    return bt_gate_session_of(run, &out->sides, arena, session);
}

static bt_status make(const bt_store_run *const *runs, int64_t count, const bt_baseline_wish *wish,
                      bt_baseline *out)
{
    bool disturbed = false;
    char what[96];
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(check_passed(runs[i]));
        BT_TRY(check_quiet(runs[i], wish, &disturbed));
    }
    if (wish->before) {
        const bt_baseline *before = wish->before;
        *out = *before;
        out->arena = (bt_arena){0};
        (void)snprintf(what, sizeof what, "baseline %s", wish->name);
        BT_TRY(bt_gate_merge(runs, count, what, out));
    } else {
        BT_TRY(begin_with_run(runs[0], out));
        (void)snprintf(what, sizeof what, "run %lld", (long long)runs[0]->id);
        BT_TRY(bt_gate_merge(runs + 1, count - 1, what, out));
    }
    out->name = wish->name;
    out->reason = wish->reason;
    out->noise_accepted = disturbed ? wish->accept_noise : out->noise_accepted;
    return bt_keep(&out->arena, bt_format_date(wish->created_ns).text, &out->created);
}

bt_status bt_baseline_write(const bt_store_run *const *runs, int64_t count,
                            const bt_baseline_wish *wish, bt_str *out)
{
    BT_SCOPED(bt_baseline) made = {0};
    BT_SCOPED(bt_str) raw = {0};
    BT_TRY(bt_baseline_check_name(wish->name));
    BT_FAIL_IF(!wish->reason || !*wish->reason, BT_STATUS_INVALID_ARGUMENT,
               "a baseline needs a reason: --reason TEXT");
    BT_TRY(make(runs, count, wish, &made));
    BT_TRY(write_raw(&made, &raw));
    return format_document(&raw, out);
}

int64_t bt_baseline_sessions(const bt_baseline *baseline)
{
    int64_t fewest = baseline->sides.count ? INT64_MAX : 0;
    BT_EACH(const bt_gate_side, side, baseline->sides.items, baseline->sides.count) {
        int64_t sessions = side->rounds[side->round_count - 1].session + 1;
        fewest = sessions < fewest ? sessions : fewest;
    }
    return fewest;
}

void bt_baseline_release(bt_baseline *baseline)
{
    bt_arena_release(&baseline->arena);
    memset(baseline, 0, sizeof *baseline);
}

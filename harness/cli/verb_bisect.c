// harness/cli/verb_bisect.c - bisect-bits: the first difference of two recorded runs
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/diff/bisect.h"
#include "harness/diff/source.h"
#include "harness/plan/plan.h"

typedef struct side {
    char name[32]; // "run 3"
    bt_store_run run;
    bt_plan plan;
    bt_diff_source source;
    bt_str checkpoints;
} side;

static bool is_ours(const bt_store_round *round)
{
    return strcmp(round->what.system, "blutrain") == 0 && round->step_count > 0 &&
           !round->superseded;
}

static const bt_store_round *round_of(const bt_store_run *run, const char *name, int64_t ordinal)
{
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        if (is_ours(round) && round->ordinal == ordinal && strcmp(round->what.name, name) == 0) {
            return round;
        }
    }
    return NULL;
}

// The first training case that both runs have: the given one, else one whose digests differ if
// there is one.
static bt_status find_rounds(const side sides[2], const char *given, const bt_store_round *out[2])
{
    bool differs = false;
    out[0] = out[1] = NULL;
    for (int64_t i = 0; i < sides[0].run.round_count && !differs; ++i) {
        const bt_store_round *a = &sides[0].run.rounds[i];
        const bt_store_round *b = NULL;
        if (is_ours(a) && (!given || strcmp(given, a->what.name) == 0)) {
            b = round_of(&sides[1].run, a->what.name, a->ordinal);
        }
        differs = b && strcmp(a->params_digest, b->params_digest) != 0;
        if (b && (!out[0] || differs)) {
            out[0] = a;
            out[1] = b;
        }
    }
    return out[0] ? BT_OK
                  : bt_error(BT_STATUS_INVALID_ARGUMENT,
                             "%s and %s have no training case%s%s in common that BluTrain ran",
                             sides[0].name, sides[1].name, given ? " " : "", given ? given : "");
}

static void say(void *self, const char *line)
{
    (void)self;
    fprintf(stderr, "%s\n", line);
}

// FOLDER/CASE-SYSTEM-ORDINAL, as in run/rounds.c.
static bt_status find_checkpoints(const cJSON *item, const bt_store_round *round, side *s)
{
    const cJSON *keys = bt_json_get(bt_json_get(item, "train"), "checkpoint");
    const cJSON *folder = bt_json_get(keys, "folder");
    if (!keys) {
        return BT_OK;
    }
    if (cJSON_IsString(folder)) {
        bt_str_append(&s->checkpoints, folder->valuestring);
    } else {
        bt_str_format(&s->checkpoints, "%s/checkpoints", s->run.info.out_dir);
    }
    bt_str_format(&s->checkpoints, "/%s-%s-%lld", round->what.name, round->what.system,
                  (long long)round->ordinal);
    return bt_str_status(&s->checkpoints);
}

static bt_status open_side(const bt_store_round *round, const char *device, side *s,
                           bt_bisect_side *out)
{
    BT_TRY(bt_plan_read(s->run.info.suite.plan_json, &s->plan));
    const cJSON *item = bt_plan_case(&s->plan, bt_plan_find(&s->plan, round->what.name));
    BT_FAIL_IF(!item, BT_STATUS_CORRUPT_DATA, "the recorded plan has no case %s", round->what.name);
    BT_TRY(bt_diff_source_open(item, device ? device : s->plan.device, false, say, &s->source));
    BT_TRY(find_checkpoints(item, round, s));
    *out = (bt_bisect_side){.name = s->name,
                            .round = round,
                            .plan = &s->source.train,
                            .checkpoints =
                                s->checkpoints.length_bytes ? bt_str_text(&s->checkpoints) : NULL};
    return BT_OK;
}

static bt_status read_runs(bt_cli_call *call, side sides[2])
{
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    for (int i = 0; i < 2; ++i) {
        int64_t run = 0;
        BT_TRY(bt_cli_run_in(call->store, call->arguments->words[i], &run));
        (void)snprintf(sides[i].name, sizeof sides[i].name, "run %lld", (long long)run);
        BT_TRY(bt_store_run_read(call->store, run, &sides[i].run));
    }
    return BT_OK;
}

static bt_status run(bt_cli_call *call, side sides[2], bt_bisect_result *result)
{
    const bt_cli_arguments *arguments = call->arguments;
    const bt_store_round *rounds[2];
    bt_bisect_side both[2];
    BT_TRY(read_runs(call, sides));
    BT_TRY(find_rounds(sides, bt_cli_value(arguments, "case"), rounds));
    for (int i = 0; i < 2; ++i) {
        BT_TRY(bt_error_context(
            open_side(rounds[i], bt_cli_value(arguments, "device"), &sides[i], &both[i]), "%s",
            sides[i].name));
    }
    BT_TRY(bt_bisect_run(both, result));
    call->code = result->span.differs != BT_BISECT_NOTHING;
    if (call->json) {
        return bt_bisect_json(both, result, &call->out);
    }
    bt_str_format(&call->out, "case         %s\n", rounds[0]->what.name);
    bt_bisect_text(both, result, &call->out);
    return BT_OK;
}

bt_status bt_verb_bisect_bits(bt_cli_call *call)
{
    side sides[2];
    bt_bisect_result result = {0};
    memset(sides, 0, sizeof sides);
    const bt_status status = run(call, sides, &result);
    for (int i = 0; i < 2; ++i) {
        bt_diff_source_close(&sides[i].source);
        bt_plan_release(&sides[i].plan);
        bt_store_run_release(&sides[i].run);
        bt_str_release(&sides[i].checkpoints);
    }
    return status;
}

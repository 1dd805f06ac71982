// harness/cli/verb_diff.c - diff-run: two trainings in lockstep, value by value
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/diff/diff.h"
#include "harness/diff/source.h"
#include "harness/plan/plan.h"

enum { WORDS_MAX = 32 };

// A side as given by the user: a folder of values, or words that change the case.
typedef struct side {
    char text[BT_DIFF_LABEL_BYTES];  // separate words and keys
    const char *folder;              // NULL: it trains
    const char *device;              // NULL: the profile's
    char keys[WORDS_MAX][64];        // "train.precision=bf16" of "bf16"
    const char *sets[2 * WORDS_MAX]; // --set of both sides, then this side's
    int64_t set_count;
    bt_plan plan;
    bt_diff_source source;
} side;

typedef struct differ {
    bt_suite suite;
    bt_machine machine;
    side sides[2];
    bt_diff_side diff[2];
    bt_diff_result result;
} differ;

static bool is_device(const char *word)
{
    return strcmp(word, "cpu") == 0 || strcmp(word, "cuda") == 0 || strncmp(word, "cuda:", 5) == 0;
}

static bt_status read_word(const char *word, side *out)
{
    bt_precision precision = BT_PRECISION_FP32;
    bt_recompute_mode recompute = BT_RECOMPUTE_NONE;
    char *key = out->keys[out->set_count % WORDS_MAX];
    BT_FAIL_IF(out->set_count >= WORDS_MAX, BT_STATUS_INVALID_ARGUMENT,
               "a side can have at most %d keys", WORDS_MAX);
    if (is_device(word)) {
        out->device = word;
        return BT_OK;
    }
    if (strchr(word, '=')) {
        out->sets[out->set_count++] = word;
        return BT_OK;
    }
    if (bt_precision_parse(word, &precision)) {
        (void)snprintf(key, sizeof out->keys[0], "train.precision=%.32s", word);
    } else if (bt_recompute_mode_parse(word, &recompute)) {
        (void)snprintf(key, sizeof out->keys[0], "train.recompute=%.32s", word);
    } else {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "%s: expected a precision (fp32, tf32, bf16), a device (cpu, cuda, cuda:N), "
            "a recomputation (none, gelu_ln, block, block_offload), KEY=VALUE, or a "
            "folder with a / in it",
            word);
    }
    out->sets[out->set_count++] = key;
    return BT_OK;
}

static bt_status read_side(const bt_cli_arguments *arguments, const char *given, side *out)
{
    char *rest = NULL;
    BT_FAIL_IF(strlen(given) >= sizeof out->text, BT_STATUS_INVALID_ARGUMENT,
               "a side can have at most %zu characters", sizeof out->text - 1);
    (void)snprintf(out->text, sizeof out->text, "%s", given);
    if (strchr(given, '/') && !strchr(given, '=')) {
        out->folder = given;
        return BT_OK;
    }
    for (int64_t i = 0; i < arguments->repeated_count; ++i) {
        BT_FAIL_IF(out->set_count == WORDS_MAX, BT_STATUS_INVALID_ARGUMENT, "--set: at most %d",
                   WORDS_MAX);
        out->sets[out->set_count++] = arguments->repeated[i];
    }
    for (char *word = strtok_r(out->text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        BT_TRY(read_word(word, out));
    }
    return BT_OK;
}

static void say(void *self, const char *line)
{
    (void)self;
    fprintf(stderr, "%s\n", line);
}

static const cJSON *training_case(const bt_plan *plan)
{
    for (int64_t i = 0; i < plan->case_count; ++i) {
        if (bt_json_get(bt_plan_case(plan, i), "train")) {
            return bt_plan_case(plan, i);
        }
    }
    return NULL;
}

static bt_status open_side(const bt_cli_arguments *arguments, differ *self, int index)
{
    side *s = &self->sides[index];
    bt_diff_side *out = &self->diff[index];
    out->lockstep.name = index ? "B" : "A";
    if (s->folder) {
        out->lockstep.folder = s->folder;
        out->arithmetic.other_program = true;
        (void)snprintf(out->label, sizeof out->label, "values in %.120s", s->folder);
        return BT_OK;
    }
    const bt_plan_options options = {.profile = bt_cli_value(arguments, "profile"),
                                     .filter = bt_cli_value(arguments, "filter"),
                                     .sets = s->sets,
                                     .set_count = s->set_count,
                                     .seed = -1};
    BT_TRY(bt_plan_make(&self->suite, &options, &self->machine, &s->plan));
    const cJSON *item = training_case(&s->plan);
    BT_FAIL_IF(!item, BT_STATUS_INVALID_ARGUMENT, "no training case of suite %s, profile %s",
               s->plan.suite, s->plan.profile);
    BT_TRY(
        bt_diff_source_open(item, s->device ? s->device : s->plan.device, true, say, &s->source));
    out->lockstep.plan = &s->source.train;
    out->lockstep.ranks = s->source.ranks;
    out->arithmetic.precision = s->source.train.precision;
    const bool ranks = s->source.ranks > 1;
    (void)snprintf(out->label, sizeof out->label, "%.64s: %s on %s, recompute %s%s%s",
                   bt_json_get(item, "name")->valuestring,
                   bt_precision_name(s->source.train.precision), s->source.device,
                   bt_recompute_mode_name(s->source.train.recompute), ranks ? ", mesh " : "",
                   ranks ? bt_plan_mesh_text(bt_json_get(item, "train")).text : "");
    return BT_OK;
}

// Defaults from the other side: a folder's precision; and whether the order of sums differs.
static void match_sides(differ *self)
{
    for (int i = 0; i < 2; ++i) {
        const side *other = &self->sides[1 - i];
        if (self->sides[i].folder) {
            self->diff[i].arithmetic.precision = self->diff[1 - i].arithmetic.precision;
        }
        const side *own = &self->sides[i];
        self->diff[i].arithmetic.other_order =
            !other->folder && (strcmp(own->source.device, other->source.device) != 0 ||
                               !bt_diff_same_order(&own->source.train, &other->source.train));
    }
}

// DIR/case.json: the configuration of the values, for programs that reproduce them.
static bt_status write_case(const char *folder, const cJSON *item)
{
    BT_SCOPED(bt_str) path = {0}, text = {0};
    bt_str_format(&path, "%s/case.json", folder);
    if (item) {
        bt_json_write_pretty(item, &text);
    }
    BT_TRY(bt_str_status(&path) == BT_OK ? bt_str_status(&text) : bt_str_status(&path));
    return bt_file_write(bt_str_text(&path), bt_str_text(&text), text.length_bytes);
}

static bt_status open_sides(const bt_cli_arguments *arguments, differ *self)
{
    const char *suite = bt_cli_value(arguments, "suite");
    const char *dump = bt_cli_value(arguments, "dump");
    BT_TRY(bt_suite_load(suite ? suite : "gpt2_124m", &self->suite));
    BT_TRY(bt_machine_look(&self->machine));
    for (int i = 0; i < 2; ++i) {
        BT_TRY(read_side(arguments, arguments->words[i], &self->sides[i]));
        BT_TRY(bt_error_context(open_side(arguments, self, i), "%s", i ? "B" : "A"));
    }
    match_sides(self);
    if (dump) {
        const int dumped = self->diff[0].lockstep.plan ? 0 : 1;
        self->diff[dumped].dump = dump;
        BT_TRY(bt_dir_make(dump));
        BT_TRY(write_case(dump, training_case(&self->sides[dumped].plan)));
    }
    return BT_OK;
}

static bt_status write_page(const char *path, const differ *self)
{
    BT_SCOPED(bt_str) page = {0};
    BT_TRY(bt_diff_page(self->diff, &self->result, &page));
    return bt_file_write(path, bt_str_text(&page), page.length_bytes);
}

static bt_status run(bt_cli_call *call, differ *self)
{
    int64_t steps = 0;
    const char *page = bt_cli_value(call->arguments, "output");
    BT_TRY(bt_cli_number(call->arguments, "steps", 1, 1000000, 3, &steps));
    BT_TRY(open_sides(call->arguments, self));
    BT_TRY(bt_diff_run(self->diff, steps, &self->result));
    if (page) {
        BT_TRY(write_page(page, self));
    }
    call->code = self->result.first_over >= 0;
    return call->json ? bt_diff_json(self->diff, &self->result, &call->out)
                      : bt_diff_text(self->diff, &self->result, call->columns, &call->out);
}

bt_status bt_verb_diff_run(bt_cli_call *call)
{
    BT_SCOPED_MEM(differ *) self = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &self));
    bt_status status = run(call, self);
    for (int i = 0; i < 2; ++i) {
        bt_diff_source_close(&self->sides[i].source);
        bt_plan_release(&self->sides[i].plan);
    }
    bt_diff_result_release(&self->result);
    bt_suite_release(&self->suite);
    return status;
}

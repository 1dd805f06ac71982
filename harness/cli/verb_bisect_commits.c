// harness/cli/verb_bisect_commits.c - bisect: finds the commit that made a suite slower, by `ab`
// against GOOD
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/ab/bisect.h"
#include "harness/ab/command.h"
#include "harness/cli/cli.h"
#include "harness/record/keep.h"
#include "harness/run/child.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

enum { AB_SAME = 0, AB_SLOWER = 1, AB_USAGE = 2, AB_INTERRUPTED = 130 };

static const char *const verdicts[] = {"-", "not slower", "SLOWER", "cannot be judged"};

typedef struct bisect_verb {
    const bt_cli_arguments *arguments;
    bt_bisect search;
    int code; // exit code of a call of `ab` that ends the search; 0: none
} bisect_verb;

// ---- one comparison ----------------------------------------------------------------------------

// A copy of --NAME=VALUE, or of --NAME. A comparison has a folder of its own in that of --out.
static bt_status keep_option(bt_arena *arena, const bt_cli_option *option, const char *value,
                             const char *commit, const char **out)
{
    bt_str text = {0};
    bt_str_format(&text, "--%s%s%s", option->name, option->argument ? "=" : "", value);
    if (strcmp(option->name, "out") == 0) {
        bt_str_format(&text, "/%.10s", commit);
    }
    return bt_keep_str(arena, &text, out);
}

// Runs `ab GOOD COMMIT SUITE` with the options that were given to this verb.
static bt_status call_ab(const bisect_verb *self, const char *commit, int *code)
{
    const bt_cli_arguments *arguments = self->arguments;
    const char *const *given = arguments->words;
    BT_SCOPED(bt_arena) arena = {0};
    BT_SCOPED(bt_str) output = {0};
    const char **words = NULL;
    int64_t count = 5;
    BT_TRY(
        BT_ARENA_ARRAY(&arena, count + BT_CLI_OPTIONS_MAX + arguments->repeated_count + 1, &words));
    memcpy(words, (const char *[]){"/proc/self/exe", "ab", given[0], commit, given[2]},
           (size_t)count * sizeof *words);
    for (int i = 0; arguments->verb->options[i].name; ++i) {
        const bt_cli_option *option = &arguments->verb->options[i];
        const bool repeats = strcmp(option->name, "set") == 0;
        for (int64_t k = 0; repeats && k < arguments->repeated_count; ++k) {
            BT_TRY(keep_option(&arena, option, arguments->repeated[k], commit, &words[count++]));
        }
        if (arguments->values[i] && !repeats && strcmp(option->name, "format") != 0) {
            BT_TRY(keep_option(&arena, option, arguments->values[i], commit, &words[count++]));
        }
    }
    return bt_command_run(words, "/dev/stderr", &output, code);
}

static bt_status ask(bisect_verb *self, int64_t index)
{
    const bt_bisect_commit *commit = &self->search.commits[index];
    int code = 0;
    (void)fprintf(stderr, "bisect    %.10s %s: %lld commits are left\n", commit->hash,
                  commit->subject, (long long)(self->search.high - self->search.low));
    BT_TRY(call_ab(self, commit->hash, &code));
    self->code = code == AB_USAGE || code == AB_INTERRUPTED || bt_interrupt_count() > 0 ? code : 0;
    if (!self->code) {
        const bt_bisect_verdict verdict = code == AB_SAME     ? BT_BISECT_SAME
                                          : code == AB_SLOWER ? BT_BISECT_SLOWER
                                                              : BT_BISECT_UNKNOWN;
        (void)fprintf(stderr, "bisect    %.10s %s\n", commit->hash, verdicts[verdict]);
        bt_bisect_take(&self->search, index, verdict);
    }
    return BT_OK;
}

// ---- the result --------------------------------------------------------------------------------

static bool is_found(const bt_bisect *search)
{
    return search->commits[search->count - 1].verdict == BT_BISECT_SLOWER &&
           search->high - search->low == 1;
}

static bt_status print_text(const bisect_verb *self, bt_str *out)
{
    const bt_bisect *search = &self->search;
    bt_table table = {0};
    bt_table_heads(&table, "||");
    BT_EACH(const bt_bisect_commit, commit, search->commits, search->count) {
        if (commit->verdict != BT_BISECT_OPEN) {
            bt_table_cells(&table, "%.10s|%s|%s", commit->hash, verdicts[commit->verdict],
                           commit->subject);
        }
    }
    BT_TRY(bt_table_print(&table, 0, out));
    const bt_bisect_commit *high = &search->commits[search->high];
    if (is_found(search)) {
        bt_str_format(out, "\nfirst slower commit: %s\n%s\n", high->hash, high->subject);
    } else if (high->verdict != BT_BISECT_SLOWER) {
        bt_str_format(out, "\nno slower commit: %s %s %s\n", self->arguments->words[1],
                      high->verdict == BT_BISECT_SAME ? "is not slower than"
                                                      : "cannot be compared with",
                      self->arguments->words[0]);
    } else {
        bt_str_format(
            out,
            "\nthe first slower commit is one of %lld, up to %s; the others cannot be judged\n",
            (long long)(search->high - search->low), high->hash);
    }
    return bt_str_status(out);
}

static bt_status print_json(const bisect_verb *self, bt_str *out)
{
    const bt_bisect *search = &self->search;
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text_or_null(&json, "first_slower",
                                is_found(search) ? search->commits[search->high].hash : NULL);
    BT_JSON_LIST(&json, "commits", i, search->count) {
        BT_JSON_OBJECT(&json, NULL, BT_KV("commit", search->commits[i].hash),
                       BT_KV("subject", search->commits[i].subject),
                       BT_KV("verdict", verdicts[search->commits[i].verdict]));
    }
    return bt_json_writer_end(&json, '}');
}

bt_status bt_verb_bisect(bt_cli_call *call)
{
    bisect_verb self = {.arguments = call->arguments};
    const char *const *words = call->arguments->words;
    bt_interrupt_watch();
    bt_status status = bt_bisect_open(words[0], words[1], &self.search);
    for (int64_t next = 0; status == BT_OK && !self.code && next >= 0;) {
        next = bt_bisect_next(&self.search);
        status = next < 0 ? BT_OK : ask(&self, next);
    }
    call->code = self.code;
    if (status == BT_OK && !self.code) {
        status = (call->json ? print_json : print_text)(&self, &call->out);
        call->code = is_found(&self.search) ? 0 : 3;
    }
    bt_bisect_release(&self.search);
    return status;
}

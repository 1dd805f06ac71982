// harness/cli/verb_data.c - data prepare, tokenize, fetch
#include <float.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "framework/data/dataset.h"
#include "harness/cli/cli.h"
#include "harness/data/corpus.h"
#include "harness/data/fetch.h"
#include "harness/run/child.h"
#include "harness/run/data.h"
#include "harness/suite/suite.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

// Progress of data work on standard error: one rewriting line on a terminal, notes elsewhere.
static bool on_progress(void *self, const bt_progress_event *event)
{
    bool terminal = isatty(STDERR_FILENO);
    const char *quiet = self;
    if (!quiet && event->note) {
        fprintf(stderr, "%s%s\n", terminal ? "\r\033[K" : "", event->note);
    }
    if (!quiet && terminal && event->total_bytes) {
        fprintf(stderr, "\r%-10s %5.1f %%  %s of %s\033[K", event->what,
                100.0 * (double)event->done_bytes / (double)event->total_bytes,
                bt_format_value(BT_UNIT_BYTES, (double)event->done_bytes).text,
                bt_format_value(BT_UNIT_BYTES, (double)event->total_bytes).text);
        if (event->done_bytes >= event->total_bytes) {
            fputs("\n", stderr);
        }
    }
    return bt_interrupt_count() == 0;
}

static void say(void *self, const char *line)
{
    if (!self) {
        fprintf(stderr, "%s\n", line);
    }
}

static bt_status print_dataset(const bt_dataset *dataset, bt_cli_call *call)
{
    bt_json_writer json = {.out = &call->out};
    if (call->json) {
        BT_JSON_OBJECT(
            &json, NULL, BT_OF(dataset, folder), BT_KV("train_tokens", dataset->train.tokens),
            BT_KV("train_shards", dataset->train.count), BT_KV("val_tokens", dataset->val.tokens),
            BT_KV("val_shards", dataset->val.count), BT_KV("digest", dataset->digest.hex));
        bt_str_append(&call->out, "\n");
    } else {
        bt_str_format(&call->out, "%s: %s training tokens in %s, %s validation tokens in %lld\n",
                      dataset->folder, bt_format_count(dataset->train.tokens).text,
                      bt_format_items(dataset->train.count, "shard").text,
                      bt_format_count(dataset->val.tokens).text, (long long)dataset->val.count);
    }
    return BT_OK;
}

static bt_status prepare(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const char *out = bt_cli_value(arguments, "output");
    BT_SCOPED(bt_str) folder = {0};
    bool found = false;
    BT_SCOPED(bt_dataset) dataset = {0};
    if (out) {
        bt_str_append(&folder, out);
    } else {
        bt_run_data_folder("books", &folder, &found);
    }
    BT_TRY(bt_str_status(&folder));
    void *quiet = bt_cli_value(arguments, "quiet") ? (void *)&folder : NULL;
    BT_TRY(bt_run_data_prepare(bt_str_text(&folder), say, quiet));
    BT_TRY(bt_dataset_open(bt_str_text(&folder), &dataset));
    return print_dataset(&dataset, call);
}

// Shards of another corpus must not be replaced accidentally.
static bt_status check_free(const bt_cli_arguments *arguments, const char *folder)
{
    BT_SCOPED(bt_str) manifest = {0};
    bt_str_format(&manifest, "%s/" BT_DATASET_MANIFEST, folder);
    BT_TRY(bt_str_status(&manifest));
    BT_FAIL_IF(!bt_cli_value(arguments, "force") && bt_file_exists(bt_str_text(&manifest)),
               BT_STATUS_INVALID_ARGUMENT,
               "%s: already contains a dataset; not overwritten: choose another -o, or add --force "
               "to replace it",
               folder);
    return BT_OK;
}

static bt_status tokenize(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_dataset) dataset = {0};
    BT_SCOPED_MEM(char *) ranks = NULL;
    const char *given = bt_cli_value(arguments, "ranks");
    bt_tokenize_options options = {.files = arguments->words + 1,
                                   .file_count = arguments->word_count - 1,
                                   .out_dir = bt_cli_value(arguments, "output"),
                                   .ranks = given,
                                   .any_ranks = given != NULL,
                                   .progress = {on_progress, NULL}};
    if (bt_cli_value(arguments, "quiet")) {
        options.progress.self = &options;
    }
    BT_FAIL_IF(!options.out_dir || !options.file_count, BT_STATUS_INVALID_ARGUMENT,
               "usage: bt-bench data tokenize FILE... -o DIR [--val FRACTION]");
    BT_TRY(bt_cli_real(arguments, "val", 0, 1 - DBL_EPSILON / 2, 0,
                       "a fraction from 0 to below 1, such as 0.02", &options.val_fraction));
    BT_TRY(check_free(arguments, options.out_dir));
    if (!given) {
        BT_TRY(bt_run_data_ranks(&ranks));
        options.ranks = ranks;
    }
    BT_TRY(bt_data_tokenize(&options, &dataset));
    return print_dataset(&dataset, call);
}

static bt_status fetch_into(bt_cli_call *call, const char *list, const char *folder)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_dataset) dataset = {0};
    bt_fetch_options options = {.list = list,
                                .name = arguments->words[1],
                                .out_dir = folder,
                                .progress = {on_progress, NULL}};
    if (bt_cli_value(arguments, "quiet")) {
        options.progress.self = &options;
    }
    BT_TRY(bt_cli_number(arguments, "files", 1, 1000000, 0, &options.max_files));
    BT_TRY(bt_data_fetch(&options, &dataset));
    return print_dataset(&dataset, call);
}

static bt_status fetch(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_str) list = {0}, folder = {0};
    const char *out = bt_cli_value(arguments, "output");
    BT_TRY(bt_cli_path(arguments, "list", "suites/data/corpora.json", &list));
    if (arguments->word_count < 2) {
        return bt_data_fetch_names(bt_str_text(&list), &call->out);
    }
    bt_str_format(&folder, "%s%s", out ? "" : "data/", out ? out : arguments->words[1]);
    BT_TRY(bt_str_status(&folder));
    return fetch_into(call, bt_str_text(&list), bt_str_text(&folder));
}

// Compares every byte of a dataset with its digests, and every token with the vocabulary.
static bt_status verify(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_dataset) dataset = {0};
    BT_SCOPED(bt_str) folder = {0};
    bool found = false;
    const char *name = arguments->words[1];
    if (strchr(name, '/')) {
        bt_str_append(&folder, name);
    } else {
        bt_run_data_folder(name, &folder, &found);
    }
    BT_TRY(bt_str_status(&folder));
    BT_TRY(bt_dataset_open(bt_str_text(&folder), &dataset));
    BT_TRY(bt_dataset_verify(&dataset));
    return print_dataset(&dataset, call);
}

bt_status bt_verb_data(bt_cli_call *call)
{
    static const struct {
        const char *name;
        int64_t words_min, words_max;
        bt_status (*run)(bt_cli_call *call);
    } actions[] = {{"prepare", 1, 1, prepare},
                   {"tokenize", 1, INT64_MAX, tokenize},
                   {"fetch", 1, 2, fetch},
                   {"verify", 2, 2, verify}};
    const int64_t count = call->arguments->word_count;
    bt_interrupt_watch();
    const int64_t at = BT_FIND(actions, BT_COUNT(actions), name, call->arguments->words[0]);
    if (at >= 0 && count >= actions[at].words_min && count <= actions[at].words_max) {
        return actions[at].run(call);
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "usage: bt-bench data prepare | tokenize FILE... -o DIR | fetch "
                    "[NAME] | verify NAME");
}

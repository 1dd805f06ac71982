// harness/cli/verb_data.c - data prepare, tokenize, fetch
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/data/corpus.h"
#include "framework/data/dataset.h"
#include "framework/data/fetch.h"
#include "harness/cli/cli.h"
#include "harness/run/child.h"
#include "harness/run/data.h"
#include "harness/suite/suite.h"
#include "harness/text/format.h"

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

static int print_dataset(const bt_dataset *dataset, bool json)
{
    bt_str out = {0};
    if (json) {
        bt_str_append(&out, "{\"folder\":");
        bt_json_string(dataset->folder, &out);
        bt_str_format(&out,
                      ",\"train_tokens\":%lld,\"train_shards\":%lld,\"val_tokens\":%lld,"
                      "\"val_shards\":%lld,\"digest\":\"%s\"}\n",
                      (long long)dataset->train.tokens, (long long)dataset->train.count,
                      (long long)dataset->val.tokens, (long long)dataset->val.count,
                      dataset->digest.hex);
    } else {
        bt_str_format(&out, "%s: %s tokens to train in %lld shards, ", dataset->folder,
                      bt_format_count(dataset->train.tokens).text, (long long)dataset->train.count);
        bt_str_format(&out, "%s to validate in %lld\n", bt_format_count(dataset->val.tokens).text,
                      (long long)dataset->val.count);
    }
    return bt_cli_print(&out);
}

static int finish(bt_status status, bt_dataset *dataset, bool json)
{
    int code = status == BT_OK ? print_dataset(dataset, json) : bt_cli_fail(status);
    bt_dataset_release(dataset);
    return code;
}

static int prepare(const bt_cli_arguments *arguments, bool json)
{
    const char *out = bt_cli_value(arguments, "output");
    bt_str folder = {0};
    bool found = false;
    bt_dataset dataset = {0};
    if (out) {
        bt_str_append(&folder, out);
    } else {
        bt_run_data_folder("books", &folder, &found);
    }
    bt_status status = bt_str_status(&folder);
    if (status == BT_OK) {
        void *quiet = bt_cli_value(arguments, "quiet") ? (void *)&folder : NULL;
        status = bt_run_data_prepare(bt_str_text(&folder), say, quiet);
    }
    BT_IF_OK(status, bt_dataset_open(bt_str_text(&folder), &dataset));
    bt_str_release(&folder);
    return finish(status, &dataset, json);
}

static bt_status read_fraction(const bt_cli_arguments *arguments, double *fraction)
{
    const char *text = bt_cli_value(arguments, "val");
    char *end = NULL;
    *fraction = text ? strtod(text, &end) : 0.0;
    if (text && (end == text || *end || !(*fraction >= 0 && *fraction < 1))) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "--val %s: expected a fraction from 0 to below 1, such as 0.02", text);
    }
    return BT_OK;
}

static int tokenize(const bt_cli_arguments *arguments, bool json)
{
    bt_dataset dataset = {0};
    char *ranks = NULL;
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
    bt_status status =
        options.out_dir && options.file_count
            ? read_fraction(arguments, &options.val_fraction)
            : bt_error(BT_STATUS_INVALID_ARGUMENT, "usage: bt-bench data tokenize FILE... -o DIR "
                                                   "[--val FRACTION]");
    if (status == BT_OK && !given) {
        status = bt_run_data_ranks(&ranks);
        options.ranks = ranks;
    }
    BT_IF_OK(status, bt_data_tokenize(&options, &dataset));
    bt_mem_free(ranks);
    return finish(status, &dataset, json);
}

// The list of corpora: --list, or the installation's.
static bt_status list_path(const bt_cli_arguments *arguments, bt_str *path)
{
    const char *given = bt_cli_value(arguments, "list");
    if (given) {
        bt_str_append(path, given);
    } else {
        bt_home_path(path);
        bt_str_append(path, "/suites/data/corpora.json");
    }
    return bt_str_status(path);
}

static int fetch_names(const char *list)
{
    bt_str names = {0};
    bt_status status = bt_data_fetch_names(list, &names);
    if (status != BT_OK) {
        bt_str_release(&names);
        return bt_cli_fail(status);
    }
    return bt_cli_print(&names);
}

static int fetch_into(const bt_cli_arguments *arguments, const char *list, const char *folder,
                      bool json)
{
    bt_dataset dataset = {0};
    bt_fetch_options options = {.list = list,
                                .name = arguments->words[1],
                                .out_dir = folder,
                                .progress = {on_progress, NULL}};
    if (bt_cli_value(arguments, "quiet")) {
        options.progress.self = &options;
    }
    bt_status status = bt_cli_number(arguments, "files", 1, 1000000, 0, &options.max_files);
    BT_IF_OK(status, bt_data_fetch(&options, &dataset));
    return finish(status, &dataset, json);
}

static int fetch(const bt_cli_arguments *arguments, bool json)
{
    bt_str list = {0}, folder = {0};
    const char *out = bt_cli_value(arguments, "output");
    bt_status status = list_path(arguments, &list);
    bool named = arguments->word_count == 2;
    if (named) {
        bt_str_format(&folder, "%s%s", out ? "" : "data/", out ? out : arguments->words[1]);
        status = status == BT_OK ? bt_str_status(&folder) : status;
    }
    int code = status != BT_OK ? bt_cli_fail(status)
               : named ? fetch_into(arguments, bt_str_text(&list), bt_str_text(&folder), json)
                       : fetch_names(bt_str_text(&list));
    bt_str_release(&list);
    bt_str_release(&folder);
    return code;
}

// Every byte of a dataset against its digests, every token against the vocabulary.
static int verify(const bt_cli_arguments *arguments, bool json)
{
    bt_dataset dataset = {0};
    bt_str folder = {0};
    bool found = false;
    const char *name = arguments->words[1];
    if (strchr(name, '/')) {
        bt_str_append(&folder, name);
    } else {
        bt_run_data_folder(name, &folder, &found);
    }
    bt_status status = bt_str_status(&folder);
    BT_IF_OK(status, bt_dataset_open(bt_str_text(&folder), &dataset));
    BT_IF_OK(status, bt_dataset_verify(&dataset));
    bt_str_release(&folder);
    return finish(status, &dataset, json);
}

int bt_verb_data(const bt_cli_arguments *arguments)
{
    bool json = false;
    bt_status status = bt_cli_wants_json(arguments, &json);
    const char *what = arguments->words[0];
    bt_interrupt_watch();
    if (status != BT_OK) {
        return bt_cli_fail(status);
    }
    if (strcmp(what, "prepare") == 0 && arguments->word_count == 1) {
        return prepare(arguments, json);
    }
    if (strcmp(what, "tokenize") == 0) {
        return tokenize(arguments, json);
    }
    if (strcmp(what, "fetch") == 0 && arguments->word_count <= 2) {
        return fetch(arguments, json);
    }
    if (strcmp(what, "verify") == 0 && arguments->word_count == 2) {
        return verify(arguments, json);
    }
    return bt_cli_fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "usage: bt-bench data prepare | tokenize FILE... -o DIR | fetch "
                                "[NAME] | verify NAME"));
}

// harness/cli/run_name.c - resolves a user's name of a run: number, last, last-N, @BASELINE, --name
#include "harness/cli/run_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/suite/words.h"

enum { NAME_BYTES_MAX = 64 };

static bool read_number(const char *text, int64_t least, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *number = value;
    return !errno && isdigit((unsigned char)*text) && !*end && value >= least;
}

// "last" is 0 runs back, "last-2" two; false: another word.
static bool read_back(const char *word, int64_t *back)
{
    *back = 0;
    return strcmp(word, "last") == 0 ||
           (strncmp(word, "last-", 5) == 0 && read_number(word + 5, 0, back));
}

static bt_status newest_of_baseline(bt_store *store, const char *name, int64_t *run)
{
    bt_store_baseline_list list;
    BT_TRY(bt_store_baseline_list_read(store, name, &list));
    const int64_t count = list.count;
    *run = 0;
    for (int64_t i = 0; i < count && !*run; ++i) { // from the newest on
        *run = list.rows[i].run;
    }
    bt_store_baseline_list_release(&list);
    if (*run) {
        return BT_OK;
    }
    return count ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "@%s: this baseline came from a file; its run is not in the database",
                            name)
                 : bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "@%s: no baseline of this name; 'bt-bench baseline list' lists them",
                            name);
}

static bt_status no_such_name(bt_store *store, const char *word)
{
    BT_SCOPED(bt_str) names = {0}, hint = {0};
    BT_TRY(bt_store_run_names(store, &names));
    bt_words_hint(word, bt_str_text(&names), &hint);
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "no run \"%s\"%s\nexpected: its number or --name, as in 'bt-bench list runs', "
                    "last, last-1 or @BASELINE",
                    word, bt_str_text(&hint));
}

bt_status bt_cli_run_in(bt_store *store, const char *word, int64_t *run)
{
    int64_t back = 0;
    if (read_number(word, 1, run)) {
        return BT_OK;
    }
    if (*word == '@') {
        return newest_of_baseline(store, word + 1, run);
    }
    if (read_back(word, &back)) {
        BT_TRY(bt_store_run_back(store, back, run));
        return *run ? BT_OK
                    : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %s does not have that many runs",
                               word, bt_store_path(store));
    }
    BT_TRY(bt_store_run_named(store, word, run));
    return *run ? BT_OK : no_such_name(store, word);
}

bt_status bt_cli_open_runs(bt_cli_call *call, bt_store_mode mode, int64_t first, int64_t count,
                           int64_t *runs)
{
    BT_TRY(bt_cli_open(call, mode));
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(bt_cli_run_in(call->store, call->arguments->words[first + i], &runs[i]));
    }
    return BT_OK;
}

bt_status bt_cli_run(const bt_cli_arguments *arguments, const char *word, int64_t *run)
{
    BT_SCOPED(bt_store_reader) store = NULL;
    if (read_number(word, 1, run)) {
        return BT_OK;
    }
    BT_TRY(bt_store_open(bt_cli_database(arguments), BT_STORE_READ, &store));
    return bt_cli_run_in(store, word, run);
}

bool bt_cli_is_run(const bt_cli_arguments *arguments, const char *word)
{
    int64_t run = 0;
    if (*word == '@' || read_back(word, &run) ||
        (isdigit((unsigned char)*word) && !strpbrk(word, "./"))) {
        return true;
    }
    BT_SCOPED(bt_store_reader) store = NULL;
    if (strchr(word, '/') || access(word, F_OK) == 0 ||
        access(bt_cli_database(arguments), F_OK) != 0) {
        return false;
    }
    bt_error_quiet_begin();
    const bool named = bt_store_open(bt_cli_database(arguments), BT_STORE_READ, &store) == BT_OK &&
                       bt_store_run_named(store, word, &run) == BT_OK && run != 0;
    bt_error_quiet_end();
    return named;
}

bt_status bt_cli_check_run_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.";
    const size_t length = name ? strlen(name) : 1;
    int64_t back = 0;
    // here: the machine, as in 'env diff'
    BT_FAIL_IF(name &&
                   (!isalpha((unsigned char)*name) || strspn(name, allowed) != length ||
                    length > NAME_BYTES_MAX || read_back(name, &back) || strcmp(name, "here") == 0),
               BT_STATUS_INVALID_ARGUMENT,
               "--name %s: a run's name has 1 to %d letters, digits, '-', '_' or '.', "
               "begins with a letter and is not last, last-N or here",
               name, NAME_BYTES_MAX);
    return BT_OK;
}

// harness/cli/verb_rm.c - rm: deletes recorded runs
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cases/cases.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/store/store.h"
#include "harness/text/format.h"

// ---- files -------------------------------------------------------------------------------------

static int64_t remove_checkpoints(const char *folder)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/checkpoints", folder);
    return bt_str_status(&path) == BT_OK ? bt_case_checkpoints_remove(bt_str_text(&path)) : 0;
}

// Files of the rank launcher for 'bt-bench watch', which no run records.
static int64_t remove_ranks(const char *folder)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/ranks.json", folder);
    return bt_str_status(&path) == BT_OK && unlink(bt_str_text(&path)) == 0;
}

// Removes the files that the run wrote in its own folder, its checkpoints there, and the folder if
// nothing else is in it: a folder given with --out may contain other files.
static void remove_files(const bt_store_run *run, bt_str *out)
{
    const char *folder = run->info.out_dir;
    size_t length = folder ? strlen(folder) : 0;
    int64_t removed = length > 0 ? remove_ranks(folder) : 0;
    const int64_t checkpoints = length > 0 ? remove_checkpoints(folder) : 0;
    for (int64_t i = 0; i < run->artifact_count; ++i) {
        const char *path = run->artifacts[i].path;
        bool inside = length > 0 && strncmp(path, folder, length) == 0 && path[length] == '/' &&
                      !strstr(path + length, "/../");
        removed += inside && unlink(path) == 0;
    }
    const bool gone = length > 0 && rmdir(folder) == 0; // refused while anything is in it
    const bool missing = length > 0 && !gone && !bt_file_exists(folder);
    bt_str_format(out, "run %lld: removed %s", (long long)run->id,
                  bt_format_items(removed, "file").text);
    if (checkpoints > 0) {
        bt_str_format(out, ", %s", bt_format_items(checkpoints, "checkpoint").text);
    }
    bt_str_format(out, "%s%s\n",
                  gone         ? " and the folder "
                  : missing    ? "; there is no folder "
                  : length > 0 ? "; other files stay in "
                               : "",
                  length > 0 ? folder : "");
}

// ---- runs --------------------------------------------------------------------------------------

static bt_status check_references(bt_store *store, int64_t run, bool force)
{
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(bt_store_run_references(store, run, &text));
    BT_FAIL_IF(text.length_bytes > 0 && !force, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is in use: other results were compared with it (%s)\n--force "
               "removes it; they keep their own copies of its values",
               (long long)run, bt_str_text(&text));
    return BT_OK;
}

static bt_status remove_run(const bt_cli_arguments *arguments, bt_store *store, int64_t number,
                            bt_str *out)
{
    BT_SCOPED(bt_store_run) run = {0};
    BT_TRY(bt_store_run_read(store, number, &run));
    const char *folder = run.info.out_dir ? run.info.out_dir : "";
    const bool files = bt_cli_value(arguments, "files") != NULL;
    int64_t other = 0;
    bt_status status =
        files && *folder ? bt_store_run_beside(store, number, folder, &other) : BT_OK;
    BT_IF_OK(status, bt_store_run_remove(store, number));
    if (status == BT_OK && other > 0) {
        bt_str_format(out,
                      "run %lld: its files in %s were kept, because run %lld has files there\n",
                      (long long)number, folder, (long long)other);
    } else if (status == BT_OK && files) {
        remove_files(&run, out);
    } else if (status == BT_OK && bt_file_exists(folder)) {
        bt_str_format(out, "run %lld: its files in %s were kept (--files removes them)\n",
                      (long long)number, folder);
    }
    return status;
}

static bt_status check_once(const int64_t *runs, int64_t index)
{
    for (int64_t i = 0; i < index; ++i) {
        BT_FAIL_IF(runs[i] == runs[index], BT_STATUS_INVALID_ARGUMENT, "run %lld is given twice",
                   (long long)runs[i]);
    }
    return BT_OK;
}

// All were found and are checked before the first is removed, because `last` changes with each
// removal.
static bt_status remove_runs(const bt_cli_arguments *arguments, bt_store *store,
                             const int64_t *runs, bt_str *out)
{
    const bool force = bt_cli_value(arguments, "force") != NULL;
    int64_t freed_bytes = 0;
    for (int64_t i = 0; i < arguments->word_count; ++i) {
        BT_TRY(check_once(runs, i));
        BT_TRY(check_references(store, runs[i], force));
    }
    for (int64_t i = 0; i < arguments->word_count; ++i) {
        BT_TRY(remove_run(arguments, store, runs[i], out));
    }
    bt_str_format(out, "removed %s from %s; ", bt_format_items(arguments->word_count, "run").text,
                  bt_store_path(store));
    if (bt_store_compact(store, &freed_bytes) == BT_OK) {
        bt_str_format(out, "%s freed\n", bt_format_value(BT_UNIT_BYTES, (double)freed_bytes).text);
    } else { // another program reads or writes it
        bt_error_clear();
        bt_str_append(out, "later runs reuse the space, because the database is in use\n");
    }
    return bt_str_status(out);
}

bt_status bt_verb_rm(bt_cli_call *call)
{
    BT_SCOPED_MEM(int64_t *) runs = NULL;
    BT_TRY(BT_MEM_ARRAY(call->arguments->word_count, &runs));
    BT_TRY(bt_cli_open_runs(call, BT_STORE_AMEND, 0, call->arguments->word_count, runs));
    return remove_runs(call->arguments, call->store, runs, &call->out);
}

// harness/cli/verb_baseline.c - sets, shows, exports and imports the baselines that gate compares
// with
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/gate/baseline_find.h"
#include "harness/gate/describe.h"
#include "harness/stats/sessions.h"
#include "harness/text/format.h"

// ---- set ---------------------------------------------------------------------------------------

// The runs named after the baseline's name.
typedef struct run_list {
    bt_store_run *runs;           // owned, [count]
    const bt_store_run **in_turn; // owned, [count]: pointers to them
    int64_t count;
    bt_str database; // owned, the option for printed commands: " --db FILE"
} run_list;

static bt_status read_runs(const bt_cli_arguments *arguments, bt_store *store, run_list *out)
{
    const int64_t given = arguments->word_count - 2;
    bt_cli_append_database(bt_cli_database(arguments), &out->database);
    BT_TRY(bt_str_status(&out->database));
    BT_TRY(BT_MEM_ARRAY(given, &out->runs));
    BT_TRY(bt_mem_array((size_t)given, sizeof(void *), &out->in_turn));
    for (int64_t i = 0; i < given; ++i) {
        int64_t number = 0;
        BT_TRY(bt_cli_run_in(store, arguments->words[2 + i], &number));
        BT_TRY(bt_store_run_read(store, number, &out->runs[i]));
        out->in_turn[i] = &out->runs[i];
        ++out->count;
    }
    return BT_OK;
}

static void release_runs(run_list *list)
{
    for (int64_t i = 0; i < list->count; ++i) {
        bt_store_run_release(&list->runs[i]);
    }
    bt_str_release(&list->database);
    bt_mem_free((void *)list->in_turn);
    bt_mem_free(list->runs);
}

static bool is_session(const bt_baseline *made, int64_t run)
{
    bool found = false;
    for (int64_t i = 0; i < made->session_count; ++i) {
        found = found || made->sessions[i].run == run;
    }
    return found;
}

static void describe_set(const bt_baseline *made, const run_list *list, bt_str *out)
{
    const char *separator = ", with the loss curves of", *database = bt_str_text(&list->database);
    int64_t sessions = bt_baseline_sessions(made);
    bt_str_format(out, "baseline %s of %s has %s now: run", made->name, made->machine,
                  bt_format_items(sessions, "session").text);
    for (int64_t i = 0; i < made->session_count; ++i) {
        bt_str_format(out, "%s %lld", i ? "," : "", (long long)made->sessions[i].run);
    }
    for (int64_t i = 0; i < list->count; ++i) {
        if (!is_session(made, list->runs[i].id)) {
            bt_str_format(out, "%s %lld", separator, (long long)list->runs[i].id);
            separator = ",";
        }
    }
    if (sessions < BT_SESSIONS_MIN) {
        bt_str_format(out,
                      "\nadvisory: speed is judged from %d sessions on; run the same build on "
                      "other days and add the runs",
                      BT_SESSIONS_MIN);
    }
    if (*made->noise_accepted) {
        bt_str_format(out, "\ndisturbed rounds were accepted: %s", made->noise_accepted);
    }
    bt_str_format(out,
                  "\nnext  bt-bench gate %s --baseline %s%s   bt-bench baseline add %s RUN%s   "
                  "bt-bench baseline export %s%s\n",
                  list->runs[0].info.suite.path, made->name, database, made->name, database,
                  made->name, database);
}

static bt_status keep_document(bt_store *store, const run_list *list, const bt_baseline_wish *wish,
                               const bt_str *document, bt_str *out)
{
    BT_SCOPED(bt_baseline) made = {0};
    BT_TRY(bt_baseline_parse(wish->name, bt_str_text(document), document->length_bytes, &made));
    const bt_store_baseline row = {.name = wish->name,
                                   .machine = made.machine,
                                   .reason = wish->reason,
                                   .run = list->runs[0].id,
                                   .created_ns = wish->created_ns,
                                   .document = bt_str_text(document)};
    BT_TRY(bt_store_baseline_add(store, &row));
    describe_set(&made, list, out);
    return BT_OK;
}

// The baseline to which the runs are added.
static bt_status read_before(bt_store *store, const char *name, const bt_store_env *env,
                             bt_baseline *out)
{
    BT_SCOPED(bt_str) machine = {0};
    bt_baseline_machine(env, &machine);
    BT_TRY(bt_str_status(&machine));
    return bt_baseline_find(store, name, bt_str_text(&machine), out);
}

static bt_status set_from_runs(const bt_cli_arguments *arguments, bt_store *store,
                               const run_list *list, bool add, bt_str *out)
{
    BT_SCOPED(bt_str) document = {0};
    BT_SCOPED(bt_baseline) before = {0};
    bt_baseline_wish wish = {.name = arguments->words[1],
                             .reason = bt_cli_value(arguments, "reason"),
                             .accept_noise = bt_cli_value(arguments, "accept-noise"),
                             .created_ns = bt_clock_wall_ns(),
                             .before = add ? &before : NULL};
    bt_status status = BT_OK;
    if (add) {
        status = read_before(store, wish.name, &list->runs[0].info.env, &before);
        wish.reason = wish.reason ? wish.reason : before.reason;
    }
    BT_IF_OK(status, bt_baseline_write(list->in_turn, list->count, &wish, &document));
    BT_IF_OK(status, keep_document(store, list, &wish, &document, out));
    return status;
}

static bt_status set_or_add(bt_cli_call *call, bool add)
{
    run_list list = {0};
    BT_TRY(bt_cli_open(call, BT_STORE_AMEND));
    bt_status status = read_runs(call->arguments, call->store, &list);
    BT_IF_OK(status, set_from_runs(call->arguments, call->store, &list, add, &call->out));
    release_runs(&list);
    return status;
}

static bt_status baseline_set(bt_cli_call *call)
{
    BT_FAIL_IF(!bt_cli_value(call->arguments, "reason"), BT_STATUS_INVALID_ARGUMENT,
               "bt-bench baseline set: --reason TEXT is missing: the reason why later runs are "
               "compared with this one");
    return set_or_add(call, false);
}

static bt_status baseline_add(bt_cli_call *call) { return set_or_add(call, true); }

// ---- list, history, show -----------------------------------------------------------------------

static bt_status list_rows(bt_cli_call *call, const char *name, bool all)
{
    BT_SCOPED(bt_store_baseline_list) list = {0};
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    BT_TRY(bt_store_baseline_list_read(call->store, name, &list));
    BT_FAIL_IF(name && list.count == 0, BT_STATUS_INVALID_ARGUMENT, "%s: no baseline \"%s\"",
               bt_store_path(call->store), name);
    return call->json ? bt_baseline_list_json(&list, all, &call->out)
                      : bt_baseline_list_text(&list, all, call->columns, &call->out);
}

static bt_status baseline_list(bt_cli_call *call) { return list_rows(call, NULL, false); }

static bt_status baseline_history(bt_cli_call *call)
{
    return list_rows(call, call->arguments->words[1], true);
}

// The stored row of a name, with its document.
static bt_status read_row(bt_cli_call *call, bt_arena *arena, bt_store_baseline *row)
{
    bool found = false;
    const char *name = call->arguments->words[1];
    const char *machine = bt_cli_value(call->arguments, "machine");
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    BT_TRY(bt_store_baseline_read(call->store, name, machine, arena, row, &found));
    return found ? BT_OK
                 : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no baseline \"%s\"%s%s",
                            bt_store_path(call->store), name, machine ? " of machine " : "",
                            machine ? machine : "");
}

static bt_status show_row(bt_cli_call *call, const bt_store_baseline *row)
{
    BT_SCOPED(bt_baseline) baseline = {0};
    if (call->json) {
        return bt_baseline_write_public(row->document, &call->out);
    }
    BT_TRY(bt_baseline_parse(row->name, row->document, strlen(row->document), &baseline));
    return bt_baseline_text(&baseline, row->run, call->columns, &call->out);
}

// ---- export, import ----------------------------------------------------------------------------

// Writes to --output, else to the folder of committed baselines.
static bt_status write_row(bt_cli_call *call, const bt_store_baseline *row)
{
    const char *given = bt_cli_value(call->arguments, "output");
    BT_SCOPED(bt_str) path = {0}, folder = {0}, document = {0};
    bt_str_format(&folder, "results/baselines/%s", row->machine);
    bt_str_format(&path, "%s/%s.json", bt_str_text(&folder), row->name);
    BT_TRY(bt_str_status(&path));
    if (!given) {
        BT_TRY(bt_dir_make(bt_str_text(&folder)));
    }
    const char *target = given ? given : bt_str_text(&path);
    BT_TRY(bt_baseline_write_public(row->document, &document));
    BT_TRY(bt_file_write(target, bt_str_text(&document), document.length_bytes));
    bt_str_format(&call->out, "wrote %s\n", target);
    return BT_OK;
}

static bt_status with_row(bt_cli_call *call,
                          bt_status (*use)(bt_cli_call *call, const bt_store_baseline *row))
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_baseline row;
    BT_TRY(read_row(call, &arena, &row));
    return use(call, &row);
}

static bt_status baseline_show(bt_cli_call *call) { return with_row(call, show_row); }

static bt_status baseline_export(bt_cli_call *call) { return with_row(call, write_row); }

static bt_status import_document(bt_cli_call *call, const char *document,
                                 const bt_baseline *baseline)
{
    bt_store_baseline row = {.name = baseline->name,
                             .machine = baseline->machine,
                             .reason = baseline->reason,
                             .created_ns = bt_clock_wall_ns(),
                             .document = document};
    BT_TRY(bt_cli_open(call, BT_STORE_WRITE));
    BT_TRY(bt_store_baseline_add(call->store, &row));
    bt_str_format(&call->out, "baseline %s of %s was replaced by that of %s\n", row.name,
                  row.machine, call->arguments->words[1]);
    return BT_OK;
}

static bt_status baseline_import(bt_cli_call *call)
{
    const char *path = call->arguments->words[1];
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    BT_SCOPED(bt_baseline) baseline = {0};
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO,
               "%s: no such file; expected a baseline that 'bt-bench baseline export' wrote", path);
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    BT_TRY(bt_baseline_parse(path, bytes, size_bytes, &baseline));
    return import_document(call, bytes, &baseline);
}

// ---- the verb ----------------------------------------------------------------------------------

static const struct {
    const char *name, *usage;
    int64_t words, words_max;
    bt_status (*run)(bt_cli_call *call);
} actions[] = {
    {"set", "NAME RUN [RUN...] --reason TEXT", 3, 2 + BT_LOSS_RUNS_MAX, baseline_set},
    {"add", "NAME RUN [RUN...]", 3, 2 + BT_LOSS_RUNS_MAX, baseline_add},
    {"list", "", 1, 1, baseline_list},
    {"show", "NAME", 2, 2, baseline_show},
    {"history", "NAME", 2, 2, baseline_history},
    {"export", "NAME [-o FILE]", 2, 2, baseline_export},
    {"import", "FILE", 2, 2, baseline_import},
};

bt_status bt_verb_baseline(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const int64_t at = BT_FIND(actions, BT_COUNT(actions), name, arguments->words[0]);
    if (at >= 0) {
        return arguments->word_count >= actions[at].words &&
                       arguments->word_count <= actions[at].words_max
                   ? actions[at].run(call)
                   : bt_error(BT_STATUS_INVALID_ARGUMENT, "usage: bt-bench baseline %s%s%s",
                              actions[at].name, *actions[at].usage ? " " : "", actions[at].usage);
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "bt-bench baseline: unknown command \"%s\"; expected set, add, list, show, "
                    "history, export, "
                    "import",
                    arguments->words[0]);
}

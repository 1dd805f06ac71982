// harness/cli/run_suite.c - plans and runs a suite according to a verb's options
#include "harness/cli/run_suite.h"
#include "harness/cli/run_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cases/cases.h"
#include "harness/launch/affinity.h"
#include "harness/launch/world.h"
#include "harness/plan/plan.h"
#include "harness/report/report.h"
#include "harness/store/live.h"
#include "harness/text/format.h"

static bt_status read_options(const bt_cli_arguments *arguments, const bt_cli_suite_wishes *wishes,
                              bt_plan_options *options)
{
    const char *systems = bt_cli_value(arguments, "system");
    const char *profile = bt_cli_value(arguments, "profile");
    options->profile = profile ? profile : wishes->profile;
    options->filter = bt_cli_value(arguments, "filter");
    options->systems = systems ? systems : wishes->systems;
    options->builds = wishes->builds;
    options->wants = wishes->wants;
    options->wants_by = wishes->wants_by;
    options->wants_else = wishes->wants_else;
    options->sets = arguments->repeated;
    options->set_count = arguments->repeated_count;
    BT_TRY(bt_cli_number(arguments, "rounds", 1, 1000, wishes->rounds, &options->rounds));
    options->seed = -1;
    if (wishes->order_seed) {
        return BT_OK;
    }
    return bt_cli_number(arguments, "seed", 0, (1LL << 53) - 1, -1, &options->seed);
}

static bt_status make_plan(const bt_plan_options *options, bt_cli_suite *out)
{
    const bt_cli_arguments *arguments = out->arguments;
    BT_TRY(bt_machine_look(&out->machine));
    BT_TRY(bt_plan_make(&out->suite, options, &out->machine, &out->plan));
    bool runs = !bt_cli_value(arguments, "dry-run") && !bt_cli_value(arguments, "worker");
    if (!runs || !out->machine.has_cuda || strcmp(out->plan.device, "cuda") != 0) {
        return BT_OK;
    }
    BT_TRY(bt_machine_open_cuda(&out->machine));
    if (out->machine.has_cuda || !out->plan.chosen) {
        return BT_OK;
    }
    bt_plan_release(&out->plan);
    return bt_plan_make(&out->suite, options, &out->machine, &out->plan);
}

// Whether this program trains the cases, not only peers or another worker.
static bool trains_itself(const bt_cli_suite *suite)
{
    bool ours = !suite->plan.systems;
    const cJSON *system = NULL;
    cJSON_ArrayForEach(system, suite->plan.systems) {
        ours = ours || strcmp(system->valuestring, "blutrain") == 0;
    }
    return ours && !bt_cli_value(suite->arguments, "worker");
}

// Ranks that take turns on a core wait for each other, so their speed is not that of the mesh.
static bt_status note_cores(const bt_cli_suite *suite, int64_t ranks, bt_str *notes)
{
    bt_world world;
    BT_TRY(bt_world_read(&world));
    if (!world.launcher && bt_affinity_takes_turns(ranks) &&
        strcmp(suite->plan.device, "cpu") == 0 && !bt_cli_value(suite->arguments, "quiet")) {
        bt_str_format(
            notes, "%lld ranks on %s: they take turns, so their speed is not that of %lld cores\n",
            (long long)ranks, bt_format_items(bt_affinity_processors(), "core").text,
            (long long)ranks);
    }
    return BT_OK;
}

// Wrong meshes are refused before a process starts.
static bt_status check_meshes(const bt_cli_suite *suite)
{
    BT_SCOPED(bt_str) notes = {0};
    bt_world world;
    int64_t most = 1;
    if (!trains_itself(suite)) {
        return BT_OK;
    }
    for (int64_t i = 0; i < suite->plan.case_count; ++i) {
        const cJSON *item = bt_plan_case(&suite->plan, i);
        const bt_plan_mesh mesh = bt_plan_mesh_of(bt_json_get(item, "train"));
        if (mesh.ranks > BT_LAUNCH_RANKS_MAX) {
            BT_TRY(bt_world_read(&world));
            BT_FAIL_IF(!world.launcher, BT_STATUS_INVALID_ARGUMENT,
                       "case %s: train.mesh: data x tensor x context is %lld; one host starts at "
                       "most %d ranks, more need torchrun, srun or mpirun on several hosts",
                       bt_json_text_of(item, "name"), (long long)mesh.ranks, BT_LAUNCH_RANKS_MAX);
        }
        BT_TRY(bt_case_check_mesh(item, suite->plan.device, &notes));
        most = mesh.ranks > most ? mesh.ranks : most;
    }
    BT_TRY(most > 1 ? note_cores(suite, most, &notes) : BT_OK);
    fputs(bt_str_text(&notes), stderr);
    return BT_OK;
}

bt_status bt_cli_suite_plan(const bt_cli_arguments *arguments, const char *name,
                            const bt_cli_suite_wishes *wishes, bt_cli_suite *out)
{
    static const bt_cli_suite_wishes none = {0};
    bt_plan_options options = {0};
    memset(out, 0, sizeof *out);
    out->arguments = arguments;
    out->database = bt_cli_database(arguments);
    out->trusts_commands = bt_cli_value(arguments, "trust") != NULL;
    out->trusted = out->trusts_commands || bt_cli_value(arguments, "system");
    BT_TRY(bt_cli_check_run_name(bt_cli_value(arguments, "name")));
    BT_TRY(read_options(arguments, wishes ? wishes : &none, &options));
    BT_TRY(bt_suite_load(name, &out->suite));
    BT_TRY(make_plan(&options, out));
    return check_meshes(out);
}

// The plan determines all of these.
static bt_status refuse_options(const bt_cli_arguments *arguments)
{
    static const char *const names[] = {"profile",   "filter",     "set",      "baseline",
                                        "seed",      "system",     "rounds",   "out",
                                        "name",      "note",       "dry-run",  "policy",
                                        "tolerance", "rounds-max", "slowdown", "inject-slowdown"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        BT_FAIL_IF(bt_cli_value(arguments, names[i]), BT_STATUS_INVALID_ARGUMENT,
                   "--resume uses the recorded plan and cannot be combined with --%s", names[i]);
    }
    BT_FAIL_IF(arguments->word_count, BT_STATUS_INVALID_ARGUMENT,
               "--resume uses the recorded plan; unexpected argument \"%s\"", arguments->words[0]);
    return BT_OK;
}

static bt_status read_recorded_plan(bt_cli_suite *out)
{
    BT_SCOPED(bt_store_reader) store = NULL;
    BT_SCOPED(bt_store_live) live = {0};
    BT_TRY(bt_store_open(out->database, BT_STORE_READ, &store));
    BT_TRY(bt_store_live_read(store, out->resume, &live));
    // An imported run has no process here, and its programs were chosen by somebody else.
    out->trusted = live.process_id != 0 || bt_cli_value(out->arguments, "trust");
    out->trusts_commands = out->trusted;
    return bt_error_context(bt_plan_read(live.plan_json, &out->plan), "run %lld",
                            (long long)out->resume);
}

bt_status bt_cli_suite_record(const bt_cli_suite *suite, const char *kind, bt_store_run *record)
{
    BT_SCOPED(bt_store_reader) store = NULL;
    BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &store));
    BT_TRY(bt_store_run_read(store, suite->resume, record));
    const char *recorded = record->schedule.kind;
    BT_FAIL_IF(strcmp(recorded, kind) != 0, BT_STATUS_INVALID_ARGUMENT,
               "run %lld was started by 'bt-bench %s', not by %s", (long long)suite->resume,
               *recorded ? recorded : "run", kind);
    return BT_OK;
}

bt_status bt_cli_suite_resume(const bt_cli_arguments *arguments, const char *run, bt_cli_suite *out)
{
    memset(out, 0, sizeof *out);
    out->arguments = arguments;
    out->database = bt_cli_database(arguments);
    BT_TRY(bt_cli_run(arguments, run, &out->resume));
    BT_TRY(refuse_options(arguments));
    BT_TRY(read_recorded_plan(out));
    BT_TRY(bt_machine_look(&out->machine));
    bool opens = !bt_cli_value(arguments, "worker") && strcmp(out->plan.device, "cuda") == 0;
    return opens && out->machine.has_cuda ? bt_machine_open_cuda(&out->machine) : BT_OK;
}

// Ranks started by an external launcher train one case together: the others could not follow rank
// 0's recorder through several rounds.
static bt_status check_world(const bt_cli_suite *suite)
{
    const bt_world *world = &suite->world;
    const cJSON *train = bt_json_get(bt_plan_case(&suite->plan, 0), "train");
    const int64_t ranks = bt_plan_mesh_of(train).ranks;
    BT_FAIL_IF(suite->plan.case_count != 1 || suite->plan.rounds != 1 || !train,
               BT_STATUS_INVALID_ARGUMENT,
               "%s started %d ranks, which train one case in one round; the plan has "
               "%lld cases and %lld rounds: select one with --filter and --rounds 1",
               world->launcher, world->size, (long long)suite->plan.case_count,
               (long long)suite->plan.rounds);
    BT_FAIL_IF(ranks != world->size, BT_STATUS_INVALID_ARGUMENT,
               "rank %d: train.mesh has %lld ranks, but %s started %d ranks (%s): make them "
               "equal",
               world->rank, (long long)ranks, world->launcher, world->size, world->size_variable);
    return BT_OK;
}

static bool has_files(const char *folder)
{
    DIR *opened = opendir(folder);
    const struct dirent *entry = NULL;
    bool found = false;
    while (opened && !found && (entry = readdir(opened))) {
        found = entry->d_name[0] != '.';
    }
    if (opened) {
        (void)closedir(opened);
    }
    return found;
}

// The folder of a rank above 0: of --out, or the first of ranks, ranks-2, ... without files.
static bt_status name_rank_folder(const char *given, int rank, bt_str *out)
{
    bt_str_format(out, "%s.rank%d", given ? given : "ranks", rank);
    BT_TRY(bt_str_status(out));
    for (int n = 2; !given && has_files(bt_str_text(out)); ++n) {
        bt_str_clear(out);
        bt_str_format(out, "ranks-%d.rank%d", n, rank);
        BT_TRY(bt_str_status(out));
    }
    return BT_OK;
}

bt_status bt_cli_suite_join(bt_cli_suite *suite)
{
    const char *out = bt_cli_value(suite->arguments, "out");
    BT_TRY(bt_world_read(&suite->world));
    if (!suite->world.launcher) {
        return BT_OK;
    }
    BT_TRY(check_world(suite));
    if (suite->world.rank > 0) { // rank 0's record is that of the run
        bt_str_format(&suite->rank_database, "%s.rank%d", suite->database, suite->world.rank);
        BT_TRY(bt_str_status(&suite->rank_database));
        BT_TRY(name_rank_folder(out, suite->world.rank, &suite->rank_out));
        suite->database = bt_str_text(&suite->rank_database);
    }
    return BT_OK;
}

// Makes the folder and locks it until *file is closed, so that of several runs that begin at once
// one gets it. A file system without locks for folders (NFS) is not an error.
// Owns    *file: the caller, close(2) unless -1
static bt_status lock_out(const char *folder, int *file)
{
    BT_TRY(bt_dir_make(folder));
    *file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BT_FAIL_IF(*file >= 0 && flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK,
               BT_STATUS_INVALID_ARGUMENT,
               "--out %s: a run that has not ended writes to this folder; choose another folder",
               folder);
    return BT_OK;
}

// A folder has the files of one run: those of a second would replace its report and logs.
static bt_status check_out(const bt_cli_suite *suite, const char *folder)
{
    BT_SCOPED(bt_store_reader) store = NULL;
    BT_SCOPED(bt_str) report = {0}, database = {0};
    int64_t other = 0;
    if (!has_files(folder)) {
        return BT_OK;
    }
    bt_str_format(&report, "%s/report.html", folder);
    bt_cli_append_database(suite->database, &database);
    BT_TRY(bt_str_status(&report));
    BT_TRY(bt_str_status(&database));
    if (bt_file_exists(suite->database)) {
        BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &store));
        BT_TRY(bt_store_run_beside(store, 0, folder, &other));
    }
    BT_FAIL_IF(other > 0, BT_STATUS_INVALID_ARGUMENT,
               "--out %s: this folder has the files of run %lld; they are not overwritten\nchoose "
               "another folder, or delete that run: bt-bench rm %lld --files%s",
               folder, (long long)other, (long long)other, bt_str_text(&database));
    BT_FAIL_IF(bt_file_exists(bt_str_text(&report)), BT_STATUS_INVALID_ARGUMENT,
               "--out %s: this folder has the report of a run that is not in %s; it is not "
               "overwritten\nchoose another folder, or delete %s",
               folder, suite->database, bt_str_text(&report));
    return BT_OK;
}

bt_status bt_cli_suite_run(const bt_cli_suite *suite, bt_run_outcome *outcome)
{
    const bt_cli_arguments *arguments = suite->arguments;
    const char *out = bt_cli_value(arguments, "out");
    const bool other_rank = suite->world.rank > 0;
    BT_SCOPED(bt_str) option = {0};
    bt_cli_append_database(suite->database, &option);
    BT_TRY(bt_str_status(&option));
    bt_run_request request = {.suite = suite->resume ? NULL : &suite->suite,
                              .plan = &suite->plan,
                              .machine = &suite->machine,
                              .database = suite->database,
                              .database_option = bt_str_text(&option),
                              .out_dir = other_rank ? bt_str_text(&suite->rank_out) : out,
                              .world = &suite->world,
                              .name = bt_cli_value(arguments, "name"),
                              .note = bt_cli_value(arguments, "note"),
                              .metrics_dir = bt_cli_value(arguments, "metrics"),
                              .worker = bt_cli_value(arguments, "worker"),
                              .command = arguments->command,
                              .report = bt_report_write,
                              .trusted = suite->trusted,
                              .trusts_commands = suite->trusts_commands,
                              .quiet = bt_cli_value(arguments, "quiet") != NULL,
                              .wish = suite->wish,
                              .systems = suite->systems,
                              .system_count = suite->system_count,
                              .schedule_seed = suite->schedule_seed,
                              .resume = suite->resume};
    bool cuda = strcmp(suite->plan.device, "cuda") == 0;
    BT_FAIL_IF(cuda && !suite->machine.has_cuda && !request.worker, BT_STATUS_UNAVAILABLE,
               "profile %s needs a CUDA GPU: %s\n'bt-bench doctor' shows what is missing; "
               "--profile selects another profile",
               suite->plan.profile, suite->machine.cuda_reason);
    int locked = -1;
    bt_status status = out ? lock_out(request.out_dir, &locked) : BT_OK;
    BT_IF_OK(status, out ? check_out(suite, request.out_dir) : BT_OK);
    BT_IF_OK(status, bt_run_execute(&request, outcome));
    if (locked >= 0) {
        close(locked);
    }
    return status;
}

bt_status bt_cli_report_missing(bt_cli_call *call, const bt_run_outcome *outcome)
{
    BT_SCOPED(bt_str) database = {0};
    if (outcome->report == BT_OK) {
        return BT_OK;
    }
    call->prints_always = true;
    bt_cli_append_database(bt_cli_database(call->arguments), &database);
    BT_TRY(bt_str_status(&database));
    return bt_error(outcome->report,
                    "%s\nrun %lld is recorded; write its report to another folder: bt-bench report "
                    "%lld -o ELSEWHERE.html%s",
                    outcome->report_message, (long long)outcome->run, (long long)outcome->run,
                    bt_str_text(&database));
}

void bt_cli_suite_release(bt_cli_suite *suite)
{
    bt_plan_release(&suite->plan);
    bt_suite_release(&suite->suite);
    bt_str_release(&suite->rank_database);
    bt_str_release(&suite->rank_out);
    memset(suite, 0, sizeof *suite);
}

bt_status bt_cli_page_renew(bt_store *store, const bt_store_run *run, bt_str *page)
{
    bt_str_format(page, "%s/report.html", run->info.out_dir);
    BT_TRY(bt_str_status(page));
    if (access(bt_str_text(page), W_OK) != 0) {
        bt_str_clear(page);
        return BT_OK;
    }
    return bt_report_write(store, &run->id, 1, bt_str_text(page));
}

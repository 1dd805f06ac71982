// harness/run/run.c - begins and ends the record of a run
#include "harness/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/env/blas.h"
#include "harness/env/build.h"
#include "harness/env/facts.h"
#include "harness/run/child.h"
#include "harness/run/running.h"
#include "harness/text/format.h"

static void say_line(void *self, const char *line)
{
    bt_progress_say(self, "data      %s\n", line);
}

// Checks before the start that the vocabulary is large enough for the data.
static bt_status check_vocab(const cJSON *item, const bt_run_data *data)
{
    const int64_t vocab = (int64_t)bt_plan_number(item, "train.model.vocab");
    if (vocab == 0 || data->vocab <= vocab) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "train.model.vocab is %lld, but dataset %s has token ids up to %lld: expected "
                    "a vocabulary of at least %lld",
                    (long long)vocab, data->name, (long long)data->vocab - 1,
                    (long long)data->vocab);
}

static bt_status find_data(bt_running *self)
{
    const bt_plan *plan = self->request->plan;
    BT_TRY(BT_MEM_ARRAY(plan->case_count, &self->data));
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        if (!bt_json_get(item, "dataset")) {
            continue;
        }
        bt_status status =
            bt_run_data_find(bt_json_get(item, "dataset"), say_line, &self->view, &self->data[i]);
        BT_IF_OK(status, check_vocab(item, &self->data[i]));
        if (status == BT_OK && bt_plan_number(item, "train.hellaswag_every") > 0) {
            status = bt_run_data_find_hellaswag(&self->data[i]);
        }
        if (status != BT_OK) {
            return bt_error_context(status, "case %s", bt_json_get(item, "name")->valuestring);
        }
    }
    return BT_OK;
}

// Adds `key` with its value, unless another case has the same data.
static bt_status add_data_fact(bt_facts *facts, const char *data_key, const char *what,
                               const char *value, const char *digest, bt_fact_level level)
{
    BT_SCOPED(bt_str) key = {0};
    BT_SCOPED(bt_str) text = {0};
    bt_str_format(&key, "%s%s", data_key, what);
    if (BT_FIND(facts->rows, facts->count, key, bt_str_text(&key)) >= 0) {
        return BT_OK;
    }
    bt_str_format(&text, "%s%s%s", value, *value && *digest ? " " : "", digest);
    BT_TRY(bt_str_status(&key));
    BT_TRY(bt_str_status(&text));
    return bt_facts_add_as(facts, bt_str_text(&key), bt_str_text(&text), level);
}

// Facts of machine and data, the latter as "data.<dataset>" and "data.<dataset>.tokenizer".
static bt_status gather_facts(bt_running *self)
{
    const bt_plan *plan = self->request->plan;
    BT_TRY(
        bt_facts_gather(self->request->machine, strcmp(plan->device, "cuda") == 0, &self->facts));
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        const bt_run_data *data = &self->data[i];
        char key[BT_PLAN_DATA_KEY_BYTES];
        BT_TRY(bt_plan_data_key(item, key));
        if (*key) {
            BT_TRY(add_data_fact(&self->facts, key, "", data->name, data->digest, BT_FACT_HARD));
            BT_TRY(
                add_data_fact(&self->facts, key, ".tokenizer", "", data->tokenizer, BT_FACT_SOFT));
        }
    }
    return bt_facts_finish(&self->facts);
}

// Records the order of rounds, and the systems' builds if they differ from the plan's.
static bt_status record_schedule(const bt_running *self, const bt_store_build *own)
{
    const bt_run_request *request = self->request;
    const bt_run_wish *wish = request->wish;
    bt_store_schedule schedule = {.seed = request->schedule_seed,
                                  .kind = wish && wish->kind ? wish->kind : "",
                                  .rule_json = wish && wish->rule_json ? wish->rule_json : "",
                                  .system_count = self->system_count};
    if (!schedule.seed && !*schedule.kind && !request->system_count) {
        return BT_OK;
    }
    BT_SCOPED_MEM(bt_store_system *) rows = NULL;
    BT_TRY(BT_MEM_ARRAY(schedule.system_count, &rows));
    for (int64_t i = 0; i < schedule.system_count; ++i) {
        const bt_peer *peer = &self->systems[i];
        rows[i] = (bt_store_system){
            .name = peer->name, .program = peer->program, .inject_slowdown = peer->inject_slowdown};
        // A peer is identified by its name alone.
        const bt_store_build named = {.digest = peer->name};
        rows[i].build = peer->facts ? *peer->facts : peer->program ? named : *own;
    }
    schedule.systems = rows;
    return bt_store_schedule_set(self->store, self->outcome->run, &schedule);
}

// The seed of the first training case; without one, of the first case.
static uint64_t seed_of(const bt_plan *plan)
{
    const cJSON *values = NULL;
    for (int64_t i = 0; i < plan->case_count && !values; ++i) {
        values = bt_json_get(bt_plan_case(plan, i), "train");
    }
    if (!values) {
        const cJSON *first = bt_plan_case(plan, 0);
        values = bt_json_get(first, bt_json_get(first, "kind")->valuestring);
    }
    return (uint64_t)bt_json_number_of(values, "seed");
}

// The record's description of plan, program and machine.
static void describe(bt_running *self)
{
    const bt_plan *plan = self->request->plan;
    const bt_build *build = bt_build_get();
    const char *path = self->request->suite ? self->request->suite->json.name : NULL;
    bt_build_digest(self->build_digest);
    self->info = (bt_store_run_info){
        .suite = {plan->hash, plan->suite, plan->profile, path, plan->text},
        .build = {self->build_digest, build->version, build->git_commit, build->git_diff,
                  build->compiler, build->flags, build->type, build->cuda},
        .env = {self->facts.digest, self->facts.rows, self->facts.count},
        .command = self->request->command,
        .seed = seed_of(plan),
    };
}

// run-N beside the database. Two databases in a folder may both have a run N, so other names than
// bt.sqlite are prefixed: other.sqlite has other-run-N.
static void default_out_dir(const char *database, int64_t run, bt_str *out)
{
    const char *slash = strrchr(database, '/'), *base = slash ? slash + 1 : database;
    size_t length = strlen(base), ending = strlen(".sqlite");
    bt_str_append_bytes(out, database, (size_t)(base - database));
    if (strcmp(base, "bt.sqlite") != 0) {
        bool cut = length > ending && strcmp(base + length - ending, ".sqlite") == 0;
        bt_str_format(out, "%.*s-", (int)(cut ? length - ending : length), base);
    }
    bt_str_format(out, "run-%lld", (long long)run);
}

// Makes the default folder. A folder of this name has the files of a run of an earlier database:
// they stay, and the name gets a number. Other failures are those of bt_dir_make.
static bt_status make_default_dir(const char *database, int64_t run, bt_str *out)
{
    BT_SCOPED(bt_str) name = {0};
    default_out_dir(database, run, &name);
    BT_TRY(bt_str_status(&name));
    bt_str_append(out, bt_str_text(&name));
    for (int64_t next = 2;
         bt_str_status(out) == BT_OK && mkdir(bt_str_text(out), 0755) != 0 && errno == EEXIST;
         next++) {
        bt_str_clear(out);
        bt_str_format(out, "%s-%lld", bt_str_text(&name), (long long)next);
    }
    return bt_str_status(out);
}

// Takes the requested folder, or makes the run's own, and records it.
static bt_status make_out_dir(bt_running *self)
{
    if (self->request->out_dir) {
        bt_str_append(&self->out_dir, self->request->out_dir);
    } else {
        BT_TRY(make_default_dir(bt_store_path(self->store), self->outcome->run, &self->out_dir));
    }
    BT_TRY(bt_str_status(&self->out_dir));
    return bt_store_run_set_out_dir(self->store, self->outcome->run, bt_str_text(&self->out_dir));
}

static bt_status begin_run(bt_running *self)
{
    BT_TRY(bt_store_run_begin(self->store, &self->info, &self->outcome->run));
    if (self->request->name || self->request->note) {
        BT_TRY(bt_store_run_label(self->store, self->outcome->run, self->request->name,
                                  self->request->note));
    }
    const bt_json_doc *suite = &self->request->suite->json;
    bt_store_file file = {"suite", suite->name, suite->text, (int64_t)strlen(suite->text)};
    BT_TRY(bt_store_file_set(self->store, self->outcome->run, &file));
    return record_schedule(self, &self->info.build);
}

// One line per dataset.
static void say_data(bt_running *self)
{
    for (int64_t i = 0; i < self->request->plan->case_count; ++i) {
        const bt_run_data *data = &self->data[i];
        if (*data->name && (i == 0 || strcmp(data->name, self->data[i - 1].name) != 0)) {
            bt_progress_say(&self->view, "data      %s, %s training tokens%s%.8s\n", data->name,
                            bt_format_count(data->tokens).text, *data->digest ? ", digest " : "",
                            data->digest);
        }
    }
}

static void say_plan(bt_running *self)
{
    BT_SCOPED(bt_str) text = {0};
    say_data(self);
    bt_plan_describe(self->request->plan, bt_progress_columns(&self->view), &text);
    if (bt_str_status(&text) == BT_OK) {
        bt_progress_say(&self->view, "%s", bt_str_text(&text));
    }
    const bt_run_wish *wish = self->request->wish;
    if (wish && wish->rounds_last > self->request->plan->rounds) {
        bt_progress_say(&self->view,
                        "          %lld to %lld pairs of rounds a case, until it is decided\n",
                        (long long)self->request->plan->rounds, (long long)wish->rounds_last);
    }
    if (self->record) {
        int64_t wanted = 0, open = 0;
        bt_run_schedule_count(&self->schedule, &wanted, &open);
        bt_progress_say(&self->view, "          resumed: %lld of %s to run\n", (long long)open,
                        bt_format_items(wanted, "round").text);
    }
    bt_progress_say(&self->view, "          environment %.8s, recording to %s as run %lld\n\n",
                    self->facts.digest, bt_store_path(self->store), (long long)self->outcome->run);
}

// ---- start and end -----------------------------------------------------------------------------

static bt_status write_report(const bt_running *self)
{
    BT_SCOPED(bt_str) path = {0};
    if (!self->request->report) {
        return BT_OK;
    }
    bt_str_format(&path, "%s/report.html", bt_str_text(&self->out_dir));
    BT_TRY(bt_str_status(&path));
    BT_TRY(self->request->report(self->store, &self->outcome->run, 1, bt_str_text(&path)));
    return bt_running_artifact(self, "report", bt_str_text(&path));
}

// For a run that ends early: what came of its record, up to the path of the database.
static const char *fate_of_record(const bt_running *self)
{
    return bt_store_is_removed(self->store)
               ? "the recorded data is lost, because the database was removed during the run:"
               : "the recorded data is kept in";
}

static void say_interrupted(bt_running *self)
{
    const long long run = (long long)self->outcome->run;
    const bt_run_wish *wish = self->request->wish;
    bt_progress_say(&self->view, "run %lld was interrupted; %s %s\n", run, fate_of_record(self),
                    bt_store_path(self->store));
    if (!bt_store_is_removed(self->store) && (!wish || wish->kind)) {
        const char *option = self->request->database_option;
        bt_progress_say(&self->view, "resume it with 'bt-bench %s --resume %lld%s'\n",
                        wish ? wish->kind : "run", run, option ? option : "");
    }
}

static bt_status run_begun(bt_running *self)
{
    bt_status status = bt_dir_make(bt_str_text(&self->out_dir));
    if (status == BT_OK) {
        say_plan(self);
        status = bt_running_rounds(self);
        bt_progress_pause(&self->view);
        if (*bt_metrics_failure(self->metrics)) {
            bt_progress_say(&self->view, "metrics   stopped: %s\n",
                            bt_metrics_failure(self->metrics));
        }
    }
    if (status != BT_OK) {
        // Recording failed: writes that to the record if still possible.
        char message[BT_ERROR_CAPACITY];
        (void)snprintf(message, sizeof message, "%s", bt_error_message());
        (void)!bt_store_run_end(self->store, self->outcome->run, BT_RUN_FAILED, message);
        return bt_error(status, "%s\nrun %lld stopped; %s %s", message,
                        (long long)self->outcome->run, fate_of_record(self),
                        bt_store_path(self->store));
    }
    BT_TRY(bt_store_run_end(self->store, self->outcome->run, self->outcome->status,
                            self->outcome->message));
    // Writing to a removed file succeeds, and the file that has its name may have a run of this
    // number.
    BT_FAIL_IF(self->outcome->status != BT_RUN_INTERRUPTED && bt_store_is_removed(self->store),
               BT_STATUS_IO, "run %lld ended; %s %s", (long long)self->outcome->run,
               fate_of_record(self), bt_store_path(self->store));
    if (self->outcome->status == BT_RUN_INTERRUPTED) {
        say_interrupted(self);
    }
    self->outcome->report = write_report(self);
    if (self->outcome->report != BT_OK) {
        (void)snprintf(self->outcome->report_message, sizeof self->outcome->report_message, "%s",
                       bt_error_message());
        bt_error_clear();
    }
    return BT_OK;
}

static bt_status execute(bt_running *self)
{
    self->systems = self->request->systems;
    self->system_count = self->request->system_count;
    if (!self->system_count) {
        BT_TRY(bt_peers_find(self->request->plan->systems, self->request->trusted, &self->peers));
        self->systems = self->peers.items;
        self->system_count = self->peers.count;
    }
    BT_TRY(bt_plan_check_commands(self->request->plan, self->request->trusts_commands));
    // A mistake in one of these folders leaves no run.
    if (self->request->out_dir) {
        BT_TRY(bt_dir_make(self->request->out_dir));
    }
    BT_TRY(bt_metrics_open(self->request->metrics_dir, &self->metrics));
    BT_TRY(bt_store_open(self->request->database, BT_STORE_WRITE, &self->store));
    BT_TRY(find_data(self));
    const bt_machine *machine = self->request->machine;
    bool on_gpu = strcmp(self->request->plan->device, "cuda") == 0;
    if (on_gpu) {
        BT_TRY(bt_running_lock(self));
    }
    BT_TRY(gather_facts(self));
    BT_TRY(bt_telemetry_open(on_gpu ? machine->cuda.uuid : NULL, &self->telemetry));
    describe(self);
    BT_TRY(self->request->resume ? bt_running_resume(self) : begin_run(self));
    // A resumed run has none if its process ended before it had made one.
    BT_TRY(self->out_dir.length_bytes > 0 ? BT_OK : make_out_dir(self));
    bt_running_sign(self);
    return run_begun(self);
}

bt_status bt_run_execute(const bt_run_request *request, bt_run_outcome *outcome)
{
    bt_running self = {.request = request, .outcome = outcome};
    memset(outcome, 0, sizeof *outcome);
    bt_progress_open(&self.view, request->quiet);
    bt_interrupt_watch();
    bt_blas_advise_children();
    bt_status status = execute(&self);
    bt_status closed = bt_store_close(self.store);
    for (int64_t i = 0; self.data && i < request->plan->case_count; ++i) {
        bt_run_data_release(&self.data[i]);
    }
    bt_mem_free(self.data);
    bt_facts_release(&self.facts);
    bt_peers_release(&self.peers);
    bt_run_schedule_release(&self.schedule);
    bt_store_run_release(&self.recorded);
    bt_ahead_release(&self.ahead);
    bt_versions_release(&self.versions);
    bt_telemetry_close(self.telemetry);
    bt_metrics_close(self.metrics);
    bt_running_unlock(&self);
    bt_str_release(&self.out_dir);
    return status == BT_OK ? closed : status;
}

int bt_run_exit_code(const bt_run_outcome *outcome)
{
    if (outcome->status == BT_RUN_INTERRUPTED) {
        return bt_status_exit_code(BT_STATUS_INTERRUPTED);
    }
    return outcome->status == BT_RUN_PASSED ? 0 : bt_status_exit_code(outcome->reason);
}

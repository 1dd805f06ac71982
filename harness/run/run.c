// harness/run/run.c - rounds of cases, one run in the store
#include "harness/run/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/env/blas.h"
#include "harness/env/build.h"
#include "harness/env/facts.h"
#include "harness/plan/kernel.h"
#include "harness/report/report.h"
#include "harness/run/child.h"
#include "harness/run/data.h"
#include "harness/run/peer.h"
#include "harness/run/round.h"
#include "harness/text/format.h"

typedef struct running {
    const bt_run_request *request;
    bt_run_outcome *outcome;
    bt_store *store;
    bt_str out_dir;
    bt_run_data *data; // owned, [case_count]
    bt_facts facts;
    bt_progress_view view;
    bt_peers peers;
    int64_t kernel_rounds_done, kernel_rounds; // for the progress
    double copy_bytes_per_s[3];                // of this run, by cache mode; 0: not yet
} running;

static void say_line(void *self, const char *line)
{
    bt_progress_say(self, "data      %s\n", line);
}

static bt_status find_data(running *self)
{
    const bt_plan *plan = self->request->plan;
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)plan->case_count, sizeof *self->data, &block));
    self->data = block;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        if (!bt_json_get(item, "dataset")) {
            continue;
        }
        bt_status status =
            bt_run_data_find(bt_json_get(item, "dataset"), say_line, &self->view, &self->data[i]);
        if (status != BT_OK) {
            return bt_error_context(status, "case %s", bt_json_get(item, "name")->valuestring);
        }
    }
    return BT_OK;
}

// Facts of machine and data, the latter as "data.<case>".
static bt_status gather_facts(running *self)
{
    const bt_plan *plan = self->request->plan;
    BT_TRY(
        bt_facts_gather(self->request->machine, strcmp(plan->device, "cuda") == 0, &self->facts));
    for (int64_t i = 0; i < plan->case_count; ++i) {
        bt_str key = {0}, value = {0};
        if (!bt_json_get(bt_plan_case(plan, i), "dataset")) {
            continue;
        }
        bt_str_format(&key, "data.%s", bt_json_get(bt_plan_case(plan, i), "name")->valuestring);
        bt_str_format(&value, "%s %s", self->data[i].name, self->data[i].digest);
        bt_status status = bt_str_status(&key);
        if (status == BT_OK) {
            status = bt_str_status(&value);
        }
        if (status == BT_OK) {
            status =
                bt_facts_add(&self->facts, bt_str_text(&key), bt_str_text(&value), BT_FACT_HARD);
        }
        bt_str_release(&key);
        bt_str_release(&value);
        BT_TRY(status);
    }
    return bt_facts_finish(&self->facts);
}

static bt_status begin_run(running *self)
{
    const bt_plan *plan = self->request->plan;
    const bt_build *build = bt_build_get();
    char digest[33];
    bt_build_digest(digest);
    const cJSON *first = bt_plan_case(plan, 0);
    const cJSON *values = bt_json_get(first, bt_json_get(first, "kernel") ? "kernel" : "train");
    bt_store_run_info info = {
        .suite = {plan->hash, plan->suite, plan->profile, self->request->suite->json.name,
                  plan->text},
        .build = {digest, build->version, build->git_commit, build->git_diff, build->compiler,
                  build->flags, build->type, build->cuda},
        .env = {self->facts.digest, self->facts.rows, self->facts.count},
        .command = self->request->command,
        .seed = (uint64_t)bt_json_number_of(values, "seed"),
    };
    BT_TRY(bt_store_run_begin(self->store, &info, &self->outcome->run));
    if (self->request->out_dir) {
        bt_str_append(&self->out_dir, self->request->out_dir);
    } else {
        bt_str_format(&self->out_dir, "results/run-%lld", (long long)self->outcome->run);
    }
    BT_TRY(bt_str_status(&self->out_dir));
    return bt_store_run_set_out_dir(self->store, self->outcome->run, bt_str_text(&self->out_dir));
}

// A line per dataset.
static void say_data(running *self)
{
    for (int64_t i = 0; i < self->request->plan->case_count; ++i) {
        const bt_run_data *data = &self->data[i];
        if (*data->name && (i == 0 || strcmp(data->name, self->data[i - 1].name) != 0)) {
            bt_progress_say(&self->view, "data      %s, %s tokens to train%s%.8s\n", data->name,
                            bt_format_count(data->tokens).text, *data->digest ? ", digest " : "",
                            data->digest);
        }
    }
}

static void say_plan(running *self)
{
    bt_str text = {0};
    say_data(self);
    bt_plan_describe(self->request->plan, &text);
    if (bt_str_status(&text) == BT_OK) {
        bt_progress_say(&self->view, "%s", bt_str_text(&text));
    }
    bt_progress_say(&self->view, "          environment %.8s, recording to %s as run %lld\n\n",
                    self->facts.digest, bt_store_path(self->store), (long long)self->outcome->run);
    bt_str_release(&text);
}

// ---- rounds ------------------------------------------------------------------------------------

static bt_status add_artifact(const running *self, const char *kind, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return BT_OK;
    }
    bt_store_artifact artifact = {
        .kind = kind, .path = path, .size_bytes = (int64_t)info.st_size, .digest = ""};
    return bt_store_artifact_add(self->store, self->outcome->run, &artifact);
}

static void take_outcome(running *self, const char *name, const bt_round_outcome *round)
{
    if (round->status == BT_RUN_PASSED) {
        return;
    }
    bt_progress_say(&self->view, "%s %s: %s\n", name, bt_run_status_name(round->status),
                    round->message);
    if (round->status == BT_RUN_UNAVAILABLE) {
        return; // the others go on
    }
    if (self->outcome->status == BT_RUN_PASSED || round->status == BT_RUN_INTERRUPTED) {
        self->outcome->status = round->status;
        self->outcome->reason = round->reason;
        (void)snprintf(self->outcome->message, sizeof self->outcome->message, "%s%s%.900s", name,
                       round->status == BT_RUN_INTERRUPTED ? " " : ": ", round->message);
    }
}

// Where the copy of this case's cache mode is kept, NULL when it has none.
static double *copy_of(running *self, const cJSON *item)
{
    const cJSON *cache = bt_json_get(bt_json_get(item, "kernel"), "cache");
    int mode = !cache                                        ? -1
               : strcmp(cache->valuestring, "cold") == 0     ? 0
               : strcmp(cache->valuestring, "rotating") == 0 ? 1
                                                             : 2;
    return mode < 0 ? NULL : &self->copy_bytes_per_s[mode];
}

static bt_status run_round(running *self, int64_t index, int64_t ordinal, const bt_peer *peer)
{
    const bt_plan *plan = self->request->plan;
    const cJSON *item = bt_plan_case(plan, index);
    const char *name = bt_json_get(item, "name")->valuestring;
    bt_run_data *data = &self->data[index];
    double *copy = copy_of(self, item);
    bt_str log = {0}, label = {0};
    bt_str_append(&label, name);
    if (peer->program) {
        bt_str_format(&label, " %s", peer->name);
    }
    bt_str_format(&log, "%s/%s%s%s-%lld.log", bt_str_text(&self->out_dir), name,
                  peer->program ? "-" : "", peer->program ? peer->name : "", (long long)ordinal);
    if (plan->rounds > 1) {
        bt_str_format(&label, " %lld/%lld", (long long)ordinal + 1, (long long)plan->rounds);
    }
    bt_status status = bt_str_status(&log);
    bt_round_outcome round = {0};
    if (status == BT_OK) {
        bt_progress_round(&self->view, bt_str_text(&label),
                          (int64_t)bt_plan_number(item, "train.steps"));
        if (copy) {
            bt_progress_case(&self->view, self->kernel_rounds_done++, self->kernel_rounds);
        }
        bt_round_request request = {.store = self->store,
                                    .run = self->outcome->run,
                                    .plan = plan,
                                    .item = item,
                                    .ordinal = ordinal,
                                    .train_shards = (const char *const *)data->train,
                                    .train_shard_count = data->train_count,
                                    .val_shards = (const char *const *)data->val,
                                    .val_shard_count = data->val_count,
                                    .worker = peer->program ? peer->program : self->request->worker,
                                    .system = peer->program ? peer->name : NULL,
                                    .peer = peer->program != NULL,
                                    .copy_bytes_per_s =
                                        copy && !bt_plan_kernel_is_ceiling(item) ? *copy : 0,
                                    .log_path = bt_str_text(&log),
                                    .view = &self->view};
        status = bt_round_run(&request, &round);
        if (!copy) {
            bt_progress_pause(&self->view); // lines of kernel cases rewrite each other
        }
    }
    if (status == BT_OK) {
        if (copy && bt_plan_kernel_is_ceiling(item)) {
            *copy = round.bandwidth_bytes_per_s;
        }
        take_outcome(self, bt_str_text(&label), &round);
        status = add_artifact(self, "log", bt_str_text(&log));
    }
    bt_str_release(&log);
    bt_str_release(&label);
    return status;
}

// One case on every system: in their order, in odd rounds the other way round (A B, B A, ...), so
// that a slow change of the machine meets them alike. The copy is the machine's: ours alone.
static bt_status run_systems(running *self, int64_t index, int64_t ordinal)
{
    const bt_peer ours = {0};
    int64_t count = self->peers.count;
    if (bt_plan_kernel_is_ceiling(bt_plan_case(self->request->plan, index))) {
        return run_round(self, index, ordinal, &ours);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (self->outcome->status != BT_RUN_INTERRUPTED && bt_interrupt_count() > 0) {
            self->outcome->status = BT_RUN_INTERRUPTED;
            self->outcome->reason = BT_STATUS_INTERRUPTED;
        }
        if (self->outcome->status == BT_RUN_INTERRUPTED) {
            return BT_OK;
        }
        BT_TRY(
            run_round(self, index, ordinal, &self->peers.items[ordinal % 2 ? count - 1 - i : i]));
    }
    return BT_OK;
}

// Rounds of kernel cases in all: of each on every system, of the copies on ours alone.
static int64_t count_kernel_rounds(const running *self)
{
    const bt_plan *plan = self->request->plan;
    int64_t count = 0;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        if (bt_json_get(item, "kernel")) {
            count += plan->rounds * (bt_plan_kernel_is_ceiling(item) ? 1 : self->peers.count);
        }
    }
    return count;
}

static bt_status run_rounds(running *self)
{
    const bt_plan *plan = self->request->plan;
    self->kernel_rounds = count_kernel_rounds(self);
    self->outcome->status = BT_RUN_PASSED;
    for (int64_t ordinal = 0; ordinal < plan->rounds; ++ordinal) {
        for (int64_t i = 0; i < plan->case_count; ++i) {
            if (self->outcome->status == BT_RUN_INTERRUPTED) {
                return BT_OK;
            }
            BT_TRY(run_systems(self, i, ordinal));
        }
    }
    return BT_OK;
}

// ---- start and end -----------------------------------------------------------------------------

static bt_status write_report(const running *self)
{
    bt_str path = {0};
    bt_str_format(&path, "%s/report.html", bt_str_text(&self->out_dir));
    bt_status status = bt_str_status(&path);
    if (status == BT_OK) {
        status = bt_report_write(self->store, &self->outcome->run, 1, bt_str_text(&path));
    }
    if (status == BT_OK) {
        status = add_artifact(self, "report", bt_str_text(&path));
    }
    bt_str_release(&path);
    return status;
}

static bt_status run_begun(running *self)
{
    bt_status status = bt_dir_make(bt_str_text(&self->out_dir));
    if (status == BT_OK) {
        say_plan(self);
        status = run_rounds(self);
        bt_progress_pause(&self->view);
    }
    if (status != BT_OK) {
        // Recording itself failed: say so in the record if that is still possible.
        char message[BT_ERROR_CAPACITY];
        (void)snprintf(message, sizeof message, "%s", bt_error_message());
        (void)!bt_store_run_end(self->store, self->outcome->run, BT_RUN_FAILED, message);
        return bt_error(status, "%s\nrun %lld stopped; what it had recorded is kept in %s", message,
                        (long long)self->outcome->run, bt_store_path(self->store));
    }
    BT_TRY(bt_store_run_end(self->store, self->outcome->run, self->outcome->status,
                            self->outcome->message));
    if (self->outcome->status == BT_RUN_INTERRUPTED) {
        bt_progress_say(&self->view, "run %lld was interrupted; what it recorded is kept in %s\n",
                        (long long)self->outcome->run, bt_store_path(self->store));
    }
    return write_report(self);
}

static bt_status execute(running *self)
{
    BT_TRY(bt_peers_find(self->request->plan->systems, &self->peers));
    BT_TRY(bt_store_open(self->request->database, BT_STORE_WRITE, &self->store));
    BT_TRY(find_data(self));
    BT_TRY(gather_facts(self));
    BT_TRY(begin_run(self));
    return run_begun(self);
}

bt_status bt_run_execute(const bt_run_request *request, bt_run_outcome *outcome)
{
    running self = {.request = request, .outcome = outcome};
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

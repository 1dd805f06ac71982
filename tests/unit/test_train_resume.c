// tests/unit/test_train_resume.c - a run that goes on from a checkpoint has the bits of one that
// was never stopped
//
// Each training is a process of its own, so that it can be killed at any step and start with any
// number of threads; what it did comes back in shared memory.
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/checkpoint.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 24 }; // 384 sequences; an epoch has 249

typedef struct history {
    float loss[STEPS];
    int64_t first_step, steps;
    int64_t saves[BT_TRAIN_SAVE_COUNT];
    int64_t loaded, saved; // steps of the last of them
    char message[512];     // of the last save that failed or was skipped
    int64_t kill_at;       // after this step's report; -1: never
    int64_t stop_at;       // likewise asked to stop; -1: never
    bool broken;           // an event was not as it must be
    bt_status status;
    char error[512];
    bt_train_result result;
} history;

static history *now; // shared with the process that trains

static bt_status on_start(void *self, const bt_train_start *event)
{
    ((history *)self)->first_step = event->first_step;
    return BT_OK;
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    history *h = self;
    h->broken |= event->step != h->first_step + h->steps || event->warmup != (h->steps < 2);
    h->loss[event->step] = event->loss;
    ++h->steps;
    if (event->step == h->kill_at) {
        (void)raise(SIGKILL);
    }
    return BT_OK;
}

static bool should_stop(void *self)
{
    const history *h = self;
    return h->stop_at >= 0 && h->first_step + h->steps > h->stop_at;
}

static bt_status on_save(void *self, const bt_train_save *event)
{
    history *h = self;
    ++h->saves[event->kind];
    if (event->kind == BT_TRAIN_SAVE_LOADED) {
        h->loaded = event->step;
    }
    if (event->kind == BT_TRAIN_SAVE_SAVED) {
        h->saved = event->step;
        h->broken |= event->host_ns < event->blocked_ns || event->blocked_ns <= 0 ||
                     event->seen_step < event->step || event->size_bytes <= 0;
    }
    if (*event->message) {
        (void)snprintf(h->message, sizeof h->message, "%s", event->message);
    }
    return BT_OK;
}

// Trains in a process of its own, killed behind step kill_at, stopped behind step stop_at.
static history train(const bt_train_plan *plan, int threads, int64_t kill_at, int64_t stop_at)
{
    const bt_train_observer observer = {.self = now,
                                        .start = on_start,
                                        .step = on_step,
                                        .should_stop = should_stop,
                                        .save = on_save};
    int state = 0;
    *now = (history){.kill_at = kill_at, .stop_at = stop_at};
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        omp_set_num_threads(threads);
        now->status = bt_train_run(plan, &observer, &now->result);
        (void)snprintf(now->error, sizeof now->error, "%s",
                       now->status == BT_OK ? "" : bt_error_message());
        _exit(0);
    }
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_int_equal(kill_at >= 0, WIFSIGNALED(state));
    assert_false(now->broken);
    return *now;
}

static history train_well(const bt_train_plan *plan, int threads)
{
    history h = train(plan, threads, -1, -1);
    if (h.status != BT_OK) {
        fail_msg("%s", h.error);
    }
    return h;
}

static bt_train_plan long_plan(const char *folder)
{
    bt_train_plan plan = small_train_plan();
    plan.steps = STEPS;
    plan.checkpoints = (bt_train_checkpoints){.folder = folder, .every_steps = 5, .plan_hash = "p"};
    return plan;
}

static char *make_folder(char *folder)
{
    (void)strcpy(folder, "/tmp/bt-test-resume-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void remove_folder(const char *folder)
{
    const bt_checkpoint_store store = {.folder = folder};
    int64_t *steps = NULL;
    int64_t count = 0;
    ASSERT_OK(bt_checkpoint_list(&store, &steps, &count));
    for (int64_t i = 0; i < count; ++i) {
        ASSERT_OK(bt_checkpoint_remove(&store, steps[i]));
    }
    bt_mem_free(steps);
    ASSERT_OK(bt_io_remove_folder(&bt_file_ops_system, folder));
}

static void expect_steps(const char *folder, const char *expected)
{
    const bt_checkpoint_store store = {.folder = folder};
    int64_t *steps = NULL;
    int64_t count = 0;
    char text[256] = "";
    ASSERT_OK(bt_checkpoint_list(&store, &steps, &count));
    for (int64_t i = 0; i < count; ++i) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ",
                       (long long)steps[i]);
    }
    bt_mem_free(steps);
    assert_string_equal(text, expected);
}

static void expect_same(const history *whole, const history *resumed)
{
    assert_int_equal(resumed->first_step, resumed->loaded);
    assert_memory_equal(resumed->loss + resumed->first_step, whole->loss + resumed->first_step,
                        (size_t)(STEPS - resumed->first_step) * sizeof(float));
    assert_string_equal(resumed->result.state_digest, whole->result.state_digest);
    assert_int_equal(resumed->result.steps_done, STEPS);
}

// kill -9 at one step after the other, across the end of an epoch (step 15), with the threads and
// the way of saving changed between the processes; what follows has the bits of the whole run.
static void resumed_bits_are_those_of_the_whole_run(void **state)
{
    (void)state;
    static const struct {
        bt_precision precision;
        bool recompute, asynchronous;
        int threads, threads_later;
    } modes[] = {{BT_PRECISION_FP32, false, false, 1, 3},
                 {BT_PRECISION_FP32, true, true, 2, 1},
                 {BT_PRECISION_BF16, false, true, 3, 2},
                 {BT_PRECISION_BF16, true, false, 1, 1}};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; ++m) {
        char folder[64];
        bt_train_plan plan = long_plan(make_folder(folder));
        plan.precision = modes[m].precision;
        plan.recompute = modes[m].recompute;
        plan.checkpoints.every_steps = 0;
        const history whole = train_well(&plan, modes[m].threads);
        plan.checkpoints.every_steps = 1 + (int64_t)m;
        plan.checkpoints.asynchronous = modes[m].asynchronous;
        plan.checkpoints.max_to_keep = 2;
        for (int64_t at = (int64_t)m; at < STEPS; at += 7) {
            const history killed = train(&plan, modes[m].threads, at, -1);
            assert_memory_equal(killed.loss + killed.first_step, whole.loss + killed.first_step,
                                (size_t)(at + 1 - killed.first_step) * sizeof(float));
            plan.checkpoints.resume = true;
        }
        const history last = train_well(&plan, modes[m].threads_later);
        // A thread may not have been done in time; a save for which training waits is.
        assert_true(modes[m].asynchronous || last.loaded > STEPS / 2);
        expect_same(&whole, &last);
        remove_folder(folder);
    }
}

// A stop saves where it is, whether a save was due or not; going on needs no step twice.
static void a_stopped_run_goes_on_where_it_stopped(void **state)
{
    (void)state;
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        char folder[64];
        bt_train_plan plan = long_plan(make_folder(folder));
        const history whole = train_well(&plan, 2);
        expect_steps(folder, "5 10 15 20 ");
        remove_folder(folder);
        assert_int_equal(mkdtemp(strcpy(folder, "/tmp/bt-test-resume-XXXXXX")) == NULL, 0);
        plan.checkpoints.asynchronous = asynchronous;
        const history stopped = train(&plan, 2, -1, 12);
        assert_int_equal(stopped.status, BT_OK);
        assert_true(stopped.result.stopped);
        assert_int_equal(stopped.result.steps_done, 13);
        assert_int_equal(stopped.saved, 13);
        plan.checkpoints.resume = true;
        const history resumed = train_well(&plan, 1);
        assert_int_equal(resumed.loaded, 13);
        expect_same(&whole, &resumed);
        remove_folder(folder);
    }
}

// What the folder holds decides; nothing is overwritten that was not asked for.
static void folders_in_use_and_other_plans_are_refused(void **state)
{
    (void)state;
    char folder[64];
    bt_train_plan plan = long_plan(make_folder(folder));
    plan.checkpoints.at_end = true;
    (void)train_well(&plan, 1);
    expect_steps(folder, "5 10 15 20 24 ");
    history h = train(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(h.error, "holds checkpoints already, the newest of step 24"));
    plan.checkpoints.resume = true;
    plan.checkpoints.plan_hash = "q";
    h = train(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(h.error, "is of the plan p, this is the plan q"));
    plan.checkpoints.plan_hash = NULL;
    plan.optimizer.lr *= 2;
    h = train(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "step 24 has optimizer.lr 0.003"));
    plan = long_plan(folder);
    plan.checkpoints.resume = true;
    plan.seed = 1;
    h = train(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "seed 1337, the plan 1"));
    plan = long_plan(folder);
    plan.checkpoints.resume = true;
    plan.model.layers = 1;
    h = train(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "h.1.attn.c_attn.bias is not in the state"));
    plan = long_plan(folder);
    plan.checkpoints.resume = true;
    h = train_well(&plan, 1); // nothing is left to do
    assert_int_equal(h.steps, 0);
    assert_int_equal(h.result.steps_done, STEPS);
    remove_folder(folder);
}

static void flip_a_byte(const char *folder, int64_t step)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/step-%08lld/state-00001.safetensors", folder,
                   (long long)step);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 4, file), byte ^ 4);
    assert_int_equal(fclose(file), 0);
}

// Damaged checkpoints are left out and said; by choice newer ones are left out and removed.
static void older_checkpoints_are_taken_when_newer_ones_do_not_serve(void **state)
{
    (void)state;
    char folder[64];
    bt_train_plan plan = long_plan(make_folder(folder));
    const history whole = train_well(&plan, 1);
    plan.checkpoints.resume = true;
    flip_a_byte(folder, 20);
    flip_a_byte(folder, 15);
    history h = train_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_SKIPPED], 1);
    assert_non_null(strstr(h.message, "step-00000020"));
    assert_int_equal(h.loaded, 10);
    expect_same(&whole, &h);
    plan.checkpoints.resume_below = 20; // 15 and 20 are whole again
    plan.steps = STEPS;
    h = train(&plan, 1, 16, -1);
    assert_int_equal(h.loaded, 15);
    expect_steps(folder, "5 10 15 ");
    plan.checkpoints.resume_below = 5;
    h = train_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_NONE], 1);
    assert_int_equal(h.first_step, 0);
    assert_string_equal(h.result.state_digest, whole.result.state_digest);
    for (int64_t step = 5; step <= 20; step += 5) {
        flip_a_byte(folder, step);
    }
    plan.checkpoints.resume_below = 0;
    h = train(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_CORRUPT_DATA);
    assert_non_null(strstr(h.error, "none of the 4 checkpoints"));
    remove_folder(folder);
}

// A save that fails is reported and training goes on; but the last one must succeed.
static void failed_saves_are_reported(void **state)
{
    (void)state;
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        bt_train_plan plan = long_plan("/proc/bt-no-such-folder");
        plan.checkpoints.asynchronous = asynchronous;
        plan.checkpoints.every_steps = 10;
        history h = train_well(&plan, 1);
        assert_int_equal(h.saves[BT_TRAIN_SAVE_FAILED], 2);
        assert_int_equal(h.saves[BT_TRAIN_SAVE_SAVED], 0);
        assert_non_null(strstr(h.message, "/proc/bt-no-such-folder"));
        plan.checkpoints.at_end = true;
        h = train(&plan, 1, -1, -1);
        assert_int_equal(h.status, BT_STATUS_IO);
        assert_non_null(strstr(h.error, "the state behind step 24 is not saved"));
    }
    bt_train_plan plan = small_train_plan();
    plan.checkpoints.every_minutes = -1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "checkpoint.every_minutes is -1",
                 bt_train_check(&plan));
    plan.checkpoints.every_minutes = 0;
    plan.checkpoints.max_to_keep = -1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "checkpoint.max_to_keep is -1", bt_train_check(&plan));
}

static void minutes_count(void **state)
{
    (void)state;
    char folder[64];
    bt_train_plan plan = long_plan(make_folder(folder));
    plan.checkpoints.every_steps = 0;
    plan.checkpoints.every_minutes = 1e-9; // every step takes longer
    const history h = train_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_SAVED], STEPS);
    plan.checkpoints.every_minutes = 1e6;
    plan.checkpoints.resume = true;
    plan.checkpoints.resume_below = 1;
    const history none = train_well(&plan, 1);
    assert_int_equal(none.saves[BT_TRAIN_SAVE_SAVED], 0);
    assert_string_equal(none.result.state_digest, h.result.state_digest);
    remove_folder(folder);
}

int main(void)
{
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (now == MAP_FAILED) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_bits_are_those_of_the_whole_run),
        cmocka_unit_test(a_stopped_run_goes_on_where_it_stopped),
        cmocka_unit_test(folders_in_use_and_other_plans_are_refused),
        cmocka_unit_test(older_checkpoints_are_taken_when_newer_ones_do_not_serve),
        cmocka_unit_test(failed_saves_are_reported),
        cmocka_unit_test(minutes_count),
    };
    return cmocka_run_group_tests_name("resume", tests, small_corpus_write, small_corpus_remove);
}

// tests/support/train_child.c - fork, train, report through shared memory
#include "tests/support/train_child.h"

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
#include "tests/support/test.h"

static train_history *now; // shared with the process that trains

static bt_status on_start(void *self, const bt_train_start *event)
{
    ((train_history *)self)->first_step = event->first_step;
    return BT_OK;
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    train_history *h = self;
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
    const train_history *h = self;
    return h->stop_at >= 0 && h->first_step + h->steps > h->stop_at;
}

static bt_status on_save(void *self, const bt_train_save *event)
{
    train_history *h = self;
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

// Trains in its own process, killed after step kill_at, stopped after step stop_at.
train_history train_child(const bt_train_plan *plan, int threads, int64_t kill_at, int64_t stop_at)
{
    const bt_train_observer observer = {.self = now,
                                        .start = on_start,
                                        .step = on_step,
                                        .should_stop = should_stop,
                                        .save = on_save};
    int state = 0;
    *now = (train_history){.kill_at = kill_at, .stop_at = stop_at};
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

train_history train_child_well(const bt_train_plan *plan, int threads)
{
    train_history h = train_child(plan, threads, -1, -1);
    if (h.status != BT_OK) {
        fail_msg("%s", h.error);
    }
    return h;
}

bt_train_plan train_child_plan(const char *folder)
{
    bt_train_plan plan = small_train_plan();
    plan.steps = CHILD_STEPS;
    plan.checkpoints = (bt_train_checkpoints){.folder = folder, .every_steps = 5, .plan_hash = "p"};
    return plan;
}

char *checkpoint_folder_make(char folder[TEST_FOLDER_CAPACITY])
{
    assert_true(test_folder_make("bt-test-resume", folder));
    return folder;
}

void checkpoint_folder_remove(const char *folder)
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

void checkpoint_folder_expect(const char *folder, const char *expected)
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

void train_histories_expect_same(const train_history *whole, const train_history *resumed)
{
    assert_int_equal(resumed->first_step, resumed->loaded);
    assert_memory_equal(resumed->loss + resumed->first_step, whole->loss + resumed->first_step,
                        (size_t)(CHILD_STEPS - resumed->first_step) * sizeof(float));
    assert_string_equal(resumed->result.state_digest, whole->result.state_digest);
    assert_int_equal(resumed->result.steps_done, CHILD_STEPS);
}

int train_child_setup(void **state)
{
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return now == MAP_FAILED || small_corpus_write(state) != 0;
}

int train_child_remove(void **state)
{
    (void)munmap(now, sizeof *now);
    return small_corpus_remove(state);
}

bool train_child_can_use(const char *device)
{
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        int count = 0;
        _exit(bt_device_count(device, &count) != BT_OK || count == 0);
    }
    return waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

// tests/support/train_child.h - trainings in processes of their own, which may be killed
//
// Each training is a process, so that it can be killed at any step and start with any number of
// threads or on a GPU; what it did comes back in shared memory. The process that starts them must
// not compute itself.
#ifndef BT_TESTS_SUPPORT_TRAIN_CHILD_H
#define BT_TESTS_SUPPORT_TRAIN_CHILD_H

#include "tests/support/scratch.h"
#include "tests/support/small_train.h"

enum { CHILD_STEPS = 24 }; // of 16 sequences; an epoch has 249

typedef struct train_history {
    float loss[CHILD_STEPS];
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
} train_history;

// Group set-up and tear-down of cmocka: those of small_train.h, and the shared memory.
int train_child_setup(void **state);
int train_child_remove(void **state);
// Trains, killed after the report of step kill_at, asked to stop after that of stop_at; -1: not.
train_history train_child(const bt_train_plan *plan, int threads, int64_t kill_at, int64_t stop_at);
// The same to its end, which must be good.
train_history train_child_well(const bt_train_plan *plan, int threads);
// small_train_plan with CHILD_STEPS steps and a checkpoint every 5 of them in `folder`.
bt_train_plan train_child_plan(const char *folder);
// Makes a temporary folder; removes it and the checkpoints in it.
char *checkpoint_folder_make(char folder[TEST_FOLDER_CAPACITY]);
void checkpoint_folder_remove(const char *folder);
// The steps of the checkpoints in a folder: "5 10 ".
void checkpoint_folder_expect(const char *folder, const char *expected);
// The second went on from a checkpoint and has the bits of the first, which was never stopped.
void train_histories_expect_same(const train_history *whole, const train_history *resumed);
// Whether a device can be had, tried in its own process.
bool train_child_can_use(const char *device);

#endif

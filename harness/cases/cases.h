// harness/cases/cases.h - the kinds of cases: their bodies, in the worker process
#ifndef BT_HARNESS_CASES_CASES_H
#define BT_HARNESS_CASES_CASES_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "framework/train/train.h"

// The task of a worker: a case of a plan, its data, its device. Borrowed.
typedef struct bt_case_work {
    const cJSON *item; // {name, kind, train, kernel or command: {...}}
    const char *device;
    int ordinal;
    const char *const *train_shards; // [train_shard_count]
    int64_t train_shard_count;
    const char *const *val_shards; // [val_shard_count]
    int64_t val_shard_count;
    const char *questions, *ranks; // of HellaSwag and GPT-2's tokenizer; NULL: none
    double inject_slowdown;        // fraction by which timed regions are made longer; 0: none
    const char *checkpoints;       // folder of this round alone; NULL: a training case saves no
                                   // checkpoints
    bool resume;                   // resume from a checkpoint there
    int64_t resume_below;          // with a step below this; higher ones are removed
    bt_group *group;               // the ranks that train together; NULL: one
    bool alone;        // one rank computes the work of a whole mesh, if that has the same
                       // bits
    bool group_later;  // the caller sets the plan's group of a mesh
    bool memory_state; // checkpoints are the launcher's: every step, the last two, in memory
} bt_case_work;

// Results of a kernel case other than its samples.
typedef struct bt_case_measured {
    double error_share; // the largest error as a fraction of its tolerance; NaN: nothing to compare
    int64_t calls_per_sample;
    const char *stop;      // reason why sampling ended
    double cpu_time_ns;    // of one call of a command, user and system, mean; 0: not a command
    double launch_time_ns; // host time to launch one call; 0: not measured
    // Time to capture, group and compile a chain without a cache, and with its code in the cache;
    // 0: not reported.
    double compile_time_ns, load_time_ns;
    int64_t peak_resident_bytes; // peak of a command's processes; 0: not a command
} bt_case_measured;

// Callbacks for what happens; all of them get train.self.
typedef struct bt_case_listener {
    bt_train_observer train;
    // For cases that time calls: times of one call in ns, [count], in the order taken; a command
    // case reports them in parts. Then the remaining results, once.
    bt_status (*samples)(void *self, const double *times_ns, int64_t count);
    bt_status (*measured)(void *self, const bt_case_measured *event);
} bt_case_listener;

// The trainer's plan of a training case, without HellaSwag's questions. Borrows from `work`.
// Errors  INVALID_ARGUMENT (a value that the trainer rejects)
BT_CHECKED bt_status bt_case_train_plan(const bt_case_work *work, bt_train_plan *out);
// Checks the mesh of a training case as its ranks will, so that a wrong one starts no process. A
// key without effect adds a line to `notes`. A case without a mesh, or of another kind, passes.
// Errors  INVALID_ARGUMENT, naming the key
BT_CHECKED bt_status bt_case_check_mesh(const cJSON *item, const char *device, bt_str *notes);
// The values that determine the bits of a training case, as JSON: all its values except those that
// only affect what is measured, kept or printed, and its data. Two cases with the same text have
// the same bits on one build and device.
BT_CHECKED bt_status bt_case_identity(const cJSON *item, bt_str *out);
// Checks that checkpoints in `folder` belong to a case with this identity. The first caller stores
// the text there as plan.json.
// Errors  INVALID_ARGUMENT naming each key that differs, IO, CORRUPT_DATA (plan.json is not JSON)
BT_CHECKED bt_status bt_case_settle(const char *folder, const char *identity);
// Removes the checkpoints of a run's rounds, FOLDER/ROUND/step-*, and folders that are then empty.
// Files that cannot be removed, links and other files stay. Returns the number of steps removed.
int64_t bt_case_checkpoints_remove(const char *folder);
// Runs a case of any kind. Errors  those of its body; INVALID_ARGUMENT for an unknown kind
BT_CHECKED bt_status bt_case_run(const bt_case_work *work, const bt_case_listener *listener,
                                 bt_train_result *result);
// A kernel case. Errors  UNSUPPORTED (no kernel serves the call), UNAVAILABLE, OUT_OF_MEMORY,
//         INTERNAL (a wrong result, with the worst element; no time is reported)
BT_CHECKED bt_status bt_case_run_kernel(const bt_case_work *work, const bt_case_listener *listener,
                                        bt_train_result *result);
// A command case. Errors  UNAVAILABLE (the program cannot be started), INTERNAL (unexpected exit
// code or output; no time is reported)
BT_CHECKED bt_status bt_case_run_command(const bt_case_work *work, const bt_case_listener *listener,
                                         bt_train_result *result);

// A collective case: starts the processes of the other ranks.
// Errors  UNSUPPORTED (no such group on this device), UNAVAILABLE (a GPU or library is missing),
//         INTERNAL (a wrong result, a rank that ended)
BT_CHECKED bt_status bt_case_run_collective(const bt_case_work *work,
                                            const bt_case_listener *listener,
                                            bt_train_result *result);

// The kernel table of both backends, with what each row accepts: a table for `columns` of a
// terminal (0: any number), or a JSON array. Says why CUDA's rows cannot run here, if so; opens no
// GPU.
BT_CHECKED bt_status bt_case_list_kernels(bool json, int columns, bt_str *out);

#endif

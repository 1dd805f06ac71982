// harness/run/ranks_launch.c - the ranks of a training case: tasks, state, events
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/idioms.h"
#include "framework/dist/p2p.h"
#include "harness/launch/affinity.h"
#include "harness/launch/devices.h"
#include "harness/launch/launch.h"
#include "harness/launch/state_folder.h"
#include "harness/plan/plan.h"
#include "harness/run/ranks.h"

typedef struct launching {
    cJSON *task; // borrowed; its keys ranks and checkpoints are replaced for each rank
    const cJSON *train, *mesh; // of its case
    const bt_ranks_listener *listener;
    bt_state_folder folder;
    bool memory_state; // the state is in that folder; else in the case's checkpoints
    bool devices[BT_LAUNCH_RANKS_MAX];
    bt_launch_fault faults[BT_PLAN_FAULTS_MAX];
    double hang_s;
} launching;

static const cJSON *train_of(const cJSON *task)
{
    return bt_json_get(bt_json_get(task, "case"), "train");
}

bool bt_ranks_wanted(const cJSON *task)
{
    return bt_plan_mesh_of(train_of(task)).ranks > 1 && !bt_json_get(task, "ranks");
}

// ---- tasks --------------------------------------------------------------------------------------

static void put(cJSON *object, const char *key, cJSON *item)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    (void)cJSON_AddItemToObject(object, key, item);
}

static void put_checkpoints(launching *self, int64_t generation)
{
    cJSON *keys = cJSON_GetObjectItemCaseSensitive(self->task, "checkpoints");
    if (self->memory_state) {
        put(self->task, "checkpoints", cJSON_CreateObject());
        keys = cJSON_GetObjectItemCaseSensitive(self->task, "checkpoints");
        put(keys, "folder", cJSON_CreateString(self->folder.path));
        put(keys, "memory", cJSON_CreateTrue());
    }
    if (self->memory_state || generation > 1) {
        put(keys, "resume", cJSON_CreateBool(generation > 1));
        put(keys, "below", cJSON_CreateNumber(0));
    }
}

static bt_status write_task(void *context, const bt_rank_start *rank, int flight_fd, bt_str *out)
{
    launching *self = context;
    cJSON *keys = cJSON_CreateObject();
    put_checkpoints(self, rank->generation);
    put(self->task, "ranks", keys);
    put(keys, "rank", cJSON_CreateNumber(rank->rank));
    put(keys, "size", cJSON_CreateNumber(rank->size));
    put(keys, "slot", cJSON_CreateNumber(rank->slot));
    put(keys, "generation", cJSON_CreateNumber((double)rank->generation));
    put(keys, "group_fd", cJSON_CreateNumber(rank->group_fd));
    put(keys, "flight_fd", cJSON_CreateNumber(flight_fd));
    put(keys, "timeout_s", cJSON_CreateNumber(self->hang_s > 0 ? 2 * self->hang_s : 86400));
    bt_json_write(self->task, out);
    return bt_str_status(out);
}

// A spare's task, of which it does what it can before it is told to begin.
static bt_status write_preparation(void *context, const bt_rank_start *rank, int flight_fd,
                                   bt_str *out)
{
    const launching *self = context;
    put(self->task, "prepare", cJSON_CreateTrue());
    const bt_status status = write_task(context, rank, flight_fd, out);
    cJSON_DeleteItemFromObjectCaseSensitive(self->task, "prepare");
    return status;
}

static bool on_gpus(const launching *self)
{
    const char *device = bt_json_text_or_null(self->task, "device");
    return device && strcmp(device, "cpu") != 0;
}

// The data-parallel ranks must divide the micro-batches of a step, and the virtual shards; groups
// on GPUs must support so many ranks.
static bool fits(void *context, int size)
{
    const launching *self = context;
    const cJSON *train = self->train;
    const int64_t tokens = (int64_t)bt_json_number_of(train, "tokens_per_step");
    const int64_t batch =
        (int64_t)(bt_json_number_of(train, "micro_batch") * bt_json_number_of(train, "sequence"));
    const int64_t shards = (int64_t)bt_json_number_of(self->mesh, "invariant");
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    const int64_t data = size * mesh.data / mesh.ranks;
    const bool possible = size == 1 || !on_gpus(self) || bt_group_gpu_supports(size);
    return possible && data > 0 && batch > 0 && data * (mesh.ranks / mesh.data) == size &&
           tokens / batch % data == 0 && shards % data == 0;
}

// ---- events -------------------------------------------------------------------------------------

static bt_status tell(void *context, const bt_run_event *event)
{
    const launching *self = context;
    // The state in memory is internal to the launcher, not a checkpoint of the case.
    return self->memory_state && event->type == BT_RUN_EVENT_SAVE
               ? BT_OK
               : self->listener->event(self->listener->self, event);
}

static bt_status tell_recovery(void *context, const bt_launch_recovery *recovery)
{
    const launching *self = context;
    const bt_run_event event = {
        .type = BT_RUN_EVENT_RECOVERY,
        .as.recovery = {.step = recovery->step,
                        .from_step = recovery->from_step,
                        .generation = recovery->generation,
                        .ranks = recovery->size,
                        .kind = bt_cause_row_of(recovery->cause->kind)->name,
                        .detect_ns = recovery->detect_ns < 0 ? 0 : recovery->detect_ns,
                        .group_ns = recovery->group_ns,
                        .resume_ns = recovery->resume_ns,
                        .step_ns = recovery->first_step_ns}};
    return self->listener->event(self->listener->self, &event);
}

static bt_status tell_caught_up(void *context, const bt_launch_recovery *recovery)
{
    const launching *self = context;
    const bt_run_event event = {
        .type = BT_RUN_EVENT_CAUGHT_UP,
        .as.caught_up = {.step = recovery->step, .time_ns = recovery->caught_up_ns}};
    return self->listener->event(self->listener->self, &event);
}

static bool should_stop(void *context)
{
    const launching *self = context;
    return self->listener->should_stop(self->listener->self);
}

// ---- the mesh -----------------------------------------------------------------------------------

static bt_status read_faults(launching *self, bt_launch *how)
{
    bt_plan_fault read[BT_PLAN_FAULTS_MAX];
    BT_TRY(bt_plan_faults_read(self->train, read, &how->fault_count));
    for (int64_t i = 0; i < how->fault_count; ++i) {
        const bool at_start = read[i].step == BT_PLAN_AT_START;
        self->faults[i] = (bt_launch_fault){.signal = read[i].signal,
                                            .rank = (int)read[i].rank,
                                            .step = at_start ? BT_LAUNCH_AT_START : read[i].step};
    }
    return BT_OK;
}

// A run keeps its state in one folder, so one that saves only at its end has no state in memory.
static bool saves_itself(const launching *self)
{
    return bt_json_get(self->task, "checkpoints") && bt_plan_saves(self->train);
}

// Such checkpoints cannot be resumed.
static bool saves_parameters(const launching *self)
{
    return saves_itself(self) &&
           bt_json_is_text(bt_json_get(self->train, "checkpoint"), "content", "parameters");
}

static bt_status launch(launching *self, const char *program)
{
    const cJSON *mesh = self->mesh;
    const bool gpu = on_gpus(self);
    const bt_plan_mesh degrees = bt_plan_mesh_of(self->train);
    const int size = (int)degrees.ranks, shards = (int)bt_json_number_of(mesh, "invariant");
    const bool ends = saves_parameters(self);
    bt_launch how = {
        .size = size,
        .program = program,
        .shrink = cJSON_IsTrue(bt_json_get(mesh, "shrink")),
        .invariant = shards > 0,
        .spare = !ends && cJSON_IsTrue(bt_json_get(mesh, "spare")),
        .ends = ends,
        .take_turns = bt_affinity_takes_turns(size),
        .hang_s = self->hang_s,
        .steps = (int64_t)bt_json_number_of(self->train, "steps"),
        .first_step = (int64_t)bt_json_number_of(bt_json_get(self->task, "checkpoints"), "below"),
        .faults = self->faults,
        .status_path = bt_json_text_or_null(self->task, "ranks_file"),
        .devices = gpu ? self->devices : NULL,
        .listener = {.self = self,
                     .task = write_task,
                     .prepare = write_preparation,
                     .fits = fits,
                     .event = tell,
                     .recovered = tell_recovery,
                     .caught_up = tell_caught_up,
                     .should_stop = should_stop}};
    BT_FAIL_IF(!fits(self, size), BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.data: %d ranks must divide the micro-batches of a step "
               "(tokens_per_step / micro_batch / sequence)%s%.0d",
               size * (int)degrees.data / (int)degrees.ranks,
               shards > 0 ? " and train.mesh.invariant, which is " : "", shards);
    BT_TRY(read_faults(self, &how));
    if (gpu) {
        BT_TRY(bt_launch_devices(size, self->devices));
        (void)setenv(bt_environment_row(BT_VARIABLE_NCCL_NVLS_ENABLE)->name, "0", 1);
    }
    return bt_launch_run(&how);
}

bt_status bt_ranks_launch(cJSON *task, const char *program, const bt_ranks_listener *listener)
{
    launching self = {.task = task,
                      .train = train_of(task),
                      .mesh = bt_json_get(train_of(task), "mesh"),
                      .listener = listener,
                      .hang_s = bt_json_number_of(train_of(task), "hang_s"),
                      .folder = {.lock = -1}};
    self.memory_state = !saves_itself(&self);
    BT_TRY(self.memory_state ? bt_state_folder_make(&self.folder) : BT_OK);
    (void)fprintf(
        stderr, "launcher: %s\n",
        self.memory_state
            ? "lost ranks restart from the state of the last step, which is kept in memory"
        : saves_parameters(&self)
            ? "a lost rank ends the run, because its checkpoints have only parameters"
            : "lost ranks restart from the newest checkpoint, or from the beginning without one");
    const bt_status status = launch(&self, program);
    bt_state_folder_remove(&self.folder);
    return status;
}

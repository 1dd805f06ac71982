// tests/harness/test_launch_parts.c - what a launcher decides by: processors, GPUs, XIDs, faults to
// cause, where rank 0 is
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/timeline.h"
#include "harness/launch/affinity.h"
#include "harness/launch/cause.h"
#include "harness/launch/devices.h"
#include "harness/launch/interface.h"
#include "harness/launch/relay.h"
#include "harness/launch/state_folder.h"
#include "harness/launch/supervisor.h"
#include "harness/launch/world.h"
#include "harness/run/running.h"
#include "tests/harness/need_nvml.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static cpu_set_t set_of(const char *text)
{
    cpu_set_t set;
    assert_true(bt_affinity_parse(text, &set));
    return set;
}

static void assert_set(const cpu_set_t *got, const char *expected)
{
    const cpu_set_t set = set_of(expected);
    assert_true(CPU_EQUAL(got, &set));
}

static void lists_of_processors_are_read(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_true(bt_affinity_parse("0-2,8,10-11\n", &set));
    assert_int_equal(CPU_COUNT(&set), 6);
    assert_true(CPU_ISSET(8, &set) && CPU_ISSET(10, &set) && !CPU_ISSET(9, &set));
    assert_true(bt_affinity_parse("", &set));
    assert_int_equal(CPU_COUNT(&set), 0);
    static const char *const wrong[] = {"a", "3-", "5-2", "0-99999", "1;2", "-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        assert_false(bt_affinity_parse(wrong[i], &set));
    }
}

static void more_ranks_than_processors_take_turns(void **state)
{
    (void)state;
    cpu_set_t all, one;
    const int processors = bt_affinity_processors();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(processors, CPU_COUNT(&all));
    assert_false(bt_affinity_takes_turns(processors));
    assert_true(bt_affinity_takes_turns(processors + 1));
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_true(bt_affinity_takes_turns(2));
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void ranks_get_equal_shares_of_whole_nodes(void **state)
{
    (void)state;
    // Nodes as they lie on many hosts: every other processor.
    const cpu_set_t nodes[] = {set_of("0,2,4,6"), set_of("1,3,5,7")};
    const cpu_set_t all = set_of("0-7"), some = set_of("0-3");
    cpu_set_t got;
    assert_true(bt_affinity_split(&all, nodes, 2, -1, 0, 2, &got));
    assert_set(&got, "0,2,4,6");
    assert_true(bt_affinity_split(&all, nodes, 2, -1, 1, 2, &got));
    assert_set(&got, "1,3,5,7");
    assert_true(bt_affinity_split(&all, nodes, 2, -1, 3, 4, &got));
    assert_set(&got, "5,7");
    assert_true(bt_affinity_split(&some, nodes, 2, -1, 1, 2, &got)); // only what is allowed
    assert_set(&got, "1,3");
    static const char *const shared[] = {"0", "0", "2", "1", "3"}; // more ranks than processors
    for (int slot = 0; slot < 5; ++slot) {
        assert_true(bt_affinity_split(&some, nodes, 2, -1, slot, 5, &got));
        assert_set(&got, shared[slot]);
    }
    assert_true(bt_affinity_split(&all, nodes, 2, 1, 0, 2, &got)); // near its GPU
    assert_set(&got, "1,3,5,7");
    assert_false(bt_affinity_split(&all, nodes, 2, 7, 0, 2, &got)); // a node that is not there
}

static bt_status note_event(void *self, const bt_run_event *event)
{
    bt_str_format(self, " %s", bt_run_event_name(event->type));
    return bt_str_status(self);
}

static void faults_before_the_start_follow_it(void **state)
{
    (void)state;
    bt_str told = {0};
    bt_relay relay = {.tell = note_event, .self = &told};
    const bt_run_event start = {.type = BT_RUN_EVENT_START};
    const bt_run_event fault = {.type = BT_RUN_EVENT_FAULT, .as.fault = {0, "a", "b", "c"}};
    ASSERT_OK(bt_relay_report(&relay, &fault));
    bt_relay_restart(&relay, true);
    ASSERT_OK(bt_relay_report(&relay, &fault));
    ASSERT_OK(bt_relay_take(&relay, &start));
    ASSERT_OK(bt_relay_report(&relay, &fault));
    assert_string_equal(bt_str_text(&told), " start fault fault fault");
    bt_relay_release(&relay);
    bt_str_release(&told);
}

static void every_kind_of_fault_says_what_is_done(void **state)
{
    (void)state;
    for (int i = 0; i < BT_CAUSE_COUNT; ++i) {
        const bt_cause_row *row = bt_cause_row_of((bt_cause_kind)i);
        assert_true(*row->name && *row->description);
    }
    assert_int_equal(bt_cause_row_of(BT_CAUSE_KILLED)->action, BT_LAUNCH_RESTART);
    assert_int_equal(bt_cause_row_of(BT_CAUSE_MEMORY)->action, BT_LAUNCH_END);
}

static void an_interface_must_be_there(void **state)
{
    (void)state;
    static const char *const there[] = {NULL, "", "lo", "nosuch,l", "=lo", "^nosuch"};
    static const char *const not_there[] = {"nosuch", "=l", "lo0"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; ++i) {
        ASSERT_OK(bt_interface_check(there[i], 0));
    }
    for (size_t i = 0; i < sizeof not_there / sizeof not_there[0]; ++i) {
        assert_int_equal(bt_interface_check(not_there[i], 3), BT_STATUS_INVALID_ARGUMENT);
        assert_memory_equal(bt_error_message(), "rank 3: NCCL_SOCKET_IFNAME is ", 30);
    }
}

static void the_first_host_of_a_list_is_found(void **state)
{
    (void)state;
    char host[32];
    static const char *const rows[][2] = {
        {"node[07-12,15],other", "node07"}, {"node3", "node3"}, {"a,b", "a"}, {"gpu[1,3]", "gpu1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        assert_true(bt_world_first_host(rows[i][0], host, sizeof host));
        assert_string_equal(host, rows[i][1]);
    }
    assert_false(bt_world_first_host("", host, sizeof host));
    assert_false(bt_world_first_host("node[", host, sizeof host));
    assert_false(bt_world_first_host("a-host-with-a-name-that-is-too-long-for-this", host, 8));
}

// Two steps of one job may run at once, each with its own ranks.
static void steps_of_a_job_are_told_apart(void **state)
{
    (void)state;
    static const char *const set[][2] = {
        {"SLURM_PROCID", "1"},  {"SLURM_STEP_NUM_TASKS", "2"},          {"SLURM_LOCALID", "0"},
        {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_NODELIST", "node[07-08]"}, {"SLURM_STEP_ID", "3"}};
    bt_world first, again, second;
    for (size_t i = 0; i < sizeof set / sizeof set[0]; ++i) {
        assert_int_equal(setenv(set[i][0], set[i][1], 1), 0);
    }
    ASSERT_OK(bt_world_read(&first));
    ASSERT_OK(bt_world_read(&again));
    assert_int_equal(setenv("SLURM_STEP_ID", "4", 1), 0);
    ASSERT_OK(bt_world_read(&second));
    for (size_t i = 0; i < sizeof set / sizeof set[0]; ++i) {
        assert_int_equal(unsetenv(set[i][0]), 0);
    }
    assert_string_equal(first.host, "node07");
    assert_true(first.rank == 1 && first.size == 2);
    assert_true(again.job == first.job && again.port == first.port);
    assert_true(second.job != first.job && second.port != first.port);
}

static void the_state_in_memory_leaves_nothing(void **state)
{
    (void)state;
    bt_state_folder folder, other;
    char below[200], file[256];
    ASSERT_OK(bt_state_folder_make(&folder));
    (void)snprintf(below, sizeof below, "%s/step-1", folder.path);
    (void)snprintf(file, sizeof file, "%s/data", below);
    ASSERT_OK(bt_dir_make(below));
    ASSERT_OK(bt_file_write(file, "x", 1));
    ASSERT_OK(bt_state_folder_make(&other)); // does not touch one that is in use
    assert_true(bt_file_exists(file));
    // As if its launcher had been killed: the lock is gone, the folder is there.
    (void)close(folder.lock);
    folder.lock = -1;
    bt_state_folder_remove(&other);
    ASSERT_OK(bt_state_folder_make(&other));
    assert_false(bt_file_exists(file));
    assert_false(bt_file_exists(folder.path));
    bt_state_folder_remove(&other);
    bt_state_folder_remove(&folder); // a removed file is not an error
}

// A launcher that is killed at any moment: when it has made the folder, or while it removes it.
static void state_of_killed_launchers_is_removed(void **state)
{
    (void)state;
    static const char *const left[] = {"", "/step-1"};
    for (size_t i = 0; i < sizeof left / sizeof *left; ++i) {
        bt_state_folder next;
        char path[] = "/dev/shm/bt-ranks-XXXXXX", below[64], *const made = mkdtemp(path);
        assert_non_null(made);
        (void)snprintf(below, sizeof below, "%s%s", made, left[i]);
        (void)mkdir(below, 0700); // another launcher may have removed it already
        ASSERT_OK(bt_state_folder_make(&next));
        assert_false(bt_file_exists(made));
        bt_state_folder_remove(&next);
    }
    // SIGKILL of a launcher whose folder is locked.
    int ends[2];
    char path[128] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        bt_state_folder own;
        if (bt_state_folder_make(&own) == BT_OK &&
            write(ends[1], own.path, sizeof own.path) == sizeof own.path) {
            (void)sleep(600); // until it is killed
        }
        _exit(1);
    }
    assert_int_equal(read(ends[0], path, sizeof path), sizeof path);
    bt_state_folder next;
    ASSERT_OK(bt_state_folder_make(&next));
    assert_true(bt_file_exists(path)); // its launcher lives
    bt_state_folder_remove(&next);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    ASSERT_OK(bt_state_folder_make(&next));
    assert_false(bt_file_exists(path));
    bt_state_folder_remove(&next);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void gpus_must_be_there_and_of_one_model(void **state)
{
    (void)state;
    bool usable[64];
    if (need_fake_nvml()) {
        return;
    }
    ASSERT_OK(bt_launch_devices(1, usable));
    assert_true(usable[0]);
    assert_int_equal(bt_launch_devices(3, usable), BT_STATUS_UNAVAILABLE);
    assert_string_equal(bt_error_message(),
                        "train.mesh.data: 3 ranks need a GPU each, this host has 2");
    assert_int_equal(bt_launch_devices(2, usable), BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(
        strstr(bt_error_message(), "rank 1 would run on GPU 1, a Second; rank 0 runs on a First"));
    // Ranks count as CUDA does, not as the driver does.
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1,GPU-2222", 1), 0);
    ASSERT_OK(bt_launch_devices(2, usable));
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1", 1), 0);
    assert_int_equal(bt_launch_devices(2, usable), BT_STATUS_UNAVAILABLE);
    assert_string_equal(bt_error_message(), "train.mesh.data: 2 ranks need a GPU each, "
                                            "CUDA_VISIBLE_DEVICES shows 1");
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    assert_int_equal(setenv("FAKE_NVML_ERROR", "9", 1), 0);
    assert_int_equal(bt_launch_devices(1, usable), BT_STATUS_UNAVAILABLE);
    assert_int_equal(unsetenv("FAKE_NVML_ERROR"), 0);
}

static void xids_are_told(void **state)
{
    (void)state;
    bt_xid_watch watch;
    const char *meaning = "";
    int gpu = -1;
    unsigned long long xid = 0;
    assert_int_equal(bt_xid_action_of(31, &meaning), BT_XID_RESTART);
    assert_int_equal(bt_xid_action_of(79, &meaning), BT_XID_QUARANTINE);
    assert_string_equal(meaning, "the GPU has fallen off the bus");
    assert_int_equal(bt_xid_action_of(12345, &meaning), BT_XID_NONE);
    if (need_fake_nvml()) {
        return;
    }
    bt_xid_watch_open(2, &watch);
    assert_true(watch.open);
    assert_false(bt_xid_watch_next(&watch, &gpu, &xid));
    assert_int_equal(setenv("FAKE_NVML_XID", "1:48", 1), 0);
    assert_true(bt_xid_watch_next(&watch, &gpu, &xid));
    assert_int_equal(gpu, 1);
    assert_int_equal(xid, 48);
    assert_false(bt_xid_watch_next(&watch, &gpu, &xid)); // once
    bt_xid_watch_close(&watch);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1,0", 1), 0);
    bt_xid_watch_open(2, &watch);
    assert_int_equal(setenv("FAKE_NVML_XID", "1:31", 1), 0);
    assert_true(bt_xid_watch_next(&watch, &gpu, &xid));
    assert_int_equal(gpu, 0); // the driver's 1 is the first that CUDA shows
    bt_xid_watch_close(&watch);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    assert_int_equal(unsetenv("FAKE_NVML_XID"), 0);
}

static bool is_free(const char *device)
{
    bt_device_lock lock = {-1};
    bool taken = false;
    char owner[64] = "";
    ASSERT_OK(bt_device_lock_try(device, &lock, &taken, owner, sizeof owner));
    bt_device_lock_release(&lock);
    return taken;
}

static void a_run_has_the_gpus_of_all_its_ranks(void **state)
{
    (void)state;
    const struct {
        const char *item;
        int gpus;
        bool second_is_free;
    } plans[] = {
        {"{\"name\":\"a\",\"kind\":\"train\",\"train\":{}}", 1, true},
        {"{\"name\":\"a\",\"kind\":\"train\",\"train\":{\"mesh\":{\"data\":1}}}", 1, true},
        {"{\"name\":\"a\",\"kind\":\"train\",\"train\":{\"mesh\":{\"data\":2}}}", 2, false},
        {"{\"name\":\"a\",\"kind\":\"train\",\"train\":{\"mesh\":{\"data\":2,\"context\":2}}}", 4,
         false},
        {"{\"name\":\"a\",\"kind\":\"collective\",\"kernel\":{\"ranks\":2}}", 2, false}};
    if (need_fake_nvml()) {
        return;
    }
    setenv("TMPDIR", test_scratch_path(""), 1);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i) {
        char text[512];
        bt_plan plan;
        (void)snprintf(
            text, sizeof text,
            "{\"version\":1,\"suite\":\"s\",\"profile\":\"gpu\",\"device\":\"cuda\","
            "\"rounds\":1,\"cases\":[{\"name\":\"z\",\"kind\":\"train\",\"train\":{}},%s]}",
            plans[i].item);
        ASSERT_OK(bt_plan_read(text, &plan));
        const bt_machine machine = {.has_cuda = true, .cuda = {.uuid = "GPU-1111"}};
        const bt_run_request request = {.plan = &plan, .machine = &machine};
        bt_running running = {.request = &request};
        assert_int_equal(bt_running_gpus(&plan), plans[i].gpus);
        ASSERT_OK(bt_running_lock(&running));
        assert_false(is_free("GPU-1111"));
        assert_int_equal(is_free("GPU-2222"), plans[i].second_is_free);
        bt_running_unlock(&running);
        assert_true(is_free("GPU-1111") && is_free("GPU-2222"));
        bt_plan_release(&plan);
    }
    unsetenv("TMPDIR");
}

typedef struct told_lines {
    int count;
    int64_t ranks[8], starts_ns[8];
} told_lines;

static bt_status keep_line(void *self, const bt_run_event *event)
{
    told_lines *told = self;
    assert_int_equal(event->type, BT_RUN_EVENT_TIMELINE);
    told->ranks[told->count] = event->as.timeline.rank;
    told->starts_ns[told->count++] = event->as.timeline.start_ns;
    return BT_OK;
}

static bt_status give_line(bt_supervisor *supervisor, int rank, int64_t step, int64_t start_ns)
{
    char letters[BT_TIMELINE_PARTS + 1];
    memset(letters, 'p', BT_TIMELINE_PARTS);
    letters[BT_TIMELINE_PARTS] = '\0';
    const bt_run_event event = {.type = BT_RUN_EVENT_TIMELINE,
                                .as.timeline = {.step = step,
                                                .rank = rank,
                                                .start_ns = start_ns,
                                                .time_ns = 9,
                                                .work = letters,
                                                .phases = letters}};
    return bt_supervisor_take_timeline(supervisor, rank, &event);
}

// Those of a generation that was lost stand beside no other.
static void timelines_are_told_together_and_once(void **state)
{
    (void)state;
    told_lines told = {0};
    bt_supervisor *supervisor = NULL;
    ASSERT_OK(BT_MEM_ARRAY(1, &supervisor));
    supervisor->size = 3;
    supervisor->relay.tell = keep_line;
    supervisor->relay.self = &told;
    ASSERT_OK(give_line(supervisor, 0, 7, 1000));
    ASSERT_OK(give_line(supervisor, 2, 7, 1010));
    bt_supervisor_drop_timelines(supervisor); // rank 1 was lost
    ASSERT_OK(give_line(supervisor, 1, 7, 5020));
    ASSERT_OK(give_line(supervisor, 2, 7, 5000));
    assert_int_equal(told.count, 0);
    ASSERT_OK(give_line(supervisor, 0, 7, 5005));
    assert_int_equal(told.count, 3);
    for (int i = 0; i < 3; ++i) {
        static const int64_t starts_ns[] = {5, 20, 0};
        assert_int_equal(told.ranks[i], i);
        assert_int_equal(told.starts_ns[i], starts_ns[i]);
    }
    for (int i = 0; i < 3; ++i) { // the step again
        ASSERT_OK(give_line(supervisor, i, 7, 9000));
    }
    assert_int_equal(told.count, 3);
    bt_supervisor_drop_timelines(supervisor);
    bt_mem_free(supervisor);
}

static void timelines_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        int parts;
        int64_t rank, waited_ns;
        const char *words;
    } rows[] = {{BT_TIMELINE_PARTS - 1, 0, 5, "600 letters"},
                {BT_TIMELINE_PARTS, 1024, 5, "of a rank above 1023"},
                {BT_TIMELINE_PARTS, 0, 10, "take longer than its time_ns"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char letters[BT_TIMELINE_PARTS + 1] = "";
        bt_run_event_state at = {.started = true};
        bt_run_event event;
        bt_str line = {0};
        memset(letters, 'c', (size_t)rows[i].parts);
        bt_run_event_write(&(bt_run_event){.type = BT_RUN_EVENT_TIMELINE,
                                           .as.timeline = {.rank = rows[i].rank,
                                                           .time_ns = 9,
                                                           .communication_ns = rows[i].waited_ns,
                                                           .work = letters,
                                                           .phases = letters}},
                           &line);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].words,
                     bt_run_event_parse(&at, bt_str_text(&line), line.length_bytes - 1, &event));
        bt_str_release(&line);
    }
}

// ---- events of several generations -------------------------------------------------------------

static bt_status count_event(void *self, const bt_run_event *event)
{
    (void)event;
    ++*(int *)self;
    return BT_OK;
}

static bt_run_event step_event(int64_t step, float loss)
{
    return (bt_run_event){.type = BT_RUN_EVENT_STEP, .as.step = {.step = step, .loss = loss}};
}

static void events_are_told_once(void **state)
{
    (void)state;
    int told = 0;
    bt_relay relay = {.tell = count_event, .self = &told};
    const bt_run_event start = {.type = BT_RUN_EVENT_START};
    const bt_run_event kernel = {.type = BT_RUN_EVENT_KERNEL, .as.kernel = {"gelu", "gelu_cpu"}};
    const bt_run_event range = {.type = BT_RUN_EVENT_RANGE,
                                .as.range = {.step = 1, .path = "step", .count = 1}};
    const bt_run_event eval = {.type = BT_RUN_EVENT_EVAL, .as.eval = {.step = 0}};
    const bt_run_event first = step_event(0, 3), second = step_event(1, 2),
                       other = step_event(0, 4), third = step_event(2, 2), wrong = step_event(2, 1);
    ASSERT_OK(bt_relay_take(&relay, &start));
    ASSERT_OK(bt_relay_take(&relay, &eval));
    ASSERT_OK(bt_relay_take(&relay, &first));
    ASSERT_OK(bt_relay_take(&relay, &kernel));
    ASSERT_OK(bt_relay_take(&relay, &range)); // of a step that is lost
    assert_int_equal(told, 4);
    bt_relay_restart(&relay, true);
    ASSERT_OK(bt_relay_take(&relay, &start));
    ASSERT_OK(bt_relay_take(&relay, &eval));
    ASSERT_OK(bt_relay_take(&relay, &first));
    ASSERT_OK(bt_relay_take(&relay, &kernel));
    assert_int_equal(told, 4);
    ASSERT_OK(bt_relay_take(&relay, &range));
    ASSERT_OK(bt_relay_take(&relay, &second));
    assert_int_equal(told, 6);
    bt_relay_restart(&relay, true);
    assert_int_equal(bt_relay_take(&relay, &other), BT_STATUS_CORRUPT_DATA);
    assert_non_null(strstr(bt_error_message(), "step 0 was repeated"));
    bt_relay_restart(&relay, false); // fewer ranks, other sums
    ASSERT_OK(bt_relay_take(&relay, &other));
    assert_int_equal(told, 6);
    ASSERT_OK(bt_relay_take(&relay, &third));
    bt_relay_restart(&relay, true); // as many as before
    assert_int_equal(bt_relay_take(&relay, &wrong), BT_STATUS_CORRUPT_DATA);
    bt_relay_release(&relay);
}

// A generation that had to take an older state than the first one did: its steps up to there are
// unknown. After a gap the steps before it are not known either.
static void steps_before_the_first_are_passed_over(void **state)
{
    (void)state;
    int told = 0;
    bt_relay relay = {.tell = count_event, .self = &told};
    const bt_run_event start = {.type = BT_RUN_EVENT_START, .as.start = {.first_step = 1000000}};
    for (int64_t step = 1000000; step < 1000003; ++step) {
        const bt_run_event event = step_event(step, 3);
        ASSERT_OK(bt_relay_take(&relay, step == 1000000 ? &start : &event));
    }
    bt_relay_restart(&relay, true);
    for (int64_t step = 1000; step < 1000003; step += 333000) {
        const bt_run_event event = step_event(step, 7);
        ASSERT_OK(bt_relay_take(&relay, &event));
    }
    assert_int_equal(told, 3);
    const bt_run_event known = step_event(1000002, 7), new = step_event(1000003, 3);
    assert_int_equal(bt_relay_take(&relay, &known), BT_STATUS_CORRUPT_DATA);
    ASSERT_OK(bt_relay_take(&relay, &new));
    bt_relay_release(&relay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_processors_are_read),
        cmocka_unit_test(more_ranks_than_processors_take_turns),
        cmocka_unit_test(ranks_get_equal_shares_of_whole_nodes),
        cmocka_unit_test(faults_before_the_start_follow_it),
        cmocka_unit_test(every_kind_of_fault_says_what_is_done),
        cmocka_unit_test(an_interface_must_be_there),
        cmocka_unit_test(the_first_host_of_a_list_is_found),
        cmocka_unit_test(steps_of_a_job_are_told_apart),
        cmocka_unit_test(the_state_in_memory_leaves_nothing),
        cmocka_unit_test(state_of_killed_launchers_is_removed),
        cmocka_unit_test(gpus_must_be_there_and_of_one_model),
        cmocka_unit_test(xids_are_told),
        cmocka_unit_test(a_run_has_the_gpus_of_all_its_ranks),
        cmocka_unit_test(timelines_are_told_together_and_once),
        cmocka_unit_test(timelines_that_cannot_be_are_refused),
        cmocka_unit_test(events_are_told_once),
        cmocka_unit_test(steps_before_the_first_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

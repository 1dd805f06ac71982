// tests/harness/launch_rank.c - what a rank does that the test of the launcher starts
#include "tests/harness/launch_rank.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/dist/agree.h"
#include "framework/dist/flight.h"
#include "framework/dist/host.h"
#include "harness/run/event.h"
#include "tests/support/test.h"

enum { WAIT_STEP = 30 };

typedef struct rank_work {
    int rank, size, generation;
    bt_group *group, *part; // part: of two ranks, if the act is one of a part
    bt_flight flight;
    const char *folder, *act; // what goes wrong in the first generation; "always-...": in each
    int act_rank, act_step, steps;
    int hold_rank, hold_step; // -1: none; of this generation
    bool waits; // at WAIT_STEP of the first generation, for the spares to join their group
    double sum;
} rank_work;

static void say(const bt_run_event *event)
{
    bt_str line = {0};
    bt_run_event_write(event, &line);
    (void)!write(STDOUT_FILENO, bt_str_text(&line), line.length_bytes);
    bt_str_release(&line);
}

static void state_path(const rank_work *work, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/state", work->folder);
}

static int load(rank_work *work)
{
    char path[PATH_MAX];
    void *bytes = NULL;
    size_t size_bytes = 0;
    int step = 0;
    state_path(work, path);
    if (work->generation > 1 && strcmp(work->act, "forget") != 0 && bt_file_exists(path)) {
        ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
        assert_int_equal(sscanf(bytes, "%d %la", &step, &work->sum), 2);
        bt_mem_free(bytes);
    }
    return step;
}

static void save(const rank_work *work, int step)
{
    char path[PATH_MAX], new_path[PATH_MAX + 8];
    state_path(work, path);
    (void)snprintf(new_path, sizeof new_path, "%s.new", path);
    FILE *file = work->rank == 0 ? fopen(new_path, "we") : NULL; // without a wait for the disk
    if (file) {
        (void)fprintf(file, "%d %a", step, work->sum);
        (void)fclose(file);
        (void)rename(new_path, path);
    }
}

// Says to the launcher's side when something goes wrong.
static void note_time(const char *folder)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/acted", folder);
    (void)snprintf(new_path, sizeof new_path, "%s/acted.new", folder);
    FILE *file = fopen(new_path, "we");
    if (file) { // renamed: the launcher's side may be reading the one before
        (void)fprintf(file, "%" PRId64, bt_clock_ns());
        (void)fclose(file);
        (void)rename(new_path, path);
    }
}

static bool acts(const rank_work *work, const char *what, int step)
{
    const bool always = strncmp(work->act, "always-", 7) == 0;
    const bool now = work->rank == work->act_rank && step == work->act_step &&
                     (always || work->generation == 1) &&
                     strcmp(work->act + (always ? 7 : 0), what) == 0;
    if (now) {
        note_time(work->folder);
    }
    return now;
}

static void leave_mark(const rank_work *work, const char *name, int rank)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s%d", work->folder, name, rank);
    (void)!bt_file_write(path, "", 0);
}

// Until the file exists, for at most 10 s.
static void wait_for(rank_work *work, const char *path, const char *where)
{
    for (int i = 0; i < 2000 && !bt_file_exists(path); ++i) {
        bt_flight_beat(&work->flight, 1, where);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void wait_at(rank_work *work, int step)
{
    char path[PATH_MAX];
    if (work->waits && work->generation == 1 && step == WAIT_STEP) {
        (void)snprintf(path, sizeof path, "%s/spare-joined%d", work->folder, work->rank);
        wait_for(work, path, "waiting");
    }
    if (work->rank == work->hold_rank && step == work->hold_step) {
        wait_for(work, "", "step/held"); // no file: until it is killed
    }
}

static bt_status do_step(rank_work *work, int step)
{
    wait_at(work, step);
    double value = 1.0 / (1 + step * work->size + work->rank);
    float other[4] = {0};
    bt_flight_beat(&work->flight, 1, "step/forward");
    if (acts(work, "exit", step)) {
        (void)fprintf(stderr, "last words of rank %d", work->rank);
        _exit(3);
    }
    if (acts(work, "memory", step)) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "no memory for a tensor");
    }
    if (acts(work, "internal", step)) {
        return bt_error(BT_STATUS_INTERNAL, "a sum is impossible");
    }
    if (acts(work, "abort", step)) {
        (void)raise(SIGABRT); // which sanitizers leave alone
    }
    if (acts(work, "spin", step) || acts(work, "part-spin", step)) {
        for (;;) {
            (void)pause();
        }
    }
    if (acts(work, "halt", step)) { // outside of a step
        bt_flight_beat(&work->flight, 1, "between");
        (void)raise(SIGSTOP);
    }
    if (acts(work, "diverge", step)) {
        return bt_all_reduce(work->group, other, 4, BT_F32, BT_REDUCE_SUM, NULL);
    }
    if (work->part) {
        BT_TRY(bt_all_reduce(work->part, other, 2, BT_F32, BT_REDUCE_SUM, NULL));
    }
    BT_TRY(bt_all_reduce(work->group, &value, 1, BT_F64, BT_REDUCE_SUM, NULL));
    work->sum += value + (acts(work, "flip", step) ? 1e-9 : 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = acts(work, "slow", -1) ? 12000000 : 1000000},
                    NULL);
    return BT_OK;
}

static void say_start(int first)
{
    say(&(bt_run_event){
        .type = BT_RUN_EVENT_START,
        .as.start = {
            .protocol = BT_RUN_EVENT_PROTOCOL, .system = "t", .device = "d", .first_step = first}});
}

static bt_status join(rank_work *work, const cJSON *task)
{
    const cJSON *keys = bt_json_get(task, "ranks");
    BT_TRY(bt_flight_attach((int)bt_json_number_of(keys, "flight_fd"), &work->flight));
    bt_flight_hold(&work->flight);
    BT_TRY(bt_group_host_join((int)bt_json_number_of(keys, "group_fd"), work->rank, work->size,
                              20000000000, &work->group));
    work->group->flight = &work->flight;
    const char *build = strcmp(work->act, "build") == 0 && work->rank == 1 ? "bbb" : "aaa";
    const bt_agreement rows[] = {{"build", build, "install the same build on all hosts"}};
    BT_TRY(bt_group_agree(work->group, rows, 1));
    bt_flight_joined(&work->flight);
    return BT_OK;
}

static bt_status work_on(rank_work *work)
{
    if (strncmp(work->act, "part-", 5) == 0) {
        BT_TRY(bt_group_split(work->group, work->rank / 2, 0, &work->part));
    }
    const int first = load(work);
    const bool late = acts(work, "late", -1); // the launcher sees a step before the start
    if (!late) {
        say_start(first);
    }
    for (int step = first; step < work->steps; ++step) {
        BT_TRY(do_step(work, step));
        const float loss = (float)work->sum;
        bt_flight_step(&work->flight, step + 1);
        if (late && step == first) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
            say_start(first);
        }
        say(&(bt_run_event){.type = BT_RUN_EVENT_STEP,
                            .as.step = {.step = step, .loss = loss, .tokens = 1, .host_ns = 1}});
        save(work, step + 1);
    }
    char digest[64];
    (void)snprintf(digest, sizeof digest, "%a%s", work->sum, acts(work, "digest", -1) ? "x" : "");
    say(&(bt_run_event){.type = BT_RUN_EVENT_RESULT,
                        .as.result = {.steps_done = work->steps, .params_digest = digest}});
    return BT_OK;
}

static bool read_line(bt_json_doc *out)
{
    char line[4096] = "";
    return fgets(line, sizeof line, stdin) &&
           bt_json_parse("task", line, strcspn(line, "\n"), out) == BT_OK;
}

// A spare gets its task twice; in between it is in its group.
static bt_status take_part(bt_json_doc *task, rank_work *work)
{
    const cJSON *keys = bt_json_get(task->root, "ranks");
    const bool spare = bt_json_get(task->root, "prepare");
    *work = (rank_work){.rank = (int)bt_json_number_of(keys, "rank"),
                        .size = (int)bt_json_number_of(keys, "size"),
                        .generation = (int)bt_json_number_of(keys, "generation"),
                        .folder = bt_json_get(task->root, "folder")->valuestring,
                        .act = bt_json_get(task->root, "act")->valuestring,
                        .act_rank = (int)bt_json_number_of(task->root, "act_rank"),
                        .act_step = (int)bt_json_number_of(task->root, "act_step"),
                        .steps = (int)bt_json_number_of(task->root, "steps"),
                        .hold_rank = (int)bt_json_number_of(task->root, "hold_rank"),
                        .hold_step = (int)bt_json_number_of(task->root, "hold_step"),
                        .waits = cJSON_IsTrue(bt_json_get(task->root, "waits"))};
    if (spare && strcmp(work->act, "spare-dies") == 0) {
        return bt_error(BT_STATUS_INTERNAL, "a spare dies");
    }
    BT_TRY(join(work, task->root));
    if (spare) {
        bt_json_doc again = {0};
        leave_mark(work, "spare-joined", work->rank);
        BT_TRY(read_line(&again) ? BT_OK : bt_error(BT_STATUS_INTERNAL, "no task"));
        bt_json_doc_release(&again);
        leave_mark(work, "spare-used", 0);
    }
    return work_on(work);
}

int launch_rank_main(void)
{
    bt_json_doc task = {0};
    rank_work work;
    if (!read_line(&task)) {
        return 2;
    }
    const bt_status status = take_part(&task, &work);
    if (status != BT_OK) {
        say(&(bt_run_event){.type = BT_RUN_EVENT_ERROR,
                            .as.error = {bt_status_text(status), bt_error_message()}});
    }
    bt_group_destroy(work.part);
    bt_group_destroy(work.group);
    bt_flight_detach(&work.flight);
    bt_json_doc_release(&task);
    return bt_status_exit_code(status);
}

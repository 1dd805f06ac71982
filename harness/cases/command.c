// harness/cases/command.c - a command case: any program, started for each call and timed
//
// The time of a call is the wall-clock time from before the program is started until it has ended.
// CPU time and peak memory are those of the program and of the children that it waited for (wait4).
//
// Invariants
//   1. Every call is checked, including warm-up calls: exit code, and the text that standard output
//      must contain. A call with an unexpected result fails the round; no time is reported.
//   2. Standard input is empty. Standard error goes to the round's log. Standard output is read
//      only if it is checked.
//   3. The program stays in the worker's process group, so it ends with a worker that is killed.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/environment.h"
#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/cases/cases.h"
#include "harness/stats/stats.h"
#include "harness/suite/json.h"

#define NS_PER_S         1000000000LL
#define SAY_EVERY_NS     NS_PER_S
#define INTERVAL_SHARE   0.01 // half-width of the interval of the mean at which sampling may end
#define SAMPLES_MAX      100000
#define OUTPUT_BYTES_MAX (64 << 20)
#define QUOTED_BYTES     120
#define PIPE_BYTES       65536

typedef struct program {
    const char **words; // owned, terminated by NULL; the texts belong to the plan
    const char *shown;  // the first word, or the line run by the shell
} program;

typedef struct command {
    program run, prepare;   // prepare.words NULL: nothing runs before a call
    const char *folder;     // NULL: the working directory
    const char *expected;   // text that standard output must contain; NULL: it is not read
    int exit_code;          // expected
    char **environment;     // borrowed: of this process
    double inject_slowdown; // fraction by which calls are made longer; 0: none
    bt_str output;          // of the call
} command;

typedef struct call {
    double wall_ns, cpu_ns;
    int64_t peak_resident_bytes;
    int state; // as wait4 returns it
} call;

typedef struct call_totals {
    double cpu_ns;
    int64_t peak_resident_bytes;
    double *walls_ns; // owned, [count]
    int64_t count, capacity, said;
    int64_t said_ns; // monotonic
} call_totals;

// ---- the program -------------------------------------------------------------------------------

// A text is a line for the shell; a list is a program and its arguments.
static bt_status read_program(const cJSON *node, program *out)
{
    const int count = cJSON_IsArray(node) ? cJSON_GetArraySize(node) : 3;
    if (!node) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_ARRAY(count + 1, &out->words));
    out->shown = cJSON_IsArray(node) ? node->child->valuestring : node->valuestring;
    if (cJSON_IsArray(node)) {
        int at = 0;
        for (const cJSON *word = node->child; word; word = word->next) {
            out->words[at++] = word->valuestring;
        }
    } else {
        out->words[0] = "/bin/sh";
        out->words[1] = "-c";
        out->words[2] = node->valuestring;
    }
    out->words[count] = NULL;
    return BT_OK;
}

static bt_status spawn(const command *self, const program *what, int output, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        code = code ? code : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (!code && self->folder) {
            code = posix_spawn_file_actions_addchdir_np(&actions, self->folder);
        }
        code = code ? code
                    : posix_spawnp(child, what->words[0], &actions, NULL,
                                   (char *const *)(uintptr_t)what->words, self->environment);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    return code == 0 ? BT_OK
                     : bt_error(BT_STATUS_UNAVAILABLE, "cannot start \"%.200s\"%s%s: %s",
                                what->shown, self->folder ? " in the folder " : "",
                                self->folder ? self->folder : "", strerror(code));
}

// Reads the output to its end; bytes after OUTPUT_BYTES_MAX are dropped.
static bt_status read_output(int from, bt_str *out)
{
    static char buffer[PIPE_BYTES];
    for (;;) {
        const ssize_t part = read(from, buffer, sizeof buffer);
        if (part == 0 || (part < 0 && errno != EINTR)) {
            return bt_str_status(out);
        }
        if (part > 0 && out->length_bytes < OUTPUT_BYTES_MAX) {
            bt_str_append_bytes(out, buffer, (size_t)part);
        }
    }
}

static bt_status wait_for(pid_t child, struct rusage *usage, int *state)
{
    while (wait4(child, state, 0, usage) < 0) {
        BT_FAIL_IF(errno != EINTR, BT_STATUS_INTERNAL, "waiting for the command: %s",
                   strerror(errno));
    }
    return BT_OK;
}

static void slow_down(double passed_ns, double share)
{
    const double ns = passed_ns * share;
    struct timespec pause = {(time_t)(ns / 1e9), (long)fmod(ns, 1e9)};
    while (share > 0 && nanosleep(&pause, &pause) != 0 && errno == EINTR) {
    }
}

// Runs the program once. `ends`: a pipe for its output, or its write end is /dev/null.
static bt_status run_once(command *self, const program *what, int ends[2], call *out)
{
    pid_t child = 0;
    struct rusage usage = {0};
    const int64_t from_ns = bt_clock_ns();
    bt_status status = spawn(self, what, ends[1], &child);
    (void)close(ends[1]);
    BT_TRY(status);
    if (ends[0] >= 0) {
        status = read_output(ends[0], &self->output);
    }
    BT_TRY(wait_for(child, &usage, &out->state));
    slow_down((double)(bt_clock_ns() - from_ns), self->inject_slowdown);
    out->wall_ns = (double)(bt_clock_ns() - from_ns);
    out->cpu_ns = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
    out->peak_resident_bytes = (int64_t)usage.ru_maxrss * 1024;
    return status;
}

static bt_status start_once(command *self, const program *what, bool reads, call *out)
{
    int ends[2] = {-1, -1};
    bt_str_clear(&self->output);
    BT_FAIL_IF(reads && pipe2(ends, O_CLOEXEC) != 0, BT_STATUS_IO,
               "cannot create a pipe for the command: %s", strerror(errno));
    ends[1] = reads ? ends[1] : open("/dev/null", O_WRONLY | O_CLOEXEC);
    BT_FAIL_IF(ends[1] < 0, BT_STATUS_IO, "/dev/null: %s", strerror(errno));
    bt_status status = run_once(self, what, ends, out);
    if (ends[0] >= 0) {
        (void)close(ends[0]);
    }
    return status;
}

// ---- the check ---------------------------------------------------------------------------------

static bt_status check_end(const program *what, int state, int expected)
{
    BT_FAIL_IF(WIFSIGNALED(state), BT_STATUS_INTERNAL,
               "\"%.200s\" was killed by signal %d; expected exit code %d", what->shown,
               WTERMSIG(state), expected);
    BT_FAIL_IF(WEXITSTATUS(state) != expected, BT_STATUS_INTERNAL,
               "\"%.200s\" ended with exit code %d%s; expected %d (command.exit_code)", what->shown,
               WEXITSTATUS(state),
               WEXITSTATUS(state) == 127 ? ", which a shell returns if it cannot find a command"
                                         : "",
               expected);
    return BT_OK;
}

// The beginning of a text, as one line of printable ASCII.
static void quote(const char *text, char out[QUOTED_BYTES + 1])
{
    size_t at = 0;
    for (; at < QUOTED_BYTES && text[at]; ++at) {
        out[at] = text[at] >= ' ' && text[at] <= '~' ? text[at] : ' ';
    }
    out[at] = '\0';
}

static bt_status check_output(const command *self)
{
    const char *text = self->expected ? bt_str_text(&self->output) : "";
    const size_t length = self->output.length_bytes;
    char quoted[QUOTED_BYTES + 1];
    if (!self->expected || memmem(text, length, self->expected, strlen(self->expected))) {
        return BT_OK;
    }
    quote(text, quoted);
    return bt_error(BT_STATUS_INTERNAL,
                    "\"%.200s\" printed %zu bytes without \"%.200s\", which command.output "
                    "requires; the output begins with \"%s\"",
                    self->run.shown, length, self->expected, quoted);
}

// A checked call, after its preparation.
static bt_status take_call(command *self, call *out)
{
    if (self->prepare.words) {
        call before = {0};
        const double slowdown = self->inject_slowdown;
        self->inject_slowdown = 0;
        BT_TRY(start_once(self, &self->prepare, false, &before));
        self->inject_slowdown = slowdown;
        BT_TRY(bt_error_context(check_end(&self->prepare, before.state, 0), "command.prepare"));
    }
    BT_TRY(start_once(self, &self->run, self->expected != NULL, out));
    BT_TRY(check_end(&self->run, out->state, self->exit_code));
    return check_output(self);
}

// ---- sampling ----------------------------------------------------------------------------------

static bt_status keep(call_totals *totals, const call *one)
{
    BT_TRY(BT_MEM_GROW(totals->count + 1, &totals->capacity, &totals->walls_ns));
    totals->walls_ns[totals->count++] = one->wall_ns;
    totals->cpu_ns += one->cpu_ns;
    if (one->peak_resident_bytes > totals->peak_resident_bytes) {
        totals->peak_resident_bytes = one->peak_resident_bytes;
    }
    return BT_OK;
}

// Reports new samples at most once a second, to show the progress of long calls.
static bt_status say_samples(call_totals *totals, const bt_case_listener *listener, bool all)
{
    const int64_t now_ns = bt_clock_ns();
    if ((!all && now_ns - totals->said_ns < SAY_EVERY_NS) || totals->said == totals->count) {
        return BT_OK;
    }
    BT_TRY(listener->samples(listener->train.self, totals->walls_ns + totals->said,
                             totals->count - totals->said));
    totals->said = totals->count;
    totals->said_ns = now_ns;
    return BT_OK;
}

// Why sampling may end now; NULL: it may not. The minimum number of calls is reached even if that
// takes longer than max_time_s.
static bt_status why_stop(const call_totals *totals, int64_t calls_min, double passed_s,
                          double max_time_s, const char **why)
{
    bt_stats stats;
    *why = NULL;
    if (totals->count < calls_min) {
        return BT_OK;
    }
    if (passed_s >= max_time_s) {
        *why = "time limit";
    } else if (totals->count >= SAMPLES_MAX) {
        *why = "sample limit";
    } else {
        BT_TRY(bt_stats_of(totals->walls_ns, totals->count, &stats));
        if (stats.mean_high - stats.mean_low <= 2 * INTERVAL_SHARE * stats.mean) {
            *why = "interval of the mean within 1 %";
        }
    }
    return BT_OK;
}

static bt_status take_samples(command *self, const cJSON *values, const bt_case_listener *listener,
                              call_totals *totals, const char **stop)
{
    const int64_t calls_min = (int64_t)bt_json_number_of(values, "calls");
    const double max_time_s = bt_json_number_of(values, "max_time_s");
    const int64_t from_ns = bt_clock_ns();
    int64_t next_look = calls_min;
    totals->said_ns = from_ns;
    while (!*stop) {
        call one = {0};
        BT_TRY(take_call(self, &one));
        BT_TRY(keep(totals, &one));
        BT_TRY(say_samples(totals, listener, false));
        const double passed_s = (double)(bt_clock_ns() - from_ns) / 1e9;
        if (totals->count >= next_look || passed_s >= max_time_s) {
            next_look = totals->count + totals->count / 8 + 1;
            BT_TRY(why_stop(totals, calls_min, passed_s, max_time_s, stop));
        }
        if (!*stop && listener->train.should_stop(listener->train.self)) {
            *stop = "interrupted";
        }
    }
    return say_samples(totals, listener, true);
}

static bt_status measure(command *self, const cJSON *values, const bt_case_listener *listener,
                         bt_train_result *result)
{
    call_totals totals = {0};
    const char *stop = NULL;
    const int64_t warmup = (int64_t)bt_json_number_of(values, "warmup");
    bt_status status = BT_OK;
    for (int64_t i = 0; status == BT_OK && i < warmup && !stop; ++i) {
        call one = {0};
        status = take_call(self, &one);
        stop = listener->train.should_stop(listener->train.self) ? "interrupted" : NULL;
    }
    BT_IF_OK(status, take_samples(self, values, listener, &totals, &stop));
    result->stopped = stop && strcmp(stop, "interrupted") == 0;
    if (status == BT_OK && totals.count > 0) {
        const bt_case_measured measured = {.error_share = (double)NAN,
                                           .calls_per_sample = 1,
                                           .stop = stop,
                                           .cpu_time_ns = totals.cpu_ns / (double)totals.count,
                                           .peak_resident_bytes = totals.peak_resident_bytes};
        status = listener->measured(listener->train.self, &measured);
    }
    bt_mem_free(totals.walls_ns);
    return status;
}

// $BT_BENCH is this program, so that a command can measure the build that runs it.
static char **environment_of_calls(void)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        (void)setenv("BT_BENCH", path, 1);
    }
    return bt_environment_all();
}

bt_status bt_case_run_command(const bt_case_work *work, const bt_case_listener *listener,
                              bt_train_result *result)
{
    const cJSON *values = bt_json_get(work->item, "command");
    command self = {.folder = bt_json_text_or_null(values, "folder"),
                    .expected = bt_json_text_or_null(values, "output"),
                    .exit_code = (int)bt_json_number_of(values, "exit_code"),
                    .environment = environment_of_calls(),
                    .inject_slowdown = work->inject_slowdown};
    bt_device device;
    BT_TRY(bt_device_open("cpu", 0, &device)); // names the processor
    const bt_train_start start = {.device = &device.info};
    bt_status status = listener->train.start(listener->train.self, &start);
    bt_device_close(&device);
    BT_IF_OK(status, read_program(bt_json_get(values, "run"), &self.run));
    BT_IF_OK(status, read_program(bt_json_get(values, "prepare"), &self.prepare));
    BT_IF_OK(status, measure(&self, values, listener, result));
    bt_mem_free(self.run.words);
    bt_mem_free(self.prepare.words);
    bt_str_release(&self.output);
    return status;
}

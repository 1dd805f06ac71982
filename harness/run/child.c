// harness/run/child.c - worker processes with pipes and poll
#include "harness/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "framework/base/mem.h"

// ---- signals -----------------------------------------------------------------------------------

static volatile sig_atomic_t interrupts, hang_ups;

static void count_interrupt(int number)
{
    (void)number;
    ++interrupts;
}

static void count_hang_up(int number)
{
    (void)number;
    ++hang_ups;
}

void bt_interrupt_watch(void)
{
    // Without SA_RESTART: poll returns when a signal arrives.
    struct sigaction action = {.sa_handler = count_interrupt};
    struct sigaction lost = {.sa_handler = count_hang_up, .sa_flags = SA_RESTART};
    interrupts = hang_ups = 0;
    (void)signal(SIGPIPE, SIG_IGN); // a worker may die while its input is written
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &lost, NULL);
}

int bt_interrupt_count(void) { return (int)interrupts; }

bool bt_interrupt_hung_up(void) { return hang_ups > 0; }

// ---- starting ----------------------------------------------------------------------------------

static bt_status failed(const char *what)
{
    return bt_error(BT_STATUS_IO, "cannot start a worker: %s: %s", what, strerror(errno));
}

// Arguments of a worker's start, prepared before the fork.
typedef struct worker_program {
    const char *path; // NULL: this program
    bool build;       // another bt-bench: its verb `worker` is run
    const bt_child_start *start;
    const char **environment; // owned
} worker_program;

// In the child: inherited descriptors, CPU affinity.
static void prepare(const bt_child_start *start)
{
    for (int i = 0; i < start->kept_count; ++i) {
        (void)fcntl(start->kept[i], F_SETFD, 0);
    }
    if (start->processors) {
        (void)sched_setaffinity(0, sizeof *start->processors, start->processors);
    }
}

// In the child, after fork: only async-signal-safe calls.
static void become_worker(const worker_program *program, int input, int output, int errors,
                          pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); // the recorder died in between
    }
    static const int defaults[] = {SIGINT, SIGTERM, SIGPIPE};
    for (int i = 0; i < 3; ++i) {
        (void)signal(defaults[i], SIG_DFL);
    }
    prepare(program->start);
    (void)signal(SIGHUP, SIG_IGN); // it survives the terminal, like its recorder
    (void)dup2(input, STDIN_FILENO);
    (void)dup2(output, STDOUT_FILENO);
    (void)dup2(errors, STDERR_FILENO);
    // exec takes pointers to char for compatibility; it does not write.
    char *const *environment = (char *const *)(uintptr_t)program->environment;
    const char *const words[] = {program->path ? program->path : "bt-bench",
                                 program->path && !program->build ? NULL : "worker", NULL};
    (void)execvpe(program->path ? program->path : "/proc/self/exe", (char *const *)(uintptr_t)words,
                  environment);
    static const char message[] = "cannot start the worker program\n";
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    _exit(written < 0 ? 126 : 127);
}

// A pipe whose end on our side, `mine`, is non-blocking.
static bt_status open_pipe(int ends[2], int mine)
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return failed("no pipe");
    }
    (void)fcntl(ends[mine], F_SETFL, O_NONBLOCK);
    return BT_OK;
}

static bt_status fork_worker(const worker_program *program, bt_child *out)
{
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1};
    bt_status status = open_pipe(input, 1);
    BT_IF_OK(status, open_pipe(output, 0));
    BT_IF_OK(status, open_pipe(errors, 0));
    if (status != BT_OK) {
        for (int i = 0; i < 2; ++i) {
            bt_child_close(&input[i]);
            bt_child_close(&output[i]);
        }
        return status;
    }
    pid_t parent = getpid();
    pid_t process = fork();
    if (process == 0) {
        become_worker(program, input[0], output[1], errors[1], parent);
    }
    status = process < 0 ? failed("no process") : BT_OK;
    bt_child_close(&input[0]);
    bt_child_close(&output[1]);
    bt_child_close(&errors[1]);
    out->input = input[1];
    out->output = output[0];
    out->errors = errors[0];
    out->process = process < 0 ? 0 : process;
    if (process > 0) {
        (void)setpgid(process, process); // whichever of the two is first
    }
    return status;
}

static bt_status open_log(const char *path, bt_child *out)
{
    if (!path) {
        return BT_OK;
    }
    out->log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return out->log < 0 ? bt_error(BT_STATUS_IO, "cannot create %s: %s", path, strerror(errno))
                        : BT_OK;
}

bt_status bt_child_begin(const bt_child_start *start, bt_child *out)
{
    worker_program worker = {.path = start->program, .build = start->build, .start = start};
    memset(out, 0, sizeof *out);
    out->input = out->output = out->errors = out->log = -1;
    (void)snprintf(out->prefix, sizeof out->prefix, "%s", start->prefix ? start->prefix : "");
    bt_status status = bt_child_env_make(&worker.environment);
    BT_IF_OK(status, open_log(start->log_path, out));
    BT_IF_OK(status, fork_worker(&worker, out));
    bt_mem_free(worker.environment);
    if (status != BT_OK) {
        bt_child_release(out);
    }
    return status;
}

bt_status bt_child_spawn(const char *program, bool build, const char *log_path, bt_child *out)
{
    return bt_child_begin(
        &(bt_child_start){.program = program, .build = build, .log_path = log_path}, out);
}

bt_status bt_child_give(bt_child *child, const char *task)
{
    bt_str_append(&child->task, task);
    bt_str_append(&child->task, "\n");
    return bt_str_status(&child->task);
}

// ---- input and output --------------------------------------------------------------------------

// Writes as much as the pipe accepts. A worker that has closed its input gets nothing more.
static void feed(bt_child *child)
{
    size_t left = child->task.length_bytes - child->task_done;
    ssize_t part = write(child->input, bt_str_text(&child->task) + child->task_done, left);
    if (part > 0) {
        child->task_done += (size_t)part;
    } else if (part < 0 && errno != EAGAIN && errno != EINTR) {
        bt_child_close(&child->input);
    }
}

static bool has_task_left(const bt_child *child)
{
    return child->input >= 0 && child->task_done < child->task.length_bytes;
}

// Takes a line out of the buffer; false if there is none yet.
static bool take_line(bt_child *child, bt_child_line *line)
{
    char *start = child->buffer + child->taken;
    size_t left = child->length - child->taken;
    char *newline = left ? memchr(start, '\n', left) : NULL;
    if (!newline) {
        return false;
    }
    *line = (bt_child_line){start, (size_t)(newline - start), true};
    child->taken += line->size_bytes + 1;
    return true;
}

// Moves the remaining bytes to the front and makes space after them.
static bt_status make_room(bt_child *child)
{
    size_t left = child->length - child->taken;
    if (child->taken && left) {
        memmove(child->buffer, child->buffer + child->taken, left);
    }
    child->taken = 0;
    child->length = left;
    if (child->capacity - left < 4096) {
        void *block = child->buffer;
        BT_TRY(bt_mem_resize(&block, child->capacity + 16384, 1));
        child->buffer = block;
        child->capacity += 16384;
    }
    return BT_OK;
}

// Reads available bytes. *more false: the output has ended.
static bt_status receive(bt_child *child, bool *more)
{
    *more = true;
    BT_TRY(make_room(child));
    ssize_t part =
        read(child->output, child->buffer + child->length, child->capacity - child->length);
    if (part > 0) {
        child->length += (size_t)part;
    } else if (part == 0) {
        *more = false;
    } else if (errno != EAGAIN && errno != EINTR) {
        return bt_error(BT_STATUS_IO, "cannot read from the worker: %s", strerror(errno));
    }
    return BT_OK;
}

static bt_child_said take_rest(bt_child *child, bt_child_line *line)
{
    *line = (bt_child_line){child->buffer + child->taken, child->length - child->taken, false};
    child->taken = child->length;
    return line->size_bytes ? BT_CHILD_LINE : BT_CHILD_END;
}

bt_status bt_child_listen(bt_child *child, int timeout_ms, size_t size_bytes_max,
                          bt_child_said *said, bt_child_line *line)
{
    *said = BT_CHILD_LINE;
    if (take_line(child, line)) {
        return BT_OK;
    }
    BT_FAIL_IF(child->length - child->taken > size_bytes_max, BT_STATUS_CORRUPT_DATA,
               "the worker printed a line of more than %zu bytes", size_bytes_max);
    // An end that is closed, or has nothing to do, is -1: poll ignores it.
    struct pollfd watched[3] = {
        {.fd = child->output, .events = POLLIN},
        {.fd = child->errors, .events = POLLIN},
        {.fd = has_task_left(child) ? child->input : -1, .events = POLLOUT}};
    int ready = child->output < 0 ? 0 : poll(watched, 3, timeout_ms);
    if (ready > 0 && watched[2].revents) {
        feed(child);
    }
    if (ready > 0 && watched[1].revents) {
        bt_child_log_take(child);
    }
    bool more = child->output >= 0;
    // If a worker is dead but its children hold its output open, the output counts as ended once
    // everything is read: it may have written and died since poll returned.
    bool dead = ready == 0 && bt_child_wait(child, 0);
    if (more && (dead || watched[0].revents)) {
        size_t had = child->length - child->taken;
        BT_TRY(receive(child, &more));
        dead = dead && child->length - child->taken == had;
        if (more && take_line(child, line)) {
            return BT_OK;
        }
    }
    if (!more || dead) {
        bt_child_close(&child->output);
        *said = take_rest(child, line);
        return BT_OK;
    }
    *said = BT_CHILD_NOTHING;
    return BT_OK;
}

void bt_child_ask_stop(bt_child *child)
{
    if (child->input >= 0) {
        bt_str_append(&child->task, "{\"stop\":true}\n");
        feed(child);
    }
}

// ---- ending ------------------------------------------------------------------------------------

void bt_child_kill(bt_child *child)
{
    if (child->process > 0 && !child->ended) {
        (void)kill(-child->process, SIGKILL);
        (void)kill(child->process, SIGKILL); // in case it does not lead its group yet
    }
}

bool bt_child_wait(bt_child *child, int timeout_ms)
{
    int64_t until = bt_clock_ns() + (int64_t)timeout_ms * 1000000;
    while (!child->ended && child->process > 0) {
        bt_child_log_take(child);
        pid_t got = waitpid(child->process, &child->state, WNOHANG);
        child->ended = got == child->process || (got < 0 && errno == ECHILD);
        if (child->ended) {
            (void)kill(-child->process, SIGKILL); // remaining processes of its group
            bt_child_log_finish(child);
        }
        if (child->ended || bt_clock_ns() >= until) {
            break;
        }
        struct timespec pause = {0, 2000000};
        (void)nanosleep(&pause, NULL);
    }
    return child->ended;
}

void bt_child_describe_end(const bt_child *child, bt_str *out)
{
    if (WIFSIGNALED(child->state)) {
        const char *name = sigabbrev_np(WTERMSIG(child->state));
        bt_str_format(out, "was killed by SIG%s", name ? name : "?");
    } else {
        bt_str_format(out, "ended with code %d", WEXITSTATUS(child->state));
    }
}

void bt_child_release(bt_child *child)
{
    if (child->process > 0 && !child->ended) {
        bt_child_kill(child);
        (void)bt_child_wait(child, 5000);
    }
    bt_child_close(&child->input);
    bt_child_close(&child->output);
    bt_child_close(&child->errors);
    bt_child_close(&child->log);
    bt_str_release(&child->task);
    bt_str_release(&child->words);
    bt_mem_free(child->buffer);
    bt_mem_free(child->log_end);
    memset(child, 0, sizeof *child);
    child->input = child->output = child->errors = child->log = -1;
}

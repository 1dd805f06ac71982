// harness/run/child.h - a worker process: start, input, output, stop, wait
//
// Invariants
//   1. The worker has its own process group: Ctrl-C reaches only the recorder, which then asks the
//      worker to stop.
//   2. The kernel kills the worker when the recorder dies (and its input ends).
//   3. The log holds the first MiB of the worker's standard error, and the last 16 KiB. With a
//      prefix, its standard error is copied to ours line by line instead, each line after the
//      prefix; nothing is lost when the worker dies.
//   4. No function blocks for longer than its timeout, whatever the worker does.
#ifndef BT_HARNESS_RUN_CHILD_H
#define BT_HARNESS_RUN_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

typedef struct bt_child {
    pid_t process;             // 0: none
    int input, output, errors; // our ends of its pipes; -1: closed
    int log;                   // file of its standard error; -1: closed
    int64_t log_bytes;         // of its standard error so far
    char *log_end;             // owned, ring buffer of the last bytes; NULL until the log is full
    char prefix[24];           // of the lines of its standard error; "": they go to the log
    bt_str words;              // owned; an incomplete last line
    bt_str task;               // owned; its input, of which task_done bytes have been written
    size_t task_done;
    char *buffer; // owned, [capacity]; its output, of which `taken` bytes have been consumed
    size_t capacity, length, taken;
    bool ended; // it has been waited for; `state` is waitpid's
    int state;
} bt_child;

typedef enum bt_child_said {
    BT_CHILD_LINE,    // a line, see out parameters
    BT_CHILD_NOTHING, // timeout, or a signal was received
    BT_CHILD_END      // it exited or closed its output
} bt_child_said;

typedef struct bt_child_line {
    const char *text; // [size_bytes], without its newline; borrowed until the next call
    size_t size_bytes;
    bool complete; // false: a last line without newline
} bt_child_line;

// Closes a descriptor, after which it is -1; -1: nothing.
static inline void bt_child_close(int *end)
{
    if (*end >= 0) {
        (void)close(*end);
        *end = -1;
    }
}

// How a worker is started.
typedef struct bt_child_start {
    const char *program;  // NULL: this program's own worker
    bool build;           // the program is another bt-bench: runs its verb `worker`
    const char *log_path; // file for its standard error; NULL: none
    const char *prefix;   // not "": it is copied to ours instead, each line after this text
    const int *kept;      // [kept_count] descriptors that it inherits under the same numbers
    int kept_count;
    const cpu_set_t *processors; // CPU affinity; NULL: all
} bt_child_start;

// Starts a worker, which waits for its task.
// Owns    *out: the caller, bt_child_release, which kills the process if it still runs
// Errors  IO
BT_CHECKED bt_status bt_child_begin(const bt_child_start *start, bt_child *out);
// The same with only a program, and its standard error in the file `log_path`.
BT_CHECKED bt_status bt_child_spawn(const char *program, bool build, const char *log_path,
                                    bt_child *out);
// Sets `task` and a newline as its input, which bt_child_listen writes.
BT_CHECKED bt_status bt_child_give(bt_child *child, const char *task);
// Waits up to timeout_ms for a line. *line is set where *said is LINE.
// Errors  CORRUPT_DATA (a line longer than size_bytes_max), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_child_listen(bt_child *child, int timeout_ms, size_t size_bytes_max,
                                     bt_child_said *said, bt_child_line *line);
// Asks it to stop after its current step: a line on its input.
void bt_child_ask_stop(bt_child *child);
void bt_child_kill(bt_child *child);
// Whether it has exited, waiting up to timeout_ms. If so, its log is complete.
bool bt_child_wait(bt_child *child, int timeout_ms);
// How it exited: "ended with code 3", "was killed by SIGKILL". Only after it has exited.
void bt_child_describe_end(const bt_child *child, bt_str *out);
void bt_child_release(bt_child *child);

// ---- child_log.c -------------------------------------------------------------------------------

// Copies standard error to the log, or to ours, a bounded amount at once, so that a flood cannot
// delay reading the output. Never blocks; the log is truncated if it cannot be written.
void bt_child_log_take(bt_child *child);
// The same, then appends what is left, and closes pipe and log.
void bt_child_log_finish(bt_child *child);

// ---- child_env.c -------------------------------------------------------------------------------

// The entries "NAME=value" of this process that a worker gets, by an allow-list, and how threads of
// OpenMP wait unless this process has GOMP_SPINCOUNT or OMP_WAIT_POLICY; terminated by NULL.
// Owns    *out: the caller, bt_mem_free; the entries are borrowed from this process
BT_CHECKED bt_status bt_child_env_make(const char ***out);

// ---- signals -----------------------------------------------------------------------------------

// From now on SIGINT and SIGTERM are counted instead of ending the process. SIGHUP is recorded and
// otherwise ignored: a run continues when its terminal is closed.
void bt_interrupt_watch(void);
// Number of SIGINT and SIGTERM since then.
int bt_interrupt_count(void);
// Whether the terminal was closed.
bool bt_interrupt_hung_up(void);

#endif

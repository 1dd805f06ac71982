// harness/run/child.h - a worker process: started, fed, listened to, stopped, buried
//
// Invariants
//   1. The worker is in a process group of its own: Ctrl-C reaches the recorder alone, which then
//      asks the worker to stop.
//   2. The kernel kills the worker when the recorder dies (and its input ends).
//   3. The log holds the first MiB of what the worker printed as errors, and the last 16 KiB.
//   4. Nothing here blocks for longer than the timeout that it was given, whatever the worker does.
#ifndef BT_HARNESS_RUN_CHILD_H
#define BT_HARNESS_RUN_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

typedef struct bt_child {
    pid_t process;             // 0: none
    int input, output, errors; // our ends of its pipes; -1: closed
    int log;                   // file of its standard error; -1: closed
    int64_t log_bytes;         // of its standard error so far
    char *log_end;             // owned, a ring of the last bytes; NULL until the log is full
    bt_str task;               // owned; what it is given, from task_done on still to be written
    size_t task_done;
    char *buffer; // owned, [capacity]; what it said and nobody took yet, from `taken` on
    size_t capacity, length, taken;
    bool ended; // it is dead and buried; `state` is waitpid's
    int state;
} bt_child;

typedef enum bt_child_said {
    BT_CHILD_LINE,    // a line, see out parameters
    BT_CHILD_NOTHING, // the timeout passed, or a signal came
    BT_CHILD_END      // it ended, or its output did
} bt_child_said;

// How a worker is started.
typedef struct bt_child_start {
    const char *program;  // NULL: this program's own worker
    bool build;           // another bt-bench: its verb `worker` is run
    const char *log_path; // file for its standard error; NULL: the caller reads child->errors
    const int *kept;      // [kept_count] descriptors that it inherits under the same numbers
    int kept_count;
    const cpu_set_t *processors; // on which it may run; NULL: on all
} bt_child_start;

// Starts a worker, which waits for its task.
// Owns    *out: the caller, bt_child_release, which kills what still lives
// Errors  IO
BT_CHECKED bt_status bt_child_begin(const bt_child_start *start, bt_child *out);
// The same for a program alone, with its standard error in the file `log_path`.
BT_CHECKED bt_status bt_child_spawn(const char *program, bool build, const char *log_path,
                                    bt_child *out);
// Gives it `task` and a newline as its input, which bt_child_listen writes.
BT_CHECKED bt_status bt_child_give(bt_child *child, const char *task);
// Waits up to timeout_ms for a line. *line is borrowed until the next call; a line without newline
// at the end of the output has *complete false.
// Errors  CORRUPT_DATA (a line longer than size_bytes_max), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_child_listen(bt_child *child, int timeout_ms, size_t size_bytes_max,
                                     bt_child_said *said, const char **line, size_t *size_bytes,
                                     bool *complete);
// Asks it to stop after what it is doing: a line on its input.
void bt_child_ask_stop(bt_child *child);
void bt_child_kill(bt_child *child);
// Whether it has ended, waiting up to timeout_ms. When it has, its log is whole.
bool bt_child_wait(bt_child *child, int timeout_ms);
// How it ended: "ended with code 3", "was killed by SIGKILL". Only after it has ended.
void bt_child_describe_end(const bt_child *child, bt_str *out);
void bt_child_release(bt_child *child);

// ---- child_log.c -------------------------------------------------------------------------------

// Takes what the pipe of errors holds, at most so much at once that a flood cannot keep us from the
// output. Never blocks; a log that cannot be written is cut off there.
void bt_child_log_take(bt_child *child);
// The same, and the end of the log behind it. Both are closed.
void bt_child_log_finish(bt_child *child);

// ---- signals -----------------------------------------------------------------------------------

// From now on SIGINT and SIGTERM are counted instead of ending the process. SIGHUP is noted and
// otherwise ignored: a run goes on when its terminal is lost.
void bt_interrupt_watch(void);
// How many came since then, SIGHUP apart.
int bt_interrupt_count(void);
// Whether the terminal was lost: nobody reads what is printed there.
bool bt_interrupt_hung_up(void);

#endif

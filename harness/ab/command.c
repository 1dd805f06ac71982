// harness/ab/command.c - runs another program to its end
#include "harness/ab/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/run/child.h"

enum { EXIT_NOT_STARTED = 127, EXIT_SIGNALLED = 128 };

// In the child: only async-signal-safe calls between fork and exec.
static void become(const char *const *arguments, const char *const *environment, int log,
                   int output)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(output >= 0 ? output : log >= 0 ? log : nothing, STDOUT_FILENO);
    (void)dup2(log >= 0 ? log : nothing, STDERR_FILENO);
    // execvpe does not modify its arguments; its type predates const.
    execvpe(arguments[0], (char *const *)(uintptr_t)arguments,
            (char *const *)(uintptr_t)environment);
    _exit(EXIT_NOT_STARTED);
}

static bt_status read_all(int from, bt_str *output)
{
    char bytes[4096];
    for (;;) {
        ssize_t part = read(from, bytes, sizeof bytes);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            return bt_str_status(output);
        }
        bt_str_append_bytes(output, bytes, (size_t)part);
    }
}

static int wait_for(pid_t process)
{
    int state = 0;
    while (waitpid(process, &state, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(state) ? EXIT_SIGNALLED + WTERMSIG(state) : WEXITSTATUS(state);
}

static bt_status start(const char *const *arguments, const char *const *environment, int log,
                       bt_str *output, int *code)
{
    int ends[2] = {-1, -1};
    BT_FAIL_IF(output && pipe2(ends, O_CLOEXEC) != 0, BT_STATUS_IO,
               "cannot create a pipe for %s: %s", arguments[0], strerror(errno));
    pid_t process = fork();
    if (process == 0) {
        become(arguments, environment, log, ends[1]);
    }
    bt_status status = process > 0 ? BT_OK
                                   : bt_error(BT_STATUS_IO, "cannot create a process for %s: %s",
                                              arguments[0], strerror(errno));
    if (output) {
        close(ends[1]);
        BT_IF_OK(status, read_all(ends[0], output));
        close(ends[0]);
    }
    if (process > 0) {
        *code = wait_for(process);
    }
    return status;
}

bt_status bt_command_run(const char *const *arguments, const char *log_path, bt_str *output,
                         int *code)
{
    int log = -1;
    *code = EXIT_NOT_STARTED;
    if (log_path) {
        log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        BT_FAIL_IF(log < 0, BT_STATUS_IO, "cannot write %s: %s", log_path, strerror(errno));
    }
    const char **environment = NULL;
    bt_status status = bt_child_env_make(&environment);
    BT_IF_OK(status, start(arguments, environment, log, output, code));
    bt_mem_free(environment);
    if (log >= 0) {
        close(log);
    }
    return status;
}

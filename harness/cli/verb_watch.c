// harness/cli/verb_watch.c - watch: a run in progress
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/environment.h"
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/text/wrap.h"
#include "harness/watch/watch.h"

enum { POLL_MS = 500, PLAIN_EVERY_S = 10, ROWS_MAX = 14 };

typedef enum watch_form { FORM_BLOCK, FORM_PLAIN, FORM_JSON } watch_form;

typedef struct watching {
    bt_store *store; // borrowed
    int64_t run;
    watch_form form;
    bool once;
    bool begun;         // something has been printed
    bt_watch_mark mark; // of what was printed last
    int lines, columns; // of the block on the screen; 0: none
    int64_t seen;       // rounds reported
    int64_t shown_ns;   // monotonic, of the last plain line
    bt_run_status status;
} watching;

// Plain lines unless this is a terminal that can redraw.
static bool on_terminal(void)
{
    const char *terminal = bt_environment(BT_VARIABLE_TERM);
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

// Redraws the block on the screen. After a change of width the terminal has reflowed the old lines
// unpredictably: then a new block is started.
static bt_status draw_block(watching *self, const bt_watch_view *view, bt_str *out)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    int columns = size.ws_col > 1 ? size.ws_col - 1 : 79;
    int rows = size.ws_row > 2 && size.ws_row - 1 < ROWS_MAX ? size.ws_row - 1 : ROWS_MAX;
    BT_SCOPED(bt_str) block = {0};
    bt_status status = bt_watch_block(view, columns, rows, &block);
    if (self->lines > 0 && self->columns == columns) {
        bt_str_format(out, "\033[%dA", self->lines);
    }
    self->lines = 0;
    self->columns = columns;
    for (const char *at = bt_str_text(&block); status == BT_OK && *at; ++self->lines) {
        size_t length = strcspn(at, "\n");
        bt_str_append_bytes(out, at, length);
        bt_str_append(out, "\033[K\n");
        at += length + 1;
    }
    bt_str_append(out, "\033[J");
    return status == BT_OK ? bt_str_status(out) : status;
}

static bt_status show_plain(watching *self, const bt_watch_view *view, bt_str *out)
{
    int64_t now_ns = bt_clock_ns();
    if (!self->begun) {
        BT_TRY(bt_watch_heading(view, out));
    }
    BT_TRY(bt_watch_ended(view, &self->seen, out));
    if (!self->begun || now_ns - self->shown_ns >= PLAIN_EVERY_S * 1000000000LL) {
        self->shown_ns = now_ns;
        BT_TRY(bt_watch_line(view, out));
    }
    return bt_str_status(out);
}

static bt_status show(watching *self, const bt_watch_view *view, bt_str *out)
{
    bt_watch_mark mark = bt_watch_mark_of(view);
    bool changed = !self->begun || !bt_watch_mark_equal(&mark, &self->mark);
    self->mark = mark;
    switch (self->form) {
    case FORM_BLOCK:
        BT_TRY(draw_block(self, view, out));
        break;
    case FORM_PLAIN:
        BT_TRY(show_plain(self, view, out));
        break;
    case FORM_JSON:
        BT_TRY(changed ? bt_watch_json(view, out) : BT_OK);
        break;
    }
    self->begun = true;
    bool over = view->live->status != BT_RUN_RUNNING;
    const size_t end = out->length_bytes;
    BT_TRY(over && self->form != FORM_JSON ? bt_watch_end(view, out) : BT_OK);
    bt_wrap_from(out, end, self->columns);
    return bt_str_status(out);
}

// Reads and prints once. *gone: the reader of the output is gone.
static bt_status look(watching *self, bool *gone)
{
    BT_SCOPED(bt_store_live) live = {0};
    bt_watch_view view;
    BT_SCOPED(bt_str) out = {0};
    BT_TRY(bt_store_live_read(self->store, self->run, &live));
    bt_status status = bt_watch_look(&live, bt_clock_wall_ns(), &view);
    BT_IF_OK(status, show(self, &view, &out));
    if (status == BT_OK && out.length_bytes > 0) {
        errno = 0;
        *gone = fwrite(bt_str_text(&out), 1, out.length_bytes, stdout) != out.length_bytes ||
                fflush(stdout) != 0;
    }
    self->status = live.status;
    return status;
}

// The run given by the user, or the newest one in progress.
static bt_status choose(const bt_cli_arguments *arguments, watching *self)
{
    int64_t last = 0;
    if (arguments->word_count) {
        return bt_cli_run_in(self->store, arguments->words[0], &self->run);
    }
    BT_TRY(bt_store_newest_running(self->store, &self->run));
    if (self->run) {
        return BT_OK;
    }
    BT_TRY(bt_store_newest(self->store, &last));
    return last ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                           "%s: no run is running; the last is %lld, 'bt-bench show %lld'",
                           bt_store_path(self->store), (long long)last, (long long)last)
                : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run is recorded yet",
                           bt_store_path(self->store));
}

static bt_status watch(watching *self)
{
    static const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    bool gone = false;
    for (;;) {
        BT_TRY(look(self, &gone));
        if (gone || self->once || self->status != BT_RUN_RUNNING) {
            return BT_OK;
        }
        (void)nanosleep(&pause, NULL);
    }
}

bt_status bt_verb_watch(bt_cli_call *call)
{
    watching self = {.once = bt_cli_value(call->arguments, "once") != NULL};
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    self.store = call->store;
    BT_TRY(choose(call->arguments, &self));
    self.form = call->json ? FORM_JSON : on_terminal() && !self.once ? FORM_BLOCK : FORM_PLAIN;
    BT_TRY(watch(&self));
    call->code = bt_watch_exit_code(self.status);
    return BT_OK;
}

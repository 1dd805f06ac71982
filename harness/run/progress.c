// harness/run/progress.c - the line on the terminal
#include "harness/run/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/environment.h"

#define NS_PER_S      1000000000LL
#define PLAIN_EVERY_S 10
#define SILENCE_S     60

void bt_progress_open(bt_progress_view *view, bool quiet)
{
    memset(view, 0, sizeof *view);
    view->out = quiet ? NULL : stderr;
    const char *terminal = bt_environment(BT_VARIABLE_TERM);
    view->terminal = !quiet && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
    view->heard_ns = bt_clock_ns();
}

void bt_progress_pause(bt_progress_view *view)
{
    if (view->line_open) {
        fputc('\n', view->out);
        view->line_open = false;
    }
}

void bt_progress_say(bt_progress_view *view, const char *format, ...)
{
    if (!view->out) {
        return;
    }
    bt_progress_pause(view);
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(view->out, format, arguments);
    va_end(arguments);
    fflush(view->out);
}

void bt_progress_round(bt_progress_view *view, const char *label, int64_t steps)
{
    if (steps > 0) { // lines of kernel cases go on from one to the next
        bt_progress_pause(view);
        view->shown_ns = 0;
    }
    (void)snprintf(view->label, sizeof view->label, "%s", label);
    view->steps = steps;
    view->started_ns = 0;
    view->rate_tok_s = 0;
    view->heard_ns = bt_clock_ns();
}

// Columns of the terminal; a line that wrapped could not be rewritten.
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void show(bt_progress_view *view, const char *text)
{
    if (view->terminal) {
        fprintf(view->out, "\r%.*s\033[K", columns(), text);
        view->line_open = true;
    } else {
        fprintf(view->out, "%s\n", text);
    }
    fflush(view->out);
    view->shown_ns = bt_clock_ns();
}

static void append_left(int64_t left_ns, bt_str *out)
{
    long long seconds = left_ns / NS_PER_S;
    if (seconds >= 3600) {
        bt_str_format(out, "   %lld:%02lld:%02lld left", seconds / 3600, seconds / 60 % 60,
                      seconds % 60);
    } else {
        bt_str_format(out, "   %lld:%02lld left", seconds / 60, seconds % 60);
    }
}

static void show_step(bt_progress_view *view, const bt_store_step *step, int64_t now_ns)
{
    bt_str text = {0};
    int64_t memory = step->reserved_bytes ? step->reserved_bytes : step->resident_bytes;
    bt_str_format(&text, "%-8s step %4lld/%lld  loss %.3f  norm %.2f  lr %.1e   ", view->label,
                  (long long)step->step + 1, (long long)view->steps, (double)step->loss,
                  (double)step->grad_norm, step->lr);
    bt_str_format(&text, view->rate_tok_s < 10000 ? "%.0f tok/s" : "%.0fK tok/s",
                  view->rate_tok_s < 10000 ? view->rate_tok_s : view->rate_tok_s / 1000);
    bt_str_format(&text, "   %.1f GiB", (double)memory / 1073741824.0);
    int64_t done = step->step + 1;
    if (view->started_ns && done < view->steps) {
        append_left((now_ns - view->started_ns) / (done - view->first_step) * (view->steps - done),
                    &text);
    }
    if (bt_str_status(&text) == BT_OK) {
        show(view, bt_str_text(&text));
    }
    bt_str_release(&text);
}

void bt_progress_event_seen(bt_progress_view *view, const bt_run_event *event)
{
    int64_t now_ns = bt_clock_ns();
    view->heard_ns = now_ns;
    if (event->type == BT_RUN_EVENT_FAULT) {
        const bt_store_fault *fault = &event->as.fault;
        bt_progress_say(view, "fault     %s step %lld: %s, %s%s%s\n", view->label,
                        (long long)fault->step, fault->kind, fault->action,
                        fault->message[0] ? ": " : "", fault->message);
    }
    if (event->type == BT_RUN_EVENT_START) {
        view->first_step = event->as.start.first_step;
    }
    if (!view->out || event->type != BT_RUN_EVENT_STEP) {
        return;
    }
    const bt_store_step *step = &event->as.step;
    if (!view->started_ns) {
        view->started_ns = now_ns - step->host_ns;
    }
    if (step->host_ns > 0 && !step->profiled) {
        double rate = (double)step->tokens * 1e9 / (double)step->host_ns;
        bool first = !(view->rate_tok_s > 0) || step->warmup;
        view->rate_tok_s = first ? rate : 0.8 * view->rate_tok_s + 0.2 * rate;
    }
    bool last = step->step + 1 == view->steps;
    int64_t every_ns = view->terminal ? NS_PER_S / 10 : PLAIN_EVERY_S * NS_PER_S;
    if (last || !view->shown_ns || now_ns - view->shown_ns >= every_ns) {
        show_step(view, step, now_ns);
    }
}

void bt_progress_case(bt_progress_view *view, int64_t done, int64_t total)
{
    int64_t now_ns = bt_clock_ns();
    view->began_ns = view->began_ns ? view->began_ns : now_ns;
    if (!view->out ||
        (!view->terminal && view->shown_ns && now_ns - view->shown_ns < PLAIN_EVERY_S * NS_PER_S)) {
        return;
    }
    bt_str text = {0};
    bt_str_format(&text, "case %4lld/%lld  %s", (long long)done + 1, (long long)total, view->label);
    if (done > 0) {
        append_left((now_ns - view->began_ns) / done * (total - done), &text);
    }
    if (bt_str_status(&text) == BT_OK) {
        show(view, bt_str_text(&text));
    }
    bt_str_release(&text);
}

void bt_progress_silence(bt_progress_view *view)
{
    int64_t now_ns = bt_clock_ns();
    int64_t silent_s = (now_ns - view->heard_ns) / NS_PER_S;
    if (!view->out || silent_s < SILENCE_S || now_ns - view->shown_ns < PLAIN_EVERY_S * NS_PER_S) {
        return;
    }
    char text[240];
    (void)snprintf(text, sizeof text,
                   "%-8s the worker has said nothing for %lld s (Ctrl-C asks it to stop)",
                   view->label, (long long)silent_s);
    show(view, text);
}

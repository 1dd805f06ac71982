// harness/run/progress.c - the progress line on the terminal
#include "harness/run/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/environment.h"
#include "framework/base/scoped.h"
#include "harness/stats/stats.h"
#include "harness/text/format.h"
#include "harness/text/wrap.h"

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

// Columns of the terminal without the last; a wrapped line could not be rewritten.
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

int bt_progress_columns(const bt_progress_view *view) { return view->terminal ? columns() : 0; }

void bt_progress_pause(bt_progress_view *view)
{
    if (view->line_open) {
        fputc('\n', view->out);
        view->line_open = false;
    }
}

// Breaks the text at words into lines of the terminal.
BT_PRINTF(2, 0)
static void say_wrapped(bt_progress_view *view, const char *format, va_list arguments)
{
    BT_SCOPED(bt_str) lines = {0};
    BT_SCOPED_MEM(char *) text = NULL;
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length >= 0 && bt_mem_alloc((size_t)length + 1, 1, (void **)&text) == BT_OK) {
        (void)vsnprintf(text, (size_t)length + 1, format, arguments);
        bt_wrap_text(text, columns(), BT_WRAP_LABEL, &lines);
        (void)fputs(bt_str_text(&lines), view->out);
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
    if (view->terminal) {
        say_wrapped(view, format, arguments);
    } else {
        (void)vfprintf(view->out, format, arguments);
    }
    va_end(arguments);
    fflush(view->out);
}

// The bytes of a line that fit, without a value that would be cut: values are two spaces apart.
static int fitting(const char *text)
{
    const int width = columns();
    if (bt_wrap_width(text, strlen(text)) <= width) {
        return (int)strlen(text);
    }
    for (int end = width; end > 0; end--) {
        if (text[end - 1] != ' ' && strncmp(text + end, "  ", 2) == 0) {
            return end;
        }
    }
    return width;
}

static void show(bt_progress_view *view, const char *text)
{
    if (view->terminal) {
        fprintf(view->out, "\r%.*s\033[K", fitting(text), text);
        view->line_open = true;
    } else {
        fprintf(view->out, "%s\n", text);
    }
    fflush(view->out);
    view->shown_ns = bt_clock_ns();
}

// Activity of a training round before its first step, which may take long for a large model.
static void show_phase(bt_progress_view *view, const char *phase)
{
    BT_SCOPED(bt_str) text = {0};
    bt_str_format(&text, "%-8s %s", view->label, phase);
    if (view->out && bt_str_status(&text) == BT_OK) {
        show(view, bt_str_text(&text));
        view->shown_ns = 0; // the first step is shown immediately
    }
}

static void begin_round(bt_progress_view *view, const char *label, int64_t steps)
{
    (void)snprintf(view->label, sizeof view->label, "%s", label);
    view->steps = steps;
    view->evaluates = view->eager_said = false;
    view->steps_done = 0;
    view->spent_ns = 0;
    view->rate_tok_s = 0;
    view->others_ns = (double)NAN;
    view->heard_ns = bt_clock_ns();
}

// What is counted: rounds, if cases have several.
static const char *unit_of(const bt_progress_place *place)
{
    return place->total > place->cases ? "round" : "case";
}

void bt_progress_round(bt_progress_view *view, const char *label, int64_t steps, bool evaluates,
                       const bt_progress_place *place, double others_ns)
{
    BT_SCOPED(bt_str) text = {0};
    begin_round(view, label, steps);
    view->evaluates = evaluates;
    view->others_ns = others_ns;
    bt_str_append(&text, "starting: loading data, creating parameters");
    if (place->total > 1) {
        bt_str_format(&text, "  %s %lld/%lld", unit_of(place), (long long)place->done + 1,
                      (long long)place->total);
    }
    bt_progress_pause(view);
    show_phase(view, bt_str_text(&text));
}

// A narrow terminal shows the first values.
static void show_step(bt_progress_view *view, const bt_store_step *step)
{
    BT_SCOPED(bt_str) text = {0};
    int64_t memory = step->reserved_bytes ? step->reserved_bytes : step->resident_bytes;
    int64_t left = view->steps - step->step - 1;
    bt_str_format(&text, "%-8s step %4lld/%lld  loss %.3f  ", view->label,
                  (long long)step->step + 1, (long long)view->steps, (double)step->loss);
    bt_str_format(&text, view->rate_tok_s < 10000 ? "%.0f tok/s" : "%.0fK tok/s",
                  view->rate_tok_s < 10000 ? view->rate_tok_s : view->rate_tok_s / 1000);
    const double left_ns = bt_time_left(view->spent_ns, view->steps_done, left);
    if (left > 0) {
        bt_str_format(&text, "  %s left", bt_format_clock(left_ns).text);
    }
    if (left > 0 && view->others_ns > 0) {
        bt_str_format(&text, "  %s in all", bt_format_clock(left_ns + view->others_ns).text);
    }
    bt_str_format(&text, "  %s", bt_format_value(BT_UNIT_BYTES, (double)memory).text);
    bt_str_format(&text, "  norm %.2f  lr %.1e", (double)step->grad_norm, step->lr);
    if (bt_str_status(&text) == BT_OK) {
        show(view, bt_str_text(&text));
    }
}

// Says once a round that a step which was to be compiled runs eagerly, with the first reason; the
// log has all.
static void say_eager(bt_progress_view *view, const bt_store_kernel *kernel)
{
    const char *reason = bt_store_eager_reason(kernel);
    if (reason && !view->eager_said) {
        bt_progress_say(view, "compile   %s: the step runs eagerly: %s\n", view->label, reason);
        view->eager_said = true;
    }
}

// Repeated steps are not reported one by one.
static void say_recovery(bt_progress_view *view, const bt_run_event *event)
{
    if (event->type == BT_RUN_EVENT_RECOVERY) {
        const bt_run_event_recovery *recovery = &event->as.recovery;
        view->repeated = bt_run_event_repeated(recovery);
        bt_progress_say(view, "restart   %s %s; first step after %s\n", view->label,
                        bt_run_event_restart(recovery).text,
                        bt_format_value(BT_UNIT_NS, (double)recovery->step_ns).text);
    } else if (event->type == BT_RUN_EVENT_CAUGHT_UP && view->repeated > 0) {
        bt_progress_say(view, "restart   %s at step %lld again after %s\n", view->label,
                        (long long)event->as.caught_up.step,
                        bt_format_value(BT_UNIT_NS, (double)event->as.caught_up.time_ns).text);
    }
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
    say_recovery(view, event);
    if (event->type == BT_RUN_EVENT_KERNEL) {
        say_eager(view, &event->as.kernel);
    }
    if (event->type == BT_RUN_EVENT_START && view->steps > 0) {
        show_phase(view, view->evaluates && event->as.start.first_step == 0
                             ? "validation before the first step"
                             : "first step");
    }
    if (event->type == BT_RUN_EVENT_EVAL && event->as.eval.step == 0) {
        BT_SCOPED(bt_str) text = {0};
        bt_str_format(&text, "validation %.3f; first step", event->as.eval.loss);
        show_phase(view, bt_str_text(&text));
    } else if (event->type == BT_RUN_EVENT_EVAL) {
        view->spent_ns += (double)event->as.eval.host_ns;
    }
    if (!view->out || event->type != BT_RUN_EVENT_STEP) {
        return;
    }
    const bt_store_step *step = &event->as.step;
    view->spent_ns += (double)step->host_ns;
    view->steps_done += 1;
    if (step->host_ns > 0 && !step->profiled) {
        double rate = (double)step->tokens * 1e9 / (double)step->host_ns;
        bool first = !(view->rate_tok_s > 0) || step->warmup;
        view->rate_tok_s = first ? rate : 0.8 * view->rate_tok_s + 0.2 * rate;
    }
    bool last = step->step + 1 == view->steps;
    int64_t every_ns = view->terminal ? NS_PER_S / 10 : PLAIN_EVERY_S * NS_PER_S;
    if (last || !view->shown_ns || now_ns - view->shown_ns >= every_ns) {
        show_step(view, step);
    }
}

void bt_progress_case(bt_progress_view *view, const char *label, const bt_progress_place *place)
{
    int64_t now_ns = bt_clock_ns();
    begin_round(view, label, 0);
    if (!view->out ||
        (!view->terminal && view->shown_ns && now_ns - view->shown_ns < PLAIN_EVERY_S * NS_PER_S)) {
        return;
    }
    BT_SCOPED(bt_str) text = {0};
    bt_str_format(&text, "%s %4lld/%lld  %s", unit_of(place), (long long)place->done + 1,
                  (long long)place->total, view->label);
    if (!isnan(place->left_ns)) {
        bt_str_format(&text, "   %s left", bt_format_clock(place->left_ns).text);
    }
    if (place->left_most_ns > place->left_ns) {
        bt_str_format(&text, "  at most %s", bt_format_clock(place->left_most_ns).text);
    }
    if (bt_str_status(&text) == BT_OK) {
        show(view, bt_str_text(&text));
    }
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
                   "%-8s no output from the worker for %lld s (Ctrl-C stops the run)", view->label,
                   (long long)silent_s);
    show(view, text);
}

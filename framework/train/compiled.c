// framework/train/compiled.c - runs steps compiled (compiler/step.h)
#include "framework/train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/scoped.h"

// The reason why steps cannot be compiled in this run; NULL: none.
static const char *excluded(const bt_trainer *t)
{
    return t->parallel          ? "several ranks or virtual shards reduce gradients during the step"
           : t->plan->anomaly   ? "anomaly mode checks every op"
           : t->observer->value ? "the values of every op are reported"
                                : NULL;
}

bt_status bt_trainer_compile(bt_trainer *t)
{
    bt_context *context = &t->session.context;
    const bt_feed_batch *first = &t->feed.batches[0];
    const bt_batch batch = {.count = 2,
                            .items = {{"ids", first->ids}, {"targets", first->targets}}};
    if (!t->plan->compile || excluded(t)) {
        return BT_OK;
    }
    BT_TRY(bt_code_cache_from_environment(&t->code));
    BT_TRY(bt_compiled_step_create(context, &t->model, &t->code, &t->compiled));
    context->tape = t->session.tape;
    bt_status status = bt_compiled_step_prepare(t->compiled, &batch, false);
    if (status == BT_OK && t->accumulation > 1) {
        status = bt_compiled_step_prepare(t->compiled, &batch, true);
    }
    context->tape = NULL;
    return bt_error_context(status, "compile");
}

// Reports it as a note for the log, and among the kernels of the record.
static bt_status tell(const bt_trainer *t, const bt_str *note, const bt_str *what)
{
    const bt_train_observer *o = t->observer;
    const bt_train_kernel event = {"compile", bt_str_text(what)};
    BT_TRY(bt_str_status(note));
    BT_TRY(bt_str_status(what));
    BT_TRY(o->note ? o->note(o->self, bt_str_text(note)) : BT_OK);
    return o->kernel ? o->kernel(o->self, &event) : BT_OK;
}

static void describe(const bt_compiled_kind *kind, bt_str *out)
{
    if (kind->compiled) {
        bt_str_format(out, "%d calls in %d groups%s", kind->group_calls, kind->groups,
                      kind->left_out ? ", others without code" : "");
    } else {
        bt_str_format(out, "eager: %s", kind->reason);
    }
}

// What the cache lost: the next run, or this one, compiles it again.
static bt_status report_cache(const bt_trainer *t)
{
    const long long damaged = atomic_load(&t->code.damaged);
    const long long unwritten = atomic_load(&t->code.unwritten);
    bt_str note = {0};
    if (damaged == 0 && unwritten == 0) {
        return BT_OK;
    }
    bt_str_append(&note, "compile:");
    if (damaged) {
        bt_str_format(&note, " %lld damaged files of generated code were made again%s", damaged,
                      unwritten ? ";" : "");
    }
    if (unwritten) {
        bt_str_format(&note, " code of %lld kernels is not kept for the next run: %s", unwritten,
                      t->code.why_unwritten);
    }
    bt_status status = bt_str_status(&note);
    if (status == BT_OK && t->observer->note) {
        status = t->observer->note(t->observer->self, bt_str_text(&note));
    }
    bt_str_release(&note);
    return status;
}

bt_status bt_trainer_report_compiled(const bt_trainer *t)
{
    const bt_compiled_kind *kind = NULL;
    bt_str note = {0}, what = {0};
    bt_status status = BT_OK;
    if (!t->plan->compile) {
        return BT_OK;
    }
    if (!t->compiled) {
        bt_str_format(&note, "compile: steps run eagerly: %s", excluded(t));
        bt_str_format(&what, "eager: %s", excluded(t));
        status = tell(t, &note, &what);
    }
    for (int i = 0; t->compiled && (kind = bt_compiled_step_kind(t->compiled, i)) && !status; ++i) {
        bt_str_clear(&note);
        bt_str_clear(&what);
        bt_compiled_kind_print(kind, &note);
        describe(kind, &what);
        status = tell(t, &note, &what);
    }
    BT_IF_OK(status, t->compiled ? report_cache(t) : BT_OK);
    bt_str_release(&note);
    bt_str_release(&what);
    return status;
}

// ---- kernels of a step
// ----------------------------------------------------------------------------

typedef struct kernel_row {
    bt_compiled_unit unit; // the first unit of its kernel
    bt_train_group sum;
} kernel_row;

static kernel_row *row_of(kernel_row *rows, int *count, const bt_compiled_unit *unit)
{
    for (int i = 0; i < *count; ++i) {
        if (strcmp(rows[i].unit.kernel, unit->kernel) == 0 &&
            strcmp(rows[i].unit.direction, unit->direction) == 0) {
            return &rows[i];
        }
    }
    rows[*count] = (kernel_row){.unit = *unit};
    return &rows[(*count)++];
}

// apart_ns NULL: not measured.
static bt_status sum_units(const bt_trainer *t, bool adds, const int64_t *times_ns,
                           const int64_t *apart_ns, int units, kernel_row *rows, int *count)
{
    for (int i = 0; i < units; ++i) {
        bt_compiled_unit unit;
        BT_TRY(bt_compiled_step_unit(t->compiled, adds, i, &unit));
        bt_train_group *sum = &row_of(rows, count, &unit)->sum;
        sum->count += 1;
        sum->calls += unit.calls;
        sum->bytes_before += unit.bytes_before;
        sum->bytes_after += unit.bytes_after;
        sum->time_ns += times_ns[i];
        sum->apart_ns += apart_ns && unit.kind[0] ? apart_ns[i] : 0;
    }
    return BT_OK;
}

static bt_status tell_rows(const bt_train_observer *o, kernel_row *rows, int count)
{
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; ++i) {
        bt_train_group *event = &rows[i].sum;
        event->direction = rows[i].unit.direction;
        event->kind = rows[i].unit.kind;
        event->kernel = rows[i].unit.kernel;
        event->ops = rows[i].unit.ops;
        status = o->group(o->self, event);
    }
    return status;
}

// The reason goes to the log, and the run continues. what: what was not timed.
static bt_status tell_untimed(const bt_trainer *t, const char *what, const char *why)
{
    BT_SCOPED(bt_str) note = {0};
    bt_str_format(&note, "compile: no times of %s: %s", what, why);
    bt_error_clear();
    BT_TRY(bt_str_status(&note));
    return t->observer->note ? t->observer->note(t->observer->self, bt_str_text(&note)) : BT_OK;
}

// With another number of ranges than of calls or kernels, no time can be assigned.
static bt_status tell_mismatch(const bt_trainer *t, const char *what, int expected, int64_t timed)
{
    char why[64];
    (void)snprintf(why, sizeof why, "%lld ranges were timed, expected %d", (long long)timed,
                   expected);
    return tell_untimed(t, what, why);
}

static const char calls_apart[] = "the calls of groups one by one";

// The times of units whose calls run one by one, on the batch of the last micro-batch. *measured:
// there are times.
static bt_status time_apart(const bt_trainer *t, bool adds, int64_t *apart_ns, bool *measured)
{
    static const bt_train_observer none = {0};
    const bt_feed_batch *last = &t->feed.batches[t->accumulation - 1];
    const bt_batch batch = {.count = 2, .items = {{"ids", last->ids}, {"targets", last->targets}}};
    BT_SCOPED_MEM(int64_t *) calls_ns = NULL;
    int64_t timed = 0;
    bt_profile_start(t->profile);
    bt_status status = bt_compiled_step_run_apart(t->compiled, &batch, adds);
    const bt_status stopped = bt_profile_stop(t->profile, 0, &none);
    BT_TRY(status ? status : stopped);
    const int calls = bt_compiled_step_apart_calls(t->compiled, &batch, adds);
    BT_TRY(BT_MEM_ARRAY(calls, &calls_ns));
    BT_TRY(bt_profile_inside(t->profile, "apart", calls_ns, calls, &timed));
    *measured = timed == calls;
    return *measured ? bt_compiled_step_apart_times(t->compiled, &batch, adds, calls_ns, apart_ns)
                     : tell_mismatch(t, calls_apart, calls, timed);
}

static bt_status report_rows(const bt_trainer *t, bool adds, const int64_t *times_ns,
                             int64_t *apart_ns, int units, kernel_row *rows)
{
    int count = 0;
    bool measured = false;
    if (t->plan->memory_limit_bytes) {
        BT_TRY(tell_untimed(t, calls_apart, "memory is limited"));
    } else {
        const bt_status status = time_apart(t, adds, apart_ns, &measured);
        BT_TRY(status == BT_STATUS_OUT_OF_MEMORY ? tell_untimed(t, calls_apart, bt_error_message())
                                                 : status);
    }
    BT_TRY(sum_units(t, adds, times_ns, measured ? apart_ns : NULL, units, rows, &count));
    return tell_rows(t->observer, rows, count);
}

bt_status bt_trainer_report_groups(const bt_trainer *t)
{
    const bool adds = t->accumulation > 1; // also stops at the last micro-batch
    const int units = t->compiled ? bt_compiled_step_units(t->compiled, adds) : 0;
    kernel_row *rows = NULL;
    int64_t *times_ns = NULL, *apart_ns = NULL, timed = 0;
    if (units == 0 || !t->observer->group) {
        return BT_OK;
    }
    bt_status status = BT_MEM_ARRAY(units, &rows);
    BT_IF_OK(status, BT_MEM_ARRAY(units, &times_ns));
    BT_IF_OK(status, BT_MEM_ARRAY(units, &apart_ns));
    BT_IF_OK(status, bt_profile_inside(t->profile, "compiled", times_ns, units, &timed));
    if (status == BT_OK) {
        status = timed == units ? report_rows(t, adds, times_ns, apart_ns, units, rows)
                                : tell_mismatch(t, "the kernels of a step", units, timed);
    }
    bt_mem_free(rows);
    bt_mem_free(times_ns);
    bt_mem_free(apart_ns);
    return status;
}

int64_t bt_trainer_compile_ns(const bt_trainer *t)
{
    const bt_compiled_kind *kind = NULL;
    int64_t sum_ns = 0;
    for (int i = 0; t->compiled && (kind = bt_compiled_step_kind(t->compiled, i)); ++i) {
        sum_ns += kind->compile_ns;
    }
    return sum_ns;
}

bool bt_trainer_runs_compiled(const bt_trainer *t)
{
    return t->compiled && !t->session.context.anomaly;
}

bool bt_trainer_has_groups(const bt_trainer *t)
{
    const bt_compiled_kind *kind = NULL;
    for (int i = 0; t->compiled && (kind = bt_compiled_step_kind(t->compiled, i)); ++i) {
        if (kind->compiled) {
            return true;
        }
    }
    return false;
}

void bt_trainer_compile_close(bt_trainer *t)
{
    bt_compiled_step_destroy(t->compiled);
    bt_code_cache_close(&t->code);
}

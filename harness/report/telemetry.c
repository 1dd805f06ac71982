// harness/report/telemetry.c - maps telemetry samples to training steps
#include <math.h>

#include "framework/base/idioms.h"
#include "harness/report/curves.h"
#include "harness/stats/noise.h"

// Time in the steps and evaluations up to the end of step `index`; all of it with step_count - 1.
static double time_before(const bt_store_round *round, int64_t index, int64_t *eval, double time_ns)
{
    const bt_store_step *step = &round->steps[index];
    while (*eval < round->eval_count && round->evals[*eval].step <= step->step) {
        time_ns += (double)round->evals[(*eval)++].host_ns;
    }
    return time_ns + (double)step->host_ns;
}

// For records of earlier versions, whose samples do not have the ends of steps.
static int64_t curve_up_to_end(const bt_store_round *round,
                               double (*of_sample)(const bt_store_telemetry *sample), double *x,
                               double *y)
{
    int64_t count = 0, at = 0, eval = 0;
    double total_ns = 0.0, end_ns = 0.0, begin_ns = 0.0;
    for (int64_t i = 0; i < round->step_count; i++) {
        total_ns += (double)round->steps[i].host_ns;
    }
    for (int64_t i = 0; i < round->eval_count; i++) {
        total_ns += (double)round->evals[i].host_ns;
    }
    double length_ns =
        round->ended_ns > 0 ? (double)(round->ended_ns - round->started_ns) : total_ns;
    double offset_ns = fmax(0.0, length_ns - total_ns); // set-up of the worker
    end_ns = time_before(round, 0, &eval, offset_ns);
    begin_ns = offset_ns;
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        while (at < round->step_count && sample->t_ns > end_ns) {
            begin_ns = end_ns;
            end_ns = ++at < round->step_count ? time_before(round, at, &eval, end_ns) : end_ns;
        }
        double value = of_sample(sample);
        if (at < round->step_count && sample->t_ns >= begin_ns && isfinite(value)) {
            double share = (sample->t_ns - begin_ns) / fmax(1.0, end_ns - begin_ns);
            x[count] = (double)round->steps[at].step + rint(100.0 * share) / 100.0;
            y[count++] = value;
        }
    }
    return count;
}

// ---- with the ends of steps --------------------------------------------------------------------

// The step that runs, and when it began.
typedef struct running_step {
    int64_t index, known; // known: no later step has begun by the sample
    int64_t copied;       // steps copied from an interrupted round
    double begin_ns;
} running_step;

// The begin of the first step, from the first end that is known. False: no end is known.
static bool find_first(const bt_store_round *round, running_step *out)
{
    const int64_t first = bt_telemetry_copied_steps(round);
    *out = (running_step){.index = first, .copied = first};
    out->begin_ns = bt_telemetry_step_end(round, first, first, &out->known);
    if (isnan(out->begin_ns)) {
        return false;
    }
    out->begin_ns -= bt_telemetry_step_time(round, first, first);
    return true;
}

static double time_of(const bt_store_round *round, const running_step *self)
{
    return bt_telemetry_step_time(round, self->copied, self->index);
}

static void advance(const bt_store_round *round, const bt_store_telemetry *sample,
                    running_step *self)
{
    if (bt_telemetry_has_end(round, sample)) {
        self->index = self->known = (int64_t)sample->steps;
        self->begin_ns = sample->step_ended_ns;
    }
    while (self->index < self->known && sample->t_ns > self->begin_ns + time_of(round, self)) {
        self->begin_ns += time_of(round, self);
        ++self->index;
    }
}

int64_t bt_curve_of_samples(const bt_store_round *round,
                            double (*of_sample)(const bt_store_telemetry *sample), double *x,
                            double *y)
{
    int64_t count = 0;
    running_step now;
    if (round->step_count == 0) {
        return 0;
    }
    if (!find_first(round, &now)) {
        return curve_up_to_end(round, of_sample, x, y);
    }
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        advance(round, sample, &now);
        const double value = of_sample(sample);
        if (now.index < round->step_count && sample->t_ns >= now.begin_ns && isfinite(value)) {
            const double time_ns = fmax(1.0, time_of(round, &now));
            const double share = fmin(1.0, (sample->t_ns - now.begin_ns) / time_ns);
            x[count] = (double)round->steps[now.index].step + rint(100.0 * share) / 100.0;
            y[count++] = value;
        }
    }
    return count;
}

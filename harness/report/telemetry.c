// harness/report/telemetry.c - maps telemetry samples to training steps
#include <math.h>

#include "framework/base/idioms.h"
#include "harness/report/curves.h"

// Time in the steps and evaluations up to the end of step `index`; all of it with step_count - 1.
static double time_before(const bt_store_round *round, int64_t index, int64_t *eval, double time_ns)
{
    const bt_store_step *step = &round->steps[index];
    while (*eval < round->eval_count && round->evals[*eval].step <= step->step) {
        time_ns += (double)round->evals[(*eval)++].host_ns;
    }
    return time_ns + (double)step->host_ns;
}

int64_t bt_curve_of_samples(const bt_store_round *round,
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
    if (round->step_count == 0) {
        return 0;
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

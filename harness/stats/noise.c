// harness/stats/noise.c - labels of rounds, clocks of two sides
#include "harness/stats/noise.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/stats/stats.h"

#define LOST_SHARE  0.01
#define OTHER_CORES 0.25
#define IDLE_CORES  1.0

static const struct {
    uint64_t bit;
    const char *word;
    bool invalidates;
} reasons[] = {
#define REASON(name, bit, word, invalidates) {bit, word, invalidates},
    BT_THROTTLE_LIST(REASON)
#undef REASON
};

enum { REASONS = (int)(sizeof reasons / sizeof reasons[0]) };

static uint64_t bits_of(const bt_store_telemetry *sample)
{
    return sample->throttle >= 0.0 && sample->throttle < 0x1p53 ? (uint64_t)sample->throttle : 0;
}

void bt_throttle_words(uint64_t bits, char *text, size_t size_bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < REASONS; i++) {
        if ((bits & reasons[i].bit) && length < size_bytes) {
            int part = snprintf(text + length, size_bytes - length, "%s%s", length ? ", " : "",
                                reasons[i].word);
            length += part > 0 ? (size_t)part : 0;
        }
    }
}

// ---- labels ------------------------------------------------------------------------------------

static int64_t count_bit(const bt_store_telemetry *samples, int64_t count, uint64_t bit)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        found += (bits_of(&samples[i]) & bit) != 0;
    }
    return found;
}

static bool is_throttled(const bt_store_telemetry *samples, int64_t count, bt_noise_verdict *out)
{
    for (int k = 0; k < REASONS; k++) {
        int64_t found = count_bit(samples, count, reasons[k].bit);
        if (reasons[k].invalidates && found > 0) {
            (void)snprintf(out->reason, sizeof out->reason, "%s in %lld of %lld samples",
                           reasons[k].word, (long long)found, (long long)count);
            return true;
        }
    }
    return false;
}

static bool has_foreign_process(const bt_store_telemetry *samples, int64_t count,
                                bt_noise_verdict *out)
{
    double most = 0.0;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        double others = samples[i].other_processes;
        found += others > 0.0;
        most = others > most ? others : most;
    }
    (void)snprintf(out->reason, sizeof out->reason,
                   "%.0f other process%s on the GPU in %lld of %lld samples", most,
                   most > 1.0 ? "es" : "", (long long)found, (long long)count);
    return found > 0;
}

// Mean of the known values of a column; NaN if there are none.
static double mean_of(const bt_store_telemetry *samples, int64_t count, size_t offset)
{
    double sum = 0.0, known = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double value = 0.0;
        memcpy(&value, (const char *)&samples[i] + offset, sizeof value);
        if (!isnan(value)) {
            sum += value;
            known += 1.0;
        }
    }
    return known > 0.0 ? sum / known : (double)NAN;
}

#define MEAN_OF(samples, count, member)                                                            \
    mean_of(samples, count, offsetof(bt_store_telemetry, member))

static bool is_loaded(const bt_store_telemetry *samples, int64_t count, bt_noise_verdict *out)
{
    double steal = MEAN_OF(samples, count, steal_share), held = MEAN_OF(samples, count, held_share);
    double others = MEAN_OF(samples, count, other_cores);
    double idle = MEAN_OF(samples, count, idle_cores);
    if (steal > LOST_SHARE) {
        (void)snprintf(out->reason, sizeof out->reason, "the hypervisor took %.1f %% of the CPU",
                       100.0 * steal);
    } else if (held > LOST_SHARE) {
        (void)snprintf(out->reason, sizeof out->reason,
                       "the cgroup's CPU limit stopped threads for %.1f %% of the time",
                       100.0 * held);
    } else if (others > OTHER_CORES && idle < IDLE_CORES) {
        (void)snprintf(out->reason, sizeof out->reason,
                       "other processes kept %.1f cores busy, %.1f cores were idle", others, idle);
    } else {
        return false;
    }
    return true;
}

void bt_noise_judge(const bt_store_telemetry *samples, int64_t count, bt_noise_verdict *out)
{
    out->noise = is_throttled(samples, count, out)          ? BT_NOISE_THROTTLED
                 : has_foreign_process(samples, count, out) ? BT_NOISE_FOREIGN_PROCESS
                 : is_loaded(samples, count, out)           ? BT_NOISE_LOADED
                                                            : BT_NOISE_QUIET;
    if (out->noise == BT_NOISE_QUIET) {
        out->reason[0] = '\0';
    }
}

// ---- numbers -----------------------------------------------------------------------------------

int64_t bt_telemetry_copied_steps(const bt_store_round *round)
{
    int64_t copied = 0;
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        if (sample->steps <= (double)round->step_count && isnan(sample->step_ended_ns)) {
            copied = (int64_t)sample->steps;
        }
    }
    return copied;
}

bool bt_telemetry_has_end(const bt_store_round *round, const bt_store_telemetry *sample)
{
    return sample->steps >= 1.0 && sample->steps <= (double)round->step_count &&
           isfinite(sample->step_ended_ns);
}

double bt_telemetry_step_time(const bt_store_round *round, int64_t copied, int64_t index)
{
    double time_ns = (double)round->steps[index].host_ns;
    for (int64_t i = 0; index > copied && i < round->eval_count; i++) {
        const bt_store_eval *eval = &round->evals[i];
        if (eval->step > round->steps[index - 1].step && eval->step <= round->steps[index].step) {
            time_ns += (double)eval->host_ns;
        }
    }
    return time_ns;
}

double bt_telemetry_step_end(const bt_store_round *round, int64_t copied, int64_t index,
                             int64_t *known)
{
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        if (sample->steps > (double)index && bt_telemetry_has_end(round, sample)) {
            double end_ns = sample->step_ended_ns;
            *known = (int64_t)sample->steps - 1;
            for (int64_t i = *known; i > index; i--) {
                end_ns -= bt_telemetry_step_time(round, copied, i);
            }
            return end_ns;
        }
    }
    return (double)NAN;
}

bool bt_telemetry_window(const bt_store_round *round, double *begin_ns, double *end_ns)
{
    const int64_t copied = bt_telemetry_copied_steps(round);
    int64_t first = round->step_count, last = round->step_count - 1, known = 0;
    for (int64_t i = round->step_count - 1; i >= copied; i--) {
        if (!round->steps[i].warmup && !round->steps[i].profiled) {
            last = first == round->step_count ? i : last;
            first = i;
        }
    }
    first = first < round->step_count ? first : copied;
    if (first > last) {
        return false;
    }
    *begin_ns = bt_telemetry_step_end(round, copied, first, &known);
    *begin_ns -= (double)round->steps[first].host_ns;
    *end_ns = bt_telemetry_step_end(round, copied, last, &known);
    return !isnan(*begin_ns) && !isnan(*end_ns);
}

typedef struct busy_rule {
    double begin_ns, end_ns; // of the window
} busy_rule;

static busy_rule busy_rule_of(const bt_store_round *round)
{
    busy_rule rule = {0.0, 0.0};
    return bt_telemetry_window(round, &rule.begin_ns, &rule.end_ns)
               ? rule
               : (busy_rule){-(double)INFINITY, (double)INFINITY};
}

static bool is_busy(const busy_rule *rule, const bt_store_telemetry *sample)
{
    return sample->t_ns >= rule->begin_ns && sample->t_ns <= rule->end_ns &&
           !(bits_of(sample) & BT_THROTTLE_IDLE);
}

// Median of a column over the busy samples, through `values` [telemetry_count].
static bt_status busy_median(const bt_store_round *round, const busy_rule *rule, size_t offset,
                             double *values, double *out)
{
    int64_t known = 0;
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        double value = 0.0;
        memcpy(&value, (const char *)sample + offset, sizeof value);
        if (value > 0.0 && is_busy(rule, sample)) {
            values[known++] = value;
        }
    }
    return bt_stats_median(values, known, out);
}

static void sum_energy(const bt_store_round *round, const busy_rule *rule,
                       bt_telemetry_summary *out)
{
    const bt_store_telemetry *first = NULL, *last = NULL;
    out->energy_j = out->work_power_w = (double)NAN;
    BT_EACH(const bt_store_telemetry, sample, round->telemetry, round->telemetry_count) {
        if (isnan(sample->energy_j)) {
            continue;
        }
        out->energy_j = sample->energy_j;
        // The sample at the end of a round has no clock: the GPU is idle by then.
        if (sample->sm_clock_mhz > 0.0 && is_busy(rule, sample)) {
            first = first ? first : sample;
            last = sample;
        }
    }
    if (!first || !last) {
        return;
    }
    double window_s = (last->t_ns - first->t_ns) / 1e9;
    if (window_s >= BT_ENERGY_WINDOW_S) {
        out->work_power_w = (last->energy_j - first->energy_j) / window_s;
    }
}

static void summarise(const bt_store_round *round, const busy_rule *rule, bt_telemetry_summary *out)
{
    const bt_store_telemetry *samples = round->telemetry;
    const int64_t count = round->telemetry_count;
    double cost_ns = 0.0;
    int64_t working = 0, capped = 0;
    out->temperature_c = (double)NAN;
    BT_EACH(const bt_store_telemetry, sample, samples, count) {
        out->throttle |= bits_of(sample);
        cost_ns += sample->cost_ns;
        bool busy = is_busy(rule, sample);
        out->busy += busy && sample->sm_clock_mhz > 0.0;
        working += busy && sample->throttle >= 0.0; // the last sample may be of the CPU alone
        capped += busy && (bits_of(sample) & BT_THROTTLE_POWER_CAP);
        out->temperature_c = fmax(out->temperature_c, sample->temperature_c);
    }
    out->power_cap_share = working > 0 ? (double)capped / (double)working : (double)NAN;
    out->cost_share = count > 0 ? cost_ns / samples[count - 1].t_ns : (double)NAN;
    out->other_cores = MEAN_OF(samples, count, other_cores);
    sum_energy(round, rule, out);
}

bt_status bt_telemetry_summary_of(const bt_store_round *round, bt_telemetry_summary *out)
{
    BT_SCOPED_MEM(void *) block = NULL;
    const busy_rule rule = busy_rule_of(round);
    *out = (bt_telemetry_summary){0};
    summarise(round, &rule, out);
    BT_TRY(bt_mem_alloc((size_t)round->telemetry_count + 1, sizeof(double), &block));
    const struct {
        size_t offset;
        double *place;
    } columns[] = {{offsetof(bt_store_telemetry, sm_clock_mhz), &out->sm_clock_mhz},
                   {offsetof(bt_store_telemetry, memory_clock_mhz), &out->memory_clock_mhz},
                   {offsetof(bt_store_telemetry, power_w), &out->power_w}};
    for (int i = 0; i < 3; i++) {
        BT_TRY(busy_median(round, &rule, columns[i].offset, block, columns[i].place));
    }
    return BT_OK;
}

// ---- two sides ---------------------------------------------------------------------------------

typedef struct side_clocks {
    double sm_mhz, memory_mhz; // medians over the rounds; NaN: not known
} side_clocks;

static bt_status clocks_of(const bt_store_round *const *rounds, int64_t count, double *values,
                           side_clocks *out)
{
    double *const places[] = {&out->sm_mhz, &out->memory_mhz};
    for (int k = 0; k < 2; k++) {
        int64_t known = 0;
        for (int64_t i = 0; i < count; i++) {
            bt_telemetry_summary summary;
            BT_TRY(bt_telemetry_summary_of(rounds[i], &summary));
            double clock = k ? summary.memory_clock_mhz : summary.sm_clock_mhz;
            if (!isnan(clock)) {
                values[known++] = clock;
            }
        }
        BT_TRY(bt_stats_median(values, known, places[k]));
    }
    return BT_OK;
}

static bool are_near(const char *what, double left, double right, char reason[160])
{
    double apart = fabs(left / right - 1.0);
    if (!(apart > BT_CLOCK_TOLERANCE)) { // or one is unknown
        return true;
    }
    (void)snprintf(reason, 160, "median %s clocks are %.1f %% apart: %.0f and %.0f MHz", what,
                   100.0 * apart, left, right);
    return false;
}

bt_status bt_telemetry_clocks_comparable(const bt_store_round *const *left, int64_t left_count,
                                         const bt_store_round *const *right, int64_t right_count,
                                         bool *comparable, char reason[160])
{
    side_clocks a, b;
    BT_SCOPED_MEM(void *) block = NULL;
    reason[0] = '\0';
    *comparable = true;
    BT_TRY(bt_mem_alloc((size_t)(left_count > right_count ? left_count : right_count) + 1,
                        sizeof(double), &block));
    BT_TRY(clocks_of(left, left_count, block, &a));
    BT_TRY(clocks_of(right, right_count, block, &b));
    *comparable = are_near("SM", a.sm_mhz, b.sm_mhz, reason) &&
                  are_near("memory", a.memory_mhz, b.memory_mhz, reason);
    return BT_OK;
}

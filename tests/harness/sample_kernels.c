// tests/harness/sample_kernels.c - made-up sessions of kernel cases
#include "tests/harness/sample_kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/rng.h"

enum { OPS = 10, CASES_MAX = 158, SYSTEMS_MAX = 3 };

// Operation, directions, floating-point operations and bytes per element, share of a copy.
static const struct {
    const char *op, *directions[2];
    double flops, bytes, share;
} ops[OPS] = {{"layernorm", {"forward", "backward"}, 8, 8, 0.93},
              {"gelu", {"forward", "backward"}, 14, 8, 0.95},
              {"cross_entropy", {"forward", "backward"}, 4, 4, 0.91},
              {"softmax", {"forward", "backward"}, 5, 8, 0.92},
              {"reduce_sum", {"rows", "columns"}, 1, 4, 0.9},
              {"adamw", {"forward", NULL}, 18, 28, 0.94},
              {"attention", {"forward", "backward"}, 2048, 8, 0.21},
              {"bias", {"forward", "backward"}, 1, 8, 0.93},
              {"embedding", {"forward", "backward"}, 1, 8, 0.88},
              {"gemm", {"forward", NULL}, 3072, 8, 0.3}};

static const double copy_bytes_per_s = 4.26e12;

sample_kernels sample_kernels_default(void)
{
    sample_kernels sample = {.cases = 30,
                             .rounds = 1,
                             .kind = "",
                             .systems = {"blutrain"},
                             .slowdown = 0.0,
                             .commit = "3f50b31c"};
    return sample;
}

// What case `index` is.
typedef struct made_case {
    char name[96], axes[256];
    int op;
    double elements, time_ns;
} made_case;

static made_case make_case(int index)
{
    made_case made = {.op = index % OPS};
    int nth = index / OPS;
    const char *const *directions = ops[made.op].directions;
    const char *direction = directions[directions[1] ? nth % 2 : 0];
    const char *dtype = nth / 2 % 2 ? "bf16" : "f32";
    long rows = 1024L << (nth % 6), columns = 768L * (1 + nth / 6);
    made.elements = (double)rows * (double)columns;
    made.time_ns =
        900.0 + 1e9 * made.elements * ops[made.op].bytes / (copy_bytes_per_s * ops[made.op].share);
    (void)snprintf(made.name, sizeof made.name, "%s.%s.%s.%ldx%ld", ops[made.op].op, direction,
                   dtype, rows, columns);
    (void)snprintf(made.axes, sizeof made.axes,
                   "{\"kernel\":{\"op\":\"%s\",\"direction\":\"%s\",\"dtype\":\"%s\",\"shape\":"
                   "\"%ldx%ld\",\"cache\":\"cold\"}}",
                   ops[made.op].op, direction, dtype, rows, columns);
    return made;
}

// -0.5 to 0.5, of case, system and round.
static double wobble(int index, int system, int ordinal)
{
    bt_rng noise = {.seed = 7, .stream = (uint64_t)system};
    return (double)bt_rng_uniform(noise, (uint64_t)(index * 1000 + ordinal)) - 0.5;
}

// How much slower a system is at a case than the first one.
static double factor_of(const sample_kernels *sample, int index, int system)
{
    if (system == 0) {
        return 1.0;
    }
    if (strcmp(sample->systems[0], "base") == 0) {
        return index == 3 ? 1.031 : index % 17 == 5 ? 0.94 : 1.0 + sample->slowdown;
    }
    return (1.0 + sample->slowdown) * (1.1 + 2.6 * fabs(wobble(index, 9, system)));
}

static bt_status measure(bt_store *store, int64_t round, bt_metric metric, double value)
{
    double samples[3] = {value * 0.999, value, value * 1.002};
    bt_store_measurement item = {metric, value, value * 0.998, value * 1.003, samples, 3};
    return bt_store_measure(store, round, &item);
}

// A round; `noise` is its label. One that the noise makes invalid took a fifth longer.
static bt_status add_round(bt_store *store, const sample_kernels *sample, int64_t run, int index,
                           int system, int ordinal, bt_noise noise)
{
    int64_t round = 0;
    made_case made = make_case(index);
    bt_store_case what = {"kernels/all", "kernel", made.name, made.axes, sample->systems[system]};
    bt_store_shape shape = {.device = "NVIDIA H200", .precision = "f32"};
    bt_store_kernel kernel = {ops[made.op].op, system ? "sm80_v2" : "sm90_v7"};
    double spread = 0.004 * wobble(index, system, ordinal) + 0.004 * wobble(index, 7, ordinal);
    double time_ns =
        made.time_ns * factor_of(sample, index, system) * (1.0 + spread) * (1.0 + sample->drift);
    bool invalid = bt_noise_invalidates(noise);
    time_ns *= invalid ? 1.2 : 1.0;
    double bytes = made.elements * ops[made.op].bytes;
    double rate = bytes / time_ns * 1e9;
    BT_TRY(bt_store_round_begin(store, run, &what, ordinal, &round));
    BT_TRY(bt_store_round_describe(store, round, &shape));
    BT_TRY(bt_store_kernel_add(store, round, &kernel));
    if (sample->reach > 0) {
        const double low = time_ns * (1 - sample->reach), high = time_ns * (1 + sample->reach);
        bt_store_measurement mean = {BT_METRIC_TIME, time_ns, low, high, NULL, 0};
        BT_TRY(bt_store_measure(store, round, &mean));
        BT_TRY(measure(store, round, BT_METRIC_TIME_MEDIAN, time_ns));
    } else {
        BT_TRY(measure(store, round, BT_METRIC_TIME, time_ns));
    }
    BT_TRY(measure(store, round, BT_METRIC_BANDWIDTH, rate));
    BT_TRY(measure(store, round, BT_METRIC_BYTES_MOVED, bytes));
    BT_TRY(measure(store, round, BT_METRIC_COPY_SHARE, rate / copy_bytes_per_s));
    BT_TRY(measure(store, round, BT_METRIC_COMPUTE,
                   made.elements * ops[made.op].flops / time_ns * 1e9));
    bt_store_telemetry seen = {.t_ns = 1e6, .sm_clock_mhz = invalid ? 1410 : 1980};
    BT_TRY(bt_store_telemetry_set(store, round, bt_noise_name(noise), &seen, 1));
    return bt_store_round_end(store, round, invalid ? BT_RUN_INVALID : BT_RUN_PASSED,
                              invalid ? "the GPU was throttled" : "", "");
}

enum { RULE_BYTES = 256 };

// The verdict that the made-up times call for; not by the rule of harness/stats/decide.h.
static bt_store_verdict judge(const sample_kernels *sample, int index, char *name, char *rule)
{
    made_case made = make_case(index);
    double ratio = factor_of(sample, index, 1), reach = 0.0035;
    bool claim = strcmp(sample->kind, "replicate") == 0;
    double claimed = claim ? ratio * (1.0 + 0.5 * wobble(index, 5, 0)) : 1.0;
    double margin = claim ? 0.05 : 0.01;
    bt_store_verdict verdict = {.kind = sample->kind,
                                .subject = name,
                                .metric = "time_ns",
                                .ratio = ratio,
                                .low = ratio * (1.0 - reach),
                                .high = ratio * (1.0 + reach),
                                .rounds = sample->rounds,
                                .reason = "",
                                .rule_json = rule};
    (void)snprintf(name, 128, "%s%s", claim ? "B." : "", made.name);
    const bool deviates = claim && sample->deviations && index % 4 == 0;
    (void)snprintf(rule, RULE_BYTES, "{\"%s\":%g%s%.3f%s%s%s}", claim ? "margin" : "tolerance",
                   margin, claim ? ",\"claimed\":" : ",\"alpha\":", claim ? claimed : 0.01,
                   deviates ? ",\"deviations\":\"" : "", deviates ? sample->deviations : "",
                   deviates ? "\"" : "");
    if (claim) {
        (void)snprintf(name, 128, "B.%d.%s", 1 + made.op, made.name + strlen(ops[made.op].op) + 1);
        verdict.verdict =
            verdict.low > claimed * (1 + margin)    ? "HIGHER"
            : verdict.high < claimed / (1 + margin) ? "LOWER"
            : verdict.low >= claimed / (1 + margin) && verdict.high <= claimed * (1 + margin)
                ? "REPLICATED"
                : "INCONCLUSIVE";
        if (index % 9 == 8) {
            verdict.ratio = verdict.low = verdict.high = (double)NAN;
            verdict.verdict = "NOT TESTABLE HERE";
            verdict.reason = "needs two GPUs";
        }
        return verdict;
    }
    bool slower = ratio > 1.02;
    verdict.verdict = slower ? "SLOWER" : ratio < 0.98 ? "FASTER" : "SAME";
    if (slower) {
        verdict.reason = "clocks equal; the kernel that ran changed: sm90_v7 -> sm80_v2";
    } else if (index == 21) {
        verdict.verdict = "INCONCLUSIVE";
        verdict.high = 1.014;
    }
    return verdict;
}

static bt_status add_verdicts(bt_store *store, const sample_kernels *sample, int64_t run)
{
    static char names[CASES_MAX][128], rules[CASES_MAX][RULE_BYTES];
    bt_store_verdict verdicts[CASES_MAX];
    for (int i = 0; i < sample->cases; i++) {
        verdicts[i] = judge(sample, i, names[i], rules[i]);
    }
    return bt_store_verdicts_set(store, run, sample->kind, verdicts, sample->cases);
}

bt_status sample_kernels_record(bt_store *store, const sample_kernels *sample, int64_t *run)
{
    bt_store_fact facts[] = {{"cpu.model", "AMD EPYC 9654", BT_FACT_HARD},
                             {"gpu.driver", "580.159", BT_FACT_HARD},
                             {"gpu.name", "NVIDIA H200", BT_FACT_HARD},
                             {"os.kernel", "6.1.0-28-amd64", BT_FACT_INFO}};
    bt_store_run_info info = {.suite = {"77aa01c2", "kernels/all", "gpu", "suites/kernels/all.json",
                                        "{\"cases\":\"all\",\"rounds\":8}"},
                              .build = {sample->commit, "0.1.0", sample->commit, "", "gcc 12.2.0",
                                        "-O3", "Release", "13.0"},
                              .env = {"9b21aa", facts, sizeof facts / sizeof facts[0]},
                              .command = "bt-bench run suites/kernels/all --rounds 8",
                              .out_dir = "results/run-1",
                              .seed = 1};
    BT_TRY(bt_store_run_begin(store, &info, run));
    for (int index = 0; index < sample->cases; index++) {
        for (int ordinal = 0; ordinal < sample->rounds; ordinal++) {
            for (int s = 0; s < SYSTEMS_MAX && sample->systems[s]; s++) {
                int at = (index * 5 + ordinal) * 3 + s;
                bt_noise noise = sample->noisy && at % 41 == 3 ? BT_NOISE_LOADED : BT_NOISE_QUIET;
                if (sample->noisy && at % 97 == 5) {
                    BT_TRY(add_round(store, sample, *run, index, s, ordinal, BT_NOISE_THROTTLED));
                }
                BT_TRY(add_round(store, sample, *run, index, s, ordinal, noise));
            }
        }
    }
    BT_TRY(bt_store_run_end(store, *run, BT_RUN_PASSED, ""));
    return sample->kind[0] ? add_verdicts(store, sample, *run) : BT_OK;
}

// tests/harness/sample_run.c - made-up runs, the same for the same sample
#include "tests/harness/sample_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/rng.h"
#include "framework/base/timeline.h"

enum { MIB = 1 << 20 };

sample_run sample_run_default(void)
{
    sample_run sample = {.suite = "gpt2_124m",
                         .profile = "cpu",
                         .device = "AMD EPYC 9654, 2 cores",
                         .plan_json =
                             "{\"train\":{\"steps\":60,\"seed\":1337},\"model\":{\"layers\":"
                             "12,\"width\":768}}",
                         .cases = {"fp32"},
                         .steps = 60,
                         .step_ms = 250.0,
                         .command = "bt-bench run suites/gpt2_124m",
                         .fact = "580.159",
                         .status = BT_RUN_PASSED};
    return sample;
}

bt_store_step sample_step(const sample_run *sample, int64_t index)
{
    bt_rng noise = {.seed = 42, .stream = 1 + (uint64_t)sample->noise_stream};
    double wobble = (double)bt_rng_uniform(noise, (uint64_t)index) - 0.5;
    double progress = (double)index / (double)sample->steps;
    bool warmup = index < 2;
    bool profiled = !warmup && index % 10 == 9;
    double loss = 3.2 + 7.8 * exp(-5.0 * progress) + 0.08 * wobble;
    double slow = warmup ? 1.8 : profiled ? 1.2 : 1.0;
    bt_store_step step = {
        .step = index,
        .loss = (float)(loss + (index >= 5 ? sample->loss_shift : 0.0)),
        .grad_norm = (float)(1.0 + 4.0 * exp(-8.0 * progress) + 0.2 * wobble),
        .lr = 6e-4 * fmin(1.0, ((double)index + 1.0) / 10.0),
        .tokens = 512,
        .host_ns = (int64_t)(sample->step_ms * 1e6 * slow * (1.0 + 0.02 * wobble)),
        .device_ns = (int64_t)(sample->step_ms * 1e6 * slow * (0.99 + 0.02 * wobble)),
        .allocated_bytes = 1900LL * MIB,
        .peak_allocated_bytes = 2457LL * MIB,
        .reserved_bytes = 2560LL * MIB,
        .resident_bytes = 2969LL * MIB + index * 4096,
        .warmup = warmup,
        .profiled = profiled,
    };
    return step;
}

// The ranges of one profiled step: path, calls, share of the step.
static const struct {
    const char *path;
    int64_t count;
    double share;
} ranges[] = {
    {"step", 1, 1.0},
    {"step/data", 1, 0.01},
    {"step/forward", 1, 0.31},
    {"step/forward/embedding", 1, 0.01},
    {"step/forward/block", 12, 0.21},
    {"step/forward/block/layernorm", 24, 0.01},
    {"step/forward/block/attention", 12, 0.08},
    {"step/forward/block/mlp", 12, 0.11},
    {"step/forward/head", 1, 0.08},
    {"step/backward", 1, 0.61},
    {"step/backward/head", 1, 0.16},
    {"step/backward/block", 12, 0.43},
    {"step/backward/block/attention", 12, 0.19},
    {"step/backward/block/mlp", 12, 0.22},
    {"step/optimizer", 1, 0.06},
};

static bt_status add_ranges(bt_store *store, int64_t round, const bt_store_step *step)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double host_ns = (double)step->host_ns * ranges[i].share;
        bt_store_range range = {.step = step->step,
                                .path = ranges[i].path,
                                .count = ranges[i].count,
                                .device_ns = (int64_t)(0.98 * host_ns),
                                .host_ns = (int64_t)host_ns};
        BT_TRY(bt_store_range_add(store, round, &range));
    }
    return BT_OK;
}

static bt_status add_steps(bt_store *store, const sample_run *sample, int64_t round)
{
    for (int64_t i = 0; i < sample->steps; i++) {
        bt_store_step step = sample_step(sample, i);
        if (i % 20 == 0 && !sample->no_evals) {
            bt_store_eval eval = {i, (double)step.loss + 0.05, 10240, 400000000};
            BT_TRY(bt_store_eval_add(store, round, &eval));
        }
        BT_TRY(bt_store_step_add(store, round, &step));
        if (step.profiled && i < 100) {
            BT_TRY(add_ranges(store, round, &step));
        }
    }
    if (sample->no_evals) {
        return BT_OK;
    }
    bt_store_step last = sample_step(sample, sample->steps - 1);
    bt_store_eval eval = {sample->steps, (double)last.loss + 0.06, 10240, 400000000};
    return bt_store_eval_add(store, round, &eval);
}

static bt_status add_telemetry(bt_store *store, const sample_run *sample, int64_t round)
{
    enum { SAMPLES_MAX = 2000 };
    static bt_store_telemetry samples[SAMPLES_MAX];
    double length_ns = 1.1e6 * sample->step_ms * (double)sample->steps;
    int64_t count = (int64_t)(length_ns / 1e8);
    count = count > SAMPLES_MAX ? SAMPLES_MAX : count;
    for (int64_t i = 0; i < count; i++) {
        bool slow = i > count * 6 / 10 && i < count * 7 / 10;
        double wave = sin(0.3 * (double)i);
        samples[i] = (bt_store_telemetry){.t_ns = (double)i * length_ns / (double)count,
                                          .sm_clock_mhz = slow ? 1620 + 15 * wave : 1980,
                                          .memory_clock_mhz = 3201,
                                          .power_w = slow ? 520 + 8 * wave : 655 + 12 * wave,
                                          .temperature_c = 64,
                                          .throttle = slow ? BT_THROTTLE_POWER_CAP : 0,
                                          .cpu_clock_mhz = 3700 + 5 * wave,
                                          .load = 1.5,
                                          .other_cores = slow ? 0.8 : 0.1};
    }
    return bt_store_telemetry_set(store, round, "", samples, count);
}

bt_store_timeline sample_timeline(int64_t rank, char *work, char *phases)
{
    const int wait = rank == 1 ? 12 : 6; // of 30 parts
    for (int i = 0; i < BT_TIMELINE_PARTS; ++i) {
        const int at = i % 30;
        work[i] = at < 2 ? '.' : at < 2 + wait ? 'c' : at < 18 ? 'p' : at < 22 ? 'a' : 'o';
        phases[i] = i < 200 ? 'f' : i < 560 ? 'b' : 'u';
    }
    work[BT_TIMELINE_PARTS] = phases[BT_TIMELINE_PARTS] = '\0';
    return (bt_store_timeline){.step = 50,
                               .rank = rank,
                               .start_ns = 20000 * rank,
                               .time_ns = 900000,
                               .products_ns = 30000 * (16 - wait),
                               .attention_ns = 120000,
                               .other_ns = 240000,
                               .communication_ns = 30000 * wait,
                               .work = work,
                               .phases = phases};
}

static bt_status add_round(bt_store *store, const sample_run *sample, int64_t run, const char *name,
                           int64_t ordinal)
{
    int64_t round = 0;
    bt_store_case what = {sample->suite, sample->kind ? sample->kind : "training", name,
                          sample->axes_json ? sample->axes_json : "{\"sequence\":128}",
                          sample->system ? sample->system : "blutrain"};
    bt_store_shape shape = {.device = sample->device,
                            .precision = name,
                            .dataset = "books",
                            .parameters = 124475904,
                            .tensors = 148,
                            .accumulation = 1,
                            .steps = sample->steps,
                            .train_tokens = 2900000,
                            .val_tokens = 150000};
    bt_store_kernel kernels[] = {{"gemm", "gemm_openblas_f32"},
                                 {"attention", "attention_cpu_f32"},
                                 {"layernorm", "layernorm_cpu_f32"}};
    bt_store_memory memory = {"train", 2457LL * MIB, 2560LL * MIB, 0, 2970LL * MIB};
    BT_TRY(bt_store_round_begin(store, run, &what, ordinal, &round));
    BT_TRY(bt_store_round_describe(store, round, &shape));
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        BT_TRY(bt_store_kernel_add(store, round, &kernels[i]));
    }
    BT_TRY(add_steps(store, sample, round));
    BT_TRY(bt_store_memory_add(store, round, &memory));
    for (int64_t i = 0; i < sample->launch_count; ++i) {
        BT_TRY(bt_store_launch_add(store, round, &sample->launches[i]));
    }
    for (int64_t i = 0; i < sample->group_count && strcmp(name, sample->cases[0]) == 0; ++i) {
        BT_TRY(bt_store_group_add(store, round, &sample->groups[i]));
    }
    for (int64_t i = 0; i < sample->group_calls_count && strcmp(name, sample->cases[0]) == 0; ++i) {
        BT_TRY(bt_store_group_calls_add(store, round, &sample->group_calls[i]));
    }
    for (int64_t i = 0; i < sample->ranks; ++i) {
        char work[BT_TIMELINE_PARTS + 1], phases[BT_TIMELINE_PARTS + 1];
        const bt_store_timeline line = sample_timeline(i, work, phases);
        BT_TRY(bt_store_timeline_add(store, round, &line));
    }
    if (sample->fault) {
        BT_TRY(bt_store_fault_add(store, round, sample->fault));
    }
    if (sample->telemetry) {
        BT_TRY(add_telemetry(store, sample, round));
    }
    double times[] = {sample->step_ms * 0.99e6, sample->step_ms * 1e6, sample->step_ms * 1.01e6};
    bt_store_measurement measured = {BT_METRIC_STEP_TIME, times[1], times[0], times[2], times, 3};
    BT_TRY(bt_store_measure(store, round, &measured));
    if (sample->status == BT_RUN_RUNNING) {
        return BT_OK;
    }
    const char *why = sample->status == BT_RUN_FAILED ? "the loss is not finite at step 59" : "";
    char digest[33];
    (void)snprintf(digest, sizeof digest, "9c41d0e2b35a7f08%016llx",
                   (unsigned long long)(sample->loss_shift * 1e9));
    return bt_store_round_end(store, round, sample->status, why, digest);
}

// A build is known by its digest: other facts, another digest.
static const char *digest_of(const sample_run *sample)
{
    bool modified = sample->git_diff && sample->git_diff[0];
    bool unknown = sample->git_commit && !sample->git_commit[0];
    return modified ? "b1d6" : unknown ? "b1d7" : "b1d5";
}

bt_status sample_run_record(bt_store *store, const sample_run *sample, int64_t *run)
{
    bt_store_fact facts[] = {{"cpu.model", sample->device, BT_FACT_HARD},
                             {"gpu.driver", sample->fact, BT_FACT_SOFT},
                             {"os.kernel", "6.1.0-28-amd64", BT_FACT_INFO}};
    char plan_hash[64], env_digest[64];
    (void)snprintf(plan_hash, sizeof plan_hash, "5f2c9e71%08llx%s",
                   (unsigned long long)sample->steps, sample->profile);
    (void)snprintf(env_digest, sizeof env_digest, "03ab77d0%s", sample->fact);
    bt_store_run_info info = {
        .suite = {plan_hash, sample->suite, sample->profile, "suites/gpt2_124m/suite.json",
                  sample->plan_json},
        .build = {digest_of(sample), "0.1.0", sample->git_commit ? sample->git_commit : "3f50b31c",
                  sample->git_diff ? sample->git_diff : "", "gcc 12.2.0", "-O3", "Release", ""},
        .env = sample->env.fact_count
                   ? sample->env
                   : (bt_store_env){env_digest, facts, sizeof facts / sizeof facts[0]},
        .command = sample->command,
        .out_dir = "results/run-1",
        .seed = 1337};
    BT_TRY(bt_store_run_begin(store, &info, run));
    for (int i = 0; i < 4 && sample->cases[i]; i++) {
        for (int64_t ordinal = 0; ordinal < (sample->rounds > 0 ? sample->rounds : 1); ordinal++) {
            sample_run again = *sample; // each round on its own seed
            again.noise_stream =
                sample->noise_stream + ordinal + (sample->rounds > 1 ? 100 * i : 0);
            again.loss_shift += 0.15 * (sample->rounds > 1 ? i : 0);
            BT_TRY(add_round(store, &again, *run, sample->cases[i], ordinal));
        }
    }
    bt_store_artifact report = {"report", "results/run-1/report.html", 180000, ""};
    BT_TRY(bt_store_artifact_add(store, *run, &report));
    if (sample->status == BT_RUN_RUNNING) {
        return bt_store_flush(store);
    }
    const char *message = sample->status == BT_RUN_FAILED ? "1 of 1 cases failed" : "";
    return bt_store_run_end(store, *run, sample->status,
                            sample->message ? sample->message : message);
}

// tests/harness/made_run.c - runs in memory
#include "tests/harness/made_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void *take(made_run *made, size_t size_bytes)
{
    void *block = NULL;
    ASSERT_OK(bt_arena_alloc(&made->arena, size_bytes, &block));
    return block;
}

void made_run_init(made_run *made)
{
    memset(made, 0, sizeof *made);
    made->facts[0] = (bt_store_fact){"cpu.model", "a processor", BT_FACT_HARD};
    made->facts[1] = (bt_store_fact){"data.tiny", "books 0123", BT_FACT_HARD};
    made->facts[2] = (bt_store_fact){"gpu.name", "NVIDIA H200", BT_FACT_HARD};
    made->facts[3] = (bt_store_fact){"gpu.uuid", "GPU-1", BT_FACT_SOFT};
    made->facts[4] = (bt_store_fact){"os.kernel", "6.1", BT_FACT_SOFT};
    made->run =
        (bt_store_run){.id = 7,
                       .info = {.suite = {"plan", "made", "cpu", "made.json", "{}"},
                                .build = {"build", "1", "abc123", "", "gcc", "-O3", "Release", ""},
                                .env = {"env", made->facts, 5},
                                .command = "bt-bench run made.json",
                                .out_dir = "results/run-7"},
                       .status = BT_RUN_PASSED,
                       .message = "",
                       .rounds = made->rounds};
}

void made_run_release(made_run *made)
{
    bt_arena_release(&made->arena);
    memset(made, 0, sizeof *made);
}

static bt_store_round *add_round(made_run *made, const char *name, const char *kind,
                                 const char *system, const char *axes)
{
    int64_t ordinal = 0;
    for (int64_t i = 0; i < made->run.round_count; ++i) {
        const bt_store_case *what = &made->rounds[i].what;
        ordinal += strcmp(what->name, name) == 0 && strcmp(what->system, system) == 0;
    }
    assert_true(made->run.round_count < MADE_ROUNDS_MAX);
    bt_store_round *round = &made->rounds[made->run.round_count++];
    *round =
        (bt_store_round){.id = made->run.round_count,
                         .ordinal = ordinal,
                         .what = {"made", kind, name, axes, system},
                         .shape = {.device = "NVIDIA H200", .precision = "fp32", .dataset = ""},
                         .status = BT_RUN_PASSED,
                         .message = "",
                         .params_digest = "",
                         .label = ""};
    return round;
}

bt_store_round *made_kernel_round(made_run *made, const char *name, const char *system,
                                  double time_ns, const char *kernel)
{
    bt_store_round *round =
        add_round(made, name, "kernel", system, "{\"kernel\":{\"op\":\"gelu\",\"shape\":\"4x5\"}}");
    bt_store_measurement *time = take(made, sizeof *time);
    bt_store_kernel *used = take(made, sizeof *used);
    *time = (bt_store_measurement){
        .metric = BT_METRIC_TIME, .value = time_ns, .low = (double)NAN, .high = (double)NAN};
    *used = (bt_store_kernel){"gelu", kernel};
    round->measurements = time;
    round->measurement_count = 1;
    round->kernels = used;
    round->kernel_count = 1;
    return round;
}

void made_ceiling_round(made_run *made, double bytes_per_s)
{
    bt_store_round *round = made_kernel_round(made, "ceiling.hot", "blutrain", 10, "copy_cpu");
    bt_store_measurement *rate = take(made, sizeof *rate);
    *rate = (bt_store_measurement){.metric = BT_METRIC_BANDWIDTH,
                                   .value = bytes_per_s,
                                   .low = (double)NAN,
                                   .high = (double)NAN};
    round->measurements = rate;
}

bt_store_round *made_train_round(made_run *made, const char *name, const char *system,
                                 double step_ns, int64_t peak_bytes, int64_t steps,
                                 int64_t shift_at, float shift)
{
    bt_store_round *round = add_round(made, name, "train", system, "{\"train\":{\"steps\":20}}");
    bt_store_step *list = take(made, (size_t)steps * sizeof *list);
    for (int64_t i = 0; i < steps; ++i) {
        list[i] = (bt_store_step){.step = i,
                                  .loss = 11.0F - 0.1F * (float)i + (i >= shift_at ? shift : 0),
                                  .tokens = 512,
                                  .host_ns = (int64_t)step_ns,
                                  .peak_allocated_bytes = peak_bytes};
    }
    round->steps = list;
    round->step_count = steps;
    round->params_digest = shift > 0 || shift < 0 ? "bb" : "aa";
    return round;
}

void made_recovery(made_run *made, bt_store_round *round, double detect_ns, double recovery_ns)
{
    const bt_metric metrics[] = {BT_METRIC_RECOVERY_DETECT, BT_METRIC_RECOVERY};
    const double values[] = {detect_ns, recovery_ns};
    bt_store_measurement *list = take(made, 2 * sizeof *list);
    for (int i = 0; i < 2; ++i) {
        list[i] = (bt_store_measurement){
            .metric = metrics[i], .value = values[i], .low = (double)NAN, .high = (double)NAN};
    }
    round->measurements = list;
    round->measurement_count = 2;
}

double made_noise(int64_t i, double spread)
{
    static const double deviates[] = {0.3, -1.1, 0.8, -0.2, 1.4,  -0.7, 0.1,  -0.5,
                                      0.9, -1.3, 0.4, 0.6,  -0.9, 1.1,  -0.4, -0.1};
    return 1 + spread * deviates[i % 16];
}

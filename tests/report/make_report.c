// tests/report/make_report.c - makes the reports that the browser looks at
//   make_report DATABASE KIND FILE...    records the made-up runs of KIND, writes each report file
// KINDS: one (a run, two cases), two (two runs), ten, many (twenty), long (10,000 steps), huge
// (50,000), failed, hostile (markup in every text), running, seeds (five rounds a case), telemetry,
// unequal (cases of 20 and of 400 steps), noisy, kernels (one system), mixed (a training
// run and a kernel run), history (thirty
// sessions), sessions (ten of kernels), pairs (two), ab, gate, replicate (with
// verdicts), index (that page, over some of these runs). Exit 0, or 1 with the reason.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "tests/harness/sample_kernels.h"
#include "tests/harness/sample_run.h"

enum { RUNS_MAX = 20 };

typedef struct made_runs {
    int64_t runs[RUNS_MAX];
    int64_t count;
} made_runs;

static bt_status add_run(bt_store *store, const sample_run *sample, made_runs *out)
{
    return sample_run_record(store, sample, &out->runs[out->count++]);
}

static bt_status add_kernels(bt_store *store, const sample_kernels *sample, made_runs *out)
{
    return sample_kernels_record(store, sample, &out->runs[out->count++]);
}

static bt_status make_one(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16";
    return add_run(store, &sample, out);
}

static bt_status make_long(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.steps = 10000;
    return add_run(store, &sample, out);
}

static bt_status make_huge(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.steps = 50000;
    return add_run(store, &sample, out);
}

static bt_status make_telemetry(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.steps = 500;
    sample.telemetry = true;
    sample.no_evals = true; // so that the samples of the last step reach furthest
    return add_run(store, &sample, out);
}

static const bt_store_group groups[] = {{"forward", "row", "row-3f2a91bc",
                                         "square, reduce_sum, shift, sqrt, div, mul x2", 24, 168,
                                         900000000, 300000000, 1200000},
                                        {"forward", "", "", "", 85, 85, 0, 0, 40000000},
                                        {"backward", "elementwise", "elementwise-0badcafe",
                                         "mul, silu, mul", 12, 36, 500000000, 200000000, 900000}};

static const bt_store_group_calls group_calls[] = {{"forward", "row-3f2a91bc", 5100000},
                                                   {"backward", "elementwise-0badcafe", 2300000}};

static bt_status make_ranks(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16";
    sample.kind = "train";
    sample.axes_json = "{\"train\":{\"steps\":60,\"tokens_per_step\":512,"
                       "\"mesh\":{\"data\":4,\"sharding\":\"zero1\"}}}";
    sample.ranks = 4;
    sample.groups = groups; // which ranks do not have, so that one page has both
    sample.group_count = 3;
    sample.group_calls = group_calls;
    sample.group_calls_count = 2;
    return add_run(store, &sample, out);
}

static bt_status make_noisy(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.rounds = 6;
    sample.noisy = true;
    return add_kernels(store, &sample, out);
}

static bt_status make_failed(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.status = BT_RUN_FAILED;
    return add_run(store, &sample, out);
}

static bt_status make_running(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.status = BT_RUN_RUNNING;
    return add_run(store, &sample, out);
}

static bt_status make_hostile(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.suite = "<script>window.hacked=1</script>";
    sample.device = "\"><img src=x onerror=window.hacked=1>";
    sample.cases[0] = "</script><script>window.hacked=1</script>&amp;";
    sample.fact = "</pre><script>window.hacked=1</script>";
    sample.plan_json = "{\"a\":\"</pre><script>window.hacked=1</script>\"}";
    sample.status = BT_RUN_FAILED;
    return add_run(store, &sample, out);
}

static bt_status make_two(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    BT_TRY(add_run(store, &sample, out));
    sample.loss_shift = 0.1;
    sample.step_ms = 210.0;
    sample.fact = "570.1";
    sample.plan_json = "{\"train\":{\"steps\":60,\"seed\":1338},\"model\":{\"layers\":12}}";
    sample.steps = 50;
    return add_run(store, &sample, out);
}

static bt_status make_several(bt_store *store, int64_t count, bt_run_status last, made_runs *out)
{
    sample_run sample = sample_run_default();
    while (out->count < count) {
        sample.step_ms *= 0.98;
        sample.loss_shift += 0.02;
        sample.fact = out->count < 7 ? "580.159" : "570.1";
        sample.status = out->count + 1 == count ? last : BT_RUN_PASSED;
        BT_TRY(add_run(store, &sample, out));
    }
    return BT_OK;
}

static bt_status make_ten(bt_store *store, made_runs *out)
{
    return make_several(store, 10, BT_RUN_PASSED, out);
}

static bt_status make_many(bt_store *store, made_runs *out)
{
    return make_several(store, RUNS_MAX, BT_RUN_FAILED, out);
}

static bt_status make_unequal(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.steps = 400;
    BT_TRY(add_run(store, &sample, out));
    sample.steps = 20;
    BT_TRY(add_run(store, &sample, out));
    return add_run(store, &sample, out);
}

static bt_status make_seeds(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample.rounds = 5;
    sample.steps = 400;
    sample.cases[1] = "bf16";
    return add_run(store, &sample, out);
}

static bt_status make_kernels(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    return add_kernels(store, &sample, out);
}

static bt_status make_mixed(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    sample_kernels kernels = sample_kernels_default();
    BT_TRY(add_run(store, &sample, out));
    return add_kernels(store, &kernels, out);
}

// Thirty sessions of one case, slower from the twentieth on; the report is of the last.
static bt_status make_history(bt_store *store, made_runs *out)
{
    sample_run sample = sample_run_default();
    for (int i = 0; i < 30; i++) {
        sample.noise_stream = i;
        sample.step_ms = (i < 20 ? 250.0 : 259.0) * (1.0 + 0.002 * sin(11.0 * i));
        out->count = 0;
        BT_TRY(add_run(store, &sample, out));
    }
    return BT_OK;
}

// Ten sessions of one kernel suite, each a little slower.
static bt_status make_sessions(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.cases = 60;
    while (out->count < 10) {
        BT_TRY(add_kernels(store, &sample, out));
        sample.drift += 0.004;
    }
    return BT_OK;
}

static bt_status make_pairs(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.rounds = 6;
    return add_kernels(store, &sample, out);
}

static bt_status make_ab(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.systems[0] = "base";
    sample.systems[1] = "candidate";
    sample.kind = "ab";
    sample.cases = 158;
    sample.rounds = 8;
    return add_kernels(store, &sample, out);
}

static bt_status make_gate(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.systems[0] = "base"; // judged against a baseline: verdicts without pairs
    sample.kind = "gate";
    sample.rounds = 2;
    return add_kernels(store, &sample, out);
}

static bt_status make_replicate(bt_store *store, made_runs *out)
{
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.kind = "replicate";
    sample.deviations = "PyTorch computes attention in FP32: it has none in TF32; a few steps";
    sample.cases = 60;
    sample.rounds = 4;
    return add_kernels(store, &sample, out);
}

static bt_status make_index(bt_store *store, made_runs *out)
{
    sample_run failed = sample_run_default();
    failed.suite = "distributed_collectives";
    failed.status = BT_RUN_FAILED;
    BT_TRY(add_run(store, &failed, out));
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-compile";
    BT_TRY(add_kernels(store, &sample, out));
    return add_kernels(store, &sample, out);
}

static const struct {
    const char *name;
    bt_status (*make)(bt_store *store, made_runs *out);
} kinds[] = {{"one", make_one},         {"two", make_two},
             {"ten", make_ten},         {"many", make_many},
             {"long", make_long},       {"huge", make_huge},
             {"failed", make_failed},   {"running", make_running},
             {"hostile", make_hostile}, {"seeds", make_seeds},
             {"kernels", make_kernels}, {"mixed", make_mixed},
             {"history", make_history}, {"sessions", make_sessions},
             {"pairs", make_pairs},     {"telemetry", make_telemetry},
             {"noisy", make_noisy},     {"ab", make_ab},
             {"gate", make_gate},       {"replicate", make_replicate},
             {"ranks", make_ranks},     {"unequal", make_unequal},
             {"index", make_index}};

static bt_status record(bt_store *store, const char *name, made_runs *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].make(store, out);
        }
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "no kind '%s'", name);
}

static bt_status write_index(bt_store *store, const char *path)
{
    bt_str page = {0};
    bt_status status = bt_report_index(store, "", &page);
    if (status == BT_OK) {
        status = bt_file_write(path, bt_str_text(&page), page.length_bytes);
    }
    bt_str_release(&page);
    return status;
}

static bt_status work(int argc, char **argv)
{
    bt_store *store = NULL;
    bt_str out = {0};
    made_runs made = {.count = 0};
    BT_TRY(bt_store_open(argv[1], BT_STORE_WRITE, &store));
    bt_status status = record(store, argv[2], &made);
    if (status == BT_OK && argc == 3) {
        status = bt_show_text(store, made.runs[0], 0, &out);
        if (status == BT_OK) {
            status = bt_show_json(store, made.runs[0], &out);
        }
        if (status == BT_OK && made.count == 2) {
            status = bt_compare_text(store, made.runs[0], made.runs[1], 0, &out, NULL);
        }
        (void)fputs(bt_str_text(&out), stdout);
    }
    for (int i = 3; status == BT_OK && i < argc; i++) {
        int64_t start_ns = bt_clock_ns();
        status = strcmp(argv[2], "index") == 0
                     ? write_index(store, argv[i])
                     : bt_report_write(store, made.runs, made.count, argv[i]);
        (void)printf("%s %.3f s\n", argv[i], (double)(bt_clock_ns() - start_ns) / 1e9);
    }
    bt_str_release(&out);
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fputs("usage: make_report DATABASE KIND FILE...\n", stderr);
        return 2;
    }
    if (work(argc, argv) != BT_OK) {
        (void)fprintf(stderr, "%s\n", bt_error_message());
        return 1;
    }
    return 0;
}

// tests/harness/sample_bundle.c - two runs, recorded as every run is, and exported
#include "tests/harness/sample_bundle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "harness/ab/ab.h"
#include "harness/run/run.h"
#include "harness/stats/sessions.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const char kernel_suite[] =
    "{\"name\":\"kernels\",\"profiles\":{\"cpu\":{\"device\":\"cpu\",\"rounds\":2,\"cases\":["
    "{\"name\":\"gelu\",\"kind\":\"kernel\",\"kernel\":{\"op\":\"gelu\",\"dtype\":\"f32\","
    "\"cache\":\"cold\",\"shape\":\"64x64\"}}]}}}";

sample_bundle sample_training, sample_kernels, sample_systems;

// systems NULL: the worker alone.
static int64_t run_suite(const char *text, const char *worker, const bt_peer *systems,
                         int64_t system_count, int64_t rounds)
{
    static const bt_machine machine = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "a test"};
    bt_suite suite;
    bt_plan plan;
    bt_run_outcome outcome;
    ASSERT_OK(scratch_plan_make(text, rounds, &machine, &suite, &plan));
    bt_run_request request = scratch_run_request(&suite, &plan, &machine, worker);
    request.systems = systems;
    request.system_count = system_count;
    request.command = "bt-bench run /home/lovelace/secret/s.json --db /mnt/x/y.sqlite";
    ASSERT_OK(bt_run_execute(&request, &outcome));
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return outcome.run;
}

static void add_systems(int64_t run)
{
    const bt_store_build build = {"d1", "0.1.0", "c1", "", "gcc", "-O3", "Release", ""};
    const bt_store_system systems[] = {{"base", "/mnt/old/bt-bench", 0.0, build},
                                       {"candidate", "", 0.02, build}};
    const bt_store_schedule schedule = {UINT64_MAX - 1, "calibrate", "{\"alpha\":0.01}", systems,
                                        2};
    ASSERT_OK(bt_store_schedule_set(scratch_store, run, &schedule));
}

static void add_telemetry(int64_t round)
{
    bt_store_telemetry samples[3];
    for (int i = 0; i < 3; i++) {
        for (int column = 0; column < BT_TELEMETRY_COLUMNS; column++) {
            ((double *)(void *)&samples[i])[column] =
                column % 4 == 3 ? (double)NAN : column + 0.1 * i;
        }
        if (i == 0) {
            samples[i].steps = samples[i].step_ended_ns = (double)NAN; // absent from the file
        }
        samples[i].other_processes = 0.0; // undisturbed
        samples[i].steal_share = samples[i].held_share = samples[i].other_cores = 0.0;
    }
    ASSERT_OK(bt_store_telemetry_set(scratch_store, round, "", samples, 3));
}

// Run 2 against five sessions like itself as its baseline.
static void gate_kernels(void)
{
    bt_store_run run;
    bt_str document = {0};
    bt_baseline baseline;
    bt_policy policy;
    bt_gate_result result;
    ASSERT_OK(bt_store_run_read(scratch_store, 2, &run));
    bt_store_run sessions[BT_SESSIONS_MIN]; // the same on as many days
    const bt_store_run *of[BT_SESSIONS_MIN];
    const bt_baseline_wish wish = {.name = "main", .reason = "a test", .accept_noise = "a test"};
    for (int i = 0; i < BT_SESSIONS_MIN; i++) {
        sessions[i] = run;
        sessions[i].id += 10 * i;
        sessions[i].started_ns += i * INT64_C(86400000000000);
        of[i] = &sessions[i];
    }
    ASSERT_OK(bt_baseline_write(of, BT_SESSIONS_MIN, &wish, &document));
    ASSERT_OK(bt_baseline_parse("main", bt_str_text(&document), document.length_bytes, &baseline));
    ASSERT_OK(bt_policy_load(NULL, &policy));
    const bt_gate_request request = {.run = &run, .baseline = &baseline, .policy = &policy};
    ASSERT_OK(bt_gate_run(&request, &result));
    ASSERT_OK(bt_gate_store(scratch_store, BT_GATE_KIND, &result));
    bt_gate_result_release(&result);
    bt_policy_release(&policy);
    bt_baseline_release(&baseline);
    bt_str_release(&document);
    bt_store_run_release(&run);
}

// Run 3: two systems, judged by 'ab' and as a claim.
static void judge_systems(void)
{
    static const bt_store_verdict claim = {
        .subject = "faster",
        .metric = "time_ns",
        .verdict = "REPLICATED",
        .ratio = 1.0,
        .low = 1.0,
        .high = 1.0,
        .rounds = 8,
        .reason = "",
        .rule_json = "{\"case\":\"gelu.forward.f32.64x64\",\"other\":\"pytorch-eager\","
                     "\"claimed\":1,\"margin\":0.1,\"deviations\":\"\"}"};
    const bt_store_build build = {"d1", "0.1.0", "c1", "", "gcc", "-O3", "Release", ""};
    const bt_store_system systems[] = {{"pytorch-eager", "", 0.0, build},
                                       {"blutrain", "", 0.0, build}};
    bt_store_schedule schedule = {
        .seed = 7, .kind = BT_AB_KIND, .systems = systems, .system_count = 2};
    bt_str rule = {0};
    bt_policy policy;
    bt_store_run run;
    bt_gate_result result;
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    ASSERT_OK(bt_ab_rule_json(&policy, &rule));
    schedule.rule_json = bt_str_text(&rule);
    ASSERT_OK(bt_store_schedule_set(scratch_store, 3, &schedule));
    ASSERT_OK(bt_ab_judge(scratch_store, 3, &policy, &run, &result));
    ASSERT_OK(bt_store_verdicts_set(scratch_store, 3, "replicate", &claim, 1));
    bt_gate_result_release(&result);
    bt_store_run_release(&run);
    bt_policy_release(&policy);
    bt_str_release(&rule);
}

void sample_bundle_export(int64_t run, const bt_bundle_key *key, const char *path,
                          sample_bundle *out)
{
    bt_str notes = {0};
    const bt_bundle_options options = {.key = key};
    ASSERT_OK(bt_bundle_export(scratch_store, run, &options, path, &notes));
    bt_str_release(&notes);
    ASSERT_OK(bt_file_read(path, &out->bytes, &out->size_bytes));
}

void sample_bundle_unpack(const sample_bundle *bundle, bt_files *files)
{
    ASSERT_OK(bt_files_unpack(bundle->bytes, bundle->size_bytes, files));
}

int sample_bundles_make(void **state)
{
    char text[1024];
    uint16_t tokens[64] = {50256};
    char names[][16] = {"pytorch-eager", "blutrain"}, program[] = SCRATCH_KERNEL_PEER;
    const bt_peer two[] = {{.name = names[0], .program = program},
                           {.name = names[1], .program = program}};
    assert_int_equal(scratch_database_name(state), 0);
    ASSERT_OK(bt_shard_write(test_scratch_path("t.bin"), tokens, 64));
    (void)snprintf(text, sizeof text,
                   "{\"name\":\"tiny\",\"dataset\":{\"train\":[\"%s\"]},\"profiles\":{\"cpu\":{"
                   "\"device\":\"cpu\",\"train\":{\"micro_batch\":1,\"sequence\":16,\"steps\":6},"
                   "\"cases\":[{\"name\":\"one\",\"kind\":\"train\"}]}}}",
                   test_scratch_path("t.bin"));
    setenv("BT_FAKE_WORKER", "nan", 1);
    assert_int_equal(run_suite(text, "tests/support/fake_worker.sh", NULL, 0, 0), 1);
    assert_int_equal(run_suite(kernel_suite, SCRATCH_KERNEL_PEER, NULL, 0, 0), 2);
    assert_int_equal(run_suite(kernel_suite, SCRATCH_KERNEL_PEER, two, 2, 8), 3);
    scratch_store = scratch_open(BT_STORE_WRITE);
    add_telemetry(1);
    add_systems(1);
    gate_kernels();
    judge_systems();
    sample_bundle_export(1, NULL, test_scratch_path("training.tar.zst"), &sample_training);
    sample_bundle_export(2, NULL, test_scratch_path("kernels.tar.zst"), &sample_kernels);
    sample_bundle_export(3, NULL, test_scratch_path("systems.tar.zst"), &sample_systems);
    return 0;
}

int sample_bundles_remove(void **state)
{
    bt_mem_free(sample_training.bytes);
    bt_mem_free(sample_kernels.bytes);
    bt_mem_free(sample_systems.bytes);
    return scratch_store_close(state);
}

// tests/harness/sample_bundle.c - two runs, recorded as every run is, and exported
#include "tests/harness/sample_bundle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "harness/run/run.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const char kernel_suite[] =
    "{\"name\":\"kernels\",\"profiles\":{\"cpu\":{\"device\":\"cpu\",\"rounds\":2,\"cases\":["
    "{\"name\":\"gelu\",\"kind\":\"kernel\",\"kernel\":{\"op\":\"gelu\",\"dtype\":\"f32\","
    "\"cache\":\"hot\",\"shape\":\"64x64\"}}]}}}";

sample_bundle sample_training, sample_kernels;
bt_store *sample_store;

static int64_t run_suite(const char *text, const char *worker)
{
    static const bt_machine machine = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "a test"};
    const bt_plan_options options = {.seed = -1};
    bt_suite suite;
    bt_plan plan;
    bt_run_outcome outcome;
    ASSERT_OK(bt_suite_parse("s.json", text, strlen(text), &suite));
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &plan));
    bt_run_request request = {.suite = &suite,
                              .plan = &plan,
                              .machine = &machine,
                              .database = test_scratch_path("runs.sqlite"),
                              .out_dir = test_scratch_path("out"),
                              .worker = worker,
                              .command =
                                  "bt-bench run /home/lovelace/secret/s.json --db /mnt/x/y.sqlite",
                              .quiet = true};
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
    const bt_store_schedule schedule = {UINT64_MAX - 1, "ab", "{\"alpha\":0.01}", systems, 2};
    ASSERT_OK(bt_store_schedule_set(sample_store, run, &schedule));
}

static void add_telemetry(int64_t round)
{
    bt_store_telemetry samples[3];
    for (int i = 0; i < 3; i++) {
        for (int column = 0; column < BT_TELEMETRY_COLUMNS; column++) {
            ((double *)(void *)&samples[i])[column] =
                column % 4 == 3 ? (double)NAN : column + 0.1 * i;
        }
    }
    ASSERT_OK(bt_store_telemetry_set(sample_store, round, "", samples, 3));
}

void sample_bundle_export(int64_t run, const bt_bundle_key *key, const char *path,
                          sample_bundle *out)
{
    bt_str notes = {0};
    ASSERT_OK(bt_bundle_export(sample_store, run, key, path, &notes));
    bt_str_release(&notes);
    ASSERT_OK(bt_file_read(path, &out->bytes, &out->size_bytes));
}

void sample_bundle_unpack(const sample_bundle *bundle, bt_files *files)
{
    ASSERT_OK(bt_files_unpack(bundle->bytes, bundle->size_bytes, files));
}

int sample_bundles_make(void **state)
{
    (void)state;
    char text[1024];
    uint16_t tokens[64] = {50256};
    assert_non_null(test_scratch_make());
    ASSERT_OK(bt_shard_write(test_scratch_path("t.bin"), tokens, 64));
    (void)snprintf(text, sizeof text,
                   "{\"name\":\"tiny\",\"dataset\":{\"train\":[\"%s\"]},\"profiles\":{\"cpu\":{"
                   "\"device\":\"cpu\",\"train\":{\"micro_batch\":1,\"sequence\":16,\"steps\":6},"
                   "\"cases\":[{\"name\":\"one\",\"kind\":\"train\"}]}}}",
                   test_scratch_path("t.bin"));
    setenv("FAKE_WORKER", "nan", 1);
    assert_int_equal(run_suite(text, "tests/support/fake_worker.sh"), 1);
    assert_int_equal(run_suite(kernel_suite, "tests/support/kernel_peer.sh"), 2);
    ASSERT_OK(bt_store_open(test_scratch_path("runs.sqlite"), BT_STORE_WRITE, &sample_store));
    add_telemetry(1);
    add_systems(1);
    sample_bundle_export(1, NULL, test_scratch_path("training.tar.zst"), &sample_training);
    sample_bundle_export(2, NULL, test_scratch_path("kernels.tar.zst"), &sample_kernels);
    return 0;
}

int sample_bundles_remove(void **state)
{
    (void)state;
    ASSERT_OK(bt_store_close(sample_store));
    bt_mem_free(sample_training.bytes);
    bt_mem_free(sample_kernels.bytes);
    test_scratch_remove();
    return 0;
}

// tests/harness/test_metrics.c - metrics.jsonl and bt_bench.prom, read as strangers would read them
#include "harness/run/metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "harness/bundle/content.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static char folder[512], shard[512];

static char *read_text(const char *name)
{
    char path[600];
    void *bytes = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
    return bytes;
}

// ---- a reader of Prometheus' text format -------------------------------------------------------

typedef struct sample {
    char name[64], labels[512];
    double value;
} sample;

static const char *skip_name(const char *at)
{
    assert_true(isalpha((unsigned char)*at) || *at == '_');
    while (isalnum((unsigned char)*at) || *at == '_' || *at == ':') {
        ++at;
    }
    return at;
}

// {name="value",...} with the three escapes that there are.
static const char *skip_labels(const char *at)
{
    assert_int_equal(*at++, '{');
    for (;;) {
        at = skip_name(at);
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; ++at) {
            assert_true(*at && *at != '\n');
            if (*at == '\\') {
                ++at;
                assert_true(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        ++at;
        if (*at == '}') {
            return at + 1;
        }
        assert_int_equal(*at++, ',');
    }
}

static void parse_sample(const char *line, sample *out)
{
    const char *labels = skip_name(line), *value = skip_labels(labels);
    char *end = NULL;
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)(labels - line), line);
    (void)snprintf(out->labels, sizeof out->labels, "%.*s", (int)(value - labels), labels);
    assert_int_equal(*value, ' ');
    out->value = strtod(value + 1, &end); // reads NaN and +Inf too
    assert_true(end > value + 1 && *end == '\0');
}

// Checks the whole file and finds the samples of a metric.
static int find_samples(const char *name, sample *out, int most)
{
    char *text = read_text("bt_bench.prom"), typed[64] = "", *save = NULL;
    int found = 0;
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char given[64], type[16];
        sample one = {0};
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_true(strchr(line + 7, ' ')[1] != '\0');
        } else if (sscanf(line, "# TYPE %63s %15s", given, type) == 2) {
            assert_true(strcmp(type, "gauge") == 0 || strcmp(type, "counter") == 0);
            (void)snprintf(typed, sizeof typed, "%s", given);
        } else {
            parse_sample(line, &one);
            assert_string_equal(one.name, typed); // a group each, its type first
            if (strcmp(one.name, name) == 0 && found < most) {
                out[found++] = one;
            }
        }
    }
    bt_mem_free(text);
    return found;
}

static double value_of(const char *name)
{
    sample one = {0};
    if (find_samples(name, &one, 1) != 1) {
        fail_msg("no sample of %s", name);
    }
    return one.value;
}

static bool is_there(const char *name)
{
    sample one = {0};
    return find_samples(name, &one, 1) == 1;
}

// ---- events ------------------------------------------------------------------------------------

static bt_run_event step_event(int64_t step, float loss)
{
    return (bt_run_event){.type = BT_RUN_EVENT_STEP,
                          .as.step = {.step = step,
                                      .loss = loss,
                                      .grad_norm = 1.5F,
                                      .lr = 6e-4,
                                      .tokens = 512,
                                      .host_ns = 250000000,
                                      .allocated_bytes = 1000,
                                      .peak_allocated_bytes = 2000,
                                      .reserved_bytes = 4096}};
}

static bt_run_event fault_event(const char *kind)
{
    return (bt_run_event){.type = BT_RUN_EVENT_FAULT,
                          .as.fault = {3, kind, "continue", "loss 9 where 2 was usual"}};
}

static bt_run_event save_event(const char *kind, int64_t step)
{
    return (bt_run_event){.type = BT_RUN_EVENT_SAVE,
                          .as.save = {.kind = kind, .step = step, .message = ""}};
}

static void say(bt_metrics *metrics, bt_run_event event) { bt_metrics_event(metrics, &event); }

static void the_state_is_what_was_said(void **state)
{
    (void)state;
    const bt_metrics_round round = {7, "a \"case\"\n\\", "blutrain", 2, 10};
    sample faults[4], one;
    bt_metrics *metrics = NULL;
    ASSERT_OK(bt_metrics_open(folder, &metrics));
    bt_metrics_round_begin(metrics, &round);
    assert_true(value_of("bt_bench_up") == 1);
    assert_false(is_there("bt_bench_loss")); // not known is not 0
    say(metrics, step_event(0, 3.5F));
    say(metrics, step_event(1, NAN));
    say(metrics, fault_event("loss_spike"));
    say(metrics, fault_event("nonfinite_loss"));
    say(metrics, fault_event("loss_spike"));
    say(metrics, save_event("loaded", 5));
    say(metrics, save_event("failed", 6));
    bt_metrics_round_end(metrics, "failed", "it \"broke\"");
    assert_string_equal(bt_metrics_failure(metrics), "");
    bt_metrics_close(metrics);
    assert_true(value_of("bt_bench_up") == 0);
    assert_true(value_of("bt_bench_steps_done") == 2);
    assert_true(value_of("bt_bench_steps_planned") == 10);
    assert_true(value_of("bt_bench_tokens_total") == 1024);
    assert_true(isnan(value_of("bt_bench_loss")));
    assert_true(value_of("bt_bench_tokens_per_second") == 2048);
    assert_true(value_of("bt_bench_step_seconds") == 0.25);
    assert_true(value_of("bt_bench_memory_reserved_bytes") == 4096);
    assert_false(is_there("bt_bench_memory_resident_bytes"));
    assert_false(is_there("bt_bench_checkpoint_age_seconds"));
    assert_true(value_of("bt_bench_silence_seconds") >= 0);
    assert_int_equal(find_samples("bt_bench_loss", &one, 1), 1);
    assert_string_equal(
        one.labels, "{run=\"7\",case=\"a \\\"case\\\"\\n\\\\\",system=\"blutrain\",round=\"2\"}");
    assert_int_equal(find_samples("bt_bench_faults_total", faults, 4), 2);
    assert_true(faults[0].value == 2 && strstr(faults[0].labels, "kind=\"loss_spike\""));
    assert_true(faults[1].value == 1 && strstr(faults[1].labels, "kind=\"nonfinite_loss\""));
}

// Lines of the log, each an object; [0] is the oldest.
static int read_log(bt_json_doc *lines, int most)
{
    char *text = read_text("metrics.jsonl"), *save = NULL;
    int count = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_true(count < most);
        ASSERT_OK(bt_json_parse("line", line, strlen(line), &lines[count++]));
    }
    bt_mem_free(text);
    return count;
}

static void expect_text(const bt_json_doc *line, const char *key, const char *text)
{
    const cJSON *node = bt_json_get(line->root, key);
    assert_true(cJSON_IsString(node));
    assert_string_equal(node->valuestring, text);
}

static void expect_fault(const bt_store_round *round)
{
    assert_int_equal(round->fault_count, 1);
    assert_int_equal(round->faults[0].step, 2);
    assert_string_equal(round->faults[0].kind, "loss_spike");
    assert_string_equal(round->faults[0].action, "continue");
    assert_string_equal(round->faults[0].message, "loss 980, \"usually\" 1");
}

// A fault is in the record, in a bundle and in what is imported from it.
static void check_record(int64_t id)
{
    bt_store_run run = scratch_run_read(id), copy;
    bt_files files = {0};
    int64_t imported = 0;
    expect_fault(&run.rounds[0]);
    ASSERT_OK(bt_content_write(&run, &files));
    bt_store_run_release(&run);
    bt_files_sort(&files);
    ASSERT_OK(bt_content_read(&files, &copy));
    bt_files_release(&files);
    expect_fault(&copy.rounds[0]);
    bt_store *store = scratch_open(BT_STORE_AMEND);
    ASSERT_OK(bt_store_run_import(store, &copy, false, &imported));
    ASSERT_OK(bt_store_close(store));
    bt_store_run_release(&copy);
    run = scratch_run_read(imported);
    expect_fault(&run.rounds[0]);
    bt_store_run_release(&run);
    store = scratch_open(BT_STORE_AMEND);
    ASSERT_OK(bt_store_run_remove(store, imported));
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM fault"), 1);
}

static void a_run_leaves_its_log(void **state)
{
    (void)state;
    enum { MOST = 64 };
    bt_json_doc lines[MOST];
    bt_suite suite = {0};
    bt_plan plan = {0};
    bt_run_outcome outcome;
    const bt_machine machine = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "a test"};
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"name\":\"t\",\"dataset\":{\"train\":[\"%s\"]},\"profiles\":{"
                   "\"cpu\":{\"device\":\"cpu\",\"train\":{\"steps\":6,\"micro_batch\":1,"
                   "\"sequence\":16},\"cases\":[{\"name\":\"one\",\"kind\":\"train\"}]}}}",
                   shard);
    (void)setenv("BT_FAKE_WORKER", "fault", 1);
    ASSERT_OK(scratch_plan_make(text, 1, &machine, &suite, &plan));
    bt_run_request request =
        scratch_run_request(&suite, &plan, &machine, "tests/support/fake_worker.sh");
    request.metrics_dir = folder;
    ASSERT_OK(bt_run_execute(&request, &outcome));
    (void)unsetenv("BT_FAKE_WORKER");
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    const int count = read_log(lines, MOST);
    int steps = 0, faults = 0;
    expect_text(&lines[0], "event", "round_begin");
    expect_text(&lines[count - 1], "event", "round_end");
    expect_text(&lines[count - 1], "status", "passed");
    for (int i = 0; i < count; ++i) {
        const char *event = bt_json_get(lines[i].root, "event")->valuestring;
        expect_text(&lines[i], "case", "one");
        expect_text(&lines[i], "system", "fake_worker.sh");
        assert_true(bt_json_number_of(lines[i].root, "time_s") > 1.6e9);
        assert_true(bt_json_number_of(lines[i].root, "run") == (double)outcome.run);
        if (strcmp(event, "step") == 0) {
            assert_true(bt_json_number_of(lines[i].root, "step") == steps++);
            assert_true(bt_json_number_of(lines[i].root, "tokens_per_s") > 5e4);
            assert_true(bt_json_number_of(lines[i].root, "faults") == faults);
        } else if (strcmp(event, "fault") == 0) {
            expect_text(&lines[i], "kind", "loss_spike");
            expect_text(&lines[i], "message", "loss 980, \"usually\" 1");
            faults++;
        }
        bt_json_doc_release(&lines[i]);
    }
    assert_int_equal(steps, 6);
    assert_int_equal(faults, 1);
    assert_true(value_of("bt_bench_steps_done") == 6);
    check_record(outcome.run);
    bt_plan_release(&plan);
    bt_suite_release(&suite);
}

static void a_checkpoint_has_an_age(void **state)
{
    (void)state;
    const bt_metrics_round round = {1, "one", "blutrain", 0, 10};
    bt_metrics *metrics = NULL;
    bt_json_doc lines[8];
    ASSERT_OK(bt_metrics_open(folder, &metrics));
    bt_metrics_round_begin(metrics, &round);
    say(metrics, save_event("saved", 8));
    say(metrics, step_event(0, 1));
    bt_metrics_round_end(metrics, "passed", "");
    bt_metrics_close(metrics);
    assert_true(value_of("bt_bench_checkpoint_step") == 8);
    assert_true(value_of("bt_bench_checkpoint_age_seconds") >= 0 &&
                value_of("bt_bench_checkpoint_age_seconds") < 60);
    const int count = read_log(lines, 8);
    assert_int_equal(count, 4);
    assert_null(bt_json_get(lines[0].root, "checkpoint_age_s"));
    assert_true(bt_json_number_of(lines[2].root, "checkpoint_age_s") >= 0);
    for (int i = 0; i < count; ++i) {
        bt_json_doc_release(&lines[i]);
    }
}

static void a_folder_that_is_gone_stops_the_metrics_only(void **state)
{
    (void)state;
    const bt_metrics_round round = {1, "one", "blutrain", 0, 10};
    bt_metrics *metrics = NULL;
    char path[600];
    ASSERT_FAILS(BT_STATUS_IO, "tiny.bin", bt_metrics_open(shard, &metrics));
    assert_null(metrics);
    ASSERT_OK(bt_metrics_open(folder, &metrics));
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    bt_metrics_round_begin(metrics, &round);
    assert_non_null(strstr(bt_metrics_failure(metrics), "bt_bench.prom"));
    say(metrics, step_event(0, 1));
    bt_metrics_round_end(metrics, "passed", "");
    bt_metrics_close(metrics);
    ASSERT_OK(bt_metrics_open(NULL, &metrics)); // no watcher
    assert_null(metrics);
    bt_metrics_round_begin(metrics, &round);
    bt_metrics_tick(metrics);
    bt_metrics_close(metrics);
}

static void every_metric_is_documented(void **state)
{
    (void)state;
    void *readme = NULL;
    size_t size_bytes = 0;
    ASSERT_OK(bt_file_read("harness/run/METRICS.md", &readme, &size_bytes));
    for (int i = 0; bt_metrics_name(i); ++i) {
        char word[80];
        (void)snprintf(word, sizeof word, "`%s`", bt_metrics_name(i) + strlen("bt_bench_"));
        if (!strstr(readme, word)) {
            fail_msg("harness/run/METRICS.md lacks %s", word);
        }
    }
    bt_mem_free(readme);
}

static int set_up(void **state)
{
    const uint16_t tokens[64] = {50256};
    if (scratch_database_name(state) != 0) {
        return 1;
    }
    (void)snprintf(shard, sizeof shard, "%s", test_scratch_path("tiny.bin"));
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("metrics"));
    return bt_shard_write(shard, tokens, 64) != BT_OK;
}

int main(void)
{
#define METRICS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_database_remove)
    const struct CMUnitTest tests[] = {
        METRICS_TEST(the_state_is_what_was_said),
        METRICS_TEST(a_run_leaves_its_log),
        METRICS_TEST(a_checkpoint_has_an_age),
        METRICS_TEST(a_folder_that_is_gone_stops_the_metrics_only),
        cmocka_unit_test(every_metric_is_documented),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}

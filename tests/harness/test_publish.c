// tests/harness/test_publish.c - a publication: what is in it, what it leaves out, what it refuses
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/report/publish.h"
#include "tests/harness/sample_kernels.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/schema_check.h"

static bt_store *store;
static const char *folder;
static char target[128];

static int open_store(void **state)
{
    char path[128];
    (void)state;
    folder = sample_folder_make();
    (void)snprintf(path, sizeof path, "%s/bt.sqlite", folder);
    (void)snprintf(target, sizeof target, "%s/out/first", folder);
    return bt_store_open(path, BT_STORE_WRITE, &store) == BT_OK ? 0 : -1;
}

static int close_store(void **state)
{
    (void)state;
    bt_status status = bt_store_close(store);
    sample_folder_remove(folder);
    return status == BT_OK && bt_mem_live_count() == 0 ? 0 : -1;
}

static int64_t record_claims(void)
{
    int64_t run = 0;
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.kind = "replicate";
    sample.rounds = 2;
    ASSERT_OK(sample_kernels_record(store, &sample, &run));
    return run;
}

static int64_t record_training(const char *command)
{
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.command = command;
    ASSERT_OK(sample_run_record(store, &sample, &run));
    return run;
}

// A file of the publication as text. Owned: the caller.
static char *file_text(const char *name)
{
    char path[256];
    void *text = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/%s", target, name);
    ASSERT_OK(bt_file_read(path, &text, &size_bytes));
    assert_int_equal(strlen(text), size_bytes);
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (!text || !strstr(text, words)) {
        fail_msg("no '%s' in:\n%.3000s", words, text ? text : "");
    }
}

static void a_replication_has_verdicts_plots_and_how_to_rerun(void **state)
{
    (void)state;
    int64_t run = record_claims();
    bt_json_doc claims;
    static const char text[] =
        "{\"conditions\": [{\"name\": \"kernel\", \"text\": \"One RTX 6000 Ada\"},"
        " {\"name\": \"other\", \"text\": \"never met\"}],"
        " \"claims\": [{\"id\": \"B.1.forward.f32.1024x768\", \"conditions\": \"kernel\"},"
        " {\"id\": \"B.1\", \"conditions\": \"other\"}]}";
    ASSERT_OK(bt_json_parse("claims", text, strlen(text), &claims));
    bt_publication publication = {.folder = target, .claims = &claims};
    ASSERT_OK(bt_report_publish(store, &run, 1, &publication));
    bt_json_release(&claims);
    char *readme = file_text("README.md");
    assert_has(readme, "claims tested, 16 replicated or exceeded");
    assert_has(readme, "NOT TESTABLE HERE");
    assert_has(readme, "![ratios with their intervals](ratios-replicate-1.svg)");
    assert_has(readme, "- the paper (kernel): One RTX 6000 Ada");
    assert_null(strstr(readme, "never met"));
    assert_has(readme, "- here: NVIDIA H200; gpu.driver 580.159");
    assert_has(readme, "git checkout 3f50b31c\n./bt-bench run suites/kernels/all --rounds 8\n");
    assert_has(readme, "| plan | 77aa01c2 |");
    assert_has(readme, "[report.json](report.json)");
    bt_mem_free(readme);
    char *plot = file_text("ratios-replicate-1.svg");
    assert_has(plot, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    assert_has(plot, "prefers-color-scheme:dark");
    bt_mem_free(plot);
    char *page = file_text("index.html");
    assert_has(page, "<!doctype html>");
    bt_mem_free(page);
    char *environment = file_text("environment.json");
    cJSON *json = cJSON_Parse(environment);
    assert_non_null(cJSON_GetObjectItem(json, "runs"));
    cJSON_Delete(json);
    bt_mem_free(environment);
}

static void the_json_satisfies_its_schema(void **state)
{
    (void)state;
    int64_t run = record_claims();
    void *bytes = NULL;
    size_t size_bytes = 0;
    bt_publication publication = {.folder = target};
    ASSERT_OK(bt_report_publish(store, &run, 1, &publication));
    ASSERT_OK(bt_file_read("suites/schema/report.schema.json", &bytes, &size_bytes));
    cJSON *schema = cJSON_Parse(bytes);
    char *text = file_text("report.json");
    cJSON *report = cJSON_Parse(text);
    assert_string_equal(schema_check(schema, report), "");
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "runs"), 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "verdicts")), 30);
    cJSON_Delete(report);
    cJSON_Delete(schema);
    bt_mem_free(text);
    bt_mem_free(bytes);
}

static void paths_and_markup_stay_here(void **state)
{
    (void)state;
    int64_t run = record_training(
        "/home/ada/secret/bt-bench run /home/ada/mine.json --set a=`reboot`\n```\n<script>");
    bt_publication publication = {.folder = target};
    ASSERT_OK(bt_report_publish(store, &run, 1, &publication));
    static const char *const names[] = {"README.md", "index.html", "report.json",
                                        "environment.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *text = file_text(names[i]);
        assert_null(strstr(text, "ada"));
        assert_null(strstr(text, "secret"));
        bt_mem_free(text);
    }
    char *readme = file_text("README.md");
    assert_has(readme, "./bt-bench run .../mine.json --set a= reboot");
    assert_has(readme, "![loss over the steps](loss.svg)");
    assert_has(readme, "| parameters of fp32 | 9c41d0e2b35a7f08");
    bt_mem_free(readme);
}

static void another_publication_is_left_alone(void **state)
{
    (void)state;
    int64_t first = record_claims(), second = record_training("bt-bench run x");
    char path[256];
    bt_publication publication = {.folder = target};
    ASSERT_OK(bt_report_publish(store, &first, 1, &publication));
    char *before = file_text("README.md");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "--force replaces it",
                 bt_report_publish(store, &second, 1, &publication));
    char *after = file_text("README.md");
    assert_string_equal(before, after);
    bt_mem_free(after);
    publication.force = true;
    ASSERT_OK(bt_report_publish(store, &second, 1, &publication));
    (void)snprintf(path, sizeof path, "%s/ratios-replicate-1.svg", target);
    assert_false(bt_file_exists(path)); // nothing of the first one is left
    ASSERT_OK(bt_report_publish(store, &first, 1, &publication));
    after = file_text("README.md");
    assert_string_equal(before, after); // equal runs give equal files
    bt_mem_free(before);
    bt_mem_free(after);
    // A folder with anything else in it is nobody's to clear.
    (void)snprintf(path, sizeof path, "%s/thesis.tex", target);
    ASSERT_OK(bt_file_write(path, "x", 1));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "thesis.tex",
                 bt_report_publish(store, &first, 1, &publication));
    assert_true(bt_file_exists(path));
}

static void a_bundle_lies_beside_it(void **state)
{
    (void)state;
    int64_t run = record_training("bt-bench run x");
    char path[256];
    (void)snprintf(path, sizeof path, "%s/given.tar.zst", folder);
    bt_publication publication = {.folder = target, .bundle = path};
    ASSERT_FAILS(BT_STATUS_IO, "given.tar.zst", bt_report_publish(store, &run, 1, &publication));
    ASSERT_OK(bt_file_write(path, "ab\0c", 4));
    publication.force = true;
    ASSERT_OK(bt_report_publish(store, &run, 1, &publication));
    char *readme = file_text("README.md");
    assert_has(readme, "./bt-bench verify bundle.tar.zst");
    // SHA-256 of the four bytes, from sha256sum.
    assert_has(readme, "6c032e631d39a14d85aff7e319546af701e26c97b57ca95fbfe9c6ba855f67bf");
    bt_mem_free(readme);
    void *copy = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/bundle.tar.zst", target);
    ASSERT_OK(bt_file_read(path, &copy, &size_bytes));
    assert_int_equal(size_bytes, 4);
    assert_memory_equal(copy, "ab\0c", 4);
    bt_mem_free(copy);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    int64_t missing = 7;
    bt_publication publication = {.folder = target};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 7",
                 bt_report_publish(store, &missing, 1, &publication));
    int64_t run = record_training("bt-bench run x");
    publication.folder = "/proc/nowhere";
    ASSERT_FAILS(BT_STATUS_IO, "/proc/nowhere", bt_report_publish(store, &run, 1, &publication));
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.steps = 12;
    ASSERT_OK(sample_run_record(store, &sample, &run));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    bt_publication publication = {.folder = target, .force = true};
    int64_t n = 0;
    while (status != BT_OK) {
        bt_mem_fail_at(++n);
        status = bt_report_publish(store, &run, 1, &publication);
        bt_mem_fail_at(0);
        if (status != BT_OK && status != BT_STATUS_OUT_OF_MEMORY) {
            fail_msg("allocation %lld: %s", (long long)n, bt_error_message());
        }
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        }
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < 2000);
    }
    assert_true(n > 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_replication_has_verdicts_plots_and_how_to_rerun),
        TEST(the_json_satisfies_its_schema),
        TEST(paths_and_markup_stay_here),
        TEST(another_publication_is_left_alone),
        TEST(a_bundle_lies_beside_it),
        TEST(bad_requests_are_refused),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

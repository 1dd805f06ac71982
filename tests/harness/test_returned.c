// tests/harness/test_returned.c - outputs that peers return: what is requested, what is found
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/cases/returned.h"
#include "harness/report/outputs.h"
#include "harness/run/plausible.h"
#include "harness/suite/json.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#define PEER        "tests/support/returning_peer.py"
#define COPY(shape) "{\"op\":\"copy\",\"dtype\":\"f32\",\"seed\":7,\"shape\":\"" shape "\"}"

// ---- the check ---------------------------------------------------------------------------------

static int64_t number_at(const cJSON *list, int index)
{
    return (int64_t)cJSON_GetArrayItem(list, index)->valuedouble;
}

// Asks for the output of a copy and writes it as a peer does, from the values of call `which`, each
// times `factor`; `spare_bytes` more or fewer of them.
static void copy_as_peer(const cJSON *kernel, const char *folder, int which, float factor,
                         int64_t spare_bytes)
{
    bt_str task = {0};
    bt_json_doc json;
    char path[512];
    void *bytes = NULL;
    size_t size_bytes = 0, written = 0;
    bt_str_append(&task, "{\"a\":0");
    ASSERT_OK(bt_returned_ask(kernel, folder, &task));
    bt_str_append(&task, "}");
    ASSERT_OK(bt_json_parse("task", bt_str_text(&task), task.length_bytes, &json));
    (void)snprintf(path, sizeof path, "%s/x.%d", folder, which);
    ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
    const cJSON *output = bt_json_get(bt_json_get(json.root, "returns"), "outputs")->child;
    assert_string_equal(bt_json_get(output, "name")->valuestring, "y");
    const float *tile = bytes;
    const int64_t period = (int64_t)(size_bytes / sizeof(float));
    (void)snprintf(path, sizeof path, "%s/y.out", folder);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    for (const cJSON *w = bt_json_get(output, "windows")->child; w; w = w->next) {
        for (int64_t i = 0; i < number_at(w, 1) * number_at(w, 3); ++i) {
            const int64_t at =
                number_at(w, 0) + i / number_at(w, 3) * number_at(w, 2) + i % number_at(w, 3);
            const float value = tile[at % period] * factor;
            written += fwrite(&value, sizeof value, 1, file);
        }
    }
    if (spare_bytes > 0) {
        assert_int_equal(fwrite(tile, 1, (size_t)spare_bytes, file), spare_bytes);
    }
    assert_int_equal(fclose(file), 0);
    assert_true(written > 0);
    if (spare_bytes < 0) {
        void *all = NULL;
        ASSERT_OK(bt_file_read(path, &all, &size_bytes));
        ASSERT_OK(bt_file_write(path, all, size_bytes - (size_t)-spare_bytes));
        bt_mem_free(all);
    }
    bt_mem_free(bytes);
    bt_json_doc_release(&json);
    bt_str_release(&task);
}

static bt_status check_copy(const char *text, int which, double factor, int64_t spare_bytes,
                            const char *precision)
{
    bt_json_doc json;
    double worst = 0;
    const char *folder = test_scratch_path("returned");
    ASSERT_OK(bt_json_parse("case", text, strlen(text), &json));
    assert_true(bt_returned_can(json.root));
    copy_as_peer(json.root, folder, which, (float)factor, spare_bytes);
    bt_status status = bt_returned_check(json.root, folder, precision, &worst);
    assert_true(status != BT_OK || worst <= 1);
    bt_returned_remove(folder);
    assert_false(bt_file_exists(folder));
    bt_json_doc_release(&json);
    return status;
}

static void right_outputs_are_right(void **state)
{
    (void)state;
    ASSERT_OK(check_copy(COPY("7x11"), 1, 1, 0, ""));
    ASSERT_OK(check_copy(COPY("17000001"), 1, 1, 0, "")); // of which a sample is requested
}

static void wrong_outputs_are_found(void **state)
{
    (void)state;
    static const char *const shapes[] = {COPY("7x11"), COPY("17000001")};
    for (int i = 0; i < 2; ++i) {
        ASSERT_FAILS(BT_STATUS_INTERNAL, "wrong result of the peer: y[",
                     check_copy(shapes[i], 0, 1, 0, "")); // stale
        ASSERT_FAILS(BT_STATUS_INTERNAL, "wrong result of the peer: y[",
                     check_copy(shapes[i], 1, 1.001, 0, ""));
        ASSERT_FAILS(BT_STATUS_INTERNAL, "is nan", check_copy(shapes[i], 1, (double)NAN, 0, ""));
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "y.out ends before",
                     check_copy(shapes[i], 1, 1, -1, ""));
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "y.out is longer", check_copy(shapes[i], 1, 1, 4, ""));
    }
}

static void a_lower_precision_is_said(void **state)
{
    (void)state;
    ASSERT_OK(check_copy(COPY("7x11"), 1, 1.001, 0, "tf32"));
    ASSERT_FAILS(BT_STATUS_INTERNAL, "wrong result", check_copy(COPY("7x11"), 1, 1.1, 0, "tf32"));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "computes in \"fp8\"; allowed: tf32",
                 check_copy(COPY("7x11"), 1, 1, 0, "fp8"));
}

static void missing_outputs_are_named(void **state)
{
    (void)state;
    bt_json_doc json;
    double worst = 0;
    ASSERT_OK(bt_json_parse("case", COPY("7"), strlen(COPY("7")), &json));
    ASSERT_FAILS(BT_STATUS_IO, "y.out was not written",
                 bt_returned_check(json.root, test_scratch_path("nowhere"), "", &worst));
    bt_json_doc_release(&json);
}

// ---- a run with such a peer --------------------------------------------------------------------

static bt_suite suite;
static bt_plan plan;
static const bt_machine machine = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "a test"};

static int set_up(void **state)
{
    static const char text[] =
        "{\"name\":\"t\",\"profiles\":{\"cpu\":{\"device\":\"cpu\",\"cases\":[{\"name\":\"copy\","
        "\"kind\":\"kernel\",\"kernel\":{\"op\":\"copy\",\"cache\":\"cold\",\"shape\":\"40x50\"}}"
        "]}}}";
    bt_plan_options options = {.seed = -1, .systems = "blutrain," PEER};
    assert_int_equal(scratch_database_name(state), 0);
    ASSERT_OK(bt_suite_parse("s.json", text, strlen(text), &suite));
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &plan));
    return 0;
}

static int tear_down(void **state)
{
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return scratch_database_remove(state);
}

static const bt_store_measurement *find(const bt_store_round *round, bt_metric metric)
{
    for (int64_t i = 0; i < round->measurement_count; ++i) {
        if (round->measurements[i].metric == metric) {
            return &round->measurements[i];
        }
    }
    return NULL;
}

static void assert_verifies(const bt_store_run *run)
{
    bt_files files = {0};
    bt_str packed = {0};
    bt_bundle_check check;
    ASSERT_OK(bt_content_build(run, NULL, &files));
    ASSERT_OK(bt_files_pack(&files, &packed));
    ASSERT_OK(bt_bundle_verify_bytes("b", bt_str_text(&packed), packed.length_bytes, NULL, &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    bt_bundle_check_release(&check);
    bt_str_release(&packed);
    bt_files_release(&files);
}

static void the_record_says_who_checked(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        bt_run_status status;
        bool verified;
        const char *words;
    } modes[] = {
        {"right", BT_RUN_PASSED, true, ""},
        {"silent", BT_RUN_PASSED, false, ""},
        {"stale", BT_RUN_INVALID, false, BT_INVALID_OUTPUTS "wrong result of the peer: y["},
        {"wrong", BT_RUN_INVALID, false, BT_INVALID_OUTPUTS "wrong result of the peer: y["},
        {"short", BT_RUN_INVALID, false, BT_INVALID_OUTPUTS "y.out ends before"}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; ++i) {
        bt_run_request request = scratch_run_request(&suite, &plan, &machine, SCRATCH_KERNEL_PEER);
        bt_run_outcome outcome;
        int64_t seen = 0;
        setenv("BT_RETURNING", modes[i].mode, 1);
        ASSERT_OK(bt_run_execute(&request, &outcome));
        bt_store_run run = scratch_run_read(outcome.run);
        for (int64_t r = 0; r < run.round_count; ++r) {
            const bt_store_round *round = &run.rounds[r];
            if (strcmp(round->what.system, "returning_peer.py") != 0) {
                continue;
            }
            ++seen;
            if (round->status != modes[i].status || !strstr(round->message, modes[i].words)) {
                fail_msg("%s: %s: %s", modes[i].mode, bt_run_status_name(round->status),
                         round->message);
            }
            assert_true((find(round, BT_METRIC_OUTPUT_ERROR_SHARE) != NULL) == modes[i].verified);
            assert_string_equal(bt_outputs_of(round), modes[i].status != BT_RUN_PASSED ? ""
                                                      : modes[i].verified              ? "verified"
                                                                          : "self-reported");
            assert_true((find(round, BT_METRIC_TIME) != NULL) ==
                        (modes[i].status == BT_RUN_PASSED));
        }
        assert_int_equal(seen, modes[i].status == BT_RUN_PASSED ? 1 : 3);
        assert_verifies(&run);
        bt_store_run_release(&run);
    }
    unsetenv("BT_RETURNING");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_outputs_are_right),     cmocka_unit_test(wrong_outputs_are_found),
        cmocka_unit_test(a_lower_precision_is_said),   cmocka_unit_test(missing_outputs_are_named),
        cmocka_unit_test(the_record_says_who_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

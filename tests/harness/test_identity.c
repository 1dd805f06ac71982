// tests/harness/test_identity.c - what decides on the bits of a training case, and where it is kept
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "harness/cases/cases.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// Whether two meshes have the same identity.
static bool same(const char *first, const char *second)
{
    const char *const meshes[] = {first, second};
    bt_str text[2] = {{0}, {0}};
    for (int i = 0; i < 2; ++i) {
        char json[256];
        (void)snprintf(json, sizeof json, "{\"train\": {\"steps\": 4, \"mesh\": {%s}}}", meshes[i]);
        cJSON *item = cJSON_Parse(json);
        assert_non_null(item);
        ASSERT_OK(bt_case_identity(item, &text[i]));
        cJSON_Delete(item);
    }
    const bool equal = strcmp(bt_str_text(&text[0]), bt_str_text(&text[1])) == 0;
    bt_str_release(&text[0]);
    bt_str_release(&text[1]);
    return equal;
}

static void a_mesh_is_what_decides_on_the_bits(void **state)
{
    (void)state;
    const char *const four = "\"data\": 4, \"sharding\": \"zero1\", \"invariant\": 8";
    assert_true(same(four, "\"data\": 2, \"sharding\": \"ddp\", \"invariant\": 8"));
    assert_true(same(four, "\"data\": 1, \"sharding\": \"zero3\", \"invariant\": 8"));
    assert_false(same(four, "\"data\": 4, \"sharding\": \"zero1\", \"invariant\": 4"));
    assert_false(same(four, "\"data\": 4, \"sharding\": \"zero1\", \"invariant\": 0"));
    assert_false(same(four, "\"data\": 4, \"sharding\": \"zero2\", \"invariant\": 8"));
    assert_false(same("\"data\": 2, \"sharding\": \"zero2\", \"invariant\": 8",
                      "\"data\": 4, \"sharding\": \"zero2\", \"invariant\": 8"));
    assert_false(same("\"data\": 2, \"sharding\": \"ddp\", \"invariant\": 0",
                      "\"data\": 4, \"sharding\": \"ddp\", \"invariant\": 0"));
}

// Without the plan beside them checkpoints cannot be gone on from, so it is there whole or not.
static void a_plan_that_cannot_be_written_leaves_no_part(void **state)
{
    (void)state;
    struct rlimit before, small;
    assert_non_null(test_scratch_make());
    const char *folder = test_scratch_path("store");
    const char *const identity = "{\"train\": {\"steps\": 4}}";
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){5, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bt_status status = bt_case_settle(folder, identity);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, BT_STATUS_IO);
    assert_int_equal(test_scratch_count("store"), 0);
    ASSERT_OK(bt_case_settle(folder, identity));
    ASSERT_OK(bt_case_settle(folder, identity));
    assert_int_equal(test_scratch_count("store"), 1);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.steps: was 4, is 5",
                 bt_case_settle(folder, "{\"train\": {\"steps\": 5}}"));
    test_scratch_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mesh_is_what_decides_on_the_bits),
        cmocka_unit_test(a_plan_that_cannot_be_written_leaves_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

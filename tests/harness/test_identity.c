// tests/harness/test_identity.c - which keys of a mesh decide on the bits of a training case
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "harness/cases/cases.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_mesh_is_what_decides_on_the_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

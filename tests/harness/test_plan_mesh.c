// tests/harness/test_plan_mesh.c - train.mesh in a plan: virtual shards, faults
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/plan.h"
#include "tests/support/test.h"

static const char text[] =
    "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [{\"name\": "
    "\"one\",\n"
    "  \"kind\": \"train\", \"dataset\": \"books\", \"train\": {\"steps\": 9, \"micro_batch\": 4,\n"
    "  \"sequence\": 64, \"model\": {\"layers\": 2, \"heads\": 2, \"width\": 64}}}]}}}";

static bt_suite suite;
static const bt_machine plain = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "no driver"};
static const bt_plan_options none = {.seed = -1};

static int load(void **state)
{
    (void)state;
    return bt_suite_parse("t.json", text, strlen(text), &suite) == BT_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    bt_suite_release(&suite);
    return 0;
}

// One rank has no text; defaults and what the degrees do not use are left out.
static void texts_of_meshes_tell_them_apart(void **state)
{
    (void)state;
    static const struct {
        const char *train, *text;
    } rows[] = {
        {"{}", ""},
        {"{\"mesh\":{\"data\":1,\"row_chunks\":true}}", ""},
        {"{\"mesh\":{\"data\":2,\"tensor\":4}}", "data 2 x tensor 4"},
        {"{\"mesh\":{\"tensor\":2,\"sequence_parallel\":true,\"row_chunks\":true}}",
         "tensor 2, sequence parallel, row chunks"},
        {"{\"mesh\":{\"tensor\":2,\"half_batches\":true}}", "tensor 2, half-batches"},
        {"{\"mesh\":{\"context\":2,\"rotation\":\"all_gather\"}}", "context 2"},
        {"{\"mesh\":{\"context\":2,\"rotation\":\"all_to_all\"}}", "context 2, all_to_all"},
        {"{\"mesh\":{\"context\":2,\"rotation\":\"all_to_all\",\"shared_heads\":2}}",
         "context 2, shared heads 2"},
        {"{\"mesh\":{\"context\":4,\"rotation\":\"all_to_all\",\"shared_heads\":2}}",
         "context 4, shared heads 2, all_to_all"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_json_doc json;
        ASSERT_OK(bt_json_parse("train", rows[i].train, strlen(rows[i].train), &json));
        assert_string_equal(bt_plan_mesh_text(json.root).text, rows[i].text);
        bt_json_doc_release(&json);
    }
}

// The default of train.mesh.invariant is one that the mesh allows, and the plan has it.
static void virtual_shards_follow_the_mesh(void **state)
{
    (void)state;
    static const struct {
        const char *mesh; // key=value
        int64_t batches;  // micro-batches of a step
        const char *recorded;
    } rows[] = {{"data=1", 16, "\"invariant\":8"},      {"data=2", 8, "\"invariant\":8"},
                {"data=2", 4, "\"invariant\":4"},       {"data=4", 12, "\"invariant\":4"},
                {"data=3", 12, "\"invariant\":0"},      {"data=16", 16, "\"invariant\":0"},
                {"tensor=2", 1, "\"invariant\":1"},     {"tensor=2", 6, "\"invariant\":2"},
                {"context=2", 8, "\"invariant\":0"},    {"invariant=2", 8, "\"invariant\":2"},
                {"invariant=64", 8, "\"invariant\":64"}}; // refused later, with what is allowed
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char mesh[64], tokens[64];
        const char *sets[] = {mesh, tokens};
        const bt_plan_options options = {.sets = sets, .set_count = 2, .seed = -1};
        bt_plan plan;
        (void)snprintf(mesh, sizeof mesh, "train.mesh.%s", rows[i].mesh);
        (void)snprintf(tokens, sizeof tokens, "train.tokens_per_step=%lld",
                       (long long)rows[i].batches * 4 * 64);
        ASSERT_OK(bt_plan_make(&suite, &options, &plain, &plan));
        if (!strstr(plan.text, rows[i].recorded)) {
            fail_msg("%s, %lld micro-batches: expected %s in %s", rows[i].mesh,
                     (long long)rows[i].batches, rows[i].recorded, plan.text);
        }
        bt_plan_release(&plan);
    }
    bt_plan plan; // a case without a mesh has none
    ASSERT_OK(bt_plan_make(&suite, &none, &plain, &plan));
    assert_null(strstr(plan.text, "invariant"));
    bt_plan_release(&plan);
}

static void faults_of_ranks_are_read(void **state)
{
    (void)state;
    static bt_plan_fault faults[BT_PLAN_FAULTS_MAX];
    int64_t count = 0;
    cJSON *train = cJSON_Parse("{\"steps\": 24, \"mesh\": {\"data\": 2, \"faults\": [\"stop rank 1 "
                               "at step 20\", \"kill rank 0 at start\"]}}");
    ASSERT_OK(bt_plan_faults_read(train, faults, &count));
    assert_int_equal(count, 2);
    assert_int_equal(faults[0].signal, SIGSTOP);
    assert_int_equal(faults[0].rank, 1);
    assert_int_equal(faults[0].step, 20);
    assert_int_equal(faults[1].signal, SIGKILL);
    assert_int_equal(faults[1].step, BT_PLAN_AT_START);
    cJSON_Delete(train);
}

// The plan is refused, also on one rank, where nothing would cause the fault.
static void faults_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fault, *words;
    } rows[] = {{"", "got ''"},
                {"kill", "got 'kill'"},
                {"kill rank 2 at step 1",
                 "with R below 2, the number of ranks, got 'kill rank 2 at step 1'"},
                {"kill rank -1 at step 1", "got 'kill rank -1 at step 1'"},
                {"kill rank 1 at step -1", "got 'kill rank 1 at step -1'"},
                {"kill rank 1 at start now", "got 'kill rank 1 at start now'"},
                {"kill rank 1 at", "got 'kill rank 1 at'"},
                {"boil rank 1 at step 1", "(kill, stop or segv) rank R at (step S or start)"},
                {"kill rank 1 at step 1 and more", "got 'kill rank 1 at step 1 and more'"},
                {"kill rank 1 at step 9", "'kill rank 1 at step 9': the run's last step is 8"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (int ranks = 1; ranks <= 2; ++ranks) {
            char mesh[64], fault[128];
            const char *sets[] = {mesh, fault};
            const bt_plan_options options = {.sets = sets, .set_count = 2, .seed = -1};
            bt_plan plan;
            (void)snprintf(mesh, sizeof mesh, "train.mesh.data=%d", ranks);
            (void)snprintf(fault, sizeof fault, "train.mesh.faults=%s", rows[i].fault);
            const bt_status status = bt_plan_make(&suite, &options, &plain, &plan);
            assert_int_equal(status, BT_STATUS_INVALID_ARGUMENT);
            assert_non_null(strstr(bt_error_message(), ": case one: train.mesh.faults: "));
            assert_non_null(strstr(bt_error_message(), ranks == 2 ? rows[i].words : "'"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_meshes_tell_them_apart),
        cmocka_unit_test(virtual_shards_follow_the_mesh),
        cmocka_unit_test(faults_of_ranks_are_read),
        cmocka_unit_test(faults_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

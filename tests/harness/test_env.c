// tests/harness/test_env.c - facts of the environment, the machine, the build
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/env/build.h"
#include "harness/env/doctor.h"
#include "harness/env/facts.h"
#include "harness/env/nvml.h"
#include "harness/env/system_file.h"
#include "tests/harness/need_nvml.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const bt_machine machine = {.host_memory_bytes = 8ULL << 30};

static const char *value_of(const bt_facts *facts, const char *key)
{
    for (int64_t i = 0; i < facts->count; ++i) {
        if (strcmp(facts->rows[i].key, key) == 0) {
            return facts->rows[i].value;
        }
    }
    return NULL;
}

static void facts_are_gathered_in_order(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_facts facts;
    ASSERT_OK(bt_facts_gather(&machine, false, &facts));
    ASSERT_OK(bt_facts_finish(&facts));
    static const char *const expected[] = {"cpu.model", "cpu.usable",   "os.kernel",
                                           "os.libc",   "memory.total", "build.compiler",
                                           "lib.cjson", "build.version"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        const char *value = value_of(&facts, expected[i]);
        if (!value || !*value) {
            fail_msg("no fact %s", expected[i]);
        }
    }
    for (int64_t i = 1; i < facts.count; ++i) {
        assert_true(strcmp(facts.rows[i - 1].key, facts.rows[i].key) < 0);
    }
    assert_int_equal(strlen(facts.digest), 32);
    bt_facts_release(&facts);
    assert_int_equal(bt_mem_live_count(), before);
}

static void digest_of(bool with_hard, bool with_soft, char digest[33])
{
    bt_facts facts = {0};
    ASSERT_OK(bt_facts_add_as(&facts, "b", "1", BT_FACT_HARD));
    ASSERT_OK(bt_facts_add_as(&facts, "a", with_hard ? "2" : "3", BT_FACT_HARD));
    if (with_soft) {
        ASSERT_OK(bt_facts_add_as(&facts, "c", "x", BT_FACT_SOFT));
        ASSERT_OK(bt_facts_add_as(&facts, "d", "x", BT_FACT_INFO));
    }
    ASSERT_OK(bt_facts_add_as(&facts, "empty", "", BT_FACT_HARD));
    ASSERT_OK(bt_facts_finish(&facts));
    memcpy(digest, facts.digest, 33);
    bt_facts_release(&facts);
}

static void digest_is_over_hard_facts_alone(void **state)
{
    (void)state;
    char plain[33], soft[33], hard[33];
    digest_of(true, false, plain);
    digest_of(true, true, soft);
    digest_of(false, false, hard);
    assert_string_equal(plain, soft);
    assert_string_not_equal(plain, hard);
}

static void only_listed_variables_are_recorded(void **state)
{
    (void)state;
    bt_facts facts;
    setenv("OMP_TEST_FACT", "7", 1);
    setenv("MY_SECRET_TOKEN", "hunter2", 1);
    ASSERT_OK(bt_facts_gather(&machine, false, &facts));
    ASSERT_OK(bt_facts_finish(&facts));
    assert_string_equal(value_of(&facts, "env.OMP_TEST_FACT"), "7");
    for (int64_t i = 0; i < facts.count; ++i) {
        assert_null(strstr(facts.rows[i].value, "hunter2"));
    }
    unsetenv("OMP_TEST_FACT");
    unsetenv("MY_SECRET_TOKEN");
    bt_facts_release(&facts);
}

static void visible_devices_are_found(void **state)
{
    (void)state;
    bt_nvml nvml;
    int error = 0;
    (void)need_fake_nvml();
    assert_true(bt_nvml_open(&nvml, &error));
    const struct {
        const char *visible;
        int ordinal;
        const char *name; // NULL: none
    } cases[] = {{NULL, 0, "First"},
                 {NULL, 1, "Second"},
                 {NULL, 2, NULL},
                 {"0", 0, "First"},
                 {"0", 1, NULL},
                 {"1,0", 0, "Second"},
                 {"1,0", 1, "First"},
                 {"1,0", 2, NULL},
                 {"GPU-2222", 0, "Second"},
                 {"0,GPU-2222", 1, "Second"},
                 {"GPU-3333,0", 0, NULL},
                 {"", 0, NULL},
                 {"-1", 0, NULL},
                 {"7", 0, NULL},
                 {"MIG-abc", 0, NULL},
                 {"1x", 0, NULL},
                 {"0,", 1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_nvml_device device = NULL;
        char name[32] = "";
        bool found = bt_nvml_visible_device(&nvml, cases[i].visible, cases[i].ordinal, &device);
        assert_int_equal(found, cases[i].name != NULL);
        if (found) {
            assert_int_equal(nvml.name(device, name, sizeof name), BT_NVML_OK);
            assert_string_equal(name, cases[i].name);
        }
    }
    bt_nvml_close(&nvml);
    setenv("FAKE_NVML_ERROR", "9", 1);
    assert_false(bt_nvml_open(&nvml, &error));
    assert_int_equal(error, 9);
    unsetenv("FAKE_NVML_ERROR");
}

static void nvml_adds_facts(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    bt_machine gpu = {.has_cuda = true, .cuda = {.name = "Second", .uuid = "GPU-2222"}};
    bt_facts facts;
    setenv("FAKE_NVML_PIDS", "17,18", 1);
    ASSERT_OK(bt_facts_gather(&gpu, true, &facts));
    ASSERT_OK(bt_facts_finish(&facts));
    const struct {
        const char *key, *value; // value NULL: this device does not know
        bool old;                // an old driver reports it, too
    } rows[] = {{"gpu.ecc", "on", true},
                {"gpu.mig", NULL, true},
                {"gpu.power_limit", "700 W", true},
                {"gpu.power_limit_default", "650 W", false},
                {"gpu.clock_max_sm", "1980 MHz", true},
                {"gpu.clock_application_sm", "1830 MHz", false},
                {"gpu.persistence", "on", false},
                {"gpu.compute_mode", "exclusive process", false},
                {"gpu.pci_bus", "0000:1b:00.0", false},
                {"gpu.pcie", "generation 5, 16 lanes", false},
                {"gpu.count", "2", false},
                {"gpu.topology", "0: NUMA node", false},
                {"gpu.cuda_of_driver", "13.2", false},
                {"gpu.other_processes", "2", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        const char *value = value_of(&facts, rows[i].key);
        const char *expected = old && !rows[i].old ? NULL : rows[i].value;
        if ((value == NULL) != (expected == NULL) || (value && strcmp(value, expected) != 0)) {
            fail_msg("%s: %s, expected %s", rows[i].key, value ? value : "none",
                     expected ? expected : "none");
        }
    }
    assert_string_equal(value_of(&facts, "gpu.nvlinks"), old ? "0" : "5");
    unsetenv("FAKE_NVML_PIDS");

    bt_facts_release(&facts);
}

static const bt_check *check_of(const bt_check *checks, int count, const char *name)
{
    for (int i = 0; i < count; ++i) {
        if (strcmp(checks[i].name, name) == 0) {
            return &checks[i];
        }
    }
    fail_msg("no check %s", name);
    return NULL;
}

static void doctor_sees_who_shares_the_gpu(void **state)
{
    (void)state;
    bool old = need_fake_nvml();
    const bt_machine gpu = {.has_cuda = true, .cuda = {.name = "Second", .uuid = "GPU-2222"}};
    bt_check checks[BT_CHECKS_MAX];
    setenv("FAKE_NVML_PIDS", "17,18", 1);
    int count = bt_doctor_look(&gpu, "none.sqlite", checks);
    const bt_check *alone = check_of(checks, count, "gpu alone");
    assert_int_equal(alone->state, old ? BT_CHECK_MISSING : BT_CHECK_NOISY);
    assert_non_null(strstr(alone->found, old ? "does not report" : "2 other processes"));
    unsetenv("FAKE_NVML_PIDS");
    count = bt_doctor_look(&gpu, "none.sqlite", checks);
    alone = check_of(checks, count, "gpu alone");
    assert_int_equal(alone->state, old ? BT_CHECK_MISSING : BT_CHECK_GOOD);
    assert_true(old || !alone->advice[0]);
}

// The nearest group that has the file; what does not exist falls back to the root.
static void limits_are_those_of_the_own_group(void **state)
{
    (void)state;
    char path[640], expected[640], folder_path[512];
    const char *root = test_scratch_path("");
    (void)snprintf(folder_path, sizeof folder_path, "%.*s", (int)strlen(root) - 1, root);
    ASSERT_OK(bt_dir_make(test_scratch_path("a/b")));
    test_scratch_write("a/cpu.max", "5", 1);
    test_scratch_write("cpu.max", "max", 3);
    static const struct {
        const char *group, *name, *found;
    } cases[] = {{"/a/b", "cpu.max", "a/cpu.max"}, {"/a", "cpu.max", "a/cpu.max"},
                 {"/", "cpu.max", "cpu.max"},      {"/x/y", "cpu.max", "cpu.max"},
                 {"/a/b", "none", "none"},         {"", "cpu.max", "cpu.max"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_cgroup_file_of(folder_path, cases[i].group, cases[i].name, path, sizeof path);
        (void)snprintf(expected, sizeof expected, "%s/%s", folder_path, cases[i].found);
        assert_string_equal(path, expected);
    }
    bt_cgroup_file("cpu.max", path, sizeof path);
    assert_true(strncmp(path, "/sys/fs/cgroup/", 15) == 0);
}

static void machine_without_the_backend_says_so(void **state)
{
    (void)state;
    bt_machine looked;
    ASSERT_OK(bt_machine_look(&looked));
    assert_true(looked.host_memory_bytes > 0);
    assert_true(looked.has_cuda || looked.cuda_reason[0]);
    if (!bt_device_is_built("cuda")) {
        assert_false(looked.has_cuda);
        assert_non_null(strstr(looked.cuda_reason, "is not built"));
    }
}

static void gpu_facts_come_from_the_device(void **state)
{
    (void)state;
    bt_machine gpu = {.has_cuda = true,
                      .cuda = {.name = "A GPU",
                               .uuid = "GPU-0",
                               .driver = "1.2",
                               .arch = 90,
                               .processor_count = 132,
                               .memory_bytes = 1000}};
    bt_facts facts;
    ASSERT_OK(bt_facts_gather(&gpu, true, &facts));
    ASSERT_OK(bt_facts_finish(&facts));
    assert_string_equal(value_of(&facts, "gpu.name"), "A GPU");
    assert_string_equal(value_of(&facts, "gpu.compute_capability"), "9.0");
    assert_string_equal(value_of(&facts, "gpu.sm_count"), "132");
    bt_facts_release(&facts);
    ASSERT_OK(bt_facts_gather(&gpu, false, &facts)); // the run does not use it
    assert_null(value_of(&facts, "gpu.name"));
    bt_facts_release(&facts);
}

static void a_fact_given_twice_is_refused(void **state)
{
    (void)state;
    bt_facts facts = {0};
    ASSERT_OK(bt_facts_add_as(&facts, "a", "1", BT_FACT_HARD));
    ASSERT_OK(bt_facts_add_as(&facts, "a", "2", BT_FACT_INFO));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the fact a is given twice", bt_facts_finish(&facts));
    ASSERT_FAILS(BT_STATUS_INTERNAL, "no row for the fact nobody.knows",
                 bt_facts_add(&facts, "nobody.knows", "1"));
    bt_facts_release(&facts);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_facts facts;
        bt_mem_fail_at(n);
        bt_status status = bt_facts_gather(&machine, false, &facts);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            bt_facts_release(&facts);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

static void build_is_described(void **state)
{
    (void)state;
    const bt_build *build = bt_build_get();
    char digest[33];
    bt_str text = {0};
    bt_build_digest(digest);
    bt_build_describe(&text);
    assert_int_equal(strlen(digest), 32);
    assert_non_null(strstr(bt_str_text(&text), build->compiler));
    assert_non_null(strstr(bt_str_text(&text), "bt-bench "));
    bt_str_release(&text);
}

// The hard facts name an environment; a run's soft facts are its own all the same.
static void soft_facts_of_each_run_are_kept(void **state)
{
    (void)state;
    bt_store_fact facts[] = {{"cpu.governor", "performance", BT_FACT_SOFT},
                             {"cpu.model", "A", BT_FACT_HARD}};
    bt_store_run_info info = {.suite = {.plan_hash = "p"},
                              .build = {.digest = "b"},
                              .env = {"same hard facts", facts, 2}};
    static const char *const governors[] = {"performance", "powersave", "performance"};
    int64_t ids[3];
    for (int i = 0; i < 3; ++i) {
        facts[0].value = governors[i];
        ASSERT_OK(bt_store_run_begin(scratch_store, &info, &ids[i]));
    }
    for (int i = 0; i < 3; ++i) {
        bt_store_run run;
        ASSERT_OK(bt_store_run_read(scratch_store, ids[i], &run));
        assert_string_equal(run.info.env.digest, "same hard facts");
        assert_int_equal(run.info.env.fact_count, 2);
        assert_string_equal(run.info.env.facts[0].value, governors[i]);
        bt_store_run_release(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_gathered_in_order),
        cmocka_unit_test(digest_is_over_hard_facts_alone),
        cmocka_unit_test(only_listed_variables_are_recorded),
        cmocka_unit_test(visible_devices_are_found),
        cmocka_unit_test(nvml_adds_facts),
        cmocka_unit_test(doctor_sees_who_shares_the_gpu),
        cmocka_unit_test_setup_teardown(limits_are_those_of_the_own_group, test_scratch_setup,
                                        test_scratch_teardown),
        cmocka_unit_test(machine_without_the_backend_says_so),
        cmocka_unit_test(gpu_facts_come_from_the_device),
        cmocka_unit_test(a_fact_given_twice_is_refused),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(build_is_described),
        cmocka_unit_test_setup_teardown(soft_facts_of_each_run_are_kept, scratch_store_open,
                                        scratch_store_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

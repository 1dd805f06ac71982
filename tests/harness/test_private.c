// tests/harness/test_private.c - what identifies a machine is known as such, and left out
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/redact/private.h"
#include "harness/redact/redact.h"
#include "tests/harness/sample_bundle.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static void what_identifies_a_machine_is_masked(void **state)
{
    (void)state;
    const bt_store_fact facts[] = {
        {"cgroup.path", "0::/user.slice/job", BT_FACT_INFO},
        {"cpu.model", "a processor", BT_FACT_HARD},
        {"gpu.uuid", "GPU-2222", BT_FACT_SOFT},
        {"os.kernel", "Linux 6.1.0-13-amd64", BT_FACT_SOFT},
        {"unheard.of", "somewhere", BT_FACT_SOFT},
    };
    static const char *const rows[][2] = {
        {"", ""},
        {"Linux on a processor", "Linux on a processor"},
        {"GPU-2222 lost", "(left out) lost"},
        {"(Linux 6.1.0-13-amd64)", "((left out))"},
        {"uname 6.1.0-13-amd64.", "uname (left out)."},
        {"in 0::/user.slice/job", "in (left out)"},
        {"x somewhere", "x (left out)"},
        {"GPU-0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f,1", "GPU-(left out),1"},
        {"0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f0", "0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f0"},
        {"eth0 02:fC:00:00:00:01 up", "eth0 (left out) up"},
        {"at 12:34:56, 00:11:22:33:44:55:66:77", "at 12:34:56, (left out):66:77"},
    };
    const bt_store_env env = {"", facts, sizeof facts / sizeof facts[0]};
    bt_arena arena = {0};
    bt_secrets secrets;
    ASSERT_OK(bt_secrets_gather(&env, &arena, &secrets));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_str out = {0};
        bool changed = bt_secrets_mask(&secrets, rows[i][0], strlen(rows[i][0]), &out);
        assert_string_equal(bt_str_text(&out), rows[i][1]);
        assert_int_equal(changed, strcmp(rows[i][0], rows[i][1]) != 0);
        bt_str_release(&out);
    }
    bt_arena_release(&arena);
}

// The kernel's release is a fact of every recorded run; verdicts hold without it.
static void a_public_bundle_holds_without_naming_the_machine(void **state)
{
    (void)state;
    const bt_bundle_options options = {.is_public = true};
    const char *path = test_scratch_path("public.tar.zst");
    struct utsname names;
    bt_files files = {0};
    bt_str notes = {0};
    bt_bundle_check check;
    sample_bundle bundle;
    assert_int_equal(uname(&names), 0);
    for (int64_t run = 1; run <= 3; run++) {
        bt_str_clear(&notes);
        ASSERT_OK(bt_bundle_export(scratch_store, run, &options, path, &notes));
        ASSERT_OK(bt_bundle_verify(path, NULL, &check));
        assert_string_equal(bt_str_text(&check.findings), "");
        bt_bundle_check_release(&check);
        ASSERT_OK(bt_file_read(path, &bundle.bytes, &bundle.size_bytes));
        ASSERT_OK(bt_bundle_check_public("b", bundle.bytes, bundle.size_bytes, NULL));
        sample_bundle_unpack(&bundle, &files);
        for (int64_t i = 0; i < files.count; i++) {
            const bt_file *file = &files.items[i];
            assert_null(
                memmem(file->bytes, file->size_bytes, names.release, strlen(names.release)));
        }
        const bt_file *facts = bt_files_find(&files, "environment.json");
        assert_non_null(strstr(facts->bytes, BT_REDACT_LEFT_OUT));
        bt_files_release(&files);
        bt_mem_free(bundle.bytes);
    }
    bt_str_release(&notes);
    ASSERT_FAILS(
        BT_STATUS_INVALID_ARGUMENT, "contains os.kernel",
        bt_bundle_check_public("b", sample_kernels.bytes, sample_kernels.size_bytes, NULL));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "b: ", bt_bundle_check_public("b", "x", 1, NULL));
}

// A fact whose value contains the words; private ones may.
static void assert_not_open(const bt_facts *facts, const char *what, const char *words)
{
    for (int64_t i = 0; strlen(words) >= 6 && i < facts->count; i++) {
        const bt_store_fact *fact = &facts->rows[i];
        if (strstr(fact->value, words) && !bt_fact_is_private(fact->key)) {
            fail_msg("%s is in the open fact %s: %s", what, fact->key, fact->value);
        }
    }
}

static void open_facts_of_this_machine_do_not_name_it(void **state)
{
    (void)state;
    static const bt_machine machine = {
        .host_memory_bytes = 8ULL << 30,
        .has_cuda = true,
        .cuda = {.name = "A GPU", .uuid = "GPU-0a1b2c3d-4444-5555-6666-0a1b2c3d4e5f"}};
    static const char *const files[][2] = {{"machine id", "/etc/machine-id"},
                                           {"boot id", "/proc/sys/kernel/random/boot_id"},
                                           {"MAC", "/sys/class/net/eth0/address"},
                                           {"product serial", "/sys/class/dmi/id/product_serial"},
                                           {"cgroup", "/proc/self/cgroup"}};
    struct utsname names;
    bt_facts facts;
    ASSERT_OK(bt_facts_gather(&machine, true, &facts));
    assert_int_equal(uname(&names), 0);
    assert_not_open(&facts, "the host's name", names.nodename);
    assert_not_open(&facts, "the kernel's release", names.release);
    assert_not_open(&facts, "the GPU's UUID", machine.cuda.uuid);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char line[256] = "";
        FILE *file = fopen(files[i][1], "r");
        if (file) {
            line[0] = fgets(line, sizeof line, file) ? line[0] : '\0';
            line[strcspn(line, "\n")] = '\0';
            (void)fclose(file);
        }
        assert_not_open(&facts, files[i][0], line);
    }
    bt_facts_release(&facts);
    assert_true(bt_fact_is_private("os.kernel") && bt_fact_is_private("gpu.uuid"));
    assert_true(bt_fact_is_private("env.NCCL_HOSTID") && bt_fact_is_private("never.heard"));
    assert_false(bt_fact_is_private("env.OMP_NUM_THREADS") || bt_fact_is_private("data.tiny"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_identifies_a_machine_is_masked),
        cmocka_unit_test(a_public_bundle_holds_without_naming_the_machine),
        cmocka_unit_test(open_facts_of_this_machine_do_not_name_it),
    };
    return cmocka_run_group_tests(tests, sample_bundles_make, sample_bundles_remove);
}

// tests/unit/test_checkpoint.c - save, list, verify, load, retain, on the real file system
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/checkpoint/checkpoint.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/scratch.h"

static fixture session;
static test_state s;
static bt_checkpoint_store store;
static const bt_checkpoint_options plain = {.plan_hash = "plan", .build = "build 1"};

static int setup(void **state)
{
    (void)state;
    (void)test_scratch_make();
    fixture_open(&session, 0);
    test_state_open(&s, &session.context, 1);
    store = (bt_checkpoint_store){.folder = test_scratch_path("deep/store")};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_state_close(&s);
    fixture_close(&session);
    test_scratch_remove();
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

static void save(int64_t step, const bt_checkpoint_options *options)
{
    test_state_fill(&s, step);
    ASSERT_OK(bt_checkpoint_save(&session.context, &store, options, &s.state));
}

static void load(int64_t step)
{
    test_state_fill(&s, 999);
    ASSERT_OK(bt_checkpoint_load(&session.context, &store, step, NULL, &s.state, NULL));
    test_state_check(&s, step);
}

static void assert_steps(const int64_t *expected, int64_t count)
{
    int64_t *steps = NULL;
    int64_t got = 0;
    ASSERT_OK(bt_checkpoint_list(&store, &steps, &got));
    assert_int_equal(got, count);
    assert_memory_equal(steps, expected, (size_t)count * sizeof *steps);
    bt_mem_free(steps);
}

static void round_trip(void **state)
{
    (void)state;
    bt_checkpoint_info info;
    char digest[33];
    save(12, &plain);
    ASSERT_OK(bt_state_digest(&session.context, &s.state, digest));
    load(12);
    ASSERT_OK(bt_checkpoint_verify(&store, 12, &info));
    assert_int_equal(info.step, 12);
    assert_int_equal(info.tensor_count, TEST_STATE_TENSORS);
    assert_string_equal(info.plan_hash, "plan");
    assert_string_equal(info.build, "build 1");
    assert_string_equal(info.digest, digest);
    assert_memory_equal(&info.values, &s.state.values, sizeof info.values);
    assert_int_equal(test_scratch_count("deep/store"), 1);
    assert_int_equal(test_scratch_count("deep/store/step-00000012"), 2);
}

// Its own description equals what verification finds, and lists its tensors.
static void described(void **state)
{
    (void)state;
    bt_checkpoint_info info, verified;
    bt_safetensors tensors;
    bt_checkpoint_options options = plain;
    options.file_bytes = 516;
    save(12, &options);
    ASSERT_OK(bt_checkpoint_verify(&store, 12, &verified));
    ASSERT_OK(bt_checkpoint_describe(&store, 12, &info, &tensors));
    assert_memory_equal(&info, &verified, sizeof info);
    assert_int_equal(info.values.heads, 2);
    assert_int_equal(tensors.count, TEST_STATE_TENSORS);
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        const bt_state_tensor *item = &s.state.tensors[i];
        const bt_safetensors_entry *entry = bt_safetensors_find(&tensors, item->name);
        assert_non_null(entry);
        assert_int_equal(entry->dtype, item->tensor->dtype);
        assert_true(bt_shape_equal(&entry->shape, &item->tensor->shape));
        assert_int_equal(entry->size_bytes, bt_tensor_bytes(item->tensor));
    }
    bt_safetensors_release(&tensors);
    ASSERT_FAILS(BT_STATUS_IO, "step-00000013",
                 bt_checkpoint_describe(&store, 13, &info, &tensors));
    bt_safetensors_release(&tensors);
    ASSERT_OK(bt_checkpoint_describe(&store, 12, &info, NULL));
    assert_int_equal(info.step, 12);
}

static void several_files(void **state)
{
    (void)state;
    // Every tensor in its own file, all in one, and limits in between.
    const uint64_t limits[] = {1, 140, 516, 700, 1 << 20};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
        bt_checkpoint_options options = plain;
        options.file_bytes = limits[i];
        save((int64_t)i, &options);
        load((int64_t)i);
    }
    assert_int_equal(test_scratch_count("deep/store/step-00000000"), TEST_STATE_TENSORS + 1);
    assert_int_equal(test_scratch_count("deep/store/step-00000004"), 2);
}

static void no_tensors(void **state)
{
    (void)state;
    bt_state nothing = {.values.step = 3};
    bt_state back = {0};
    ASSERT_OK(bt_checkpoint_save(&session.context, &store, &plain, &nothing));
    ASSERT_OK(bt_checkpoint_load(&session.context, &store, 3, NULL, &back, NULL));
    assert_int_equal(back.values.step, 3);
}

static void pieces_and_batches(void **state)
{
    (void)state;
    // Beyond a batch of the writer (8 MiB) and the slots of a reader (4 of 4 MiB), and odd.
    test_state big;
    test_state_open(&big, &session.context, 70001);
    test_state_fill(&big, 1);
    ASSERT_OK(bt_checkpoint_save(&session.context, &store, &plain, &big.state));
    test_state_fill(&big, 2);
    bt_checkpoint_info info;
    ASSERT_OK(bt_checkpoint_verify(&store, 1, &info));
    ASSERT_OK(bt_checkpoint_load(&session.context, &store, 1, NULL, &big.state, NULL));
    test_state_check(&big, 1);
    test_state_close(&big);
}

static void newest_and_retention(void **state)
{
    (void)state;
    bt_checkpoint_options options = plain;
    bt_checkpoint_info info;
    ASSERT_OK(bt_checkpoint_newest(&store, &info)); // no folder
    assert_int_equal(info.step, -1);
    test_state_fill(&s, 5);
    ASSERT_OK(bt_checkpoint_load_newest(&session.context, &store, NULL, &s.state, &info));
    assert_int_equal(info.step, -1);
    test_state_check(&s, 5);

    save(1, &options);
    save(100000000, &options); // nine digits
    save(20, &options);
    assert_steps((int64_t[]){1, 20, 100000000}, 3);
    ASSERT_OK(bt_checkpoint_newest(&store, &info));
    assert_int_equal(info.step, 100000000);
    options.max_to_keep = 2;
    save(21, &options); // newer ones go first: they were left out, so they are damaged
    assert_steps((int64_t[]){20, 21}, 2);
    options.max_to_keep = 1;
    save(3, &options); // the one just saved stays, though it is the lowest
    assert_steps((int64_t[]){3}, 1);
    ASSERT_OK(bt_checkpoint_remove(&store, 3));
    assert_steps((int64_t[]){0}, 0);
    assert_int_equal(test_scratch_count("deep/store"), 0);
    ASSERT_FAILS(BT_STATUS_IO, "step-00000003", bt_checkpoint_remove(&store, 3));
}

static void other_names_are_left_alone(void **state)
{
    (void)state;
    save(1, &plain);
    static const char *const names[] = {"step-1",         "step-00000001x", "step--0000001",
                                        "step-000000001", "steps",          "step-",
                                        ".tmp-notes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        char path[256];
        (void)snprintf(path, sizeof path, "deep/store/%s", names[i]);
        ASSERT_OK(bt_dir_make(test_scratch_path(path)));
    }
    // A left-over of a writer that died.
    ASSERT_OK(bt_dir_make(test_scratch_path("deep/store/.tmp-step-00000009")));
    (void)test_scratch_write("deep/store/.tmp-step-00000009/state-00001.safetensors", "x", 1);
    assert_steps((int64_t[]){1}, 1);
    bt_checkpoint_options options = plain;
    options.max_to_keep = 1;
    save(2, &options);
    assert_steps((int64_t[]){2}, 1);
    assert_int_equal(test_scratch_count("deep/store"), 8); // 7 names and step 2
}

// A save of the step again was cut short, so its temporary folder is there.
static void a_step_with_a_left_over_is_removed(void **state)
{
    (void)state;
    save(4, &plain);
    ASSERT_OK(bt_dir_make(test_scratch_path("deep/store/.tmp-step-00000004")));
    (void)test_scratch_write("deep/store/.tmp-step-00000004/state-00001.safetensors", "x", 1);
    ASSERT_OK(bt_checkpoint_remove(&store, 4));
    assert_int_equal(test_scratch_count("deep/store"), 0);
}

static void same_step_again(void **state)
{
    (void)state;
    save(7, &plain);
    // Damage it, as if it was why the run began again from an older one.
    (void)test_scratch_write("deep/store/step-00000007/manifest.json", "{}", 2);
    bt_checkpoint_info info;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "manifest.json", bt_checkpoint_verify(&store, 7, &info));
    assert_int_equal(info.step, -1);
    save(7, &plain);
    load(7);
    assert_int_equal(test_scratch_count("deep/store"), 1);
}

// A pipe without a writer must not be waited for.
static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    bt_checkpoint_info info;
    const char *path = test_scratch_path("deep/store/step-00000001/state-00001.safetensors");
    save(1, &plain);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    ASSERT_FAILS(BT_STATUS_IO, "state-00001.safetensors is not a regular file",
                 bt_checkpoint_verify(&store, 1, &info));
    assert_int_equal(unlink(path), 0);
    ASSERT_OK(bt_dir_make(path));
    ASSERT_FAILS(BT_STATUS_IO, "is not a regular file", bt_checkpoint_verify(&store, 1, &info));
    assert_int_equal(rmdir(path), 0);
}

static void newest_skips_damage(void **state)
{
    (void)state;
    bt_checkpoint_info info;
    save(1, &plain);
    save(2, &plain);
    save(3, &plain);
    assert_int_equal(
        truncate(test_scratch_path("deep/store/step-00000003/state-00001.safetensors"), 4500), 0);
    assert_int_equal(unlink(test_scratch_path("deep/store/step-00000002/manifest.json")), 0);
    test_state_fill(&s, 999);
    ASSERT_OK(bt_checkpoint_load_newest(&session.context, &store, NULL, &s.state, &info));
    assert_int_equal(info.step, 1);
    assert_int_equal(info.skipped, 2);
    assert_non_null(strstr(info.skip_reason, "step-00000003/state-00001.safetensors has 4500"));
    test_state_check(&s, 1);
    assert_int_equal(unlink(test_scratch_path("deep/store/step-00000001/manifest.json")), 0);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "none of the 3 checkpoints",
                 bt_checkpoint_newest(&store, &info));
    assert_int_equal(info.step, -1);
}

static void step_of_another_folder(void **state)
{
    (void)state;
    bt_checkpoint_info info;
    save(1, &plain);
    assert_int_equal(rename(test_scratch_path("deep/store/step-00000001"),
                            test_scratch_path("deep/store/step-00000002")),
                     0);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "contains step 1", bt_checkpoint_verify(&store, 2, &info));
}

static void strict(void **state)
{
    (void)state;
    static const bt_checkpoint_load_options extra = {.ignore_extra = true};
    static const bt_checkpoint_load_options other_plan = {.plan_hash = "another"};
    static const bt_checkpoint_load_options same_plan = {.plan_hash = "plan"};
    bt_context *context = &session.context;
    bt_state list = {0};
    bt_tensor *other = NULL;
    save(4, &plain);
    test_state_fill(&s, 999);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "plan plan, expected the plan another",
                 bt_checkpoint_load(context, &store, 4, &other_plan, &s.state, NULL));
    // One tensor left out, one of another type, one of another shape, one more.
    for (int i = 3; i < TEST_STATE_TENSORS; ++i) {
        ASSERT_OK(bt_state_add(&list, s.state.tensors[i].name, s.tensors[i]));
    }
    ASSERT_OK(bt_tensor_zeros(context, BT_F32, BT_SHAPE(7, 5), "w", &other));
    ASSERT_OK(bt_state_add(&list, "h.0.weight", other));
    ASSERT_OK(bt_state_add(&list, "scalar", other));
    ASSERT_OK(bt_state_add(&list, "new", other));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "differences: 4",
                 bt_checkpoint_load(context, &store, 4, NULL, &list, NULL));
    assert_non_null(strstr(bt_error_message(), "h.0.weight is f32 [5, 7], expected f32 [7, 5]"));
    assert_non_null(strstr(bt_error_message(), "scalar is f64 [], expected f32 [7, 5]"));
    assert_non_null(strstr(bt_error_message(), "new is missing"));
    assert_non_null(strstr(bt_error_message(), "copy is not in the state"));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "differences: 3",
                 bt_checkpoint_load(context, &store, 4, &extra, &list, NULL));
    test_state_check(&s, 999); // nothing was written

    list.count = 1; // a part of a checkpoint, if requested
    list.tensors[0] = s.state.tensors[5];
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "is not in the state",
                 bt_checkpoint_load(context, &store, 4, NULL, &list, NULL));
    ASSERT_OK(bt_checkpoint_load(context, &store, 4, &extra, &list, NULL));
    assert_false(test_state_is(&s, 999));
    list.tensors[1] = list.tensors[0];
    list.count = 2;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "occurs twice",
                 bt_checkpoint_load(context, &store, 4, &extra, &list, NULL));
    ASSERT_OK(bt_checkpoint_load(context, &store, 4, &same_plan, &s.state, NULL));
    test_state_check(&s, 4);
    bt_state_release(&list);
    bt_tensor_release(other);
}

static void refused_states(void **state)
{
    (void)state;
    bt_context *context = &session.context;
    bt_tensor *wide = NULL;
    bt_tensor *column = NULL;
    bt_state list = {0};
    ASSERT_OK(bt_tensor_zeros(context, BT_F32, BT_SHAPE(4, 4), "wide", &wide));
    ASSERT_OK(bt_tensor_view(wide, BT_SHAPE(4), (int64_t[]){4}, 0, &column));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "column is not contiguous",
                 bt_state_add(&list, "column", column));
    static const struct {
        const char *name, *words;
    } names[] = {{"", "a tensor's name of 0 bytes"},
                 {"__metadata__", "__metadata__"},
                 {"bad \xff", "not valid UTF-8 at byte 4"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        list.count = 0;
        ASSERT_OK(bt_state_add(&list, names[i].name, wide));
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, names[i].words,
                     bt_checkpoint_save(context, &store, &plain, &list));
    }
    list.count = 0;
    ASSERT_OK(bt_state_add(&list, "a", wide));
    ASSERT_OK(bt_state_add(&list, "a", wide));
    bt_checkpoint_options apart = plain;
    apart.file_bytes = 1; // also when they are in two files
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "two tensors are named a",
                 bt_checkpoint_save(context, &store, &apart, &list));
    list.count = 1;
    const bt_state_values bad[] = {{.step = -1},
                                   {.position = ((int64_t)1 << 53) + 1},
                                   {.lr = (double)INFINITY},
                                   {.min_lr = (double)NAN}};
    static const char *const words[] = {"step", "cursor_position", "schedule_lr",
                                        "schedule_min_lr"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        list.values = bad[i];
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, words[i],
                     bt_checkpoint_save(context, &store, &plain, &list));
    }
    assert_int_equal(test_scratch_count("deep/store"), -1); // nothing was begun
    bt_state_release(&list);
    bt_tensor_release(column);
    bt_tensor_release(wide);
}

static void digest(void **state)
{
    (void)state;
    char first[33];
    char second[33];
    bt_state turned = {0};
    test_state_fill(&s, 8);
    ASSERT_OK(bt_state_digest(&session.context, &s.state, first));
    for (int i = TEST_STATE_TENSORS - 1; i >= 0; --i) {
        ASSERT_OK(bt_state_add(&turned, s.state.tensors[i].name, s.tensors[i]));
    }
    turned.values = s.state.values;
    ASSERT_OK(bt_state_digest(&session.context, &turned, second));
    assert_string_equal(first, second);
    turned.values.rng_index ^= 1;
    ASSERT_OK(bt_state_digest(&session.context, &turned, second));
    assert_string_not_equal(first, second);
    turned.values = s.state.values;
    turned.tensors[0].name = "another";
    ASSERT_OK(bt_state_digest(&session.context, &turned, second));
    assert_string_not_equal(first, second);
    bt_state_release(&turned);
}

static void every_host_allocation_may_fail(void **state)
{
    (void)state;
    save(1, &plain);
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 0;
    for (; status != BT_OK; ++n) {
        test_state_fill(&s, 2);
        bt_mem_fail_at(n + 1);
        status = bt_checkpoint_save(&session.context, &store, &plain, &s.state);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
        assert_true(n < 1000);
    }
    assert_true(n > 20); // the injection did bite
    load(2);
    status = BT_STATUS_OUT_OF_MEMORY;
    for (n = 0; status != BT_OK; ++n) {
        bt_checkpoint_info info;
        bt_mem_fail_at(n + 1);
        status = bt_checkpoint_load_newest(&session.context, &store, NULL, &s.state, &info);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
        assert_true(n < 1000);
    }
    assert_true(n > 20);
    test_state_check(&s, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(round_trip),
        TEST(described),
        TEST(several_files),
        TEST(no_tensors),
        TEST(pieces_and_batches),
        TEST(newest_and_retention),
        TEST(other_names_are_left_alone),
        TEST(a_step_with_a_left_over_is_removed),
        TEST(same_step_again),
        TEST(what_is_no_file_is_refused),
        TEST(newest_skips_damage),
        TEST(step_of_another_folder),
        TEST(strict),
        TEST(refused_states),
        TEST(digest),
        TEST(every_host_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

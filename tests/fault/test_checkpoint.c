// tests/fault/test_checkpoint.c - every file operation fails, the disk is full, the power fails,
// bits flip: what is loaded is a state that was saved, or nothing with a message
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/checkpoint.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/fake_disk.h"

static fixture session;
static test_state s;
static fake_disk *disk;
static bt_checkpoint_store store;

static int setup(void **state)
{
    (void)state;
    fixture_open(&session, 0);
    test_state_open(&s, &session.context, 1);
    disk = fake_disk_make();
    store = (bt_checkpoint_store){.folder = "/runs/store", .ops = fake_disk_ops(disk)};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(fake_disk_open_count(disk), 0);
    fake_disk_free(disk);
    test_state_close(&s);
    fixture_close(&session);
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

static bt_status save(int64_t step, int64_t max_to_keep)
{
    // Two files, and retention if requested.
    const bt_checkpoint_options options = {.max_to_keep = max_to_keep, .file_bytes = 600};
    test_state_fill(&s, step);
    return bt_checkpoint_save(&session.context, &store, &options, &s.state);
}

// The newest of a disk, loaded and compared bit by bit; -1 when there is none. Fails the test when
// checkpoints are there and none loads.
static int64_t newest_of(fake_disk *on)
{
    const bt_checkpoint_store there = {.folder = "/runs/store", .ops = fake_disk_ops(on)};
    bt_checkpoint_info info;
    test_state_fill(&s, 999);
    bt_status status = bt_checkpoint_load_newest(&session.context, &there, NULL, &s.state, &info);
    if (status != BT_OK) {
        assert_int_equal(status, BT_STATUS_CORRUPT_DATA);
        assert_non_null(strstr(bt_error_message(), "none of the"));
        return -1;
    }
    if (info.step >= 0) {
        test_state_check(&s, info.step);
        char digest[33];
        ASSERT_OK(bt_state_digest(&session.context, &s.state, digest));
        assert_string_equal(digest, info.digest);
    }
    return info.step;
}

// ---- errors -------------------------------------------------------------------------------------

// Save 3 over 1 and 2, keeping 2, when its n-th operation fails, for every n.
static int64_t fail_every_operation(int error, bool forever, bool again)
{
    int64_t n = 0;
    for (bt_status status = BT_STATUS_IO; status != BT_OK;) {
        int ignored = teardown(NULL) + setup(NULL);
        assert_int_equal(ignored, 0);
        ASSERT_OK(save(1, 0));
        ASSERT_OK(save(2, 0));
        if (again) {
            ASSERT_OK(save(3, 0)); // is replaced then
        }
        fake_disk_fail(disk, ++n, error, forever);
        status = save(3, 2);
        bool came = fake_disk_failed(disk) != NULL;
        const char *failed = came ? fake_disk_failed(disk) : "";
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_IO);
            assert_non_null(strstr(bt_error_message(), strerror(error)));
            assert_non_null(strstr(bt_error_message(), "/runs"));
        } else if (came) { // tested for existence, or closed a file that was only read
            assert_true(strcmp(failed, "open") == 0 || strcmp(failed, "close") == 0);
        }
        fake_disk_fail(disk, 0, 0, false);
        assert_int_equal(fake_disk_open_count(disk), 0);
        assert_true(newest_of(disk) >= 2);
        ASSERT_OK(save(3, 2)); // the next save does
        assert_int_equal(newest_of(disk), 3);
        assert_true(n < 500);
        status = came ? BT_STATUS_IO : BT_OK;
    }
    return n;
}

static void every_operation_fails(void **state)
{
    (void)state;
    assert_true(fail_every_operation(EIO, false, false) > 40);
    assert_true(fail_every_operation(EIO, false, true) > 40);
    assert_true(fail_every_operation(EIO, true, false) > 40);
    assert_true(fail_every_operation(ENOSPC, true, true) > 40);
    assert_true(fail_every_operation(EROFS, true, false) > 40);
}

static void every_operation_of_a_load_fails(void **state)
{
    (void)state;
    ASSERT_OK(save(1, 0));
    bool came = true;
    int64_t n = 0;
    for (; came; ++n) {
        bt_checkpoint_info info;
        fake_disk_fail(disk, n + 1, EIO, false);
        test_state_fill(&s, 999);
        bt_status status =
            bt_checkpoint_load_newest(&session.context, &store, NULL, &s.state, &info);
        came = fake_disk_failed(disk) != NULL;
        if (status == BT_OK) {
            assert_true(!came || strcmp(fake_disk_failed(disk), "close") == 0);
            test_state_check(&s, 1);
        } else {
            assert_non_null(strstr(bt_error_message(), strerror(EIO)));
            assert_int_equal(info.step, -1);
        }
        fake_disk_fail(disk, 0, 0, false);
        assert_int_equal(fake_disk_open_count(disk), 0);
    }
    assert_true(n > 15);
}

static void disk_full_at_every_byte(void **state)
{
    (void)state;
    bt_status status = BT_STATUS_IO;
    ASSERT_OK(save(1, 0));
    for (int64_t room = 0; status != BT_OK; room += 97) {
        fake_disk_room(disk, room);
        status = save(2, 1);
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_IO);
            assert_non_null(strstr(bt_error_message(), "No space left"));
            assert_int_equal(newest_of(disk), 1);
        }
        assert_true(room < 100000);
    }
    assert_int_equal(newest_of(disk), 2);
}

static void short_reads_and_writes(void **state)
{
    (void)state;
    const size_t most[] = {1, 7, 512, 4097};
    for (size_t i = 0; i < sizeof most / sizeof *most; ++i) {
        fake_disk_short(disk, most[i]);
        ASSERT_OK(save((int64_t)i, 0));
        assert_int_equal(newest_of(disk), i);
    }
}

// ---- power --------------------------------------------------------------------------------------

enum { SAVES = 6, SEEDS = 12 };

typedef struct history {
    int64_t returned[SAVES]; // changes on the disk when the save had returned
    int64_t step[SAVES];
} history;

// Saves with retention; step 3 twice, and 2 after it, as a run that went back does.
static history record_history(void)
{
    static const int64_t steps[SAVES] = {1, 2, 3, 3, 2, 4};
    history h;
    for (int i = 0; i < SAVES; ++i) {
        ASSERT_OK(save(steps[i], 2));
        h.returned[i] = fake_disk_changes(disk);
        h.step[i] = steps[i];
    }
    return h;
}

// The highest step that must be there after `prefix` changes.
static int64_t promised(const history *h, int64_t prefix)
{
    int64_t highest = -1;
    for (int i = 0; i < SAVES; ++i) {
        highest = h->returned[i] <= prefix && h->step[i] > highest ? h->step[i] : highest;
    }
    return highest;
}

// Cuts the power before every change. Returns in how many cases the newest checkpoint was older
// than what a save had promised; the contents are compared in each.
static int64_t cut_everywhere(const history *h)
{
    int64_t broken = 0;
    for (int64_t prefix = 0; prefix <= fake_disk_changes(disk); ++prefix) {
        for (uint64_t seed = 0; seed < SEEDS + 2; ++seed) {
            fake_loss loss = seed < SEEDS ? FAKE_LOSE_SOME : (fake_loss)(seed - SEEDS);
            fake_disk *after = fake_disk_cut(disk, prefix, loss, seed);
            broken += newest_of(after) < promised(h, prefix);
            assert_int_equal(fake_disk_open_count(after), 0);
            fake_disk_free(after);
        }
    }
    return broken;
}

static void power_cut_anywhere(void **state)
{
    (void)state;
    const history h = record_history();
    assert_true(fake_disk_changes(disk) > 80);
    assert_int_equal(cut_everywhere(&h), 0);
}

// The checker's check: on a disk whose sync does nothing, saves do get lost.
static void power_cut_finds_a_missing_sync(void **state)
{
    (void)state;
    fake_disk_ignore_sync(disk, true);
    const history h = record_history();
    assert_true(cut_everywhere(&h) > 0);
}

// After any cut the next save works, and removes what the cut left behind.
static void saving_after_a_power_cut(void **state)
{
    (void)state;
    (void)record_history();
    fake_disk *whole = disk;
    for (int64_t prefix = 0; prefix <= fake_disk_changes(whole); ++prefix) {
        disk = fake_disk_cut(whole, prefix, FAKE_LOSE_SOME, (uint64_t)prefix);
        store.ops = fake_disk_ops(disk);
        bt_status status = save(5, 1);
        if (status != BT_OK) {
            fail_msg("after %lld changes: %s", (long long)prefix, bt_error_message());
        }
        assert_int_equal(newest_of(disk), 5);
        int64_t *steps = NULL;
        int64_t count = 0;
        ASSERT_OK(bt_checkpoint_list(&store, &steps, &count));
        assert_int_equal(count, 1);
        bt_mem_free(steps);
        fake_disk_free(disk);
    }
    disk = whole;
    store.ops = fake_disk_ops(disk);
}

// ---- bits ---------------------------------------------------------------------------------------

static void flip_bits_of(const char *path, int bits_per_byte)
{
    size_t size_bytes = 0;
    unsigned char *bytes = fake_disk_bytes(disk, path, &size_bytes);
    assert_true(size_bytes > 100);
    for (size_t at = 0; at < size_bytes; ++at) {
        for (int bit = 0; bit < bits_per_byte; ++bit) {
            unsigned char mask = (unsigned char)(1U << ((at + (size_t)bit) % 8));
            bt_checkpoint_info info;
            bytes[at] ^= mask;
            bt_status status = bt_checkpoint_verify(&store, 1, &info);
            if (status == BT_OK) {
                fail_msg("%s: bit %zu of byte %zu flipped and nobody saw", path,
                         (at + (size_t)bit) % 8, at);
            }
            assert_true(status == BT_STATUS_CORRUPT_DATA || status == BT_STATUS_UNSUPPORTED);
            assert_non_null(strstr(bt_error_message(), "step-00000001"));
            bytes[at] ^= mask;
        }
    }
}

static void every_flip_is_seen(void **state)
{
    (void)state;
    bt_checkpoint_info info;
    ASSERT_OK(save(1, 0));
    flip_bits_of("/runs/store/step-00000001/manifest.json", 8);
    flip_bits_of("/runs/store/step-00000001/state-00001.safetensors", 1);
    flip_bits_of("/runs/store/step-00000001/state-00002.safetensors", 1);
    ASSERT_OK(bt_checkpoint_verify(&store, 1, &info));
}

static void a_flip_names_its_tensor(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    ASSERT_OK(save(1, 0));
    ASSERT_OK(save(2, 0));
    unsigned char *bytes =
        fake_disk_bytes(disk, "/runs/store/step-00000002/state-00001.safetensors", &size_bytes);
    bytes[size_bytes - 1] ^= 0x40;
    bt_checkpoint_info info;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "state-00001.safetensors: tensor half, bytes ",
                 bt_checkpoint_verify(&store, 2, &info));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "tensor half",
                 bt_checkpoint_load(&session.context, &store, 2, NULL, &s.state, NULL));
    assert_int_equal(newest_of(disk), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_operation_fails),    TEST(every_operation_of_a_load_fails),
        TEST(disk_full_at_every_byte),  TEST(short_reads_and_writes),
        TEST(power_cut_anywhere),       TEST(power_cut_finds_a_missing_sync),
        TEST(saving_after_a_power_cut), TEST(every_flip_is_seen),
        TEST(a_flip_names_its_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// tests/unit/test_checkpoint_writer.c - saving while training continues, on the CPU and on a device
// that runs everything as late as it may
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/writer.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/fake_disk.h"
#include "tests/support/lazy_device.h"

typedef struct setting {
    const char *name;
    bool lazy, device_snapshot;
} setting;

static const setting settings[] = {
    {"cpu", false, false}, {"stream", true, false}, {"snapshot", true, true}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static bt_device device;
static bt_pool *pool;
static bt_context context;
static test_state s;
static fake_disk *disk;
static bt_checkpoint_store store;
static bt_checkpoint_writer *writer;
static bt_checkpoint_writer_options options;

static void open_setting(const setting *chosen, int64_t scale)
{
    if (chosen->lazy) {
        lazy_device_open(&device);
    } else {
        ASSERT_OK(bt_device_open("cpu", 0, &device));
    }
    ASSERT_OK(bt_pool_create(&device, 0, &pool));
    context = (bt_context){.device = &device, .pool = pool};
    test_state_open(&s, &context, scale);
    disk = fake_disk_make();
    store = (bt_checkpoint_store){.folder = "/store", .ops = fake_disk_ops(disk)};
    options = (bt_checkpoint_writer_options){.checkpoint = {.file_bytes = 600},
                                             .device_snapshot = chosen->device_snapshot};
}

static void make_writer(void)
{
    ASSERT_OK(bt_checkpoint_writer_create(&context, &store, &options, &s.state, &writer));
}

static void close_setting(const setting *chosen)
{
    bt_checkpoint_writer_destroy(writer);
    writer = NULL;
    test_state_close(&s);
    bt_pool_destroy(pool);
    assert_int_equal(fake_disk_open_count(disk), 0);
    fake_disk_free(disk);
    if (chosen->lazy) {
        lazy_device_close(&device);
    } else {
        bt_device_close(&device);
    }
    assert_int_equal(bt_mem_live_count(), 0);
}

static void start(int64_t step)
{
    bool started = false;
    test_state_fill(&s, step);
    ASSERT_OK(bt_checkpoint_start(writer, &s.state.values, &started));
    assert_true(started);
}

static void assert_saved(int64_t step)
{
    bt_checkpoint_info info;
    char digest[33];
    test_state_fill(&s, 999);
    ASSERT_OK(bt_checkpoint_load(&context, &store, step, NULL, &s.state, &info));
    test_state_check(&s, step);
    ASSERT_OK(bt_state_digest(&context, &s.state, digest));
    assert_string_equal(digest, info.digest);
}

static int64_t count_saved(void)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    ASSERT_OK(bt_checkpoint_list(&store, &steps, &count));
    bt_mem_free(steps);
    return count;
}

// ---- a disk that waits --------------------------------------------------------------------------

static sem_t entered, released;

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        assert_int_equal(errno, EINTR);
    }
}

// Every write reports that it has begun and waits to be released.
static void gate(void *self)
{
    (void)self;
    (void)sem_post(&entered);
    wait_for(&released);
}

static void close_gate(void)
{
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    assert_int_equal(sem_init(&released, 0, 0), 0);
    fake_disk_on_write(disk, gate, NULL);
}

static void open_gate(void)
{
    for (int i = 0; i < 10000; ++i) {
        (void)sem_post(&released);
    }
}

static void slow(void *self)
{
    (void)self;
    (void)nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static void *release_later(void *self)
{
    slow(self); // by then the other thread is in bt_checkpoint_cancel
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    open_gate();
    return NULL;
}

// ---- tests --------------------------------------------------------------------------------------

static void the_snapshot_is_that_of_the_start(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        make_writer();
        fake_disk_on_write(disk, slow, NULL);
        start(1);
        test_state_fill(&s, 2); // training continues
        ASSERT_OK(bt_checkpoint_wait(writer));
        assert_false(bt_checkpoint_is_busy(writer));
        assert_saved(1);
        close_setting(&settings[i]);
    }
}

static void one_after_another(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        options.checkpoint.max_to_keep = 3;
        make_writer();
        fake_disk_on_write(disk, slow, NULL);
        for (int64_t step = 1; step <= 5; ++step) {
            start(step);
        }
        ASSERT_OK(bt_checkpoint_wait(writer));
        ASSERT_OK(bt_checkpoint_wait(writer));
        assert_int_equal(count_saved(), 3);
        for (int64_t step = 3; step <= 5; ++step) {
            assert_saved(step);
        }
        close_setting(&settings[i]);
    }
}

static void skipped_when_busy(void **state)
{
    (void)state;
    open_setting(&settings[0], 1);
    options.skip_when_busy = true;
    make_writer();
    close_gate();
    start(1);
    wait_for(&entered);
    assert_true(bt_checkpoint_is_busy(writer));
    bool started = true;
    test_state_fill(&s, 2);
    ASSERT_OK(bt_checkpoint_start(writer, &s.state.values, &started));
    assert_false(started);
    open_gate();
    ASSERT_OK(bt_checkpoint_wait(writer));
    assert_int_equal(count_saved(), 1);
    assert_saved(1);
    start(3);
    ASSERT_OK(bt_checkpoint_wait(writer));
    assert_saved(3);
    close_setting(&settings[0]);
}

static void errors_surface_once(void **state)
{
    (void)state;
    open_setting(&settings[0], 1);
    make_writer();
    fake_disk_room(disk, 5000);
    start(1);
    ASSERT_FAILS(BT_STATUS_IO, "No space left", bt_checkpoint_wait(writer));
    assert_non_null(strstr(bt_error_message(), "/store/.tmp-step-00000001/"));
    ASSERT_OK(bt_checkpoint_wait(writer));
    start(2);
    bool started = true;
    ASSERT_FAILS(BT_STATUS_IO, "the previous checkpoint: ",
                 bt_checkpoint_start(writer, &s.state.values, &started));
    assert_non_null(strstr(bt_error_message(), "No space left"));
    assert_false(started);
    assert_int_equal(count_saved(), 0);
    fake_disk_room(disk, -1);
    start(3);
    ASSERT_OK(bt_checkpoint_wait(writer));
    assert_saved(3);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "step",
                 bt_checkpoint_start(writer, &(bt_state_values){.step = -1}, &started));
    assert_false(started);
    close_setting(&settings[0]);
}

// The tensors themselves are written, after the stream's work on them; a failure is still reported
// to who asks after settling.
static void in_place(void **state)
{
    (void)state;
    static const setting lazy = {"in place", true, false};
    unsigned char *bytes[TEST_STATE_TENSORS];
    bool started = false;
    open_setting(&lazy, 1);
    options.in_place = true;
    make_writer();
    test_state_fill(&s, 2);
    const bt_state_values values = s.state.values;
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        const size_t size_bytes = bt_tensor_bytes(s.tensors[i]);
        bytes[i] = malloc(size_bytes + 1);
        memcpy(bytes[i], bt_tensor_data(s.tensors[i]), size_bytes);
    }
    test_state_fill(&s, 1);
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) { // queued
        ASSERT_OK(device.backend->copy(&device, bt_tensor_data(s.tensors[i]), bytes[i],
                                       bt_tensor_bytes(s.tensors[i]), BT_COPY_DEVICE_TO_HOST,
                                       context.stream));
    }
    ASSERT_OK(bt_checkpoint_start(writer, &values, &started));
    assert_true(started);
    bt_checkpoint_settle(writer);
    assert_false(bt_checkpoint_is_busy(writer));
    ASSERT_OK(bt_checkpoint_wait(writer));
    assert_saved(2);
    fake_disk_room(disk, 5000);
    start(3);
    bt_checkpoint_settle(writer);
    ASSERT_FAILS(BT_STATUS_IO, "No space left", bt_checkpoint_wait(writer));
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        free(bytes[i]);
    }
    close_setting(&lazy);
}

static bt_status refuse(void *self)
{
    return *(const bool *)self ? bt_error(BT_STATUS_UNAVAILABLE, "rank 1 has ended") : BT_OK;
}

// A state that turns out to be incomplete when it has arrived in host memory is not saved.
static void refused_before_it_is_written(void **state)
{
    (void)state;
    bool incomplete = true;
    for (int i = 0; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        options.check = refuse;
        options.self = &incomplete;
        make_writer();
        incomplete = true;
        start(1);
        ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "rank 1 has ended", bt_checkpoint_wait(writer));
        assert_int_equal(count_saved(), 0);
        incomplete = false;
        start(2);
        ASSERT_OK(bt_checkpoint_wait(writer));
        assert_saved(2);
        close_setting(&settings[i]);
    }
}

static void cancelled(void **state)
{
    (void)state;
    open_setting(&settings[0], 70000); // several batches
    make_writer();
    start(1);
    ASSERT_OK(bt_checkpoint_wait(writer));
    fake_disk_on_write(disk, slow, NULL);
    start(2);
    ASSERT_OK(bt_checkpoint_cancel(writer)); // before, while or after it is written
    int64_t left = count_saved();
    assert_true(left == 1 || left == 2);
    // In the first write of the first file, and cancelled by another thread: certainly not
    // complete.
    close_gate();
    start(3);
    wait_for(&entered);
    pthread_t helper;
    assert_int_equal(pthread_create(&helper, NULL, release_later, NULL), 0);
    ASSERT_OK(bt_checkpoint_cancel(writer));
    assert_int_equal(pthread_join(helper, NULL), 0);
    assert_int_equal(count_saved(), left);
    size_t size_bytes = 0;
    assert_null(fake_disk_bytes(disk, "/store/.tmp-step-00000003", &size_bytes));
    fake_disk_on_write(disk, NULL, NULL);
    start(4); // a cancelled writer continues
    ASSERT_OK(bt_checkpoint_wait(writer));
    assert_saved(4);
    close_setting(&settings[0]);
}

static void destroyed_while_busy(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        make_writer();
        fake_disk_on_write(disk, slow, NULL);
        start(1);
        bt_checkpoint_writer_destroy(writer);
        writer = NULL;
        assert_saved(1);
        close_setting(&settings[i]);
    }
}

static void a_device_that_fails(void **state)
{
    (void)state;
    for (int i = 1; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        make_writer();
        bool came = true;
        int64_t n = 0;
        for (; came; ++n) {
            bool started = false;
            test_state_fill(&s, n);
            lazy_device_fail_at(n + 1);
            bt_status status = bt_checkpoint_start(writer, &s.state.values, &started);
            came = lazy_device_failed();
            lazy_device_fail_at(0);
            assert_int_equal(status == BT_OK, !came);
            assert_int_equal(started, !came);
        }
        assert_true(n > TEST_STATE_TENSORS);
        ASSERT_OK(bt_checkpoint_wait(writer));
        assert_int_equal(count_saved(), 1);
        assert_saved(n - 1);
        close_setting(&settings[i]);
    }
}

static void creation_that_fails(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; ++i) {
        open_setting(&settings[i], 1);
        int64_t before = bt_mem_live_count();
        bt_status status = BT_STATUS_OUT_OF_MEMORY;
        for (int64_t n = 1; status != BT_OK; ++n) {
            bt_mem_fail_at(n);
            status = bt_checkpoint_writer_create(&context, &store, &options, &s.state, &writer);
            bt_mem_fail_at(0);
            // A pool that gave a block may keep memory for it.
            assert_true(status == BT_OK || settings[i].device_snapshot ||
                        bt_mem_live_count() == before);
            assert_true(n < 1000);
        }
        bt_checkpoint_writer_destroy(writer);
        status = settings[i].lazy ? BT_STATUS_OUT_OF_MEMORY : BT_OK;
        for (int64_t n = 1; status != BT_OK; ++n) {
            lazy_device_fail_at(n);
            status = bt_checkpoint_writer_create(&context, &store, &options, &s.state, &writer);
            bool came = lazy_device_failed();
            lazy_device_fail_at(0);
            assert_int_equal(status == BT_OK, !came);
        }
        if (!settings[i].lazy) {
            make_writer();
        }
        close_setting(&settings[i]);
    }
}

// Without a writer of one's own, and beyond the slots through which a load goes to a device.
static void a_large_state_of_a_device(void **state)
{
    (void)state;
    open_setting(&settings[1], 70001);
    char before[33];
    bt_checkpoint_info info;
    test_state_fill(&s, 1);
    ASSERT_OK(bt_state_digest(&context, &s.state, before));
    ASSERT_OK(bt_checkpoint_save(&context, &store, &options.checkpoint, &s.state));
    assert_saved(1);
    ASSERT_OK(bt_checkpoint_newest(&store, &info));
    assert_string_equal(info.digest, before);
    bool came = true;
    for (int64_t n = 1; came; ++n) { // a load whose n-th copy, block or event fails
        lazy_device_fail_at(n);
        bt_status status = bt_checkpoint_load(&context, &store, 1, NULL, &s.state, NULL);
        came = lazy_device_failed();
        assert_int_equal(status == BT_OK, !came);
        lazy_device_fail_at(0);
    }
    test_state_check(&s, 1);
    close_setting(&settings[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_snapshot_is_that_of_the_start),
        cmocka_unit_test(one_after_another),
        cmocka_unit_test(skipped_when_busy),
        cmocka_unit_test(errors_surface_once),
        cmocka_unit_test(in_place),
        cmocka_unit_test(refused_before_it_is_written),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(destroyed_while_busy),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(creation_that_fails),
        cmocka_unit_test(a_large_state_of_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

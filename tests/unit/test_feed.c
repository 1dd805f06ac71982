// tests/unit/test_feed.c - the feed's one copy a step against what the host and the device still do
// with the memory, on a backend whose copies are done as late as they may be
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/train/feed.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 5, MICRO = 3, BATCH = 8, TOKENS = 16, ELEMENTS = BATCH * TOKENS };

// One stream. A copy is done when a call waits for it, or when a later one is submitted.
static struct {
    bt_backend table;
    bool pending;
    void *target;
    const void *source;
    size_t size_bytes;
    int64_t copies;
} late;

static bt_status finish(bt_device *device)
{
    const bool pending = late.pending;
    late.pending = false;
    return pending ? bt_cpu_backend.copy(device, late.target, late.source, late.size_bytes,
                                         BT_COPY_HOST_TO_DEVICE, NULL)
                   : BT_OK;
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    (void)event;
    return finish(device);
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    (void)stream;
    return finish(device);
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    BT_TRY(finish(device));
    if (kind != BT_COPY_HOST_TO_DEVICE) {
        return bt_cpu_backend.copy(device, target, source, size_bytes, kind, stream);
    }
    ++late.copies;
    late.pending = true;
    late.target = target;
    late.source = source;
    late.size_bytes = size_bytes;
    return BT_OK;
}

static void open_late(bt_session *session)
{
    ASSERT_OK(bt_session_open("cpu", 0, 0, session));
    memset(&late, 0, sizeof late);
    late.table = bt_cpu_backend;
    late.table.event_synchronize = event_synchronize;
    late.table.stream_synchronize = stream_synchronize;
    late.table.copy = copy;
    session->device.backend = &late.table;
}

static bt_loader *open_loader(const bt_train_plan *plan)
{
    bt_loader *loader = NULL;
    const bt_loader_options options = {.shards = plan->train_shards,
                                       .shard_count = plan->train_shard_count,
                                       .micro_batch = plan->micro_batch,
                                       .sequence = plan->sequence,
                                       .vocab = plan->model.vocab};
    ASSERT_OK(bt_loader_create(&options, &loader));
    return loader;
}

static void expect_batch(bt_session *session, const bt_feed_batch *batch, bt_loader *reference)
{
    int32_t ids[ELEMENTS], targets[ELEMENTS], expected[2][ELEMENTS];
    ASSERT_OK(bt_loader_next(reference, expected[0], expected[1]));
    ASSERT_OK(bt_tensor_read(&session->context, batch->ids, ids));
    ASSERT_OK(bt_tensor_read(&session->context, batch->targets, targets));
    assert_memory_equal(ids, expected[0], sizeof ids);
    assert_memory_equal(targets, expected[1], sizeof targets);
}

// Every step's batches are the loader's next ones, at the same addresses, although the host has
// read the step after it into the pinned memory while their copy was under way.
static void batches_of_a_step_are_copied_before_their_memory_is_used_again(void **state)
{
    (void)state;
    const bt_train_plan plan = small_train_plan();
    bt_session session;
    bt_feed feed = {0};
    open_late(&session);
    bt_loader *loader = open_loader(&plan), *reference = open_loader(&plan);
    ASSERT_OK(bt_feed_init(&session.context, loader, MICRO, BATCH, TOKENS, NULL, STEPS, &feed));
    const void *home = bt_tensor_data(feed.batches[MICRO - 1].targets);
    for (int64_t step = 0; step < STEPS; ++step) {
        ASSERT_OK(bt_feed_next(&feed));
        assert_true(late.pending); // the step does not wait for it
        ASSERT_OK(bt_feed_ahead(&feed));
        ASSERT_OK(bt_feed_ahead(&feed)); // once is enough
        for (int i = 0; i < MICRO; ++i) {
            expect_batch(&session, &feed.batches[i], reference);
        }
        assert_ptr_equal(bt_tensor_data(feed.batches[MICRO - 1].targets), home);
    }
    assert_int_equal(late.copies, STEPS);
    bt_feed_release(&feed);
    bt_loader_destroy(loader);
    bt_loader_destroy(reference);
    bt_session_close(&session);
}

static void expect_cursor(const bt_feed *feed, int64_t epoch, int64_t position)
{
    const bt_loader_cursor cursor = bt_feed_cursor(feed);
    assert_int_equal(cursor.epoch, epoch);
    assert_int_equal(cursor.position, position);
}

// The cursor is that of the steps taken, whatever was read ahead; a seek drops what was read ahead
// and delivers the same batches again.
static void the_cursor_is_the_consumed_one(void **state)
{
    (void)state;
    const bt_train_plan plan = small_train_plan();
    const int64_t step = MICRO * BATCH;
    bt_session session;
    bt_feed feed = {0};
    int32_t seen[2][ELEMENTS];
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    bt_loader *loader = open_loader(&plan);
    ASSERT_OK(bt_feed_init(&session.context, loader, MICRO, BATCH, TOKENS, NULL, 3, &feed));
    expect_cursor(&feed, 0, 0);
    for (int64_t i = 0; i < 3; ++i) {
        ASSERT_OK(bt_feed_next(&feed));
        expect_cursor(&feed, 0, (i + 1) * step);
        if (i == 1) {
            ASSERT_OK(bt_tensor_read(&session.context, feed.batches[1].ids, seen[0]));
        }
        ASSERT_OK(bt_feed_ahead(&feed));
        expect_cursor(&feed, 0, (i + 1) * step);
        // One step is read ahead, but none that will not be requested.
        const int64_t ahead = bt_loader_cursor_get(loader).position - (i + 1) * step;
        assert_int_equal(ahead, i < 2 ? step : 0);
    }
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "step 4 does not exist; there are 3 steps",
                 bt_feed_next(&feed));
    // The second time a step that was read ahead is dropped.
    for (int64_t limit = 2; limit > 0; --limit) {
        ASSERT_OK(bt_feed_seek(&feed, (bt_loader_cursor){0, step, 0}, limit));
        expect_cursor(&feed, 0, step);
        ASSERT_OK(bt_feed_next(&feed));
        ASSERT_OK(bt_tensor_read(&session.context, feed.batches[1].ids, seen[1]));
        assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
        ASSERT_OK(bt_feed_ahead(&feed));
        expect_cursor(&feed, 0, 2 * step);
    }
    bt_feed_release(&feed);
    bt_loader_destroy(loader);
    bt_session_close(&session);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    bt_session session;
    bt_feed feed;
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    const int64_t sizes[][3] = {{0, 1, 4},
                                {1, 0, 4},
                                {1, 4, -1},
                                {1, INT64_C(1) << 40, INT64_C(1) << 40},
                                {INT64_C(1) << 50, 1 << 10, 1 << 10},
                                {1, INT64_MAX, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "batches of",
                     bt_feed_init(&session.context, NULL, sizes[i][0], sizes[i][1], sizes[i][2],
                                  NULL, 1, &feed));
        bt_feed_release(&feed);
    }
    bt_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_a_step_are_copied_before_their_memory_is_used_again),
        cmocka_unit_test(the_cursor_is_the_consumed_one),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests_name("feed", tests, small_corpus_write, small_corpus_remove);
}

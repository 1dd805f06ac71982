// tests/unit/test_feed.c - the feed's copies against the stream that used its memory before, on a
// backend that records what is ordered behind what
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/mem.h"
#include "framework/train/feed.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { BATCHES = 5 };
enum { COMPUTE, COPY, STREAMS }; // COMPUTE is NULL, the context's

struct bt_event_impl {
    int64_t seen[STREAMS]; // work of each stream that a wait for this event waits for
};

// Per stream: how much work it has been given, and how much of each stream its next work follows.
static struct {
    bt_backend table;
    int64_t given[STREAMS], follows[STREAMS][STREAMS];
    int64_t copies, unordered;
    int64_t must_follow; // work of COMPUTE that copies must not overtake
    bool destroyed;
    int64_t waits_for_destroyed;
} fake;

static int number_of(bt_stream stream) { return stream ? COPY : COMPUTE; }

static bt_status stream_create(bt_device *device, bool high_priority, bt_stream *out)
{
    (void)device;
    (void)high_priority;
    *out = (bt_stream)&fake;
    return BT_OK;
}

static void stream_destroy(bt_device *device, bt_stream stream)
{
    (void)device;
    fake.destroyed = fake.destroyed || stream;
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    (void)device;
    fake.waits_for_destroyed += stream && fake.destroyed;
    return BT_OK;
}

static bt_status event_create(bt_device *device, bt_event *out)
{
    void *block = NULL;
    (void)device;
    BT_TRY(bt_mem_alloc(1, sizeof **out, &block));
    *out = block;
    return BT_OK;
}

static void event_destroy(bt_device *device, bt_event event)
{
    (void)device;
    bt_mem_free(event);
}

static bt_status event_record(bt_device *device, bt_event event, bt_stream stream)
{
    const int on = number_of(stream);
    (void)device;
    memcpy(event->seen, fake.follows[on], sizeof event->seen);
    event->seen[on] = fake.given[on];
    return BT_OK;
}

static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    int64_t *follows = fake.follows[number_of(stream)];
    (void)device;
    for (int i = 0; i < STREAMS; ++i) {
        follows[i] = event->seen[i] > follows[i] ? event->seen[i] : follows[i];
    }
    return BT_OK;
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    const int on = number_of(stream);
    ++fake.given[on];
    if (on == COPY) {
        ++fake.copies;
        fake.unordered += fake.follows[COPY][COMPUTE] < fake.must_follow;
    }
    return bt_cpu_backend.copy(device, target, source, size_bytes, kind, stream);
}

static void open_session(bt_session *session)
{
    ASSERT_OK(bt_session_open("cpu", 0, 0, session));
    memset(&fake, 0, sizeof fake);
    fake.table = bt_cpu_backend;
    fake.table.stream_create = stream_create;
    fake.table.stream_destroy = stream_destroy;
    fake.table.stream_synchronize = stream_synchronize;
    fake.table.event_create = event_create;
    fake.table.event_destroy = event_destroy;
    fake.table.event_record = event_record;
    fake.table.event_wait = event_wait;
    fake.table.copy = copy;
    session->device.backend = &fake.table;
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

// A tensor is used and freed; the feed gets its memory. No copy may run before that use is done,
// and none into a slot before the batch that it held has been used.
static void copies_follow_the_earlier_users_of_their_memory(void **state)
{
    (void)state;
    const bt_train_plan plan = small_train_plan();
    bt_session session;
    bt_feed feed = {0};
    open_session(&session);
    bt_context *context = &session.context;
    bt_loader *loader = open_loader(&plan);
    bt_tensor *earlier = NULL;
    int32_t values[16] = {0};
    ASSERT_OK(bt_tensor_create(context, BT_I32, BT_SHAPE(16), "earlier", &earlier));
    ASSERT_OK(session.device.backend->copy(&session.device, bt_tensor_data(earlier), values,
                                           sizeof values, BT_COPY_HOST_TO_DEVICE, NULL));
    bt_tensor_release(earlier);
    fake.must_follow = fake.given[COMPUTE];
    ASSERT_OK(bt_feed_init(context, loader, plan.micro_batch, plan.sequence, BATCHES, &feed));
    for (int64_t step = 0; step < BATCHES; ++step) {
        bt_tensor *ids = NULL, *targets = NULL;
        ASSERT_OK(bt_feed_next(&feed, &ids, &targets));
        // What computes now follows the copy of its batch.
        assert_true(fake.follows[COMPUTE][COPY] > step);
        ++fake.given[COMPUTE];
        fake.must_follow = step == 0 ? fake.must_follow : fake.given[COMPUTE] - 1;
        ASSERT_OK(bt_feed_done(&feed));
    }
    assert_int_equal(fake.copies, BATCHES); // none behind the last
    assert_int_equal(fake.unordered, 0);
    bt_feed_release(&feed);
    ASSERT_OK(bt_pool_release_cached(session.pool));
    assert_int_equal(fake.waits_for_destroyed, 0);
    bt_loader_destroy(loader);
    bt_session_close(&session);
}

static void expect_cursor(const bt_feed *feed, int64_t epoch, int64_t position)
{
    const bt_loader_cursor cursor = bt_feed_cursor(feed);
    assert_int_equal(cursor.epoch, epoch);
    assert_int_equal(cursor.position, position);
}

// The cursor is that of the batches taken, whatever was read ahead; a seek drops what was read
// ahead and delivers the same batches again.
static void the_cursor_is_the_consumed_one(void **state)
{
    (void)state;
    const bt_train_plan plan = small_train_plan();
    const int64_t batch = plan.micro_batch;
    bt_session session;
    bt_feed feed = {0};
    bt_tensor *ids = NULL, *targets = NULL;
    int32_t seen[2][8 * 16];
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    bt_loader *loader = open_loader(&plan);
    ASSERT_OK(bt_feed_init(&session.context, loader, batch, plan.sequence, 3, &feed));
    expect_cursor(&feed, 0, 0);
    for (int64_t i = 0; i < 3; ++i) {
        ASSERT_OK(bt_feed_next(&feed, &ids, &targets));
        expect_cursor(&feed, 0, i * batch);
        if (i == 1) {
            ASSERT_OK(bt_tensor_read(&session.context, ids, seen[0]));
        }
        ASSERT_OK(bt_feed_done(&feed));
        expect_cursor(&feed, 0, (i + 1) * batch);
        // One batch is read ahead, but none that will not be asked for.
        const int64_t ahead = bt_loader_cursor_get(loader).position - (i + 1) * batch;
        assert_int_equal(ahead, i < 2 ? batch : 0);
    }
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "batch 4 is asked for, there are 3",
                 bt_feed_next(&feed, &ids, &targets));
    // The second time a batch that was read ahead is dropped.
    for (int64_t limit = 2; limit > 0; --limit) {
        ASSERT_OK(bt_feed_seek(&feed, (bt_loader_cursor){0, batch, 0}, limit));
        expect_cursor(&feed, 0, batch);
        ASSERT_OK(bt_feed_next(&feed, &ids, &targets));
        ASSERT_OK(bt_tensor_read(&session.context, ids, seen[1]));
        assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
        ASSERT_OK(bt_feed_done(&feed));
        expect_cursor(&feed, 0, 2 * batch);
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
    open_session(&session);
    const int64_t sizes[][2] = {
        {0, 4}, {4, -1}, {INT64_C(1) << 40, INT64_C(1) << 40}, {INT64_MAX, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "a batch of",
                     bt_feed_init(&session.context, NULL, sizes[i][0], sizes[i][1], 1, &feed));
        bt_feed_release(&feed);
    }
    bt_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_follow_the_earlier_users_of_their_memory),
        cmocka_unit_test(the_cursor_is_the_consumed_one),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests_name("feed", tests, small_corpus_write, small_corpus_remove);
}

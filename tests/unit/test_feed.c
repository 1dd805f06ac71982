// tests/unit/test_feed.c - the feed's copies against the stream that used its memory before, on a
// backend that records what is ordered behind what
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/mem.h"
#include "framework/train/feed.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

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
    ASSERT_OK(bt_feed_init(context, loader, plan.micro_batch, plan.sequence, &feed));
    for (int64_t step = 0; step < 5; ++step) {
        bt_tensor *ids = NULL, *targets = NULL;
        ASSERT_OK(bt_feed_next(&feed, &ids, &targets));
        // What computes now follows the copy of its batch.
        assert_true(fake.follows[COMPUTE][COPY] > step);
        ++fake.given[COMPUTE];
        fake.must_follow = step == 0 ? fake.must_follow : fake.given[COMPUTE] - 1;
        ASSERT_OK(bt_feed_done(&feed));
    }
    assert_int_equal(fake.copies, 6);
    assert_int_equal(fake.unordered, 0);
    bt_feed_release(&feed);
    ASSERT_OK(bt_pool_release_cached(session.pool));
    assert_int_equal(fake.waits_for_destroyed, 0);
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
                     bt_feed_init(&session.context, NULL, sizes[i][0], sizes[i][1], &feed));
        bt_feed_release(&feed);
    }
    bt_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_follow_the_earlier_users_of_their_memory),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests_name("feed", tests, small_corpus_write, small_corpus_remove);
}

// tests/conformance/test_marks.c - a GPU that hangs: its marks tell which range it completed last
//
// The hang is planted through the driver: the stream waits for a word that the host writes when the
// marks have been read.
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "framework/autograd/session.h"
#include "framework/ops/ops.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { BLOCKS = 6, HANGS_IN = 4, COUNT = 1 << 16, WAIT_EQUAL = 1 };

// cuStreamWaitValue32(stream, address, value, flags); a stream and an address are pointers wide.
typedef int (*wait_value)(void *stream, uintptr_t address, uint32_t value, unsigned flags);

static wait_value find_wait(void)
{
    static void *library;
    wait_value wait = NULL;
    library = library ? library : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuStreamWaitValue32_v2") : NULL;
    memcpy(&wait, &symbol, sizeof wait);
    return wait;
}

static void run_block(bt_context *context, bt_tensor *x)
{
    bt_range_push(context, "block");
    for (int i = 0; i < BT_RANGES_MARK_KERNELS; ++i) {
        bt_tensor *y = NULL;
        ASSERT_OK(bt_gelu(context, x, &y));
        bt_tensor_release(y);
    }
    bt_range_pop(context);
}

// The device is still at work on what comes before the hang: up to 10 s.
static void wait_for_text(bt_ranges *ranges, const char *expected,
                          char text[BT_RANGES_DEVICE_TEXT_BYTES])
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < 1000 && strcmp(bt_ranges_device_text(ranges, text), expected) != 0; ++i) {
        (void)nanosleep(&pause, NULL);
    }
    (void)nanosleep(&pause, NULL); // and it stays so
    (void)bt_ranges_device_text(ranges, text);
}

static void the_range_in_which_the_device_hangs_is_named(void **state)
{
    (void)state;
    static bt_ranges ranges;
    bt_session session;
    bt_tensor *x = NULL;
    char text[BT_RANGES_DEVICE_TEXT_BYTES];
    void *done = NULL, *word = NULL;
    bt_stream stream = NULL;
    const wait_value wait = find_wait();
    assert_non_null(wait);
    ASSERT_OK(bt_session_open("cuda", 0, 0, &session));
    bt_device *device = &session.device;
    ASSERT_OK(device->backend->stream_create(device, false, &stream));
    ASSERT_OK(device->backend->pinned_alloc(device, BT_RANGES_MARKS, &done));
    ASSERT_OK(device->backend->pinned_alloc(device, sizeof(uint32_t), &word));
    memset(done, 0, BT_RANGES_MARKS);
    memset(word, 0, sizeof(uint32_t));
    bt_context *context = &session.context;
    context->stream = stream;
    context->ranges = &ranges;
    ASSERT_OK(bt_tensor_zeros(context, BT_F32, BT_SHAPE(COUNT), "x", &x));
    run_block(context, x); // loads the kernels
    ASSERT_OK(bt_context_synchronize(context));
    bt_ranges_marks_keep(&ranges, done);
    bt_range_push(context, "step");
    for (int i = 0; i < BLOCKS; ++i) {
        if (i == HANGS_IN) {
            assert_int_equal(wait(stream, (uintptr_t)word, 1, WAIT_EQUAL), 0);
        }
        run_block(context, x);
    }
    // A mark is due after the last kernel of each block: the innermost range there is that op's.
    static const char hung[] =
        "the device has completed step/block[3]/unary[7], not step/block[4]/unary[7]";
    wait_for_text(&ranges, hung, text);
    *(volatile uint32_t *)word = 1;
    ASSERT_OK(bt_context_synchronize(context));
    assert_string_equal(text, hung);
    assert_string_equal(bt_ranges_device_text(&ranges, text),
                        "the device has completed everything up to step/block[5]/unary[7]");
    bt_range_pop(context);
    // A later outermost range begins from nothing.
    bt_range_push(context, "step");
    run_block(context, x);
    ASSERT_OK(bt_context_synchronize(context));
    assert_string_equal(bt_ranges_device_text(&ranges, text),
                        "the device has completed everything up to step/block/unary[7]");
    bt_range_pop(context);
    bt_ranges_marks_keep(&ranges, NULL);
    bt_tensor_release(x);
    device->backend->pinned_free(device, word);
    device->backend->pinned_free(device, done);
    context->stream = NULL;
    ASSERT_OK(bt_pool_retire_stream(session.pool, stream));
    device->backend->stream_destroy(device, stream);
    bt_session_close(&session);
}

static void marks_change_no_bit_of_a_training(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        static bt_ranges watched;
        bt_train_plan plan = small_train_plan();
        bt_train_result expected, result;
        plan.device = "cuda";
        plan.precision = (bt_precision)precision;
        plan.model.width = 128; // heads of 64
        watched = (bt_ranges){.watched = true};
        ASSERT_OK(bt_train_run(&plan, &(bt_train_observer){0}, &expected));
        ASSERT_OK(bt_train_run(&plan, &(bt_train_observer){.ranges = &watched}, &result));
        assert_string_equal(result.state_digest, expected.state_digest);
        assert_null(watched.done); // given back
    }
}

int main(void)
{
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_range_in_which_the_device_hangs_is_named),
        cmocka_unit_test(marks_change_no_bit_of_a_training),
    };
    return cmocka_run_group_tests_name("marks of a GPU", tests, small_corpus_write,
                                       small_corpus_remove);
}

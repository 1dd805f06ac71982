// tests/harness/test_cheats.c - kernels that cheat are caught: by their outputs, or by a device
// that records what else they do
//
// bt_kernel_find is defined in this file: it returns the real row, whose launch is replaced by one
// that cheats. The reference in f64 stays what it is. So is bt_device_open: its device has streams
// on which work goes on, and a cache whose lines can be made to persist.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cases/cases.h"
#include "harness/suite/json.h"
#include "kernels/kernels.h"
#include "tests/support/test.h"

typedef bt_status (*kernel_launch)(const bt_launch *launch, const void *args);

enum { SEEN_MAX = 1024 };

static bt_kernel altered;          // the row that is handed out
static kernel_launch honest;       // its own launch
static kernel_launch cheat;        // NULL: none
static int64_t calls;              // of the altered row
static const void *seen[SEEN_MAX]; // arguments of calls that were served
static int64_t seen_count;

static bt_status replays_the_first_result(const bt_launch *launch, const void *args)
{
    return ++calls > 1 ? BT_OK : honest(launch, args); // what the first call wrote is still there
}

static bt_status replays_by_address(const bt_launch *launch, const void *args)
{
    for (int64_t i = 0; i < seen_count; ++i) {
        if (seen[i] == args) {
            return BT_OK;
        }
    }
    if (seen_count < SEEN_MAX) {
        seen[seen_count++] = args;
    }
    return honest(launch, args);
}

static bt_status skips_work_behind_a_variable(const bt_launch *launch, const void *args)
{
    if (++calls == 1) {
        return honest(launch, args);
    }
    return getenv("BT_TEST_SKIP") ? BT_OK : honest(launch, args);
}

static bt_status lowers_precision(const bt_launch *launch, const void *args)
{
    BT_TRY(honest(launch, args));
    const bt_unary_args *unary = args;
    float *y = unary->y;
    for (int64_t i = 0; i < unary->count; ++i) {
        uint32_t bits = 0;
        memcpy(&bits, &y[i], sizeof bits);
        bits &= 0xffff0000u; // eight bits of mantissa
        memcpy(&y[i], &bits, sizeof bits);
    }
    return BT_OK;
}

static bt_status lowers_precision_in_the_loop(const bt_launch *launch, const void *args)
{
    return ++calls == 1 ? honest(launch, args) : lowers_precision(launch, args);
}

// ---- what happens besides the outputs ----------------------------------------------------------

enum { SIDE_NS = 2000000 };

static bt_backend fake;      // the CPU's, but for what follows
static int64_t side_ns;      // work on another stream that has not been waited for
static int64_t side_every;   // every so many calls leave some; 0: none does
static bool lines_persist;   // of the cache
static int64_t calls_helped; // by lines that persisted from before their sample
static int64_t resets;

static bt_status fake_join(bt_device *device, int64_t *waited_ns)
{
    (void)device;
    *waited_ns = side_ns;
    side_ns = 0;
    return BT_OK;
}

static bt_status fake_cache_reset(bt_device *device)
{
    (void)device;
    lines_persist = false;
    ++resets;
    return BT_OK;
}

bt_status bt_device_open(const char *backend, int ordinal, bt_device *out)
{
    union {
        void *pointer;
        bt_status (*function)(const char *, int, bt_device *);
    } next = {.pointer = dlsym(RTLD_NEXT, "bt_device_open")};
    BT_TRY(next.function(backend, ordinal, out));
    fake = *out->backend;
    fake.join = fake_join;
    fake.cache_reset = fake_cache_reset;
    out->backend = &fake;
    return BT_OK;
}

static bt_status works_on_a_side_stream(const bt_launch *launch, const void *args)
{
    side_ns += side_every > 0 && ++calls % side_every == 0 ? SIDE_NS : 0;
    return honest(launch, args);
}

static bt_status makes_lines_persist(const bt_launch *launch, const void *args)
{
    calls_helped += lines_persist;
    lines_persist = true;
    return honest(launch, args);
}

// ---- a case with such a kernel -----------------------------------------------------------------

bt_status bt_kernel_find(const bt_device *device, bt_kernel_op op, bt_dtype dtype, const void *args,
                         const bt_kernel **out)
{
    union {
        void *pointer;
        bt_status (*function)(const bt_device *, bt_kernel_op, bt_dtype, const void *,
                              const bt_kernel **);
    } next = {.pointer = dlsym(RTLD_NEXT, "bt_kernel_find")};
    BT_TRY(next.function(device, op, dtype, args, out));
    if (cheat && op == BT_KERNEL_UNARY && dtype == BT_F32) {
        altered = **out;
        honest = altered.launch;
        altered.launch = cheat;
        *out = &altered;
    }
    return BT_OK;
}

static int64_t samples;   // that were reported
static int64_t behind_ns; // of the result

static bt_status on_start(void *self, const bt_train_start *start)
{
    (void)self;
    (void)start;
    return BT_OK;
}

static bt_status on_kernel(void *self, const bt_train_kernel *kernel)
{
    (void)self;
    (void)kernel;
    return BT_OK;
}

static bt_status on_samples(void *self, const double *times_ns, int64_t count)
{
    (void)self;
    (void)times_ns;
    samples += count;
    return BT_OK;
}

static bt_status on_measured(void *self, const bt_case_measured *event)
{
    (void)self;
    (void)event;
    return BT_OK;
}

static bool goes_on(void *self)
{
    (void)self;
    return false;
}

static bt_status run_case(kernel_launch with, const char *cache)
{
    char text[256];
    bt_json_doc json;
    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"kernel\",\"kernel\":{\"op\":\"gelu\",\"direction\":\"forward\","
                   "\"dtype\":\"f32\",\"cache\":\"%s\",\"shape\":\"30x70\",\"seed\":5,"
                   "\"max_time_s\":0.01}}",
                   cache);
    ASSERT_OK(bt_json_parse("case", text, strlen(text), &json));
    bt_case_work work = {.item = json.root, .device = "cpu"};
    bt_train_result result = {0};
    bt_case_listener listener = {
        .train = {.start = on_start, .kernel = on_kernel, .should_stop = goes_on},
        .samples = on_samples,
        .measured = on_measured};
    cheat = with;
    calls = samples = 0;
    seen_count = 0;
    bt_status status = bt_case_run(&work, &listener, &result);
    behind_ns = result.behind_ns;
    bt_json_doc_release(&json);
    return status;
}

static const char *const caches[] = {"hot", "cold", "rotating"};

static bt_status is_honest(const bt_launch *launch, const void *args)
{
    ++calls;
    return honest(launch, args);
}

static void an_honest_kernel_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; ++i) {
        ASSERT_OK(run_case(is_honest, caches[i]));
        assert_true(calls > 3 && samples > 2); // it is this file's kernel that was timed
        assert_int_equal(behind_ns, 0);
    }
}

static void kernels_that_cheat_are_caught(void **state)
{
    (void)state;
    static const struct {
        kernel_launch cheat;
        const char *words;
    } cheats[] = {{replays_the_first_result, "after the timed loop"},
                  {replays_by_address, "after the timed loop"},
                  {skips_work_behind_a_variable, "after the timed loop"},
                  {lowers_precision_in_the_loop, "after the timed loop"},
                  {lowers_precision, "wrong result of"}};
    setenv("BT_TEST_SKIP", "1", 1);
    for (size_t c = 0; c < sizeof cheats / sizeof cheats[0]; ++c) {
        for (size_t i = 0; i < sizeof caches / sizeof caches[0]; ++i) {
            ASSERT_FAILS(BT_STATUS_INTERNAL, cheats[c].words, run_case(cheats[c].cheat, caches[i]));
            assert_int_equal(samples, 0); // there is no time then
        }
    }
    unsetenv("BT_TEST_SKIP");
    ASSERT_OK(run_case(skips_work_behind_a_variable, "hot"));
}

static void work_behind_the_clock_is_seen(void **state)
{
    (void)state;
    side_every = 1;
    ASSERT_OK(run_case(works_on_a_side_stream, "cold"));
    assert_true(behind_ns >= SIDE_NS && behind_ns < 2 * SIDE_NS);
    side_every = 3; // a third of the samples may be the machine's doing
    ASSERT_OK(run_case(works_on_a_side_stream, "cold"));
    assert_int_equal(behind_ns, 0);
    side_every = 0;
}

static void lines_do_not_persist_into_a_sample(void **state)
{
    (void)state;
    resets = calls_helped = 0;
    ASSERT_OK(run_case(makes_lines_persist, "cold"));
    assert_true(resets >= samples);
    // Only the launches whose outputs are checked follow one another without a sample's begin.
    assert_true(calls_helped <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_kernel_passes),
        cmocka_unit_test(kernels_that_cheat_are_caught),
        cmocka_unit_test(work_behind_the_clock_is_seen),
        cmocka_unit_test(lines_do_not_persist_into_a_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

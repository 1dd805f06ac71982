// tests/unit/test_tune.c - measured choices on a device that is made up: its clock moves by what a
// plan costs
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/mem.h"
#include "framework/linalg/gemm.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// ---- a device ----------------------------------------------------------------------------------

static struct {
    int64_t clock_ns, costs_ns[4]; // of the plans 1, 2 and 3 of "tiles"; [0] of "library"
    int launches, plan;            // the last launch's
    uint64_t allocations;          // of the device
    const void *d;                 // likewise
    bool capturing, refuses, full; // `full`: no memory
} fake;

static bt_status launch_library(const bt_launch *launch, const void *args)
{
    const bt_gemm_args *call = args;
    fake.clock_ns += fake.costs_ns[launch->plan];
    fake.plan = launch->plan;
    fake.d = call->d;
    ++fake.launches;
    ((float *)call->d)[0] += 1;
    if (call->aux) {
        ((float *)call->aux)[0] += 1;
    }
    return BT_OK;
}

static bt_status launch_tiles(const bt_launch *launch, const void *args)
{
    if (fake.refuses && launch->plan == 3) {
        return bt_error(BT_STATUS_INTERNAL, "this plan cannot start");
    }
    return launch_library(launch, args);
}

static const bt_kernel rows[] = {
    {BT_KERNEL_GEMM, BT_DEVICE_CUDA, BT_F32, 0, "library", NULL, NULL, launch_library},
    {BT_KERNEL_GEMM, BT_DEVICE_CUDA, BT_F32, 0, "tiles", NULL, NULL, launch_tiles}};

static int plans(const bt_device *on, const bt_kernel *kernel, const void *args,
                 bt_kernel_plan *out, int most)
{
    (void)on;
    (void)args;
    const int count = kernel == &rows[0] ? 1 : most < 3 ? most : 3;
    for (int i = 0; i < count; ++i) {
        out[i] = (bt_kernel_plan){.number = kernel == &rows[0] ? 0 : i + 1};
        if (kernel != &rows[0]) {
            (void)snprintf(out[i].name, sizeof out[i].name, "plan %d", i + 1);
        }
    }
    return count;
}

struct bt_event_impl {
    int64_t at_ns;
};

static bt_status event_create(bt_device *on, bt_event *out)
{
    void *block = NULL;
    (void)on;
    BT_TRY(bt_mem_alloc(1, sizeof **out, &block));
    *out = block;
    return BT_OK;
}

static void event_destroy(bt_device *on, bt_event event)
{
    (void)on;
    bt_mem_free(event);
}

static bt_status event_record(bt_device *on, bt_event event, bt_stream stream)
{
    (void)on;
    (void)stream;
    event->at_ns = fake.clock_ns;
    return BT_OK;
}

static bt_status event_elapsed(bt_device *on, bt_event start, bt_event stop, int64_t *time_ns)
{
    (void)on;
    *time_ns = stop->at_ns - start->at_ns;
    return BT_OK;
}

static bool graph_capturing(bt_device *on, bt_stream stream)
{
    (void)on;
    (void)stream;
    return fake.capturing;
}

static bt_status memory_alloc(bt_device *on, size_t size_bytes, void **out)
{
    ++fake.allocations;
    return fake.full ? bt_error(BT_STATUS_OUT_OF_MEMORY, "the device is full")
                     : bt_cpu_backend.memory_alloc(on, size_bytes, out);
}

static bt_backend backend;
static bt_device device;
static bt_pool *pool;

static void close_pool(void)
{
    bt_pool_destroy(pool);
    pool = NULL;
}

static int teardown(void **state)
{
    close_pool();
    return test_scratch_teardown(state);
}

static void make_device(void)
{
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    backend = *device.backend;
    backend.kind = BT_DEVICE_CUDA;
    backend.kernels = rows;
    backend.kernel_count = 2;
    backend.plans = plans;
    backend.event_create = event_create;
    backend.event_destroy = event_destroy;
    backend.event_record = event_record;
    backend.event_elapsed = event_elapsed;
    backend.graph_capturing = graph_capturing;
    backend.memory_alloc = memory_alloc;
    device.backend = &backend;
    memset(&fake, 0, sizeof fake);
    fake.costs_ns[0] = 50000;
    fake.costs_ns[1] = 40000;
    fake.costs_ns[2] = 90000;
    fake.costs_ns[3] = 30000;
    if (!pool) { // it outlives a device that is made again
        ASSERT_OK(bt_pool_create(&device, 0, &pool));
    }
}

// ---- tests -------------------------------------------------------------------------------------

static float a[16], b[16], c[16], d[16], aux[16];

static bt_gemm_args call_of(int64_t m)
{
    return (bt_gemm_args){.m = m,
                          .n = 4,
                          .k = 4,
                          .batch = 1,
                          .a = a,
                          .b = b,
                          .c = c,
                          .d = d,
                          .lda = 4,
                          .ldb = 4,
                          .ldc = 4,
                          .ldd = 4,
                          .alpha = 1,
                          .ab_dtype = BT_F32,
                          .d_dtype = BT_F32};
}

static bt_gemm_tuner *open_tuner(const char *folder)
{
    bt_gemm_tuner *tuner = NULL;
    ASSERT_OK(bt_gemm_tuner_open(&device, pool, folder, &tuner));
    return tuner;
}

static void expect_choice(bt_gemm_tuner *tuner, const bt_gemm_args *args, const char *label)
{
    const bt_kernel *kernel = NULL;
    const bt_kernel_plan *plan = NULL;
    char text[64];
    ASSERT_OK(bt_gemm_tuner_choose(tuner, NULL, args, &kernel, &plan));
    bt_kernel_label(&device, kernel, plan, args, text, sizeof text);
    assert_string_equal(text, label);
}

static void test_takes_the_fastest_and_remembers(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(test_scratch_path("cache"));
    const bt_gemm_args args = call_of(4), other = call_of(3);
    expect_choice(tuner, &args, "tiles plan 3");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 1);
    fake.launches = 0;
    fake.costs_ns[0] = 1; // too late
    expect_choice(tuner, &args, "tiles plan 3");
    assert_int_equal(fake.launches, 0);
    fake.costs_ns[0] = 50000;
    expect_choice(tuner, &other, "tiles plan 3");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 2);
    bt_gemm_tuner_close(tuner);
    tuner = open_tuner(test_scratch_path("cache"));
    assert_string_equal(bt_gemm_tuner_warning(tuner), "");
    make_device();
    fake.costs_ns[0] = 1;
    expect_choice(tuner, &args, "tiles plan 3");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 0);
    const bt_gemm_args third = call_of(2);
    fake.costs_ns[0] = 1;
    expect_choice(tuner, &third, "library");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 1);
    bt_gemm_tuner_close(tuner);
}

// Within 2 % of what would have been taken, nothing is changed.
static void test_keeps_what_is_as_good(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(NULL);
    const bt_gemm_args args = call_of(4), other = call_of(3);
    fake.costs_ns[3] = 39500;
    expect_choice(tuner, &args, "tiles plan 1");
    fake.costs_ns[3] = 39000;
    expect_choice(tuner, &other, "tiles plan 3");
    bt_gemm_tuner_close(tuner);
}

static void test_changes_no_operand(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(NULL);
    bt_gemm_args adds = call_of(4), keeps = call_of(4);
    adds.beta = 1;
    adds.c = d;
    keeps.epilogue = BT_EPILOGUE_BIAS_GELU;
    keeps.aux = aux;
    memset(d, 0, sizeof d);
    memset(aux, 0, sizeof aux);
    expect_choice(tuner, &adds, "tiles plan 3");
    expect_choice(tuner, &keeps, "tiles plan 3");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 2);
    assert_true(d[0] == 0 && aux[0] == 0);
    bt_gemm_tuner_close(tuner);
}

// What the leader sent last; the followers read it.
typedef struct wire {
    bool leads;
    char bytes[256];
} wire;

static bt_status share(void *self, void *data, size_t size_bytes)
{
    wire *w = self;
    assert_true(size_bytes <= sizeof w->bytes);
    memcpy(w->leads ? w->bytes : data, w->leads ? data : w->bytes, size_bytes);
    return BT_OK;
}

// One rank measures; another takes its choice, whatever its own clock or file would say.
static void test_ranks_agree(void **state)
{
    (void)state;
    wire w = {.leads = true};
    make_device();
    const bt_gemm_args args = call_of(4);
    bt_gemm_tuner *leader = open_tuner(NULL), *follower = open_tuner(NULL);
    ASSERT_OK(bt_gemm_tuner_agree(leader, (bt_gemm_agreement){&w, true, share, 0}));
    ASSERT_OK(bt_gemm_tuner_agree(follower, (bt_gemm_agreement){&w, false, share, 0}));
    expect_choice(leader, &args, "tiles plan 3");
    w.leads = false;
    fake.costs_ns[0] = 1; // the follower would choose otherwise
    fake.launches = 0;
    expect_choice(follower, &args, "tiles plan 3");
    assert_int_equal(fake.launches, 0);
    assert_int_equal(bt_gemm_tuner_measured(follower), 0);
    const bt_gemm_args other = call_of(3);
    const bt_kernel *kernel = NULL;
    const bt_kernel_plan *plan = NULL;
    memcpy(w.bytes, "cutlass", sizeof "cutlass");
    ASSERT_FAILS(BT_STATUS_INTERNAL, "selected \"cutlass plan 3\"",
                 bt_gemm_tuner_choose(follower, NULL, &other, &kernel, &plan));
    bt_gemm_tuner_close(leader);
    bt_gemm_tuner_close(follower);
}

// Tensor parallel ranks measure at the same time, and find their own choices again.
static void test_parts_keep_their_choices(void **state)
{
    (void)state;
    static const char *const labels[] = {"tiles plan 3", "library"};
    const bt_gemm_args args = call_of(4);
    for (int again = 0; again < 2; ++again) {
        bt_gemm_tuner *tuners[2];
        make_device();
        for (int part = 0; part < 2; ++part) {
            tuners[part] = open_tuner(test_scratch_path("parts"));
            ASSERT_OK(bt_gemm_tuner_agree(tuners[part], (bt_gemm_agreement){.part = part}));
        }
        for (int part = 0; part < 2; ++part) {
            if (part == 1 && !again) {
                fake.costs_ns[0] = 1; // the library's
            }
            expect_choice(tuners[part], &args, labels[part]);
            assert_int_equal(bt_gemm_tuner_measured(tuners[part]), again ? 0 : 1);
            bt_gemm_tuner_close(tuners[part]);
        }
    }
}

static void test_not_while_capturing(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(NULL);
    const bt_gemm_args args = call_of(4);
    const bt_kernel *kernel = NULL;
    const bt_kernel_plan *plan = NULL;
    fake.capturing = true;
    ASSERT_OK(bt_gemm_tuner_choose(tuner, NULL, &args, &kernel, &plan));
    assert_true(kernel == &rows[1] && !plan && fake.launches == 0);
    fake.capturing = false;
    expect_choice(tuner, &args, "tiles plan 3");
    bt_gemm_args sums = args; // nor with column sums
    sums.dbias = aux;
    expect_choice(tuner, &sums, "tiles plan 1");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 1);
    bt_gemm_tuner_close(tuner);
}

static void test_passes_over_what_fails(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(test_scratch_path("failing"));
    const bt_gemm_args args = call_of(4), other = call_of(3), empty = call_of(0);
    fake.refuses = true;
    expect_choice(tuner, &args, "tiles plan 1");
    ASSERT_OK(bt_pool_release_cached(pool));
    fake.full = true; // nothing can be measured, and nothing is kept
    expect_choice(tuner, &other, "tiles plan 1");
    expect_choice(tuner, &empty, "tiles plan 1");
    const bt_gemm_args huge = call_of(INT64_MAX / 2);
    const bt_kernel *kernel = NULL;
    const bt_kernel_plan *plan = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "beyond 2^56",
                 bt_gemm_tuner_choose(tuner, NULL, &huge, &kernel, &plan));
    bt_gemm_tuner_close(tuner);
    make_device();
    tuner = open_tuner(test_scratch_path("failing"));
    expect_choice(tuner, &args, "tiles plan 1");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 0);
    expect_choice(tuner, &other, "tiles plan 3");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 1);
    bt_gemm_tuner_close(tuner);
}

// What is measured in is the pool's: within its limit, and given back.
static void test_measures_within_the_limit_of_the_pool(void **state)
{
    (void)state;
    make_device();
    bt_pool_stats stats;
    close_pool();
    ASSERT_OK(bt_pool_create(&device, 0, &pool));
    bt_gemm_tuner *tuner = open_tuner(NULL);
    const bt_gemm_args args = call_of(4), other = call_of(3);
    expect_choice(tuner, &args, "tiles plan 3");
    bt_pool_stats_read(pool, &stats);
    assert_true(stats.peak_allocated_bytes > 0 && stats.live_blocks == 0);
    assert_int_equal(stats.segments, fake.allocations); // none past the pool
    bt_gemm_tuner_close(tuner);
    close_pool();
    ASSERT_OK(bt_pool_create(&device, 2048, &pool));
    void *block = NULL;
    ASSERT_OK(bt_pool_alloc(pool, 2000, NULL, "all of it", &block));
    tuner = open_tuner(NULL);
    expect_choice(tuner, &other, "tiles plan 1");
    assert_int_equal(bt_gemm_tuner_measured(tuner), 0);
    bt_gemm_tuner_close(tuner);
    bt_pool_free(pool, block);
    close_pool();
}

// bt_gemm runs what was chosen, on the caller's operands, once.
static void test_serves_products(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = open_tuner(NULL);
    bt_context context = {.device = &device, .pool = pool, .tuner = tuner};
    const bt_gemm_args args = call_of(4);
    ASSERT_OK(bt_gemm(&context, &args));
    fake.launches = 0;
    memset(d, 0, sizeof d);
    ASSERT_OK(bt_gemm(&context, &args));
    assert_true(fake.launches == 1 && fake.plan == 3 && fake.d == d && d[0] == 1);
    bt_gemm_tuner_close(tuner);
}

static void test_environment(void **state)
{
    (void)state;
    make_device();
    bt_gemm_tuner *tuner = NULL;
    const bt_gemm_args args = call_of(4);
    assert_int_equal(unsetenv("BT_GEMM_TUNE"), 0);
    ASSERT_OK(bt_gemm_tuner_from_environment(&device, pool, &tuner));
    assert_null(tuner);
    assert_int_equal(setenv("BT_GEMM_TUNE", "yes", 1), 0);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "BT_GEMM_TUNE is \"yes\"; allowed: 0, 1",
                 bt_gemm_tuner_from_environment(&device, pool, &tuner));
    assert_int_equal(setenv("BT_GEMM_TUNE", "1", 1), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", test_scratch_path("xdg"), 1), 0);
    const char *folders[] = {"own", "xdg/blutrain"};
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(i == 0 ? setenv("BT_CACHE_DIR", test_scratch_path("own"), 1)
                                : unsetenv("BT_CACHE_DIR"),
                         0);
        ASSERT_OK(bt_gemm_tuner_from_environment(&device, pool, &tuner));
        expect_choice(tuner, &args, "tiles plan 3");
        bt_gemm_tuner_close(tuner);
        assert_int_equal(test_scratch_count(folders[i]), 1);
    }
    bt_session session; // on the CPU there is nothing to choose among, and no harm done
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    assert_non_null(session.context.tuner);
    bt_session_close(&session);
    assert_int_equal(unsetenv("BT_GEMM_TUNE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_the_fastest_and_remembers),
        cmocka_unit_test(test_keeps_what_is_as_good),
        cmocka_unit_test(test_changes_no_operand),
        cmocka_unit_test(test_measures_within_the_limit_of_the_pool),
        cmocka_unit_test(test_ranks_agree),
        cmocka_unit_test(test_parts_keep_their_choices),
        cmocka_unit_test(test_not_while_capturing),
        cmocka_unit_test(test_passes_over_what_fails),
        cmocka_unit_test(test_serves_products),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, teardown);
}

// tests/support/faulty_device.c - wrappers around the CPU's functions and kernels
#include "tests/support/faulty_device.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fake_graph.h"
#include "tests/support/test.h"

enum { FLIPPED_BITS = 0x00490000, WARP = 32 };

static struct {
    bt_backend backend;
    bt_device cpu; // whose rows do the work
    faulty_plan plan;
    int64_t columns;       // of GEMM launches that count; 0: any
    atomic_llong launches; // of plan.op; ranks may be threads
    atomic_llong countdown;
    atomic_llong live;
    atomic_llong joins;
    atomic_bool held;
    atomic_bool stalled; // read by the thread that writes checkpoints, too
    pthread_t holder;
} faulty;

// ---- kernels -----------------------------------------------------------------------------------

// What a launch wrote: elements of float, 0 where this op is not known here.
static int64_t output_of(bt_kernel_op op, const void *args, float **out)
{
    const bt_gemm_args *gemm = args;
    const bt_unary_args *unary = args;
    const bt_cross_entropy_mean_args *loss = args;
    const bt_grad_norm_args *norm = args;
    switch ((int)op) {
    case BT_KERNEL_GEMM:
        assert_int_equal(gemm->d_dtype, BT_F32);
        assert_int_equal(gemm->ldd, gemm->n);
        *out = gemm->d;
        return gemm->m * gemm->n;
    case BT_KERNEL_UNARY:
        *out = unary->y;
        return unary->count;
    case BT_KERNEL_CROSS_ENTROPY_MEAN: // it also counts rows, without a mean
        *out = loss->mean;
        return loss->mean != NULL;
    case BT_KERNEL_GRAD_NORM:
        *out = norm->norm;
        return 1;
    default:
        return 0;
    }
}

static void spoil(bt_kernel_op op, const void *args)
{
    float *out = NULL;
    const int64_t count = output_of(op, args, &out);
    assert_true(count > 0 || op == BT_KERNEL_CROSS_ENTROPY_MEAN);
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits = 0;
        if (faulty.plan.kind == FAULTY_NAN && i == 0) {
            out[i] = NAN;
        } else if (faulty.plan.kind == FAULTY_SCALE) {
            out[i] *= 1000;
        } else if (faulty.plan.kind == FAULTY_FLIP && i % WARP == WARP / 2) {
            memcpy(&bits, &out[i], sizeof bits);
            bits ^= FLIPPED_BITS;
            memcpy(&out[i], &bits, sizeof bits);
        }
    }
}

static bt_status launch_row(int index, const bt_launch *launch, const void *args)
{
    int count = 0;
    const bt_kernel *row = &bt_kernel_table(&faulty.cpu, &count)[index];
    bool hit = false;
    if (fake_graph_capturing()) {
        return fake_graph_kernel(launch_row, index, row->op, launch, args);
    }
    if (row->op == faulty.plan.op && faulty.plan.kind != FAULTY_NONE &&
        (faulty.columns == 0 || ((const bt_gemm_args *)args)->n == faulty.columns)) {
        const int64_t number = ++faulty.launches;
        hit = number >= faulty.plan.from && number <= faulty.plan.last;
    }
    while (hit && faulty.plan.kind == FAULTY_HANG) {
        (void)pause();
    }
    if (hit && faulty.plan.kind == FAULTY_STALL) {
        faulty.stalled = true;
    }
    if (faulty.stalled) {
        return BT_OK;
    }
    bt_status status = row->launch(launch, args);
    if (status == BT_OK && hit) {
        spoil(row->op, args);
    }
    return status;
}

enum {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace) ROW_##name,
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
    ROW_COUNT
};

#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)                                         \
    static bt_status launch_##name(const bt_launch *launch, const void *args)                      \
    {                                                                                              \
        return launch_row(ROW_##name, launch, args);                                               \
    }
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU

typedef bt_status (*launch_function)(const bt_launch *launch, const void *args);

static const launch_function launches[] = {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace) launch_##name,
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA
};

static bt_kernel rows[ROW_COUNT];

// ---- memory, streams, events -------------------------------------------------------------------

static bt_status refused(const char *what)
{
    return faulty.countdown > 0 && --faulty.countdown == 0
               ? bt_error(BT_STATUS_OUT_OF_MEMORY, "injected failure of %s", what)
               : BT_OK;
}

static bt_status memory_alloc(bt_device *device, size_t size_bytes, void **out)
{
    *out = NULL;
    BT_TRY(refused("a device allocation"));
    BT_TRY(bt_cpu_backend.memory_alloc(device, size_bytes, out));
    ++faulty.live;
    return BT_OK;
}

static void memory_free(bt_device *device, void *block)
{
    faulty.live -= block != NULL;
    bt_cpu_backend.memory_free(device, block);
}

static bt_status stream_create(bt_device *device, bool high_priority, bt_stream *out)
{
    *out = NULL;
    BT_TRY(refused("a stream"));
    return bt_cpu_backend.stream_create(device, high_priority, out);
}

static bt_status event_create(bt_device *device, bt_event *out)
{
    *out = NULL;
    BT_TRY(refused("an event"));
    BT_TRY(bt_cpu_backend.event_create(device, out));
    ++faulty.live;
    return BT_OK;
}

static void event_destroy(bt_device *device, bt_event event)
{
    faulty.live -= event != NULL;
    bt_cpu_backend.event_destroy(device, event);
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    return faulty.stalled ? BT_OK
                          : bt_cpu_backend.copy(device, target, source, size_bytes, kind, stream);
}

static bt_status copy_rows(bt_device *device, void *target, int64_t pitch_bytes,
                           const bt_byte_rows *source, bt_stream stream)
{
    return faulty.stalled ? BT_OK
                          : bt_cpu_backend.copy_rows(device, target, pitch_bytes, source, stream);
}

static bt_status fill(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream)
{
    return faulty.stalled ? BT_OK : bt_cpu_backend.fill(device, target, byte, size_bytes, stream);
}

static void wait_for_device(void)
{
    while (faulty.stalled) {
        (void)pause();
    }
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    wait_for_device();
    return bt_cpu_backend.stream_synchronize(device, stream);
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    wait_for_device();
    const struct timespec pause_time = {.tv_nsec = 1000000};
    while (atomic_load(&faulty.held) && !pthread_equal(pthread_self(), faulty.holder)) {
        (void)nanosleep(&pause_time, NULL);
    }
    return bt_cpu_backend.event_synchronize(device, event);
}

static bt_status join(bt_device *device, int64_t *waited_ns)
{
    ++faulty.joins;
    return bt_cpu_backend.join(device, waited_ns);
}

// ---- for tests ---------------------------------------------------------------------------------

void faulty_device_add(void) { faulty_device_add_as("faulty"); }

void faulty_device_add_as(const char *name)
{
    if (faulty.cpu.backend) {
        return;
    }
    int count = 0;
    ASSERT_OK(bt_device_open("cpu", 0, &faulty.cpu));
    const bt_kernel *table = bt_kernel_table(&faulty.cpu, &count);
    assert_int_equal(count, ROW_COUNT);
    memcpy(rows, table, sizeof rows);
    for (int i = 0; i < ROW_COUNT; ++i) {
        rows[i].launch = launches[i];
    }
    faulty.backend = bt_cpu_backend;
    faulty.backend.name = name;
    faulty.backend.memory_alloc = faulty.backend.pinned_alloc = memory_alloc;
    faulty.backend.memory_free = faulty.backend.pinned_free = memory_free;
    faulty.backend.copy = copy;
    faulty.backend.copy_rows = copy_rows;
    faulty.backend.fill = fill;
    faulty.backend.stream_create = stream_create;
    faulty.backend.stream_synchronize = stream_synchronize;
    faulty.backend.event_create = event_create;
    faulty.backend.event_destroy = event_destroy;
    faulty.backend.event_synchronize = event_synchronize;
    faulty.backend.join = join;
    faulty.backend.kernels = rows;
    faulty.backend.kernel_count = ROW_COUNT;
    fake_graph_install(&faulty.backend);
    ASSERT_OK(bt_device_add(&faulty.backend));
}

void faulty_device_plan(const faulty_plan *plan)
{
    faulty.plan = *plan;
    faulty.stalled = false;
    faulty.launches = 0;
}

void faulty_device_columns(int64_t columns) { faulty.columns = columns; }

int64_t faulty_device_launches(void) { return faulty.launches; }

void faulty_device_fail_at(int64_t n) { faulty.countdown = n; }

bool faulty_device_fail_pending(void) { return faulty.countdown > 0; }

void faulty_device_hold(bool held)
{
    faulty.holder = pthread_self();
    atomic_store(&faulty.held, held);
}

int64_t faulty_device_joins(void) { return faulty.joins; }

int64_t faulty_device_live(void) { return faulty.live; }

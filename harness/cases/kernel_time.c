// harness/cases/kernel_time.c - the time of a call, with a defined state of the cache
//
// A sample is the time between two events of the device (on the CPU: of the monotonic clock). Cold:
// one call after a scrub of twice the cache, written and then read (so that no dirty lines are
// written back during the sample), which is submitted before the first event, so that launches are
// queued while it runs. Rotating and hot: enough consecutive calls that a sample takes 200 us if
// one takes less than 20, as a graph if the device has graphs.
// After the samples: the host time to launch a call on an idle device. A CPU has no such time.
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/cases/kernel.h"
#include "harness/stats/stats.h"

#define SHORT_CALL_NS   20000
#define SAMPLE_NS       200000
#define WARMUP_CALLS    3
#define SAMPLES_MIN     30
#define TIME_MIN_NS     300000000LL
#define INTERVAL_SHARE  0.0025
#define SAMPLES_MAX     65536
#define CALLS_MAX       1024
#define LAUNCHES        64
#define CPU_CACHE_BYTES (128L << 20) // maximum per processor, see bt_kernel_cache_bytes

typedef struct timing {
    kernel_run *run;
    kernel_cache cache;
    bt_event start, stop;
    void *scrub; // of the pool; NULL unless cold
    size_t scrub_bytes;
    uint8_t scrub_byte;
    bt_graph graph; // NULL: calls are launched one by one
    int64_t next;   // index of the next call
    int64_t calls;  // per sample
    kernel_slowdown slowdown;
    bt_region samples; // of which the first ones are warm-up
} timing;

uint64_t bt_kernel_cache_bytes(const bt_device *device)
{
    if (device->backend->kind != BT_DEVICE_CPU) {
        return device->info.l2_bytes;
    }
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    uint64_t known = (uint64_t)(l3 > 0 ? l3 : l2 > 0 ? l2 : CPU_CACHE_BYTES);
    uint64_t share = (uint64_t)CPU_CACHE_BYTES * (uint64_t)device->info.processor_count;
    return known < share ? known : share;
}

static bt_status launch_calls(timing *self)
{
    kernel_run *run = self->run;
    for (int64_t i = 0; i < self->calls; ++i) {
        kernel_call *call = &run->calls[self->next];
        self->next = (self->next + 1) % run->call_count;
        BT_TRY(run->kernel->launch(&call->launch, &call->args));
    }
    return BT_OK;
}

// Writes the whole scrub, then reads it. The last bytes receive the result of the reads.
static bt_status scrub_cache(timing *self)
{
    kernel_run *run = self->run;
    const bt_kernel *reader = NULL;
    const bt_launch launch = {.device = run->device, .stream = run->stream};
    const size_t read_bytes = self->scrub_bytes - sizeof(int64_t);
    bt_count_nonfinite_args read = {.x = self->scrub, .dtype = BT_F32};
    read.count = (int64_t)(read_bytes / sizeof(float));
    read.result = (int64_t *)(void *)((char *)self->scrub + read_bytes);
    BT_TRY(run->device->backend->fill(run->device, self->scrub, ++self->scrub_byte,
                                      self->scrub_bytes, run->stream));
    BT_TRY(bt_kernel_find(run->device, BT_KERNEL_COUNT_NONFINITE, BT_F32, &read, &reader));
    return reader->launch(&launch, &read);
}

static bt_status take_sample(timing *self, double *sample_ns)
{
    kernel_run *run = self->run;
    const bt_backend *backend = run->device->backend;
    int64_t time_ns = 0;
    BT_TRY(bt_region_begin(run->device));
    if (self->scrub) {
        BT_TRY(scrub_cache(self));
    }
    BT_TRY(backend->event_record(run->device, self->start, run->stream));
    int64_t started_ns = bt_clock_ns();
    BT_TRY(self->graph ? backend->graph_launch(run->device, self->graph, run->stream)
                       : launch_calls(self));
    BT_TRY(bt_kernel_slowdown_apply(run, &self->slowdown, started_ns));
    BT_TRY(backend->event_record(run->device, self->stop, run->stream));
    BT_TRY(backend->event_synchronize(run->device, self->stop));
    BT_TRY(backend->event_elapsed(run->device, self->start, self->stop, &time_ns));
    BT_TRY(bt_region_end(&self->samples, run->device, time_ns));
    // If the clock did not advance, the time is reported as 'less than one'.
    *sample_ns = (double)(time_ns > 0 ? time_ns : 1) / (double)self->calls;
    return BT_OK;
}

// Short calls are repeated within a sample, unless each call needs a scrub.
static bt_status choose_calls(timing *self)
{
    const bt_backend *backend = self->run->device->backend;
    double call_ns = 0;
    self->calls = 1;
    for (int i = 0; i < WARMUP_CALLS; ++i) {
        BT_TRY(take_sample(self, &call_ns));
    }
    if (self->cache == CACHE_COLD || call_ns >= SHORT_CALL_NS) {
        return BT_OK;
    }
    // A power of two: so another process shares the cost of a graph among the same number of calls.
    while (self->calls < CALLS_MAX && (double)self->calls * call_ns < SAMPLE_NS) {
        self->calls *= 2;
    }
    if (!backend->graph_begin) {
        return BT_OK;
    }
    BT_TRY(backend->graph_begin(self->run->device, self->run->stream));
    bt_status status = launch_calls(self);
    bt_status ended = backend->graph_end(self->run->device, self->run->stream, &self->graph);
    return status == BT_OK ? ended : status;
}

static bt_status sample_whole(void *context, double *sample_ns)
{
    timing *self = context;
    BT_TRY(take_sample(self, sample_ns));
    *sample_ns *= (double)self->calls;
    return BT_OK;
}

bt_status bt_kernel_times_keep(kernel_times *out, double sample_ns)
{
    BT_TRY(BT_MEM_GROW(out->count + 1, &out->capacity, &out->samples));
    out->samples[out->count++] = sample_ns;
    return BT_OK;
}

bt_status bt_kernel_times_stop(const kernel_times *times, int64_t passed_ns, double max_time_s,
                               const char **why)
{
    *why = NULL;
    if ((double)passed_ns >= max_time_s * 1e9 && times->count >= 3) {
        *why = "time limit";
    } else if (times->count >= SAMPLES_MAX) {
        *why = "sample limit";
    } else if (times->count >= SAMPLES_MIN && passed_ns >= TIME_MIN_NS) {
        bt_stats stats;
        BT_TRY(bt_stats_of(times->samples, times->count, &stats));
        if (stats.high - stats.low <= 2 * INTERVAL_SHARE * stats.median) {
            *why = "interval of the median within 0.25 %";
        }
    }
    return BT_OK;
}

static bt_status take_samples(timing *self, double max_time_s, const bt_case_listener *listener,
                              kernel_times *out)
{
    int64_t started_ns = bt_clock_ns(), next_look = 3;
    while (!out->stop) {
        double sample_ns = 0;
        BT_TRY(take_sample(self, &sample_ns));
        BT_TRY(bt_kernel_times_keep(out, sample_ns));
        int64_t passed_ns = bt_clock_ns() - started_ns;
        // Each check sorts all samples: their number grows by an eighth between checks.
        if (out->count >= next_look || (double)passed_ns >= max_time_s * 1e9) {
            next_look = out->count + (out->count / 8 > 1 ? out->count / 8 : 1);
            BT_TRY(bt_kernel_times_stop(out, passed_ns, max_time_s, &out->stop));
        }
        if (!out->stop && listener->train.should_stop(listener->train.self)) {
            out->stop = "interrupted";
            out->stopped = true;
        }
    }
    out->calls_per_sample = self->calls;
    out->behind_ns = bt_region_behind_ns(&self->samples);
    return BT_OK;
}

static bt_status time_launches(timing *self, kernel_times *out)
{
    const kernel_run *run = self->run;
    int64_t sum_ns = 0;
    if (run->device->backend->kind == BT_DEVICE_CPU) {
        return BT_OK;
    }
    self->calls = 1;
    for (int i = 0; i < LAUNCHES; ++i) {
        const int64_t started_ns = bt_clock_ns();
        BT_TRY(launch_calls(self));
        sum_ns += bt_clock_ns() - started_ns;
        BT_TRY(run->device->backend->stream_synchronize(run->device, run->stream));
    }
    out->launch_ns = (double)sum_ns / LAUNCHES;
    return BT_OK;
}

static bt_status time_calls(timing *self, double max_time_s, const bt_case_listener *listener,
                            kernel_times *out)
{
    kernel_run *run = self->run;
    const bt_backend *backend = run->device->backend;
    BT_TRY(backend->event_create(run->device, &self->start));
    BT_TRY(backend->event_create(run->device, &self->stop));
    if (self->cache == CACHE_COLD) {
        self->scrub_bytes = 2 * (size_t)bt_kernel_cache_bytes(run->device) / 16 * 16;
        BT_TRY(bt_pool_alloc(run->pool, self->scrub_bytes, run->stream, "scrub", &self->scrub));
    }
    BT_TRY(choose_calls(self));
    if (run->inject_slowdown > 0) {
        BT_TRY(bt_kernel_slowdown_make(run, run->inject_slowdown, sample_whole, self,
                                       &self->slowdown));
    }
    BT_TRY(take_samples(self, max_time_s, listener, out));
    return time_launches(self, out);
}

bt_status bt_kernel_time(kernel_run *run, kernel_cache cache, double max_time_s,
                         const bt_case_listener *listener, kernel_times *out)
{
    timing self = {.run = run, .cache = cache};
    const bt_backend *backend = run->device->backend;
    memset(out, 0, sizeof *out);
    bt_status status = time_calls(&self, max_time_s, listener, out);
    bt_kernel_slowdown_release(run, &self.slowdown);
    if (self.graph) {
        backend->graph_destroy(run->device, self.graph);
    }
    if (self.scrub) {
        bt_pool_free(run->pool, self.scrub);
    }
    if (self.stop) {
        backend->event_destroy(run->device, self.stop);
    }
    if (self.start) {
        backend->event_destroy(run->device, self.start);
    }
    return status;
}

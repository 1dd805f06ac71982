// harness/cases/lab/time.c - samples of the laboratory's modes
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/cases/lab/lab.h"
#include "harness/stats/stats.h"

enum {
    WARMUPS = 3,
    GRAPH_CALLS_LEAST = 8,
    GRAPH_CACHES = 3, // larger calls do not profit from a warm cache
    SUSTAIN_SAMPLES = 3,
    TRIAD_ELEMENTS = 16 << 20,
    TRIAD_PASSES = 10
};
#define SETTLE_NS 70e6 // after this time under load a card draws the power that it may

// ---- one sample --------------------------------------------------------------------------------

void lab_scrub(lab *self, bool by_writing)
{
    if (by_writing) {
        lab_require(self->device->backend->fill(self->device, self->scrub, 0, self->scrub_bytes,
                                                self->stream));
        return;
    }
    const bt_launch launch = {.device = self->device, .stream = self->stream};
    bt_count_nonfinite_args read = {.x = self->scrub, .dtype = BT_F32};
    read.count = (int64_t)(self->scrub_bytes / sizeof(float)) - 64;
    read.result = (int64_t *)(void *)((char *)self->scrub + self->scrub_bytes - 256);
    const bt_kernel *kernel = NULL;
    lab_require(bt_kernel_find(self->device, BT_KERNEL_COUNT_NONFINITE, BT_F32, &read, &kernel));
    lab_require(kernel->launch(&launch, &read));
}

static void record(lab *self, bt_event event)
{
    lab_require(self->device->backend->event_record(self->device, event, self->stream));
}

static double elapsed_ns(lab *self)
{
    const bt_backend *backend = self->device->backend;
    int64_t time_ns = 0;
    record(self, self->stop);
    lab_require(backend->event_synchronize(self->device, self->stop));
    lab_require(backend->event_elapsed(self->device, self->start, self->stop, &time_ns));
    return (double)time_ns;
}

static void launch_calls(lab *self, const lab_work *work, const lab_candidate *by, int64_t calls)
{
    for (int64_t i = 0; i < calls; ++i) {
        lab_require(lab_launch(self, work, by, i % work->copies));
    }
}

static int64_t graph_calls(const lab_work *work)
{
    return work->copies < GRAPH_CALLS_LEAST ? GRAPH_CALLS_LEAST : work->copies;
}

static double sample_ns(lab *self, const lab_work *work, const lab_candidate *by, lab_mode mode)
{
    if (self->options.rest_ms > 0) {
        (void)usleep((useconds_t)self->options.rest_ms * 1000);
    }
    if (mode != LAB_GRAPH) {
        lab_scrub(self, mode == LAB_DIRTY);
        record(self, self->start);
        launch_calls(self, work, by, 1);
        return elapsed_ns(self);
    }
    record(self, self->start);
    if (by->graph) {
        lab_require(self->device->backend->graph_launch(self->device, by->graph, self->stream));
    } else {
        launch_calls(self, work, by, graph_calls(work));
    }
    return elapsed_ns(self) / (double)graph_calls(work);
}

// Calls of about SETTLE_NS, then as many again, which are timed.
static double sustained_ns(lab *self, const lab_work *work, const lab_candidate *by)
{
    record(self, self->start);
    launch_calls(self, work, by, 2);
    const double once_ns = elapsed_ns(self) / 2;
    const int64_t calls = (int64_t)(SETTLE_NS / (once_ns + 1)) + 1;
    launch_calls(self, work, by, calls);
    record(self, self->start);
    launch_calls(self, work, by, calls);
    return elapsed_ns(self) / (double)calls;
}

// ---- all samples -------------------------------------------------------------------------------

bool lab_has_mode(const lab *self, const lab_work *work, lab_mode mode)
{
    const bool small = work->operand_bytes < GRAPH_CACHES * bt_kernel_cache_bytes(self->device);
    return self->options.mode[mode] && !self->options.once &&
           (mode != LAB_GRAPH || self->options.chosen || small);
}

static void make_graph(lab *self, const lab_work *work, lab_candidate *by)
{
    const bt_backend *backend = self->device->backend;
    if (backend->graph_begin) {
        lab_require(backend->graph_begin(self->device, self->stream));
        launch_calls(self, work, by, graph_calls(work));
        lab_require(backend->graph_end(self->device, self->stream, &by->graph));
    }
}

// A random order, so that no candidate always runs after the same other one.
static void shuffle(int *order, int count, int round)
{
    const bt_rng rng = {1, (uint64_t)(round + WARMUPS)};
    for (int i = count - 1; i > 0; --i) {
        const int other = (int)bt_rng_below(rng, (uint64_t)i, (uint64_t)i + 1);
        const int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static double *samples_of(const lab *self, const lab_candidate *by, lab_mode mode)
{
    return by->samples + (size_t)mode * (size_t)self->options.samples;
}

void lab_time(lab *self, const lab_work *work, lab_candidate *list, int count)
{
    int order[LAB_CANDIDATES_MOST];
    for (int i = 0; i < count; ++i) {
        order[i] = i;
        lab_require(BT_MEM_ARRAY((int64_t)LAB_MODES * self->options.samples, &list[i].samples));
        if (lab_has_mode(self, work, LAB_GRAPH)) {
            lab_require(lab_launch(self, work, &list[i], 0)); // loads code, outside of the capture
            make_graph(self, work, &list[i]);
        }
    }
    for (int round = -WARMUPS; round < self->options.samples; ++round) {
        shuffle(order, count, round);
        for (int i = 0; i < count; ++i) {
            lab_candidate *by = &list[order[i]];
            for (int mode = 0; mode < LAB_SUSTAIN; ++mode) {
                if (lab_has_mode(self, work, (lab_mode)mode)) {
                    samples_of(self, by, (lab_mode)mode)[round < 0 ? 0 : round] =
                        sample_ns(self, work, by, (lab_mode)mode);
                }
            }
        }
    }
    for (int i = 0; i < SUSTAIN_SAMPLES * count && lab_has_mode(self, work, LAB_SUSTAIN); ++i) {
        samples_of(self, &list[i % count], LAB_SUSTAIN)[i / count] =
            sustained_ns(self, work, &list[i % count]);
    }
}

double lab_median(const lab *self, const lab_candidate *of, lab_mode mode)
{
    bt_stats stats;
    lab_require(bt_stats_of(samples_of(self, of, mode),
                            mode == LAB_SUSTAIN ? SUSTAIN_SAMPLES : self->options.samples, &stats));
    return stats.median;
}

// ---- STREAM's triad ----------------------------------------------------------------------------

static void triad_pass(double *a, const double *b, const double *c, bool past_cache)
{
    if (!past_cache) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < TRIAD_ELEMENTS; ++i) {
            a[i] = b[i] + 3.0 * c[i];
        }
        return;
    }
#ifdef __SSE2__
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < TRIAD_ELEMENTS; i += 2) {
        const __m128d scaled = _mm_mul_pd(_mm_set1_pd(3.0), _mm_loadu_pd(c + i));
        _mm_stream_pd(a + i, _mm_add_pd(_mm_loadu_pd(b + i), scaled));
    }
#endif
}

double lab_triad(bt_device *device)
{
    static double *a, *b, *c;
    if (!a) {
        double **const arrays[] = {&a, &b, &c};
        for (int i = 0; i < 3; ++i) {
            void *block = NULL;
            lab_require(device->backend->memory_alloc(device, TRIAD_ELEMENTS * sizeof *a, &block));
            *arrays[i] = block;
        }
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < TRIAD_ELEMENTS; ++i) {
            a[i] = 0;
            b[i] = (double)i;
            c[i] = 1.0 / (double)(i + 1);
        }
    }
    double best_ns = 0;
    for (int i = 0; i < TRIAD_PASSES; ++i) {
        const int64_t started_ns = bt_clock_ns();
        triad_pass(a, b, c, i % 2 == 1);
        const double time_ns = (double)(bt_clock_ns() - started_ns);
        best_ns = best_ns > 0 && best_ns < time_ns ? best_ns : time_ns;
    }
    return 24.0 * TRIAD_ELEMENTS / best_ns;
}

// harness/cases/kernel_slow.c - makes a kernel case slower on purpose, to test measuring tools
//
// On the CPU the host waits inside the timed region, in proportion to the time of the calls. Other
// devices cannot wait, so the stream fills memory: as many bytes as are found to make a sample
// longer by the requested fraction. A fill has a minimum time, so short samples cannot be made
// longer by a small amount.
#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/cases/kernel.h"
#include "harness/stats/stats.h"

#define BLOCK_BYTES  (64ULL << 20) // filled repeatedly
#define FILL_MIN     256ULL
#define FILL_MAX     (16ULL << 30)
#define TRIES        31  // pairs of samples per measurement
#define EXCESS       1.2 // maximum ratio of the shortest fill's time to the requested one
#define BISECTIONS   24
#define CLOSE_ENOUGH 1.01

// ---- calibration -------------------------------------------------------------------------------

bt_status bt_kernel_fill_search(bt_status (*added)(void *self, uint64_t bytes, double *added_ns),
                                void *self, double wanted_ns, uint64_t *bytes)
{
    uint64_t low = FILL_MIN, high = FILL_MIN;
    double added_ns = 0;
    BT_TRY(added(self, low, &added_ns));
    BT_FAIL_IF(!(added_ns <= EXCESS * wanted_ns), BT_STATUS_UNSUPPORTED,
               "a sample cannot be slowed by %.0f ns: the minimum is %.0f ns; choose a case with "
               "longer samples, or a larger slowdown",
               wanted_ns, added_ns);
    while (added_ns < wanted_ns && high < FILL_MAX) {
        low = high;
        high *= 2;
        BT_TRY(added(self, high, &added_ns));
    }
    for (int i = 0; i < BISECTIONS && (double)high > CLOSE_ENOUGH * (double)low; ++i) {
        uint64_t middle = low + (high - low) / 2;
        BT_TRY(added(self, middle, &added_ns));
        if (added_ns < wanted_ns) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *bytes = low + (high - low) / 2;
    return BT_OK;
}

typedef struct trying {
    kernel_slowdown *slowdown;
    bt_status (*sample)(void *timing, double *sample_ns);
    void *timing;
    double base_ns; // median of the samples without a fill so far
} trying;

// The time that a fill adds: the median difference of consecutive samples with and without it, so
// that drift of the machine cancels.
static bt_status added_by(void *context, uint64_t bytes, double *added_ns)
{
    trying *self = context;
    double plain[TRIES], differences[TRIES];
    bt_stats stats;
    for (int i = 0; i < TRIES; ++i) {
        double filled = 0;
        self->slowdown->fill_bytes = 0;
        BT_TRY(self->sample(self->timing, &plain[i]));
        self->slowdown->fill_bytes = bytes;
        BT_TRY(self->sample(self->timing, &filled));
        differences[i] = filled - plain[i];
    }
    BT_TRY(bt_stats_of(plain, TRIES, &stats));
    self->base_ns = stats.median;
    BT_TRY(bt_stats_of(differences, TRIES, &stats));
    *added_ns = stats.median;
    return BT_OK;
}

bt_status bt_kernel_slowdown_make(kernel_run *run, double share,
                                  bt_status (*sample)(void *timing, double *sample_ns),
                                  void *timing, kernel_slowdown *out)
{
    uint64_t bytes = 0;
    if (run->device->backend->kind == BT_DEVICE_CPU) {
        out->share = share;
        return BT_OK;
    }
    trying self = {out, sample, timing, 0};
    BT_TRY(bt_pool_alloc(run->pool, BLOCK_BYTES, run->stream, "slowdown", &out->block));
    double least_ns = 0;
    BT_TRY(added_by(&self, FILL_MIN, &least_ns)); // for base_ns
    BT_TRY(bt_kernel_fill_search(added_by, &self, share * self.base_ns, &bytes));
    out->fill_bytes = bytes;
    return BT_OK;
}

// ---- inside a sample ---------------------------------------------------------------------------

bt_status bt_kernel_slowdown_apply(const kernel_run *run, const kernel_slowdown *slowdown,
                                   int64_t started_ns)
{
    const bt_backend *backend = run->device->backend;
    if (slowdown->share > 0) {
        bt_clock_stretch(started_ns, slowdown->share);
    }
    for (uint64_t left = slowdown->fill_bytes; left > 0;) {
        uint64_t part = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        BT_TRY(backend->fill(run->device, slowdown->block, 0, (size_t)part, run->stream));
        left -= part;
    }
    return BT_OK;
}

void bt_kernel_slowdown_release(const kernel_run *run, kernel_slowdown *slowdown)
{
    if (slowdown->block) {
        bt_pool_free(run->pool, slowdown->block);
    }
    *slowdown = (kernel_slowdown){0};
}

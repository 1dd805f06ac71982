// harness/cases/collective_time.c - the time of a call over all ranks
//
// The ranks meet on the host before each sample. A sample has enough consecutive calls to take
// 200 us, as a graph if the device has graphs, and counts with the time of the slowest rank. By the
// slowest rank's times, rank 0 decides how many calls a sample has and which sample is the last.
#include <string.h>

#include "framework/base/clock.h"
#include "harness/cases/collective.h"

#define SAMPLE_NS    200000
#define CALLS_MAX    256
#define WARMUP_CALLS 5

typedef struct timing {
    collective_rank *rank;
    const bt_case_listener *listener;
    bt_event start, stop;
    bt_graph graph; // NULL: calls are launched one by one
    int64_t calls;
} timing;

static bt_status launch_calls(timing *self)
{
    for (int64_t i = 0; i < self->calls; ++i) {
        BT_TRY(self->rank->call(self->rank));
    }
    return BT_OK;
}

// On the CPU calls are complete on return: a slowdown is added after them.
static void slow_down(const collective_rank *rank, int64_t started_ns)
{
    int64_t now_ns = bt_clock_ns();
    double until_ns = (double)now_ns + rank->inject_slowdown * (double)(now_ns - started_ns);
    while (rank->inject_slowdown > 0 && (double)bt_clock_ns() < until_ns) {
    }
}

// *sample_ns: of one call, of the slowest rank.
static bt_status take_sample(timing *self, double *sample_ns)
{
    collective_rank *rank = self->rank;
    bt_device *device = &rank->device;
    const bt_backend *backend = device->backend;
    int64_t time_ns = 0;
    BT_TRY(bt_barrier(rank->meeting, NULL));
    BT_TRY(backend->event_record(device, self->start, rank->stream));
    int64_t started_ns = bt_clock_ns();
    BT_TRY(self->graph ? backend->graph_launch(device, self->graph, rank->stream)
                       : launch_calls(self));
    slow_down(rank, started_ns);
    BT_TRY(backend->event_record(device, self->stop, rank->stream));
    BT_TRY(backend->event_synchronize(device, self->stop));
    BT_TRY(bt_group_check(rank->group));
    BT_TRY(backend->event_elapsed(device, self->start, self->stop, &time_ns));
    *sample_ns = (double)(time_ns > 0 ? time_ns : 1) / (double)self->calls;
    return bt_all_reduce(rank->meeting, sample_ns, 1, BT_F64, BT_REDUCE_MAX, NULL);
}

static bt_status choose_calls(timing *self)
{
    collective_rank *rank = self->rank;
    const bt_backend *backend = rank->device.backend;
    double call_ns = 0;
    self->calls = 1;
    for (int i = 0; i < WARMUP_CALLS; ++i) {
        BT_TRY(take_sample(self, &call_ns)); // the same on all ranks
    }
    while (self->calls < CALLS_MAX && (double)self->calls * call_ns < SAMPLE_NS) {
        self->calls *= 2;
    }
    if (!backend->graph_begin) {
        return BT_OK;
    }
    BT_TRY(backend->graph_begin(&rank->device, rank->stream));
    bt_status status = launch_calls(self);
    bt_status ended = backend->graph_end(&rank->device, rank->stream, &self->graph);
    return status == BT_OK ? ended : status;
}

// Broadcasts rank 0's decision: true if there are no further samples.
static bt_status decide(timing *self, kernel_times *times, int64_t passed_ns, bool *over)
{
    unsigned char said = 0;
    if (self->listener) {
        BT_TRY(bt_kernel_times_stop(times, passed_ns, self->rank->max_time_s, &times->stop));
        if (!times->stop && self->listener->train.should_stop(self->listener->train.self)) {
            times->stop = "interrupted";
            times->stopped = true;
        }
        said = times->stop != NULL;
    }
    BT_TRY(bt_broadcast(self->rank->meeting, &said, 1, 0, NULL));
    *over = said != 0;
    return BT_OK;
}

static bt_status take_samples(timing *self, kernel_times *times)
{
    bool over = false;
    BT_TRY(choose_calls(self));
    int64_t started_ns = bt_clock_ns();
    while (!over) {
        double sample_ns = 0;
        BT_TRY(take_sample(self, &sample_ns));
        BT_TRY(bt_kernel_times_keep(times, sample_ns));
        BT_TRY(decide(self, times, bt_clock_ns() - started_ns, &over));
    }
    times->calls_per_sample = self->calls;
    return BT_OK;
}

bt_status bt_collective_time(collective_rank *rank, const bt_case_listener *listener,
                             kernel_times *out)
{
    timing self = {.rank = rank, .listener = listener};
    const bt_backend *backend = rank->device.backend;
    memset(out, 0, sizeof *out);
    BT_TRY(backend->event_create(&rank->device, &self.start));
    bt_status status = backend->event_create(&rank->device, &self.stop);
    if (status == BT_OK) {
        status = take_samples(&self, out);
        backend->event_destroy(&rank->device, self.stop);
    }
    backend->event_destroy(&rank->device, self.start);
    if (self.graph) {
        backend->graph_destroy(&rank->device, self.graph);
    }
    return status;
}

// harness/run/telemetry.c - schedules samples and stores them
#include "harness/run/telemetry.h"

#include <math.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/run/telemetry_internal.h"

#define PAUSE_FACTOR 20 // minimum ratio of a pause to the duration of a sample

struct bt_telemetry {
    gpu_watch gpus[BT_TELEMETRY_GPUS_MAX]; // [opened]
    int opened, watched;                   // sampled in this round
    cpu_watch cpu;
    bt_store_telemetry *samples; // owned, [capacity]
    int64_t count, capacity;
    int64_t began_ns, due_ns, cpu_due_ns;
    int64_t period_ns;
    double steps, step_ended_ns; // for the columns; NaN: unknown
};

bt_status bt_telemetry_open(const char *gpu_uuid, bt_telemetry **out)
{
    BT_TRY(BT_MEM_ARRAY(1, out));
    memset(*out, 0, sizeof **out);
    if (gpu_uuid) {
        bt_gpu_watch_open(&(*out)->gpus[(*out)->opened++], gpu_uuid, 0);
    }
    return BT_OK;
}

void bt_telemetry_close(bt_telemetry *self)
{
    if (self) {
        for (int i = 0; i < self->opened; ++i) {
            bt_gpu_watch_close(&self->gpus[i]);
        }
        bt_mem_free(self->samples);
        bt_mem_free(self);
    }
}

void bt_telemetry_begin(bt_telemetry *self, pid_t worker, int gpus)
{
    const bool on_gpu = self->opened > 0 && self->gpus[0].open;
    self->count = 0;
    self->steps = self->step_ended_ns = (double)NAN;
    self->watched = !on_gpu ? 0 : gpus < BT_TELEMETRY_GPUS_MAX ? gpus : BT_TELEMETRY_GPUS_MAX;
    while (self->opened < self->watched) {
        bt_gpu_watch_open(&self->gpus[self->opened], NULL, self->opened);
        ++self->opened;
    }
    for (int i = 0; i < self->watched; ++i) {
        bt_gpu_watch_begin(&self->gpus[i], worker);
    }
    bt_cpu_watch_begin(&self->cpu, worker);
    int period_ms = on_gpu ? BT_TELEMETRY_PERIOD_MS : BT_TELEMETRY_CPU_PERIOD_MS;
    self->began_ns = bt_clock_ns();
    self->period_ns = (int64_t)period_ms * 1000000;
    self->due_ns = self->began_ns + self->period_ns;
    self->cpu_due_ns = self->began_ns + (int64_t)BT_TELEMETRY_CPU_PERIOD_MS * 1000000;
}

void bt_telemetry_steps(bt_telemetry *self, int64_t steps, bool ended)
{
    self->steps = steps > 0 ? (double)steps : (double)NAN;
    self->step_ended_ns = ended ? (double)(bt_clock_ns() - self->began_ns) : (double)NAN;
}

int64_t bt_telemetry_thin(bt_store_telemetry *samples, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i += 2) {
        bt_store_telemetry sample = samples[i];
        if (i + 1 < count && samples[i + 1].throttle > 0.0) {
            uint64_t bits = sample.throttle > 0.0 ? (uint64_t)sample.throttle : 0;
            sample.throttle = (double)(bits | (uint64_t)samples[i + 1].throttle);
        }
        if (i + 1 < count && samples[i + 1].other_processes > 0.0) {
            sample.other_processes = fmax(sample.other_processes, samples[i + 1].other_processes);
        }
        samples[kept++] = sample;
    }
    return kept;
}

static void keep(bt_telemetry *self, const bt_store_telemetry *sample)
{
    if (self->count >= BT_TELEMETRY_SAMPLES_MAX) {
        self->count = bt_telemetry_thin(self->samples, self->count);
        self->period_ns *= 2;
    }
    if (self->count == self->capacity) {
        int64_t capacity = self->capacity ? 2 * self->capacity : 64;
        void *block = self->samples;
        if (bt_mem_resize(&block, (size_t)capacity, sizeof *self->samples) != BT_OK) {
            bt_error_clear(); // drops only this sample
            return;
        }
        self->samples = block;
        self->capacity = capacity;
    }
    self->samples[self->count++] = *sample;
}

static bt_store_telemetry unknown_at(double t_ns)
{
    bt_store_telemetry sample;
#define UNKNOWN(member, unit, description) sample.member = (double)NAN;
    BT_TELEMETRY_LIST(UNKNOWN)
#undef UNKNOWN
    sample.t_ns = t_ns;
    return sample;
}

static void sample_gpus(bt_telemetry *self, int64_t now_ns, bt_store_telemetry *sample)
{
    for (int i = 0; i < self->watched; ++i) {
        bt_store_telemetry one = unknown_at(sample->t_ns);
        bt_gpu_watch_sample(&self->gpus[i], now_ns, i == 0 ? sample : &one);
        if (i > 0) {
            bt_gpu_watch_merge(&one, sample);
        }
    }
}

static double energy_of_gpus(bt_telemetry *self)
{
    double energy_j = self->watched > 0 ? 0 : (double)NAN;
    for (int i = 0; i < self->watched; ++i) {
        energy_j += bt_gpu_watch_energy(&self->gpus[i]);
    }
    return energy_j;
}

static void take(bt_telemetry *self, int64_t now_ns, bool of_gpu, bool of_cpu)
{
    bt_store_telemetry sample = unknown_at((double)(now_ns - self->began_ns));
    if (of_gpu) {
        sample_gpus(self, now_ns, &sample);
    }
    sample.steps = self->steps;
    sample.step_ended_ns = self->step_ended_ns;
    sample.energy_j = energy_of_gpus(self); // including the last sample: the whole round
    if (of_cpu) {
        bt_cpu_watch_sample(&self->cpu, &sample);
        self->cpu_due_ns = now_ns + (int64_t)BT_TELEMETRY_CPU_PERIOD_MS * 1000000;
    }
    sample.cost_ns = (double)(bt_clock_ns() - now_ns);
    keep(self, &sample);
}

void bt_telemetry_tick(bt_telemetry *self)
{
    int64_t now_ns = bt_clock_ns();
    if (now_ns < self->due_ns) {
        return;
    }
    take(self, now_ns, true, now_ns >= self->cpu_due_ns);
    int64_t done_ns = bt_clock_ns();
    int64_t pause_ns = PAUSE_FACTOR * (done_ns - now_ns);
    int64_t next_ns = now_ns + self->period_ns;
    self->due_ns = next_ns > done_ns + pause_ns ? next_ns : done_ns + pause_ns;
}

int bt_telemetry_wait_ms(const bt_telemetry *self, int most)
{
    int64_t left_ms = (self->due_ns - bt_clock_ns() + 999999) / 1000000;
    return left_ms < 0 ? 0 : left_ms < most ? (int)left_ms : most;
}

void bt_telemetry_end(bt_telemetry *self)
{
    // By now the GPU is idle, unless the round was too short for a sample.
    take(self, bt_clock_ns(), self->count == 0, true);
}

const bt_store_telemetry *bt_telemetry_samples(const bt_telemetry *self, int64_t *count)
{
    *count = self->count;
    return self->samples;
}

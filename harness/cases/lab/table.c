// harness/cases/lab/table.c - times the kernel cases of a suite in one process, to tune kernels
//
// Prints one line per case: the kernel that served it and, per state of the cache, the median time
// and the fraction of a large copy's bandwidth. The suite's cache mode is ignored:
//   cold   a scrub of twice the cache by reading before each sample: no lines to be written back
//   dirty  the same by writing, as many benchmarks do
//   graph  many calls over rotating operands in one graph
// On the CPU the ceiling is STREAM's triad, a[i] = b[i] + s c[i], 24 bytes an element (McCalpin
// 1995), the better of plain and non-temporal stores; it is measured again before each case, since
// the load of a shared machine changes.
// Results are not checked; `bt-bench run suites/kernels/...` does that, with a process per case.
//   lab_table SUITE [PROFILE [FILTER [SAMPLES [add]]]]    "" for a default; add: gradients are
//   accumulated
#include <stdio.h>
#include <stdlib.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/cases/kernel.h"
#include "harness/plan/plan.h"
#include "harness/stats/stats.h"

#define SAMPLES_DEFAULT 21
#define SAMPLES_MOST    1001
#define WARMUPS         3
#define ROTATIONS_MOST  64
#define TRIAD_ELEMENTS  (16 << 20)
#define TRIAD_SAMPLES   5

typedef struct table {
    bt_device device;
    bt_pool *pool;
    bt_stream stream;
    bt_event start, stop;
    void *scrub;
    size_t scrub_bytes;
    int samples;
    bool accumulate;
    double ceiling; // bytes per ns of a large copy, 0 until known
} table;

static void check(bt_status status)
{
    if (status != BT_OK) {
        (void)fprintf(stderr, "lab_table: %s: %s\n", bt_status_text(status), bt_error_message());
        exit(1);
    }
}

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

// Bytes per ns of the best of several passes, over memory of the kind that the cases use.
static double triad(table *self)
{
    static double *a, *b, *c;
    if (!a) {
        double **const arrays[] = {&a, &b, &c};
        for (int i = 0; i < 3; ++i) {
            void *block = NULL;
            check(self->device.backend->memory_alloc(&self->device, TRIAD_ELEMENTS * sizeof *a,
                                                     &block));
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
    for (int i = 0; i < 2 * TRIAD_SAMPLES; ++i) {
        const int64_t started_ns = bt_clock_ns();
        triad_pass(a, b, c, i % 2 == 1);
        const double time_ns = (double)(bt_clock_ns() - started_ns);
        best_ns = best_ns > 0 && best_ns < time_ns ? best_ns : time_ns;
    }
    return 24.0 * TRIAD_ELEMENTS / best_ns;
}

static void scrub_cache(table *self, bool by_writing)
{
    const bt_backend *backend = self->device.backend;
    if (by_writing) {
        check(backend->fill(&self->device, self->scrub, 0, self->scrub_bytes, self->stream));
        return;
    }
    const bt_launch launch = {.device = &self->device, .stream = self->stream};
    bt_count_nonfinite_args read = {.x = self->scrub, .dtype = BT_F32};
    read.count = (int64_t)(self->scrub_bytes / sizeof(float)) - 64;
    read.result = (int64_t *)(void *)((char *)self->scrub + self->scrub_bytes - 256);
    const bt_kernel *kernel = NULL;
    check(bt_kernel_find(&self->device, BT_KERNEL_COUNT_NONFINITE, BT_F32, &read, &kernel));
    check(kernel->launch(&launch, &read));
}

static double cold_ns(table *self, kernel_run *run, bool by_writing)
{
    const bt_backend *backend = self->device.backend;
    double times[SAMPLES_MOST];
    kernel_call *call = &run->calls[0];
    for (int i = -WARMUPS; i < self->samples; ++i) {
        int64_t time_ns = 0;
        scrub_cache(self, by_writing);
        check(backend->event_record(&self->device, self->start, self->stream));
        check(run->kernel->launch(&call->launch, &call->args));
        check(backend->event_record(&self->device, self->stop, self->stream));
        check(backend->event_synchronize(&self->device, self->stop));
        check(backend->event_elapsed(&self->device, self->start, self->stop, &time_ns));
        times[i < 0 ? 0 : i] = (double)time_ns;
    }
    bt_stats stats;
    check(bt_stats_of(times, self->samples, &stats));
    return stats.median;
}

static double graph_ns(table *self, kernel_run *run, int64_t calls)
{
    const bt_backend *backend = self->device.backend;
    double times[SAMPLES_MOST];
    bt_graph graph = NULL;
    if (!backend->graph_begin) {
        return 0;
    }
    check(backend->graph_begin(&self->device, self->stream));
    for (int64_t i = 0; i < calls; ++i) {
        kernel_call *call = &run->calls[i % run->call_count];
        check(run->kernel->launch(&call->launch, &call->args));
    }
    check(backend->graph_end(&self->device, self->stream, &graph));
    for (int i = -WARMUPS; i < self->samples; ++i) {
        int64_t time_ns = 0;
        check(backend->event_record(&self->device, self->start, self->stream));
        check(backend->graph_launch(&self->device, graph, self->stream));
        check(backend->event_record(&self->device, self->stop, self->stream));
        check(backend->event_synchronize(&self->device, self->stop));
        check(backend->event_elapsed(&self->device, self->start, self->stop, &time_ns));
        times[i < 0 ? 0 : i] = (double)time_ns / (double)calls;
    }
    backend->graph_destroy(&self->device, graph);
    bt_stats stats;
    check(bt_stats_of(times, self->samples, &stats));
    return stats.median;
}

static uint64_t operand_bytes(const bt_kernel_body *body)
{
    uint64_t bytes = 1;
    BT_EACH(const bt_operand, operand, body->operands, body->count) {
        bytes += (uint64_t)bt_operand_count(operand, body->rows) * bt_dtype_size(operand->dtype);
    }
    return bytes;
}

static void set_args(const table *self, kernel_run *run, kernel_call *call)
{
    const bt_kernel_asked asked = {.rows = run->body.rows,
                                   .at = call->at,
                                   .accumulate = self->accumulate,
                                   .items = &call->items};
    run->body.args(&run->body, &asked, &call->args);
}

// A call with copies of another call's operands.
static void clone_call(table *self, kernel_run *run, const kernel_call *from, kernel_call *call)
{
    for (int i = 0; i < run->body.count; ++i) {
        const bt_operand *operand = &run->body.operands[i];
        const size_t size_bytes =
            (size_t)bt_operand_count(operand, run->body.rows) * bt_dtype_size(operand->dtype);
        check(bt_pool_alloc(self->pool, size_bytes, self->stream, operand->name, &call->at[i]));
        check(self->device.backend->copy(&self->device, call->at[i], from->at[i], size_bytes,
                                         BT_COPY_DEVICE_TO_DEVICE, self->stream));
    }
    set_args(self, run, call);
    call->launch = from->launch;
    if (from->workspace) {
        check(bt_pool_alloc(self->pool, from->launch.workspace_bytes, self->stream, "workspace",
                            &call->workspace));
        call->launch.workspace = call->workspace;
    }
}

// Only small calls get rotating copies.
static void time_case(table *self, const char *line, kernel_run *run, double bytes)
{
    const uint64_t cache = bt_kernel_cache_bytes(&self->device);
    const uint64_t each = operand_bytes(&run->body);
    int64_t copies = (int64_t)(5 * cache / each) + 1;
    copies = copies < ROTATIONS_MOST ? copies : ROTATIONS_MOST;
    run->calls = calloc((size_t)copies, sizeof *run->calls);
    if (!run->calls) {
        exit(1);
    }
    check(bt_kernel_call_make(run, &run->calls[run->call_count++]));
    set_args(self, run, &run->calls[0]);
    while (run->call_count < copies) {
        clone_call(self, run, &run->calls[0], &run->calls[run->call_count]);
        ++run->call_count;
    }
    const double cold = cold_ns(self, run, false), dirty = cold_ns(self, run, true);
    const double graph = each < 3 * cache ? graph_ns(self, run, copies < 8 ? 8 : copies) : 0;
    if (self->device.backend->kind == BT_DEVICE_CPU) {
        self->ceiling = triad(self);
        printf("triad %5.1f  ", self->ceiling);
    } else if (self->ceiling <= 0) {
        self->ceiling = bytes / cold;
        printf("# %s, copy %.0f GB/s\n", self->device.info.name, self->ceiling);
    }
    const double share = 100 * bytes / self->ceiling;
    printf("%-46s %-30s %8.1f MB  cold %8.2f us %5.1f %%  dirty %8.2f us %5.1f %%", line,
           run->kernel->name, bytes * 1e-6, cold * 1e-3, share / cold, dirty * 1e-3, share / dirty);
    if (graph > 0) {
        printf("  graph %8.2f us %5.1f %%", graph * 1e-3, share / graph);
    }
    printf("\n");
    (void)fflush(stdout);
    check(self->device.backend->stream_synchronize(&self->device, self->stream));
    for (int64_t i = 0; i < run->call_count; ++i) {
        bt_kernel_call_release(run, &run->calls[i]);
    }
    free(run->calls);
}

static void run_case(table *self, const cJSON *item)
{
    const cJSON *kernel = bt_json_get(item, "kernel"), *op = bt_json_get(kernel, "op");
    kernel_run run = {.seed = 1, .device = &self->device, .pool = self->pool};
    run.stream = self->stream;
    bt_kernel_case_op which;
    if (cJSON_IsString(op) && bt_kernel_case_op_parse(op->valuestring, &which)) {
        check(bt_kernel_body_make(kernel, &run.body));
        time_case(self, bt_json_get(item, "name")->valuestring, &run,
                  bt_kernel_bytes(which, run.body.backward, &run.body.shape,
                                  (int)bt_dtype_size(run.body.dtype)));
    }
}

static void open_device(table *self, const char *name)
{
    check(bt_device_open(name, 0, &self->device));
    const bt_backend *backend = self->device.backend;
    check(backend->stream_create(&self->device, false, &self->stream));
    check(bt_pool_create(&self->device, 0, &self->pool));
    check(backend->event_create(&self->device, &self->start));
    check(backend->event_create(&self->device, &self->stop));
    self->scrub_bytes = 2 * (size_t)bt_kernel_cache_bytes(&self->device);
    check(bt_pool_alloc(self->pool, self->scrub_bytes, self->stream, "scrub", &self->scrub));
    scrub_cache(self, true);
}

static void close_device(table *self)
{
    const bt_backend *backend = self->device.backend;
    backend->event_destroy(&self->device, self->start);
    backend->event_destroy(&self->device, self->stop);
    bt_pool_free(self->pool, self->scrub);
    bt_pool_destroy(self->pool);
    backend->stream_destroy(&self->device, self->stream);
    bt_device_close(&self->device);
}

static const char *word_of(int argc, char **argv, int index)
{
    return argc > index && *argv[index] ? argv[index] : NULL;
}

int main(int argc, char **argv)
{
    const char *samples = word_of(argc, argv, 4);
    table self = {.samples = samples ? atoi(samples) : SAMPLES_DEFAULT,
                  .accumulate = word_of(argc, argv, 5) != NULL};
    if (argc < 2 || self.samples < 3 || self.samples > SAMPLES_MOST) {
        (void)fprintf(stderr, "usage: lab_table SUITE [PROFILE [FILTER [SAMPLES [add]]]]\n");
        return 2;
    }
    const bt_plan_options options = {
        .profile = word_of(argc, argv, 2), .filter = word_of(argc, argv, 3), .seed = -1};
    BT_SCOPED(bt_suite) suite = {0};
    bt_machine machine;
    BT_SCOPED(bt_plan) plan = {0};
    check(bt_suite_load(argv[1], &suite));
    check(bt_machine_look(&machine));
    check(bt_plan_make(&suite, &options, &machine, &plan));
    open_device(&self, plan.device);
    for (int64_t i = 0; i < plan.case_count; ++i) {
        run_case(&self, bt_plan_case(&plan, i));
    }
    close_device(&self);
    return 0;
}

// harness/cases/kernel.c - a kernel case: checked first, then timed
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/cases/kernel.h"

#define CALLS_COPIES_MAX 256
#define FRESH_BYTES_MAX  (64 << 20) // limit of operands that are also checked at new addresses

static kernel_cache cache_of(const cJSON *kernel)
{
    const char *text = bt_json_text_of(kernel, "cache");
    return strcmp(text, "hot") == 0        ? CACHE_HOT
           : strcmp(text, "rotating") == 0 ? CACHE_ROTATING
                                           : CACHE_COLD;
}

static uint64_t operand_bytes(const kernel_run *run)
{
    uint64_t bytes = 0;
    BT_EACH(const bt_operand, operand, run->body.operands, run->body.count) {
        bytes +=
            (uint64_t)bt_operand_count(operand, run->body.rows) * bt_dtype_size(operand->dtype);
    }
    return bytes;
}

// Copies of the operands that together take five times the cache, plus one; one copy if the mode
// needs no more.
static int64_t copies_of(const kernel_run *run, kernel_cache cache)
{
    uint64_t copies = 5 * bt_kernel_cache_bytes(run->device) / (operand_bytes(run) + 1) + 1;
    copies = copies < CALLS_COPIES_MAX ? copies : CALLS_COPIES_MAX;
    return cache == CACHE_ROTATING ? (int64_t)copies : 1;
}

static bt_status make_calls(kernel_run *run, int64_t count)
{
    BT_TRY(BT_MEM_ARRAY(count, &run->calls));
    while (run->call_count < count) {
        BT_TRY(bt_kernel_call_make(run, &run->calls[run->call_count++]));
    }
    return BT_OK;
}

// One launch, whose outputs are compared.
static bt_status launch_and_check(kernel_run *run, kernel_call *call, double *worst)
{
    double share = 0;
    BT_TRY(run->kernel->launch(&call->launch, &call->args));
    BT_TRY(run->device->backend->stream_synchronize(run->device, run->stream));
    bt_status status = bt_kernel_check(run, call, &share);
    *worst = share > *worst || isnan(share) ? share : *worst;
    return status;
}

// After the timed loop: checks other values at the timed addresses and then, if memory suffices, at
// new ones. Now a result that was cached, or work that was skipped, is wrong.
static bt_status check_again(kernel_run *run, double *worst)
{
    kernel_call fresh;
    ++run->seed;
    BT_TRY(bt_kernel_call_fill(run, &run->calls[0]));
    BT_TRY(launch_and_check(run, &run->calls[0], worst));
    if (operand_bytes(run) > FRESH_BYTES_MAX) {
        return BT_OK;
    }
    ++run->seed;
    bt_status status = bt_kernel_call_make(run, &fresh);
    BT_IF_OK(status, launch_and_check(run, &fresh, worst));
    bt_kernel_call_release(run, &fresh);
    return status;
}

static bt_status say_start(const kernel_run *run, const bt_case_listener *listener)
{
    bt_train_start start = {.device = &run->device->info};
    BT_TRY(listener->train.start(listener->train.self, &start));
    char label[96];
    bt_kernel_label(run->device, run->kernel, &run->plan, &run->calls[0].args, label, sizeof label);
    const char *note = run->device->note;
    if (*note && listener->train.note) {
        BT_TRY(listener->train.note(listener->train.self, note));
    }
    const char *warning = run->tuner ? bt_gemm_tuner_warning(run->tuner) : "";
    if (*warning && listener->train.note) {
        BT_TRY(listener->train.note(listener->train.self, warning));
    }
    const bt_kernel_body *body = &run->body;
    bt_train_kernel kernel = {
        body->is_chain ? bt_kernel_case_op_name(body->what) : bt_kernel_op_name(body->op), label};
    return listener->train.kernel(listener->train.self, &kernel);
}

static bt_status measure(kernel_run *run, const cJSON *kernel, const bt_case_listener *listener,
                         bt_train_result *result)
{
    kernel_times times = {0};
    bt_case_measured measured = {0};
    kernel_cache cache = cache_of(kernel);
    BT_TRY(make_calls(run, 1));
    BT_TRY(say_start(run, listener));
    BT_TRY(launch_and_check(run, &run->calls[0], &measured.error_share));
    int64_t copies = copies_of(run, cache);
    if (copies > 1) {
        bt_kernel_call_release(run, &run->calls[0]);
        BT_MEM_FREE(run->calls);
        run->call_count = 0;
        BT_TRY(make_calls(run, copies));
    }
    bt_status status =
        bt_kernel_time(run, cache, bt_json_number_of(kernel, "max_time_s"), listener, &times);
    if (status == BT_OK && !times.stopped) {
        status = bt_error_context(check_again(run, &measured.error_share), "after the timed loop");
    }
    if (status == BT_OK) {
        measured.calls_per_sample = times.calls_per_sample;
        measured.stop = times.stop;
        measured.launch_time_ns = times.launch_ns;
        if (run->chain) {
            measured.compile_time_ns = (double)bt_kernel_chain_cold_ns(run->chain);
            measured.load_time_ns = (double)bt_kernel_chain_warm_ns(run->chain);
        }
        status = listener->samples(listener->train.self, times.samples, times.count);
    }
    BT_IF_OK(status, listener->measured(listener->train.self, &measured));
    result->stopped = times.stopped;
    result->behind_ns = times.behind_ns;
    bt_mem_free(times.samples);
    return status;
}

static bt_status with_stream(kernel_run *run, const cJSON *kernel, const bt_case_listener *listener,
                             bt_train_result *result)
{
    const bt_backend *backend = run->device->backend;
    BT_TRY(backend->stream_create(run->device, false, &run->stream));
    bt_status status = bt_pool_create(run->device, 0, &run->pool);
    if (status == BT_OK) {
        status = bt_gemm_tuner_from_environment(run->device, run->pool, &run->tuner);
        BT_IF_OK(status, measure(run, kernel, listener, result));
        bt_pool_stats stats;
        bt_pool_stats_read(run->pool, &stats);
        result->peak_allocated_bytes = stats.peak_allocated_bytes;
        result->peak_reserved_bytes = stats.peak_reserved_bytes;
        bt_error_quiet_begin();
        // Work may still use the memory that is freed here; its failure has been reported already.
        (void)!backend->stream_synchronize(run->device, run->stream);
        for (int64_t i = 0; i < run->call_count; ++i) {
            bt_kernel_call_release(run, &run->calls[i]);
        }
        bt_mem_free(run->calls);
        bt_kernel_generated_release(run->generated);
        bt_kernel_chain_release(run->chain);
        bt_gemm_tuner_close(run->tuner);
        bt_pool_destroy(run->pool);
        bt_error_quiet_end();
    }
    backend->stream_destroy(run->device, run->stream);
    return status;
}

bt_status bt_case_run_kernel(const bt_case_work *work, const bt_case_listener *listener,
                             bt_train_result *result)
{
    const cJSON *kernel = bt_json_get(work->item, "kernel");
    bt_device device;
    kernel_run run = {.seed = (uint64_t)bt_json_number_of(kernel, "seed"),
                      .generates = strcmp(bt_json_text_of(kernel, "compile"), "on") == 0,
                      .inject_slowdown = work->inject_slowdown};
    BT_TRY(bt_kernel_body_make(kernel, &run.body));
    BT_TRY(bt_device_open(work->device, work->ordinal, &device));
    run.device = &device;
    bt_status status = with_stream(&run, kernel, listener, result);
    bt_device_close(&device);
    return status;
}

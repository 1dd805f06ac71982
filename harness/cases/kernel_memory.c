// harness/cases/kernel_memory.c - operands in memory: generated, rounded, laid out
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "framework/base/scoped.h"
#include "harness/cases/kernel.h"

// Rounds f64 values to a type, in place.
static void round_to(bt_dtype dtype, double *values, int64_t count)
{
    enum { PIECE = 256 };
    double narrow[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        const int64_t part = count - at < PIECE ? count - at : PIECE;
        bt_kernel_narrow(dtype, values + at, part, narrow);
        bt_kernel_widen(dtype, narrow, part, values + at);
    }
}

bt_status bt_kernel_tile(const bt_kernel_body *body, uint64_t seed, int index, double *values,
                         int64_t count)
{
    const bt_operand *operand = &body->operands[index];
    bt_rng rng = {seed, (uint64_t)index};
    BT_SCOPED_MEM(float *) drawn = NULL;
    BT_TRY(BT_MEM_ARRAY(count, &drawn));
    if (operand->fill == BT_FILL_NORMAL) {
        bt_rng_normal_fill(rng, drawn, count, operand->a, operand->b);
    } else if (operand->fill == BT_FILL_UNIFORM) {
        bt_rng_uniform_fill(rng, drawn, count, operand->a, operand->b);
    }
    for (int64_t i = 0; i < count; ++i) {
        values[i] = operand->fill == BT_FILL_CONSTANT ? operand->a
                    : operand->fill == BT_FILL_BELOW
                        ? (double)bt_rng_below(rng, (uint64_t)i, (uint64_t)operand->a)
                        : (double)drawn[i];
    }
    round_to(operand->dtype, values, count);
    return BT_OK;
}

// Uploads one tile and replicates it on the device.
static bt_status fill(kernel_run *run, int index, void *target)
{
    const bt_operand *operand = &run->body.operands[index];
    const bt_backend *backend = run->device->backend;
    int64_t count = bt_operand_count(operand, run->body.rows);
    int64_t tile = count < BT_OPERAND_TILE ? count : BT_OPERAND_TILE;
    size_t size = bt_dtype_size(operand->dtype);
    BT_SCOPED_MEM(void *) values = NULL;
    BT_SCOPED_MEM(void *) narrow = NULL;
    bt_status status = bt_mem_alloc((size_t)tile, sizeof(double), &values);
    BT_IF_OK(status, bt_mem_alloc((size_t)tile, size, &narrow));
    BT_IF_OK(status, bt_kernel_tile(&run->body, run->seed, index, values, tile));
    if (status == BT_OK) {
        bt_kernel_narrow(operand->dtype, values, tile, narrow);
        status = backend->copy(run->device, target, narrow, (size_t)tile * size,
                               BT_COPY_HOST_TO_DEVICE, run->stream);
    }
    for (int64_t at = tile; status == BT_OK && at < count; at += tile) {
        int64_t part = count - at < tile ? count - at : tile;
        status = backend->copy(run->device, (char *)target + (size_t)at * size, target,
                               (size_t)part * size, BT_COPY_DEVICE_TO_DEVICE, run->stream);
    }
    bt_status done = backend->stream_synchronize(run->device, run->stream);
    return status == BT_OK ? done : status;
}

// The row that serves the call, and its plan.
static bt_status find_kernel(kernel_run *run, const kernel_call *call)
{
    const bt_kernel_body *body = &run->body;
    const bt_kernel_plan *plan = NULL;
    run->plan = (bt_kernel_plan){0};
    if (body->is_chain) {
        if (!run->chain) {
            BT_TRY(bt_kernel_chain_make(run, &call->args, &run->chain));
        }
        run->kernel = bt_kernel_chain_row(run->chain);
        return BT_OK;
    }
    if (run->generates) {
        if (!run->generated) {
            BT_TRY(bt_kernel_generated_make(run->device, body->op, body->main, &call->args,
                                            &run->generated));
        }
        run->kernel = bt_kernel_generated_row(run->generated);
        return BT_OK;
    }
    if (body->op != BT_KERNEL_GEMM || !run->tuner) {
        return bt_kernel_find(run->device, body->op, body->main, &call->args, &run->kernel);
    }
    BT_TRY(bt_gemm_tuner_choose(run->tuner, run->stream, &call->args.gemm, &run->kernel, &plan));
    run->plan = plan ? *plan : run->plan;
    return BT_OK;
}

static size_t size_of(const bt_kernel_body *body, int index)
{
    const bt_operand *operand = &body->operands[index];
    return (size_t)bt_operand_count(operand, body->rows) * bt_dtype_size(operand->dtype);
}

bt_status bt_kernel_call_fill(kernel_run *run, kernel_call *call)
{
    const bt_kernel_body *body = &run->body;
    for (int i = 0; i < body->count; ++i) {
        const bt_operand *operand = &body->operands[i];
        if (operand->role == BT_OPERAND_IN || operand->role == BT_OPERAND_INOUT) {
            BT_TRY(fill(run, i, call->at[i]));
        } else {
            // NaN everywhere, so that elements that a kernel does not write are detected.
            BT_TRY(run->device->backend->fill(run->device, call->at[i], 0xff, size_of(body, i),
                                              run->stream));
        }
    }
    return BT_OK;
}

bt_status bt_kernel_call_make(kernel_run *run, kernel_call *call)
{
    const bt_kernel_body *body = &run->body;
    memset(call, 0, sizeof *call);
    for (int i = 0; i < body->count; ++i) {
        BT_TRY(bt_pool_alloc(run->pool, size_of(body, i), run->stream, body->operands[i].name,
                             &call->at[i]));
    }
    BT_TRY(bt_kernel_call_fill(run, call));
    const bt_kernel_asked asked = {.rows = body->rows, .at = call->at, .items = &call->items};
    body->args(body, &asked, &call->args);
    BT_TRY(find_kernel(run, call));
    size_t bytes = run->plan.number         ? run->plan.workspace_bytes
                   : run->kernel->workspace ? run->kernel->workspace(run->device, &call->args)
                                            : 0;
    if (bytes) {
        BT_TRY(bt_pool_alloc(run->pool, bytes, run->stream, "workspace", &call->workspace));
    }
    call->launch = (bt_launch){run->device, run->stream, call->workspace, bytes, run->plan.number};
    return BT_OK;
}

void bt_kernel_call_release(const kernel_run *run, kernel_call *call)
{
    for (int i = 0; i < run->body.count; ++i) {
        if (call->at[i]) {
            bt_pool_free(run->pool, call->at[i]);
        }
    }
    if (call->workspace) {
        bt_pool_free(run->pool, call->workspace);
    }
    memset(call, 0, sizeof *call);
}

// framework/tensor/context.c - launches kernels from the table
#include "framework/tensor/context.h"

bt_status bt_context_launch_row(bt_context *context, const bt_kernel *kernel,
                                const bt_kernel_plan *plan, const void *args)
{
    bt_launch launch = {.device = context->device, .stream = context->stream};
    if (context->kernel_hook.launched && context->dry) {
        context->kernel_hook.launched(context->kernel_hook.self, kernel, plan, args);
    }
    if (context->dry) {
        return BT_OK;
    }
    if (plan) {
        launch.plan = plan->number;
        launch.workspace_bytes = plan->workspace_bytes;
    } else if (kernel->workspace) {
        launch.workspace_bytes = kernel->workspace(context->device, args);
    }
    if (launch.workspace_bytes) {
        BT_TRY(bt_pool_alloc(context->pool, launch.workspace_bytes, context->stream, kernel->name,
                             &launch.workspace));
    }
    if (context->kernel_hook.launched) {
        context->kernel_hook.launched(context->kernel_hook.self, kernel, plan, args);
    }
    bt_ranges_note(context->ranges, kernel->name);
    bt_status status = kernel->launch(&launch, args);
    bt_ranges_note(context->ranges, NULL);
    if (launch.workspace) {
        // Reuse on the same stream is ordered after the kernel.
        bt_pool_free(context->pool, launch.workspace);
    }
    return bt_error_context(status, "%s", kernel->name);
}

bt_status bt_context_launch(bt_context *context, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    const bt_kernel *kernel = NULL;
    BT_TRY(bt_kernel_find(context->device, op, dtype, args, &kernel));
    return bt_context_launch_row(context, kernel, NULL, args);
}

bt_status bt_context_synchronize(bt_context *context)
{
    return context->device->backend->stream_synchronize(context->device, context->stream);
}

// A replayed graph would set marks of the step that was captured.
static bool captures(const bt_context *context)
{
    const bt_backend *backend = context->device->backend;
    return backend->graph_capturing && backend->graph_capturing(context->device, context->stream);
}

// Bytes that show a watching thread the device's progress. A mark that cannot be enqueued is
// omitted: the following work fails for the same reason.
static void enqueue_mark(bt_context *context, unsigned char *at, uint8_t byte, size_t size_bytes)
{
    if (at && !context->dry) {
        bt_error_quiet_begin();
        bt_status status =
            context->device->backend->fill(context->device, at, byte, size_bytes, context->stream);
        (void)status;
        bt_error_quiet_end();
    }
}

void bt_range_push(bt_context *context, const char *name)
{
    context->device->backend->range_push(name);
    enqueue_mark(context, bt_ranges_marks_clear(context->ranges), 0, BT_RANGES_MARKS);
    bt_ranges_push(context->ranges, name);
    if (context->range_hook.push) {
        context->range_hook.push(context->range_hook.self, name);
    }
}

void bt_range_pop(bt_context *context)
{
    if (context->range_hook.pop) {
        context->range_hook.pop(context->range_hook.self);
    }
    if (!captures(context)) {
        enqueue_mark(context, bt_ranges_mark(context->ranges), 1, 1);
    }
    bt_ranges_pop(context->ranges);
    context->device->backend->range_pop();
}

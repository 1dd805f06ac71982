// kernels/kernels.c - choosing a row
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/str.h"
#include "kernels/cpu/cpu.h"

const char *bt_kernel_op_name(bt_kernel_op op)
{
    static const char *const names[] = {
#define BT_KERNEL_OP_ROW(name, text, args) text,
        BT_KERNEL_OP_LIST(BT_KERNEL_OP_ROW)
#undef BT_KERNEL_OP_ROW
    };
    return (unsigned)op < BT_KERNEL_OP_COUNT ? names[op] : "unknown";
}

const char *bt_unary_name(bt_unary function)
{
    static const char *const names[] = {
#define BT_UNARY_ROW(name, text) text,
        BT_UNARY_LIST(BT_UNARY_ROW)
#undef BT_UNARY_ROW
    };
    return (unsigned)function < BT_UNARY_COUNT ? names[function] : "unknown";
}

const char *bt_binary_name(bt_binary function)
{
    static const char *const names[] = {
#define BT_BINARY_ROW(name, text) text,
        BT_BINARY_LIST(BT_BINARY_ROW)
#undef BT_BINARY_ROW
    };
    return (unsigned)function < BT_BINARY_COUNT ? names[function] : "unknown";
}

const char *bt_kernel_accepts_text(const char *accepts)
{
    static const struct {
        const char *name, *text;
    } words[] = {
#define BT_ACCEPTS(function, text) {#function, text},
#include "kernels/accepts.inl"
#undef BT_ACCEPTS
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        if (strcmp(words[i].name, accepts) == 0) {
            return words[i].text;
        }
    }
    return "any call";
}

const bt_kernel *bt_kernel_table(const bt_device *device, int *count)
{
    if (device->backend->kind == BT_DEVICE_CPU && !device->backend->kernels) {
        *count = bt_cpu_kernel_count;
        return bt_cpu_kernels;
    }
    *count = device->backend->kernel_count;
    return device->backend->kernels;
}

void bt_kernel_label(const bt_device *device, const bt_kernel *kernel, const bt_kernel_plan *plan,
                     const void *args, char *text, size_t capacity)
{
    bt_kernel_plan own = {0};
    if (!plan || plan->number == 0) {
        if (device->backend->plans) {
            (void)device->backend->plans(device, kernel, args, &own, 1);
        }
        plan = &own;
    }
    (void)snprintf(text, capacity, "%s%s%s", kernel->name, *plan->name ? " " : "", plan->name);
}

static bt_status none_serves(const bt_device *device, bt_kernel_op op, bt_dtype dtype)
{
    bt_str refused = {0};
    int count = 0;
    const bt_kernel *rows = bt_kernel_table(device, &count);
    for (int i = 0; i < count; ++i) {
        if (rows[i].op == op) {
            bt_str_format(&refused, " %s", rows[i].name);
        }
    }
    bt_status status =
        bt_error(BT_STATUS_UNSUPPORTED, "no %s kernel for %s on %s serves this call; available:%s",
                 bt_kernel_op_name(op), bt_dtype_name(dtype), device->info.name,
                 refused.length_bytes ? bt_str_text(&refused) : " none");
    bt_str_release(&refused);
    return status;
}

const bt_kernel *bt_kernel_lookup(const bt_device *device, bt_kernel_op op, bt_dtype dtype,
                                  const void *args)
{
    int count = 0;
    const bt_kernel *rows = bt_kernel_table(device, &count);
    for (int i = count - 1; i >= 0; --i) {
        const bt_kernel *row = &rows[i];
        if (row->op == op && (row->dtype == dtype || row->dtype == BT_DTYPE_COUNT) &&
            row->min_arch <= device->info.arch && (!row->accepts || row->accepts(device, args))) {
            return row;
        }
    }
    return NULL;
}

bt_status bt_kernel_find(const bt_device *device, bt_kernel_op op, bt_dtype dtype, const void *args,
                         const bt_kernel **kernel)
{
    *kernel = bt_kernel_lookup(device, op, dtype, args);
    return *kernel ? BT_OK : none_serves(device, op, dtype);
}

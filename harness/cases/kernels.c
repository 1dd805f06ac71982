// harness/cases/kernels.c - the kernel table, as text
#include "kernels/kernels.h"
#include "framework/base/idioms.h"
#include "harness/cases/cases.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

// A row of kernels.inl, of either backend, whether available or not.
typedef struct kernel_row {
    bt_kernel_op op;
    const char *device;
    bt_dtype dtype;
    int min_arch;
    const char *name, *accepts;
} kernel_row;

static const kernel_row rows[] = {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)                                         \
    {BT_KERNEL_##op, "cpu", BT_##dtype, 0, #name, #accepts},
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)                              \
    {BT_KERNEL_##op, "cuda", BT_##dtype, min_arch, #name, #accepts},
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const char *dtype_of(const kernel_row *row)
{
    return row->dtype == BT_DTYPE_COUNT ? "any" : bt_dtype_name(row->dtype);
}

static bt_status append_text(int columns, bt_str *out)
{
    bt_table table = {0};
    const size_t start = out->length_bytes;
    bt_table_heads(&table, "op|device|dtype|>arch|kernel|<accepts");
    bt_table_fit(&table, columns, "kernel");
    BT_EACH(const kernel_row, row, rows, ROW_COUNT) {
        bt_table_cells(&table, "%s|%s|%s|%d|%s|%s", bt_kernel_op_name(row->op), row->device,
                       dtype_of(row), row->min_arch, row->name,
                       bt_kernel_accepts_text(row->accepts));
    }
    BT_TRY(bt_table_print(&table, 0, out));
    bt_str_append(out,
                  "\narch: the compute capability that a kernel needs, times ten. plain: causal or "
                  "full self-attention, one key/value head for each query head. If several "
                  "rows accept a call, the last of them is used.\n");
    const bt_backend *cuda = NULL;
    if (bt_device_backend("cuda", &cuda) != BT_OK) {
        bt_str_format(out, "cuda, here: %s\n", bt_error_message());
    }
    bt_wrap_from(out, start, columns);
    return bt_str_status(out);
}

static void append_json(bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '[');
    BT_EACH(const kernel_row, row, rows, ROW_COUNT) {
        BT_JSON_OBJECT(&json, NULL, BT_KV("op", bt_kernel_op_name(row->op)), BT_OF(row, device),
                       BT_KV("dtype", dtype_of(row)), BT_OF(row, min_arch),
                       BT_KV("kernel", row->name),
                       BT_KV("accepts", bt_kernel_accepts_text(row->accepts)));
    }
    bt_json_writer_close(&json, ']');
    bt_str_append(out, "\n");
}

bt_status bt_case_list_kernels(bool json, int columns, bt_str *out)
{
    if (!json) {
        return append_text(columns, out);
    }
    append_json(out);
    return bt_str_status(out);
}

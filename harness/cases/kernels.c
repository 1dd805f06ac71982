// harness/cases/kernels.c - the kernel table, as text
#include "harness/cases/cases.h"

#include "kernels/kernels.h"

static void append_kernel(const bt_kernel *row, const char *backend, bool json, bt_str *out)
{
    const char *dtype = row->dtype == BT_DTYPE_COUNT ? "any" : bt_dtype_name(row->dtype);
    bt_str_format(out,
                  json ? "%s{\"op\":\"%s\",\"device\":\"%s\",\"dtype\":\"%s\",\"min_arch\":%d,"
                         "\"kernel\":\"%s\"}"
                       : "%s%-24s %-5s %-5s %4d  %s\n",
                  json && out->length_bytes > 1 ? "," : "", bt_kernel_op_name(row->op), backend,
                  dtype, row->min_arch, row->name);
}

// The rows of the CPU, and of CUDA where its backend is there (no device is opened).
bt_status bt_case_list_kernels(bool json, bt_str *out)
{
    bt_device cpu;
    bt_status status = bt_device_open("cpu", 0, &cpu);
    if (status != BT_OK) {
        return status;
    }
    bt_str_append(out, json ? "[" : "op                       device dtype arch  kernel\n");
    int count = 0;
    const bt_kernel *rows = bt_kernel_table(&cpu, &count);
    for (int i = 0; i < count; ++i) {
        append_kernel(&rows[i], "cpu", json, out);
    }
    bt_device_close(&cpu);
    const bt_backend *cuda = NULL;
    if (bt_device_backend("cuda", &cuda) == BT_OK) {
        for (int i = 0; i < cuda->kernel_count; ++i) {
            append_kernel(&cuda->kernels[i], "cuda", json, out);
        }
    } else if (!json) {
        bt_str_format(out, "\ncuda: %s\n", bt_error_message());
    }
    bt_str_append(out, json ? "]\n" : "");
    return bt_str_status(out);
}

// harness/cases/returned.c - inputs for a peer, outputs of a peer
//
// Files, in the machine's byte order:
//   NAME.0    the first elements of an input of the timed calls; the rest repeats them
//   NAME.1    the same for the call whose outputs are returned: other values
//   NAME.out  the windows of an output that the task lists, concatenated
#include "harness/cases/returned.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cases/kernel.h"

enum { SEEDS = 2, LOWER_ROUNDINGS = 8 };

static const bool can_return[BT_KERNEL_CASE_OP_COUNT] = {
    [BT_KERNEL_CASE_copy] = true,         [BT_KERNEL_CASE_gelu] = true,
    [BT_KERNEL_CASE_layernorm] = true,    [BT_KERNEL_CASE_cross_entropy] = true,
    [BT_KERNEL_CASE_reduce_sum] = true,   [BT_KERNEL_CASE_adamw] = true,
    [BT_KERNEL_CASE_attention] = true,    [BT_KERNEL_CASE_attention_causal] = true,
    [BT_KERNEL_CASE_gemm_batched] = true,
};

bool bt_returned_can(const cJSON *kernel)
{
    bt_kernel_case_op what;
    return bt_kernel_case_op_parse(bt_json_text_of(kernel, "op"), &what) && can_return[what];
}

static uint64_t seed_of(const cJSON *kernel) { return (uint64_t)bt_json_number_of(kernel, "seed"); }

// ---- the task ----------------------------------------------------------------------------------

// Without fsync: the files live only as long as the round.
static bt_status write_file(const char *path, const void *bytes, size_t size_bytes)
{
    FILE *file = fopen(path, "wbe");
    const bool written = file && fwrite(bytes, 1, size_bytes, file) == size_bytes;
    const bool closed = file && fclose(file) == 0;
    return written && closed ? BT_OK : bt_error(BT_STATUS_IO, "%s cannot be written", path);
}

static bt_status write_input(const bt_kernel_body *body, int index, uint64_t seed,
                             const char *folder, int which)
{
    const bt_operand *operand = &body->operands[index];
    const int64_t all = bt_operand_count(operand, body->rows);
    const int64_t tile = all < BT_OPERAND_TILE ? all : BT_OPERAND_TILE;
    BT_SCOPED_MEM(void *) values = NULL;
    BT_SCOPED_MEM(void *) narrow = NULL;
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/%s.%d", folder, operand->name, which);
    BT_TRY(bt_str_status(&path));
    BT_TRY(bt_mem_alloc((size_t)tile, sizeof(double), &values));
    BT_TRY(bt_mem_alloc((size_t)tile, sizeof(double), &narrow));
    BT_TRY(bt_kernel_tile(body, seed, index, values, tile));
    bt_kernel_narrow(operand->dtype, values, tile, narrow);
    return write_file(bt_str_text(&path), narrow, (size_t)tile * bt_dtype_size(operand->dtype));
}

static void describe(const bt_kernel_body *body, const bt_operand *operand, bt_str *out)
{
    bt_str_format(out, "{\"name\":\"%s\",\"dtype\":\"%s\",\"count\":%lld", operand->name,
                  bt_dtype_name(operand->dtype), (long long)bt_operand_count(operand, body->rows));
}

static bt_status ask_inputs(const bt_kernel_body *body, uint64_t seed, const char *folder,
                            bt_str *task)
{
    const char *comma = "";
    bt_str_append(task, ",\"inputs\":[");
    for (int i = 0; i < body->count; ++i) {
        if (bt_operand_is_input(&body->operands[i])) {
            bt_str_append(task, comma);
            describe(body, &body->operands[i], task);
            bt_str_append(task, "}");
            comma = ",";
            for (int which = 0; which < SEEDS; ++which) {
                BT_TRY(write_input(body, i, seed + (uint64_t)which, folder, which));
            }
        }
    }
    bt_str_append(task, "]");
    return bt_str_status(task);
}

// The windows of an output in the order in which the check reads them. Adjacent windows are merged.
static void ask_windows(const kernel_parts *parts, int index, bt_str *task)
{
    const bool whole = parts->body->operands[index].per_row == 0;
    kernel_part part;
    kernel_window open = {0};
    const char *comma = "";
    bt_str_append(task, ",\"windows\":[");
    for (int64_t i = 0; i <= parts->count; ++i) {
        kernel_window next = {0};
        if (i < parts->count) {
            bt_kernel_part_at(parts, i, &part);
            if (!(whole ? part.last : part.compared)) {
                continue;
            }
            next = part.windows[index];
        }
        if (open.runs == 1 && next.runs == 1 && open.first + open.length == next.first) {
            open.length += next.length;
            continue;
        }
        if (open.runs > 0) {
            bt_str_format(task, "%s[%lld,%lld,%lld,%lld]", comma, (long long)open.first,
                          (long long)open.runs, (long long)open.stride, (long long)open.length);
            comma = ",";
        }
        open = next;
    }
    bt_str_append(task, "]}");
}

bt_status bt_returned_ask(const cJSON *kernel, const char *folder, bt_str *task)
{
    bt_kernel_body body;
    kernel_parts parts;
    const char *comma = "";
    BT_TRY(bt_kernel_body_for_peer(kernel, &body));
    BT_TRY(bt_dir_make(folder));
    bt_kernel_parts_make(&body, seed_of(kernel) + 1, &parts);
    bt_str_append(task, ",\"returns\":{\"folder\":");
    bt_json_string(folder, task);
    BT_TRY(ask_inputs(&body, seed_of(kernel), folder, task));
    bt_str_append(task, ",\"outputs\":[");
    for (int i = 0; i < body.count; ++i) {
        if (bt_operand_is_output(&body.operands[i])) {
            bt_str_append(task, comma);
            describe(&body, &body.operands[i], task);
            ask_windows(&parts, i, task);
            comma = ",";
        }
    }
    bt_str_append(task, "]}");
    return bt_str_status(task);
}

// ---- the check ---------------------------------------------------------------------------------

typedef struct returned {
    const bt_kernel_body *body;
    const char *folder;
    FILE *files[BT_OPERANDS_MAX]; // owned
} returned;

static bt_status read_returned(void *context, int index, const kernel_window *window, void *out)
{
    returned *self = context;
    const bt_operand *operand = &self->body->operands[index];
    const size_t count = (size_t)bt_kernel_window_count(window);
    BT_FAIL_IF(fread(out, bt_dtype_size(operand->dtype), count, self->files[index]) != count,
               BT_STATUS_CORRUPT_DATA, "%s.out ends before the end of %s", operand->name,
               operand->name);
    return BT_OK;
}

static bt_status open_outputs(returned *self)
{
    for (int i = 0; i < self->body->count; ++i) {
        char path[1024];
        if (bt_operand_is_output(&self->body->operands[i])) {
            (void)snprintf(path, sizeof path, "%s/%s.out", self->folder,
                           self->body->operands[i].name);
            self->files[i] = fopen(path, "rbe");
            BT_FAIL_IF(!self->files[i], BT_STATUS_IO, "%s.out was not written",
                       self->body->operands[i].name);
        }
    }
    return BT_OK;
}

// Everything has been read, and the file ends there.
static bt_status close_outputs(returned *self, bt_status status)
{
    for (int i = 0; i < self->body->count; ++i) {
        if (!self->files[i]) {
            continue;
        }
        if (status == BT_OK && fgetc(self->files[i]) != EOF) {
            status = bt_error(BT_STATUS_CORRUPT_DATA, "%s.out is longer than requested",
                              self->body->operands[i].name);
        }
        (void)fclose(self->files[i]);
    }
    return status;
}

// If a peer computes in tf32 a case in f32, each term may have a rounding error of tf32.
static bt_status widen_bounds(bt_kernel_body *body, const char *precision)
{
    if (!*precision) {
        return BT_OK;
    }
    BT_FAIL_IF(strcmp(precision, "tf32") != 0 || body->dtype != BT_F32, BT_STATUS_INVALID_ARGUMENT,
               "the peer computes in \"%s\"; allowed: tf32, in f32 cases", precision);
    for (int i = 0; i < body->count && !body->tf32; ++i) {
        bt_operand *operand = &body->operands[i];
        operand->rounded = LOWER_ROUNDINGS * (operand->terms > 1 ? operand->terms : 1);
    }
    body->tf32 = true;
    return BT_OK;
}

bt_status bt_returned_check(const cJSON *kernel, const char *folder, const char *precision,
                            double *worst)
{
    bt_kernel_body body;
    BT_TRY(bt_kernel_body_for_peer(kernel, &body));
    BT_TRY(widen_bounds(&body, precision));
    returned self = {.body = &body, .folder = folder};
    const kernel_outputs outputs = {&self, read_returned};
    bt_status status = open_outputs(&self);
    BT_IF_OK(status,
             bt_kernel_check_outputs(&body, seed_of(kernel) + 1, &outputs, "the peer", worst));
    return close_outputs(&self, status);
}

void bt_returned_remove(const char *folder)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry = NULL; directory && (entry = readdir(directory));) {
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory) {
        (void)closedir(directory);
    }
    (void)rmdir(folder);
}

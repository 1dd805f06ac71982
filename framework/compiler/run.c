// framework/compiler/run.c - a fused group as something that runs
#include "framework/compiler/run.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/compiler/object.h"
#include "kernels/cpu/stream.h"

typedef void (*kernel_fn)(void *const *operands, int64_t rows, int64_t begin, int64_t end,
                          void *scratch);

struct bt_compiled {
    bt_fused group;
    bt_emitted emitted; // without the text
    bt_object object;
    kernel_fn kernel, past; // past NULL: there is none
    int64_t written_bytes;  // of one row of axis 0
    int threads;            // that scratch has room for
    char *scratch;          // owned [threads * emitted.scratch_bytes], from a line's begin
    void *scratch_block;
};

static bt_status find(const bt_object *object, const char *name, kernel_fn *out)
{
    void *address = NULL;
    BT_TRY(bt_object_function(object, name, &address));
    memcpy(out, &address, sizeof *out); // as in device.c: POSIX says the copy works
    return BT_OK;
}

static bt_status load(bt_compiled *c, bt_code_cache *cache)
{
    bt_target target;
    bt_code code = {0};
    BT_TRY(bt_target_host(&target));
    bt_code_cache none = {0};
    bt_status status =
        bt_lower_cached(cache ? cache : &none, &target, bt_str_text(&c->emitted.text), &code);
    status = status ? status : bt_object_load(code.bytes, code.size_bytes, &c->object);
    status = status ? status : find(&c->object, "kernel", &c->kernel);
    if (status == BT_OK && c->emitted.past) {
        status = find(&c->object, "kernel_past", &c->past);
    }
    bt_code_release(&code);
    return status;
}

static bt_status make_scratch(bt_compiled *c)
{
    enum { LINE = 64 };
    c->threads = omp_get_max_threads();
    BT_TRY(bt_mem_alloc((size_t)c->threads * (size_t)c->emitted.scratch_bytes + LINE, 1,
                        &c->scratch_block));
    c->scratch = (char *)c->scratch_block;
    c->scratch += -(uintptr_t)c->scratch & (LINE - 1);
    return BT_OK;
}

bt_status bt_compile(const bt_fused *group, bt_code_cache *cache, bt_compiled **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_compiled), &block));
    bt_compiled *c = block;
    c->group = *group;
    bt_status status = bt_emit_cpu(group, &c->emitted);
    status = status ? status : load(c, cache);
    status = status ? status : make_scratch(c);
    bt_str_release(&c->emitted.text);
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *o = &group->operands[i];
        if (o->is_written) {
            c->written_bytes +=
                (o->stride[0] ? o->stride[0] : 1) * (int64_t)bt_dtype_size(o->dtype);
        }
    }
    if (status) {
        bt_compiled_release(c);
        return status;
    }
    *out = c;
    return BT_OK;
}

// Stores past the cache pay where a kernel of kernels/cpu would make them, and need whole lines.
static bool goes_past(const bt_compiled *c, int64_t rows, void *const *operands)
{
    if (!c->past || !bt_stream_wanted(rows * c->written_bytes)) {
        return false;
    }
    for (int i = 0; i < c->group.operand_count; ++i) {
        if (c->group.operands[i].is_written && ((uintptr_t)operands[i] & 63) != 0) {
            return false;
        }
    }
    return true;
}

bt_status bt_compiled_run(const bt_compiled *c, int64_t rows, void *const *operands)
{
    if (rows < 0 || (!c->group.dynamic_rows && rows != c->group.shape[0])) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a compiled group of %lld rows is given %lld",
                        (long long)c->group.shape[0], (long long)rows);
    }
    const int64_t tasks = bt_emit_tasks(&c->group, &c->emitted, rows);
    const bool past = goes_past(c, rows, operands);
    const kernel_fn kernel = past ? c->past : c->kernel;
    int64_t elements = rows;
    for (int i = 1; i < c->group.rank; ++i) {
        elements *= c->group.shape[i];
    }
#pragma omp parallel num_threads(c->threads) if (elements > BT_CHUNK && tasks > 1)
    {
        const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
        kernel(operands, rows, tasks * me / threads, tasks * (me + 1) / threads,
               c->scratch + me * c->emitted.scratch_bytes);
        if (past) {
            bt_stream_end();
        }
    }
    return BT_OK;
}

void bt_compiled_release(bt_compiled *c)
{
    if (c) {
        bt_object_release(&c->object);
        bt_emitted_release(&c->emitted);
        bt_mem_free(c->scratch_block);
        bt_mem_free(c);
    }
}

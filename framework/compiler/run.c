// framework/compiler/run.c - a fused group compiled, loaded and called
#include "framework/compiler/run.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/plugin.h"
#include "framework/compiler/object.h"
#include "framework/compiler/tiling.h"
#include "kernels/cpu/stream.h"
#include "kernels/generated.h"

typedef void (*kernel_fn)(void *const *operands, int64_t rows, int64_t begin, int64_t end,
                          void *scratch);

struct bt_compiled {
    bt_fused group;
    bt_emitted_cuda cuda;            // without the text
    const bt_device *device;         // borrowed; NULL: the CPU
    const bt_generated_table *table; // of the backend
    bt_generated generated, finish;  // the group's kernel; COLUMN: its second one, else zeroed
    bt_emitted emitted;              // without the text; of the CPU, as all below
    bt_object object;
    kernel_fn kernel, past; // past NULL: not available
    int64_t written_bytes;  // of one row of axis 0
    int threads;            // threads that scratch has memory for
    char *scratch;          // owned [threads * emitted.scratch_bytes], aligned to a cache line
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

static bt_status compile_cpu(bt_compiled *c, bt_code_cache *cache)
{
    bt_status status = bt_emit_cpu(&c->group, &c->emitted);
    status = status ? status : load(c, cache);
    status = status ? status : make_scratch(c);
    bt_str_release(&c->emitted.text);
    for (int i = 0; i < c->group.operand_count; ++i) {
        const bt_fused_operand *o = &c->group.operands[i];
        if (o->is_written) {
            c->written_bytes +=
                (o->stride[0] ? o->stride[0] : 1) * (int64_t)bt_dtype_size(o->dtype);
        }
    }
    return status;
}

// Machine code for the PTX: from the cache, under a key that includes the device's compute
// capability and the driver's version, or assembled and added to it.
static bt_status assemble(const bt_compiled *c, bt_code_cache *cache, const bt_target *target,
                          const char *text, bt_code *code)
{
    char key[BT_CODE_KEY_BYTES];
    bt_target machine = *target;
    bt_code ptx = {0};
    (void)snprintf(machine.processor, sizeof machine.processor, "sm_%d", c->device->info.arch);
    (void)snprintf(machine.features, sizeof machine.features, "cubin %d",
                   c->table->driver_version());
    bt_lower_key(&machine, text, key);
    if (bt_code_cache_take(cache, key, code)) {
        return BT_OK;
    }
    BT_TRY(bt_lower_cached(cache, target, text, &ptx));
    bt_status status = c->table->assemble(c->device, ptx.bytes, &code->bytes, &code->size_bytes);
    bt_code_release(&ptx);
    if (status == BT_OK && bt_code_cache_add(cache, key, code->bytes, code->size_bytes)) {
        bt_error_clear(); // a failure only slows the next start
    }
    return status;
}

static const bt_generated_table *replaced; // by bt_compile_through; NULL: the backend's own is used

void bt_compile_through(const bt_generated_table *table) { replaced = table; }

static bt_status find_table(const bt_generated_table **out)
{
    const bt_generated_table *table = replaced;
    if (!table) {
        void *symbol = NULL;
        bt_generated_entry_fn entry = NULL;
        BT_TRY(bt_plugin_symbol("libbt_cuda.so", BT_GENERATED_ENTRY, &symbol));
        memcpy(&entry, &symbol, sizeof entry); // as in device.c: POSIX says the copy works
        table = entry();
    }
    if (table->abi != BT_GENERATED_ABI) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "libbt_cuda.so belongs to another build (generated code %d, expected %d)",
                        table->abi, BT_GENERATED_ABI);
    }
    *out = table;
    return BT_OK;
}

static bt_status compile_cuda(bt_compiled *c, const bt_device *device, bt_code_cache *cache)
{
    bt_code_cache none = {0};
    bt_target target;
    bt_code code = {0};
    BT_TRY(find_table(&c->table));
    c->device = device;
    BT_TRY(bt_target_cuda(device->info.arch, &target));
    bt_status status = bt_tilings_emit(&target, &c->group, &c->cuda);
    status = status
                 ? status
                 : assemble(c, cache ? cache : &none, &target, bt_str_text(&c->cuda.text), &code);
    status = status ? status : c->table->load(device, code.bytes, "kernel", &c->generated);
    if (status == BT_OK && bt_emit_finish_blocks(&c->group)) {
        status = c->table->load(device, code.bytes, "finish", &c->finish);
    }
    bt_code_release(&code);
    bt_str_release(&c->cuda.text);
    return status;
}

static bt_status compile(const bt_device *device, const bt_fused *group, bt_code_cache *cache,
                         bt_compiled **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_compiled), &block));
    bt_compiled *c = block;
    c->group = *group;
    const bt_status status = device && device->backend->kind != BT_DEVICE_CPU
                                 ? compile_cuda(c, device, cache)
                                 : compile_cpu(c, cache);
    if (status) {
        bt_compiled_release(c);
        return status;
    }
    *out = c;
    return BT_OK;
}

bt_status bt_compile(const bt_fused *group, bt_code_cache *cache, bt_compiled **out)
{
    return compile(NULL, group, cache, out);
}

bt_status bt_compile_for(const bt_device *device, const bt_fused *group, bt_code_cache *cache,
                         bt_compiled **out)
{
    return compile(device, group, cache, out);
}

// The MLIR of a group. Owns  the caller: text, also after a failure
static bt_status emit(const bt_target *target, const bt_fused *group, bt_str *text)
{
    bt_emitted_cuda cuda = {0};
    bt_emitted cpu = {0};
    const bool for_gpu = target->kind == BT_TARGET_CUDA;
    const bt_status status =
        for_gpu ? bt_tilings_emit(target, group, &cuda) : bt_emit_cpu(group, &cpu);
    *text = for_gpu ? cuda.text : cpu.text;
    return status;
}

bt_status bt_compile_ahead(const bt_target *target, const bt_fused *group, bt_code_cache *cache)
{
    char key[BT_CODE_KEY_BYTES];
    bool found = false;
    bt_str text = {0};
    bt_code code = {0};
    if (!cache->folder) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "there is no folder for generated code; set BT_CACHE_DIR or HOME");
    }
    bt_status status = emit(target, group, &text);
    if (status == BT_OK) {
        bt_lower_key(target, bt_str_text(&text), key);
        status = bt_code_cache_find(cache, key, &code, &found);
    }
    if (status == BT_OK && !found) {
        status = bt_lower(target, bt_str_text(&text), NULL, &code, NULL);
        BT_IF_OK(status, bt_code_cache_add(cache, key, code.bytes, code.size_bytes));
    }
    bt_code_release(&code);
    bt_str_release(&text);
    return status;
}

static bt_status lower_text(const bt_target *target, const char *mlir, bt_code_form form,
                            bt_str *out)
{
    const bt_lower_options options = {.keep_llvm = true};
    bt_code code = {0};
    char *llvm = NULL;
    BT_TRY(bt_lower(target, mlir, &options, &code, &llvm));
    bt_str_append(out, form == BT_CODE_LLVM ? llvm : (const char *)code.bytes);
    bt_code_release(&code);
    bt_mem_free(llvm);
    return bt_str_status(out);
}

bt_status bt_compile_text(const bt_target *target, const bt_fused *group, bt_code_form form,
                          bt_str *out)
{
    bt_str text = {0};
    if (form == BT_CODE_PTX && target->kind != BT_TARGET_CUDA) {
        return bt_error(BT_STATUS_UNSUPPORTED, "a CPU has no PTX");
    }
    bt_status status = emit(target, group, &text);
    if (status == BT_OK && form == BT_CODE_MLIR) {
        bt_str_append(out, bt_str_text(&text));
        status = bt_str_status(out);
    } else if (status == BT_OK) {
        status = lower_text(target, bt_str_text(&text), form, out);
    }
    bt_str_release(&text);
    return status;
}

// Non-temporal stores are used under the conditions of kernels/cpu, and need whole cache lines.
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

int64_t bt_compiled_workspace_bytes(const bt_compiled *c, int64_t rows)
{
    return c->device ? bt_emit_parts_bytes(&c->group, rows) : 0;
}

bt_status bt_compiled_check_rows(const bt_compiled *c, int64_t rows)
{
    return c->device ? bt_emit_check_rows(&c->group, &c->cuda, rows) : BT_OK;
}

static bt_status run_cuda(const bt_compiled *c, bt_stream stream, int64_t rows,
                          void *const *operands, void *workspace)
{
    const int count = c->group.operand_count;
    const int64_t blocks = bt_emit_blocks(&c->group, &c->cuda, rows);
    const int64_t finish_blocks = bt_emit_finish_blocks(&c->group);
    void *parameters[BT_FUSED_OPERANDS_MOST + 2];
    void *pointers[BT_FUSED_OPERANDS_MOST];
    for (int i = 0; i < count; ++i) {
        if ((uintptr_t)operands[i] % (uintptr_t)c->cuda.alignment_bytes) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "operand %d of a compiled group is not aligned to %d bytes", i,
                            c->cuda.alignment_bytes);
        }
        pointers[i] = operands[i];
        parameters[i] = &pointers[i];
    }
    BT_TRY(bt_compiled_check_rows(c, rows));
    parameters[count] = &rows;
    parameters[count + 1] = &workspace;
    BT_TRY(c->table->launch(c->device, &c->generated, blocks, c->cuda.threads, c->cuda.is_early,
                            parameters, stream));
    return finish_blocks ? c->table->launch(c->device, &c->finish, finish_blocks, c->cuda.threads,
                                            c->cuda.is_early, parameters, stream)
                         : BT_OK;
}

bt_status bt_compiled_run(const bt_compiled *c, bt_stream stream, int64_t rows,
                          void *const *operands, void *workspace)
{
    if (rows < 0 || (!c->group.dynamic_rows && rows != c->group.shape[0])) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a compiled group of %lld rows was called with %lld",
                        (long long)c->group.shape[0], (long long)rows);
    }
    if (c->device) {
        return run_cuda(c, stream, rows, operands, workspace);
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

bt_status bt_compiled_run_in(bt_context *context, const bt_compiled *c, int64_t rows,
                             void *const *operands)
{
    const int64_t bytes = bt_compiled_workspace_bytes(c, rows);
    void *workspace = NULL;
    if (bytes) {
        BT_TRY(bt_pool_alloc(context->pool, (size_t)bytes, context->stream, "column sums",
                             &workspace));
    }
    const bt_status status = bt_compiled_run(c, context->stream, rows, operands, workspace);
    if (bytes) {
        bt_pool_free(context->pool, workspace);
    }
    return status;
}

void bt_compiled_release(bt_compiled *c)
{
    if (c) {
        if (c->table) {
            c->table->unload(&c->generated);
            c->table->unload(&c->finish);
        }
        bt_object_release(&c->object);
        bt_emitted_release(&c->emitted);
        bt_mem_free(c->scratch_block);
        bt_mem_free(c);
    }
}

// framework/checkpoint/load.c - verifying, choosing and loading checkpoints
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/checkpoint/image.h"
#include "framework/checkpoint/reader.h"

enum { MOST_DIFFERENCES = 5 };

static bt_status fill_info(const bt_manifest *manifest, bt_checkpoint_info *info)
{
    *info = (bt_checkpoint_info){.step = manifest->values.step,
                                 .tensor_count = manifest->tensor_count,
                                 .values = manifest->values};
    for (int64_t i = 0; i < manifest->file_count; ++i) {
        info->size_bytes += manifest->files[i].size_bytes;
    }
    (void)snprintf(info->plan_hash, sizeof info->plan_hash, "%s", manifest->plan_hash);
    (void)snprintf(info->build, sizeof info->build, "%s", manifest->build);
    BT_TRY(bt_manifest_digest(manifest, false, info->tensors_digest));
    return bt_manifest_digest(manifest, true, info->digest);
}

bt_status bt_checkpoint_verify(const bt_checkpoint_store *store, int64_t step,
                               bt_checkpoint_info *info)
{
    bt_reader reader;
    *info = (bt_checkpoint_info){.step = -1};
    bt_status status = bt_reader_open(store, step, &reader);
    if (status == BT_OK) {
        status = bt_reader_read(&reader, NULL, NULL);
    }
    if (status == BT_OK) {
        status = fill_info(&reader.manifest, info);
    }
    bt_reader_close(&reader);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const bt_safetensors_entry *)a)->name, ((const bt_safetensors_entry *)b)->name);
}

static bt_status copy_entries(const bt_manifest *manifest, bt_safetensors *out)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)manifest->tensor_count + 1, sizeof *out->entries, &block));
    out->entries = block;
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        const bt_manifest_tensor *row = &manifest->tensors[i];
        bt_safetensors_entry *entry = &out->entries[i];
        *entry = (bt_safetensors_entry){.dtype = row->dtype,
                                        .shape = row->shape,
                                        .offset_bytes = row->offset_bytes,
                                        .size_bytes = row->size_bytes,
                                        .index = row->file};
        BT_TRY(bt_mem_strdup(row->name, &entry->name));
        ++out->count;
    }
    qsort(out->entries, (size_t)out->count, sizeof *out->entries, compare_names);
    return BT_OK;
}

bt_status bt_checkpoint_describe(const bt_checkpoint_store *store, int64_t step,
                                 bt_checkpoint_info *info, bt_safetensors *tensors)
{
    bt_reader reader;
    *info = (bt_checkpoint_info){.step = -1};
    if (tensors) {
        *tensors = (bt_safetensors){0};
    }
    bt_status status = bt_reader_open(store, step, &reader);
    if (status == BT_OK) {
        status = fill_info(&reader.manifest, info);
    }
    if (status == BT_OK && tensors) {
        status = copy_entries(&reader.manifest, tensors);
    }
    bt_reader_close(&reader);
    return status;
}

// ---- matching names -----------------------------------------------------------------------------

typedef struct match {
    bt_tensor **targets; // owned [tensor_count of the manifest]
    bt_str differences;  // owned
    int64_t count;       // number of differences
} match;

static void differ(match *m, const char *what, const char *name, const char *detail)
{
    if (m->count++ < MOST_DIFFERENCES) {
        bt_str_format(&m->differences, "; %s %s%s", name, what, detail);
    }
}

static int compare_rows(const void *a, const void *b)
{
    return strcmp((*(const bt_manifest_tensor *const *)a)->name,
                  (*(const bt_manifest_tensor *const *)b)->name);
}

static void compare_tensor(match *m, const bt_state_tensor *item, const bt_manifest_tensor *row)
{
    char ours[BT_SHAPE_TEXT_BYTES];
    char theirs[BT_SHAPE_TEXT_BYTES];
    char detail[2 * BT_SHAPE_TEXT_BYTES + 64];
    if (row->dtype != item->tensor->dtype || !bt_shape_equal(&row->shape, &item->tensor->shape)) {
        (void)snprintf(detail, sizeof detail, "%s %s, expected %s %s", bt_dtype_name(row->dtype),
                       bt_shape_text(&row->shape, theirs), bt_dtype_name(item->tensor->dtype),
                       bt_shape_text(&item->tensor->shape, ours));
        differ(m, "is ", item->name, detail);
    } else if (!bt_tensor_is_contiguous(item->tensor)) {
        differ(m, "of the state is not contiguous", item->name, "");
    }
}

static bt_status match_tensors(const bt_manifest *manifest, const bt_state *state,
                               bool ignore_extra, match *m)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)manifest->tensor_count + 1, sizeof(void *), &block));
    m->targets = block;
    BT_TRY(bt_mem_alloc((size_t)manifest->tensor_count + 1, sizeof(void *), &block));
    const bt_manifest_tensor **sorted = block;
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        sorted[i] = &manifest->tensors[i];
    }
    qsort(sorted, (size_t)manifest->tensor_count, sizeof(void *), compare_rows);
    for (int64_t i = 0; i < state->count; ++i) {
        const bt_state_tensor *item = &state->tensors[i];
        bt_manifest_tensor key = {.name = (char *)(uintptr_t)item->name}; // only compared
        const bt_manifest_tensor *wanted = &key;
        const bt_manifest_tensor **found =
            bsearch(&wanted, sorted, (size_t)manifest->tensor_count, sizeof(void *), compare_rows);
        if (!found) {
            differ(m, "is missing", item->name, "");
            continue;
        }
        compare_tensor(m, item, *found);
        if (m->targets[*found - manifest->tensors]) {
            differ(m, "occurs twice in the state", item->name, "");
        }
        m->targets[*found - manifest->tensors] = item->tensor;
    }
    bt_mem_free(block);
    for (int64_t i = 0; i < manifest->tensor_count && !ignore_extra; ++i) {
        if (!m->targets[i]) {
            differ(m, "is not in the state", manifest->tensors[i].name, "");
        }
    }
    return bt_str_status(&m->differences);
}

static bt_status check_match(const bt_reader *reader, const bt_checkpoint_load_options *options,
                             const bt_state *state, match *m)
{
    const char *plan = options ? options->plan_hash : NULL;
    if (plan && strcmp(plan, reader->manifest.plan_hash) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s belongs to the plan %s, expected the plan %s", reader->folder,
                        reader->manifest.plan_hash, plan);
    }
    BT_TRY(match_tensors(&reader->manifest, state, options && options->ignore_extra, m));
    if (m->count == 0) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "%s does not match the state; differences: %lld, the first%s", reader->folder,
                    (long long)m->count, bt_str_text(&m->differences));
}

bt_status bt_checkpoint_load(bt_context *context, const bt_checkpoint_store *store, int64_t step,
                             const bt_checkpoint_load_options *options, bt_state *state,
                             bt_checkpoint_info *info)
{
    bt_reader reader;
    match m = {0};
    bt_checkpoint_info ignored;
    bt_status status = bt_reader_open(store, step, &reader);
    if (status == BT_OK) {
        status = fill_info(&reader.manifest, info ? info : &ignored);
    }
    if (status == BT_OK) {
        status = check_match(&reader, options, state, &m);
    }
    if (status == BT_OK) {
        status = bt_reader_read(&reader, context, m.targets);
    }
    if (status == BT_OK) {
        state->values = reader.manifest.values;
    }
    bt_mem_free(m.targets);
    bt_str_release(&m.differences);
    bt_reader_close(&reader);
    return status;
}

// ---- the newest checkpoint that verifies --------------------------------------------------------

// Whether to try an older checkpoint after this failure.
static bool is_damage(bt_status status)
{
    return status == BT_STATUS_CORRUPT_DATA || status == BT_STATUS_IO ||
           status == BT_STATUS_UNSUPPORTED;
}

typedef struct newest {
    bt_context *context; // NULL: verify only
    const bt_checkpoint_store *store;
    const bt_checkpoint_load_options *options;
    bt_state *state;
} newest;

static bt_status try_step(const newest *n, int64_t step, bt_checkpoint_info *info)
{
    return n->context ? bt_checkpoint_load(n->context, n->store, step, n->options, n->state, info)
                      : bt_checkpoint_verify(n->store, step, info);
}

static bt_status find_newest(const newest *n, bt_checkpoint_info *info)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    int64_t skipped = 0;
    char reason[sizeof info->skip_reason] = "";
    *info = (bt_checkpoint_info){.step = -1};
    bt_status status = bt_checkpoint_list(n->store, &steps, &count);
    const int64_t below = n->options ? n->options->below : 0;
    while (below > 0 && count > 0 && steps[count - 1] >= below) {
        --count;
    }
    for (int64_t i = count - 1; i >= 0 && status == BT_OK; --i) {
        status = try_step(n, steps[i], info);
        if (!is_damage(status)) {
            break;
        }
        if (skipped++ == 0) {
            (void)snprintf(reason, sizeof reason, "%s", bt_error_message());
        }
        status = BT_OK;
        *info = (bt_checkpoint_info){.step = -1};
    }
    bt_mem_free(steps);
    if (status == BT_OK && count > 0 && info->step < 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "none of the %lld checkpoints in %s is valid; the newest: %s",
                        (long long)count, n->store->folder, reason);
    }
    info->skipped = skipped;
    memcpy(info->skip_reason, reason, sizeof reason);
    return status;
}

bt_status bt_checkpoint_newest(const bt_checkpoint_store *store, bt_checkpoint_info *info)
{
    return find_newest(&(newest){.store = store}, info);
}

bt_status bt_checkpoint_load_newest(bt_context *context, const bt_checkpoint_store *store,
                                    const bt_checkpoint_load_options *options, bt_state *state,
                                    bt_checkpoint_info *info)
{
    bt_checkpoint_info ignored;
    return find_newest(
        &(newest){.context = context, .store = store, .options = options, .state = state},
        info ? info : &ignored);
}

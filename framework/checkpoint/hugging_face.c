// framework/checkpoint/hugging_face.c - maps tensor names and layouts to those of transformers
//
// Source: transformers, models/gpt2/modeling_gpt2.py and pytorch_utils.py (Conv1D).
#include "framework/checkpoint/hugging_face.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/safetensors.h"

// '#' stands for a layer's number.
static const struct {
    const char *name;
    bool transposed;
} rows[] = {
    {"wte.weight", false},
    {"wpe.weight", false},
    {"h.#.ln_1.weight", false},
    {"h.#.ln_1.bias", false},
    {"h.#.attn.c_attn.weight", true},
    {"h.#.attn.c_attn.bias", false},
    {"h.#.attn.c_proj.weight", true},
    {"h.#.attn.c_proj.bias", false},
    {"h.#.ln_2.weight", false},
    {"h.#.ln_2.bias", false},
    {"h.#.mlp.c_fc.weight", true},
    {"h.#.mlp.c_fc.bias", false},
    {"h.#.mlp.c_proj.weight", true},
    {"h.#.mlp.c_proj.bias", false},
    {"ln_f.weight", false},
    {"ln_f.bias", false},
};

// Buffers of old versions that are not weights: causal masks.
static const char *const masks[] = {"h.#.attn.bias", "h.#.attn.masked_bias"};

static const char prefix[] = "transformer.";

static bool is_like(const char *name, const char *pattern)
{
    for (; *pattern; ++pattern) {
        if (*pattern == '#') {
            size_t digits = strspn(name, "0123456789");
            if (digits == 0) {
                return false;
            }
            name += digits;
        } else if (*name++ != *pattern) {
            return false;
        }
    }
    return *name == '\0';
}

bool bt_hugging_face_gpt2_row(const char *name, bool *transposed)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (is_like(name, rows[i].name)) {
            *transposed = rows[i].transposed;
            return true;
        }
    }
    return false;
}

static bool is_mask(const char *name) { return is_like(name, masks[0]) || is_like(name, masks[1]); }

// y[c, r] = x[r, c], in tiles that fit the cache.
static void transpose(const float *x, int64_t x_rows, int64_t x_cols, float *y)
{
    enum { SIDE = 32 };
    for (int64_t r = 0; r < x_rows; r += SIDE) {
        for (int64_t c = 0; c < x_cols; c += SIDE) {
            for (int64_t i = r; i < r + SIDE && i < x_rows; ++i) {
                for (int64_t j = c; j < c + SIDE && j < x_cols; ++j) {
                    y[j * x_rows + i] = x[i * x_cols + j];
                }
            }
        }
    }
}

static bt_shape turned(bt_shape shape, bool transposed)
{
    return transposed ? BT_SHAPE(shape.size[1], shape.size[0]) : shape;
}

// Elements of the largest tensor.
static size_t most_elements(const bt_state *state)
{
    int64_t most = 1;
    for (int64_t i = 0; i < state->count; ++i) {
        int64_t count = bt_tensor_count(state->tensors[i].tensor);
        most = count > most ? count : most;
    }
    return (size_t)most;
}

static bt_status check_parameter(const bt_state_tensor *item, bool transposed)
{
    char text[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_tensor_expect(item->tensor, BT_F32, item->name));
    if (transposed && item->tensor->shape.rank != 2) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has the shape %s, expected [out, in]",
                        item->name, bt_shape_text(&item->tensor->shape, text));
    }
    return BT_OK;
}

// ---- export -------------------------------------------------------------------------------------

typedef struct export_job {
    bt_context *context;
    const bt_file_ops *ops;
    const bt_state *state;
    bt_safetensors_entry *entries; // owned [count]; names owned
    int64_t count;
    bt_str head;          // owned
    float *read, *turned; // owned, of the largest tensor's size
} export_job;

static bt_status make_entries(export_job *job)
{
    void *block = NULL;
    uint64_t file_bytes = 0;
    static const char *const metadata[] = {"format", "pt", NULL}; // transformers requires it
    BT_TRY(bt_mem_alloc((size_t)job->state->count + 1, sizeof *job->entries, &block));
    job->entries = block;
    for (int64_t i = 0; i < job->state->count; ++i) {
        const bt_state_tensor *item = &job->state->tensors[i];
        char name[BT_SAFETENSORS_NAME_LIMIT + sizeof prefix];
        bool transposed = false;
        if (!bt_hugging_face_gpt2_row(item->name, &transposed)) {
            continue;
        }
        BT_TRY(check_parameter(item, transposed));
        bt_safetensors_entry *entry = &job->entries[job->count];
        *entry = (bt_safetensors_entry){
            .dtype = BT_F32, .shape = turned(item->tensor->shape, transposed), .index = i};
        (void)snprintf(name, sizeof name, "%s%s", prefix, item->name);
        BT_TRY(bt_mem_strdup(name, &entry->name));
        ++job->count;
    }
    if (job->count == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the state has no parameters of GPT-2");
    }
    return bt_safetensors_head(job->entries, job->count, metadata, 8, &job->head, &file_bytes);
}

static bt_status write_entries(export_job *job, int file, const char *path)
{
    struct iovec head = {job->head.text, job->head.length_bytes};
    BT_TRY(bt_io_write(job->ops, file, path, &head, 1, 0));
    for (int64_t i = 0; i < job->count; ++i) {
        const bt_safetensors_entry *entry = &job->entries[i];
        const bt_tensor *tensor = job->state->tensors[entry->index].tensor;
        bool transposed = false;
        (void)bt_hugging_face_gpt2_row(job->state->tensors[entry->index].name, &transposed);
        BT_TRY(bt_tensor_read(job->context, tensor, job->read));
        if (transposed) {
            transpose(job->read, tensor->shape.size[0], tensor->shape.size[1], job->turned);
        }
        struct iovec part = {transposed ? job->turned : job->read, (size_t)entry->size_bytes};
        BT_TRY(bt_io_write(job->ops, file, path, &part, 1, (int64_t)entry->offset_bytes));
    }
    int error = job->ops->sync(job->ops->self, file);
    return error < 0 ? bt_io_failed(error, "flush", path) : BT_OK;
}

static bt_status write_whole(export_job *job, const char *path)
{
    char temporary[BT_PATH_CAPACITY];
    char folder[BT_PATH_CAPACITY];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (length < 0 || length >= (int)sizeof temporary) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the path %.100s... is too long", path);
    }
    (void)job->ops->remove_file(job->ops->self, temporary); // left by a killed export
    int file = job->ops->open(job->ops->self, temporary, BT_FILE_CREATE);
    if (file < 0) {
        return bt_io_failed(file, "create", temporary);
    }
    bt_status status = write_entries(job, file, temporary);
    int error = job->ops->close(job->ops->self, file);
    if (status == BT_OK && error == 0) {
        error = job->ops->rename(job->ops->self, temporary, path);
    }
    if (status == BT_OK && error < 0) {
        status = bt_io_failed(error, "rename", path);
    }
    if (status != BT_OK) {
        (void)job->ops->remove_file(job->ops->self, temporary);
        return status;
    }
    bt_io_parent(path, folder);
    return bt_io_sync_folder(job->ops, folder);
}

bt_status bt_hugging_face_gpt2_export(bt_context *context, const bt_file_ops *ops, const char *path,
                                      const bt_state *state)
{
    export_job job = {.context = context, .ops = ops, .state = state};
    size_t most = most_elements(state);
    void *block = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(make_entries(&job), done);
    BT_TRY_GOTO(bt_mem_alloc(most, sizeof(float), &block), done);
    job.read = block;
    BT_TRY_GOTO(bt_mem_alloc(most, sizeof(float), &block), done);
    job.turned = block;
    BT_TRY_GOTO(write_whole(&job, path), done);
done:
    for (int64_t i = 0; i < job.count; ++i) {
        bt_mem_free(job.entries[i].name);
    }
    bt_mem_free(job.entries);
    bt_mem_free(job.read);
    bt_mem_free(job.turned);
    bt_str_release(&job.head);
    return status;
}

// ---- import -------------------------------------------------------------------------------------

typedef struct import_job {
    bt_context *context;
    const bt_file_ops *ops;
    const char *path;
    int file;
    bt_safetensors head;
    float *read, *turned; // owned, of the largest tensor's size
} import_job;

static const bt_safetensors_entry *find(const import_job *job, const char *name)
{
    char with_prefix[BT_SAFETENSORS_NAME_LIMIT + sizeof prefix];
    const bt_safetensors_entry *entry = bt_safetensors_find(&job->head, name);
    (void)snprintf(with_prefix, sizeof with_prefix, "%s%s", prefix, name);
    return entry ? entry : bt_safetensors_find(&job->head, with_prefix);
}

static bt_status check_entry(const import_job *job, const bt_state_tensor *item, bool transposed)
{
    char theirs[BT_SHAPE_TEXT_BYTES];
    char ours[BT_SHAPE_TEXT_BYTES];
    const bt_safetensors_entry *entry = find(job, item->name);
    BT_TRY(check_parameter(item, transposed));
    if (!entry) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has no tensor %s", job->path, item->name);
    }
    if (entry->dtype != BT_F32 && entry->dtype != BT_BF16) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s: tensor %s is %s; f32 and bf16 can be imported",
                        job->path, entry->name, bt_dtype_name(entry->dtype));
    }
    const bt_shape expected = turned(item->tensor->shape, transposed);
    if (!bt_shape_equal(&entry->shape, &expected)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: tensor %s has the shape %s, expected %s",
                        job->path, entry->name, bt_shape_text(&entry->shape, theirs),
                        bt_shape_text(&expected, ours));
    }
    return BT_OK;
}

static bt_status check_tied(const import_job *job, const bt_safetensors_entry *head,
                            const bt_safetensors_entry *wte)
{
    enum { PIECE = 16384 };
    char left[PIECE];
    char right[PIECE];
    bool same = wte && head->dtype == wte->dtype && bt_shape_equal(&head->shape, &wte->shape);
    for (uint64_t at = 0; same && at < head->size_bytes; at += PIECE) {
        size_t part = (size_t)(head->size_bytes - at < PIECE ? head->size_bytes - at : PIECE);
        BT_TRY(bt_io_read(job->ops, job->file, job->path, left, part,
                          (int64_t)(head->offset_bytes + at)));
        BT_TRY(bt_io_read(job->ops, job->file, job->path, right, part,
                          (int64_t)(wte->offset_bytes + at)));
        same = memcmp(left, right, part) == 0;
    }
    return same ? BT_OK
                : bt_error(BT_STATUS_INVALID_ARGUMENT,
                           "%s: lm_head.weight differs from wte.weight; only models with a tied "
                           "head are supported",
                           job->path);
}

static bool is_in_state(const bt_state *state, const char *name)
{
    bool transposed = false;
    for (int64_t i = 0; i < state->count; ++i) {
        if (strcmp(state->tensors[i].name, name) == 0) {
            return bt_hugging_face_gpt2_row(name, &transposed);
        }
    }
    return false;
}

static bt_status check_all(const import_job *job, const bt_state *state)
{
    int64_t used = 0;
    for (int64_t i = 0; i < state->count; ++i) {
        bool transposed = false;
        if (bt_hugging_face_gpt2_row(state->tensors[i].name, &transposed)) {
            BT_TRY(check_entry(job, &state->tensors[i], transposed));
            ++used;
        }
    }
    if (used == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the state has no parameters of GPT-2");
    }
    for (int64_t i = 0; i < job->head.count; ++i) {
        const bt_safetensors_entry *entry = &job->head.entries[i];
        size_t skip = strncmp(entry->name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
        const char *name = entry->name + skip;
        if (strcmp(entry->name, "lm_head.weight") == 0) {
            BT_TRY(check_tied(job, entry, find(job, "wte.weight")));
        } else if (!is_mask(name) && (!is_in_state(state, name) || find(job, name) != entry)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "%s: tensor %s is not a parameter of the model", job->path,
                            entry->name);
        }
    }
    return BT_OK;
}

static bt_status import_tensor(import_job *job, const bt_state_tensor *item, bool transposed)
{
    const bt_safetensors_entry *entry = find(job, item->name);
    int64_t count = bt_tensor_count(item->tensor);
    BT_TRY(bt_io_read(job->ops, job->file, job->path, job->read, (size_t)entry->size_bytes,
                      (int64_t)entry->offset_bytes));
    if (entry->dtype == BT_BF16) { // in place, from the end
        for (int64_t i = count - 1; i >= 0; --i) {
            uint16_t bits;
            memcpy(&bits, (const char *)job->read + 2 * i, sizeof bits);
            job->read[i] = bt_bf16_to_f32(bits);
        }
    }
    if (transposed) {
        transpose(job->read, entry->shape.size[0], entry->shape.size[1], job->turned);
    }
    BT_TRY(bt_tensor_write(job->context, item->tensor, transposed ? job->turned : job->read));
    return bt_context_synchronize(job->context); // the buffers are reused
}

static bt_status import_all(import_job *job, bt_state *state)
{
    size_t most = most_elements(state);
    void *block = NULL;
    BT_TRY(check_all(job, state));
    BT_TRY(bt_mem_alloc(most, sizeof(float), &block));
    job->read = block;
    BT_TRY(bt_mem_alloc(most, sizeof(float), &block));
    job->turned = block;
    for (int64_t i = 0; i < state->count; ++i) {
        bool transposed = false;
        if (bt_hugging_face_gpt2_row(state->tensors[i].name, &transposed)) {
            BT_TRY(import_tensor(job, &state->tensors[i], transposed));
        }
    }
    return BT_OK;
}

bt_status bt_hugging_face_gpt2_import(bt_context *context, const bt_file_ops *ops, const char *path,
                                      bt_state *state)
{
    import_job job = {.context = context, .ops = ops, .path = path};
    uint64_t size_bytes = 0;
    BT_TRY(bt_io_open(ops, path, &job.file, &size_bytes));
    bt_status status = bt_safetensors_read(ops, job.file, path, size_bytes, &job.head, NULL);
    if (status == BT_OK) {
        status = import_all(&job, state);
    }
    (void)ops->close(ops->self, job.file);
    bt_mem_free(job.read);
    bt_mem_free(job.turned);
    bt_safetensors_release(&job.head);
    return status;
}

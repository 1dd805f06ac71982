// framework/eval/pretrained.c - finds the kind of model at a path, its shape and its weights
#include "framework/eval/pretrained.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/scoped.h"
#include "framework/checkpoint/hugging_face.h"

static const bt_file_ops *const ops = &bt_file_ops_system;

// ---- the kind of path ---------------------------------------------------------------------------

static bool has_file(const char *folder, const char *name, char *path)
{
    struct stat info;
    bt_error_quiet_begin();
    const bool fits = bt_io_path(folder, name, path) == BT_OK;
    bt_error_quiet_end();
    return fits && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bt_status take_shape(bt_pretrained *out, const bt_hugging_face_gpt2_config *c, int64_t heads)
{
    out->model = (bt_gpt2_config){.layers = c->layers,
                                  .heads = c->heads ? c->heads : heads,
                                  .width = c->width,
                                  .vocab = c->vocab,
                                  .context = c->context};
    if (c->heads && heads && c->heads != heads) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has %lld heads, not %lld", out->path,
                        (long long)c->heads, (long long)heads);
    }
    if (out->model.heads == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s does not store its number of heads; give it with --heads: a divisor of "
                        "the width %lld (heads of GPT-2 are 64 wide)",
                        out->path, (long long)c->width);
    }
    if (out->model.heads < 0 || c->width % out->model.heads != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: %lld heads; expected a divisor of the width %lld", out->path,
                        (long long)out->model.heads, (long long)c->width);
    }
    return BT_OK;
}

static bt_status find_checkpoint(int64_t step, int64_t heads, bt_pretrained *out)
{
    const bt_checkpoint_store store = {.folder = out->store};
    bt_safetensors tensors = {0};
    bt_hugging_face_gpt2_config shape = {0};
    bt_status status = bt_checkpoint_describe(&store, step, &out->info, &tensors);
    if (status == BT_OK) {
        status = bt_hugging_face_gpt2_shape(out->path, &tensors, &shape);
    }
    bt_safetensors_release(&tensors);
    BT_TRY(status);
    shape.heads = out->info.values.heads;
    return take_shape(out, &shape, heads);
}

static bt_status resolve(const char *path, bt_pretrained *out, struct stat *info)
{
    *out = (bt_pretrained){.info.step = -1};
    char *real = realpath(path, NULL);
    const bool there = real && stat(real, info) == 0;
    const int error = errno;
    const bool fits =
        there && snprintf(out->path, sizeof out->path, "%s", real) < (int)sizeof out->path;
    free(real);
    return fits ? BT_OK
                : bt_error(BT_STATUS_IO, "cannot open %s: %s", path,
                           strerror(there ? ENAMETOOLONG : error));
}

static bt_status split_step(bt_pretrained *out, int64_t *step)
{
    char expected[64];
    const char *name = strrchr(out->path, '/');
    *step = name && strncmp(name, "/step-", 6) == 0 ? strtoll(name + 6, NULL, 10) : -1;
    (void)snprintf(expected, sizeof expected, "/step-%08lld", (long long)*step);
    if (*step < 0 || strcmp(name, expected) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: the name of a checkpoint's folder is step- and 8 digits", out->path);
    }
    bt_io_parent(out->path, out->store);
    return BT_OK;
}

bt_status bt_pretrained_step(const char *path, bt_pretrained *out, int64_t *step)
{
    struct stat info;
    BT_TRY(resolve(path, out, &info));
    return split_step(out, step);
}

static bt_status find_step(int64_t heads, bt_pretrained *out)
{
    int64_t step = 0;
    BT_TRY(split_step(out, &step));
    return find_checkpoint(step, heads, out);
}

// Errors  INVALID_ARGUMENT: the folder is none of a model; checkpoints below it are named
static bt_status refuse_folder(const char *folder)
{
    BT_SCOPED(bt_str) below = {0};
    int64_t count = 0;
    BT_TRY(bt_checkpoint_stores_below(folder, &below, &count));
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "%s: this folder contains neither a checkpoint (step-NNNNNNNN) nor "
                    "model.safetensors%s%s",
                    folder, count > 0 ? "; give one of these folders below it, which do:" : "",
                    bt_str_text(&below));
}

static bt_status find_newest(int64_t heads, bt_pretrained *out)
{
    char name[64];
    (void)snprintf(out->store, sizeof out->store, "%s", out->path);
    const bt_checkpoint_store store = {.folder = out->store};
    bt_checkpoint_info newest;
    BT_TRY(bt_checkpoint_newest(&store, &newest));
    if (newest.step < 0) {
        return refuse_folder(out->path);
    }
    (void)snprintf(name, sizeof name, "step-%08lld", (long long)newest.step);
    BT_TRY(bt_io_path(out->store, name, out->path));
    BT_TRY(find_checkpoint(newest.step, heads, out));
    out->info = newest;
    return BT_OK;
}

static bt_status find_file(int64_t heads, bt_pretrained *out)
{
    char folder[BT_PATH_CAPACITY];
    char config[BT_PATH_CAPACITY];
    bt_hugging_face_gpt2_config shape = {0};
    bt_safetensors tensors = {0};
    uint64_t size_bytes = 0;
    int file = 0;
    out->info.step = -1;
    BT_TRY(bt_io_open(ops, out->path, &file, &size_bytes));
    bt_status status = bt_safetensors_read(ops, file, out->path, size_bytes, &tensors, NULL);
    (void)ops->close(ops->self, file);
    if (status == BT_OK) {
        status = bt_hugging_face_gpt2_shape(out->path, &tensors, &shape);
    }
    bt_safetensors_release(&tensors);
    BT_TRY(status);
    bt_io_parent(out->path, folder);
    if (has_file(folder, "config.json", config)) {
        BT_TRY(bt_hugging_face_gpt2_config_read(ops, config, &shape));
    }
    return take_shape(out, &shape, heads);
}

bt_status bt_pretrained_find(const char *path, int64_t heads, bt_pretrained *out)
{
    char inside[BT_PATH_CAPACITY];
    struct stat info;
    BT_TRY(resolve(path, out, &info));
    if (!S_ISDIR(info.st_mode)) {
        return find_file(heads, out);
    }
    if (has_file(out->path, "manifest.json", inside)) {
        return find_step(heads, out);
    }
    if (has_file(out->path, "model.safetensors", inside)) {
        (void)snprintf(out->path, sizeof out->path, "%s", inside);
        return find_file(heads, out);
    }
    return find_newest(heads, out);
}

// ---- weights ------------------------------------------------------------------------------------

bt_status bt_pretrained_state(const bt_params *params, bt_state *state)
{
    *state = (bt_state){0};
    for (int64_t i = 0; i < params->count; ++i) {
        BT_TRY(bt_state_add(state, params->items[i].name, params->items[i].master));
    }
    return BT_OK;
}

static bt_status load_state(bt_context *context, const bt_pretrained *from, bt_state *state)
{
    const bt_checkpoint_store store = {.folder = from->store};
    const bt_checkpoint_load_options options = {.ignore_extra = true}; // moments of the optimizer
    return *from->store
               ? bt_checkpoint_load(context, &store, from->info.step, &options, state, NULL)
               : bt_hugging_face_gpt2_import(context, ops, from->path, state);
}

bt_status bt_pretrained_load(bt_context *context, const bt_pretrained *pretrained,
                             bt_params *params)
{
    bt_state state;
    bt_status status = bt_pretrained_state(params, &state);
    if (status == BT_OK) {
        status = load_state(context, pretrained, &state);
    }
    bt_state_release(&state);
    for (int64_t i = 0; i < params->count && status == BT_OK; ++i) {
        const bt_param *param = &params->items[i];
        if (param->value != param->master) {
            status = bt_tensor_copy(context, param->master, param->value);
        }
    }
    return status;
}

bt_status bt_pretrained_open(bt_context *context, const bt_pretrained *pretrained, bt_dtype compute,
                             bt_params *params, bt_gpt2 *model)
{
    bt_params_init(params, context, BT_F32, compute, 0);
    BT_TRY(bt_gpt2_init(params, &pretrained->model, model));
    return bt_pretrained_load(context, pretrained, params);
}

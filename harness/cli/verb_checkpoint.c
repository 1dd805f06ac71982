// harness/cli/verb_checkpoint.c - checkpoint list, verify, export, import
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "framework/checkpoint/hugging_face.h"
#include "harness/cli/weights.h"
#include "harness/env/build.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

// ---- list ---------------------------------------------------------------------------------------

typedef struct row {
    int64_t step;
    bool read; // info is set
    bt_checkpoint_info info;
    int64_t written_ns; // since 1970; 0: unknown
    const char *valid;  // "yes", "no", "not read"
    char reason[512];   // why it is not valid
} row;

static int64_t written_ns(const char *store, int64_t step)
{
    BT_SCOPED(bt_str) path = {0};
    struct stat info;
    bt_str_format(&path, "%s/step-%08lld/manifest.json", store, (long long)step);
    const bool there = stat(bt_str_text(&path), &info) == 0;
    return there ? (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec : 0;
}

static row describe(const bt_checkpoint_store *store, int64_t step, bool quick)
{
    row out = {.step = step, .valid = "no", .written_ns = written_ns(store->folder, step)};
    bt_checkpoint_info verified;
    bt_status status = bt_checkpoint_describe(store, step, &out.info, NULL);
    out.read = status == BT_OK;
    if (status == BT_OK && !quick) {
        status = bt_checkpoint_verify(store, step, &verified);
    }
    if (status == BT_OK) {
        out.valid = quick ? "not read" : "yes";
    } else {
        (void)snprintf(out.reason, sizeof out.reason, "%s", bt_error_message());
    }
    return out;
}

static void list_cells(const row *r, bt_table *table)
{
    bt_table_cells(table, "%lld|%s|%s|%s|%.12s|%.12s|%s", (long long)r->step,
                   r->read ? bt_format_value(BT_UNIT_BYTES, (double)r->info.size_bytes).text : "-",
                   r->written_ns ? bt_format_date(r->written_ns).text : "-",
                   r->read ? bt_format_count(r->info.tensor_count).text : "-",
                   r->read && *r->info.plan_hash ? r->info.plan_hash : "-",
                   r->read && *r->info.build ? r->info.build : "-", r->valid);
}

static void list_json(const row *r, bt_json_writer *json)
{
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_integer(json, "step", r->step);
    if (r->read) {
        BT_JSON(json, BT_KV("size_bytes", (int64_t)r->info.size_bytes),
                BT_KV("tensors", r->info.tensor_count), BT_OF(&r->info, plan_hash),
                BT_OF(&r->info, build), BT_OF(&r->info, digest));
    }
    BT_JSON(json, BT_OF(r, written_ns), BT_OF(r, valid));
    if (*r->reason) {
        bt_json_writer_text(json, "reason", r->reason);
    }
    bt_json_writer_close(json, '}');
}

// Prints a row for each step of a store, as text or JSON.
// Errors  CORRUPT_DATA: a checkpoint is not valid; all rows are printed
static bt_status list_steps(const bt_checkpoint_store *store, const int64_t *steps, int64_t count,
                            bool quick, bool as_json, bt_str *out)
{
    BT_SCOPED(bt_table) table = {0};
    BT_SCOPED(bt_str) reasons = {0};
    bt_json_writer json = {.out = out};
    int64_t damaged = 0;
    bt_table_heads(&table, ">step|>size|written|>tensors|plan|build|valid");
    if (as_json) {
        bt_json_writer_open(&json, NULL, '[');
    }
    for (int64_t i = 0; i < count; ++i) {
        const row r = describe(store, steps[i], quick);
        damaged += *r.reason != '\0';
        if (as_json) {
            list_json(&r, &json);
            continue;
        }
        list_cells(&r, &table);
        if (*r.reason) {
            bt_str_format(&reasons, "%s\n", r.reason);
        }
    }
    BT_TRY(as_json ? bt_json_writer_end(&json, ']') : bt_table_print(&table, 0, out));
    bt_str_append(out, bt_str_text(&reasons));
    BT_TRY(bt_str_status(out));
    BT_FAIL_IF(damaged > 0, BT_STATUS_CORRUPT_DATA, "%s: %lld of %lld checkpoints not valid",
               store->folder, (long long)damaged, (long long)count);
    return BT_OK;
}

// Says that a folder is no store, and names stores below it.
static bt_status say_none(const char *path, bt_str *out)
{
    BT_SCOPED(bt_str) below = {0};
    int64_t found = 0;
    BT_TRY(bt_checkpoint_stores_below(path, &below, &found));
    bt_str_format(out, "%s has no checkpoint%s%s", path,
                  found > 0 ? "; these folders below it have some:" : "", bt_str_text(&below));
    return bt_str_status(out);
}

static bt_status list(const bt_cli_arguments *arguments, const char *path, bool as_json,
                      bt_str *out)
{
    const bt_checkpoint_store store = {.folder = path};
    BT_SCOPED_MEM(int64_t *) steps = NULL;
    int64_t count = 0;
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO, "there is no folder %s", path);
    BT_TRY(bt_checkpoint_list(&store, &steps, &count));
    BT_TRY(
        list_steps(&store, steps, count, bt_cli_value(arguments, "quick") != NULL, as_json, out));
    if (count == 0 && !as_json) {
        bt_str_clear(out);
        BT_TRY(say_none(path, out));
        bt_str_append(out, "\n");
    }
    return BT_OK;
}

// ---- verify -------------------------------------------------------------------------------------

static bt_status say_valid(const bt_pretrained *from, const bt_checkpoint_info *info, bool as_json,
                           bt_str *out)
{
    bt_json_writer json = {.out = out};
    if (as_json) {
        bt_json_writer_open(&json, NULL, '{');
        BT_JSON(&json, BT_OF(from, path), BT_OF(info, step), BT_OF(info, digest));
        return bt_json_writer_end(&json, '}');
    }
    bt_str_format(out, "%s: all %s tensors, %s, match their hashes; digest %s\n", from->path,
                  bt_format_count(info->tensor_count).text,
                  bt_format_value(BT_UNIT_BYTES, (double)info->size_bytes).text, info->digest);
    return bt_str_status(out);
}

static bt_status verify_step(const char *path, bool as_json, bt_str *out)
{
    bt_pretrained from;
    int64_t step = 0;
    bt_checkpoint_info info;
    BT_TRY(bt_pretrained_step(path, &from, &step));
    const bt_checkpoint_store store = {.folder = from.store};
    BT_TRY(bt_checkpoint_verify(&store, step, &info));
    return say_valid(&from, &info, as_json, out);
}

// Verifies a checkpoint, or all of a store: reports the first damage of each.
static bt_status verify(const char *path, bool as_json, bt_str *out)
{
    const bt_checkpoint_store store = {.folder = path};
    BT_SCOPED_MEM(int64_t *) steps = NULL;
    int64_t count = 0;
    BT_SCOPED(bt_str) manifest = {0};
    bt_str_format(&manifest, "%s/manifest.json", path);
    const bool is_step = bt_file_exists(bt_str_text(&manifest));
    if (is_step) {
        return verify_step(path, as_json, out);
    }
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO, "there is no folder %s", path);
    BT_TRY(bt_checkpoint_list(&store, &steps, &count));
    if (count == 0) {
        BT_SCOPED(bt_str) none = {0};
        BT_TRY(say_none(path, &none));
        return bt_error(BT_STATUS_IO, "expected folders step-NNNNNNNN; %s", bt_str_text(&none));
    }
    return list_steps(&store, steps, count, false, as_json, out);
}

// ---- export, import -----------------------------------------------------------------------------

// A model on the CPU, and its parameters as a list of tensors.
typedef struct opened {
    bt_cli_weights weights;
    bt_state state;
} opened;

static bt_status open_model(const bt_cli_arguments *arguments, const char *path, opened *out)
{
    BT_TRY(bt_cli_model_open(arguments, path, "cpu", 0, BT_F32, &out->weights));
    return bt_pretrained_state(&out->weights.params, &out->state);
}

static void opened_release(opened *o)
{
    bt_error_quiet_begin();
    bt_state_release(&o->state);
    bt_error_quiet_end();
    bt_cli_weights_release(&o->weights);
}

static bt_status write_config(const bt_gpt2_config *model, const char *folder)
{
    const bt_hugging_face_gpt2_config config = {model->layers, model->heads, model->width,
                                                model->vocab, model->context};
    BT_SCOPED(bt_str) path = {0}, json = {0};
    bt_str_format(&path, "%s/config.json", folder);
    bt_hugging_face_gpt2_config_print(&config, &json);
    BT_TRY(bt_str_status(&path));
    BT_TRY(bt_str_status(&json));
    return bt_file_write(bt_str_text(&path), bt_str_text(&json), json.length_bytes);
}

static bt_status export_model(const bt_cli_arguments *arguments, const char *path,
                              const char *folder, bt_str *out)
{
    BT_SCOPED(opened) o = {0};
    BT_SCOPED(bt_str) file = {0};
    bt_str_format(&file, "%s/model.safetensors", folder);
    BT_TRY(bt_str_status(&file));
    BT_FAIL_IF(bt_file_exists(bt_str_text(&file)) && !bt_cli_value(arguments, "force"),
               BT_STATUS_INVALID_ARGUMENT, "%s already exists; --force replaces it",
               bt_str_text(&file));
    BT_TRY(open_model(arguments, path, &o));
    BT_TRY(bt_dir_make(folder));
    BT_TRY(bt_hugging_face_gpt2_export(&o.weights.session.context, &bt_file_ops_system,
                                       bt_str_text(&file), &o.state));
    BT_TRY(write_config(&o.weights.from.model, folder));
    bt_str_format(
        out, "%s: %s parameters of %s; config.json is in the same folder\n", bt_str_text(&file),
        bt_format_count(bt_params_element_count(&o.weights.params)).text, o.weights.from.path);
    return BT_OK;
}

static bt_status import_model(const bt_cli_arguments *arguments, const char *path,
                              const char *folder, bt_str *out)
{
    BT_SCOPED(opened) o = {0};
    bt_checkpoint_info newest;
    char digest[33];
    const bt_checkpoint_store store = {.folder = folder};
    char build[33];
    bt_build_digest(build);
    const bt_checkpoint_options options = {.build = build};
    BT_TRY(open_model(arguments, path, &o));
    BT_TRY(bt_checkpoint_newest(&store, &newest));
    BT_FAIL_IF(newest.step >= 0, BT_STATUS_INVALID_ARGUMENT,
               "%s already has checkpoints; expected a folder without checkpoints", folder);
    o.state.values = (bt_state_values){.heads = o.weights.from.model.heads};
    BT_TRY(bt_checkpoint_save(&o.weights.session.context, &store, &options, &o.state));
    BT_TRY(bt_state_digest(&o.weights.session.context, &o.state, digest));
    bt_str_format(out, "%s/step-00000000: %s parameters of %s; digest %s\n", folder,
                  bt_format_count(bt_params_element_count(&o.weights.params)).text,
                  o.weights.from.path, digest);
    return bt_str_status(out);
}

// ---- the verb -----------------------------------------------------------------------------------

bt_status bt_verb_checkpoint(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    static const struct {
        const char *action;
        bt_status (*run)(const bt_cli_arguments *, const char *, const char *, bt_str *);
    } makers[] = {{"export", export_model}, {"import", import_model}};
    const char *action = arguments->words[0];
    const char *path = arguments->words[1];
    const char *folder = bt_cli_value(arguments, "output");
    call->prints_always = true; // list and verify: also when damaged
    if (strcmp(action, "list") == 0) {
        return list(arguments, path, call->json, &call->out);
    }
    if (strcmp(action, "verify") == 0) {
        return verify(path, call->json, &call->out);
    }
    const int64_t at = BT_FIND(makers, BT_COUNT(makers), action, action);
    BT_FAIL_IF(at < 0, BT_STATUS_INVALID_ARGUMENT,
               "checkpoint %s: allowed: list, verify, export, import", action);
    return folder ? makers[at].run(arguments, path, folder, &call->out)
                  : bt_error(BT_STATUS_INVALID_ARGUMENT,
                             "checkpoint %s: -o is missing: expected a folder", action);
}

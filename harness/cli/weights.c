// harness/cli/weights.c - opens a model on a device, and its tokenizer, from options
#include "harness/cli/weights.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/train/train.h"
#include "harness/run/data.h"
#include "harness/text/format.h"

static bt_status read_device(const bt_cli_arguments *arguments, const char **backend, int *ordinal)
{
    const char *given = bt_cli_value(arguments, "device");
    int count = 0;
    *ordinal = 0;
    if (!given) {
        bt_error_quiet_begin();
        *backend = bt_device_count("cuda", &count) == BT_OK && count > 0 ? "cuda" : "cpu";
        bt_error_quiet_end();
        return BT_OK;
    }
    *backend = strncmp(given, "cuda", 4) == 0 ? "cuda" : "cpu";
    if (strcmp(given, *backend) == 0) {
        return BT_OK;
    }
    char *end = NULL;
    const long number = strncmp(given, "cuda:", 5) == 0 ? strtol(given + 5, &end, 10) : -1;
    BT_FAIL_IF(number < 0 || number > 1023 || end == given + 5 || *end, BT_STATUS_INVALID_ARGUMENT,
               "--device %s: allowed: cpu, cuda, cuda:N", given);
    *ordinal = (int)number;
    return BT_OK;
}

static bt_status read_precision(const bt_cli_arguments *arguments, const char *backend,
                                bt_precision *precision)
{
    const char *given = bt_cli_value(arguments, "precision");
    *precision = BT_PRECISION_FP32;
    BT_FAIL_IF(given && !bt_precision_parse(given, precision), BT_STATUS_INVALID_ARGUMENT,
               "--precision %s: allowed: fp32, tf32, bf16", given);
    BT_FAIL_IF(*precision == BT_PRECISION_TF32 && strcmp(backend, "cpu") == 0,
               BT_STATUS_INVALID_ARGUMENT,
               "--precision tf32 needs a GPU; on the CPU allowed: fp32, bf16");
    return BT_OK;
}

static bt_status open_tokenizer(const bt_cli_arguments *arguments, bt_cli_weights *out)
{
    BT_SCOPED_MEM(char *) path = NULL;
    const char *given = bt_cli_value(arguments, "ranks");
    BT_TRY(given ? bt_mem_strdup(given, &path) : bt_run_data_ranks(&path));
    return bt_tokenizer_load(path, given != NULL, &out->tokenizer);
}

static void say(const bt_cli_weights *weights)
{
    const bt_gpt2_config *model = &weights->from.model;
    const bt_checkpoint_info *info = &weights->from.info;
    fprintf(stderr, "%s: GPT-2, %s, %s, width %lld, %s parameters; on %s\n", weights->from.path,
            bt_format_items(model->layers, "layer").text,
            bt_format_items(model->heads, "head").text, (long long)model->width,
            bt_format_count(bt_params_element_count(&weights->params)).text,
            weights->session.device.info.name);
    if (info->skipped > 0) {
        fprintf(stderr, "%lld newer checkpoint%s not valid; the newest: %s\n",
                (long long)info->skipped, info->skipped == 1 ? " is" : "s are", info->skip_reason);
    }
}

bt_status bt_cli_model_open(const bt_cli_arguments *arguments, const char *path,
                            const char *backend, int ordinal, bt_dtype compute, bt_cli_weights *out)
{
    int64_t heads = 0;
    BT_TRY(bt_cli_number(arguments, "heads", 1, 1 << 20, 0, &heads));
    BT_TRY(bt_pretrained_find(path, heads, &out->from));
    BT_TRY(bt_session_open(backend, ordinal, 0, &out->session));
    out->session.context.tape = NULL;
    return bt_pretrained_open(&out->session.context, &out->from, compute, &out->params,
                              &out->model);
}

bt_status bt_cli_weights_check(const bt_cli_arguments *arguments)
{
    BT_FAIL_IF(!bt_cli_value(arguments, "from"), BT_STATUS_INVALID_ARGUMENT,
               "--from is missing: expected a checkpoint, a folder of checkpoints or a "
               "model.safetensors");
    return BT_OK;
}

bt_status bt_cli_weights_open(const bt_cli_arguments *arguments, bt_cli_weights *out)
{
    const char *path = bt_cli_value(arguments, "from");
    const char *backend = NULL;
    int ordinal = 0;
    bt_precision precision = BT_PRECISION_FP32;
    BT_TRY(bt_cli_weights_check(arguments));
    BT_TRY(read_device(arguments, &backend, &ordinal));
    BT_TRY(read_precision(arguments, backend, &precision));
    BT_TRY(open_tokenizer(arguments, out));
    BT_TRY(bt_cli_model_open(arguments, path, backend, ordinal,
                             precision == BT_PRECISION_BF16 ? BT_BF16 : BT_F32, out));
    out->session.context.compute =
        precision == BT_PRECISION_TF32 ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    if (!bt_cli_value(arguments, "quiet")) {
        say(out);
    }
    return BT_OK;
}

void bt_cli_weights_release(bt_cli_weights *weights)
{
    bt_error_quiet_begin();
    bt_gpt2_release(&weights->model);
    bt_params_release(&weights->params);
    bt_session_close(&weights->session);
    bt_tokenizer_destroy(weights->tokenizer);
    bt_error_quiet_end();
}

// framework/checkpoint/hugging_face_config.c - the shape of a GPT-2 model: from its tensors and
// config.json
//
// Source: transformers, models/gpt2/configuration_gpt2.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/checked.h"
#include "framework/base/mem.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/json.h"

static const char prefix[] = "transformer.";

// ---- from tensors -------------------------------------------------------------------------------

static const bt_safetensors_entry *find(const bt_safetensors *tensors, const char *name)
{
    char with_prefix[BT_SAFETENSORS_NAME_LIMIT];
    const bt_safetensors_entry *entry = bt_safetensors_find(tensors, name);
    (void)snprintf(with_prefix, sizeof with_prefix, "%s%s", prefix, name);
    return entry ? entry : bt_safetensors_find(tensors, with_prefix);
}

static bt_status read_table(const char *path, const bt_safetensors *tensors, const char *name,
                            int64_t *rows, int64_t *columns)
{
    char text[BT_SHAPE_TEXT_BYTES];
    const bt_safetensors_entry *entry = find(tensors, name);
    if (!entry) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s has no tensor %s: it is not a GPT-2 model",
                        path, name);
    }
    if (entry->shape.rank != 2 || entry->shape.size[0] < 1 || entry->shape.size[1] < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: tensor %s has the shape %s, expected two sizes from 1", path,
                        entry->name, bt_shape_text(&entry->shape, text));
    }
    *rows = entry->shape.size[0];
    *columns = entry->shape.size[1];
    return BT_OK;
}

static int64_t count_layers(const bt_safetensors *tensors)
{
    char name[64];
    int64_t layers = 0;
    do {
        (void)snprintf(name, sizeof name, "h.%lld.ln_1.weight", (long long)layers);
    } while (find(tensors, name) && ++layers);
    return layers;
}

// (vocab + context) width + layers (12 width^2 + 13 width) + 2 width; false if it overflows.
static bool count_parameters(const bt_hugging_face_gpt2_config *c, int64_t *count)
{
    int64_t tables = 0, blocks = 0, rows = 0;
    return bt_checked_add(c->vocab, c->context, &rows) &&
           bt_checked_multiply(rows, c->width, &tables) &&
           bt_checked_multiply(12, c->width, &blocks) && bt_checked_add(blocks, 13, &blocks) &&
           bt_checked_multiply(blocks, c->width, &blocks) &&
           bt_checked_multiply(blocks, c->layers, &blocks) &&
           bt_checked_add(tables, blocks, count) && bt_checked_add(*count, 2 * c->width, count);
}

bt_status bt_hugging_face_gpt2_shape(const char *path, const bt_safetensors *tensors,
                                     bt_hugging_face_gpt2_config *config)
{
    int64_t width = 0, expected = 0, got = 0;
    *config = (bt_hugging_face_gpt2_config){0};
    BT_TRY(read_table(path, tensors, "wte.weight", &config->vocab, &config->width));
    BT_TRY(read_table(path, tensors, "wpe.weight", &config->context, &width));
    config->layers = count_layers(tensors);
    if (width != config->width || config->layers == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: rows of %lld elements in wte.weight, of %lld in wpe.weight, %lld "
                        "layers: it is not a GPT-2 model",
                        path, (long long)config->width, (long long)width,
                        (long long)config->layers);
    }
    for (int64_t i = 0; i < tensors->count; ++i) {
        const bt_safetensors_entry *entry = &tensors->entries[i];
        const bool has_prefix = strncmp(entry->name, prefix, sizeof prefix - 1) == 0;
        bool transposed = false;
        if (bt_hugging_face_gpt2_row(entry->name + (has_prefix ? sizeof prefix - 1 : 0),
                                     &transposed)) {
            got += bt_shape_count(&entry->shape);
        }
    }
    if (!count_parameters(config, &expected) || got != expected) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s has %lld parameters; a GPT-2 of %lld layers, width %lld, %lld tokens "
                        "and %lld positions has %lld",
                        path, (long long)got, (long long)config->layers, (long long)config->width,
                        (long long)config->vocab, (long long)config->context, (long long)expected);
    }
    return BT_OK;
}

// ---- config.json --------------------------------------------------------------------------------

static bt_status mismatch(const char *path, const char *key, const cJSON *item,
                          const char *expected)
{
    char *given = cJSON_PrintUnformatted(item);
    bt_status status = bt_error(BT_STATUS_UNSUPPORTED, "%s: %s is %.60s, expected %s", path, key,
                                given ? given : "?", expected);
    cJSON_free(given);
    return status;
}

// Settings that change the result but not a tensor's shape. A missing key has the expected value.
static bt_status check_kind(const char *path, const cJSON *root)
{
    static const struct {
        const char *key, *expected, *other;
    } texts[] = {
        {"model_type", "gpt2", "gpt2"},
        {"activation_function", "gelu_new", "gelu_pytorch_tanh"},
    };
    static const struct {
        const char *key;
        bool expected;
    } flags[] = {
        {"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false},
        {"tie_word_embeddings", true},
        {"add_cross_attention", false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, texts[i].key);
        if (item && !(cJSON_IsString(item) && (strcmp(item->valuestring, texts[i].expected) == 0 ||
                                               strcmp(item->valuestring, texts[i].other) == 0))) {
            return mismatch(path, texts[i].key, item, texts[i].expected);
        }
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; ++i) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, flags[i].key);
        if (item && !(flags[i].expected ? cJSON_IsTrue(item) : cJSON_IsFalse(item))) {
            return mismatch(path, flags[i].key, item, flags[i].expected ? "true" : "false");
        }
    }
    const cJSON *epsilon = cJSON_GetObjectItemCaseSensitive(root, "layer_norm_epsilon");
    return epsilon && !(fabs(cJSON_GetNumberValue(epsilon) - 1e-5) <= 1e-9)
               ? mismatch(path, "layer_norm_epsilon", epsilon, "1e-05")
               : BT_OK;
}

static bt_status parse(const char *path, const cJSON *root, bt_hugging_face_gpt2_config *config)
{
    const struct {
        const char *key;
        int64_t *value; // 0: read it; else compare with the tensors
    } rows[] = {{"n_layer", &config->layers},
                {"n_head", &config->heads},
                {"n_embd", &config->width},
                {"vocab_size", &config->vocab},
                {"n_positions", &config->context}};
    BT_TRY(check_kind(path, root));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        int64_t given = 0;
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, rows[i].key);
        if (!bt_json_i64(item, &given) || given < 1) {
            return bt_error(BT_STATUS_CORRUPT_DATA,
                            "%s: %s is missing or not a whole number from 1", path, rows[i].key);
        }
        if (*rows[i].value && *rows[i].value != given) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %s is %lld, but the tensors have %lld",
                            path, rows[i].key, (long long)given, (long long)*rows[i].value);
        }
        *rows[i].value = given;
    }
    return BT_OK;
}

bt_status bt_hugging_face_gpt2_config_read(const bt_file_ops *ops, const char *path,
                                           bt_hugging_face_gpt2_config *config)
{
    enum { LIMIT_BYTES = 1 << 20 };
    void *bytes = NULL;
    size_t size_bytes = 0;
    cJSON *root = NULL;
    BT_TRY(bt_io_read_file(ops, path, LIMIT_BYTES, &bytes, &size_bytes));
    bt_status status = bt_json_read(path, bytes, size_bytes, 0, &root);
    if (status == BT_OK) {
        status = parse(path, root, config);
    }
    cJSON_Delete(root);
    bt_mem_free(bytes);
    return status;
}

void bt_hugging_face_gpt2_config_print(const bt_hugging_face_gpt2_config *config, bt_str *json)
{
    bt_str_format(json,
                  "{\n"
                  "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                  "  \"model_type\": \"gpt2\",\n"
                  "  \"activation_function\": \"gelu_new\",\n"
                  "  \"layer_norm_epsilon\": 1e-05,\n"
                  "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n  \"n_embd\": %lld,\n"
                  "  \"n_positions\": %lld,\n  \"vocab_size\": %lld,\n"
                  "  \"bos_token_id\": 50256,\n  \"eos_token_id\": 50256,\n"
                  "  \"tie_word_embeddings\": true\n"
                  "}\n",
                  (long long)config->layers, (long long)config->heads, (long long)config->width,
                  (long long)config->context, (long long)config->vocab);
}

// tests/golden/test_hugging_face.c - a GPT-2 file as transformers lays it out
// (make_safetensors.py): imported, our forward pass gives PyTorch's logits; exported, every byte of
// a tensor is the file's
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/nn/gpt2.h"
#include "tests/support/fake_disk.h"
#include "tests/support/fixture.h"
#include "tests/support/scratch.h"

static const char golden_path[] = "tests/golden/safetensors/gpt2_small.safetensors";
static const bt_file_ops *const ops = &bt_file_ops_system;

static cJSON *json;
static fixture session;
static bt_params params;
static bt_gpt2 model;
static bt_state state;

static int64_t number(const char *name)
{
    return (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, name));
}

static void open_model(int64_t more_layers, int64_t more_width)
{
    const bt_gpt2_config config = {.layers = number("layers") + more_layers,
                                   .heads = number("heads"),
                                   .width = number("width") + more_width,
                                   .vocab = number("vocab"),
                                   .context = number("context")};
    fixture_open(&session, 0);
    session.context.tape = NULL;
    bt_params_init(&params, &session.context, BT_F32, BT_F32, 1);
    ASSERT_OK(bt_gpt2_init(&params, &config, &model));
    for (int64_t i = 0; i < params.count; ++i) {
        ASSERT_OK(bt_state_add(&state, params.items[i].name, params.items[i].master));
    }
}

static void close_model(void)
{
    bt_state_release(&state);
    bt_gpt2_release(&model);
    bt_params_release(&params);
    fixture_close(&session);
}

static int setup(void **unused)
{
    (void)unused;
    void *text = NULL;
    size_t size_bytes = 0;
    (void)test_scratch_make();
    ASSERT_OK(bt_file_read("tests/golden/gpt2_small.json", &text, &size_bytes));
    json = cJSON_ParseWithLength(text, size_bytes);
    bt_mem_free(text);
    return json ? 0 : 1;
}

static int teardown(void **unused)
{
    (void)unused;
    cJSON_Delete(json);
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : 1;
}

static bt_status import(const char *path)
{
    return bt_hugging_face_gpt2_import(&session.context, ops, path, &state);
}

// The parameters are the JSON's, rounded to f32, and to bf16 if asked.
static void check_parameters(bool bf16)
{
    const cJSON *before = cJSON_GetObjectItemCaseSensitive(json, "before");
    for (int64_t i = 0; i < params.count; ++i) {
        const bt_param *param = &params.items[i];
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(before, param->name)->child;
        double *got = fixture_read(&session, param->master);
        for (int64_t j = 0; j < bt_tensor_count(param->master); ++j, value = value->next) {
            float expected = (float)value->valuedouble;
            expected = bf16 ? bt_bf16_to_f32(bt_f32_to_bf16(expected)) : expected;
            if (!(got[j] == (double)expected)) {
                fail_msg("%s, element %lld: %g, expected %g", param->name, (long long)j, got[j],
                         (double)expected);
            }
        }
        free(got);
    }
}

// eps(f32) times the 400 or so operations in a row, as in test_gpt2.c.
static void check_logits(void)
{
    const int64_t count = number("batch") * number("tokens");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(json, "ids")->child;
    const cJSON *logit = cJSON_GetObjectItemCaseSensitive(json, "logits")->child;
    int32_t *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; ++i, id = id->next) {
        values[i] = (int32_t)id->valuedouble;
    }
    bt_tensor *ids =
        fixture_values(&session, BT_I32, BT_SHAPE(number("batch"), number("tokens")), values);
    bt_tensor *logits = NULL;
    ASSERT_OK(bt_gpt2_forward(&session.context, &model, ids, &logits));
    double *actual = fixture_read(&session, logits);
    double *expected = malloc((size_t)bt_tensor_count(logits) * sizeof *expected);
    double largest = 0;
    for (int64_t i = 0; i < bt_tensor_count(logits); ++i, logit = logit->next) {
        expected[i] = logit->valuedouble;
        largest = fmax(largest, fabs(expected[i]));
    }
    test_assert_close(actual, expected, bt_tensor_count(logits), 5e-5 * largest, 0, "logits");
    free(expected);
    free(actual);
    free(values);
    bt_tensor_release(logits);
    bt_tensor_release(ids);
}

static void imported(void **unused)
{
    (void)unused;
    open_model(0, 0);
    ASSERT_OK(import(golden_path));
    check_parameters(false);
    check_logits();
    close_model();
}

static void exported(void **unused)
{
    (void)unused;
    void *bytes[2] = {NULL};
    size_t size_bytes[2] = {0};
    bt_safetensors files[2];
    bt_tensor *moment = NULL;
    open_model(0, 0);
    ASSERT_OK(import(golden_path));
    ASSERT_OK(bt_tensor_zeros(&session.context, BT_F64, BT_SHAPE(3), "m", &moment));
    ASSERT_OK(bt_state_add(&state, "m.wte.weight", moment)); // stays at home
    const char *path = test_scratch_path("model.safetensors");
    ASSERT_OK(bt_hugging_face_gpt2_export(&session.context, ops, path, &state));
    ASSERT_OK(bt_hugging_face_gpt2_export(&session.context, ops, path, &state)); // over itself
    assert_int_equal(test_scratch_count(""), 1);
    const char *paths[] = {golden_path, path};
    for (int i = 0; i < 2; ++i) {
        ASSERT_OK(bt_file_read(paths[i], &bytes[i], &size_bytes[i]));
        ASSERT_OK(
            bt_safetensors_parse(paths[i], bytes[i], size_bytes[i], size_bytes[i], &files[i]));
    }
    assert_int_equal(files[1].count, params.count);
    for (int64_t i = 0; i < files[1].count; ++i) {
        const bt_safetensors_entry *ours = &files[1].entries[i];
        const bt_safetensors_entry *theirs = bt_safetensors_find(&files[0], ours->name);
        assert_non_null(theirs);
        assert_int_equal(theirs->dtype, ours->dtype);
        assert_true(bt_shape_equal(&theirs->shape, &ours->shape));
        assert_memory_equal((char *)bytes[0] + theirs->offset_bytes,
                            (char *)bytes[1] + ours->offset_bytes, (size_t)ours->size_bytes);
    }
    assert_non_null(strstr((char *)bytes[1] + 8, "{\"__metadata__\":{\"format\":\"pt\"}"));
    for (int i = 0; i < 2; ++i) {
        bt_safetensors_release(&files[i]);
        bt_mem_free(bytes[i]);
    }
    state.tensors[state.count - 1] = (bt_state_tensor){"wpe.weight", moment};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "wpe.weight is of type f64, expected f32",
                 bt_hugging_face_gpt2_export(&session.context, ops, path, &state));
    bt_tensor_release(moment);
    close_model();
}

// The golden file in bf16 without the prefix, masks and head, as others publish it.
static const char *write_bare_bf16(void)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    bt_safetensors file;
    bt_safetensors_entry entries[64];
    bt_str head = {0};
    uint64_t file_bytes = 0;
    int64_t count = 0;
    ASSERT_OK(bt_file_read(golden_path, &bytes, &size_bytes));
    ASSERT_OK(bt_safetensors_parse("golden", bytes, size_bytes, size_bytes, &file));
    for (int64_t i = 0; i < file.count; ++i) {
        bool transposed = false;
        char *name = file.entries[i].name + strlen("transformer.");
        if (file.entries[i].dtype == BT_F32 && bt_hugging_face_gpt2_row(name, &transposed)) {
            entries[count++] = (bt_safetensors_entry){
                .name = name, .dtype = BT_BF16, .shape = file.entries[i].shape, .index = i};
        }
    }
    ASSERT_OK(bt_safetensors_head(entries, count, NULL, 8, &head, &file_bytes));
    for (int64_t i = 0; i < count; ++i) {
        for (uint64_t j = 0; j < entries[i].size_bytes / 2; ++j) {
            float wide;
            memcpy(&wide, (char *)bytes + file.entries[entries[i].index].offset_bytes + 4 * j, 4);
            uint16_t narrow = bt_f32_to_bf16(wide);
            bt_str_append_bytes(&head, &narrow, sizeof narrow);
        }
    }
    const char *path = test_scratch_write("bare.safetensors", head.text, head.length_bytes);
    bt_str_release(&head);
    bt_safetensors_release(&file);
    bt_mem_free(bytes);
    return path;
}

static void bare_bf16(void **unused)
{
    (void)unused;
    open_model(0, 0);
    ASSERT_OK(import(write_bare_bf16()));
    check_parameters(true);
    close_model();
}

static void refused(void **unused)
{
    (void)unused;
    char before[33];
    char after[33];
    open_model(1, 0);
    ASSERT_OK(bt_state_digest(&session.context, &state, before));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has no tensor h.2.ln_1.weight", import(golden_path));
    ASSERT_OK(bt_state_digest(&session.context, &state, after));
    assert_string_equal(before, after);
    state.count = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the state has no parameter", import(golden_path));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the state has no parameter",
                 bt_hugging_face_gpt2_export(&session.context, ops, "/tmp/none", &state));
    close_model();
    open_model(-1, 0);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "tensor transformer.h.1.attn.c_attn.bias is not a parameter of the model",
                 import(golden_path));
    close_model();
    open_model(0, 2);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "transformer.wte.weight has the shape [13, 8], expected [13, 10]",
                 import(golden_path));
    close_model();
    // A separate output head.
    void *bytes = NULL;
    size_t size_bytes = 0;
    bt_safetensors file;
    open_model(0, 0);
    ASSERT_OK(bt_file_read(golden_path, &bytes, &size_bytes));
    ASSERT_OK(bt_safetensors_parse("golden", bytes, size_bytes, size_bytes, &file));
    const bt_safetensors_entry *head = bt_safetensors_find(&file, "lm_head.weight");
    ((unsigned char *)bytes)[head->offset_bytes + head->size_bytes - 1] ^= 1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "only models with a tied head are supported",
                 import(test_scratch_write("untied.safetensors", bytes, size_bytes)));
    bt_safetensors_release(&file);
    bt_mem_free(bytes);
    close_model();
}

static void every_operation_of_an_export_fails(void **unused)
{
    (void)unused;
    open_model(0, 0);
    bool came = true;
    for (int64_t n = 1; came; ++n) {
        fake_disk *disk = fake_disk_make();
        size_t size_bytes = 0;
        fake_disk_fail(disk, n, EIO, false);
        bt_status status = bt_hugging_face_gpt2_export(&session.context, fake_disk_ops(disk),
                                                       "/model.safetensors", &state);
        came = fake_disk_failed(disk) != NULL;
        bool there = fake_disk_bytes(disk, "/model.safetensors", &size_bytes) != NULL;
        assert_null(fake_disk_bytes(disk, "/model.safetensors.tmp", &size_bytes));
        // Removing what is not there, and closing a folder, may fail.
        assert_true(status == BT_OK ? there : status == BT_STATUS_IO && came);
        assert_int_equal(fake_disk_open_count(disk), 0);
        assert_true(n < 100);
        fake_disk_free(disk);
    }
    close_model();
}

static void names(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        bool row, transposed;
    } cases[] = {{"wte.weight", true, false},
                 {"wte.weights", false, false},
                 {"wte", false, false},
                 {"h.0.attn.c_attn.weight", true, true},
                 {"h.11.mlp.c_proj.weight", true, true},
                 {"h.11.mlp.c_proj.bias", true, false},
                 {"h..mlp.c_proj.bias", false, false},
                 {"h.x.mlp.c_proj.bias", false, false},
                 {"h.1.ln_2.weight", true, false},
                 {"ln_f.bias", true, false},
                 {"h.0.attn.bias", false, false},
                 {"", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        bool transposed = false;
        assert_int_equal(bt_hugging_face_gpt2_row(cases[i].name, &transposed), cases[i].row);
        assert_int_equal(transposed, cases[i].transposed);
    }
}

static void config(void **unused)
{
    (void)unused;
    bt_str text = {0};
    bt_hugging_face_gpt2_config_print(
        &(bt_hugging_face_gpt2_config){
            .layers = 12, .heads = 11, .width = 768, .vocab = 50304, .context = 1024},
        &text);
    cJSON *read = cJSON_Parse(bt_str_text(&text));
    static const struct {
        const char *key;
        double value;
    } rows[] = {{"n_layer", 12},       {"n_head", 11},        {"n_embd", 768},
                {"vocab_size", 50304}, {"n_positions", 1024}, {"layer_norm_epsilon", 1e-5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(read, rows[i].key);
        assert_true(cJSON_IsNumber(item) && item->valuedouble == rows[i].value);
    }
    cJSON_Delete(read);
    bt_str_release(&text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(imported), TEST(exported), TEST(bare_bf16),
        TEST(refused),  TEST(names),    TEST(every_operation_of_an_export_fails),
        TEST(config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

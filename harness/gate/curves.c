// harness/gate/curves.c - packs loss curves as text, and unpacks them
#include "harness/gate/curves.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "framework/base/scoped.h"

enum { DIGITS = 8, LEVEL = 9 }; // hex digits of a float in older documents; of zstd

#define BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING

// ---- packing -----------------------------------------------------------------------------------

static uint32_t bits_at(const bt_loss_curve *curve, int64_t step)
{
    return bt_loss_bits(curve->steps[step].loss);
}

// The value with which the bits of a step are combined: that of the reference, else of the step
// before.
static uint32_t mask_at(const bt_loss_curve *reference, const bt_loss_curve *curve, int64_t step)
{
    if (reference) {
        return bits_at(reference, step);
    }
    return step > 0 ? bits_at(curve, step - 1) : 0;
}

static const bt_loss_curve *reference_of(const bt_loss_curve *first, int64_t index, int64_t count)
{
    return index > 0 && first->count == count ? first : NULL;
}

static bt_status append_base64(const void *bytes, size_t size_bytes, bt_str *out)
{
    size_t room = sodium_base64_encoded_len(size_bytes, BASE64);
    BT_SCOPED_MEM(void *) text = NULL;
    BT_TRY(bt_mem_alloc(room, 1, &text));
    sodium_bin2base64(text, room, bytes, size_bytes, BASE64);
    bt_str_append(out, text);
    return bt_str_status(out);
}

static bt_status compress_planes(const uint8_t *planes, size_t size_bytes, bt_str *out)
{
    size_t room = ZSTD_compressBound(size_bytes);
    BT_SCOPED_MEM(void *) packed = NULL;
    BT_TRY(bt_mem_alloc(room, 1, &packed));
    size_t length = ZSTD_compress(packed, room, planes, size_bytes, LEVEL);
    return ZSTD_isError(length)
               ? bt_error(BT_STATUS_OUT_OF_MEMORY, "a loss curve cannot be packed: %s",
                          ZSTD_getErrorName(length))
               : append_base64(packed, length, out);
}

static bt_status pack(const bt_loss_curve *reference, const bt_loss_curve *curve, bt_str *out)
{
    size_t count = (size_t)curve->count;
    BT_SCOPED_MEM(uint8_t *) planes = NULL;
    BT_TRY(BT_MEM_ARRAY(count * sizeof(uint32_t), &planes));
    for (size_t i = 0; i < count; ++i) {
        uint32_t word = bits_at(curve, (int64_t)i) ^ mask_at(reference, curve, (int64_t)i);
        for (size_t plane = 0; plane < sizeof word; ++plane) {
            planes[plane * count + i] = (uint8_t)(word >> (8 * plane));
        }
    }
    return compress_planes(planes, count * sizeof(uint32_t), out);
}

static void take_planes(const uint8_t *planes, const bt_loss_curve *reference, bt_store_step *steps,
                        size_t count)
{
    const bt_loss_curve curve = {.steps = steps, .count = (int64_t)count};
    for (size_t i = 0; i < count; ++i) {
        uint32_t word = mask_at(reference, &curve, (int64_t)i);
        for (size_t plane = 0; plane < sizeof word; ++plane) {
            word ^= (uint32_t)planes[plane * count + i] << (8 * plane);
        }
        memcpy(&steps[i].loss, &word, sizeof word);
    }
}

// Unpacks the text into `count` steps; false if it is invalid.
static bt_status unpack(const char *text, const bt_loss_curve *reference, bt_store_step *steps,
                        size_t count, bool *right)
{
    BT_SCOPED_MEM(uint8_t *) packed = NULL;
    BT_SCOPED_MEM(uint8_t *) planes = NULL;
    size_t length = strlen(text), packed_bytes = 0, size_bytes = count * sizeof(uint32_t);
    BT_TRY(BT_MEM_ARRAY(length + 1, &packed));
    BT_TRY(BT_MEM_ARRAY(size_bytes, &planes));
    *right =
        sodium_base642bin(packed, length, text, length, NULL, &packed_bytes, NULL, BASE64) == 0 &&
        ZSTD_decompress(planes, size_bytes, packed, packed_bytes) == size_bytes;
    if (*right) {
        take_planes(planes, reference, steps, count);
    }
    return BT_OK;
}

// ---- writing -----------------------------------------------------------------------------------

static bool tokens_are_equal(const bt_loss_curve *curve)
{
    bool equal = true;
    for (int64_t i = 1; i < curve->count; ++i) {
        equal = equal && curve->steps[i].tokens == curve->steps[0].tokens;
    }
    return equal;
}

static void write_tokens(const bt_loss_curve *curve, bt_json_writer *json)
{
    if (tokens_are_equal(curve)) {
        bt_json_writer_integer(json, "tokens", curve->steps[0].tokens);
        return;
    }
    BT_JSON_LIST(json, "tokens", i, curve->count) {
        bt_json_writer_integer(json, NULL, curve->steps[i].tokens);
    }
}

// Sources of the curves after the side's own, in this order.
static const char *const sources[] = {"", "permuted", "seed"};

static const char *source_of(const bt_gate_side *side, int64_t index)
{
    return sources[(index >= side->own_count) + (index >= side->data_count)];
}

static bt_status write_curve(const bt_loss_curve *reference, const bt_loss_curve *curve,
                             const char *source, bt_json_writer *json)
{
    BT_SCOPED(bt_str) bits = {0};
    for (int64_t i = 0; i < curve->count; ++i) {
        BT_FAIL_IF(curve->steps[i].step != i, BT_STATUS_UNSUPPORTED,
                   "the steps of a loss curve must be 0, 1, 2 and so on without a gap");
    }
    bt_status status = pack(reference, curve, &bits);
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "bits", bt_str_text(&bits));
    if (*source) {
        bt_json_writer_text(json, "of", source);
    }
    BT_JSON(json, BT_KV("parameters", curve->params_digest), BT_OF(curve, rounds),
            BT_KV("steps", curve->count));
    write_tokens(curve, json);
    bt_json_writer_close(json, '}');
    return status;
}

bt_status bt_document_write_curves(const bt_gate_side *side, bt_json_writer *json)
{
    if (side->curve_count == 0) {
        return BT_OK;
    }
    BT_JSON_LIST(json, "losses", i, side->curve_count) {
        const bt_loss_curve *curve = &side->curves[i];
        BT_TRY(write_curve(reference_of(&side->curves[0], i, curve->count), curve,
                           source_of(side, i), json));
    }
    return BT_OK;
}

// ---- reading -----------------------------------------------------------------------------------

static bt_status read_tokens(bt_document *in, const cJSON *object, bt_store_step *steps,
                             int64_t count)
{
    const cJSON *node = bt_json_get(object, "tokens");
    const double *each = NULL;
    int64_t given = 1;
    if (cJSON_IsArray(node)) {
        BT_TRY(bt_document_numbers(in, node, "tokens", &each, &given));
        if (given != count) {
            return bt_json_error(in->json, node, BT_JSON_VALUE,
                                 "\"tokens\" has %lld numbers for %lld steps", (long long)given,
                                 (long long)count);
        }
    }
    double all = 0;
    if (!each) {
        BT_TRY(bt_document_number(in, object, "tokens", 0, 1e15, &all));
    }
    for (int64_t i = 0; i < count; ++i) {
        steps[i].step = i;
        steps[i].tokens = (int64_t)(each ? each[i] : all);
    }
    return BT_OK;
}

// Eight hex digits per step.
static bt_status read_digits(bt_document *in, const cJSON *object, const char *text,
                             bt_store_step *steps)
{
    size_t length = strlen(text);
    if (length == 0 || length % DIGITS || strspn(text, "0123456789abcdef") != length) {
        return bt_json_error(in->json, bt_json_get(object, "bits"), BT_JSON_VALUE,
                             "\"bits\" must be %d hex digits a step", (int)DIGITS);
    }
    for (size_t i = 0; i < length / DIGITS; ++i) {
        char digits[DIGITS + 1] = {0};
        memcpy(digits, text + DIGITS * i, DIGITS);
        uint32_t word = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&steps[i].loss, &word, sizeof word);
    }
    return BT_OK;
}

// `first`: first curve of the side, NULL while reading it.
static bt_status read_bits(bt_document *in, const cJSON *object, const bt_loss_curve *first,
                           bt_loss_curve *out)
{
    const char *text = "";
    double steps_given = 0;
    bool packed = bt_json_get(object, "steps") != NULL, right = true;
    BT_TRY(bt_document_text(in, object, "bits", &text));
    if (packed) {
        BT_TRY(bt_document_number(in, object, "steps", 1, BT_GATE_STEPS_MAX, &steps_given));
    }
    out->count = packed ? (int64_t)steps_given : (int64_t)(strlen(text) / DIGITS);
    bt_store_step *steps = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, out->count, &steps));
    if (packed) {
        BT_TRY(unpack(text, first ? reference_of(first, 1, out->count) : NULL, steps,
                      (size_t)out->count, &right));
    } else {
        BT_TRY(read_digits(in, object, text, steps));
    }
    if (!right) {
        return bt_json_error(in->json, bt_json_get(object, "bits"), BT_JSON_VALUE,
                             "\"bits\" is not a packed curve of %lld steps", (long long)out->count);
    }
    out->steps = steps;
    return read_tokens(in, object, steps, out->count);
}

// The source of a curve; sources come in a fixed order.
static bt_status read_source(bt_document *in, const cJSON *object, size_t *at)
{
    const char *word = NULL;
    BT_TRY(bt_document_text_if(in, object, "of", &word));
    for (size_t i = *at; i < sizeof sources / sizeof sources[0]; ++i) {
        if (strcmp(word, sources[i]) == 0) {
            *at = i;
            return BT_OK;
        }
    }
    return bt_json_error(in->json, object, BT_JSON_VALUE,
                         "a curve of \"%s\" is out of order: expected the case's own curves first, "
                         "then \"permuted\", then \"seed\"",
                         word);
}

bt_status bt_document_read_curves(bt_document *in, const cJSON *object, bt_gate_side *out)
{
    const cJSON *list = NULL;
    bt_loss_curve *curves = NULL;
    size_t source = 0;
    out->own_count = out->data_count = out->curve_count = 0;
    if (!bt_json_get(object, "losses")) {
        return BT_OK;
    }
    BT_TRY(bt_document_member(in, object, "losses", true, &list));
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(list), &curves));
    for (const cJSON *node = list->child; node; node = node->next) {
        bt_loss_curve *curve = &curves[out->curve_count];
        double rounds = 0;
        BT_TRY(read_source(in, node, &source));
        BT_TRY(read_bits(in, node, out->curve_count ? curves : NULL, curve));
        BT_TRY(bt_document_text(in, node, "parameters", &curve->params_digest));
        BT_TRY(bt_document_number(in, node, "rounds", 1, 1e6, &rounds));
        curve->rounds = (int64_t)rounds;
        ++out->curve_count;
        out->own_count += source == 0;
        out->data_count += source <= 1;
    }
    out->curves = curves;
    if (out->curve_count > 0 && out->own_count == 0) {
        return bt_json_error(in->json, list, BT_JSON_VALUE,
                             "\"losses\" has no curve of the case's own rounds");
    }
    return BT_OK;
}

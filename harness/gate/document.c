// harness/gate/document.c - pieces of JSON that baselines and rules share
#include "harness/gate/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"

// ---- reading -----------------------------------------------------------------------------------

bt_status bt_document_copy(bt_document *in, const char *text, const char **out)
{
    void *copy = NULL;
    size_t size_bytes = strlen(text) + 1;
    BT_TRY(bt_arena_alloc(in->arena, size_bytes, &copy));
    memcpy(copy, text, size_bytes);
    *out = copy;
    return BT_OK;
}

static bt_status lacks(bt_document *in, const cJSON *object, const char *key, const char *expected)
{
    const cJSON *node = bt_json_get(object, key);
    return node ? bt_json_error(in->json, node, BT_JSON_VALUE, "\"%s\" must be %s, not %s", key,
                                expected, bt_json_type_name(node))
                : bt_json_error(in->json, object, BT_JSON_VALUE, "the key \"%s\" is missing", key);
}

bt_status bt_document_text(bt_document *in, const cJSON *object, const char *key, const char **out)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsString(node) ? bt_document_copy(in, node->valuestring, out)
                                : lacks(in, object, key, "a text");
}

bt_status bt_document_text_if(bt_document *in, const cJSON *object, const char *key,
                              const char **out)
{
    *out = "";
    return bt_json_get(object, key) ? bt_document_text(in, object, key, out) : BT_OK;
}

bt_status bt_document_member(bt_document *in, const cJSON *object, const char *key, bool list,
                             const cJSON **out)
{
    *out = bt_json_get(object, key);
    bool right = list ? cJSON_IsArray(*out) : cJSON_IsObject(*out);
    return right ? BT_OK : lacks(in, object, key, list ? "a list" : "an object");
}

bt_status bt_document_number(bt_document *in, const cJSON *object, const char *key, double minimum,
                             double maximum, double *out)
{
    const cJSON *node = bt_json_get(object, key);
    if (!cJSON_IsNumber(node)) {
        return lacks(in, object, key, "a number");
    }
    *out = node->valuedouble;
    if (!(*out >= minimum && *out <= maximum)) {
        return bt_json_error(in->json, node, BT_JSON_VALUE, "\"%s\" is %g; allowed: %g to %g", key,
                             *out, minimum, maximum);
    }
    return BT_OK;
}

bt_status bt_document_numbers(bt_document *in, const cJSON *list, const char *key,
                              const double **out, int64_t *count)
{
    void *block = NULL;
    if (!cJSON_IsArray(list)) {
        return bt_json_error(in->json, list, BT_JSON_VALUE, "\"%s\" must be a list, not %s", key,
                             bt_json_type_name(list));
    }
    BT_TRY(bt_arena_alloc(in->arena, (size_t)cJSON_GetArraySize(list) * sizeof(double), &block));
    double *values = block;
    *count = 0;
    for (const cJSON *node = list->child; node; node = node->next) {
        if (!cJSON_IsNumber(node) || !(node->valuedouble > 0)) {
            return bt_json_error(in->json, node, BT_JSON_VALUE,
                                 "\"%s\" holds numbers above 0, nothing else", key);
        }
        values[(*count)++] = node->valuedouble;
    }
    *out = values;
    return BT_OK;
}

// ---- curves ------------------------------------------------------------------------------------

enum { DIGITS = 8 }; // hex digits of a float

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
    bt_json_writer_open(json, "tokens", '[');
    for (int64_t i = 0; i < curve->count; ++i) {
        bt_json_writer_integer(json, NULL, curve->steps[i].tokens);
    }
    bt_json_writer_close(json, ']');
}

// What curves behind the side's own are of, in this order.
static const char *const sources[] = {"", "permuted", "seed"};

static const char *source_of(const bt_gate_side *side, int64_t index)
{
    return sources[(index >= side->own_count) + (index >= side->data_count)];
}

static bt_status write_curve(const bt_loss_curve *curve, const char *source, int64_t rounds,
                             bt_json_writer *json)
{
    bt_str bits = {0};
    for (int64_t i = 0; i < curve->count; ++i) {
        uint32_t word = 0;
        memcpy(&word, &curve->steps[i].loss, sizeof word);
        bt_str_format(&bits, "%08x", (unsigned)word);
        if (curve->steps[i].step != i) {
            bt_str_release(&bits);
            return bt_error(BT_STATUS_UNSUPPORTED,
                            "the steps of a loss curve do not count from 0 without a gap");
        }
    }
    bt_status status = bt_str_status(&bits);
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "bits", bt_str_text(&bits));
    if (*source) {
        bt_json_writer_text(json, "of", source);
    }
    bt_json_writer_text(json, "parameters", curve->params_digest);
    bt_json_writer_integer(json, "rounds", rounds);
    write_tokens(curve, json);
    bt_json_writer_close(json, '}');
    bt_str_release(&bits);
    return status;
}

bt_status bt_document_write_curves(const bt_gate_side *side, bt_json_writer *json)
{
    if (side->curve_count == 0) {
        return BT_OK;
    }
    bt_json_writer_open(json, "losses", '[');
    for (int64_t i = 0; i < side->curve_count; ++i) {
        BT_TRY(write_curve(&side->curves[i], source_of(side, i), side->curve_rounds[i], json));
    }
    bt_json_writer_close(json, ']');
    return BT_OK;
}

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

static bt_status read_bits(bt_document *in, const cJSON *object, bt_loss_curve *out)
{
    const char *text = "";
    void *block = NULL;
    BT_TRY(bt_document_text(in, object, "bits", &text));
    size_t length = strlen(text);
    if (length == 0 || length % DIGITS || strspn(text, "0123456789abcdef") != length) {
        return bt_json_error(in->json, bt_json_get(object, "bits"), BT_JSON_VALUE,
                             "\"bits\" must be %d hex digits a step", (int)DIGITS);
    }
    out->count = (int64_t)(length / DIGITS);
    BT_TRY(bt_arena_alloc(in->arena, (size_t)out->count * sizeof(bt_store_step), &block));
    bt_store_step *steps = block;
    for (int64_t i = 0; i < out->count; ++i) {
        char digits[DIGITS + 1] = {0};
        memcpy(digits, text + DIGITS * i, DIGITS);
        uint32_t word = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&steps[i].loss, &word, sizeof word);
    }
    out->steps = steps;
    return read_tokens(in, object, steps, out->count);
}

// Which of the sources a curve has; behind one it cannot be of an earlier one.
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
                         "a curve of \"%s\" cannot stand here: own ones come first, then "
                         "\"permuted\", then \"seed\"",
                         word);
}

bt_status bt_document_read_curves(bt_document *in, const cJSON *object, bt_gate_side *out)
{
    const cJSON *list = NULL;
    void *curve_block = NULL, *round_block = NULL;
    size_t source = 0;
    out->own_count = out->data_count = out->curve_count = 0;
    if (!bt_json_get(object, "losses")) {
        return BT_OK;
    }
    BT_TRY(bt_document_member(in, object, "losses", true, &list));
    size_t room = (size_t)cJSON_GetArraySize(list);
    BT_TRY(bt_arena_alloc(in->arena, room * sizeof(bt_loss_curve), &curve_block));
    BT_TRY(bt_arena_alloc(in->arena, room * sizeof(int64_t), &round_block));
    bt_loss_curve *curves = curve_block;
    int64_t *rounds = round_block;
    for (const cJSON *node = list->child; node; node = node->next) {
        double count = 0;
        BT_TRY(read_source(in, node, &source));
        BT_TRY(read_bits(in, node, &curves[out->curve_count]));
        BT_TRY(bt_document_text(in, node, "parameters", &curves[out->curve_count].params_digest));
        BT_TRY(bt_document_number(in, node, "rounds", 1, 1e6, &count));
        rounds[out->curve_count++] = (int64_t)count;
        out->own_count += source == 0;
        out->data_count += source <= 1;
    }
    out->curves = curves;
    out->curve_rounds = rounds;
    if (out->curve_count > 0 && out->own_count == 0) {
        return bt_json_error(in->json, list, BT_JSON_VALUE,
                             "\"losses\" has no curve of the case's own rounds");
    }
    return BT_OK;
}

// ---- form --------------------------------------------------------------------------------------

static int by_key(const void *left, const void *right)
{
    const cJSON *const *a = left;
    const cJSON *const *b = right;
    return strcmp((*a)->string, (*b)->string);
}

static bool is_flat(const cJSON *node)
{
    bool flat = !cJSON_IsObject(node);
    for (const cJSON *child = node->child; child && flat; child = child->next) {
        flat = !cJSON_IsObject(child) && !cJSON_IsArray(child);
    }
    return flat || !node->child;
}

static void format_node(const cJSON *node, int depth, bt_str *out)
{
    if (is_flat(node)) {
        bt_json_write(node, out);
        return;
    }
    size_t count = (size_t)cJSON_GetArraySize(node);
    void *block = NULL;
    if (bt_mem_alloc(count, sizeof(cJSON *), &block) != BT_OK) {
        out->status = out->status == BT_OK ? BT_STATUS_OUT_OF_MEMORY : out->status;
        return;
    }
    const cJSON **members = block;
    size_t filled = 0;
    for (const cJSON *child = node->child; child; child = child->next) {
        members[filled++] = child;
    }
    bool object = cJSON_IsObject(node);
    if (object) {
        qsort((void *)members, count, sizeof(cJSON *), by_key);
    }
    bt_str_append(out, object ? "{\n" : "[\n");
    for (size_t i = 0; i < count; ++i) {
        bt_str_format(out, "%*s", 2 * (depth + 1), "");
        if (object) {
            bt_json_string(members[i]->string, out);
            bt_str_append(out, ": ");
        }
        format_node(members[i], depth + 1, out);
        bt_str_append(out, i + 1 < count ? ",\n" : "\n");
    }
    bt_str_format(out, "%*s%c", 2 * depth, "", object ? '}' : ']');
    bt_mem_free(block);
}

void bt_document_format(const cJSON *root, bt_str *out)
{
    format_node(root, 0, out);
    bt_str_append(out, "\n");
}

// harness/suite/json.c - strict scanner, positions, canonical writer
#include "harness/suite/json.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/utf8.h"

typedef struct scanner {
    bt_json_doc *json;
    const char *text;
    size_t at, size_bytes;
    int depth;
} scanner;

// ---- memory ------------------------------------------------------------------------------------

static void *hook_alloc(size_t size_bytes)
{
    void *block = NULL;
    return bt_mem_alloc(1, size_bytes, &block) == BT_OK ? block : NULL;
}

static void hook_install(void)
{
    cJSON_Hooks hooks = {hook_alloc, bt_mem_free};
    cJSON_InitHooks(&hooks);
}

void bt_json_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, hook_install);
}

// ---- places and messages -----------------------------------------------------------------------

static void append_place(const bt_json_doc *json, size_t offset, bt_str *out)
{
    int64_t line = 1, column = 1;
    for (size_t i = 0; i < offset && json->text[i]; ++i) {
        if (json->text[i] == '\n') {
            ++line;
            column = 1;
        } else if (((unsigned char)json->text[i] & 0xc0U) != 0x80U) {
            ++column;
        }
    }
    bt_str_format(out, "%s:%lld:%lld", json->name, (long long)line, (long long)column);
}

// Preorder number of `node` under `root`, or -1; *next counts the nodes passed.
static int64_t preorder(const cJSON *root, const cJSON *node, int64_t *next)
{
    int64_t mine = (*next)++;
    if (root == node) {
        return mine;
    }
    for (const cJSON *child = root->child; child; child = child->next) {
        int64_t found = preorder(child, node, next);
        if (found >= 0) {
            return found;
        }
    }
    return -1;
}

// "name:line:column" of a node.
static void place_of(const bt_json_doc *json, const cJSON *node, bt_json_part part, bt_str *out)
{
    int64_t next = 0;
    int64_t index = node && json->root ? preorder(json->root, node, &next) : -1;
    if (index < 0 || index >= json->count) {
        bt_str_append(out, json->name);
        return;
    }
    append_place(json, json->offsets[2 * index + (part == BT_JSON_VALUE)], out);
}

bt_status bt_json_error(const bt_json_doc *json, const cJSON *node, bt_json_part part,
                        const char *format, ...)
{
    char message[BT_ERROR_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    BT_SCOPED(bt_str) place = {0};
    place_of(json, node, part, &place);
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %s", bt_str_text(&place), message);
}

static bt_status refuse_at(const scanner *scan, size_t offset, const char *what)
{
    BT_SCOPED(bt_str) place = {0};
    append_place(scan->json, offset, &place);
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %s", bt_str_text(&place), what);
}

static bt_status refuse(const scanner *scan, const char *what)
{
    return refuse_at(scan, scan->at,
                     scan->at >= scan->size_bytes ? "the text ends too early" : what);
}

// ---- the scanner -------------------------------------------------------------------------------

static int peek(const scanner *scan)
{
    return scan->at < scan->size_bytes ? (unsigned char)scan->text[scan->at] : -1;
}

static void skip_blanks(scanner *scan)
{
    while (scan->at < scan->size_bytes && strchr(" \t\r\n", scan->text[scan->at]) &&
           scan->text[scan->at]) {
        ++scan->at;
    }
}

static bt_status note(scanner *scan, size_t key_offset, size_t value_offset)
{
    bt_json_doc *json = scan->json;
    if (json->count == json->capacity) {
        int64_t capacity = json->capacity ? 2 * json->capacity : 64;
        void *block = json->offsets;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, 2 * sizeof *json->offsets));
        json->offsets = block;
        json->capacity = capacity;
    }
    json->offsets[2 * json->count] = (uint32_t)key_offset;
    json->offsets[2 * json->count + 1] = (uint32_t)value_offset;
    ++json->count;
    return BT_OK;
}

// Four hex digits after "\u"; -1 if they are missing.
static int32_t hex4(scanner *scan)
{
    int32_t code = 0;
    for (int i = 0; i < 4; ++i, ++scan->at) {
        int digit = peek(scan);
        int value = digit >= '0' && digit <= '9'   ? digit - '0'
                    : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                    : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                   : -1;
        if (value < 0) {
            return -1;
        }
        code = code * 16 + value;
    }
    return code;
}

static bt_status scan_escape(scanner *scan)
{
    size_t start = scan->at++;
    int mark = peek(scan);
    if (mark < 0 || !mark || !strchr("\"\\/bfnrtu", mark)) {
        return refuse(scan, "unknown escape; allowed: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    }
    ++scan->at;
    if (mark != 'u') {
        return BT_OK;
    }
    int32_t code = hex4(scan);
    if (code < 0) {
        return refuse(scan, "\\u needs four hexadecimal digits");
    }
    if (code >= 0xd800 && code < 0xdc00 && peek(scan) == '\\' && scan->at + 1 < scan->size_bytes &&
        scan->text[scan->at + 1] == 'u') {
        scan->at += 2;
        int32_t low = hex4(scan);
        return low >= 0xdc00 && low < 0xe000 ? BT_OK
                                             : refuse_at(scan, start, "half a surrogate pair");
    }
    if (code >= 0xd800 && code < 0xe000) {
        return refuse_at(scan, start, "half a surrogate pair");
    }
    return code ? BT_OK : refuse_at(scan, start, "\\u0000 is not allowed in a text");
}

static bt_status scan_string(scanner *scan)
{
    size_t start = scan->at++;
    for (int byte = peek(scan); byte != '"'; byte = peek(scan)) {
        if (byte < 0) {
            return refuse_at(scan, start, "this text has no closing quote");
        }
        if (byte < 0x20) {
            return refuse(scan, "a line break or control character inside of a text");
        }
        if (byte == '\\') {
            BT_TRY(scan_escape(scan));
            continue;
        }
        size_t length = bt_utf8_length(scan->text + scan->at); // the text ends with a zero byte
        if (!length) {
            return refuse(scan, "not UTF-8");
        }
        scan->at += length;
    }
    ++scan->at;
    return BT_OK;
}

static void skip_digits(scanner *scan)
{
    while (peek(scan) >= '0' && peek(scan) <= '9') {
        ++scan->at;
    }
}

static bool is_digit(const scanner *scan) { return peek(scan) >= '0' && peek(scan) <= '9'; }

static bt_status scan_number(scanner *scan)
{
    size_t start = scan->at;
    scan->at += peek(scan) == '-';
    if (!is_digit(scan)) {
        return refuse(scan, "a number needs digits");
    }
    size_t first = scan->at;
    skip_digits(scan);
    if (scan->text[first] == '0' && scan->at > first + 1) {
        return refuse_at(scan, first, "a number must not begin with a zero");
    }
    if (peek(scan) == '.') {
        ++scan->at;
        if (!is_digit(scan)) {
            return refuse(scan, "digits must follow the decimal point");
        }
        skip_digits(scan);
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        ++scan->at;
        scan->at += peek(scan) == '+' || peek(scan) == '-';
        if (!is_digit(scan)) {
            return refuse(scan, "digits must follow the exponent mark");
        }
        skip_digits(scan);
    }
    if (scan->at - start > 40) {
        return refuse_at(scan, start, "a number of more than 40 characters");
    }
    return isfinite(strtod(scan->text + start, NULL))
               ? BT_OK
               : refuse_at(scan, start, "this number is too large for a double");
}

static bt_status scan_value(scanner *scan, size_t key_offset, bool has_key);

// One member of an array or object, including surrounding blanks.
static bt_status scan_member(scanner *scan, bool is_object)
{
    skip_blanks(scan);
    size_t key_offset = scan->at;
    if (is_object) {
        if (peek(scan) != '"') {
            return refuse(scan, "expected a key in double quotes");
        }
        BT_TRY(scan_string(scan));
        skip_blanks(scan);
        if (peek(scan) != ':') {
            return refuse(scan, "expected ':' after the key");
        }
        ++scan->at;
        skip_blanks(scan);
    }
    BT_TRY(scan_value(scan, key_offset, is_object));
    skip_blanks(scan);
    return BT_OK;
}

static bt_status scan_members(scanner *scan)
{
    bool is_object = peek(scan) == '{';
    int closing = is_object ? '}' : ']';
    if (++scan->depth > BT_JSON_DEPTH_MAX) {
        return refuse(scan, "nested too deeply (more than 32 levels)");
    }
    ++scan->at;
    skip_blanks(scan);
    for (bool first = true; peek(scan) != closing; first = false) {
        if (!first && peek(scan) != ',') {
            return refuse(scan, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        scan->at += !first;
        BT_TRY(scan_member(scan, is_object));
    }
    ++scan->at;
    --scan->depth;
    return BT_OK;
}

static bt_status scan_value(scanner *scan, size_t key_offset, bool has_key)
{
    BT_TRY(note(scan, has_key ? key_offset : scan->at, scan->at));
    int byte = peek(scan);
    if (byte == '{' || byte == '[') {
        return scan_members(scan);
    }
    if (byte == '"') {
        return scan_string(scan);
    }
    if (byte == '-' || (byte >= '0' && byte <= '9')) {
        return scan_number(scan);
    }
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; ++i) {
        size_t length = strlen(words[i]);
        if (scan->size_bytes - scan->at >= length &&
            memcmp(scan->text + scan->at, words[i], length) == 0) {
            scan->at += length;
            return BT_OK;
        }
    }
    return refuse(scan, "expected a value: a text in double quotes, a number, true, false, null, "
                        "{...} or [...]");
}

static bt_status check_keys(const bt_json_doc *json, const cJSON *object)
{
    int keys = 0;
    for (const cJSON *child = object->child; child; child = child->next) {
        if (cJSON_IsObject(object)) {
            BT_JSON_FAIL_IF(++keys > BT_JSON_KEYS_MAX, json, child, BT_JSON_KEY,
                            "more than %d keys in one object", BT_JSON_KEYS_MAX);
            for (const cJSON *other = object->child; other != child; other = other->next) {
                BT_JSON_FAIL_IF(strcmp(other->string, child->string) == 0, json, child, BT_JSON_KEY,
                                "\"%s\" is given twice", child->string);
            }
        }
        BT_TRY(check_keys(json, child));
    }
    return BT_OK;
}

static bt_status parse_into(bt_json_doc *json, size_t size_bytes, size_t limit_bytes)
{
    scanner scan = {json, json->text, 0, size_bytes, 0};
    BT_FAIL_IF(size_bytes > limit_bytes, BT_STATUS_INVALID_ARGUMENT,
               "%s: %zu bytes, more than the %zu allowed", json->name, size_bytes, limit_bytes);
    BT_TRY(scan_member(&scan, false));
    if (scan.at < size_bytes) {
        return refuse(&scan, "nothing may follow the value");
    }
    json->root = cJSON_ParseWithLengthOpts(json->text, size_bytes + 1, NULL, 1);
    BT_FAIL_IF(!json->root, BT_STATUS_OUT_OF_MEMORY, "%s: host memory for %lld values", json->name,
               (long long)json->count);
    return check_keys(json, json->root);
}

bt_status bt_json_parse(const char *name, const char *text, size_t size_bytes, bt_json_doc *out)
{
    return bt_json_parse_within(name, text, size_bytes, BT_JSON_SIZE_BYTES_MAX, out);
}

bt_status bt_json_load(const char *path, bt_json_doc *out)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    return bt_json_parse(path, bytes, size_bytes, out);
}

bt_status bt_json_parse_within(const char *name, const char *text, size_t size_bytes,
                               size_t limit_bytes, bt_json_doc *out)
{
    bt_json_init();
    memset(out, 0, sizeof *out);
    void *copy = NULL;
    bt_status status = bt_mem_strdup(name, &out->name);
    if (status == BT_OK) {
        status = bt_mem_alloc(size_bytes + 1, 1, &copy);
        out->text = copy;
    }
    if (status == BT_OK) {
        if (size_bytes) {
            memcpy(out->text, text, size_bytes);
        }
        status = parse_into(out, size_bytes, limit_bytes);
    }
    if (status != BT_OK) {
        bt_json_doc_release(out);
    }
    return status;
}

void bt_json_doc_release(bt_json_doc *json)
{
    cJSON_Delete(json->root);
    bt_mem_free(json->text);
    bt_mem_free(json->name);
    bt_mem_free(json->offsets);
    memset(json, 0, sizeof *json);
}

cJSON *bt_json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

bt_status bt_json_put(cJSON *to, const char *key, cJSON *node, const char *what)
{
    if (key) {
        cJSON_DeleteItemFromObjectCaseSensitive(to, key);
    }
    if (!node || !(key ? cJSON_AddItemToObject(to, key, node) : cJSON_AddItemToArray(to, node))) {
        cJSON_Delete(node);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for %s", what);
    }
    return BT_OK;
}

bt_status bt_json_merge(cJSON *into, const cJSON *from, const char *what)
{
    for (const cJSON *node = from ? from->child : NULL; node; node = node->next) {
        cJSON *old = bt_json_get(into, node->string);
        BT_TRY(cJSON_IsObject(old) && cJSON_IsObject(node)
                   ? bt_json_merge(old, node, what)
                   : bt_json_put(into, node->string, cJSON_Duplicate(node, 1), what));
    }
    return BT_OK;
}

double bt_json_number_of(const cJSON *object, const char *key)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

const char *bt_json_text_or_null(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(bt_json_get(object, key));
}

const char *bt_json_text_of(const cJSON *object, const char *key)
{
    const char *text = bt_json_text_or_null(object, key);
    return text ? text : "";
}

bool bt_json_is_text(const cJSON *object, const char *key, const char *text)
{
    const char *member = bt_json_text_or_null(object, key);
    return member && strcmp(member, text) == 0;
}

const char *bt_json_type_name(const cJSON *node)
{
    return cJSON_IsString(node)   ? "a text"
           : cJSON_IsNumber(node) ? "a number"
           : cJSON_IsBool(node)   ? "true or false"
           : cJSON_IsArray(node)  ? "a list"
           : cJSON_IsObject(node) ? "an object"
                                  : "null";
}

// tests/unit/test_checkpoint_safetensors.c - what the reader takes, and every way to refuse
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/json.h"
#include "framework/checkpoint/safetensors.h"

static bt_status parse(const char *header, size_t header_bytes, uint64_t announced,
                       uint64_t data_bytes, bt_safetensors *file)
{
    unsigned char *bytes = malloc(8 + header_bytes + 1);
    for (int i = 0; i < 8; ++i) {
        bytes[i] = (unsigned char)(announced >> (8 * i));
    }
    memcpy(bytes + 8, header, header_bytes);
    // Exactly as many bytes as there are: the address sanitizer sees a read beyond them.
    unsigned char *exact = malloc(8 + header_bytes);
    memcpy(exact, bytes, 8 + header_bytes);
    bt_status status =
        bt_safetensors_parse("x.st", exact, 8 + header_bytes, 8 + header_bytes + data_bytes, file);
    free(exact);
    free(bytes);
    return status;
}

#define F32_2    "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define AT(b, e) "\"data_offsets\":[" #b "," #e "]}"

static const struct {
    const char *header;
    uint64_t data_bytes;
    const char *words; // NULL: accepted
    bt_status status;
} rows[] = {
    {"{}", 0, NULL, BT_OK},
    {"{}    \n\t ", 0, NULL, BT_OK},
    {"{\"a\":" F32_2 "}", 8, NULL, BT_OK},
    {"{\"a\":" F32_2 ",\"__metadata__\":{\"format\":\"pt\"}}", 8, NULL, BT_OK},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]," AT(0, 4) "}", 4, NULL, BT_OK},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9]," AT(0, 0) ",\"b\":" F32_2 "}", 8, NULL, BT_OK},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1]," AT(8, 9) ",\"a\":" F32_2 "}", 9, NULL, BT_OK},
    {"{\"\\u00e9\\n\":" F32_2 "}", 8, NULL, BT_OK},

    {"", 0, "no '{' at byte 8", BT_STATUS_CORRUPT_DATA},
    {" {}", 0, "no '{' at byte 8", BT_STATUS_CORRUPT_DATA},
    {"[]", 0, "no '{' at byte 8", BT_STATUS_CORRUPT_DATA},
    {"{", 0, "not a JSON object at byte 8", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":}", 0, "not a JSON object", BT_STATUS_CORRUPT_DATA},
    {"{}x", 0, "after the JSON object at byte 10", BT_STATUS_CORRUPT_DATA},
    {"{} {}", 0, "after the JSON object at byte 11", BT_STATUS_CORRUPT_DATA},
    {"{\"a\x01\":1}", 0, "control byte 0x01 at byte 11", BT_STATUS_CORRUPT_DATA},
    {"{\"a\xff\":1}", 0, "byte 11 is not valid UTF-8", BT_STATUS_CORRUPT_DATA},
    {"{\"\xed\xa0\x80\":1}", 0, "byte 10 is not valid UTF-8", BT_STATUS_CORRUPT_DATA},
    {"{\"a\\u0000b\":" F32_2 "}", 8, "bad escape \\u0000 at byte 11", BT_STATUS_CORRUPT_DATA},
    {"{\"a\\u00g0\":" F32_2 "}", 8, "bad escape \\u00g0", BT_STATUS_CORRUPT_DATA},
    {"{\"a\\ud800\":" F32_2 "}", 8, "not a JSON object", BT_STATUS_CORRUPT_DATA},

    {"{\"a\":" F32_2 ",\"a\":" F32_2 "}", 8, "\"a\" occurs twice", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":" F32_2 ",\"\\u0061\":" F32_2 "}", 8, "\"a\" occurs twice", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2]," AT(0, 8) "}", 8,
     "\"dtype\" occurs twice", BT_STATUS_CORRUPT_DATA},
    {"{\"\":" F32_2 "}", 8, "name of 0 bytes", BT_STATUS_CORRUPT_DATA},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__", BT_STATUS_CORRUPT_DATA},
    {"{\"__metadata__\":[]}", 0, "__metadata__", BT_STATUS_CORRUPT_DATA},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "occurs twice", BT_STATUS_CORRUPT_DATA},

    {"{\"a\":1}", 8, "tensor a must have the keys", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{}}", 8, "tensor a must have the keys", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":1,\"shape\":[2]," AT(0, 8) "}", 8, "must have the keys",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"shape\":[2]," AT(0, 8) "}", 8, "tensor a must have the keys",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"x\":1,\"dtype\":\"F32\",\"shape\":[2]," AT(0, 8) "}", 8, "must have the keys",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"Dtype\":\"F32\",\"shape\":[2]," AT(0, 8) "}", 8, "must have the keys",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2]," AT(0, 2) "}", 2, "type \"F8_E4M3\"",
     BT_STATUS_UNSUPPORTED},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[2]," AT(0, 8) "}", 8, "type \"f32\"",
     BT_STATUS_UNSUPPORTED},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1]," AT(0, 1) "}", 1, "9 dimensions",
     BT_STATUS_UNSUPPORTED},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2," AT(0, 8) "}", 8, "shape is not an array",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"]," AT(0, 8) "}", 8, "size 0 of the shape",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-2]," AT(0, 8) "}", 8, "size 1 of the shape",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5]," AT(0, 8) "}", 8, "size 0 of the shape",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e300]," AT(0, 8) "}", 8, "size 0 of the shape",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e999]," AT(0, 8) "}", 8, "size 0 of the shape",
     BT_STATUS_CORRUPT_DATA},
    // 2^32 * 2^32 * 4 is 0 in 64 bits.
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296]," AT(0, 0) "}", 0,
     "do not match f32", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952]," AT(0, 0) "}", 0,
     "size 0 of the shape", BT_STATUS_CORRUPT_DATA},

    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(0, 4) "}", 4,
     "4 bytes at byte 62 do not match f32 of shape [2]", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(8, 0) "}", 8, "[8, 0] exceed the 8 bytes",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(0, 8) "}", 7, "[0, 8] exceed the 7 bytes",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(-4, 4) "}", 8, "data_offsets is not a pair",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "is not a pair",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[]}}", 8, "is not a pair",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":\"0,8\"}}", 8, "is not a pair",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(0, 18446744073709551624) "}", 8, "is not a pair",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":" F32_2 "}", 9, "1 bytes from byte 70 belong to no tensor", BT_STATUS_CORRUPT_DATA},
    {"{}", 3, "3 bytes from byte 10 belong to no tensor", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":" F32_2 ",\"b\":" F32_2 "}", 8, "overlaps", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":" F32_2 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1]," AT(4, 8) "}", 8, "overlaps",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":" F32_2 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1]," AT(12, 16) "}", 16, "gap",
     BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]," AT(4, 8) "}", 8, "gap", BT_STATUS_CORRUPT_DATA},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]," AT(
         0, 1) ",\"b\":{\"dtype\":\"F32\",\"shape\":[1]," AT(1, 5) "}",
     5, NULL, BT_OK}, // not aligned
};

static void headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bt_safetensors file;
        size_t length = strlen(rows[i].header);
        bt_status status = parse(rows[i].header, length, length, rows[i].data_bytes, &file);
        if (status != rows[i].status ||
            (rows[i].words && !strstr(bt_error_message(), rows[i].words))) {
            fail_msg("%s: %s: %s", rows[i].header, bt_status_text(status), bt_error_message());
        }
        if (rows[i].words) {
            assert_non_null(strstr(bt_error_message(), "x.st"));
        }
        bt_safetensors_release(&file);
    }
    assert_int_equal(bt_mem_live_count(), 0);
}

static void prefixes(void **state)
{
    (void)state;
    bt_safetensors file;
    for (uint64_t size_bytes = 0; size_bytes < 8; ++size_bytes) {
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "not a safetensors file",
                     bt_safetensors_parse("x.st", "\2\0\0\0\0\0\0\0{}", (size_t)size_bytes,
                                          size_bytes, &file));
    }
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "a header of 3 bytes in a file of 10",
                 parse("{}", 2, 3, 0, &file));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "at most 16777216",
                 parse("{}", 2, (16 << 20) + 1, 1 << 30, &file));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "at most 16777216", parse("{}", 2, UINT64_MAX, 0, &file));
    // Larger than what the caller has of the file.
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "a header of 4 bytes", parse("{}", 2, 4, 100, &file));
    assert_int_equal(bt_mem_live_count(), 0);
}

static void deep_and_long(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    bt_safetensors file;
    char *text = malloc(DEEP + 16);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', DEEP);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "not a JSON object",
                 parse(text, DEEP + 5, DEEP + 5, 0, &file));
    memset(text, 'n', DEEP);
    memcpy(text, "{\"", 2);
    memcpy(text + 1100, "\":" F32_2 "}", sizeof "\":" F32_2 "}" - 1);
    size_t length = 1100 + sizeof "\":" F32_2 "}" - 1;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "name of 1098 bytes",
                 parse(text, length, length, 8, &file));
    bt_safetensors_release(&file);
    free(text);
    assert_int_equal(bt_mem_live_count(), 0);
}

// Whatever can be written reads back as it was, aligned, at any alignment of the data.
static void heads(void **state)
{
    (void)state;
    static const char *const metadata[] = {"for\"mat", "p\\t\n", "b", "", NULL};
    const bt_safetensors_entry source[] = {
        {.name = "u8", .dtype = BT_U8, .shape = {1, {3}}},
        {.name = "f32", .dtype = BT_F32, .shape = {2, {2, 3}}},
        {.name = "q\"\\\x1f\x7f", .dtype = BT_BF16, .shape = {1, {1}}},
        {.name = "f64", .dtype = BT_F64, .shape = {0, {0}}},
        {.name = "empty", .dtype = BT_I64, .shape = {2, {1 << 20, 0}}},
        {.name = "f32b", .dtype = BT_F32, .shape = {8, {1, 1, 1, 1, 1, 1, 1, 2}}},
    };
    enum { COUNT = sizeof source / sizeof *source };
    for (uint64_t alignment = 8; alignment <= 8192; alignment *= 2) {
        bt_safetensors_entry entries[COUNT];
        bt_safetensors file;
        bt_str head = {0};
        uint64_t file_bytes = 0;
        memcpy(entries, source, sizeof entries);
        ASSERT_OK(bt_safetensors_head(entries, COUNT, metadata, alignment, &head, &file_bytes));
        assert_int_equal(head.length_bytes % alignment, 0);
        ASSERT_OK(bt_safetensors_parse("x", head.text, head.length_bytes, file_bytes, &file));
        assert_int_equal(file.count, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            const bt_safetensors_entry *got = bt_safetensors_find(&file, entries[i].name);
            assert_non_null(got);
            assert_int_equal(got->offset_bytes, entries[i].offset_bytes);
            assert_int_equal(got->size_bytes, entries[i].size_bytes);
            assert_true(bt_shape_equal(&got->shape, &entries[i].shape));
            assert_int_equal(got->dtype, entries[i].dtype);
        }
        bt_safetensors_release(&file);
        bt_str_release(&head);
    }
    assert_int_equal(bt_mem_live_count(), 0);
}

static void heads_refused(void **state)
{
    (void)state;
    bt_str head = {0};
    uint64_t file_bytes = 0;
    bt_safetensors_entry huge = {.name = "huge", .dtype = BT_F32, .shape = {1, {(int64_t)1 << 52}}};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tensor huge ends above byte 2^53",
                 bt_safetensors_head(&huge, 1, NULL, 8, &head, &file_bytes));
    bt_str_clear(&head);
    huge.shape = (bt_shape){2, {(int64_t)1 << 40, (int64_t)1 << 40}};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tensor huge ends above byte 2^53",
                 bt_safetensors_head(&huge, 1, NULL, 8, &head, &file_bytes));
    bt_str_release(&head);
    assert_int_equal(bt_mem_live_count(), 0);
}

static void whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fine;
        int64_t value;
    } numbers[] = {{"0", true, 0},
                   {"-0", true, 0},
                   {"9007199254740992", true, (int64_t)1 << 53},
                   {"-9007199254740992", true, -((int64_t)1 << 53)},
                   {"9007199254740994", false, 0},
                   {"1.5", false, 0},
                   {"\"1\"", false, 0},
                   {"null", false, 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        cJSON *item = cJSON_Parse(numbers[i].text);
        int64_t value = 0;
        assert_int_equal(bt_json_i64(item, &value), numbers[i].fine);
        assert_int_equal(value, numbers[i].value);
        cJSON_Delete(item);
    }
    int64_t value = 0;
    assert_false(bt_json_i64(NULL, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers), cmocka_unit_test(prefixes),      cmocka_unit_test(deep_and_long),
        cmocka_unit_test(heads),   cmocka_unit_test(heads_refused), cmocka_unit_test(whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

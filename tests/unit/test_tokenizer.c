// tests/unit/test_tokenizer.c - encoding against a naive merge, golden encodings and whole texts;
// UTF-8, cuts, endless words, bad rank files
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>
#include <zstd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/data/bpe.h"
#include "framework/data/tokenizer.h"
#include "framework/data/utf8.h"
#include "tests/support/corpus.h"
#include "tests/support/scratch.h"

#if defined(__OPTIMIZE__) && !TEST_SANITIZED
static const bool slow_build = false;
#else
static const bool slow_build = true;
#endif

static bt_tokenizer *tokenizer; // of the small rank file
static bt_encoder *encoder;

static int setup(void **state)
{
    (void)state;
    (void)test_scratch_make();
    const char *path = test_ranks_write("small.tiktoken");
    ASSERT_OK(bt_tokenizer_load(path, true, &tokenizer));
    ASSERT_OK(bt_encoder_create(tokenizer, &encoder));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bt_encoder_destroy(encoder);
    bt_tokenizer_destroy(tokenizer);
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

// Rank of a byte string in the small rank file, found the slow way; -1 if it is none.
static int naive_rank(const char *bytes, size_t size)
{
    if (size == 1) {
        return (unsigned char)bytes[0];
    }
    for (int i = 0; test_rank_merges[i]; ++i) {
        if (strlen(test_rank_merges[i]) == size && memcmp(test_rank_merges[i], bytes, size) == 0) {
            return 256 + i;
        }
    }
    return -1;
}

// Merges one piece over byte strings, lowest rank first; returns the number of tokens.
static size_t naive_merge(const char *piece, size_t size, uint16_t *ids)
{
    size_t starts[256];
    size_t parts = size;
    assert_true(size < 256);
    for (size_t i = 0; i <= size; ++i) {
        starts[i] = i;
    }
    for (;;) {
        int best_rank = -1;
        size_t best = 0;
        for (size_t i = 0; i + 1 < parts; ++i) {
            int rank = naive_rank(piece + starts[i], starts[i + 2] - starts[i]);
            if (rank >= 0 && (best_rank < 0 || rank < best_rank)) {
                best_rank = rank;
                best = i;
            }
        }
        if (best_rank < 0) {
            break;
        }
        memmove(starts + best + 1, starts + best + 2, (parts - best - 1) * sizeof *starts);
        --parts;
    }
    for (size_t i = 0; i < parts; ++i) {
        ids[i] = (uint16_t)naive_rank(piece + starts[i], starts[i + 1] - starts[i]);
    }
    return parts;
}

static void words_merge_as_the_naive_way_does(void **state)
{
    (void)state;
    static const char letters[] = "aabhelotin";
    const bt_rng rng = {1, 2};
    bt_tokens tokens = {0};
    for (uint64_t word = 0; word < 400; ++word) {
        char text[256];
        // Around the lengths where the cache ends and where the long way of merging begins.
        size_t size = (size_t)(word < 200 ? 1 + word % 40 : BT_BPE_SHORT - 10 + word % 40);
        for (size_t i = 0; i < size; ++i) {
            text[i] = letters[bt_rng_below(rng, word * 256 + i, sizeof letters - 1)];
        }
        uint16_t expected[256];
        size_t count = naive_merge(text, size, expected);
        for (int again = 0; again < 2; ++again) { // the second time from the cache
            tokens.count = 0;
            ASSERT_OK(bt_encoder_encode(encoder, text, size, &tokens));
            assert_int_equal(tokens.count, count);
            assert_memory_equal(tokens.ids, expected, count * sizeof *expected);
        }
    }
    bt_tokens_release(&tokens);
}

static void pieces_split_as_the_pattern_says(void **state)
{
    (void)state;
    assert_int_equal(bt_tokenizer_vocab(tokenizer), TEST_RANK_VOCAB);
    assert_int_equal(bt_tokenizer_end_of_text(tokenizer), TEST_RANK_VOCAB - 1);
    const struct {
        const char *text;
        uint16_t ids[12];
        int64_t count;
    } rows[] = {
        {"", {0}, 0},
        {"the", {'t', 256}, 2}, // he has a lower rank than th
        {" the", {260}, 1},
        {"hello, hello", {266, 'o', ',', ' ', 266, 'o'}, 6}, // "o," spans two pieces
        {"  \n the", {' ', 264, 260}, 3},
        {" \n", {264}, 1},
        {"it's", {'i', 't', '\'', 's'}, 4},
        {"aaaaa", {263, 'a'}, 2},
        {"<|endoftext|>", {'<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|'}, 12},
    };
    bt_tokens tokens = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        tokens.count = 0;
        ASSERT_OK(bt_encoder_encode(encoder, rows[i].text, strlen(rows[i].text), &tokens));
        assert_true(tokens.count >= rows[i].count);
        for (int64_t j = 0; j < rows[i].count; ++j) {
            if (tokens.ids[j] != rows[i].ids[j]) {
                fail_msg("\"%s\" token %lld: got %u, expected %u", rows[i].text, (long long)j,
                         tokens.ids[j], rows[i].ids[j]);
            }
        }
    }
    bt_tokens_release(&tokens);
}

static void decoding(void **state)
{
    (void)state;
    bt_str text = {0};
    const uint16_t ids[] = {TEST_RANK_VOCAB - 1, 266, 'o', 268};
    ASSERT_OK(bt_tokenizer_decode(tokenizer, ids, 4, &text));
    assert_string_equal(bt_str_text(&text), "<|endoftext|>hello\xc3\xa9");
    const uint16_t bad[] = {1, TEST_RANK_VOCAB};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "token id 272 at index 1, allowed: below 272",
                 bt_tokenizer_decode(tokenizer, bad, 2, &text));
    bt_str_release(&text);
}

static void invalid_utf8_names_the_byte(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t size, valid;
    } rows[] = {
        {"plain ascii, long enough for a word", 35, 35},
        {"caf\xc3\xa9", 5, 5},
        {"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\xf0\x90\x80\x80", 14, 14},
        {"caf\xe9", 4, 3},
        {"12345678\xc3", 9, 8},
        {"\xc0\xaf", 2, 0},
        {"ab\xed\xa0\x80", 5, 2},
        {"\xe0\x80\x80", 3, 0},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"x\xe2\x82", 3, 1},
        {"\x80", 1, 0},
        {"\xff", 1, 0},
    };
    bt_tokens tokens = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        assert_int_equal(bt_utf8_valid_prefix(rows[i].text, rows[i].size), rows[i].valid);
        tokens.count = 0;
        if (rows[i].valid == rows[i].size) {
            ASSERT_OK(bt_encoder_encode(encoder, rows[i].text, rows[i].size, &tokens));
            continue;
        }
        char words[40];
        (void)snprintf(words, sizeof words, "invalid UTF-8 at byte %zu (0x%02x)", rows[i].valid,
                       (unsigned char)rows[i].text[rows[i].valid]);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, words,
                     bt_encoder_encode(encoder, rows[i].text, rows[i].size, &tokens));
        assert_int_equal(tokens.count, 0);
    }
    bt_tokens_release(&tokens);
}

static void windows_1252(void **state)
{
    (void)state;
    bt_str text = {0};
    ASSERT_OK(bt_utf8_from_windows_1252("C\xe6sar \x80 \x97 caf\xe9\xff", 16, &text));
    assert_string_equal(bt_str_text(&text),
                        "C\xc3\xa6sar \xe2\x82\xac \xe2\x80\x94 caf\xc3\xa9\xc3\xbf");
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "byte 2 is 0x81",
                 bt_utf8_from_windows_1252("ab\x81", 3, &text));
    bt_str_release(&text);
}

// Encoding the parts of a text, each with the whole in view, is encoding the text.
static void cuts_change_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "the\n\nhello\n the\n\xc2\xa0in\n\xe2\x80\x83the\n\xe3\x81\x82\n\xd0\xb6\n\n\n!!\r\nx  \n"
        "\xf0\x9f\x98\x80\n\n";
    const size_t size = sizeof text - 1;
    bt_tokens whole = {0};
    bt_tokens parts = {0};
    ASSERT_OK(bt_encoder_encode(encoder, text, size, &whole));
    size_t begin = 0;
    int cuts = 0;
    while (begin < size) {
        size_t end = bt_encoder_next_cut(text, size, begin + 1);
        assert_true(end > begin);
        ASSERT_OK(bt_encoder_encode_part(encoder, text, size, begin, end, &parts));
        begin = end;
        ++cuts;
    }
    assert_int_equal(cuts, 6);
    assert_int_equal(parts.count, whole.count);
    assert_memory_equal(parts.ids, whole.ids, (size_t)whole.count * sizeof *whole.ids);
    assert_int_equal(bt_encoder_next_cut(text, size, 0), 5);
    assert_int_equal(bt_encoder_next_cut(text, size, 5), 5);
    assert_int_equal(bt_encoder_next_cut("", 0, 0), 0);
    bt_tokens_release(&whole);
    bt_tokens_release(&parts);
}

// Words without an end must not cost the square of their length.
static void endless_words(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    const char *const patterns[] = {"a", "ab", " ", "\n", "7", "!", "\xc3\xa9", "he"};
    char *text = test_malloc(SIZE);
    bt_tokens tokens = {0};
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; ++p) {
        size_t length = strlen(patterns[p]);
        for (size_t i = 0; i < SIZE; ++i) {
            text[i] = patterns[p][i % length];
        }
        tokens.count = 0;
        int64_t start = bt_clock_ns();
        ASSERT_OK(bt_encoder_encode(encoder, text, SIZE, &tokens));
        assert_true(bt_clock_ns() - start < 20000000000); // about 0.2 s; the square takes hours
        bt_str back = {0};
        ASSERT_OK(bt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &back));
        assert_int_equal(back.length_bytes, SIZE);
        assert_memory_equal(bt_str_text(&back), text, SIZE);
        bt_str_release(&back);
    }
    bt_tokens_release(&tokens);
    test_free(text);
}

// A copy of the small rank file in which `old` is replaced by `fresh`.
static const char *changed_ranks(const char *old, const char *fresh)
{
    void *bytes = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read(test_scratch_path("small.tiktoken"), &bytes, &size));
    const char *at = strstr(bytes, old);
    assert_non_null(at);
    bt_str text = {0};
    bt_str_append_bytes(&text, bytes, (size_t)(at - (const char *)bytes));
    bt_str_append(&text, fresh);
    bt_str_append(&text, at + strlen(old));
    const char *path =
        test_scratch_write("changed.tiktoken", bt_str_text(&text), text.length_bytes);
    bt_str_release(&text);
    bt_mem_free(bytes);
    return path;
}

static void bad_rank_files(void **state)
{
    (void)state;
    bt_tokenizer *bad = NULL;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "expected sha256 306cd27f",
                 bt_tokenizer_load(test_scratch_path("small.tiktoken"), false, &bad));
    ASSERT_FAILS(BT_STATUS_IO, "none.tiktoken",
                 bt_tokenizer_load(test_scratch_path("none.tiktoken"), true, &bad));
    const struct {
        const char *old, *fresh, *words;
    } rows[] = {
        {"AQ== 1\n", "AQ== 2\n", "changed.tiktoken:2: expected rank 1, got \"2\""},
        {"AQ== 1\n", "A*== 1\n", ":2: the token is not base64"},
        {"AQ== 1\n", " 1\n", ":2: the token is not base64"},
        {"AQ== 1\n", "AQ==1\n", ":2: expected a token in base64, a space and its rank"},
        {"AQ== 1\n", "AA== 1\n", ":2: byte 0x00 is rank 0 already"},
        {"AQ== 1\n", "AQE= 1\n", "no token for byte 0x01"},
        {"aGU= 256\n", "aGVs 256\n",
         ":257: not a byte-pair encoding: the token consists of 3 tokens"},
        {"dGg= 257\n", "aGU= 257\n",
         ":258: not a byte-pair encoding: the token consists of 1 tokens"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const char *path = changed_ranks(rows[i].old, rows[i].fresh);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].words, bt_tokenizer_load(path, true, &bad));
    }
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "0 ranks, allowed: 256 to",
                 bt_tokenizer_parse("empty", NULL, 0, &bad));
    assert_null(bad);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *path = test_scratch_path("small.tiktoken");
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; ++n) {
        assert_true(n < 100);
        bt_tokenizer *other = NULL;
        bt_encoder *its_encoder = NULL;
        bt_tokens tokens = {0};
        char word[BT_BPE_SHORT + 1];
        memset(word, 'a', sizeof word);
        bt_mem_fail_at(n);
        status = bt_tokenizer_load(path, true, &other);
        status = status == BT_OK ? bt_encoder_create(other, &its_encoder) : status;
        status =
            status == BT_OK ? bt_encoder_encode(its_encoder, word, sizeof word, &tokens) : status;
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        bt_tokens_release(&tokens);
        bt_encoder_destroy(its_encoder);
        bt_tokenizer_destroy(other);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

static bool open_gpt2(bt_tokenizer **gpt2, bt_encoder **its_encoder)
{
    const char *path = test_gpt2_ranks();
    if (!path) {
        print_message("skipped: GPT-2's rank file is not here (bt-bench data prepare gets it)\n");
        return false;
    }
    ASSERT_OK(bt_tokenizer_load(path, false, gpt2));
    ASSERT_OK(bt_encoder_create(*gpt2, its_encoder));
    return true;
}

static void golden_encodings(void **state)
{
    (void)state;
    bt_tokenizer *gpt2 = NULL;
    bt_encoder *its_encoder = NULL;
    const char *path = test_shared_data("tokenizer/gpt2-golden.tsv");
    if (!path) {
        print_message("skipped: no golden encodings (../shared/data)\n");
        skip();
    }
    void *bytes = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read(path, &bytes, &size));
    if (!open_gpt2(&gpt2, &its_encoder)) {
        bt_mem_free(bytes);
        skip();
    }
    assert_int_equal(bt_tokenizer_vocab(gpt2), 50257);
    bt_tokens tokens = {0};
    int rows = 0;
    char *rest = bytes;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
        char *ids = strchr(line, '\t');
        assert_non_null(ids);
        cJSON *string = cJSON_ParseWithLength(line, (size_t)(ids - line));
        assert_true(cJSON_IsString(string));
        // A zero byte ends cJSON's string, so the one row that has some is spelled out.
        const bool has_zero = strstr(line, "\\u0000") != NULL;
        const char *text = has_zero ? "\0\1\x1f" : string->valuestring;
        size_t text_size = has_zero ? 3 : strlen(text);
        tokens.count = 0;
        ASSERT_OK(bt_encoder_encode(its_encoder, text, text_size, &tokens));
        ++ids;
        for (int64_t i = 0; i < tokens.count; ++i) {
            assert_int_equal(tokens.ids[i], strtol(ids, &ids, 10));
        }
        assert_int_equal(*ids, '\0');
        bt_str back = {0};
        ASSERT_OK(bt_tokenizer_decode(gpt2, tokens.ids, tokens.count, &back));
        assert_int_equal(back.length_bytes, text_size);
        assert_memory_equal(bt_str_text(&back), text, text_size);
        bt_str_release(&back);
        cJSON_Delete(string);
        ++rows;
    }
    assert_true(rows >= 20);
    bt_tokens_release(&tokens);
    bt_encoder_destroy(its_encoder);
    bt_tokenizer_destroy(gpt2);
    bt_mem_free(bytes);
}

// The texts of ../shared/data: token counts and digests of the streams as its README gives them.
static void whole_texts(void **state)
{
    (void)state;
    const struct {
        const char *name, *digest;
        int64_t count;
    } rows[] = {
        {"corpus/tinyshakespeare.txt",
         "3c08715b1bf0b0a52f807249fd81a62086f0b8fab1ed0a4b23dfda14b61e9a78", 338026},
        {"corpus/classics-val.txt.zst",
         "9dfe2e62e30478534f006294a98df08c2c43beee1586cbf700822949c7ecab10", 708399},
    };
    bt_tokenizer *gpt2 = NULL;
    bt_encoder *its_encoder = NULL;
    if (!test_shared_data(rows[0].name) || !open_gpt2(&gpt2, &its_encoder)) {
        print_message("skipped: no texts (../shared/data)\n");
        skip();
    }
    clock_t ticks = 0;
    double megabytes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        void *bytes = NULL;
        size_t size = 0;
        ASSERT_OK(bt_file_read(test_shared_data(rows[i].name), &bytes, &size));
        char *text = bytes;
        if (strstr(rows[i].name, ".zst")) {
            size_t room = (size_t)ZSTD_getFrameContentSize(bytes, size);
            text = test_malloc(room);
            size = ZSTD_decompress(text, room, bytes, size);
            assert_int_equal(size, room);
        }
        static const char separator[] = "\n<|endoftext|>\n";
        bt_tokens tokens = {0};
        clock_t start = clock();
        for (size_t begin = 0; begin < size;) {
            const char *mark = memmem(text + begin, size - begin, separator, sizeof separator - 1);
            size_t end = mark ? (size_t)(mark - text) : size;
            ASSERT_OK(bt_tokens_reserve(&tokens, 1));
            tokens.ids[tokens.count++] = bt_tokenizer_end_of_text(gpt2);
            ASSERT_OK(bt_encoder_encode(its_encoder, text + begin, end - begin, &tokens));
            begin = mark ? end + sizeof separator - 1 : size;
        }
        ticks += clock() - start;
        megabytes += (double)size / 1e6;
        assert_int_equal(tokens.count, rows[i].count);
        bt_digest digest = bt_digest_bytes(tokens.ids, (size_t)tokens.count * sizeof *tokens.ids);
        assert_string_equal(digest.hex, rows[i].digest);
        bt_tokens_release(&tokens);
        if (text != bytes) {
            test_free(text);
        }
        bt_mem_free(bytes);
    }
    // Processor time, of which a busy machine takes none away; a build with sanitizers is slower.
    double rate = megabytes * CLOCKS_PER_SEC / (double)ticks;
    print_message("%.0f MB/s on one core\n", rate);
    assert_true(slow_build || rate >= 10);
    bt_encoder_destroy(its_encoder);
    bt_tokenizer_destroy(gpt2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_merge_as_the_naive_way_does),
        cmocka_unit_test(pieces_split_as_the_pattern_says),
        cmocka_unit_test(decoding),
        cmocka_unit_test(invalid_utf8_names_the_byte),
        cmocka_unit_test(windows_1252),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(endless_words),
        cmocka_unit_test(bad_rank_files),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(golden_encodings),
        cmocka_unit_test(whole_texts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

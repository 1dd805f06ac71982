// tests/support/corpus.c - base64 lines, and paths looked for
#include "tests/support/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

const char *const test_rank_merges[] = {"he",  "th", "in",   " t", " the",     "aa",  "ll", "aaaa",
                                        " \n", "at", "hell", "o,", "\xc3\xa9", "ing", "bb", NULL};

static void append_base64(bt_str *text, const unsigned char *bytes, size_t size_bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size_bytes; i += 3) {
        unsigned word = 0;
        for (size_t j = 0; j < 3; ++j) {
            word = word << 8 | (i + j < size_bytes ? bytes[i + j] : 0U);
        }
        char group[5] = {digits[word >> 18], digits[word >> 12 & 63], digits[word >> 6 & 63],
                         digits[word & 63], '\0'};
        for (size_t j = size_bytes - i + 1; j < 4; ++j) {
            group[j] = '=';
        }
        bt_str_append(text, group);
    }
}

const char *test_ranks_write(const char *name)
{
    bt_str text = {0};
    for (int rank = 0; rank < 256 + TEST_RANK_MERGES; ++rank) {
        unsigned char byte = (unsigned char)rank;
        const char *merge = rank < 256 ? (const char *)&byte : test_rank_merges[rank - 256];
        append_base64(&text, (const unsigned char *)merge, rank < 256 ? 1 : strlen(merge));
        bt_str_format(&text, " %d\n", rank);
    }
    ASSERT_OK(bt_str_status(&text));
    const char *path = test_scratch_write(name, bt_str_text(&text), text.length_bytes);
    bt_str_release(&text);
    return path;
}

const char *test_shared_data(const char *name)
{
    static char path[1024];
    const char *const folders[] = {getenv("BT_SHARED_DATA"), "../shared/data", "../../shared/data"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
        if (folders[i]) {
            (void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
            if (bt_file_exists(path)) {
                return path;
            }
        }
    }
    return NULL;
}

const char *test_gpt2_ranks(void)
{
    static const char installed[] = "ci/data/node_modules/gpt-tokenizer/data/r50k_base.tiktoken";
    const char *path = test_shared_data("tokenizer/r50k_base.tiktoken");
    return path ? path : bt_file_exists(installed) ? installed : NULL;
}

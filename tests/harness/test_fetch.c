// tests/harness/test_fetch.c - fetching from a server that stalls, truncates and sends wrong data
#include "tests/support/test.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/data/shard.h"
#include "harness/data/fetch.h"
#include "tests/support/scratch.h"

enum { TOKENS = 5000, SHARD_BYTES = BT_SHARD_HEADER_BYTES + 2 * TOKENS };

static pid_t server;
static int server_input; // closing it ends the server
static FILE *server_output;
static int port;
static char out_dir[64];
static bt_digest digests[4];

extern char **environ;

// Starts the server and reads its port.
static bool start_server(void)
{
    int input[2];
    int output[2];
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(input), 0);
    assert_int_equal(pipe(output), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, input[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, output[1], 1), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, input[1]), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, output[0]), 0);
    char program[] = "python3";
    char script[] = "tests/support/bad_server.py";
    char folder[128];
    char log[128];
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("served"));
    (void)snprintf(log, sizeof log, "%s", test_scratch_path("log"));
    char *arguments[] = {program, script, folder, log, NULL};
    int code = posix_spawnp(&server, program, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    server_input = input[1];
    server_output = fdopen(output[0], "r");
    char text[16] = "";
    bool started = code == 0 && fgets(text, sizeof text, server_output);
    port = started ? (int)strtol(text, NULL, 10) : 0;
    return port > 0;
}

static int setup_group(void **state)
{
    (void)state;
    (void)test_scratch_make();
    ASSERT_OK(bt_dir_make(test_scratch_path("served")));
    for (int number = 0; number < 4; ++number) {
        char name[64];
        uint16_t tokens[TOKENS];
        for (int i = 0; i < TOKENS; ++i) {
            tokens[i] = (uint16_t)(i * (number + 3));
        }
        (void)snprintf(name, sizeof name, "served/x_%s_%06d.bin", number ? "train" : "val", number);
        ASSERT_OK(bt_shard_write(test_scratch_path(name), tokens, TOKENS));
        ASSERT_OK(bt_digest_file(test_scratch_path(name), &digests[number]));
    }
    return start_server() ? 0 : -1;
}

static int teardown_group(void **state)
{
    (void)state;
    close(server_input);
    int result = 0;
    (void)waitpid(server, &result, 0);
    (void)fclose(server_output);
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

static int setup(void **state)
{
    (void)state;
    static int number;
    (void)snprintf(out_dir, sizeof out_dir, "%s/out%d", test_scratch_path(""), number++);
    (void)unlink(test_scratch_path("log"));
    return 0;
}

// A list with one corpus: a validation shard and `train` train shards, served in the way `how`.
// The size and the digest are those of shard 1, or null.
static const char *write_list(const char *how, int train, bool with_size, bool with_digest)
{
    bt_str text = {0};
    bt_str_format(&text,
                  "{\"format\": \"blutrain-corpora-1\", \"corpora\": [{\"name\": \"x\", \"about\": "
                  "\"test\", \"base_url\": \"http://127.0.0.1:%d/%s/\", \"vocab\": 65536, "
                  "\"about_bytes\": 10000, \"files\": [",
                  port, how);
    if (train != 1) {
        bt_str_append(&text, "{\"file\": \"x_val_000000.bin\", \"split\": \"val\"}, ");
    }
    bt_str_format(&text,
                  "{\"file\": \"x_train_{number}.bin\", \"range\": [1, %d], \"split\": \"train\", ",
                  train);
    if (with_size) {
        bt_str_format(&text, "\"bytes\": %d, ", SHARD_BYTES);
    }
    bt_str_format(&text, "\"sha256\": %s%s%s}]}]}", with_digest ? "\"" : "",
                  with_digest ? digests[1].hex : "null", with_digest ? "\"" : "");
    const char *path = test_scratch_write("list.json", bt_str_text(&text), text.length_bytes);
    bt_str_release(&text);
    return path;
}

static bt_status fetch(const char *list, bt_progress progress, bt_dataset *dataset)
{
    const bt_fetch_options options = {.list = list,
                                      .name = "x",
                                      .out_dir = out_dir,
                                      .connections = 2,
                                      .attempts = 3,
                                      .stall_seconds = 1,
                                      .backoff_ms = 5,
                                      .progress = progress};
    return bt_data_fetch(&options, dataset);
}

// How often `words` occur in the server's log.
static int logged(const char *words)
{
    void *bytes = NULL;
    size_t size = 0;
    if (!bt_file_exists(test_scratch_path("log"))) {
        return 0;
    }
    ASSERT_OK(bt_file_read(test_scratch_path("log"), &bytes, &size));
    int count = 0;
    for (const char *at = strstr(bytes, words); at; at = strstr(at + 1, words)) {
        ++count;
    }
    bt_mem_free(bytes);
    return count;
}

// The fetched shard 1 must be the served one, and no part may be left.
static void assert_fetched(const bt_dataset *dataset)
{
    bt_digest digest;
    ASSERT_OK(bt_digest_file(dataset->train.paths[0], &digest));
    assert_string_equal(digest.hex, digests[1].hex);
    assert_string_equal(dataset->train.shards[0].digest.hex, digests[1].hex);
    bt_str part = {0};
    bt_str_format(&part, "%s.part", dataset->train.paths[0]);
    assert_false(bt_file_exists(bt_str_text(&part)));
    bt_str_release(&part);
}

static void all_files_and_again(void **state)
{
    (void)state;
    bt_dataset dataset;
    const bt_progress none = {0};
    ASSERT_OK(fetch(write_list("ok", 3, true, false), none, &dataset));
    assert_int_equal(dataset.train.count, 3);
    assert_int_equal(dataset.val.tokens, TOKENS);
    assert_string_equal(dataset.name, "x");
    assert_string_equal(dataset.val.shards[0].digest.hex, digests[0].hex);
    assert_fetched(&dataset);
    ASSERT_OK(bt_dataset_verify(&dataset));
    bt_dataset_release(&dataset);
    assert_int_equal(logged("/ok/"), 4);
    // Again: nothing is requested. A lost and a damaged file are fetched, the others not.
    ASSERT_OK(fetch(test_scratch_path("list.json"), none, NULL));
    assert_int_equal(logged("/ok/"), 4);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/x_train_000002.bin", out_dir);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/x_train_000003.bin", out_dir);
    assert_int_equal(truncate(path, 3000), 0);
    ASSERT_OK(fetch(test_scratch_path("list.json"), none, NULL));
    assert_int_equal(logged("/ok/"), 6);
    assert_int_equal(logged("train_000001"), 1);
}

static void the_first_files_only(void **state)
{
    (void)state;
    const bt_fetch_options options = {
        .list = write_list("ok", 3, false, false), .name = "x", .out_dir = out_dir, .max_files = 2};
    bt_dataset dataset;
    ASSERT_OK(bt_data_fetch(&options, &dataset));
    assert_int_equal(dataset.train.count, 2);
    assert_int_equal(dataset.val.count, 1);
    bt_dataset_release(&dataset);
}

// Transfer errors that must be corrected.
static void trouble_is_overcome(void **state)
{
    (void)state;
    const struct {
        const char *how;
        bool with_size, with_digest;
        const char *words; // that the server's log must contain
        int count;
    } rows[] = {
        {"truncate", true, true, "bytes=5512- 206", 1},
        {"truncate", false, false, "bytes=5512- 206", 1},
        {"stall", true, false, " 206", 2},
        {"norange", true, true, "bytes=5512- 200", 1},
        {"wrongrange", true, true, "- 200", 2},
        {"busy", true, true, " 503", 2},
        {"chunked", true, true, " 200", 1},
        {"chunked", false, false, " 200", 1},
        {"short", false, false, " 416", 1},
        {"moved", true, true, "/ok/", 1},
        {"once", true, true, " 200", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        char how[32]; // its own path, since the server counts requests by path
        (void)snprintf(how, sizeof how, "%s-%zu", rows[i].how, i);
        bt_dataset dataset;
        (void)setup(state);
        const char *list = write_list(how, 1, rows[i].with_size, rows[i].with_digest);
        bt_status status = fetch(list, (bt_progress){0}, &dataset);
        if (status != BT_OK) {
            fail_msg("%s: %s", rows[i].how, bt_error_message());
        }
        assert_fetched(&dataset);
        bt_dataset_release(&dataset);
        if (logged(rows[i].words) < rows[i].count) {
            fail_msg("%s: the log has \"%s\" %d times", rows[i].how, rows[i].words,
                     logged(rows[i].words));
        }
    }
}

// What cannot be made good and must be named; nothing of it may be taken for data.
static void lies_are_named(void **state)
{
    (void)state;
    const struct {
        const char *how;
        bool with_size, with_digest;
        bt_status status;
        const char *words;
        int requests;
    } rows[] = {
        {"corrupt", true, true, BT_STATUS_CORRUPT_DATA, "expected sha256", 3},
        {"page", true, true, BT_STATUS_CORRUPT_DATA, "the server sent a web page (text/html", 3},
        {"plainpage", false, false, BT_STATUS_CORRUPT_DATA,
         "not a token shard: expected magic 20240520 at byte 0", 3},
        {"long", true, false, BT_STATUS_CORRUPT_DATA,
         "expected 11024 bytes, the server announces 11028", 3},
        {"long", false, false, BT_STATUS_CORRUPT_DATA, "too long", 3},
        {"stalls", true, true, BT_STATUS_IO, "the server stalled at byte 2000", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        (void)setup(state);
        bt_status status = fetch(write_list(rows[i].how, 1, rows[i].with_size, rows[i].with_digest),
                                 (bt_progress){0}, NULL);
        ASSERT_FAILS(rows[i].status, rows[i].words, status);
        assert_non_null(strstr(bt_error_message(), "http://127.0.0.1"));
        assert_non_null(strstr(bt_error_message(), "(attempt 3 of 3)"));
        assert_int_equal(logged("/x_train_000001.bin"), rows[i].requests);
        bt_dataset dataset;
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not a dataset",
                     bt_dataset_open(out_dir, &dataset));
    }
    (void)setup(state);
    ASSERT_FAILS(BT_STATUS_IO, "the server answered with status 404",
                 fetch(write_list("ok", 9, true, false), (bt_progress){0}, NULL));
    assert_int_equal(logged("000004.bin"), 1); // no second attempt
}

typedef struct watch {
    int64_t stop_at; // bytes
    uint64_t seen;
    int notes;
} watch;

static bool watch_progress(void *self, const bt_progress_event *event)
{
    watch *one = self;
    one->seen = event->done_bytes;
    one->notes += event->note != NULL;
    assert_true(event->done_bytes <= event->total_bytes);
    return one->stop_at == 0 || (int64_t)event->done_bytes < one->stop_at;
}

static void stopped_and_continued(void **state)
{
    (void)state;
    watch one = {.stop_at = 2000};
    const char *list = write_list("drip", 1, true, true);
    ASSERT_FAILS(BT_STATUS_INTERRUPTED, "the next call resumes it",
                 fetch(list, (bt_progress){watch_progress, &one}, NULL));
    assert_true(one.seen >= 2000 && one.seen < SHARD_BYTES);
    one.stop_at = 0;
    bt_dataset dataset;
    ASSERT_OK(
        fetch(write_list("ok", 1, true, true), (bt_progress){watch_progress, &one}, &dataset));
    assert_fetched(&dataset);
    assert_int_equal(one.seen, SHARD_BYTES);
    assert_int_equal(one.notes, 1);
    assert_int_equal(logged("/ok/x_train_000001.bin bytes="), 1);
    bt_dataset_release(&dataset);
}

static void lists_and_options_are_checked(void **state)
{
    (void)state;
    bt_str names = {0};
    ASSERT_OK(bt_data_fetch_names("suites/data/corpora.json", &names));
    assert_non_null(strstr(bt_str_text(&names), "fineweb-edu-10bt\t100\tFineWeb-Edu"));
    bt_str_release(&names);
    bt_fetch_options options = {
        .list = write_list("ok", 1, true, true), .name = "y", .out_dir = out_dir};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"y\" is not a corpus of",
                 bt_data_fetch(&options, NULL));
    assert_non_null(strstr(bt_error_message(), "allowed: x"));
    options.connections = 65;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "65 connections, allowed: 1 to 64",
                 bt_data_fetch(&options, NULL));
    options.connections = 0;
    options.name = "x";
    static const char head[] =
        "{\"format\": \"blutrain-corpora-1\", \"corpora\": [{\"name\": \"x\"";
    const struct {
        const char *text, *words;
    } rows[] = {
        {"{", "not JSON"},
        {"{}", "expected format blutrain-corpora-1, got none"},
        {"}]}", "expected \"base_url\""},
        {", \"base_url\": \"http://h/\", \"vocab\": 0, \"files\": []}]}", "\"vocab\""},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": []}]}", "at least one file"},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": [{\"file\": \"../x\"}]}]}",
         "\"file\" to be a name"},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": [{\"file\": \"x\"}]}]}",
         "\"split\""},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": [{\"file\": \"x\", \"split\": "
         "\"val\", \"sha256\": \"12\"}]}]}",
         "\"sha256\""},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": [{\"file\": \"x\", \"split\": "
         "\"val\", \"bytes\": -5}]}]}",
         "\"bytes\""},
        {", \"base_url\": \"http://h/\", \"vocab\": 9, \"files\": [{\"file\": \"x\", \"split\": "
         "\"val\", \"range\": [1, 2]}]}]}",
         "\"range\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bt_str text = {0};
        bt_str_format(&text, "%s%s", i < 2 ? "" : head, rows[i].text);
        options.list = test_scratch_write("bad.json", bt_str_text(&text), text.length_bytes);
        bt_str_release(&text);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].words, bt_data_fetch(&options, NULL));
    }
}

static void no_server_and_no_space(void **state)
{
    (void)state;
    watch one = {.stop_at = 0};
    static const char nobody[] =
        "{\"format\": \"blutrain-corpora-1\", \"corpora\": [{\"name\": \"x\", \"base_url\": "
        "\"http://127.0.0.1:1/\", \"vocab\": 9, \"files\": [{\"file\": \"x_val_{number}.bin\", "
        "\"range\": [0, 7], \"split\": \"val\", \"bytes\": %lld}]}]}";
    char text[512];
    int length = snprintf(text, sizeof text, nobody, 2000LL);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "http://127.0.0.1:1/x_val_00000",
                 fetch(test_scratch_write("nobody.json", text, (size_t)length),
                       (bt_progress){watch_progress, &one}, NULL));
    assert_int_equal(one.notes, 2); // of three attempts, however many files there are
    assert_int_equal(test_scratch_count(strrchr(out_dir, '/') + 1), 0);
    length = snprintf(text, sizeof text, nobody, 1LL << 47);
    ASSERT_FAILS(
        BT_STATUS_IO, "not enough space: x needs 1073741825 MiB more",
        fetch(test_scratch_write("nobody.json", text, (size_t)length), (bt_progress){0}, NULL));
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    ASSERT_OK(bt_dir_make(out_dir));
    char path[128];
    (void)snprintf(path, sizeof path, "%s/x_train_000001.bin.part", out_dir);
    ASSERT_OK(bt_file_write(path, "", 0));
    FILE *part = fopen(path, "r");
    assert_non_null(part);
    assert_int_equal(flock(fileno(part), LOCK_EX), 0);
    ASSERT_FAILS(BT_STATUS_IO, "is being fetched by another process",
                 fetch(write_list("ok", 1, true, true), (bt_progress){0}, NULL));
    (void)fclose(part);
    ASSERT_OK(fetch(test_scratch_path("list.json"), (bt_progress){0}, NULL));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char list[128];
    (void)snprintf(list, sizeof list, "%s", write_list("ok", 1, true, true));
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t n = 1;
    for (; status != BT_OK; ++n) {
        assert_true(n < 100);

        (void)setup(state);
        bt_mem_fail_at(n);
        status = fetch(list, (bt_progress){0}, NULL);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), 0);
    }
    assert_true(n > 10);
}

static bool has_python(void)
{
    char program[] = "python3";
    char option[] = "--version";
    char *arguments[] = {program, option, NULL};
    pid_t child = 0;
    int result = 1;
    return posix_spawnp(&child, program, NULL, NULL, arguments, environ) == 0 &&
           waitpid(child, &result, 0) == child && result == 0;
}

int main(void)
{
    if (!has_python()) {
        return test_skip("python3, which runs the server, is not here");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_files_and_again, setup),
        cmocka_unit_test_setup(the_first_files_only, setup),
        cmocka_unit_test_setup(trouble_is_overcome, setup),
        cmocka_unit_test_setup(lies_are_named, setup),
        cmocka_unit_test_setup(stopped_and_continued, setup),
        cmocka_unit_test_setup(lists_and_options_are_checked, setup),
        cmocka_unit_test_setup(no_server_and_no_space, setup),
        cmocka_unit_test_setup(one_process_at_a_time, setup),
        cmocka_unit_test_setup(every_allocation_may_fail, setup),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}

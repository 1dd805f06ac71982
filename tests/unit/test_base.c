// tests/unit/test_base.c - status, memory, strings, files, element types, random numbers
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/dtype.h"
#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/rng.h"
#include "framework/base/scoped.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static void status_keeps_message_and_context(void **state)
{
    (void)state;
    bt_status status = bt_error(BT_STATUS_IO, "file %d", 7);
    assert_int_equal(status, BT_STATUS_IO);
    assert_int_equal(bt_error_context(status, "loading"), BT_STATUS_IO);
    assert_string_equal(bt_error_message(), "loading: file 7");
    // A message built from itself, and one that is too long.
    (void)bt_error(BT_STATUS_IO, "%s again", bt_error_message());
    assert_string_equal(bt_error_message(), "loading: file 7 again");
    char longer[2 * BT_ERROR_CAPACITY];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    (void)bt_error_context(BT_STATUS_IO, "%s", longer);
    assert_non_null(strstr(bt_error_message(), "file 7 again"));
    assert_int_equal(bt_error(BT_OK, "a mistake"), BT_STATUS_INTERNAL);
    // A name out of a hostile file does not drive the terminal; text in other scripts stays.
    (void)bt_error(BT_STATUS_IO, "a\x1b[31m\a\x7f\tb\n\xc2\x9b\xc3\xa9");
    (void)bt_error_context(BT_STATUS_IO, "%s", "\x1b]0;");
    assert_string_equal(bt_error_message(), "?]0;: a?[31m??\tb\n??\xc3\xa9");
    assert_int_equal(bt_status_exit_code(BT_STATUS_INVALID_ARGUMENT), 2);
    assert_int_equal(bt_status_exit_code(BT_STATUS_UNAVAILABLE), 4);
    assert_int_equal(bt_status_exit_code(BT_STATUS_IO), 4); // a file or folder that cannot be used
    assert_int_equal(bt_status_exit_code(BT_STATUS_CORRUPT_DATA), 5);
}

static void clean_up_keeps_the_first_message(void **state)
{
    (void)state;
    (void)!bt_error(BT_STATUS_OUT_OF_MEMORY, "the first failure");
    bt_error_quiet_begin();
    assert_int_equal(bt_error(BT_STATUS_IO, "a later one"), BT_STATUS_IO);
    bt_error_quiet_begin();
    assert_int_equal(bt_error_context(BT_STATUS_IO, "around it"), BT_STATUS_IO);
    bt_error_quiet_end();
    bt_error_clear();
    bt_error_quiet_end();
    assert_string_equal(bt_error_message(), "the first failure");
    bt_error_clear();
    assert_string_equal(bt_error_message(), "");
}

// Built with BT_ASSERTS (every preset for tests and sanitizers), the library must keep its asserts.
static void asserts_of_the_library_run(void **state)
{
    (void)state;
#ifdef BT_ASSERTS
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)freopen("/dev/null", "w", stderr);
        bt_error_quiet_end(); // without a begin
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    skip();
#endif
}

static void uniform_numbers_stay_below_one(void **state)
{
    (void)state;
    const bt_rng rng = {1337, 0};
    const uint64_t largest = 2177684; // its 24 bits are all ones, and + 0.5 rounds to 2^24
    uint32_t words[4];
    bt_rng_block(rng, largest, words);
    assert_int_equal(words[0] >> 8, 0xffffff);
    assert_true(bt_rng_uniform(rng, largest) < 1.0F);
    assert_true(bt_rng_uniform(rng, largest) == 0x1.fffffep-1F);
    static float values[4 * (2177684 + 1)];
    const double ranges[][2] = {{0, 1}, {-1, 1}, {-3, -2}, {1e6, 1e6 + 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        const int64_t count = (int64_t)(sizeof values / sizeof *values);
        const double low = ranges[i][0], high = ranges[i][1];
        bt_rng_uniform_fill(rng, values, count, low, high);
        for (int64_t at = 0; at < count; ++at) {
            if (!((double)values[at] >= low && (double)values[at] < high)) {
                fail_msg("%g of [%g, %g) at %lld", (double)values[at], low, high, (long long)at);
            }
        }
        // All others are what they were: the double, rounded.
        uint32_t first[4];
        bt_rng_block(rng, 0, first);
        const double unit = ((first[0] >> 8) + 0.5) * 0x1p-24;
        assert_true(values[0] == (float)(low + (high - low) * unit) || i == 3);
    }
}

static void memory_failure_is_injected_once(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    void *block = NULL;
    bt_mem_fail_at(2);
    ASSERT_OK(bt_mem_alloc(1, 8, &block));
    bt_mem_free(block);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "8 bytes", bt_mem_alloc(1, 8, &block));
    ASSERT_OK(bt_mem_alloc(1, 8, &block));
    bt_mem_free(block);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "host memory", bt_mem_alloc(SIZE_MAX, 8, &block));
    assert_int_equal(bt_mem_live_count(), before);
}

static void arena_blocks_are_zero_and_aligned(void **state)
{
    (void)state;
    bt_arena arena = {0};
    for (size_t size = 1; size < 200000; size = size * 3 + 1) {
        void *block = NULL;
        ASSERT_OK(bt_arena_alloc(&arena, size, &block));
        assert_int_equal((uintptr_t)block % 16, 0);
        for (size_t i = 0; i < size; ++i) {
            assert_int_equal(((unsigned char *)block)[i], 0);
        }
        memset(block, 0xff, size);
    }
    bt_arena_reset(&arena);
    bt_arena_release(&arena);
}

static void arena_refuses_what_overflows(void **state)
{
    (void)state;
    bt_arena arena = {0};
    void *block = &arena;
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 14, SIZE_MAX - 16, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "host memory",
                     bt_arena_alloc(&arena, sizes[i], &block));
        assert_null(block);
    }
    bt_arena_release(&arena);
}

static void arrays_fit_the_type_that_they_are_of(void **state)
{
    (void)state;
    bt_arena arena = {0};
    double *doubles = NULL, *none = (double *)&arena;
    ASSERT_OK(BT_ARENA_ARRAY(&arena, 100, &doubles));
    for (int i = 0; i < 100; ++i) {
        assert_true(doubles[i] == 0.0);
        doubles[i] = i;
    }
    assert_int_equal(arena.used_bytes, 100 * sizeof(double));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "host memory",
                 BT_ARENA_ARRAY(&arena, SIZE_MAX / 8 + 2, &none)); // 8 bytes after the overflow
    assert_null(none);
    bt_arena_release(&arena);
    int64_t *integers = NULL;
    ASSERT_OK(BT_MEM_ARRAY(3, &integers));
    assert_true(integers[0] == 0 && integers[2] == 0);
    bt_mem_free(integers);
    none = (double *)&arena;
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "host memory", BT_MEM_ARRAY(-1, &none));
    assert_null(none);
}

static void lists_grow_and_keep_what_they_hold(void **state)
{
    (void)state;
    int *items = NULL;
    int64_t capacity = 0, larger = 0;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_OK(BT_MEM_GROW(i + 1, &capacity, &items));
        assert_in_range(capacity, i + 1, 2 * i + 64);
        items[i] = i;
    }
    for (int i = 0; i < 1000; ++i) {
        assert_int_equal(items[i], i);
    }
    larger = capacity + 1;
    const int *const held = items;
    bt_mem_fail_at(1);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "host memory", BT_MEM_GROW(larger, &capacity, &items));
    assert_true(items == held && capacity == larger - 1 && items[999] == 999);
    bt_mem_free(items);
}

static bt_status counted(bt_status status, int *calls)
{
    ++*calls;
    return status;
}

static void steps_after_a_failure_are_left_out(void **state)
{
    (void)state;
    bt_status status = BT_OK;
    int calls = 0;
    BT_IF_OK(status, counted(BT_OK, &calls));
    BT_IF_OK(status, counted(BT_STATUS_IO, &calls));
    BT_IF_OK(status, counted(BT_STATUS_CORRUPT_DATA, &calls));
    assert_int_equal(status, BT_STATUS_IO);
    assert_int_equal(calls, 2);
}

// Sums the values, at least one, each above 0; with a block and a string of its own.
static bt_status sum_of(const int *values, int64_t count, int *sum)
{
    BT_SCOPED(bt_str) text = {0};
    BT_SCOPED_MEM(char *) copy = NULL;
    bt_str_append(&text, "some text");
    BT_TRY(bt_str_status(&text));
    BT_TRY(bt_mem_strdup(bt_str_text(&text), &copy));
    BT_FAIL_IF(count == 0, BT_STATUS_INVALID_ARGUMENT, "no values");
    *sum = 0;
    BT_EACH(const int, value, values, count) {
        BT_FAIL_IF(*value <= 0, BT_STATUS_INVALID_ARGUMENT, "value %d: expected above 0", *value);
        *sum += *value;
    }
    return BT_OK;
}

static void locals_are_released_on_every_path(void **state)
{
    const int good[] = {1, 2, 3}, bad[] = {1, -2, 3};
    const int64_t live = bt_mem_live_count();
    int sum = 0;
    (void)state;
    ASSERT_OK(sum_of(good, 3, &sum));
    assert_int_equal(sum, 6);
    assert_int_equal(sum_of(good, 0, &sum), BT_STATUS_INVALID_ARGUMENT);
    assert_string_equal(bt_error_message(), "no values");
    assert_int_equal(sum_of(bad, 3, &sum), BT_STATUS_INVALID_ARGUMENT);
    assert_string_equal(bt_error_message(), "value -2: expected above 0");
    for (int64_t n = 1; n <= 2; ++n) {
        bt_mem_fail_at(n);
        assert_int_equal(sum_of(good, 3, &sum), BT_STATUS_OUT_OF_MEMORY);
    }
    assert_int_equal(bt_mem_live_count(), live);
}

static void rows_are_found_by_their_text(void **state)
{
    (void)state;
    static const struct {
        int value;
        const char *name;
    } rows[] = {{3, "fp32"}, {4, "bf16"}, {5, "fp32"}, {6, ""}};
    static const char *const words[] = {"kill", "stop"};
    const struct named {
        struct {
            char *name;
        } what;
    } *none = NULL;
    assert_int_equal(BT_COUNT(rows), 4);
    assert_int_equal(BT_FIND(rows, BT_COUNT(rows), name, "fp32"), 0);
    assert_int_equal(BT_FIND(rows, BT_COUNT(rows), name, "bf16"), 1);
    assert_int_equal(BT_FIND(rows, 1, name, "bf16"), -1);
    assert_int_equal(BT_FIND(rows, BT_COUNT(rows), name, "bf1"), -1);
    assert_int_equal(BT_FIND(rows, BT_COUNT(rows), name, ""), 3);
    assert_int_equal(BT_FIND(rows, BT_COUNT(rows), name, NULL), -1);
    assert_int_equal(BT_FIND(none, 0, what.name, "x"), -1);
    assert_int_equal(BT_FIND_WORD(words, BT_COUNT(words), "stop"), 1);
    assert_int_equal(BT_FIND_WORD(words, BT_COUNT(words), "segv"), -1);
}

static void string_refuses_what_overflows(void **state)
{
    (void)state;
    bt_str text = {0};
    bt_str_append(&text, "kept");
    bt_str_append_bytes(&text, "x", SIZE_MAX - 4);
    assert_int_equal(bt_str_status(&text), BT_STATUS_OUT_OF_MEMORY);
    bt_str_release(&text);
    bt_error_clear();
}

static void string_survives_failure(void **state)
{
    (void)state;
    bt_str string = {0};
    bt_str_format(&string, "%s-%d", "a", 1);
    assert_string_equal(bt_str_text(&string), "a-1");
    bt_mem_fail_at(1);
    for (int i = 0; i < 100; ++i) {
        bt_str_append(&string, "0123456789");
    }
    bt_mem_fail_at(0);
    assert_int_equal(bt_str_status(&string), BT_STATUS_OUT_OF_MEMORY);
    bt_str_release(&string);
}

static void files_are_replaced_whole(void **state)
{
    (void)state;
    ASSERT_OK(bt_dir_make(test_scratch_path("a/b")));
    ASSERT_OK(bt_dir_make(test_scratch_path("a/b")));
    const char *path = test_scratch_path("a/b/file");
    ASSERT_OK(bt_file_write(path, "hello", 5));
    ASSERT_FAILS(BT_STATUS_IO, "exists but is not a directory", bt_dir_make(path));
    void *bytes = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read(path, &bytes, &size));
    assert_int_equal(size, 5);
    assert_string_equal(bytes, "hello");
    bt_mem_free(bytes);
    ASSERT_FAILS(BT_STATUS_IO, "No such file", bt_file_read("/nonexistent/x", &bytes, &size));
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(bt_f32_to_bf16(1.0F), 0x3f80);
    assert_int_equal(bt_f32_to_bf16(1.00390625F), 0x3f80); // half way, to even
    assert_int_equal(bt_f32_to_bf16(1.01171875F), 0x3f82); // half way, to even
    assert_int_equal(bt_f32_to_bf16(3.4e38F), 0x7f80);     // overflows to infinity
    assert_true(isnan(bt_bf16_to_f32(bt_f32_to_bf16(NAN))));
    assert_true(isinf(bt_bf16_to_f32(bt_f32_to_bf16(INFINITY))));
    for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
        assert_int_equal(bt_f32_to_bf16(bt_bf16_to_f32((uint16_t)bits)), bits);
    }
}

static void philox_matches_published_vectors(void **state)
{
    (void)state;
    // Random123's kat_vectors for philox4x32-10.
    uint32_t words[4];
    bt_rng_block((bt_rng){0, 0}, 0, words);
    assert_int_equal(words[0], 0x6627e8d5);
    bt_rng_block((bt_rng){UINT64_MAX, UINT64_MAX}, UINT64_MAX, words);
    assert_int_equal(words[0], 0x408f276d);
    assert_int_equal(words[1], 0x41c83b0e);
    assert_int_equal(words[2], 0xa20bc7c6);
    assert_int_equal(words[3], 0x6d5451fd);
}

static void normal_numbers_have_their_moments(void **state)
{
    (void)state;
    enum { COUNT = 200003 };
    float *values = malloc(COUNT * sizeof *values);
    bt_rng_normal_fill((bt_rng){1337, 5}, values, COUNT, 1.0, 2.0);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < COUNT; ++i) {
        sum += (double)values[i];
        squares += ((double)values[i] - 1) * ((double)values[i] - 1);
    }
    // Five standard errors.
    assert_true(fabs(sum / COUNT - 1) < 5 * 2 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 4) < 5 * 4 * sqrt(2.0 / COUNT));
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_keeps_message_and_context),
        cmocka_unit_test(clean_up_keeps_the_first_message),
        cmocka_unit_test(asserts_of_the_library_run),
        cmocka_unit_test(uniform_numbers_stay_below_one),
        cmocka_unit_test(memory_failure_is_injected_once),
        cmocka_unit_test(arena_blocks_are_zero_and_aligned),
        cmocka_unit_test(arena_refuses_what_overflows),
        cmocka_unit_test(arrays_fit_the_type_that_they_are_of),
        cmocka_unit_test(lists_grow_and_keep_what_they_hold),
        cmocka_unit_test(steps_after_a_failure_are_left_out),
        cmocka_unit_test(locals_are_released_on_every_path),
        cmocka_unit_test(rows_are_found_by_their_text),
        cmocka_unit_test(string_refuses_what_overflows),
        cmocka_unit_test(string_survives_failure),
        cmocka_unit_test_setup_teardown(files_are_replaced_whole, test_scratch_setup,
                                        test_scratch_teardown),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(philox_matches_published_vectors),
        cmocka_unit_test(normal_numbers_have_their_moments),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}

// tests/harness/test_scale.c - 1,000 sessions with 10 million samples answer in under two seconds
//
// Asserted is the time of this process's CPU: what a reader on an idle machine waits for, since
// the file is in memory once it has been made. Wall time is printed beside it.
#include "tests/support/test.h"

#include <sys/stat.h>
#include <time.h>

#include "framework/base/clock.h"
#include "harness/compare/compare.h"
#include "harness/history/history.h"
#include "harness/report/report.h"
#include "tests/harness/big_store.h"
#include "tests/harness/scratch_store.h"

enum { SESSIONS = 1000 };

static double cpu_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int make_big(void **state)
{
    int64_t samples = 0, begun_ns = bt_clock_ns();
    if (scratch_database_name(state) != 0 || big_store_make(scratch_database, SESSIONS) != BT_OK ||
        big_store_count(scratch_database, &samples) != BT_OK ||
        bt_store_open(scratch_database, BT_STORE_READ, &scratch_store) != BT_OK) {
        print_error("%s\n", bt_error_message());
        return -1;
    }
    struct stat file;
    (void)stat(scratch_database, &file);
    print_message("%d sessions, %lld samples, %lld MB, made in %.1f s\n", SESSIONS,
                  (long long)samples, (long long)file.st_size / 1000000,
                  (double)(bt_clock_ns() - begun_ns) / 1e9);
    return samples >= 10000000 ? 0 : -1;
}

#define ANSWERS(what, call)                                                                        \
    do {                                                                                           \
        bt_str answer = {0};                                                                       \
        double began_s = cpu_s();                                                                  \
        int64_t began_ns = bt_clock_ns();                                                          \
        ASSERT_OK(call);                                                                           \
        double took_s = cpu_s() - began_s;                                                         \
        print_message("%-32s %.3f s of CPU, %.3f s, %zu bytes\n", what, took_s,                    \
                      (double)(bt_clock_ns() - began_ns) / 1e9, answer.length_bytes);              \
        assert_true(answer.length_bytes > 0);                                                      \
        bt_str_release(&answer);                                                                   \
        assert_true(took_s < 2.0);                                                                 \
    } while (0)

static void lists_and_comparisons(void **state)
{
    (void)state;
    ANSWERS("list runs", bt_show_list_text(scratch_store, 0, &answer));
    ANSWERS("show, kernels", bt_show_text(scratch_store, 991, 0, &answer));
    ANSWERS("show, training", bt_show_text(scratch_store, 990, 0, &answer));
    ANSWERS("compare, kernels", bt_compare_text(scratch_store, 991, 999, 0, &answer, NULL));
    ANSWERS("compare, training", bt_compare_text(scratch_store, 990, 1000, 0, &answer, NULL));
}

static bt_status history_text(const char *name, const char *metric, bt_str *out)
{
    bt_history history;
    BT_TRY(bt_history_read(scratch_store, name, metric, NULL, &history));
    bt_status status = bt_history_text(&history, 0, out);
    bt_history_release(&history);
    return status;
}

static void histories(void **state)
{
    (void)state;
    ANSWERS("history, a kernel", history_text("op3.f32", NULL, &answer));
    ANSWERS("history, its bandwidth", history_text("op3.f32", "bandwidth_bytes_per_s", &answer));
    ANSWERS("history, training", history_text("fp32", "tokens_per_s", &answer));
    bt_history history;
    ASSERT_OK(bt_history_read(scratch_store, "op3.f32", NULL, NULL, &history));
    assert_int_equal(history.series[0].session_count, SESSIONS - SESSIONS / 10 - 1);
    assert_int_equal(history.series[0].change_count, 1);
    int64_t place = history.series[0].changes[0].index;
    assert_int_equal(history.series[0].sessions[place].run, BIG_SHIFT_AT + 1); // 600 trains
    bt_history_release(&history);
}

static void reports(void **state)
{
    (void)state;
    const int64_t kernels[] = {991, 992, 993, 994, 995, 996, 997, 998, 999, 989};
    const int64_t training[] = {1000, 990, 980, 970};
    const int64_t both[] = {999, 1000};
    ANSWERS("report, a run", bt_report_html(scratch_store, both, 1, &answer));
    ANSWERS("report, both kinds", bt_report_html(scratch_store, both, 2, &answer));
    ANSWERS("report, 10 of kernels", bt_report_html(scratch_store, kernels, 10, &answer));
    ANSWERS("report, 4 of training", bt_report_html(scratch_store, training, 4, &answer));
    ANSWERS("report as JSON", bt_report_json(scratch_store, both, 2, &answer));
    ANSWERS("report as Markdown", bt_report_markdown(scratch_store, both, 2, &answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_comparisons),
        cmocka_unit_test(histories),
        cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests(tests, make_big, scratch_store_close);
}

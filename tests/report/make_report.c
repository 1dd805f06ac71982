// tests/report/make_report.c - makes the reports that the browser looks at
//   make_report DATABASE KIND FILE...    records the made-up runs of KIND, writes each report file
// KINDS: one (a run, two cases), two (two runs), many (twenty), long (10,000 steps), failed,
// hostile (markup in every text), running. Exit 0, or 1 with the reason.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "tests/harness/sample_run.h"

enum { MANY = 20 };

static bt_status record(bt_store *store, const char *kind, int64_t runs[MANY], int64_t *count)
{
    sample_run sample = sample_run_default();
    *count = 1;
    if (strcmp(kind, "one") == 0) {
        sample.cases[1] = "bf16";
    } else if (strcmp(kind, "long") == 0) {
        sample.steps = 10000;
    } else if (strcmp(kind, "failed") == 0) {
        sample.status = BT_RUN_FAILED;
    } else if (strcmp(kind, "running") == 0) {
        sample.status = BT_RUN_RUNNING;
    } else if (strcmp(kind, "hostile") == 0) {
        sample.suite = "<script>window.hacked=1</script>";
        sample.device = "\"><img src=x onerror=window.hacked=1>";
        sample.cases[0] = "</script><script>window.hacked=1</script>&amp;";
        sample.fact = "</pre><script>window.hacked=1</script>";
        sample.plan_json = "{\"a\":\"</pre><script>window.hacked=1</script>\"}";
        sample.status = BT_RUN_FAILED;
    } else if (strcmp(kind, "two") == 0) {
        BT_TRY(sample_run_record(store, &sample, &runs[0]));
        sample.loss_shift = 0.1;
        sample.step_ms = 210.0;
        sample.fact = "570.1";
        sample.plan_json = "{\"train\":{\"steps\":60,\"seed\":1338},\"model\":{\"layers\":12}}";
        sample.steps = 50;
        *count = 2;
    }
    if (strcmp(kind, "many") == 0) {
        for (*count = 1; *count < MANY; ++*count) {
            sample.step_ms *= 0.98;
            sample.loss_shift += 0.02;
            BT_TRY(sample_run_record(store, &sample, &runs[*count - 1]));
        }
        sample.status = BT_RUN_FAILED;
    }
    return sample_run_record(store, &sample, &runs[*count - 1]);
}

static bt_status work(int argc, char **argv)
{
    bt_store *store = NULL;
    bt_str out = {0};
    int64_t runs[MANY] = {0}, count = 0;
    BT_TRY(bt_store_open(argv[1], BT_STORE_WRITE, &store));
    bt_status status = record(store, argv[2], runs, &count);
    if (status == BT_OK && argc == 3) {
        status = bt_show_text(store, runs[0], &out);
        if (status == BT_OK) {
            status = bt_show_json(store, runs[0], &out);
        }
        if (status == BT_OK && count == 2) {
            status = bt_compare_text(store, runs[0], runs[1], &out);
        }
        (void)fputs(bt_str_text(&out), stdout);
    }
    for (int i = 3; status == BT_OK && i < argc; i++) {
        int64_t start_ns = bt_clock_ns();
        status = bt_report_write(store, runs, count, argv[i]);
        (void)printf("%s %.3f s\n", argv[i], (double)(bt_clock_ns() - start_ns) / 1e9);
    }
    bt_str_release(&out);
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fputs("usage: make_report DATABASE KIND FILE...\n", stderr);
        return 2;
    }
    if (work(argc, argv) != BT_OK) {
        (void)fprintf(stderr, "%s\n", bt_error_message());
        return 1;
    }
    return 0;
}

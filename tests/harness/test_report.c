// tests/harness/test_report.c - show, and the reports as files (how the page looks and behaves in a
// browser: tests/report)
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/report/curves.h"
#include "harness/report/internal.h"
#include "harness/report/report.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/schema_check.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"

static int64_t record(const sample_run *sample)
{
    int64_t run = 0;
    ASSERT_OK(sample_run_record(scratch_store, sample, &run));
    return run;
}

// A report of any format as text, through the file that it becomes. Owned: the caller.
static char *report_text(const int64_t *runs, int64_t count, const char *ending)
{
    char path[128];
    void *text = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s%s", test_scratch_path("report"), ending);
    ASSERT_OK(bt_report_write(scratch_store, runs, count, path));
    ASSERT_OK(bt_file_read(path, &text, &size_bytes));
    assert_int_equal(strlen(text), size_bytes);
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (!text || !strstr(text, words)) {
        fail_msg("no '%s' in:\n%.2000s", words, text ? text : "");
    }
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

// What was made again instead of being kept stands beside the memory, and in the report.
static void recomputation_is_shown(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    const struct {
        const char *axes, *text;
    } cases[] = {{"{\"train\":{\"recompute\":\"block\",\"recompute_blocks\":17}}",
                  ", recompute block in 17 blocks"},
                 {"{\"train\":{\"recompute\":\"gelu_ln\",\"recompute_blocks\":0}}",
                  ", recompute gelu_ln in all blocks"},
                 {"{\"train\":{\"recompute\":\"none\",\"recompute_blocks\":0}}", NULL},
                 {"{\"train\":{\"recompute\":true}}", NULL}}; // of an older build
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_str shown = {0}, page = {0};
        sample.axes_json = cases[i].axes;
        const int64_t run = record(&sample);
        ASSERT_OK(bt_show_text(scratch_store, run, 0, &shown));
        ASSERT_OK(bt_report_html(scratch_store, &run, 1, &page));
        if (cases[i].text) {
            assert_has(bt_str_text(&shown), cases[i].text);
            assert_has(bt_str_text(&page), cases[i].text);
        } else {
            assert_null(strstr(bt_str_text(&shown), "recompute"));
        }
        bt_str_release(&shown);
        bt_str_release(&page);
    }
}

static void show_says_what_came_of_a_run(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t passed = record(&sample);
    sample.status = BT_RUN_FAILED;
    sample.device = "a\x1b[31mred\x07 machine";
    int64_t failed = record(&sample);
    bt_str out = {0};
    ASSERT_OK(bt_show_text(scratch_store, passed, 0, &out));
    assert_has(bt_str_text(&out), "run 1 passed   gpt2_124m, profile cpu");
    assert_has(bt_str_text(&out), "loss         10.961 -> 3.242   validation 3.302");
    assert_has(bt_str_text(&out), ", blutrain  passed");
    assert_has(bt_str_text(&out), "speed        2050.6 tok/s [2047.5, 2053.7]");
    assert_has(bt_str_text(&out), "memory       peak 2.40 GiB allocated, 2.90 GiB resident");
    assert_has(bt_str_text(&out), "parameters 9c41d0e2b35a7f08");
    assert_has(bt_str_text(&out), "report         results/run-1/report.html");
    bt_str_clear(&out);
    ASSERT_OK(bt_show_text(scratch_store, failed, 0, &out));
    assert_has(bt_str_text(&out), "failed");
    assert_has(bt_str_text(&out), "the loss is not finite at step 59");
    assert_null(strchr(bt_str_text(&out), '\x1b')); // nothing recorded steers the terminal
    assert_has(bt_str_text(&out), "a?[31mred? machine");
    bt_str_clear(&out);
    ASSERT_OK(bt_show_list_text(scratch_store, 0, &out));
    assert_has(bt_str_text(&out), "run  suite      profile  status  rounds  steps  started");
    bt_str_clear(&out);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 3", bt_show_text(scratch_store, 3, 0, &out));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 3", bt_show_json(scratch_store, 3, &out));
    sample = sample_run_default();
    sample.rounds = 2;
    ASSERT_OK(bt_show_text(scratch_store, record(&sample), 0, &out));
    assert_has(bt_str_text(&out), ", blutrain, round 1  passed");
    assert_has(bt_str_text(&out), ", blutrain, round 2  passed");
    bt_str_release(&out);
}

static void show_json_has_the_agreed_keys(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_str out = {0};
    ASSERT_OK(bt_show_json(scratch_store, record(&sample), &out));
    cJSON *json = cJSON_Parse(bt_str_text(&out));
    static const char *const keys[] = {"run", "status", "suite", "profile", "report", "cases"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(cJSON_GetObjectItem(json, keys[i]));
    }
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "cases"), 0);
    static const char *const case_keys[] = {"name", "system", "status", "metrics", "params_digest"};
    for (size_t i = 0; i < sizeof case_keys / sizeof case_keys[0]; i++) {
        assert_non_null(cJSON_GetObjectItem(first, case_keys[i]));
    }
    const cJSON *metrics = cJSON_GetObjectItem(first, "metrics");
    double rate = cJSON_GetObjectItem(metrics, "tokens_per_s")->valuedouble;
    assert_true(rate > 2045.0 && rate < 2057.0);
    cJSON_Delete(json);
    bt_str_release(&out);
}

static const bt_store_fault spike = {7, "loss_spike", "continue",
                                     "loss 9 where <b>2</b> was usual"};

static void faults_are_shown(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_str out = {0};
    sample.fault = &spike;
    int64_t run = record(&sample);
    ASSERT_OK(bt_show_text(scratch_store, run, 0, &out));
    assert_has(bt_str_text(&out), "fault        step 7: loss_spike, continue: loss 9 where");
    bt_str_release(&out);
    char *page = report_text(&run, 1, ".html");
    assert_has(page,
               ": 1 fault, the first at step 7: loss_spike, continue. loss 9 where &lt;b&gt;");
    bt_mem_free(page);
}

static const bt_store_launch launches[] = {{0, "memory", "kernel by kernel: <not yet>"},
                                           {3, "graph", "one launch"}};

static void launches_are_shown(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_str out = {0};
    sample.launches = launches;
    sample.launch_count = 2;
    int64_t run = record(&sample);
    ASSERT_OK(bt_show_text(scratch_store, run, 0, &out));
    assert_has(bt_str_text(&out), "launched     from step 0 on: memory; kernel by kernel");
    assert_has(bt_str_text(&out), "launched     from step 3 on: graph; one launch");
    bt_str_release(&out);
    char *page = report_text(&run, 1, ".html");
    assert_has(page, "How steps were launched, ");
    assert_has(page, "<th scope=row class=n>0</th><td>memory<td>kernel by kernel: &lt;not yet&gt;");
    bt_mem_free(page);
    sample.launches = &(bt_store_launch){0, "off", "kernel by kernel"};
    sample.launch_count = 1;
    run = record(&sample);
    ASSERT_OK(bt_show_text(scratch_store, run, 0, &out));
    assert_null(strstr(bt_str_text(&out), "launched"));
    bt_str_release(&out);
    page = report_text(&run, 1, ".html");
    assert_null(strstr(page, "How steps were launched"));
    bt_mem_free(page);
}

static void a_step_of_each_rank_is_drawn(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.ranks = 2;
    int64_t run = record(&sample);
    char *page = report_text(&run, 1, ".html");
    assert_has(page, "<h2>One step of each rank</h2>");
    assert_has(page,
               "step 50 takes 900 us; exposed communication 270 us on average, 360 us at most "
               "(rank 1)");
    assert_has(page,
               "aria-label=\"rank 1: step 900 us, exposed communication 360 us, products 120 us, "
               "attention 120 us, other ops 240 us, between ops 60.0 us\"");
    // Both end 920 us after the first start. A part is 1.63 of 1000 wide: rank 1 waits from its
    // third part on, 20 us later, for twelve parts.
    assert_has(page, "<path class=work-c d=\"M25.0 30h19.6v14h-19.6z");
    assert_has(page, "<i title=\"forward\" style=\"left:0.00%;width:32.61%\">forward</i>");
    assert_has(page, "<th scope=row class=n>1</th><td class=n data-v=\"900000\">900 us");
    bt_mem_free(page);
    char *text = report_text(&run, 1, ".md");
    assert_has(text, "| 1 | 900 us | 360 us | 120 us | 120 us | 240 us | 60.0 us |");
    assert_int_equal(count_of(text, "the rank that waits least shows what communication costs"), 1);
    bt_mem_free(text);
    sample.ranks = 0;
    run = record(&sample);
    page = report_text(&run, 1, ".html");
    assert_null(strstr(page, "One step of each rank"));
    bt_mem_free(page);
}

static void the_table_of_ranks_says_what_is_known(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.kind = "train";
    sample.axes_json =
        "{\"train\":{\"mesh\":{\"data\":2,\"sharding\":\"zero1\",\"bucket_mb\":25}}}";
    int64_t run = record(&sample);
    char *text = report_text(&run, 1, ".md");
    assert_has(text, "| case | ranks | speed | step | mesh | sharding | bucket | peak memory |\n");
    assert_has(text, "| fp32 | 2 | 2051 tok/s | 250 ms | data 2 | zero1 | 25 MiB | 2.40 GiB |\n");
    assert_has(text, "\nSpeed: tokens of all ranks per second. Mesh: the ranks that share tokens "
                     "(data), matrices (tensor) and sequences (context), and how they work if not "
                     "by default (train.mesh of the suite).\n"); // of columns shown
    bt_mem_free(text);
    sample.system = "pytorch-eager"; // which may not shard
    run = record(&sample);
    text = report_text(&run, 1, ".md");
    assert_has(text, "| case | ranks | speed | step | mesh | bucket | peak memory |\n");
    assert_null(strstr(text, "zero1"));
    bt_mem_free(text);
    // Tensor parallel ranks alone reduce no gradients; context parallel ranks do.
    static const char *const meshes[][2] = {
        {"tensor", "| case | ranks | speed | step | mesh | peak memory |\n"},
        {"context", "| case | ranks | speed | step | mesh | sharding | bucket | peak memory |\n"}};
    sample = sample_run_default();
    sample.kind = "train";
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        char axes[128];
        (void)snprintf(axes, sizeof axes,
                       "{\"train\":{\"mesh\":{\"%s\":2,\"sharding\":\"zero1\",\"bucket_mb\":25}}}",
                       meshes[i][0]);
        sample.axes_json = axes;
        run = record(&sample);
        text = report_text(&run, 1, ".md");
        assert_has(text, meshes[i][1]);
        bt_mem_free(text);
    }
}

static const bt_store_group groups[] = {
    {"backward", "column", "column-0badcafe", "mul, reduce_sum", 3, 6, 3000000, 1000000, 500000},
    {"forward", "", "", "", 9, 9, 0, 0, 7000000},
    {"forward", "row", "row-01<i>", "square, reduce_sum, mul x2", 4, 16, 8000000, 2000000,
     1000000}};

static const bt_store_group_calls group_calls[] = {{"backward", "column-0badcafe", 1500000},
                                                   {"forward", "row-01<i>", 3500000}};

static void kernels_of_compiled_steps_are_drawn(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16"; // without groups: the eager one
    sample.axes_json = "{\"train\":{\"steps\":60}}";
    sample.groups = groups;
    sample.group_count = 3;
    int64_t run = record(&sample);
    char *page = report_text(&run, 1, ".html");
    assert_has(page, "22 of 31 kernel calls of a micro-batch in 7 groups, which move 2.86 MiB "
                     "instead of 10.5 MiB; a step ");
    assert_has(page, ", eager ");
    const char *row = strstr(page, "<th scope=row>row-01&lt;i&gt;</th><td class=word>forward");
    const char *calls = strstr(page, "<th scope=row>calls in no group</th>");
    const char *column = strstr(page, "<th scope=row>column-0badcafe</th><td class=word>backward");
    assert_true(row && row < calls && calls < column); // forward, groups before calls
    assert_has(row, "<i class=\"bar d3\" style=\"left:0;width:100.00%\"></i>"
                    "<i class=\"bar d0\" style=\"left:0;width:25.00%\"></i>");
    assert_has(row,
               "<td class=n data-v=\"2e+09\">2.00 GB/s<td class=n>4<td class=n>16<td class=long>"
               "square, reduce_sum, mul x2");
    assert_null(strstr(page, " in 1.5 ms instead of ")); // not measured
    bt_mem_free(page);
    char *text = report_text(&run, 1, ".md");
    assert_has(text, "| column-0badcafe | backward | 977 KiB | 2.86 MiB | 500 us |  |  | 2.00 GB/s "
                     "| 3 | 6 | mul, reduce\\_sum |");
    bt_mem_free(text);
    sample.group_calls = group_calls;
    sample.group_calls_count = 2;
    run = record(&sample);
    page = report_text(&run, 1, ".html");
    assert_has(page, "7 groups, which move 2.86 MiB instead of 10.5 MiB in 1.50 ms instead of "
                     "5.00 ms: 3.33x; a step ");
    assert_has(strstr(page, "<th scope=row>row-01"), "<td class=n data-v=3.5000>3.5x");
    bt_mem_free(page);
    text = report_text(&run, 1, ".md");
    assert_has(text, "| column-0badcafe | backward | 977 KiB | 2.86 MiB | 500 us | 1.50 ms | 3x | "
                     "2.00 GB/s | 3 | 6 | mul, reduce\\_sum |");
    bt_mem_free(text);
    text = report_text(&run, 1, ".json");
    assert_has(text, "\"group_calls\"");
    assert_has(text, "1500000");
    bt_mem_free(text);
    sample.group_calls_count = 0;
    sample.cases[1] = NULL; // no eager case: nothing is compared
    run = record(&sample);
    page = report_text(&run, 1, ".html");
    assert_has(page, "<h2>Compiled steps</h2>");
    assert_null(strstr(page, ", eager "));
    bt_mem_free(page);
}

static cJSON *read_schema(void)
{
    void *text = NULL;
    size_t size_bytes = 0;
    ASSERT_OK(bt_file_read("suites/schema/report.schema.json", &text, &size_bytes));
    cJSON *schema = cJSON_Parse(text);
    bt_mem_free(text);
    assert_non_null(schema);
    return schema;
}

static void json_report_satisfies_its_schema(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16";
    sample.fault = &spike;
    sample.launches = launches;
    sample.launch_count = 2;
    sample.ranks = 2;
    sample.groups = groups;
    sample.group_count = 3;
    int64_t runs[2] = {record(&sample), 0};
    sample.status = BT_RUN_RUNNING;
    sample.steps = 0; // nothing measured yet
    runs[1] = record(&sample);
    cJSON *schema = read_schema();
    char *text = report_text(runs, 2, ".json");
    cJSON *report = cJSON_Parse(text);
    assert_non_null(report);
    assert_string_equal(schema_check(schema, report), "");
    const cJSON *run = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "runs"), 0);
    cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(run, "cases"), 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "faults")), 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "step_rows")), 60);
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "step_rows"), 7);
    assert_int_equal(cJSON_GetArrayItem(row, 0)->valueint, 7);
    sample.steps = 60;
    bt_store_step step = sample_step(&sample, 7);
    assert_true((float)cJSON_GetArrayItem(row, 1)->valuedouble == step.loss);
    // The checker itself: a report that is wrong in one place is refused there.
    cJSON_DeleteItemFromObject(first, "status");
    assert_string_equal(schema_check(schema, report), ".runs[0].cases[0]: no 'status'");
    cJSON_AddStringToObject(first, "status", "fine");
    assert_string_equal(schema_check(schema, report),
                        ".runs[0].cases[0].status: none of the values allowed");
    cJSON_ReplaceItemInObject(first, "status", cJSON_CreateString("passed"));
    cJSON_AddNullToObject(first, "extra");
    assert_string_equal(schema_check(schema, report),
                        ".runs[0].cases[0].extra: not a key of this object");
    cJSON_Delete(report);
    cJSON_Delete(schema);
    bt_mem_free(text);
}

static void markdown_is_a_table_and_stays_text(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.cases[0] = "a|b<script>";
    int64_t run = record(&sample);
    char *text = report_text(&run, 1, ".md");
    assert_has(text, "# gpt2\\_124m (cpu) passed: loss 10.961");
    assert_has(text, "| a\\|b\\<script\\> | passed | 2050.6 tok/s [2047.5, 2053.7] |");
    assert_has(text, "| step/forward/block/attention |");
    assert_null(strstr(text, "b<script"));
    bt_mem_free(text);
    sample.cases[1] = "bf16";
    run = record(&sample);
    text = report_text(&run, 1, ".md");
    assert_has(text, "# gpt2\\_124m (cpu) passed: all 2 cases, fastest ");
    bt_mem_free(text);
}

// `ab main . SUITE` compares builds, `ab --system blutrain,PEER SUITE` also a peer.
static void a_peer_has_no_planned_sharding(void **state)
{
    (void)state;
    const bt_store_system systems[] = {
        {.name = "candidate", .program = "", .build = {.digest = "0123abcd", .version = "1.0"}},
        {.name = "peer", .program = "/opt/peer.py", .build = {.digest = "peer"}},
    };
    const bt_store_schedule schedule = {
        .kind = "ab", .rule_json = "", .systems = systems, .system_count = 2};
    sample_run sample = sample_run_default();
    sample.kind = "train";
    sample.axes_json = "{\"train\":{\"mesh\":{\"data\":4,\"sharding\":\"zero1\"}}}";
    for (int i = 0; i < 2; i++) {
        sample.system = systems[i].name;
        const int64_t run = record(&sample);
        ASSERT_OK(bt_store_schedule_set(scratch_store, run, &schedule));
        char *text = report_text(&run, 1, ".md");
        const char *ranks = strstr(text, "\n## Several ranks\n");
        assert_non_null(ranks);
        assert_int_equal(strstr(ranks, " zero1 |") != NULL, i == 0);
        bt_mem_free(text);
    }
}

// Four ranks, and how many processors they might use.
static void ranks_that_take_turns_have_no_efficiency(void **state)
{
    (void)state;
    static const char *const usable[] = {"2", "4"};
    sample_run sample = sample_run_default();
    sample.kind = "train";
    sample.axes_json = "{\"train\":{\"mesh\":{\"data\":4}}}";
    for (int i = 0; i < 2; i++) {
        const bt_store_fact facts[] = {{"cpu.model", "EPYC", BT_FACT_HARD},
                                       {"cpu.usable", usable[i], BT_FACT_HARD}};
        sample.env = (bt_store_env){usable[i], facts, 2};
        const int64_t run = record(&sample);
        char *text = report_text(&run, 1, ".md");
        assert_int_equal(strstr(text, "have no efficiency and no bound") != NULL, i == 0);
        bt_mem_free(text);
    }
}

static void page_is_whole_and_refers_to_nothing_outside(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t runs[2] = {record(&sample), 0};
    sample.step_ms = 125.0;
    sample.fact = "570.1";
    runs[1] = record(&sample);
    char *text = report_text(runs, 2, ".html");
    assert_has(text, "<!doctype html>");
    assert_has(text, "2 runs of gpt2_124m side by side: 2 of 2 cases passed, fastest run 2, fp32");
    assert_has(text, "default-src 'none'");
    assert_has(text, "id=\"c0-step-7\"");
    assert_has(text, "<td>580.159<td>570.1<td>soft"); // what differs
    assert_has(text, ">0.500x</b>");
    assert_int_equal(count_of(text, "<figure"), 3);
    assert_int_equal(count_of(text, "{{"), 0);
    assert_null(strstr(text, "src=\"http"));
    assert_null(strstr(text, "href=\"http"));
    assert_null(strstr(text, "url("));
    assert_null(strstr(text, "@import"));
    bt_mem_free(text);
}

static void markup_from_the_database_stays_text(void **state)
{
    (void)state;
    static const char *const evil = "</script><script>alert(1)</script>\"'><img src=x>\xff";
    sample_run sample = sample_run_default();
    sample.suite = sample.profile = sample.device = sample.fact = evil;
    sample.cases[0] = evil;
    sample.plan_json = evil;
    sample.status = BT_RUN_FAILED;
    int64_t runs[2] = {record(&sample), record(&sample)};
    char *text = report_text(runs, 2, ".html");
    assert_null(strstr(text, "<script>alert"));
    assert_null(strstr(text, "<img"));
    assert_null(strstr(text, "\xff"));
    assert_has(text, "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img "
                     "src=x&gt;\xef\xbf\xbd");
    int scripts = count_of(text, "<script");
    bt_mem_free(text);
    sample = sample_run_default(); // as many scripts as a harmless page has
    int64_t plain[2] = {record(&sample), record(&sample)};
    text = report_text(plain, 2, ".html");
    assert_int_equal(count_of(text, "<script"), scripts);
    bt_mem_free(text);
}

static void unmeasured_runs_have_a_page_too(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.steps = 0;
    sample.status = BT_RUN_RUNNING;
    int64_t run = record(&sample);
    bt_store_run read;
    ASSERT_OK(bt_store_run_read(scratch_store, run, &read));
    bt_store_step step = {.step = 0, .loss = NAN, .grad_norm = INFINITY, .tokens = 1, .host_ns = 0};
    ASSERT_OK(bt_store_step_add(scratch_store, read.rounds[0].id, &step));
    bt_store_run_release(&read);
    char *text = report_text(&run, 1, ".html");
    assert_has(text, "is running");
    bt_mem_free(text);
    bt_store_run_info info = {.suite = {.plan_hash = "p", .plan_json = "not json"},
                              .build = {.digest = "b"},
                              .env = {.digest = "e"}};
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &run)); // not even a round
    text = report_text(&run, 1, ".html");
    assert_has(text, "not json");
    bt_mem_free(text);
    bt_mem_free(report_text(&run, 1, ".md"));
    bt_mem_free(report_text(&run, 1, ".json"));
}

static void ten_thousand_steps_in_two_seconds_and_two_megabytes(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.steps = 10000;
    int64_t run = record(&sample);
    char path[128];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s", test_scratch_path("long.html"));
    int64_t start_ns = bt_clock_ns();
    ASSERT_OK(bt_report_write(scratch_store, &run, 1, path));
    double seconds = (double)(bt_clock_ns() - start_ns) / 1e9;
    assert_int_equal(stat(path, &info), 0);
    print_message("%.3f s, %.2f MB\n", seconds, (double)info.st_size / 1e6);
    assert_true(seconds < 2.0);
    assert_true(info.st_size < 2000000);
    // The figures come from all steps, not from what is drawn.
    bt_summary summary;
    bt_store_run read;
    ASSERT_OK(bt_store_run_read(scratch_store, run, &read));
    ASSERT_OK(bt_summary_of(&read.rounds[0], &summary));
    assert_int_equal(summary.metrics[BT_METRIC_TOKENS_PER_S].count, 10000 - 2 - 1000);
    bt_store_run_release(&read);
}

static void thinning_keeps_extremes_and_order(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static double x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = sin(i * 0.01);
    }
    y[1234] = 50.0;
    y[7777] = -60.0;
    y[5000] = (double)NAN;
    y[5001] = (double)INFINITY;
    int64_t left = bt_curve_thin(x, y, COUNT, 100);
    assert_true(left <= 200 && left > 150);
    bool high = false, low = false;
    for (int64_t i = 0; i < left; i++) {
        assert_true(isfinite(y[i]));
        assert_true(i == 0 || x[i] > x[i - 1]);
        high = high || (y[i] == 50.0 && x[i] == 1234.0);
        low = low || (y[i] == -60.0 && x[i] == 7777.0);
    }
    assert_true(high && low);
    double few_x[] = {1, 2, 3}, few_y[] = {5, (double)NAN, 7};
    assert_int_equal(bt_curve_thin(few_x, few_y, 3, 100), 2);
    assert_true(few_x[1] == 3.0 && few_y[1] == 7.0);
    double six_x[] = {0, 1, 2, 3, 4, 5}, six_y[] = {9, 1, 2, 8, 3, 4};
    assert_int_equal(bt_curve_medians(six_x, six_y, NULL, NULL, 6, 2), 2);
    assert_true(six_x[0] == 1.0 && six_y[0] == 2.0 && six_x[1] == 4.0 && six_y[1] == 4.0);
}

static void ranges_become_a_tree(void **state)
{
    (void)state;
    bt_store_range ranges[] = {
        {9, "step/backward", 1, 600, 1},   {9, "step/forward", 1, 300, 1},
        {9, "step/forward/a", 12, 250, 1}, {9, "step", 1, 1000, 1},
        {9, "stepping", 1, 5, 1},          {19, "step", 1, 1200, 1},
        {19, "step/forward", 1, 300, 1},   {19, "step/x/y", 2, 100, 1},
    };
    bt_store_round round = {.ranges = ranges, .range_count = 8};
    bt_arena arena = {0};
    range_tree tree;
    ASSERT_OK(bt_range_tree_make(&round, &arena, &tree));
    static const struct {
        const char *path, *name;
        int depth;
        double time_ns, offset_ns, rest_ns, calls;
    } rows[] = {
        {"step", "step", 0, 1100.0, 0.0, 450.0, 1.0},
        {"step/backward", "backward", 1, 300.0, 0.0, 300.0, 0.5},
        {"step/forward", "forward", 1, 300.0, 300.0, 175.0, 1.0},
        {"step/forward/a", "a", 2, 125.0, 300.0, 125.0, 6.0},
        {"step/x/y", "x/y", 1, 50.0, 600.0, 50.0, 1.0},
        {"stepping", "stepping", 0, 2.5, 1100.0, 2.5, 0.5},
    };
    assert_int_equal(tree.count, 6);
    assert_int_equal(tree.steps, 2);
    assert_true(tree.on_device);
    for (int i = 0; i < 6; i++) {
        const range_node *node = &tree.nodes[i];
        assert_string_equal(node->path, rows[i].path);
        assert_string_equal(node->name, rows[i].name);
        assert_int_equal(node->depth, rows[i].depth);
        assert_true(node->time_ns == rows[i].time_ns && node->offset_ns == rows[i].offset_ns);
        assert_true(node->rest_ns == rows[i].rest_ns && node->calls == rows[i].calls);
    }
    bt_arena_release(&arena);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t run = record(&sample), missing = 77;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "expected .html, .md, .json, .csv",
                 bt_report_write(scratch_store, &run, 1, "report.pdf"));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "expected .html, .md, .json, .csv",
                 bt_report_write(scratch_store, &run, 1, "report"));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "at least one run",
                 bt_report_write(scratch_store, &run, 0, "/tmp/x.html"));
    int64_t twice[] = {run, run};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 1 is given twice",
                 bt_report_write(scratch_store, twice, 2, "/tmp/x.html"));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 77",
                 bt_report_write(scratch_store, &missing, 1, "/tmp/x.html"));
    ASSERT_FAILS(BT_STATUS_IO, "/nowhere/x.html",
                 bt_report_write(scratch_store, &run, 1, "/nowhere/x.html"));
}

typedef bt_status (*report_writer)(bt_store *, const int64_t *, int64_t, bt_str *);
static const report_writer writers[] = {bt_report_html, bt_report_markdown, bt_report_json};

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.steps = 12;
    int64_t runs[2] = {record(&sample), 0};
    sample.fact = "other";
    runs[1] = record(&sample);
    int64_t live = bt_mem_live_count();
    for (size_t w = 0; w < sizeof writers / sizeof writers[0]; w++) {
        bt_status status = BT_STATUS_OUT_OF_MEMORY;
        int64_t n = 0;
        while (status != BT_OK) {
            bt_str out = {0};
            bt_mem_fail_at(++n);
            status = writers[w](scratch_store, runs, 2, &out);
            bt_mem_fail_at(0);
            bt_str_release(&out);
            if (status != BT_OK) {
                assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
            }
            assert_int_equal(bt_mem_live_count(), live);
            assert_true(n < 1000);
        }
        assert_true(n > 10);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(show_says_what_came_of_a_run),
        TEST(recomputation_is_shown),
        TEST(show_json_has_the_agreed_keys),
        TEST(faults_are_shown),
        TEST(launches_are_shown),
        TEST(a_step_of_each_rank_is_drawn),
        TEST(the_table_of_ranks_says_what_is_known),
        TEST(kernels_of_compiled_steps_are_drawn),
        TEST(json_report_satisfies_its_schema),
        TEST(markdown_is_a_table_and_stays_text),
        TEST(a_peer_has_no_planned_sharding),
        TEST(ranks_that_take_turns_have_no_efficiency),
        TEST(page_is_whole_and_refers_to_nothing_outside),
        TEST(markup_from_the_database_stays_text),
        TEST(unmeasured_runs_have_a_page_too),
        TEST(ten_thousand_steps_in_two_seconds_and_two_megabytes),
        cmocka_unit_test(thinning_keeps_extremes_and_order),
        cmocka_unit_test(ranges_become_a_tree),
        TEST(bad_requests_are_refused),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

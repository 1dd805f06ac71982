// tests/harness/test_publish.c - a publication: what is in it, what it leaves out, what it refuses
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/redact/redact.h"
#include "harness/report/publish.h"
#include "harness/report/publish_text.h"
#include "harness/report/report.h"
#include "tests/harness/sample_kernels.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/schema_check.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"

static char target[128];

static int open_store(void **state)
{
    int opened = scratch_store_open(state);
    (void)snprintf(target, sizeof target, "%s", test_scratch_path("out/first"));
    return opened;
}

static int64_t record_claims(void)
{
    int64_t run = 0;
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.kind = "replicate";
    sample.rounds = 2;
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &run));
    return run;
}

static int64_t record_training(const char *command)
{
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.command = command;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    return run;
}

// A file of the publication as text. Owned: the caller.
static char *file_text(const char *name)
{
    char path[256];
    void *text = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/%s", target, name);
    ASSERT_OK(bt_file_read(path, &text, &size_bytes));
    assert_int_equal(strlen(text), size_bytes);
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (!text || !strstr(text, words)) {
        fail_msg("no '%s' in:\n%.3000s", words, text ? text : "");
    }
}

static void a_replication_has_verdicts_plots_and_how_to_rerun(void **state)
{
    (void)state;
    int64_t run = record_claims();
    bt_json_doc claims;
    static const char text[] =
        "{\"paper\": \"arXiv 2606.24780\", \"title\": \"BluTrain\","
        " \"url\": \"https://arxiv.org/abs/2606.24780\","
        " \"conditions\": [{\"name\": \"kernel\", \"text\": \"One RTX 6000 Ada\"},"
        " {\"name\": \"other\", \"text\": \"never met\"}],"
        " \"claims\": [{\"id\": \"B.1.forward.f32.1024x768\", \"conditions\": \"kernel\"},"
        " {\"id\": \"B.1\", \"conditions\": \"other\"}]}";
    ASSERT_OK(bt_json_parse("claims", text, strlen(text), &claims));
    bt_publication publication = {.folder = target, .claims = &claims, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    bt_json_doc_release(&claims);
    char *readme = file_text("README.md");
    assert_has(readme, "measurements that the paper makes claims about, ");
    assert_has(readme, "Claims without a ratio:\n\n- NOT TESTABLE HERE, ");
    assert_has(readme, ": needs two GPUs (B.");
    assert_null(strstr(readme, "| needs two GPUs |")); // one line for all of them, no rows
    assert_has(readme, "![ratios with their intervals](ratios-replicate-1.svg)");
    assert_has(readme, "- the paper (kernel): One RTX 6000 Ada");
    assert_has(readme,
               "- the paper: [BluTrain, arXiv 2606.24780](https://arxiv.org/abs/2606.24780); ");
    assert_null(strstr(readme, "never met"));
    assert_has(readme, "- here: NVIDIA H200; gpu.driver 580.159");
    assert_has(readme, "git checkout 3f50b31c\n./bt-bench run suites/kernels/all --rounds 8\n");
    assert_has(readme, "| plan | 77aa01c2 |");
    assert_has(readme, "[report.json](report.json)");
    bt_mem_free(readme);
    char *plot = file_text("ratios-replicate-1.svg");
    assert_has(plot, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    assert_has(plot, "prefers-color-scheme:dark");
    bt_mem_free(plot);
    char *page = file_text("index.html");
    assert_has(page, "<!doctype html>");
    assert_has(page, "<li>the paper (kernel): One RTX 6000 Ada</li>");
    assert_null(strstr(page, "never met"));
    assert_has(page, "\">B.<wbr>1.<wbr>forward.<wbr>f32.<wbr>1024x768</a>"); // breaks at these
    bt_mem_free(page);
    char *environment = file_text("environment.json");
    cJSON *json = cJSON_Parse(environment);
    assert_non_null(cJSON_GetObjectItem(json, "runs"));
    cJSON_Delete(json);
    bt_mem_free(environment);
}

// Page and Markdown of a run that has recorded claims and deviations.
static void check_deviations(const char *page, const char *text)
{
    assert_has(page, "7 of 27 claims are tested by a case that differs from the paper's, marked "
                     "with *: see <a href=\"#deviations-replicate-1\">Deviations</a>");
    assert_has(page, "title=\"attention in FP32; &lt;b&gt;tied\">*</a>");
    assert_has(page, "<h3 id=\"deviations-replicate-1\">Deviations</h3>");
    assert_has(page, "<li>the paper: A Paper, arXiv 1 (https://arxiv.org/abs/1); ");
    assert_has(page, "<li>here: NVIDIA H200; gpu.driver 580.159");
    assert_has(page, "<li>attention in FP32; &lt;b&gt;tied (B.");
    assert_null(strstr(page, "<b>tied"));
    assert_has(text, "\n## Deviations\n");
    assert_has(text, "- the paper: [A Paper, arXiv 1](https://arxiv.org/abs/1); ");
    assert_has(text, "- attention in FP32; \\<b\\>tied (B.");
    assert_has(text, "| B.1.forward.f32.1024x768 \\* |");
    assert_has(text, "\n\\*: the case differs from the paper's, see 'Deviations'.\n");
}

static void deviations_are_on_the_page_too(void **state)
{
    (void)state;
    static const char claims[] = "{\"paper\": \"arXiv 1\", \"title\": \"A Paper\","
                                 " \"url\": \"https://arxiv.org/abs/1\", \"claims\": []}";
    const bt_store_file file = {"claims", "claims.json", claims, sizeof claims - 1};
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.kind = "replicate";
    sample.deviations = "attention in FP32; <b>tied";
    int64_t run = 0;
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &run));
    ASSERT_OK(bt_store_file_set(scratch_store, run, &file));
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    char *page = file_text("index.html"), *text = file_text("README.md");
    check_deviations(page, text);
    bt_mem_free(page);
    bt_mem_free(text);
    bt_str made = {0}, plain = {0};
    ASSERT_OK(bt_report_html(scratch_store, &run, 1, &made));
    ASSERT_OK(bt_report_markdown(scratch_store, &run, 1, &plain));
    check_deviations(bt_str_text(&made), bt_str_text(&plain));
    bt_str_release(&made);
    bt_str_release(&plain);
}

static void one_measurement_is_no_plural(void **state)
{
    (void)state;
    sample_kernels sample = sample_kernels_default();
    sample.systems[1] = "pytorch-eager";
    sample.kind = "replicate";
    sample.cases = 1;
    int64_t run = 0;
    bt_str text = {0};
    ASSERT_OK(sample_kernels_record(scratch_store, &sample, &run));
    ASSERT_OK(bt_report_markdown(scratch_store, &run, 1, &text));
    assert_has(bt_str_text(&text), "# Of 1 measurement that the paper makes claims about, 1 ");
    bt_str_release(&text);
}

static void the_json_satisfies_its_schema(void **state)
{
    (void)state;
    int64_t run = record_claims();
    void *bytes = NULL;
    size_t size_bytes = 0;
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    ASSERT_OK(bt_file_read("suites/schema/report.schema.json", &bytes, &size_bytes));
    cJSON *schema = cJSON_Parse(bytes);
    char *text = file_text("report.json");
    cJSON *report = cJSON_Parse(text);
    assert_string_equal(schema_check(schema, report), "");
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "runs"), 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "verdicts")), 30);
    cJSON_Delete(report);
    cJSON_Delete(schema);
    bt_mem_free(text);
    bt_mem_free(bytes);
}

static void paths_and_markup_stay_here(void **state)
{
    (void)state;
    int64_t run = record_training("/home/lovelace/secret/bt-bench run /home/lovelace/mine.json "
                                  "--set a=`reboot`\n```\n<script>");
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    static const char *const names[] = {"README.md", "index.html", "report.json",
                                        "environment.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *text = file_text(names[i]);
        assert_null(strstr(text, "lovelace"));
        assert_null(strstr(text, "secret"));
        bt_mem_free(text);
    }
    char *readme = file_text("README.md");
    assert_has(readme, "./bt-bench run .../mine.json --set a= reboot");
    assert_has(readme, "![loss over the steps](loss.svg)");
    assert_has(readme, "![tokens per second over the steps](speed.svg)");
    assert_has(readme, "| parameters of fp32 | 9c41d0e2b35a7f08");
    bt_mem_free(readme);
}

static void what_each_rank_waits_for_is_in_the_readme(void **state)
{
    (void)state;
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.kind = "train";
    sample.axes_json = "{\"train\":{\"mesh\":{\"data\":2}}}";
    sample.ranks = 2;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    char *readme = file_text("README.md");
    assert_has(readme, "\n## Several ranks\n");
    assert_has(readme, "\n## One step of each rank: fp32\n");
    assert_has(readme, "| 1 | 900 us | 360 us | 120 us | 120 us | 240 us | 60.0 us |");
    bt_mem_free(readme);
}

static void a_peer_its_gpus_and_a_pause_are_named(void **state)
{
    (void)state;
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.kind = "train";
    sample.axes_json = "{\"train\":{\"mesh\":{\"data\":2}}}";
    sample.plan_json = "{\"device\":\"cuda\"}";
    sample.device = "NVIDIA H200";
    sample.system = "pytorch-compile";
    sample.status = BT_RUN_INTERRUPTED;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    ASSERT_OK(bt_store_run_resume(scratch_store, run));
    ASSERT_OK(bt_store_run_end(scratch_store, run, BT_RUN_PASSED, ""));
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    char *readme = file_text("README.md"), *page = file_text("index.html");
    assert_has(readme, " passed with pytorch-compile: loss ");
    assert_has(readme, " on 2 x NVIDIA H200.");
    assert_has(readme, "\n| fp32, pytorch-compile | ");
    assert_has(readme, " | rounds | parameters |\n");
    assert_has(readme, "\nRun 1 was paused for ");
    assert_has(readme, ": interrupted, then resumed.\n");
    assert_has(page, "run 1 was paused for ");
    assert_has(page, "fp32, pytorch-compile");
    bt_mem_free(readme);
    bt_mem_free(page);
}

// Every file of the folder, the plots too.
static void assert_nowhere(const char *word)
{
    DIR *entries = opendir(target);
    const struct dirent *entry = NULL;
    int64_t count = 0;
    assert_non_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.') {
            char *text = file_text(entry->d_name);
            if (strstr(text, word)) {
                fail_msg("%s: %s", entry->d_name, word);
            }
            bt_mem_free(text);
            count++;
        }
    }
    (void)closedir(entries);
    assert_true(count >= 6);
}

// What identifies a machine or its user, wherever a run may contain it.
static void what_identifies_the_machine_stays_here(void **state)
{
    (void)state;
    static const char *const plants[] = {"0a1b2c3d-4444-5555-6666-0a1b2c3d4e5f",
                                         "6.1.0-13-planted",
                                         "user.slice/planted",
                                         "02:fc:00:12:34:56",
                                         "/home/lovelace",
                                         "secret"};
    const bt_store_fact facts[] = {
        {"cgroup.path", "0::/user.slice/planted", BT_FACT_INFO},
        {"cpu.model", "a processor", BT_FACT_HARD},
        {"env.CUDA_VISIBLE_DEVICES", "GPU-0a1b2c3d-4444-5555-6666-0a1b2c3d4e5f", BT_FACT_SOFT},
        {"env.NCCL_HOSTID", "secret-host", BT_FACT_SOFT},
        {"gpu.uuid", "GPU-0a1b2c3d-4444-5555-6666-0a1b2c3d4e5f", BT_FACT_SOFT},
        {"os.kernel", "Linux 6.1.0-13-planted", BT_FACT_SOFT},
    };
    static const char words[] = "/home/lovelace/b on 02:fc:00:12:34:56, 6.1.0-13-planted, "
                                "GPU-0a1b2c3d-4444-5555-6666-0a1b2c3d4e5f of secret-host";
    int64_t run = 0;
    sample_run sample = sample_run_default();
    const bt_store_artifact artifact = {"report", "/home/lovelace/secret/report.html", 1, ""};
    const bt_store_verdict verdict = {.kind = "gate",
                                      .subject = "fp32",
                                      .metric = "step_time_ns",
                                      .verdict = "SLOWER",
                                      .ratio = 1.1,
                                      .low = 1.05,
                                      .high = 1.2,
                                      .rounds = 8,
                                      .reason = words,
                                      .rule_json = "{\"why\":\"02:fc:00:12:34:56\"}"};
    const bt_store_file file = {"suite", "/home/lovelace/mine.json", words, sizeof words - 1};
    sample.command = words;
    sample.message = words;
    sample.env = (bt_store_env){"planted", facts, sizeof facts / sizeof facts[0]};
    sample.plan_json = "{\"train\":{\"steps\":60,\"note\":\"GPU-0a1b2c3d-4444-5555-6666-"
                       "0a1b2c3d4e5f\"}}";
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    ASSERT_OK(bt_store_artifact_add(scratch_store, run, &artifact));
    ASSERT_OK(bt_store_verdicts_set(scratch_store, run, "gate", &verdict, 1));
    ASSERT_OK(bt_store_file_set(scratch_store, run, &file));
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        assert_nowhere(plants[i]);
    }
    char *readme = file_text("README.md");
    assert_has(readme, "Facts that identify this machine were omitted: cgroup.path, "
                       "env.CUDA\\_VISIBLE\\_DEVICES, env.NCCL\\_HOSTID, gpu.uuid, os.kernel.");
    assert_has(readme, "| os.kernel | (left out) | soft |");
    bt_mem_free(readme);
    char *page = file_text("index.html");
    assert_has(page, BT_REDACT_LEFT_OUT);
    bt_mem_free(page);
    char *environment = file_text("environment.json");
    assert_has(environment, "\"key\": \"gpu.uuid\",\n     \"value\": \"(left out)\"");
    assert_has(environment, "\"a processor\"");
    bt_mem_free(environment);
}

static void another_publication_is_left_alone(void **state)
{
    (void)state;
    int64_t first = record_claims(), second = record_training("bt-bench run x");
    char path[256];
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &first, 1, &publication));
    char *before = file_text("README.md");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "--force replaces it",
                 bt_report_publish(scratch_store, &second, 1, &publication));
    char *after = file_text("README.md");
    assert_string_equal(before, after);
    bt_mem_free(after);
    publication.force = true;
    ASSERT_OK(bt_report_publish(scratch_store, &second, 1, &publication));
    (void)snprintf(path, sizeof path, "%s/ratios-replicate-1.svg", target);
    assert_false(bt_file_exists(path)); // nothing of the first one is left
    ASSERT_OK(bt_report_publish(scratch_store, &first, 1, &publication));
    after = file_text("README.md");
    assert_string_equal(before, after); // equal runs give equal files
    bt_mem_free(before);
    bt_mem_free(after);
    // A folder with anything else in it is not cleared.
    (void)snprintf(path, sizeof path, "%s/thesis.tex", target);
    ASSERT_OK(bt_file_write(path, "x", 1));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "thesis.tex",
                 bt_report_publish(scratch_store, &first, 1, &publication));
    assert_true(bt_file_exists(path));
}

static void a_bundle_lies_beside_it(void **state)
{
    (void)state;
    int64_t run = record_training("bt-bench run x");
    char path[256];
    (void)snprintf(path, sizeof path, "%s", test_scratch_path("given.tar.zst"));
    bt_publication publication = {
        .folder = target, .bundle = path, .check_bundle = bt_bundle_check_public, .draft = true};
    ASSERT_FAILS(BT_STATUS_IO, "given.tar.zst",
                 bt_report_publish(scratch_store, &run, 1, &publication));
    ASSERT_OK(bt_file_write(path, "ab\0c", 4));
    publication.force = true;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "given.tar.zst",
                 bt_report_publish(scratch_store, &run, 1, &publication));
    bt_bundle_options options = {.is_public = false};
    bt_str notes = {0};
    ASSERT_OK(bt_bundle_export(scratch_store, run, &options, path, &notes));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "contains os.kernel, which identifies the machine",
                 bt_report_publish(scratch_store, &run, 1, &publication));
    options.is_public = true;
    ASSERT_OK(bt_bundle_export(scratch_store, run, &options, path, &notes));
    bt_str_release(&notes);
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    char *readme = file_text("README.md");
    assert_has(readme, "./bt-bench verify .../bundle.tar.zst\n"); // folders of a machine stay out
    void *given = NULL, *copy = NULL;
    size_t given_bytes = 0, copy_bytes = 0;
    char digest[65];
    ASSERT_OK(bt_file_read(path, &given, &given_bytes));
    bt_files_digest(given, given_bytes, digest);
    assert_has(readme, digest);
    bt_mem_free(readme);
    (void)snprintf(path, sizeof path, "%s/bundle.tar.zst", target);
    ASSERT_OK(bt_file_read(path, &copy, &copy_bytes));
    assert_int_equal(copy_bytes, given_bytes);
    assert_memory_equal(copy, given, given_bytes);
    bt_mem_free(given);
    bt_mem_free(copy);
}

// The contents of a file of the publication, and only a draft's.
static void assert_marked(const char *name, const char *words, bool draft)
{
    char *text = file_text(name);
    if ((strstr(text, words) != NULL) != draft) {
        fail_msg("%s: '%s' is %s", name, words, draft ? "missing" : "there");
    }
    bt_mem_free(text);
}

static void assert_draft(bool draft)
{
    assert_marked("README.md", "# DRAFT: ", draft);
    assert_marked("README.md", "This is a draft, not to be relied on", draft);
    assert_marked("index.html", "DRAFT: ", draft);
    assert_marked("report.json", "\"draft\": ", draft);
    assert_marked("environment.json", "\"draft\": ", draft);
    assert_marked("loss.svg", ">DRAFT</text></svg>", draft);
}

static void rules_are_kept_or_the_draft_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *diff, *commit;
        bt_run_status status;
        bool peer, versions, bundle;
        const char *refused; // NULL: published
    } cases[] = {
        {"", "3f50b31c", BT_RUN_PASSED, false, false, true, NULL},
        {"", "3f50b31c", BT_RUN_PASSED, true, true, true, NULL},
        {"", "3f50b31c", BT_RUN_FAILED, false, false, true, NULL},
        {"a7962c1f", "3f50b31c", BT_RUN_PASSED, false, false, true, "built from a modified tree"},
        {"", "", BT_RUN_PASSED, false, false, true, "the commit that it was built from is not"},
        {"", "3f50b31c", BT_RUN_INTERRUPTED, false, false, true, "it was interrupted: finish it"},
        {"", "3f50b31c", BT_RUN_PASSED, true, false, true, "versions of its peers were not"},
        {"", "3f50b31c", BT_RUN_PASSED, false, false, false, "the bundle is missing: --bundle"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t run = 0;
        char path[256];
        bt_str notes = {0};
        sample_run sample = sample_run_default();
        sample.status = cases[i].status;
        sample.git_diff = cases[i].diff;
        sample.git_commit = cases[i].commit;
        sample.system = cases[i].peer ? "pytorch-eager" : "blutrain";
        ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
        static const char said[] = "{\"pytorch-eager\":\"python==3.12.3\\ntorch==2.11.0\"}";
        const bt_store_file file = {"versions", "versions.json", said, sizeof said - 1};
        if (cases[i].versions) {
            ASSERT_OK(bt_store_file_set(scratch_store, run, &file));
        }
        (void)snprintf(path, sizeof path, "%s", test_scratch_path("rules.tar.zst"));
        const bt_bundle_options options = {.is_public = true};
        ASSERT_OK(bt_bundle_export(scratch_store, run, &options, path, &notes));
        bt_str_release(&notes);
        bt_publication publication = {.folder = target,
                                      .bundle = cases[i].bundle ? path : NULL,
                                      .check_bundle = bt_bundle_check_public,
                                      .force = true};
        if (cases[i].refused) {
            ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, cases[i].refused,
                         bt_report_publish(scratch_store, &run, 1, &publication));
            publication.draft = true;
        }
        ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
        assert_draft(cases[i].refused != NULL);
        assert_marked("README.md", "torch==2.11.0", cases[i].versions);
    }
}

// A session of 'ab' has two builds in addition to the recorder's.
static void every_build_of_a_session_counts(void **state)
{
    (void)state;
    bt_store_system systems[2] = {
        {.name = "base", .build = {.digest = "1", .git_commit = "3f50b31c", .git_diff = ""}},
        {.name = "candidate",
         .build = {.digest = "2", .git_commit = "9a", .git_diff = "a7962c1f"}}};
    bt_store_run run = {.id = 7, .status = BT_RUN_PASSED};
    run.info.build = (bt_store_build){.digest = "1", .git_commit = "3f50b31c", .git_diff = ""};
    run.schedule.systems = systems;
    run.schedule.system_count = 2;
    bt_str faults = {0};
    bt_publish_faults(&run, &faults);
    assert_string_equal(bt_str_text(&faults), "; run 7, candidate: it was built from a modified "
                                              "tree: commit, build and record again");
    bt_str_clear(&faults);
    systems[1].build.git_diff = systems[1].build.git_commit = "";
    bt_publish_faults(&run, &faults);
    assert_string_equal(bt_str_text(&faults),
                        "; run 7, candidate: the commit that it was built from is not known");
    bt_str_clear(&faults);
    systems[1].build.git_commit = "9a";
    bt_publish_faults(&run, &faults);
    assert_string_equal(bt_str_text(&faults), "");
    bt_str_release(&faults);
}

static void a_bundle_of_another_run_is_refused(void **state)
{
    (void)state;
    char path[256];
    bt_str notes = {0};
    const bt_bundle_options options = {.is_public = true};
    int64_t first = record_claims(), second = record_training("bt-bench run x");
    (void)snprintf(path, sizeof path, "%s", test_scratch_path("other.tar.zst"));
    ASSERT_OK(bt_bundle_export(scratch_store, first, &options, path, &notes));
    bt_str_release(&notes);
    bt_publication publication = {
        .folder = target, .bundle = path, .check_bundle = bt_bundle_check_public, .draft = true};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "contains another run than run",
                 bt_report_publish(scratch_store, &second, 1, &publication));
}

static void a_command_can_be_pasted(void **state)
{
    (void)state;
    int64_t run =
        record_training("bt-bench run suites/kernels/all --db .../a.sqlite --filter gelu.* "
                        "--out '.../b c' --set 'a=[1]'");
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_OK(bt_report_publish(scratch_store, &run, 1, &publication));
    assert_marked("README.md",
                  "./bt-bench run suites/kernels/all --filter 'gelu.*' --set 'a=[1]'\n", true);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    int64_t missing = 7;
    bt_publication publication = {.folder = target, .draft = true};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 7",
                 bt_report_publish(scratch_store, &missing, 1, &publication));
    int64_t run = record_training("bt-bench run x");
    publication.folder = "/proc/nowhere";
    ASSERT_FAILS(BT_STATUS_IO, "/proc/nowhere",
                 bt_report_publish(scratch_store, &run, 1, &publication));
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    int64_t run = 0;
    sample_run sample = sample_run_default();
    sample.steps = 12;
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    bt_publication publication = {.folder = target, .force = true, .draft = true};
    int64_t n = 0;
    while (status != BT_OK) {
        bt_mem_fail_at(++n);
        status = bt_report_publish(scratch_store, &run, 1, &publication);
        bt_mem_fail_at(0);
        if (status != BT_OK && status != BT_STATUS_OUT_OF_MEMORY) {
            fail_msg("allocation %lld: %s", (long long)n, bt_error_message());
        }
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        }
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < 2000);
    }
    assert_true(n > 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_replication_has_verdicts_plots_and_how_to_rerun),
        TEST(deviations_are_on_the_page_too),
        TEST(one_measurement_is_no_plural),
        TEST(the_json_satisfies_its_schema),
        TEST(paths_and_markup_stay_here),
        TEST(what_each_rank_waits_for_is_in_the_readme),
        TEST(a_peer_its_gpus_and_a_pause_are_named),
        TEST(what_identifies_the_machine_stays_here),
        TEST(another_publication_is_left_alone),
        TEST(rules_are_kept_or_the_draft_says_so),
        TEST(every_build_of_a_session_counts),
        TEST(a_bundle_of_another_run_is_refused),
        TEST(a_command_can_be_pasted),
        TEST(a_bundle_lies_beside_it),
        TEST(bad_requests_are_refused),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

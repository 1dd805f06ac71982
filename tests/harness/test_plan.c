// tests/harness/test_plan.c - suite to plan: profile, levels, --set, micro-batch, hash
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/plan/plan.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const char text[] =
    "{\n"
    "\"name\": \"t\", \"dataset\": \"books\",\n"
    "\"train\": {\"steps\": 9, \"model\": {\"layers\": 2, \"heads\": 2, \"width\": 64}},\n"
    "\"profiles\": {\n"
    "\"gpu\": {\"device\": \"cuda\", \"train\": {\"micro_batch\": [64, 32, 8], \"sequence\": "
    "1024,\n"
    "  \"tokens_per_step\": 65536},\n"
    "  \"cases\": [{\"name\": \"bf16\", \"kind\": \"train\", \"train\": {\"precision\": "
    "\"bf16\"}},\n"
    "  {\"name\": \"fp32\", \"kind\": \"train\", \"train\": {\"steps\": 4}}]},\n"
    "\"cpu\": {\"device\": \"cpu\", \"rounds\": 2, \"train\": {\"micro_batch\": 4, \"sequence\": "
    "64},\n"
    "  \"cases\": [{\"name\": \"one\", \"kind\": \"train\", \"dataset\": {\"train\": [\"a.bin\", "
    "\"/b.bin\"]},\n"
    "    \"train\": {\"model\": {\"layers\": 3}}}]},\n"
    "\"days\": {\"device\": \"cpu\", \"automatic\": false, \"cases\": [{\"name\": \"long\", "
    "\"kind\": \"train\"}]}\n"
    "}}";

static bt_suite suite;
static const bt_machine plain = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "no driver"};
static const bt_machine with_gpu = {
    .host_memory_bytes = 8ULL << 30, .has_cuda = true, .cuda_free_bytes = 140ULL << 30};
static const bt_plan_options none = {.seed = -1};

static int load(void **state)
{
    (void)state;
    return bt_suite_parse("dir/t.json", text, strlen(text), &suite) == BT_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    bt_suite_release(&suite);
    return 0;
}

static void best_profile_is_taken(void **state)
{
    (void)state;
    bt_plan plan;
    ASSERT_OK(bt_plan_make(&suite, &none, &plain, &plan));
    assert_string_equal(plan.profile, "cpu");
    assert_true(plan.chosen);
    assert_string_equal(plan.reason, "no driver");
    assert_int_equal(plan.rounds, 2);
    bt_plan_release(&plan);
    ASSERT_OK(bt_plan_make(&suite, &none, &with_gpu, &plan));
    assert_string_equal(plan.profile, "gpu");
    assert_int_equal(plan.case_count, 2);
    bt_plan_release(&plan);
    bt_plan_options days = {.profile = "days", .seed = -1};
    ASSERT_OK(bt_plan_make(&suite, &days, &plain, &plan));
    assert_false(plan.chosen);
    bt_plan_release(&plan);
    bt_plan_options wrong = {.profile = "gpo", .seed = -1};
    ASSERT_FAILS(
        BT_STATUS_INVALID_ARGUMENT,
        "dir/t.json:4:1: there is no profile \"gpo\"; did you mean \"gpu\"?\nprofiles: gpu, "
        "cpu, days",
        bt_plan_make(&suite, &wrong, &plain, &plan));
}

static void gpu_that_is_too_small_is_passed_over(void **state)
{
    (void)state;
    bt_machine small = with_gpu;
    small.cuda_free_bytes = 1ULL << 28;
    bt_plan plan;
    ASSERT_OK(bt_plan_make(&suite, &none, &small, &plan));
    assert_string_equal(plan.profile, "cpu");
    assert_non_null(strstr(plan.reason, "the device has 0.2 GiB"));
    // A micro-batch that is a number is taken, unless the host is too small by far.
    const uint64_t need = bt_plan_memory_bytes(bt_json_get(bt_plan_case(&plan, 0), "train"), 4,
                                               (bt_plan_recompute){BT_RECOMPUTE_NONE, 3}, false);
    bt_plan_release(&plan);
    small.host_memory_bytes = need * 9 / 10;
    ASSERT_OK(bt_plan_make(&suite, &none, &small, &plan));
    bt_plan_release(&plan);
    small.host_memory_bytes = need / 10;
    ASSERT_FAILS(
        BT_STATUS_OUT_OF_MEMORY, "case one: a micro-batch of 4 x 64 tokens needs about",
        bt_plan_make(&suite, &(bt_plan_options){.profile = "cpu", .seed = -1}, &small, &plan));
    bt_plan_options gpu = {.profile = "gpu", .seed = -1};
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "the device has",
                 bt_plan_make(&suite, &gpu, &small, &plan));
}

static void only_gpu_profiles_on_a_plain_machine(void **state)
{
    (void)state;
    static const char only[] = "{\"name\": \"t\", \"profiles\": {\"gpu\": {\"device\": \"cuda\", "
                               "\"cases\": [{\"name\": \"a\", \"kind\": \"train\"}]}}}";
    bt_suite gpu;
    bt_plan plan;
    ASSERT_OK(bt_suite_parse("g.json", only, strlen(only), &gpu));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "no driver", bt_plan_make(&gpu, &none, &plain, &plan));
    bt_suite_release(&gpu);
}

static void levels_are_merged_and_nothing_is_left_open(void **state)
{
    (void)state;
    bt_plan plan;
    ASSERT_OK(bt_plan_make(&suite, &none, &plain, &plan));
    const cJSON *item = bt_plan_case(&plan, 0);
    const cJSON *train = bt_json_get(item, "train");
    assert_int_equal((int)bt_plan_number(train, "model.layers"), 3);      // case
    assert_int_equal((int)bt_plan_number(train, "model.width"), 64);      // suite
    assert_int_equal((int)bt_plan_number(train, "sequence"), 64);         // profile
    assert_int_equal((int)bt_plan_number(train, "model.vocab"), 50304);   // default
    assert_int_equal((int)bt_plan_number(train, "tokens_per_step"), 256); // 4 x 64
    assert_int_equal((int)bt_plan_number(train, "steps"), 9);
    const cJSON *shards = bt_json_get(bt_json_get(item, "dataset"), "train");
    assert_string_equal(cJSON_GetArrayItem(shards, 0)->valuestring, "dir/a.bin");
    assert_string_equal(cJSON_GetArrayItem(shards, 1)->valuestring, "/b.bin");
    bt_plan_release(&plan);
}

static void set_overrides_and_is_checked(void **state)
{
    (void)state;
    const char *sets[] = {"train.steps=3", "train.model.layers=1", "dataset=other",
                          "train.precision=tf32", "train.optimizer.lr=0.1"};
    bt_plan_options options = {.sets = sets, .set_count = 5, .rounds = 7, .seed = 5};
    bt_plan plan;
    ASSERT_OK(bt_plan_make(&suite, &options, &plain, &plan));
    const cJSON *item = bt_plan_case(&plan, 0);
    const cJSON *train = bt_json_get(item, "train");
    assert_int_equal((int)bt_plan_number(train, "steps"), 3);
    assert_int_equal((int)bt_plan_number(train, "warmup_timing_steps"), 1);
    assert_int_equal((int)bt_plan_number(train, "profile_steps"), 1);
    assert_int_equal((int)bt_plan_number(train, "model.layers"), 1);
    assert_int_equal((int)bt_plan_number(train, "seed"), 5);
    assert_int_equal(plan.rounds, 7);
    assert_string_equal(bt_json_get(bt_json_get(item, "dataset"), "name")->valuestring, "other");
    bt_plan_release(&plan);

    const char *mesh[] = {"train.mesh.rotation=all_to_all", "train.mesh.sequence_parallel=true",
                          "train.mesh.row_chunks=true", "train.mesh.half_batches=false"};
    bt_plan_options degrees = {.sets = mesh, .set_count = 4, .seed = -1};
    ASSERT_OK(bt_plan_make(&suite, &degrees, &plain, &plan));
    const cJSON *node = bt_json_get(bt_json_get(bt_plan_case(&plan, 0), "train"), "mesh");
    assert_string_equal(bt_json_text_of(node, "rotation"), "all_to_all");
    assert_true(cJSON_IsTrue(bt_json_get(node, "sequence_parallel")));
    assert_true(cJSON_IsTrue(bt_json_get(node, "row_chunks")));
    assert_true(cJSON_IsFalse(bt_json_get(node, "half_batches")));
    bt_plan_release(&plan);

    const char *paths[] = {"dataset.train=x.bin", "dataset.val=[\"y.bin\",\"z.bin\"]"};
    bt_plan_options data = {.sets = paths, .set_count = 2, .seed = -1};
    for (int quoted = 1; quoted >= 0; --quoted) { // a list of words needs no quotes
        paths[1] = quoted ? paths[1] : "dataset.val=[y.bin, z.bin]";
        ASSERT_OK(bt_plan_make(&suite, &data, &plain, &plan));
        assert_non_null(
            strstr(plan.text, "\"dataset\":{\"train\":[\"x.bin\"],\"val\":[\"y.bin\",\"z.bin\"]}"));
        bt_plan_release(&plan);
    }
}

static void bad_set_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *set, *words;
    } cases[] = {
        {"train.stesp=3",
         "--set train.stesp=3: \"stesp\" is not a key of train; did you mean \"steps\"?"},
        {"trian.steps=3",
         "\"trian\" is not a key of a case; did you mean \"train\"?\nallowed: dataset, train"},
        {"name=x", "\"name\" cannot be set with --set; write it in the suite\nallowed: dataset"},
        {"train.mesh.rotation=ring", "allowed: all_gather, point_to_point, all_to_all"},
        {"train.mesh.row_chunks=1", "\"row_chunks\" must be true or false"},
        {"train.steps=three",
         "--set train.steps=three: \"steps\" must be a whole number, not a text"},
        {"train.steps=-1", "\"steps\" is -1; allowed: 1 to"},
        {"train.steps=", "must be a whole number"},
        {"train.steps", "expected key=value"},
        {"=3", "expected key=value"},
        {"", "expected key=value"},
        {"train=3", "train is a group; set one of its keys: precision"},
        {"train.model={}", "train.model is a group; set one of its keys: family, layers"},
        {"train.steps.more=3", "\"steps\" has no keys below it"},
        {"train..steps=3", "\"\" is not a key of train"},
        {"train.precision=int4", "allowed: fp32, tf32, bf16"},
        {"train.model.heads=3",
         "--set train.model.heads=3: case one: model.heads is 3; it must divide model.width, 64"},
        {"train.sequence=4096", "--set train.sequence=4096: case one: sequence is 4096; allowed: "
                                "up to model.context, 1024"},
        {"train.tokens_per_step=100",
         "tokens_per_step is 100; it must be a multiple of micro_batch"},
        {"train.optimizer.min_lr=1", "--set train.optimizer.min_lr=1: case one: optimizer.min_lr "
                                     "is 1; allowed: up to optimizer.lr"},
        {"kernel.seed=7",
         "--set kernel.seed=7: no case of the plan has the key \"kernel.seed\"; did "
         "you mean \"train.seed\"?\nkinds of its cases: train; "},
        {"kernel.seed=[1,2]", "no case of the plan has the key \"kernel.seed\""},
        {"command.run=true", "no case of the plan has the key \"command.run\"\nkinds of its"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_plan plan;
        bt_plan_options options = {.sets = &cases[i].set, .set_count = 1, .seed = -1};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, cases[i].words,
                     bt_plan_make(&suite, &options, &plain, &plan));
    }
}

static void filter_selects_cases(void **state)
{
    (void)state;
    const struct {
        const char *filter;
        int64_t count;
    } cases[] = {{"bf", 1}, {"fp32", 1}, {"?????", 0}, {"*32", 1}, {"*", 2}, {"", 2}, {"x", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_plan plan;
        bt_plan_options options = {.profile = "gpu", .filter = cases[i].filter, .seed = -1};
        bt_status status = bt_plan_make(&suite, &options, &with_gpu, &plan);
        if (cases[i].count) {
            ASSERT_OK(status);
            assert_int_equal(plan.case_count, cases[i].count);
            bt_plan_release(&plan);
        } else {
            ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "cases: bf16, fp32", status);
        }
    }
}

// Also where the name is part of others.
static void filter_prefers_the_case_of_that_name(void **state)
{
    (void)state;
    static const char named[] =
        "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
        "{\"name\": \"two_more\", \"kind\": \"command\", \"command\": {\"run\": \"true\"}},\n"
        "{\"name\": \"two\", \"kind\": \"command\", \"command\": {\"run\": \"true\"}}]}}}";
    static const struct {
        const char *filter;
        int64_t count;
        const char *first;
    } rows[] = {{"two", 1, "two"}, {"two_", 1, "two_more"}, {"tw", 2, "two_more"}};
    bt_suite two;
    ASSERT_OK(bt_suite_parse("t.json", named, strlen(named), &two));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_plan plan;
        const bt_plan_options options = {.filter = rows[i].filter, .seed = -1};
        ASSERT_OK(bt_plan_make(&two, &options, &plain, &plan));
        assert_int_equal(plan.case_count, rows[i].count);
        assert_string_equal(bt_json_get(bt_plan_case(&plan, 0), "name")->valuestring,
                            rows[i].first);
        bt_plan_release(&plan);
    }
    bt_suite_release(&two);
}

// A list of --set makes cases with longer names of each selected one.
static void filter_by_name_selects_a_case_before_lists_of_set(void **state)
{
    (void)state;
    static const char named[] =
        "{\"name\": \"t\", \"dataset\": \"books\", \"train\": {\"steps\": 9, \"micro_batch\": 4,\n"
        "\"sequence\": 64, \"model\": {\"layers\": 2, \"heads\": 2, \"width\": 64}},\n"
        "\"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
        "{\"name\": \"two_more\", \"kind\": \"train\"}, {\"name\": \"two\", \"kind\": "
        "\"train\"}]}}}";
    const char *const sets[] = {"train.seed=[1, 2]"};
    const bt_plan_options options = {.filter = "two", .sets = sets, .set_count = 1, .seed = -1};
    bt_suite two;
    bt_plan plan;
    ASSERT_OK(bt_suite_parse("t.json", named, strlen(named), &two));
    ASSERT_OK(bt_plan_make(&two, &options, &plain, &plan));
    assert_int_equal(plan.case_count, 2);
    assert_string_equal(bt_json_get(bt_plan_case(&plan, 0), "name")->valuestring, "two.seed=1");
    bt_plan_release(&plan);
    bt_suite_release(&two);
}

static int64_t micro_batch_with(uint64_t free_bytes, const char *set)
{
    bt_machine machine = with_gpu;
    machine.cuda_free_bytes = free_bytes;
    bt_plan_options options = {
        .profile = "gpu", .sets = &set, .set_count = set ? 1 : 0, .seed = -1};
    bt_plan plan;
    if (bt_plan_make(&suite, &options, &machine, &plan) != BT_OK) {
        return -1;
    }
    const cJSON *train = bt_json_get(bt_plan_case(&plan, 1), "train");
    int64_t taken = (int64_t)bt_plan_number(train, "micro_batch");
    bt_plan_release(&plan);
    return taken;
}

static uint64_t gib(double value) { return (uint64_t)(value * 1073741824.0); }

static void micro_batch_follows_the_memory(void **state)
{
    (void)state;
    assert_int_equal(micro_batch_with(140ULL << 30, NULL), 64);
    assert_int_equal(micro_batch_with(gib(1.7), NULL), 32);
    assert_int_equal(micro_batch_with(gib(1.4), NULL), 8);
    assert_int_equal(micro_batch_with(1ULL << 30, NULL), -1);
    assert_non_null(strstr(bt_error_message(), "a micro-batch of 8 x 1024 tokens needs about"));
    assert_int_equal(micro_batch_with(0, NULL), 64); // nothing known: a dry run elsewhere
    assert_int_equal(micro_batch_with(gib(1.4), "train.micro_batch=auto"), 16);
    assert_int_equal(micro_batch_with(1, "train.micro_batch=2"), 2); // the user's word
    assert_int_equal(micro_batch_with(140ULL << 30, "train.memory_limit_bytes=1503238553"), 8);
    assert_int_equal(micro_batch_with(140ULL << 30, "train.tokens_per_step=24576"), 8);
    assert_int_equal(micro_batch_with(gib(1.33), NULL), 8);
    assert_int_equal(micro_batch_with(gib(1.33), "train.recompute=block"), 32);
}

// "auto" is the cheapest that fits, and each stands in the plan.
static void recomputation_follows_the_memory(void **state)
{
    (void)state;
    const struct {
        double available_gib; // 64 x 1024 needs 1.79; each mode in one block, then in both, less
        int64_t micro_batch;
        const char *mode, *line_end;
        int64_t blocks;
    } cases[] = {{1.8, 64, "none", "seed 1337\n", 0},
                 {1.7, 64, "gelu_ln", "recompute gelu_ln in 1 of 2 blocks\n", 1},
                 {1.6, 64, "gelu_ln", "recompute gelu_ln in 2 of 2 blocks\n", 2},
                 {1.5, 64, "block", "recompute block in 1 of 2 blocks\n", 1},
                 {1.37, 64, "block", "recompute block in 2 of 2 blocks\n", 2},
                 {1.3, 64, "block_offload", "recompute block_offload in 2 of 2 blocks\n", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const char *set = "train.recompute=auto";
        bt_machine machine = with_gpu;
        bt_plan_options options = {.profile = "gpu", .sets = &set, .set_count = 1, .seed = -1};
        bt_plan plan;
        bt_str shown = {0};
        machine.cuda_free_bytes = gib(cases[i].available_gib);
        ASSERT_OK(bt_plan_make(&suite, &options, &machine, &plan));
        const cJSON *train = bt_json_get(bt_plan_case(&plan, 1), "train");
        assert_int_equal((int64_t)bt_plan_number(train, "micro_batch"), cases[i].micro_batch);
        assert_string_equal(bt_json_get(train, "recompute")->valuestring, cases[i].mode);
        assert_true(bt_plan_number(train, "recompute_blocks") == (double)cases[i].blocks);
        bt_plan_describe(&plan, 0, &shown);
        assert_non_null(strstr(bt_str_text(&shown), cases[i].line_end));
        bt_str_release(&shown);
        bt_plan_release(&plan);
    }
    const char *set = "train.recompute=auto";
    assert_int_equal(micro_batch_with(1ULL << 30, set), -1);
    assert_non_null(strstr(bt_error_message(), "needs about 1.3 GiB"));
}

// ---- the estimate of memory -------------------------------------------------------------------

typedef struct measured {
    const char *precision;
    int64_t layers, width, vocab, context, micro_batch; // context: the sequence, too
    double peak_gib;
    bool saves; // asynchronously, with a snapshot in the GPU's memory
} measured;

static double estimate_gib(const measured *m)
{
    char train[480];
    bt_json_doc doc = {0};
    const int length = snprintf(
        train, sizeof train,
        "{\"precision\":\"%s\",\"recompute\":\"none\",\"sequence\":%lld,\"tokens_per_step\":%lld,"
        "\"model\":{\"layers\":%lld,\"width\":%lld,\"vocab\":%lld,\"context\":%lld}%s}",
        m->precision, (long long)m->context, (long long)(m->context * m->micro_batch),
        (long long)m->layers, (long long)m->width, (long long)m->vocab, (long long)m->context,
        m->saves ? ",\"checkpoint\":{\"asynchronous\":true,\"snapshot\":\"device\"}" : "");
    ASSERT_OK(bt_json_parse("train", train, (size_t)length, &doc));
    const uint64_t bytes =
        bt_plan_memory_bytes(doc.root, m->micro_batch, bt_plan_recompute_of(doc.root), true);
    bt_json_doc_release(&doc);
    return (double)bytes / 1073741824.0;
}

// A plan that the estimate lets through must fit, and must not waste a tenth of the device.
static void expect_close(const measured *m)
{
    const double estimate = estimate_gib(m);
    if (!(estimate >= m->peak_gib && estimate <= 1.08 * m->peak_gib)) {
        fail_msg("%s, %lld x %lld tokens, width %lld: estimated %.4f GiB, measured %.4f GiB",
                 m->precision, (long long)m->micro_batch, (long long)m->context,
                 (long long)m->width, estimate, m->peak_gib);
    }
}

// Peaks of the pool without recomputation: an H200 with GPT-2 124M, and the CPU.
static void estimate_is_what_was_measured(void **state)
{
    (void)state;
    const measured rows[] = {{"bf16", 12, 768, 50304, 1024, 64, 21.7, false},
                             {"tf32", 12, 768, 50304, 1024, 32, 21.4, false},
                             {"tf32", 12, 768, 50304, 16384, 2, 21.0, false},
                             {"bf16", 12, 768, 50304, 16384, 2, 12.1, false},
                             {"bf16", 12, 768, 50304, 1024, 4, 4.687, true},
                             {"tf32", 12, 768, 50304, 1024, 4, 5.994, true},
                             {"fp32", 4, 256, 50304, 256, 8, 0.7551, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        expect_close(&rows[i]);
    }
}

static void estimate_is_what_this_cpu_takes(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    plan.model = (bt_model_config){.layers = 3, .heads = 2, .width = 64, .vocab = 4096};
    plan.model.context = plan.sequence = 128;
    plan.micro_batch = 4;
    plan.tokens_per_step = plan.sequence * plan.micro_batch;
    plan.steps = 1;
    plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
    ASSERT_OK(bt_train_run(&plan, &(bt_train_observer){0}, &result));
    const measured row = {.precision = "fp32",
                          .layers = plan.model.layers,
                          .width = plan.model.width,
                          .vocab = plan.model.vocab,
                          .context = plan.sequence,
                          .micro_batch = plan.micro_batch,
                          .peak_gib = (double)result.peak_allocated_bytes / 1073741824.0};
    expect_close(&row);
}

static void parameters_of_a_llama_are_exact(void **state)
{
    (void)state;
    bt_suite shipped;
    bt_plan plan;
    ASSERT_OK(bt_suite_load("suites/llama_124m", &shipped));
    const bt_plan_options cpu = {.profile = "cpu", .seed = -1};
    ASSERT_OK(bt_plan_make(&shipped, &cpu, &with_gpu, &plan));
    // Embedding and head; a block: q and o, k and v of 4 heads of 64, the gated MLP, two norms; the
    // last norm.
    assert_int_equal(bt_plan_parameters(bt_json_get(bt_plan_case(&plan, 0), "train")),
                     2 * 50304 * 768 +
                         12 * (2 * 768 * 768 + 2 * 256 * 768 + 3 * 2048 * 768 + 2 * 768) + 768);
    bt_plan_release(&plan);
    bt_suite_release(&shipped);
}

static void parameters_of_d12_are_exact(void **state)
{
    (void)state;
    bt_suite shipped;
    bt_plan plan;
    ASSERT_OK(bt_suite_load("suites/gpt2_124m", &shipped));
    ASSERT_OK(bt_plan_make(&shipped, &none, &with_gpu, &plan));
    const cJSON *train = bt_json_get(bt_plan_case(&plan, 0), "train");
    assert_int_equal(bt_plan_parameters(train), 124475904);
    assert_int_equal((int)bt_plan_number(train, "micro_batch"), 64);
    bt_plan_release(&plan);
    bt_suite_release(&shipped);
}

// Ranks that share sequences or matrices have all micro-batches of their data-parallel rank.
static void ranks_of_a_mesh_send_by_their_batches(void **state)
{
    (void)state;
    static const struct {
        const char *mesh;
        double parameters; // times 4 bytes: gradients, and twice the weights for each micro-batch
    } rows[] = {{"{\"data\": 2, \"sharding\": \"zero3\"}", 0.5 * (1 + 2 * 4)},
                {"{\"context\": 2, \"sharding\": \"zero3\"}", 0.5 * (1 + 2 * 8)},
                {"{\"data\": 2, \"tensor\": 2, \"sharding\": \"zero3\"}", 0.25 * (1 + 2 * 4)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        cJSON *train = cJSON_Parse(
            "{\"model\": {\"layers\": 1, \"heads\": 2, \"width\": 16, \"vocab\": 1024, "
            "\"context\": 16}, \"micro_batch\": 1, \"sequence\": 16, \"tokens_per_step\": 128, "
            "\"precision\": \"fp32\"}");
        cJSON *mesh = cJSON_Parse(rows[i].mesh);
        cJSON_AddItemToObject(mesh, "invariant", cJSON_CreateNumber(0));
        cJSON_AddItemToObject(mesh, "bucket_mb", cJSON_CreateNumber(1));
        cJSON_AddItemToObject(train, "mesh", mesh);
        // Each rank sends its half of the rows that 128 ids look up, where they are apart.
        const double lookups = i < 2 ? 0.5 * 2 * 128 * 16 : 0;
        const double expected =
            4 * (rows[i].parameters * (double)bt_plan_parameters(train) + lookups);
        assert_true(fabs(bt_plan_ranks_of(train).sent_bytes - expected) <= 1e-9 * expected);
        cJSON_Delete(train);
    }
}

// Under 9 GiB `block` is wanted, and of it no more than fits: each further block costs time.
static void nine_gib_take_nine_blocks(void **state)
{
    (void)state;
    bt_suite shipped;
    bt_plan plan;
    const bt_plan_options gpu = {.profile = "gpu", .seed = -1};
    ASSERT_OK(bt_suite_load("suites/recompute", &shipped));
    ASSERT_OK(bt_plan_make(&shipped, &gpu, &with_gpu, &plan));
    const cJSON *train = bt_json_get(bt_plan_case(&plan, plan.case_count - 1), "train");
    assert_string_equal(bt_json_get(train, "recompute")->valuestring, "block");
    assert_int_equal((int)bt_plan_number(train, "recompute_blocks"), 9);
    const double limit = bt_plan_number(train, "memory_limit_bytes");
    assert_true((double)bt_plan_memory_bytes(train, 64, bt_plan_recompute_of(train), true) <=
                limit);
    bt_plan_release(&plan);
    bt_suite_release(&shipped);
}

// Experiment E1 of the paper, number by number.
static void paper_profile_is_e1(void **state)
{
    (void)state;
    bt_suite shipped;
    bt_plan plan;
    bt_plan_options paper = {.profile = "paper", .seed = -1};
    ASSERT_OK(bt_suite_load("suites/gpt2_124m", &shipped));
    ASSERT_OK(bt_plan_make(&shipped, &paper, &with_gpu, &plan));
    const cJSON *train = bt_json_get(bt_plan_case(&plan, 0), "train");
    const struct {
        const char *group, *key;
        double value;
    } rows[] = {{"model", "layers", 12},        {"model", "heads", 12},
                {"model", "width", 768},        {"model", "vocab", 50304},
                {"model", "context", 1024},     {"optimizer", "lr", 6e-4},
                {"optimizer", "min_lr", 6e-5},  {"optimizer", "warmup_steps", 715},
                {"optimizer", "beta1", 0.9},    {"optimizer", "beta2", 0.95},
                {"optimizer", "epsilon", 1e-8}, {"optimizer", "weight_decay", 0.1},
                {"optimizer", "clip", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        double got = bt_json_number_of(bt_json_get(train, rows[i].group), rows[i].key);
        test_assert_close(&got, &rows[i].value, 1, 0, 0, rows[i].key);
    }
    const struct {
        const char *key;
        double value;
    } flat[] = {{"steps", 19073},   {"tokens_per_step", 524288}, {"micro_batch", 16},
                {"sequence", 1024}, {"eval_every", 250},         {"eval_batches", 20}};
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; ++i) {
        double got = bt_plan_number(train, flat[i].key);
        test_assert_close(&got, &flat[i].value, 1, 0, 0, flat[i].key);
    }
    assert_string_equal(bt_json_get(train, "precision")->valuestring, "tf32");
    assert_string_equal(bt_json_get(train, "order")->valuestring, "sequential");
    bt_plan_release(&plan);
    bt_suite_release(&shipped);
}

static bt_status plan_of(const char *shapes, bt_plan *plan)
{
    char json[512];
    (void)snprintf(json, sizeof json,
                   "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
                   "{\"name\": \"gelu\", \"kind\": \"kernel\", \"systems\": [\"blutrain\"],"
                   " \"kernel\": {\"op\": \"gelu\", \"shape\": \"8x8\"}},\n"
                   "{\"name\": \"gelu\", \"kind\": \"kernel\","
                   " \"kernel\": {\"op\": \"gelu\", \"shape\": %s}}]}}}",
                   shapes);
    bt_suite two;
    ASSERT_OK(bt_suite_parse("t.json", json, strlen(json), &two));
    bt_status status = bt_plan_make(&two, &none, &plain, plan);
    bt_suite_release(&two);
    return status;
}

static void kernel_cases_share_a_name_but_no_axes(void **state)
{
    (void)state;
    bt_plan plan;
    ASSERT_OK(plan_of("[\"8x16\", \"8x32\"]", &plan));
    int64_t gelu = 0;
    for (int64_t i = 0; i < plan.case_count; i++) {
        const char *name = bt_json_get(bt_plan_case(&plan, i), "name")->valuestring;
        gelu += strncmp(name, "gelu.", 5) == 0;
    }
    assert_int_equal(gelu, 3);
    bt_plan_release(&plan);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "t.json:3:10: profile cpu has two cases named \"gelu",
                 plan_of("[\"8x16\", \"8x8\"]", &plan));
}

static void hash_depends_on_content_alone(void **state)
{
    (void)state;
    bt_plan a, b, c;
    const char *set = "train.steps=9", *other = "train.steps=10";
    bt_plan_options same = {.sets = &set, .set_count = 1, .seed = -1};
    bt_plan_options differs = {.sets = &other, .set_count = 1, .seed = -1};
    ASSERT_OK(bt_plan_make(&suite, &none, &plain, &a));
    ASSERT_OK(bt_plan_make(&suite, &same, &plain, &b));
    ASSERT_OK(bt_plan_make(&suite, &differs, &plain, &c));
    assert_string_equal(a.hash, b.hash);
    assert_string_not_equal(a.hash, c.hash);
    assert_int_equal(strlen(a.hash), 32);
    char hash[33];
    bt_plan_hash("", hash); // the published value of XXH3-128 for no bytes
    assert_string_equal(hash, "99aa06d3014798d86001c324468d497f");
    bt_plan_release(&a);
    bt_plan_release(&b);
    bt_plan_release(&c);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    const char *set = "dataset.train=x.bin";
    bt_plan_options options = {.sets = &set, .set_count = 1, .seed = 3};
    for (int64_t n = 1;; ++n) {
        bt_plan plan;
        bt_mem_fail_at(n);
        bt_status status = bt_plan_make(&suite, &options, &plain, &plan);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            assert_true(n > 50);
            bt_plan_release(&plan);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

// The names of the plan's cases, and what each of two keys is in them.
static void assert_cases(const bt_plan *plan, const char *keys[2], const char *expected)
{
    bt_str got = {0};
    for (const cJSON *item = plan->cases->child; item; item = item->next) {
        bt_str_format(&got, "%s %g %g\n", bt_json_get(item, "name")->valuestring,
                      bt_plan_number(item, keys[0]), bt_plan_number(item, keys[1]));
    }
    assert_string_equal(bt_str_text(&got), expected);
    bt_str_release(&got);
}

static void lists_of_set_make_a_case_of_each_combination(void **state)
{
    (void)state;
    bt_plan plan;
    const char *keys[2] = {"train.optimizer.lr", "train.seed"};
    const char *const both[] = {"train.optimizer.lr=[3e-4,6e-4]", "train.steps=4",
                                "train.seed=[1, 2]"};
    bt_plan_options options = {.sets = both, .set_count = 3, .seed = -1};
    ASSERT_OK(bt_plan_make(&suite, &options, &plain, &plan));
    assert_cases(&plan, keys,
                 "one.lr=3e-4.seed=1 0.0003 1\none.lr=3e-4.seed=2 0.0003 2\n"
                 "one.lr=6e-4.seed=1 0.0006 1\none.lr=6e-4.seed=2 0.0006 2\n");
    assert_int_equal((int)bt_plan_number(bt_plan_case(&plan, 3), "train.steps"), 4);
    bt_plan_release(&plan);
    options.filter = "one.lr=6e-4.seed=2";
    ASSERT_OK(bt_plan_make(&suite, &options, &plain, &plan));
    assert_int_equal(plan.case_count, 1);
    bt_plan_release(&plan);
    // Words are values, too; keys with equal ends are distinguished; a list of micro-batches is not
    // a value.
    const char *const words[] = {"train.precision=[fp32,\"tf32\"]", "train.micro_batch=[4,2]"};
    options = (bt_plan_options){.sets = words, .set_count = 2, .seed = -1};
    keys[0] = "train.micro_batch";
    ASSERT_OK(bt_plan_make(&suite, &options, &plain, &plan));
    assert_cases(&plan, keys, "one.precision=fp32 4 1337\none.precision=tf32 4 1337\n");
    bt_plan_release(&plan);
}

static void set_concerns_the_cases_that_have_the_key(void **state)
{
    (void)state;
    static const char mixed[] =
        "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
        "{\"name\": \"a\", \"kind\": \"train\", \"dataset\": \"books\"},\n"
        "{\"name\": \"b\", \"kind\": \"command\", \"command\": {\"run\": \"true\"}}]}}}";
    const char *keys[2] = {"train.seed", "command.calls"};
    const char *const sets[] = {"train.seed=7", "command.calls=[5,6]"};
    bt_plan_options options = {.sets = sets, .set_count = 2, .seed = -1};
    bt_suite two;
    bt_plan plan;
    ASSERT_OK(bt_suite_parse("t.json", mixed, strlen(mixed), &two));
    ASSERT_OK(bt_plan_make(&two, &options, &plain, &plan));
    assert_cases(&plan, keys, "a 7 0\nb.calls=5 0 5\nb.calls=6 0 6\n");
    bt_plan_release(&plan);
    options.filter = "b.*";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no case of the plan has the key \"train.seed\"",
                 bt_plan_make(&two, &options, &plain, &plan));
    bt_suite_release(&two);
}

static void lists_of_set_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *set, *message;
    } wrong[] = {
        {"train.seed=[1,,2]", "--set train.seed=[1,,2]: expected values between the commas"},
        {"train.seed=[]", "--set train.seed=[]: expected values between the commas"},
        {"train.seed=[3,3]", "two cases named \"one.seed=3\""},
        {"train.seed=[1,x]", "--set train.seed=x: \"seed\" must be a whole number"},
        {"train.sed=[1,2]", "did you mean \"seed\""},
        {"train.init=[a,b]", "\"init\" takes one path, not a list; a list makes a case for each"},
        {"train.micro_batch=[a]",
         "must be a whole number, a list of them, or \"auto\", not a text"},
        {"train=[1,2]", "train is a group"}};
    bt_plan plan;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        const bt_plan_options options = {.sets = &wrong[i].set, .set_count = 1, .seed = -1};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, wrong[i].message,
                     bt_plan_make(&suite, &options, &plain, &plan));
    }
    bt_str many = {0};
    bt_str_append(&many, "train.seed=[0");
    for (int i = 1; i <= 1000; ++i) {
        bt_str_format(&many, ",%d", i);
    }
    bt_str_append(&many, "]");
    const char *set = bt_str_text(&many);
    const bt_plan_options options = {.sets = &set, .set_count = 1, .seed = -1};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "more than 1000 combinations",
                 bt_plan_make(&suite, &options, &plain, &plan));
    bt_str_release(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_profile_is_taken),
        cmocka_unit_test(gpu_that_is_too_small_is_passed_over),
        cmocka_unit_test(only_gpu_profiles_on_a_plain_machine),
        cmocka_unit_test(levels_are_merged_and_nothing_is_left_open),
        cmocka_unit_test(set_overrides_and_is_checked),
        cmocka_unit_test(bad_set_is_refused),
        cmocka_unit_test(filter_selects_cases),
        cmocka_unit_test(filter_prefers_the_case_of_that_name),
        cmocka_unit_test(filter_by_name_selects_a_case_before_lists_of_set),
        cmocka_unit_test(micro_batch_follows_the_memory),
        cmocka_unit_test(recomputation_follows_the_memory),
        cmocka_unit_test(estimate_is_what_was_measured),
        cmocka_unit_test_setup_teardown(estimate_is_what_this_cpu_takes, small_corpus_write,
                                        small_corpus_remove),
        cmocka_unit_test(parameters_of_d12_are_exact),
        cmocka_unit_test(parameters_of_a_llama_are_exact),
        cmocka_unit_test(nine_gib_take_nine_blocks),
        cmocka_unit_test(ranks_of_a_mesh_send_by_their_batches),
        cmocka_unit_test(paper_profile_is_e1),
        cmocka_unit_test(kernel_cases_share_a_name_but_no_axes),
        cmocka_unit_test(hash_depends_on_content_alone),
        cmocka_unit_test(lists_of_set_make_a_case_of_each_combination),
        cmocka_unit_test(set_concerns_the_cases_that_have_the_key),
        cmocka_unit_test(lists_of_set_that_cannot_be),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

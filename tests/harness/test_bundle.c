// tests/harness/test_bundle.c - bundles: equal bytes, and nothing wrong in them that verify passes
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/mem.h"
#include "harness/redact/redact.h"
#include "harness/stats/stats.h"
#include "harness/suite/json.h"
#include "tests/harness/sample_bundle.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// ---- checks ------------------------------------------------------------------------------------

// Packs the files; verify must report findings that contain these words, for "" none.
static void assert_found(bt_files *files, const bt_bundle_key *key, const char *words)
{
    bt_str packed = {0};
    bt_bundle_check check;
    ASSERT_OK(bt_files_pack(files, &packed));
    ASSERT_OK(bt_bundle_verify_bytes("b", bt_str_text(&packed), packed.length_bytes, key, &check));
    const char *found = bt_str_text(&check.findings);
    if (*words ? !strstr(found, words) : check.finding_count > 0) {
        fail_msg("wanted: %s\nfound: %s", words, found);
    }
    bt_bundle_check_release(&check);
    bt_str_release(&packed);
}

static void replace(bt_files *files, const char *name, const char *text)
{
    bt_str bytes = {0};
    bt_files_remove(files, name);
    bt_str_append(&bytes, text);
    ASSERT_OK(bt_files_add(files, name, &bytes));
}

// ---- sound bundles -----------------------------------------------------------------------------

static void sound_bundles_hold(void **state)
{
    (void)state;
    bt_bundle_check check;
    ASSERT_OK(bt_bundle_verify_bytes("b", sample_training.bytes, sample_training.size_bytes, NULL,
                                     &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    assert_int_equal(check.round_count, 1);
    assert_int_equal(check.measurement_count, 10);
    assert_string_equal(check.suite, "tiny");
    assert_true(isnan(check.run.rounds[0].steps[5].loss));
    assert_int_equal(check.run.rounds[0].telemetry_count, 3);
    assert_true(check.run.schedule.seed == UINT64_MAX - 1);
    assert_string_equal(check.run.schedule.systems[1].build.compiler, "gcc");
    assert_true(isnan(bt_telemetry_value(&check.run.rounds[0].telemetry[1], 3)));
    assert_true(isnan(check.run.rounds[0].telemetry[0].steps));
    assert_true(check.run.rounds[0].telemetry[1].step_ended_ns > 0.0);
    bt_bundle_check_release(&check);
    ASSERT_OK(
        bt_bundle_verify_bytes("b", sample_kernels.bytes, sample_kernels.size_bytes, NULL, &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    assert_int_equal(check.round_count, 4); // the copy and the case, twice
    assert_int_equal(check.verdict_count, 1);
    bt_bundle_check_release(&check);
    ASSERT_OK(
        bt_bundle_verify_bytes("b", sample_systems.bytes, sample_systems.size_bytes, NULL, &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    assert_int_equal(check.verdict_count, 2);
    bt_bundle_check_release(&check);
}

static void equal_runs_give_equal_bytes(void **state)
{
    (void)state;
    sample_bundle again;
    sample_bundle_export(1, NULL, test_scratch_path("again.tar.zst"), &again);
    assert_int_equal(again.size_bytes, sample_training.size_bytes);
    assert_memory_equal(again.bytes, sample_training.bytes, sample_training.size_bytes);
    bt_mem_free(again.bytes);
}

// What is imported is the same run: its bundle is the same but for the run's number.
static void imported_run_is_the_same(void **state)
{
    (void)state;
    bt_bundle_check check;
    bt_store *other = NULL, *mine = scratch_store;
    sample_bundle again;
    int64_t number = 0;
    ASSERT_OK(bt_store_open(test_scratch_path("other.sqlite"), BT_STORE_WRITE, &other));
    ASSERT_OK(bt_bundle_verify_bytes("b", sample_training.bytes, sample_training.size_bytes, NULL,
                                     &check));
    ASSERT_OK(bt_store_run_import(other, &check.run, false, &number));
    assert_int_equal(number, 1);
    scratch_store = other;
    sample_bundle_export(1, NULL, test_scratch_path("again.tar.zst"), &again);
    scratch_store = mine;
    assert_int_equal(again.size_bytes, sample_training.size_bytes);
    assert_memory_equal(again.bytes, sample_training.bytes, sample_training.size_bytes);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "refused",
                 bt_store_run_import(other, &check.run, true, &number));
    ASSERT_OK(bt_store_run_import(other, &check.run, false, &number));
    assert_int_equal(number, 2);
    bt_mem_free(again.bytes);
    bt_bundle_check_release(&check);
    ASSERT_OK(bt_store_close(other));
}

static void paths_of_the_machine_are_left_out(void **state)
{
    (void)state;
    bt_files files;
    const char *scratch = test_scratch_path("");
    sample_bundle_unpack(&sample_training, &files);
    for (int64_t i = 0; i < files.count; i++) {
        const bt_file *file = &files.items[i];
        assert_null(memmem(file->bytes, file->size_bytes, "/home/", 6));
        assert_null(memmem(file->bytes, file->size_bytes, "/mnt/", 5));
        assert_null(memmem(file->bytes, file->size_bytes, "/tmp/", 5));
        assert_null(memmem(file->bytes, file->size_bytes, scratch, strlen(scratch)));
        assert_null(memmem(file->bytes, file->size_bytes, "lovelace", 8));
    }
    assert_non_null(strstr(bt_files_find(&files, "run.json")->bytes, "run .../s.json --db .../y"));
    assert_non_null(strstr(bt_files_find(&files, "from/suite.json")->bytes, "[\".../t.bin\"]"));
    bt_files_release(&files);
}

static void paths_are_shortened_by_their_text(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"/home/ada", "~"},
        {"/home/ada/", "~"},
        {"/home/ada/x.bin", ".../x.bin"},
        {"--db=/root/x/y.sqlite, /root", "--db=.../y.sqlite, ~"},
        {"~/secret/x ~ada/y", ".../x .../y"},
        {"\"/mnt/d\xc3\xa9j\xc3\xa0/t.bin\"", "\".../t.bin\""},
        {"/usr/lib/x.so /dev/nvidia0 /opt/a/b", "/usr/lib/x.so /dev/nvidia0 /opt/a/b"},
        {"/dev/shm/ada/x.bin /dev/shm", ".../x.bin /dev/shm"},
        {"tok/s 3/4 a/b/c.json ../x/y", "tok/s 3/4 a/b/c.json ../x/y"},
        {"https://w3id.org/a/b", "https://w3id.org/a/b"},
        {"/ /x ~", "/ /x ~"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_str out = {0}, twice = {0};
        bool changed = bt_redact_shorten(rows[i][0], strlen(rows[i][0]), &out);
        assert_string_equal(bt_str_text(&out), rows[i][1]);
        assert_int_equal(changed, strcmp(rows[i][0], rows[i][1]) != 0);
        assert_false(bt_redact_shorten(rows[i][1], strlen(rows[i][1]), &twice));
        bt_str_release(&out);
        bt_str_release(&twice);
    }
}

static const cJSON *entity(const cJSON *graph, const char *id)
{
    for (const cJSON *node = graph->child; node; node = node->next) {
        const cJSON *text = bt_json_get(node, "@id");
        if (cJSON_IsString(text) && strcmp(text->valuestring, id) == 0) {
            return node;
        }
    }
    fail_msg("no entity %s", id);
    return NULL;
}

// What RO-Crate 1.1 demands: the descriptor, the root with its properties, a File per data file.
static void crate_has_the_required_entities(void **state)
{
    (void)state;
    bt_files files;
    bt_json_doc json;
    sample_bundle_unpack(&sample_kernels, &files);
    const bt_file *crate = bt_files_find(&files, "ro-crate-metadata.json");
    ASSERT_OK(bt_json_parse("crate", crate->bytes, crate->size_bytes, &json));
    assert_string_equal(bt_json_get(json.root, "@context")->valuestring,
                        "https://w3id.org/ro/crate/1.1/context");
    const cJSON *graph = bt_json_get(json.root, "@graph");
    const cJSON *descriptor = entity(graph, "ro-crate-metadata.json");
    assert_string_equal(bt_json_get(descriptor, "@type")->valuestring, "CreativeWork");
    assert_string_equal(bt_json_get(bt_json_get(descriptor, "conformsTo"), "@id")->valuestring,
                        "https://w3id.org/ro/crate/1.1");
    assert_string_equal(bt_json_get(bt_json_get(descriptor, "about"), "@id")->valuestring, "./");
    const cJSON *root = entity(graph, "./");
    assert_string_equal(bt_json_get(root, "@type")->valuestring, "Dataset");
    static const char *const keys[] = {"name", "description", "datePublished", "license"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(cJSON_IsString(bt_json_get(root, keys[i])));
    }
    int parts = 0;
    for (const cJSON *part = bt_json_get(root, "hasPart")->child; part; part = part->next) {
        const char *id = bt_json_get(part, "@id")->valuestring;
        assert_string_equal(bt_json_get(entity(graph, id), "@type")->valuestring, "File");
        assert_non_null(bt_files_find(&files, id));
        parts++;
    }
    assert_int_equal(parts + 3, files.count); // but for itself, the manifest, the statement
    bt_json_doc_release(&json);
    bt_files_release(&files);
}

// ---- tampering ---------------------------------------------------------------------------------

static void files_that_do_not_belong_are_found(void **state)
{
    (void)state;
    bt_files files;
    sample_bundle_unpack(&sample_training, &files);
    replace(&files, "more.json", "{}");
    assert_found(&files, NULL, "more.json is not listed in the manifest");
    bt_files_release(&files);
    sample_bundle_unpack(&sample_training, &files);
    bt_files_remove(&files, "rounds/0000/step_time_ns.f64");
    assert_found(&files, NULL,
                 "rounds/0000/step_time_ns.f64 is listed in the manifest but missing");
    bt_files_release(&files);
    sample_bundle_unpack(&sample_training, &files);
    bt_files_remove(&files, "manifest.json");
    assert_found(&files, NULL, "manifest.json is missing");
    bt_files_release(&files);
    sample_bundle_unpack(&sample_training, &files);
    bt_files_remove(&files, BT_BUNDLE_STATEMENT);
    assert_found(&files, NULL, "there must be one statement");
    bt_files_release(&files);
    sample_bundle_unpack(&sample_training, &files);
    replace(&files, BT_BUNDLE_STATEMENT, "{}");
    assert_found(&files, NULL, "the statement does not refer to this manifest");
    bt_files_release(&files);
    sample_bundle_unpack(&sample_kernels, &files);
    char *first = strdup(bt_files_find(&files, "rounds/0000/round.json")->bytes);
    char *second = strdup(bt_files_find(&files, "rounds/0001/round.json")->bytes);
    replace(&files, "rounds/0000/round.json", second);
    replace(&files, "rounds/0001/round.json", first);
    assert_found(&files, NULL, "rounds/0000/round.json has");
    free(first);
    free(second);
    bt_files_release(&files);
}

// A forger who makes all digests again, from a run that was changed; "" for a change that holds.
typedef void (*forge)(bt_store_run *run);

static void assert_forgery_found(const sample_bundle *bundle, forge change, const char *words)
{
    bt_files sound, forged = {0};
    bt_store_run run;
    sample_bundle_unpack(bundle, &sound);
    ASSERT_OK(bt_content_read(&sound, &run));
    change(&run);
    ASSERT_OK(bt_content_build(&run, NULL, &forged));
    assert_found(&forged, NULL, words);
    bt_files_release(&forged);
    bt_files_release(&sound);
    bt_store_run_release(&run);
}

static bt_store_measurement *measurement(bt_store_run *run, int64_t round, bt_metric metric)
{
    bt_store_measurement *items =
        (bt_store_measurement *)(uintptr_t)run->rounds[round].measurements;
    for (int64_t i = 0; i < run->rounds[round].measurement_count; i++) {
        if (items[i].metric == metric) {
            return &items[i];
        }
    }
    fail_msg("round %lld has no %s", (long long)round, bt_metric_info(metric)->tag);
    return NULL;
}

static bt_store_step *step(bt_store_run *run, int64_t index)
{
    return (bt_store_step *)(uintptr_t)&run->rounds[0].steps[index];
}

static void forge_value(bt_store_run *run) { measurement(run, 1, BT_METRIC_TIME)->value *= 0.99; }
static void forge_low(bt_store_run *run) { measurement(run, 1, BT_METRIC_TIME)->low = 9e5; }
static void forge_median(bt_store_run *run)
{
    measurement(run, 1, BT_METRIC_TIME_MEDIAN)->value *= 0.99;
}
// Without its median a round is one of before, whose value is the median.
static void forge_form(bt_store_run *run)
{
    measurement(run, 1, BT_METRIC_TIME_MEDIAN)->metric = BT_METRIC_WALL_TIME;
}

static void forge_sample(bt_store_run *run)
{
    *(double *)(uintptr_t)&measurement(run, 1, BT_METRIC_TIME)->samples[1] *= 0.5;
}

static void forge_rate(bt_store_run *run) { measurement(run, 1, BT_METRIC_BANDWIDTH)->high = 1e9; }
static void forge_share(bt_store_run *run)
{
    measurement(run, 1, BT_METRIC_COPY_SHARE)->value *= 1.01;
}
static void forge_bytes(bt_store_run *run) { measurement(run, 1, BT_METRIC_BYTES_MOVED)->value++; }
static void forge_step(bt_store_run *run) { step(run, 3)->host_ns -= 1000; }
static void forge_loss(bt_store_run *run) { step(run, 0)->loss = 3.0F; }
static void forge_memory(bt_store_run *run) { step(run, 2)->peak_allocated_bytes = 1 << 30; }
static void forge_warmup(bt_store_run *run) { step(run, 2)->warmup = true; }
static void forge_step_sample(bt_store_run *run)
{
    *(double *)(uintptr_t)&measurement(run, 0, BT_METRIC_STEP_TIME)->samples[0] *= 0.5;
}
static void forge_plan(bt_store_run *run)
{
    ((char *)(uintptr_t)run->info.suite.plan_json)[10] ^= 1;
}
static void forge_fact(bt_store_run *run)
{
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        bt_store_fact *fact = (bt_store_fact *)(uintptr_t)&run->info.env.facts[i];
        fact->value = strcmp(fact->key, "cpu.model") == 0 ? "a faster one" : fact->value;
    }
}
static void forge_verdict(bt_store_run *run)
{
    static const bt_store_verdict verdict = {"ours", "gelu", "time_ns", "FASTER", 2.0,
                                             1.9,    2.1,    8,         "",       "{}"};
    run->verdicts = &verdict;
    run->verdict_count = 1;
}

static void scale(bt_store_measurement *item, double factor)
{
    for (int64_t i = 0; i < item->sample_count; i++) {
        *(double *)(uintptr_t)&item->samples[i] *= factor;
    }
    item->value *= factor;
    item->low *= factor;
    item->high *= factor;
}

// A forger who knows how medians and rates are made, but not that verdicts are made again.
static void forge_side(bt_store_run *run)
{
    for (int64_t i = 0; i < run->round_count; i++) {
        if (strcmp(run->rounds[i].what.system, "blutrain") == 0) {
            scale(measurement(run, i, BT_METRIC_TIME), 0.5);
            scale(measurement(run, i, BT_METRIC_BANDWIDTH), 2.0);
            scale(measurement(run, i, BT_METRIC_COMPUTE), 2.0);
            scale(measurement(run, i, BT_METRIC_COPY_SHARE), 2.0);
        }
    }
}

static bt_store_verdict *verdict(bt_store_run *run, const char *kind)
{
    bt_store_verdict *items = (bt_store_verdict *)(uintptr_t)run->verdicts;
    for (int64_t i = 0; i < run->verdict_count; i++) {
        if (strcmp(items[i].kind, kind) == 0) {
            return &items[i];
        }
    }
    fail_msg("no verdict of %s", kind);
    return NULL;
}

static void forge_word(bt_store_run *run) { verdict(run, "ab")->verdict = "FASTER"; }
static void forge_ratio(bt_store_run *run) { verdict(run, "ab")->ratio = 0.5; }
static void forge_rounds(bt_store_run *run) { verdict(run, "ab")->rounds = 24; }
static void forge_metric(bt_store_run *run) { verdict(run, "ab")->metric = "loss"; }
static void forge_claim(bt_store_run *run) { verdict(run, "replicate")->verdict = "EXCEEDED"; }
static void forge_gate(bt_store_run *run) { verdict(run, "gate")->verdict = "FASTER"; }
static void forge_subject(bt_store_run *run) { verdict(run, "gate")->subject = "gelu.other"; }
static void forge_no_rule(bt_store_run *run) { verdict(run, "gate")->rule_json = "{}"; }
static void forge_no_verdicts(bt_store_run *run) { run->verdict_count = 0; }

static void forge_policy(bt_store_run *run)
{
    char *at = strstr((char *)(uintptr_t)run->schedule.rule_json, "\"kernel\":0.01");
    assert_non_null(at);
    at[11] = '9';
}

static void cut(char *text, const char *what)
{
    char *at = strstr(text, what);
    assert_non_null(at);
    memmove(at, at + strlen(what), strlen(at + strlen(what)) + 1);
}

// Verdicts of 'ab' by rules of version 1 are judged by these, not by what the program does now.
static void older_verdicts_of_ab_hold_and_are_said_to_be_older(void **state)
{
    (void)state;
    for (int forged = 0; forged < 2; forged++) {
        bt_files sound, older = {0};
        bt_store_run run;
        bt_str bytes = {0};
        bt_bundle_check check;
        sample_bundle_unpack(&sample_systems, &sound);
        ASSERT_OK(bt_content_read(&sound, &run));
        for (int64_t i = 0; i < run.verdict_count; i++) {
            if (strcmp(run.verdicts[i].kind, "ab") == 0) {
                char *rule = (char *)(uintptr_t)run.verdicts[i].rule_json;
                cut(rule, "\"version\":3,");
                cut(rule, "\"bad_ratio\":1.3,\"far_spreads\":6,");
            }
        }
        verdict(&run, "ab")->verdict = forged ? "FASTER" : "SAME";
        ASSERT_OK(bt_content_build(&run, NULL, &older));
        ASSERT_OK(bt_files_pack(&older, &bytes));
        ASSERT_OK(
            bt_bundle_verify_bytes("b", bt_str_text(&bytes), bytes.length_bytes, NULL, &check));
        assert_int_equal(check.finding_count, forged);
        assert_non_null(strstr(bt_str_text(&check.notes), "made by version 1 of the rules"));
        bt_bundle_check_release(&check);
        bt_str_release(&bytes);
        bt_files_release(&older);
        bt_files_release(&sound);
        bt_store_run_release(&run);
    }
}

static void verdicts_that_do_not_follow_are_found(void **state)
{
    (void)state;
    static const struct {
        const sample_bundle *bundle;
        forge change;
        const char *words;
    } rows[] = {
        {&sample_systems, forge_side,
         "ab, gelu.forward.f32.64x64 time_ns: the verdict is recorded as SAME, recomputed as "
         "FASTER"},
        {&sample_systems, forge_side,
         "the ratio is recorded as 1, recomputed as 0.49999999999999994"},
        {&sample_systems, forge_side,
         "replicate, faster time_ns: the verdict is recorded as REPLICATED, recomputed as "
         "EXCEEDED"},
        {&sample_systems, forge_word, "the verdict is recorded as FASTER, recomputed as SAME"},
        {&sample_systems, forge_ratio, "the ratio is recorded as 0.5, recomputed as 1"},
        {&sample_systems, forge_rounds, "rounds is recorded as 24, recomputed as 8"},
        {&sample_systems, forge_metric, "time_ns: the verdict SAME is recomputed but not recorded"},
        {&sample_systems, forge_metric, "loss: the verdict SAME cannot be recomputed from the run"},
        {&sample_systems, forge_policy, "the rule is recorded as"},
        {&sample_systems, forge_no_verdicts, "a session of ab without a verdict"},
        {&sample_systems, forge_claim, "recorded as EXCEEDED, recomputed as REPLICATED"},
        {&sample_kernels, forge_gate, "gate, gelu.forward.f32.64x64"},
        {&sample_kernels, forge_subject,
         "the subject is recorded as gelu.other, recomputed as gelu."},
        {&sample_kernels, forge_no_rule, "kernel_peer.sh time_ns: the rule of a verdict"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_forgery_found(rows[i].bundle, rows[i].change, rows[i].words);
    }
}

static void forge_throttle(bt_store_run *run)
{
    bt_store_telemetry *samples = (bt_store_telemetry *)(uintptr_t)run->rounds[0].telemetry;
    samples[1].throttle = BT_THROTTLE_HARDWARE;
}

static void forge_invalid(bt_store_run *run)
{
    ((bt_store_round *)(uintptr_t)run->rounds)[0].status = BT_RUN_INVALID;
}

static void forge_label(bt_store_run *run)
{
    ((bt_store_round *)(uintptr_t)run->rounds)[0].label = "loaded machine";
}

static void forge_steps(bt_store_run *run)
{
    ((bt_store_round *)(uintptr_t)run->rounds)[0].shape.steps++;
}

static void forge_eval(bt_store_run *run)
{
    ((bt_store_eval *)(uintptr_t)run->rounds[0].evals)[0].loss -= 0.01; // of two
}

static void forge_middle_loss(bt_store_run *run) { step(run, 2)->loss = 5.0F; }

static void forge_hash(bt_store_run *run)
{
    ((char *)(uintptr_t)run->info.suite.plan_hash)[3] ^= 1;
}

static void what_does_not_follow_is_found(void **state)
{
    (void)state;
    static const struct {
        forge change;
        const char *words;
    } of_kernels[] = {
        {forge_value, "time_ns: the value is recorded as 1650000.16"},
        {forge_low, "time_ns: low is recorded as 900000, recomputed as nan"},
        {forge_median, "time_median_ns: the value is recorded as 990000.49"},
        {forge_form,
         "time_ns: the value is recorded as 1666666.8333333333, recomputed as 1000000.5"},
        {forge_sample, "time_ns: the value is recorded as 1666666.8333333333, recomputed as"},
        {forge_rate, "bandwidth_bytes_per_s: high is recorded"},
        {forge_share, "copy_share: the value is recorded"},
        {forge_bytes, "bytes_moved: the value is recorded as 32769, recomputed as 32768"},
        {forge_plan, "plan: its hash is recorded as"},
        {forge_fact, "environment: its digest is recorded as"},
        {forge_verdict, "does not know verdicts of the kind \"ours\""},
    };
    static const struct {
        forge change;
        const char *words;
    } of_training[] = {
        {forge_step, "step_time_ns: a sample is recorded as 10000003, recomputed as 9999003"},
        {forge_loss, "one, fake_worker.sh, round 0: loss_first: the value is recorded as"},
        {forge_memory,
         "peak_allocated_bytes: the value is recorded as 2000, recomputed as 1073741824"},
        {forge_warmup, "step_time_ns: a sample is recorded"},
        {forge_step_sample, "step_time_ns: a sample is recorded"},
        {forge_throttle,
         "recorded as passed, but its samples result in 'throttled': hardware slowdown in"},
        {forge_label, "round 0: labelled 'loaded machine', but its samples result in ''"},
        {forge_steps, "round 0: 7 steps are recorded as planned and 6 as done, the plan has 6"},
        {forge_eval, "val_loss: a sample is recorded as 11.5, recomputed as 11.49"},
        {forge_middle_loss, "loss_last: a sample is recorded as"},
        {forge_hash, "plan: its hash is recorded as"}, // its shards are given by path
        {forge_invalid, "recorded as invalid, but its samples result in 'undisturbed'"},
    };
    for (size_t i = 0; i < sizeof of_kernels / sizeof of_kernels[0]; i++) {
        assert_forgery_found(&sample_kernels, of_kernels[i].change, of_kernels[i].words);
    }
    for (size_t i = 0; i < sizeof of_training / sizeof of_training[0]; i++) {
        assert_forgery_found(&sample_training, of_training[i].change, of_training[i].words);
    }
}

// A run as it was recorded before the mean decided: the value of a time is the median of its
// samples, its interval of three samples their range, and rates follow from that.
static void make_older(bt_store_run *run)
{
    static const bt_metric rates[] = {BT_METRIC_BANDWIDTH, BT_METRIC_COMPUTE, BT_METRIC_COPY_SHARE};
    double copy = 1; // what became of the rate of the run's copy
    for (int64_t i = 0; i < run->round_count; i++) {
        bt_store_round *round = (bt_store_round *)(uintptr_t)&run->rounds[i];
        bt_store_measurement *time = measurement(run, i, BT_METRIC_TIME);
        double mean = time->value;
        time->value = measurement(run, i, BT_METRIC_TIME_MEDIAN)->value;
        time->low = time->samples[0];
        time->high = time->samples[2];
        for (int r = 0; r < 3; r++) {
            bt_store_measurement *rate = NULL;
            for (int64_t m = 0; m < round->measurement_count; m++) {
                const bt_store_measurement *item = &round->measurements[m];
                rate = item->metric == rates[r] ? (bt_store_measurement *)(uintptr_t)item : rate;
            }
            if (rate) {
                double amount = rate->value * mean * (r == 2 ? copy : 1);
                copy = strncmp(round->what.name, "ceiling", 7) == 0 ? time->value / mean : copy;
                rate->value = amount / time->value;
                rate->low = amount / time->high;
                rate->high = amount / time->low;
            }
        }
        // The median's row is removed: the last takes its place.
        *measurement(run, i, BT_METRIC_TIME_MEDIAN) =
            round->measurements[round->measurement_count - 1];
        --round->measurement_count;
    }
    run->verdict_count = 0;
}

// Times that scatter so much that the interval of their mean extends below 0: the record has the
// computed bound, although reports show 0.
static void scatter(bt_store_run *run)
{
    static const double samples[] = {1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 8e7};
    static const bt_metric rates[] = {BT_METRIC_BANDWIDTH, BT_METRIC_COMPUTE, BT_METRIC_COPY_SHARE};
    bt_store_measurement *time = measurement(run, 1, BT_METRIC_TIME);
    bt_store_measurement *median = measurement(run, 1, BT_METRIC_TIME_MEDIAN);
    const double before = time->value;
    bt_stats stats;
    ASSERT_OK(bt_stats_of_series(samples, BT_COUNT(samples), &stats));
    assert_true(stats.mean_low < 0);
    *time = (bt_store_measurement){BT_METRIC_TIME,  stats.mean, stats.mean_low,
                                   stats.mean_high, samples,    BT_COUNT(samples)};
    *median =
        (bt_store_measurement){BT_METRIC_TIME_MEDIAN, stats.median, stats.low, stats.high, NULL, 0};
    for (int i = 0; i < BT_COUNT(rates); i++) {
        bt_store_measurement *rate = measurement(run, 1, rates[i]);
        const double amount = rate->value * before;
        *rate = (bt_store_measurement){
            rates[i], amount / stats.mean, amount / stats.mean_high, (double)NAN, NULL, 0};
    }
    run->verdict_count = 0;
}

static void rounds_recorded_before_the_mean_decided_hold(void **state)
{
    (void)state;
    assert_forgery_found(&sample_kernels, make_older, "");
}

static void rounds_with_a_lower_bound_below_0_hold(void **state)
{
    (void)state;
    assert_forgery_found(&sample_kernels, scatter, "");
}

// Equivalent contents in another format are not what export writes.
static void other_spellings_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *name, *from, *to, *words;
    } rows[] = {
        {"run.json", "\"seed\": 1337", "\"seed\": 1337.0",
         "run.json differs from the file that export writes"},
        {"run.json", "\"seed\": 1337", "\"seed\": \"x\"", "run.json: \"seed\" is missing"},
        {"run.json", "\"rounds\": 1", "\"rounds\": -1", "run.json: \"rounds\" is missing"},
        {"run.json", "\"rounds\": 1", "\"rounds\": 9", "rounds/0001/round.json is missing"},
        {"run.json", "passed", "great", "run.json: \"status\" is missing"},
        {"run.json", "T", "t", "run.json"},
        {"verdicts.json", "[]", "{}", "verdicts.json: a list is missing"},
        {"verdicts.json", "[]", "", "verdicts.json:2:1"},
        {"rounds/0000/round.json", "\"metric\": \"tokens_per_s\"", "\"metric\": \"x\"",
         "unknown metric"},
        {"rounds/0000/round.json", "micro_batch", "macro_batch", "the plan has no such case"},
        {"rounds/0000/steps.ndjson", "{", "", "steps.ndjson, line 1:1"},
        {"rounds/0000/steps.ndjson", "7fc00000", "7FC00000", "\"loss\" is missing"},
        {"rounds/0000/telemetry.ndjson", "null", "\"NaN\"", "telemetry.ndjson, line 1"},
        {"report.html", "<h1", "<h2", "report.html differs from the file that export writes"},
        {"ro-crate-metadata.json", "1.1", "1.2", "ro-crate-metadata.json differs from the file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bt_files files;
        bt_str text = {0};
        bt_content_maker maker;
        sample_bundle_unpack(&sample_training, &files);
        const bt_file *file = bt_files_find(&files, rows[i].name);
        const char *at = file ? strstr(file->bytes, rows[i].from) : NULL;
        if (!at) {
            fail_msg("%s lacks %s", rows[i].name, rows[i].from);
        }
        bt_str_append_bytes(&text, file->bytes, (size_t)(at - file->bytes));
        bt_str_append(&text, rows[i].to);
        bt_str_append(&text, at + strlen(rows[i].from));
        bt_files_remove(&files, rows[i].name);
        ASSERT_OK(bt_files_add(&files, rows[i].name, &text));
        ASSERT_OK(bt_content_maker_self(&maker));
        bt_files_remove(&files, "manifest.json");
        bt_files_remove(&files, BT_BUNDLE_STATEMENT);
        ASSERT_OK(bt_content_add_manifest(&maker, &files));
        replace(&files, BT_BUNDLE_STATEMENT, "{}");
        assert_found(&files, NULL, rows[i].words);
        bt_files_release(&files);
    }
}

static void later_format_is_named(void **state)
{
    (void)state;
    bt_files files;
    bt_str packed = {0};
    bt_bundle_check check;
    sample_bundle_unpack(&sample_training, &files);
    replace(&files, "run.json", "{\"format\":\"bt-bench bundle 2\"}");
    assert_found(&files, NULL, "the format is \"bt-bench bundle 2\""); // the manifest knows another
    bt_content_maker maker;
    ASSERT_OK(bt_content_read_maker(&files, &maker));
    bt_files_remove(&files, "manifest.json");
    bt_files_remove(&files, BT_BUNDLE_STATEMENT);
    ASSERT_OK(bt_content_add_manifest(&maker, &files));
    ASSERT_OK(bt_files_pack(&files, &packed));
    ASSERT_FAILS(
        BT_STATUS_UNSUPPORTED, "the format is \"bt-bench bundle 2\"",
        bt_bundle_verify_bytes("b", bt_str_text(&packed), packed.length_bytes, NULL, &check));
    bt_str_release(&packed);
    bt_files_release(&files);
}

// ---- keys --------------------------------------------------------------------------------------

static void signed_bundle_holds_by_its_key_alone(void **state)
{
    (void)state;
    bt_bundle_key mine, other, open;
    bt_bundle_check check;
    sample_bundle bundle, again;
    bt_files files;
    ASSERT_OK(bt_bundle_key_make(test_scratch_path("a.key"), test_scratch_path("a.pub")));
    ASSERT_OK(bt_bundle_key_make(test_scratch_path("b.key"), test_scratch_path("b.pub")));
    ASSERT_OK(bt_bundle_key_read(test_scratch_path("a.key"), true, &mine));
    ASSERT_OK(bt_bundle_key_read(test_scratch_path("b.key"), true, &other));
    ASSERT_OK(bt_bundle_key_read(test_scratch_path("a.pub"), false, &open));
    assert_string_equal(mine.id, open.id);
    sample_bundle_export(1, &mine, test_scratch_path("signed.tar.zst"), &bundle);
    sample_bundle_export(1, &mine, test_scratch_path("signed.tar.zst"), &again);
    assert_int_equal(bundle.size_bytes, again.size_bytes);
    assert_memory_equal(bundle.bytes, again.bytes, bundle.size_bytes);
    ASSERT_OK(bt_bundle_verify_bytes("b", bundle.bytes, bundle.size_bytes, &open, &check));
    assert_string_equal(bt_str_text(&check.findings), "");
    assert_true(check.is_signed && check.signature_holds);
    bt_bundle_check_release(&check);
    ASSERT_OK(bt_bundle_verify_bytes("b", bundle.bytes, bundle.size_bytes, NULL, &check));
    assert_true(check.is_signed && !check.signature_holds);
    bt_bundle_check_release(&check);
    sample_bundle_unpack(&bundle, &files);
    assert_found(&files, &other, "signed by the key");
    const char *envelope = bt_files_find(&files, BT_BUNDLE_ENVELOPE)->bytes;
    char *forged = strdup(envelope), *at = strstr(forged, "\"sig\": \"");
    at[8 + 20] = at[8 + 20] == 'A' ? 'B' : 'A';
    replace(&files, BT_BUNDLE_ENVELOPE, forged);
    assert_found(&files, &open, "the signature is invalid");
    free(forged);
    bt_files_release(&files);
    sample_bundle_unpack(&sample_training, &files);
    assert_found(&files, &open, "not signed, but a key was given");
    bt_files_release(&files);
    bt_mem_free(bundle.bytes);
    bt_mem_free(again.bytes);
}

static void bad_key_files_are_named(void **state)
{
    (void)state;
    bt_bundle_key key;
    const char *text = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    ASSERT_OK(bt_bundle_key_make(test_scratch_path("k.key"), test_scratch_path("k.pub")));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "already exists and is not overwritten",
                 bt_bundle_key_make(test_scratch_path("k.key"), test_scratch_path("l.pub")));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "already exists and is not overwritten",
                 bt_bundle_key_make(test_scratch_path("l.key"), test_scratch_path("k.pub")));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not a secret Ed25519 key",
                 bt_bundle_key_read(test_scratch_path("k.pub"), true, &key));
    ASSERT_FAILS(BT_STATUS_IO, "no such key", bt_bundle_key_read("/no/such/key", false, &key));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not a public or secret Ed25519 key",
                 bt_bundle_key_read(test_scratch_write("x", text, strlen(text)), false, &key));
}

// ---- memory ------------------------------------------------------------------------------------

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; n += 1 + n / 16) {
        bt_bundle_check check;
        bt_mem_fail_at(n);
        status = bt_bundle_verify_bytes("b", sample_training.bytes, sample_training.size_bytes,
                                        NULL, &check);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            assert_int_equal(check.finding_count, 0);
            bt_bundle_check_release(&check);
        } else {
            assert_true(*bt_error_message());
        }
        assert_int_equal(bt_mem_live_count(), before);
    }
    status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; n++) { // each: libraries that we call may leak, too
        const bt_bundle_options options = {.is_public = true};
        bt_str notes = {0};
        bt_mem_fail_at(n);
        status =
            bt_bundle_export(scratch_store, 1, &options, test_scratch_path("x.tar.zst"), &notes);
        bt_mem_fail_at(0);
        bt_str_release(&notes);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_bundles_hold),
        cmocka_unit_test(equal_runs_give_equal_bytes),
        cmocka_unit_test(imported_run_is_the_same),
        cmocka_unit_test(paths_of_the_machine_are_left_out),
        cmocka_unit_test(paths_are_shortened_by_their_text),
        cmocka_unit_test(crate_has_the_required_entities),
        cmocka_unit_test(files_that_do_not_belong_are_found),
        cmocka_unit_test(what_does_not_follow_is_found),
        cmocka_unit_test(rounds_recorded_before_the_mean_decided_hold),
        cmocka_unit_test(rounds_with_a_lower_bound_below_0_hold),
        cmocka_unit_test(older_verdicts_of_ab_hold_and_are_said_to_be_older),
        cmocka_unit_test(verdicts_that_do_not_follow_are_found),
        cmocka_unit_test(other_spellings_are_found),
        cmocka_unit_test(later_format_is_named),
        cmocka_unit_test(signed_bundle_holds_by_its_key_alone),
        cmocka_unit_test(bad_key_files_are_named),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, sample_bundles_make, sample_bundles_remove);
}

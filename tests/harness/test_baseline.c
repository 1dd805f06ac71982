// tests/harness/test_baseline.c - baselines: kept with their history, and a document that comes
// back
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/gate/baseline.h"
#include "tests/harness/made_run.h"
#include "tests/harness/scratch_store.h"

// ---- the store ---------------------------------------------------------------------------------

static void the_newest_counts_and_history_stays(void **state)
{
    (void)state;
    bt_arena arena = {0};
    bt_store_baseline found;
    bt_store_baseline_list list;
    bool known = true;
    ASSERT_OK(bt_store_baseline_read(scratch_store, "main", NULL, &arena, &found, &known));
    assert_false(known);
    const bt_store_baseline rows[] = {
        {.name = "main", .machine = "h200", .reason = "first", .run = 3, .document = "{1}"},
        {.name = "main", .machine = "a100", .reason = "other", .run = 4, .document = "{2}"},
        {.name = "main", .machine = "h200", .reason = "faster", .created_ns = 5, .document = "{3}"},
        {.name = "old", .machine = "h200", .reason = "kept", .document = "{4}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        ASSERT_OK(bt_store_baseline_add(scratch_store, &rows[i]));
    }
    ASSERT_OK(bt_store_baseline_read(scratch_store, "main", "h200", &arena, &found, &known));
    assert_true(known);
    assert_string_equal(found.document, "{3}");
    assert_string_equal(found.reason, "faster");
    assert_int_equal(found.created_ns, 5);
    assert_int_equal(found.run, 0);
    ASSERT_OK(bt_store_baseline_read(scratch_store, "main", "a100", &arena, &found, &known));
    assert_string_equal(found.document, "{2}");
    ASSERT_OK(bt_store_baseline_read(scratch_store, "main", "t4", &arena, &found, &known));
    assert_false(known);
    ASSERT_OK(bt_store_baseline_list_read(scratch_store, "main", &list));
    assert_int_equal(list.count, 3);
    assert_string_equal(list.rows[0].reason, "faster");
    assert_string_equal(list.rows[2].reason, "first");
    assert_null(list.rows[0].document);
    bt_store_baseline_list_release(&list);
    ASSERT_OK(bt_store_baseline_list_read(scratch_store, NULL, &list));
    assert_int_equal(list.count, 4);
    bt_store_baseline_list_release(&list);
    const bt_store_baseline bare = {.name = "x", .machine = "m", .reason = "", .document = "{}"};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "a name and a reason",
                 bt_store_baseline_add(scratch_store, &bare));
    bt_arena_release(&arena);
}

// ---- the document ------------------------------------------------------------------------------

static void make_run(made_run *made)
{
    made_run_init(made);
    for (int i = 0; i < 8; ++i) {
        made_kernel_round(made, "gelu", "blutrain", 1000 * made_noise(i, 0.01), "gelu_v2");
        made_kernel_round(made, "gelu", "pytorch-eager", 3000 * made_noise(i, 0.01), "aten");
        made_train_round(made, "tiny", "blutrain", 5e6, 1 << 20, 6, i == 7 ? 3 : 6, 0.5F);
    }
    made_ceiling_round(made, 6e9);
    made_ceiling_round(made, 7e9);
    made_kernel_round(made, "once", "blutrain", 10, "copy");
}

static bt_status write_one(const made_run *made, const char *name, const char *reason, bt_str *out)
{
    const bt_store_run *const runs[] = {&made->run};
    const bt_baseline_wish wish = {.name = name, .reason = reason};
    return bt_baseline_write(runs, 1, &wish, out);
}

static void write_document(const made_run *made, bt_str *out)
{
    ASSERT_OK(write_one(made, "main", "first measurement", out));
}

static void a_document_comes_back(void **state)
{
    (void)state;
    made_run made;
    bt_str text = {0}, again = {0};
    bt_baseline baseline;
    make_run(&made);
    write_document(&made, &text);
    write_document(&made, &again);
    assert_string_equal(bt_str_text(&text), bt_str_text(&again)); // deterministic
    ASSERT_OK(bt_baseline_parse("main.json", bt_str_text(&text), text.length_bytes, &baseline));
    assert_string_equal(baseline.name, "main");
    assert_string_equal(baseline.reason, "first measurement");
    assert_string_equal(baseline.created, "1970-01-01 00:00:00 UTC");
    assert_string_equal(baseline.machine, "nvidia-h200");
    assert_string_equal(baseline.build.git_commit, "abc123");
    assert_string_equal(baseline.build.flags, "-O3");
    assert_int_equal(baseline.env.fact_count, 5);
    assert_string_equal(baseline.env.facts[4].key, "os.kernel");
    assert_int_equal(baseline.env.facts[4].level, BT_FACT_SOFT);
    assert_int_equal(baseline.sides.count, 3); // no ceiling, and not what ran once
    assert_int_equal(baseline.ceilings.count, 1);
    assert_string_equal(baseline.ceilings.items[0].name, "ceiling.hot");
    assert_int_equal(baseline.ceilings.items[0].count, 2);
    assert_true(baseline.ceilings.items[0].rates[1] == 7e9);
    const bt_gate_side *gelu = bt_gate_side_find(&baseline.sides, "made", "gelu", "blutrain");
    assert_non_null(gelu);
    assert_int_equal(gelu->round_count, 8);
    for (int i = 0; i < 8; ++i) {
        double expected = 1000 * made_noise(i, 0.01);
        test_assert_close(&gelu->rounds[i].values[BT_GATE_TIME], &expected, 1, 0, 0, "time");
        assert_true(isnan(gelu->rounds[i].values[BT_GATE_MEMORY]));
    }
    assert_int_equal(gelu->kernel_count, 1);
    assert_string_equal(gelu->kernels[0], "gelu: gelu_v2");
    assert_string_equal(gelu->axes_json, made.rounds[0].what.axes_json);
    const bt_gate_side *tiny = bt_gate_side_find(&baseline.sides, "made", "tiny", "blutrain");
    assert_int_equal(tiny->curve_count, 2); // seven rounds alike and one that is not
    assert_int_equal(tiny->curves[0].rounds, 7);
    assert_int_equal(tiny->curves[1].count, 6);
    assert_int_equal(tiny->curves[1].steps[5].tokens, 512);
    assert_string_equal(tiny->curves[0].params_digest, "bb");
    float expected = made.rounds[2].steps[4].loss;
    assert_memory_equal(&tiny->curves[0].steps[4].loss, &expected, sizeof expected);
    // The digests of environment and settings are those of the run's own sides.
    bt_arena arena = {0};
    bt_gate_sides sides;
    ASSERT_OK(bt_gate_sides_of_run(&made.run, &arena, &sides));
    assert_string_equal(gelu->environment, sides.items[0].environment);
    assert_string_equal(gelu->settings, sides.items[0].settings);
    bt_arena_release(&arena);
    bt_baseline_release(&baseline);
    bt_str_release(&text);
    bt_str_release(&again);
    made_run_release(&made);
}

// made_run has the fact "os.kernel 6.1", a soft one.
static void a_committed_document_does_not_name_the_machine(void **state)
{
    (void)state;
    made_run made;
    bt_str document = {0}, public = {0};
    bt_baseline baseline;
    make_run(&made);
    write_document(&made, &document);
    assert_non_null(strstr(bt_str_text(&document), "os.kernel"));
    ASSERT_OK(bt_baseline_write_public(bt_str_text(&document), &public));
    assert_null(strstr(bt_str_text(&public), "os.kernel"));
    ASSERT_OK(bt_baseline_parse("b", bt_str_text(&public), public.length_bytes, &baseline));
    assert_int_equal(baseline.env.fact_count, 3);
    bt_baseline_release(&baseline);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "baseline", bt_baseline_write_public("{", &public));
    bt_str_release(&public);
    bt_str_release(&document);
    made_run_release(&made);
}

static void the_candidate_of_an_ab_session_becomes_ours(void **state)
{
    (void)state;
    made_run made;
    bt_str text = {0};
    bt_baseline baseline;
    made_run_init(&made);
    for (int i = 0; i < 4; ++i) {
        made_kernel_round(&made, "gelu", "base", 2000, "a");
        made_kernel_round(&made, "gelu", "candidate", 1000, "b");
    }
    write_document(&made, &text);
    ASSERT_OK(bt_baseline_parse("x", bt_str_text(&text), text.length_bytes, &baseline));
    assert_int_equal(baseline.sides.count, 1);
    assert_string_equal(baseline.sides.items[0].system, "blutrain");
    assert_true(baseline.sides.items[0].rounds[0].values[BT_GATE_TIME] == 1000);
    bt_baseline_release(&baseline);
    bt_str_release(&text);
    made_run_release(&made);
}

static void not_every_run_becomes_a_baseline(void **state)
{
    (void)state;
    made_run made;
    bt_str text = {0};
    made_run_init(&made);
    made_kernel_round(&made, "gelu", "blutrain", 1000, "a");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no case with 2 rounds or more (the most is 1)",
                 write_one(&made, "main", "why", &text));
    made_kernel_round(&made, "gelu", "blutrain", 1000, "a");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "needs a reason", write_one(&made, "main", "", &text));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"-x\" is not a valid baseline name",
                 write_one(&made, "-x", "why", &text));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"a/b\" is not a valid baseline name",
                 write_one(&made, "a/b", "why", &text));
    made.run.status = BT_RUN_FAILED;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 7 failed",
                 write_one(&made, "main", "why", &text));
    made.run.status = BT_RUN_RUNNING;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "still running",
                 write_one(&made, "main", "why", &text));
    bt_str_release(&text);
    made_run_release(&made);
}

// Replaces the first `from` of the document by `to` and expects a refusal.
static void refuses(const char *document, const char *from, const char *to, const char *words)
{
    bt_str text = {0};
    bt_baseline baseline;
    const char *at = strstr(document, from);
    if (!at) {
        fail_msg("no '%s' in the document", from);
    }
    bt_str_append_bytes(&text, document, (size_t)(at - document));
    bt_str_append(&text, to);
    bt_str_append(&text, at + strlen(from));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, words,
                 bt_baseline_parse("b.json", bt_str_text(&text), text.length_bytes, &baseline));
    bt_str_release(&text);
}

static void a_bad_document_is_refused_with_its_place(void **state)
{
    (void)state;
    made_run made;
    bt_str text = {0};
    make_run(&made);
    write_document(&made, &text);
    const char *document = bt_str_text(&text);
    refuses(document, "bt-bench baseline 2", "bt-bench baseline 3", "unknown baseline format");
    refuses(document, "\"reason\"", "\"raison\"", "\"reason\" is missing");
    refuses(document, "\"name\": \"main\"", "\"name\": \"../x\"", "is not a valid baseline name");
    refuses(document, "\"time_ns\": [\n          [", "\"time_ns\": [\n          [-1, ",
            "must contain only numbers above 0");
    refuses(document, "\"time_ns\": [\n          [", "\"time_ns\": [\n          [\"x\", ",
            "must contain only numbers above 0");
    refuses(document, "\"time_ns\"", "\"time\"", "\"time\" is not a metric that gate compares");
    refuses(document, "\"bits\": \"", "\"bits\": \"xyz", "is not a packed curve of 6 steps");
    refuses(document, "\"bits\": \"", "\"bits\": \"0", "is not a packed curve of 6 steps");
    refuses(document, "\"tokens\": 512", "\"tokens\": [512]", "1 numbers for 6 steps");
    refuses(document, "\"cpu.model\": \"a processor\"", "\"cpu.model\": 3", "must be a text");
    refuses(document, "\"ceiling.hot\"", "\"roof.hot\"", "must begin with \"ceiling.\"");
    refuses(document, "\"ceiling.hot\": [", "\"ceiling.hot\": [0, ",
            "must contain only numbers above 0");
    refuses(document, "\"kernels\": [", "\"kernels\": [7, ", "must contain only texts");
    refuses(document, "\"metrics\": {", "\"metrics\": 1, \"x\": {", "must be an object");
    refuses(document, "\"gelu\"", "\"\\u0000\"", "b.json:");
    bt_baseline baseline;
    for (size_t length = 0; length + 2 < text.length_bytes; length += 97) { // cut short anywhere
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                     "b.json:", bt_baseline_parse("b.json", document, length, &baseline));
    }
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "unknown baseline format",
                 bt_baseline_parse("b.json", "{}", 2, &baseline));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "unknown baseline format",
                 bt_baseline_parse("b.json", "[]", 2, &baseline));
    bt_str_release(&text);
    made_run_release(&made);
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    made_run made;
    make_run(&made);
    int64_t live = bt_mem_live_count();
    int failures = 0;
    for (int64_t n = 1;; ++n) {
        bt_str text = {0};
        bt_baseline baseline = {0};
        bt_mem_fail_at(n);
        bt_status status = write_one(&made, "main", "why", &text);
        if (status == BT_OK) {
            status = bt_baseline_parse("b", bt_str_text(&text), text.length_bytes, &baseline);
        }
        bt_mem_fail_at(0);
        bt_baseline_release(&baseline);
        bt_str_release(&text);
        assert_int_equal(bt_mem_live_count(), live);
        if (status == BT_OK) {
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        ++failures;
    }
    assert_true(failures > 20);
    made_run_release(&made);
}

// Four cases of 19,073 steps (10 G tokens of 524,288 a step), eight rounds whose losses all differ.
static void a_baseline_of_a_long_training_fits(void **state)
{
    (void)state;
    enum { CASES = 4, ROUNDS = 8, STEPS = 19073 };
    static const char *const names[CASES] = {"tiny", "fp32", "tf32", "bf16"};
    made_run made;
    bt_str text = {0};
    bt_baseline baseline;
    made_run_init(&made);
    for (int i = 0; i < CASES * ROUNDS; ++i) {
        made_train_round(&made, names[i / ROUNDS], "blutrain", 5e6, 1 << 20, STEPS, i % ROUNDS,
                         1e-4F * (float)i);
    }
    write_document(&made, &text);
    assert_true(text.length_bytes < (size_t)CASES * ROUNDS * STEPS * 4); // hexadecimal: 8 a step
    ASSERT_OK(bt_baseline_parse("long", bt_str_text(&text), text.length_bytes, &baseline));
    for (int i = 0; i < CASES; ++i) {
        const bt_gate_side *side = bt_gate_side_find(&baseline.sides, "made", names[i], "blutrain");
        for (int64_t j = 0; j < side->curve_count; ++j) {
            const bt_store_step *expected = made.rounds[i * ROUNDS + j].steps;
            for (int64_t k = 0; k < STEPS; ++k) {
                uint32_t bits[2];
                memcpy(&bits[0], &side->curves[j].steps[k].loss, sizeof bits[0]);
                memcpy(&bits[1], &expected[k].loss, sizeof bits[1]);
                if (bits[0] != bits[1]) {
                    fail_msg("%s, curve %d, step %d", names[i], (int)j, (int)k);
                }
            }
        }
        assert_int_equal(side->curve_count, ROUNDS);
    }
    bt_baseline_release(&baseline);
    bt_str_release(&text);
    made_run_release(&made);
}

// The committed one of before: one session, losses in hexadecimal.
static void a_document_of_format_1_is_read(void **state)
{
    (void)state;
    static const char path[] = "results/baselines/nvidia-h200/step.json";
    void *bytes = NULL;
    size_t size_bytes = 0;
    bt_baseline baseline;
    ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
    ASSERT_OK(bt_baseline_parse(path, bytes, size_bytes, &baseline));
    assert_int_equal(bt_baseline_sessions(&baseline), 1);
    assert_string_equal(baseline.card, "");
    assert_int_equal(baseline.sides.items[0].round_count, 8);
    bt_baseline_release(&baseline);
    bt_mem_free(bytes);
    made_run made;
    bt_str text = {0}, old = {0};
    make_run(&made);
    write_document(&made, &text);
    const char *bits = strstr(bt_str_text(&text), "\"bits\": \"");
    bt_str_append_bytes(&old, bt_str_text(&text), (size_t)(bits - bt_str_text(&text)));
    bt_str_append(&old, "\"bits\": \"");
    for (int i = 0; i < 6; ++i) {
        uint32_t word = 0;
        memcpy(&word, &made.rounds[2].steps[i].loss, sizeof word);
        bt_str_format(&old, "%08x", (unsigned)word);
    }
    const char *rest = strchr(bits + strlen("\"bits\": \""), '"'),
               *steps = strstr(rest, "\"steps\"");
    bt_str_append_bytes(&old, rest, (size_t)(steps - rest));
    bt_str_append(&old, strchr(steps, '\n') + 1);
    ASSERT_OK(bt_baseline_parse("old", bt_str_text(&old), old.length_bytes, &baseline));
    const bt_gate_side *tiny = bt_gate_side_find(&baseline.sides, "made", "tiny", "blutrain");
    assert_memory_equal(&tiny->curves[0].steps[5].loss, &made.rounds[2].steps[5].loss,
                        sizeof(float));
    bt_baseline_release(&baseline);
    bt_str_release(&text);
    bt_str_release(&old);
    made_run_release(&made);
}

static void machines_are_named_by_their_gpu_or_processor(void **state)
{
    (void)state;
    const bt_store_fact gpu[] = {{"cpu.model", "Intel(R) Xeon(R) w9", BT_FACT_HARD},
                                 {"gpu.name", "NVIDIA H200", BT_FACT_HARD}};
    const bt_store_env both = {"d", gpu, 2}, host = {"d", gpu, 1}, nothing = {"d", NULL, 0};
    bt_str out = {0};
    bt_baseline_machine(&both, &out);
    bt_str_append(&out, "|");
    bt_baseline_machine(&host, &out);
    bt_str_append(&out, "|");
    bt_baseline_machine(&nothing, &out);
    assert_string_equal(bt_str_text(&out), "nvidia-h200|intel-r-xeon-r-w9|unknown");
    bt_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_counts_and_history_stays, scratch_store_open,
                                        scratch_store_close),
        cmocka_unit_test(a_document_comes_back),
        cmocka_unit_test(a_committed_document_does_not_name_the_machine),
        cmocka_unit_test(the_candidate_of_an_ab_session_becomes_ours),
        cmocka_unit_test(not_every_run_becomes_a_baseline),
        cmocka_unit_test(a_bad_document_is_refused_with_its_place),
        cmocka_unit_test(every_failing_allocation_is_said),
        cmocka_unit_test(a_baseline_of_a_long_training_fits),
        cmocka_unit_test(a_document_of_format_1_is_read),
        cmocka_unit_test(machines_are_named_by_their_gpu_or_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

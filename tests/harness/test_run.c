// tests/harness/test_run.c - the worker protocol, and runs with workers that obey and break it
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "harness/run/child.h"
#include "harness/run/data.h"
#include "harness/run/event.h"
#include "harness/run/run.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#define WORKER "tests/support/fake_worker.sh"

// ---- events ------------------------------------------------------------------------------------

static const char start_line[] =
    "{\"event\":\"start\",\"protocol\":1,\"system\":\"s\",\"device\":\"d\"}";
static const char step_line[] =
    "{\"event\":\"step\",\"step\":0,\"loss\":2.5,\"tokens\":8,\"host_ns\":10}";

#define SCORE(step, questions, correct, normalised)                                                \
    "{\"event\":\"hellaswag\",\"step\":" step ",\"questions\":" questions ",\"correct\":" correct  \
    ",\"normalised_correct\":" normalised "}"

#define LAUNCH(step)        "{\"event\":\"launch\",\"step\":" step ",\"way\":\"graph\"}"
#define DIGEST              "0123456789abcdef0123456789abcdef"
#define STATE(step, digest) "{\"event\":\"state\",\"step\":" step ",\"digest\":\"" digest "\"}"

static bt_status take(bt_run_event_state *state, const char *line, bt_run_event *event)
{
    return bt_run_event_parse(state, line, strlen(line), event);
}

static void events_are_read_strictly(void **state)
{
    (void)state;
    const struct {
        const char *lines[3];
        const char *words;
    } cases[] = {
        {{"hello\tyou"}, "worker, line 1: not a JSON object: \"hello?you\"; "},
        {{""}, "not a JSON object"},
        {{"[1]"}, "an object without the key event"},
        {{"{\"event\":3}"}, "an object without the key event"},
        {{"{\"event\":\"stop\"}"}, "unknown event"},
        {{step_line}, "the first event is not start"},
        {{start_line, start_line}, "worker, line 2: a second start"},
        {{"{\"event\":\"start\",\"protocol\":2,\"system\":\"s\",\"device\":\"d\"}"},
         "another protocol"},
        {{start_line, "{\"event\":\"step\",\"step\":1,\"loss\":2,\"tokens\":8,\"host_ns\":1}"},
         "without a gap"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"tokens\":8,\"host_ns\":1}"},
         "lacks a required key"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":\"2\",\"tokens\":8,\"host_ns\":1}"},
         "wrong type or range of loss"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":2,\"tokens\":-8,\"host_ns\":1}"},
         "range of tokens"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":2,\"tokens\":8,\"host_ns\":1.5}"},
         "range of host_ns"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":NaN,\"tokens\":8,\"host_ns\":1}"},
         "not a JSON object"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":2,\"loss_bits\":\"40\",\"tokens\":8,"
                      "\"host_ns\":1}"},
         "range of loss_bits"},
        {{start_line,
          "{\"event\":\"step\",\"step\":0,\"loss\":2,\"lr\":null,\"tokens\":8,\"host_ns\":1}"},
         "range of lr"},
        {{"{\"event\":\"start\",\"protocol\":1,\"system\":\"s\",\"device\":\"d\",\"first_step\":"
          "1}"},
         "first_step is beyond the last recorded step, 0"},
        {{start_line, "{\"event\":\"save\",\"kind\":\"saved\",\"step\":-1}"}, "range of step"},
        {{start_line, "{\"event\":\"samples\",\"times_ns\":[]}"}, "range of times_ns"},
        {{start_line, "{\"event\":\"samples\",\"times_ns\":[1,0]}"}, "range of times_ns"},
        {{start_line, "{\"event\":\"samples\",\"times_ns\":[1,\"2\"]}"}, "range of times_ns"},
        {{start_line, "{\"event\":\"samples\",\"times_ns\":5}"}, "range of times_ns"},
        {{start_line, "{\"event\":\"samples\"}"}, "lacks a required key"},
        {{start_line, "{\"event\":\"measured\",\"calls_per_sample\":1.5}"},
         "range of calls_per_sample"},
        {{start_line, SCORE("1", "40", "9", "9")}, "a score of a step that was not run"},
        {{start_line, LAUNCH("0")}, "a launch of another step than the last"},
        {{start_line, step_line, LAUNCH("1")}, "a launch of another step than the last"},
        {{start_line, STATE("1", DIGEST)}, "a state of a step that was not run"},
        {{start_line, STATE("0", DIGEST), STATE("0", DIGEST)}, "or that already has one"},
        {{start_line, STATE("0", "0123abc")}, "is not 32 hex digits"},
        {{start_line, STATE("0", "0123456789ABCDEF0123456789ABCDEF")}, "is not 32 hex digits"},
        {{start_line, SCORE("0", "40", "9", "9"), SCORE("0", "40", "9", "9")},
         "or that already has one"},
        {{start_line, SCORE("0", "40", "41", "9")}, "more correct answers than questions"},
        {{start_line, SCORE("0", "40", "9", "41")}, "more correct answers than questions"},
        {{start_line, SCORE("0", "0", "0", "0")}, "or with none"},
        {{start_line, "{\"event\":\"result\",\"steps_done\":4}"}, "steps_done is not the number"},
        {{start_line, "{\"event\":\"result\",\"steps_done\":0}", step_line}, "follows the result"},
        {{start_line, "{\"event\":\"error\",\"status\":\"x\",\"message\":\"y\"}", step_line},
         "follows the error"},
        {{start_line, "{\"event\":\"step\",\"step\":0,\"loss\":2"}, "the text ends too early"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_run_event_state reader = {0};
        bt_run_event event;
        int last = 0;
        while (last < 2 && cases[i].lines[last + 1]) {
            ASSERT_OK(take(&reader, cases[i].lines[last++], &event));
            bt_run_event_release(&event);
        }
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, cases[i].words,
                     take(&reader, cases[i].lines[last], &event));
    }
}

static void event_that_is_too_long_is_refused(void **state)
{
    (void)state;
    bt_run_event_state reader = {0};
    bt_run_event event;
    size_t size = BT_RUN_EVENT_LINE_BYTES_MAX + 1;
    char *line = malloc(size);
    assert_non_null(line);
    memset(line, ' ', size);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "longer than",
                 bt_run_event_parse(&reader, line, size, &event));
    free(line);
}

// A worker that resumes from a checkpoint counts from there, within the recorded steps.
static void steps_may_count_from_a_recorded_one(void **state)
{
    (void)state;
    bt_run_event_state reader = {.limits = {.first_step = 3}};
    const char *lines[] = {
        "{\"event\":\"start\",\"protocol\":1,\"system\":\"s\",\"device\":\"d\",\"first_step\":2}",
        "{\"event\":\"save\",\"kind\":\"loaded\",\"step\":2}",
        "{\"event\":\"step\",\"step\":2,\"loss\":2,\"tokens\":8,\"host_ns\":1}",
        "{\"event\":\"result\",\"steps_done\":3}"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; ++i) {
        bt_run_event event;
        ASSERT_OK(bt_run_event_parse(&reader, lines[i], strlen(lines[i]), &event));
        bt_run_event_release(&event);
    }
    assert_true(reader.done);
}

// What a worker writes reads back as the same bits, NaN and infinity included.
static void step_survives_the_wire(void **state)
{
    (void)state;
    const float losses[] = {10.99123F, 1e-40F, NAN, INFINITY, -INFINITY, 0.1F};
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; ++i) {
        bt_run_event_state reader = {.started = true};
        bt_run_event event = {.type = BT_RUN_EVENT_STEP,
                              .as.step = {.loss = losses[i],
                                          .grad_norm = 1.5F,
                                          .lr = 6e-4,
                                          .tokens = 512,
                                          .host_ns = 123456789,
                                          .profiled = true}};
        bt_run_event back;
        bt_str line = {0};
        bt_run_event_write(&event, &line);
        assert_int_equal(bt_str_text(&line)[line.length_bytes - 1], '\n');
        ASSERT_OK(bt_run_event_parse(&reader, bt_str_text(&line), line.length_bytes - 1, &back));
        assert_memory_equal(&back.as.step.loss, &losses[i], sizeof losses[i]);
        assert_int_equal(back.as.step.host_ns, 123456789);
        assert_true(back.as.step.profiled);
        assert_false(back.as.step.warmup);
        bt_run_event_release(&back);
        bt_str_release(&line);
    }
    assert_int_equal(bt_run_event_status("out of memory"), BT_STATUS_OUT_OF_MEMORY);
    assert_int_equal(bt_run_event_status("no such words"), BT_STATUS_INTERNAL);
    assert_int_equal(bt_run_event_status("ok"), BT_STATUS_INTERNAL);
}

// ---- runs --------------------------------------------------------------------------------------

static bt_suite suite;
static bt_plan plan, long_plan; // of 6 steps, of 100,000
static const bt_machine machine = {.host_memory_bytes = 8ULL << 30};

static int set_up(void **state)
{
    if (scratch_database_name(state) != 0) {
        return -1;
    }
    uint16_t tokens[64] = {50256, 1, 2, 3};
    char text[2048];
    const char *shard = test_scratch_path("a_train_1.bin");
    (void)snprintf(text, sizeof text,
                   "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": ["
                   "{\"name\": \"one\", \"kind\": \"train\", \"dataset\": {\"train\": [\"%s\"]},"
                   "\"train\": {\"steps\": 6, \"micro_batch\": 4, \"sequence\": 64}}]}}}",
                   shard);
    static const char *const sets[] = {"train.steps=100000"};
    const bt_plan_options options = {.seed = -1};
    const bt_plan_options many_steps = {.seed = -1, .sets = sets, .set_count = 1};
    bool good = bt_shard_write(shard, tokens, 64) == BT_OK &&
                bt_suite_parse("t.json", text, strlen(text), &suite) == BT_OK &&
                bt_plan_make(&suite, &options, &machine, &plan) == BT_OK &&
                bt_plan_make(&suite, &many_steps, &machine, &long_plan) == BT_OK;
    if (!good) {
        print_error("%s\n", bt_error_message());
    }
    return good ? 0 : -1;
}

static int tear_down(void **state)
{
    bt_plan_release(&plan);
    bt_plan_release(&long_plan);
    bt_suite_release(&suite);
    return scratch_database_remove(state);
}

static void run_plan(const bt_plan *what, const char *mode, bt_run_outcome *outcome,
                     bt_store_run *run)
{
    bt_run_request request = scratch_run_request(&suite, what, &machine, WORKER);
    setenv("BT_FAKE_WORKER", mode, 1);
    ASSERT_OK(bt_run_execute(&request, outcome));
    *run = scratch_run_read(outcome->run);
}

static void run_mode(const char *mode, bt_run_outcome *outcome, bt_store_run *run)
{
    run_plan(&plan, mode, outcome, run);
}

// A suite that measures collectives first: the seed of a run is that of its training.
static void the_seed_is_that_of_training(void **state)
{
    (void)state;
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": ["
        "{\"name\": \"c\", \"kind\": \"collective\", \"collective\": {\"op\": \"all_reduce\","
        "\"size\": \"64KiB\"}},"
        "{\"name\": \"one\", \"kind\": \"train\", \"dataset\": {\"train\": [\"%s\"]},"
        "\"train\": {\"steps\": 6, \"micro_batch\": 4, \"sequence\": 64, \"seed\": 42}}]}}}",
        test_scratch_path("a_train_1.bin"));
    const bt_plan_options options = {.seed = -1};
    bt_suite mixed;
    bt_plan both;
    bt_run_outcome outcome;
    ASSERT_OK(bt_suite_parse("t.json", text, strlen(text), &mixed));
    ASSERT_OK(bt_plan_make(&mixed, &options, &machine, &both));
    bt_run_request request = scratch_run_request(&mixed, &both, &machine, WORKER);
    setenv("BT_FAKE_WORKER", "ok", 1);
    ASSERT_OK(bt_run_execute(&request, &outcome));
    bt_store_run run = scratch_run_read(outcome.run);
    assert_int_equal(run.info.seed, 42);
    bt_store_run_release(&run);
    bt_plan_release(&both);
    bt_suite_release(&mixed);
}

static void good_worker_is_recorded(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_store_run run;
    run_mode("ok", &outcome, &run);
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    assert_int_equal(bt_run_exit_code(&outcome), 0);
    assert_int_equal(run.status, BT_RUN_PASSED);
    assert_string_equal(run.info.suite.plan_hash, plan.hash);
    assert_int_equal(run.round_count, 1);
    const bt_store_round *round = &run.rounds[0];
    assert_string_equal(round->what.name, "one");
    assert_string_equal(round->what.system, "fake_worker.sh");
    assert_string_equal(round->params_digest, "00112233445566778899aabbccddeeff");
    assert_string_equal(round->shape.device, "no device");
    assert_int_equal(round->step_count, 6);
    const bt_store_telemetry *end = &round->telemetry[round->telemetry_count - 1];
    assert_true(end->steps == 6.0 && end->step_ended_ns > 0.0 && end->step_ended_ns <= end->t_ns);
    assert_true(round->steps[0].warmup);
    assert_int_equal(round->eval_count, 2);
    assert_int_equal(round->range_count, 1);
    assert_int_equal(round->kernel_count, 1);
    bool rate = false;
    for (int64_t i = 0; i < round->measurement_count; ++i) {
        if (round->measurements[i].metric == BT_METRIC_TOKENS_PER_S) {
            rate = true;
            double expected = 512e9 / 10000003; // the rate of the five timed steps together
            test_assert_close(&round->measurements[i].value, &expected, 1, 0, 1e-12, "tokens/s");
            assert_int_equal(round->measurements[i].sample_count, 5);
        }
    }
    assert_true(rate);
    assert_true(run.info.env.fact_count > 10);
    bt_store_run_release(&run);
}

static void not_finite_losses_are_kept(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_store_run run;
    run_mode("nan", &outcome, &run);
    assert_int_equal(run.status, BT_RUN_PASSED);
    assert_true(isnan(run.rounds[0].steps[5].loss));
    bt_store_run_release(&run);
}

static void bad_workers_fail_with_a_reason(void **state)
{
    (void)state;
    const struct {
        const char *mode, *words;
        int64_t steps; // recorded before
        int exit_code;
    } cases[] = {
        {"error", "asked 9 GiB, limit 8 GiB", 3, 5},
        {"die", "the worker was killed by SIGKILL after 3 steps", 3, 5},
        {"half", "the worker was killed by SIGKILL after 3 steps", 3, 5},
        {"exit", "ended with code 3 after 3 steps, without a result; it said: segments of fault", 3,
         5},
        {"silent", "ended with code 0 after 3 steps, without a result; it said: a line of log", 3,
         5},
        {"garbage", "not a JSON object", 3, 5},
        {"gap", "without a gap", 3, 5},
        {"late", "an event follows the result", 3, 5},
        {"flood", "a line of more than 65536 bytes", 3, 5},
        {"early", "the first event is not start", 0, 5},
        {"orphan", "killed by SIGKILL", 3, 5},
        {"short", "the worker ended after 4 of 6 steps", 4, 5},
        {"crash", "ended with code 7 after 6 steps, after its result", 6, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_run_outcome outcome;
        bt_store_run run;
        run_mode(cases[i].mode, &outcome, &run);
        if (outcome.status != BT_RUN_FAILED || !strstr(outcome.message, cases[i].words)) {
            fail_msg("%s: %s: %s", cases[i].mode, bt_run_status_name(outcome.status),
                     outcome.message);
        }
        if (strstr(cases[i].words, "SIGKILL") && strstr(outcome.message, "it said")) {
            fail_msg("%s: %s", cases[i].mode, outcome.message);
        }
        assert_int_equal(bt_run_exit_code(&outcome), cases[i].exit_code);
        assert_int_equal(run.status, BT_RUN_FAILED);
        assert_int_equal(run.rounds[0].step_count, cases[i].steps);
        assert_non_null(strstr(run.rounds[0].message, cases[i].words));
        bt_store_run_release(&run);
    }
}

static void worker_that_closes_its_input_is_fine(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_store_run run;
    run_mode("closed", &outcome, &run);
    assert_int_equal(run.status, BT_RUN_PASSED);
    bt_store_run_release(&run);
}

static void worker_that_cannot_be_started_is_a_failure(void **state)
{
    (void)state;
    bt_run_request request = scratch_run_request(&suite, &plan, &machine, "/no/such/program");
    bt_run_outcome outcome;
    ASSERT_OK(bt_run_execute(&request, &outcome));
    assert_int_equal(outcome.status, BT_RUN_FAILED);
    assert_non_null(strstr(outcome.message, "cannot start the worker program"));
}

// Sends a signal to this process after some time, twice if requested.
static pid_t send_later(int number, int times)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < times; ++i) {
            (void)usleep(400000);
            (void)kill(parent, number);
        }
        _exit(0);
    }
    return child;
}

static void interrupted_run_stops_after_a_step(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_store_run run;
    setenv("BT_FAKE_STEPS", "100000", 1);
    pid_t sender = send_later(SIGINT, 1);
    run_plan(&long_plan, "slow", &outcome, &run);
    setenv("BT_FAKE_STEPS", "6", 1);
    (void)waitpid(sender, NULL, 0);
    assert_int_equal(outcome.status, BT_RUN_INTERRUPTED);
    assert_int_equal(bt_run_exit_code(&outcome), 130);
    assert_int_equal(run.status, BT_RUN_INTERRUPTED);
    assert_int_equal(run.rounds[0].status, BT_RUN_INTERRUPTED);
    assert_true(run.rounds[0].step_count > 0 && run.rounds[0].step_count < 1000);
    assert_true(*run.rounds[0].params_digest); // it ended in good order
    bt_store_run_release(&run);
}

static void second_signal_kills_a_deaf_worker(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_store_run run;
    pid_t sender = send_later(SIGTERM, 2);
    run_plan(&long_plan, "deaf", &outcome, &run);
    (void)waitpid(sender, NULL, 0);
    assert_int_equal(outcome.status, BT_RUN_INTERRUPTED);
    assert_int_equal(run.status, BT_RUN_INTERRUPTED);
    assert_true(run.rounds[0].step_count > 0);
    bt_store_run_release(&run);
}

// ---- data --------------------------------------------------------------------------------------

static void say_nothing(void *self, const char *line)
{
    (void)self;
    (void)line;
}

static bt_status find(const char *text, bt_run_data *data)
{
    bt_json_doc json;
    ASSERT_OK(bt_json_parse("dataset", text, strlen(text), &json));
    bt_status status = bt_run_data_find(json.root, say_nothing, NULL, data);
    bt_json_doc_release(&json);
    return status;
}

static void missing_and_broken_data_is_named(void **state)
{
    (void)state;
    bt_run_data data;
    char text[1024];
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE,
                 "dataset \"no_such\" is missing: no folder data/no_such\n'bt-bench data fetch'",
                 find("{\"name\": \"no_such\"}", &data));
    ASSERT_FAILS(BT_STATUS_IO, "/no/shard.bin", find("{\"train\": [\"/no/shard.bin\"]}", &data));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "names no shard", find("{\"train\": []}", &data));
    const char *foreign = test_scratch_write("foreign.bin", "not a shard at all", 18);
    (void)snprintf(text, sizeof text, "{\"train\": [\"%s\"]}", foreign);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "foreign.bin", find(text, &data));
    (void)snprintf(text, sizeof text, "{\"train\": [\"%s\"]}", test_scratch_path("a_train_1.bin"));
    ASSERT_OK(find(text, &data));
    assert_int_equal(data.train_count, 1);
    assert_int_equal(data.tokens, 64);
    bt_run_data_release(&data);
}

static void half_fetched_corpus_is_not_trained_on(void **state)
{
    (void)state;
    bt_run_data data;
    char here[4096];
    const char *scratch = test_scratch_path("");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(scratch), 0);
    uint16_t tokens[64] = {50256};
    ASSERT_OK(bt_dir_make("data/half"));
    ASSERT_OK(bt_shard_write("data/half/x_train_000001.bin", tokens, 64));
    ASSERT_OK(find("{\"name\": \"half\"}", &data)); // shards of the user's own, no manifest
    assert_int_equal(data.train_count, 1);
    bt_run_data_release(&data);
    ASSERT_OK(bt_file_write("data/half/x_train_000002.bin.part", "", 0));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "incomplete", find("{\"name\": \"half\"}", &data));
    assert_int_equal(chdir(here), 0);
}

static void nothing_leaks(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_run_outcome outcome;
    bt_store_run run;
    run_mode("ok", &outcome, &run);
    bt_store_run_release(&run);
    run_mode("garbage", &outcome, &run);
    bt_store_run_release(&run);
    assert_int_equal(bt_mem_live_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_strictly),
        cmocka_unit_test(event_that_is_too_long_is_refused),
        cmocka_unit_test(steps_may_count_from_a_recorded_one),
        cmocka_unit_test(step_survives_the_wire),
        cmocka_unit_test(good_worker_is_recorded),
        cmocka_unit_test(the_seed_is_that_of_training),
        cmocka_unit_test(not_finite_losses_are_kept),
        cmocka_unit_test(bad_workers_fail_with_a_reason),
        cmocka_unit_test(worker_that_closes_its_input_is_fine),
        cmocka_unit_test(worker_that_cannot_be_started_is_a_failure),
        cmocka_unit_test(interrupted_run_stops_after_a_step),
        cmocka_unit_test(second_signal_kills_a_deaf_worker),
        cmocka_unit_test(missing_and_broken_data_is_named),
        cmocka_unit_test(half_fetched_corpus_is_not_trained_on),
        cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

// tests/harness/gate_setting.c - a gate's ingredients
#include "tests/harness/gate_setting.h"

#include <string.h>

#include "harness/stats/sessions.h"
#include "tests/support/test.h"

gate_setting gate_it;

int gate_begin(void **state)
{
    (void)state;
    memset(&gate_it, 0, sizeof gate_it);
    made_run_init(&gate_it.base);
    made_run_init(&gate_it.run);
    return 0;
}

int gate_end(void **state)
{
    (void)state;
    bt_gate_result_release(&gate_it.result);
    bt_baseline_release(&gate_it.baseline);
    bt_policy_release(&gate_it.policy);
    made_run_release(&gate_it.base);
    made_run_release(&gate_it.run);
    return 0;
}

void gate_add_kernel(made_run *made, const char *name, const char *system, double time_ns,
                     double spread, int rounds)
{
    for (int i = 0; i < rounds; ++i) {
        made_kernel_round(made, name, system, time_ns * made_noise(i, spread), "gelu_v2");
    }
}

void gate_add_train(made_run *made, int64_t peak_bytes, int64_t shift_at, float shift)
{
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        made_train_round(made, "tiny", "blutrain", 5e6 * made_noise(i, GATE_SPREAD), peak_bytes, 20,
                         shift_at, shift);
    }
}

static void gate_set_policy(const char *members)
{
    bt_str text = {0};
    bt_policy_release(&gate_it.policy);
    bt_str_format(&text, "{\"name\":\"test\"%s%s}", *members ? "," : "", members);
    ASSERT_OK(bt_policy_parse("p.json", bt_str_text(&text), text.length_bytes, &gate_it.policy));
    bt_str_release(&text);
}

bt_gate_request gate_request_of(void)
{
    return (bt_gate_request){.run = &gate_it.run.run,
                             .baseline = gate_it.paired ? NULL : &gate_it.baseline,
                             .policy = &gate_it.policy};
}

void gate_judge_again(void)
{
    bt_gate_request request = gate_request_of();
    bt_gate_result_release(&gate_it.result);
    ASSERT_OK(bt_gate_run(&request, &gate_it.result));
}

// Judges under a policy with these members.
void gate_judge(const char *members)
{
    gate_set_policy(members);
    if (!gate_it.paired && gate_it.baseline.sides.count == 0) {
        bt_str text = {0};
        bt_store_run sessions[BT_SESSIONS_MIN]; // on as many days, all alike
        const bt_store_run *of[BT_SESSIONS_MIN];
        const bt_baseline_wish wish = {.name = "main", .reason = "why"};
        for (int i = 0; i < BT_SESSIONS_MIN; ++i) {
            sessions[i] = gate_it.base.run;
            sessions[i].id += i;
            sessions[i].started_ns += i * INT64_C(86400000000000);
            of[i] = &sessions[i];
        }
        ASSERT_OK(bt_baseline_write(of, gate_it.sessions ? gate_it.sessions : BT_SESSIONS_MIN,
                                    &wish, &text));
        ASSERT_OK(bt_baseline_parse("b", bt_str_text(&text), text.length_bytes, &gate_it.baseline));
        bt_str_release(&text);
    }
    gate_judge_again();
}

const bt_gate_item *gate_item_of(const char *subject, bt_gate_metric metric)
{
    for (int64_t i = 0; i < gate_it.result.count; ++i) {
        const bt_gate_item *item = &gate_it.result.items[i];
        if (strcmp(item->subject, subject) == 0 && item->metric == metric) {
            return item;
        }
    }
    fail_msg("no verdict about %s", subject);
    return NULL;
}

void gate_expect(const char *subject, bt_gate_metric metric, bt_gate_word word, int exit_code)
{
    const bt_gate_item *item = gate_item_of(subject, metric);
    if (item->verdict.word != word || gate_it.result.exit_code != exit_code) {
        fail_msg("%s is %s (%s), exit %d", subject, bt_gate_word_name(item->verdict.word),
                 item->sentence, gate_it.result.exit_code);
    }
}

void gate_expect_words(const char *text, const char *words)
{
    if (!strstr(text, words)) {
        fail_msg("no '%s' in: %s", words, text);
    }
}

void gate_make_equal_runs(void)
{
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
}

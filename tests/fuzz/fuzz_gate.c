// tests/fuzz/fuzz_gate.c - any bytes as a policy, a baseline, the rule of a verdict: taken, or
// refused with a message
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/baseline.h"
#include "harness/gate/describe.h"
#include "harness/gate/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void check_refused(bt_status status)
{
    if (status != BT_OK && !*bt_error_message()) {
        abort(); // refused without a word
    }
}

static void as_policy(const char *text, size_t size_bytes)
{
    bt_policy policy;
    bt_status status = bt_policy_parse("fuzz.json", text, size_bytes, &policy);
    check_refused(status);
    for (int i = 0; status == BT_OK && i <= BT_GATE_METRIC_COUNT; ++i) {
        bt_gate_rule rule = bt_policy_rule(&policy, "gelu.f32", (bt_gate_metric)i, i % 2, 1e4);
        if (!(rule.tolerance >= 0)) {
            abort();
        }
    }
    if (status == BT_OK) {
        bt_policy_release(&policy);
    }
}

static void as_rule(const bt_gate_sides *sides, const char *text)
{
    bt_gate_verdict verdict;
    check_refused(bt_gate_judge(sides, NULL, text, &verdict));
    check_refused(bt_gate_judge(sides, sides, text, &verdict));
}

static void as_baseline(const char *text, size_t size_bytes)
{
    bt_baseline baseline;
    bt_status status = bt_baseline_parse("fuzz.json", text, size_bytes, &baseline);
    check_refused(status);
    if (status == BT_OK) {
        bt_str out = {0};
        check_refused(bt_baseline_text(&baseline, 1, 0, &out));
        bt_str_release(&out);
        bt_baseline_release(&baseline);
    }
}

// What rules are judged by: two rounds of one case, with a loss curve.
static bt_gate_sides some_sides(void)
{
    static bt_gate_round rounds[2];
    for (int i = 0; i < 2; ++i) {
        rounds[i].ordinal = i;
        for (int metric = 0; metric < BT_GATE_METRIC_COUNT; ++metric) {
            rounds[i].values[metric] = rounds[i].older[metric] = (1 + i) * 1e6;
        }
        rounds[i].values[BT_GATE_LOSS] = rounds[i].older[BT_GATE_LOSS] = (double)NAN;
    }
    static const bt_store_step steps[] = {{.loss = 3, .tokens = 8},
                                          {.step = 1, .loss = 2, .tokens = 8}};
    static const bt_loss_curve curves[] = {{steps, 2, "", 2}};
    static const bt_gate_side side = {.bench = "b",
                                      .kind = "train",
                                      .name = "c",
                                      .system = "blutrain",
                                      .axes_json = "{}",
                                      .precision = "fp32",
                                      .rounds = rounds,
                                      .round_count = 2,
                                      .curves = curves,
                                      .own_count = 1,
                                      .data_count = 1,
                                      .curve_count = 1,
                                      .message = "",
                                      .label = ""};
    return (bt_gate_sides){&side, 1};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    int64_t before = bt_mem_live_count();
    bt_gate_sides sides = some_sides();
    char *text = malloc(size_bytes + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, bytes, size_bytes);
    text[size_bytes] = '\0';
    as_policy(text, size_bytes);
    as_baseline(text, size_bytes);
    as_rule(&sides, text);
    free(text);
    if (bt_mem_live_count() != before) {
        abort(); // something leaked
    }
    return 0;
}

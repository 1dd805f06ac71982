// tests/fuzz/fuzz_suite.c - any bytes as a suite file: parsed, planned, or refused with a message
#include <stdint.h>
#include <stdlib.h>

#include "framework/base/mem.h"
#include "harness/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void plan_it(const bt_suite *suite, const bt_machine *machine)
{
    const bt_plan_options options = {.seed = -1};
    bt_plan plan;
    if (bt_plan_make(suite, &options, machine, &plan) == BT_OK) {
        bt_str text = {0};
        bt_plan_describe(&plan, 80, &text);
        bt_str_release(&text);
        bt_plan_release(&plan);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static const bt_machine plain = {.host_memory_bytes = 8ULL << 30, .cuda_reason = "none"};
    static const bt_machine gpu = {.has_cuda = true, .cuda_free_bytes = 80ULL << 30};
    int64_t before = bt_mem_live_count();
    bt_suite suite;
    if (bt_suite_parse("fuzz.json", (const char *)bytes, size_bytes, &suite) == BT_OK) {
        plan_it(&suite, &plain);
        plan_it(&suite, &gpu);
        bt_suite_release(&suite);
    } else if (!*bt_error_message()) {
        abort(); // refused without a word
    }
    if (bt_mem_live_count() != before) {
        abort(); // something leaked
    }
    return 0;
}

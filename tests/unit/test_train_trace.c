// tests/unit/test_train_trace.c - the values of a step: their names, in every mode the same bits
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/train/trace.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { VALUES_MAX = 4000 };

typedef struct told {
    char name[BT_TRACE_NAME_BYTES + 48];
    char layer[BT_TRACE_LAYER_BYTES];
    int64_t step, depth;
    uint64_t sum; // of the bytes
} told;

typedef struct log {
    told *values; // [count]
    int64_t count;
    bt_train_result result;
} log;

// FNV-1a: any difference of bits shows.
static uint64_t sum_of(const void *bytes, size_t size_bytes)
{
    const unsigned char *at = bytes;
    uint64_t sum = 0xcbf29ce484222325U;
    for (size_t i = 0; i < size_bytes; ++i) {
        sum = (sum ^ at[i]) * 0x100000001b3U;
    }
    return sum;
}

static bt_status on_value(void *self, bt_context *context, const bt_train_value *event)
{
    log *to = self;
    void *host = NULL;
    assert_true(to->count < VALUES_MAX);
    told *value = &to->values[to->count++];
    (void)snprintf(value->name, sizeof value->name, "%s", event->name);
    (void)snprintf(value->layer, sizeof value->layer, "%s", event->layer);
    value->step = event->step;
    value->depth = event->depth;
    BT_TRY(bt_mem_alloc(1, bt_tensor_bytes(event->tensor), &host));
    bt_status status = bt_tensor_read(context, event->tensor, host);
    value->sum = sum_of(host, bt_tensor_bytes(event->tensor));
    bt_mem_free(host);
    return status;
}

static log train(const bt_train_plan *plan, bool watched)
{
    log made = {0};
    void *block = NULL;
    ASSERT_OK(bt_mem_alloc(VALUES_MAX, sizeof(told), &block));
    made.values = block;
    const bt_train_observer observer = {.self = &made, .value = watched ? on_value : NULL};
    ASSERT_OK(bt_train_run(plan, &observer, &made.result));
    return made;
}

static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.steps = 2;
    plan.eval_every = plan.profile_steps = plan.warmup_timing_steps = 0;
    return plan;
}

static const told *find(const log *in, int64_t step, const char *name)
{
    for (int64_t i = 0; i < in->count; ++i) {
        if (in->values[i].step == step && strcmp(in->values[i].name, name) == 0) {
            return &in->values[i];
        }
    }
    fail_msg("nothing is called %s in step %lld", name, (long long)step);
    return NULL;
}

static void values_have_names(void **state)
{
    (void)state;
    const bt_train_plan plan = base_plan();
    log made = train(&plan, true);
    assert_string_equal(made.values[0].name, "initial.wte.weight");
    const struct {
        const char *name, *layer;
    } rows[] = {{"input.0.ids", "input"},
                {"forward.0.wte.embedding", "wte"},
                {"forward.1.h.0.ln_1.layernorm", "h.0"},
                {"forward.0.h.1.attn.c_attn.linear", "h.1"},
                {"forward.0.h.1.attention", "h.1"},
                {"forward.1.h.1.mlp.c_fc.feed_forward", "h.1"},
                {"forward.0.wte.linear_cross_entropy", "wte"},
                {"backward.1.wte.linear_cross_entropy.in0", "wte"},
                {"backward.0.h.1.attention.in0", "h.1"},
                {"backward.0.h.0.ln_1.layernorm.in1", "h.0"},
                {"gradient.h.0.ln_1.bias", "h.0"},
                {"state.h.1.mlp.c_proj.weight", "h.1"},
                {"state.adamw.v.ln_f.weight", "ln_f"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (int64_t step = 0; step < 2; ++step) {
            assert_string_equal(find(&made, step, rows[i].name)->layer, rows[i].layer);
        }
    }
    // Errors add up on the way: through the layers, then back.
    assert_true(find(&made, 0, "forward.0.h.0.attention")->depth <
                find(&made, 0, "forward.0.h.1.attention")->depth);
    assert_true(find(&made, 0, "backward.0.h.1.attention.in0")->depth <
                find(&made, 0, "backward.0.h.0.attention.in0")->depth);
    assert_true(find(&made, 0, "backward.0.h.0.attention.in0")->depth <
                find(&made, 0, "gradient.wte.weight")->depth);
    bt_mem_free(made.values);
}

// Names are unique in a step, and watching changes no bit of what is trained.
static void watching_changes_nothing(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan();
    plan.parallel.half_batches = true; // no effect on one rank
    log watched = train(&plan, true), alone = train(&plan, false);
    assert_int_equal(alone.count, 0);
    assert_string_equal(watched.result.state_digest, alone.result.state_digest);
    for (int64_t i = 0; i < watched.count; ++i) {
        for (int64_t k = i + 1; k < watched.count; ++k) {
            assert_false(watched.values[i].step == watched.values[k].step &&
                         strcmp(watched.values[i].name, watched.values[k].name) == 0);
        }
    }
    bt_mem_free(watched.values);
    bt_mem_free(alone.values);
}

static void recomputation_tells_the_same(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan();
    log kept = train(&plan, true);
    for (int mode = BT_RECOMPUTE_GELU_LN; mode < BT_RECOMPUTE_COUNT; ++mode) {
        plan.recompute = (bt_recompute_mode)mode;
        log remade = train(&plan, true);
        assert_int_equal(remade.count, kept.count);
        for (int64_t i = 0; i < kept.count; ++i) {
            assert_string_equal(remade.values[i].name, kept.values[i].name);
            assert_true(remade.values[i].sum == kept.values[i].sum);
            assert_int_equal(remade.values[i].depth, kept.values[i].depth);
        }
        bt_mem_free(remade.values);
    }
    bt_mem_free(kept.values);
}

static bt_status refuse(void *self, bt_context *context, const bt_train_value *event)
{
    (void)self;
    (void)context;
    return strncmp(event->name, "backward.", 9) == 0
               ? bt_error(BT_STATUS_IO, "no more of %s", event->name)
               : BT_OK;
}

static void an_observer_that_fails_ends_the_run(void **state)
{
    (void)state;
    const bt_train_plan plan = base_plan();
    bt_train_result result;
    const bt_train_observer observer = {.value = refuse};
    ASSERT_FAILS(BT_STATUS_IO, "no more of backward.0.wte.linear_cross_entropy.in0",
                 bt_train_run(&plan, &observer, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_names),
        cmocka_unit_test(watching_changes_nothing),
        cmocka_unit_test(recomputation_tells_the_same),
        cmocka_unit_test(an_observer_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests_name("values of a step", tests, small_corpus_write,
                                       small_corpus_remove);
}

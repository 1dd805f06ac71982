// tests/unit/test_train_guard.c - what is flagged as a spike or an explosion, and what is not
#include "framework/train/guard.h"

#include <math.h>
#include <stdio.h>

#include "framework/base/rng.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { CURVES = 100, STEPS = 2000 };

// Normal noise from twelve uniform numbers.
static double noise(uint64_t seed, uint64_t at)
{
    double sum = -6;
    for (uint64_t i = 0; i < 12; ++i) {
        sum += (double)bt_rng_uniform((bt_rng){seed, 5}, 12 * at + i);
    }
    return sum;
}

// A loss that falls from 11 to 3 with a deviation of 0.08, a norm that falls from 5 to about 0.7
// with heavy tails (log-normal).
static double loss_at(uint64_t seed, int64_t step)
{
    return 3 + 8 * exp(-(double)step / 200) + 0.08 * noise(seed, (uint64_t)step);
}

static double norm_at(uint64_t seed, int64_t step)
{
    return (0.7 + 4.3 * exp(-(double)step / 50)) * exp(0.3 * noise(seed + 1000, (uint64_t)step));
}

static void a_clean_curve_raises_no_alarm(void **state)
{
    (void)state;
    int64_t alarms = 0;
    for (uint64_t seed = 0; seed < CURVES; ++seed) {
        bt_guard guard = {0};
        for (int64_t step = 0; step < STEPS; ++step) {
            bt_guard_flag spike, explosion;
            bt_guard_look(&guard, loss_at(seed, step), norm_at(seed, step), &spike, &explosion);
            alarms += spike.raised + explosion.raised;
        }
    }
    assert_int_equal(alarms, 0); // of 200,000 steps
}

static void a_spike_and_an_explosion_are_flagged_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CURVES; ++seed) {
        bt_guard guard = {0};
        const int64_t bad = 40 + (int64_t)seed * 13;
        int64_t spikes = 0, explosions = 0;
        for (int64_t step = 0; step < STEPS; ++step) {
            const bool here = step >= bad && step < bad + 3;
            const double loss = loss_at(seed, step), norm = norm_at(seed, step);
            bt_guard_flag spike, explosion;
            bt_guard_look(&guard, here ? loss + 9 : loss, here ? norm * 100 : norm, &spike,
                          &explosion);
            assert_true(!spike.raised || (step == bad && spike.limit > spike.median));
            assert_true(!explosion.raised || step == bad);
            spikes += spike.raised;
            explosions += explosion.raised;
        }
        assert_int_equal(spikes, 1);
        assert_int_equal(explosions, 1);
    }
}

static void the_first_steps_are_not_judged(void **state)
{
    (void)state;
    bt_guard guard = {0};
    for (int64_t step = 0; step < BT_GUARD_LEAST; ++step) {
        bt_guard_flag spike, explosion;
        bt_guard_look(&guard, (double)(step % 5) * 100, (double)(step % 7) * 100, &spike,
                      &explosion);
        assert_false(spike.raised || explosion.raised);
    }
}

// ---- a real curve ------------------------------------------------------------------------------

static bt_status count_fault(void *self, const bt_train_fault *event)
{
    print_message("step %lld: %s: %s\n", (long long)event->step, bt_train_fault_name(event->kind),
                  event->message);
    ++*(int64_t *)self;
    return BT_OK;
}

static void a_real_run_raises_no_alarm(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    int64_t faults = 0;
    const bt_train_observer observer = {.self = &faults, .fault = count_fault};
    plan.steps = 300;
    plan.model.layers = 1;
    plan.tokens_per_step = 128;
    plan.eval_every = 0;
    ASSERT_OK(bt_train_run(&plan, &observer, &result));
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_curve_raises_no_alarm),
        cmocka_unit_test(a_spike_and_an_explosion_are_flagged_once),
        cmocka_unit_test(the_first_steps_are_not_judged),
        cmocka_unit_test(a_real_run_raises_no_alarm),
    };
    return cmocka_run_group_tests_name("guard of training", tests, small_corpus_write,
                                       small_corpus_remove);
}

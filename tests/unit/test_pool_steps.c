// tests/unit/test_pool_steps.c - a repeated step: recorded, packed, replayed, and when it goes
// astray
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/memory/pool.h"
#include "framework/memory/step_plan.h"
#include "tests/support/test.h"

enum { BLOCKS = 60, MIB = 1 << 20 };

typedef struct setting {
    bt_device device;
    bt_pool *pool;
} setting;

static int open_pool(void **state)
{
    static setting s;
    *state = &s;
    return bt_device_open("cpu", 0, &s.device) != BT_OK ||
           bt_pool_create(&s.device, 0, &s.pool) != BT_OK;
}

static int close_pool(void **state)
{
    setting *s = *state;
    bt_pool_destroy(s->pool);
    bt_device_close(&s->device);
    return 0;
}

// A step of random lifetimes, the same for a seed: every block is filled when it is born and must
// hold the same bytes when it dies. addresses[BLOCKS] receives where the blocks were.
static void run_step(setting *s, uint64_t seed, void **addresses)
{
    void *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    int born = 0, alive = 0;
    bt_pool_step_begin(s->pool, 0);
    for (uint64_t event = 0; born < BLOCKS || alive; ++event) {
        bt_rng rng = {seed, 1};
        bool birth = born < BLOCKS && (alive == 0 || bt_rng_below(rng, 2 * event, 5) < 3);
        if (birth) {
            sizes[born] = (1 + bt_rng_below(rng, 2 * event + 1, 12)) * (3 * MIB / 2);
            ASSERT_OK(bt_pool_alloc(s->pool, sizes[born], NULL, "test", &blocks[born]));
            memset(blocks[born], born + 1, sizes[born]);
            addresses[born] = blocks[born];
            ++born;
            ++alive;
            continue;
        }
        int dying = (int)bt_rng_below(rng, 2 * event + 1, (uint64_t)born);
        while (!blocks[dying]) {
            dying = (dying + 1) % born;
        }
        const unsigned char *bytes = blocks[dying];
        for (size_t i = 0; i < sizes[dying]; i += 4096) {
            assert_int_equal(bytes[i], dying + 1);
        }
        bt_pool_free(s->pool, blocks[dying]);
        blocks[dying] = NULL;
        --alive;
    }
    bt_pool_step_end(s->pool);
    ASSERT_OK(bt_pool_check(s->pool));
}

static void a_replayed_step_keeps_its_addresses_in_a_tight_arena(void **state)
{
    setting *s = *state;
    void *recorded[BLOCKS], *first[BLOCKS], *again[BLOCKS];
    bt_pool_stats stats;
    run_step(s, 3, recorded);
    bt_pool_stats_read(s->pool, &stats);
    assert_true(stats.arena_bytes > 0);
    uint64_t fullest = stats.peak_allocated_bytes; // of the recorded step
    assert_true(stats.arena_bytes <= fullest + fullest / 10);
    assert_true(stats.reserved_bytes <= stats.arena_bytes + 2 * MIB);
    run_step(s, 3, first);
    run_step(s, 3, again);
    assert_memory_equal(first, again, sizeof first);
    bt_pool_stats_read(s->pool, &stats);
    assert_true(stats.reserved_bytes <= stats.arena_bytes + 2 * MIB);
}

static void another_step_is_served_and_recorded_anew(void **state)
{
    setting *s = *state;
    enum { LAST = TEST_SANITIZED ? 12 : 24 };
    void *one[BLOCKS], *other[BLOCKS], *again[BLOCKS];
    run_step(s, 3, one);
    for (uint64_t seed = 4; seed < LAST; ++seed) {
        run_step(s, seed, other); // deviates, or is recorded
    }
    run_step(s, LAST - 1, other);
    run_step(s, LAST - 1, other);
    run_step(s, LAST - 1, again);
    assert_memory_equal(other, again, sizeof other);
}

// The sizes of the recorded step, but a block is held longer: its memory must not be given away.
static void a_block_held_longer_is_not_overwritten(void **state)
{
    setting *s = *state;
    void *a = NULL;
    void *b = NULL;
    for (int step = 0; step < 6; ++step) {
        bool hold = step >= 2;
        bt_pool_step_begin(s->pool, 0);
        ASSERT_OK(bt_pool_alloc(s->pool, 4 * MIB, NULL, "a", &a));
        memset(a, 1, 4 * MIB);
        if (!hold) {
            bt_pool_free(s->pool, a);
        }
        ASSERT_OK(bt_pool_alloc(s->pool, 4 * MIB, NULL, "b", &b));
        memset(b, 2, 4 * MIB);
        if (hold) {
            assert_int_equal(*(unsigned char *)a, 1);
            assert_ptr_not_equal(a, b);
        }
        bt_pool_free(s->pool, b);
        bool beyond = step == 3; // even beyond the step's end
        if (hold && !beyond) {
            bt_pool_free(s->pool, a);
        }
        bt_pool_step_end(s->pool);
        if (beyond) {
            bt_pool_step_begin(s->pool, 0);
            ASSERT_OK(bt_pool_alloc(s->pool, 4 * MIB, NULL, "c", &b));
            memset(b, 3, 4 * MIB);
            assert_int_equal(*(unsigned char *)a, 1);
            bt_pool_free(s->pool, b);
            bt_pool_step_end(s->pool);
            bt_pool_free(s->pool, a);
        }
        ASSERT_OK(bt_pool_check(s->pool));
    }
}

enum { PARTS = 5 };

// A small and some large blocks; `late` is the size of the last.
static void run_small_step(setting *s, size_t late, bool aside, void *where[PARTS])
{
    bt_pool_step_begin(s->pool, 1);
    for (int i = 0; i < PARTS; ++i) {
        const size_t size_bytes = i == PARTS - 1 ? late : i % 2 ? 3 * MIB : 100;
        ASSERT_OK(bt_pool_alloc(s->pool, size_bytes, NULL, "part", &where[i]));
        memset(where[i], i, size_bytes);
    }
    if (aside) {
        void *block = NULL;
        ASSERT_OK(bt_pool_alloc_aside(s->pool, 100, NULL, "aside", &block));
        bt_pool_free(s->pool, block);
    }
    for (int i = 0; i < PARTS; ++i) {
        assert_int_equal(*(unsigned char *)where[i], i);
        bt_pool_free(s->pool, where[i]);
    }
    bt_pool_step_end(s->pool);
    ASSERT_OK(bt_pool_check(s->pool));
}

// From its first replay on a step is frozen: small blocks too have one address. Whatever is taken
// beside the arena, another size, or another arena ends that.
static void a_step_is_frozen_while_the_arena_serves_all_of_it(void **state)
{
    setting *s = *state;
    void *first[PARTS], *again[PARTS], *other[PARTS];
    run_small_step(s, 100, false, first);
    assert_int_equal(bt_pool_step_frozen(s->pool, 1), 0); // recorded, not replayed
    run_small_step(s, 100, false, first);
    const uint64_t frozen = bt_pool_step_frozen(s->pool, 1);
    assert_true(frozen != 0);
    assert_int_equal(bt_pool_step_frozen(s->pool, 0), 0);
    void *between = NULL; // memory that is taken between two steps changes nothing
    ASSERT_OK(bt_pool_alloc(s->pool, 100, NULL, "between", &between));
    run_small_step(s, 100, false, again);
    bt_pool_free(s->pool, between);
    assert_memory_equal(first, again, sizeof first);
    assert_true(bt_pool_step_frozen(s->pool, 1) == frozen);
    run_small_step(s, 100, true, again);
    assert_int_equal(bt_pool_step_frozen(s->pool, 1), 0);
    run_small_step(s, 100, false, again);
    assert_true(bt_pool_step_frozen(s->pool, 1) == frozen); // the same plan and arena
    run_small_step(s, 200 * 1024, false, other);            // leaves its plan
    assert_int_equal(bt_pool_step_frozen(s->pool, 1), 0);
    for (int i = 0; i < 2; ++i) {
        run_small_step(s, 100, false, again);
    }
    assert_true(bt_pool_step_frozen(s->pool, 1) != 0 && bt_pool_step_frozen(s->pool, 1) != frozen);
    // A block that outlives the step is not the arena's.
    void *kept[4] = {NULL};
    for (int i = 0; i < 4; ++i) {
        bt_pool_step_begin(s->pool, 1);
        ASSERT_OK(bt_pool_alloc(s->pool, 100, NULL, "kept", &kept[i]));
        bt_pool_step_end(s->pool);
        assert_int_equal(bt_pool_step_frozen(s->pool, 1), 0);
    }
    for (int i = 0; i < 4; ++i) {
        bt_pool_free(s->pool, kept[i]);
    }
}

static void failing_host_memory_costs_the_plan_at_most(void **state)
{
    setting *s = *state;
    void *addresses[BLOCKS];
    int64_t before = bt_mem_live_count();
    run_step(s, 9, addresses);
    for (int64_t n = 1; n < 40; ++n) {
        void *block = NULL;
        bt_pool_step_begin(s->pool, 0);
        bt_mem_fail_at(n);
        for (int i = 0; i < 30; ++i) { // not the recorded step
            bt_status status = bt_pool_alloc(s->pool, 2 * MIB, NULL, "x", &block);
            assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
            bt_pool_free(s->pool, block);
        }
        bt_pool_step_end(s->pool);
        bt_mem_fail_at(0);
        ASSERT_OK(bt_pool_check(s->pool));
    }
    assert_true(bt_mem_live_count() < before + 200); // records are kept for reuse, not leaked
}

static void limit_pool(setting *s, uint64_t limit_bytes)
{
    bt_pool_destroy(s->pool);
    ASSERT_OK(bt_pool_create(&s->device, limit_bytes, &s->pool));
}

// Learns a step of three blocks of 8 MiB that live together, in a pool of 40 MiB.
static void learn_24_of_40_mib(setting *s)
{
    bt_pool_stats stats;
    limit_pool(s, 40 * MIB);
    for (int step = 0; step < 2; ++step) {
        void *blocks[3];
        bt_pool_step_begin(s->pool, 0);
        for (int i = 0; i < 3; ++i) {
            ASSERT_OK(bt_pool_alloc(s->pool, 8 * MIB, NULL, "learnt", &blocks[i]));
        }
        for (int i = 0; i < 3; ++i) {
            bt_pool_free(s->pool, blocks[i]);
        }
        bt_pool_step_end(s->pool);
    }
    bt_pool_stats_read(s->pool, &stats);
    assert_int_equal(stats.arena_bytes, 24 * MIB);
}

static void another_step_does_not_need_memory_beside_an_idle_arena(void **state)
{
    setting *s = *state;
    void *block = NULL;
    for (int inside = 0; inside < 2; ++inside) {
        learn_24_of_40_mib(s);
        if (inside) {
            bt_pool_step_begin(s->pool, 0);
        }
        ASSERT_OK(bt_pool_alloc(s->pool, 30 * MIB, NULL, "large", &block));
        memset(block, 1, 30 * MIB);
        ASSERT_OK(bt_pool_check(s->pool));
        bt_pool_free(s->pool, block);
        if (inside) {
            bt_pool_step_end(s->pool);
        }
        ASSERT_OK(bt_pool_check(s->pool));
    }
}

// The step leaves its plan while a block is in the arena: the block stays, the rest is used.
static void a_step_that_goes_astray_uses_the_rest_of_the_arena(void **state)
{
    setting *s = *state;
    void *kept = NULL, *large = NULL, *more = NULL;
    bt_pool_stats stats;
    bt_str report = {0};
    learn_24_of_40_mib(s);
    bt_pool_step_begin(s->pool, 0);
    ASSERT_OK(bt_pool_alloc(s->pool, 8 * MIB - 5, NULL, "kept", &kept));
    memset(kept, 1, 8 * MIB - 5);
    ASSERT_OK(bt_pool_alloc(s->pool, 16 * MIB, NULL, "large", &large));
    memset(large, 2, 16 * MIB);
    ASSERT_OK(bt_pool_alloc(s->pool, 15 * MIB, NULL, "more", &more));
    memset(more, 3, 15 * MIB);
    ASSERT_OK(bt_pool_check(s->pool));
    bt_pool_stats_read(s->pool, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    assert_int_equal(stats.requested_bytes, 39 * MIB - 5);
    assert_int_equal(stats.live_blocks, 3);
    bt_pool_report(s->pool, 8, &report);
    assert_non_null(strstr(bt_str_text(&report), "8.0 MiB  kept (1 block)"));
    bt_str_release(&report);
    for (size_t i = 0; i < 8 * MIB - 5; i += 997) {
        assert_int_equal(((unsigned char *)kept)[i], 1);
    }
    bt_pool_free(s->pool, kept);
    bt_pool_free(s->pool, large);
    bt_pool_step_end(s->pool);
    ASSERT_OK(bt_pool_check(s->pool));
    bt_pool_free(s->pool, more); // outlives the step
    ASSERT_OK(bt_pool_check(s->pool));
    bt_pool_stats_read(s->pool, &stats);
    assert_int_equal(stats.requested_bytes, stats.arena_bytes);
}

// Steps of every kind in a pool that has hardly more than the fullest of them needs.
static void changing_steps_fit_where_each_of_them_fits(void **state)
{
    setting *s = *state;
    void *addresses[BLOCKS];
    uint64_t most = 0;
    bt_pool_stats stats;
    enum { FIRST = 30, LAST = TEST_SANITIZED ? 33 : 38 };
    for (uint64_t seed = FIRST; seed < LAST; ++seed) {
        limit_pool(s, 0);
        run_step(s, seed, addresses);
        bt_pool_stats_read(s->pool, &stats);
        most = stats.peak_reserved_bytes > most ? stats.peak_reserved_bytes : most;
    }
    limit_pool(s, most + most / 10);
    for (uint64_t seed = FIRST; seed < LAST; ++seed) {
        run_step(s, seed, addresses);
        run_step(s, seed, addresses); // learnt, and replayed once
    }
}

static void memory_taken_aside_is_no_part_of_a_step(void **state)
{
    setting *s = *state;
    void *blocks[3], *aside = NULL, *none = NULL;
    bt_pool_stats stats;
    learn_24_of_40_mib(s);
    for (int step = 0; step < 4; ++step) {
        bt_pool_step_begin(s->pool, 0);
        for (int i = 0; i < 3; ++i) {
            ASSERT_OK(bt_pool_alloc(s->pool, 8 * MIB, NULL, "learnt", &blocks[i]));
            if (step % 2 && i == 1) {
                ASSERT_OK(bt_pool_alloc_aside(s->pool, 12 * MIB, NULL, "aside", &aside));
            }
        }
        ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "too much",
                     bt_pool_alloc_aside(s->pool, 30 * MIB, NULL, "too much", &none));
        for (int i = 0; i < 3; ++i) {
            bt_pool_free(s->pool, blocks[i]);
        }
        bt_pool_free(s->pool, aside);
        aside = NULL;
        bt_pool_step_end(s->pool);
        bt_pool_stats_read(s->pool, &stats);
        assert_int_equal(stats.arena_bytes, 24 * MIB); // it was replayed
        ASSERT_OK(bt_pool_check(s->pool));
    }
}

// A failure inside a step is what is reported, whatever the end of the step tries to get in vain.
static void the_end_of_a_step_keeps_the_first_message(void **state)
{
    setting *s = *state;
    void *blocks[2] = {NULL}, *none = NULL;
    for (int without_host_memory = 0; without_host_memory < 2; ++without_host_memory) {
        limit_pool(s, 40 * MIB);
        bt_pool_step_begin(s->pool, 0);
        for (int i = 0; i < 2; ++i) {
            ASSERT_OK(bt_pool_alloc(s->pool, 18 * MIB, NULL, "weights", &blocks[i]));
        }
        bt_pool_free(s->pool, blocks[1]); // planned: an arena of 18 MiB is wanted
        ASSERT_OK(bt_pool_alloc(s->pool, 19 * MIB, NULL, "kept", &blocks[1]));
        assert_int_equal(bt_pool_alloc(s->pool, 50 * MIB, NULL, "logits", &none),
                         BT_STATUS_OUT_OF_MEMORY);
        assert_non_null(strstr(bt_error_message(), "requested 50.0 MiB"));
        bt_mem_fail_at(without_host_memory);
        bt_pool_step_end(s->pool);
        bt_mem_fail_at(0);
        assert_non_null(strstr(bt_error_message(), "requested 50.0 MiB"));
        assert_non_null(strstr(bt_error_message(), "weights (1 block)"));
        bt_pool_free(s->pool, blocks[0]);
        bt_pool_free(s->pool, blocks[1]);
    }
}

static void packed_blocks_do_not_overlap(void **state)
{
    (void)state;
    bt_step_plan plan = {0};
    enum { COUNT = 300 };
    bool alive[COUNT] = {false};
    for (uint64_t event = 0; plan.count < COUNT; ++event) {
        bt_rng rng = {11, 2};
        int64_t index = 0;
        if (bt_rng_below(rng, 3 * event, 2) == 0 || plan.count == 0) {
            ASSERT_OK(bt_step_plan_alloc(&plan, 256 * (1 + bt_rng_below(rng, 3 * event + 1, 99)),
                                         &index));
            alive[index] = true;
        } else {
            index = (int64_t)bt_rng_below(rng, 3 * event + 1, (uint64_t)plan.count);
            if (alive[index]) {
                bt_step_plan_free(&plan, index);
                alive[index] = false;
            }
        }
    }
    ASSERT_OK(bt_step_plan_pack(&plan));
    for (int64_t i = 0; i < COUNT; ++i) {
        const bt_step_block *a = &plan.blocks[i];
        for (int64_t k = 0; k < i && a->died; ++k) {
            const bt_step_block *b = &plan.blocks[k];
            bool together = b->died && a->born < b->died && b->born < a->died;
            bool apart = a->offset_bytes + a->size_bytes <= b->offset_bytes ||
                         b->offset_bytes + b->size_bytes <= a->offset_bytes;
            assert_true(!together || apart);
        }
        assert_true(!a->died || a->offset_bytes + a->size_bytes <= plan.arena_bytes);
    }
    bt_step_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_replayed_step_keeps_its_addresses_in_a_tight_arena,
                                        open_pool, close_pool),
        cmocka_unit_test_setup_teardown(another_step_is_served_and_recorded_anew, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(a_block_held_longer_is_not_overwritten, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(a_step_is_frozen_while_the_arena_serves_all_of_it,
                                        open_pool, close_pool),
        cmocka_unit_test_setup_teardown(failing_host_memory_costs_the_plan_at_most, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(another_step_does_not_need_memory_beside_an_idle_arena,
                                        open_pool, close_pool),
        cmocka_unit_test_setup_teardown(a_step_that_goes_astray_uses_the_rest_of_the_arena,
                                        open_pool, close_pool),
        cmocka_unit_test_setup_teardown(changing_steps_fit_where_each_of_them_fits, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(memory_taken_aside_is_no_part_of_a_step, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(the_end_of_a_step_keeps_the_first_message, open_pool,
                                        close_pool),
        cmocka_unit_test(packed_blocks_do_not_overlap),
    };
    return cmocka_run_group_tests_name("repeated steps", tests, NULL, NULL);
}

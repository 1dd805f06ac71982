// tests/unit/test_timeline.c - intervals into the parts of a step
#include "tests/support/test.h"

#include <string.h>

#include "framework/base/timeline.h"

#define GAP     BT_TIMELINE_GAP
#define PRODUCT BT_TIMELINE_PRODUCTS
#define WAIT    BT_TIMELINE_COMMUNICATION
#define FORWARD BT_TIMELINE_PHASE_FORWARD
#define UPDATE  BT_TIMELINE_PHASE_UPDATE

static int letters(const char *text, char letter, int from, int until)
{
    int count = 0;
    for (int i = from; i < until; ++i) {
        count += text[i] == letter;
    }
    return count;
}

static void moments_belong_to_the_innermost_interval(void **state)
{
    (void)state;
    // 6 us from 1,000: 10 ns a part. Forward [1000, 5000) with a product in which is an exchange.
    const bt_timeline_interval intervals[] = {{1000, 7000, -1, GAP, 0},
                                              {1000, 5000, 0, GAP, FORWARD},
                                              {1500, 4500, 1, PRODUCT, 0},
                                              {2000, 3000, 2, WAIT, 0},
                                              {5000, 7000, 0, BT_TIMELINE_OTHER, UPDATE}};
    bt_timeline line;
    ASSERT_OK(bt_timeline_make(intervals, 5, &line));
    assert_int_equal(line.time_ns, 6000);
    assert_int_equal(line.work_ns[GAP], 1000);
    assert_int_equal(line.work_ns[PRODUCT], 2000);
    assert_int_equal(line.work_ns[WAIT], 1000);
    assert_int_equal(line.work_ns[BT_TIMELINE_OTHER], 2000);
    assert_int_equal(line.work_ns[BT_TIMELINE_ATTENTION], 0);
    assert_int_equal(strlen(line.work), BT_TIMELINE_PARTS);
    assert_int_equal(strlen(line.phases), BT_TIMELINE_PARTS);
    assert_int_equal(letters(line.work, '.', 0, 50), 50);
    assert_int_equal(letters(line.work, 'p', 50, 100), 50);
    assert_int_equal(letters(line.work, 'c', 100, 200), 100);
    assert_int_equal(letters(line.work, 'p', 200, 350), 150);
    assert_int_equal(letters(line.work, '.', 350, 400), 50);
    assert_int_equal(letters(line.work, 'o', 400, 600), 200);
    assert_int_equal(letters(line.phases, 'f', 0, 400), 400);
    assert_int_equal(letters(line.phases, 'u', 400, 600), 200);
}

// What is shorter than a part is seen where it took most of it, and counted in any case.
static void many_short_intervals_keep_their_share(void **state)
{
    (void)state;
    enum { COUNT = 5001 };
    static bt_timeline_interval intervals[COUNT];
    bt_timeline line;
    intervals[0] = (bt_timeline_interval){0, 5000000, -1, GAP, 0};
    for (int i = 1; i < COUNT; ++i) { // 700 ns of products, 300 of an exchange, again and again
        const int64_t start_ns = (int64_t)(i - 1) / 2 * 2000 + (i % 2 == 1 ? 0 : 1400);
        intervals[i] = (bt_timeline_interval){start_ns, start_ns + (i % 2 == 1 ? 1400 : 600), 0,
                                              i % 2 == 1 ? PRODUCT : WAIT, 0};
    }
    ASSERT_OK(bt_timeline_make(intervals, COUNT, &line));
    assert_int_equal(line.work_ns[PRODUCT], 3500000);
    assert_int_equal(line.work_ns[WAIT], 1500000);
    assert_int_equal(letters(line.work, 'p', 0, BT_TIMELINE_PARTS), BT_TIMELINE_PARTS);
}

static void intervals_that_overlap_are_cut_off(void **state)
{
    (void)state;
    // Clocks of a device round: a child ends after its parent, and the next begins before that.
    const bt_timeline_interval intervals[] = {{0, 600, -1, GAP, 0},
                                              {100, 300, 0, GAP, FORWARD},
                                              {200, 350, 1, PRODUCT, 0},
                                              {290, 700, 0, WAIT, UPDATE},
                                              {800, 900, 3, PRODUCT, 0}};
    bt_timeline line;
    ASSERT_OK(bt_timeline_make(intervals, 5, &line));
    assert_int_equal(line.work_ns[GAP], 200);
    assert_int_equal(line.work_ns[PRODUCT], 100);
    assert_int_equal(line.work_ns[WAIT], 300);
    assert_int_equal(line.work_ns[GAP] + line.work_ns[PRODUCT] + line.work_ns[WAIT], 600);
    // A step without length has none, and nothing is divided by it.
    const bt_timeline_interval empty = {5, 5, -1, PRODUCT, 0};
    ASSERT_OK(bt_timeline_make(&empty, 1, &line));
    assert_int_equal(line.time_ns, 0);
    assert_int_equal(letters(line.work, '.', 0, BT_TIMELINE_PARTS), BT_TIMELINE_PARTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_belong_to_the_innermost_interval),
        cmocka_unit_test(many_short_intervals_keep_their_share),
        cmocka_unit_test(intervals_that_overlap_are_cut_off),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}

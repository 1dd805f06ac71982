// harness/stats/change.c - binary segmentation, permutation test
#include "harness/stats/change.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/stats/stats.h"

#define SCORE_MAX  2.5
#define RHO_MARGIN 1.7 // simulated: tests/harness/test_change.c
#define RHO_MAX    0.97

enum { RUN_IN = 100 };

typedef struct search {
    const double *values; // [count], borrowed
    double *scores;       // [count]
    double *scratch;      // [2 * count]
    bt_change *found;     // [count], ascending
    int64_t (*tested)[2]; // [count], the segment in which each was found
    int64_t count, found_count;
} search;

// ---- the statistic -----------------------------------------------------------------------------

// The largest T_k of scores [count] and its position; -1 if there are too few.
static double largest_shift(const double *scores, int64_t count, int64_t *place)
{
    double total = 0, before = 0, largest = -1;
    *place = -1;
    for (int64_t i = 0; i < count; i++) {
        total += scores[i];
    }
    for (int64_t k = 1; k <= count - BT_CHANGE_SEGMENT_MIN; k++) {
        before += scores[k - 1];
        double left = (double)k, right = (double)(count - k);
        double shift =
            fabs((total - before) / right - before / left) * sqrt(left * right / (double)count);
        if (k >= BT_CHANGE_SEGMENT_MIN && shift > largest) {
            largest = shift;
            *place = k;
        }
    }
    return largest;
}

// Scores of values [count] into `scores`; false if there are none: a value is not > 0, or more than
// half of them are equal.
static bt_status score(const double *values, int64_t count, double *scores, bool *good)
{
    bt_stats stats;
    *good = true;
    for (int64_t i = 0; i < count; i++) {
        *good = *good && values[i] > 0 && isfinite(values[i]);
        scores[i] = log(values[i]);
    }
    if (!*good) {
        return BT_OK;
    }
    BT_TRY(bt_stats_of(scores, count, &stats));
    double deviation = 1.4826 * stats.mad;
    for (int64_t i = 0; i < count; i++) {
        double distance = scores[i] - stats.median;
        // Without a deviation only the sign counts.
        double steps = deviation > 0 ? distance / deviation : distance * (double)INFINITY;
        scores[i] = distance == 0.0 ? 0.0 : fmax(-SCORE_MAX, fmin(SCORE_MAX, steps));
    }
    return BT_OK;
}

// SplitMix64: a shuffle needs a number per value, thousands of times, and Philox would take most of
// the time. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
static uint64_t draw(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

// Equal scores give equal orders, and so equal changes; other scores give other orders: with one
// set of orders for all series, the false-alarm rate would depend on that set.
static uint64_t seed_of(const double *scores, int64_t count)
{
    uint64_t state = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &scores[i], sizeof bits);
        state ^= bits;
        state = draw(&state);
    }
    return state;
}

// Shuffles scores [count], count < 2^32 (Fisher-Yates).
static void shuffle(double *scores, int64_t count, uint64_t *state)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)(((draw(state) >> 32) * ((uint64_t)i + 1)) >> 32);
        double kept = scores[i];
        scores[i] = scores[j];
        scores[j] = kept;
    }
}

// ---- autocorrelation ---------------------------------------------------------------------------

// An upper estimate of the correlation of neighbours, from differences: those of neighbours have
// the mean square 2 v (1 - r), those of the second next 2 v (1 - r^2), so that their quotient is
// 1 + r. A single shift of the level affects one and two of them, and no mean is estimated, which
// would bias the estimate for short series. The margin is its standard deviation without
// correlation times RHO_MARGIN.
static double upper_correlation(const double *scores, int64_t count, int64_t place)
{
    double near = 0, far = 0, near_count = 0, far_count = 0;
    for (int64_t i = 1; i < count; i++) {
        if (i < place - 1 || i > place + 1) { // the shift, whose position may be wrong by one
            near += (scores[i] - scores[i - 1]) * (scores[i] - scores[i - 1]);
            near_count += 1;
        }
        if (i >= 2 && (i < place - 1 || i > place + 2)) {
            far += (scores[i] - scores[i - 2]) * (scores[i] - scores[i - 2]);
            far_count += 1;
        }
    }
    double rho = near > 0 && far_count > 0 ? far / far_count / (near / near_count) - 1 : 0;
    return fmin(RHO_MAX, rho + RHO_MARGIN / sqrt((double)count));
}

// A series with the same deviation and correlation without a shift: the residuals of the two levels
// in random order, as innovations of a stationary AR(1) process.
static void simulate(const double *residuals, int64_t count, double rho, uint64_t *state,
                     double *out)
{
    double value = 0, gain = sqrt(1 - rho * rho);
    for (int64_t i = -RUN_IN; i < count; i++) {
        int64_t j = (int64_t)(((draw(state) >> 32) * (uint64_t)count) >> 32);
        value = rho * value + gain * residuals[j];
        if (i >= 0) {
            out[i] = value;
        }
    }
}

// The residuals of scores [count] after subtracting the levels on both sides of the position.
static void take_levels_off(const double *scores, int64_t count, int64_t place, double *residuals)
{
    double sums[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        sums[i >= place] += scores[i];
    }
    for (int64_t i = 0; i < count; i++) {
        double level = sums[i >= place] / (double)(i >= place ? count - place : place);
        residuals[i] = scores[i] - level;
    }
}

// The largest shift's fraction of all squares: independent of scale, because in a short correlated
// series the two levels take most of the deviation.
static double largest_share(const double *scores, int64_t count)
{
    double sum = 0, squares = 0;
    int64_t place = -1;
    for (int64_t i = 0; i < count; i++) {
        sum += scores[i];
        squares += scores[i] * scores[i];
    }
    double all = squares - sum * sum / (double)count, shift = largest_shift(scores, count, &place);
    return all > 0 ? shift * shift / all : 0;
}

// The p-value of a shift when neighbours are correlated as they are here.
static double test_correlated(search *self, const double *scores, int64_t count, int64_t place,
                              uint64_t *state)
{
    const int64_t reached_max = (int64_t)(BT_CHANGE_ALPHA * (BT_CHANGE_ORDERS + 1));
    double *residuals = self->scratch, *made = self->scratch + count;
    double rho = upper_correlation(scores, count, place);
    double limit = largest_share(scores, count) * (1 - 1e-9);
    int64_t reached = 1, orders = 0;
    if (!(rho > 0)) {
        return 0;
    }
    take_levels_off(scores, count, place, residuals);
    for (; orders < BT_CHANGE_ORDERS && reached <= reached_max; orders++) {
        simulate(residuals, count, rho, state, made);
        reached += !(largest_share(made, count) < limit);
    }
    return (double)reached / (double)(orders + 1);
}

// The p-value of the largest shift of values [count]; 1 if there are too few of them. Stops as soon
// as it cannot be significant any more, and then returns a lower bound.
static bt_status test(search *self, int64_t begin, int64_t count, int64_t *place, double *p)
{
    const int64_t reached_max = (int64_t)(BT_CHANGE_ALPHA * (BT_CHANGE_ORDERS + 1));
    double *scores = self->scores + begin, *shuffled = self->scratch;
    bool good = false;
    *p = 1;
    *place = -1;
    if (count < 2 * BT_CHANGE_SEGMENT_MIN) {
        return BT_OK;
    }
    BT_TRY(score(self->values + begin, count, scores, &good));
    if (!good) {
        return BT_OK;
    }
    // Another order of summation rounds differently: equal shifts must count as reached.
    double limit = largest_shift(scores, count, place) * (1 - 1e-9);
    int64_t reached = 1, orders = 0, ignored = 0;
    uint64_t state = seed_of(scores, count);
    memcpy(shuffled, scores, (size_t)count * sizeof *scores);
    for (; orders < BT_CHANGE_ORDERS && reached <= reached_max; orders++) {
        shuffle(shuffled, count, &state);
        reached += !(largest_shift(shuffled, count, &ignored) < limit);
    }
    *p = (double)reached / (double)(orders + 1);
    if (*p <= BT_CHANGE_ALPHA) {
        *p = fmax(*p, test_correlated(self, scores, count, *place, &state));
    }
    return BT_OK;
}

// ---- segments ----------------------------------------------------------------------------------

static void insert(search *self, int64_t index, double p, int64_t begin, int64_t end)
{
    int64_t at = self->found_count++;
    for (; at > 0 && self->found[at - 1].index > index; at--) {
        self->found[at] = self->found[at - 1];
        memcpy(self->tested[at], self->tested[at - 1], sizeof *self->tested);
    }
    self->found[at] = (bt_change){.index = index, .p = p};
    self->tested[at][0] = begin;
    self->tested[at][1] = end;
}

// Splits [begin, end) while changes are found. Depth is bounded by count / SEGMENT_MIN.
static bt_status split(search *self, int64_t begin, int64_t end)
{
    int64_t place = -1;
    double p = 1;
    BT_TRY(test(self, begin, end - begin, &place, &p));
    if (!(p <= BT_CHANGE_ALPHA)) {
        return BT_OK;
    }
    insert(self, begin + place, p, begin, end);
    BT_TRY(split(self, begin, begin + place));
    return split(self, begin + place, end);
}

static int64_t begin_of(const search *self, int64_t i)
{
    return i > 0 ? self->found[i - 1].index : 0;
}

static int64_t end_of(const search *self, int64_t i)
{
    return i + 1 < self->found_count ? self->found[i + 1].index : self->count;
}

static void drop(search *self, int64_t i)
{
    self->found_count--;
    size_t behind = (size_t)(self->found_count - i);
    memmove(&self->found[i], &self->found[i + 1], behind * sizeof *self->found);
    memmove(&self->tested[i], &self->tested[i + 1], behind * sizeof *self->tested);
}

// Moves each change to the best position between its neighbors, or drops it.
static bt_status refine(search *self)
{
    for (int64_t i = 0; i < self->found_count;) {
        int64_t begin = begin_of(self, i), end = end_of(self, i), place = -1;
        double p = 1;
        if (self->tested[i][0] == begin && self->tested[i][1] == end) {
            i++;
            continue;
        }
        BT_TRY(test(self, begin, end - begin, &place, &p));
        if (p <= BT_CHANGE_ALPHA) {
            self->found[i].index = begin + place;
            self->found[i++].p = p;
        } else {
            drop(self, i);
        }
    }
    return BT_OK;
}

static bt_status describe(search *self)
{
    for (int64_t i = 0; i < self->found_count; i++) {
        bt_change *change = &self->found[i];
        int64_t begin = begin_of(self, i), end = end_of(self, i), at = change->index;
        BT_TRY(bt_stats_median(self->values + begin, at - begin, &change->before));
        BT_TRY(bt_stats_median(self->values + at, end - at, &change->after));
    }
    return BT_OK;
}

bt_status bt_change_points(const double *values, int64_t count, bt_change **changes,
                           int64_t *change_count)
{
    BT_SCOPED_MEM(double *) scores = NULL;
    BT_SCOPED_MEM(bt_change *) found = NULL;
    BT_SCOPED_MEM(void *) tested = NULL;
    *changes = NULL;
    *change_count = 0;
    if (count < 2 * BT_CHANGE_SEGMENT_MIN) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_ARRAY(count * 3, &scores));
    BT_TRY(BT_MEM_ARRAY(count, &found));
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(int64_t[2]), &tested));
    search self = {.values = values,
                   .scores = scores,
                   .scratch = scores + count,
                   .found = found,
                   .tested = tested,
                   .count = count};
    BT_TRY(split(&self, 0, count));
    BT_TRY(refine(&self));
    BT_TRY(describe(&self));
    if (self.found_count > 0) {
        *changes = found;
        *change_count = self.found_count;
        found = NULL;
    }
    return BT_OK;
}

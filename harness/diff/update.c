// harness/diff/update.c - how far an update may move two parameters apart, from their moments
#include "harness/diff/update.h"

#include <math.h>

typedef struct rates {
    double lr, correction1, correction2, epsilon; // corrections: 1 / (1 - beta^t)
} rates;

// Squares of the update of A, and of its difference from that of B.
typedef struct part {
    double update, gap;
} part;

static double update_of(const rates *rate, const bt_diff_value *m, const bt_diff_value *v,
                        int64_t i)
{
    const double size = sqrt(bt_diff_element(v, i) * rate->correction2) + rate->epsilon;
    return rate->lr * bt_diff_element(m, i) * rate->correction1 / size;
}

static part sum_of(const rates *rate, const bt_diff_value *const m[2],
                   const bt_diff_value *const v[2], int64_t begin, int64_t end)
{
    part sum = {0};
    for (int64_t i = begin; i < end; ++i) {
        const double a = update_of(rate, m[0], v[0], i), b = update_of(rate, m[1], v[1], i);
        sum.update += a * a;
        sum.gap += (a - b) * (a - b);
    }
    return sum;
}

// Pieces of a fixed size, added in order: the same sums for any number of threads.
static part sum_all(const rates *rate, const bt_diff_value *const m[2],
                    const bt_diff_value *const v[2])
{
    enum { PIECE = 1 << 15, PIECES = 64 };
    const int64_t count = m[0]->count;
    part sum = {0};
    for (int64_t base = 0; base < count; base += (int64_t)PIECE * PIECES) {
        part parts[PIECES];
        const int64_t left = (count - base + PIECE - 1) / PIECE;
        const int pieces = left < PIECES ? (int)left : PIECES;
#pragma omp parallel for schedule(dynamic) if (pieces > 1)
        for (int i = 0; i < pieces; ++i) {
            const int64_t begin = base + (int64_t)i * PIECE;
            parts[i] = sum_of(rate, m, v, begin, begin + PIECE < count ? begin + PIECE : count);
        }
        for (int i = 0; i < pieces; ++i) {
            sum.update += parts[i].update;
            sum.gap += parts[i].gap;
        }
    }
    return sum;
}

double bt_diff_update_bound(const bt_diff_update *update, const bt_diff_value *const m[2],
                            const bt_diff_value *const v[2], const bt_difference *parameter)
{
    const double step = (double)update->step;
    const rates rate = {.lr = update->lr,
                        .correction1 = 1 / (1 - pow(update->beta1, step)),
                        .correction2 = 1 / (1 - pow(update->beta2, step)),
                        .epsilon = update->epsilon};
    const part sum = sum_all(&rate, m, v);
    // Masters and moments are fp32 in every precision.
    const double rounding =
        BT_DIFF_MARGIN * 2 * BT_DIFF_U_FP32 * (parameter->norm + sqrt(sum.update));
    return (update->before + sqrt(sum.gap) + rounding) / parameter->norm;
}

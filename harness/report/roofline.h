// harness/report/roofline.h - points and ceilings of a roofline: the data between gathering and
// drawing
#ifndef BT_HARNESS_REPORT_ROOFLINE_H
#define BT_HARNESS_REPORT_ROOFLINE_H

#include "harness/report/internal.h"
#include "harness/report/picture.h"

enum { ROOFLINE_SERIES = 6, ROOFLINE_CEILINGS = 8 };

typedef struct roofline_point {
    const report_case *item;
    double intensity, rate, roof; // roof: NaN without ceilings
    int series;
} roofline_point;

typedef struct roofline_ceiling {
    const char *name; // after "ceiling."
    double value;     // B/s if sloped, FLOP/s if flat
    bool flat;
} roofline_ceiling;

typedef struct roofline {
    roofline_point *points; // [count], in the arena
    int64_t count;
    const report_case *series[ROOFLINE_SERIES]; // the first case of each system and run
    int series_count;
    roofline_ceiling ceilings[ROOFLINE_CEILINGS];
    int ceiling_count;
    picture_axis x, y; // FLOP a byte, FLOP/s
    bt_arena arena;
} roofline;

// Owns    the caller, bt_arena_release(&out->arena), also after a failure
BT_CHECKED bt_status bt_roofline_make(const report_set *set, roofline *out);
// Its grid, ceilings and, in a file, its points.
void bt_roofline_draw(const roofline *self, picture *to);

#endif

// framework/base/timeline.c - converts nested intervals to a text of equal parts
#include "framework/base/timeline.h"

#include <string.h>

#include "framework/base/mem.h"

enum { KINDS_MOST = 8 };
_Static_assert((int)BT_TIMELINE_WORK_COUNT <= (int)KINDS_MOST, "a column each");
_Static_assert((int)BT_TIMELINE_PHASE_COUNT <= (int)KINDS_MOST, "a column each");

typedef struct painting {
    const bt_timeline_interval *step;
    double work[BT_TIMELINE_PARTS][KINDS_MOST]; // of each part: time of each kind, in parts
    double phases[BT_TIMELINE_PARTS][KINDS_MOST];
    int64_t cursor_ns; // everything before is filled
    bt_timeline *out;
} painting;

static double part_at(const painting *self, int64_t at_ns)
{
    return (double)(at_ns - self->step->start_ns) * BT_TIMELINE_PARTS / (double)self->out->time_ns;
}

// Fills from the cursor to `until_ns`.
static void paint(painting *self, int64_t until_ns, bt_timeline_work work, bt_timeline_phase phase)
{
    until_ns = until_ns < self->step->stop_ns ? until_ns : self->step->stop_ns;
    if (until_ns <= self->cursor_ns) {
        return;
    }
    const double from = part_at(self, self->cursor_ns), to = part_at(self, until_ns);
    for (int i = (int)from; i < BT_TIMELINE_PARTS && (double)i < to; ++i) {
        const double first = from > (double)i ? from : (double)i;
        const double last = to < (double)i + 1 ? to : (double)i + 1;
        self->work[i][work] += last - first;
        self->phases[i][phase] += last - first;
    }
    self->out->work_ns[work] += until_ns - self->cursor_ns;
    self->cursor_ns = until_ns;
}

static bt_timeline_phase phase_of(const bt_timeline_interval *intervals, int64_t at)
{
    while (at >= 0 && intervals[at].phase == BT_TIMELINE_PHASE_NONE) {
        at = intervals[at].parent;
    }
    return at < 0 ? BT_TIMELINE_PHASE_NONE : intervals[at].phase;
}

static void paint_as(painting *self, const bt_timeline_interval *intervals, int64_t at,
                     int64_t until_ns)
{
    // Time inside an interval also belongs to the enclosing ones.
    for (int64_t i = at; i >= 0; i = intervals[i].parent) {
        until_ns = until_ns < intervals[i].stop_ns ? until_ns : intervals[i].stop_ns;
    }
    paint(self, until_ns, intervals[at].work, phase_of(intervals, at));
}

static void write_letters(double parts[BT_TIMELINE_PARTS][KINDS_MOST], const char *letters,
                          int count, char text[BT_TIMELINE_PARTS + 1])
{
    for (int i = 0; i < BT_TIMELINE_PARTS; ++i) {
        int most = 0;
        for (int kind = 1; kind < count; ++kind) {
            most = parts[i][kind] > parts[i][most] ? kind : most;
        }
        text[i] = letters[most];
    }
    text[BT_TIMELINE_PARTS] = '\0';
}

static void paint_all(painting *self, const bt_timeline_interval *intervals, int64_t count)
{
    int64_t open = 0;
    for (int64_t i = 1; i < count; ++i) {
        while (open > 0 && open != intervals[i].parent) {
            paint_as(self, intervals, open, intervals[open].stop_ns);
            open = intervals[open].parent;
        }
        paint_as(self, intervals, open, intervals[i].start_ns);
        open = i;
    }
    for (; open >= 0; open = intervals[open].parent) {
        paint_as(self, intervals, open, intervals[open].stop_ns);
    }
}

bt_status bt_timeline_make(const bt_timeline_interval *intervals, int64_t count, bt_timeline *out)
{
    static const char work_letters[] = {
#define LETTER(name, letter, text) letter,
        BT_TIMELINE_WORK_LIST(LETTER)};
    static const char phase_letters[] = {BT_TIMELINE_PHASE_LIST(LETTER)};
#undef LETTER
    void *block = NULL;
    memset(out, 0, sizeof *out);
    BT_TRY(bt_mem_alloc(1, sizeof(painting), &block));
    painting *self = block;
    self->step = &intervals[0];
    self->out = out;
    self->cursor_ns = intervals[0].start_ns;
    out->time_ns = intervals[0].stop_ns - intervals[0].start_ns;
    if (out->time_ns > 0) {
        paint_all(self, intervals, count);
    } else {
        out->time_ns = 0;
    }
    write_letters(self->work, work_letters, BT_TIMELINE_WORK_COUNT, out->work);
    write_letters(self->phases, phase_letters, BT_TIMELINE_PHASE_COUNT, out->phases);
    bt_mem_free(block);
    return BT_OK;
}

// harness/report/ratio_order.c - groups, order and ranges of ratios
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/record/keep.h"
#include "harness/report/ratios.h"

const ratio_row bt_ratio_unknown = {.name = "",
                                    .title = "",
                                    .group = "",
                                    .metric = "",
                                    .ratio = (double)NAN,
                                    .low = (double)NAN,
                                    .high = (double)NAN,
                                    .mark = (double)NAN,
                                    .band_low = (double)NAN,
                                    .band_high = (double)NAN,
                                    .verdict = "",
                                    .reason = "",
                                    .deviations = ""};

// ---- ranges -------------------------------------------------------------------------------------

ratio_range bt_ratio_range(const bt_metric_value *over, const bt_metric_value *under)
{
    return (ratio_range){over->low / under->high,
                         under->low <= 0.0 ? (double)INFINITY : over->high / under->low};
}

bool bt_ratio_is_wide(ratio_range range)
{
    static const double wide = 1.25;
    return range.high > wide * range.low;
}

// ---- groups and order --------------------------------------------------------------------------

// "layernorm" of "layernorm.forward.f32.4096x768"; "B.7" of "B.7.16384x50304.time": up to the first
// point, or the second where a letter alone stands before the first.
static size_t group_length(const char *name)
{
    const char *point = strchr(name, '.');
    const char *second = point ? strchr(point + 1, '.') : NULL;
    if (!point) {
        return 0;
    }
    return (size_t)((point == name + 1 && second ? second : point) - name);
}

// Text order in which 9 comes before 10.
static int natural_order(const char *left, const char *right)
{
    while (*left && *right) {
        bool digits = *left >= '0' && *left <= '9' && *right >= '0' && *right <= '9';
        if (digits) {
            char *left_end = NULL, *right_end = NULL;
            unsigned long long a = strtoull(left, &left_end, 10);
            unsigned long long b = strtoull(right, &right_end, 10);
            if (a != b) {
                return a < b ? -1 : 1;
            }
            left = left_end;
            right = right_end;
        } else if (*left != *right) {
            return (unsigned char)*left < (unsigned char)*right ? -1 : 1;
        } else {
            left++;
            right++;
        }
    }
    return (*left != 0) - (*right != 0);
}

static int by_group(const ratio_row *left, const ratio_row *right)
{
    return natural_order(left->group, right->group);
}

static int by_name(const ratio_row *left, const ratio_row *right)
{
    int order = natural_order(left->name, right->name);
    return order ? order : strcmp(left->metric, right->metric);
}

static int slowest_first(const void *left, const void *right)
{
    const ratio_row *a = left, *b = right;
    int order = by_group(a, b);
    return order ? order : a->ratio != b->ratio ? (a->ratio > b->ratio ? -1 : 1) : by_name(a, b);
}

static int smallest_first(const void *left, const void *right)
{
    const ratio_row *a = left, *b = right;
    int order = by_group(a, b);
    return order ? order : a->ratio != b->ratio ? (a->ratio < b->ratio ? -1 : 1) : by_name(a, b);
}

// Puts rows with a ratio into `rows`, the others into `rest`, both in order.
bt_status bt_ratios_sort(bt_arena *arena, ratio_row *all, int64_t count, ratio_list *list)
{
    BT_TRY(BT_ARENA_ARRAY(arena, count, &list->rest));
    list->rows = all;
    for (int64_t i = 0; i < count; i++) {
        BT_TRY(bt_keep_part(arena, all[i].name, group_length(all[i].name), &all[i].group));
        if (all[i].ratio > 0.0 && isfinite(all[i].ratio)) {
            list->rows[list->count++] = all[i];
        } else {
            list->rest[list->rest_count++] = all[i];
        }
    }
    qsort(list->rows, (size_t)list->count, sizeof *list->rows,
          list->more_is_slower ? slowest_first : smallest_first);
    return BT_OK;
}

int64_t bt_ratios_group_end(const ratio_list *list, int64_t begin)
{
    int64_t end = begin;
    while (end < list->count && strcmp(list->rows[end].group, list->rows[begin].group) == 0) {
        end++;
    }
    return end;
}

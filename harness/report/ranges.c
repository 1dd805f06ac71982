// harness/report/ranges.c - sums NVTX ranges over all profiled steps and builds a tree
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"

// A path while the tree is built.
typedef struct gathered {
    const char *path;
    double device_ns, host_ns, calls; // sums over the profiled steps
    double time_ns;                   // the displayed one
    int64_t parent;                   // index, -1: none
    bool placed;
} gathered;

static int by_path(const void *left, const void *right)
{
    return strcmp(((const gathered *)left)->path, ((const gathered *)right)->path);
}

// Distinct paths with their sums, in the order of strcmp.
static int64_t gather(const bt_store_round *round, gathered *rows)
{
    int64_t distinct = 0;
    for (int64_t i = 0; i < round->range_count; i++) {
        const bt_store_range *range = &round->ranges[i];
        rows[i] = (gathered){.path = range->path,
                             .device_ns = (double)range->device_ns,
                             .host_ns = (double)range->host_ns,
                             .calls = (double)range->count,
                             .parent = -1};
    }
    qsort(rows, (size_t)round->range_count, sizeof *rows, by_path);
    for (int64_t i = 0; i < round->range_count; i++) {
        if (distinct > 0 && strcmp(rows[distinct - 1].path, rows[i].path) == 0) {
            gathered *sum = &rows[distinct - 1];
            sum->device_ns += rows[i].device_ns;
            sum->host_ns += rows[i].host_ns;
            sum->calls += rows[i].calls;
        } else {
            rows[distinct++] = rows[i];
        }
    }
    return distinct;
}

static int by_number(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static bt_status count_steps(const bt_store_round *round, int64_t *steps)
{
    *steps = 0;
    BT_SCOPED_MEM(int64_t *) numbers = NULL;
    BT_TRY(BT_MEM_ARRAY(round->range_count, &numbers));
    for (int64_t i = 0; i < round->range_count; i++) {
        numbers[i] = round->ranges[i].step;
    }
    qsort(numbers, (size_t)round->range_count, sizeof *numbers, by_number);
    for (int64_t i = 0; i < round->range_count; i++) {
        *steps += i == 0 || numbers[i] != numbers[i - 1];
    }
    return BT_OK;
}

// The nearest recorded ancestor: "a" for "a/b/c" if "a/b" was not recorded.
static int64_t find_parent(const gathered *rows, int64_t count, const char *path)
{
    int64_t best = -1;
    size_t best_length = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].path);
        if (length > best_length && strncmp(rows[i].path, path, length) == 0 &&
            path[length] == '/') {
            best = i;
            best_length = length;
        }
    }
    return best;
}

static const char *last_part(const gathered *rows, const gathered *row)
{
    return row->parent < 0 ? row->path : row->path + strlen(rows[row->parent].path) + 1;
}

// Appends the children of `parent` by descending time, each followed by its own.
static void place(gathered *rows, int64_t count, int64_t parent, int depth, double offset_ns,
                  double steps, range_tree *out)
{
    for (;;) {
        int64_t next = -1;
        for (int64_t i = 0; i < count; i++) {
            if (!rows[i].placed && rows[i].parent == parent &&
                (next < 0 || rows[i].time_ns > rows[next].time_ns)) {
                next = i;
            }
        }
        if (next < 0) {
            return;
        }
        rows[next].placed = true;
        int64_t at = out->count++;
        range_node *node = &out->nodes[at];
        *node = (range_node){.path = rows[next].path,
                             .name = last_part(rows, &rows[next]),
                             .depth = depth,
                             .time_ns = rows[next].time_ns / steps,
                             .calls = rows[next].calls / steps,
                             .offset_ns = offset_ns};
        place(rows, count, next, depth + 1, offset_ns, steps, out);
        double inside_ns = 0.0;
        for (int64_t i = at + 1; i < out->count; i++) {
            inside_ns += out->nodes[i].depth == depth + 1 ? out->nodes[i].time_ns : 0.0;
        }
        node->has_children = out->count > at + 1;
        node->rest_ns = node->time_ns > inside_ns ? node->time_ns - inside_ns : 0.0;
        offset_ns += node->time_ns;
    }
}

bt_status bt_range_tree_make(const bt_store_round *round, bt_arena *arena, range_tree *out)
{
    gathered *rows = NULL;
    memset(out, 0, sizeof *out);
    if (round->range_count == 0) {
        return BT_OK;
    }
    size_t count = (size_t)round->range_count;
    BT_TRY(count_steps(round, &out->steps));
    BT_TRY(BT_ARENA_ARRAY(arena, count, &rows));
    int64_t distinct = gather(round, rows);
    BT_TRY(BT_ARENA_ARRAY(arena, distinct, &out->nodes));
    for (int64_t i = 0; i < distinct; i++) {
        out->on_device = out->on_device || rows[i].device_ns > 0.0;
        rows[i].parent = find_parent(rows, distinct, rows[i].path);
    }
    for (int64_t i = 0; i < distinct; i++) {
        rows[i].time_ns = out->on_device ? rows[i].device_ns : rows[i].host_ns;
    }
    place(rows, distinct, -1, 0, 0.0, (double)out->steps, out);
    for (int64_t i = 0; i < out->count; i++) {
        out->total_ns += out->nodes[i].depth == 0 ? out->nodes[i].time_ns : 0.0;
    }
    return BT_OK;
}

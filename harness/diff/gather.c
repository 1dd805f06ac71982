// harness/diff/gather.c - assembles shards, replicas and partial sums
#include "harness/diff/gather.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/diff/measure.h"

typedef struct bt_diff_layout {
    const bt_diff_mesh *mesh; // borrowed
    bt_diff_place place;
    int data;   // the data parallel rank
    bool dealt; // tensor parallel ranks have some of the rows each
    bool apart; // one rank has reported it for all ranks
    int64_t rows, columns, own_rows;
    int64_t *starts; // [tensor + 1], of the shards in a block
} bt_diff_layout;

typedef struct gatherer {
    const bt_diff_mesh *mesh;
    bt_diff_values *ranks, *out;
    const bt_diff_value **found; // [context, tensor]: a value on the ranks of a data parallel rank
} gatherer;

static int place_count(const bt_diff_mesh *mesh)
{
    return mesh->degrees.context * mesh->degrees.tensor;
}

static int64_t columns_of(const bt_diff_value *value)
{
    const int last = value->shape.rank - 1;
    return value->kind == BT_TRAIN_VALUE_INPUT || last < 0 ? 1 : value->shape.size[last];
}

static int64_t rows_of(const bt_diff_value *value)
{
    const int64_t columns = columns_of(value);
    return columns ? value->count / columns : 0;
}

// ---- layout -------------------------------------------------------------------------------------

// false if the rows are not the tokens of a micro-batch.
static bool lay_rows(const gatherer *g, const bt_diff_value *first, bt_diff_layout *at)
{
    const bt_diff_mesh *mesh = g->mesh;
    const int64_t whole = mesh->batch * mesh->tokens, own = whole / mesh->degrees.context;
    at->own_rows = at->rows = rows_of(first);
    if (!at->place.tokens) {
        return true;
    }
    at->rows = whole;
    at->dealt = at->place.share == BT_DIFF_REPLICATED && mesh->degrees.tensor > 1 &&
                at->own_rows * mesh->degrees.tensor == own;
    return at->dealt || at->own_rows == own;
}

static bt_status lay_parts(gatherer *g, const bt_diff_value *first, bt_diff_layout *at)
{
    const int tensor = g->mesh->degrees.tensor;
    int64_t total = 0;
    at->columns = columns_of(first);
    if (at->place.share != BT_DIFF_SHARDED) {
        return BT_OK;
    }
    BT_TRY(BT_ARENA_ARRAY(&g->out->arena, tensor + 1, &at->starts));
    for (int t = 0; t < tensor; ++t) {
        const bt_diff_value *part = g->found[t];
        at->starts[t] = total;
        total +=
            part ? (at->place.columns ? columns_of(part) : rows_of(part)) / at->place.repeats : 0;
    }
    at->starts[tensor] = total;
    *(at->place.columns ? &at->columns : &at->rows) = total * at->place.repeats;
    return BT_OK;
}

// ---- elements -----------------------------------------------------------------------------------

static int64_t whole_row(const bt_diff_layout *at, int context, int tensor, int64_t rows,
                         int64_t row)
{
    if (at->place.tokens) {
        return bt_diff_mesh_row(at->mesh, context, row + (at->dealt ? tensor * at->own_rows : 0));
    }
    if (at->place.share == BT_DIFF_SHARDED && !at->place.columns) {
        const int64_t block = rows / at->place.repeats;
        return row / block * (at->rows / at->place.repeats) + at->starts[tensor] + row % block;
    }
    return row;
}

static void add(const bt_diff_value *from, int64_t first, int64_t count, double scale, float *to)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] += (float)(scale * bt_diff_element(from, first + i));
    }
}

// data: of the whole; `adds`: adds to f32 elements instead of copying.
static void put(const bt_diff_layout *at, int context, int tensor, const bt_diff_value *from,
                bool adds, char *data)
{
    const bool blocks = at->place.share == BT_DIFF_SHARDED && at->place.columns;
    const int64_t repeats = blocks ? at->place.repeats : 1;
    const int64_t rows = rows_of(from), columns = columns_of(from), count = columns / repeats;
    const size_t size = bt_dtype_size(from->dtype);
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t line = whole_row(at, context, tensor, rows, row) * at->columns;
        for (int64_t block = 0; block < repeats; ++block) {
            const int64_t to =
                line + block * (at->columns / repeats) + (blocks ? at->starts[tensor] : 0);
            const int64_t first = row * columns + block * count;
            if (adds) {
                add(from, first, count, at->place.scale, (float *)(void *)data + to);
            } else {
                memcpy(data + (size_t)to * size, (const char *)from->data + (size_t)first * size,
                       (size_t)count * size);
            }
        }
    }
}

// ---- a value ------------------------------------------------------------------------------------

// Index of the rank whose value is gathered for (context, tensor).
static int standing_for(const bt_diff_layout *at, int context, int tensor)
{
    const bool own = at->place.share != BT_DIFF_REPLICATED || at->dealt;
    return (at->place.tokens ? context : 0) * at->mesh->degrees.tensor + (own ? tensor : 0);
}

static bt_shape shape_of(const bt_diff_layout *at, const bt_diff_value *first)
{
    if (at->place.tokens && first->kind != BT_TRAIN_VALUE_INPUT) {
        return BT_SHAPE(at->mesh->batch, at->mesh->tokens, at->columns);
    }
    bt_shape shape = first->shape;
    if (at->place.tokens) {
        shape.size[1] = at->mesh->tokens;
    } else if (at->place.share == BT_DIFF_SHARDED) {
        shape.size[at->place.columns ? shape.rank - 1 : 0] =
            at->place.columns ? at->columns : at->rows;
    }
    return shape;
}

static bt_status add_whole(gatherer *g, const bt_diff_value *first, const bt_diff_layout *at)
{
    const bt_diff_mesh *mesh = g->mesh;
    const bool adds =
        (at->place.share == BT_DIFF_PARTIAL && mesh->degrees.tensor > 1) || at->place.scale < 1;
    bt_diff_value *row = NULL;
    void *data = NULL;
    BT_TRY(bt_diff_values_next(g->out, &row));
    *row = *first;
    row->layout = at;
    row->dtype = adds ? BT_F32 : first->dtype;
    row->shape = shape_of(at, first);
    row->count = at->rows * at->columns;
    BT_TRY(bt_mem_alloc((size_t)row->count, bt_dtype_size(row->dtype), &data));
    row->data = data;
    ++g->out->count;
    for (int i = 0; i < place_count(mesh); ++i) {
        const int context = i / mesh->degrees.tensor, tensor = i % mesh->degrees.tensor;
        if (g->found[i] && standing_for(at, context, tensor) == i) {
            put(at, context, tensor, g->found[i], adds, data);
        }
    }
    return BT_OK;
}

// Adds the replica of `rank` if its bits differ from the first one's.
static bt_status add_copy(gatherer *g, const bt_diff_value *first, const bt_diff_value *other,
                          int rank)
{
    bt_diff_value *row = NULL;
    if (first->count == other->count &&
        memcmp(first->data, other->data, bt_dtype_size(first->dtype) * (size_t)first->count) == 0) {
        return BT_OK;
    }
    BT_TRY(bt_diff_values_next(g->out, &row));
    *row = *other;
    row->copy_of = first;
    row->rank = rank;
    ++g->out->count;
    return BT_OK;
}

static bt_status add_copies(gatherer *g, const bt_diff_layout *at, int data)
{
    const bt_diff_mesh *mesh = g->mesh;
    for (int i = 0; i < place_count(mesh); ++i) {
        const int stands = standing_for(at, i / mesh->degrees.tensor, i % mesh->degrees.tensor);
        if (stands != i && g->found[i] && g->found[stands]) {
            BT_TRY(add_copy(g, g->found[stands], g->found[i], data * place_count(mesh) + i));
        }
    }
    return BT_OK;
}

static int find_all(gatherer *g, int data, const char *name)
{
    int told = 0;
    for (int i = 0; i < place_count(g->mesh); ++i) {
        g->found[i] = bt_diff_values_find(&g->ranks[data * place_count(g->mesh) + i], name);
        told += g->found[i] != NULL;
    }
    return told;
}

// Replicas of the other data parallel ranks. *told: increased by the number of ranks that have one.
static bt_status add_data_copies(gatherer *g, const bt_diff_value *first, int *told)
{
    const int places = place_count(g->mesh);
    for (int rank = places; rank < bt_diff_mesh_ranks(g->mesh); ++rank) {
        const bt_diff_value *own = g->found[rank % places];
        const bt_diff_value *other = bt_diff_values_find(&g->ranks[rank], first->name);
        *told += other != NULL;
        if (own && other) {
            BT_TRY(add_copy(g, own, other, rank));
        }
    }
    return BT_OK;
}

static bool is_of_micro_batch(const bt_diff_value *value)
{
    return value->kind == BT_TRAIN_VALUE_INPUT || value->kind == BT_TRAIN_VALUE_FORWARD ||
           value->kind == BT_TRAIN_VALUE_BACKWARD;
}

static bt_status gather_value(gatherer *g, const bt_diff_value *first, int data)
{
    bt_diff_layout *at = NULL;
    BT_TRY(BT_ARENA_ARRAY(&g->out->arena, 1, &at));
    *at = (bt_diff_layout){.mesh = g->mesh, .place = first->place, .data = data};
    int told = find_all(g, data, first->name);
    if (!lay_rows(g, first, at)) {
        return BT_OK;
    }
    BT_TRY(lay_parts(g, first, at));
    BT_TRY(add_whole(g, first, at));
    BT_TRY(add_copies(g, at, data));
    if (!is_of_micro_batch(first)) {
        BT_TRY(add_data_copies(g, first, &told));
        at->apart = told == 1 && first->place.share == BT_DIFF_REPLICATED;
    }
    return BT_OK;
}

// ---- all values ---------------------------------------------------------------------------------

static bt_status gather_kinds(gatherer *g, int data, bool of_micro_batches,
                              bt_train_value_kind from, bt_train_value_kind to)
{
    const bt_diff_values *first = &g->ranks[data * place_count(g->mesh)];
    BT_EACH(const bt_diff_value, value, first->items, first->count) {
        if (is_of_micro_batch(value) == of_micro_batches && value->kind >= from &&
            value->kind <= to) {
            BT_TRY(gather_value(g, value, data));
        }
    }
    return BT_OK;
}

static bt_status gather_all(gatherer *g)
{
    BT_TRY(gather_kinds(g, 0, false, BT_TRAIN_VALUE_INITIAL, BT_TRAIN_VALUE_INITIAL));
    for (int data = 0; data < g->mesh->degrees.data; ++data) {
        BT_TRY(gather_kinds(g, data, true, BT_TRAIN_VALUE_INITIAL, BT_TRAIN_VALUE_STATE));
    }
    return gather_kinds(g, 0, false, BT_TRAIN_VALUE_GRADIENT, BT_TRAIN_VALUE_STATE);
}

bt_status bt_diff_gather(const bt_diff_mesh *mesh, bt_diff_values *ranks, bt_diff_values *out)
{
    gatherer g = {.mesh = mesh, .ranks = ranks, .out = out};
    BT_SCOPED_MEM(void *) found = NULL;
    BT_TRY(bt_mem_alloc((size_t)place_count(mesh), sizeof(bt_diff_value *), &found));
    g.found = found;
    return gather_all(&g);
}

// ---- whose element ------------------------------------------------------------------------------

static int context_of(const bt_diff_layout *at, int64_t row, int64_t *own)
{
    const int64_t rows = at->rows / at->mesh->degrees.context;
    for (int context = 0; context < at->mesh->degrees.context; ++context) {
        for (*own = 0; *own < rows; ++*own) {
            if (bt_diff_mesh_row(at->mesh, context, *own) == row) {
                return context;
            }
        }
    }
    return -1;
}

static int tensor_of(const bt_diff_layout *at, int64_t row, int64_t column, int64_t own)
{
    if (!at->starts) {
        return at->dealt ? (int)(own / at->own_rows) : 0;
    }
    const int64_t along = at->place.columns ? column : row;
    const int64_t in_block = along % at->starts[at->mesh->degrees.tensor];
    int tensor = 0;
    while (in_block >= at->starts[tensor + 1]) {
        ++tensor;
    }
    return tensor;
}

int bt_diff_rank_of(const bt_diff_value *value, int64_t element)
{
    const bt_diff_layout *at = value->layout;
    if (value->copy_of) {
        return value->rank;
    }
    if (!at || at->apart || element < 0 ||
        (at->place.share == BT_DIFF_PARTIAL && at->mesh->degrees.tensor > 1)) {
        return -1;
    }
    const int64_t row = element / at->columns, column = element % at->columns;
    int64_t own = row;
    const int context = at->place.tokens ? context_of(at, row, &own) : 0;
    return at->data * place_count(at->mesh) + context * at->mesh->degrees.tensor +
           tensor_of(at, row, column, own);
}

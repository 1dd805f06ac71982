// framework/train/mesh_state.c - the whole training state when ranks have parts of parameters
//
// A checkpoint is independent of the mesh: it has whole parameters and moments. The first rank
// gathers them, strip by strip, from the ranks of its tensor group, and scatters them after a load.
// Other tensor groups have equal copies.
//
// Invariants
//   1. Each rank reports the position of its part (bt_param_spec); it is not recomputed here.
//   2. Bytes are moved, never summed: the whole has the bits of the parts.
#include "framework/base/mem.h"
#include "framework/train/trainer.h"

enum { KINDS = 3 };

static bool takes_part(const bt_trainer *t)
{
    return t->mesh.tensor && t->mesh.at.data == 0 && t->mesh.at.context == 0;
}

static const bt_param_part *part_of(const bt_trainer *t, int64_t spec, int rank)
{
    return &t->mesh_state.parts[spec * t->mesh.tensor->size + rank];
}

bt_tensor *bt_mesh_state_whole(const bt_trainer *t, int64_t spec, int kind)
{
    return t->mesh_state.whole[kind] ? t->mesh_state.whole[kind][spec] : NULL;
}

// ---- opening ------------------------------------------------------------------------------------

static bt_status tell_parts(bt_trainer *t)
{
    const int64_t specs = t->params.spec_count, ranks = t->mesh.tensor->size;
    bt_param_part *parts = t->mesh_state.parts;
    for (int rank = 0; rank < ranks; ++rank) {
        for (int64_t i = 0; i < specs; ++i) {
            bt_param_part *part = &parts[i * ranks + rank];
            *part = t->params.specs[i].part;
            BT_TRY(bt_group_tell(t->mesh.tensor, part, sizeof *part, rank));
        }
    }
    return BT_OK;
}

static bt_status create_whole(bt_trainer *t)
{
    static const char *const names[KINDS] = {"whole weights", "whole adamw m", "whole adamw v"};
    for (int kind = 0; kind < KINDS; ++kind) {
        void *block = NULL;
        BT_TRY(bt_mem_alloc((size_t)t->params.spec_count, sizeof(bt_tensor *), &block));
        t->mesh_state.whole[kind] = block;
        for (int64_t i = 0; i < t->params.spec_count; ++i) {
            if (t->params.specs[i].is_shared) {
                BT_TRY(bt_tensor_zeros(&t->session.context, t->params.master,
                                       t->params.specs[i].whole, names[kind],
                                       &t->mesh_state.whole[kind][i]));
            }
        }
    }
    return BT_OK;
}

bt_status bt_mesh_state_open(bt_trainer *t)
{
    void *block = NULL;
    if (!t->mesh.tensor) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)(t->params.spec_count * t->mesh.tensor->size),
                        sizeof(bt_param_part), &block));
    t->mesh_state.parts = block;
    BT_TRY(tell_parts(t));
    return bt_ranks_is_first(t) ? create_whole(t) : BT_OK;
}

void bt_mesh_state_close(bt_trainer *t)
{
    for (int kind = 0; kind < KINDS; ++kind) {
        bt_tensor **whole = t->mesh_state.whole[kind];
        for (int64_t i = 0; whole && i < t->params.spec_count; ++i) {
            bt_tensor_release(whole[i]);
        }
        bt_mem_free(whole);
    }
    bt_mem_free(t->mesh_state.parts);
    t->mesh_state = (bt_mesh_state){0};
}

// ---- moving -------------------------------------------------------------------------------------

// Copies between the whole and the part of `rank`, which is `own` on that rank.
static bt_status move_part(bt_trainer *t, int64_t spec, int kind, int rank, bool to_whole)
{
    bt_context *context = &t->session.context;
    bt_group *group = t->mesh.tensor;
    const bt_shape *shape = &t->params.specs[spec].whole;
    const bt_param_part *part = part_of(t, spec, rank);
    const int64_t count = bt_param_part_count(shape, part);
    const int64_t bytes = count * (int64_t)bt_dtype_size(t->params.master);
    if (count == 0 || (group->rank != 0 && group->rank != rank)) {
        return BT_OK;
    }
    if (group->rank != 0) {
        bt_tensor *own = bt_keep_tensor(t, t->params.specs[spec].item, kind);
        bt_tensor_touch(own);
        return to_whole ? bt_send(group, bt_tensor_data(own), bytes, 0, context->stream)
                        : bt_recv(group, bt_tensor_data(own), bytes, 0, context->stream);
    }
    bt_tensor *whole = bt_mesh_state_whole(t, spec, kind), *piece = NULL;
    if (rank == 0) {
        return bt_param_part_copy(context, shape, part, whole,
                                  bt_keep_tensor(t, t->params.specs[spec].item, kind), to_whole);
    }
    BT_TRY(bt_tensor_create(context, t->params.master, BT_SHAPE(count), "part", &piece));
    bt_status status = BT_OK;
    if (to_whole) {
        status = bt_recv(group, bt_tensor_data(piece), bytes, rank, context->stream);
    }
    status = status ? status : bt_param_part_copy(context, shape, part, whole, piece, to_whole);
    if (!to_whole && status == BT_OK) {
        status = bt_send(group, bt_tensor_data(piece), bytes, rank, context->stream);
    }
    bt_tensor_release(piece);
    return status;
}

static bt_status give_copy(bt_trainer *t, int64_t spec, int kind)
{
    bt_tensor *own = bt_keep_tensor(t, t->params.specs[spec].item, kind);
    bt_tensor_touch(own);
    return bt_broadcast(t->mesh.tensor, bt_tensor_data(own), (int64_t)bt_tensor_bytes(own), 0,
                        t->session.context.stream);
}

bt_status bt_mesh_state_collect(bt_trainer *t)
{
    for (int64_t i = 0; takes_part(t) && i < t->params.spec_count; ++i) {
        for (int kind = 0; t->params.specs[i].is_shared && kind < KINDS; ++kind) {
            for (int rank = 0; rank < t->mesh.tensor->size; ++rank) {
                BT_TRY(move_part(t, i, kind, rank, true));
            }
        }
    }
    return BT_OK;
}

bt_status bt_mesh_state_spread(bt_trainer *t)
{
    for (int64_t i = 0; takes_part(t) && i < t->params.spec_count; ++i) {
        for (int kind = 0; kind < KINDS; ++kind) {
            if (!t->params.specs[i].is_shared) {
                BT_TRY(give_copy(t, i, kind));
                continue;
            }
            for (int rank = 0; rank < t->mesh.tensor->size; ++rank) {
                BT_TRY(move_part(t, i, kind, rank, false));
            }
        }
    }
    return BT_OK;
}

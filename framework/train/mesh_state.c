// framework/train/mesh_state.c - the whole training state when ranks have parts of parameters
//
// A checkpoint is independent of the mesh: it has whole parameters and moments. The first rank
// gathers them, strip by strip, from the ranks of its tensor group in its host's memory, and
// scatters them after a load. Other tensor groups have equal copies.
//
// Invariants
//   1. Each rank reports the position of its part (bt_param_spec); it is not recomputed here.
//   2. Bytes are moved, never summed: the whole has the bits of the parts.
//   3. Groups send and receive device memory: a rank's own part may be in host memory too
//      (bt_ranks_state), and is copied through a piece on the device.
#include "framework/base/mem.h"
#include "framework/train/trainer.h"

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
    const bt_host_tensors *whole = &t->mesh_state.whole;
    return whole->items ? whole->items[kind * t->params.spec_count + spec] : NULL;
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
    const int64_t count = BT_STATE_KINDS * t->params.spec_count;
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(bt_shape), &block));
    bt_shape *shapes = block;
    for (int64_t i = 0; i < count; ++i) {
        shapes[i] = t->params.specs[i % t->params.spec_count].whole;
    }
    const bt_status status = bt_host_tensors_create(&t->session.context, t->params.master, shapes,
                                                    count, "training state", &t->mesh_state.whole);
    bt_mem_free(block);
    return status;
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
    bt_host_tensors_destroy(&t->mesh_state.whole);
    bt_mem_free(t->mesh_state.parts);
    t->mesh_state = (bt_mesh_state){0};
}

// ---- moving -------------------------------------------------------------------------------------

// The part of a rank, on every rank a part of all for a parameter that ranks do not share.
static bt_param_part held_part(const bt_trainer *t, int64_t spec, int rank)
{
    const bool shared = t->params.specs[spec].is_shared;
    return shared ? *part_of(t, spec, rank)
                  : (bt_param_part){.repeats = 1, .count = t->params.specs[spec].whole.size[0]};
}

// First rank: copies between the whole and the piece of another rank, by way of the device.
static bt_status exchange_piece(bt_trainer *t, int64_t spec, int kind, int rank, bool to_whole)
{
    bt_context *context = &t->session.context;
    const bt_shape *shape = &t->params.specs[spec].whole;
    const bt_param_part part = held_part(t, spec, rank);
    bt_tensor *whole = bt_mesh_state_whole(t, spec, kind), *piece = NULL;
    const int64_t count = bt_param_part_count(shape, &part);
    BT_TRY(bt_tensor_create(context, t->params.master, BT_SHAPE(count), "part", &piece));
    const int64_t bytes = (int64_t)bt_tensor_bytes(piece);
    bt_status status = BT_OK;
    if (to_whole) {
        BT_TRY_GOTO(bt_recv(t->mesh.tensor, bt_tensor_data(piece), bytes, rank, context->stream),
                    done);
    }
    BT_TRY_GOTO(bt_param_part_copy(context, shape, &part, whole, piece, to_whole), done);
    if (!to_whole) {
        BT_TRY_GOTO(bt_send(t->mesh.tensor, bt_tensor_data(piece), bytes, rank, context->stream),
                    done);
    }
done:
    bt_tensor_release(piece);
    return status;
}

// Another rank: sends or receives its own part, by way of the device.
static bt_status exchange_own(bt_trainer *t, int64_t spec, int kind, bool to_whole)
{
    bt_context *context = &t->session.context;
    bt_tensor *own = bt_ranks_state(t, t->params.specs[spec].item, kind), *piece = NULL;
    BT_TRY(bt_tensor_create(context, own->dtype, own->shape, "part", &piece));
    const int64_t bytes = (int64_t)bt_tensor_bytes(piece);
    bt_status status = BT_OK;
    if (to_whole) {
        BT_TRY_GOTO(bt_tensor_copy(context, own, piece), done);
        BT_TRY_GOTO(bt_send(t->mesh.tensor, bt_tensor_data(piece), bytes, 0, context->stream),
                    done);
    } else {
        BT_TRY_GOTO(bt_recv(t->mesh.tensor, bt_tensor_data(piece), bytes, 0, context->stream),
                    done);
        BT_TRY_GOTO(bt_tensor_copy(context, piece, own), done);
    }
done:
    bt_tensor_release(piece);
    return status;
}

// Copies between the whole and the part of `rank`, which takes part itself.
static bt_status move_part(bt_trainer *t, int64_t spec, int kind, int rank, bool to_whole)
{
    const bt_group *group = t->mesh.tensor;
    const bt_shape *shape = &t->params.specs[spec].whole;
    const bt_param_part part = held_part(t, spec, rank);
    if (bt_param_part_count(shape, &part) == 0 || (group->rank != 0 && group->rank != rank)) {
        return BT_OK;
    }
    if (group->rank != 0) {
        return exchange_own(t, spec, kind, to_whole);
    }
    if (rank != 0) {
        return exchange_piece(t, spec, kind, rank, to_whole);
    }
    bt_tensor *own = bt_ranks_state(t, t->params.specs[spec].item, kind);
    return bt_param_part_copy(&t->session.context, shape, &part, bt_mesh_state_whole(t, spec, kind),
                              own, to_whole);
}

// The first rank has the same values as the others of a parameter that they do not share.
bt_status bt_mesh_state_collect(bt_trainer *t)
{
    for (int64_t i = 0; takes_part(t) && i < t->params.spec_count; ++i) {
        const int ranks = t->params.specs[i].is_shared ? t->mesh.tensor->size : 1;
        for (int kind = 0; kind < BT_STATE_KINDS; ++kind) {
            for (int rank = 0; rank < ranks; ++rank) {
                BT_TRY(move_part(t, i, kind, rank, true));
            }
        }
    }
    return BT_OK;
}

bt_status bt_mesh_state_spread(bt_trainer *t)
{
    for (int64_t i = 0; takes_part(t) && i < t->params.spec_count; ++i) {
        for (int kind = 0; kind < BT_STATE_KINDS; ++kind) {
            for (int rank = 0; rank < t->mesh.tensor->size; ++rank) {
                BT_TRY(move_part(t, i, kind, rank, false));
            }
        }
    }
    return BT_OK;
}

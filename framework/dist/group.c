#define BT_GROUP_WITHOUT_SITES // the functions behind the macros are defined here
#include "framework/dist/group.h"

#include "framework/dist/flight.h"
#include "framework/dist/reduce.h"

_Thread_local const char *bt_group_site;

// Around a backend's call: its signature into the flight recorder, where the rank has one.
#define RECORDED(group, op, dtype, size_bytes, call)                                               \
    do {                                                                                           \
        BT_TRY(bt_flight_enter((group)->flight, (group)->flight_part, op, dtype, size_bytes,       \
                               bt_group_site));                                                    \
        bt_status recorded_status = (group)->backend->call;                                        \
        bt_flight_leave((group)->flight, (group)->flight_part, !(group)->backend->on_gpu);         \
        return recorded_status;                                                                    \
    } while (0)

static bt_status check_size(const char *call, int64_t size)
{
    return size >= 0 ? BT_OK
                     : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "%s: expected a size of 0 or more, got "
                                "%lld",
                                call, (long long)size);
}

static bt_status check_rank(const bt_group *group, const char *call, const char *role, int rank)
{
    return rank >= 0 && rank < group->size
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "%s: %s is rank %d, the group has ranks 0 to %d", call, role, rank,
                          group->size - 1);
}

// A message of a rank to itself is whole in one call: nobody keeps it until a later one.
static bt_status check_own(const bt_group *group, const char *call, int to, int from)
{
    return (to == group->rank) == (from == group->rank)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "%s: rank %d cannot send a message to itself with only one end; use "
                          "send_recv with both ends",
                          call, group->rank);
}

// Counts are bounded so that size x count x 8 bytes fits.
static bt_status check_reduce(const bt_group *group, const char *call, int64_t count,
                              bt_dtype dtype, bt_reduction reduction)
{
    BT_TRY(check_size(call, count));
    if (!bt_reduce_supports(dtype) || (unsigned)reduction >= BT_REDUCE_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: cannot reduce elements of type %s", call,
                        bt_dtype_name(dtype));
    }
    if (count > INT64_MAX / 16 / group->size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %lld elements are too many", call,
                        (long long)count);
    }
    return BT_OK;
}

static bt_status check_gather(const bt_group *group, const char *call, int64_t size_bytes)
{
    BT_TRY(check_size(call, size_bytes));
    if (size_bytes > INT64_MAX / 2 / group->size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %lld bytes from each rank are too many",
                        call, (long long)size_bytes);
    }
    return BT_OK;
}

bt_status bt_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                        bt_reduction reduction, bt_stream stream)
{
    BT_TRY(check_reduce(group, "all_reduce", count, dtype, reduction));
    RECORDED(group, "all_reduce", (int)dtype, count * (int64_t)bt_dtype_size(dtype),
             all_reduce(group, data, count, dtype, reduction, stream));
}

bt_status bt_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                            bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    BT_TRY(check_reduce(group, "reduce_scatter", count, dtype, reduction));
    RECORDED(group, "reduce_scatter", (int)dtype, count * (int64_t)bt_dtype_size(dtype),
             reduce_scatter(group, in, out, count, dtype, reduction, stream));
}

bt_status bt_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                        bt_stream stream)
{
    BT_TRY(check_gather(group, "all_gather", size_bytes));
    RECORDED(group, "all_gather", -1, size_bytes, all_gather(group, in, out, size_bytes, stream));
}

static bt_status check_rows(const bt_group *group, const char *call, const bt_byte_rows *in,
                            int64_t size_bytes)
{
    BT_TRY(check_gather(group, call, size_bytes));
    return in->rows >= 0 && in->row_bytes >= 0 && in->pitch_bytes >= in->row_bytes &&
                   (in->row_bytes == 0 || in->rows <= size_bytes / in->row_bytes)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "%s: %lld rows of %lld bytes, %lld bytes apart, in %lld bytes", call,
                          (long long)in->rows, (long long)in->row_bytes, (long long)in->pitch_bytes,
                          (long long)size_bytes);
}

static bt_status pack(const bt_group *group, const bt_byte_rows *rows, void *to, bt_stream stream)
{
    const bt_backend *backend = group->device != NULL ? group->device->backend : &bt_cpu_backend;
    return backend->copy_rows(group->device, to, rows->row_bytes, rows, stream);
}

bt_status bt_all_gather_rows(bt_group *group, const bt_byte_rows *in, void *out, int64_t size_bytes,
                             bt_stream stream)
{
    char *own = (char *)out + size_bytes * group->rank;
    BT_TRY(check_rows(group, "all_gather_rows", in, size_bytes));
    if (group->backend->all_gather_rows != NULL) {
        RECORDED(group, "all_gather_rows", -1, size_bytes,
                 all_gather_rows(group, in, out, size_bytes, stream));
    }
    BT_TRY(pack(group, in, own, stream));
    RECORDED(group, "all_gather_rows", -1, size_bytes,
             all_gather(group, own, out, size_bytes, stream));
}

bt_status bt_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                        bt_stream stream)
{
    BT_TRY(check_gather(group, "all_to_all", size_bytes));
    RECORDED(group, "all_to_all", -1, size_bytes, all_to_all(group, in, out, size_bytes, stream));
}

bt_status bt_all_to_others(bt_group *group, const void *in, void *out, int64_t size_bytes,
                           bt_stream stream)
{
    BT_TRY(check_gather(group, "all_to_others", size_bytes));
    if (group->backend->all_to_others != NULL) {
        RECORDED(group, "all_to_others", -1, size_bytes,
                 all_to_others(group, in, out, size_bytes, stream));
    }
    RECORDED(group, "all_to_others", -1, size_bytes,
             all_to_all(group, in, out, size_bytes, stream));
}

bt_status bt_broadcast(bt_group *group, void *data, int64_t size_bytes, int root, bt_stream stream)
{
    BT_TRY(check_size("broadcast", size_bytes));
    BT_TRY(check_rank(group, "broadcast", "the root", root));
    RECORDED(group, "broadcast", -1, size_bytes, broadcast(group, data, size_bytes, root, stream));
}

bt_status bt_group_tell(bt_group *group, void *data, int64_t size_bytes, int root)
{
    const bt_group_backend *backend = group->backend;
    BT_TRY(check_size("tell", size_bytes));
    BT_TRY(check_rank(group, "tell", "the root", root));
    BT_TRY(
        bt_flight_enter(group->flight, group->flight_part, "tell", -1, size_bytes, bt_group_site));
    bt_status status = backend->tell ? backend->tell(group, data, size_bytes, root)
                                     : backend->broadcast(group, data, size_bytes, root, NULL);
    bt_flight_leave(group->flight, group->flight_part, true);
    return status;
}

bt_status bt_send(bt_group *group, const void *data, int64_t size_bytes, int to, bt_stream stream)
{
    BT_TRY(check_size("send", size_bytes));
    BT_TRY(check_rank(group, "send", "the receiver", to));
    BT_TRY(check_own(group, "send", to, -1));
    RECORDED(group, "send", -1, size_bytes,
             send_recv(group, data, to, NULL, -1, size_bytes, stream));
}

bt_status bt_recv(bt_group *group, void *data, int64_t size_bytes, int from, bt_stream stream)
{
    BT_TRY(check_size("recv", size_bytes));
    BT_TRY(check_rank(group, "recv", "the sender", from));
    BT_TRY(check_own(group, "recv", -1, from));
    RECORDED(group, "recv", -1, size_bytes,
             send_recv(group, NULL, -1, data, from, size_bytes, stream));
}

bt_status bt_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                       int64_t size_bytes, bt_stream stream)
{
    BT_TRY(check_size("send_recv", size_bytes));
    BT_TRY(check_rank(group, "send_recv", "the receiver", to));
    BT_TRY(check_rank(group, "send_recv", "the sender", from));
    BT_TRY(check_own(group, "send_recv", to, from));
    RECORDED(group, "send_recv", -1, size_bytes,
             send_recv(group, out, to, in, from, size_bytes, stream));
}

bt_status bt_exchange_step(bt_group *group, const bt_group_step *step, void *out,
                           int64_t size_bytes, bt_stream stream)
{
    const int size = group->size;
    BT_TRY(check_rows(group, "exchange_step", &step->data, size_bytes));
    if (step->distance < 1 || step->distance >= size || step->hops < 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "exchange_step: distance %d and %d hops among %d ranks; a distance is 1 to "
                        "%d, and hops are 0 or more",
                        step->distance, step->hops, size, size - 1);
    }
    if (step->parts != 0 &&
        (group->backend->words == NULL || step->parts < 0 ||
         !bt_byte_rows_are_block(&step->data, size_bytes) || size_bytes % step->parts != 0)) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "exchange_step: %d parts of a block of %lld bytes, or of rows with gaps, or "
            "a backend that sends no parts",
            step->parts, (long long)size_bytes);
    }
    if (group->backend->exchange_step != NULL) {
        RECORDED(group, "exchange_step", -1, size_bytes,
                 exchange_step(group, step, out, size_bytes, stream));
    }
    if (step->after) {
        BT_TRY(group->device->backend->event_wait(group->device, step->after, stream));
    }
    const int to = (group->rank + step->distance) % size;
    const int from = (group->rank - step->distance + size) % size;
    char *own = (char *)out + size_bytes * bt_group_step_block(group, step, group->rank);
    char *received = (char *)out + size_bytes * bt_group_step_block(group, step, from);
    const void *sent = step->data.data;
    if (!bt_byte_rows_are_block(&step->data, size_bytes)) {
        BT_TRY(pack(group, &step->data, own, stream));
        sent = own;
    }
    RECORDED(group, "exchange_step", -1, size_bytes,
             send_recv(group, sent, to, received, from, size_bytes, stream));
}

bt_status bt_read_rows(bt_group *group, const bt_group_read *reads, int count, bt_stream stream)
{
    if (!bt_group_reads(group)) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "read_rows: the ranks of a group over %s cannot read each other's memory",
                        group->backend->name);
    }
    BT_TRY(check_size("read_rows", count));
    for (int i = 0; i < count; ++i) {
        const bt_byte_rows to = {reads[i].to, reads[i].rows, reads[i].row_bytes,
                                 reads[i].pitch_bytes};
        BT_TRY(check_rank(group, "read_rows", "the owner", reads[i].rank));
        BT_TRY(check_rows(group, "read_rows", &to, INT64_MAX / 2 / group->size));
    }
    RECORDED(group, "read_rows", -1, 0, read_rows(group, reads, count, stream));
}

bt_status bt_group_fold(bt_group *group, const void *const *in, const void *base, void *out,
                        int64_t count, bt_dtype dtype, bt_stream stream)
{
    BT_TRY(check_reduce(group, "fold", count, dtype, BT_REDUCE_SUM));
    if (group->backend->fold != NULL && count > 0) {
        return group->backend->fold(group, in, base, out, count, dtype, stream);
    }
    bt_reduce_tree(in, group->size, out, count, dtype, BT_REDUCE_SUM);
    if (base != NULL) {
        bt_reduce_tree((const void *[]){out, base}, 2, out, count, dtype, BT_REDUCE_SUM);
    }
    return BT_OK;
}

bt_status bt_barrier(bt_group *group, bt_stream stream)
{
    RECORDED(group, "barrier", -1, 0, barrier(group, stream));
}

bt_status bt_group_memory(bt_group *group, int64_t size_bytes, void **out)
{
    *out = NULL;
    BT_TRY(check_size("memory", size_bytes));
    return group->backend->memory && size_bytes > 0 ? group->backend->memory(group, size_bytes, out)
                                                    : BT_OK;
}

uint32_t *bt_group_words(bt_group *group, int count)
{
    return group->backend->words && count > 0 ? group->backend->words(group, count) : NULL;
}

void bt_group_words_free(bt_group *group, const uint32_t *words, int count)
{
    if (words) {
        group->backend->words_free(group, words, count);
    }
}

bt_status bt_group_split(bt_group *group, int colour, int key, bt_group **out)
{
    *out = NULL;
    ++group->parts_made; // on all ranks, also on those that get no part
    BT_TRY(bt_error_context(group->backend->split(group, colour, key, out),
                            "a part of colour %d of rank %d's group", colour, group->rank));
    if (*out != NULL) {
        (*out)->part = (group->part * 31 + group->parts_made) << 16 | (uint64_t)(uint16_t)colour;
        (*out)->flight_part = bt_flight_open_part(group->flight, (*out)->part);
        (*out)->flight = (*out)->flight_part != 0 ? group->flight : NULL;
    }
    return BT_OK;
}

bt_status bt_group_check(bt_group *group) { return group->backend->check(group); }

void bt_group_abort(bt_group *group, const char *reason) { group->backend->abort(group, reason); }

void bt_group_destroy(bt_group *group)
{
    if (group != NULL) {
        bt_flight_close_part(group->flight, group->flight_part);
        group->backend->destroy(group);
    }
}

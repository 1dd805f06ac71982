// harness/cases/collective_check.c - the calls of a collective case, and their expected values
#include <inttypes.h>
#include <stdlib.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/cases/collective.h"

// ---- calls -------------------------------------------------------------------------------------

static int64_t bytes_of(const collective_rank *rank, int64_t count)
{
    return count * (int64_t)bt_dtype_size(rank->dtype);
}

static bt_status all_reduce(collective_rank *rank)
{
    return bt_all_reduce(rank->group, rank->out, rank->count, rank->dtype, BT_REDUCE_SUM,
                         rank->stream);
}

static bt_status reduce_scatter(collective_rank *rank)
{
    return bt_reduce_scatter(rank->group, rank->in, rank->out, rank->part, rank->dtype,
                             BT_REDUCE_SUM, rank->stream);
}

static bt_status all_gather(collective_rank *rank)
{
    return bt_all_gather(rank->group, rank->in, rank->out, bytes_of(rank, rank->part),
                         rank->stream);
}

static bt_status all_to_all(collective_rank *rank)
{
    return bt_all_to_all(rank->group, rank->in, rank->out, bytes_of(rank, rank->part),
                         rank->stream);
}

static bt_status broadcast(collective_rank *rank)
{
    return bt_broadcast(rank->group, rank->out, bytes_of(rank, rank->count), 0, rank->stream);
}

static bt_status send_recv(collective_rank *rank)
{
    int size = rank->group->size, self = rank->group->rank;
    return bt_send_recv(rank->group, rank->in, (self + 1) % size, rank->out,
                        (self + size - 1) % size, bytes_of(rank, rank->count), rank->stream);
}

// ---- values ------------------------------------------------------------------------------------

typedef struct check_row {
    const char *name;
    collective_call call;
    bool in_place; // the operand is in `out`
    bool sums;
} check_row;

static const check_row rows[] = {
    {"all_reduce", all_reduce, true, true},   {"reduce_scatter", reduce_scatter, false, true},
    {"all_gather", all_gather, false, false}, {"all_to_all", all_to_all, false, false},
    {"broadcast", broadcast, true, false},    {"send_recv", send_recv, false, false},
};

static const check_row *row_of(const collective_rank *rank)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (rows[i].call == rank->call) {
            return &rows[i];
        }
    }
    return NULL;
}

collective_call bt_collective_call(const char *op)
{
    const int64_t at = BT_FIND(rows, BT_COUNT(rows), name, op);
    return at < 0 ? NULL : rows[at].call;
}

// Element i of a rank's operand: 0 to 15, so that the sum of eight is exact in bf16.
static int value_of(int rank, int salt, int64_t i)
{
    uint64_t word = ((uint64_t)i + (uint64_t)(rank * 7919 + salt * 104729)) * 0x9e3779b97f4a7c15U;
    return (int)(word >> 60);
}

static int expected_at(const collective_rank *rank, const check_row *row, int salt, int64_t i)
{
    int size = rank->group->size, self = rank->group->rank;
    if (row->sums) {
        int64_t at = row->in_place ? i : rank->part * self + i;
        int sum = 0;
        for (int peer = 0; peer < size; ++peer) {
            sum += value_of(peer, salt, at);
        }
        return sum;
    }
    if (row->call == all_gather) {
        return value_of((int)(i / rank->part), salt, i % rank->part);
    }
    if (row->call == all_to_all) {
        return value_of((int)(i / rank->part), salt, rank->part * self + i % rank->part);
    }
    return value_of(row->call == broadcast ? 0 : (self + size - 1) % size, salt, i);
}

static bt_status copy(collective_rank *rank, void *to, const void *from, int64_t count,
                      bt_copy_kind kind)
{
    const bt_backend *backend = rank->device.backend;
    BT_TRY(
        backend->copy(&rank->device, to, from, (size_t)bytes_of(rank, count), kind, rank->stream));
    return backend->stream_synchronize(&rank->device, rank->stream);
}

static bt_status check_values(collective_rank *rank, int salt, void *host)
{
    const check_row *row = row_of(rank);
    int self = rank->group->rank;
    int64_t given = row->call == all_gather ? rank->part : rank->count;
    int64_t got = row->call == reduce_scatter ? rank->part : rank->count;
    for (int64_t i = 0; i < given; ++i) {
        const double value = value_of(self, salt, i);
        bt_kernel_narrow(rank->dtype, &value, 1, (char *)host + bytes_of(rank, i));
    }
    BT_TRY(copy(rank, row->in_place ? rank->out : rank->in, host, given, BT_COPY_HOST_TO_DEVICE));
    BT_TRY(rank->call(rank));
    BT_TRY(copy(rank, host, rank->out, got, BT_COPY_DEVICE_TO_HOST));
    BT_TRY(bt_group_check(rank->group));
    for (int64_t i = 0; i < got; ++i) {
        double value = 0;
        int expected = expected_at(rank, row, salt, i);
        bt_kernel_widen(rank->dtype, (const char *)host + bytes_of(rank, i), 1, &value);
        BT_FAIL_IF(!(value == expected), BT_STATUS_INTERNAL,
                   "%s: rank %d has %g at element %" PRId64 ", expected %d", row->name, self, value,
                   i, expected);
    }
    return BT_OK;
}

bt_status bt_collective_check(collective_rank *rank, int salt)
{
    BT_SCOPED_MEM(void *) host = NULL;
    BT_TRY(bt_mem_alloc((size_t)rank->count, bt_dtype_size(rank->dtype), &host));
    BT_TRY(check_values(rank, salt, host));
    // A rank must not leave a group while another rank still checks it.
    return bt_barrier(rank->meeting, NULL);
}

#include "tests/dist/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/dist/reduce.h"
#include "tests/dist/slow.h"

enum { GUARD = 64 }; // bytes after each operand that no call may change
static const int64_t sizes[] = {0, 1, 7, 255, 256, 257, 4099};
static const bt_dtype dtypes[] = {BT_F64, BT_F32, BT_BF16, BT_I64, BT_I32};
enum { SIZES = sizeof sizes / sizeof *sizes, DTYPES = sizeof dtypes / sizeof *dtypes };

// ---- the oracle --------------------------------------------------------------------------------

// Element i of rank's data, of widely different magnitudes so that another order of sums shows.
static double element(int rank, int64_t i)
{
    uint64_t word = ((uint64_t)rank * 1000003 + (uint64_t)i) * 0x9e3779b97f4a7c15;
    double fraction = (double)(word >> 40) / 16777216.0 - 0.5;
    return ldexp(fraction, (int)(word >> 32 & 15));
}

static void store(bt_dtype dtype, void *data, int64_t i, double value)
{
    switch ((int)dtype) {
    case BT_F64:
        ((double *)data)[i] = value;
        break;
    case BT_F32:
        ((float *)data)[i] = (float)value;
        break;
    case BT_BF16:
        ((uint16_t *)data)[i] = bt_f32_to_bf16((float)value);
        break;
    case BT_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    default:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    }
}

static double read_value(bt_dtype dtype, const void *data, int64_t i)
{
    switch ((int)dtype) {
    case BT_F64:
        return ((const double *)data)[i];
    case BT_F32:
        return (double)((const float *)data)[i];
    case BT_BF16:
        return (double)bt_bf16_to_f32(((const uint16_t *)data)[i]);
    case BT_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return (double)((const int32_t *)data)[i];
    }
}

// The rank's values, rounded to the type.
static double held(bt_dtype dtype, int rank, int64_t i)
{
    unsigned char bytes[8];
    store(dtype, bytes, 0, element(rank, i));
    return read_value(dtype, bytes, 0);
}

// Combined in the tree's order, in the type in which sums are formed.
static double tree(bt_dtype dtype, bt_reduction reduction, int lowest, int count, int64_t i)
{
    if (count == 1) {
        return held(dtype, lowest, i);
    }
    int left = (count + 1) / 2;
    double a = tree(dtype, reduction, lowest, left, i);
    double b = tree(dtype, reduction, lowest + left, count - left, i);
    if (reduction == BT_REDUCE_MAX) {
        return a > b ? a : b;
    }
    return dtype == BT_F32 || dtype == BT_BF16 ? (double)((float)a + (float)b) : a + b;
}

// How far sums in two orders can differ: each of ranks - 1 additions rounds by epsilon / 2 of what
// has been summed so far.
static double bound(bt_dtype dtype, bt_reduction reduction, int ranks, int64_t i)
{
    double magnitude = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        magnitude += fabs(held(dtype, rank, i));
    }
    double epsilon = dtype == BT_F64    ? 0x1p-52
                     : dtype == BT_F32  ? 0x1p-23
                     : dtype == BT_BF16 ? 0x1p-7
                                        : 0;
    return reduction == BT_REDUCE_SUM ? epsilon * (ranks - 1) * magnitude : 0;
}

static bt_status wrong(const char *what, bt_dtype dtype, int64_t count, int64_t i)
{
    return bt_error(BT_STATUS_INTERNAL, "%s of %lld %s is wrong at %lld", what, (long long)count,
                    bt_dtype_name(dtype), (long long)i);
}

// ---- operands ----------------------------------------------------------------------------------

typedef struct operand {
    unsigned char *host; // owned; the operand itself when there is no device
    unsigned char *at;   // what collectives are given
    int64_t size_bytes;  // without the guard
} operand;

static operand make(sweep *how, bt_dtype dtype, int64_t count)
{
    operand out = {.size_bytes = count * (int64_t)bt_dtype_size(dtype)};
    out.host = malloc((size_t)out.size_bytes + GUARD);
    memset(out.host, 0xa5, (size_t)out.size_bytes + GUARD);
    out.at = out.host;
    if (how->device != NULL) {
        out.at = how->memory + how->used_bytes + how->shift * (int64_t)bt_dtype_size(dtype);
        how->used_bytes += (out.size_bytes + GUARD + 512) / 256 * 256;
    }
    return out;
}

static bt_status copy(const sweep *how, void *to, const void *from, const operand *which,
                      bt_copy_kind kind)
{
    if (how->device == NULL) {
        return BT_OK;
    }
    BT_TRY(how->device->backend->copy(how->device, to, from, (size_t)which->size_bytes + GUARD,
                                      kind, how->stream));
    return how->device->backend->stream_synchronize(how->device, how->stream);
}

static bt_status give(const sweep *how, const operand *which)
{
    return copy(how, which->at, which->host, which, BT_COPY_HOST_TO_DEVICE);
}

static bt_status take(const sweep *how, const operand *which)
{
    return copy(how, which->host, which->at, which, BT_COPY_DEVICE_TO_HOST);
}

static bool guard_holds(const operand *which)
{
    for (int i = 0; i < GUARD; ++i) {
        if (which->host[which->size_bytes + i] != 0xa5) {
            return false;
        }
    }
    return true;
}

static void release(sweep *how, operand *in, operand *out)
{
    free(in->host);
    if (out != NULL) {
        free(out->host);
    }
    how->used_bytes = 0;
}

void sweep_fill(bt_dtype dtype, void *data, int rank, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        store(dtype, data, i, element(rank, i));
    }
}

// ---- reductions --------------------------------------------------------------------------------

typedef struct reduced {
    const char *what;
    bt_dtype dtype;
    bt_reduction reduction;
    int64_t first, count; // elements of the whole in the operand
    bool with_base;       // values of a further rank, added to the rounded sum
} reduced;

static bool is_right(const sweep *how, const reduced *call, int ranks, const void *at, int64_t i)
{
    unsigned char expected[8];
    double sum = tree(call->dtype, call->reduction, 0, ranks, call->first + i);
    store(call->dtype, expected, 0, sum);
    if (call->with_base) {
        sum = read_value(call->dtype, expected, 0) + held(call->dtype, ranks, i);
        store(call->dtype, expected, 0, sum);
    }
    if (memcmp(at, expected, bt_dtype_size(call->dtype)) == 0) {
        return true;
    }
    double error = fabs(read_value(call->dtype, at, 0) - sum);
    return how->any_order && error <= bound(call->dtype, call->reduction, ranks, call->first + i);
}

static bt_status check_reduced(const sweep *how, const bt_group *group, const reduced *call,
                               const operand *out)
{
    BT_TRY(take(how, out));
    size_t width = bt_dtype_size(call->dtype);
    for (int64_t i = 0; i < call->count; ++i) {
        if (!is_right(how, call, group->size, out->host + (size_t)i * width, i)) {
            return wrong(call->what, call->dtype, call->count, i);
        }
    }
    return guard_holds(out) ? BT_OK : wrong(call->what, call->dtype, call->count, call->count);
}

static bt_status all_reduce(sweep *how, bt_group *group, const reduced *call)
{
    operand data = make(how, call->dtype, call->count);
    sweep_fill(call->dtype, data.host, group->rank, call->count);
    bt_status status = give(how, &data);
    status = status ? status
                    : bt_all_reduce(group, data.at, call->count, call->dtype, call->reduction,
                                    how->stream);
    status = status ? status : check_reduced(how, group, call, &data);
    release(how, &data, NULL);
    return status;
}

static bt_status reduce_scatter(sweep *how, bt_group *group, reduced call)
{
    operand in = make(how, call.dtype, call.count * group->size);
    operand out = make(how, call.dtype, call.count);
    call.what = "reduce_scatter";
    call.first = call.count * group->rank;
    sweep_fill(call.dtype, in.host, group->rank, call.count * group->size);
    bt_status status = give(how, &in);
    status = status ? status : give(how, &out);
    status = status ? status
                    : bt_reduce_scatter(group, in.at, out.at, call.count, call.dtype,
                                        call.reduction, how->stream);
    status = status ? status : check_reduced(how, group, &call, &out);
    release(how, &in, &out);
    return status;
}

// The terms of all ranks, in this rank's memory.
static bt_status fold(sweep *how, bt_group *group, reduced call)
{
    const void *terms[BT_GROUP_MAX_SIZE];
    const int64_t bytes = call.count * (int64_t)bt_dtype_size(call.dtype);
    operand in = make(how, call.dtype, call.count * group->size);
    operand out = make(how, call.dtype, call.count);
    operand base = make(how, call.dtype, call.count);
    call.what = call.with_base ? "fold with a base" : "fold";
    sweep_fill(call.dtype, base.host, group->size, call.count);
    for (int rank = 0; rank < group->size; ++rank) {
        sweep_fill(call.dtype, in.host + bytes * rank, rank, call.count);
        terms[rank] = in.at + bytes * rank;
    }
    bt_status status = give(how, &in);
    status = status ? status : give(how, &out);
    status = status ? status : give(how, &base);
    status = status ? status
                    : bt_group_fold(group, terms, call.with_base ? base.at : NULL, out.at,
                                    call.count, call.dtype, how->stream);
    status = status ? status : check_reduced(how, group, &call, &out);
    free(base.host);
    release(how, &in, &out);
    return status;
}

static bt_status check_reductions(sweep *how, bt_group *group, bt_dtype dtype,
                                  bt_reduction reduction, int64_t count)
{
    reduced call = {"all_reduce", dtype, reduction, 0, count, false};
    BT_TRY(all_reduce(how, group, &call));
    for (int with_base = 0; with_base < 2 && reduction == BT_REDUCE_SUM; ++with_base) {
        reduced sum = call;
        sum.with_base = with_base != 0;
        BT_TRY(fold(how, group, sum));
    }
    return reduce_scatter(how, group, call);
}

// ---- moves -------------------------------------------------------------------------------------

// Byte i of what `from` sends to `to` (-1: to all).
static unsigned char byte_of(int from, int to, int64_t i)
{
    return (unsigned char)((uint64_t)(from * 37 + to * 11 + 5) * (uint64_t)(i + 3) * 2654435761 >>
                           13);
}

static bt_status check_bytes(const char *what, const unsigned char *data, int64_t size, int from,
                             int to)
{
    for (int64_t i = 0; i < size; ++i) {
        if (data[i] != byte_of(from, to, i)) {
            return wrong(what, BT_U8, size, i);
        }
    }
    return BT_OK;
}

static bt_status all_to_all(const sweep *how, bt_group *group, const operand *in,
                            const operand *out, int64_t size)
{
    for (int to = 0; to < group->size; ++to) {
        for (int64_t i = 0; i < size; ++i) {
            in->host[size * to + i] = byte_of(group->rank, to, i);
        }
    }
    BT_TRY(give(how, in));
    BT_TRY(give(how, out));
    BT_TRY(bt_all_to_all(group, in->at, out->at, size, how->stream));
    BT_TRY(take(how, out));
    for (int from = 0; from < group->size; ++from) {
        BT_TRY(check_bytes("all_to_all", out->host + size * from, size, from, group->rank));
    }
    memset(out->host, 0, (size_t)(size * group->size));
    BT_TRY(give(how, out));
    BT_TRY(bt_all_to_others(group, in->at, out->at, size, how->stream));
    BT_TRY(take(how, out));
    for (int from = 0; from < group->size; ++from) {
        BT_TRY(from != group->rank
                   ? check_bytes("all_to_others", out->host + size * from, size, from, group->rank)
                   : BT_OK);
    }
    return BT_OK;
}

static bt_status all_gather(const sweep *how, bt_group *group, const operand *in,
                            const operand *out, int64_t size)
{
    BT_TRY(bt_all_gather(group, in->at, out->at, size, how->stream));
    BT_TRY(take(how, out));
    for (int from = 0; from < group->size; ++from) {
        BT_TRY(check_bytes("all_gather", out->host + size * from, size, from, -1));
    }
    return BT_OK;
}

enum { ROWS = 3, GAP = 5 };

// Rows with gaps of other bytes, of at most about half the size in all: of rank 0 none, of others
// as many as their number modulo 4.
static operand rows_of(sweep *how, const bt_group *group, int64_t size, bt_byte_rows *rows)
{
    const int64_t width = (size + 1) / 2 / ROWS, pitch = width + GAP;
    const int64_t count = group->rank % (ROWS + 1);
    operand in = make(how, BT_U8, pitch * ROWS);
    for (int64_t row = 0; row < count; ++row) {
        for (int64_t i = 0; i < width; ++i) {
            in.host[row * pitch + i] = byte_of(group->rank, -1, row * width + i);
        }
    }
    *rows = (bt_byte_rows){in.at, count, width, pitch};
    return in;
}

static bt_status take_rows(const sweep *how, const char *call, const bt_group *group,
                           const operand *out, int64_t size, int64_t width)
{
    BT_TRY(take(how, out));
    for (int from = 0; from < group->size; ++from) {
        BT_TRY(from != group->rank
                   ? check_bytes(call, out->host + size * from, from % (ROWS + 1) * width, from, -1)
                   : BT_OK);
    }
    return BT_OK;
}

// Each rank sends its rows to all others, or what it received to the next rank.
static bt_status send_steps(const sweep *how, bt_group *group, const bt_byte_rows *rows, bool round,
                            const operand *out, int64_t size)
{
    for (int i = 1; i < group->size; ++i) {
        bt_group_step step = {.distance = round ? 1 : i, .hops = round ? i - 1 : 0, .data = *rows};
        if (step.hops > 0) {
            const int received = bt_group_step_block(group, &step, group->rank);
            step.data = bt_byte_block((char *)out->at + size * received, size);
        }
        BT_TRY(bt_exchange_step(group, &step, out->at, size, how->stream));
    }
    return BT_OK;
}

static bt_status gathers_of_rows(sweep *how, bt_group *group, const operand *out, int64_t size)
{
    bt_byte_rows rows;
    operand in = rows_of(how, group, size, &rows);
    bt_status status = give(how, &in);
    for (int way = 0; way < 3 && status == BT_OK; ++way) {
        static const char *const names[] = {"all_gather_rows", "exchange_step",
                                            "exchange_step, hops"};
        memset(out->host, 0, (size_t)(size * group->size)); // not what the last one left there
        status = give(how, out);
        status = status ? status
                 : way  ? send_steps(how, group, &rows, way == 2, out, size)
                        : bt_all_gather_rows(group, &rows, out->at, size, how->stream);
        status = status ? status : take_rows(how, names[way], group, out, size, rows.row_bytes);
    }
    free(in.host);
    return status;
}

static bt_status expect_refusal(bt_group *group, const bt_group_read *reads, int count,
                                bt_status expected)
{
    const bt_status status = bt_read_rows(group, reads, count, NULL);
    return status == expected ? BT_OK
                              : bt_error(BT_STATUS_INTERNAL, "read_rows: %s, expected %s",
                                         bt_status_text(status), bt_status_text(expected));
}

// Rank r reads two rows of each of the first r + 1 ranks' `in`, the last of which is its own, and
// leaves gaps between them.
static bt_status reads(const sweep *how, bt_group *group, const operand *in, const operand *out,
                       int64_t size)
{
    const int64_t width = size / 4, pitch = size / 2;
    bt_group_read wanted[BT_GROUP_MAX_SIZE];
    const int count = group->rank + 1;
    for (int from = 0; from < count; ++from) {
        wanted[from] = (bt_group_read){from, in->at, out->at + size * from, 2, width, pitch};
    }
    if (!bt_group_reads(group)) {
        return expect_refusal(group, wanted, count, BT_STATUS_UNSUPPORTED);
    }
    BT_TRY(expect_refusal(group, wanted, -1, BT_STATUS_INVALID_ARGUMENT));
    if (!how->in_memory && width > 0) {
        return expect_refusal(group, wanted, count, BT_STATUS_INVALID_ARGUMENT);
    }
    memset(out->host, 0xc3, (size_t)(size * group->size));
    BT_TRY(give(how, out));
    BT_TRY(bt_read_rows(group, wanted, count, how->stream));
    BT_TRY(take(how, out));
    for (int64_t i = 0; i < size * group->size; ++i) {
        const int from = (int)(i / size);
        const int64_t row = pitch > 0 ? i % size / pitch : 2, at = pitch > 0 ? i % size % pitch : 0;
        const bool is_read = from < count && row < 2 && at < width;
        if (out->host[i] != (is_read ? byte_of(from, -1, row * width + at) : 0xc3)) {
            return wrong("read_rows", BT_U8, size, i);
        }
    }
    return BT_OK;
}

static bt_status broadcasts(const sweep *how, bt_group *group, const operand *in,
                            const operand *out, int64_t size)
{
    for (int root = 0; root < group->size; ++root) {
        memcpy(out->host, in->host, (size_t)size);
        BT_TRY(give(how, out));
        BT_TRY(bt_broadcast(group, out->at, size, root, how->stream));
        BT_TRY(take(how, out));
        BT_TRY(check_bytes("broadcast", out->host, size, root, -1));
        memcpy(out->host, in->host, (size_t)size);
        BT_TRY(bt_group_tell(group, out->host, size, root));
        BT_TRY(check_bytes("tell", out->host, size, root, -1));
    }
    return BT_OK;
}

static bt_status sends(const sweep *how, bt_group *group, const operand *in, const operand *out,
                       int64_t size)
{
    int ranks = group->size;
    int rank = group->rank;
    for (int shift = 0; shift < ranks; ++shift) {
        int to = (rank + shift) % ranks;
        int from = (rank + ranks - shift) % ranks;
        BT_TRY(bt_send_recv(group, in->at, to, out->at, from, size, how->stream));
        BT_TRY(take(how, out));
        BT_TRY(check_bytes("send_recv", out->host, size, from, -1));
    }
    const bt_byte_rows block = bt_byte_block(in->at, size);
    for (int64_t i = 0; i < size; ++i) { // a block's own part is not written
        out->host[size * rank + i] = byte_of(ranks, -1, i);
    }
    BT_TRY(give(how, out));
    BT_TRY(send_steps(how, group, &block, false, out, size));
    BT_TRY(take(how, out));
    for (int from = 0; from < ranks; ++from) {
        BT_TRY(check_bytes("exchange_step", out->host + size * from, size,
                           from != rank ? from : ranks, -1));
    }
    if (ranks > 1 && rank == 0) { // the others take no part
        return bt_send(group, in->at, size, 1, how->stream);
    }
    if (rank == 1) {
        BT_TRY(bt_recv(group, out->at, size, 0, how->stream));
        BT_TRY(take(how, out));
        return check_bytes("recv", out->host, size, 0, -1);
    }
    return BT_OK;
}

static bt_status check_moves(sweep *how, bt_group *group, int64_t size)
{
    operand in = make(how, BT_U8, size * group->size);
    operand out = make(how, BT_U8, size * group->size);
    bt_status status = all_to_all(how, group, &in, &out, size);
    for (int64_t i = 0; i < size; ++i) {
        in.host[i] = byte_of(group->rank, -1, i);
    }
    status = status ? status : give(how, &in);
    status = status ? status : all_gather(how, group, &in, &out, size);
    status = status ? status : gathers_of_rows(how, group, &out, size);
    status = status ? status : reads(how, group, &in, &out, size);
    status = status ? status : broadcasts(how, group, &in, &out, size);
    status = status ? status : sends(how, group, &in, &out, size);
    status = status || guard_holds(&out) ? status : wrong("move", BT_U8, size, size);
    release(how, &in, &out);
    return status;
}

// ---- bodies ------------------------------------------------------------------------------------

static void delay(const sweep *how, int rank, unsigned *state)
{
    if (how->delay_seed != 0) {
        *state = *state * 1664525 + 1013904223 + (unsigned)rank + how->delay_seed;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)(*state >> 8) % 300000}, NULL);
    }
}

bt_status sweep_all(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep how = *(const sweep *)argument; // of this rank: ranks may be threads
    unsigned state = 1;
    if (how.slow_seed != 0) {
        slow_transport(group, how.slow_seed);
    }
    for (int s = 0; s < SIZES; ++s) {
        for (int d = 0; d < DTYPES; ++d) {
            for (int reduction = 0; reduction < BT_REDUCE_COUNT; ++reduction) {
                delay(&how, group->rank, &state);
                BT_TRY(check_reductions(&how, group, dtypes[d], (bt_reduction)reduction, sizes[s]));
            }
        }
        delay(&how, group->rank, &state);
        BT_TRY(check_moves(&how, group, sizes[s]));
        BT_TRY(bt_barrier(group, how.stream));
    }
    return BT_OK;
}

bt_status sweep_short(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    static const int64_t counts[] = {257, 70001}; // a small sum and one that is none
    sweep how = *(const sweep *)argument;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        BT_TRY(check_reductions(&how, group, BT_F32, BT_REDUCE_SUM, counts[i]));
        BT_TRY(check_reductions(&how, group, BT_BF16, BT_REDUCE_MAX, counts[i]));
        BT_TRY(check_moves(&how, group, counts[i]));
    }
    return bt_barrier(group, how.stream);
}

bt_status sweep_large(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    sweep how = *(const sweep *)argument;
    return check_reductions(&how, group, BT_F32, BT_REDUCE_SUM, 2200001);
}

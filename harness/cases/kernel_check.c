// harness/cases/kernel_check.c - compares outputs with the reference in f64 on the CPU, part by
// part
//
// kernel_parts.c selects the parts: all of a call or a sample. The operands of a part take at most
// some hundred megabytes, whatever the case's size. Loops over elements are parallel and their
// results do not depend on the number of threads.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/cases/kernel.h"

#define PIECE 4096 // elements per parallel block

// The largest error of some elements, as a fraction of its tolerance, and its position.
typedef struct worst_element {
    double share; // NaN: counts as worse than any number
    int64_t at;
} worst_element;

typedef struct checking {
    const bt_kernel_body *body;
    const kernel_outputs *outputs;
    kernel_parts parts;
    kernel_part part;
    bt_device cpu;
    bt_context context;             // of the CPU: with its pool, for workspaces
    double *tiles[BT_OPERANDS_MAX]; // owned: inputs' sequences
    void *at[BT_OPERANDS_MAX];      // owned, of the CPU's device: operands of a part
    int64_t room[BT_OPERANDS_MAX];  // elements at `at`
    double means[BT_OPERANDS_MAX];  // of outputs that are means, over the parts so far
    void *narrow;                   // owned: a window of an output, in the output's type
    worst_element *pieces;          // owned: offsets of such a window
    int64_t window_room;            // elements at `narrow`
    int64_t done_rows;
    double worst; // fraction of the tolerance
    char where[160];
} checking;

static int64_t pieces_of(int64_t count) { return (count + PIECE - 1) / PIECE; }

// ---- memory ------------------------------------------------------------------------------------

static bt_status draw_tiles(checking *self, uint64_t seed)
{
    for (int i = 0; i < self->body->count; ++i) {
        if (bt_operand_is_input(&self->body->operands[i])) {
            int64_t all = bt_operand_count(&self->body->operands[i], self->body->rows);
            int64_t tile = all < BT_OPERAND_TILE ? all : BT_OPERAND_TILE;
            BT_TRY(BT_MEM_ARRAY(tile, &self->tiles[i]));
            BT_TRY(bt_kernel_tile(self->body, seed, i, self->tiles[i], tile));
        }
    }
    return BT_OK;
}

// Allocates the operands of the current part. Sums over rows keep theirs; no part needs more than
// the first.
static bt_status make_room(checking *self)
{
    const bt_backend *cpu = self->cpu.backend;
    for (int i = 0; i < self->body->count; ++i) {
        const int64_t count = bt_kernel_window_count(&self->part.windows[i]);
        if (!self->at[i] || count > self->room[i]) {
            if (self->at[i]) {
                cpu->memory_free(&self->cpu, self->at[i]);
                self->at[i] = NULL;
            }
            BT_TRY(cpu->memory_alloc(
                &self->cpu, (size_t)(count + BT_OPERAND_SLACK) * sizeof(double), &self->at[i]));
            self->room[i] = count;
        }
        if (bt_operand_is_output(&self->body->operands[i]) &&
            (!self->narrow || count > self->window_room)) {
            bt_mem_free(self->narrow);
            bt_mem_free(self->pieces);
            self->narrow = NULL;
            self->pieces = NULL;
            BT_TRY(bt_mem_alloc((size_t)count, sizeof(double), &self->narrow));
            BT_TRY(BT_MEM_ARRAY(pieces_of(count) + 1, &self->pieces));
            self->window_room = count;
        }
    }
    return BT_OK;
}

// ---- the reference -----------------------------------------------------------------------------

// Elements [start, start + count) of an operand's sequence, which repeats its tile.
static void lay_out_run(const checking *self, int index, int64_t start, int64_t count, void *out)
{
    const bt_operand *operand = &self->body->operands[index];
    const int64_t all = bt_operand_count(operand, self->body->rows);
    const int64_t tile = all < BT_OPERAND_TILE ? all : BT_OPERAND_TILE;
    const size_t size = operand->dtype == BT_I32 ? sizeof(int32_t) : sizeof(double);
    for (int64_t done = 0; done < count;) {
        const int64_t from = (start + done) % tile;
        const int64_t part = tile - from < count - done ? tile - from : count - done;
        bt_kernel_narrow(operand->dtype == BT_I32 ? BT_I32 : BT_F64, self->tiles[index] + from,
                         part, (char *)out + (size_t)done * size);
        done += part;
    }
}

// A window of an input, as f64 for the reference.
static void lay_out_window(const checking *self, int index)
{
    const kernel_window *window = &self->part.windows[index];
    const size_t size =
        self->body->operands[index].dtype == BT_I32 ? sizeof(int32_t) : sizeof(double);
    const int64_t pieces = pieces_of(window->length);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < window->runs * pieces; ++i) {
        const int64_t run = i / pieces, from = i % pieces * PIECE;
        const int64_t left = window->length - from;
        lay_out_run(self, index, window->first + run * window->stride + from,
                    left < PIECE ? left : PIECE,
                    (char *)self->at[index] + (size_t)(run * window->length + from) * size);
    }
}

static void lay_out(const checking *self)
{
    for (int i = 0; i < self->body->count; ++i) {
        const bt_operand *operand = &self->body->operands[i];
        // Parts made of rows all have the same whole operands.
        if (bt_operand_is_input(operand) && (operand->per_row > 0 || self->part.first)) {
            lay_out_window(self, i);
        }
    }
}

// Updates a mean over the rows of a part to that over all rows so far.
static void weigh_means(checking *self)
{
    const int64_t rows = self->part.body.rows;
    for (int i = 0; i < self->body->count; ++i) {
        if (self->body->operands[i].mean) {
            double *mean = self->at[i];
            self->means[i] +=
                (*mean - self->means[i]) * (double)rows / (double)(self->done_rows + rows);
            *mean = self->means[i];
        }
    }
    self->done_rows += rows;
}

static bt_status run_reference(checking *self)
{
    const bt_kernel_body *body = &self->part.body;
    const bool adds = self->parts.all_rows && !self->part.first;
    BT_SCOPED_MEM(bt_kernel_items *) items = NULL;
    bt_kernel_args args;
    memset(&args, 0, sizeof args);
    if (body->saved) {
        body->saved(body, body->rows, self->at, &args);
        BT_TRY(bt_context_launch(&self->context, body->saved_op, BT_F64, &args));
        memset(&args, 0, sizeof args);
    }
    BT_TRY(BT_MEM_ARRAY(1, &items));
    const bt_kernel_asked asked = {
        .rows = body->rows, .at = self->at, .wide = true, .accumulate = adds, .items = items};
    body->args(body, &asked, &args);
    BT_TRY(body->is_chain ? bt_kernel_chain_reference(&self->context, &args)
                          : bt_context_launch(&self->context, body->op, BT_F64, &args));
    weigh_means(self);
    return BT_OK;
}

// ---- comparing ---------------------------------------------------------------------------------

// An element's error as a fraction of its tolerance. A NaN on one side only is the worst;
// infinities of the same sign are equal.
static double share_of(double actual, double expected, double tolerance)
{
    const double error = fabs(actual - expected);
    if (error <= 0 || (isnan(actual) && isnan(expected)) ||
        (isinf(actual) && actual * expected > 0)) {
        return 0;
    }
    return error / tolerance;
}

static bool is_worse(double share, double than) { return !(share <= than) && !isnan(than); }

static worst_element worst_of_piece(const double *actual, const double *expected, int64_t count,
                                    double base, double slope)
{
    worst_element worst = {0, 0};
    for (int64_t i = 0; i < count; ++i) {
        const double error = fabs(actual[i] - expected[i]);
        const double tolerance = base + slope * fabs(expected[i]);
        if (!(error <= worst.share * tolerance)) { // rarely taken once the worst element has been
                                                   // found
            const double share = share_of(actual[i], expected[i], tolerance);
            if (is_worse(share, worst.share)) {
                worst = (worst_element){share, i};
            }
        }
    }
    return worst;
}

static void note_worst(checking *self, const bt_operand *operand, const kernel_window *window,
                       const worst_element *worst, const double *expected, double tolerance)
{
    double actual = 0;
    const size_t size = bt_dtype_size(operand->dtype);
    bt_kernel_widen(operand->dtype, (const char *)self->narrow + (size_t)worst->at * size, 1,
                    &actual);
    const int64_t index =
        window->first + worst->at / window->length * window->stride + worst->at % window->length;
    self->worst = worst->share;
    (void)snprintf(self->where, sizeof self->where,
                   "%s[%lld] is %.9g, expected %.9g with a tolerance of %.3g", operand->name,
                   (long long)index, actual, expected[worst->at], tolerance);
}

// The window of one output.
static bt_status compare(checking *self, int index)
{
    const bt_operand *operand = &self->part.body.operands[index];
    const kernel_window *window = &self->part.windows[index];
    const size_t size = bt_dtype_size(operand->dtype);
    const double *expected = self->at[index];
    const int64_t count = bt_kernel_window_count(window);
    BT_TRY(self->outputs->read(self->outputs->self, index, window, self->narrow));
    // |error| <= base + slope |expected|, see bt_operand_tolerance.
    const double base = bt_operand_tolerance(&self->part.body, operand, 0);
    const double slope = bt_operand_tolerance(&self->part.body, operand, 1) - base;
#pragma omp parallel for schedule(static)
    for (int64_t piece = 0; piece < pieces_of(count); ++piece) {
        const int64_t from = piece * PIECE;
        const int64_t part = count - from < PIECE ? count - from : PIECE;
        double actual[PIECE];
        bt_kernel_widen(operand->dtype, (const char *)self->narrow + (size_t)from * size, part,
                        actual);
        self->pieces[piece] = worst_of_piece(actual, expected + from, part, base, slope);
        self->pieces[piece].at += from;
    }
    BT_EACH(const worst_element, worst, self->pieces, pieces_of(count)) {
        if (is_worse(worst->share, self->worst)) {
            note_worst(self, operand, window, worst, expected,
                       base + slope * fabs(expected[worst->at]));
        }
    }
    return BT_OK;
}

static bt_status compare_part(checking *self)
{
    for (int i = 0; i < self->body->count; ++i) {
        const bt_operand *operand = &self->body->operands[i];
        const bool whole = operand->per_row == 0;
        if (bt_operand_is_output(operand) && (whole ? self->part.last : self->part.compared)) {
            BT_TRY(compare(self, i));
        }
    }
    return BT_OK;
}

static bt_status check(checking *self, uint64_t seed, const char *name)
{
    BT_TRY(draw_tiles(self, seed));
    for (int64_t i = 0; i < self->parts.count; ++i) {
        bt_kernel_part_at(&self->parts, i, &self->part);
        BT_TRY(make_room(self));
        lay_out(self);
        BT_TRY(run_reference(self));
        BT_TRY(compare_part(self));
    }
    return self->worst <= 1
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "wrong result of %s: %s", name, self->where);
}

bt_status bt_kernel_check_outputs(const bt_kernel_body *body, uint64_t seed,
                                  const kernel_outputs *outputs, const char *name, double *worst)
{
    checking self = {.body = body, .outputs = outputs};
    bt_kernel_parts_make(body, seed, &self.parts);
    BT_TRY(bt_device_open("cpu", 0, &self.cpu));
    self.context.device = &self.cpu;
    bt_status status = bt_pool_create(&self.cpu, 0, &self.context.pool);
    BT_IF_OK(status, check(&self, seed, name));
    *worst = self.worst;
    for (int i = 0; i < body->count; ++i) {
        bt_mem_free(self.tiles[i]);
        if (self.at[i]) {
            self.cpu.backend->memory_free(&self.cpu, self.at[i]);
        }
    }
    bt_mem_free(self.narrow);
    bt_mem_free(self.pieces);
    bt_pool_destroy(self.context.pool);
    bt_device_close(&self.cpu);
    return status;
}

// ---- outputs of our own call -------------------------------------------------------------------

typedef struct call_outputs {
    kernel_run *run;
    kernel_call *call;
} call_outputs;

// Everything from a window's first element to its last is copied at once, since runs are short.
static bt_status read_call(void *context, int index, const kernel_window *window, void *out)
{
    const call_outputs *self = context;
    bt_device *device = self->run->device;
    const size_t size = bt_dtype_size(self->run->body.operands[index].dtype);
    const size_t run_bytes = (size_t)window->length * size;
    const size_t span_bytes = (size_t)((window->runs - 1) * window->stride) * size + run_bytes;
    BT_SCOPED_MEM(void *) block = NULL;
    if (window->runs > 1) {
        BT_TRY(bt_mem_alloc(span_bytes, 1, &block));
    }
    bt_status status = device->backend->copy(
        device, block ? block : out, (char *)self->call->at[index] + (size_t)window->first * size,
        span_bytes, BT_COPY_DEVICE_TO_HOST, self->run->stream);
    BT_IF_OK(status, device->backend->stream_synchronize(device, self->run->stream));
    for (int64_t i = 0; block && status == BT_OK && i < window->runs; ++i) {
        memcpy((char *)out + (size_t)i * run_bytes,
               (const char *)block + (size_t)(i * window->stride) * size, run_bytes);
    }
    return status;
}

bt_status bt_kernel_check(kernel_run *run, kernel_call *call, double *worst)
{
    call_outputs self = {run, call};
    const kernel_outputs outputs = {&self, read_call};
    return bt_kernel_check_outputs(&run->body, run->seed, &outputs, run->kernel->name, worst);
}

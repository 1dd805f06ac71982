// harness/cases/kernel_check.c - a call's outputs against the reference in f64, chunk by chunk
//
// Every element of every output is compared. The reference runs on so many rows at a time that its
// operands stay within some hundred megabytes, whatever the case's size.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/cases/kernel.h"

#define CHUNK_ELEMENTS (1 << 22) // of the operand with the longest rows

typedef struct checking {
    kernel_run *run;
    kernel_call *call;
    bt_device cpu;
    double *tiles[BT_OPERANDS_MAX]; // owned: inputs' sequences
    void *at[BT_OPERANDS_MAX];      // owned, of the CPU's device: operands of a chunk
    void *narrow;                   // owned: outputs as the device has them
    double *actual;                 // owned: the same in f64
    int64_t chunk_rows;
    double worst; // share of the tolerance
    char where[160];
} checking;

static bool is_input(const bt_operand *operand)
{
    return operand->role == BT_OPERAND_IN || operand->role == BT_OPERAND_INOUT;
}

static bt_status allocate(checking *self)
{
    const bt_kernel_body *body = &self->run->body;
    int64_t longest = 1, largest = 1;
    for (int i = 0; i < body->count; ++i) {
        longest = body->operands[i].per_row > longest ? body->operands[i].per_row : longest;
    }
    self->chunk_rows = CHUNK_ELEMENTS / longest > 1 ? CHUNK_ELEMENTS / longest : 1;
    self->chunk_rows =
        self->chunk_rows < body->rows && body->in_chunks ? self->chunk_rows : body->rows;
    for (int i = 0; i < body->count; ++i) {
        const bt_operand *operand = &body->operands[i];
        int64_t count = bt_operand_count(operand, self->chunk_rows);
        largest = count > largest ? count : largest;
        BT_TRY(self->cpu.backend->memory_alloc(
            &self->cpu, (size_t)(count ? count : 1) * sizeof(double), &self->at[i]));
        if (is_input(operand)) {
            int64_t all = bt_operand_count(operand, body->rows);
            int64_t tile = all < BT_OPERAND_TILE ? all : BT_OPERAND_TILE;
            void *block = NULL;
            BT_TRY(bt_mem_alloc((size_t)tile, sizeof(double), &block));
            self->tiles[i] = block;
            BT_TRY(bt_kernel_tile(self->run, i, self->tiles[i], tile));
        }
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)largest, sizeof(double), &self->narrow));
    BT_TRY(bt_mem_alloc((size_t)largest, sizeof(double), &block));
    self->actual = block;
    return BT_OK;
}

// Elements [start, start + count) of an operand's sequence, which repeats its tile.
static void lay_out_operand(const checking *self, int index, int64_t start, int64_t count)
{
    const bt_operand *operand = &self->run->body.operands[index];
    int64_t all = bt_operand_count(operand, self->run->body.rows);
    int64_t tile = all < BT_OPERAND_TILE ? all : BT_OPERAND_TILE;
    size_t size = operand->dtype == BT_I32 ? sizeof(int32_t) : sizeof(double);
    for (int64_t done = 0; done < count;) {
        int64_t from = (start + done) % tile;
        int64_t part = tile - from < count - done ? tile - from : count - done;
        bt_kernel_narrow(operand->dtype == BT_I32 ? BT_I32 : BT_F64, self->tiles[index] + from,
                         part, (char *)self->at[index] + (size_t)done * size);
        done += part;
    }
}

// The inputs of rows [first, first + rows) as the reference wants them.
static void lay_out(const checking *self, int64_t first, int64_t rows)
{
    const bt_kernel_body *body = &self->run->body;
    for (int i = 0; i < body->count; ++i) {
        const bt_operand *operand = &body->operands[i];
        if (is_input(operand) && (operand->per_row > 0 || first == 0)) {
            lay_out_operand(self, i, operand->per_row * first, bt_operand_count(operand, rows));
        }
    }
}

static bt_status run_reference(checking *self, int64_t rows, bool accumulate)
{
    const bt_kernel_body *body = &self->run->body;
    void *block = NULL, *workspace = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_kernel_items), &block));
    bt_kernel_args args;
    memset(&args, 0, sizeof args);
    body->args(body, rows, self->at, true, accumulate, block, &args);
    const bt_kernel *kernel = NULL;
    bt_status status = bt_kernel_find(&self->cpu, body->op, BT_F64, &args, &kernel);
    size_t bytes = status == BT_OK && kernel->workspace ? kernel->workspace(&self->cpu, &args) : 0;
    if (bytes) {
        status = self->cpu.backend->memory_alloc(&self->cpu, bytes, &workspace);
    }
    if (status == BT_OK) {
        bt_launch launch = {&self->cpu, NULL, workspace, bytes, 0};
        status = kernel->launch(&launch, &args);
    }
    if (workspace) {
        self->cpu.backend->memory_free(&self->cpu, workspace);
    }
    bt_mem_free(block);
    return status;
}

// An error that is worse than those before, as a share of its tolerance. A NaN where there should
// be none, or the other way round, is the worst of all; infinities of one sign are equal.
static void note(checking *self, const bt_operand *operand, int64_t index, double actual,
                 double expected, double tolerance)
{
    double error = fabs(actual - expected);
    bool equal = (isnan(actual) && isnan(expected)) || (isinf(actual) && actual * expected > 0);
    double share = equal ? 0 : error > 0 || isnan(error) ? error / tolerance : 0;
    if (!(share <= self->worst) && !isnan(self->worst)) {
        self->worst = share;
        (void)snprintf(self->where, sizeof self->where,
                       "%s[%lld] is %.9g, expected %.9g with a tolerance of %.3g", operand->name,
                       (long long)index, actual, expected, tolerance);
    }
}

// One operand's elements from `start` on, `count` of them.
static bt_status compare(checking *self, int index, int64_t start, int64_t count)
{
    const bt_operand *operand = &self->run->body.operands[index];
    const bt_device *device = self->run->device;
    size_t size = bt_dtype_size(operand->dtype);
    const double *expected = self->at[index];
    BT_TRY(device->backend->copy(self->run->device, self->narrow,
                                 (char *)self->call->at[index] + (size_t)start * size,
                                 (size_t)count * size, BT_COPY_DEVICE_TO_HOST, self->run->stream));
    BT_TRY(device->backend->stream_synchronize(self->run->device, self->run->stream));
    bt_kernel_widen(operand->dtype, self->narrow, count, self->actual);
    // |error| <= base + slope |expected|, see bt_operand_tolerance.
    double base = bt_operand_tolerance(&self->run->body, operand, 0);
    double slope = bt_operand_tolerance(&self->run->body, operand, 1) - base;
    for (int64_t i = 0; i < count; ++i) {
        double error = fabs(self->actual[i] - expected[i]);
        double tolerance = base + slope * fabs(expected[i]);
        if (!(error <= self->worst * tolerance)) { // rarely so once the worst has been met
            note(self, operand, start + i, self->actual[i], expected[i], tolerance);
        }
    }
    return BT_OK;
}

static bt_status compare_all(checking *self, int64_t first, int64_t rows, bool whole)
{
    const bt_kernel_body *body = &self->run->body;
    for (int i = 0; i < body->count; ++i) {
        const bt_operand *operand = &body->operands[i];
        bool output = operand->role == BT_OPERAND_OUT || operand->role == BT_OPERAND_INOUT;
        if (output && whole == (operand->per_row == 0)) {
            BT_TRY(compare(self, i, operand->per_row * first, bt_operand_count(operand, rows)));
        }
    }
    return BT_OK;
}

static bt_status check(checking *self)
{
    int64_t rows = self->run->body.rows;
    BT_TRY(allocate(self));
    for (int64_t first = 0; first < rows; first += self->chunk_rows) {
        int64_t part = rows - first < self->chunk_rows ? rows - first : self->chunk_rows;
        lay_out(self, first, part);
        BT_TRY(run_reference(self, part, first > 0));
        BT_TRY(compare_all(self, first, part, false));
    }
    BT_TRY(compare_all(self, 0, rows, true));
    if (!(self->worst <= 1)) {
        return bt_error(BT_STATUS_INTERNAL, "wrong result of %s: %s", self->run->kernel->name,
                        self->where);
    }
    return BT_OK;
}

bt_status bt_kernel_check(kernel_run *run, kernel_call *call, double *worst)
{
    checking self = {.run = run, .call = call};
    BT_TRY(bt_device_open("cpu", 0, &self.cpu));
    bt_status status = check(&self);
    *worst = self.worst;
    for (int i = 0; i < run->body.count; ++i) {
        bt_mem_free(self.tiles[i]);
        if (self.at[i]) {
            self.cpu.backend->memory_free(&self.cpu, self.at[i]);
        }
    }
    bt_mem_free(self.narrow);
    bt_mem_free(self.actual);
    bt_device_close(&self.cpu);
    return status;
}

// harness/diff/diff.c - compares the values of each step, and stores the results
#include "harness/diff/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/record/keep.h"

typedef struct differ {
    const bt_diff_side *sides;
    int64_t steps;
    bt_diff_bound bound;
    bt_diff_result *out;
} differ;

// ---- a step -------------------------------------------------------------------------------------

static bool is_over(const bt_diff_row *row)
{
    return row->bound > 0 ? !(row->difference.l2_relative <= row->bound)
                          : row->difference.differing > 0;
}

// Values that both sides have, in the order of the side that knows it.
static bt_status compare_value(differ *self, const bt_diff_value *a, const bt_diff_value *b,
                               bt_diff_step *step)
{
    const bt_diff_value *told = *a->op || a->depth ? a : b;
    bt_diff_row *row = NULL;
    char shapes[2][BT_SHAPE_TEXT_BYTES];
    if (a->count != b->count) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is %s in %s, %s in %s", a->name,
                        bt_shape_text(&a->shape, shapes[0]), self->sides[0].lockstep.name,
                        bt_shape_text(&b->shape, shapes[1]), self->sides[1].lockstep.name);
    }
    BT_TRY(BT_MEM_GROW(self->out->row_count + 1, &self->out->row_capacity, &self->out->rows));
    row = &self->out->rows[self->out->row_count];
    *row = (bt_diff_row){
        .kind = told->kind, .depth = told->depth, .shape = a->shape, .dtype = {a->dtype, b->dtype}};
    BT_TRY(bt_keep(&self->out->arena, told->name, &row->name));
    BT_TRY(bt_keep(&self->out->arena, told->layer, &row->layer));
    BT_TRY(bt_keep(&self->out->arena, told->op, &row->op));
    bt_difference_of(a, b, &row->difference);
    row->bound = bt_diff_bound_of(&self->bound, told, &row->difference);
    row->over = is_over(row);
    if (row->over && self->out->first_over < 0) {
        self->out->first_over = self->out->row_count;
    }
    step->over += row->over;
    ++step->count;
    ++self->out->row_count;
    return BT_OK;
}

// The difference of the parameters: the start of the next step.
static double drift_of(const bt_diff_result *out, const bt_diff_step *step)
{
    double squares = 0, norms = 0;
    for (int64_t i = step->first; i < step->first + step->count; ++i) {
        const bt_diff_row *row = &out->rows[i];
        if (row->kind == BT_TRAIN_VALUE_STATE && strncmp(row->name, "state.adamw.", 12) != 0) {
            squares += row->difference.l2 * row->difference.l2;
            norms += row->difference.norm * row->difference.norm;
        }
    }
    return norms > 0 ? sqrt(squares / norms) : 0;
}

static bt_status dump(const differ *self, const bt_lockstep_step *step)
{
    char path[4200];
    for (int i = 0; i < 2; ++i) {
        if (self->sides[i].dump) {
            bt_diff_values_path(self->sides[i].dump, step->step, path, sizeof path);
            BT_TRY(bt_diff_values_write(step->values[i], path));
        }
    }
    return BT_OK;
}

static bt_status compare_values(differ *self, const bt_lockstep_step *given, bt_diff_step *step)
{
    // A file may have another order of tensors.
    const int leading = self->sides[0].lockstep.plan ? 0 : 1;
    bt_diff_values *lead = given->values[leading], *other = given->values[1 - leading];
    for (int64_t i = 0; i < lead->count; ++i) {
        const bt_diff_value *found = bt_diff_values_find(other, lead->items[i].name);
        if (!found) {
            ++step->missing;
            continue;
        }
        const bt_diff_value *mine = &lead->items[i];
        BT_TRY(compare_value(self, leading ? found : mine, leading ? mine : found, step));
    }
    return step->count > 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "step %lld: %s and %s have no common value",
                          (long long)given->step, self->sides[0].lockstep.name,
                          self->sides[1].lockstep.name);
}

static bt_status on_step(void *context, const bt_lockstep_step *given, bool *stop)
{
    differ *self = context;
    bt_diff_step *step = NULL;
    BT_TRY(dump(self, given));
    BT_TRY(BT_MEM_GROW(self->out->step_count + 1, &self->out->step_capacity, &self->out->steps));
    step = &self->out->steps[self->out->step_count];
    *step = (bt_diff_step){.step = given->step,
                           .loss = {(double)NAN, (double)NAN},
                           .drift = self->bound.drift,
                           .first = self->out->row_count};
    double lr = 0;
    for (int i = 0; i < 2; ++i) {
        if (self->sides[i].lockstep.plan) {
            step->trains[i] = true;
            step->loss[i] = (double)given->event[i].loss;
            lr = fmax(lr, given->event[i].lr);
        }
    }
    self->bound.travelled += lr;
    BT_TRY(compare_values(self, given, step));
    self->bound.drift = fmax(self->bound.drift, drift_of(self->out, step));
    ++self->out->step_count;
    *stop = self->out->step_count >= self->steps;
    return BT_OK;
}

// ---- all steps ----------------------------------------------------------------------------------

// The longest sum of a step: over a row of the largest product, or over the tokens of a
// micro-batch.
static double longest_sum(const bt_train_plan *plan)
{
    const double width = (double)plan->model.width, vocab = (double)plan->model.vocab;
    return fmax(fmax(4 * width, vocab), (double)(plan->micro_batch * plan->sequence));
}

bt_status bt_diff_run(const bt_diff_side sides[2], int64_t steps, bt_diff_result *out)
{
    const bt_lockstep_side both[2] = {sides[0].lockstep, sides[1].lockstep};
    const bt_diff_arithmetic arithmetic[2] = {sides[0].arithmetic, sides[1].arithmetic};
    const bt_train_plan *plan = both[0].plan ? both[0].plan : both[1].plan;
    int64_t done = 0;
    *out = (bt_diff_result){.first_over = -1};
    if (!plan) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "two folders of values: at least one side must train");
    }
    out->longest = longest_sum(plan);
    out->bound = bt_diff_bound_make(arithmetic, out->longest);
    differ self = {.sides = sides, .steps = steps, .bound = out->bound, .out = out};
    const bt_lockstep_listener listener = {&self, on_step};
    BT_TRY(bt_lockstep_run(both, &listener, &done));
    return done > 0 ? BT_OK : bt_error(BT_STATUS_INVALID_ARGUMENT, "there is no step to compare");
}

void bt_diff_result_release(bt_diff_result *result)
{
    bt_mem_free(result->steps);
    bt_mem_free(result->rows);
    bt_arena_release(&result->arena);
    *result = (bt_diff_result){0};
}

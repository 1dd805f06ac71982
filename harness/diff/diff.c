// harness/diff/diff.c - compares the values of each step, and stores the results
#include "harness/diff/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/diff/gather.h"
#include "harness/diff/update.h"
#include "harness/record/keep.h"

typedef struct differ {
    const bt_diff_side *sides;
    int64_t steps;
    bt_diff_bound bound;
    bt_diff_update update; // of the leading side in this step
    bt_diff_result *out;
} differ;

// ---- a step -------------------------------------------------------------------------------------

static bool is_over(const bt_diff_row *row)
{
    return row->bound > 0 ? !(row->difference.l2_relative <= row->bound)
                          : row->difference.differing > 0;
}

static bt_status keep_row(differ *self, const bt_diff_row *made, const char *name,
                          bt_diff_step *step)
{
    bt_diff_row *row = NULL;
    BT_TRY(BT_MEM_GROW(self->out->row_count + 1, &self->out->row_capacity, &self->out->rows));
    row = &self->out->rows[self->out->row_count];
    *row = *made;
    BT_TRY(bt_keep(&self->out->arena, name, &row->name));
    BT_TRY(bt_keep(&self->out->arena, made->layer, &row->layer));
    BT_TRY(bt_keep(&self->out->arena, made->op, &row->op));
    row->over = is_over(row);
    if (row->over && self->out->first_over < 0) {
        self->out->first_over = self->out->row_count;
    }
    step->over += row->over;
    self->out->wide += row->wide;
    ++step->count;
    ++self->out->row_count;
    return BT_OK;
}

// The smaller depth: additional calls of a mesh do not count.
static int64_t depth_of(const bt_diff_value *a, const bt_diff_value *b)
{
    return a->depth > 0 && b->depth > 0 ? (a->depth < b->depth ? a->depth : b->depth)
                                        : a->depth + b->depth;
}

// ---- the update ---------------------------------------------------------------------------------

static bool is_parameter(const bt_diff_value *value)
{
    return value->kind == BT_TRAIN_VALUE_STATE && strncmp(value->name, "state.adamw.", 12) != 0;
}

// The L2 norm of the difference of a parameter before this step; false if the step before did not
// compare it. Both sides begin with the same parameters.
static bool find_before(const differ *self, const char *name, double *out)
{
    const bt_diff_result *done = self->out; // up to the step before
    *out = 0;
    if (done->step_count == 0) {
        return true;
    }
    const bt_diff_step *last = &done->steps[done->step_count - 1];
    BT_EACH(const bt_diff_row, row, &done->rows[last->first], last->count) {
        if (strcmp(row->name, name) == 0) {
            *out = row->difference.l2;
            return true;
        }
    }
    return false;
}

static bool find_moments(const char *name, char letter, bt_diff_values *const values[2],
                         int64_t count, const bt_diff_value *out[2])
{
    char moment[BT_DIFF_NAME_BYTES + 16];
    (void)snprintf(moment, sizeof moment, "state.adamw.%c.%s", letter, name + strlen("state."));
    for (int side = 0; side < 2; ++side) {
        out[side] = bt_diff_values_find(values[side], moment);
        if (!out[side] || out[side]->count != count) {
            return false;
        }
    }
    return true;
}

// A parameter's bound, from the moments of both sides if they are known.
static void bound_parameter(const differ *self, const bt_diff_value *a,
                            bt_diff_values *const values[2], bt_diff_row *row)
{
    const bt_diff_value *m[2], *v[2];
    bt_diff_update update = self->update;
    if (row->bound <= 0 || !is_parameter(a)) {
        return;
    }
    row->wide = !find_moments(a->name, 'm', values, a->count, m) ||
                !find_moments(a->name, 'v', values, a->count, v) ||
                !find_before(self, a->name, &update.before);
    if (!row->wide) {
        row->bound = fmin(row->bound, bt_diff_update_bound(&update, m, v, &row->difference));
    }
}

// ---- all values of a step -----------------------------------------------------------------------

// Values that both sides have, in the order of the side that knows it.
static bt_status compare_value(differ *self, const bt_diff_value *a, const bt_diff_value *b,
                               bt_diff_values *const values[2], bt_diff_step *step)
{
    bt_diff_value told = *a->op || a->depth ? *a : *b;
    char shapes[2][BT_SHAPE_TEXT_BYTES];
    BT_FAIL_IF(a->count != b->count, BT_STATUS_INVALID_ARGUMENT, "%s is %s in %s, %s in %s",
               a->name, bt_shape_text(&a->shape, shapes[0]), self->sides[0].lockstep.name,
               bt_shape_text(&b->shape, shapes[1]), self->sides[1].lockstep.name);
    told.depth = depth_of(a, b);
    bt_diff_row row = {.kind = told.kind,
                       .layer = told.layer,
                       .op = told.op,
                       .depth = told.depth,
                       .shape = a->shape,
                       .dtype = {a->dtype, b->dtype}};
    bt_difference_of(a, b, &row.difference);
    row.bound = bt_diff_bound_of(&self->bound, &told, &row.difference);
    bound_parameter(self, a, values, &row);
    row.rank[0] = bt_diff_rank_of(a, row.difference.worst);
    row.rank[1] = bt_diff_rank_of(b, row.difference.worst);
    return keep_row(self, &row, told.name, step);
}

// Replicas that differ from the first rank's: they must have the same bits.
static bt_status compare_copies(differ *self, int side, const bt_diff_values *values,
                                const bt_diff_value *value, bt_diff_step *step)
{
    const bt_diff_value *end = values->items + values->count;
    for (const bt_diff_value *copy = value + 1; copy < end && copy->copy_of; ++copy) {
        char name[BT_DIFF_NAME_BYTES + 64];
        bt_diff_row row = {.kind = value->kind,
                           .layer = value->layer,
                           .op = value->op,
                           .depth = value->depth,
                           .shape = copy->shape,
                           .dtype = {copy->dtype, copy->dtype},
                           .rank = {-1, -1}};
        row.rank[side] = copy->rank;
        (void)snprintf(name, sizeof name, "%s (copy of rank %d of %s)", value->name, copy->rank,
                       self->sides[side].lockstep.name);
        bt_difference_of(side ? copy->copy_of : copy, side ? copy : copy->copy_of, &row.difference);
        BT_TRY(keep_row(self, &row, name, step));
    }
    return BT_OK;
}

// The difference of the parameters: the start of the next step.
static double drift_of(const bt_diff_result *out, const bt_diff_step *step)
{
    double squares = 0, norms = 0;
    for (int64_t i = step->first; i < step->first + step->count; ++i) {
        const bt_diff_row *row = &out->rows[i];
        if (row->kind == BT_TRAIN_VALUE_STATE && strncmp(row->name, "state.adamw.", 12) != 0 &&
            !strchr(row->name, ' ')) { // no copy
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

static bt_status keep_missing(differ *self, const bt_diff_value *value, int side,
                              bt_diff_step *step)
{
    bt_diff_result *out = self->out;
    BT_TRY(BT_MEM_GROW(out->missing_count + 1, &out->missing_capacity, &out->missing));
    bt_diff_missing *row = &out->missing[out->missing_count];
    *row = (bt_diff_missing){.side = side,
                             .why = bt_diff_missing_why(value, &self->sides[1 - side].lockstep)};
    BT_TRY(bt_keep(&out->arena, value->name, &row->name));
    ++out->missing_count;
    ++step->missing;
    return BT_OK;
}

// The values of a side that the other lacks.
static bt_status add_missing(differ *self, int side, bt_diff_values *const values[2],
                             bt_diff_step *step)
{
    BT_EACH(const bt_diff_value, value, values[side]->items, values[side]->count) {
        if (!value->copy_of && !bt_diff_values_find(values[1 - side], value->name)) {
            BT_TRY(keep_missing(self, value, side, step));
        }
    }
    return BT_OK;
}

static bt_status compare_values(differ *self, const bt_lockstep_step *given, bt_diff_step *step)
{
    // A file may have another order of tensors.
    const int leading = self->sides[0].lockstep.plan ? 0 : 1;
    bt_diff_values *lead = given->values[leading], *other = given->values[1 - leading];
    BT_EACH(const bt_diff_value, mine, lead->items, lead->count) {
        const bt_diff_value *found = mine->copy_of ? NULL : bt_diff_values_find(other, mine->name);
        if (found) {
            BT_TRY(compare_value(self, leading ? found : mine, leading ? mine : found,
                                 given->values, step));
            BT_TRY(compare_copies(self, leading, lead, mine, step));
            BT_TRY(compare_copies(self, 1 - leading, other, found, step));
        }
    }
    BT_TRY(add_missing(self, 0, given->values, step));
    BT_TRY(add_missing(self, 1, given->values, step));
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
                           .first = self->out->row_count,
                           .missing_first = self->out->missing_count};
    double lr = 0;
    for (int i = 1; i >= 0; --i) {
        const bt_train_plan *plan = self->sides[i].lockstep.plan;
        if (plan) {
            step->trains[i] = true;
            step->loss[i] = (double)given->event[i].loss;
            lr = fmax(lr, given->event[i].lr);
            self->update = (bt_diff_update){.lr = given->event[i].lr,
                                            .beta1 = plan->optimizer.beta1,
                                            .beta2 = plan->optimizer.beta2,
                                            .epsilon = plan->optimizer.epsilon,
                                            .step = given->step + 1};
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

bool bt_diff_same_order(const bt_train_plan *a, const bt_train_plan *b)
{
    const bt_train_parallel *p = &a->parallel, *q = &b->parallel;
    const bt_diff_mesh m = bt_diff_mesh_of(a), n = bt_diff_mesh_of(b);
    const bool zero2 = p->sharding == BT_SHARDING_ZERO2 || q->sharding == BT_SHARDING_ZERO2;
    const bool any_ranks = p->invariant > 0 && p->invariant == q->invariant && !zero2;
    const bool same_ranks = m.degrees.data == n.degrees.data && p->invariant == q->invariant &&
                            (!zero2 || p->sharding == q->sharding);
    return m.degrees.tensor == n.degrees.tensor && m.degrees.context == n.degrees.context &&
           p->sequence_parallel == q->sequence_parallel && (any_ranks || same_ranks);
}

bt_status bt_diff_run(const bt_diff_side sides[2], int64_t steps, bt_diff_result *out)
{
    const bt_lockstep_side both[2] = {sides[0].lockstep, sides[1].lockstep};
    const bt_diff_arithmetic arithmetic[2] = {sides[0].arithmetic, sides[1].arithmetic};
    const bt_train_plan *plan = both[0].plan ? both[0].plan : both[1].plan;
    int64_t done = 0;
    *out = (bt_diff_result){.first_over = -1};
    BT_FAIL_IF(!plan, BT_STATUS_INVALID_ARGUMENT,
               "two folders of values: at least one side must train");
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
    bt_mem_free(result->missing);
    bt_arena_release(&result->arena);
    *result = (bt_diff_result){0};
}

// harness/diff/bisect.c - narrows the range of steps by records, then trains them again
#include "harness/diff/bisect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "framework/checkpoint/checkpoint.h"
#include "harness/stats/loss.h"

static const struct {
    const char *name;
} records[] = {
#define BT_BISECT_RECORD_ROW(name, text) {text},
    BT_BISECT_RECORD_LIST(BT_BISECT_RECORD_ROW)
#undef BT_BISECT_RECORD_ROW
};

const char *bt_bisect_record_name(bt_bisect_record record) { return records[record].name; }

// ---- records ------------------------------------------------------------------------------------

static const bt_store_step *step_of(const bt_store_round *round, int64_t step)
{
    for (int64_t i = 0; i < round->step_count; ++i) {
        if (round->steps[i].step == step) {
            return &round->steps[i];
        }
    }
    return NULL;
}

static bt_status compare_steps(const bt_bisect_side sides[2], bt_bisect_span *out)
{
    const bt_store_round *a = sides[0].round, *b = sides[1].round;
    int64_t common = 0;
    for (int64_t i = 0; i < a->step_count && out->differs == BT_BISECT_NOTHING; ++i) {
        const bt_store_step *mine = &a->steps[i], *other = step_of(b, mine->step);
        if (!other) {
            continue;
        }
        ++common;
        out->last = mine->step;
        if (bt_loss_bits(mine->loss) != bt_loss_bits(other->loss)) {
            out->differs = BT_BISECT_LOSS;
        } else if (bt_loss_bits(mine->grad_norm) != bt_loss_bits(other->grad_norm)) {
            out->differs = BT_BISECT_NORM;
        }
    }
    if (out->differs == BT_BISECT_NOTHING && a->step_count == b->step_count &&
        strcmp(a->params_digest, b->params_digest) != 0) {
        out->differs = BT_BISECT_DIGEST;
    }
    return common > 0 ? BT_OK
                      : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s and %s have no common step",
                                 sides[0].name, sides[1].name);
}

// Whether both sides have a checkpoint of that step that can be resumed, and its digests.
static bool describe(const bt_bisect_side sides[2], int64_t step, bt_checkpoint_info info[2])
{
    bt_error_quiet_begin();
    bool whole = true;
    for (int i = 0; i < 2 && whole; ++i) {
        const bt_checkpoint_store store = {.folder = sides[i].checkpoints};
        whole = bt_checkpoint_describe(&store, step, &info[i], NULL) == BT_OK;
    }
    bt_error_quiet_end();
    return whole;
}

// Checkpoints with equal digests move the beginning up; the first with different digests moves the
// end down.
static bt_status compare_checkpoints(const bt_bisect_side sides[2], bt_bisect_span *out)
{
    const bt_checkpoint_store store = {.folder = sides[0].checkpoints};
    BT_SCOPED_MEM(int64_t *) steps = NULL;
    int64_t count = 0;
    bool parted = false;
    if (!sides[0].checkpoints || !sides[1].checkpoints) {
        return BT_OK;
    }
    BT_TRY(bt_checkpoint_list(&store, &steps, &count));
    for (int64_t i = 0; i < count && !parted; ++i) {
        bt_checkpoint_info info[2];
        if (steps[i] < 1 || steps[i] > out->last + 1 || !describe(sides, steps[i], info)) {
            continue;
        }
        parted = strcmp(info[0].tensors_digest, info[1].tensors_digest) != 0;
        if (!parted) {
            out->first = steps[i];
        } else if (steps[i] - 1 < out->last || out->differs == BT_BISECT_NOTHING) {
            out->last = steps[i] - 1; // its state is that after the previous step
            out->differs = BT_BISECT_CHECKPOINT;
        }
    }
    return BT_OK;
}

// The first recorded state digest that differs moves the end down: it is the state after a step.
static void compare_states(const bt_bisect_side sides[2], bt_bisect_span *out)
{
    const bt_store_round *a = sides[0].round, *b = sides[1].round;
    for (int64_t i = 0, k = 0; i < a->state_count && k < b->state_count;) {
        const bt_store_state *x = &a->states[i], *y = &b->states[k];
        if (x->step == y->step && strcmp(x->digest, y->digest) != 0) {
            if (x->step - 1 < out->last || out->differs == BT_BISECT_NOTHING) {
                out->last = x->step - 1;
                out->differs = BT_BISECT_STATE;
            }
            return;
        }
        i += x->step <= y->step;
        k += y->step <= x->step;
    }
}

bt_status bt_bisect_span_of(const bt_bisect_side sides[2], bt_bisect_span *out)
{
    *out = (bt_bisect_span){.differs = BT_BISECT_NOTHING, .last = -1};
    BT_TRY(compare_steps(sides, out));
    compare_states(sides, out);
    return compare_checkpoints(sides, out);
}

// ---- replay -------------------------------------------------------------------------------------

typedef struct replay {
    const bt_bisect_side *sides;
    bt_bisect_result *out;
} replay;

static void hold_against_record(replay *self, const bt_lockstep_step *step, int index)
{
    const bt_train_step *event = &step->event[index];
    const bt_store_step *record = step_of(self->sides[index].round, step->step);
    if (self->out->strange[index] < 0 && record &&
        (bt_loss_bits(record->loss) != bt_loss_bits(event->loss) ||
         bt_loss_bits(record->grad_norm) != bt_loss_bits(event->grad_norm))) {
        self->out->strange[index] = step->step;
    }
}

static void note_value(replay *self, int64_t step, const bt_diff_value *value)
{
    bt_bisect_result *out = self->out;
    out->found = true;
    out->step = step;
    out->shape = value->shape;
    out->dtype = value->dtype;
    (void)snprintf(out->name, sizeof out->name, "%s", value->name);
    (void)snprintf(out->layer, sizeof out->layer, "%s", value->layer);
    (void)snprintf(out->op, sizeof out->op, "%s", value->op);
}

// Compares more than the values of a step: a kernel may be wrong in the norm only.
static void compare_numbers(replay *self, const bt_lockstep_step *step)
{
    const bt_train_step *a = &step->event[0], *b = &step->event[1];
    const struct {
        const char *name;
        float a, b;
    } rows[] = {{"loss", a->loss, b->loss}, {"gradient norm", a->grad_norm, b->grad_norm}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !self->out->found; ++i) {
        if (bt_loss_bits(rows[i].a) != bt_loss_bits(rows[i].b)) {
            const bt_diff_value value = {
                .name = rows[i].name, .layer = "", .op = "", .dtype = BT_F32};
            self->out->difference = (bt_difference){.elements = 1,
                                                    .differing = 1,
                                                    .first_a = (double)rows[i].a,
                                                    .first_b = (double)rows[i].b};
            note_value(self, step->step, &value);
        }
    }
}

static bt_status on_step(void *context, const bt_lockstep_step *step, bool *stop)
{
    replay *self = context;
    bt_diff_values *a = step->values[0], *b = step->values[1];
    ++self->out->replayed;
    for (int i = 0; i < 2; ++i) {
        hold_against_record(self, step, i);
    }
    for (int64_t i = 0; i < a->count && !self->out->found; ++i) {
        const bt_diff_value *other = bt_diff_values_find(b, a->items[i].name);
        if (!other) {
            continue;
        }
        if (other->count == a->items[i].count) {
            bt_difference_of(&a->items[i], other, &self->out->difference);
        } else { // models of other shapes
            self->out->difference =
                (bt_difference){.elements = a->items[i].count, .differing = a->items[i].count};
        }
        if (self->out->difference.differing > 0) {
            note_value(self, step->step, &a->items[i]);
        }
    }
    if (!self->out->found) {
        compare_numbers(self, step);
    }
    *stop = self->out->found || step->step >= self->out->span.last;
    return BT_OK;
}

// A store with only this checkpoint, so that training resumes from it, and cannot remove
// checkpoints of the run.
static bt_status lend_checkpoint(const bt_bisect_side *side, int64_t step, char folder[64])
{
    char own[BT_PATH_CAPACITY], lent[128];
    (void)snprintf(folder, 64, "/tmp/bt-bisect-XXXXXX");
    BT_FAIL_IF(!mkdtemp(folder), BT_STATUS_IO, "cannot make %s: %s", folder, strerror(errno));
    (void)snprintf(own, sizeof own, "%s/step-%08lld", side->checkpoints, (long long)step);
    (void)snprintf(lent, sizeof lent, "%s/step-%08lld", folder, (long long)step);
    char *whole = realpath(own, NULL);
    const bool linked = whole && symlink(whole, lent) == 0;
    free(whole);
    return linked ? BT_OK
                  : bt_error(BT_STATUS_IO, "cannot link %s to %s: %s", lent, own, strerror(errno));
}

static void return_checkpoint(int64_t step, const char *folder)
{
    char lent[128];
    (void)snprintf(lent, sizeof lent, "%s/step-%08lld", folder, (long long)step);
    (void)unlink(lent);
    (void)rmdir(folder);
}

static bt_status replay_from(const bt_bisect_side sides[2], char folders[2][64],
                             bt_bisect_result *out)
{
    bt_train_plan plans[2] = {*sides[0].plan, *sides[1].plan};
    bt_lockstep_side both[2];
    replay self = {.sides = sides, .out = out};
    const bt_lockstep_listener listener = {&self, on_step};
    int64_t steps = 0;
    for (int i = 0; i < 2; ++i) {
        plans[i].checkpoints = (bt_train_checkpoints){0};
        if (out->span.first > 0) {
            BT_TRY(lend_checkpoint(&sides[i], out->span.first, folders[i]));
            plans[i].checkpoints.folder = folders[i];
            plans[i].checkpoints.resume = true;
        }
        both[i] = (bt_lockstep_side){.name = sides[i].name, .plan = &plans[i]};
    }
    return bt_lockstep_run(both, &listener, &steps);
}

bt_status bt_bisect_run(const bt_bisect_side sides[2], bt_bisect_result *out)
{
    char folders[2][64] = {"", ""};
    *out = (bt_bisect_result){.strange = {-1, -1}};
    BT_TRY(bt_bisect_span_of(sides, &out->span));
    if (out->span.differs == BT_BISECT_NOTHING) {
        return BT_OK;
    }
    bt_status status = replay_from(sides, folders, out);
    for (int i = 0; i < 2; ++i) {
        if (*folders[i]) {
            return_checkpoint(out->span.first, folders[i]);
        }
    }
    return status;
}

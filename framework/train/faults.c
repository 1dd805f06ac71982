// framework/train/faults.c - handles non-finite losses, spikes and corruption
//
// When a step with a non-finite loss or norm is judged here, its parameters are unchanged: under a
// policy the update was refused, and without one AdamW skips it. So the step can be replayed in
// anomaly mode from its start. The replay either names the op, or it is finite, and then the first
// result was a hardware error. Several ranks replay together and reach the same verdict; the rank
// that finds the first non-finite value stops the others, which report that rank and op.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/train/trainer.h"

enum { MESSAGE_BYTES = BT_ERROR_CAPACITY + 512 };

// Prefix of an anomaly's error. Other ranks receive it as the reason of an abort, as text.
static const char anomaly_mark[] = "anomaly mode: ";

static const struct {
    const char *name;
} policies[] =
    {
#define BT_TRAIN_POLICY_ROW(name, text, meaning) {text},
        BT_TRAIN_POLICY_LIST(BT_TRAIN_POLICY_ROW)
#undef BT_TRAIN_POLICY_ROW
},
  kinds[] = {
#define BT_TRAIN_FAULT_ROW(name, text, meaning) {text},
      BT_TRAIN_FAULT_LIST(BT_TRAIN_FAULT_ROW)
#undef BT_TRAIN_FAULT_ROW
};

const char *bt_train_policy_name(bt_train_policy policy)
{
    return (unsigned)policy < BT_TRAIN_POLICY_COUNT ? policies[policy].name : "unknown";
}

bool bt_train_policy_parse(const char *name, bt_train_policy *policy)
{
    for (int i = 0; i < BT_TRAIN_POLICY_COUNT; ++i) {
        if (strcmp(policies[i].name, name) == 0) {
            *policy = (bt_train_policy)i;
            return true;
        }
    }
    return false;
}

const char *bt_train_fault_name(bt_train_fault_kind kind)
{
    return (unsigned)kind < BT_TRAIN_FAULT_COUNT ? kinds[kind].name : "unknown";
}

static bt_status report(const bt_trainer *t, int64_t step, bt_train_fault_kind kind,
                        const char *action, const char *message)
{
    const bt_train_fault event = {step, kind, action, message};
    return t->observer->fault ? t->observer->fault(t->observer->self, &event) : BT_OK;
}

bt_status bt_faults_begin(bt_trainer *t, int64_t step)
{
    t->faults.from = bt_feed_cursor(&t->feed);
    return bt_verify_due(t, step) ? bt_verify_begin(t, step) : BT_OK;
}

// ---- a loss that is not finite ------------------------------------------------------------------

// Recomputes the gradients of the step with every op checked, then restores the state before the
// replay.
static bt_status replay_in_anomaly_mode(bt_trainer *t, int64_t step)
{
    bt_context *context = &t->session.context;
    const bt_loader_cursor behind = bt_feed_cursor(&t->feed);
    bt_step_graph_drop(t); // the optimizer sees gradients at other addresses
    BT_TRY(bt_feed_seek(&t->feed, t->faults.from, 1));
    context->anomaly = true;
    bt_range_push(context, "step");
    bt_status status = bt_step_gradients(t);
    if (status == BT_OK) {
        status = bt_step_measure(t);
    }
    if (status == BT_OK) {
        status = bt_step_read(t);
    }
    bt_range_pop(context);
    context->anomaly = t->plan->anomaly;
    bt_error_quiet_begin();
    context->tape = NULL;
    bt_tape_reset(t->session.tape);
    bt_params_clear_grads(&t->params);
    const bt_status waited = bt_context_synchronize(context);
    bt_status restored = bt_feed_seek(&t->feed, behind, t->plan->steps - step - 1);
    bt_error_quiet_end();
    if (status == BT_OK && (waited != BT_OK || restored != BT_OK)) {
        return bt_error(waited != BT_OK ? waited : restored, "continuing after a replayed step");
    }
    return status;
}

// The result of the replay: the op at fault, an overflow of the norm, or nothing.
static bt_status diagnose(bt_trainer *t, int64_t step, char message[MESSAGE_BYTES])
{
    const double loss = (double)t->loss, norm = (double)t->grad_norm;
    if (bt_ranks_world(t) > 1) {
        (void)snprintf(message, MESSAGE_BYTES,
                       "loss %g, gradient norm %g, on %d ranks, which do not replay steps; to find "
                       "the op, train on one rank",
                       loss, norm, bt_ranks_world(t));
        return BT_OK;
    }
    const bt_status status = replay_in_anomaly_mode(t, step);
    char why[BT_ERROR_CAPACITY + 128];
    if (status == BT_STATUS_CORRUPT_DATA) {
        (void)snprintf(why, sizeof why,
                       "a replay gives it too, so the cause is software or data: %s",
                       bt_error_message());
    } else if (status != BT_OK) {
        return status;
    } else if (bt_step_is_finite(t)) {
        (void)snprintf(why, sizeof why,
                       "a replay of the step is finite: the first result was a hardware error");
    } else {
        (void)snprintf(why, sizeof why,
                       "a replay gives it too, but every value of every op is finite: a sum "
                       "overflows (loss %g, norm %g)",
                       (double)t->loss, (double)t->grad_norm);
    }
    bt_error_clear();
    (void)snprintf(message, MESSAGE_BYTES, "loss %g, gradient norm %g; %s", loss, norm, why);
    return BT_OK;
}

static bt_status roll_back(bt_trainer *t, int64_t step, char message[MESSAGE_BYTES])
{
    int64_t from = 0;
    BT_TRY(bt_error_context(bt_keep_roll_back(t, step + 1, &from), "%s", message));
    const size_t length = strlen(message);
    (void)snprintf(message + length, MESSAGE_BYTES - length,
                   "; parameters and moments of step %lld were restored, the batches of steps %lld "
                   "to %lld are skipped",
                   (long long)from, (long long)from, (long long)step);
    return BT_OK;
}

static bt_status refuse(bt_trainer *t, int64_t step)
{
    const bt_train_policy policy = t->plan->on_nonfinite;
    char message[MESSAGE_BYTES];
    BT_TRY(diagnose(t, step, message));
    const bool last = ++t->faults.refused > BT_TRAIN_REFUSALS_MAX;
    if (policy == BT_TRAIN_POLICY_STOP || last) {
        BT_TRY(report(t, step, BT_TRAIN_FAULT_NONFINITE, "stop", message));
        t->faults.alike = true;
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s%s", message,
                        last ? "; too many such steps in a row" : "");
    }
    if (policy == BT_TRAIN_POLICY_ROLLBACK) {
        BT_TRY(roll_back(t, step, message));
    }
    return report(t, step, BT_TRAIN_FAULT_NONFINITE, bt_train_policy_name(policy), message);
}

// Without a policy only the first of several consecutive steps is reported; the record has the
// others.
static bt_status note(bt_trainer *t, int64_t step)
{
    char message[160];
    if (t->faults.nonfinite) {
        return BT_OK;
    }
    (void)snprintf(message, sizeof message,
                   "loss %g, gradient norm %g; the parameters are updated %s", (double)t->loss,
                   (double)t->grad_norm,
                   isfinite(t->grad_norm) ? "nevertheless" : "again once the norm is finite");
    return report(t, step, BT_TRAIN_FAULT_NONFINITE, "continue", message);
}

// ---- spikes and corruption ----------------------------------------------------------------------

static bt_status look(bt_trainer *t, int64_t step)
{
    bt_guard_flag spike, explosion;
    char message[160];
    bt_guard_look(&t->faults.guard, (double)t->loss, (double)t->grad_norm, &spike, &explosion);
    if (spike.raised) {
        (void)snprintf(message, sizeof message, "loss %.5g, median of the last %d %.5g, limit %.5g",
                       (double)t->loss, BT_GUARD_WINDOW, spike.median, spike.limit);
        BT_TRY(report(t, step, BT_TRAIN_FAULT_SPIKE, "continue", message));
    }
    if (explosion.raised) {
        (void)snprintf(message, sizeof message,
                       "gradient norm %.5g, median of the last %d %.5g, limit %.5g",
                       (double)t->grad_norm, BT_GUARD_WINDOW, explosion.median, explosion.limit);
        BT_TRY(report(t, step, BT_TRAIN_FAULT_EXPLOSION, "continue", message));
    }
    return BT_OK;
}

static bt_status verify(bt_trainer *t, int64_t step)
{
    char message[MESSAGE_BYTES] = "";
    bool agree = true;
    BT_TRY(bt_verify_end(t, step, &agree, message, sizeof message));
    if (!*message) {
        return BT_OK;
    }
    BT_TRY(report(t, step, BT_TRAIN_FAULT_CORRUPTION, agree ? "corrected" : "stop", message));
    return agree ? BT_OK : bt_error(BT_STATUS_CORRUPT_DATA, "%s", message);
}

bt_status bt_faults_end(bt_trainer *t, int64_t step)
{
    const bool finite = bt_step_is_finite(t);
    if (!finite) {
        BT_TRY(t->plan->on_nonfinite == BT_TRAIN_POLICY_CONTINUE ? note(t, step) : refuse(t, step));
    } else {
        t->faults.refused = 0;
        BT_TRY(look(t, step));
        BT_TRY(bt_verify_due(t, step) ? verify(t, step) : BT_OK);
    }
    t->faults.nonfinite = !finite;
    return BT_OK;
}

bt_status bt_faults_failed(bt_trainer *t, int64_t step, bt_status status)
{
    // The abort of another rank names the rank and the reason: not every abort is an anomaly.
    const bool own = status == BT_STATUS_CORRUPT_DATA;
    const bool others =
        status == BT_STATUS_INTERRUPTED && strstr(bt_error_message(), anomaly_mark) != NULL;
    if (!t->plan->anomaly || (!own && !others)) {
        return status;
    }
    char message[BT_ERROR_CAPACITY];
    (void)snprintf(message, sizeof message, "%s", bt_error_message());
    BT_TRY(report(t, step, BT_TRAIN_FAULT_ANOMALY, "stop", message));
    return bt_error(status, "%s%s", own ? anomaly_mark : "", message);
}

void bt_faults_close(bt_trainer *t)
{
    if (t->faults.snapshot) {
        bt_pool_free(t->session.pool, t->faults.snapshot);
    }
    t->faults.snapshot = NULL;
}

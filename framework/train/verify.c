// framework/train/verify.c - replays a step from its start and compares the bits
//
// The same build, device and plan give the same bits (train.h, invariant 1). So if a replay
// differs, the hardware made an error in one of them. A third run decides: the state that two of
// three runs gave is kept. If all three differ, the run ends. An error that repeats exactly is not
// found.
// Ranks replay together, each from a copy of what it updates. Loss, norm and digest cover all
// ranks, so every rank gets the same verdict. The cost of a verified step: a copy of the state in
// device memory, one more step, two digests.
#include <stdio.h>
#include <string.h>

#include "framework/train/trainer.h"

typedef struct outcome {
    float loss, grad_norm;
    char digest[33]; // of the state after the step
} outcome;

bool bt_verify_due(const bt_trainer *t, int64_t step)
{
    const int64_t every = t->plan->verify_every;
    return every > 0 && (step + 1) % every == 0;
}

// Master or moment i of what this rank updates.
static bt_tensor *updated_tensor(const bt_trainer *t, int64_t i, int kind)
{
    const bt_adamw *optimizer = &t->optimizer;
    bt_tensor *part = optimizer->slices ? optimizer->slices[i].master : NULL;
    bt_tensor *const of[BT_STATE_KINDS] = {part ? part : t->params.items[i].master, optimizer->m[i],
                                           optimizer->v[i]};
    return of[kind];
}

static size_t state_bytes(const bt_trainer *t)
{
    size_t size_bytes = 0;
    for (int64_t i = 0; i < BT_STATE_KINDS * t->optimizer.count; ++i) {
        size_bytes +=
            bt_tensor_bytes(updated_tensor(t, i / BT_STATE_KINDS, (int)(i % BT_STATE_KINDS)));
    }
    return size_bytes;
}

static bt_status copy_state(bt_trainer *t, bool back)
{
    bt_device *device = &t->session.device;
    size_t at = 0;
    for (int64_t i = 0; i < BT_STATE_KINDS * t->optimizer.count; ++i) {
        bt_tensor *tensor = updated_tensor(t, i / BT_STATE_KINDS, (int)(i % BT_STATE_KINDS));
        const size_t size_bytes = bt_tensor_bytes(tensor);
        void *kept = t->faults.snapshot + at, *live = bt_tensor_data(tensor);
        BT_TRY(device->backend->copy(device, back ? live : kept, back ? kept : live, size_bytes,
                                     BT_COPY_DEVICE_TO_DEVICE, t->session.context.stream));
        if (back) {
            bt_tensor_touch(tensor);
        }
        at += size_bytes;
    }
    return BT_OK;
}

bt_status bt_verify_begin(bt_trainer *t, int64_t step)
{
    if (!t->faults.snapshot) {
        void *block = NULL;
        BT_TRY(bt_error_context(bt_pool_alloc_aside(t->session.pool, state_bytes(t),
                                                    t->session.context.stream, "state to replay",
                                                    &block),
                                "verify_every"));
        t->faults.snapshot = block;
    }
    bt_keep_values(t, step, &t->faults.values);
    return copy_state(t, false);
}

static bt_status read_outcome(bt_trainer *t, int64_t step, outcome *out)
{
    out->loss = t->loss;
    out->grad_norm = t->grad_norm;
    return bt_keep_digest(t, step + 1, out->digest);
}

static bt_status replay(bt_trainer *t, int64_t step, outcome *out)
{
    BT_TRY(copy_state(t, true));
    BT_TRY(bt_keep_take_masters(t, &t->faults.values));
    BT_TRY(bt_step_again(t, step));
    return bt_error_context(read_outcome(t, step, out), "replay");
}

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool same(const outcome *a, const outcome *b)
{
    return bits_of(a->loss) == bits_of(b->loss) && bits_of(a->grad_norm) == bits_of(b->grad_norm) &&
           strcmp(a->digest, b->digest) == 0;
}

bt_status bt_verify_end(bt_trainer *t, int64_t step, bool *agree, char *message, size_t capacity)
{
    outcome run[3];
    *agree = true;
    BT_TRY(read_outcome(t, step, &run[0]));
    BT_TRY(replay(t, step, &run[1]));
    if (same(&run[0], &run[1])) {
        return BT_OK;
    }
    BT_TRY(replay(t, step, &run[2]));
    const bool first_erred = same(&run[1], &run[2]), second_erred = same(&run[0], &run[2]);
    *agree = first_erred || second_erred;
    (void)snprintf(message, capacity,
                   "hardware: the step and its replays differ (loss %08x %08x %08x, norm %08x %08x "
                   "%08x, state %.8s %.8s %.8s); %s",
                   bits_of(run[0].loss), bits_of(run[1].loss), bits_of(run[2].loss),
                   bits_of(run[0].grad_norm), bits_of(run[1].grad_norm), bits_of(run[2].grad_norm),
                   run[0].digest, run[1].digest, run[2].digest,
                   first_erred    ? "the step was wrong, its replays agree: their state is kept"
                   : second_erred ? "the first replay was wrong, the step and the second replay "
                                    "agree: their state is kept"
                                  : "no two results agree");
    t->loss = run[2].loss;
    t->grad_norm = run[2].grad_norm;
    return BT_OK;
}

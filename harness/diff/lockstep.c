// harness/diff/lockstep.c - two threads and the caller between them
//
// State of a side, guarded by the mutex:
//   working --its step is done--> waiting --the caller has compared--> working
//   working --training has ended--> ended
// The side leaves working, the caller leaves waiting.
#include "harness/diff/lockstep.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"

typedef enum side_state { WORKING, WAITING, ENDED } side_state;

typedef struct meeting meeting;

typedef struct side {
    const bt_lockstep_side *given; // borrowed
    meeting *at;                   // borrowed
    bt_diff_values values;
    bt_train_step event; // of the waiting step
    int64_t next_file;
    side_state state;
    bool has_thread;
    pthread_t thread;
    bt_status status; // of an ended side
    char message[BT_ERROR_CAPACITY];
} side;

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stop;
    side sides[2];
};

// ---- on a side's thread -------------------------------------------------------------------------

static bt_status on_value(void *self, bt_context *context, const bt_train_value *value)
{
    side *s = self;
    return bt_diff_values_add(&s->values, context, value);
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    side *s = self;
    (void)pthread_mutex_lock(&s->at->mutex);
    s->event = *event;
    s->state = WAITING;
    (void)pthread_cond_broadcast(&s->at->changed);
    while (s->state == WAITING) {
        (void)pthread_cond_wait(&s->at->changed, &s->at->mutex);
    }
    (void)pthread_mutex_unlock(&s->at->mutex);
    return BT_OK;
}

static bool should_stop(void *self)
{
    side *s = self;
    (void)pthread_mutex_lock(&s->at->mutex);
    const bool stop = s->at->stop;
    (void)pthread_mutex_unlock(&s->at->mutex);
    return stop;
}

static void *train(void *self)
{
    side *s = self;
    bt_train_result result;
    const bt_train_observer observer = {
        .self = s, .step = on_step, .should_stop = should_stop, .value = on_value};
    const bt_status status = bt_train_run(s->given->plan, &observer, &result);
    (void)pthread_mutex_lock(&s->at->mutex);
    s->status = status;
    (void)snprintf(s->message, sizeof s->message, "%s", bt_error_message());
    s->state = ENDED;
    (void)pthread_cond_broadcast(&s->at->changed);
    (void)pthread_mutex_unlock(&s->at->mutex);
    return NULL;
}

// ---- on the caller's ----------------------------------------------------------------------------

static bt_status start(meeting *at, side *s)
{
    s->at = at;
    s->next_file = s->given->first_step;
    if (!s->given->plan) {
        return BT_OK;
    }
    s->has_thread = pthread_create(&s->thread, NULL, train, s) == 0;
    return s->has_thread
               ? BT_OK
               : bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot start a thread for %s", s->given->name);
}

// The next file, or the end of the side where there is none.
static bt_status read_next(side *s)
{
    char path[4200];
    bt_diff_values_path(s->given->folder, s->next_file, path, sizeof path);
    if (!bt_file_exists(path) && s->next_file > s->given->first_step) {
        s->state = ENDED;
        return BT_OK;
    }
    s->event = (bt_train_step){.step = s->next_file++};
    s->state = WAITING;
    return bt_diff_values_read(path, &s->values);
}

// Waits until both sides wait or have ended.
static bt_status wait_for_both(meeting *at)
{
    for (int i = 0; i < 2; ++i) {
        side *s = &at->sides[i];
        if (!s->has_thread && s->state == WORKING) {
            BT_TRY(read_next(s));
        }
    }
    (void)pthread_mutex_lock(&at->mutex);
    while (at->sides[0].state == WORKING || at->sides[1].state == WORKING) {
        (void)pthread_cond_wait(&at->changed, &at->mutex);
    }
    (void)pthread_mutex_unlock(&at->mutex);
    return BT_OK;
}

static void go_on(meeting *at, bool stop)
{
    (void)pthread_mutex_lock(&at->mutex);
    at->stop = at->stop || stop;
    for (int i = 0; i < 2; ++i) {
        side *s = &at->sides[i];
        if (s->state == WAITING) {
            bt_diff_values_clear(&s->values);
            s->state = WORKING;
        }
    }
    (void)pthread_cond_broadcast(&at->changed);
    (void)pthread_mutex_unlock(&at->mutex);
}

static bt_status look(meeting *at, const bt_lockstep_listener *listener, bool *stop)
{
    const side *a = &at->sides[0], *b = &at->sides[1];
    if (a->event.step != b->event.step) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is at step %lld, %s at step %lld",
                        a->given->name, (long long)a->event.step, b->given->name,
                        (long long)b->event.step);
    }
    bt_lockstep_step step = {.step = a->event.step,
                             .event = {a->event, b->event},
                             .values = {&at->sides[0].values, &at->sides[1].values}};
    return listener->step(listener->self, &step, stop);
}

static bt_status run(meeting *at, const bt_lockstep_listener *listener, int64_t *steps)
{
    bool stop = false;
    while (!stop) {
        BT_TRY(wait_for_both(at));
        if (at->sides[0].state == ENDED || at->sides[1].state == ENDED) {
            return BT_OK;
        }
        BT_TRY(look(at, listener, &stop));
        ++*steps;
        go_on(at, stop);
    }
    return BT_OK;
}

// Ends the threads. Returns the error of the call that failed first, else that of a side.
static bt_status finish(meeting *at, bt_status status)
{
    char message[BT_ERROR_CAPACITY] = "";
    if (status != BT_OK) {
        (void)snprintf(message, sizeof message, "%s", bt_error_message());
    }
    for (int i = 0; i < 2; ++i) {
        side *s = &at->sides[i];
        if (!s->has_thread) {
            continue;
        }
        for (bool ended = false; !ended;) { // it may do one more step
            go_on(at, true);
            (void)pthread_mutex_lock(&at->mutex);
            while (s->state == WORKING) {
                (void)pthread_cond_wait(&at->changed, &at->mutex);
            }
            ended = s->state == ENDED;
            (void)pthread_mutex_unlock(&at->mutex);
        }
        (void)pthread_join(s->thread, NULL);
        if (s->status != BT_OK && status == BT_OK) {
            status = s->status;
            (void)snprintf(message, sizeof message, "%s: %.*s", s->given->name,
                           BT_ERROR_CAPACITY - 64, s->message);
        }
    }
    return status == BT_OK ? BT_OK : bt_error(status, "%s", message);
}

bt_status bt_lockstep_run(const bt_lockstep_side sides[2], const bt_lockstep_listener *listener,
                          int64_t *steps)
{
    meeting at = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    bt_status status = BT_OK;
    *steps = 0;
    for (int i = 0; i < 2; ++i) {
        at.sides[i].given = &sides[i];
    }
    for (int i = 0; i < 2 && status == BT_OK; ++i) {
        status = start(&at, &at.sides[i]);
    }
    status = status == BT_OK ? run(&at, listener, steps) : status;
    status = finish(&at, status);
    for (int i = 0; i < 2; ++i) {
        bt_diff_values_release(&at.sides[i].values);
    }
    (void)pthread_cond_destroy(&at.changed);
    (void)pthread_mutex_destroy(&at.mutex);
    return status;
}

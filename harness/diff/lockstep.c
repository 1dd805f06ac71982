// harness/diff/lockstep.c - the threads of two sides, and the caller between them
//
// State of a side, guarded by the mutex:
//   working --its step is done on all ranks--> waiting --the caller has compared--> working
//   working --training has ended on all ranks--> ended
// The side leaves working, the caller leaves waiting. If a rank ends, the ranks that wait for it
// after a step fail; before a step its group makes them fail.
#include "harness/diff/lockstep.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>

#include "framework/base/file.h"
#include "framework/base/idioms.h"
#include "framework/dist/threads.h"
#include "harness/diff/gather.h"

typedef enum side_state { WORKING, WAITING, ENDED } side_state;

enum { RANKS_MOST = 64 };
// Ranks wait for each other in a collective while one works; the time between steps is no part.
#define TIMEOUT_NS (INT64_C(600) * 1000 * 1000 * 1000)

typedef struct meeting meeting;

typedef struct side side;

typedef struct rank {
    side *of; // borrowed
    int index;
    bt_group *group; // owned by its thread; NULL: one rank
    bool has_thread;
    pthread_t thread;
} rank;

struct side {
    const bt_lockstep_side *given; // borrowed
    meeting *at;                   // borrowed
    bt_diff_mesh mesh;
    rank *ranks; // owned [rank_count]
    int rank_count;
    bt_diff_values *told; // owned [rank_count]; of each of several ranks
    bt_diff_values values;
    bt_train_step event; // of the step that waits
    int64_t next_file, turn;
    int arrived, ended; // ranks
    side_state state;
    bt_status status; // of an ended side: that of the rank that failed first
    char message[BT_ERROR_CAPACITY];
};

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stop;
    side sides[2];
};

// ---- on a side's thread -------------------------------------------------------------------------

static bt_status on_value(void *self, bt_context *context, const bt_train_value *value)
{
    const rank *r = self;
    side *s = r->of;
    return s->rank_count > 1
               ? bt_diff_values_add(&s->told[r->index], context, value, &s->mesh, r->index)
               : bt_diff_values_add(&s->values, context, value, NULL, 0);
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    const rank *r = self;
    side *s = r->of;
    (void)pthread_mutex_lock(&s->at->mutex);
    const int64_t turn = s->turn;
    s->event = *event; // losses are those of all ranks
    if (++s->arrived == s->rank_count) {
        s->state = WAITING;
        (void)pthread_cond_broadcast(&s->at->changed);
    }
    while (s->turn == turn && s->ended == 0) {
        (void)pthread_cond_wait(&s->at->changed, &s->at->mutex);
    }
    const bool alone = s->turn == turn;
    (void)pthread_mutex_unlock(&s->at->mutex);
    return alone ? bt_error(BT_STATUS_INTERRUPTED, "another rank has stopped") : BT_OK;
}

static bool should_stop(void *self)
{
    const rank *r = self;
    (void)pthread_mutex_lock(&r->of->at->mutex);
    const bool stop = r->of->at->stop;
    (void)pthread_mutex_unlock(&r->of->at->mutex);
    return stop;
}

static void end(side *s, bt_status status)
{
    (void)pthread_mutex_lock(&s->at->mutex);
    if (status != BT_OK && s->status == BT_OK) {
        s->status = status;
        (void)snprintf(s->message, sizeof s->message, "%s", bt_error_message());
    }
    s->state = ++s->ended == s->rank_count ? ENDED : s->state;
    (void)pthread_cond_broadcast(&s->at->changed);
    (void)pthread_mutex_unlock(&s->at->mutex);
}

static void *train(void *self)
{
    rank *r = self;
    side *s = r->of;
    bt_train_plan plan = *s->given->plan;
    bt_train_result result;
    const bt_train_observer observer = {
        .self = r, .step = on_step, .should_stop = should_stop, .value = on_value};
    if (r->group) {
        plan.parallel.group = r->group;
        omp_set_num_threads(
            omp_get_max_threads() > s->rank_count ? omp_get_max_threads() / s->rank_count : 1);
    }
    end(s, bt_train_run(&plan, &observer, &result));
    bt_group_destroy(r->group);
    return NULL;
}

// ---- on the caller's ----------------------------------------------------------------------------

static bt_status make_ranks(side *s)
{
    bt_group *groups[RANKS_MOST] = {NULL};
    s->rank_count = s->given->ranks > 1 ? s->given->ranks : 1;
    s->mesh = bt_diff_mesh_of(s->given->plan);
    BT_FAIL_IF(s->rank_count > RANKS_MOST, BT_STATUS_INVALID_ARGUMENT,
               "%s has %d ranks; allowed: %d", s->given->name, s->rank_count, RANKS_MOST);
    BT_TRY(BT_MEM_ARRAY(s->rank_count, &s->ranks));
    BT_TRY(BT_MEM_ARRAY(s->rank_count, &s->told));
    BT_TRY(s->rank_count > 1 ? bt_group_threads_create(s->rank_count, TIMEOUT_NS, groups) : BT_OK);
    for (int i = 0; i < s->rank_count; ++i) {
        s->ranks[i] = (rank){.of = s, .index = i, .group = groups[i]};
    }
    return BT_OK;
}

// Ranks without a thread have left: the others fail.
static void drop(side *s, int first)
{
    (void)pthread_mutex_lock(&s->at->mutex);
    s->ended += s->rank_count - first;
    s->state = first == 0 ? ENDED : s->state;
    (void)pthread_cond_broadcast(&s->at->changed);
    (void)pthread_mutex_unlock(&s->at->mutex);
    for (int i = first; i < s->rank_count; ++i) {
        bt_group_destroy(s->ranks[i].group);
    }
}

static bt_status start(meeting *at, side *s)
{
    s->at = at;
    s->next_file = s->given->first_step;
    if (s->given->plan) {
        BT_TRY(make_ranks(s));
    }
    s->state = WORKING;
    for (int i = 0; i < s->rank_count; ++i) {
        rank *r = &s->ranks[i];
        r->has_thread = pthread_create(&r->thread, NULL, train, r) == 0;
        if (!r->has_thread) {
            drop(s, i);
            return bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot start a thread for %s",
                            s->given->name);
        }
    }
    return BT_OK;
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
    BT_EACH(side, s, at->sides, 2) {
        if (!s->given->plan && s->state == WORKING) {
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
    BT_EACH(side, s, at->sides, 2) {
        if (s->state == WAITING) {
            bt_diff_values_clear(&s->values);
            for (int r = 0; s->rank_count > 1 && r < s->rank_count; ++r) {
                bt_diff_values_clear(&s->told[r]);
            }
            s->arrived = 0;
            ++s->turn;
            s->state = WORKING;
        }
    }
    (void)pthread_cond_broadcast(&at->changed);
    (void)pthread_mutex_unlock(&at->mutex);
}

static bt_status gather(side *s)
{
    return s->rank_count > 1 ? bt_diff_gather(&s->mesh, s->told, &s->values) : BT_OK;
}

static bt_status look(meeting *at, const bt_lockstep_listener *listener, bool *stop)
{
    const side *a = &at->sides[0], *b = &at->sides[1];
    BT_FAIL_IF(a->event.step != b->event.step, BT_STATUS_INVALID_ARGUMENT,
               "%s is at step %lld, %s at step %lld", a->given->name, (long long)a->event.step,
               b->given->name, (long long)b->event.step);
    BT_TRY(gather(&at->sides[0]));
    BT_TRY(gather(&at->sides[1]));
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
    BT_EACH(side, s, at->sides, 2) {
        if (!s->given->plan) {
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
        for (int r = 0; s->ranks && r < s->rank_count; ++r) {
            if (s->ranks[r].has_thread) {
                (void)pthread_join(s->ranks[r].thread, NULL);
            }
        }
        if (s->status != BT_OK && status == BT_OK) {
            status = s->status;
            (void)snprintf(message, sizeof message, "%s: %.*s", s->given->name,
                           BT_ERROR_CAPACITY - 64, s->message);
        }
    }
    return status == BT_OK ? BT_OK : bt_error(status, "%s", message);
}

static void release(side *s)
{
    bt_diff_values_release(&s->values);
    for (int r = 0; s->told && r < s->rank_count; ++r) {
        bt_diff_values_release(&s->told[r]);
    }
    bt_mem_free(s->told);
    bt_mem_free(s->ranks);
}

bt_status bt_lockstep_run(const bt_lockstep_side sides[2], const bt_lockstep_listener *listener,
                          int64_t *steps)
{
    meeting at = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    bt_status status = BT_OK;
    *steps = 0;
    for (int i = 0; i < 2; ++i) {
        at.sides[i].given = &sides[i];
        at.sides[i].state = ENDED; // not started
    }
    for (int i = 0; i < 2 && status == BT_OK; ++i) {
        status = start(&at, &at.sides[i]);
    }
    BT_IF_OK(status, run(&at, listener, steps));
    status = finish(&at, status);
    for (int i = 0; i < 2; ++i) {
        release(&at.sides[i]);
    }
    (void)pthread_cond_destroy(&at.changed);
    (void)pthread_mutex_destroy(&at.mutex);
    return status;
}

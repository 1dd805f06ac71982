// framework/checkpoint/thread.h - starts a thread with all signals blocked
//
// Signals are handled by the training thread, so that a signal such as SIGTERM does not interrupt a
// write here.
#ifndef BT_CHECKPOINT_THREAD_H
#define BT_CHECKPOINT_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

static inline bool bt_thread_start(pthread_t *thread, void *(*body)(void *), void *self)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, body, self);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

#endif

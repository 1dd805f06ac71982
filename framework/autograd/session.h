// framework/autograd/session.h - device, pool, tape and context in one, for a program's main thread
#ifndef BT_AUTOGRAD_SESSION_H
#define BT_AUTOGRAD_SESSION_H

#include "framework/autograd/tape.h"
#include "framework/linalg/tune.h"

typedef struct bt_session {
    bt_device device;
    bt_pool *pool;
    bt_tape *tape;
    bt_gemm_tuner *tuner; // NULL unless BT_GEMM_TUNE=1
    bt_context context;   // points to the others; records on tape
    bool borrows_device;
} bt_session;

// Opens device `ordinal` of a backend ("cpu", "cuda") with a pool of at most limit_bytes (0: no
// limit). The session must not be moved afterwards.
// Owns    the caller, until bt_session_close, also when this fails
// Errors  UNAVAILABLE (no such device), OUT_OF_MEMORY, INVALID_ARGUMENT (BT_GEMM_TUNE,
// linalg/tune.h)
BT_CHECKED bt_status bt_session_open(const char *backend, int ordinal, uint64_t limit_bytes,
                                     bt_session *session);
// The same on an open device: borrowed, with its stream; it outlives the session.
BT_CHECKED bt_status bt_session_open_on(const bt_device *device, uint64_t limit_bytes,
                                        bt_session *session);
// All tensors must have been released. Safe on a zeroed session.
void bt_session_close(bt_session *session);

#endif

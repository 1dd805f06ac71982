// framework/autograd/session.c - opens and closes what every program needs
#include "framework/autograd/session.h"

static bt_status open_rest(uint64_t limit_bytes, bt_session *session)
{
    BT_TRY(bt_pool_create(&session->device, limit_bytes, &session->pool));
    BT_TRY(bt_tape_create(&session->tape));
    BT_TRY(bt_gemm_tuner_from_environment(&session->device, session->pool, &session->tuner));
    session->context = (bt_context){.device = &session->device,
                                    .pool = session->pool,
                                    .tape = session->tape,
                                    .tuner = session->tuner};
    return BT_OK;
}

bt_status bt_session_open(const char *backend, int ordinal, uint64_t limit_bytes,
                          bt_session *session)
{
    *session = (bt_session){0};
    BT_TRY(bt_device_open(backend, ordinal, &session->device));
    return open_rest(limit_bytes, session);
}

bt_status bt_session_open_on(const bt_device *device, uint64_t limit_bytes, bt_session *session)
{
    *session = (bt_session){.device = *device, .borrows_device = true};
    return open_rest(limit_bytes, session);
}

void bt_session_close(bt_session *session)
{
    bt_gemm_tuner_close(session->tuner);
    bt_tape_destroy(session->tape);
    if (session->pool) {
        bt_pool_destroy(session->pool);
    }
    if (!session->borrows_device) {
        bt_device_close(&session->device);
    }
    *session = (bt_session){0};
}

// framework/base/sharding.h - names of what is divided among data-parallel ranks
#ifndef BT_BASE_SHARDING_H
#define BT_BASE_SHARDING_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// X(enumerator, name, what each rank keeps a part of)
#define BT_SHARDING_LIST(X)                                                                        \
    X(DDP, "ddp", "no sharding: every rank keeps all parameters, gradients and optimizer state")   \
    X(ZERO1, "zero1", "optimizer state and master weights")                                        \
    X(ZERO2, "zero2", "also gradients, which are reduced after each micro-batch")                  \
    X(ZERO3, "zero3", "optimizer state, master weights and the weights that ops read")

typedef enum bt_sharding {
#define BT_SHARDING_ENUM(name, text, meaning) BT_SHARDING_##name,
    BT_SHARDING_LIST(BT_SHARDING_ENUM)
#undef BT_SHARDING_ENUM
        BT_SHARDING_COUNT
} bt_sharding;

// "unknown" for an invalid number.
const char *bt_sharding_name(bt_sharding sharding);
bool bt_sharding_parse(const char *name, bt_sharding *sharding);

#ifdef __cplusplus
}
#endif
#endif

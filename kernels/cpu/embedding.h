// kernels/cpu/embedding.h - ids of embeddings, for every type
#ifndef BT_KERNELS_CPU_EMBEDDING_H
#define BT_KERNELS_CPU_EMBEDDING_H

#include "kernels/kernels.h"

// The id of row r, 0 if it is outside of the table; then *bad becomes r, if that is smaller.
static inline int32_t bt_embedding_id(const bt_embedding_args *op, int64_t r, int64_t *bad)
{
    const bool good = op->ids[r] >= 0 && op->ids[r] < op->vocab;
    const int32_t id = good ? op->ids[r] : 0;
    *bad = good || r >= *bad ? *bad : r;
    if (op->good_ids) {
        op->good_ids[r] = id;
    }
    return id;
}

static inline void bt_embedding_report(const bt_embedding_args *op, int64_t bad)
{
    if (op->bad_row) {
        *op->bad_row = bad < op->rows ? bad : -1;
    }
}

#endif

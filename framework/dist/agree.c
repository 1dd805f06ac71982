#include "framework/dist/agree.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/mem.h"

enum { VALUE_BYTES = 128 };

// What a rank says of itself. Sent as it lies; unused bytes are zero.
typedef struct card {
    char host[VALUE_BYTES];
    char values[BT_AGREEMENTS_MAX][VALUE_BYTES];
} card;

bt_kernel_device bt_kernel_device_of(const bt_device *device)
{
    const bt_device_info *info = &device->info;
    return (bt_kernel_device){info->arch, info->processor_count, (int64_t)info->shared_bytes};
}

static bt_status compare(const card *cards, int size, const bt_agreement *rows, int count)
{
    for (int rank = 1; rank < size; ++rank) {
        for (int i = 0; i < count; ++i) {
            if (strcmp(cards[rank].values[i], cards[0].values[i]) != 0) {
                return bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "ranks differ in their %s: rank %d on %s has %s, rank 0 on %s has "
                                "%s; %s",
                                rows[i].key, rank, cards[rank].host, cards[rank].values[i],
                                cards[0].host, cards[0].values[i], rows[i].help);
            }
        }
    }
    return BT_OK;
}

bt_status bt_group_agree(bt_group *group, const bt_agreement *rows, int count)
{
    card own = {.host = ""};
    void *block = NULL;
    if (count > BT_AGREEMENTS_MAX) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "ranks agree about at most %d values, got %d",
                        BT_AGREEMENTS_MAX, count);
    }
    (void)gethostname(own.host, sizeof own.host - 1);
    for (int i = 0; i < count; ++i) {
        (void)snprintf(own.values[i], sizeof own.values[i], "%s", rows[i].value);
    }
    BT_TRY(bt_mem_alloc((size_t)group->size, sizeof(card), &block));
    card *cards = block;
    bt_status status = bt_all_gather(group, &own, cards, (int64_t)sizeof own, NULL);
    for (int rank = 0; rank < group->size; ++rank) {
        cards[rank].host[VALUE_BYTES - 1] = '\0';
        for (int i = 0; i < BT_AGREEMENTS_MAX; ++i) {
            cards[rank].values[i][VALUE_BYTES - 1] = '\0';
        }
    }
    status = status == BT_OK ? compare(cards, group->size, rows, count) : status;
    bt_mem_free(cards);
    return status;
}

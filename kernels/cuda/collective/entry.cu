// kernels/cuda/collective/entry.cu - the table for process groups, the plugin's second symbol
#include <string.h>

#include "kernels/cuda/collective/collective.h"

static bt_device_collectives make_table(void)
{
    bt_device_collectives table;
    memset(&table, 0, sizeof table);
    table.abi = BT_COLLECTIVES_ABI;
    table.sum = bt_p2p_sum_launch;
    table.small_sum = bt_p2p_small_sum_launch;
    table.push = bt_p2p_push_launch;
    table.fold = bt_p2p_fold_launch;
    bt_collective_window_table(&table);
    bt_collective_nccl_table(&table);
    return table;
}

extern "C" __attribute__((visibility("default"))) const bt_device_collectives *
bt_collectives_entry(void)
{
    static const bt_device_collectives table = make_table();
    return &table;
}

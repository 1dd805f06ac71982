// tests/harness/scratch_store.c - set-up and tear-down around a database
#include "tests/harness/scratch_store.h"

#include "framework/base/mem.h"
#include "tests/support/scratch.h"

bt_store *scratch_store;

int scratch_store_open(void **state)
{
    (void)state;
    (void)test_scratch_make();
    return bt_store_open(test_scratch_path("bt.sqlite"), BT_STORE_WRITE, &scratch_store) == BT_OK
               ? 0
               : -1;
}

int scratch_store_close(void **state)
{
    (void)state;
    bt_status status = bt_store_close(scratch_store);
    test_scratch_remove();
    return status == BT_OK && bt_mem_live_count() == 0 ? 0 : -1;
}

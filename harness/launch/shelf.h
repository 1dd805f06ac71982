// harness/launch/shelf.h - a folder in memory that outlives every rank, and no launcher
//
// Holds the training state of the last two steps, as checkpoints. It lies on a file system in
// memory and is locked as long as its launcher lives; a launcher removes those whose launcher was
// killed.
#ifndef BT_HARNESS_LAUNCH_SHELF_H
#define BT_HARNESS_LAUNCH_SHELF_H

#include "framework/base/status.h"

typedef struct bt_shelf {
    char path[128]; // ""; none
    int lock;       // owned; -1: none
} bt_shelf;

// Owns    *shelf: the caller, bt_shelf_remove
// Errors  IO
BT_CHECKED bt_status bt_shelf_make(bt_shelf *shelf);
void bt_shelf_remove(bt_shelf *shelf);

#endif

// harness/launch/state_folder.h - a folder in memory for the training state
//
// Holds the last two training states as checkpoints, on a memory file system. The launcher owns it
// and holds a lock on it from its creation to its removal. A launcher first removes the user's
// folders that nobody has locked: their launchers were killed, if need be while they removed them.
#ifndef BT_HARNESS_LAUNCH_STATE_FOLDER_H
#define BT_HARNESS_LAUNCH_STATE_FOLDER_H

#include "framework/base/status.h"

typedef struct bt_state_folder {
    char path[128]; // ""; none
    int lock;       // owned, of the folder; -1: none
} bt_state_folder;

// Owns    *folder: the caller, bt_state_folder_remove
// Errors  IO
BT_CHECKED bt_status bt_state_folder_make(bt_state_folder *folder);
void bt_state_folder_remove(bt_state_folder *folder);

#endif

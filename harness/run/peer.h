// harness/run/peer.h - who runs the cases: ourselves, and the programs of harness/peers
#ifndef BT_HARNESS_RUN_PEER_H
#define BT_HARNESS_RUN_PEER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "harness/record/record.h"

typedef struct bt_peer {
    char *name;             // owned: "pytorch-eager"
    char *program;          // owned; NULL: our own worker
    double inject_slowdown; // its measurements are made longer by this share; 0: not
    bool build; // the program is another build of bt-bench, which is no peer but one of us
    const bt_store_build *facts; // borrowed: of that build; NULL: of a peer, or this program's own
} bt_peer;

typedef struct bt_peers {
    bt_peer *items; // owned, [count]
    int64_t count;
} bt_peers;

// Finds the programs of a plan's systems (NULL: ourselves alone). "blutrain" is our own worker;
// NAME and NAME-anything are harness/peers/NAME/peer.py (or peer.sh, or peer) of the installation,
// never of the working directory; what has a slash in it is a program by path, called by its last
// part. A suite, a file of claims and an imported run are data that somebody else wrote: programs
// by path start only when `trusted`, that is, when the user has named or allowed them.
// Owns    *out: the caller, bt_peers_release, also after a failure
// Errors  INVALID_ARGUMENT (no such system, with where it was looked for; a program by path that
//         the user has not named, with what to type)
BT_CHECKED bt_status bt_peers_find(const cJSON *systems, bool trusted, bt_peers *out);
void bt_peers_release(bt_peers *peers);

#endif

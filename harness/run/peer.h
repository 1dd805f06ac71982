// harness/run/peer.h - the systems that run cases: our own worker, and the programs of
// harness/peers
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
    double inject_slowdown; // fraction by which its measurements are made longer; 0: none
    bool build; // the program is another build of bt-bench, which does not count as a peer
    const bt_store_build *facts; // borrowed: facts of that build; NULL: a peer, or this program
} bt_peer;

typedef struct bt_peers {
    bt_peer *items; // owned, [count]
    int64_t count;
} bt_peers;

// Finds the programs of a plan's systems (NULL: only our own worker). "blutrain" is our own worker;
// NAME and NAME-anything are harness/peers/NAME/peer.py (or peer.sh, or peer) of the installation,
// never of the working directory; a name with a slash is the path of a program, whose last part is
// the system's name. Suites, claims and imported runs are untrusted data: programs by path are
// accepted only if `trusted`, that is, named or allowed by the user.
// Owns    *out: the caller, bt_peers_release, also after a failure
// Errors  INVALID_ARGUMENT (no such system, with the places searched; a program by path that the
//         user has not named, with the option to use)
BT_CHECKED bt_status bt_peers_find(const cJSON *systems, bool trusted, bt_peers *out);
void bt_peers_release(bt_peers *peers);

#endif

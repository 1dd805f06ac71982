// framework/dist/flight.h - flight recorder: a rank's recent activity, readable after it has died
//
// The launcher creates a flight recorder for each rank, in memory that outlives the rank (memfd),
// and passes on the descriptor. The rank writes heartbeats, steps and the signature of each
// collective. The launcher can read them at any time, also after a SIGKILL.
//
// Invariants
//   1. One thread of the rank enters and leaves calls; any thread may write heartbeats. Any process
//      may read.
//   2. Reads of a call are atomic: its sequence number is written last.
//   3. The launcher writes only the fence. A rank whose recorder is fenced was replaced: it may not
//      take part in any further collective.
//   4. Calls have numbers that are equal on all ranks. Sends and receives have none, because ranks
//      make different numbers of them; only the last is kept.
//   5. A rank that holds `life` is alive. The kernel marks that mutex when the holder starts to
//      exit, before it frees the memory of the process and its devices, which takes much longer.
#ifndef BT_DIST_FLIGHT_H
#define BT_DIST_FLIGHT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/status.h"
#include "framework/base/str.h"

enum {
    BT_FLIGHT_CALLS = 64, // number of recent calls that are kept
    BT_FLIGHT_PARTS = 8,  // parts of the group whose last call is recorded
    BT_FLIGHT_OP_BYTES = 16,
    BT_FLIGHT_SITE_BYTES = 48,
    BT_FLIGHT_PATH_BYTES = 128
};

typedef enum bt_flight_state {
    BT_FLIGHT_ENTERED, // the rank is in the call
    BT_FLIGHT_QUEUED,  // the call has returned; the device has yet to finish it
    BT_FLIGHT_DONE
} bt_flight_state;

// The signature of a collective: equal on all ranks.
typedef struct bt_flight_call {
    _Atomic uint64_t sequence; // counts from 1; 0: empty entry
    _Atomic int state;         // bt_flight_state
    int32_t dtype;             // bt_dtype; -1: of none
    int64_t size_bytes;        // of the data that this rank gives
    int64_t entered_ns;        // monotonic clock of the host
    char op[BT_FLIGHT_OP_BYTES];
    char site[BT_FLIGHT_SITE_BYTES]; // where it is called, "bucket.c:120"
} bt_flight_call;

// Calls of the rank in one part of its group. They count by themselves.
typedef struct bt_flight_part {
    _Atomic uint64_t id;    // equal on all its ranks; 0: none
    _Atomic uint64_t calls; // entered so far
    bt_flight_call last;
} bt_flight_part;

typedef struct bt_flight_board {
    uint64_t magic; // of this layout
    int32_t rank, size;
    int64_t generation;
    pthread_mutex_t life;           // robust; held by the rank's thread
    _Atomic int fence;              // not 0: this rank was replaced
    _Atomic int joined;             // 1: it is in its group
    _Atomic int64_t steps;          // done, counted from step 0
    _Atomic int64_t step_ns;        // when the last one was done; 0: none yet
    _Atomic uint64_t beats;         // of the host: increases while the rank makes progress
    _Atomic int64_t beat_ns;        // time of its last change
    _Atomic uint64_t device_beats;  // increases when the device has finished work
    _Atomic int64_t device_beat_ns; // time of its last change
    _Atomic uint64_t calls;         // of the whole group, entered so far
    _Atomic uint64_t waited_ns;     // sum of the time spent in calls in which all wait for all
    _Atomic uint32_t path_version;  // odd while `path` is written
    char path[BT_FLIGHT_PATH_BYTES];
    bt_flight_call ring[BT_FLIGHT_CALLS]; // call s is at (s - 1) % BT_FLIGHT_CALLS
    bt_flight_call message;               // the last send or receive, of any part; sequence 1
    bt_flight_part parts[BT_FLIGHT_PARTS];
} bt_flight_board;

typedef struct bt_flight {
    bt_flight_board *board; // mapped; NULL: none
    bool held;              // by this thread
} bt_flight;

// Owns    *fd and *flight: the caller. The descriptor is closed on exec unless that is cleared.
// Errors  UNAVAILABLE (no memory for it)
BT_CHECKED bt_status bt_flight_create(int rank, int size, int64_t generation, int *fd,
                                      bt_flight *flight);
// Maps an existing recorder. Errors  INVALID_ARGUMENT (descriptor of something else)
BT_CHECKED bt_status bt_flight_attach(int fd, bt_flight *flight);
// Releases `life` if held: must be called by the thread that called bt_flight_hold.
void bt_flight_detach(bt_flight *flight);

// ---- the rank's side; flight NULL: nothing happens ----------------------------------------------

// A place for the calls of a part of the group: 1 to BT_FLIGHT_PARTS; 0: none is left.
int bt_flight_open_part(bt_flight *flight, uint64_t id);
void bt_flight_close_part(bt_flight *flight, int part);
// A collective begins. `part`: its place, 0 for the whole group.
// Errors  INTERRUPTED when the rank was replaced
BT_CHECKED bt_status bt_flight_enter(bt_flight *flight, int part, const char *op, int dtype,
                                     int64_t size_bytes, const char *site);
// It has returned; `finished`: so has the device.
void bt_flight_leave(bt_flight *flight, int part, bool finished);
// Makes the calling thread hold `life`: bt_flight_is_orphan detects its death.
void bt_flight_hold(bt_flight *flight);
// Records that the rank is in its group. No heartbeat: a standby process joins before its task.
void bt_flight_joined(bt_flight *flight);
// Records that `steps` steps are done, including work on the device.
void bt_flight_step(bt_flight *flight, int64_t steps);
// Records that the rank's code is at `path`, which a single thread writes; NULL: no change. With
// `moves` other than 0 the rank has made progress.
void bt_flight_beat(bt_flight *flight, uint64_t moves, const char *path);

// ---- the launcher's side ------------------------------------------------------------------------

void bt_flight_fence(bt_flight *flight);
// Whether the thread that held `life` has died. Its process may still be exiting.
bool bt_flight_is_orphan(const bt_flight *flight);
// The call with this number; false: it was never entered, or is overwritten.
bool bt_flight_read(const bt_flight *flight, uint64_t sequence, bt_flight_call *out);
// The last call in the part at this place, from 1 on; false: it was never entered.
bool bt_flight_read_part(const bt_flight *flight, int part, bt_flight_call *out);
// Whether the rank is in a send or a receive.
bool bt_flight_in_message(const bt_flight *flight);
void bt_flight_path(const bt_flight *flight, char path[BT_FLIGHT_PATH_BYTES]);
// Compares the calls of all ranks and appends the first difference: a call that is not the same
// everywhere, with the rank that is alone with it (of two ranks the higher one) and what another
// rank called; else the rank that did not enter a call in which others wait, of the group or of a
// part of it, and that waits for nobody itself, in a send or receive neither; else a call of equal
// sizes that comes from another place. Sends and receives are not compared.
// *rank: whom it blames; -1: nobody, and nothing is appended.
// Shapes  flights [size]
void bt_flight_compare(const bt_flight *flights, int size, int *rank, bt_str *out);
// "all_reduce of 4096 bytes f32, call 17, at bucket.c:120"
void bt_flight_describe(const bt_flight_call *call, bt_str *out);

#endif

// framework/dist/mpi.h - ranks that an MPI launcher has started
//
// MPI moves the bytes; sums, signatures and timeouts are those of the other backends on the CPU.
// The code that calls MPI is a library of its own, libbt_mpi.so, built where MPI is installed.
#ifndef BT_DIST_MPI_H
#define BT_DIST_MPI_H

#include "framework/dist/group.h"

// Joins MPI_COMM_WORLD: its rank and size. Initialises MPI unless the program has; then destroying
// the group finalises it, and no other group of this kind can be made in this process. After a
// failure MPI is not finalised, and the launcher ends the job when the process exits: MPI does not
// survive a dead rank.
// Units   timeout_ns: how long a call waits while nothing moves
// Errors  UNAVAILABLE (no libbt_mpi.so, no MPI, an MPI without MPI_THREAD_MULTIPLE, finalised),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_group_mpi_join(int64_t timeout_ns, bt_group **out);

#endif

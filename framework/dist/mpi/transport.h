// framework/dist/mpi/transport.h - what libbt_mpi.so exports
#ifndef BT_DIST_MPI_TRANSPORT_H
#define BT_DIST_MPI_TRANSPORT_H

#include <stdbool.h>

#include "framework/dist/channel.h"

#define BT_MPI_ABI     1
#define BT_MPI_LIBRARY "libbt_mpi.so"
#define BT_MPI_ENTRY   "bt_mpi_entry"

typedef struct bt_mpi_transport {
    int abi; // BT_MPI_ABI of the build
    // Initialises MPI if need be, and takes a communicator of its own.
    bt_status (*join)(int *rank, int *size);
    bt_status (*channel)(int peer, bt_channel *out);
    // `failed`: a rank may be gone, so nothing waits for it.
    void (*leave)(bool failed);
} bt_mpi_transport;

typedef const bt_mpi_transport *(*bt_mpi_entry_fn)(void);
const bt_mpi_transport *bt_mpi_entry(void); // BT_MPI_ENTRY

#endif

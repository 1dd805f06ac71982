// harness/launch/faults.inl - kinds of faults of a rank: a row each
//   X(enumerator, name, action, description)
// The launcher's action: RESTART all ranks from the last state, or END the run if a restart would
// fail in the same way.
X(EXIT, "rank_exit", RESTART, "a rank exited without a result or an error")
X(KILLED, "rank_killed", RESTART, "a rank was killed by a signal")
X(HANG, "rank_hang", RESTART, "no rank has made progress for longer than steps take")
X(DIVERGENT, "divergent_collectives", RESTART, "ranks called different collectives")
X(FAILED, "rank_failed", RESTART, "a rank reported an error that a retry may avoid")
X(REFUSED, "rank_refused", END, "a rank reported an error of its input: plan, build, device, data")
X(MEMORY, "rank_out_of_memory", END, "a rank ran out of memory")
X(DIGEST, "rank_digest", END, "ranks ended with different states: silent corruption")
X(REPLAY, "replay_differs", END, "a repeated step had another loss: silent corruption")
X(XID, "gpu_xid", RESTART, "the driver reported a GPU error that a restart may resolve")
X(GPU_LOST, "gpu_lost", RESTART, "the driver reported an error after which a GPU must not be used")

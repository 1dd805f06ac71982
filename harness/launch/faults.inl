// harness/launch/faults.inl - kinds of faults of a rank: a row each
//   X(enumerator, name, action, description)
// The launcher's action: RESTART all ranks from the last state, or END the run if a restart would
// fail in the same way.
X(EXIT, "rank_exit", RESTART, "a rank ended by itself, without a result or an error")
X(KILLED, "rank_killed", RESTART, "a rank was ended by a signal")
X(HANG, "rank_hang", RESTART, "no rank has moved for longer than steps take")
X(DIVERGENT, "divergent_collectives", RESTART, "ranks called different collectives")
X(FAILED, "rank_failed", RESTART, "a rank reported an error that another try may not meet")
X(REFUSED, "rank_refused", END, "a rank reported an error of its input: plan, build, device, data")
X(MEMORY, "rank_out_of_memory", END, "a rank ran out of memory")
X(DIGEST, "rank_digest", END, "ranks ended with different states: silent corruption")
X(REPLAY, "replay_differs", END, "a step that was done again had another loss: silent corruption")
X(XID, "gpu_xid", RESTART, "the driver reported an error of a GPU that a restart may cure")
X(GPU_LOST, "gpu_lost", RESTART, "the driver reported an error after which a GPU must not be used")

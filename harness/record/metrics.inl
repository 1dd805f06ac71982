// harness/record/metrics.inl - the metrics, one row each
//   X(enumerator, tag, unit, direction, description)
// The tag is the word in the database, in JSON and on the page. The unit is one of BT_UNIT_LIST.
// The direction tells which way is better; NEITHER if neither is.
X(TOKENS_PER_S, "tokens_per_s", TOKENS_PER_S, HIGHER,
  "tokens of the timed steps over the sum of their host times")
X(STEP_TIME, "step_time_ns", NS, LOWER, "host time of a training step, mean of the timed steps")
X(STEP_DEVICE_TIME, "step_device_time_ns", NS, LOWER, "device time of a training step, mean")
X(LOSS_FIRST, "loss_first", NATS, NEITHER, "training loss of the first step")
X(LOSS_LAST, "loss_last", NATS, LOWER,
  "training loss of the last step; the samples are those of all steps")
X(LOSS_MIN, "loss_min", NATS, LOWER, "lowest training loss of a step")
X(VAL_LOSS, "val_loss", NATS, LOWER,
  "validation loss of the last evaluation; the samples are those of all evaluations")
X(PEAK_ALLOCATED, "peak_allocated_bytes", BYTES, LOWER, "peak of the framework's own allocator")
X(PEAK_FIRST_STEP, "peak_first_step_bytes", BYTES, LOWER, "peak of the allocator in the first step")
X(PEAK_RESERVED, "peak_reserved_bytes", BYTES, LOWER, "peak memory reserved from the device")
X(PEAK_RESIDENT, "peak_resident_bytes", BYTES, LOWER, "largest resident set of the process")
X(WALL_TIME, "wall_time_ns", NS, LOWER, "from the start of a round to its end")
X(TIME, "time_ns", NS, LOWER, "time of one call of the measured body, mean of the samples")
X(BANDWIDTH, "bandwidth_bytes_per_s", BYTES_PER_S, HIGHER, "bytes moved per second")
X(COMPUTE, "compute_flop_per_s", FLOP_PER_S, HIGHER, "floating-point operations per second")
X(COPY_SHARE, "copy_share", SHARE, HIGHER,
  "bandwidth as a fraction of this run's copy of 256 MiB; small hot cases have none")
X(BYTES_MOVED, "bytes_moved", BYTES, NEITHER, "bytes that one call must move")
X(ERROR_SHARE, "error_share", SHARE, LOWER, "largest error as a fraction of its tolerance")
X(TIME_P95, "time_p95_ns", NS, LOWER, "95th percentile of the time of one call")
X(TIME_MEDIAN, "time_median_ns", NS, LOWER, "median time of one call, for diagnosis")
X(STEP_TIME_P95, "step_time_p95_ns", NS, LOWER, "95th percentile of the host time of a step")
X(STEP_TIME_MEDIAN, "step_time_median_ns", NS, LOWER, "median host time of a step, for diagnosis")
X(ENERGY, "energy_j", JOULES, NEITHER,
  "energy that the GPU drew from the start of a round to its end")
X(ENERGY_PER_TOKEN, "energy_per_token_j", JOULES, LOWER,
  "energy per token: mean power during the timed steps, by the GPU's counter, over tokens/s")
X(OUTPUT_ERROR_SHARE, "output_error_share", SHARE, LOWER,
  "largest error of the outputs that a peer returned, computed by the recorder, as a fraction of "
  "its tolerance; a peer without this metric checked its outputs itself")
X(ENERGY_PER_CALL, "energy_per_call_j", JOULES, LOWER,
  "energy per call: mean power while the GPU worked, by its counter, times the time of a call")
X(CPU_TIME, "cpu_time_ns", NS, LOWER,
  "processor time of one call of a command, user and system, mean over the calls")
X(LAUNCH_TIME, "launch_time_ns", NS, LOWER,
  "host time until all work of a step, or of a call of a kernel, was submitted to the device, mean")
X(CHECKPOINT_STALL, "checkpoint_stall_ns", NS, LOWER,
  "training time added by a checkpoint: the call, plus the extra time of the steps during which "
  "it is written, relative to the median of the others; mean over the round")
X(CHECKPOINT_SAVE, "checkpoint_save_ns", NS, LOWER,
  "from the call that saves until the checkpoint is durable, as noticed after a step; mean")
X(CHECKPOINT_LOAD, "checkpoint_load_ns", NS, LOWER,
  "loading a checkpoint into the device's memory, verification included")
X(RECOVERY, "recovery_ns", NS, LOWER,
  "from the loss of a rank until training continues from the saved state; mean over the round")
X(RECOVERY_DETECT, "recovery_detect_ns", NS, LOWER,
  "from a fault that was caused on purpose until its detection; mean over the round")
X(RECOVERY_GROUP, "recovery_group_ns", NS, LOWER,
  "from the loss of a rank until all ranks are in a group again; mean over the round")
X(RECOVERY_STEP, "recovery_step_ns", NS, LOWER,
  "from the loss of a rank to the end of the first step after it; mean over the round")
X(RECOVERY_REPEATED, "recovery_repeated_steps", STEPS, LOWER,
  "steps that are repeated after the loss of a rank, from the loaded state on; mean over the round")
X(RECOVERY_CAUGHT_UP, "recovery_caught_up_ns", NS, LOWER,
  "from the loss of a rank until all ranks have repeated the steps before it; equal to recovery_ns "
  "if none is repeated; mean over the round")
X(EXPOSED, "exposed_communication_ns", NS, LOWER,
  "time of a step in which rank 0 computes nothing because it communicates or waits for other "
  "ranks; mean of the profiled steps")
X(SENT, "sent_bytes", BYTES, NEITHER,
  "bytes that a rank sends in a step for gradients, weights and lookups, computed from the plan")
X(PLANNED_MEMORY, "planned_memory_bytes", BYTES, NEITHER,
  "peak of the framework's own allocator, computed from the plan")
X(COMPILE_TIME, "compile_time_ns", NS, LOWER,
  "from the capture of a step until its generated code is loaded, for every kind of step that is "
  "compiled; cached code is not generated again. For a chain of a kernel case: without a cache")
X(LOAD_TIME, "load_time_ns", NS, LOWER,
  "the same for a chain whose code is cached: capture, grouping and loading of the code")

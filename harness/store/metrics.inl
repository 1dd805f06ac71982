// harness/store/metrics.inl - what can be measured: a row each
//   X(enumerator, tag, unit, direction, description)
// The tag is the word in the database, in JSON and on the page. The unit is one of BT_UNIT_LIST.
// The direction says which way is better; NEITHER where more is neither good nor bad.
X(TOKENS_PER_S, "tokens_per_s", TOKENS_PER_S, HIGHER, "tokens trained per second of host time")
X(STEP_TIME, "step_time_ns", NS, LOWER, "host time of a training step, synchronised at its end")
X(STEP_DEVICE_TIME, "step_device_time_ns", NS, LOWER, "device time of a training step")
X(LOSS_FIRST, "loss_first", NATS, NEITHER, "training loss of the first step")
X(LOSS_LAST, "loss_last", NATS, LOWER, "training loss of the last step")
X(VAL_LOSS, "val_loss", NATS, LOWER, "validation loss of the last evaluation")
X(PEAK_ALLOCATED, "peak_allocated_bytes", BYTES, LOWER, "peak of our own allocator")
X(PEAK_RESERVED, "peak_reserved_bytes", BYTES, LOWER, "peak held from the device")
X(PEAK_RESIDENT, "peak_resident_bytes", BYTES, LOWER, "largest resident set of the process")
X(WALL_TIME, "wall_time_ns", NS, LOWER, "from the start of a round to its end")
X(TIME, "time_ns", NS, LOWER, "time of one call of the measured body")
X(BANDWIDTH, "bandwidth_bytes_per_s", BYTES_PER_S, HIGHER, "bytes moved per second")
X(COMPUTE, "compute_flop_per_s", FLOP_PER_S, HIGHER, "floating-point operations per second")

// harness/run/worker.h - the worker's side of a round: one case in, events out
#ifndef BT_HARNESS_RUN_WORKER_H
#define BT_HARNESS_RUN_WORKER_H

// Reads the task from `input`, runs it, writes events to `output`; stops between steps on a line or
// the end of `input`. Every failure is an error event.
// Returns the exit code: 0 after a result, that of the status after an error.
int bt_worker_main(int input, int output);

#endif

// tests/harness/launch_rank.h - a rank that adds up numbers in all-reduces, until something goes
// wrong
//
// It keeps its sum in the file `state` of a folder, from which the next generation goes on. Its
// task says what goes wrong: `act` (the names are in launch_rank.c) at step `act_step` of rank
// `act_rank` in the first generation, or in each if the name begins with "always-". Rank
// `hold_rank` waits at `hold_step` to be killed.
#ifndef BT_TESTS_HARNESS_LAUNCH_RANK_H
#define BT_TESTS_HARNESS_LAUNCH_RANK_H

// Reads its task from the standard input, as the launcher writes it. Returns the exit code.
int launch_rank_main(void);

#endif

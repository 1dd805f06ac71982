// tests/harness/worlds.h - simulated machines: rounds of a base and a candidate, step by step
//
// A world defines what the machine does to both sides and what the change does to the candidate. A
// round is made of steps, so that what a test decides on goes through the summary of a round.
#ifndef BT_TESTS_HARNESS_WORLDS_H
#define BT_TESTS_HARNESS_WORLDS_H

#include "harness/store/store.h"

enum { WORLD_PAIRS = 24, WORLD_STEPS = 20, WORLD_SESSIONS = 5, WORLD_SESSION_ROUNDS = 8 };

typedef struct world {
    const char *name;
    // Of the machine, logarithms of time.
    double round;           // sd between rounds; 0: 0.003
    bool tails;             // Student's t with 3 degrees of freedom, of that sd
    double drift;           // over 24 pairs
    double walk;            // sd of each step of a random walk from round to round
    double rho;             // autocorrelation of the rounds, of that sd
    double session, card;   // sd of an effect of the session, of the card
    double gap;             // half of the rounds, by chance, are slower by this
    double stalls, stalled; // share of the rounds of both sides that are slower, by a factor of 1 +
    // Of the candidate.
    double slower;            // every step
    double step_share, steps; // share of the steps, slower by a factor of 1 +
    double bad_share, bad;    // share of the rounds, slower by a factor of 1 +
    double tolerance;         // of the rule; 0: the policy's for a training step
} world;

// The two sides of one case. Rounds are appended in the order A B B A.
typedef struct world_case {
    const world *of;
    bool sessions;   // the base are the rounds of WORLD_SESSIONS sessions
    uint64_t state;  // of its random numbers
    double walk, ar; // where the machine is
    double spare;    // a normal number that is left, NaN: none
    double session, card;
    bt_store_run run; // rounds [round_count], by value below
    bt_store_round rounds[2 * WORLD_PAIRS + WORLD_SESSIONS * WORLD_SESSION_ROUNDS];
    bt_store_step steps[2 * WORLD_PAIRS + WORLD_SESSIONS * WORLD_SESSION_ROUNDS][WORLD_STEPS];
} world_case;

void world_case_begin(world_case *self, const world *of, uint64_t seed);
// Adds pairs until there are `pairs`.
void world_case_pairs(world_case *self, int64_t pairs);
// The rounds of another session, on the card of the first or on another one.
void world_case_session(world_case *self, const char *system, int64_t rounds, bool other_card);
// Mean time of a round's steps, worked out here.
double world_round_mean(const bt_store_round *round);

#endif

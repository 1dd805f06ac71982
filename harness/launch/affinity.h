// harness/launch/affinity.h - CPU affinity of a rank, from sysfs
#ifndef BT_HARNESS_LAUNCH_AFFINITY_H
#define BT_HARNESS_LAUNCH_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

// Parses a list of processors such as "0-3,8,10-11". False: invalid.
bool bt_affinity_parse(const char *text, cpu_set_t *out);
// Number of processors that this process may use; 0: unknown.
int bt_affinity_processors(void);
// Whether so many ranks on the CPU are more than these processors: ranks that share one take turns,
// and their times are not those of their work.
bool bt_affinity_takes_turns(int64_t ranks);
// Splits the processors that this process may use among `count` slots. CPU ranks get equal shares
// in the order of NUMA nodes, so that a share lies on as few nodes as possible, and one processor
// each where there are fewer than ranks: a rank runs as many threads as it has processors, which
// wait for each other by spinning. Ranks of GPUs (`gpu`) get those of their GPU's node. False:
// leave the rank unpinned (sysfs does not say).
bool bt_affinity_of(int slot, int count, bool gpu, cpu_set_t *out);
// The same from given facts. Shapes  nodes [node_count]; gpu_node -1: a CPU rank
bool bt_affinity_split(const cpu_set_t *allowed, const cpu_set_t *nodes, int node_count,
                       int gpu_node, int slot, int count, cpu_set_t *out);

#endif

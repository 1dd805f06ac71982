#include "harness/launch/rank.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bt_status bt_rank_begin(const bt_rank_start *start, bt_rank *rank)
{
    *rank = (bt_rank){.rank = start->rank,
                      .slot = start->slot,
                      .flight_fd = -1,
                      .pidfd = -1,
                      .child = {.input = -1, .output = -1, .errors = -1, .log = -1}};
    BT_TRY(bt_flight_create(start->rank, start->size, start->generation, &rank->flight_fd,
                            &rank->flight));
    const int kept[] = {start->group_fd, rank->flight_fd};
    char prefix[24];
    (void)snprintf(prefix, sizeof prefix, "rank %d: ", start->rank);
    const bt_child_start how = {.program = start->program,
                                .prefix = prefix,
                                .kept = kept,
                                .kept_count = 2,
                                .processors = start->processors};
    BT_TRY(bt_error_context(bt_child_begin(&how, &rank->child), "rank %d", start->rank));
    rank->pidfd = (int)syscall(SYS_pidfd_open, rank->child.process, 0);
    return BT_OK; // without a pidfd, its closed output shows that it has ended
}

bool bt_rank_is_stopped(const bt_rank *rank)
{
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)rank->child.process);
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(text, sizeof text, file);
    if (file) {
        (void)fclose(file);
    }
    const char *name_end = read ? strrchr(text, ')') : NULL;
    return name_end && (name_end[2] == 'T' || name_end[2] == 't');
}

void bt_rank_kill(bt_rank *rank)
{
    bt_flight_fence(&rank->flight);
    bt_child_kill(&rank->child);
}

void bt_rank_release(bt_rank *rank)
{
    bt_rank_kill(rank);
    bt_child_release(&rank->child);
    bt_flight_detach(&rank->flight);
    bt_child_close(&rank->flight_fd);
    bt_child_close(&rank->pidfd);
}

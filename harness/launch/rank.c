#include "harness/launch/rank.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 4096 }; // a longer line is cut into pieces

static void close_end(int *end)
{
    if (*end >= 0) {
        (void)close(*end);
    }
    *end = -1;
}

bt_status bt_rank_begin(const bt_rank_start *start, bt_rank *rank)
{
    *rank = (bt_rank){.rank = start->rank,
                      .slot = start->slot,
                      .flight_fd = -1,
                      .pidfd = -1,
                      .errors = -1,
                      .child = {.input = -1, .output = -1, .errors = -1, .log = -1}};
    BT_TRY(bt_flight_create(start->rank, start->size, start->generation, &rank->flight_fd,
                            &rank->flight));
    const int kept[] = {start->group_fd, rank->flight_fd};
    const bt_child_start how = {
        .program = start->program, .kept = kept, .kept_count = 2, .processors = start->processors};
    BT_TRY(bt_error_context(bt_child_begin(&how, &rank->child), "rank %d", start->rank));
    rank->errors = rank->child.errors;
    rank->child.errors = -1;
    rank->pidfd = (int)syscall(SYS_pidfd_open, rank->child.process, 0);
    return BT_OK; // without a pidfd, its closed output shows that it has ended
}

static void say_words(bt_rank *rank)
{
    if (rank->words.length_bytes > 0) {
        (void)fprintf(stderr, "rank %d: %s\n", rank->rank, bt_str_text(&rank->words));
        bt_str_clear(&rank->words);
    }
}

static void take_words(bt_rank *rank, const char *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        const char *newline = memchr(bytes + at, '\n', size_bytes - at);
        const size_t length = newline ? (size_t)(newline - bytes) - at : size_bytes - at;
        bt_str_append_bytes(&rank->words, bytes + at, length);
        if (newline || rank->words.length_bytes >= LINE_BYTES_MAX) {
            say_words(rank);
        }
        at += length + (newline != NULL);
    }
}

void bt_rank_drain(bt_rank *rank, bool last)
{
    char bytes[4096];
    for (int i = 0; i < 64 && rank->errors >= 0; ++i) {
        const ssize_t part = read(rank->errors, bytes, sizeof bytes);
        if (part > 0) {
            take_words(rank, bytes, (size_t)part);
        } else if (part == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_end(&rank->errors);
        } else {
            break;
        }
    }
    if (last || rank->errors < 0) {
        say_words(rank);
        (void)fflush(stderr);
    }
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
    bt_rank_drain(rank, true);
    bt_str_release(&rank->words);
    bt_flight_detach(&rank->flight);
    close_end(&rank->flight_fd);
    close_end(&rank->pidfd);
    close_end(&rank->errors);
}

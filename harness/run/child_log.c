// harness/run/child_log.c - writes a worker's standard error to a file of bounded size
//
// The head is written to the file as it arrives; the last bytes are kept in a ring buffer and
// written at the end, after a line that gives the number of missing bytes.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "harness/run/child.h"

enum {
    LOG_HEAD_BYTES = 1 << 20,
    LOG_END_BYTES = 16384,
    WORDS_BYTES_MAX = 4096 // a longer line is cut into pieces
};

// A log that cannot be written (a full disk) is truncated there: it must not end the round.
static void write_log(bt_child *child, const char *bytes, size_t size_bytes)
{
    while (size_bytes > 0 && child->log >= 0) {
        ssize_t part = write(child->log, bytes, size_bytes);
        if (part <= 0) {
            bt_child_close(&child->log);
            return;
        }
        bytes += part;
        size_bytes -= (size_t)part;
    }
}

static void say_words(bt_child *child)
{
    if (child->words.length_bytes > 0) {
        (void)fprintf(stderr, "%s%s\n", child->prefix, bt_str_text(&child->words));
        bt_str_clear(&child->words);
    }
}

static void take_words(bt_child *child, const char *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        const char *newline = memchr(bytes + at, '\n', size_bytes - at);
        const size_t length = newline ? (size_t)(newline - bytes) - at : size_bytes - at;
        bt_str_append_bytes(&child->words, bytes + at, length);
        if (newline || child->words.length_bytes >= WORDS_BYTES_MAX) {
            say_words(child);
        }
        at += length + (newline != NULL);
    }
}

// The head goes to the file, later bytes to the ring buffer.
static void take_errors(bt_child *child, const char *bytes, size_t size_bytes)
{
    if (*child->prefix) {
        take_words(child, bytes, size_bytes);
        return;
    }
    int64_t room = LOG_HEAD_BYTES - child->log_bytes;
    size_t head = room <= 0 ? 0 : (size_t)room < size_bytes ? (size_t)room : size_bytes;
    write_log(child, bytes, head);
    if (head < size_bytes && !child->log_end) {
        void *block = NULL;
        if (bt_mem_alloc(LOG_END_BYTES, 1, &block) != BT_OK) {
            bt_error_clear(); // the log lacks its end
        }
        child->log_end = block;
    }
    for (size_t i = head; i < size_bytes && child->log_end; ++i) {
        child->log_end[(child->log_bytes + (int64_t)i) % LOG_END_BYTES] = bytes[i];
    }
    child->log_bytes += (int64_t)size_bytes;
}

void bt_child_log_take(bt_child *child)
{
    char bytes[16384];
    for (int i = 0; i < 16 && child->errors >= 0; ++i) {
        ssize_t part = read(child->errors, bytes, sizeof bytes);
        if (part > 0) {
            take_errors(child, bytes, (size_t)part);
        } else if (part == 0 || (errno != EAGAIN && errno != EINTR)) {
            bt_child_close(&child->errors);
        } else {
            return;
        }
    }
}

void bt_child_log_finish(bt_child *child)
{
    bt_child_log_take(child);
    bt_child_close(&child->errors);
    say_words(child);
    int64_t behind = child->log_bytes - LOG_HEAD_BYTES;
    int64_t kept = behind < LOG_END_BYTES ? behind : LOG_END_BYTES;
    if (child->log < 0 || !child->log_end || behind <= 0) {
        bt_child_close(&child->log);
        return;
    }
    if (behind > kept) {
        char text[96];
        int length = snprintf(text, sizeof text, "\n... %lld bytes are omitted here ...\n",
                              (long long)(behind - kept));
        write_log(child, text, (size_t)length);
    }
    for (int64_t i = child->log_bytes - kept; i < child->log_bytes; ++i) {
        write_log(child, &child->log_end[i % LOG_END_BYTES], 1);
    }
    bt_child_close(&child->log);
}

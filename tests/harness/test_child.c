// tests/harness/test_child.c - what a worker says is heard to its last line, however it ends
//
// poll is this file's own: it can come back empty-handed and, before anybody looks again, let the
// worker say everything and die. On a busy machine the scheduler does that.
#include "harness/run/child.h"

#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { LINE_BYTES_MAX = 100 };

static pid_t late; // poll sees nothing of this process before it is dead; 0: poll as it is

int poll(struct pollfd *watched, nfds_t count, int timeout_ms)
{
    const struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    siginfo_t info;
    if (late == 0) {
        return ppoll(watched, count, &timeout, NULL);
    }
    assert_int_equal(waitid(P_PID, (id_t)late, &info, WEXITED | WNOWAIT), 0);
    late = 0;
    for (nfds_t i = 0; i < count; ++i) {
        watched[i].revents = 0;
    }
    return 0;
}

// Runs a script as the worker; "a|b|" is what it said, a '-' instead of the last '|': half a line.
static const char *hear(const char *script, bool is_late)
{
    static char heard[1024];
    const char *path = test_scratch_write("worker.sh", script, strlen(script));
    bt_child child;
    bt_child_said said = BT_CHILD_NOTHING;
    size_t length = 0;
    assert_int_equal(chmod(path, 0755), 0);
    ASSERT_OK(bt_child_start(path, false, "{}", test_scratch_path("log"), &child));
    late = is_late ? child.process : 0;
    while (said != BT_CHILD_END) {
        const char *line = NULL;
        size_t size_bytes = 0;
        bool complete = false;
        ASSERT_OK(
            bt_child_listen(&child, 50, LINE_BYTES_MAX, &said, &line, &size_bytes, &complete));
        if (said == BT_CHILD_LINE) {
            assert_true(length + size_bytes + 2 < sizeof heard);
            memcpy(heard + length, line, size_bytes);
            length += size_bytes;
            heard[length++] = complete ? '|' : '-';
        }
    }
    heard[length] = '\0';
    bt_child_release(&child);
    return heard;
}

static void what_it_says_after_poll_gave_up_is_heard(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; ++is_late) {
        assert_string_equal(hear("#!/bin/sh\necho one\necho two\n", is_late), "one|two|");
        assert_string_equal(hear("#!/bin/sh\necho one\nprintf tw\n", is_late), "one|tw-");
        assert_string_equal(hear("#!/bin/sh\n", is_late), "");
        assert_string_equal(hear("#!/bin/sh\necho one\nkill -9 $$\n", is_late), "one|");
    }
}

// Its sleeping child holds the output open for a minute.
static void one_that_died_is_not_waited_for(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; ++is_late) {
        assert_string_equal(hear("#!/bin/sh\nsleep 60 &\necho one\n", is_late), "one|");
        assert_string_equal(hear("#!/bin/sh\nsleep 60 &\nprintf on\n", is_late), "on-");
    }
}

// A child that speaks on for longer than the worker lives, but is never silent for long.
static void its_children_are_heard_while_they_speak(void **state)
{
    (void)state;
    assert_string_equal(hear("#!/bin/sh\n(sleep 0.02; echo two) &\necho one\n", false), "one|two|");
}

int main(void)
{
    bt_interrupt_watch(); // a worker that ends at once is written to all the same
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_after_poll_gave_up_is_heard),
        cmocka_unit_test(one_that_died_is_not_waited_for),
        cmocka_unit_test(its_children_are_heard_while_they_speak),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}

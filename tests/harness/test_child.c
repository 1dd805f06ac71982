// tests/harness/test_child.c - a worker's output is read to its last line, however it ends
//
// poll is this file's own: it can come back empty-handed and, before anybody looks again, let the
// worker say everything and die. On a busy machine the scheduler does that.
#include "harness/run/child.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "framework/base/file.h"
#include "harness/run/ahead.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { LINE_BYTES_MAX = 100 };

static pid_t late; // poll returns no event of this process until it has ended; 0: poll as it is

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

// Runs a script as the worker; "a|b|" is its output, a '-' instead of the last '|': half a line.
static const char *hear(const char *script, bool is_late)
{
    static char heard[1024];
    const char *path = test_scratch_write("worker.sh", script, strlen(script));
    bt_child child;
    bt_child_said said = BT_CHILD_NOTHING;
    size_t length = 0;
    assert_int_equal(chmod(path, 0755), 0);
    ASSERT_OK(bt_child_spawn(path, false, test_scratch_path("log"), &child));
    ASSERT_OK(bt_child_give(&child, "{}"));
    late = is_late ? child.process : 0;
    while (said != BT_CHILD_END) {
        bt_child_line line;
        ASSERT_OK(bt_child_listen(&child, 50, LINE_BYTES_MAX, &said, &line));
        if (said == BT_CHILD_LINE) {
            assert_true(length + line.size_bytes + 2 < sizeof heard);
            memcpy(heard + length, line.text, line.size_bytes);
            length += line.size_bytes;
            heard[length++] = line.complete ? '|' : '-';
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

static bool allowed_for(const char *device, const char *text)
{
    bt_json_doc json;
    ASSERT_OK(bt_json_parse("plan", text, strlen(text), &json));
    const cJSON *cases = bt_json_get(json.root, "cases");
    const bt_plan plan = {
        .cases = cases, .device = device, .case_count = cJSON_GetArraySize(cases)};
    bool allowed = bt_ahead_allowed(&plan);
    bt_json_doc_release(&json);
    return allowed;
}

static void imports_beside_a_training_case_would_slow_it(void **state)
{
    (void)state;
    static const char kernels[] = "{\"cases\": [{\"kernel\": {}}, {\"kernel\": {}}]}";
    assert_true(allowed_for("cuda", kernels));
    assert_false(allowed_for("cpu", kernels));
    assert_false(allowed_for("cuda", "{\"cases\": [{\"kernel\": {}}, {\"train\": {}}]}"));
}

// A peer that prints its number before it has a task, and then its task.
static void peers_wait_for_their_turn_where_allowed(void **state)
{
    (void)state;
    const char *path = test_scratch_path("waiting.sh");
    static const char script[] = "#!/bin/sh\necho ready $$\nread task\necho got $task\n";
    ASSERT_OK(bt_file_write(path, script, sizeof script - 1));
    assert_int_equal(chmod(path, 0755), 0);
    const bt_peer systems[] = {{.name = (char *)"blutrain"},
                               {.name = (char *)"p", .program = (char *)(uintptr_t)path}};
    bt_ahead ahead;
    bt_child first, second, none;
    char folder[256], log[300];
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("."));
    (void)snprintf(log, sizeof log, "%s/round.log", folder);
    ASSERT_OK(bt_ahead_make(systems, 2, false, folder, &ahead));
    bt_ahead_take(&ahead, systems, 1, log, &none);
    assert_int_equal(none.process, 0);
    bt_ahead_release(&ahead);
    ASSERT_OK(bt_ahead_make(systems, 2, true, folder, &ahead));
    bt_ahead_take(&ahead, systems, 0, log, &none); // ours is not started ahead
    assert_int_equal(none.process, 0);
    bt_ahead_take(&ahead, systems, 1, log, &first);
    bt_ahead_take(&ahead, systems, 1, log, &second);
    assert_true(first.process > 0 && second.process > 0 && first.process != second.process);
    bt_child *const children[] = {&first, &second};
    for (int i = 0; i < 2; ++i) {
        bt_child_line line;
        bt_child_said said = BT_CHILD_NOTHING;
        ASSERT_OK(bt_child_listen(children[i], 10000, 100, &said, &line));
        assert_int_equal(said, BT_CHILD_LINE);
        assert_memory_equal(line.text, "ready", 5);
        ASSERT_OK(bt_child_give(children[i], i ? "two" : "one"));
        said = BT_CHILD_NOTHING;
        for (int tries = 0; said == BT_CHILD_NOTHING && tries < 100; ++tries) {
            ASSERT_OK(bt_child_listen(children[i], 100, 100, &said, &line));
        }
        assert_int_equal(said, BT_CHILD_LINE);
        assert_memory_equal(line.text, i ? "got two" : "got one", 7);
        bt_child_release(children[i]);
    }
    for (int i = 0; i < 2 * BT_AHEAD_DEPTH; ++i) { // each one taken has a successor
        bt_ahead_take(&ahead, systems, 1, log, &first);
        assert_true(first.process > 0);
        bt_child_release(&first);
    }
    bt_ahead_release(&ahead);
}

int main(void)
{
    bt_interrupt_watch(); // a worker that ends at once is written to all the same
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_after_poll_gave_up_is_heard),
        cmocka_unit_test(one_that_died_is_not_waited_for),
        cmocka_unit_test(its_children_are_heard_while_they_speak),
        cmocka_unit_test(peers_wait_for_their_turn_where_allowed),
        cmocka_unit_test(imports_beside_a_training_case_would_slow_it),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}

// Descriptors between processes of one host.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/mailbox.h"
#include "framework/dist/rendezvous.h"
#include "tests/support/test.h"

static const int64_t second_ns = 1000000000;

static void a_descriptor_arrives(void **state)
{
    (void)state;
    bt_mailbox boxes[2];
    int ends[2];
    ASSERT_OK(bt_mailbox_open(&boxes[0]));
    ASSERT_OK(bt_mailbox_open(&boxes[1]));
    assert_true(boxes[0].name != boxes[1].name);
    assert_int_equal(pipe(ends), 0);
    int64_t deadline_ns = bt_clock_ns() + second_ns;
    ASSERT_OK(bt_mailbox_send(&boxes[0], boxes[1].name, 7, ends[1], deadline_ns));
    uint64_t tag = 0;
    int fd = -1;
    ASSERT_OK(bt_mailbox_receive(&boxes[1], deadline_ns, &tag, &fd));
    assert_int_equal(tag, 7);
    char byte = 0;
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    (void)close(fd);
    (void)close(ends[0]);
    (void)close(ends[1]);
    bt_mailbox_close(&boxes[0]);
    bt_mailbox_close(&boxes[1]);
}

static void strangers_and_silence_are_errors(void **state)
{
    (void)state;
    bt_mailbox box;
    ASSERT_OK(bt_mailbox_open(&box));
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int length =
        snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "blutrain-%016" PRIx64, box.name);
    int stranger = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    assert_int_equal(sendto(stranger, "hello", 5, 0, (struct sockaddr *)&at, bytes), 5);
    uint64_t tag = 0;
    int fd = 0;
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "no file descriptor arrived",
                 bt_mailbox_receive(&box, bt_clock_ns() + second_ns / 20, &tag, &fd));
    assert_int_equal(fd, -1);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "cannot send a file descriptor",
                 bt_mailbox_send(&box, box.name + 1, 0, stranger, bt_clock_ns() + second_ns));
    (void)close(stranger);
    bt_mailbox_close(&box);
}

static void a_machine_is_told_by_a_number(void **state)
{
    (void)state;
    assert_true(bt_rendezvous_machine() != 0);
    assert_int_equal(bt_rendezvous_machine(), bt_rendezvous_machine());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_arrives),
        cmocka_unit_test(strangers_and_silence_are_errors),
        cmocka_unit_test(a_machine_is_told_by_a_number),
    };
    return cmocka_run_group_tests_name("dist.mailbox", tests, NULL, NULL);
}

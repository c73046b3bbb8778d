/* SPDX-License-Identifier: MPL-2.0 */
/* fork_test.c -- what a forked child may do with its parent's bus: nothing, and it disturbs
 * nothing. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fork, .init = stage_open, .fini = stage_close, .timeout = 120);

/* Exit code 0: all is as promised; otherwise the number of what was not. */
static int try_in_child(struct bus **bus, struct bus_sub **sub, struct bus_slot **slot)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    if (bus_publish(*bus, "w", "ghost", 5) != BUS_ECLOSED) {
        return 1;
    }
    if (bus_sub_recv(*sub, BUS_FOREVER, &msg, &error) != BUS_ECLOSED || error == NULL) {
        return 2;
    }
    bus_error_unref(&error);
    if (bus_await(*bus, "bob/w", 0, BUS_FOREVER, &msg, NULL) != BUS_ECLOSED) {
        return 3;
    }
    if (bus_flush(*bus, BUS_FOREVER) != BUS_ECLOSED) {
        return 4;
    }
    if (bus_slot_commit(slot, "ghost", 5) != BUS_ECLOSED) {
        return 5;
    }
    bus_slot_fail(slot, NULL);
    bus_sub_close(sub);
    enum bus_err err = bus_close(bus, BUS_FOREVER);
    if (err != BUS_OK && err != BUS_ECLOSED) {
        return 6;
    }
    return *bus != NULL ? 7 : 0;
}

Test(fork, of_a_party_is_not_the_party)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(alice, "bob/w");
    struct bus_sub *watch = must_subscribe(bob, "alice/#");
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        _exit(try_in_child(&alice, &sub, &slot));
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d",
              WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));

    /* The membership of the parent is untouched, and nothing was sent in its name. */
    expect_nothing(bob, watch);
    must_commit(&slot, "the parent's");
    expect_value(watch, "alice/w", 0, "the parent's");
    must_publish(bob, "w", "to the parent");
    expect_value(sub, "bob/w", 0, "to the parent");
    bus_sub_close(&sub);
    bus_sub_close(&watch);
    must_close(&alice);
    must_close(&bob);
}

Test(fork, and_exit_at_once_is_fine)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        int status = 0;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
        must_publish(alice, "w", "x");
        expect_awaited(bob, "alice/w", (uint64_t)i, "x");
    }
    must_close(&alice);
    must_close(&bob);
}

#define FDS_MAX 1024

/* What a child that is replaced by another program inherits: none of our descriptors. */
Test(fork, and_exec_leaves_no_descriptor_open)
{
    bool was_open[FDS_MAX];
    for (int fd = 0; fd < FDS_MAX; fd++) {
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    struct bus *alice = must_open("alice");
    struct bus_sub *sub = must_subscribe(alice, "bob/w");
    cr_assert_geq(bus_sub_fd(sub), 0);
    cr_assert_geq(bus_failure_fd(alice), 0);
    int ours = 0;
    for (int fd = 0; fd < FDS_MAX; fd++) {
        int flags = fcntl(fd, F_GETFD);
        ours += !was_open[fd] && flags >= 0;
        cr_expect(was_open[fd] || flags < 0 || (flags & FD_CLOEXEC) != 0,
                  "descriptor %d is inherited", fd);
    }
    cr_expect_gt(ours, 2);
    bus_sub_close(&sub);
    must_close(&alice);
}

/* SPDX-License-Identifier: MPL-2.0 */
/* top_test.c -- errbus top with a real broker: one picture as JSON and as text, and a terminal. */
#include "tests/lib/expect.h"
#include "tests/lib/relay.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

TestSuite(top, .init = stage_open, .fini = stage_close, .timeout = 120);

enum { SCREEN_BYTES = 1 << 16, COLUMNS = 80, LINES = 12 };

/* Carol owes a slot that Bob waits for; Alice has written three values, and the name of a topic of
 * hers has what a terminal or a page could take for its own. */
struct scene {
    struct bus *alice, *bob, *carol;
    struct bus_slot *slot;
    struct bus_sub *sub;
    struct waiter waiter;
};

static void scene_open(struct scene *scene)
{
    scene->alice = must_open("alice");
    scene->bob = must_open("bob");
    scene->carol = must_open("carol");
    scene->sub = must_subscribe(scene->bob, "alice/x");
    for (int i = 0; i < 3; i++)
        must_publish(scene->alice, "x", "v");
    must_publish(scene->alice, "<b>\"\\", "v");
    scene->slot = must_reserve(scene->carol, "w");
    must_flush(scene->alice);
    must_flush(scene->carol);
    scene->waiter =
        (struct waiter){.bus = scene->bob, .topic = "carol/w", .timeout_ms = 4 * SOON_MS};
    waiter_start(&scene->waiter);
    struct bus_why *why = NULL;
    for (int i = 0; i < SOON_MS / 10; i++) { /* until his wait is known */
        expect_code(bus_why_get(stage_admin(), NULL, NULL, 0, SOON_MS, &why, NULL), BUS_OK);
        bool is_known = bus_why_edge_count(why) > 0;
        bus_why_free(&why);
        if (is_known)
            return;
        (void)usleep(10000);
    }
    cr_assert_fail("bob never waits");
}

static void scene_close(struct scene *scene)
{
    must_commit(&scene->slot, "moves");
    waiter_join(&scene->waiter);
    waiter_fini(&scene->waiter);
    bus_sub_close(&scene->sub);
    must_close(&scene->carol);
    must_close(&scene->bob);
    must_close(&scene->alice);
}

/* What `errbus top` says, kept until the next call; words may be NULL. */
static const char *errbus_top(int code, const char *first, const char *second, const char *third)
{
    static struct process process;
    const char *argv[] = {"errbus", "top", "-s",   stage.control, "--every",
                          "0.1",    first, second, third,         NULL};
    process_fini(&process);
    cr_assert(process_start(&process, argv, NULL));
    int got = process_wait(&process, SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s", got, code, process_complained(&process));
    return code == 0 ? process_said(&process) : process_complained(&process);
}

/* The same without what differs each time, or with another framing: times and sizes become N. */
static char *golden(const char *said)
{
    static char text[SCREEN_BYTES];
    size_t bytes = 0;
    for (const char *at = said; *at != '\0' && bytes + 2 < sizeof text;) {
        bool is_time = bytes >= 5 && memcmp(text + bytes - 5, "_ms\":", 5) == 0;
        bool is_size = bytes >= 7 && memcmp(text + bytes - 7, "bytes\":", 7) == 0;
        if (!is_time && !is_size) {
            text[bytes++] = *at++;
            continue;
        }
        at += strspn(at, "0123456789");
        text[bytes++] = 'N';
    }
    text[bytes] = '\0';
    return text;
}

Test(top, shows_one_picture_as_json)
{
    struct scene scene;
    scene_open(&scene);
    const char *said = golden(errbus_top(0, "--once", "--json", NULL));
    const char *rest = strchr(said, '\n');
    cr_assert(rest != NULL && strncmp(said, "{\"row\":\"broker\",\"version\":\"", 27) == 0, "%s",
              said);
    cr_expect_str_eq(
        rest + 1,
        "{\"row\":\"job\",\"job\":\"default\",\"name\":\"default\",\"state\":\"running\","
        "\"parties\":3,\"open\":1,\"open_ms\":N,\"values_per_s\":0,\"behind\":3,\"waiters\":1,"
        "\"waits_for\":\"carol\",\"waits_ms\":N}\n"
        "{\"row\":\"party\",\"job\":\"default\",\"name\":\"carol\",\"state\":\"running\","
        "\"incarnation\":1,\"open\":1,\"open_ms\":N,\"open_topic\":\"carol/w\",\"open_seq\":0,"
        "\"silent_ms\":N,\"waits_for\":null}\n"
        "{\"row\":\"party\",\"job\":\"default\",\"name\":\"alice\",\"state\":\"running\","
        "\"incarnation\":1,\"open\":0,\"silent_ms\":N,\"waits_for\":null}\n"
        "{\"row\":\"party\",\"job\":\"default\",\"name\":\"bob\",\"state\":\"running\","
        "\"incarnation\":1,\"open\":0,\"silent_ms\":N,\"waits_for\":\"carol\",\"waits_ms\":N,"
        "\"wait\":\"carol/w#0\"}\n"
        "{\"row\":\"topic\",\"job\":\"default\",\"name\":\"alice/<b>\\\"\\\\\",\"party\":\"alice\","
        "\"values_per_s\":0,\"next_seq\":1,\"open\":0,\"kept\":1,\"kept_bytes\":N}\n"
        "{\"row\":\"topic\",\"job\":\"default\",\"name\":\"alice/x\",\"party\":\"alice\","
        "\"values_per_s\":0,\"next_seq\":3,\"open\":0,\"kept\":3,\"kept_bytes\":N}\n"
        "{\"row\":\"topic\",\"job\":\"default\",\"name\":\"carol/w\",\"party\":\"carol\","
        "\"values_per_s\":0,\"next_seq\":1,\"open\":1,\"kept\":0,\"kept_bytes\":N}\n"
        "{\"row\":\"subscription\",\"job\":\"default\",\"name\":\"alice/x\",\"party\":\"bob\","
        "\"state\":\"live\",\"behind\":3}\n");
    scene_close(&scene);
}

Test(top, sorts_and_filters_and_says_what_is_wrong)
{
    struct scene scene;
    scene_open(&scene);
    const char *said = errbus_top(0, "--once", "--sort=name", "--filter=alice");
    const char *topic = strstr(said, "  alice/x ");
    cr_expect(topic != NULL && strstr(said, "carol/w") == NULL, "%s", said);
    cr_expect_null(strchr(said, '\033'), "a pipe gets text alone");
    said = errbus_top(0, "--once", "--rows=1", NULL);
    cr_expect(strstr(said, "  and 2 more\n") != NULL, "%s", said);
    said = errbus_top(0, "--once", NULL, NULL);
    const char *carol = strstr(said, "\n  carol ");
    const char *alice = strstr(said, "\n  alice ");
    cr_expect(carol != NULL && alice != NULL && carol < alice, "who owes comes first: %s", said);
    cr_expect(strstr(said, "carol, ") != NULL && strstr(said, ": carol/w#0\n") != NULL, "%s", said);
    cr_expect_not_null(strstr(errbus_top(2, "--sort=x", NULL, NULL), "--sort takes busy, name"));
    cr_expect_not_null(strstr(errbus_top(2, "--every=0", NULL, NULL), "--every takes 0.1 to"));
    cr_expect_not_null(strstr(errbus_top(2, "nothing", "--once", NULL), "nothing"));
    scene_close(&scene);
}

/* Reads pictures until alice/x has a rate in one, or none; gives it.  *passed_ms: what passed since
 * the picture before, by the clock of the broker. */
static int64_t next_rate(struct process *process, bool is_any, long long *passed_ms)
{
    static long long uptime_ms;
    const char *line = "";
    long long rate = -1;
    while (rate < 0 || (rate > 0) != is_any) {
        cr_assert(process_line(process, SOON_MS, &line), "%s", process_complained(process));
        const char *at = strstr(line, "\"name\":\"alice/x\",\"party\":\"alice\",\"values_per_s\":");
        const char *uptime = strstr(line, "\"uptime_ms\":");
        if (uptime != NULL) {
            *passed_ms = -uptime_ms;
            cr_assert_eq(sscanf(uptime, "\"uptime_ms\":%lld", &uptime_ms), 1, "%s", line);
            *passed_ms += uptime_ms;
        }
        if (at != NULL)
            cr_assert_eq(sscanf(strstr(at, "per_s\":"), "per_s\":%lld", &rate), 1, "%s", line);
    }
    return rate;
}

Test(top, counts_values_between_two_pictures)
{
    static struct process process;
    const char *const argv[] = {"errbus", "top",     "-s",  stage.control,
                                "--json", "--every", "0.2", NULL};
    struct bus *alice = must_open("alice");
    long long passed_ms = 0;
    must_publish(alice, "x", "before");
    must_flush(alice);
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(next_rate(&process, false, &passed_ms), 0,
                 "what was there before counts for nothing");
    for (int i = 0; i < 1000; i++)
        must_publish(alice, "x", "v");
    must_flush(alice);
    int64_t rate = next_rate(&process, true, &passed_ms);
    cr_expect_leq(rate * passed_ms, 1000 * 1000, "%lld a second are more than 1000 in %lld ms",
                  (long long)rate, passed_ms);
    cr_expect_eq(next_rate(&process, false, &passed_ms), 0, "and later there are none");
    process_signal(&process, SIGTERM);
    cr_expect_eq(process_wait(&process, SOON_MS), 128 + SIGTERM);
    process_fini(&process);
    must_close(&alice);
}

/* An answer is late, and what happens before it comes is in the next one.  By the clock of this end
 * that follows at once, so its rate would be hundreds of times too high.  Of one job the status is
 * asked for first.  If something else of the broker's is late instead, the test shows less. */
Test(top, counts_by_the_clock_of_the_broker)
{
    static struct process process;
    static struct relay relay;
    long long passed_ms = 0;
    cr_assert(relay_open(&relay));
    cr_assert(relay_start(&relay, stage.control, stage.data));
    const char *const argv[] = {"errbus",  "top", "-s", relay.control_endpoint, "default", "--json",
                                "--every", "0.2", NULL};
    struct bus *alice = must_open("alice");
    must_publish(alice, "x", "before");
    must_flush(alice);
    cr_assert(process_start(&process, argv, NULL));
    (void)next_rate(&process, false, &passed_ms);
    relay_set(&relay, RELAY_LATE);
    cr_assert(relay_await_held(&relay, SOON_MS));
    for (int i = 0; i < 1000; i++)
        must_publish(alice, "x", "v");
    must_flush(alice);
    relay_set(&relay, RELAY_WHOLE);
    int64_t rate = next_rate(&process, true, &passed_ms);
    cr_expect_leq(rate * passed_ms, 1000 * 1000, "%lld a second are more than 1000 in %lld ms",
                  (long long)rate, passed_ms);
    process_fini(&process);
    relay_fini(&relay);
    must_close(&alice);
}

/* ---- a terminal ------------------------------------------------------------------------------ */

struct screen {
    int terminal;
    pid_t child;
    size_t bytes;
    char text[SCREEN_BYTES];
};

static void screen_open(struct screen *screen)
{
    const struct winsize size = {.ws_row = LINES, .ws_col = COLUMNS};
    char path[4096];
    cr_assert_not_null(process_path("errbus", path, sizeof path));
    *screen = (struct screen){.terminal = -1};
    screen->child = forkpty(&screen->terminal, NULL, NULL, &size);
    cr_assert_geq(screen->child, 0);
    if (screen->child == 0) {
        (void)execl(path, "errbus", "top", "-s", stage.control, "--every", "0.1", (char *)NULL);
        _exit(127);
    }
}

/* Reads until the screen has got so many of the words. */
static void read_until(struct screen *screen, const char *word, int count)
{
    for (;;) {
        struct pollfd item = {.fd = screen->terminal, .events = POLLIN};
        int found = 0;
        for (const char *at = screen->text; (at = strstr(at, word)) != NULL; at++)
            found += 1;
        if (found >= count)
            return;
        cr_assert_eq(poll(&item, 1, SOON_MS), 1, "no more: %s", screen->text);
        ssize_t got = read(screen->terminal, screen->text + screen->bytes,
                           sizeof screen->text - 1 - screen->bytes);
        cr_assert_gt(got, 0, "%s", screen->text);
        screen->bytes += (size_t)got;
        screen->text[screen->bytes] = '\0';
    }
}

/* No line is longer than the terminal, and none is written beyond its end. */
static void expect_lines_that_fit(const char *text)
{
    size_t columns = 0;
    for (; *text != '\0'; text++) {
        if (*text == '\033') { /* of ours: ESC [ digits letter */
            text += 1 + strspn(text + 1, "[0123456789");
            continue;
        }
        columns = *text == '\n' || *text == '\r' ? 0 : columns + 1;
        cr_assert_leq(columns, COLUMNS, "a line is too long");
    }
}

Test(top, leaves_the_terminal_as_it_was)
{
    struct scene scene;
    static struct screen screen;
    static struct termios before, after; /* the bytes between their fields are compared, too: 0 */
    int status = 0;
    scene_open(&scene);
    screen_open(&screen);
    cr_assert_eq(tcgetattr(screen.terminal, &before), 0);
    read_until(&screen, "broker ", 3);
    cr_expect_not_null(strstr(screen.text, "\033[11A"), "a picture over the last one, of 11 lines");
    cr_assert_eq(kill(screen.child, SIGSTOP), 0);
    cr_assert_eq(waitpid(screen.child, &status, WUNTRACED), screen.child);
    screen.bytes = 0;
    screen.text[0] = '\0';
    const struct winsize smaller = {.ws_row = 6, .ws_col = COLUMNS};
    cr_assert_eq(ioctl(screen.terminal, TIOCSWINSZ, &smaller), 0);
    cr_assert_eq(kill(screen.child, SIGCONT), 0);
    read_until(&screen, "\033[5A", 1); /* the second one after it, of the new size */
    cr_expect_null(strstr(screen.text, "\033[?"), "no mode of the terminal is changed");
    expect_lines_that_fit(screen.text);
    cr_assert_eq(write(screen.terminal, "\003", 1), 1); /* Ctrl-C */
    cr_assert_eq(waitpid(screen.child, &status, 0), screen.child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", (unsigned)status);
    cr_assert_eq(tcgetattr(screen.terminal, &after), 0);
    cr_expect_eq(memcmp(&before, &after, sizeof before), 0);
    cr_assert_eq(close(screen.terminal), 0);
    scene_close(&scene);
}

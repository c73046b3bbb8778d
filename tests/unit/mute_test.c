/* SPDX-License-Identifier: MPL-2.0 */
/* mute_test.c -- when a broker is mute, and what it logs of that; clock, log and journal are the
 * test's. */
#include "broker/io/mute.h"

#include "broker/io/clock.h"
#include "broker/io/log.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)
enum { LINES_MAX = 16, LINE_BYTES = 400 };

static int64_t now_ns;
static bool is_away;
static const char *reason = "";
static int idle[2]; /* a descriptor that is never readable */
static char lines[LINES_MAX][LINE_BYTES];
static size_t line_count;
static struct mute mute;

int64_t clock_monotonic_ns(void)
{
    return now_ns;
}

void log_line(enum log_level level, const char *format, ...)
{
    va_list args;
    cr_expect_eq(level, LOG_WARNING);
    cr_assert_lt(line_count, LINES_MAX);
    va_start(args, format);
    vsnprintf(lines[line_count++], LINE_BYTES, format, args);
    va_end(args);
}

bool persistence_is_mute(const struct persistence *persistence, int64_t at_ns)
{
    (void)persistence;
    cr_expect_eq(at_ns, now_ns);
    return is_away;
}

void persistence_away(const struct persistence *persistence, char *out)
{
    (void)persistence;
    snprintf(out, JOURNAL_COMPLAINT_BYTES, "%s", reason);
}

int persistence_fd(const struct persistence *persistence)
{
    (void)persistence;
    return idle[0];
}

static void init(void)
{
    cr_assert_eq(pipe(idle), 0);
    now_ns = 1000000 * MS;
    reason = "";
}

static void fini(void)
{
    close(idle[0]);
    close(idle[1]);
}

TestSuite(mute, .init = init, .fini = fini, .timeout = 60);

/* Looks so many ms later.  Whether it is mute. */
static bool look(int64_t ms)
{
    now_ns += ms * MS;
    return mute_wait(&mute, NULL, idle[0]);
}

/* These are the lines since the last call; NULL behind them. */
static void expect_lines(const char *const *expected)
{
    size_t count = 0;
    while (expected[count] != NULL)
        count++;
    cr_expect_eq(line_count, count, "%zu lines, the first '%s'", line_count, lines[0]);
    for (size_t i = 0; i < count && i < line_count; i++)
        cr_expect_not_null(strstr(lines[i], expected[i]), "'%s' is not in: %s", expected[i],
                           lines[i]);
    line_count = 0;
}
#define EXPECT(...) expect_lines((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT_NOTHING() expect_lines((const char *const[]){NULL})

Test(mute, begins_and_ends_with_a_line)
{
    cr_expect_not(look(0));
    EXPECT_NOTHING();
    is_away = true;
    cr_expect(look(100));
    EXPECT("this broker says nothing");
    cr_expect(look(100));
    cr_expect(look(10000));
    EXPECT_NOTHING();
    is_away = false;
    cr_expect_not(look(100));
    EXPECT("this broker goes on");
    cr_expect_not(look(100));
    EXPECT_NOTHING();
    is_away = true;
    cr_expect(look(100));
    EXPECT("this broker says nothing");
}

/* A store that fails over has several reasons within a second. */
Test(mute, tells_each_reason_once_and_few_of_them)
{
    is_away = true;
    reason = "refused";
    cr_expect(look(0));
    EXPECT("this broker says nothing", "is away: refused");
    cr_expect(look(10000));
    EXPECT_NOTHING();
    reason = "starting up";
    cr_expect(look(100));
    EXPECT("is away: starting up");
    reason = "a standby";
    cr_expect(look(4999));
    EXPECT_NOTHING();
    cr_expect(look(1));
    EXPECT("is away: a standby");
    reason = "";
    cr_expect(look(10000));
    EXPECT_NOTHING();
}

/* The same reason is news when the store was well in between. */
Test(mute, tells_the_reason_of_the_next_time_anew)
{
    is_away = true;
    reason = "refused";
    cr_expect(look(0));
    is_away = false;
    cr_expect_not(look(100));
    is_away = true;
    line_count = 0;
    cr_expect(look(10000));
    EXPECT("this broker says nothing", "is away: refused");
}

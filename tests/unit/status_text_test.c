/* SPDX-License-Identifier: MPL-2.0 */
/* status_text_test.c -- what errbus status prints: order, columns, and what is only counted. */
#include "clients/status_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_MS UINT64_C(60000)

static const struct bus_status_journal no_journal = {
    .backend = "none", .directory = "", .reason = "", .state = BUS_JOURNAL_WELL};
static const struct bus_status_journal full = {.backend = "folder",
                                               .directory = "/var/lib/errbus/journal",
                                               .reason = "No space left on device",
                                               .state = BUS_JOURNAL_FULL,
                                               .bytes = 3 << 20,
                                               .next = 5000,
                                               .synced = 3976,
                                               .spilled = 2,
                                               .spilled_bytes = 2048};

static struct bus_status_row row_of(enum bus_status_kind kind, const char *name,
                                    enum bus_state state)
{
    return (struct bus_status_row){.kind = kind,
                                   .job = "train",
                                   .name = name,
                                   .party = "",
                                   .pattern = "",
                                   .reason = "",
                                   .state = state,
                                   .incarnation = kind == BUS_STATUS_PARTY};
}

static struct bus_status_row party(const char *name, enum bus_state state, uint64_t open,
                                   uint64_t ms, const char *reason)
{
    struct bus_status_row row = row_of(BUS_STATUS_PARTY, name, state);
    bool has_ended = status_has_ended(&row);
    row.open = open;
    row.silent_ms = has_ended ? 0 : ms;
    row.ended_ms = has_ended ? ms : 0;
    row.reason = reason;
    return row;
}

static struct bus_status_row topic(const char *name, uint64_t next, uint64_t open, uint64_t bytes)
{
    struct bus_status_row row = row_of(BUS_STATUS_TOPIC, name, BUS_STATE_UNKNOWN);
    row.next_seq = next;
    row.open = open;
    row.pending = next - open;
    row.pending_bytes = bytes;
    return row;
}

static struct bus_status_row sub(const char *name, const char *of, uint64_t behind)
{
    struct bus_status_row row = row_of(BUS_STATUS_SUB, name, BUS_STATE_LIVE);
    row.party = of;
    row.pending = behind;
    return row;
}

static struct status_picture picture_of(const struct bus_status_row **rows, size_t count)
{
    return (struct status_picture){.version = "0.1.0",
                                   .durability = "disk",
                                   .uptime_ms = 60 * MIN_MS,
                                   .journal = &no_journal,
                                   .rows = rows,
                                   .count = count};
}

/* What is printed is expected. */
static void expect_text(const struct status_picture *picture, size_t columns, bool is_all,
                        const char *expected)
{
    const struct status_style style = {.columns = columns, .is_all = is_all};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(status_text_print(out, picture, &style));
    fclose(out);
    cr_expect_str_eq(text, expected, "printed:\n%s", text);
    free(text);
}

static void expect_rows(const struct bus_status_row *rows, size_t count, size_t columns,
                        bool is_all, const char *expected)
{
    const struct bus_status_row *list[64];
    cr_assert_leq(count, sizeof list / sizeof list[0]);
    for (size_t i = 0; i < count; i++)
        list[i] = &rows[i];
    struct status_picture picture = picture_of(list, count);
    expect_text(&picture, columns, is_all, expected);
}

/* Those who are gone have no sign of life: when they went is told, and of what. */
Test(status_text, has_a_summary_and_a_line_for_each_party)
{
    struct bus_status_row rows[] = {
        party("worker-10", BUS_STATE_RUNNING, 1, 300, ""),
        party("worker-2", BUS_STATE_RUNNING, 0, 61000, ""),
        party("alice", BUS_STATE_LOST, 0, 12000, "errbus.connection_closed"),
        party("bob", BUS_STATE_LEFT, 0, 3 * MIN_MS, ""),
        party("carol", BUS_STATE_SCHEDULING, 0, 200, ""),
        topic("worker-10/out", 12, 1, 1258291),
        row_of(BUS_STATUS_JOB, "train", BUS_STATE_RUNNING),
    };
    rows[6].open = 1;
    rows[6].pending_bytes = 1258291;
    expect_rows(rows, 7, 80, false,
                "5 parties: 2 running, 1 scheduling, 1 lost, 1 left; 1 open slot; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (running): 5 parties, 1 open slot, 1.2 MiB of values kept\n"
                "  PARTY        STATE       OPEN  HEARD, OR ENDED\n"
                "  alice/1      lost           0  12 s ago: errbus.connection_closed\n"
                "  bob/1        left           0  3 min ago\n"
                "  carol/1      scheduling     0  heard 0.2 s ago\n"
                "  worker-2/1   running        0  heard 1 min ago\n"
                "  worker-10/1  running        1  heard 0.3 s ago\n"
                "  TOPIC          NEXT  OPEN  KEPT    BYTES\n"
                "  worker-10/out    12     1    11  1.2 MiB\n");
}

/* At the limit they are shown, behind it counted; --all shows them. */
Test(status_text, counts_who_ended_long_ago)
{
    struct bus_status_row rows[] = {
        row_of(BUS_STATUS_JOB, "train", BUS_STATE_LINGERING),
        party("a", BUS_STATE_LEFT, 0, STATUS_ENDED_SHOWN_MS, ""),
        party("b", BUS_STATE_LEFT, 0, STATUS_ENDED_SHOWN_MS + 1, ""),
        party("c", BUS_STATE_LOST, 0, 50 * MIN_MS, "errbus.silent"),
        party("d", BUS_STATE_FAILED, 0, 0, "app.x"),
    };
    expect_rows(rows, 5, 80, false,
                "4 parties: 1 failed, 1 lost, 2 left; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (lingering): 4 parties, 0 open slots, 0 B of values kept\n"
                "  PARTY  STATE  OPEN  HEARD, OR ENDED\n"
                "  a/1    left      0  10 min ago\n"
                "  3 parties that ended over 10 min ago: 1 failed, 1 lost, 1 left\n"
                "  (--all lists them)\n");
    expect_rows(rows, 5, 80, true,
                "4 parties: 1 failed, 1 lost, 2 left; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (lingering): 4 parties, 0 open slots, 0 B of values kept\n"
                "  PARTY  STATE   OPEN  HEARD, OR ENDED\n"
                "  a/1    left       0  10 min ago\n"
                "  b/1    left       0  10 min ago\n"
                "  c/1    lost       0  50 min ago: errbus.silent\n"
                "  d/1    failed     0  time not known: app.x\n");
}

/* A name that is too wide loses its middle; a character may take two columns, or none. */
Test(status_text, keeps_within_the_columns_of_a_terminal)
{
    struct bus_status_row rows[] = {
        row_of(BUS_STATUS_JOB, "train", BUS_STATE_RUNNING),
        party("silo-of-the-university-hospital-of-some-town-17", BUS_STATE_LOST, 0, 12000,
              "errbus.connection_closed"),
        party("\xe5\xba\x97\xe5\x93\x81", BUS_STATE_RUNNING, 0, 0, ""), /* two wide characters */
        party("e\xcc\x81", BUS_STATE_RUNNING, 0, 0, ""), /* a letter and its accent */
    };
    expect_rows(rows, 4, 64, false,
                "3 parties: 2 running, 1 lost; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (running): 3 parties, 0 open slots, 0 B of values kept\n"
                "  PARTY         STATE    OPEN  HEARD, OR ENDED\n"
                "  e\xcc\x81/1           running     0  heard 0.0 s ago\n"
                "  silo...-17/1  lost        0  12 s ago: errbus.connection_closed\n"
                "  \xe5\xba\x97\xe5\x93\x81/1        running     0  heard 0.0 s ago\n");
}

/* On one machine all windows are alike, and there is nothing to say. */
Test(status_text, tells_of_windows_that_follow_a_link)
{
    enum { NEAR = 512 * 1024 };
    struct bus_status_row rows[] = {
        row_of(BUS_STATUS_JOB, "train", BUS_STATE_RUNNING),
        sub("alice/a", "bob", 0),
        sub("alice/b", "carol", 0),
        sub("alice/c", "dan", 0),
    };
    rows[0].window_bytes = 2 * NEAR;
    rows[1].window_bytes = rows[2].window_bytes = NEAR;
    const char *parts[] = {
        "0 parties; 0 open slots; no journal\n"
        "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
        "job train (running): 0 parties, 0 open slots, 0 B of values kept\n"
        "  SUBSCRIPTION  STATE  BEHIND  PARTY\n"
        "  alice/a       live        0  bob\n"
        "  alice/b       live        0  carol\n"
        "  alice/c       live        0  dan\n",
        "  windows of readers: 3.5 MiB, the largest 3.0 MiB: alice/b of carol\n"};
    char text[1024];
    expect_rows(rows, 4, 0, false, parts[0]);
    rows[0].window_bytes = 7 * NEAR;
    rows[2].window_bytes = 6 * NEAR;
    snprintf(text, sizeof text, "%s%s", parts[0], parts[1]);
    expect_rows(rows, 4, 0, false, text);
}

Test(status_text, counts_the_rows_of_a_long_table)
{
    enum { ROWS = STATUS_ROWS_SHOWN + 1 };
    static char names[ROWS][16];
    struct bus_status_row rows[2 * ROWS + 1];
    rows[0] = row_of(BUS_STATUS_JOB, "train", BUS_STATE_RUNNING);
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "a/%zu", i);
        rows[1 + i] = topic(names[i], i, 0, 0);
        rows[1 + ROWS + i] = sub(names[i], "bob", i);
    }
    expect_rows(rows, 2 * ROWS + 1, 80, false,
                "0 parties; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (running): 0 parties, 0 open slots, 0 B of values kept\n"
                "  11 topics (--all lists them)\n"
                "  11 subscriptions, the furthest is 10 behind: a/10 of bob (--all lists them)\n");
    expect_rows(rows, ROWS, 80, false,
                "0 parties; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (running): 0 parties, 0 open slots, 0 B of values kept\n"
                "  TOPIC  NEXT  OPEN  KEPT  BYTES\n"
                "  a/0       0     0     0    0 B\n"
                "  a/1       1     0     1    0 B\n"
                "  a/2       2     0     2    0 B\n"
                "  a/3       3     0     3    0 B\n"
                "  a/4       4     0     4    0 B\n"
                "  a/5       5     0     5    0 B\n"
                "  a/6       6     0     6    0 B\n"
                "  a/7       7     0     7    0 B\n"
                "  a/8       8     0     8    0 B\n"
                "  a/9       9     0     9    0 B\n");
}

Test(status_text, says_what_is_the_matter_with_the_journal)
{
    struct bus_status_row jobs[] = {row_of(BUS_STATUS_JOB, "a", BUS_STATE_FREE),
                                    row_of(BUS_STATUS_JOB, "b", BUS_STATE_FREE)};
    jobs[0].job = "a";
    jobs[1].job = "b";
    const struct bus_status_row *rows[] = {&jobs[1], &jobs[0]};
    struct status_picture picture = picture_of(rows, 2);
    picture.journal = &full;
    picture.refused = 1;
    expect_text(&picture, 0, false,
                "2 jobs, 0 parties; 0 open slots; journal full: values are held back\n"
                "broker 0.1.0: up 1 h, durability disk, 1 message refused\n"
                "journal /var/lib/errbus/journal (folder): 3.0 MiB (1.0 KiB not synced yet) "
                "(2.0 KiB of values on the disk only)\n"
                "  No space left on device\n"
                "job a (free): 0 parties, 0 open slots, 0 B of values kept\n"
                "job b (free): 0 parties, 0 open slots, 0 B of values kept\n");
}

/* A name of another may have been chosen to tell the terminal what to do. */
Test(status_text, lets_no_name_speak_to_the_terminal)
{
    struct bus_status_row rows[] = {row_of(BUS_STATUS_JOB, "train", BUS_STATE_RUNNING),
                                    party("\x1b[2J", BUS_STATE_RUNNING, 0, 0, "")};
    expect_rows(rows, 2, 80, false,
                "1 party: 1 running; 0 open slots; no journal\n"
                "broker 0.1.0: up 1 h, durability disk, 0 messages refused\n"
                "job train (running): 1 party, 0 open slots, 0 B of values kept\n"
                "  PARTY      STATE    OPEN  HEARD, OR ENDED\n"
                "  \\x1b[2J/1  running     0  heard 0.0 s ago\n");
}

Test(status_text, orders_names_as_people_do)
{
    static const char *const names[] = {"",
                                        "01",
                                        "1",
                                        "2",
                                        "10",
                                        "a",
                                        "a1",
                                        "a1b",
                                        "a2",
                                        "a10",
                                        "a10b2",
                                        "a10b10",
                                        "a18446744073709551616",
                                        "a18446744073709551617",
                                        "b"};
    const size_t count = sizeof names / sizeof names[0];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            int order = status_compare_names(names[i], names[j]);
            cr_expect_eq((order > 0) - (order < 0), (i > j) - (i < j), "'%s' and '%s'", names[i],
                         names[j]);
        }
    }
}

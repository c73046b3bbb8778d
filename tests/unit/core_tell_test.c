/* SPDX-License-Identifier: MPL-2.0 */
/* core_tell_test.c -- how far a tap may be behind, and what it is told when it is further. */
#include "broker/core/core.h"

#include "broker/core/model.h"
#include "broker/core/record/tell.h"
#include "tests/unit/core_driver.h"

static void begin(void)
{
    init();
    options.storm_told_max = UINT32_MAX; /* like events are told each: there are to be many */
    restart();
    is_alone = true; /* what a tap is sent is no state that lasts */
}

TestSuite(core_tell, .init = begin, .fini = fini);

enum {
    WINDOW = 500,
    EVENT_COST_BYTES = 72, /* of an event beside its texts and error; record/tell.c */
    STACK_BYTES = 10000,
};

static uint64_t next_seq; /* of the topic */

/* What the last step logged of an event; NULL: nothing. */
static const struct effect_log *log_of(const char *event)
{
    for (uint32_t i = 0; i < effects.log_count; i++)
        if (span_equal(effects.logs[i].name, span_text(event)))
            return &effects.logs[i];
    return NULL;
}

static void expect_logged(const char *event, const char *party)
{
    const struct effect_log *log = log_of(event);
    cr_assert_not_null(log);
    cr_expect(span_equal(log->party, span_text(party)), "%.*s", (int)log->party.bytes,
              (const char *)log->party.data);
    cr_expect(span_equal(log->job, span_text(job_name)), "%.*s", (int)log->job.bytes,
              (const char *)log->job.data);
}

/* From now on or from an event on, with a window that is small. */
static void observe_from(conn_id conn, uint64_t from_id)
{
    observe(conn, job_name);
    tap_from(conn, from_id, WINDOW);
}

static void take(conn_id conn, uint64_t id)
{
    forget();
    message(conn, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = id});
}

/* That many slots, promised in one batch, and all of them too late in some steps. */
static void miss_deadlines(uint32_t topic, uint32_t count)
{
    static struct event_range ranges[WINDOW + LIMIT_TAP_BEHIND + 1];
    cr_assert_leq(count, sizeof ranges / sizeof ranges[0]);
    for (uint32_t i = 0; i < count; i++)
        ranges[i] = (struct event_range){.kind = FRAME_RESERVE,
                                         .reply_to = FRAME_NO_REPLY,
                                         .topic = topic,
                                         .seq = next_seq++,
                                         .offset = BATCH_HEADER_BYTES,
                                         .count = 1,
                                         .attempt = 1,
                                         .value_bytes = 16,
                                         .deadline_ms = 10};
    step((struct event){.type = EVENT_DATA,
                        .conn = 11,
                        .as.data = {.number = frames[1] + 1,
                                    .payload = 99,
                                    .payload_bytes = 4096,
                                    .ranges = ranges,
                                    .range_count = count}});
    frames[1] += count;
    pass_ms(20);
}

/* How often text is said. */
static uint32_t count_said(const char *text)
{
    uint32_t count = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; at += strlen(text))
        count += 1;
    return count;
}

/* The tap, which has all up to newest, is sent as much as its window lets in, and is behind by the
 * rest.  What the newest event is then. */
static uint64_t fall_behind(uint32_t topic, uint64_t newest, uint32_t behind)
{
    forget();
    miss_deadlines(topic, WINDOW + behind);
    cr_assert_eq(count_said("3 < slot.failed"), WINDOW);
    return newest + WINDOW + behind;
}

/* It takes what it was sent until there is no more. */
static void catch_up(uint64_t taken, uint64_t newest)
{
    while (taken < newest) {
        take(3, taken);
        uint64_t sent = count_said("3 < slot.failed");
        cr_assert_gt(sent, 0);
        cr_assert_eq(count_said("missed"), 0);
        taken += sent;
    }
    cr_assert_eq(taken, newest);
    take(3, newest);
    EXPECT("");
}

Test(core_tell, leads_a_tap_through_what_it_is_behind_up_to_a_limit)
{
    join(1);
    observe_from(3, UINT64_MAX);
    uint32_t a = open_topic(1, "alice/a");
    uint64_t newest = 1; /* alice joined */
    for (int above = -1; above <= 0; above++) {
        uint64_t before = newest;
        newest = fall_behind(a, newest, (uint32_t)(LIMIT_TAP_BEHIND + above));
        catch_up(before + WINDOW, newest);
    }
    char missed[64];
    uint64_t before = newest;
    newest = fall_behind(a, newest, LIMIT_TAP_BEHIND + 1);
    take(3, before + WINDOW);
    snprintf(missed, sizeof missed, "3 < missed %llu..%llu\n",
             (unsigned long long)(before + WINDOW + 1), (unsigned long long)newest);
    EXPECT(missed);
    cr_expect_eq(core->counts.tap_missed, LIMIT_TAP_BEHIND + 1, "METRICS tells it");
    miss_deadlines(a, 1); /* and it goes on behind that */
    EXPECT("1 < accepted 13789 0\n3 < slot.failed alice/1 alice/a#13788 x1 (deadline of alice)\n");
    take(3, newest + 1);
    EXPECT("");
}

/* Another tap reads what the first one missed: it comes from behind, however far. */
Test(core_tell, leads_a_tap_that_begins_in_the_past_through_all_that_is_kept)
{
    join(1);
    observe_from(3, UINT64_MAX);
    uint32_t a = open_topic(1, "alice/a");
    uint64_t newest = fall_behind(a, 1, LIMIT_TAP_BEHIND + 1);
    take(3, 1 + WINDOW);
    cr_expect_eq(count_said("missed"), 1);
    closed(3);
    observe_from(3, 1 + WINDOW + 1);
    cr_expect_eq(count_said("3 < slot.failed"), WINDOW);
    catch_up(1 + 2 * WINDOW, newest);
    newest = fall_behind(a, newest, LIMIT_TAP_BEHIND + 1); /* now it follows, too */
    take(3, newest - LIMIT_TAP_BEHIND - 1);
    cr_expect_eq(count_said("missed"), 1);
}

/* What is kept no more is told, too. */
Test(core_tell, tells_a_tap_what_is_no_longer_kept)
{
    uint32_t a = open_by_alice();
    for (int i = 0; i < LIMIT_EVENTS / 4096; i++)
        miss_deadlines(a, 4096);
    forget();
    observe_from(3, 1); /* from the oldest: it misses nothing */
    cr_expect_eq(count_said("missed"), 0);
    closed(3);
    observe_from(3, 2);
    cr_expect_eq(count_said("missed"), 0, "alice's joining went, and it is event 1");
    closed(3);
    miss_deadlines(a, 3);
    observe_from(3, 2);
    cr_expect_eq(count_said("3 < missed 2..4\n3 < slot.failed alice/1 alice/a#3 "), 1);
}

/* An error with a stacktrace of so many bytes; what its event weighs. */
static uint64_t fail_with(uint32_t topic, size_t stack_bytes)
{
    static char stack[2 * STACK_BYTES];
    struct error_record record;
    size_t bytes;
    memset(stack, 's', sizeof stack);
    error_record_init(&record);
    record.stacktrace = span_of(stack, stack_bytes);
    cr_assert_eq(error_encode(&record, 1, error_bytes, sizeof error_bytes, &bytes), WIRE_OK);
    reserve(1, topic, next_seq);
    message(1, (struct msg){.type = MSG_FAIL,
                            .as.fail = {.number = ++numbers[1],
                                        .after = frames[1],
                                        .topic = topic,
                                        .seq = next_seq++,
                                        .error = span_of(error_bytes, bytes)}});
    return EVENT_COST_BYTES + event_bytes;
}

/* The same limit in bytes.  A second tap tells what events weigh; the last one makes it exact. */
Test(core_tell, counts_the_bytes_a_tap_is_behind)
{
    join(1);
    tap(2);
    observe_from(3, UINT64_MAX);
    uint32_t a = open_topic(1, "alice/a");
    uint64_t newest = 1;
    for (int above = -1; above <= 1; above++) {
        uint64_t before = newest;
        uint64_t behind_bytes = 0;
        newest = fall_behind(a, newest, 0);
        message(2, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = newest});
        while (LIMIT_TAP_BEHIND_BYTES - behind_bytes > 3 * STACK_BYTES) {
            behind_bytes += fail_with(a, STACK_BYTES);
            newest += 1;
        }
        uint64_t around = fail_with(a, STACK_BYTES) - STACK_BYTES;
        behind_bytes += around + STACK_BYTES;
        uint64_t left = LIMIT_TAP_BEHIND_BYTES - behind_bytes - around + (uint64_t)(int64_t)above;
        cr_assert_eq(fail_with(a, (size_t)left), left + around);
        newest += 2;
        take(3, before + WINDOW);
        cr_expect_eq(count_said("3 < missed"), above > 0, "%d above", above);
        cr_expect_eq(count_said("3 < slot.failed"), above > 0 ? 0 : newest - before - WINDOW);
        take(3, newest);
        take(2, newest);
    }
}

/* The budget of what is kept of all, in bytes; that in events is above. */
Test(core_tell, keeps_as_many_bytes_of_events_as_it_may)
{
    for (int above = -1; above <= 1; above++) {
        restart();
        tap(2);
        join(1);
        uint64_t bytes = EVENT_COST_BYTES + event_bytes;
        uint64_t newest = 1;
        uint32_t a = open_topic(1, "alice/a");
        while (LIMIT_EVENT_BYTES - bytes > 3 * STACK_BYTES) {
            bytes += fail_with(a, STACK_BYTES);
            newest += 1;
            take(2, newest);
        }
        uint64_t around = fail_with(a, STACK_BYTES) - STACK_BYTES;
        bytes += around + STACK_BYTES;
        uint64_t left = LIMIT_EVENT_BYTES - bytes - around + (uint64_t)(int64_t)above;
        cr_assert_eq(fail_with(a, (size_t)left), left + around);
        observe_from(3, 1);
        cr_expect_eq(count_said("3 < party.joined alice/1"), above <= 0, "%d above", above);
        cr_expect_eq(count_said("missed"), 0, "the oldest that is kept was asked for");
        closed(3);
        observe_from(3, 2);
        cr_expect_eq(count_said("missed"), 0, "one went at most");
        cr_expect_gt(count_said("3 < slot.failed"), 0);
        closed(3);
    }
}

/* A tap from now on of a job whose only party left. */
static void tap_used(conn_id conn)
{
    join(1);
    leave(1, 0);
    tap(conn);
    logged[0] = '\0';
}

/* The tap took so many events that were told since it began. */
static void tap_take(conn_id conn, uint64_t count)
{
    message(conn, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = event_next - 1 + count});
}

/* ---- who breaks the protocol ----------------------------------------------------------------- */

static void intrude(conn_id conn)
{
    step((struct event){.type = EVENT_VIOLATION, .conn = conn, .as.complaint = "noise"});
}

/* What the events say that were told since the last look: how many came, in how many events. */
static uint64_t count_told(uint32_t *out_events)
{
    uint64_t told = 0;
    *out_events = 0;
    for (const char *at = said; (at = strstr(at, "2 < refused /0 #0 x")) != NULL; at++) {
        told += strtoull(at + strlen("2 < refused /0 #0 x"), NULL, 10);
        *out_events += 1;
    }
    forget();
    return told;
}

Test(core_tell, tells_of_the_first_newcomer_at_once_and_counts_the_others)
{
    uint32_t events;
    tap_used(2);
    intrude(40);
    EXPECT("40 dropped\n2 < refused /0 #0 x1\n");
    for (conn_id conn = 41; conn < 48; conn++)
        intrude(conn);
    cr_expect_eq(count_told(&events), 0);
    pass_ms(LIMIT_COMPLAINTS_MS_MIN - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("2 < refused /0 #0 x7\n");
    pass_ms(2 * LIMIT_COMPLAINTS_MS_MIN); /* nobody came: it is over */
    EXPECT("");
    intrude(48);
    EXPECT("48 dropped\n2 < refused /0 #0 x1\n");
}

/* A day of ten a second leaves the job its history, and none of them is forgotten. */
Test(core_tell, keeps_a_flood_of_newcomers_from_pushing_out_events)
{
    enum { HOURS = 24, A_SECOND = 10 };
    uint32_t events_all = 0;
    uint64_t told = 0;
    tap_used(2);
    for (int i = 0; i < HOURS * 3600; i++) {
        uint32_t events;
        beat(2);
        for (conn_id conn = 40; conn < 40 + A_SECOND; conn++)
            intrude(conn);
        pass_ms(1000);
        told += count_told(&events);
        events_all += events;
        tap_take(2, events_all);
        forget();
    }
    cr_expect_leq(events_all, HOURS * 60 + 10);
    cr_expect_geq(told, (uint64_t)HOURS * 3600 * A_SECOND - 60 * A_SECOND);
    pass_ms(LIMIT_COMPLAINTS_MS_MAX);
    told += count_told(&events_all);
    cr_expect_eq(told, (uint64_t)HOURS * 3600 * A_SECOND);
}

/* Alice comes back each time; so many times says the job, in so few events. */
Test(core_tell, keeps_a_flood_of_a_party_from_pushing_out_events)
{
    enum { MINUTES = 60, A_MINUTE = 120, APART_MS = 60000 / A_MINUTE };
    const char *const told_as = "2 < refused alice/1 #0 x";
    uint64_t told = 0, events = 0;
    tap(2);
    join(1);
    forget();
    intrude(1);
    EXPECT("1 dropped\n11 dropped\n2 < refused alice/1 #0 x1\n"
           "2 < party.suspect alice/1 #0 x0\n");
    for (int i = 0; i < MINUTES * A_MINUTE; i++) {
        resume(1, tokens[1], 0);
        beat(2);
        intrude(1);
        pass_ms(APART_MS);
        for (const char *at = said; (at = strstr(at, told_as)) != NULL; at++, events++)
            told += strtoull(at + strlen(told_as), NULL, 10);
        message(2, (struct msg){.type = MSG_TAP_TAKEN, .as.tap_taken.id = event_next - 1});
        forget();
    }
    cr_expect_leq(events, MINUTES + 10);
    cr_expect_geq(told, (MINUTES - 2) * A_MINUTE);
}

Test(core_tell, counts_the_complaints_about_each_party_and_about_observers_apart)
{
    tap(5);
    join(1);
    join(2);
    forget();
    intrude(1);
    cr_expect_eq(count_said("5 < refused alice/1 #0 x1"), 1);
    intrude(2);
    cr_expect_eq(count_said("5 < refused bob/1 #0 x1"), 1);
    tap(3);
    intrude(3);
    cr_expect_eq(count_said("5 < refused /0 #0 x1"), 1);
    intrude(44);
    cr_expect_eq(count_said("5 < refused /0 #0 x1"), 2, "newcomers are not observers");
    forget();
    tap(3);
    intrude(3);
    resume(2, tokens[2], 0);
    intrude(2);
    cr_expect_eq(count_said("5 < refused"), 0);
    pass_ms(LIMIT_COMPLAINTS_MS_MIN);
    cr_expect_eq(count_said("5 < refused bob/1 #0 x1"), 1);
    cr_expect_eq(count_said("5 < refused /0 #0 x1"), 1);
    cr_expect_eq(count_said("5 < refused"), 2);
    forget();
}

/* Its place is given to another before the time has come to tell of it again. */
Test(core_tell, keeps_no_complaint_about_a_party_to_itself_that_is_forgotten)
{
    options.parties_max = 1;
    restart();
    tap(5);
    join(1);
    intrude(1);
    resume(1, tokens[1], 0);
    intrude(1);
    resume(1, tokens[1], 0);
    leave(1, 0);
    cr_expect_eq(count_said("5 < refused"), 1);
    forget();
    say_hello(2);
    cr_expect_eq(count_said("2 < welcome"), 1);
    cr_expect_eq(count_said("5 < refused alice/1 #0 x1"), 1);
    expect_logged("refused", "alice"); /* the party is gone */
    forget();
}

/* ---- jobs that end ----------------------------------------------------------------------------*/

static uint32_t count_jobs(void)
{
    return core->job_names.count;
}

static void tick(void)
{
    now_ns = core_deadline_ns(core);
    step((struct event){.type = EVENT_TICK});
}

/* The last step is the one in which a party was lost. */
static void wait_for_loss(void)
{
    while (log_of("party.lost") == NULL)
        tick();
}

/* The loss of the last party and the end of the linger time are due in one step. */
Test(core_tell, keeps_a_job_without_linger_time_until_what_is_logged_of_it_is_written)
{
    options.linger_ms = 0;
    restart();
    is_alone = false;
    join(1);
    closed(1);
    wait_for_loss();
    cr_expect_eq(count_jobs(), 1);
    expect_logged("party.lost", "alice");
    cr_expect_eq(core_deadline_ns(core), now_ns, "the next step is due");
    tick();
    cr_expect_eq(count_jobs(), 0);
    cr_expect_eq(core_deadline_ns(core), INT64_MAX);
}

/* A step may tell more of a job than is kept of it, as one that cancels a job of very many. */
Test(core_tell, keeps_what_is_logged_of_an_event_that_its_own_step_pushed_out)
{
    char text[32];
    join(1);
    struct job *job = pool_find(&core->jobs, 1);
    cr_assert_not_null(job);
    effects_clear(&effects);
    core->effects = &effects;
    for (uint32_t i = 0; i <= LIMIT_EVENTS; i++) {
        snprintf(text, sizeof text, "text %u", i);
        tell(core, job, &(struct tell){.name = "party.joined", .text = text});
    }
    cr_assert_eq(effects.log_count, LIMIT_EVENTS + 1);
    cr_expect_eq(job->event_next - job->event_first, LIMIT_EVENTS);
    for (uint32_t i = 0; i <= LIMIT_EVENTS; i++) {
        snprintf(text, sizeof text, "text %u", i);
        cr_assert(span_equal(effects.logs[i].text, span_text(text)), "%u", i);
    }
    step((struct event){.type = EVENT_TICK});
    cr_expect_null(core->unused_texts);
}

/* Somebody who comes before the next tick finds no job. */
Test(core_tell, begins_a_new_job_for_who_comes_right_after_one_without_linger_time_ended)
{
    options.linger_ms = 0;
    restart();
    is_alone = false;
    join(1);
    closed(1);
    wait_for_loss();
    forget();
    say_hello(1);
    EXPECT("1 < welcome incarnation 1\n");
    cr_expect_eq(count_jobs(), 1);
}

/* What is held of complaints is told when the linger time is over, too. */
Test(core_tell, keeps_a_job_until_complaints_of_its_last_step_are_logged)
{
    options.linger_ms = LIMIT_COMPLAINTS_MS_MIN;
    restart();
    is_alone = false;
    join(1);
    intrude(1);
    resume(1, tokens[1], 0);
    intrude(1);
    resume(1, tokens[1], 0);
    leave(1, 0);
    tick(); /* both are due */
    cr_expect_eq(count_jobs(), 1);
    expect_logged("refused", "alice");
    tick();
    cr_expect_eq(count_jobs(), 0);
}

/* ---- the journal ------------------------------------------------------------------------------*/

static void hear_journal(enum journal_health health)
{
    static const char *const texts[HEALTH_COUNT] = {"well again", "no room", "read only"};
    step((struct event){.type = EVENT_JOURNAL,
                        .as.journal = {.health = health, .text = texts[health]}});
}

Test(core_tell, tells_all_jobs_of_the_journal_and_logs_nothing)
{
    tap_used(5);
    job_name = "another";
    tap_used(3);
    hear_journal(HEALTH_FULL);
    EXPECT("5 < journal.full /0 #0 x0\n3 < journal.full /0 #0 x0\n");
    cr_expect_str_empty(logged);
    hear_journal(HEALTH_FULL);
    EXPECT("");
    pass_ms(LIMIT_COMPLAINTS_MS_MIN);
    hear_journal(HEALTH_REFUSED);
    EXPECT("5 < journal.refused /0 #0 x0\n3 < journal.refused /0 #0 x0\n");
    pass_ms(LIMIT_COMPLAINTS_MS_MIN);
    hear_journal(HEALTH_WELL);
    EXPECT("5 < journal.well /0 #0 x0\n3 < journal.well /0 #0 x0\n");
    pass_ms(2 * LIMIT_COMPLAINTS_MS_MIN);
    EXPECT("");
}

Test(core_tell, tells_a_job_that_begins_of_the_journal_if_it_is_not_well)
{
    hear_journal(HEALTH_FULL);
    join(1);
    observe_from(5, 1);
    EXPECT("5 < journal.full /0 #0 x0\n5 < party.joined alice/1 #0 x0\n");
    pass_ms(LIMIT_COMPLAINTS_MS_MIN);
    hear_journal(HEALTH_WELL);
    EXPECT("5 < journal.well /0 #0 x0\n");
    job_name = "another";
    join(2);
    observe_from(3, 1);
    EXPECT("3 < party.joined bob/1 #0 x0\n");
}

/* Within the pause nothing is told; behind it, how it is, if that is not what was told last. */
Test(core_tell, tells_of_a_journal_that_changes_soon_after_when_the_pause_is_over)
{
    tap_used(5);
    hear_journal(HEALTH_FULL);
    forget();
    hear_journal(HEALTH_WELL);
    pass_ms(LIMIT_COMPLAINTS_MS_MIN - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("5 < journal.well /0 #0 x0\n");
    hear_journal(HEALTH_FULL);
    hear_journal(HEALTH_WELL);
    pass_ms(2 * LIMIT_COMPLAINTS_MS_MIN);
    EXPECT("");
    hear_journal(HEALTH_FULL);
    EXPECT("");
    pass_ms(4 * LIMIT_COMPLAINTS_MS_MIN);
    EXPECT("5 < journal.full /0 #0 x0\n");
    beat(5);
    pass_ms(8 * LIMIT_COMPLAINTS_MS_MIN); /* it is settled */
    forget();
    hear_journal(HEALTH_WELL);
    EXPECT("5 < journal.well /0 #0 x0\n");
}

/* A disk that is full and well again ten times a second, for an hour. */
Test(core_tell, keeps_a_restless_journal_from_pushing_out_events)
{
    enum { MINUTES = 60 };
    uint32_t count = 0;
    tap_used(5);
    for (int i = 0; i < MINUTES * 600; i++) {
        beat(5);
        hear_journal(i % 2 == 0 ? HEALTH_FULL : HEALTH_WELL);
        pass_ms(100);
        count += count_said("5 < journal.");
        tap_take(5, count);
        forget();
    }
    cr_expect_geq(count, 2);
    cr_expect_leq(count, MINUTES + 10);
    pass_ms(LIMIT_COMPLAINTS_MS_MAX);
    hear_journal(HEALTH_FULL);
    forget();
    pass_ms(LIMIT_COMPLAINTS_MS_MAX);
}

/* ---- over a link ----------------------------------------------------------------------------- */

enum { TRIP_MS = 200, HISTORY = 12000 };

/* So many events are kept.  Then a tap begins with the oldest, behind a link, and takes all that it
 * is sent a round trip later, or only so many.  How many it was sent in each round. */
static uint32_t read_history(int64_t trip_ms, uint32_t take_most, uint32_t *sent, uint32_t rounds)
{
    join(1);
    uint32_t a = open_topic(1, "alice/a");
    for (uint32_t i = 0; i < HISTORY / 4000; i++)
        miss_deadlines(a, 4000);
    observe(3, job_name);
    message(3, (struct msg){.type = MSG_BEAT, .as.beat.trip_ns = (uint64_t)(trip_ms * MS)});
    uint64_t newest = ((struct job *)pool_next(&core->jobs, 0))->event_next - 1;
    tap_from(3, 1, LIMIT_TAP_WINDOW / 2);
    uint64_t next = 1, taken = 0;
    uint32_t round = 0;
    for (; taken < newest && round < rounds; round++) {
        sent[round] = count_said("3 < ");
        next += sent[round];
        uint64_t most = taken + take_most;
        taken = most < next - 1 ? most : next - 1;
        beat(1);
        now_ns += TRIP_MS * MS;
        take(3, taken);
    }
    return round;
}

Test(core_tell, sends_a_tap_what_its_link_carries_in_a_round_trip)
{
    uint32_t sent[64];
    uint32_t rounds = read_history(TRIP_MS, UINT32_MAX, sent, 64);
    cr_expect_leq(rounds, 8, "%u", rounds);
    cr_expect_gt(sent[1], sent[0], "%u, then %u", sent[0], sent[1]);
}

Test(core_tell, sends_a_tap_on_this_machine_no_more_than_ever)
{
    uint32_t sent[64];
    uint32_t rounds = read_history(0, UINT32_MAX, sent, 64);
    cr_expect_eq(rounds, HISTORY / DEFAULT_TAP_WINDOW + 1, "%u", rounds);
    cr_expect_eq(sent[0], DEFAULT_TAP_WINDOW);
    cr_expect_eq(sent[1], DEFAULT_TAP_WINDOW);
}

/* Its link carries 100 events in a round trip.  What is under way follows that, after the start. */
Test(core_tell, sends_a_tap_behind_a_slow_link_little)
{
    uint32_t sent[64];
    uint64_t under_way = 0;
    uint32_t rounds = read_history(TRIP_MS, 100, sent, 64);
    for (uint32_t i = 0; i < rounds; i++)
        under_way += sent[i];
    under_way -= 100 * (uint64_t)rounds;
    cr_expect_eq(rounds, 64);
    cr_expect_lt(under_way, 600, "%llu", (unsigned long long)under_way);
}

/* SPDX-License-Identifier: MPL-2.0 */
/* Greeting, connections, time and the end of a session, in virtual time. */
#include "libbus/session/session.h"

#include "libbus/session/session_connection.h"
#include "tests/unit/session_driver.h"

#include <stdio.h>

static struct driver d;

static void tick(int64_t ms)
{
    d.now_ns += ms * DRIVER_MS;
    session_tick(d.session, d.now_ns);
}

/* A connection is begun then, and not a millisecond before. */
static void expect_dial_in(int64_t ms)
{
    tick(ms - 1);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    tick(1);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
}

/* Ticks at each deadline until so many ms have passed; the broker is silent. */
static void sleep_through(int64_t ms)
{
    int64_t until_ns = d.now_ns + ms * DRIVER_MS;
    while (session_deadline_ns(d.session) <= until_ns) {
        if (d.now_ns < session_deadline_ns(d.session))
            d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
        (void)session_action(d.session);
        while (driver_hear(&d).type != MSG_NONE)
            ;
        if (session_state(d.session) == SESSION_OVER)
            return;
    }
    d.now_ns = until_ns;
}

/* The broker has lost it meanwhile. */
static void end_as_fenced(void)
{
    driver_say(&d, &(struct msg){.type = MSG_REFUSED,
                                 .as.refused = {.code = CODE_EFENCED,
                                                .type = span_text(ERROR_TYPE_FENCED),
                                                .message = span_text("lost meanwhile")}});
    driver_expect_end(&d, CODE_EFENCED, ERROR_TYPE_FENCED);
}

Test(session, says_hello_first_and_is_up_once_attached)
{
    driver_init(&d);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    /* Nothing is said before the connection was asked for. */
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    struct msg hello = driver_expect(&d, MSG_HELLO);
    cr_assert_eq(hello.as.hello.major, PROTOCOL_MAJOR);
    cr_assert_eq(hello.as.hello.token, 0);
    cr_assert_eq(hello.as.hello.role, 0);
    cr_assert_eq(hello.as.hello.heartbeat_ms, 1000);
    cr_assert(span_equal(hello.as.hello.party, span_text("alice")));
    cr_assert(span_equal(hello.as.hello.job, span_text("train")));
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_say_welcome(&d, false);
    cr_assert_eq(session_state(d.session), SESSION_GREETED);
    cr_assert_str_eq(session_data_endpoint(d.session), "tcp://*:7371");
    cr_assert_null(session_data_out(d.session, d.now_ns));
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    cr_assert_not(session_is_welcome(d.session));
    driver_attached(&d);
    cr_assert(session_is_welcome(d.session));
    cr_assert(session_news(d.session).is_state);
    cr_assert_not(session_news(d.session).is_state);
    cr_assert_eq(session_incarnation(d.session), 3);
    cr_assert_eq(session_attempt(d.session), 1);
    driver_fini(&d);
}

Test(session, says_the_same_until_the_link_takes_it)
{
    driver_init(&d);
    (void)session_action(d.session);
    size_t first, second;
    static uint8_t again[LIMIT_CONTROL_BYTES];
    cr_assert(session_control_out(d.session, d.now_ns, d.heard, &first));
    cr_assert(session_control_out(d.session, d.now_ns, again, &second));
    cr_assert_eq(first, second);
    cr_assert_eq(memcmp(d.heard, again, first), 0);
    session_control_sent(d.session);
    cr_assert_not(session_control_out(d.session, d.now_ns, again, &second));
    driver_fini(&d);
}

Test(session, tries_again_with_a_doubling_pause_when_nobody_is_there)
{
    driver_init(&d);
    (void)session_action(d.session);
    static const int64_t pauses_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
    for (size_t i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        int64_t begun_ns = d.now_ns;
        session_link_closed(d.session, d.now_ns);
        cr_assert_eq(session_action(d.session), SESSION_NOTHING, "attempt %zu", i);
        int64_t pause_ns = session_deadline_ns(d.session) - begun_ns;
        cr_assert_leq(pause_ns, pauses_ms[i] * DRIVER_MS, "attempt %zu", i);
        cr_assert_gt(pause_ns, pauses_ms[i] * DRIVER_MS / 2, "attempt %zu", i);
        d.now_ns = begun_ns + pause_ns - 1;
        session_tick(d.session, d.now_ns);
        cr_assert_eq(session_action(d.session), SESSION_NOTHING, "attempt %zu", i);
        d.now_ns += 1;
        session_tick(d.session, d.now_ns);
        cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL, "attempt %zu", i);
        (void)driver_expect(&d, MSG_HELLO);
    }
    driver_fini(&d);
}

static void expect_given_up_after(int64_t period_ms)
{
    (void)driver_dial(&d);
    tick(period_ms - 1);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    tick(1);
}

/* However long: the end is for whoever opens to decide. */
Test(session, takes_a_fresh_connection_when_no_welcome_comes_in_a_beat)
{
    driver_init(&d);
    for (int i = 0; i < 4; i++)
        expect_given_up_after(1000);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    driver_fini(&d);
}

/* It says that it is there each second, and nothing else. */
static void beat_for(int64_t ms)
{
    for (int64_t at_ms = 1000; at_ms <= ms; at_ms += 1000) {
        cr_assert_eq(session_deadline_ns(d.session), d.now_ns + 1000 * DRIVER_MS);
        tick(1000);
        (void)driver_expect(&d, MSG_BEAT);
        cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    }
}

/* Over a link on which an answer takes longer than a beat there has to be an end to that. */
Test(session, waits_longer_for_an_answer_the_more_often_it_gave_up)
{
    static const int64_t periods_ms[] = {1000, 1000, 1000, 1000, 2000, 4000, 8000, 10000, 10000};
    driver_init(&d);
    for (size_t i = 0; i < sizeof periods_ms / sizeof periods_ms[0]; i++)
        expect_given_up_after(periods_ms[i]);
    driver_greet_to_attach(&d, false);
    (void)driver_expect(&d, MSG_READY);
    beat_for(9000); /* and so for the data channel, which has more than two beats of its own */
    tick(999);
    cr_assert_eq(session_state(d.session), SESSION_GREETED);
    driver_attached(&d);
    session_link_closed(d.session, d.now_ns); /* an answer came: from the beginning */
    while (session_action(d.session) != SESSION_CONNECT_CONTROL)
        tick(20);
    (void)driver_expect(&d, MSG_HELLO);
    expect_dial_in(1000);
    driver_fini(&d);
}

Test(session, gives_a_connection_up_that_is_not_attached)
{
    driver_init(&d);
    driver_greet_to_attach(&d, false);
    (void)driver_expect(&d, MSG_READY);
    beat_for(2000);
    tick(249);
    cr_assert_eq(session_state(d.session), SESSION_GREETED);
    tick(1);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    driver_greet(&d, true);
    driver_fini(&d);
}

/* A broker whose journal waits for its disk attaches nobody.  A party that said nothing meanwhile
 * would be lost. */
Test(session, beats_while_it_waits_to_be_attached)
{
    driver_init(&d);
    (void)driver_dial(&d);
    tick(900);
    driver_say_welcome(&d, false);
    driver_expect_attach(&d);
    tick(999);
    (void)driver_expect(&d, MSG_READY);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE, "it was welcomed less than a beat ago");
    tick(1);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.sent_ns, d.now_ns);
    driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    beat_for(4000);
    cr_assert_eq(session_state(d.session), SESSION_GREETED);
    driver_attached(&d);
    driver_fini(&d);
}

Test(session, beats_every_heartbeat)
{
    driver_up(&d);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(session_deadline_ns(d.session), d.now_ns + 1000 * DRIVER_MS);
        tick(999);
        cr_assert_eq(driver_hear(&d).type, MSG_NONE);
        tick(1);
        struct msg beat = driver_expect(&d, MSG_BEAT);
        cr_assert_eq(beat.as.beat.sent_ns, d.now_ns);
        driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
    }
    driver_fini(&d);
}

/* The broker knows so who heard it since its last standstill. */
Test(session, says_which_echo_it_heard_on_this_connection)
{
    driver_up(&d);
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.broker_ns, 0);
    driver_say(&d,
               &(struct msg){.type = MSG_ECHO, .as.echo = {.sent_ns = d.now_ns, .broker_ns = 77}});
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.broker_ns, 77);
    driver_break_link(&d);
    driver_greet(&d, true);
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.broker_ns, 0, "another one");
    driver_fini(&d);
}

/* Whether the answer makes it send another BEAT at once, and the trip that this one tells. */
static bool answer_late(int64_t ms, uint64_t *trip_ns)
{
    driver_echo_late(&d, ms);
    struct msg next = driver_hear(&d);
    if (next.type != MSG_NONE)
        cr_assert_eq(next.type, MSG_BEAT);
    *trip_ns = next.as.beat.trip_ns;
    return next.type == MSG_BEAT;
}

Test(session, asks_again_until_it_knows_whether_its_link_is_long)
{
    uint64_t trip_ns;
    driver_init(&d);
    driver_greet_late(&d, 20);
    for (int i = 1; i < 15; i++) {
        cr_assert(answer_late(20, &trip_ns));
        cr_assert_eq(trip_ns, 0, "it is not known after %d answers", i);
    }
    cr_assert(answer_late(20, &trip_ns), "the broker learns of it");
    cr_assert_eq(trip_ns, 20 * DRIVER_MS);
    cr_assert(!answer_late(20, &trip_ns), "it is known");
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.trip_ns, 20 * DRIVER_MS);
    cr_assert(answer_late(0, &trip_ns), "and is known better");
    cr_assert_eq(trip_ns, 0);
    cr_assert(!answer_late(0, &trip_ns));
    driver_break_link(&d);
    driver_greet_late(&d, 20);
    cr_assert(answer_late(20, &trip_ns), "another connection may be another link");
    driver_fini(&d);
}

Test(session, asks_no_more_after_a_quick_answer)
{
    uint64_t trip_ns;
    driver_init(&d);
    driver_greet_late(&d, 20);
    cr_assert(answer_late(20, &trip_ns));
    cr_assert(answer_late(0, &trip_ns), "the broker learns of it");
    cr_assert_eq(trip_ns, 0);
    cr_assert(!answer_late(0, &trip_ns));
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.trip_ns, 0);
    cr_assert(!answer_late(200, &trip_ns));
    driver_fini(&d);
}

/* Whether the BEAT after an answer, which is due, says that nothing is known of the link. */
static bool is_unjudged_after(int64_t ms)
{
    driver_echo_late(&d, ms);
    return driver_expect(&d, MSG_BEAT).as.beat.is_unjudged != 0;
}

Test(session, says_that_it_does_not_know_its_link_yet)
{
    for (int is_far = 0; is_far < 2; is_far++) {
        driver_init(&d);
        (void)driver_dial(&d);
        d.now_ns += 20 * DRIVER_MS;
        driver_say_welcome(&d, false);
        driver_expect_attach(&d);
        (void)driver_expect(&d, MSG_READY);
        driver_say(&d, &(struct msg){.type = MSG_ATTACHED});
        cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.is_unjudged, 1);
        cr_assert(is_unjudged_after(100));
        cr_assert(is_unjudged_after(100));
        cr_assert_not(is_unjudged_after(is_far ? 100 : 0));
        driver_fini(&d);
    }
    driver_up(&d); /* WELCOME came at once */
    tick(1000);
    cr_assert_eq(driver_expect(&d, MSG_BEAT).as.beat.is_unjudged, 0);
    driver_fini(&d);
}

/* The greeting is given up after so many milliseconds without an answer, and begun anew. */
static void expect_greeting_of(int64_t ms)
{
    tick(ms - 1);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING, "after less than %ld ms", ms);
    tick(1);
    (void)driver_dial(&d);
}

Test(session, waits_longer_for_a_first_answer_where_somebody_accepted)
{
    driver_init(&d);
    (void)driver_dial(&d);
    expect_greeting_of(1000);
    session_link_made(d.session);
    session_link_made(d.session);
    expect_greeting_of(5000);
    expect_greeting_of(1000);
    driver_say_welcome(&d, false);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    driver_break_link(&d);
    (void)driver_dial(&d);
    session_link_made(d.session);
    expect_greeting_of(1000);
    driver_fini(&d);
}

Test(session, waits_for_the_rounds_of_a_long_link)
{
    driver_up_far(&d, 200);
    driver_break_link(&d);
    (void)driver_dial(&d);
    expect_greeting_of(1000 + 5 * 200);
    d.now_ns += 300 * DRIVER_MS;
    driver_say_welcome(&d, true);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    beat_for(3000);
    expect_greeting_of(750); /* 2 * 1000 + 250 + 5 * 300 in all */
    driver_fini(&d);
}

/* The broker says nothing, up to the deadline at which two beats are over. */
static void miss_beats(void)
{
    int64_t end_ns = d.now_ns + 2100 * DRIVER_MS;
    while (session_deadline_ns(d.session) < end_ns) {
        d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
        (void)driver_hear(&d);
    }
}

Test(session, connects_anew_after_two_silent_beats_and_again_each_beat)
{
    driver_up(&d);
    int64_t begun_ns = d.now_ns;
    miss_beats();
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(session_deadline_ns(d.session), begun_ns + (2100 + i * 1000) * DRIVER_MS);
        d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
        struct msg hello = driver_dial(&d);
        cr_assert_eq(hello.as.hello.token, DRIVER_TOKEN);
        cr_assert_eq(hello.as.hello.broker, DRIVER_BROKER);
    }
    driver_say_welcome(&d, true);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    driver_fini(&d);
}

Test(session, is_lost_when_the_broker_is_away_for_broker_lost_ms)
{
    driver_up(&d);
    int64_t begun_ns = d.now_ns;
    sleep_through(29999);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    cr_assert_eq(d.now_ns, begun_ns + 29999 * DRIVER_MS);
    tick(1);
    driver_expect_end(&d, CODE_ELOST, ERROR_TYPE_BROKER_LOST);
    cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    cr_assert_eq(session_deadline_ns(d.session), INT64_MAX);
    uint32_t topic;
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &topic), CODE_ELOST);
    driver_fini(&d);
}

/* While the store of its journal is away, a broker says nothing, and is not lost. */
Test(session, looks_for_a_broker_as_long_as_it_was_asked_to)
{
    static const struct {
        uint64_t patience_ms;
        int64_t lost_ms;
    } cases[] = {{0, 30000}, {29999, 30000}, {30001, 30001}, {120000, 120000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        driver_init(&d);
        struct msg welcome = driver_welcome(&d, false);
        welcome.as.welcome.patience_ms = cases[i].patience_ms;
        (void)driver_dial(&d);
        driver_say(&d, &welcome);
        driver_expect_attach(&d);
        (void)driver_expect(&d, MSG_READY);
        driver_attached(&d);
        cr_expect_eq(session_broker_lost_ms(d.session), cases[i].lost_ms);
        sleep_through(cases[i].lost_ms - 1);
        cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
        tick(1);
        driver_expect_end(&d, CODE_ELOST, ERROR_TYPE_BROKER_LOST);
        driver_fini(&d);
    }
}

/* The next broker may ask for less. */
Test(session, looks_for_a_broker_as_the_last_one_asked)
{
    driver_init(&d);
    struct msg welcome = driver_welcome(&d, false);
    welcome.as.welcome.patience_ms = 60000;
    (void)driver_dial(&d);
    driver_say(&d, &welcome);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    session_link_closed(d.session, d.now_ns);
    (void)session_action(d.session);
    tick(100);
    driver_greet(&d, true);
    cr_expect_eq(session_broker_lost_ms(d.session), 30000);
    driver_fini(&d);
}

/* A broker that is there and has nothing else to say answers beats, so there have to be some. */
static void expect_heartbeat(int64_t heartbeat_ms, int64_t broker_lost_ms, uint64_t expected_ms)
{
    struct session_options options = driver_options("alice");
    options.heartbeat_ms = heartbeat_ms;
    options.broker_lost_ms = broker_lost_ms;
    driver_init_with(&d, &options);
    struct msg hello = driver_dial(&d);
    cr_expect_eq(hello.as.hello.heartbeat_ms, expected_ms);
    driver_fini(&d);
}

Test(session, beats_often_enough_for_its_own_patience)
{
    expect_heartbeat(60000, 30000, 7500);
    expect_heartbeat(60000, 240000, 60000);
    expect_heartbeat(60000, 239999, 59999);
    expect_heartbeat(60000, 1, LIMIT_HEARTBEAT_MS_MIN);
}

/* Whoever was not there to beat and to listen cannot tell a silent broker. */
Test(session, blames_no_broker_for_the_time_it_stood_still_itself)
{
    driver_up(&d);
    d.now_ns += 60000 * DRIVER_MS; /* stopped, and no call came in all this time */
    session_tick(d.session, d.now_ns);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    (void)driver_expect(&d, MSG_BEAT);
    driver_say(&d, &(struct msg){.type = MSG_ECHO, .as.echo.sent_ns = d.now_ns});
    sleep_through(1999);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

/* Late by what a broker may be late as well, and by no more than that. */
Test(session, tells_lateness_of_its_own_from_silence)
{
    for (int64_t late_ms = 100; late_ms <= 101; late_ms++) {
        driver_up(&d);
        miss_beats();
        d.now_ns = session_deadline_ns(d.session) + late_ms * DRIVER_MS;
        session_tick(d.session, d.now_ns);
        cr_assert_eq(session_action(d.session),
                     late_ms == 100 ? SESSION_CONNECT_CONTROL : SESSION_NOTHING);
        driver_fini(&d);
    }
}

Test(session, lets_a_greeting_take_its_time_after_it_stood_still_itself)
{
    driver_init(&d);
    (void)driver_dial(&d);
    tick(5000);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    expect_dial_in(1000);
    driver_fini(&d);
}

/* Each call comes late, so that little of the time counts: but some of it does. */
Test(session, loses_a_broker_in_the_end_however_late_it_is_called)
{
    struct session_options options = driver_options("alice");
    options.heartbeat_ms = 50;
    options.broker_lost_ms = 300;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    session_link_closed(d.session, d.now_ns);
    int ticks = 0;
    for (; session_state(d.session) != SESSION_OVER && ticks < 1000; ticks++) {
        tick(300);
        if (session_action(d.session) == SESSION_CONNECT_CONTROL)
            session_link_closed(d.session, d.now_ns);
    }
    cr_expect_leq(ticks, 300 / 20, "%d", ticks); /* it dials every 20 ms at the most */
    driver_expect_end(&d, CODE_ELOST, ERROR_TYPE_BROKER_LOST);
    driver_fini(&d);
}

/* The application's calls tell the time as well, but they neither beat nor listen. */
Test(session, counts_the_standstill_of_who_carries_it_alone)
{
    driver_up(&d);
    uint32_t topic = driver_topic(&d, "alice/x", 1, 1000000);
    for (int i = 0; i < 60; i++) {
        d.now_ns += 1000 * DRIVER_MS;
        cr_assert_eq(session_publish(d.session, d.now_ns, topic, &(struct span){0}, 1, NULL),
                     CODE_OK);
    }
    session_tick(d.session, d.now_ns);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    driver_fini(&d);
}

Test(session, asks_a_broker_again_after_it_stood_still_itself)
{
    driver_up(&d);
    d.now_ns += 60000 * DRIVER_MS;
    session_tick(d.session, d.now_ns);
    (void)driver_expect(&d, MSG_BEAT);
    driver_break_link(&d); /* and there the old connection turns out to be gone */
    (void)driver_dial(&d);
    end_as_fenced();
    driver_fini(&d);
}

/* The broker is not to take the closing of a slow link for that of the party. */
Test(session, keeps_a_link_that_it_gives_up_until_it_is_welcome_on_another)
{
    driver_init(&d);
    cr_assert_not(session_keeps_link(d.session), "the broker may take it for another party");
    driver_greet(&d, false);
    cr_assert(session_keeps_link(d.session));
    driver_break_link(&d);
    cr_assert(session_keeps_link(d.session));
    driver_greet(&d, true);
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    cr_assert_not(session_keeps_link(d.session), "the broker waits for us to go");
    driver_fini(&d);
}

Test(session, counts_its_connections_for_the_broker)
{
    driver_init(&d);
    for (uint64_t dial = 1; dial <= 3; dial++) {
        cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
        cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.dial, dial);
        driver_break_link(&d);
    }
    driver_fini(&d);
}

Test(session, treats_bye_as_a_closed_connection)
{
    driver_up(&d);
    d.now_ns += 500 * DRIVER_MS;
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    driver_wait_for_dial(&d);
    driver_greet(&d, true);
    driver_fini(&d);
}

/* How long a client waits to dial after its broker closed the connection, in ns, and then until it
 * dials again, as nobody is there. */
static void pauses_of(const struct session_options *options, int64_t *out_first, int64_t *out_next)
{
    driver_init_with(&d, options);
    driver_greet(&d, false);
    d.now_ns += 500 * DRIVER_MS;
    int64_t from_ns = d.now_ns;
    session_link_closed(d.session, d.now_ns);
    driver_wait_for_dial(&d);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    *out_first = d.now_ns - from_ns;
    from_ns = d.now_ns;
    session_link_closed(d.session, d.now_ns);
    if (options->endpoints > 1) { /* that was where it had been up */
        cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
        session_link_closed(d.session, d.now_ns);
    }
    driver_wait_for_dial(&d);
    *out_next = d.now_ns - from_ns;
    driver_fini(&d);
}

static void expect_dial_to(bool is_again)
{
    driver_wait_for_dial(&d);
    cr_expect_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    cr_expect_eq(session_dials_again(d.session), is_again);
}

/* The other endpoint may be a machine that is off, and its silence takes longer than our grace. */
Test(session, dials_the_same_endpoint_again_when_a_connection_broke)
{
    struct session_options options = driver_options("alice");
    options.endpoints = 2;
    driver_init_with(&d, &options);
    expect_dial_to(false);
    session_link_closed(d.session, d.now_ns);
    expect_dial_to(false);
    driver_say_welcome(&d, false);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    d.now_ns += 500 * DRIVER_MS;
    session_link_closed(d.session, d.now_ns);
    expect_dial_to(true);
    int64_t from_ns = d.now_ns;
    session_link_closed(d.session, d.now_ns); /* refused */
    expect_dial_to(false);
    cr_expect_eq(d.now_ns, from_ns, "the next endpoint is tried at once");
    session_link_closed(d.session, d.now_ns);
    expect_dial_to(false);
    cr_expect_gt(d.now_ns, from_ns);
    driver_fini(&d);
}

Test(session, dials_the_next_endpoint_when_the_broker_stops_or_is_silent)
{
    driver_up(&d);
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    expect_dial_to(false);
    driver_fini(&d);
    driver_up(&d);
    miss_beats();
    expect_dial_to(false);
    driver_fini(&d);
}

/* With one endpoint alone, a broker that has died is not dialled twice at once by all. */
Test(session, dials_its_only_endpoint_after_a_pause)
{
    driver_up(&d);
    d.now_ns += 500 * DRIVER_MS;
    session_link_closed(d.session, d.now_ns);
    expect_dial_to(true);
    int64_t from_ns = d.now_ns;
    session_link_closed(d.session, d.now_ns);
    expect_dial_to(false);
    cr_expect_gt(d.now_ns, from_ns);
    driver_fini(&d);
}

/* A broker dies.  In each tenth of the time of 100 ms about a tenth of its clients dial. */
Test(session, dials_at_another_moment_than_other_clients)
{
    enum { CLIENTS = 1000, PARTS = 10 };
    unsigned first[PARTS] = {0}, next[PARTS] = {0};
    int64_t first_ns, next_ns, again_ns;
    struct session_options options = driver_options("alice");
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        options.client = client * UINT64_C(0x9e3779b97f4a7c15); /* as random as ids are */
        pauses_of(&options, &first_ns, &next_ns);
        cr_assert(first_ns >= 0 && first_ns < 100 * DRIVER_MS);
        cr_assert(next_ns > 50 * DRIVER_MS && next_ns <= 100 * DRIVER_MS);
        first[first_ns / (10 * DRIVER_MS)]++;
        next[(100 * DRIVER_MS - next_ns) / (5 * DRIVER_MS)]++;
    }
    for (int part = 0; part < PARTS; part++) {
        cr_expect(first[part] > 50 && first[part] < 150, "%d: %u", part, first[part]);
        cr_expect(next[part] > 50 && next[part] < 150, "%d: %u", part, next[part]);
    }
    pauses_of(&options, &first_ns, &next_ns);
    pauses_of(&options, &again_ns, &next_ns);
    cr_expect_eq(again_ns, first_ns, "a simulation repeats it");
}

/* A broker that is stopped says BYE to all of its clients at once. */
Test(session, dials_after_a_bye_as_after_a_closed_connection)
{
    struct session_options options = driver_options("alice");
    int64_t closed_ns = 0, next_ns = 0;
    pauses_of(&options, &closed_ns, &next_ns);
    cr_assert_gt(closed_ns, 0);
    driver_up(&d);
    d.now_ns += 500 * DRIVER_MS;
    int64_t from_ns = d.now_ns;
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    driver_wait_for_dial(&d);
    cr_expect_eq(d.now_ns - from_ns, closed_ns);
    driver_fini(&d);
}

/* The longest of the two pauses over a hundred clients must be nearly this. */
static void expect_pauses(int64_t heartbeat_ms, uint32_t endpoints, int64_t grace_ms,
                          int64_t most_ms)
{
    int64_t first_ns = 0, next_ns = 0, latest_ns = 0, longest_ns = 0;
    struct session_options options = driver_options("alice");
    options.heartbeat_ms = heartbeat_ms;
    options.endpoints = endpoints;
    options.grace_ms = grace_ms;
    for (uint64_t client = 1; client <= 100; client++) {
        options.client = client * UINT64_C(0x9e3779b97f4a7c15);
        pauses_of(&options, &first_ns, &next_ns);
        latest_ns = first_ns > latest_ns ? first_ns : latest_ns;
        longest_ns = next_ns > longest_ns ? next_ns : longest_ns;
    }
    int64_t most_ns = most_ms * DRIVER_MS;
    cr_expect(latest_ns < most_ns && latest_ns > most_ns * 9 / 10, "%d ms", (int)grace_ms);
    cr_expect(longest_ns <= most_ns && longest_ns > most_ns * 9 / 10, "%d ms", (int)grace_ms);
}

/* A tenth of the grace, from 20 to 100 ms, so that there is time for several attempts. */
Test(session, dials_sooner_the_shorter_its_grace)
{
    expect_pauses(1000, 1, 0, 20);
    expect_pauses(1000, 1, 199, 20);
    expect_pauses(1000, 1, 200, 20);
    expect_pauses(1000, 1, 250, 25);
    expect_pauses(1000, 1, 500, 50);
    expect_pauses(1000, 1, 999, 100);
    expect_pauses(1000, 1, 1000, 100);
    expect_pauses(1000, 1, 1500, 100);
    expect_pauses(1000, 1, LIMIT_PERIOD_MS_MAX, 100);
}

/* At most a beat, and an eighth of one where another endpoint is. */
Test(session, dials_sooner_the_shorter_its_beat)
{
    expect_pauses(50, 1, 1000, 50);
    expect_pauses(400, 2, 1000, 50);
    expect_pauses(LIMIT_HEARTBEAT_MS_MIN, 1, 1000, LIMIT_HEARTBEAT_MS_MIN);
}

/* Silence is noticed by each client at another time, so it waits for nothing more. */
Test(session, dials_at_once_when_the_broker_is_silent)
{
    driver_up(&d);
    miss_beats();
    d.now_ns = session_deadline_ns(d.session);
    session_tick(d.session, d.now_ns);
    cr_expect_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    driver_fini(&d);
}

/* No broker answers, and the last one was heard so many ms before its time is up. */
static void expect_lost(int64_t left_ms, const char *type, const char *message)
{
    struct buffer *error = NULL;
    struct error_record record;
    uint32_t count = 0;
    sleep_through(left_ms - 1);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    tick(1);
    driver_expect_end(&d, CODE_ELOST, type);
    (void)session_end(d.session, &error);
    cr_assert_eq(error_decode(buffer_span(error), &record, 1, &count), WIRE_OK);
    cr_assert_eq(record.kind, ERROR_BROKER_LOST);
    cr_assert(record.topic.bytes == 0 && record.seq == 0, "it is about no slot");
    cr_assert(span_equal(record.message, span_text(message)), "%.*s", (int)record.message.bytes,
              (const char *)record.message.data);
    buffer_unref(&error);
}

Test(session, says_that_a_broker_was_stopped_when_it_said_bye)
{
    driver_init(&d);
    session_dialled(d.session, span_text("tcp://10.0.0.1:7370"));
    driver_greet(&d, false);
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    session_dialled(d.session, span_text("tcp://10.0.0.2:7370")); /* who does not answer */
    expect_lost(30000, ERROR_TYPE_BROKER_STOPPED,
                "the broker at tcp://10.0.0.1:7370 stopped in good order and did not come back "
                "within 30000 ms");
    driver_fini(&d);
}

Test(session, forgets_bye_once_it_is_welcome_again)
{
    driver_init(&d);
    session_dialled(d.session, span_text("tcp://10.0.0.1:7370"));
    driver_greet(&d, false);
    d.now_ns += 500 * DRIVER_MS;
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    driver_wait_for_dial(&d);
    driver_greet(&d, true);
    expect_lost(30000, ERROR_TYPE_BROKER_LOST,
                "no word from the broker at tcp://10.0.0.1:7370 for 30000 ms");
    driver_fini(&d);
}

Test(session, counts_no_bye_of_a_broker_that_did_not_welcome_it)
{
    driver_up(&d); /* by one whose endpoint nobody told */
    session_link_closed(d.session, d.now_ns);
    tick(100);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    expect_lost(29900, ERROR_TYPE_BROKER_LOST, "no word from the broker for 30000 ms");
    driver_fini(&d);
}

Test(session, takes_an_endpoint_of_the_most_bytes)
{
    char endpoint[LIMIT_ENDPOINT_BYTES];
    char message[LIMIT_ENDPOINT_BYTES + 100];
    memset(endpoint, 'e', sizeof endpoint);
    driver_init(&d);
    session_dialled(d.session, span_of(endpoint, sizeof endpoint));
    driver_greet(&d, false);
    driver_say(&d, &(struct msg){.type = MSG_BYE});
    snprintf(message, sizeof message,
             "the broker at %.*s stopped in good order and did not come back within 30000 ms",
             (int)sizeof endpoint, endpoint);
    expect_lost(30000, ERROR_TYPE_BROKER_STOPPED, message);
    driver_fini(&d);
}

Test(session, ignores_what_an_old_connection_still_had)
{
    driver_up(&d);
    driver_break_link(&d);
    driver_accept(&d, 99, 99); /* would break the protocol */
    d.data_number = 0;         /* what the next connection says */
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    driver_greet(&d, true);
    driver_fini(&d);
}

static void refuse(enum wire_code code, const char *type)
{
    driver_say(
        &d, &(struct msg){
                .type = MSG_REFUSED,
                .as.refused = {.code = code, .type = span_text(type), .message = span_text("no")}});
}

Test(session, ends_when_the_first_greeting_is_refused)
{
    static const struct {
        enum wire_code code;
        const char *type;
    } rows[] = {
        {CODE_EDENIED, ERROR_TYPE_NAME_TAKEN}, {CODE_EPROTO, ERROR_TYPE_VERSION},
        {CODE_EFULL, ERROR_TYPE_FULL},         {CODE_EDENIED, ERROR_TYPE_NOT_AUTHORISED},
        {CODE_EINVAL, ERROR_TYPE_NAME},        {CODE_EINVAL, ERROR_TYPE_WRONG_CHANNEL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        driver_init(&d);
        (void)session_action(d.session);
        (void)driver_expect(&d, MSG_HELLO);
        refuse(rows[i].code, rows[i].type);
        driver_expect_end(&d, rows[i].code, rows[i].type);
        cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
        driver_fini(&d);
    }
}

Test(session, ends_when_resuming_is_refused)
{
    static const struct {
        enum wire_code code;
        const char *type;
    } rows[] = {{CODE_EFENCED, ERROR_TYPE_FENCED},
                {CODE_ELOST, ERROR_TYPE_SESSION},
                {CODE_ELOST, ERROR_TYPE_FORGOTTEN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        driver_up(&d);
        driver_break_link(&d);
        (void)session_action(d.session);
        (void)driver_expect(&d, MSG_HELLO);
        refuse(rows[i].code, rows[i].type);
        driver_expect_end(&d, rows[i].code, rows[i].type);
        driver_fini(&d);
    }
}

static void send_elsewhere(const char *endpoint)
{
    driver_say(&d, &(struct msg){.type = MSG_REFUSED,
                                 .as.refused = {.code = CODE_EDENIED,
                                                .type = span_text(ERROR_TYPE_ELSEWHERE),
                                                .message = span_text("there"),
                                                .endpoint = span_text(endpoint)}});
}

/* Nobody is there: each connection is refused at once.  So often one is begun, and the longest time
 * between two. */
static unsigned count_dials(int64_t ms, int64_t *out_longest_ms)
{
    unsigned count = 0;
    *out_longest_ms = 0;
    for (int64_t at = 0, last = 0; at < ms; at++) {
        tick(1);
        if (session_action(d.session) != SESSION_CONNECT_CONTROL)
            continue;
        session_link_closed(d.session, d.now_ns);
        *out_longest_ms = at - last > *out_longest_ms ? at - last : *out_longest_ms;
        last = at;
        count++;
    }
    return count;
}

static unsigned count_early_dials(uint32_t endpoints, bool is_sent_on)
{
    struct session_options options = driver_options("alice");
    int64_t longest_ms = 0;
    options.endpoints = endpoints;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    driver_break_link(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    if (is_sent_on)
        send_elsewhere("tcp://b:1");
    else
        session_link_closed(d.session, d.now_ns);
    unsigned count = count_dials(4000, &longest_ms);
    if (endpoints > 1 && !is_sent_on)
        cr_expect_leq(longest_ms, 126);
    int64_t spare_ms = 0; /* that of a broker that hangs takes six seconds */
    (void)count_dials(4000, &spare_ms);
    if (endpoints > 1 && !is_sent_on)
        cr_expect_leq(spare_ms, 126);
    (void)count_dials(5000, &longest_ms);
    cr_expect_lt(count_dials(5000, &longest_ms), 10, "it takes more than half a beat in the end");
    driver_fini(&d);
    return count;
}

/* A spare takes over within a second or two.  With another endpoint to try it is found soon, but no
 * broker is asked more often who sends everybody to one that is gone. */
Test(session, looks_more_often_in_the_beginning_where_a_spare_may_be)
{
    cr_expect_gt(count_early_dials(2, false), 30);
    cr_expect_lt(count_early_dials(2, true), 12);
    cr_expect_lt(count_early_dials(1, false), 10);
    cr_expect_lt(count_early_dials(0, false), 10);
}

/* A client that was up, and looks for a broker for longer than a test looks at it. */
static void lose_broker_of(uint32_t endpoints)
{
    struct session_options options = driver_options("alice");
    options.endpoints = endpoints;
    options.broker_lost_ms = 200000;
    driver_init_with(&d, &options);
    driver_greet(&d, false);
    driver_break_link(&d);
}

/* Whoever accepts connections says nothing on them.  So many are begun in a minute. */
static unsigned count_silent_dials(uint32_t endpoints)
{
    unsigned count = 0;
    lose_broker_of(endpoints);
    for (int ms = 0; ms < 60000; ms++) {
        tick(1);
        count += session_action(d.session) == SESSION_CONNECT_CONTROL;
        (void)driver_hear(&d);
    }
    driver_fini(&d);
    return count;
}

/* One of several endpoints refuses for two minutes, and the others are silent: in ms, the longest
 * time between two dials of that one. */
static int64_t longest_absence_ms(uint32_t endpoints)
{
    int64_t last_ms = 0, longest_ms = 0;
    uint32_t dials = 0;
    lose_broker_of(endpoints);
    for (int64_t ms = 0; ms < 120000; ms++) {
        tick(1);
        bool is_dialled = session_action(d.session) == SESSION_CONNECT_CONTROL;
        (void)driver_hear(&d);
        if (!is_dialled || ++dials % endpoints != 0)
            continue;
        session_link_closed(d.session, d.now_ns);
        longest_ms = ms - last_ms > longest_ms ? ms - last_ms : longest_ms;
        last_ms = ms;
    }
    driver_fini(&d);
    return longest_ms;
}

/* A broker that begins there in the end gives each session 10 s. */
Test(session, is_soon_back_at_each_endpoint_however_long_others_are_silent)
{
    cr_expect_leq(longest_absence_ms(2), 5000);
    cr_expect_leq(longest_absence_ms(3), 6000);
    cr_expect_leq(longest_absence_ms(LIMIT_ENDPOINTS), 1000 * LIMIT_ENDPOINTS + 1000);
}

/* One that stands still is waited for longer and longer.  Another endpoint is tried as often as if
 * it were the only one. */
Test(session, counts_the_tries_of_each_endpoint)
{
    unsigned alone = count_silent_dials(1);
    cr_expect_eq(count_silent_dials(0), alone);
    cr_expect_geq(count_silent_dials(2), alone + 3);
    cr_expect_geq(count_silent_dials(3), alone + 6);
}

static void expect_another_try(enum wire_code code, const char *type)
{
    driver_up(&d);
    driver_break_link(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    refuse(code, type);
    cr_assert_eq(session_state(d.session), SESSION_CONNECTING);
    tick(100);
    driver_greet(&d, true);
    driver_fini(&d);
}

Test(session, tries_again_when_resuming_meets_a_full_broker)
{
    expect_another_try(CODE_EFULL, ERROR_TYPE_FULL);
}

/* Of several endpoints one is wrong. */
Test(session, tries_again_when_resuming_meets_a_data_channel)
{
    expect_another_try(CODE_EINVAL, ERROR_TYPE_WRONG_CHANNEL);
}

/* The next connection, and where it is to go. */
static void expect_dial(const char *endpoint)
{
    char elsewhere[LIMIT_ENDPOINT_BYTES + 1];
    if (!session_has_action(d.session))
        tick(1000);
    cr_assert_eq(session_action(d.session), SESSION_CONNECT_CONTROL);
    session_elsewhere(d.session, elsewhere);
    cr_expect_str_eq(elsewhere, endpoint);
    (void)driver_expect(&d, MSG_HELLO);
}

Test(session, goes_to_the_broker_that_has_its_job)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    send_elsewhere("tcp://b:1");
    expect_dial("tcp://b:1");
    driver_break_link(&d);
    expect_dial(""); /* nobody is there: the list goes on */
    send_elsewhere("");
    expect_dial(""); /* that broker is still to start */
    driver_fini(&d);
}

/* Where nobody is, it looks less and less often: more than half a beat apart in the end. */
Test(session, does_not_storm_the_broker_that_sends_it_to_nobody)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    for (int i = 0; i < 12; i++) {
        send_elsewhere("tcp://b:1");
        expect_dial("tcp://b:1");
        d.now_ns += 500 * DRIVER_MS; /* half a beat later */
        session_link_closed(d.session, d.now_ns);
        cr_expect_eq(session_has_action(d.session), i < 5, "%d", i);
        expect_dial("");
    }
    driver_fini(&d);
}

Test(session, goes_to_another_broker_when_it_resumes)
{
    driver_up(&d);
    driver_break_link(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    send_elsewhere("tcp://b:1");
    expect_dial("tcp://b:1");
    driver_fini(&d);
}

Test(session, ends_when_brokers_send_it_round)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    for (int hops = 0; hops < 3; hops++) {
        send_elsewhere("tcp://b:1");
        expect_dial("tcp://b:1");
    }
    session_dialled(d.session, span_text("tcp://a:1"));
    send_elsewhere("tcp://b:1");
    driver_expect_end(&d, CODE_EDENIED, ERROR_TYPE_ELSEWHERE);
    driver_fini(&d);
}

/* So the broker knows a greeting whose first answer was slow, and who was not told of an end. */
Test(session, greets_with_the_same_client_id)
{
    driver_init(&d);
    (void)session_action(d.session);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.client, 1147);
    tick(1000);
    struct msg again = driver_dial(&d);
    cr_expect_eq(again.as.hello.client, 1147);
    cr_expect_eq(again.as.hello.dial, 2);
    driver_fini(&d);
    driver_up(&d);
    driver_break_link(&d);
    (void)session_action(d.session);
    cr_expect_eq(driver_expect(&d, MSG_HELLO).as.hello.client, 1147);
    driver_fini(&d);
}

Test(session, waits_for_its_own_ghost_to_lose_its_name)
{
    driver_init(&d);
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO); /* arrives, but the answer does not */
    tick(1000);
    int64_t ghost_ns = d.now_ns + 11000 * DRIVER_MS;
    while (session_state(d.session) != SESSION_OVER) {
        (void)driver_dial(&d);
        refuse(CODE_EDENIED, ERROR_TYPE_NAME_TAKEN);
        if (session_state(d.session) == SESSION_OVER)
            break;
        cr_assert(d.now_ns < ghost_ns);
        d.now_ns = session_deadline_ns(d.session);
        session_tick(d.session, d.now_ns);
    }
    cr_assert(d.now_ns >= ghost_ns);
    driver_expect_end(&d, CODE_EDENIED, ERROR_TYPE_NAME_TAKEN);
    driver_fini(&d);
}

Test(session, ends_as_the_broker_says)
{
    static const enum wire_code codes[] = {CODE_EFENCED, CODE_ELOST};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        driver_up(&d);
        driver_say(
            &d, &(struct msg){.type = MSG_OVER,
                              .as.over = {.code = codes[i], .error = error_of("errbus.silent")}});
        driver_expect_end(&d, codes[i], "errbus.silent");
        cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
        driver_fini(&d);
    }
}

Test(session, leaves_and_is_closed_when_the_broker_agrees)
{
    driver_up(&d);
    session_leave(d.session);
    session_leave(d.session);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    struct msg leave = driver_expect(&d, MSG_LEAVE);
    cr_assert_eq(leave.as.leave.number, 1);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    uint64_t want;
    cr_assert_eq(session_await(d.session, span_text("bob/x"), 0, true, &want), CODE_ECLOSED);
    driver_say(&d, &(struct msg){.type = MSG_OVER, .as.over.code = CODE_ECLOSED});
    driver_expect_end(&d, CODE_ECLOSED, NULL);
    cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_fini(&d);
}

/* It comes back on another connection, and its session is none any more. */
static void refuse_as_fenced(void)
{
    driver_break_link(&d);
    (void)driver_dial(&d);
    driver_say(&d, &(struct msg){.type = MSG_REFUSED,
                                 .as.refused = {.code = CODE_EFENCED,
                                                .type = span_text(ERROR_TYPE_FENCED),
                                                .message = span_text("lost, failed or left")}});
}

/* The broker may die between the farewell and its answer. */
Test(session, has_left_when_the_answer_got_lost_and_it_is_known_no_more)
{
    driver_up(&d);
    session_leave(d.session);
    (void)driver_expect(&d, MSG_LEAVE);
    refuse_as_fenced();
    driver_expect_end(&d, CODE_ECLOSED, NULL);
    driver_fini(&d);
}

Test(session, has_not_left_when_its_farewell_was_never_sent)
{
    driver_up(&d);
    driver_break_link(&d);
    session_leave(d.session);
    (void)driver_dial(&d);
    end_as_fenced();
    driver_fini(&d);
}

/* ---- what should be the data channel, and is none -------------------------------------------- */

static void refuse_data(const char *type)
{
    uint8_t bytes[256];
    size_t count = 0;
    struct msg refused = {.type = MSG_REFUSED,
                          .as.refused = {.code = CODE_EINVAL,
                                         .type = span_text(type),
                                         .message = span_text("no data channel")}};
    cr_assert_eq(msg_encode(&refused, bytes, sizeof bytes, &count), WIRE_OK);
    session_data_refused_in(d.session, d.now_ns, span_of(bytes, count));
}

Test(session, ends_when_its_first_data_connection_is_refused)
{
    driver_init(&d);
    driver_greet_to_attach(&d, false);
    refuse_data(ERROR_TYPE_WRONG_CHANNEL);
    driver_expect_end(&d, CODE_EINVAL, ERROR_TYPE_WRONG_CHANNEL);
    driver_fini(&d);
}

Test(session, tries_again_when_a_later_data_connection_is_refused)
{
    driver_up(&d);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    refuse_data(ERROR_TYPE_WRONG_CHANNEL);
    cr_assert_neq(session_state(d.session), SESSION_OVER);
    d.now_ns = session_deadline_ns(d.session);
    session_tick(d.session, d.now_ns);
    driver_greet(&d, true);
    driver_fini(&d);
}

Test(session, ends_when_the_data_channel_says_something_else)
{
    driver_up(&d);
    refuse_data(ERROR_TYPE_WRONG_CHANNEL);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

Test(session, leaves_at_once_when_it_never_had_a_session)
{
    driver_init(&d);
    session_leave(d.session);
    driver_expect_end(&d, CODE_ECLOSED, NULL);
    cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_fini(&d);
    driver_init(&d);
    session_fail_party(d.session, error_of("app.broken"));
    driver_expect_end(&d, CODE_ECLOSED, "app.broken");
    cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_fini(&d);
}

Test(session, fails_at_once_and_still_tells_the_broker)
{
    driver_up(&d);
    session_fail_party(d.session, error_of("app.broken"));
    session_fail_party(d.session, error_of("app.other"));
    driver_expect_end(&d, CODE_ECLOSED, "app.broken");
    cr_assert_eq(session_action(d.session), SESSION_NOTHING); /* not before it was told */
    uint32_t topic;
    cr_assert_eq(session_topic(d.session, span_text("alice/x"), &topic), CODE_ECLOSED);
    driver_fini(&d);
}

Test(session, tells_the_broker_of_a_failed_party_over_reconnects)
{
    driver_up(&d);
    session_fail_party(d.session, error_of("app.broken"));
    struct msg fail = driver_expect(&d, MSG_FAIL_PARTY);
    cr_assert_eq(fail.as.fail_party.number, 1);
    driver_break_link(&d);
    driver_greet_to_attach(&d, true);
    (void)driver_expect(&d, MSG_READY);
    driver_say(&d, &(struct msg){.type = MSG_ATTACHED});
    (void)driver_expect(&d, MSG_BEAT);
    fail = driver_expect(&d, MSG_FAIL_PARTY);
    cr_assert_eq(fail.as.fail_party.number, 1);
    driver_say(
        &d, &(struct msg){.type = MSG_OVER,
                          .as.over = {.code = CODE_EFENCED, .error = error_of("errbus.silent")}});
    cr_assert_eq(session_action(d.session), SESSION_DISCONNECT);
    driver_expect_end(&d, CODE_ECLOSED, "app.broken"); /* the first cause stands */
    driver_fini(&d);
}

Test(session, ends_when_the_broker_breaks_the_protocol)
{
    static const struct msg rows[] = {
        {.type = MSG_WELCOME, .as.welcome = {.major = 1, .token = 1, .data_endpoint = {"x", 1}}},
        {.type = MSG_ATTACHED},
        {.type = MSG_REFUSED, .as.refused = {.code = CODE_EDENIED, .type = {"x", 1}}},
        {.type = MSG_ACCEPTED, .as.accepted.data_number = 1},
        {.type = MSG_ACCEPTED, .as.accepted.control_number = 1},
        {.type = MSG_TOPIC_OPENED, .as.topic_opened.request = 1},
        {.type = MSG_REFUSAL, .as.refusal = {.topic = 1, .error = {"x", 1}}},
        {.type = MSG_SUBSCRIBED, .as.subscribed.sub = 1},
        {.type = MSG_OVER, .as.over.code = CODE_OK},
        {.type = MSG_OVER, .as.over.code = CODE_EFULL},
        {.type = MSG_EVENT, .as.event = {.id = 1, .name = {"x", 1}}},
        {.type = MSG_STATUS_END, .as.status_end.request = 1},
        {.type = MSG_STATUS_ROW},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        driver_up(&d);
        driver_say(&d, &rows[i]);
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
}

Test(session, ends_when_a_part_is_no_message)
{
    static const struct {
        const char *bytes;
        size_t count;
    } rows[] = {{"", 0},
                {"\x91", 1},
                {"\xc1", 1},
                {"\x91\x05\x00", 3},
                {"\x92\x05\x01", 3},
                {"\x91\xcc\xfa", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        driver_up(&d);
        session_control_in(d.session, d.now_ns, span_of(rows[i].bytes, rows[i].count));
        driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
        driver_fini(&d);
    }
}

static void try_welcome(const char *row, bool is_resumed, struct msg welcome)
{
    if (is_resumed) {
        driver_up(&d);
        driver_break_link(&d);
    } else {
        driver_init(&d);
    }
    (void)session_action(d.session);
    (void)driver_expect(&d, MSG_HELLO);
    driver_say(&d, &welcome);
    cr_assert_eq(session_state(d.session), SESSION_OVER, "%s", row);
    driver_expect_end(&d, CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}

#define TRY_WELCOME(is_resumed, field, value)                                                      \
    do {                                                                                           \
        struct msg welcome = driver_welcome(&(struct driver){0}, is_resumed);                      \
        welcome.as.welcome.field = (value);                                                        \
        try_welcome(#field, is_resumed, welcome);                                                  \
    } while (0)

Test(session, refuses_a_welcome_to_another_session)
{
    TRY_WELCOME(false, major, 2);
    TRY_WELCOME(false, is_resumed, 1);
    TRY_WELCOME(false, token, 0);
    TRY_WELCOME(false, data_number, 1);
    TRY_WELCOME(false, data_endpoint, span_of("a\0b", 3));
    TRY_WELCOME(true, is_resumed, 0);
    TRY_WELCOME(true, token, DRIVER_TOKEN + 1);
    TRY_WELCOME(true, broker, DRIVER_BROKER + 1);
}

Test(session, reckons_the_clock_of_the_broker)
{
    driver_up(&d);
    uint64_t uncertainty = 0;
    cr_assert_eq(session_broker_ns(d.session, d.now_ns, &uncertainty),
                 d.now_ns + DRIVER_BROKER_AHEAD);
    cr_assert_eq(uncertainty, 0);
    tick(1000);
    (void)driver_expect(&d, MSG_BEAT);
    int64_t sent_ns = d.now_ns;
    d.now_ns += 4 * DRIVER_MS;
    /* A sample with a longer trip than the one kept: it stays, as long as both may be right. */
    int64_t broker_ns = sent_ns + 3 * DRIVER_MS + DRIVER_BROKER_AHEAD;
    driver_say(&d, &(struct msg){.type = MSG_ECHO,
                                 .as.echo = {.sent_ns = sent_ns, .broker_ns = broker_ns}});
    cr_assert_eq(session_broker_ns(d.session, d.now_ns, NULL), d.now_ns + DRIVER_BROKER_AHEAD);
    broker_ns += 3600 * 1000 * DRIVER_MS; /* here or there the clock has jumped */
    driver_say(&d, &(struct msg){.type = MSG_ECHO,
                                 .as.echo = {.sent_ns = sent_ns, .broker_ns = broker_ns}});
    cr_assert_eq(session_broker_ns(d.session, d.now_ns, &uncertainty), broker_ns + 2 * DRIVER_MS);
    cr_assert_eq(uncertainty, 2 * DRIVER_MS);
    driver_fini(&d);
}

Test(session, numbers_its_errors)
{
    driver_up(&d);
    char id[LIMIT_ERROR_ID_BYTES + 1];
    static const char *const expected[] = {"train/alice/3/1", "train/alice/3/3", "train/alice/3/5"};
    for (int i = 0; i < 3; i++) {
        id[session_error_id(d.session, id, sizeof id)] = 0;
        cr_assert_str_eq(id, expected[i]);
    }
    driver_fini(&d);
}

Test(session, speaks_for_a_guard_and_numbers_its_errors_apart)
{
    char id[LIMIT_ERROR_ID_BYTES + 1];
    struct session_options options = driver_options("alice");
    options.guard = 77;
    driver_init_with(&d, &options);
    (void)session_action(d.session);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.guard, 77);
    struct msg welcome = driver_welcome(&d, false);
    welcome.as.welcome.errors_from = 2000;
    driver_say(&d, &welcome);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    id[session_error_id(d.session, id, sizeof id)] = 0;
    cr_assert_str_eq(id, "train/alice/3/2001");
    driver_break_link(&d);
    struct msg hello = driver_dial(&d);
    cr_assert_eq(hello.as.hello.guard, 0, "it has a session of its own now");
    cr_assert_eq(hello.as.hello.token, DRIVER_TOKEN);
    driver_fini(&d);
}

Test(session, guards_on_the_control_channel_alone)
{
    uint64_t number;
    uint32_t topic;
    struct session_options options = driver_options("alice");
    options.is_guard = true;
    driver_init_with(&d, &options);
    (void)session_action(d.session);
    cr_assert_eq(driver_expect(&d, MSG_HELLO).as.hello.role, 2);
    driver_say_welcome(&d, false);
    cr_assert_eq(session_action(d.session), SESSION_NOTHING);
    (void)driver_expect(&d, MSG_READY);
    beat_for(1000); /* as any party that waits to be attached */
    driver_attached(&d);
    cr_assert_eq(session_state(d.session), SESSION_UP);
    cr_assert_eq(session_token(d.session), DRIVER_TOKEN);
    session_progress(d.session, 1000, SPAN_NONE);
    cr_assert_eq(driver_expect(&d, MSG_PROGRESS).as.progress.next_within_ms, 1000);
    cr_assert_eq(session_topic(d.session, span_text("alice/w"), &topic), CODE_EDENIED);
    cr_assert_eq(session_await(d.session, span_text("bob/w"), 0, true, &number), CODE_EDENIED);
    cr_assert_eq(
        session_subscribe(d.session, span_text("#"), &(struct session_sub_options){0}, &topic),
        CODE_EDENIED);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    cr_assert_eq(session_complete(d.session, &number), CODE_OK);
    (void)driver_expect(&d, MSG_COMPLETE);
    cr_assert_not(session_keeps_link(d.session), "no data connection would have it closed");
    driver_fini(&d);
}

Test(session, says_progress_again_on_a_new_connection)
{
    driver_up(&d);
    session_progress(d.session, 5000, SPAN_NONE);
    session_progress(d.session, 7000, SPAN_NONE);
    cr_assert_eq(driver_expect(&d, MSG_PROGRESS).as.progress.next_within_ms, 7000);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
    driver_break_link(&d);
    driver_greet(&d, true);
    cr_assert_eq(driver_expect(&d, MSG_PROGRESS).as.progress.next_within_ms, 7000);
    session_progress(d.session, UINT64_MAX, SPAN_NONE);
    cr_assert_eq(driver_expect(&d, MSG_PROGRESS).as.progress.next_within_ms, LIMIT_PERIOD_MS_MAX);
    session_progress(d.session, 10, span_text("round 3"));
    cr_assert(span_equal(driver_expect(&d, MSG_PROGRESS).as.progress.where, span_text("round 3")));
    driver_break_link(&d);
    driver_greet(&d, true);
    cr_assert(span_equal(driver_expect(&d, MSG_PROGRESS).as.progress.where, span_text("round 3")));
    driver_fini(&d);
}

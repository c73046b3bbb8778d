/* SPDX-License-Identifier: MPL-2.0 */
/* core_failure_test.c -- errors as clients send them, of which what cannot be read is refused, and
 * counted, once; and what is known of those that the broker makes. */
#include "broker/core/record/failure.h"
#include "tests/unit/core_driver.h"

TestSuite(core_failure, .init = init, .fini = fini);

static const uint8_t no_error[] = {0x91, 0x91, 0xa1, 0xff}; /* an id that is no text */

static struct span unreadable(void)
{
    return span_of(no_error, sizeof no_error);
}

static struct msg a_fail(uint64_t number, uint64_t after, uint32_t topic, uint64_t seq)
{
    return (struct msg){
        .type = MSG_FAIL,
        .as.fail = {
            .number = number, .after = after, .topic = topic, .seq = seq, .error = unreadable()}};
}

static struct msg a_retract(uint64_t number, uint32_t topic, uint64_t seq)
{
    return (struct msg){
        .type = MSG_RETRACT,
        .as.retract = {.number = number, .topic = topic, .seq = seq, .error = unreadable()}};
}

/* Alice writes to a topic, one taps, and one asks for the status. */
static uint32_t meet(void)
{
    join(1);
    tap(3);
    ask_from(4);
    return open_topic(1, "alice/a");
}

static void come_back(conn_id conn)
{
    closed(conn);
    forget();
    resume(conn, tokens[conn], 0);
    forget();
}

/* Its client had not heard of the acknowledgement.  The slot stays what it was, and nobody is told
 * of anything twice. */
Test(core_failure, that_cannot_be_read_is_counted_once_though_it_is_sent_again)
{
    uint32_t a = meet();
    reserve(1, a, 0);
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 0, a, 0));
    EXPECT("1 < accepted 1 1\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    cr_expect_eq(count_refused(4), refused + 1);
    for (int i = 0; i < 3; i++) {
        come_back(1);
        message(1, a_fail(1, 0, a, 0));
        EXPECT("");
    }
    cr_expect_eq(count_refused(4), refused + 1);
}

/* It is told of at once, waits for its data, and comes again meanwhile. */
Test(core_failure, that_cannot_be_read_is_counted_once_though_it_waits)
{
    uint32_t a = meet();
    forget();
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    come_back(1);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("");
    reserve(1, a, 0);
    EXPECT("1 < accepted 1 1\n");
    cr_expect_eq(count_refused(4), refused + 1);
}

/* What is not taken for want of room comes again, and counts as what breaks the protocol: the error
 * itself does when it is taken. */
Test(core_failure, that_cannot_be_read_is_counted_when_it_is_taken)
{
    options.parked_bytes_max = 1;
    restart();
    uint32_t a = meet();
    forget();
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("1 dropped\n11 dropped\n3 < refused alice/1 #0 x1\n3 < party.suspect alice/1 #0 x0\n");
    cr_expect_eq(count_refused(4), refused + 1, "a violation, and that is all");
    come_back(1);
    reserve(1, a, 0);
    forget();
    message(1, a_fail(1, 1, a, 0));
    cr_expect_eq(count_refused(4), refused + 2);
}

/* A question is answered again, whatever it was answered: with no, it is looked at again. */
Test(core_failure, that_cannot_be_read_is_counted_once_in_a_question_that_is_asked_again)
{
    uint32_t a = meet();
    reserve(1, a, 0);
    uint64_t refused = count_refused(4);
    message(1, a_retract(1, a, 7)); /* never promised */
    message(1, a_retract(2, a, 0));
    EXPECT("1 < result 10\n1 < accepted 1 1\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "1 < result 0\n1 < accepted 1 2\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    cr_expect_eq(count_refused(4), refused + 2);
    come_back(1);
    message(1, a_retract(1, a, 7));
    message(1, a_retract(2, a, 0));
    EXPECT("1 < result 10\n1 < result 0\n");
    cr_expect_eq(count_refused(4), refused + 2);
}

/* The others' errors, and the party's own that can be read, are what they were. */
Test(core_failure, that_cannot_be_read_spoils_no_other)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(2, "bob/b");
    reserve(1, a, 0);
    reserve(1, a, 1);
    reserve(2, b, 0);
    subscribe(2, 1, "alice/#", "", 0, 0);
    subscribe(1, 1, "bob/#", "", 0, 0);
    forget();
    message(1, a_fail(2, 0, a, 0));
    numbers[1] = 2;
    fail(1, a, 1, 0);
    fail(2, b, 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 error #0 (application of alice)\n"), "%s", said);
    cr_expect_not_null(strstr(said, "12 < sub 1 error #1 (application of alice)\n"), "%s", said);
    cr_expect_not_null(strstr(said, "11 < sub 1 error #0 (application of bob)\n"), "%s", said);
}

/* ---- errors that the broker makes ------------------------------------------------------------ */

/* The error of the event that was told last. */
static struct error_record last_error(void)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_EVENT && effects.msgs[i].as.event.error.bytes > 0)
            cr_assert_eq(
                error_decode(effects.msgs[i].as.event.error, records, LIMIT_ERROR_RECORDS, &count),
                WIRE_OK);
    cr_assert_gt(count, 0);
    return records[0];
}

static void expect_process(const struct error_record *error, const char *host, uint64_t pid)
{
    cr_expect(span_equal(error->host, span_text(host)), "%.*s", (int)error->host.bytes,
              (const char *)error->host.data);
    cr_expect_eq(error->pid, pid);
}

/* An incarnation is known to have run where it said, and to have ended when it was heard last: by
 * both clocks, though it is told later. */
Test(core_failure, of_a_lost_party_says_where_it_ran_and_when_it_ended)
{
    wall_ahead_ns = 1000 * 1000 * MS;
    join(1);
    tap(3);
    pass_ms(300);
    closed(1);
    int64_t closed_ns = now_ns;
    pass_ms(1000);
    struct error_record error = last_error();
    cr_assert_eq(error.kind, ERROR_PARTY_LOST);
    expect_process(&error, "node-1", 101);
    cr_expect_eq(error.occurred_ns, closed_ns);
    cr_expect_eq(error.wall_ns, closed_ns + wall_ahead_ns);
    wall_ahead_ns = 0;
}

/* Party 2 is lost while the broker starts again. */
static void expect_lost_in_restart(const char *host, uint64_t pid)
{
    crash(50);
    pass_ms(9000);
    tap(3);
    pass_ms(1000);
    struct error_record error = last_error();
    cr_assert_eq(error.kind, ERROR_PARTY_LOST);
    expect_process(&error, host, pid);
}

/* A client that says it once it knows whether it may, and again on each connection. */
Test(core_failure, of_a_lost_party_says_where_it_ran_as_told_later)
{
    join(2);
    locate(2, "node-7", 7);
    uint32_t count = journal_count;
    locate(2, "node-7", 7);
    cr_expect_eq(journal_count, count, "it is known");
    for (int i = 0; i < 2; i++) { /* from its fact, and from a snapshot */
        crash(50);
        tap(3);
        closed(3);
        compact();
    }
    expect_lost_in_restart("node-7", 7);
}

Test(core_failure, of_a_lost_party_says_where_it_ran_after_a_restart_too)
{
    join(2);
    crash(50);
    compact();
    expect_lost_in_restart("node-2", 102);
}

/* The broker's own error of a party is in the trace of the party's work, over restarts, too. */
Test(core_failure, of_a_lost_party_has_its_trace)
{
    const struct span trace_id = span_text("0123456789abcdef");
    join(2);
    trace(2, trace_id);
    uint32_t count = journal_count;
    trace(2, trace_id);
    cr_expect_eq(journal_count, count, "it is known");
    for (int i = 0; i < 2; i++) { /* from its fact, and from a snapshot */
        crash(50);
        tap(3);
        closed(3);
        compact();
    }
    crash(50);
    pass_ms(9000);
    tap(3);
    pass_ms(1000);
    struct error_record error = last_error();
    cr_assert_eq(error.kind, ERROR_PARTY_LOST);
    cr_expect(span_equal(error.trace_id, trace_id));
}

Test(core_failure, of_a_party_with_a_trace_id_of_another_length_is_a_violation)
{
    static const char bytes[LIMIT_TRACE_ID_BYTES + 1] = "0123456789abcdef";
    for (size_t length = 1; length < LIMIT_TRACE_ID_BYTES; length++) {
        restart();
        (void)meet();
        uint64_t refused = count_refused(4);
        trace(1, span_of(bytes, length));
        cr_expect_eq(count_refused(4), refused + 1, "%zu", length);
    }
}

Test(core_failure, of_a_deadline_says_where_its_writer_runs)
{
    join(1);
    tap(3);
    uint32_t a = open_topic(1, "alice/a");
    batch(1, 99, (struct event_range){.kind = FRAME_RESERVE, .topic = a, .deadline_ms = 20});
    pass_ms(20);
    struct error_record error = last_error();
    cr_assert_eq(error.kind, ERROR_DEADLINE);
    expect_process(&error, "node-1", 101);
}

/* Two processes, and each loss is of one of them. */
Test(core_failure, of_a_guarded_party_is_of_the_process_that_was_lost)
{
    for (unsigned i = 0; i < 2; i++) {
        struct msg guard = hello(1, 0);
        guard.as.hello.role = 2;
        message(1, guard);
        struct msg program = hello(2, 0);
        program.as.hello.party = guard.as.hello.party;
        program.as.hello.guard = tokens[1];
        message(2, program);
        locate(2, "node-8", 8);
        locate(1, "node-9", 9);
        compact();
        tap(3);
        closed(i == 0 ? 1 : 2);
        pass_ms(1000);
        struct error_record error = last_error();
        cr_assert_eq(error.kind, ERROR_PARTY_LOST);
        expect_process(&error, i == 0 ? "node-9" : "node-8", i == 0 ? 9 : 8);
        closed(1);
        closed(2);
        pass_ms(2000);
        closed(3);
    }
}

/* What is about the job alone is nobody's. */
Test(core_failure, of_a_job_is_of_no_process)
{
    join(1);
    tap(3);
    cancel_job(1);
    struct error_record error = last_error();
    cr_assert_eq(error.kind, ERROR_CANCELLED);
    expect_process(&error, "", 0);
}

/* ---- what the broker puts together ----------------------------------------------------------- */

/* Of so many records, each caused by the next. */
static struct failure *a_chain(uint32_t length, uint32_t number)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    static char ids[LIMIT_ERROR_RECORDS][32];
    static uint8_t bytes[LIMIT_ERROR_BYTES];
    size_t count = 0;
    for (uint32_t i = 0; i < length; i++) {
        error_record_init(&records[i]);
        (void)snprintf(ids[i], sizeof ids[i], "job/bob/%u/%u", number, 2 * i + 1); /* it fits */
        records[i].id = span_text(ids[i]);
        records[i].kind = ERROR_APPLICATION;
        records[i].cause_count = i + 1 < length;
        records[i].causes[0] = i + 1;
    }
    cr_assert_eq(error_encode(records, length, bytes, sizeof bytes, &count), WIRE_OK);
    struct failure *failure = failure_restore(core, span_of(bytes, count));
    cr_assert_not_null(failure);
    return failure;
}

/* Returns how many causes the head has; all that it leads to is there, and it ends with the root of
 * each cause. */
static uint32_t put_together(uint32_t causes, uint32_t length, uint64_t *out_left_out)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    struct failure *chains[LIMIT_ERROR_CAUSES + 1];
    struct job nobody = {.name = span_text("job"), .attempt = 1};
    uint32_t count = 0;
    for (uint32_t i = 0; i < causes; i++)
        chains[i] = a_chain(length, i + 1);
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = &nobody,
                                                                        .kind = ERROR_DEPENDENCY,
                                                                        .type = "errbus.dependency",
                                                                        .message = "several failed",
                                                                        .cause = chains[0],
                                                                        .causes = chains + 1,
                                                                        .cause_count = causes - 1});
    cr_assert_not(failure_is_spare(core, failure), "%u causes of %u", causes, length);
    cr_assert_eq(error_decode(failure_span(failure), records, LIMIT_ERROR_RECORDS, &count),
                 WIRE_OK);
    uint32_t found = records[0].cause_count;
    *out_left_out = records[0].left_out;
    for (uint32_t i = 0; i < causes; i++)
        failure_unref(core, chains[i]);
    failure_unref(core, failure);
    return found;
}

/* Two chains have more records than an error may have: their middles go, and no cause leads to what
 * is not there. */
Test(core_failure, of_several_long_ones_keeps_each_of_them)
{
    uint64_t left_out = 0;
    static const uint32_t lengths[] = {1, 31, 32, 33, LIMIT_ERROR_RECORDS};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        cr_expect_eq(put_together(1, lengths[i], &left_out), 1);
        cr_expect_eq(put_together(2, lengths[i], &left_out), 2);
        cr_expect_eq(put_together(4, lengths[i], &left_out), 4, "%u", lengths[i]);
    }
    cr_expect_eq(put_together(LIMIT_ERROR_CAUSES, 1, &left_out), LIMIT_ERROR_CAUSES);
    cr_expect_eq(left_out, 0);
    cr_expect_eq(put_together(LIMIT_ERROR_CAUSES + 1, 1, &left_out), LIMIT_ERROR_CAUSES);
    cr_expect_eq(left_out, 1, "the one beyond is counted");
    cr_expect_gt(put_together(LIMIT_ERROR_CAUSES, LIMIT_ERROR_RECORDS, &left_out), 3);
    cr_expect_gt(left_out, 0);
}

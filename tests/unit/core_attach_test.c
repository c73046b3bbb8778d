/* SPDX-License-Identifier: MPL-2.0 */
/* core_attach_test.c -- attachments of errors: known with their error, brought in pieces and in
 * turn, fetched in windows, kept within a budget, over a crash. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

TestSuite(core_attach, .init = init, .fini = fini);

enum { PIECE = LIMIT_ATTACHMENT_PIECE_BYTES, WINDOW_PIECES = DEFAULT_BRING_WINDOW_BYTES / PIECE };

static const char error_id[] = "job/alice/1/1";
static payload_id last_payload;

/* What is said to couriers, beside what the driver knows. */
static void say_attachments(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct msg *msg = &effects.msgs[effect->index];
        if (effect->type != EFFECT_SEND_MSG)
            continue;
        if (msg->type == MSG_BROUGHT)
            say("%u: code %u, state %u, %llu kept, up to %llu\n", effect->conn,
                (unsigned)msg->as.brought.code, (unsigned)msg->as.brought.state,
                (unsigned long long)msg->as.brought.bytes,
                (unsigned long long)msg->as.brought.limit_bytes);
        else if (msg->type == MSG_FETCHED)
            say("%u: %llu from %llu of %llu, state %u, %llu of %lld\n", effect->conn,
                (unsigned long long)msg->as.fetched.count,
                (unsigned long long)msg->as.fetched.offset,
                (unsigned long long)msg->as.fetched.total, (unsigned)msg->as.fetched.state,
                (unsigned long long)msg->as.fetched.arrived, (long long)msg->as.fetched.promised);
        else if (msg->type == MSG_FETCHED_PIECE)
            say("%u: at %llu, payload %u from %u, %u bytes\n", effect->conn,
                (unsigned long long)msg->as.fetched_piece.offset, effect->payload, effect->offset,
                effect->bytes);
        else if (msg->type == MSG_ATTACHMENT_ROW)
            say("%u: %.*s, state %u, %llu of %lld\n", effect->conn,
                (int)msg->as.attachment_row.name.bytes,
                (const char *)msg->as.attachment_row.name.data,
                (unsigned)msg->as.attachment_row.state,
                (unsigned long long)msg->as.attachment_row.bytes,
                (long long)msg->as.attachment_row.promised);
        else if (msg->type == MSG_JOB_DONE || msg->type == MSG_ECHO)
            say_msg(effect->conn, msg);
    }
}

static void talk(conn_id conn, struct msg msg)
{
    message(conn, msg);
    forget();
    say_attachments();
}

static void bring_of(conn_id conn, const char *error, const char *name, uint64_t promised)
{
    talk(conn, (struct msg){.type = MSG_BRING,
                            .as.bring = {.request = 7,
                                         .job = span_text("job"),
                                         .error = span_text(error),
                                         .name = span_text(name),
                                         .promised = promised}});
}

static void bring(conn_id conn, const char *name)
{
    bring_of(conn, error_id, name, ERROR_BYTES_UNKNOWN);
}

static void piece(conn_id conn, uint64_t offset, uint32_t bytes, bool is_last)
{
    static char content[PIECE];
    struct msg msg = {
        .type = MSG_PIECE,
        .as.piece = {
            .request = 7, .offset = offset, .is_last = is_last, .bytes = span_of(content, bytes)}};
    step((struct event){.type = EVENT_MESSAGE,
                        .conn = conn + 10,
                        .payload = bytes > 0 ? ++last_payload : 0,
                        .as.msg = &msg});
    bool is_dropped = strstr(said, "dropped") != NULL;
    forget();
    say_attachments();
    if (is_dropped)
        say("dropped\n");
}

static void bring_whole(conn_id conn, const char *name, uint32_t bytes)
{
    bring(conn, name);
    piece(conn, 0, bytes, true);
    forget();
}

static void fetch_of(conn_id conn, const char *error, const char *name, uint64_t offset,
                     uint64_t window, uint64_t received)
{
    talk(conn, (struct msg){.type = MSG_FETCH,
                            .as.fetch = {.request = 8,
                                         .job = span_text("job"),
                                         .error = span_text(error),
                                         .name = span_text(name),
                                         .offset = offset,
                                         .window_bytes = window,
                                         .received = received}});
}

/* Nothing is on its way. */
static void fetch(conn_id conn, const char *name, uint64_t offset)
{
    fetch_of(conn, error_id, name, offset, LIMIT_FETCH_WINDOW_BYTES, UINT64_MAX);
}

static void list_of(conn_id conn, const char *error)
{
    talk(conn, (struct msg){.type = MSG_ATTACHMENTS,
                            .as.attachments = {
                                .request = 9, .job = span_text("job"), .error = span_text(error)}});
}

static void come(conn_id conn)
{
    ask_from(conn);
    message(conn + 10, (struct msg){.type = MSG_ATTACH,
                                    .as.attach = {.token = tokens[conn], .connection = conn}});
    EXPECT(conn == 5 ? "5 < attached\n" : said);
}

static void meet(void)
{
    join(1);
    come(5);
    last_payload = 0;
}

/* With the options as they are now. */
static void meet_anew(void)
{
    restart();
    meet();
}

/* An error of alice's with attachments "stderr", of so many bytes, and "log", of unknown length. */
static struct span listing_error(const char *id, uint64_t bytes)
{
    static uint8_t encoded[LIMIT_ERROR_BYTES];
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    const struct error_attached attached[] = {{span_text("stderr"), bytes},
                                              {span_text("log"), ERROR_BYTES_UNKNOWN}};
    struct error_record records[2];
    size_t count = 0;
    error_record_init(&records[0]);
    error_record_init(&records[1]);
    records[0].id = span_text("job/alice/1/5");
    records[0].cause_count = 1;
    records[0].causes[0] = 1;
    records[1].id = span_text(id);
    records[1].attachments = span_of(list, error_attached_write(attached, 2, list));
    cr_assert_eq(error_encode(records, 2, encoded, sizeof encoded, &count), WIRE_OK);
    return span_of(encoded, count);
}

static void fail_listing(const char *id, uint64_t bytes)
{
    break_down_with(1, 0, listing_error(id, bytes));
    forget();
}

/* ---- bringing -------------------------------------------------------------------------------- */

Test(core_attach, keeps_pieces_in_order_as_far_as_credit_goes)
{
    meet();
    bring(5, "stderr");
    EXPECT("5: code 0, state 0, 0 kept, up to 262144\n");
    for (uint64_t i = 0; i + 1 < WINDOW_PIECES; i++)
        piece(5, i * PIECE, PIECE, false);
    EXPECT("");
    piece(5, 3 * PIECE, PIECE, false);
    EXPECT("5: code 0, state 0, 262144 kept, up to 524288\n");
    piece(5, 4 * PIECE, 100, true);
    EXPECT("5: code 0, state 2, 262244 kept, up to 0\n");
    piece(5, 4 * PIECE + 100, 100, true); /* was under way */
    EXPECT("");
    bring(5, "stderr"); /* its answer was lost */
    EXPECT("5: code 0, state 2, 262244 kept, up to 0\n");
    fetch(5, "stderr", 3 * PIECE + 10);
    EXPECT("5: 65626 from 196618 of 262244, state 2, 262244 of -1\n"
           "15: at 196618, payload 4 from 10, 65526 bytes\n"
           "15: at 262144, payload 5 from 0, 100 bytes\n");
    fetch(5, "stderr", 262244);
    EXPECT("5: 0 from 262244 of 262244, state 2, 262244 of -1\n");
    fetch(5, "stderr", UINT64_MAX);
    EXPECT("5: 0 from 262244 of 262244, state 2, 262244 of -1\n");
    compact();
    crash(1);
    come(5);
    fetch(5, "stderr", 4 * PIECE);
    EXPECT("5: 100 from 262144 of 262244, state 2, 262244 of -1\n"
           "15: at 262144, payload 5 from 0, 100 bytes\n");
}

Test(core_attach, goes_on_where_its_pieces_end_over_whatever_breaks)
{
    meet();
    bring(5, "stderr");
    piece(5, 0, PIECE, false);
    closed(15);
    come(5);
    bring(5, "stderr");
    EXPECT("5: code 0, state 0, 65536 kept, up to 327680\n");
    piece(5, PIECE, PIECE, false);
    come(6); /* its old connection is not known to be dead yet */
    bring(6, "stderr");
    EXPECT("6: code 0, state 0, 131072 kept, up to 393216\n");
    piece(5, 2 * PIECE, PIECE, false); /* comes too late */
    EXPECT("");
    piece(6, 2 * PIECE, PIECE, false);
    crash(1);
    come(5);
    bring(5, "stderr");
    EXPECT("5: code 0, state 0, 196608 kept, up to 458752\n");
    piece(5, 3 * PIECE, 0, true);
    EXPECT("5: code 0, state 2, 196608 kept, up to 0\n");
    compact();
}

Test(core_attach, takes_no_piece_that_breaks_the_rules)
{
    meet();
    bring(5, "a");
    piece(5, 1, PIECE, false); /* something is missing */
    EXPECT("dropped\n");
    come(5);
    bring(5, "a");
    piece(5, 0, PIECE - 1, false); /* not the last, and not whole */
    EXPECT("dropped\n");
    come(5);
    for (conn_id conn = 20; conn < 20 + LIMIT_BRINGERS; conn++) {
        come(conn);
        bring(conn, conn % 2 == 0 ? "even" : "odd"); /* the later ones take over */
    }
    bring(5, "a");
    EXPECT("5: code 0, state 0, 0 kept, up to 262144\n");
    say_hello(6);
    talk(6, (struct msg){.type = MSG_BRING, .as.bring.job = span_text("job")});
    EXPECT("");
    ask_from(7);
    message(7, (struct msg){.type = MSG_BRING, .as.bring.job = span_text("job")});
    EXPECT("7 dropped\n");
}

Test(core_attach, takes_none_of_nothing)
{
    meet();
    bring_of(5, "other/alice/1/1", "stderr", 1);
    EXPECT("5: code 1, state 3, 0 kept, up to 0\n");
    bring_of(5, "job", "stderr", 1);
    EXPECT("5: code 1, state 3, 0 kept, up to 0\n");
    bring_of(5, error_id, "a\nb", 1);
    EXPECT("5: code 1, state 3, 0 kept, up to 0\n");
    piece(5, 0, 10, true); /* of what was refused */
    EXPECT("");
    fetch(5, "stderr", 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    list_of(5, error_id);
    EXPECT("5 < done 0 \n");
    message(5, (struct msg){.type = MSG_FETCH, .as.fetch = {.job = span_text("nobody's")}});
    EXPECT("5 < done 1 errbus.no_job\n");
    message(
        5, (struct msg){.type = MSG_ATTACHMENTS, .as.attachments = {.job = span_text("nobody's")}});
    EXPECT("5 < done 1 errbus.no_job\n");
}

/* However many bring, so many windows lie between the broker and the values that come. */
Test(core_attach, gives_windows_in_turn_to_so_many_at_a_time)
{
    char name[16];
    enum { FIRST = 20, LATE = FIRST + LIMIT_BRINGERS };
    meet();
    for (conn_id conn = FIRST; conn <= LATE; conn++) {
        come(conn);
        snprintf(name, sizeof name, "n%u", conn);
        bring(conn, name);
        if (conn < LATE)
            forget();
    }
    EXPECT("28: code 0, state 0, 0 kept, up to 0\n");
    piece(FIRST, 0, 10, true); /* one is through */
    EXPECT("20: code 0, state 2, 10 kept, up to 0\n"
           "28: code 0, state 0, 0 kept, up to 262144\n");
    bring(FIRST, "another");
    EXPECT("20: code 0, state 0, 0 kept, up to 0\n");
    closed(21); /* one goes */
    forget();
    say_attachments();
    EXPECT("20: code 0, state 0, 0 kept, up to 262144\n");
    for (uint64_t i = 0; i < WINDOW_PIECES; i++) /* one has used its window, and nobody waits */
        piece(22, i * PIECE, PIECE, false);
    EXPECT("22: code 0, state 0, 262144 kept, up to 524288\n");
    come(21);
    bring(21, "n21");
    EXPECT("21: code 0, state 0, 0 kept, up to 0\n");
    for (uint64_t i = 0; i < WINDOW_PIECES; i++) /* now somebody does */
        piece(22, (WINDOW_PIECES + i) * PIECE, PIECE, false);
    EXPECT("21: code 0, state 0, 0 kept, up to 262144\n");
}

Test(core_attach, takes_its_turn_from_who_does_not_use_it)
{
    meet();
    for (conn_id conn = 20; conn <= 20 + LIMIT_BRINGERS; conn++) {
        char name[16];
        come(conn);
        snprintf(name, sizeof name, "n%u", conn);
        bring(conn, name);
    }
    forget();
    pass_ms(999);
    EXPECT("");
    pass_ms(1);
    say_attachments();
    EXPECT("28 < brought\n28: code 0, state 0, 0 kept, up to 262144\n");
    piece(20, 0, PIECE, true); /* its window is still its own */
    EXPECT("20: code 0, state 2, 65536 kept, up to 0\n");
}

/* ---- how they fare --------------------------------------------------------------------------- */

Test(core_attach, is_known_with_its_error_and_cut_when_nobody_brings_it)
{
    options.linger_ms = 600000;
    meet_anew();
    fail_listing(error_id, 100000);
    list_of(5, error_id);
    EXPECT("5: stderr, state 1, 0 of 100000\n5: log, state 1, 0 of -1\n5 < done 0 \n");
    bring(5, "stderr");
    piece(5, 0, PIECE, false);
    list_of(5, error_id);
    EXPECT("5: stderr, state 0, 65536 of 100000\n5: log, state 1, 0 of -1\n5 < done 0 \n");
    closed(5);
    come(6);
    fetch(6, "stderr", 0);
    EXPECT("6: 65536 from 0 of 65536, state 1, 65536 of 100000\n"
           "16: at 0, payload 1 from 0, 65536 bytes\n");
    pass_ms(options.resume_ms - 1); /* by the clock: nothing has to happen for it */
    come(7);
    list_of(7, error_id);
    EXPECT("7: stderr, state 1, 65536 of 100000\n7: log, state 1, 0 of -1\n7 < done 0 \n");
    pass_ms(1);
    list_of(7, error_id);
    EXPECT("7: stderr, state 3, 65536 of 100000\n7: log, state 3, 0 of -1\n7 < done 0 \n");
    reading_ms = options.resume_ms; /* nobody could come meanwhile */
    crash(1);                       /* whoever brought it may not have noticed yet */
    come(6);
    list_of(6, error_id);
    EXPECT("6: stderr, state 1, 65536 of 100000\n6: log, state 1, 0 of -1\n6 < done 0 \n");
    compact();
    crash(1);
    come(5);
    bring(5, "stderr"); /* it comes back all the same */
    piece(5, PIECE, 100000 - PIECE, true);
    list_of(5, error_id);
    EXPECT("5: stderr, state 2, 100000 of 100000\n5: log, state 1, 0 of -1\n5 < done 0 \n");
    compact();
}

Test(core_attach, is_not_announced_by_others)
{
    meet();
    fail_listing("job/bob/1/1", 100000);
    list_of(5, "job/bob/1/1");
    EXPECT("5 < done 0 \n");
}

Test(core_attach, knows_errors_and_names_apart)
{
    meet();
    bring_whole(5, "stderr", 0); /* nothing was said */
    bring(5, "log");
    bring_of(5, "job/alice/1/12", "stderr", 20);
    piece(5, 0, 20, true);
    forget();
    fetch(5, "stderr", 0);
    EXPECT("5: 0 from 0 of 0, state 2, 0 of -1\n");
    fetch(5, "log", 0);
    EXPECT("5: 0 from 0 of 0, state 1, 0 of -1\n");
    fetch_of(5, "job/alice/1/12", "stderr", 5, 15, 0);
    EXPECT("5: 15 from 5 of 20, state 2, 20 of 20\n15: at 5, payload 1 from 5, 15 bytes\n");
    fetch_of(5, "job/alice/1/12", "log", 0, 1, 0);
    EXPECT("5 < done 1 errbus.not_kept\n");
    list_of(5, "job/alice/1/12");
    EXPECT("5: stderr, state 2, 20 of 20\n5 < done 0 \n");
    compact();
}

static void say_taken(conn_id conn, uint64_t bytes)
{
    talk(conn, (struct msg){.type = MSG_FETCH_TAKEN, .as.fetch_taken.bytes = bytes});
}

/* No more than a window is on its way to who fetches, whatever it asks. */
Test(core_attach, is_fetched_in_windows)
{
    enum { WINDOW = DEFAULT_FETCH_WINDOW_BYTES };
    meet();
    bring(5, "a");
    for (uint64_t i = 0; i < 17; i++)
        piece(5, i * PIECE, PIECE, false);
    piece(5, 17 * PIECE, 1, true);
    forget();
    fetch_of(5, error_id, "a", 1, LIMIT_FETCH_WINDOW_BYTES, 0);
    cr_expect_not_null(strstr(said, "5: 1114112 from 1 of 1114113, state 2"), "%s", said);
    cr_expect_not_null(strstr(said, "at 1, payload 1 from 1, 65535 bytes"), "%s", said);
    cr_expect_not_null(strstr(said, "at 1048576, payload 17 from 0, 65536 bytes"), "%s", said);
    cr_expect_null(strstr(said, "payload 18"), "%s", said);
    say_taken(5, PIECE - 2);
    EXPECT(""); /* just as much as a window is under way */
    say_taken(5, PIECE);
    EXPECT("15: at 1114112, payload 18 from 0, 1 bytes\n");
    say_taken(5, WINDOW + PIECE);
    fetch_of(5, error_id, "a", 0, 10, WINDOW + PIECE); /* it has room for so much */
    EXPECT("5: 1114113 from 0 of 1114113, state 2, 1114113 of -1\n"
           "15: at 0, payload 1 from 0, 65536 bytes\n");
    say_taken(5, WINDOW + PIECE + 9);
    EXPECT("");
    say_taken(5, WINDOW + 2 * PIECE - 9);
    EXPECT("15: at 65536, payload 2 from 0, 65536 bytes\n");
    fetch(5, "b", 0); /* of the other nothing more comes */
    EXPECT("5 < done 1 errbus.not_kept\n");
    say_taken(5, WINDOW + 3 * PIECE);
    EXPECT("");
    beat(5);
    uint64_t told = 0;
    for (uint32_t i = 0; i < effects.count; i++)
        if (effects.items[i].type == EFFECT_SEND_MSG &&
            effects.msgs[effects.items[i].index].type == MSG_ECHO)
            told = effects.msgs[effects.items[i].index].as.echo.data_bytes;
    cr_expect_eq(told, 0, "what is not kept yet is not spoken of");
    kept = steps;
    beat(5);
    for (uint32_t i = 0; i < effects.count; i++)
        if (effects.items[i].type == EFFECT_SEND_MSG &&
            effects.msgs[effects.items[i].index].type == MSG_ECHO)
            told = effects.msgs[effects.items[i].index].as.echo.data_bytes;
    cr_expect_eq(told, WINDOW + 3 * PIECE);
    forget();
    message(5,
            (struct msg){.type = MSG_FETCH_TAKEN, .as.fetch_taken.bytes = WINDOW + 3 * PIECE - 1});
    EXPECT("5 dropped\n15 dropped\n");
    come(6);
    message(6, (struct msg){.type = MSG_FETCH_TAKEN, .as.fetch_taken.bytes = 1});
    EXPECT("6 dropped\n16 dropped\n");
}

/* Who fetches it is told where it ends, and asks again. */
Test(core_attach, ends_for_who_fetches_it_when_it_is_dropped)
{
    options.attachment_bytes_max = 20 * PIECE;
    meet_anew();
    bring(5, "a");
    for (uint64_t i = 0; i < 17; i++)
        piece(5, i * PIECE, PIECE, false);
    piece(5, 17 * PIECE, 1, true);
    forget();
    come(6);
    fetch(6, "a", 0);
    forget();
    bring(5, "b");
    forget();
    for (uint64_t i = 0; i < 3; i++)
        piece(5, i * PIECE, PIECE, false);
    cr_expect_not_null(strstr(said, "6: 0 from 1048576 of 1114113, state 5"), "%s", said);
    forget();
    say_taken(6, 16 * PIECE);
    EXPECT("");
    fetch(6, "a", 16 * PIECE);
    EXPECT("6: 0 from 0 of 0, state 5, 1114113 of -1\n");
}

/* ---- over a link ----------------------------------------------------------------------------- */

/* Bytes on their way over a link in one direction, and what is said in the other. */
struct way {
    uint64_t rate; /* bytes a second */
    int64_t delay_ns;
    int64_t free_ns; /* when all that was sent is on the link */
    struct sent {
        int64_t at_ns; /* when it arrives */
        uint64_t position;
    } bytes[1024], words[1024];
    unsigned bytes_from, bytes_end, words_from, words_end;
    uint64_t sent, most; /* in all; the most that was under way or queued */
};

static struct way way;

static void way_send(uint64_t bytes)
{
    int64_t from_ns = way.free_ns > now_ns ? way.free_ns : now_ns;
    way.free_ns = from_ns + (int64_t)(bytes * 1000000000 / way.rate);
    way.sent += bytes;
    way.bytes[way.bytes_end++ % 1024] =
        (struct sent){.at_ns = way.free_ns + way.delay_ns, .position = way.sent};
    uint64_t first = way.bytes[way.bytes_from % 1024].position;
    if (way.sent - first > way.most)
        way.most = way.sent - first;
}

static void way_say(uint64_t position)
{
    way.words[way.words_end++ % 1024] =
        (struct sent){.at_ns = now_ns + way.delay_ns, .position = position};
}

/* Goes on to what arrives next: 'b' for bytes, 'w' for words; 0: nothing is under way. */
static char way_next(uint64_t *out_position)
{
    const struct sent *bytes = &way.bytes[way.bytes_from % 1024];
    const struct sent *words = &way.words[way.words_from % 1024];
    bool is_bytes = way.bytes_from < way.bytes_end;
    bool is_words = way.words_from < way.words_end;
    if (!is_bytes && !is_words)
        return 0;
    bool is_first = is_bytes && (!is_words || bytes->at_ns <= words->at_ns);
    const struct sent *next = is_first ? bytes : words;
    cr_assert_geq(next->at_ns, now_ns);
    now_ns = next->at_ns;
    *out_position = next->position;
    *(is_first ? &way.bytes_from : &way.words_from) += 1;
    return is_first ? 'b' : 'w';
}

/* The courier of connection 5 has a link like this. */
static void link_over(uint64_t rate, int64_t delay_ms)
{
    way = (struct way){.rate = rate, .delay_ns = delay_ms * MS_NS};
    message(5, (struct msg){.type = MSG_BEAT, .as.beat.trip_ns = (uint64_t)(2 * way.delay_ns)});
    forget();
}

/* What goes over the link, of what the broker says now. */
static void send_out(void)
{
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct msg *msg = &effects.msgs[effect->index];
        if (effect->type == EFFECT_SEND_MSG && msg->type == MSG_FETCHED_PIECE)
            way_send(effect->bytes);
        else if (effect->type == EFFECT_SEND_MSG && msg->type == MSG_BROUGHT)
            way_say(msg->as.brought.limit_bytes);
    }
    forget();
}

/* Brings an attachment of so many bytes, and returns the time.  The courier has them all there. */
static int64_t bring_over(uint64_t bytes)
{
    int64_t began_ns = now_ns;
    uint64_t position = 0, limit = 0, offset = 0, come = 0;
    message(5, (struct msg){.type = MSG_BRING,
                            .as.bring = {.request = 7,
                                         .job = span_text("job"),
                                         .error = span_text(error_id),
                                         .name = span_text("a"),
                                         .promised = bytes}});
    send_out();
    for (char what = way_next(&position); come < bytes; what = way_next(&position)) {
        cr_assert_neq(what, 0, "it waits for ever at %lu", come);
        if (what == 'w' && position > limit)
            limit = position;
        for (; offset < limit && offset < bytes; offset += PIECE)
            way_send(PIECE);
        if (what == 'w')
            continue;
        piece(5, come, PIECE, come + PIECE == bytes);
        come += PIECE;
        if (come == bytes / 2)
            way.most = 0; /* by then the window is known */
        send_out();
    }
    return now_ns - began_ns;
}

/* Fetches it, and returns the time.  What comes is taken at once. */
static int64_t fetch_over(uint64_t bytes)
{
    int64_t began_ns = now_ns;
    uint64_t position = 0, come = 0, before = way.sent;
    message(5, (struct msg){.type = MSG_FETCH,
                            .as.fetch = {.request = 8,
                                         .job = span_text("job"),
                                         .error = span_text(error_id),
                                         .name = span_text("a"),
                                         .window_bytes = LIMIT_FETCH_WINDOW_BYTES}});
    send_out();
    while (come < bytes) {
        char what = way_next(&position);
        cr_assert_neq(what, 0, "it waits for ever at %lu", come);
        if (what == 'b') {
            come = position - before;
            if (come == bytes / 2)
                way.most = 0;
            way_say(come);
            continue;
        }
        message(5, (struct msg){.type = MSG_FETCH_TAKEN, .as.fetch_taken.bytes = position});
        send_out();
    }
    return now_ns - began_ns;
}

/* The time that these bytes take, and a second in which the window grows; and the most that may be
 * under way: what the link carries in a round trip, and what is sent at once. */
static int64_t ns_most(uint64_t bytes)
{
    return (int64_t)(bytes * 1000 / way.rate) * MS_NS + 1000 * MS_NS + 4 * way.delay_ns;
}

static uint64_t bytes_most(void)
{
    return flow_carried(way.rate, 2 * way.delay_ns + 60 * MS_NS) + 4 * PIECE;
}

Test(core_attach, is_brought_as_fast_as_its_link)
{
    enum { BYTES = 1024 * PIECE };
    meet();
    link_over(20000000, 100);
    cr_expect_leq(bring_over(BYTES), ns_most(BYTES));
    cr_expect_leq(way.most, bytes_most(), "%lu of %lu", way.most, bytes_most());
}

Test(core_attach, is_fetched_as_fast_as_its_link)
{
    enum { BYTES = 1024 * PIECE };
    meet();
    link_over(20000000, 100);
    (void)bring_over(BYTES);
    link_over(20000000, 100);
    cr_expect_leq(fetch_over(BYTES), ns_most(BYTES));
    cr_expect_leq(way.most, bytes_most(), "%lu of %lu", way.most, bytes_most());
}

/* A MiB on its way would be a queue of a second. */
Test(core_attach, leaves_no_queue_before_a_slow_link)
{
    enum { BYTES = 64 * PIECE };
    meet();
    link_over(1250000, 25);
    cr_expect_leq(bring_over(BYTES), ns_most(BYTES));
    cr_expect_leq(way.most, bytes_most(), "%lu of %lu", way.most, bytes_most());
    link_over(1250000, 25);
    cr_expect_leq(fetch_over(BYTES), ns_most(BYTES));
    cr_expect_leq(way.most, bytes_most(), "%lu of %lu", way.most, bytes_most());
}

/* ---- the budget ------------------------------------------------------------------------------ */

Test(core_attach, lets_the_oldest_go_for_the_newest_and_says_so)
{
    options.attachment_bytes_max = 250;
    meet_anew();
    bring_whole(5, "a", 100);
    bring_whole(5, "b", 100);
    bring_whole(5, "c", 49); /* one less than there is */
    bring_whole(5, "d", 1);  /* exactly full */
    fetch_of(5, error_id, "a", 0, 0, 0);
    EXPECT("5: 100 from 0 of 100, state 2, 100 of -1\n");
    bring_whole(5, "e", 1); /* one too many */
    EXPECT("");
    fetch_of(5, error_id, "a", 0, 0, 0);
    EXPECT("5: 0 from 0 of 0, state 5, 100 of -1\n");
    list_of(5, error_id);
    EXPECT("5: a, state 5, 100 of -1\n5: b, state 2, 100 of -1\n5: c, state 2, 49 of -1\n"
           "5: d, state 2, 1 of -1\n5: e, state 2, 1 of -1\n5 < done 0 \n");
    bring(5, "a"); /* it is gone for good */
    EXPECT("5: code 4, state 5, 100 kept, up to 0\n");
    compact();
    crash(1);
    come(5);
    list_of(5, error_id);
    EXPECT("5: a, state 5, 100 of -1\n5: b, state 2, 100 of -1\n5: c, state 2, 49 of -1\n"
           "5: d, state 2, 1 of -1\n5: e, state 2, 1 of -1\n5 < done 0 \n");
}

static void bring_around_the_budget(int more, const char *expected)
{
    options.attachment_bytes_max = 2 * PIECE;
    meet_anew();
    bring_whole(5, "small", 5);
    bring(5, "large");
    piece(5, 0, PIECE, false);
    if (more < 0) {
        piece(5, PIECE, PIECE - 1, true);
    } else {
        piece(5, PIECE, PIECE, false);
        piece(5, 2 * PIECE, (uint32_t)more, true);
    }
    cr_expect_str_eq(said, expected);
    compact();
    crash(1);
    come(5);
    list_of(5, error_id);
}

/* One that would not fit alone ends where there is no room, at n - 1, n and n + 1 bytes. */
Test(core_attach, ends_where_there_is_no_more_room)
{
    bring_around_the_budget(-1, "5: code 0, state 2, 131071 kept, up to 0\n");
    EXPECT("5: small, state 5, 5 of -1\n5: large, state 2, 131071 of -1\n5 < done 0 \n");
    bring_around_the_budget(0, "5: code 0, state 2, 131072 kept, up to 0\n");
    EXPECT("5: small, state 5, 5 of -1\n5: large, state 2, 131072 of -1\n5 < done 0 \n");
    bring_around_the_budget(1, "5: code 4, state 4, 131072 kept, up to 0\n");
    EXPECT("5: small, state 5, 5 of -1\n5: large, state 4, 131072 of -1\n5 < done 0 \n");
    bring(5, "large");
    EXPECT("5: code 4, state 4, 131072 kept, up to 0\n");
    bring_whole(5, "newer", 1); /* what was cut goes as any */
    list_of(5, error_id);
    EXPECT("5: small, state 5, 5 of -1\n5: large, state 5, 131072 of -1\n"
           "5: newer, state 2, 1 of -1\n5 < done 0 \n");
    compact();
    crash(1);
}

Test(core_attach, tells_who_brings_what_is_dropped)
{
    options.attachment_bytes_max = 100000;
    meet_anew();
    bring(5, "older");
    piece(5, 0, PIECE, false);
    come(6);
    bring_whole(6, "newer", 100000);
    list_of(6, error_id);
    EXPECT("6: older, state 5, 65536 of -1\n6: newer, state 2, 100000 of -1\n6 < done 0 \n");
    piece(5, PIECE, PIECE, false); /* it was told, and that is under way */
    EXPECT("");
}

Test(core_attach, knows_so_many_and_no_more)
{
    options.attachments_max = 3;
    meet_anew();
    bring_whole(5, "a", 1);
    bring_whole(5, "b", 1);
    list_of(5, error_id);
    EXPECT("5: a, state 2, 1 of -1\n5: b, state 2, 1 of -1\n5 < done 0 \n");
    bring(5, "c");
    list_of(5, error_id);
    EXPECT("5: a, state 2, 1 of -1\n5: b, state 2, 1 of -1\n5: c, state 0, 0 of -1\n"
           "5 < done 0 \n");
    fail_listing(error_id, 10);
    list_of(5, error_id);
    EXPECT("5: c, state 0, 0 of -1\n5: stderr, state 1, 0 of 10\n5: log, state 1, 0 of -1\n"
           "5 < done 0 \n");
    compact();
    come(6);
    bring(6, "e"); /* the oldest goes, though it is being brought */
    EXPECT("5: code 4, state 5, 0 kept, up to 0\n6: code 0, state 0, 0 kept, up to 262144\n");
    compact();
    crash(1);
}

/* ---- pings ----------------------------------------------------------------------------------- */

static void ping_data(conn_id conn, uint64_t request)
{
    struct msg msg = {.type = MSG_DATA_PING, .as.data_ping.request = request};
    step((struct event){.type = EVENT_MESSAGE, .conn = conn + 10, .as.msg = &msg});
}

Test(core_attach, answers_a_ping_on_its_channel_whatever_the_journal_takes)
{
    meet();
    step((struct event){.type = EVENT_JOURNAL,
                        .as.journal = {.health = HEALTH_REFUSED, .text = "read only"}});
    pass_ms(250);
    ping_data(5, 7);
    cr_assert_eq(effects.msg_count, 1);
    const struct msg *pong = &effects.msgs[0];
    cr_assert_eq(pong->type, MSG_DATA_PONG);
    cr_expect_eq(effects.items[0].conn, 15, "the data connection");
    cr_expect_eq(pong->as.data_pong.request, 7);
    cr_expect_eq(pong->as.data_pong.journal_state, HEALTH_REFUSED);
    cr_expect_geq(pong->as.data_pong.uptime_ms, 250);
    message(5, (struct msg){.type = MSG_PING, .as.ping.request = 8});
    cr_assert_eq(effects.msg_count, 1);
    cr_assert_eq(effects.msgs[0].type, MSG_PONG);
    cr_expect_eq(effects.items[0].conn, 5, "the control connection");
    cr_expect_eq(effects.msgs[0].as.pong.request, 8);
    cr_expect_eq(effects.msgs[0].as.pong.journal_state, HEALTH_REFUSED);
    forget();
}

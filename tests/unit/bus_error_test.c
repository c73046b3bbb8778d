/* SPDX-License-Identifier: MPL-2.0 */
/* bus_error_test.c -- error objects: made, changed until they are used, searched, described. */
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/model.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libbus/base/utf8.h"

/* An error that the bus has seen, with only these known. */
static struct bus_error *seen(uint64_t kind, const char *party, const char *id, int64_t occurred_ns)
{
    uint8_t bytes[4096];
    size_t count = 0;
    struct error_record record;
    error_record_init(&record);
    record.kind = kind;
    record.party = span_text(party);
    record.incarnation = 1;
    record.id = span_text(id);
    record.job = span_text("job");
    record.type = span_text("app.x");
    record.occurred_ns = occurred_ns;
    cr_assert_eq(error_encode(&record, 1, bytes, sizeof bytes, &count), WIRE_OK);
    struct bus_error *error = error_from_wire(span_of(bytes, count));
    cr_assert_str_eq(bus_error_id(error), id);
    return error;
}

static struct bus_error *effect_of(const struct bus_error *first, const struct bus_error *second)
{
    struct bus_error *error = bus_error_new("app.effect", first, "both");
    if (second != NULL)
        cr_assert_eq(bus_error_add_cause(error, second), BUS_OK);
    return error;
}

/* Only the bus gives its types: programs and operators believe them. */
Test(bus_error, takes_no_type_of_the_library)
{
    struct bus_error *cause = bus_error_new("errbusy.full", NULL, "is not one of them");
    cr_expect_str_eq(bus_error_type(cause), "errbusy.full");
    struct bus_error *error = bus_error_new("errbus.silent", cause, "%d s", 10);
    cr_expect_str_eq(bus_error_type(error), "errbus.reserved_type");
    cr_expect_str_eq(bus_error_message(error), "errbus.silent: 10 s");
    cr_expect_str_eq(bus_error_kind(error), "application");
    cr_expect_eq(bus_error_cause(error), cause);
    bus_error_unref(&error);
    char type[400] = "errbus.";
    memset(type + strlen(type), 'n', 300);
    error = bus_error_new(type, NULL, NULL);
    cr_expect_str_eq(bus_error_type(error), "errbus.reserved_type");
    bus_error_unref(&error);
    bus_error_unref(&cause);
}

Test(bus_error, says_what_it_was_told)
{
    struct bus_error *error = bus_error_new("app.disk_full", NULL, "%d of %s", 7, "8 GiB");
    cr_expect_str_eq(bus_error_type(error), "app.disk_full");
    cr_expect_str_eq(bus_error_message(error), "7 of 8 GiB");
    cr_expect_str_eq(bus_error_kind(error), "application");
    cr_expect_str_eq(bus_error_id(error), "");
    cr_expect_str_eq(bus_error_party(error), "");
    cr_expect_str_eq(bus_error_host(error), "");
    cr_expect_str_eq(bus_error_stacktrace(error), "");
    cr_expect_str_eq(bus_error_blame(error), "");
    cr_expect_null(bus_error_topic(error, NULL));
    cr_expect_eq(bus_error_recoverable(error), -1);
    cr_expect_eq(bus_error_retry_after_ms(error), -1);
    cr_expect_eq(bus_error_code(error), 0);
    cr_expect_gt(bus_error_occurred_ns(error), 0);
    cr_expect_eq(bus_error_incarnation(error), 0);
    cr_expect_eq(bus_error_pid(error), 0);
    cr_expect_null(bus_error_cause(error));
    cr_expect_eq(bus_error_root(error), error);
    bus_error_unref(&error);
    cr_expect_null(error);
    bus_error_unref(&error); /* a no-op */
    error = bus_error_new(NULL, NULL, NULL);
    cr_expect_str_eq(bus_error_type(error), "errbus.untyped");
    cr_expect_str_eq(bus_error_message(error), "");
    bus_error_unref(&error);
}

Test(bus_error, can_be_changed_until_it_is_used)
{
    struct bus_error *error = bus_error_new("app.x", NULL, "x");
    cr_expect_eq(bus_error_set_recoverable(error, 1), BUS_OK);
    cr_expect_eq(bus_error_set_retry_after(error, -1), BUS_EINVAL);
    cr_expect_eq(bus_error_set_retry_after(error, 0), BUS_OK);
    cr_expect_eq(bus_error_set_code(error, -5), BUS_OK);
    cr_expect_eq(bus_error_set_stacktrace(error, "at a\nat b"), BUS_OK);
    cr_expect_eq(bus_error_set_stacktrace(error, NULL), BUS_OK);
    cr_expect_eq(bus_error_set_stacktrace(error, "at main"), BUS_OK);
    cr_expect_eq(bus_error_set_blame(error, "a/b"), BUS_EINVAL);
    cr_expect_eq(bus_error_set_blame(error, NULL), BUS_EINVAL);
    cr_expect_eq(bus_error_set_blame(error, "bob"), BUS_OK);
    cr_expect_eq(bus_error_add_blame(error, "a/b"), BUS_EINVAL);
    cr_expect_eq(bus_error_add_blame(error, NULL), BUS_EINVAL);
    cr_expect_eq(bus_error_add_cause(error, error), BUS_EINVAL);
    cr_expect_eq(bus_error_add_cause(error, NULL), BUS_EINVAL);

    struct bus_error *effect = bus_error_new("app.y", error, "y");
    cr_expect_eq(bus_error_set_recoverable(error, 0), BUS_EINVAL);
    cr_expect_eq(bus_error_set_retry_after(error, 9), BUS_EINVAL);
    cr_expect_eq(bus_error_set_code(error, 9), BUS_EINVAL);
    cr_expect_eq(bus_error_set_stacktrace(error, "no"), BUS_EINVAL);
    cr_expect_eq(bus_error_set_blame(error, "no"), BUS_EINVAL);
    cr_expect_eq(bus_error_add_blame(error, "no"), BUS_EINVAL);
    cr_expect_eq(bus_error_add_cause(error, effect), BUS_EINVAL);
    cr_expect_eq(bus_error_recoverable(error), 1);
    cr_expect_eq(bus_error_retry_after_ms(error), 0);
    cr_expect_eq(bus_error_code(error), -5);
    cr_expect_str_eq(bus_error_stacktrace(error), "at main");
    cr_expect_str_eq(bus_error_blame(error), "bob");
    bus_error_unref(&error);
    cr_expect_str_eq(bus_error_type(bus_error_cause(effect)), "app.x"); /* held by its effect */
    bus_error_unref(&effect);
}

Test(bus_error, suspects_up_to_sixteen_parties_each_once)
{
    enum { MOST = 16 };
    char name[MOST + 1][16];
    struct bus_error *error = bus_error_new("app.x", NULL, "x");
    cr_expect_null(bus_error_blame_at(error, 0));
    for (int i = 0; i <= MOST; i++) {
        (void)snprintf(name[i], sizeof name[i], "p%d", i);
        cr_expect_eq(bus_error_add_blame(error, name[i]), i < MOST ? BUS_OK : BUS_EFULL, "%d", i);
        cr_expect_eq(bus_error_add_blame(error, name[0]), BUS_OK, "it is there");
    }
    cr_expect_str_eq(bus_error_blame(error), "p0");
    for (size_t i = 0; i < MOST; i++)
        cr_expect_str_eq(bus_error_blame_at(error, i), name[i]);
    cr_expect_null(bus_error_blame_at(error, MOST));
    cr_expect_null(bus_error_blame_at(error, SIZE_MAX));
    cr_expect_eq(bus_error_set_blame(error, bus_error_blame_at(error, 7)), BUS_OK);
    cr_expect_str_eq(bus_error_blame(error), "p7");
    cr_expect_null(bus_error_blame_at(error, 1), "and no other");
    bus_error_unref(&error);
    error = &error_no_memory;
    cr_expect_eq(bus_error_add_blame(error, "bob"), BUS_ENOMEM);
    cr_expect_str_eq(bus_error_blame(error), "");
}

Test(bus_error, says_how_and_when_it_came_about)
{
    static const char trace[] = "0af7651916cd43dd8448eb211c80319c";
    struct bus_error *error = bus_error_new("app.killed", NULL, "it was killed");
    cr_expect_eq(bus_error_exit_code(error), -1);
    cr_expect_eq(bus_error_signal(error), 0);
    cr_expect_eq(bus_error_is_system(error), 0);
    cr_expect_str_eq(bus_error_trace_id(error), "");
    cr_expect_str_eq(bus_error_job(error), "");
    cr_expect_eq(bus_error_attempt(error), 0);
    cr_expect_eq(bus_error_broker_ns(error, NULL), 0);
    cr_expect_eq(bus_error_is_cut(error), 0);
    cr_expect_eq(bus_error_causes_left_out(error), 0);

    int64_t made_ns = bus_error_occurred_ns(error);
    cr_expect_eq(bus_error_set_exit_code(error, 3), BUS_OK);
    cr_expect_eq(bus_error_set_signal(error, 9), BUS_OK);
    cr_expect_eq(bus_error_set_origin(error, 1), BUS_OK);
    cr_expect_eq(bus_error_set_kind(error, "terminated"), BUS_OK);
    cr_expect_eq(bus_error_set_trace_id(error, trace), BUS_OK);
    cr_expect_eq(bus_error_set_occurred(error, made_ns - 5, 7), BUS_OK);
    cr_expect_eq(bus_error_exit_code(error), 3);
    cr_expect_eq(bus_error_signal(error), 9);
    cr_expect_eq(bus_error_is_system(error), 1);
    cr_expect_str_eq(bus_error_kind(error), "terminated");
    cr_expect_str_eq(bus_error_trace_id(error), trace);
    cr_expect_eq(bus_error_occurred_ns(error), made_ns - 5);

    cr_expect_eq(bus_error_set_exit_code(error, -1), BUS_EINVAL);
    cr_expect_eq(bus_error_set_signal(error, 0), BUS_EINVAL);
    cr_expect_eq(bus_error_set_signal(error, 65536), BUS_EINVAL);
    cr_expect_eq(bus_error_set_occurred(error, 0, 0), BUS_EINVAL);
    cr_expect_eq(bus_error_set_kind(error, "party_lost"), BUS_EINVAL, "the bus says that");
    cr_expect_eq(bus_error_set_kind(error, NULL), BUS_EINVAL);
    cr_expect_eq(bus_error_set_trace_id(error, NULL), BUS_EINVAL);
    cr_expect_eq(bus_error_set_trace_id(error, "0af7651916cd43dd8448eb211c80319"), BUS_EINVAL);
    cr_expect_eq(bus_error_set_trace_id(error, "0AF7651916cd43dd8448eb211c80319c"), BUS_EINVAL);
    cr_expect_eq(bus_error_set_trace_id(error, "00000000000000000000000000000000"), BUS_EINVAL);
    cr_expect_str_eq(bus_error_trace_id(error), trace);

    struct bus_error *effect = bus_error_new("app.effect", error, "used");
    cr_expect_eq(bus_error_set_exit_code(error, 1), BUS_EINVAL);
    cr_expect_eq(bus_error_set_signal(error, 1), BUS_EINVAL);
    cr_expect_eq(bus_error_set_origin(error, 0), BUS_EINVAL);
    cr_expect_eq(bus_error_set_kind(error, "application"), BUS_EINVAL);
    cr_expect_eq(bus_error_set_trace_id(error, trace), BUS_EINVAL);
    cr_expect_eq(bus_error_set_occurred(error, 1, 0), BUS_EINVAL);
    bus_error_unref(&effect);
    bus_error_unref(&error);
}

Test(bus_error, without_memory_is_like_any_other_but_for_changes)
{
    struct bus_error *error = &error_no_memory;
    cr_expect_eq(bus_error_ref(error), error);
    cr_expect_eq(bus_error_set_code(error, 1), BUS_ENOMEM);
    cr_expect_str_eq(bus_error_type(error), "errbus.no_memory");
    cr_expect_str_eq(bus_error_kind(error), "local");
    struct bus_error *effect = bus_error_new("app.y", error, "y");
    cr_expect_eq(bus_error_root(effect), error);
    bus_error_unref(&effect);
    for (int i = 0; i < 3; i++) {
        struct bus_error *one_more = &error_no_memory;
        bus_error_unref(&one_more);
    }
    cr_expect_str_eq(bus_error_type(&error_no_memory), "errbus.no_memory");
    cr_expect_null(bus_error_ref(NULL));
}

Test(bus_error, cuts_long_texts_in_the_middle_on_a_character)
{
    enum { MOST = LIMIT_ERROR_MESSAGE_BYTES };
    char *text = malloc(3 * MOST + 1);
    for (size_t bytes = MOST - 1; bytes <= MOST + 1; bytes++) {
        memset(text, 'x', bytes);
        text[bytes] = '\0';
        struct bus_error *error = bus_error_new("app.x", NULL, "%s", text);
        bool is_whole = strcmp(bus_error_message(error), text) == 0;
        cr_expect_eq(is_whole, bytes <= MOST);
        cr_expect_leq(strlen(bus_error_message(error)), (size_t)MOST);
        bus_error_unref(&error);
    }
    for (size_t at = 0; at < MOST; at++)
        memcpy(text + 3 * at, "\xe2\x82\xac", 3);
    text[3 * MOST] = '\0';
    struct bus_error *error = bus_error_new("app.x", NULL, "%s", text);
    cr_expect(utf8_is_valid(span_text(bus_error_message(error))));
    cr_expect_not_null(strstr(bus_error_message(error), "bytes cut"));
    bus_error_unref(&error);
    free(text);
}

/* Whatever is cut says so, for as long as it is there. */
Test(bus_error, says_that_it_was_cut)
{
    enum { MOST = LIMIT_ERROR_STACK_BYTES, MESSAGE = LIMIT_ERROR_MESSAGE_BYTES };
    char *text = calloc(1, MOST + 2);
    struct bus_error *error = bus_error_new("app.x", NULL, "x");
    for (size_t bytes = MOST - 1; bytes <= MOST + 1; bytes++) {
        memset(text, 'x', bytes);
        cr_expect_eq(bus_error_set_stacktrace(error, text), BUS_OK);
        cr_expect_eq(strcmp(bus_error_stacktrace(error), text) == 0, bytes <= MOST);
        cr_expect_leq(strlen(bus_error_stacktrace(error)), (size_t)MOST);
        cr_expect_eq(bus_error_is_cut(error), bytes > MOST, "%zu", bytes);
    }
    cr_expect_eq(bus_error_set_stacktrace(error, "at main"), BUS_OK);
    cr_expect_eq(bus_error_is_cut(error), 0, "it is another one");
    bus_error_unref(&error);
    for (int bytes = MESSAGE - 1; bytes <= MESSAGE + 1; bytes++) {
        error = bus_error_new("app.x", NULL, "%.*s", bytes, text);
        cr_expect_eq(bus_error_is_cut(error), bytes > MESSAGE, "%d", bytes);
        cr_expect_eq(bus_error_set_stacktrace(error, "at main"), BUS_OK);
        cr_expect_eq(bus_error_is_cut(error), bytes > MESSAGE, "%d", bytes);
        bus_error_unref(&error);
    }
    free(text);
}

Test(bus_error, replaces_bytes_that_are_no_text)
{
    struct bus_error *error = bus_error_new("app.\xff", NULL, "a\xc3(\xe2\x82\xac) \xf0\x9f");
    cr_expect_str_eq(bus_error_type(error), "app.?");
    cr_expect_str_eq(bus_error_message(error), "a?(\xe2\x82\xac) ??");
    bus_error_unref(&error);
}

Test(bus_error, finds_the_root_by_rule)
{
    static const struct {
        uint64_t kinds[2];
        int64_t stamps[2];
        const char *parties[2];
        int root;
    } rows[] = {
        {{ERROR_APPLICATION, ERROR_APPLICATION}, {5, 4}, {"a", "b"}, 1}, /* the earlier */
        {{ERROR_APPLICATION, ERROR_APPLICATION}, {5, 0}, {"b", "a"}, 0}, /* unknown is last */
        {{ERROR_APPLICATION, ERROR_APPLICATION}, {5, 5}, {"b", "a"}, 1}, /* then the party */
        {{ERROR_TERMINATED, ERROR_APPLICATION}, {1, 9}, {"a", "b"}, 1},  /* no victim */
        {{ERROR_PARTY_LOST, ERROR_DEPENDENCY}, {9, 1}, {"a", "b"}, 0},   /* nor this one */
        {{ERROR_TERMINATED, ERROR_DEPENDENCY}, {2, 1}, {"a", "b"}, 1},   /* unless all are */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bus_error *causes[2];
        for (int c = 0; c < 2; c++)
            causes[c] = seen(rows[i].kinds[c], rows[i].parties[c], c == 0 ? "j/x/1/1" : "j/x/1/3",
                             rows[i].stamps[c]);
        struct bus_error *one = effect_of(causes[0], causes[1]);
        struct bus_error *other = effect_of(causes[1], causes[0]);
        struct bus_error *above = effect_of(one, NULL);
        cr_expect_eq(bus_error_root(one), causes[rows[i].root], "row %zu", i);
        cr_expect_eq(bus_error_root(other), causes[rows[i].root], "row %zu, turned", i);
        cr_expect_eq(bus_error_root(above), causes[rows[i].root], "row %zu, above", i);
        bus_error_unref(&causes[0]);
        bus_error_unref(&causes[1]);
        bus_error_unref(&one);
        bus_error_unref(&other);
        bus_error_unref(&above);
    }
}

Test(bus_error, is_searched_nearest_first)
{
    struct bus_error *lost = seen(ERROR_PARTY_LOST, "alice", "j/alice/1/2", 1);
    struct bus_error *middle = bus_error_new("app.middle", lost, "m");
    struct bus_error *top = effect_of(middle, lost);
    cr_expect_eq(bus_error_find(top, "party_lost"), lost);
    cr_expect_eq(bus_error_find(top, "app.middle"), middle);
    cr_expect_eq(bus_error_find(top, "application"), top);
    cr_expect_null(bus_error_find(top, "deadline"));
    cr_expect_null(bus_error_find(top, NULL));
    cr_expect_eq(bus_error_cause_at(top, 1), lost);
    cr_expect_null(bus_error_cause_at(top, 2));
    bus_error_unref(&lost);
    bus_error_unref(&middle);
    bus_error_unref(&top);
}

Test(bus_error, is_described_one_line_a_cause)
{
    struct bus_error *lost = seen(ERROR_PARTY_LOST, "alice", "j/alice/1/2", 1);
    struct bus_error *top = bus_error_new("app.refit", lost, "cannot\trefit \xe2\x82\xac");
    static const char whole[] = "application app.refit: cannot refit \xe2\x82\xac\n"
                                "  because alice: party_lost app.x (j/alice/1/2) <- root";
    char text[sizeof whole + 8];
    cr_expect_eq(bus_error_describe(top, text, sizeof text), sizeof whole - 1);
    cr_expect_str_eq(text, whole);
    cr_expect_eq(bus_error_describe(top, NULL, 0), sizeof whole - 1);
    for (size_t room = 1; room <= sizeof whole; room++) {
        memset(text, 'z', sizeof text);
        cr_expect_eq(bus_error_describe(top, text, room), sizeof whole - 1);
        cr_expect_lt(strlen(text), room);
        cr_expect_geq(strlen(text) + 4, room, "more than a character is missing at %zu", room);
        cr_expect_eq(strncmp(text, whole, strlen(text)), 0);
        cr_expect(utf8_is_valid(span_text(text)), "cut within a character at %zu", room);
        cr_expect_eq(text[room], 'z');
    }
    bus_error_unref(&lost);
    bus_error_unref(&top);
}

static void expect_described(uint64_t kind, const char *party, uint32_t incarnation, const char *id,
                             const char *expected)
{
    char text[256];
    uint8_t bytes[4096];
    size_t count = 0;
    struct error_record record;
    error_record_init(&record);
    record.kind = kind;
    record.party = span_text(party);
    record.incarnation = incarnation;
    record.id = span_text(id);
    record.type = span_text("app.x");
    record.message = span_text("why");
    cr_assert_eq(error_encode(&record, 1, bytes, sizeof bytes, &count), WIRE_OK);
    struct bus_error *error = error_from_wire(span_of(bytes, count));
    bus_error_describe(error, text, sizeof text);
    cr_expect_str_eq(text, expected);
    bus_error_unref(&error);
}

/* An id stands where it can be asked about: in the history of the job. */
Test(bus_error, is_described_without_an_id_that_no_history_has)
{
    expect_described(ERROR_DEADLINE, "alice", 1, "j/alice/1/2",
                     "alice: deadline app.x: why (j/alice/1/2)");
    expect_described(ERROR_CANCELLED, "", 0, "j//0/1", "why (cancelled app.x)");
    expect_described(ERROR_REJECTED, "alice", 0, "j/alice/0/1", "alice: why (rejected app.x)");
    expect_described(ERROR_REJECTED, "alice", 1, "j/alice/1/2",
                     "alice: why (rejected app.x, j/alice/1/2)");
}

/* The last line says what happened; what led there is below it. */
Test(bus_error, is_described_with_the_last_line_of_its_message_first)
{
    static const struct {
        const char *message, *text;
    } rows[] = {
        {"Traceback:\n  File \"a.py\", line 2\n    load()\nValueError: no file",
         "application app.x: ValueError: no file\n"
         "    Traceback:\n"
         "      File \"a.py\", line 2\n"
         "        load()"},
        {"first\r\n\n  second \n\n", "application app.x: second\n    first"},
        {"one line\n", "application app.x: one line"},
        {"\n \n", "application app.x"},
        {"\none line", "application app.x: one line"},
        {"a\x1b[2J\nb\tc", "application app.x: b c\n    a [2J"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        struct bus_error *error = bus_error_new("app.x", NULL, "%s", rows[i].message);
        cr_expect_eq(bus_error_describe(error, text, sizeof text), strlen(rows[i].text));
        cr_expect_str_eq(text, rows[i].text);
        bus_error_unref(&error);
    }
    struct bus_error *cause = bus_error_new("app.x", NULL, "below\nwhat happened");
    struct bus_error *top = bus_error_new("app.y", cause, "above\nwhat followed");
    char text[200];
    bus_error_describe(top, text, sizeof text);
    cr_expect_str_eq(text, "application app.y: what followed\n"
                           "    above\n"
                           "  because application app.x: what happened <- root\n"
                           "      below");
    bus_error_unref(&cause);
    bus_error_unref(&top);
}

Test(bus_error, may_be_a_chain_of_any_length)
{
    struct bus_error *chain = bus_error_new("app.root", NULL, "root");
    for (int i = 0; i < 200000; i++) {
        struct bus_error *next = bus_error_new("app.link", chain, "link");
        bus_error_unref(&chain);
        chain = next;
    }
    cr_expect_str_eq(bus_error_type(bus_error_root(chain)), "app.root");
    cr_expect_gt(bus_error_describe(chain, NULL, 0), 0);
    bus_error_unref(&chain);
    cr_expect_null(chain);
}

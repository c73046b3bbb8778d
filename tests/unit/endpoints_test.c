/* SPDX-License-Identifier: MPL-2.0 */
/* endpoints_test.c -- lists of endpoints: what is let in, in which order they are tried. */
#include "libbus/api/endpoint.h"
#include "libbus/api/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct endpoints endpoints;

static enum bus_err read_list(const char *list)
{
    struct bus_error *error = NULL;
    enum bus_err err = endpoints_read(&endpoints, list, &error);
    cr_expect_eq(err != BUS_OK, error != NULL);
    if (error != NULL)
        cr_expect_gt(strlen(bus_error_message(error)), 10, "no sentence");
    bus_error_unref(&error);
    return err;
}

Test(endpoints, are_let_in_if_they_are_well_formed)
{
    static const char *const good[] = {
        "tcp://127.0.0.1:1",
        "tcp://host.example:65535",
        "tcp://[::1]:7370",
        "ipc:///tmp/x",
        " tcp://a:1 , ipc://relative",
        "tcp://eth0;10.0.0.1:7370",
        "inproc://name",
        "h:1",
        " [::1]:7370 , 127.0.0.1:1",
    };
    static const char *const bad[] = {
        "",          "tcp://",     "tcp://host", "tcp://:1",    "tcp://h:0",  "tcp://h:65536",
        "tcp://h:x", "tcp://h:1x", "tcp://h:+1", "tcp://::1:1", "ipc://",     "udp://h:1",
        "h",         "tcp://a:1,", ",tcp://a:1", "inproc://",   "ipc://\xff",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_expect_eq(read_list(good[i]), BUS_OK, "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(read_list(bad[i]), BUS_EINVAL, "%s", bad[i]);
}

Test(endpoints, come_from_the_environment_if_none_are_given)
{
    unsetenv("ERRBUS_SERVER");
    cr_assert_eq(read_list(NULL), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://127.0.0.1:7370");
    setenv("ERRBUS_SERVER", "ipc:///run/errbus", 1);
    cr_assert_eq(read_list(NULL), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "ipc:///run/errbus");
    cr_assert_eq(read_list("tcp://given:1"), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://given:1");
}

Test(endpoints, are_tried_in_turn)
{
    cr_assert_eq(read_list("tcp://a:1, tcp://b:2 ,tcp://c:3"), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://b:2");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://c:3");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
}

Test(endpoints, can_be_tried_again)
{
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2"), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_again(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://b:2");
    cr_expect_str_eq(endpoints_again(&endpoints), "tcp://b:2");
    cr_assert(endpoints_go(&endpoints, "tcp://c:3"));
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://c:3");
    cr_expect_str_eq(endpoints_again(&endpoints), "tcp://c:3");
    cr_assert_eq(read_list("tcp://a:1"), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_again(&endpoints), "tcp://a:1");
}

Test(endpoints, go_where_a_broker_says)
{
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2"), BUS_OK);
    (void)endpoints_next(&endpoints);
    cr_assert(endpoints_go(&endpoints, "tcp://c:3"));
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://c:3");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://b:2");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://c:3", "it stays behind the list");
    cr_assert(endpoints_go(&endpoints, "ipc:///d"));
    cr_expect_str_eq(endpoints_next(&endpoints), "ipc:///d");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_assert(endpoints_go(&endpoints, "tcp://a:1"));
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_assert(endpoints_go(&endpoints, "tcp://b:2"));
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://b:2", "one of the list is not there twice");
    cr_expect_eq(endpoints.count, 3);
    cr_expect_not(endpoints_go(&endpoints, "nonsense"));
    cr_expect_not(endpoints_go(&endpoints, "tcp://b"));
}

Test(endpoints, go_with_the_key_of_the_broker_that_says_so)
{
    struct link_keys keys;
    static const uint8_t key[KEY_BYTES] = {7};
    cr_assert_eq(read_list("tcp://a:1"), BUS_OK);
    endpoints.has_key[0] = true;
    memcpy(endpoints.server_keys[0], key, KEY_BYTES);
    (void)endpoints_next(&endpoints);
    cr_assert(endpoints_go(&endpoints, "tcp://b:2"));
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://b:2");
    cr_assert(endpoints_keys(&endpoints, &keys));
    cr_expect_arr_eq(keys.server_key, key, KEY_BYTES);
    cr_assert(endpoints_go(&endpoints, "tcp://c:3"));
    (void)endpoints_next(&endpoints);
    cr_expect(endpoints_keys(&endpoints, &keys));
    cr_expect_not(endpoints_go(&endpoints, "ipc:///d"), "nobody asks for keys there");
}

Test(endpoints, of_a_host_and_port_alone_are_of_tcp)
{
    cr_assert_eq(read_list("a:1, [::1]:2 ,ipc:///x:3"), BUS_OK);
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://a:1");
    cr_expect_str_eq(endpoints_next(&endpoints), "tcp://[::1]:2");
    cr_expect_str_eq(endpoints_next(&endpoints), "ipc:///x:3");
    char text[LIMIT_ENDPOINT_BYTES + 2];
    for (size_t bytes = LIMIT_ENDPOINT_BYTES - 7; bytes <= LIMIT_ENDPOINT_BYTES - 5; bytes++) {
        memset(text, 'h', bytes);
        memcpy(text + bytes - 2, ":1", 3);
        cr_expect_eq(read_list(text), bytes <= LIMIT_ENDPOINT_BYTES - 6 ? BUS_OK : BUS_EINVAL);
    }
}

Test(endpoints, are_limited_in_number_and_length)
{
    char list[LIMIT_ENDPOINTS * 16 + 16] = "tcp://a:1";
    for (int count = 1; count <= LIMIT_ENDPOINTS + 1; count++) {
        cr_expect_eq(read_list(list), count <= LIMIT_ENDPOINTS ? BUS_OK : BUS_EINVAL, "%d", count);
        size_t bytes = strlen(list);
        (void)snprintf(list + bytes, sizeof list - bytes, ",tcp://a:1");
    }
    char text[LIMIT_ENDPOINT_BYTES + 2];
    for (size_t bytes = LIMIT_ENDPOINT_BYTES - 1; bytes <= LIMIT_ENDPOINT_BYTES + 1; bytes++) {
        memset(text, 'h', bytes);
        memcpy(text, "tcp://", 6);
        memcpy(text + bytes - 2, ":1", 3);
        cr_expect_eq(read_list(text), bytes <= LIMIT_ENDPOINT_BYTES ? BUS_OK : BUS_EINVAL);
    }
    for (size_t bytes = 106; bytes <= 108; bytes++) {
        memset(text, 'p', bytes + 6);
        memcpy(text, "ipc://", 6);
        text[bytes + 6] = '\0';
        cr_expect_eq(read_list(text), bytes <= 107 ? BUS_OK : BUS_EINVAL, "%zu", bytes);
    }
}

Test(endpoints, say_how_each_did)
{
    char text[512];
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2,tcp://c:3"), BUS_OK);
    (void)endpoints_next(&endpoints);
    endpoints.notes[1] = ENDPOINT_CLOSED;
    endpoints_describe(&endpoints, text, sizeof text);
    cr_expect_str_eq(text, "tcp://a:1: no answer; tcp://b:2: the connection was closed before an "
                           "answer came; tcp://c:3: not tried yet");
    endpoints_describe(&endpoints, text, 10); /* cut, not overrun */
    cr_expect_eq(strlen(text), 9);
}

Test(endpoints, say_that_a_name_does_not_resolve)
{
    char text[512];
    cr_assert_eq(read_list("nowhere.example:1,tcp://b:2"), BUS_OK);
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_UNRESOLVED);
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_FOREIGN);
    endpoints_describe(&endpoints, text, sizeof text);
    cr_expect_str_eq(text, "tcp://nowhere.example:1: nowhere.example does not resolve: no IPv4 "
                           "address is known for this name; tcp://b:2: what listens there does "
                           "not answer as errbusd does (is it another service, or a tunnel "
                           "without its other end?)");
}

/* Of each endpoint, as it is given, or with the host by which control was reached. */
Test(endpoints, have_a_data_channel_of_their_own)
{
    char data[LIMIT_ENDPOINT_BYTES + 1];
    cr_assert_eq(read_list("a:1,data=2, tcp://b:3 , data=tcp://c:4 ,d:5"), BUS_OK);
    cr_expect_eq(endpoints.count, 3);
    static const char *const expected[] = {"tcp://a:2", "tcp://c:4", "tcp://d:9"};
    for (size_t i = 0; i < 3; i++) {
        (void)endpoints_next(&endpoints);
        cr_assert(endpoints_data(&endpoints, "tcp://*:9", data));
        cr_expect_str_eq(data, expected[i]);
    }
    static const char *const bad[] = {"data=2",         "a:1,data=",     "a:1,data=0",
                                      "a:1,data=65536", "a:1,data=x",    "a:1,data=2,data=3",
                                      "a:1,data=2x",    "a:1,data=b:2,", "a:1,data=123456"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(read_list(bad[i]), BUS_EINVAL, "%s", bad[i]);
}

/* Before the broker said where it is: given, where it was, or the default beside the default. */
Test(endpoints, know_where_data_is_likely_to_be)
{
    char data[LIMIT_ENDPOINT_BYTES + 1];
    cr_assert_eq(read_list("a:1,data=2, b:7370, c:7371, ipc:///x:7370"), BUS_OK);
    static const char *const expected[] = {"tcp://a:2", "tcp://b:7371", NULL, NULL};
    for (size_t i = 0; i < 4; i++) {
        (void)endpoints_next(&endpoints);
        bool is_known = endpoints_likely_data(&endpoints, data);
        cr_expect_eq(is_known, expected[i] != NULL, "%zu", i);
        if (is_known)
            cr_expect_str_eq(data, expected[i]);
    }
    cr_assert_eq(read_list("a:1, b:2"), BUS_OK);
    (void)endpoints_next(&endpoints);
    cr_assert(endpoints_data(&endpoints, "tcp://*:9", data));
    cr_expect_not(endpoints_likely_data(&endpoints, data), "nobody answered there yet");
    endpoints_data_spoke(&endpoints);
    cr_assert(endpoints_likely_data(&endpoints, data));
    cr_expect_str_eq(data, "tcp://a:9");
    (void)endpoints_next(&endpoints);
    cr_expect_not(endpoints_likely_data(&endpoints, data), "another broker, perhaps");
}

Test(endpoints, say_where_data_was_looked_for)
{
    char data[LIMIT_ENDPOINT_BYTES + 1];
    char text[512];
    cr_assert_eq(read_list("a:1"), BUS_OK);
    for (unsigned i = 0; i < 3; i++) {
        cr_expect_not(endpoints_lack_data(&endpoints), "%u", i);
        (void)endpoints_next(&endpoints);
        endpoints_spoke(&endpoints);
        cr_assert(endpoints_data(&endpoints, "tcp://*:7371", data));
        endpoints_data_closed(&endpoints, LINK_FAULT_REFUSED);
    }
    cr_expect(endpoints_lack_data(&endpoints));
    cr_assert(endpoints_data(&endpoints, "tcp://*:7371", data)); /* it may be tried once more */
    endpoints_describe(&endpoints, text, sizeof text);
    cr_expect_str_eq(text, "tcp://a:1: the broker answered, but not its data channel at "
                           "tcp://a:7371: nothing listens there, or it is out of reach; forward "
                           "that port as well, or say where it is: tcp://a:1,data=HOST:PORT");
    endpoints_closed(&endpoints, LINK_FAULT_REFUSED); /* a broker that goes */
    cr_expect_not(endpoints_lack_data(&endpoints));
    endpoints_data_closed(&endpoints, LINK_FAULT_CLOSED);
    endpoints_data_spoke(&endpoints);
    cr_expect_eq(endpoints.data_failures, 0);
}

/* Whatever is found at the data endpoint has words, and leads to an end if nothing will change. */
Test(endpoints, say_what_is_found_where_data_was_looked_for)
{
    static const struct {
        enum link_fault fault;
        const char *words;
        unsigned enough; /* times, until it is denied; 0: never */
        bool is_broker;
    } found[] = {
        {LINK_FAULT_CLOSED, "the connection was closed before an answer came", 0, true},
        {LINK_FAULT_REFUSED, "nothing listens there, or it is out of reach", 0, true},
        {LINK_FAULT_UNRESOLVED, "b does not resolve", 0, true},
        {LINK_FAULT_FOREIGN, "what listens there does not answer as errbusd does", 0, true},
        {LINK_FAULT_KEY_UNKNOWN, "what listens there does not know this key", 1, true},
        {LINK_FAULT_KEY_WANTED, "what listens there asks for a key, and control has none", 2, true},
        {LINK_FAULT_KEY_NEEDLESS, "what listens there uses no keys, and control does", 2, true},
        {LINK_FAULT_KEY_OTHER, "what listens there has another key than control", 2, true},
        {LINK_FAULT_HUNG_UP, "what listens there hangs up when it hears ZeroMQ", 2, false},
        {LINK_FAULT_NO_ZEROMQ, "what listens there does not speak ZeroMQ", 1, false},
        {LINK_FAULT_OTHER_MECHANISM, "asks for a password or for Kerberos", 1, false},
    };
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        char data[LIMIT_ENDPOINT_BYTES + 1];
        char text[512];
        cr_assert_eq((size_t)found[i].fault, i, "a row for each");
        cr_assert_eq(read_list("a:1,data=b:2"), BUS_OK);
        for (unsigned times = 1; times <= 2; times++) {
            (void)endpoints_next(&endpoints);
            endpoints_spoke(&endpoints);
            cr_assert(endpoints_data(&endpoints, "tcp://*:7371", data));
            endpoints_data_closed(&endpoints, found[i].fault);
            cr_expect_eq(endpoints_data_is_denied(&endpoints),
                         found[i].enough > 0 && times >= found[i].enough, "%zu", i);
        }
        endpoints_describe(&endpoints, text, sizeof text);
        cr_expect_eq(strncmp(text, "tcp://a:1: the broker answered, but not its data channel", 56),
                     0, "%s", text);
        cr_expect_not_null(strstr(text, found[i].words), "%s", text);
        cr_expect_eq(endpoints_have_broker(&endpoints), found[i].is_broker, "%zu", i);
    }
}

/* It says nothing: that is told once, also if it is dialled again. */
Test(endpoints, are_doubtful_where_data_is_mute)
{
    char data[LIMIT_ENDPOINT_BYTES + 1];
    char text[512];
    cr_assert_eq(read_list("a:1,data=b:2"), BUS_OK);
    for (unsigned times = 0; times < 2; times++) {
        (void)endpoints_next(&endpoints);
        endpoints_spoke(&endpoints);
        cr_assert(endpoints_data(&endpoints, "tcp://*:7371", data));
        cr_expect_eq(endpoints_data_mute(&endpoints), times == 0);
        cr_expect_eq(endpoints_doubt(&endpoints, text, sizeof text), times == 0);
    }
    cr_expect_not_null(strstr(text, "its data channel at tcp://b:2: what listens there accepts"));
}

/* Twice in a row, each of them; who closes was there. */
Test(endpoints, are_out_of_reach_when_each_failed_twice)
{
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2"), BUS_OK);
    for (unsigned i = 0; i < 4; i++) {
        cr_expect_not(endpoints_are_out_of_reach(&endpoints), "%u", i);
        (void)endpoints_next(&endpoints);
        endpoints_closed(&endpoints, i % 2 == 0 ? LINK_FAULT_REFUSED : LINK_FAULT_UNRESOLVED);
    }
    cr_expect(endpoints_are_out_of_reach(&endpoints));
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_CLOSED);
    cr_expect_not(endpoints_are_out_of_reach(&endpoints));
    for (unsigned i = 0; i < 4; i++) {
        (void)endpoints_next(&endpoints);
        endpoints_closed(&endpoints, LINK_FAULT_REFUSED);
    }
    cr_expect(endpoints_are_out_of_reach(&endpoints));
    endpoints_spoke(&endpoints);
    cr_expect_not(endpoints_are_out_of_reach(&endpoints));
}

static void expect_doubt(const char *words)
{
    char text[512];
    cr_assert(endpoints_doubt(&endpoints, text, sizeof text), "%s", words);
    cr_expect_not_null(strstr(text, words), "%s", text);
    cr_expect_not(endpoints_doubt(&endpoints, text, sizeof text), "told twice: %s", text);
}

/* One thing at one endpoint is worth a word once. */
Test(endpoints, are_doubtful_where_something_else_may_listen)
{
    char text[512];
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2"), BUS_OK);
    (void)endpoints_next(&endpoints);
    cr_expect_not(endpoints_doubt(&endpoints, text, sizeof text), "%s", text);
    cr_expect(endpoints_mute(&endpoints));
    cr_expect_not(endpoints_mute(&endpoints));
    expect_doubt("tcp://a:1: what listens there accepts connections and says nothing");
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_FOREIGN); /* it may be a broker that goes */
    cr_expect_not(endpoints_doubt(&endpoints, text, sizeof text), "%s", text);
    (void)endpoints_next(&endpoints);
    endpoints_describe(&endpoints, text, sizeof text); /* it is tried again, and is what it was */
    cr_expect_not_null(strstr(text, "tcp://a:1: what listens there accepts connections"));
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_FOREIGN);
    expect_doubt("tcp://b:2: what listens there does not answer as errbusd does");
    endpoints_spoke(&endpoints);
    cr_expect_not(endpoints_doubt(&endpoints, text, sizeof text), "%s", text);
}

/* A service that is silent at times and closes at others is told of twice, not each time. */
Test(endpoints, that_are_doubtful_in_turns_are_told_of_once_each)
{
    char text[512];
    unsigned count = 0;
    cr_assert_eq(read_list("tcp://a:1"), BUS_OK);
    for (unsigned i = 0; i < 10; i++) {
        (void)endpoints_next(&endpoints);
        (void)endpoints_mute(&endpoints);
        count += endpoints_doubt(&endpoints, text, sizeof text);
        endpoints_closed(&endpoints, LINK_FAULT_FOREIGN);
        endpoints_closed(&endpoints, LINK_FAULT_FOREIGN);
        count += endpoints_doubt(&endpoints, text, sizeof text);
    }
    cr_expect_eq(count, 2, "%u times", count);
}

/* Another protocol is certain at once, one that hangs up when it did so twice. */
Test(endpoints, are_denied_where_no_broker_is)
{
    char text[512];
    cr_assert_eq(read_list("tcp://a:1,tcp://b:2"), BUS_OK);
    (void)endpoints_next(&endpoints);
    endpoints_closed(&endpoints, LINK_FAULT_NO_ZEROMQ);
    expect_doubt("tcp://a:1: what listens there does not speak ZeroMQ, so it is no broker");
    for (unsigned i = 0; i < 2; i++) {
        cr_expect_not(endpoints_are_denied(&endpoints), "%u", i);
        endpoints.at = 1;
        endpoints_closed(&endpoints, LINK_FAULT_HUNG_UP);
    }
    cr_expect(endpoints_are_denied(&endpoints));
    cr_expect_not(endpoints_have_broker(&endpoints));
    endpoints_describe(&endpoints, text, sizeof text);
    cr_expect_not_null(strstr(text, "tcp://b:2: what listens there hangs up when it hears ZeroMQ"));
    endpoints_closed(&endpoints, LINK_FAULT_KEY_UNKNOWN);
    cr_expect(endpoints_are_denied(&endpoints));
    cr_expect(endpoints_have_broker(&endpoints));
}

/* Something listens, and nothing else was ever found there: at no endpoint of the list. */
Test(endpoints, are_silent_where_nothing_was_ever_heard)
{
    static void (*const heard[])(struct endpoints *) = {endpoints_spoke, endpoints_greeted,
                                                        endpoints_met};
    for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++) {
        cr_assert_eq(read_list("a:1,b:2"), BUS_OK);
        (void)endpoints_next(&endpoints);
        cr_expect(endpoints_mute(&endpoints));
        cr_expect_not(endpoints_are_silent(&endpoints), "one was not tried");
        (void)endpoints_next(&endpoints);
        cr_expect(endpoints_mute(&endpoints));
        cr_expect(endpoints_are_silent(&endpoints));
        heard[i](&endpoints);
        cr_expect_not(endpoints_are_silent(&endpoints), "%zu", i);
        (void)endpoints_mute(&endpoints);
        cr_expect_not(endpoints_are_silent(&endpoints), "it was heard before, %zu", i);
    }
    cr_assert_eq(read_list("a:1"), BUS_OK);
    (void)endpoints_next(&endpoints);
    cr_expect(endpoints_mute(&endpoints));
    endpoints_closed(&endpoints, LINK_FAULT_CLOSED);
    cr_expect(endpoints_are_silent(&endpoints), "it ended without a word");
    endpoints_closed(&endpoints, LINK_FAULT_REFUSED);
    (void)endpoints_next(&endpoints);
    cr_expect(endpoints_mute(&endpoints));
    cr_expect_not(endpoints_are_silent(&endpoints), "a broker may have begun there");
}

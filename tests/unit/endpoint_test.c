/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint_test.c -- what clients are told of the data channel; binding is in system/errbusd. */
#include "broker/io/endpoint.h"

#include <criterion/criterion.h>
#include <string.h>

Test(endpoint, tells_clients_where_to_come)
{
    static const struct {
        const char *control, *data, *advertise, *told;
    } rows[] = {
        /* One address for both: as they reached control. */
        {"tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "", "tcp://*:2"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "", "tcp://*:2"},
        {"tcp://[::1]:1", "tcp://[::1]:2", "", "tcp://*:2"},
        /* Data listens everywhere. */
        {"tcp://10.0.0.1:1", "tcp://0.0.0.0:2", "", "tcp://*:2"},
        {"tcp://10.0.0.1:1", "tcp://[::]:2", "", "tcp://*:2"},
        {"ipc:///x", "tcp://0.0.0.0:2", "", "tcp://*:2"},
        /* Data listens where control does not. */
        {"tcp://0.0.0.0:1", "tcp://10.0.0.1:2", "", "tcp://10.0.0.1:2"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.11:2", "", "tcp://10.0.0.11:2"},
        {"ipc:///x", "tcp://127.0.0.1:2", "", "tcp://127.0.0.1:2"},
        {"tcp://10.0.0.1:1", "ipc:///y", "", "ipc:///y"},
        /* Told. */
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "bus.example.org", "tcp://bus.example.org:2"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "tcp://a:3", "tcp://a:3"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "a:3", "tcp://a:3"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "[::1]:3", "tcp://[::1]:3"},
        {"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "[::1]", "tcp://[::1]:2"},
        {"tcp://10.0.0.1:1", "ipc:///y", "bus.example.org", "ipc:///y"},
    };
    char told[LIMIT_ENDPOINT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect(endpoint_advertise(rows[i].control, rows[i].data, rows[i].advertise, told));
        cr_expect_str_eq(told, rows[i].told);
    }
}

Test(endpoint, tells_other_brokers_where_it_is)
{
    static const struct {
        const char *control, *wish, *advertise, *told;
    } rows[] = {
        {"tcp://10.0.0.1:1", "", "", "tcp://10.0.0.1:1"},
        {"ipc:///x", "", "bus.example.org", "ipc:///x"},
        {"tcp://0.0.0.0:1", "", "", "tcp://here:1"},
        {"tcp://[::]:1", "", "", "tcp://here:1"},
        {"tcp://0.0.0.0:1", "", "bus.example.org", "tcp://bus.example.org:1"},
        {"tcp://0.0.0.0:1", "", "tcp://a:3", "tcp://a:1"},
        {"tcp://0.0.0.0:1", "", "a:3", "tcp://a:1"},
        {"tcp://0.0.0.0:1", "", "[::1]:3", "tcp://[::1]:1"},
        {"tcp://0.0.0.0:1", "", "ipc:///y", "tcp://here:1"},
        {"tcp://0.0.0.0:1", "b", "a", "tcp://b:1"},
        {"tcp://10.0.0.1:1", "tcp://b:9", "", "tcp://b:9"},
    };
    char told[LIMIT_ENDPOINT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect(
            endpoint_announce(rows[i].control, rows[i].wish, rows[i].advertise, "here", told));
        cr_expect_str_eq(told, rows[i].told);
    }
    cr_expect_not(endpoint_announce("tcp://0.0.0.0:1", "", "", "", told),
                  "this machine has no name");
}

Test(endpoint, refuses_to_tell_more_than_fits)
{
    char host[LIMIT_ENDPOINT_BYTES + 1];
    char told[LIMIT_ENDPOINT_BYTES];
    const size_t around = strlen("tcp://:2") + 1;
    memset(host, 'h', sizeof host);
    host[LIMIT_ENDPOINT_BYTES - around] = '\0';
    cr_expect(endpoint_advertise("tcp://a:1", "tcp://a:2", host, told));
    cr_expect_eq(strlen(told), LIMIT_ENDPOINT_BYTES - 1);
    host[LIMIT_ENDPOINT_BYTES - around] = 'h';
    host[LIMIT_ENDPOINT_BYTES - around + 1] = '\0';
    cr_expect_not(endpoint_advertise("tcp://a:1", "tcp://a:2", host, told));
}

Test(endpoint, tells_only_where_one_can_go)
{
    static const struct {
        const char *advertise;
        bool is_good;
    } rows[] = {
        {"h", true},
        {"10.0.0.1", true},
        {"[fe80::1]", true},
        {"tcp://h:1", true},
        {"tcp://h:65535", true},
        {"tcp://[::1]:1", true},
        {"ipc:///x", true},
        {"a/b", false},
        {"h:1", true},
        {"[::1]:1", true},
        {"::1", false},
        {"*", false},
        {"h h", false},
        {"[]", false},
        {"tcp://", false},
        {"tcp://h", false},
        {"tcp://:1", false},
        {"tcp://h:0", false},
        {"tcp://h:65536", false},
        {"tcp://h:-1", false},
        {"tcp://h:x", false},
        {"tcp://*:1", false},
        {"ipc://", false},
        {"udp://h:1", false},
        {"tcp://h:", false},
    };
    char told[LIMIT_ENDPOINT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(endpoint_advertise("tcp://a:1", "tcp://a:2", rows[i].advertise, told),
                     rows[i].is_good, "%s", rows[i].advertise);
    }
}

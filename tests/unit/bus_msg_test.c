/* SPDX-License-Identifier: MPL-2.0 */
/* bus_msg_test.c -- received values: what they say, how they end, and that none is a request. */
#include "libbus/api/model.h"
#include "libbus/api/msg.h"

#include <criterion/criterion.h>
#include <string.h>

/* Of a waited-for slot, with a copy of text as its value. */
static struct bus_msg *message(const char *text)
{
    struct session_item item = {.kind = SESSION_ITEM_VALUE, .seq = 7, .delivery = 2};
    item.buffer = buffer_copy(span_text(text));
    cr_assert_not_null(item.buffer);
    item.value = buffer_span(item.buffer);
    struct bus_msg *msg = msg_new("alice/w", &item);
    cr_assert_not_null(msg);
    cr_assert_null(item.buffer); /* taken over */
    return msg;
}

Test(bus_msg, says_what_came)
{
    size_t bytes = 0;
    struct bus_msg *msg = message("value");
    cr_expect_str_eq(bus_msg_topic(msg), "alice/w");
    cr_expect_eq(bus_msg_seq(msg), 7);
    cr_expect_eq(bus_msg_delivery(msg), 2);
    cr_expect_eq(memcmp(bus_msg_value(msg, &bytes), "value", 5), 0);
    cr_expect_eq(bytes, 5);
    cr_expect_not_null(bus_msg_value(msg, NULL));
    bus_msg_free(&msg);
    cr_expect_null(msg);
    bus_msg_free(&msg); /* a no-op */
    bus_msg_free(NULL);
}

Test(bus_msg, without_bytes_has_a_value_all_the_same)
{
    size_t bytes = 1;
    struct session_item item = {.kind = SESSION_ITEM_VALUE};
    struct bus_msg *msg = msg_new("alice/w", &item);
    cr_assert_not_null(msg);
    const void *value = bus_msg_value(msg, &bytes);
    cr_expect_not_null(value);
    cr_expect_eq((uintptr_t)value % 8, 0);
    cr_expect_eq(bytes, 0);
    cr_expect_eq(bus_msg_delivery(msg), 1);
    bus_msg_return(&msg);
    cr_expect_null(msg);
}

Test(bus_msg, is_no_request)
{
    struct bus_msg *msg = message("value");
    cr_expect_eq(bus_msg_reply(&msg, "answer", 6), BUS_EINVAL);
    cr_expect_not_null(msg, "not taken over");
    bus_msg_fail(&msg, NULL);
    cr_expect_null(msg);
    msg = message("value");
    bus_msg_reject(&msg, NULL, BUS_FOREVER);
    cr_expect_null(msg);
    cr_expect_eq(bus_msg_reply(&msg, "answer", 6), BUS_EINVAL, "it is gone");
    cr_expect_eq(bus_msg_reply(NULL, "answer", 6), BUS_EINVAL);
}

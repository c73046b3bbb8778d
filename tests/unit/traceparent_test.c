/* SPDX-License-Identifier: MPL-2.0 */
/* traceparent_test.c -- the traceparent of W3C Trace Context: what is one, and each way to be none.
 */
#include "libbus/base/traceparent.h"

#include <criterion/criterion.h>
#include <string.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define NO_TRACE "00000000000000000000000000000000"

static const uint8_t trace_id[LIMIT_TRACE_ID_BYTES] = {
    0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};

Test(traceparent, has_a_trace)
{
    static const char *const texts[] = {
        "00-" TRACE "-" PARENT "-01",         "00-" TRACE "-" PARENT "-00",
        "00-" TRACE "-" PARENT "-ff",         "01-" TRACE "-" PARENT "-01",
        "cc-" TRACE "-" PARENT "-01-further", "fe-" TRACE "-" PARENT "-01-",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint8_t id[LIMIT_TRACE_ID_BYTES] = {0};
        cr_expect(traceparent_read(texts[i], id), "%s", texts[i]);
        cr_expect_arr_eq(id, trace_id, sizeof id, "%s", texts[i]);
    }
}

Test(traceparent, is_passed_over_if_it_is_none)
{
    static const char *const texts[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "-" PARENT "-01-further",
        "01-" TRACE "-" PARENT "-01further",
        "ff-" TRACE "-" PARENT "-01",
        "0-" TRACE "-" PARENT "-01xx",
        "0g-" TRACE "-" PARENT "-01",
        "00-" NO_TRACE "-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
        "00-0af7651916cd43dd8448eb211c80319g-" PARENT "-01",
        "00-" TRACE "-b7ad6b716920333g-01",
        "00-" TRACE "-" PARENT "-0g",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        " 00-" TRACE "-" PARENT "-01",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint8_t id[LIMIT_TRACE_ID_BYTES] = {7};
        cr_expect(!traceparent_read(texts[i], id), "%s", texts[i]);
        cr_expect_eq(id[0], 7, "%s", texts[i]);
    }
}

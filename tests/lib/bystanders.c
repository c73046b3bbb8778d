/* SPDX-License-Identifier: MPL-2.0 */
/* bystanders.c -- see bystanders.h. */
#include "tests/lib/bystanders.h"

#include "tests/lib/expect.h"

#include <criterion/criterion.h>

struct bystanders bystanders;

void bystanders_open(void)
{
    bystanders.writer = must_open("writer");
    bystanders.reader = must_open("reader");
    bystanders.sub = must_subscribe(bystanders.reader, "writer/w");
    bystanders.next_seq = 0;
}

void bystanders_close(void)
{
    bus_sub_close(&bystanders.sub);
    bus_close(&bystanders.writer, SOON_MS);
    bus_close(&bystanders.reader, SOON_MS);
}

void bystanders_expect_undisturbed(void)
{
    must_publish(bystanders.writer, "w", "undisturbed");
    expect_value(bystanders.sub, "writer/w", bystanders.next_seq++, "undisturbed");
    must_flush(bystanders.writer);
    must_flush(bystanders.reader);
    cr_assert_null(bus_failure(bystanders.writer));
    cr_assert_null(bus_failure(bystanders.reader));
    cr_assert_eq(process_wait(&stage.process, 0), -1, "errbusd ended: %s",
                 process_complained(&stage.process));
}

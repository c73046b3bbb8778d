/* SPDX-License-Identifier: MPL-2.0 */
/* exposition_test.c -- metrics as text, and which format a client likes best. */
#include "clients/web/exposition.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const struct bus_metric counter = {.name = "errbus_slots_settled",
                                          .help = "A \"quote\", a back\\slash,\na line.",
                                          .unit = "",
                                          .type = BUS_METRIC_COUNTER};
static const struct bus_metric gauge = {.name = "errbus_slot_open_oldest_seconds",
                                        .help = "How long.",
                                        .unit = "seconds",
                                        .type = BUS_METRIC_GAUGE};

static char *write(enum exposition format)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(out);
    const struct bus_metric_sample settled = {
        .suffix = "_total",
        .labels = {{"job", "a\"b\\c\nd<img>"}, {"outcome", "value"}},
        .label_count = 2,
        .value = 12345678901.0};
    const struct bus_metric_sample open = {.suffix = "", .value = 0.25};
    exposition_metric(out, format, &counter);
    exposition_sample(out, format, &counter, &settled);
    exposition_metric(out, format, &gauge);
    exposition_sample(out, format, &gauge, &open);
    exposition_end(out, format);
    fclose(out);
    return text;
}

#define SETTLED                                                                                    \
    "errbus_slots_settled_total{job=\"a\\\"b\\\\c\\nd<img>\",outcome=\"value\"} 12345678901\n"

Test(exposition, writes_the_text_of_prometheus)
{
    char *text = write(EXPOSITION_TEXT);
    cr_expect_str_eq(text,
                     "# HELP errbus_slots_settled_total A \"quote\", a back\\\\slash,\\na line.\n"
                     "# TYPE errbus_slots_settled_total counter\n" SETTLED
                     "# HELP errbus_slot_open_oldest_seconds How long.\n"
                     "# TYPE errbus_slot_open_oldest_seconds gauge\n"
                     "errbus_slot_open_oldest_seconds 0.25\n");
    free(text);
}

Test(exposition, writes_openmetrics)
{
    char *text = write(EXPOSITION_OPENMETRICS);
    cr_expect_str_eq(text,
                     "# HELP errbus_slots_settled A \\\"quote\\\", a back\\\\slash,\\na line.\n"
                     "# TYPE errbus_slots_settled counter\n" SETTLED
                     "# HELP errbus_slot_open_oldest_seconds How long.\n"
                     "# TYPE errbus_slot_open_oldest_seconds gauge\n"
                     "# UNIT errbus_slot_open_oldest_seconds seconds\n"
                     "errbus_slot_open_oldest_seconds 0.25\n"
                     "# EOF\n");
    free(text);
}

Test(exposition, gives_each_client_what_it_likes_best)
{
    static const struct {
        const char *accept;
        enum exposition format;
    } cases[] = {
        {NULL, EXPOSITION_TEXT},
        {"", EXPOSITION_TEXT},
        {"*/*", EXPOSITION_TEXT},
        {"text/html", EXPOSITION_TEXT},
        {"application/openmetrics-text", EXPOSITION_OPENMETRICS},
        {"Application/OpenMetrics-Text; version=1.0.0", EXPOSITION_OPENMETRICS},
        {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/"
         "*;q=0.1",
         EXPOSITION_OPENMETRICS},
        {"application/openmetrics-text;q=0.3, text/plain;q=0.31", EXPOSITION_TEXT},
        {"application/openmetrics-text;q=0, */*;q=0.1", EXPOSITION_TEXT},
        {"application/openmetrics-textual", EXPOSITION_TEXT},
        {"application/openmetrics-text;q=", EXPOSITION_TEXT},
        {",,;q=1,", EXPOSITION_TEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(exposition_choose(cases[i].accept), cases[i].format, "%s", cases[i].accept);
}

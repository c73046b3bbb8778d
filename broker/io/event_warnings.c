/* SPDX-License-Identifier: MPL-2.0 */
/* event_warnings.c -- see event_warnings.h. */
#include "broker/io/event_warnings.h"

#include "libbus/base/limits.h"
#include "libbus/wire/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)
#define PERIOD_NS (LIMIT_EVENT_WARNINGS_MS * NS_PER_MS)

/* What clients can make the broker warn of as often as they like. */
static const char *const names[EVENT_WARNINGS_KINDS] = {EVENT_PARTY_LOST, EVENT_BROKER_FORGOT};

void event_warnings_init(struct event_warnings *warnings, int64_t now_ns)
{
    *warnings = (struct event_warnings){.kinds = {{.held = 0}}};
    for (int i = 0; i < EVENT_WARNINGS_KINDS; i++)
        token_bucket_init(&warnings->kinds[i].lines, LIMIT_EVENT_WARNINGS_A_SECOND,
                          LIMIT_EVENT_WARNINGS, now_ns);
}

static void hold(struct event_warnings_kind *kind, const char *last, int64_t now_ns)
{
    if (kind->held == 0)
        kind->since_ns = now_ns;
    kind->held += 1;
    snprintf(kind->last, sizeof kind->last, "%s", last);
}

bool event_warnings_take(struct event_warnings *warnings, struct span name, const char *text,
                         int64_t now_ns)
{
    for (int i = 0; i < EVENT_WARNINGS_KINDS; i++) {
        struct event_warnings_kind *kind = &warnings->kinds[i];
        if (!span_equal(name, span_text(names[i])))
            continue;
        if (token_bucket_level(&kind->lines, now_ns) > 0) {
            token_bucket_spend(&kind->lines, 1);
            return true;
        }
        hold(kind, text + name.bytes + 1, now_ns);
        return false;
    }
    return true;
}

static int64_t kind_due_ns(const struct event_warnings_kind *kind)
{
    return kind->held > 0 ? kind->since_ns + PERIOD_NS : INT64_MAX;
}

int64_t event_warnings_due_ns(const struct event_warnings *warnings)
{
    int64_t due_ns = INT64_MAX;
    for (int i = 0; i < EVENT_WARNINGS_KINDS; i++)
        if (kind_due_ns(&warnings->kinds[i]) < due_ns)
            due_ns = kind_due_ns(&warnings->kinds[i]);
    return due_ns;
}

const char *event_warnings_next(struct event_warnings *warnings, int64_t now_ns, bool is_end,
                                char text[EVENT_WARNINGS_TEXT_BYTES])
{
    for (int i = 0; i < EVENT_WARNINGS_KINDS; i++) {
        struct event_warnings_kind *kind = &warnings->kinds[i];
        if (kind->held == 0 || (!is_end && kind_due_ns(kind) > now_ns))
            continue;
        snprintf(text, EVENT_WARNINGS_TEXT_BYTES,
                 "%s: %" PRIu64 " more within %" PRId64
                 " s ('errbus tap' tells of each), the last one: %s",
                 names[i], kind->held, (now_ns - kind->since_ns + NS_PER_S - 1) / NS_PER_S,
                 kind->last);
        kind->held = 0;
        return names[i];
    }
    return NULL;
}

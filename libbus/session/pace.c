/* SPDX-License-Identifier: MPL-2.0 */
/* pace.c -- see pace.h. */
#include "libbus/session/pace.h"

#include "libbus/base/limits.h"

static uint64_t small(const struct pace *pace)
{
    return pace->bytes_max < DEFAULT_CHUNK_BYTES ? pace->bytes_max : DEFAULT_CHUNK_BYTES;
}

void pace_init(struct pace *pace, uint64_t bytes_max)
{
    bool is_given = bytes_max > 0 && bytes_max < LIMIT_CHUNK_BYTES;
    *pace = (struct pace){.bytes_max = is_given ? bytes_max : LIMIT_CHUNK_BYTES};
    pace->bytes = small(pace);
}

/* Times one piece at a time.  Its answer may never come, because its slot may be retracted. */
void pace_sent(struct pace *pace, uint32_t topic, uint64_t seq, uint64_t end, int64_t now_ns)
{
    if (pace->is_timed && now_ns - pace->sent_ns < PACE_SOON_NS)
        return;
    pace->is_timed = true;
    pace->topic = topic;
    pace->seq = seq;
    pace->end = end;
    pace->sent_ns = now_ns;
}

void pace_accepted(struct pace *pace, uint32_t topic, uint64_t seq, uint64_t bytes, int64_t now_ns)
{
    if (!pace->is_timed || topic != pace->topic || seq != pace->seq || bytes < pace->end)
        return;
    pace->is_timed = false;
    pace->bytes = now_ns - pace->sent_ns < PACE_SOON_NS ? pace->bytes_max : small(pace);
}

void pace_rewind(struct pace *pace)
{
    pace->is_timed = false;
}

void pace_stalled(struct pace *pace)
{
    pace_rewind(pace);
    pace->bytes = small(pace);
}

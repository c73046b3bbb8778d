/* SPDX-License-Identifier: MPL-2.0 */
/* report.h -- reading a verdict over the connection of an observer. */
#ifndef API_REPORT_H
#define API_REPORT_H

#include "libbus/api/admin.h"

struct report_question {
    const char *job;
    uint32_t attempt; /* 0: the newest */
    bool is_waiting;  /* until the verdict is final */
};
/* Lock held. */
enum bus_err report_read(struct bus *observer, const struct report_question *question,
                         int64_t deadline_ns, struct bus_report **out_report,
                         struct bus_error **reterr);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* news.h -- what the session reports: who is woken, and how the end of the party is noted. */
#ifndef API_NEWS_H
#define API_NEWS_H

#include "libbus/api/model.h"

/* Gives the error of the party's end to reterr, if that is not NULL; returns err. */
enum bus_err api_say_over(const struct bus *bus, enum bus_err err, struct bus_error **reterr);
/* Wakes the threads that the session's news concern, and notes the end of the party.  Lock held. */
void api_tell(struct bus *bus);
void api_tell_all(struct bus *bus);
/* Nobody waits for this result any more.  Lock held. */
void api_forget_result(struct bus *bus, uint64_t number);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* ready.h -- whether a broker is ready, and a line for people that says why not. */
#ifndef CLIENTS_WEB_READY_H
#define CLIENTS_WEB_READY_H

#include <bus/metrics.h>
#include <stdbool.h>

enum { READY_BYTES = 1024 };

/* metrics NULL: the broker did not answer, and error says why (NULL: no memory).  Otherwise error
 * says why parties of new jobs must wait (NULL: they need not).  true: it takes parties and
 * values. */
bool ready_say(const struct bus_metrics *metrics, const struct bus_error *error,
               char text[READY_BYTES]);
/* The same of a broker that answered, by the state of its journal; "": it has none. */
bool ready_say_journal(const char *state, char text[READY_BYTES]);

#endif

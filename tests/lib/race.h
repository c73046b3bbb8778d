/* SPDX-License-Identifier: MPL-2.0 */
/* race.h -- what race tests share: plain programs that check, and end at the first false claim.
 * Each is built twice, see race_broker.h. */
#ifndef LIB_RACE_H
#define LIB_RACE_H

#include "tests/lib/race_broker.h"

#include <bus/bus.h>

/* True, or the program says which claim was false, where, and ends with 1. */
#define check(claim) ((claim) ? (void)0 : race_fail(#claim, __FILE__, __LINE__))
/* The same for a code, which is told, with the error that came along, if any. */
#define check_code(err, expected) race_check_code((err), (expected), NULL, __FILE__, __LINE__)
#define check_code_of(err, expected, error)                                                        \
    race_check_code((err), (expected), (error), __FILE__, __LINE__)

/* What must come has come by then: a bound against hanging. */
#define SOON_MS INT64_C(60000)

_Noreturn void race_fail(const char *claim, const char *file, int line);
/* Frees the error. */
void race_check_code(enum bus_err err, enum bus_err expected, struct bus_error **error,
                     const char *file, int line);

/* Short periods; the caller may change them. */
void race_options(struct bus_options *options, const char *party);
struct bus *race_open_with(const struct race_broker *broker, const struct bus_options *options);
struct bus *race_open(const struct race_broker *broker, const char *party);

/* How many rounds: the first argument of the program; or otherwise, and a twentieth of that with a
 * live broker, where each takes longer. */
int race_rounds(int argc, char **argv, int otherwise);

#endif

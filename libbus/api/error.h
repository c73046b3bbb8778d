/* SPDX-License-Identifier: MPL-2.0 */
/* error.h -- error objects. */
#ifndef API_ERROR_H
#define API_ERROR_H

#include "libbus/api/model.h"

/* Errors that cost no memory. */
extern struct bus_error error_none; /* an empty error */
extern struct bus_error error_no_memory;
extern struct bus_error error_no_resources; /* of that type, too: for a connection */
extern struct bus_error error_timed_out;
extern struct bus_error error_closed;
extern struct bus_error error_forked;

/* The error, or error_none in place of NULL. */
static inline const struct bus_error *error_or_none(const struct bus_error *error)
{
    return error != NULL ? error : &error_none;
}

/* Makes an error of kind local.  Gives it to reterr, or keeps it as the last error of this thread
 * if reterr is NULL.  Returns err. */
enum bus_err error_say(struct bus_error **reterr, enum bus_err err, const char *type,
                       const char *format, ...) BUS_PRINTF(4, 5);
/* The same with an error that exists, which it takes over.  NULL: there was no memory for it. */
enum bus_err error_give(struct bus_error **reterr, enum bus_err err, struct bus_error *error);
/* The same with the words of the code, for a call without a reterr. */
enum bus_err error_say_code(enum bus_err err, const char *call);
/* BUS_OK: it may be changed. */
enum bus_err error_check_fresh(const struct bus_error *error);
/* Never NULL: empty as long as the bus has not seen it. */
const struct error_identity *error_identity_of(const struct bus_error *error);
void error_identity_free(struct error_identity *identity);
/* As bus_error_new(), of a type of the library's own. */
struct bus_error *error_new(const char *type, const char *format, ...) BUS_PRINTF(2, 3);
/* An empty error of this kind; NULL: no memory. */
struct bus_error *error_make(uint64_t kind, struct span type, struct span message);
bool error_add_cause(struct bus_error *error, const struct bus_error *cause);
/* There is room for it; false: no memory. */
bool error_add_blame(struct bus_error *error, struct span party);
/* Copies text, with invalid UTF-8 replaced.  A text that does not fit in room is cut in its middle,
 * with a note. */
char *error_text(struct span text, size_t bytes_max, bool *out_is_cut);

#endif

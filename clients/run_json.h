/* SPDX-License-Identifier: MPL-2.0 */
/* run_json.h -- makes JSON of an error file that is too long, or that was cut short.  Pure.
 *
 * Bytes go in as they come.  Of a string that is too long, the beginning and the last whole lines
 * are kept.  If the text breaks off, open containers are closed, and half a member is left out.
 * Text that is no JSON does not become JSON. */
#ifndef CLIENTS_RUN_JSON_H
#define CLIENTS_RUN_JSON_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_JSON_BYTES_MAX ((size_t)1024 * 1024) /* of what comes out */
#define RUN_JSON_STRING_MAX ((size_t)20 * 1024)  /* kept of each end of a string */
#define RUN_JSON_DEPTH_MAX 64                    /* of open containers */

struct run_json;

struct run_json *run_json_new(void); /* NULL: no memory */
void run_json_free(struct run_json **json);

/* False: there is no room for these bytes, nor for any after them. */
bool run_json_feed(struct run_json *json, const char *bytes, size_t count);

/* The text, until it is freed.  out_is_torn: it broke off. */
const char *run_json_finish(struct run_json *json, size_t *out_bytes, bool *out_is_torn);

#endif

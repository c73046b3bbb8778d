/* SPDX-License-Identifier: MPL-2.0 */
/* reply.h -- what every reply of errbus web has in common: its headers. */
#ifndef CLIENTS_WEB_REPLY_H
#define CLIENTS_WEB_REPLY_H

#include <bus/bus.h>
#include <microhttpd.h>
#include <stddef.h>

/* The bytes are copied. */
enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                      const char *bytes, size_t count);
enum MHD_Result reply_line(struct MHD_Connection *connection, unsigned status, const char *line);
/* Adds the headers of all replies, and gives the response away. */
enum MHD_Result reply_with(struct MHD_Connection *connection, unsigned status,
                           struct MHD_Response *response);

/* The status of HTTP that goes with a code of the library. */
unsigned reply_status_of(enum bus_err err);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* download.h -- an attachment on its way from the broker to a browser.
 *
 * A thread of its own asks the broker over a connection of its own.  It fills a buffer, and waits
 * while the browser does not take the bytes.  So the program holds a bounded part of an attachment,
 * however long that is. */
#ifndef CLIENTS_WEB_DOWNLOAD_H
#define CLIENTS_WEB_DOWNLOAD_H

#include "clients/web/question.h"

#include <microhttpd.h>

enum {
    DOWNLOADS_MAX = 4, /* at a time */
    DOWNLOAD_BUFFER_BYTES = 256 * 1024,
};

struct downloads; /* all of them */
struct download;

/* NULL: no memory.  endpoint is borrowed. */
struct downloads *downloads_new(const char *endpoint);
/* Ends all, and wakes their connections. */
void downloads_stop(struct downloads *downloads);
/* Waits for their threads, some seconds at most; a thread that is still there keeps the memory. */
void downloads_free(struct downloads **downloads);

/* Suspends the connection until the first bytes or the end are there.  NULL: there are too many, or
 * no thread could be made; then the connection is not suspended. */
struct download *download_begin(struct downloads *downloads, const struct question *question,
                                struct MHD_Connection *connection);
/* Replies with the bytes, or says why there are none; takes the download over. */
enum MHD_Result download_reply(struct download **download, struct MHD_Connection *connection);
/* Gives up one that was not replied with; NULL is allowed. */
void download_drop(struct download **download);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* assets.h -- the files of the page, as the build put them into the program. */
#ifndef CLIENTS_WEB_ASSETS_H
#define CLIENTS_WEB_ASSETS_H

#include <stddef.h>

struct asset {
    const char *path; /* "/page.js" */
    const char *type; /* Content-Type */
    const char *tag;  /* ETag, with its quotes */
    const unsigned char *bytes;
    size_t count;
};

/* NULL: there is none of this path.  A build without the page has none at all. */
const struct asset *assets_find(const char *path);

#endif

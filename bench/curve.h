/* SPDX-License-Identifier: MPL-2.0 */
/* curve.h -- keys for a broker of ours and its clients: all that they say is encrypted. */
#ifndef BENCH_CURVE_H
#define BENCH_CURVE_H

#include <stddef.h>

/* Makes a key and an access file in the folder, and appends the words for errbusd to words.  One
 * folder at a time: the words stay until the next call.  Returns how many words there are then. */
size_t curve_words(const char *folder, const char **words, size_t count);
/* Parties that this process opens, and its children, have the key of that folder. */
void curve_use(const char *folder);
/* They have none. */
void curve_forget(void);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* must.h -- a broken invariant ends the process, in every build type.
 *
 * must() is for conditions that only a mistake in this project can break.  Misuse by an application
 * is BUS_EINVAL.  Bytes, peers, memory and time give codes, never must(). */
#ifndef BASE_MUST_H
#define BASE_MUST_H

#define must(claim) ((claim) ? (void)0 : must_fail(#claim, __FILE__, __LINE__))

/* Says which claim broke where, on standard error, and aborts. */
_Noreturn void must_fail(const char *claim, const char *file, int line);

#endif

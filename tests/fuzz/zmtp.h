/* SPDX-License-Identifier: MPL-2.0 */
/* zmtp.h -- what raw peers say below our protocol: ZMTP 3 (rfc.zeromq.org/spec/23 and 37), its
 * greeting, its handshakes and its frames, out of foreign bytes.
 *
 * As in speech.h most bytes ask for what a good peer would say, so that what is wrong comes at any
 * point: before the greeting is over, in the middle of a handshake, or behind a whole one. */
#ifndef TESTS_FUZZ_ZMTP_H
#define TESTS_FUZZ_ZMTP_H

#include "tests/fuzz/speech.h"

/* All that one connection says.  payload: a message of ours, at most ZMTP_PAYLOAD_MAX, that may be
 * in its frames. */
enum { ZMTP_BYTES_MAX = 16384, ZMTP_PAYLOAD_MAX = 1024 };
size_t zmtp_speech(struct feed *feed, struct span payload, uint8_t out[ZMTP_BYTES_MAX]);

#endif

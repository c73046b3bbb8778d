/* SPDX-License-Identifier: MPL-2.0 */
/* seal.h -- open the traces that parties sealed to an auditor.
 *
 * An auditor is somebody who may read what nobody else may: stack traces and attachments.  They
 * make a key pair (bus_key_new(), errbus key new), keep the secret half, and give the public half
 * to the parties, and to whoever creates the job.  A party seals the traces of its errors before
 * they leave its process.  The broker, its journal, taps and the other parties see type, kind,
 * causes and root as always, and of the rest the size.
 *
 * To whom a party seals, in this order:
 *   - to the auditor that it names itself, by bus_options.auditor or $ERRBUS_AUDITOR, at every
 *     level of disclosure.  What the level hides is then in the seal.  A job with another auditor
 *     is refused (BUS_EDENIED, errbus.other_auditor), so a broker cannot put a key of its own in
 *     the place of the auditor's.
 *   - with BUS_DISCLOSURE_FULL: to the auditor of its job, bus_job_options.auditor.  The broker
 *     alone vouches for that key.  Without an auditor the broker would have had the trace itself.
 *   - otherwise to nobody, and the trace stays in the process.
 * A library that was built without libsodium cannot seal.  It refuses to join a job with an auditor
 * (BUS_EDENIED, errbus.cannot_seal), and options with one.
 *
 * The conventions of bus/bus.h hold here too. */
#ifndef BUS_SEAL_H
#define BUS_SEAL_H

#include <bus/admin.h>
#include <bus/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_error_open: read what is sealed ------------------------------------------------------*/

/* 1: this build of the library can seal and open; 0: it was built without libsodium.  [any] */
BUS_API int bus_can_seal(void);

/* How many bytes of the error are sealed, without its attachments; 0: nothing is.
 * [any] [handler] */
BUS_API size_t bus_error_sealed_bytes(const struct bus_error *error);
/* The public key to which they are sealed, as bus_key_new() writes it; "": nothing is sealed.
 * Never NULL; borrowed from the error.  [any] [handler] */
BUS_API const char *bus_error_auditor(const struct bus_error *error);

/* Makes a copy of an error and its causes in which the trace can be read: the stacktrace, the names
 * of the attachments, and what its party did not disclose of message and type.  path is the key
 * file of the auditor.  Causes that the key does not open stay sealed.  The caller releases the
 * copy.  A program that fails a slot with the copy discloses nothing: it goes on sealed.
 * A seal hides, and proves nothing: whoever knows the public key can seal.
 * Errors: BUS_EINVAL (errbus.not_opened): nothing of this error is sealed; BUS_EDENIED
 * (errbus.not_opened): it is sealed to another key, and the message has both; BUS_EDENIED
 * (errbus.not_authorised): the file cannot be read, as in bus_key_show(); BUS_EPROTO
 * (errbus.not_opened): what is sealed is cut, was changed, or belongs to another error; BUS_EINVAL
 * (errbus.cannot_seal).  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_error_open(const struct bus_error *error, const char *path,
                                                 struct bus_error **out_opened,
                                                 struct bus_error **reterr);

/* Fetches an attachment of such an error as bus_admin_attachment_fetch() does, and opens it piece
 * by piece.  name is the one that the opened error has.  path is the key file.
 * Errors: those of the two calls; BUS_EPROTO (errbus.not_opened): a piece is cut, was changed, or
 * is missing; take has all bytes before it.  [any]  Wire: FETCH */
BUS_API BUS_MUST_USE enum bus_err bus_admin_attachment_open(
    struct bus_admin *admin, const char *job, const struct bus_error *error, const char *name,
    const char *path, int64_t timeout_ms, bus_attachment_fn *take, void *arg,
    struct bus_error **reterr);

#ifdef __cplusplus
}
#endif

#endif

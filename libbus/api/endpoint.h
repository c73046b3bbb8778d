/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint.h -- a list of endpoints, and what happened at each. */
#ifndef API_ENDPOINT_H
#define API_ENDPOINT_H

#include "libbus/api/model.h"

/* list: NULL: $ERRBUS_SERVER, else the default.  Errors: BUS_EINVAL, with a sentence. */
enum bus_err endpoints_read(struct endpoints *endpoints, const char *list,
                            struct bus_error **reterr);
/* Reads our own key from this file, if a broker of the list has one; NULL: from the file that
 * bus_key_path() names.  Errors: as bus_key_show(). */
enum bus_err endpoints_use_key(struct endpoints *endpoints, const char *path,
                               struct bus_error **reterr);
/* Reads our own key again.  true: it is another one now, and worth another try everywhere. */
bool endpoints_renew_key(struct endpoints *endpoints);
/* The keys for the endpoint in use; false: it uses none. */
bool endpoints_keys(const struct endpoints *endpoints, struct link_keys *out_keys);
const char *endpoints_next(struct endpoints *endpoints);
/* The endpoint in use, for another connection to it. */
const char *endpoints_again(struct endpoints *endpoints);
/* The broker at the endpoint in use said that this one is right: the next endpoints_next() gives
 * it.  It stands behind the list until a broker names another one, and has the key of the broker
 * that named it.  With a key it must be of tcp, for nothing else asks for keys.  false: it is none.
 */
bool endpoints_go(struct endpoints *endpoints, const char *endpoint);
/* What became of the connection to the endpoint in use. */
void endpoints_spoke(struct endpoints *endpoints);
void endpoints_closed(struct endpoints *endpoints, enum link_fault fault);
/* It accepts connections, and says nothing on them.  false: it was so before. */
bool endpoints_mute(struct endpoints *endpoints);
/* It speaks ZeroMQ, but has not answered. */
void endpoints_greeted(struct endpoints *endpoints);
/* A broker was met.  So silence from now on is that of a broker which stands still. */
void endpoints_met(struct endpoints *endpoints);
/* The data endpoint that belongs to the endpoint in use: the user's, else the broker's, with the
 * host by which control was reached.  false: it does not fit. */
bool endpoints_data(struct endpoints *endpoints, const char *announced,
                    char out[LIMIT_ENDPOINT_BYTES + 1]);
/* The likely data endpoint, before the broker announces it: the user's, else the last one, else the
 * default one if control has its default port.  false: nobody knows. */
bool endpoints_likely_data(const struct endpoints *endpoints, char out[LIMIT_ENDPOINT_BYTES + 1]);
void endpoints_data_spoke(struct endpoints *endpoints);
void endpoints_data_closed(struct endpoints *endpoints, enum link_fault fault);
/* The data endpoint accepts connections, and says nothing on them.  false: it was so before. */
bool endpoints_data_mute(struct endpoints *endpoints);
/* Whether what listens at the data endpoint is not the broker's, and will not be. */
bool endpoints_data_is_denied(const struct endpoints *endpoints);
/* Whether control answers several times in a row, but data cannot be connected to. */
bool endpoints_lack_data(const struct endpoints *endpoints);
/* Whether no endpoint could be connected to, each of them twice in a row. */
bool endpoints_are_out_of_reach(const struct endpoints *endpoints);
/* Whether something listens at each endpoint, and nothing was ever heard of any. */
bool endpoints_are_silent(const struct endpoints *endpoints);
/* Whether each endpoint refused our key, has another or none, or is no ZeroMQ: to try again is in
 * vain. */
bool endpoints_are_denied(const struct endpoints *endpoints);
/* They are denied, or the data endpoint is: whether a key is the reason at any of them. */
bool endpoints_have_broker(const struct endpoints *endpoints);
/* Describes the next endpoint at which something listens that does not answer as a broker does.
 * false: there is none that was not described before, with the same words. */
bool endpoints_doubt(struct endpoints *endpoints, char *text, size_t room);
void endpoints_describe(const struct endpoints *endpoints, char *text, size_t room);

#endif

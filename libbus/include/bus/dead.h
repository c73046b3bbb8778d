/* SPDX-License-Identifier: MPL-2.0 */
/* dead.h -- the dead letters of a group: list them, read them, replay or drop them.
 *
 * The calls take a handle of bus/admin.h, whose conventions hold here too. */
#ifndef BUS_DEAD_H
#define BUS_DEAD_H

#include <bus/admin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_admin_dead: dead letters of a group --------------------------------------------------*/

/* A task of a group becomes a dead letter when a member rejects it for ever, or when it was
 * delivered as often as it may be.  The broker keeps its value, and an error whose causes are the
 * errors of its deliveries.  It keeps a letter until somebody drops it, or replays it and a member
 * completes it.  A group keeps 16384 letters; then the oldest goes.
 *
 * A task that was given back is a letter, too, when its value is dropped because the group had no
 * member for its keeping time.  Its type is errbus.not_kept.  Such a letter has no value, and its
 * topic has the error instead.
 *
 * Letters are topics as well: "_groups/GROUP/dead" has the values, "_groups/GROUP/why" the errors
 * under the same numbers. */
struct bus_dead; /* a snapshot of letters of one group */

struct bus_letter {
    uint64_t number;      /* in its group, from 0 */
    const char *topic;    /* the topic of the task ... */
    uint64_t seq;         /* ... and its slot */
    unsigned deliveries;  /* how often it was given to a member */
    int64_t at_ns;        /* when it died, by the broker's wall clock */
    uint64_t value_bytes; /* size of the task's value */
    int is_replayed;      /* 1: the group has it again, and it is not done yet */
    const char *type;     /* of the error of its last delivery; "" if there is none */
    const char *message;
    uint32_t attempt; /* attempt of the job in which it died */
};

/* As number of bus_admin_dead_replay() and bus_admin_dead_drop(): all letters of the group. */
#define BUS_DEAD_ALL UINT64_MAX

/* Lists all letters of a group by number.  group: 1 to 180 bytes, without '/'.  The caller frees
 * the snapshot.  Errors: BUS_EINVAL (errbus.no_group).  [any]  Wire: DEAD */
BUS_API BUS_MUST_USE enum bus_err bus_admin_dead_list(struct bus_admin *admin, const char *job,
                                                      const char *group, int64_t timeout_ms,
                                                      struct bus_dead **out_dead,
                                                      struct bus_error **reterr);
/* Fetches one letter with its value and its error.  The caller frees the snapshot.
 * Errors: BUS_EINVAL (errbus.no_group).  [any]  Wire: DEAD */
BUS_API BUS_MUST_USE enum bus_err bus_admin_dead_show(struct bus_admin *admin, const char *job,
                                                      const char *group, uint64_t number,
                                                      int64_t timeout_ms,
                                                      struct bus_dead **out_dead,
                                                      struct bus_error **reterr);
/* Gives a letter to its group again, or all that the group does not have already (BUS_DEAD_ALL).
 * The task counts its deliveries on from those of the letter, and is given as often as a new one.
 * Nobody waits for a reply to it.  out_count: how many letters were replayed; may be NULL.
 * Errors: BUS_EINVAL: there is no such letter, or the group has it already.  [any]  Wire: DEAD */
BUS_API BUS_MUST_USE enum bus_err bus_admin_dead_replay(struct bus_admin *admin, const char *job,
                                                        const char *group, uint64_t number,
                                                        int64_t timeout_ms, uint64_t *out_count,
                                                        struct bus_error **reterr);
/* Forgets a letter, or all that the group does not have again (BUS_DEAD_ALL).  out_count and errors
 * are as for bus_admin_dead_replay().  [any]  Wire: DEAD */
BUS_API BUS_MUST_USE enum bus_err bus_admin_dead_drop(struct bus_admin *admin, const char *job,
                                                      const char *group, uint64_t number,
                                                      int64_t timeout_ms, uint64_t *out_count,
                                                      struct bus_error **reterr);

/* How many letters the snapshot has.  [any] */
BUS_API size_t bus_dead_count(const struct bus_dead *dead);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_letter *bus_dead_at(const struct bus_dead *dead, size_t index);
/* After bus_admin_dead_show(): why the letter died, or NULL if that is not known.  [any] */
BUS_API const struct bus_error *bus_dead_error(const struct bus_dead *dead);
/* After bus_admin_dead_show(): the value of the task.  Never NULL; out_bytes may be.  [any] */
BUS_API const void *bus_dead_value(const struct bus_dead *dead, size_t *out_bytes);
BUS_API void bus_dead_free(struct bus_dead **dead); /* [one] */

#ifdef __cplusplus
}
#endif

#endif

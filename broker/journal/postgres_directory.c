/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_directory.c -- the directory of jobs and brokers in PostgreSQL; see directory.h.
 *
 * What changes the rows of a shard finds its holder and the epoch, and locks the row of the shard
 * until it is committed.  So a broker that lost the shard changes nothing that the next one said.
 * An assignment needs no fence: it is to the shard, whoever holds it. */
#include "broker/journal/directory.h"

#include "broker/journal/postgres_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This holder of this epoch has the shard still, and no other one takes it before the commit. */
#define IS_OURS                                                                                    \
    " EXISTS (SELECT FROM errbus_shard WHERE shard = $1::int AND epoch = $2::int8"                 \
    " AND holder = $3::text FOR SHARE)"

struct directory {
    struct store store; /* its connection alone is used */
};

struct directory *directory_open_door(struct door **door, const char *conninfo,
                                      const struct disk_shard *shard,
                                      const struct directory_asker *asker)
{
    struct directory *directory = calloc(1, sizeof *directory);
    if (directory == NULL) {
        (*door)->ops->close(*door);
        *door = NULL;
        return NULL;
    }
    if (store_init(&directory->store, door, conninfo, shard->number, shard->replicas) < 0) {
        directory_close(&directory);
        return NULL;
    }
    directory->store.epoch = asker->epoch;
    snprintf(directory->store.holder, sizeof directory->store.holder, "%s", asker->holder);
    return directory;
}

struct directory *directory_open(const char *where, const struct disk_shard *shard,
                                 const struct directory_asker *asker)
{
    const char *rest = strchr(where, ':');
    struct door *door = rest != NULL ? door_new() : NULL;
    return door != NULL ? directory_open_door(&door, rest + 1, shard, asker) : NULL;
}

void directory_close(struct directory **directory)
{
    struct directory *old = *directory;
    *directory = NULL;
    if (old == NULL)
        return;
    store_fini(&old->store);
    free(old);
}

const char *directory_why(const struct directory *directory)
{
    return directory->store.why;
}

void directory_rest(struct directory *directory)
{
    directory->store.door->ops->rest(directory->store.door);
}

void directory_give_up(struct directory *directory)
{
    atomic_store(&directory->store.door->is_given_up, true);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* What may be well the next time: conflicts, no room, an operator, a standby (Appendix A). */
static bool is_passing(const char *state)
{
    static const char *const classes[] = {"08", "25", "40", "53", "55", "57", "58"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        is_one = is_one || strncmp(state, classes[i], strlen(classes[i])) == 0;
    return is_one;
}

/* What to do about a refusal; "": nothing is known. */
static const char *remedy_of(const char *state)
{
    if (strcmp(state, "42501") == 0)
        return ": GRANT SELECT, INSERT, UPDATE, DELETE ON errbus_job, errbus_endpoint TO the user "
               "of this broker, and SELECT, UPDATE ON errbus_shard";
    if (strcmp(state, "42P01") == 0)
        return ": a table of the directory is gone; a broker that starts makes it";
    return "";
}

/* Clears the answer, if it is not that of a server that keeps what was promised.  What was changed
 * without a quorum may be gone with its node.  So it is asked again once the server was looked at.
 */
static int see_done(struct store *store, struct door_answer *answer)
{
    if (store_is_as_found(store, span_text(answer->check)))
        return 0;
    store->door->ops->clear(answer);
    store->door->ops->disconnect(store->door);
    store->is_connected = false;
    return -EAGAIN;
}

/* 0: the answer is to be cleared.  In doubt is not now: what is asked again is as it was. */
static int ask_directory(struct directory *directory, const struct door_statement *statements,
                         size_t count, struct door_answer *answer)
{
    struct store *store = &directory->store;
    if (atomic_load(&store->door->is_given_up))
        return -ECANCELED;
    if (!store->is_connected && !store_connect(store))
        return -EAGAIN;
    store->door->ops->run(store->door, statements, count, answer);
    if (answer->verdict == DOOR_DONE)
        return see_done(store, answer);
    bool is_refused = answer->verdict == DOOR_REFUSED && !is_passing(answer->state);
    snprintf(store->why, sizeof store->why, "%.400s%s", answer->why,
             is_refused ? remedy_of(answer->state) : "");
    store->door->ops->clear(answer);
    if (answer->verdict == DOOR_DOUBT) {
        store->door->ops->disconnect(store->door);
        store->is_connected = false;
    }
    if (atomic_load(&store->door->is_given_up))
        return -ECANCELED;
    return is_refused ? -EACCES : -EAGAIN;
}

/* "": null. */
static const char *answer_text(const struct directory *directory, const struct door_answer *answer,
                               size_t row, unsigned column)
{
    const char *text = directory->store.door->ops->field(answer, row, column).data;
    return text != NULL ? text : "";
}

static unsigned answer_number(const struct directory *directory, const struct door_answer *answer,
                              size_t row, unsigned column)
{
    return (unsigned)strtoul(answer_text(directory, answer, row, column), NULL, 10);
}

static void read_place(const struct directory *directory, const struct door_answer *answer,
                       size_t row, struct directory_place *out)
{
    out->shard = answer_number(directory, answer, row, 0);
    snprintf(out->endpoint, sizeof out->endpoint, "%s", answer_text(directory, answer, row, 1));
}

/* ---- the questions --------------------------------------------------------------------------- */

/* false: no memory. */
static bool read_begun(const struct directory *directory, const struct door_answer *answer,
                       struct directory_begun *out)
{
    out->others = answer_number(directory, answer, 0, 1);
    snprintf(out->names, sizeof out->names, "%s", answer_text(directory, answer, 0, 2));
    out->ours = strdup(answer_text(directory, answer, 0, 3));
    return out->ours != NULL;
}

/* A server that lacks the epoch of a broker that serves.  If no other one has it, either, the
 * journal's own thread ends this broker. */
static int skip_server(struct directory *directory)
{
    struct store *store = &directory->store;
    snprintf(store->why, sizeof store->why,
             "the server lacks the epoch of this broker: another one takes writes by now");
    store->door->ops->disconnect(store->door);
    store->is_connected = false;
    store->door->turn++;
    return -EAGAIN;
}

int directory_begin(struct directory *directory, const char *control, const char *jobs,
                    struct directory_begun *out)
{
    const struct door_param shard = door_number(directory->store.shard);
    const struct door_param epoch = door_number(directory->store.epoch);
    const struct door_param holder = door_text(directory->store.holder);
    const struct door_statement statements[] = {
        {.sql = STORE_CONFIRM},
        {.sql = "DELETE FROM errbus_job WHERE shard = $1::int"
                " AND job <> ALL (string_to_array($4::text, '/')) AND" IS_OURS,
         .params = {shard, epoch, holder, door_text(jobs)},
         .count = 4},
        {.sql = "INSERT INTO errbus_job (job, shard)"
                " SELECT unnest(string_to_array($4::text, '/')), $1::int WHERE" IS_OURS
                " ON CONFLICT DO NOTHING",
         .params = {shard, epoch, holder, door_text(jobs)},
         .count = 4},
        {.sql = "INSERT INTO errbus_endpoint (shard, epoch, control)"
                " SELECT $1::int, $2::int8, $4::text WHERE" IS_OURS
                " ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch,"
                " control = excluded.control",
         .params = {shard, epoch, holder, door_text(control)},
         .count = 4},
        {.sql = "SELECT (SELECT epoch FROM errbus_shard WHERE shard = $1::int)::text,"
                " count(*) FILTER (WHERE shard <> $1::int)::text,"
                " left(string_agg(job, ', ' ORDER BY job) FILTER (WHERE shard <> $1::int),"
                " $3::int),"
                " string_agg(job, '/') FILTER (WHERE shard = $1::int),"
                " (SELECT holder FROM errbus_shard WHERE shard = $1::int)"
                " FROM errbus_job WHERE job = ANY (string_to_array($2::text, '/'))",
         .params = {shard, door_text(jobs), door_number(DIRECTORY_NAMES_CHARACTERS)},
         .count = 3}};
    struct door_answer answer;
    int result =
        ask_directory(directory, statements, sizeof statements / sizeof statements[0], &answer);
    if (result < 0)
        return result;
    uint64_t found = strtoull(answer_text(directory, &answer, 0, 0), NULL, 10);
    bool is_ours = found == directory->store.epoch &&
                   strcmp(answer_text(directory, &answer, 0, 4), directory->store.holder) == 0;
    bool is_read = is_ours && read_begun(directory, &answer, out);
    if (is_ours && !is_read)
        snprintf(directory->store.why, sizeof directory->store.why, "out of memory");
    directory->store.door->ops->clear(&answer);
    if (found < directory->store.epoch)
        return skip_server(directory);
    return is_read ? 0 : is_ours ? -EAGAIN : -DISK_FENCED;
}

/* A row of ours is written again, though nothing in it changes.  For the row may be of a commit
 * that no standby confirmed, and this one is confirmed behind it. */
int directory_assign(struct directory *directory, const char *job, struct directory_place *out)
{
    const struct door_statement statements[] = {
        {.sql = "INSERT INTO errbus_job (job, shard) SELECT $1::text, $2::int WHERE NOT EXISTS"
                " (SELECT FROM errbus_job WHERE job = $1::text AND shard <> $2::int)"
                " ON CONFLICT (job) DO UPDATE SET shard = errbus_job.shard",
         .params = {door_text(job), door_number(directory->store.shard)},
         .count = 2},
        {.sql = "SELECT errbus_job.shard::text, control FROM errbus_job"
                " LEFT JOIN errbus_endpoint ON errbus_endpoint.shard = errbus_job.shard"
                " WHERE job = $1::text",
         .params = {door_text(job)},
         .count = 1}};
    struct door_answer answer;
    int result =
        ask_directory(directory, statements, sizeof statements / sizeof statements[0], &answer);
    if (result < 0)
        return result;
    bool is_there = directory->store.door->ops->rows(&answer) == 1;
    if (is_there)
        read_place(directory, &answer, 0, out);
    else
        snprintf(directory->store.why, sizeof directory->store.why,
                 "the job left its shard just now");
    directory->store.door->ops->clear(&answer);
    return is_there ? 0 : -EAGAIN;
}

int directory_look(struct directory *directory, const char *job, struct directory_place *out)
{
    const struct door_statement look = {
        .sql = "SELECT errbus_job.shard::text, control FROM errbus_job"
               " LEFT JOIN errbus_endpoint ON errbus_endpoint.shard = errbus_job.shard"
               " WHERE job = $1::text",
        .params = {door_text(job)},
        .count = 1};
    struct door_answer answer;
    int result = ask_directory(directory, &look, 1, &answer);
    if (result < 0)
        return result;
    *out = (struct directory_place){.shard = directory->store.shard};
    if (directory->store.door->ops->rows(&answer) == 1)
        read_place(directory, &answer, 0, out);
    directory->store.door->ops->clear(&answer);
    return 0;
}

/* No standby is waited for: the journal's commits would wait as long for the row of the shard.  A
 * standby that is promoted without this has the job here, and who asks for it next finds it so.
 * What another shard commits about the job comes behind this on each standby. */
int directory_leave(struct directory *directory, const char *job)
{
    const struct door_statement statements[] = {
        {.sql = "SELECT set_config('synchronous_commit', 'local', true)"},
        {.sql = "DELETE FROM errbus_job WHERE job = $4::text AND shard = $1::int AND" IS_OURS,
         .params = {door_number(directory->store.shard), door_number(directory->store.epoch),
                    door_text(directory->store.holder), door_text(job)},
         .count = 4}};
    struct door_answer answer;
    int result = ask_directory(directory, statements, 2, &answer);
    if (result == 0)
        directory->store.door->ops->clear(&answer);
    return result;
}

int directory_list(struct directory *directory, struct directory_place *places, size_t room,
                   size_t *out_count)
{
    static const struct door_statement list = {
        .sql = "SELECT shard::text, control FROM errbus_endpoint ORDER BY errbus_endpoint.shard"};
    struct door_answer answer;
    int result = ask_directory(directory, &list, 1, &answer);
    if (result < 0)
        return result;
    size_t count = directory->store.door->ops->rows(&answer);
    count = count < room ? count : room;
    for (size_t i = 0; i < count; i++)
        read_place(directory, &answer, i, &places[i]);
    directory->store.door->ops->clear(&answer);
    *out_count = count;
    return 0;
}

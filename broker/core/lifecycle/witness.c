/* SPDX-License-Identifier: MPL-2.0 */
/* witness.c -- a client knows more than the broker: the broker forgot what it had said.
 *
 * A broker may run over an older journal than the one from which it answered: a backup was
 * restored, the wrong copy was promoted, or the power failed under durability `process`.  The
 * broker cannot see that.  A client that resumes can: it says what was acknowledged to it, and a
 * reader says what it was sent.  If the broker has less, values are missing that nobody can bring
 * back, because their writer dropped them when they were acknowledged.
 *
 * The incarnation ends then, with an error of the broker and not of the party.  So the verdict has
 * the broker as its root: the error names no party, and its kind is broker_lost.  The first such
 * error of a judgement is the cause of the later ones, so that many parties have one root.
 *
 * The answer may be lost with its connection, or come after its client has given that up: it waits
 * for the journal.  So a client that comes again is told the same once more.
 *
 * A client is believed here.  One that lies ends its own incarnation, as it also could by
 * FAIL_PARTY, and the event names it as the witness. */
#include "broker/core/lifecycle/witness.h"

#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/names.h"
#include "broker/core/tables/party.h"

/* What the broker said, and what it has. */
struct forgotten {
    const char *what;    /* of these there are too few */
    struct topic *topic; /* of which they are, or NULL */
    const char *how;     /* it was said of them */
    uint64_t said;
    uint64_t has;
};

static const char *describe_forgotten(struct core *core, const struct party *party,
                                      const struct forgotten *forgotten)
{
    struct text *text = &core->why_held;
    text_say(text, "the broker has ", SPAN_NONE);
    text_add_number(text, forgotten->has);
    text_add(text, " of ");
    text_add_number(text, forgotten->said);
    text_add(text, forgotten->what);
    if (forgotten->topic != NULL) {
        text_add(text, " of ");
        text_add_span(text, forgotten->topic->name);
    }
    text_add(text, forgotten->how);
    text_add_span(text, party->name);
    text_add(text, ": it runs over an older journal, as a restored backup is");
    return text->data;
}

static bool is_of_forgotten(const struct failure *failure)
{
    return failure->kind == ERROR_BROKER_LOST &&
           span_equal(failure_type(failure), span_text(ERROR_TYPE_FORGOTTEN));
}

/* The first error of this kind that the judgement has; NULL: there is none yet. */
static struct failure *first_forgotten(const struct judgement *judgement)
{
    for (uint32_t i = judgement->survived_count; i < judgement->count; i++)
        if (is_of_forgotten(judgement->errors[i].failure))
            return judgement->errors[i].failure;
    return NULL;
}

static const char *end_forgotten(struct core *core, struct session *session,
                                 const struct forgotten *forgotten)
{
    struct party *party = session->party;
    const char *text = describe_forgotten(core, party, forgotten);
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = party,
                                                  .is_brokers = true,
                                                  .kind = ERROR_BROKER_LOST,
                                                  .type = ERROR_TYPE_FORGOTTEN,
                                                  .message = text,
                                                  .cause = first_forgotten(&party->job->judgement),
                                                  .occurred_ns = core->now_ns});
    party_tell(core, party, EVENT_BROKER_FORGOT, text, forgotten->said - forgotten->has, failure);
    session_end_party(core, session, PARTY_IS_LOST, failure, CODE_ELOST);
    failure_unref(core, failure);
    return text;
}

const char *witness_hello(struct core *core, struct session *session, const struct msg_hello *hello)
{
    uint64_t control_number = session_control_number(session);
    /* No fact has the numbers of a guard: a broker that restarts begins at 0.  But each of its
     * numbered messages ends the party, so of a live party none was acknowledged. */
    if (session->is_guard && !party_is_live(session->party))
        return NULL;
    if (hello->data_number > session->data_number)
        return end_forgotten(core, session,
                             &(struct forgotten){.what = " frames",
                                                 .how = " that it acknowledged to ",
                                                 .said = hello->data_number,
                                                 .has = session->data_number});
    if (hello->control_number > control_number)
        return end_forgotten(core, session,
                             &(struct forgotten){.what = " messages",
                                                 .how = " that it acknowledged to ",
                                                 .said = hello->control_number,
                                                 .has = control_number});
    return NULL;
}

const char *witness_recall(struct core *core, const struct msg_hello *hello)
{
    const struct job *job = job_known(core, hello->job);
    uint32_t id;
    uint32_t count = 0;
    if (hello->client == 0 || job == NULL || !name_map_get(&job->parties, hello->party, &id))
        return NULL;
    const struct party *party = pool_find(&core->parties, id);
    bool is_its = hello->client == party->client || hello->client == party->program_client;
    if (!is_its || !rights_is_same(core, party->principal) || party->ended_by == NULL ||
        !is_of_forgotten(party->ended_by) ||
        error_decode(failure_span(party->ended_by), core->scratch, LIMIT_ERROR_RECORDS, &count) !=
            WIRE_OK)
        return NULL;
    return text_say(&core->why_held, "", core->scratch[0].message);
}

/* Whether the topic's writer may still send what is missing here.  What a reader was sent may not
 * be acknowledged yet, and then its writer has it.  A writer of whom the broker forgot something is
 * over, and its readers are told by that end. */
static bool may_be_filled(const struct party *writer)
{
    return party_is_live(writer) || (writer->ended_by != NULL && is_of_forgotten(writer->ended_by));
}

bool witness_position(struct core *core, struct session *session, struct topic *topic,
                      uint64_t next_seq)
{
    if (next_seq <= topic->slots.next_seq || may_be_filled(topic->writer))
        return false;
    (void)end_forgotten(core, session,
                        &(struct forgotten){.what = " slots",
                                            .how = " that it sent to ",
                                            .topic = topic,
                                            .said = next_seq,
                                            .has = topic->slots.next_seq});
    return true;
}

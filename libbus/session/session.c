/* SPDX-License-Identifier: MPL-2.0 */
/* session.c -- creates and frees a session; see session.h. */
#include "libbus/session/session.h"

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_courier.h"
#include "libbus/session/session_errors.h"
#include "libbus/session/session_member.h"
#include "libbus/session/session_verdict.h"
#include "libbus/session/session_waiting.h"

#include <string.h>

static struct span keep_text(struct session *session, struct span text, size_t *at)
{
    if (text.bytes > 0)
        memcpy(session->texts + *at, text.data, text.bytes);
    struct span kept = span_of(session->texts + *at, text.bytes);
    *at += text.bytes;
    return kept;
}

/* A broker that has nothing to send only answers beats.  So four beats fit into broker_lost_ms:
 * after two missed beats there is still time to try another connection. */
static int64_t own_heartbeat_ms(const struct session_options *options)
{
    int64_t most_ms = options->broker_lost_ms / 4;
    if (most_ms < LIMIT_HEARTBEAT_MS_MIN)
        most_ms = LIMIT_HEARTBEAT_MS_MIN;
    return options->heartbeat_ms < most_ms ? options->heartbeat_ms : most_ms;
}

static bool keep_options(struct session *session, const struct session_options *options)
{
    session->options = *options;
    session->options.heartbeat_ms = own_heartbeat_ms(options);
    session->text_bytes = options->job.bytes + options->party.bytes + options->library.bytes +
                          options->host.bytes + options->run.bytes + options->auditor.bytes +
                          options->trace_id.bytes + 1;
    session->texts = memory_take(session->memory, session->text_bytes);
    if (session->texts == NULL)
        return false;
    size_t at = 0;
    session->options.job = keep_text(session, options->job, &at);
    session->options.party = keep_text(session, options->party, &at);
    session->options.library = keep_text(session, options->library, &at);
    session->options.host = keep_text(session, options->host, &at);
    session->options.trace_id = keep_text(session, options->trace_id, &at);
    session->options.run = keep_text(session, options->run, &at);
    session->options.auditor = keep_text(session, options->auditor, &at);
    pace_init(&session->pace, options->chunk_bytes_max);
    return true;
}

static void init_leaves(struct session *session)
{
    struct memory *memory = session->memory;
    outbox_init(&session->outbox, memory, &session->spares);
    uploads_init(&session->uploads, memory);
    session->flow_share.bytes_max = UINT64_MAX;
    flow_window_init(&session->flow, &session->flow_share, LIMIT_UPLOAD_BYTES,
                     LIMIT_UPLOAD_WINDOW_BYTES);
    controls_init(&session->controls, memory);
    own_topics_init(&session->own, memory);
    results_init(&session->results, memory);
    known_topics_init(&session->known, memory);
    wants_init(&session->wants, memory);
    inbox_init(&session->inbox, memory, &session->known);
    leases_init(&session->leases, memory);
    rows_init(&session->tap.rows, memory, LIMIT_TAP_WINDOW);
    verdict_rows_init(session);
    rows_init(&session->question.rows, memory, LIMIT_CONTROL_QUEUE);
    list_init(&session->sub_news);
    list_init(&session->talk);
    list_init(&session->untold);
    session->untold_ns = INT64_MAX;
    list_init(&session->acking);
    list_init(&session->closing);
}

/* Reserves what must not fail later. */
static bool reserve(struct session *session)
{
    session->stage = memory_take(session->memory, LIMIT_CONTROL_BYTES);
    session->scratch = memory_take(session->memory, SESSION_SCRATCH_BYTES);
    session->spare_leave = control_new(session->memory, OWN_SLOT_SPARE_BYTES);
    session->spare_fail = control_new(session->memory, OWN_SLOT_SPARE_BYTES);
    session->spare_error_bytes = session_error_spare(session->spare_error);
    bool has_once =
        once_init(&session->once, span_of(session->spare_error, session->spare_error_bytes));
    return has_once && session->stage != NULL && session->scratch != NULL &&
           session->spare_leave != NULL && session->spare_fail != NULL;
}

enum wire_code session_new(struct memory *memory, const struct session_options *options,
                           int64_t now_ns, struct session **out_session)
{
    must(options->party.bytes == 0 || party_is_valid(options->party));
    must((options->party.bytes == 0 && options->job.bytes == 0) || party_is_valid(options->job));
    must(options->heartbeat_ms >= LIMIT_HEARTBEAT_MS_MIN);
    must(options->heartbeat_ms <= LIMIT_PERIOD_MS_MAX);
    must(options->broker_lost_ms <= LIMIT_PERIOD_MS_MAX);
    must(!options->is_courier || options->party.bytes == 0);
    struct session *session = memory_take(memory, sizeof *session);
    if (session == NULL)
        return CODE_ENOMEM;
    session->memory = memory;
    init_leaves(session);
    if (!keep_options(session, options) || !reserve(session)) {
        session_free(&session);
        return CODE_ENOMEM;
    }
    session->is_observer = options->party.bytes == 0;
    session->is_courier = options->is_courier;
    session->phase = PHASE_WAIT;
    session->now_ns = now_ns;
    session->backoff_ns = SESSION_BACKOFF_MIN_NS;
    session->data_stall_ns = session_silence_ns(session);
    session->inflow_stall_ns = ns_of_ms(options->lost_after_ms) / 2;
    session_dial(session);
    *out_session = session;
    return CODE_OK;
}

void session_free(struct session **out_session)
{
    struct session *session = *out_session;
    *out_session = NULL;
    if (session == NULL)
        return;
    struct memory *memory = session->memory;
    leases_fini(&session->leases);
    inbox_fini(&session->inbox);
    wants_fini(&session->wants);
    known_topics_fini(&session->known);
    results_fini(&session->results);
    refused_fini(&session->refused);
    notices_fini(&session->notices);
    own_topics_fini(&session->own);
    controls_fini(&session->controls);
    uploads_fini(&session->uploads);
    outbox_fini(&session->outbox);
    rows_fini(&session->tap.rows);
    verdict_rows_fini(session);
    rows_fini(&session->question.rows);
    member_fini(session);
    waiting_fini(session);
    courier_fini(session);
    buffer_unref(&session->part);
    spares_fini(&session->spares);
    once_fini(&session->once);
    control_free(memory, &session->spare_leave);
    control_free(memory, &session->spare_fail);
    memory_give(memory, session->stage, LIMIT_CONTROL_BYTES);
    memory_give(memory, session->scratch, SESSION_SCRATCH_BYTES);
    memory_give(memory, session->texts, session->text_bytes);
    memory_give(memory, session, sizeof *session);
}

/* SPDX-License-Identifier: MPL-2.0 */
/* answers.c -- see answers.h. */
#include "clients/web/answers.h"

#include "clients/cli.h"
#include "clients/error_list.h"
#include "clients/status_json.h"
#include "clients/verdict_json.h"
#include "clients/web/attention.h"
#include "clients/why_text.h"

#include <bus/report.h>
#include <bus/why.h>
#include <stdlib.h>
#include <string.h>

/* ---- status ---------------------------------------------------------------------------------- */

/* Topics are not told: there may be a hundred thousand. */
enum {
    OF_BROKER = BUS_STATUS_ONLY(BUS_STATUS_JOB),
    OF_JOB = BUS_STATUS_ONLY(BUS_STATUS_JOB) | BUS_STATUS_ONLY(BUS_STATUS_PARTY) |
             BUS_STATUS_ONLY(BUS_STATUS_SUB) | BUS_STATUS_ONLY(BUS_STATUS_GROUP),
};

static void print_left_out(FILE *out, const size_t left_out[ATTENTION_KINDS])
{
    for (int kind = 0; kind < ATTENTION_KINDS; kind++) {
        if (left_out[kind] > 0) {
            struct cli_json *line = cli_json_new();
            cli_json_text(line, "kind", "left_out");
            cli_json_text(line, "of", status_json_kind((enum bus_status_kind)kind));
            cli_json_number(line, "rows", (int64_t)left_out[kind]);
            cli_json_print(&line, out);
        }
    }
}

static enum bus_err print_status(FILE *out, const struct bus_status *status,
                                 struct bus_error **reterr)
{
    size_t count = bus_status_count(status);
    const struct bus_status_row **rows = calloc(count + 1, sizeof *rows);
    (void)reterr; /* the code says it all */
    if (rows == NULL) {
        return BUS_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = bus_status_at(status, i);
    }
    size_t left_out[ATTENTION_KINDS];
    size_t kept = attention_choose(rows, count, left_out);
    status_json_print(out, status, rows, kept);
    print_left_out(out, left_out);
    free(rows);
    return BUS_OK;
}

/* Which shard answers, and which others there are; nothing where there is one broker. */
static void print_shards(FILE *out, const struct bus_shards *shards)
{
    for (size_t i = 0; bus_shards_count(shards) > 1 && i < bus_shards_count(shards); i++) {
        const struct bus_shard *shard = bus_shards_at(shards, i);
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "shard");
        cli_json_number(line, "shard", shard->number);
        cli_json_text(line, "endpoint", shard->endpoint);
        cli_json_bool(line, "here", shard->is_here != 0);
        cli_json_print(&line, out);
    }
}

static enum bus_err ask_status(FILE *out, struct bus_admin *admin, const char *job,
                               const struct bus_shards *shards, int64_t timeout_ms,
                               struct bus_error **reterr)
{
    struct bus_status *status = NULL;
    bool is_of_job = job[0] != '\0';
    unsigned kinds = is_of_job ? (unsigned)OF_JOB : (unsigned)OF_BROKER;
    enum bus_err err = bus_admin_status_get_some(admin, is_of_job ? job : BUS_JOB_ALL, kinds,
                                                 timeout_ms, &status, reterr);
    if (err == BUS_OK) {
        print_shards(out, is_of_job ? NULL : shards);
        err = print_status(out, status, reterr);
    }
    bus_status_free(&status);
    return err;
}

/* ---- other questions ------------------------------------------------------------------------- */

static enum bus_err ask_why(FILE *out, struct bus_admin *admin, const char *job, int64_t timeout_ms,
                            struct bus_error **reterr)
{
    struct bus_why *why = NULL;
    enum bus_err err = bus_why_get(admin, job, NULL, 0, timeout_ms, &why, reterr);
    if (err == BUS_OK) {
        why_json_print(out, why);
    }
    bus_why_free(&why);
    return err;
}

static enum bus_err ask_verdict(FILE *out, struct bus_admin *admin, const char *job,
                                int64_t timeout_ms, struct bus_error **reterr)
{
    struct bus_report *report = NULL;
    enum bus_err err = bus_admin_report_get(admin, job, 0, timeout_ms, &report, reterr);
    if (err == BUS_OK && bus_report_summary(report)->outlook == BUS_OUTLOOK_UNKNOWN) {
        fprintf(out, "there is no job %s\n", job);
        err = BUS_EINVAL;
    } else if (err == BUS_OK) {
        verdict_json_print(out, report);
    }
    bus_report_free(&report);
    return err;
}

enum bus_err answers_ask(FILE *out, struct bus_admin *admin, const struct question *question,
                         const struct bus_shards *shards, int64_t timeout_ms,
                         struct bus_error **reterr)
{
    switch (question->kind) {
    case QUESTION_STATUS: return ask_status(out, admin, question->job, shards, timeout_ms, reterr);
    case QUESTION_WHY: return ask_why(out, admin, question->job, timeout_ms, reterr);
    case QUESTION_VERDICT: return ask_verdict(out, admin, question->job, timeout_ms, reterr);
    case QUESTION_EVENTS:
    case QUESTION_ERROR:
    case QUESTION_ATTACHMENT:
    case QUESTION_STREAM:
    case QUESTION_KINDS: break; /* not asked for in this way */
    }
    return BUS_EINVAL;
}

/* ---- events ---------------------------------------------------------------------------------- */

void answers_events(FILE *out, const struct history *history, uint64_t from)
{
    uint64_t at = from > 0 ? from : history_newest(history, ANSWERS_EVENTS_MAX);
    for (int i = 0; i < ANSWERS_EVENTS_MAX; i++) {
        const struct history_event *event = history_find(history, at);
        if (event == NULL) {
            return;
        }
        fputs(event->whole, out);
        at = event->id + 1;
    }
}

/* The begin of a text, up to a whole character of UTF-8. */
static void add_begin(struct cli_json *object, const char *key, const char *text)
{
    char begin[ANSWERS_TEXT_BYTES_MAX + 4];
    size_t bytes = strlen(text);
    if (bytes > ANSWERS_TEXT_BYTES_MAX) {
        bytes = ANSWERS_TEXT_BYTES_MAX;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80) {
            bytes--;
        }
        memcpy(begin, text, bytes);
        memcpy(begin + bytes, "...", 4);
        text = begin;
    }
    cli_json_text(object, key, text);
}

/* The broker could not check that the error is what it says. */
static void add_claim(struct cli_json *object, const char *key, const struct bus_error *error)
{
    if (bus_error_claimed_by(error)[0] != '\0') {
        cli_json_text(object, key, bus_error_claimed_by(error));
    }
}

static void add_brief_error(struct cli_json *line, const struct bus_error *error)
{
    const struct bus_error *root = bus_error_root(error);
    struct cli_json *object = cli_json_object(line, "error");
    cli_json_text(object, "id", bus_error_id(error));
    cli_json_text(object, "kind", bus_error_kind(error));
    cli_json_text(object, "type", bus_error_type(error));
    cli_json_text(object, "party", bus_error_party(error));
    add_claim(object, "claimed_by", error);
    add_begin(object, "message", bus_error_message(error));
    if (root != error) {
        cli_json_text(object, "root", bus_error_id(root));
        cli_json_text(object, "root_party", bus_error_party(root));
        add_claim(object, "root_claimed_by", root);
    }
}

void answers_brief(FILE *out, const struct bus_event *event)
{
    struct cli_json *line = cli_json_new();
    const struct bus_error *error = bus_event_error(event);
    cli_json_number(line, "id", (int64_t)bus_event_id(event));
    cli_json_time(line, "at", bus_event_at_ns(event));
    cli_json_text(line, "event", bus_event_name(event));
    cli_json_text(line, "party", bus_event_party(event));
    cli_json_number(line, "incarnation", bus_event_incarnation(event));
    if (bus_event_topic(event)[0] != '\0') {
        cli_json_text(line, "topic", bus_event_topic(event));
        cli_json_number(line, "seq", (int64_t)bus_event_seq(event));
    }
    if (bus_event_count(event) > 0) {
        cli_json_number(line, "count", (int64_t)bus_event_count(event));
    }
    if (bus_event_is_late(event) != 0) {
        cli_json_bool(line, "late", true);
    }
    if (bus_event_text(event)[0] != '\0') {
        add_begin(line, "text", bus_event_text(event));
    }
    if (error != NULL) {
        add_brief_error(line, error);
    }
    cli_json_print(&line, out);
}

/* ---- one error ------------------------------------------------------------------------------- */

/* Its own event is preferred: as a cause of another it may be cut. */
static const struct bus_error *find_error(const struct history *history, const char *id,
                                          const struct history_event **out_event)
{
    const struct bus_error *found = NULL;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_event *event = history_at(history, i);
        const struct bus_error *error =
            event->error != NULL ? error_list_find(event->error, id) : NULL;
        if (error != NULL && (found == NULL || error == event->error)) {
            found = error;
            *out_event = event;
        }
        if (error != NULL && error == event->error) {
            break;
        }
    }
    return found;
}

/* What the broker has; or nothing, if it does not answer: then the error's own list stays. */
static void add_attachments(struct cli_json *line, struct bus_admin *admin,
                            const struct question *question, const struct bus_error *error,
                            int64_t timeout_ms)
{
    struct bus_attachments *list = NULL;
    if (bus_error_attachment_at(error, 0, NULL) == NULL || admin == NULL ||
        bus_admin_attachment_list(admin, question->job, question->id, timeout_ms, &list, NULL) !=
            BUS_OK) {
        return;
    }
    struct cli_json *array =
        bus_attachments_count(list) > 0 ? cli_json_array(line, "attachments") : NULL;
    for (size_t i = 0; i < bus_attachments_count(list); i++) {
        const struct bus_attachment *one = bus_attachments_at(list, i);
        struct cli_json *object = cli_json_append(array);
        cli_json_text(object, "name", one->name);
        if (one->bytes >= 0) {
            cli_json_number(object, "bytes", one->bytes);
        }
        cli_json_number(object, "arrived", one->arrived);
        cli_json_text(object, "state", bus_attachment_state_name(one->state));
    }
    bus_attachments_free(&list);
}

bool answers_error(FILE *out, struct bus_admin *admin, const struct history *history,
                   const struct question *question, int64_t timeout_ms)
{
    const struct history_event *event = NULL;
    const struct bus_error *error = find_error(history, question->id, &event);
    if (error == NULL) {
        return false;
    }
    struct cli_json *line = cli_json_of_error(error);
    add_attachments(line, admin, question, error, timeout_ms);
    struct cli_json *told = cli_json_object(line, "event");
    cli_json_number(told, "id", (int64_t)event->id);
    cli_json_print(&line, out);
    return true;
}

/* SPDX-License-Identifier: MPL-2.0 */
/* without_text.c -- what would fail without a party, as text for people and as JSON. */
#include "clients/cli.h"
#include "clients/why_text.h"

#include <inttypes.h>

/* "alice/grads#3", "alice/grads#3..#5" */
static void print_slots(FILE *out, const struct bus_without_row *row)
{
    cli_print_text(out, row->name, "");
    fprintf(out, "#%" PRIu64, row->seq);
    if (row->count > 1) {
        fprintf(out, "..#%" PRIu64, row->seq + row->count - 1);
    }
}

static void print_row(FILE *out, const struct bus_without_row *row)
{
    bool is_slots = row->kind <= BUS_WITHOUT_REPLACED;
    fprintf(out, "  ");
    if (is_slots) {
        print_slots(out, row);
    }
    switch (row->kind) {
    case BUS_WITHOUT_OWED: fprintf(out, " would fail\n"); return;
    case BUS_WITHOUT_NEEDS: fprintf(out, " would fail: it needs a slot that would\n"); return;
    case BUS_WITHOUT_REPLY: fprintf(out, " would fail: the reply to a request\n"); return;
    case BUS_WITHOUT_REPLACED:
        fprintf(out, " would be an error: nobody has its value yet\n");
        return;
    case BUS_WITHOUT_PARTY: break;
    case BUS_WITHOUT_GROUP: fprintf(out, "members of the group "); break;
    case BUS_WITHOUT_READER: fprintf(out, "the next reader of the durable name "); break;
    case BUS_WITHOUT_AGAIN:
    case BUS_WITHOUT_DEAD:
        fprintf(out, "%" PRIu64 " task%s of the group ", row->count, cli_plural(row->count));
        break;
    case BUS_WITHOUT_EMPTY: fprintf(out, "the group "); break;
    case BUS_WITHOUT_UNREAD: fprintf(out, "the durable name "); break;
    case BUS_WITHOUT_UNKNOWN: fprintf(out, "something that this version does not know: "); break;
    }
    cli_print_text(out, row->name, "");
    switch (row->kind) {
    case BUS_WITHOUT_AGAIN: fprintf(out, " would go to other members\n"); break;
    case BUS_WITHOUT_DEAD: fprintf(out, " would become dead letters\n"); break;
    case BUS_WITHOUT_EMPTY: fprintf(out, " would have no member\n"); break;
    case BUS_WITHOUT_UNREAD: fprintf(out, " would have no reader\n"); break;
    case BUS_WITHOUT_UNKNOWN: fprintf(out, "\n"); break;
    default:
        fprintf(out, " would get the error, %" PRIu64 " time%s\n", row->count,
                cli_plural(row->count));
        break;
    }
}

static void print_job(FILE *out, const struct bus_without_job *job)
{
    if (job->min == 0) {
        fprintf(out, "  the job would go on: it needs no number of parties\n");
        return;
    }
    fprintf(out, "  the job would have %" PRIu32 " part%s, and needs %" PRIu32 ": ", job->present,
            job->present == 1 ? "y" : "ies", job->min);
    switch (job->outlook) {
    case BUS_WITHOUT_JOB_GOES_ON:
        fprintf(out, job->present < job->min ? "it would wait for more\n" : "it would go on\n");
        return;
    case BUS_WITHOUT_JOB_COMPLETES: fprintf(out, "it would complete\n"); return;
    case BUS_WITHOUT_JOB_WAITS:
        fprintf(out, "it would wait %" PRIu64 " ms for others, and then fail", job->window_ms);
        break;
    case BUS_WITHOUT_JOB_FAILS: fprintf(out, "it would fail"); break;
    }
    if (job->attempts_left > 0) {
        fprintf(out, "; %" PRIu32 " attempt%s may follow", job->attempts_left,
                cli_plural(job->attempts_left));
    }
    fprintf(out, "\n");
}

void without_text_print(FILE *out, const struct bus_without *without, const char *party)
{
    fprintf(out, "without ");
    cli_print_text(out, party, "");
    fprintf(out, bus_without_count(without) == 0 ? " nothing would fail\n" : ":\n");
    for (size_t i = 0; i < bus_without_count(without); i++) {
        print_row(out, bus_without_at(without, i));
    }
    print_job(out, bus_without_job(without));
    if (bus_without_left_out(without) > 0) {
        fprintf(out, "  %" PRIu64 " slots are not shown: there are too many\n",
                bus_without_left_out(without));
    }
}

void without_json_print(FILE *out, const struct bus_without *without, const char *party)
{
    const struct bus_without_job *job = bus_without_job(without);
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "row", "without");
    cli_json_text(line, "party", party);
    cli_json_text(line, "outlook", bus_without_outlook_name(job->outlook));
    cli_json_number(line, "present", job->present);
    cli_json_number(line, "min", job->min);
    cli_json_number(line, "window_ms", (int64_t)job->window_ms);
    cli_json_number(line, "attempts_left", job->attempts_left);
    cli_json_number(line, "left_out", (int64_t)bus_without_left_out(without));
    cli_json_print(&line, out);
    for (size_t i = 0; i < bus_without_count(without); i++) {
        const struct bus_without_row *row = bus_without_at(without, i);
        line = cli_json_new();
        cli_json_text(line, "row", bus_without_kind_name(row->kind));
        cli_json_text(line, "name", row->name);
        if (row->kind <= BUS_WITHOUT_REPLACED) {
            cli_json_number(line, "seq", (int64_t)row->seq);
        }
        cli_json_number(line, "count", (int64_t)row->count);
        cli_json_print(&line, out);
    }
}

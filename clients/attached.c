/* SPDX-License-Identifier: MPL-2.0 */
/* attached.c -- see attached.h.
 *
 * An error lists its attachments; the broker knows how much of each is there.  If the broker does
 * not answer in time, only the list of the error is shown. */
#include "clients/attached.h"

#include <bus/report.h>
#include <bus/seal.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most of one error.  An error can list fewer, but any party may add attachments. */
#define ATTACHED_MAX 64

struct attached {
    char name[BUS_NAME_BYTES_MAX + 1];
    int64_t bytes;   /* -1: not known */
    int64_t arrived; /* the same */
    enum bus_attachment_state state;
};
struct attached_list {
    struct attached items[ATTACHED_MAX];
    size_t count;
};

static void keep(struct attached_list *list, const struct bus_attachment *attachment)
{
    struct attached *item = &list->items[list->count++];
    (void)snprintf(item->name, sizeof item->name, "%s", attachment->name); /* it has room */
    item->state = attachment->state;
    item->bytes = attachment->bytes;
    item->arrived = attachment->arrived;
}

static bool has(const struct attached_list *list, const char *name)
{
    size_t at = 0;
    while (at < list->count && strcmp(list->items[at].name, name) != 0) {
        at++;
    }
    return at < list->count;
}

/* The broker has an attachment that is sealed under its number.  An error that was opened knows its
 * name and its size. */
static void name_opened(const struct bus_error *error, struct attached *item)
{
    unsigned number = 0;
    int64_t bytes = -1;
    if (bus_error_sealed_bytes(error) == 0 || sscanf(item->name, "sealed.%u", &number) != 1 ||
        number == 0) {
        return;
    }
    const char *name = bus_error_attachment_at(error, number - 1, &bytes);
    if (name == NULL || strcmp(name, item->name) == 0) {
        return;
    }
    (void)snprintf(item->name, sizeof item->name, "%s", name); /* it has room */
    item->bytes = bytes;
    if (item->state == BUS_ATTACHMENT_WHOLE && bytes >= 0) {
        item->arrived = bytes;
    }
}

/* Keeps what the broker has; nothing, if it does not answer in time. */
static void keep_known(const struct cli *cli, const struct bus_error *error,
                       struct attached_list *list)
{
    struct bus_admin *admin = NULL;
    struct bus_attachments *known = NULL;
    enum bus_err err = bus_admin_open(cli->server, NULL, cli_open_ms(cli), &admin, NULL);
    if (err == BUS_OK) {
        err = bus_admin_attachment_list(admin, cli->job, bus_error_id(error), cli_open_ms(cli),
                                        &known, NULL);
    }
    for (size_t i = 0; err == BUS_OK && i < bus_attachments_count(known) && i < ATTACHED_MAX; i++) {
        keep(list, bus_attachments_at(known, i));
        name_opened(error, &list->items[list->count - 1]);
    }
    bus_attachments_free(&known);
    bus_admin_close(&admin);
}

/* Lists the attachments that the broker has, then those that only the error lists. */
static void ask(const struct cli *cli, const struct bus_error *error, struct attached_list *list)
{
    struct bus_attachment listed = {.state = BUS_ATTACHMENT_UNKNOWN, .arrived = -1};
    list->count = 0;
    if (bus_error_attachment_at(error, 0, NULL) == NULL) {
        return;
    }
    keep_known(cli, error, list);
    for (size_t i = 0; list->count < ATTACHED_MAX; i++) {
        listed.name = bus_error_attachment_at(error, i, &listed.bytes);
        if (listed.name == NULL) {
            return;
        }
        if (!has(list, listed.name)) {
            keep(list, &listed);
        }
    }
}

static const char *words_of(enum bus_attachment_state state)
{
    static const char *const words[] = {
        [BUS_ATTACHMENT_COMING] = "it is still being sent",
        [BUS_ATTACHMENT_AWAY] = "its sender is not connected at the moment",
        [BUS_ATTACHMENT_WHOLE] = "whole",
        [BUS_ATTACHMENT_CUT] = "cut: its sender is gone, and the rest is lost",
        [BUS_ATTACHMENT_FULL] =
            "cut: the job's room for attachments is used up, and the rest is lost",
        [BUS_ATTACHMENT_DROPPED] = "dropped: the broker made room for newer ones",
    };
    bool is_known = (size_t)state < sizeof words / sizeof words[0] && words[state] != NULL;
    return is_known ? words[state] : "the broker has no word of it";
}

/* "attachment    stderr: 65536 of 100000 bytes, cut: ...". */
void attached_print(const struct cli *cli, const struct bus_error *error)
{
    struct attached_list list;
    ask(cli, error, &list);
    for (size_t i = 0; i < list.count; i++) {
        const struct attached *item = &list.items[i];
        printf("%-13s ", "attachment");
        cli_print_text(stdout, item->name, "");
        printf(":");
        if (item->arrived >= 0) {
            printf(" %" PRId64, item->arrived);
        }
        if (item->bytes >= 0 && item->bytes != item->arrived) {
            printf("%s %" PRId64, item->arrived >= 0 ? " of" : "", item->bytes);
        }
        printf("%s%s\n", item->arrived >= 0 || item->bytes >= 0 ? " bytes, " : " ",
               words_of(item->state));
    }
}

void attached_json(const struct cli *cli, const struct bus_error *error, struct cli_json *object)
{
    struct attached_list list;
    ask(cli, error, &list);
    if (list.count == 0) {
        return;
    }
    struct cli_json *array = cli_json_array(object, "attachments");
    for (size_t i = 0; i < list.count; i++) {
        struct cli_json *one = cli_json_append(array);
        cli_json_text(one, "name", list.items[i].name);
        if (list.items[i].bytes >= 0) {
            cli_json_number(one, "bytes", list.items[i].bytes);
        }
        if (list.items[i].arrived >= 0) {
            cli_json_number(one, "arrived", list.items[i].arrived);
        }
        cli_json_text(one, "state", bus_attachment_state_name(list.items[i].state));
    }
}

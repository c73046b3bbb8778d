/* SPDX-License-Identifier: MPL-2.0 */
/* attachment_open.c -- an attachment that was brought sealed, fetched and opened piece by piece. */
#include "libbus/api/error.h"
#include "libbus/api/error_open.h"
#include "libbus/api/model.h"
#include "libbus/api/opener.h"

#include <bus/seal.h>
#include <stdlib.h>
#include <string.h>

/* The number of the attachment of this name; false: the trace lists none. */
static bool find_name(const struct sealed_trace *trace, const char *name, uint32_t *out_number)
{
    struct error_attached attached;
    struct span list = trace->attachments;
    for (*out_number = 0; error_attached_next(&list, &attached); *out_number += 1)
        if (span_equal(attached.name, span_text(name)))
            return true;
    return false;
}

static int collect(const void *bytes, size_t count, void *arg)
{
    return opener_add(arg, bytes, count) ? 0 : 1;
}

static enum bus_err fetch(struct opener *opener, struct bus_admin *admin, const char *job,
                          const struct bus_error *error, const char *name, int64_t timeout_ms,
                          struct bus_error **reterr)
{
    char sealed[SEALED_NAME_BYTES];
    struct bus_error *why = NULL;
    sealed_name(opener->next.attachment, sealed);
    enum bus_err err = bus_admin_attachment_fetch(admin, job, bus_error_id(error), sealed,
                                                  timeout_ms, collect, opener, &why);
    bool is_well = err == BUS_OK ? opener_end(opener) : opener->wrong == NULL;
    if (!is_well) {
        bus_error_unref(&why);
        return error_say(reterr, BUS_EPROTO, ERROR_TYPE_NOT_OPENED,
                         "attachment '%.250s' of '%.600s' does not open: %s", name,
                         bus_error_id(error), opener->wrong);
    }
    if (err == BUS_OK && opener->is_enough)
        return error_say(reterr, BUS_ECLOSED, ERROR_TYPE_CLOSED,
                         "the receiving function asked to stop");
    return err == BUS_OK ? BUS_OK : error_give(reterr, err, why);
}

enum bus_err bus_admin_attachment_open(struct bus_admin *admin, const char *job,
                                       const struct bus_error *error, const char *name,
                                       const char *path, int64_t timeout_ms,
                                       bus_attachment_fn *take, void *arg,
                                       struct bus_error **reterr)
{
    uint8_t room[SEALED_TRACE_BYTES_MAX];
    struct sealed_trace trace;
    if (admin == NULL || error == NULL || name == NULL || path == NULL || take == NULL)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_admin_attachment_open() needs a handle, an error, the name of an "
                         "attachment, the path of a key file, and a function");
    struct opener *opener = calloc(1, sizeof *opener);
    if (opener == NULL)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    opener->take = take;
    opener->arg = arg;
    enum bus_err err = error_open_trace(error, path, room, &trace, &opener->pair, reterr);
    if (err == BUS_OK && !find_name(&trace, name, &opener->next.attachment))
        err = error_say(reterr, BUS_EINVAL, ERROR_TYPE_NOT_KEPT,
                        "'%.600s' has no sealed attachment '%.250s'", bus_error_id(error), name);
    if (err == BUS_OK) {
        memcpy(opener->next.label, trace.label.data, sizeof opener->next.label);
        err = fetch(opener, admin, job, error, name, timeout_ms, reterr);
    }
    explicit_bzero(room, sizeof room);
    explicit_bzero(opener, sizeof *opener);
    free(opener);
    return err;
}

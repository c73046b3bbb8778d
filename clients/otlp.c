/* SPDX-License-Identifier: MPL-2.0 */
/* otlp.c -- see otlp.h.
 *
 * The form is that of the OTLP file exporter: one LogsData a line, in proto3 JSON.  A 64-bit number
 * is a string, and a trace id is hexadecimal.  Names of attributes are those of OpenTelemetry's
 * semantic conventions; what these have no name for begins with "errbus.". */
#include "clients/otlp.h"

#include "clients/cli.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* SeverityNumber of the protocol. */
enum { SEVERITY_ERROR = 17, SEVERITY_FATAL = 21 };
enum { NUMBER_BYTES = 24 };

static void put_int64(struct cli_json *object, const char *key, int64_t number)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRId64, number);
    cli_json_text(object, key, text);
}

/* An AnyValue under a key, at the end of attributes. */
static struct cli_json *add_value(struct cli_json *attributes, const char *key)
{
    struct cli_json *attribute = cli_json_append(attributes);
    cli_json_text(attribute, "key", key);
    return cli_json_object(attribute, "value");
}

/* Nothing where the text is empty. */
static void add_text(struct cli_json *attributes, const char *key, const char *text)
{
    if (text[0] != '\0') {
        cli_json_text(add_value(attributes, key), "stringValue", text);
    }
}

static void add_number(struct cli_json *attributes, const char *key, int64_t number)
{
    put_int64(add_value(attributes, key), "intValue", number);
}

/* Which program failed, as far as it is known. */
static void put_resource(struct cli_json *resource, const struct bus_event *event,
                         const struct bus_error *error)
{
    struct cli_json *attributes = cli_json_array(resource, "attributes");
    const char *party = bus_error_party(error);
    const char *service = party[0] != '\0' ? party : "errbusd";
    add_text(attributes, "service.namespace", bus_event_job(event));
    add_text(attributes, "service.name", service);
    add_text(attributes, "host.name", bus_error_host(error));
    if (bus_error_pid(error) > 0) {
        add_number(attributes, "process.pid", bus_error_pid(error));
    }
}

static void add_slot(struct cli_json *attributes, const struct bus_error *error)
{
    uint64_t seq = 0;
    const char *topic = bus_error_topic(error, &seq);
    if (topic == NULL || topic[0] == '\0') {
        return;
    }
    add_text(attributes, "errbus.topic", topic);
    add_number(attributes, "errbus.seq", (int64_t)seq);
}

/* A root that a party claims is not told: who reads records takes attributes for facts. */
static void add_root(struct cli_json *attributes, const struct bus_error *error)
{
    const struct bus_error *root = bus_error_root(error);
    if (root == NULL || root == error || bus_error_claimed_by(root)[0] != '\0') {
        return;
    }
    add_text(attributes, "errbus.root.id", bus_error_id(root));
    add_text(attributes, "errbus.root.party", bus_error_party(root));
    add_text(attributes, "errbus.root.type", bus_error_type(root));
    add_text(attributes, "errbus.root.message", bus_error_message(root));
}

static void put_attributes(struct cli_json *record, const struct bus_event *event,
                           const struct bus_error *error)
{
    struct cli_json *attributes = cli_json_array(record, "attributes");
    add_text(attributes, "event.name", bus_event_name(event));
    add_text(attributes, "exception.type", bus_error_type(error));
    add_text(attributes, "exception.message", bus_error_message(error));
    add_text(attributes, "exception.stacktrace", bus_error_stacktrace(error));
    add_text(attributes, "errbus.error.id", bus_error_id(error));
    add_text(attributes, "errbus.error.kind", bus_error_kind(error));
    add_number(attributes, "errbus.event.id", (int64_t)bus_event_id(event));
    if (bus_error_party(error)[0] != '\0') {
        add_number(attributes, "errbus.incarnation", bus_error_incarnation(error));
    }
    if (bus_event_count(event) > 1)
        add_number(attributes, "errbus.count", (int64_t)bus_event_count(event));
    add_slot(attributes, error);
    add_root(attributes, error);
}

static bool is_final(const struct bus_event *event)
{
    return strcmp(bus_event_name(event), "verdict.final") == 0;
}

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void put_record(struct cli_json *record, const struct bus_event *event,
                       const struct bus_error *error)
{
    int64_t occurred_ns = bus_error_occurred_ns(error);
    put_int64(record, "timeUnixNano", occurred_ns > 0 ? occurred_ns : bus_event_at_ns(event));
    put_int64(record, "observedTimeUnixNano", wall_ns());
    cli_json_number(record, "severityNumber", is_final(event) ? SEVERITY_FATAL : SEVERITY_ERROR);
    cli_json_text(record, "severityText", is_final(event) ? "FATAL" : "ERROR");
    cli_json_text(cli_json_object(record, "body"), "stringValue", bus_error_message(error));
    put_attributes(record, event, error);
    if (bus_error_trace_id(error)[0] != '\0') {
        cli_json_text(record, "traceId", bus_error_trace_id(error));
    }
}

bool otlp_write(FILE *file, const struct bus_event *event)
{
    const struct bus_error *error = bus_event_error(event);
    if (error == NULL) {
        return true;
    }
    struct cli_json *line = cli_json_new();
    struct cli_json *source = cli_json_append(cli_json_array(line, "resourceLogs"));
    put_resource(cli_json_object(source, "resource"), event, error);
    struct cli_json *scoped = cli_json_append(cli_json_array(source, "scopeLogs"));
    struct cli_json *scope = cli_json_object(scoped, "scope");
    cli_json_text(scope, "name", "errbus");
    cli_json_text(scope, "version", bus_version());
    put_record(cli_json_append(cli_json_array(scoped, "logRecords")), event, error);
    return cli_json_print(&line, file) && fflush(file) == 0;
}

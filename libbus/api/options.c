/* SPDX-License-Identifier: MPL-2.0 */
/* options.c -- option structs that can grow, their defaults, and what is let in. */
#include "libbus/api/options.h"

#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"
#include "libbus/base/traceparent.h"
#include "libbus/io/seal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1024 * 1024 };

/* ---- growing structs ------------------------------------------------------------------------- */

/* Every option struct begins with its size, set by its init call. */
bool options_take(void *known, size_t known_bytes, const void *given, size_t given_bytes)
{
    const unsigned char *bytes = given;
    if (given_bytes < sizeof(size_t))
        return false;
    for (size_t at = known_bytes; at < given_bytes; at++) {
        if (bytes[at] != 0)
            return false;
    }
    memcpy(known, given, given_bytes < known_bytes ? given_bytes : known_bytes);
    return true;
}

void options_give(void *options, size_t bytes, const void *defaults, size_t default_bytes)
{
    if (options == NULL || bytes < sizeof(size_t))
        return;
    memset(options, 0, bytes);
    memcpy(options, defaults, bytes < default_bytes ? bytes : default_bytes);
    memcpy(options, &bytes, sizeof bytes);
}

static const struct bus_options bus_defaults = {
    .struct_bytes = sizeof(struct bus_options),
    .heartbeat_ms = 1000,
    .lost_after_ms = 10000,
    .reconnect_grace_ms = 1000,
    .broker_lost_ms = 30000,
    .outbox_bytes_max = (size_t)64 * MIB,
    .send_timeout_ms = 30000,
    .inbox_bytes_max = (size_t)64 * MIB,
};

void bus_options_init_sized(struct bus_options *options, size_t bytes)
{
    options_give(options, bytes, &bus_defaults, sizeof bus_defaults);
}

void bus_slot_options_init_sized(struct bus_slot_options *options, size_t bytes)
{
    const struct bus_slot_options defaults = {.seq = BUS_NEXT, .deadline_ms = BUS_FOREVER};
    options_give(options, bytes, &defaults, sizeof defaults);
}

void bus_sub_options_init_sized(struct bus_sub_options *options, size_t bytes)
{
    const struct bus_sub_options defaults = {.from_seq = 0};
    options_give(options, bytes, &defaults, sizeof defaults);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Explicit beats environment beats default. */
static const char *chosen(const char *given, const char *variable, const char *otherwise)
{
    if (given != NULL)
        return given;
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : otherwise;
}

enum bus_err options_job(const char *given, char job[LIMIT_NAME_BYTES + 1],
                         struct bus_error **reterr)
{
    struct span name = span_text(chosen(given, "ERRBUS_JOB", "default"));
    if (!party_is_valid(name))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NAME,
                         "'%.250s' is not a job's name: expected UTF-8 of 1 to %d bytes, without "
                         "'/', '+', '#' and control characters",
                         (const char *)name.data, LIMIT_NAME_BYTES);
    memcpy(job, name.data, name.bytes);
    job[name.bytes] = '\0';
    return BUS_OK;
}

/* Makes "<host>-<pid>".  Of the host it takes what may stand in a party's name. */
static void make_party(char out[LIMIT_NAME_BYTES + 1])
{
    char host[LIMIT_NAME_BYTES - 20] = "";
    if (gethostname(host, sizeof host - 1) != 0 || *host == '\0')
        memcpy(host, "host", sizeof "host");
    for (char *at = host; *at != '\0'; at++) {
        if (*at < 0x21 || *at == 0x7f || strchr("/+#", *at) != NULL)
            *at = '-';
    }
    snprintf(out, LIMIT_NAME_BYTES + 1, "%s-%ld", host, (long)getpid());
}

static enum bus_err options_party(const char *given, char party[LIMIT_NAME_BYTES + 1],
                                  struct bus_error **reterr)
{
    const char *name = chosen(given, "ERRBUS_PARTY", NULL);
    if (name == NULL) {
        make_party(party);
        return BUS_OK;
    }
    if (!party_is_valid(span_text(name)))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NAME,
                         "'%.250s' is not a party's name: expected UTF-8 of 1 to %d bytes, without "
                         "'/', '+', '#' and control characters",
                         name, LIMIT_NAME_BYTES);
    memcpy(party, name, strlen(name) + 1);
    return BUS_OK;
}

/* ---- tokens ------------------------------------------------------------------------------- */

static bool is_of_environment(const char *name, const char *variable, const char *otherwise)
{
    return strcmp(name, chosen(NULL, variable, otherwise)) == 0;
}

/* Reads a token exactly as bus_token() gives it. */
static bool read_token(const char *text, uint64_t *out_token)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t token = 0;
    if (strlen(text) != API_TOKEN_BYTES || strspn(text, digits) != API_TOKEN_BYTES)
        return false;
    for (; *text != '\0'; text++)
        token = token * 16 + (uint64_t)(strchr(digits, *text) - digits);
    *out_token = token;
    return token != 0;
}

enum bus_err options_token(const struct bus_options *options, uint64_t *out_token,
                           struct bus_error **reterr)
{
    const char *text = options->token;
    *out_token = 0;
    if (text == NULL && !options->is_guard &&
        is_of_environment(options->job, "ERRBUS_JOB", "default") &&
        is_of_environment(options->party, "ERRBUS_PARTY", ""))
        text = chosen(NULL, "ERRBUS_TOKEN", NULL);
    if (text == NULL || *text == '\0')
        return BUS_OK;
    if (options->is_guard)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "is_guard and token exclude each other: a guard opens the party, its "
                         "program uses the token");
    if (!read_token(text, out_token))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the token does not have the form that bus_token() gives");
    return BUS_OK;
}

/* ---- disclosure ------------------------------------------------------------------------------ */

/* Whoever runs the program chooses the disclosure, by the environment.  The program may only choose
 * a stricter one. */
static enum bus_err options_disclosure(struct bus_options *options, struct bus_error **reterr)
{
    if (options->disclosure < 0 || options->disclosure > BUS_DISCLOSURE_NONE)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "disclosure is %d: it must be 0 or a value of enum bus_disclosure",
                         options->disclosure);
    const char *otherwise = bus_disclosure_name(options->disclosure != 0 ? BUS_DISCLOSURE_FULL
                                                                         : BUS_DISCLOSURE_MESSAGE);
    const char *chosen_name = chosen(NULL, "ERRBUS_DISCLOSURE", otherwise);
    int level = BUS_DISCLOSURE_FULL;
    while (level <= BUS_DISCLOSURE_NONE &&
           strcmp(chosen_name, bus_disclosure_name((enum bus_disclosure)level)) != 0)
        level += 1;
    if (level > options->disclosure)
        options->disclosure = level;
    if (level > BUS_DISCLOSURE_NONE)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "ERRBUS_DISCLOSURE is '%.50s': it must be full, message, type or none",
                         chosen_name);
    return BUS_OK;
}

/* ---- auditors -------------------------------------------------------------------------------- */

enum bus_err options_auditor(const char *text, uint8_t out_key[KEY_BYTES], bool *out_has_key,
                             struct bus_error **reterr)
{
    *out_has_key = text != NULL && *text != '\0';
    if (!*out_has_key)
        return BUS_OK;
    switch (key_text_read(span_text(text), KEY_PUBLIC, out_key)) {
    case KEY_OK: return BUS_OK;
    case KEY_OTHER_KIND:
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the auditor is given by a secret key: give its public half, which "
                         "'errbus key show' prints, and make a new key if others saw this one");
    case KEY_MISTYPED:
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the key of the auditor '%.100s' has a wrong character: copy it again",
                         text);
    case KEY_FOREIGN: break;
    }
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                     "'%.100s' is not the key of an auditor: expected ebp_ and 56 characters, as "
                     "'errbus key new' prints it",
                     text);
}

/* Whoever runs the program, and the program itself, may name the auditor, but not two of them. */
static enum bus_err options_own_auditor(struct bus_options *options, struct bus_error **reterr)
{
    uint8_t key[KEY_BYTES];
    bool has_key = false;
    const char *run = chosen(NULL, "ERRBUS_AUDITOR", "");
    const char *own =
        options->auditor != NULL && *options->auditor != '\0' ? options->auditor : run;
    if (*run != '\0' && strcmp(own, run) != 0)
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "the program names the auditor %.100s, and ERRBUS_AUDITOR names %.100s: "
                         "take one of them away",
                         own, run);
    options->auditor = own;
    enum bus_err err = options_auditor(own, key, &has_key, reterr);
    if (err == BUS_OK && has_key && !seal_is_there())
        err = error_say(reterr, BUS_EDENIED, ERROR_TYPE_CANNOT_SEAL,
                        "traces are to be sealed to an auditor, and libbus was built without "
                        "libsodium: install libsodium-dev and build it again");
    return err;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static enum bus_err options_run(struct bus_options *options, struct bus_error **reterr)
{
    const char *run = chosen(options->run, "ERRBUS_RUN", "");
    if (*run != '\0' && !name_is_valid(span_text(run)))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_NAME,
                         "'%.250s' is not a run's name: expected UTF-8 of 1 to %d bytes, without "
                         "control characters",
                         run, LIMIT_NAME_BYTES);
    options->run = run;
    return BUS_OK;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* W3C Trace Context wants a wrong one of the environment passed over. */
enum bus_err options_traceparent(const char *given, uint8_t out_id[LIMIT_TRACE_ID_BYTES],
                                 bool *out_has_id, struct bus_error **reterr)
{
    const char *text = chosen(given, "TRACEPARENT", "");
    *out_has_id = traceparent_read(text, out_id);
    if (*out_has_id || given == NULL || *given == '\0')
        return BUS_OK;
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                     "traceparent is '%.100s': expected 00-TRACE-PARENT-FLAGS with 32, 16 and 2 "
                     "digits 0-9 and a-f, as W3C Trace Context has it",
                     given);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static enum bus_err outside(struct bus_error **reterr, const char *option, int64_t value,
                            int64_t least, int64_t most)
{
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                     "%s is %" PRId64 ": it must be from %" PRId64 " to %" PRId64, option, value,
                     least, most);
}

enum bus_err options_periods(const struct bus_options *options, struct bus_error **reterr)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t least;
        int64_t most;
    } periods[] = {
        {"heartbeat_ms", options->heartbeat_ms, LIMIT_HEARTBEAT_MS_MIN, LIMIT_PERIOD_MS_MAX / 3},
        {"lost_after_ms", options->lost_after_ms, 3 * options->heartbeat_ms, LIMIT_PERIOD_MS_MAX},
        {"reconnect_grace_ms", options->reconnect_grace_ms, 0, LIMIT_PERIOD_MS_MAX},
        {"broker_lost_ms", options->broker_lost_ms, 1, LIMIT_PERIOD_MS_MAX},
        {"send_timeout_ms", options->send_timeout_ms, BUS_SLICE_LIMITED, INT64_MAX},
        {"failure_signal", options->failure_signal, 0, SIGRTMAX},
        {"is_guard", options->is_guard, 0, 1},
        {"run_rule", options->run_rule, BUS_RUN_AS_FOUND, BUS_RUN_NEXT},
    };
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        if (periods[i].value < periods[i].least || periods[i].value > periods[i].most)
            return outside(reterr, periods[i].name, periods[i].value, periods[i].least,
                           periods[i].most);
    }
    return BUS_OK;
}

enum bus_err options_of_bus(const struct bus_options *given, struct bus_options *out_options,
                            char job[LIMIT_NAME_BYTES + 1], char party[LIMIT_NAME_BYTES + 1],
                            struct bus_error **reterr)
{
    struct bus_options options = bus_defaults;
    uint8_t trace_id[LIMIT_TRACE_ID_BYTES];
    bool has_trace = false;
    if (given != NULL && !options_take(&options, sizeof options, given, given->struct_bytes))
        return error_say(
            reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
            "the options are not initialised, or were made for a newer library than %s",
            bus_version());
    enum bus_err err = options_job(options.job, job, reterr);
    if (err == BUS_OK)
        err = options_party(options.party, party, reterr);
    if (err == BUS_OK)
        err = options_periods(&options, reterr);
    if (err == BUS_OK)
        err = options_disclosure(&options, reterr);
    if (err == BUS_OK)
        err = options_own_auditor(&options, reterr);
    if (err == BUS_OK)
        err = options_traceparent(options.traceparent, trace_id, &has_trace, reterr);
    if (err == BUS_OK)
        err = options_run(&options, reterr);
    if (err == BUS_OK && (options.outbox_bytes_max == 0 || options.inbox_bytes_max == 0))
        err = error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                        "outbox_bytes_max and inbox_bytes_max must not be 0");
    if (err != BUS_OK)
        return err;
    options.job = job;
    options.party = party;
    *out_options = options;
    return BUS_OK;
}

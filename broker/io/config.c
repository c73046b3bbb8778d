/* SPDX-License-Identifier: MPL-2.0 */
/* config.c -- what errbusd was told; see config.h.
 *
 * zconfig reads the file, but knows no line numbers and complains on standard output.  So the lines
 * are looked at first: what has the wrong form is refused here, and the numbers of the lines with
 * keys are kept in the order in which zconfig lists the keys. */
#include "broker/io/config.h"

#include "broker/io/durability.h"
#include "broker/io/endpoint.h"
#include "libbus/base/must.h"

#include <czmq.h>
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger sizes than this are typing errors, and refused. */
#define CONFIG_BYTES_MAX (UINT64_C(1) << 44)
enum { NUMBER_BYTES = 32, LINES_MAX = 1024, LETTER_NONE = 0, LETTER_LONG_ONLY = 256 };

enum kind {
    KIND_TEXT,     /* this and the next four: char[CONFIG_TEXT_BYTES] */
    KIND_ENDPOINT, /* where to listen */
    KIND_PLACE,    /* what clients are told: an endpoint or a host */
    KIND_LEVEL,    /* of durability */
    KIND_FORM,     /* of the log */
    KIND_BYTES,    /* uint64_t, with K, M, G */
    KIND_NUMBER,   /* uint64_t */
    KIND_COUNT,    /* uint32_t */
    KIND_TIME,     /* int64_t, in ms, with a unit */
    KIND_YES,      /* bool; on the command line without a value */
};

struct key {
    const char *name;
    enum kind kind;
    char letter; /* on the command line, or 0 */
    size_t offset;
    uint64_t least, most;
    const char *usual;    /* the default; NULL: none */
    const char *argument; /* for --help */
    const char *what;     /* NULL: not shown */
};

static const struct key keys[] = {
#define OPTION(name, letter, kind, member, least, most, usual, argument, what)                     \
    {name,  KIND_##kind, letter, offsetof(struct config, member), least, most,                     \
     usual, argument,    what},
#include "broker/io/options.def"
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

static const struct {
    const char *suffix;
    uint64_t factor;
} units[2][8] = {
    {{"", 1},
     {"K", 1 << 10},
     {"KiB", 1 << 10},
     {"M", 1 << 20},
     {"MiB", 1 << 20},
     {"G", 1 << 30},
     {"GiB", 1 << 30},
     {NULL, 0}},
    {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {NULL, 0}},
};

/* ---- one value ------------------------------------------------------------------------------- */

/* Digits, and a unit where the kind has them. */
static bool read_number(const char *text, enum kind kind, uint64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0)
        return false;
    if (*end == '\0' && (kind != KIND_TIME || number == 0)) {
        *out_number = number;
        return true;
    }
    if (kind != KIND_BYTES && kind != KIND_TIME)
        return false;
    for (size_t i = 0; units[kind == KIND_TIME][i].suffix != NULL; i++) {
        uint64_t factor = units[kind == KIND_TIME][i].factor;
        if (strcmp(end, units[kind == KIND_TIME][i].suffix) == 0 && number <= UINT64_MAX / factor) {
            *out_number = number * factor;
            return true;
        }
    }
    return false;
}

/* In the largest unit that leaves no rest. */
static void write_number(enum kind kind, uint64_t number, char *text, size_t room)
{
    static const char *const shown[2] = {"K M G", "ms s min h"};
    const char *suffix = kind == KIND_TIME && number > 0 ? "ms" : "";
    uint64_t factor = 1;
    for (size_t i = 0; units[kind == KIND_TIME][i].suffix != NULL && number > 0; i++) {
        bool is_shown =
            strstr(shown[kind == KIND_TIME], units[kind == KIND_TIME][i].suffix) != NULL;
        bool fits = number % units[kind == KIND_TIME][i].factor == 0;
        if ((kind == KIND_BYTES || kind == KIND_TIME) && is_shown && fits &&
            units[kind == KIND_TIME][i].factor >= factor) {
            factor = units[kind == KIND_TIME][i].factor;
            suffix = units[kind == KIND_TIME][i].suffix;
        }
    }
    snprintf(text, room, "%llu%s", (unsigned long long)(number / factor), suffix);
}

static const char *kind_form(enum kind kind)
{
    switch (kind) {
    case KIND_TEXT:
    case KIND_ENDPOINT:
    case KIND_PLACE: return "some text";
    case KIND_LEVEL: return "memory, process, disk or shared";
    case KIND_FORM: return "text or json";
    case KIND_BYTES: return "a number of bytes such as 4096, 64K, 512M or 4G";
    case KIND_NUMBER:
    case KIND_COUNT: return "a number";
    case KIND_TIME: return "a time such as 500ms, 30s, 10min or 2h";
    case KIND_YES: return "yes or no";
    }
    return "something else";
}

/* What is wrong with a text, or NULL. */
static const char *text_fault(enum kind kind, const char *value)
{
    if (kind == KIND_ENDPOINT)
        return endpoint_fault(value);
    if (kind == KIND_PLACE)
        return endpoint_advertise_fault(value);
    if (kind == KIND_FORM)
        return strcmp(value, "text") == 0 || strcmp(value, "json") == 0 ? NULL
                                                                        : "expected text or json";
    bool is_fault = kind == KIND_LEVEL && durability_named(value) == DURABILITY_COUNT;
    return is_fault ? "expected memory, process, disk or shared" : NULL;
}

static bool set_text(const struct key *key, char *place, const char *value, char *complaint)
{
    size_t bytes = strlen(value);
    if (bytes == 0 || bytes >= CONFIG_TEXT_BYTES) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%s: takes 1 to %d bytes, not %zu", key->name,
                 CONFIG_TEXT_BYTES - 1, bytes);
        return false;
    }
    const char *fault = text_fault(key->kind, value);
    if (fault != NULL) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%s: '%.200s': %s", key->name, value, fault);
        return false;
    }
    memcpy(place, value, bytes + 1);
    return true;
}

static bool config_set_number(const struct key *key, void *place, uint64_t number, char *complaint)
{
    if (number < key->least || number > key->most) {
        char texts[3][NUMBER_BYTES];
        write_number(key->kind, number, texts[0], sizeof texts[0]);
        write_number(key->kind, key->least, texts[1], sizeof texts[1]);
        write_number(key->kind, key->most, texts[2], sizeof texts[2]);
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%s: %s is not between %s and %s", key->name,
                 texts[0], texts[1], texts[2]);
        return false;
    }
    switch (key->kind) {
    case KIND_TEXT:
    case KIND_ENDPOINT:
    case KIND_PLACE:
    case KIND_LEVEL:
    case KIND_FORM: break;
    case KIND_BYTES:
    case KIND_NUMBER: *(uint64_t *)place = number; break;
    case KIND_COUNT: *(uint32_t *)place = (uint32_t)number; break;
    case KIND_TIME: *(int64_t *)place = (int64_t)number; break;
    case KIND_YES: *(bool *)place = number != 0; break;
    }
    return true;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

bool config_set(struct config *config, const char *name, const char *value,
                char complaint[CONFIG_COMPLAINT_BYTES])
{
    const struct key *key = find_key(name);
    if (key == NULL) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "unknown key '%.100s': --help lists the keys",
                 name);
        return false;
    }
    char *place = (char *)config + key->offset;
    uint64_t number = 0;
    if (key->kind <= KIND_FORM)
        return set_text(key, place, value, complaint);
    bool is_read = false;
    if (key->kind != KIND_YES) {
        is_read = read_number(value, key->kind, &number);
    } else {
        is_read = strcmp(value, "yes") == 0 || strcmp(value, "no") == 0;
        number = value[0] == 'y';
    }
    if (!is_read) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%s: takes %s, not '%.100s'", name,
                 kind_form(key->kind), value);
        return false;
    }
    return config_set_number(key, place, number, complaint);
}

void config_init(struct config *config)
{
    char complaint[CONFIG_COMPLAINT_BYTES];
    *config = (struct config){.is_verbose = false};
    core_options_init(&config->core);
    for (size_t i = 0; i < KEY_COUNT; i++)
        must(keys[i].usual == NULL || config_set(config, keys[i].name, keys[i].usual, complaint));
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The lines of a file that have keys, without comments and blank lines. */
struct lines {
    char *text; /* of those lines, for zconfig */
    size_t bytes;
    unsigned numbers[LINES_MAX];
    size_t count;
};

/* For a file that is one byte too large; or for the largest one, where scan_lines() ends the last
 * line, and then the text. */
enum { TEXT_ROOM = CONFIG_FILE_BYTES_MAX + 2 };

/* A configuration is text, and not a large one. */
static bool is_plain(const char *text, size_t bytes, const char *path, char *complaint)
{
    const char *nul = memchr(text, '\0', bytes);
    unsigned line = 1;
    if (bytes > CONFIG_FILE_BYTES_MAX) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                 "%.200s: larger than %d bytes: not a configuration of errbusd", path,
                 CONFIG_FILE_BYTES_MAX);
        return false;
    }
    for (const char *at = text; nul != NULL && at < nul; at++)
        line += *at == '\n';
    if (nul != NULL)
        snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                 "%.200s:%u: a NUL byte: a configuration is plain text in UTF-8 or ASCII", path,
                 line);
    return nul == NULL;
}

static bool read_text(const char *path, char **out_text, char *complaint)
{
    bool is_read = false;
    size_t bytes = 0;
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file != NULL && (text = calloc(1, TEXT_ROOM)) != NULL) {
        bytes = fread(text, 1, CONFIG_FILE_BYTES_MAX + 1, file);
        is_read = !ferror(file);
    }
    if (!is_read)
        snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                 "cannot read the configuration file '%.200s': %s", path, strerror(errno));
    is_read = is_read && is_plain(text, bytes, path, complaint);
    if (file != NULL)
        fclose(file);
    if (is_read)
        *out_text = text;
    else
        free(text);
    return is_read;
}

/* What is wrong with the form of a line that has a key, or NULL.  NAME = VALUE, where VALUE may be
 * quoted, with a comment behind it. */
static const char *line_fault(const char *line)
{
    static const char form[] = "not of the form NAME = VALUE (or # before a comment)";
    if (line[0] == ' ' || line[0] == '\t')
        return "a key stands at the beginning of its line: remove the blanks before it";
    const char *at = line + strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789-_./");
    if (at == line)
        return form;
    at += strspn(at, " \t");
    if (*at != '=')
        return form;
    at += 1 + strspn(at + 1, " \t");
    if (*at != '"' && *at != '\'')
        return NULL;
    const char *close = strchr(at + 1, *at);
    if (close == NULL)
        return "the quote is not closed: add one behind the value";
    close += 1 + strspn(close + 1, " \t");
    return *close == '\0' || *close == '#' ? NULL : form;
}

/* Looks at every line of text, and keeps those with keys: they are moved to its beginning. */
static bool scan_lines(char *text, const char *path, struct lines *lines, char *complaint)
{
    *lines = (struct lines){.text = text};
    unsigned number = 0;
    char *next = text;
    while (*next != '\0') {
        char *line = next;
        size_t bytes = strcspn(line, "\n");
        next = line + bytes + (line[bytes] != '\0');
        number += 1;
        line[bytes] = '\0';
        if (bytes > 0 && line[bytes - 1] == '\r')
            line[--bytes] = '\0';
        const char *first = line + strspn(line, " \t");
        if (*first == '\0' || *first == '#')
            continue;
        const char *fault =
            lines->count < LINES_MAX ? line_fault(line) : "too many keys: give each key once";
        if (fault != NULL) {
            snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%.200s:%u: %s", path, number, fault);
            return false;
        }
        lines->numbers[lines->count++] = number;
        memmove(text + lines->bytes, line, bytes);
        lines->bytes += bytes;
        text[lines->bytes++] = '\n';
    }
    text[lines->bytes] = '\0';
    return true;
}

static bool is_given_before(zconfig_t *first, zconfig_t *item)
{
    for (zconfig_t *before = first; before != item; before = zconfig_next(before))
        if (strcmp(zconfig_name(before), zconfig_name(item)) == 0)
            return true;
    return false;
}

static bool apply_lines(struct config *config, zconfig_t *root, const struct lines *lines,
                        const char *path, char *complaint)
{
    size_t at = 0;
    char fault[CONFIG_COMPLAINT_BYTES] = "";
    zconfig_t *first = zconfig_child(root);
    for (zconfig_t *item = first; item != NULL; item = zconfig_next(item), at++) {
        const char *name = zconfig_name(item);
        const char *value = zconfig_value(item);
        bool is_set = false;
        if (is_given_before(first, item))
            snprintf(fault, sizeof fault, "%.100s is given twice: remove one of the lines", name);
        else
            is_set = config_set(config, name, value != NULL ? value : "", fault);
        if (!is_set) {
            snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%.200s:%u: %.250s", path,
                     at < lines->count ? lines->numbers[at] : 0, fault);
            return false;
        }
    }
    return true;
}

bool config_read_file(struct config *config, const char *path,
                      char complaint[CONFIG_COMPLAINT_BYTES])
{
    bool is_good = false;
    char *text = NULL;
    zconfig_t *root = NULL;
    struct lines lines;
    if (!read_text(path, &text, complaint) || !scan_lines(text, path, &lines, complaint))
        goto done;
    is_good = lines.count == 0; /* zconfig takes an empty text for a fault */
    if (is_good)
        goto done;
    root = zconfig_str_load(text);
    if (root == NULL) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                 "%.200s: not a configuration of errbusd: expected lines NAME = VALUE", path);
        goto done;
    }
    is_good = apply_lines(config, root, &lines, path, complaint);
done:
    zconfig_destroy(&root);
    free(text);
    return is_good;
}

/* ---- the command line ------------------------------------------------------------------------ */

enum { OPTION_CONFIG = KEY_COUNT, OPTION_CHECK_CONFIG, OPTION_VERSION, OPTION_HELP, OPTION_COUNT };

/* Long options have numbers from LETTER_LONG_ONLY on: first the keys, then the others. */
static void list_options(struct option options[OPTION_COUNT + 1])
{
    for (int i = 0; i < KEY_COUNT; i++)
        options[i] = (struct option){keys[i].name,
                                     keys[i].kind == KIND_YES ? no_argument : required_argument,
                                     NULL, LETTER_LONG_ONLY + i};
    options[OPTION_CONFIG] =
        (struct option){"config", required_argument, NULL, LETTER_LONG_ONLY + OPTION_CONFIG};
    options[OPTION_CHECK_CONFIG] =
        (struct option){"check-config", no_argument, NULL, LETTER_LONG_ONLY + OPTION_CHECK_CONFIG};
    options[OPTION_VERSION] =
        (struct option){"version", no_argument, NULL, LETTER_LONG_ONLY + OPTION_VERSION};
    options[OPTION_HELP] =
        (struct option){"help", no_argument, NULL, LETTER_LONG_ONLY + OPTION_HELP};
    options[OPTION_COUNT] = (struct option){NULL, 0, NULL, 0};
}

/* The next option as its place in the table of options; -1: no more; OPTION_COUNT: wrong. */
static int next_option(int argc, char **argv, const struct option *options, char *complaint)
{
    int place = OPTION_COUNT;
    int found = getopt_long(argc, argv, ":vh", options, NULL);
    switch (found) {
    case -1: place = -1; break;
    case 'h': place = OPTION_HELP; break;
    case ':':
        snprintf(complaint, CONFIG_COMPLAINT_BYTES, "%.100s takes a value: see --help",
                 argv[optind - 1]);
        break;
    case '?':
        if (optopt > 0 && optopt < LETTER_LONG_ONLY)
            snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                     "unknown option '-%c': --help lists the options", optopt);
        else
            snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                     optopt == 0 ? "unknown option '%.100s': --help lists the options"
                                 : "'%.100s': this option takes no value",
                     argv[optind - 1]);
        break;
    default:
        for (int i = 0; i < KEY_COUNT; i++)
            if (keys[i].letter != LETTER_NONE && keys[i].letter == found)
                place = i;
        if (found >= LETTER_LONG_ONLY)
            place = found - LETTER_LONG_ONLY;
        break;
    }
    return place;
}

/* One walk over the command line: first for the file alone, then for all that overrules it. */
static enum config_outcome walk_args(struct config *config, int argc, char **argv,
                                     const char **out_path, char *complaint)
{
    enum config_outcome outcome = CONFIG_RUN;
    struct option options[OPTION_COUNT + 1];
    list_options(options);
    opterr = 0;
    optind = 0; /* glibc: from the beginning, with everything forgotten */
    int place = 0;
    while ((place = next_option(argc, argv, options, complaint)) >= 0) {
        const char *value = optarg != NULL ? optarg : "yes";
        char fault[CONFIG_COMPLAINT_BYTES];
        if (place == OPTION_COUNT)
            return CONFIG_WRONG;
        if (place == OPTION_HELP)
            return CONFIG_HELP;
        if (place == OPTION_VERSION)
            return CONFIG_VERSION;
        if (place == OPTION_CHECK_CONFIG) {
            outcome = CONFIG_CHECK;
        } else if (place == OPTION_CONFIG) {
            *out_path = value;
        } else if (!config_set(config, keys[place].name, value, fault)) {
            snprintf(complaint, CONFIG_COMPLAINT_BYTES, "--%.500s", fault);
            return CONFIG_WRONG;
        }
    }
    if (optind < argc) {
        snprintf(complaint, CONFIG_COMPLAINT_BYTES,
                 "unknown argument '%.100s': errbusd takes options alone", argv[optind]);
        return CONFIG_WRONG;
    }
    return outcome;
}

enum config_outcome config_read_args(struct config *config, int argc, char **argv,
                                     char complaint[CONFIG_COMPLAINT_BYTES])
{
    const char *path = NULL;
    struct config unused = *config;
    enum config_outcome outcome = walk_args(&unused, argc, argv, &path, complaint);
    if (outcome != CONFIG_RUN && outcome != CONFIG_CHECK)
        return outcome;
    if (path != NULL && !config_read_file(config, path, complaint))
        return CONFIG_WRONG;
    return walk_args(config, argc, argv, &path, complaint);
}

static void print_option(const struct key *key)
{
    char option[64];
    char letter[8] = "";
    bool has_default = key->usual != NULL && key->kind != KIND_YES;
    if (key->letter != LETTER_NONE)
        snprintf(letter, sizeof letter, "-%c, ", key->letter);
    snprintf(option, sizeof option, "%s--%s%s%s", letter, key->name,
             key->argument != NULL ? " " : "", key->argument != NULL ? key->argument : "");
    printf("  %-34s %s%s%s%s\n", option, key->what, has_default ? " (" : "",
           has_default ? key->usual : "", has_default ? ")" : "");
}

void config_print_options(void)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (keys[i].what != NULL)
            print_option(&keys[i]);
    printf("  %-34s %s\n  %-34s %s\n  %-34s %s\n  %-34s %s\n", "--config FILE",
           "more of the same, a NAME = VALUE a line", "--check-config",
           "print the settings in force, or what is wrong, and end", "--version",
           "print the version and end", "-h, --help", "print this and end");
}

bool config_option(size_t index, struct config_option *out_option)
{
    if (index >= KEY_COUNT)
        return false;
    const struct key *key = &keys[index];
    *out_option = (struct config_option){.name = key->name,
                                         .argument = key->argument != NULL ? key->argument : "",
                                         .usual = key->kind != KIND_YES ? key->usual : NULL,
                                         .is_hidden = key->what == NULL};
    return true;
}

/* ---- what is in force ------------------------------------------------------------------------ */

static void write_value(const struct key *key, const struct config *config, char *text, size_t room)
{
    const char *place = (const char *)config + key->offset;
    switch (key->kind) {
    case KIND_TEXT:
    case KIND_ENDPOINT:
    case KIND_PLACE:
    case KIND_LEVEL:
    case KIND_FORM: snprintf(text, room, "%s", place); break;
    case KIND_BYTES:
    case KIND_NUMBER: write_number(key->kind, *(const uint64_t *)place, text, room); break;
    case KIND_COUNT: write_number(key->kind, *(const uint32_t *)place, text, room); break;
    case KIND_TIME: write_number(key->kind, (uint64_t) * (const int64_t *)place, text, room); break;
    case KIND_YES: snprintf(text, room, "%s", *(const bool *)place ? "yes" : "no"); break;
    }
}

void config_print(const struct config *config, FILE *file)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char text[CONFIG_TEXT_BYTES];
        write_value(&keys[i], config, text, sizeof text);
        bool is_usual = keys[i].usual != NULL && strcmp(text, keys[i].usual) == 0;
        const char *quote = strpbrk(text, " \t#'") != NULL ? "\"" : "";
        if (keys[i].what != NULL && text[0] != '\0')
            fprintf(file, "%s = %s%s%s%s\n", keys[i].name, quote, text, quote,
                    is_usual ? "  # the default" : "");
    }
}

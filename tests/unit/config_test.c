/* SPDX-License-Identifier: MPL-2.0 */
/* config_test.c -- what errbusd was told. */
#include "broker/io/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/errbus-config-XXXXXX";
static char path[64];
static char complaint[CONFIG_COMPLAINT_BYTES];
static struct config config;

static void set_up(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/cfg", folder);
    config_init(&config);
    complaint[0] = '\0';
}

static void tear_down(void)
{
    unlink(path);
    rmdir(folder);
}

TestSuite(config, .init = set_up, .fini = tear_down);

static bool read_text(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
    return config_read_file(&config, path, complaint);
}

/* The file is refused, and the complaint is its name with exactly this behind it. */
static void expect_refused(const char *text, const char *behind)
{
    char expected[CONFIG_COMPLAINT_BYTES];
    snprintf(expected, sizeof expected, "%s%s", path, behind);
    cr_expect_not(read_text(text), "accepted: %s", text);
    cr_expect_str_eq(complaint, expected);
}

Test(config, has_defaults_of_the_loopback)
{
    cr_expect_str_eq(config.control, "tcp://127.0.0.1:7370");
    cr_expect_str_eq(config.data, "tcp://127.0.0.1:7371");
    cr_expect_str_eq(config.advertise, "");
    cr_expect_str_eq(config.journal, "");
    cr_expect_str_eq(config.durability, "");
    cr_expect_eq(config.memory_bytes, DEFAULT_MEMORY_BYTES);
    cr_expect_not(config.is_verbose);
    cr_expect_str_eq(config.log, "text");
    cr_expect_not(config.is_spinning);
    cr_expect_eq(config.core.topic_window_bytes, DEFAULT_TOPIC_WINDOW_BYTES);
    cr_expect_eq(config.core.linger_ms, DEFAULT_LINGER_MS);
    cr_expect_eq(config.core.resume_ms, DEFAULT_RESUME_MS);
}

Test(config, reads_every_key_from_a_file)
{
    bool is_read = read_text("# a broker\n"
                             "control = tcp://127.0.0.1:*   # any port\n"
                             "  # an indented comment\n"
                             "\n"
                             "data = \"ipc:///tmp/a b\"\n"
                             "advertise = 'host'\r\n"
                             "journal = none\n"
                             "memory = 3M\n"
                             "resume-window = 25s\n"
                             "verbose = yes\n"
                             "spin = yes\n"
                             "topic-window = 64K\n"
                             "topic-keep=1MiB\n"
                             "test-topic-keep-slots = 7\n"
                             "job-bytes = 2G\n"
                             "value-bytes = 4096\n"
                             "linger = 10min\n"
                             "unserved = 1500ms\n"
                             "test-like-errors = 13\n"
                             "attachment-bytes = 1G\n"
                             "test-parties = 12"); /* no newline at the end */
    cr_assert(is_read, "%s", complaint);
    cr_expect_str_eq(config.control, "tcp://127.0.0.1:*");
    cr_expect_str_eq(config.data, "ipc:///tmp/a b");
    cr_expect_str_eq(config.advertise, "host");
    cr_expect_str_eq(config.journal, "none");
    cr_expect_eq(config.memory_bytes, 3145728);
    cr_expect_eq(config.core.resume_ms, 25000);
    cr_expect(config.is_verbose);
    cr_expect(config.is_spinning);
    cr_expect_eq(config.core.topic_window_bytes, 65536);
    cr_expect_eq(config.core.topic_keep_bytes, 1048576);
    cr_expect_eq(config.core.topic_keep_slots, 7);
    cr_expect_eq(config.core.job_bytes_max, UINT64_C(2147483648));
    cr_expect_eq(config.core.value_bytes_max, 4096);
    cr_expect_eq(config.core.linger_ms, 600000);
    cr_expect_eq(config.core.unserved_ms, 1500);
    cr_expect_eq(config.core.storm_told_max, 13);
    cr_expect_eq(config.core.attachment_bytes_max, 1 << 30);
    cr_expect_eq(config.core.parties_max, 12);
}

Test(config, takes_an_empty_file)
{
    cr_expect(read_text(""));
    cr_expect(read_text("\n# nothing\n   \n"));
}

Test(config, names_the_line_of_what_it_refuses)
{
    expect_refused("# one\n\ntopic-windw = 1\n",
                   ":3: unknown key 'topic-windw': --help lists the keys");
    expect_refused("verbose = yes\n  # two\nlinger = 3\n",
                   ":3: linger: takes a time such as 500ms, 30s, 10min or 2h, not '3'");
    expect_refused("spin = no\n    spin = no\n", ":2: a key stands at the beginning of its "
                                                 "line: remove the blanks before it");
    expect_refused("spin = no\nlinger = 2s\nspin = no\n",
                   ":3: spin is given twice: remove one of the "
                   "lines");
    expect_refused("control\n", ":1: not of the form NAME = VALUE (or # before a comment)");
    expect_refused("control tcp://x\n", ":1: not of the form NAME = VALUE (or # before a comment)");
    expect_refused("= 3\n", ":1: not of the form NAME = VALUE (or # before a comment)");
    expect_refused("\nwhat/ever = 3\n", ":2: unknown key 'what/ever': --help lists the keys");
    expect_refused("control = \"tcp\n", ":1: the quote is not closed: add one behind the value");
    expect_refused("control = \"tcp\" x\n",
                   ":1: not of the form NAME = VALUE (or # before a comment)");
    expect_refused("control =\n", ":1: control: takes 1 to 511 bytes, not 0");
    expect_refused("verbose = maybe\n", ":1: verbose: takes yes or no, not 'maybe'");
}

Test(config, refuses_files_that_are_none)
{
    cr_expect_not(config_read_file(&config, folder, complaint));
    cr_expect_not_null(strstr(complaint, "Is a directory"), "%s", complaint);
    cr_expect_not(config_read_file(&config, "/nonexistent/cfg", complaint));
    cr_expect_str_eq(complaint, "cannot read the configuration file '/nonexistent/cfg': "
                                "No such file or directory");
}

static bool read_bytes(const char *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, count, file), count);
    cr_assert_eq(fclose(file), 0);
    return config_read_file(&config, path, complaint);
}

Test(config, names_the_line_of_a_nul_and_the_size_of_what_is_too_large)
{
    static char large[CONFIG_FILE_BYTES_MAX + 1];
    cr_expect_not(read_bytes("spin = no\nlin\0ger = 2s\n", 23));
    cr_expect_not_null(strstr(complaint, "cfg:2: a NUL byte"), "%s", complaint);
    memset(large, '#', sizeof large);
    cr_expect(read_bytes(large, sizeof large - 1));
    cr_expect_not(read_bytes(large, sizeof large));
    cr_expect_not_null(strstr(complaint, "larger than 1048576 bytes"), "%s", complaint);
}

/* Each is one line that has a key, with or without its end. */
Test(config, takes_a_line_as_long_as_a_file_may_be)
{
    static const char line[] = "linger = 7s #";
    static char text[CONFIG_FILE_BYTES_MAX + 1];
    memset(text, 'x', sizeof text);
    memcpy(text, line, sizeof line - 1);
    for (size_t bytes = CONFIG_FILE_BYTES_MAX - 1; bytes <= CONFIG_FILE_BYTES_MAX; bytes++) {
        config_init(&config);
        cr_expect(read_bytes(text, bytes), "%zu bytes: %s", bytes, complaint);
        cr_expect_eq(config.core.linger_ms, 7000, "%zu bytes", bytes);
    }
    cr_expect_not(read_bytes(text, sizeof text));
    cr_expect_not_null(strstr(complaint, "larger than 1048576 bytes"), "%s", complaint);
    text[CONFIG_FILE_BYTES_MAX - 1] = '\n';
    cr_expect(read_bytes(text, CONFIG_FILE_BYTES_MAX), "%s", complaint);
}

Test(config, refuses_endpoints_and_levels_that_are_none)
{
    expect_refused("\ncontrol = here\n",
                   ":2: control: 'here': expected HOST:PORT, tcp://HOST:PORT or ipc://PATH");
    expect_refused("data = tcp://h:65536\n", ":1: data: 'tcp://h:65536': the port must be 1 to "
                                             "65535, or * or 0 for a free one");
    expect_refused("advertise = a/b\n", ":1: advertise: 'a/b': expected a host name, HOST:PORT, "
                                        "tcp://HOST:PORT or ipc://PATH");
    expect_refused("durability = hope\n",
                   ":1: durability: 'hope': expected memory, process, disk or shared");
}

/* What is printed is a file that sets the same. */
Test(config, is_printed_as_a_file)
{
    struct config again;
    char *text = NULL;
    size_t bytes = 0;
    cr_assert(read_text("control = *:1\njournal = \"a # b\"\nlinger = 90s\ntopic-window = 1536K\n"
                        "topic-keep = 4097\nunserved = 0\ndurability = process\n"));
    FILE *file = open_memstream(&text, &bytes);
    cr_assert_not_null(file);
    config_print(&config, file);
    cr_assert_eq(fclose(file), 0);
    cr_expect_not_null(strstr(text, "control = *:1\n"), "%s", text);
    cr_expect_not_null(strstr(text, "journal = \"a # b\"\n"), "%s", text);
    cr_expect_not_null(strstr(text, "linger = 90s\n"), "%s", text);
    cr_expect_not_null(strstr(text, "topic-window = 1536K\n"), "%s", text);
    cr_expect_not_null(strstr(text, "topic-keep = 4097\n"), "%s", text);
    cr_expect_not_null(strstr(text, "unserved = 0\n"), "%s", text);
    cr_expect_not_null(strstr(text, "memory = 256M  # the default\n"), "%s", text);
    again = config;
    config_init(&config);
    cr_expect(read_text(text), "%s", complaint);
    cr_expect_arr_eq(&again, &config, sizeof config);
    free(text);
}

Test(config, holds_limits_at_both_ends)
{
    static const struct {
        const char *name, *value;
        bool is_good;
    } rows[] = {
        {"test-parties", "0", false},
        {"test-parties", "1", true},
        {"test-parties", "16384", true},
        {"test-parties", "16385", false},
        {"test-parties", "-1", false},
        {"test-parties", "1K", false},
        {"test-parties", "4294967297", false},
        {"value-bytes", "2G", true},
        {"value-bytes", "2147483649", false},
        {"value-bytes", "99999999999999999999", false},
        {"value-bytes", "18446744073709551615G", false},
        {"topic-keep", "0", true},
        {"topic-window", "4095", false},
        {"topic-window", "4096", true},
        {"topic-window", "1T", false},
        {"topic-window", " 4096", false},
        {"linger", "0", true},
        {"linger", "24h", true},
        {"linger", "86400001ms", false},
        {"linger", "1.5s", false},
        {"unserved", "0", true},
        {"unserved", "24h", true},
        {"unserved", "86400001ms", false},
        {"unserved", "30", false},
        {"resume-window", "0", true},
        {"resume-window", "-1ms", false},
        {"resume-window", "10", false},
        {"resume-window", "1ms", true},
        {"resume-window", "86399999ms", true},
        {"resume-window", "86400000ms", true},
        {"resume-window", "86400001ms", false},
        {"verbose", "no", true},
        {"verbose", "", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(config_set(&config, rows[i].name, rows[i].value, complaint), rows[i].is_good,
                     "%s = %s: %s", rows[i].name, rows[i].value, complaint);
    char text[CONFIG_TEXT_BYTES + 1];
    memset(text, 'x', CONFIG_TEXT_BYTES);
    text[CONFIG_TEXT_BYTES] = '\0';
    cr_expect_not(config_set(&config, "journal", text, complaint));
    text[CONFIG_TEXT_BYTES - 1] = '\0';
    cr_expect(config_set(&config, "journal", text, complaint));
}

static enum config_outcome read_args(char **argv)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    return config_read_args(&config, argc, argv, complaint);
}

#define ARGS(...) ((char *[]){(char *)"errbusd", __VA_ARGS__, NULL})

Test(config, lets_the_command_line_overrule_the_file)
{
    cr_assert(read_text("control = tcp://a:1\ndata = tcp://a:2\n"));
    config_init(&config);
    cr_assert_eq(read_args(ARGS((char *)"--control", (char *)"tcp://b:3", (char *)"-v",
                                (char *)"--config", path, (char *)"--linger=5s")),
                 CONFIG_RUN, "%s", complaint);
    cr_expect_str_eq(config.control, "tcp://b:3");
    cr_expect_str_eq(config.data, "tcp://a:2");
    cr_expect_eq(config.core.linger_ms, 5000);
    cr_expect(config.is_verbose);
}

Test(config, says_what_is_wrong_on_the_command_line)
{
    static const struct {
        char *option;
        enum config_outcome outcome;
        const char *complaint;
    } rows[] = {
        {(char *)"--version", CONFIG_VERSION, ""},
        {(char *)"--help", CONFIG_HELP, ""},
        {(char *)"-h", CONFIG_HELP, ""},
        {(char *)"--frobnicate", CONFIG_WRONG,
         "unknown option '--frobnicate': --help lists the options"},
        {(char *)"-x", CONFIG_WRONG, "unknown option '-x': --help lists the options"},
        {(char *)"--verbose=3", CONFIG_WRONG, "'--verbose=3': this option takes no value"},
        {(char *)"--control", CONFIG_WRONG, "--control takes a value: see --help"},
        {(char *)"here", CONFIG_WRONG, "unknown argument 'here': errbusd takes options alone"},
        {(char *)"--test-parties=none", CONFIG_WRONG, "--test-parties: takes a number, not 'none'"},
        {(char *)"--config=/nonexistent/x", CONFIG_WRONG,
         "cannot read the configuration file '/nonexistent/x': No such file or directory"},
        {(char *)"--memory=5", CONFIG_WRONG, "--memory: 5 is not between 1M and 16384G"},
        {(char *)"--linger=900h", CONFIG_WRONG, "--linger: 900h is not between 0 and 24h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        complaint[0] = '\0';
        config_init(&config);
        cr_expect_eq(read_args(ARGS(rows[i].option)), rows[i].outcome, "%s", rows[i].option);
        cr_expect_str_eq(complaint, rows[i].complaint);
    }
}

/* ---- the manual page ------------------------------------------------------------------------- */

/* Copies text without spaces, without its macros Ar, Cm and Li, and with spaces for its newlines.
 */
static void flatten(const char *text, size_t bytes, char *out)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool is_macro = (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n') &&
                        (strncmp(text + i, "Ar ", 3) == 0 || strncmp(text + i, "Cm ", 3) == 0);
        bool is_line = strncmp(text + i, "\n.Li ", 5) == 0;
        if (is_macro || is_line)
            i += is_macro ? 2 : 4;
        else if (text[i] != ' ' && text[i] != '\n')
            out[count++] = text[i];
    }
    out[count] = '\0';
}

/* The entry of an option in the page, flat, its name and argument first. */
static void find_entry(const char *page, const char *name, char *out)
{
    static const char *const heads[] = {"\n.It Fl -", "\n.It Fl v , Fl -"};
    for (size_t i = 0; i < 2; i++) {
        for (const char *at = page; (at = strstr(at, heads[i])) != NULL;) {
            at += strlen(heads[i]);
            size_t length = strcspn(at, " \n");
            const char *end = strstr(at, "\n.It Fl ");
            const char *list_end = strstr(at, "\n.El\n.Pp");
            if (end == NULL || (list_end != NULL && list_end < end))
                end = list_end;
            if (length == strlen(name) && memcmp(at, name, length) == 0 && end != NULL) {
                flatten(at, (size_t)(end - at), out);
                return;
            }
        }
    }
    cr_assert_fail("errbusd(8) has no --%s", name);
}

static char *read_page(void)
{
    static char page[1 << 16];
    FILE *file = fopen(TEST_SOURCE_DIR "/broker/errbusd.8", "r");
    cr_assert_not_null(file);
    size_t bytes = fread(page, 1, sizeof page - 1, file);
    cr_assert(bytes > 0 && bytes < sizeof page - 1);
    page[bytes] = '\0';
    fclose(file);
    return page;
}

Test(config, has_the_options_and_defaults_of_its_manual_page)
{
    static char entry[1 << 16];
    const char *page = read_page();
    struct config_option option;
    size_t shown = 0;
    for (size_t i = 0; config_option(i, &option); i++) {
        char expected[128];
        if (option.is_hidden) {
            cr_expect_null(strstr(page, option.name), "--%s is for tests alone", option.name);
            continue;
        }
        shown++;
        find_entry(page, option.name, entry);
        snprintf(expected, sizeof expected, "%s%s", option.name, option.argument);
        cr_expect_eq(strncmp(entry, expected, strlen(expected)), 0, "%.60s: not %s", entry,
                     expected);
        if (option.usual == NULL)
            continue;
        snprintf(expected, sizeof expected, "Default:%s", option.usual);
        const char *said = strstr(entry, expected);
        cr_expect(said != NULL && strchr(".,", said[strlen(expected)]) != NULL,
                  "--%s: the page does not say that its default is %s", option.name, option.usual);
    }
    size_t entries = 0;
    for (const char *at = page; (at = strstr(at, "\n.It Fl ")) != NULL; at++)
        entries++;
    cr_expect_eq(entries, shown + 9,
                 "--config, --check-config, --version, --help and five tools beside");
}

/* A core that is started without a file has the defaults that are shown. */
Test(config, has_the_defaults_of_the_core)
{
    struct core_options core;
    core_options_init(&core);
    cr_expect_eq(config.core.topic_window_bytes, core.topic_window_bytes);
    cr_expect_eq(config.core.topic_keep_bytes, core.topic_keep_bytes);
    cr_expect_eq(config.core.topic_keep_slots, core.topic_keep_slots);
    cr_expect_eq(config.core.job_bytes_max, core.job_bytes_max);
    cr_expect_eq(config.core.value_bytes_max, core.value_bytes_max);
    cr_expect_eq(config.core.linger_ms, core.linger_ms);
    cr_expect_eq(config.core.resume_ms, core.resume_ms);
    cr_expect_eq(config.core.unserved_ms, core.unserved_ms);
    cr_expect_eq(config.core.attachment_bytes_max, core.attachment_bytes_max);
    cr_expect_eq(config.core.parties_max, core.parties_max);
    cr_expect_eq(config.core.storm_told_max, core.storm_told_max);
}

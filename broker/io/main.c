/* SPDX-License-Identifier: MPL-2.0 */
/* main.c -- errbusd: reads what it is told, opens, runs, ends.  See errbusd(8). */
#include "broker/io/authentication.h"
#include "broker/io/clock.h"
#include "broker/io/config.h"
#include "broker/io/endpoint.h"
#include "broker/io/failpoint.h"
#include "broker/io/log.h"
#include "broker/io/loop.h"
#include "broker/io/service_manager.h"
#include "broker/io/signals.h"
#include "broker/io/state_folder.h"
#include "broker/io/tools.h"
#include "broker/io/web_child.h"
#include "broker/journal/disk.h"
#include "broker/journal/journal.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_FINE = 0, EXIT_OWN_FAILURE = 1, EXIT_USAGE = 2, EXIT_FORGOT = 3 };

/* The broker allocates and frees parts of up to 768 KiB.  With glibc's own thresholds each part
 * costs page faults; higher thresholds gain 20 to 40 % throughput.  glibc takes at most 32 MiB for
 * the first one. */
#define MALLOC_MMAP_BYTES (32 * 1024 * 1024)
#define MALLOC_TRIM_BYTES (256 * 1024 * 1024)

/* The first file of a new journal: enough to try a broker. */
#define FIRST_SEGMENT_BYTES (UINT64_C(256) * 1024)

/* How often a spare looks whether the shard is free, and how often it says why it cannot know. */
enum { SPARE_POLL_MS = 50 };
#define SPARE_WHY_NS INT64_C(60000000000)

/* What to do if the journal cannot be in its place. */
static const char remedy[] =
    "name another directory with --journal DIR, or keep everything in memory with --journal none";

static void tune_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_BYTES);
}

/* A closed standard stream would become the next socket, and log lines would be sent there.  So
 * /dev/null takes its place, opened the wrong way round: each use of it is an error. */
static void hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest: fd */
    }
}

/* As far as the system allows: each connection takes a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A write to a pipe that nobody reads then fails with an errno. */
static void ignore_sigpipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
}

static void print_help(void)
{
    printf("Usage: errbusd [OPTION...]\n"
           "The broker of Errbus. It passes values between the parties of a job.\n"
           "Where a promised value cannot come, it delivers the error in its place.\n\n");
    config_print_options();
    printf("\nInspect or repair a journal that no broker uses (the only option then):\n");
    tools_print_options();
    printf("\nSee errbusd(8).\n");
}

/* As clients need it: the key of the broker stands before its host. */
static void print_endpoint(const char *before, const struct loop *loop, const char *endpoint)
{
    static const char tcp[] = "tcp://";
    char key[KEY_TEXT_BYTES + 1];
    loop_public_key(loop, key);
    bool has_key = *key != '\0' && strncmp(endpoint, tcp, sizeof tcp - 1) == 0;
    if (has_key)
        printf("%s%s%s@%s", before, tcp, key, endpoint + sizeof tcp - 1);
    else
        printf("%s%s", before, endpoint);
}

static bool print_ready(const struct loop *loop)
{
    print_endpoint("errbusd ready control=", loop, loop_control_endpoint(loop));
    print_endpoint(" data=", loop, loop_data_endpoint(loop));
    printf("\n");
    return fflush(stdout) == 0;
}

/* The child may see more than the access file lets a user of this machine see. */
static void warn_of_web(const struct config *config)
{
    if (config->web[0] != '\0' && config->web_token[0] == '\0' && config->access[0] != '\0')
        log_line(LOG_WARNING,
                 "--web %.200s shows all jobs to every user of this machine, whatever the access "
                 "file says: name a file with --web-token FILE ('openssl rand -hex 32' makes a "
                 "token)",
                 config->web);
}

/* A journal from before shows that clients have another key, unless the broker was open to all. */
static void warn_of_new_key(const struct config *config, const struct loop *loop)
{
    char key[KEY_TEXT_BYTES + 1];
    struct loop_restored restored = loop_restored(loop);
    if (!restored.is_key_new || restored.steps == 0)
        return;
    loop_public_key(loop, key);
    log_line(LOG_WARNING,
             "the broker's key %.500s was made now, but the journal is from before: clients that "
             "have an older key do not find this broker; bring the old file back and start the "
             "broker again, or give clients the new key: %s",
             config->key, key);
}

static void log_start(const struct config *config, const struct loop *loop)
{
    const char *control = loop_control_endpoint(loop);
    const char *data = loop_data_endpoint(loop);
    struct loop_restored restored = loop_restored(loop);
    /* A connection string may have a password. */
    const char *place = journal_is_shared(config->journal) ? "in PostgreSQL" : config->journal;
    log_line(LOG_INFO, "errbusd %s, process %d: control %.300s, data %.300s", ERRBUS_VERSION,
             (int)getpid(), control, data);
    if (config->access[0] == '\0' && (!endpoint_is_local(control) || !endpoint_is_local(data)))
        log_line(
            LOG_WARNING,
            "%.300s can be reached from beyond this machine: whoever reaches it can read and "
            "change everything, for it was started with --open; keep others out by a firewall, "
            "a network of its own, or a tunnel, or use --access",
            endpoint_is_local(control) ? data : control);
    warn_of_web(config);
    if (strcmp(config->journal, "none") == 0)
        log_line(LOG_INFO, "no journal: everything is in memory, and ends with this process");
    else if (restored.steps == 0)
        log_line(LOG_INFO, "journal %.500s: new", place);
    else
        log_line(LOG_INFO,
                 "journal %.500s: restored; jobs: %u, parties that may come back: %u, values: %u "
                 "of %llu bytes",
                 place, restored.jobs, restored.parties, restored.values,
                 (unsigned long long)restored.bytes);
    warn_of_new_key(config, loop);
}

/* The durability, if none was asked for, is what the journal makes possible.  Without a journal
 * nothing is durable; to ask for both is an error.  false: it was reported. */
static bool choose_durability(struct config *config, enum durability *out_durability)
{
    const char *asked = config->durability;
    bool is_none = strcmp(config->journal, "none") == 0;
    bool is_shared = !is_none && journal_is_shared(config->journal);
    enum durability level = is_none     ? DURABILITY_MEMORY
                            : is_shared ? DURABILITY_SHARED
                                        : DURABILITY_DISK;
    if (asked[0] != '\0')
        level = durability_named(asked);
    if (is_shared && level != DURABILITY_SHARED) {
        log_line(LOG_ERROR,
                 "--durability %s: a journal in PostgreSQL has the durability 'shared' and no "
                 "other: remove --durability",
                 asked);
        return false;
    }
    if (level != DURABILITY_MEMORY && is_none) {
        log_line(LOG_ERROR, "--durability %s needs a journal: remove --journal none", asked);
        return false;
    }
    if (level == DURABILITY_MEMORY && !is_none && config->journal[0] != '\0') {
        log_line(LOG_ERROR, "--durability memory keeps no journal: remove --journal %s",
                 config->journal);
        return false;
    }
    if (level == DURABILITY_MEMORY)
        snprintf(config->journal, sizeof config->journal, "none");
    *out_durability = level;
    return true;
}

static struct state_places places_of_environment(void)
{
    return (struct state_places){.service = getenv("STATE_DIRECTORY"),
                                 .state = getenv("XDG_STATE_HOME"),
                                 .home = getenv("HOME")};
}

/* The key that a service manager gives as a credential, if it does. */
static void take_credential(char key[CONFIG_TEXT_BYTES])
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    if (folder == NULL || folder[0] != '/')
        return;
    int bytes = snprintf(key, CONFIG_TEXT_BYTES, "%s/broker.key", folder);
    if (bytes >= CONFIG_TEXT_BYTES || access(key, F_OK) != 0)
        key[0] = '\0';
}

/* false: that was printed. */
static bool choose_web(const struct config *config)
{
    char why[WEB_CHILD_COMPLAINT_BYTES] = "";
    bool may_listen = web_child_may_listen(config->web, config->web_token, why);
    if (!may_listen)
        log_line(LOG_ERROR, "%s", why);
    return may_listen;
}

/* A broker that other machines can reach needs --access or --open.  false: that was printed. */
static bool choose_access(struct config *config)
{
    char why[STATE_FOLDER_COMPLAINT_BYTES] = "";
    struct state_places places = places_of_environment();
    bool is_local = endpoint_wish_is_local(config->control) && endpoint_wish_is_local(config->data);
    if (config->access[0] == '\0' && !config->is_open && !is_local) {
        log_line(LOG_ERROR,
                 "%.300s can be reached from other machines, and nothing says who may "
                 "come: start it with 'errbusd --access FILE ...', where FILE has lines as 'key "
                 "alice ebp_...' (the client's 'errbus key new' prints it) and 'allow alice party "
                 "in *', see errbus-access(1); or let everybody in with 'errbusd --open ...'",
                 endpoint_wish_is_local(config->control) ? config->data : config->control);
        return false;
    }
    if (config->access[0] != '\0' && config->is_open) {
        log_line(LOG_ERROR, "--open and --access exclude each other: remove one");
        return false;
    }
    if (config->access[0] != '\0' && config->key[0] == '\0')
        take_credential(config->key);
    if (config->access[0] == '\0' || config->key[0] != '\0' ||
        state_folder_key(&places, config->key, sizeof config->key, why))
        return true;
    log_line(LOG_ERROR, "%s; or name a file with --key FILE", why);
    return false;
}

/* false: the reason was printed. */
static bool choose_journal(struct config *config)
{
    char why[STATE_FOLDER_COMPLAINT_BYTES] = "";
    struct state_places places = places_of_environment();
    if (config->journal[0] != '\0' ||
        state_folder_journal(&places, config->journal, sizeof config->journal, why))
        return true;
    log_line(LOG_ERROR, "%s; %s", why, remedy);
    return false;
}

/* The same for the copy of a shard. */
static bool choose_cache(struct config *config)
{
    char why[STATE_FOLDER_COMPLAINT_BYTES] = "";
    struct state_places places = places_of_environment();
    if (!journal_is_shared(config->journal) || config->cache[0] != '\0' ||
        state_folder_cache(&places, config->shard, config->cache, sizeof config->cache, why))
        return true;
    log_line(LOG_ERROR, "%s; or name a directory with --cache DIR", why);
    return false;
}

/* The socket is not for programs that this one starts. */
static void open_manager(struct service_manager *manager)
{
    char why[SERVICE_MANAGER_COMPLAINT_BYTES] = "";
    struct service_manager_environment environment = {.socket = getenv("NOTIFY_SOCKET"),
                                                      .watchdog_us = getenv("WATCHDOG_USEC"),
                                                      .watchdog_pid = getenv("WATCHDOG_PID"),
                                                      .pid = getpid()};
    if (!service_manager_open(manager, &environment, why))
        log_line(LOG_WARNING, "%s", why);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

/* A broker that waits for another one to end. */
struct spare {
    struct service_manager *manager;
    bool is_told;          /* that it waits */
    bool is_unknown;       /* it was told last that it cannot be known who has the shard */
    int64_t unknown_ns_at; /* when that may be told again */
};

/* That another broker has the shard is told once, and again behind a time when that was not known.
 * Why it is not known is told at once, and then each minute at most: it may come and go. */
static bool is_news(const struct spare *spare, bool is_unknown, int64_t now_ns)
{
    if (!spare->is_told)
        return true;
    return is_unknown ? now_ns >= spare->unknown_ns_at : spare->is_unknown;
}

static bool wait_for_shard(void *arg, const char *unknown)
{
    struct spare *spare = arg;
    int64_t now_ns = clock_monotonic_ns();
    if (is_news(spare, unknown != NULL, now_ns)) {
        if (unknown != NULL)
            log_line(LOG_WARNING, "it cannot be told who has the shard: %s; this broker waits",
                     unknown);
        else
            log_line(LOG_INFO, "another broker has the shard: this one waits, and takes over when "
                               "that one is gone");
        spare->is_unknown = unknown != NULL;
        spare->unknown_ns_at = unknown != NULL ? now_ns + SPARE_WHY_NS : spare->unknown_ns_at;
    }
    if (!spare->is_told)
        service_manager_spare(spare->manager);
    spare->is_told = true;
    usleep(SPARE_POLL_MS * 1000);
    return true;
}

static void tell_of_copying(void *arg)
{
    service_manager_extend(arg, clock_monotonic_ns(), "copying the shard", -1);
}

static void tell_of_reading(void *arg)
{
    failpoint_reach("record");
    service_manager_extend(arg, clock_monotonic_ns(), "reading the journal", -1);
}

/* NULL: no journal was asked for.  false: the reason was printed. */
static bool open_journal(const struct config *config, struct service_manager *manager,
                         struct journal **out_journal)
{
    if (strcmp(config->journal, "none") == 0)
        return true;
    struct clock clock = {0};
    bool is_shared = journal_is_shared(config->journal);
    struct spare spare = {.manager = manager};
    struct disk_shard shard = {.number = config->shard,
                               .replicas = config->replicas,
                               .cache = config->cache,
                               .on_copy = tell_of_copying,
                               .on_copy_arg = manager};
    /* Lazy where it is synced as it comes, too: then no append waits for a sync (journal_thread.h).
     * PostgreSQL is one connection, which is written and synced in turns. */
    struct journal_options options = {.may_create = true,
                                      .id = clock_now(&clock).random,
                                      .first_bytes = FIRST_SEGMENT_BYTES,
                                      .segment_bytes = failpoint_number("SEGMENT_BYTES", 0),
                                      .on_record = tell_of_reading,
                                      .on_record_arg = manager,
                                      .shard = is_shared ? &shard : NULL,
                                      .on_locked = is_shared ? wait_for_shard : NULL,
                                      .on_locked_arg = &spare,
                                      .is_lazy = !is_shared};
    struct journal_opened opened;
    char why[JOURNAL_COMPLAINT_BYTES] = "";
    enum journal_err err = journal_open(config->journal, &options, out_journal, &opened, why);
    if (err != JOURNAL_OK) {
        bool has_remedy = is_shared || err == JOURNAL_DAMAGED; /* in its sentence */
        log_line(LOG_ERROR, "%s%s%s", why, has_remedy ? "" : "; ", has_remedy ? "" : remedy);
        return false;
    }
    if (opened.cut[0] != '\0')
        log_line(LOG_WARNING, "journal: %s", opened.cut);
    return true;
}

static int status_of(enum loop_end end)
{
    static const int statuses[] = {
        [LOOP_STOPPED] = EXIT_FINE, [LOOP_BROKEN] = EXIT_OWN_FAILURE, [LOOP_FORGOT] = EXIT_FORGOT};
    return statuses[end];
}

/* The ports come first: a start that cannot have them creates no journal.  But a spare has no ports
 * while it waits: clients look for the broker elsewhere. */
static int run_broker(const struct config *config, enum durability durability)
{
    int status = EXIT_OWN_FAILURE;
    char complaint[LOOP_COMPLAINT_BYTES] = "";
    struct journal *journal = NULL;
    struct service_manager manager;
    open_manager(&manager);
    bool is_shared = journal_is_shared(config->journal);
    signals_end_start();
    if (is_shared && !open_journal(config, &manager, &journal)) {
        service_manager_close(&manager);
        return EXIT_OWN_FAILURE;
    }
    signals_wait();
    struct loop *loop = loop_open(config, &manager, complaint);
    if (loop == NULL) {
        log_line(LOG_ERROR, "%s", complaint);
        journal_close(&journal);
        service_manager_close(&manager);
        return EXIT_OWN_FAILURE;
    }
    signals_end_start();
    if (!is_shared && !open_journal(config, &manager, &journal))
        goto done;
    signals_wait();
    if (!loop_begin(loop, config, ERRBUS_VERSION, &journal, durability, complaint)) {
        log_line(LOG_ERROR, "%s", complaint);
        goto done;
    }
    log_start(config, loop);
    if (print_ready(loop))
        status = status_of(loop_run(loop));
    else
        log_line(LOG_ERROR, "cannot write to standard output");
done:
    loop_close(&loop);
    journal_close(&journal);
    service_manager_close(&manager);
    return status;
}

/* All that the options leave open.  Else the status to end with: the reason was printed. */
static int choose_all(struct config *config, enum durability *out_durability)
{
    if (!choose_durability(config, out_durability) || !choose_access(config) || !choose_web(config))
        return EXIT_USAGE;
    return choose_journal(config) && choose_cache(config) ? EXIT_FINE : EXIT_OWN_FAILURE;
}

/* false: the access file is wrong, and that was printed. */
static bool check_access(const struct config *config)
{
    char why[AUTHENTICATION_COMPLAINT_BYTES] = "";
    bool is_read = config->access[0] == '\0' || authentication_check(config->access, why);
    if (!is_read)
        log_line(LOG_ERROR, "%s", why);
    return is_read;
}

/* Asks what a start asks, and touches nothing: neither ports nor the journal nor the key.  Prints
 * no key and no cache that were not given: the start chooses them by its own environment. */
static int check_config(struct config *config)
{
    enum durability durability = DURABILITY_MEMORY;
    struct config chosen = *config;
    if (choose_all(&chosen, &durability) != EXIT_FINE || !check_access(&chosen))
        return EXIT_USAGE;
    memcpy(config->journal, chosen.journal, sizeof config->journal);
    snprintf(config->durability, sizeof config->durability, "%s", durability_name(durability));
    if (strcmp(config->journal, "none") == 0)
        config->durability[0] = '\0'; /* it follows from that */
    config_print(config, stdout);
    if (fflush(stdout) == 0)
        return EXIT_FINE;
    log_line(LOG_ERROR, "cannot write to standard output");
    return EXIT_OWN_FAILURE;
}

/* Touches no port, and changes nothing in the journal. */
static int back_up(struct config *config, const char *to)
{
    enum durability durability = DURABILITY_MEMORY;
    if (!choose_durability(config, &durability) || !choose_journal(config))
        return EXIT_USAGE;
    if (strcmp(config->journal, "none") != 0)
        return tools_back_up(config->journal, to);
    log_line(LOG_ERROR, "--backup: the options say that there is no journal: name it with "
                        "--journal DIR");
    return EXIT_USAGE;
}

/* config NULL: it is not known yet. */
static void choose_log(const struct config *config)
{
    struct log_style style = {.has_priority = log_is_journal(getenv("JOURNAL_STREAM"))};
    if (config != NULL) {
        style.is_verbose = config->is_verbose;
        style.is_json = strcmp(config->log, "json") == 0;
    }
    log_init(&style);
}

int main(int argc, char **argv)
{
    struct config config;
    char complaint[CONFIG_COMPLAINT_BYTES] = "";
    int status = EXIT_FINE;
    hold_streams();
    if (tools_run(argc, argv, &status))
        return status;
    const char *backup = tools_take_backup(&argc, &argv);
    config_init(&config);
    choose_log(NULL);
    switch (config_read_args(&config, argc, argv, complaint)) {
    case CONFIG_RUN: break;
    case CONFIG_CHECK: return check_config(&config);
    case CONFIG_HELP: print_help(); return EXIT_FINE;
    case CONFIG_VERSION: printf("errbusd %s\n", ERRBUS_VERSION); return EXIT_FINE;
    case CONFIG_WRONG: log_line(LOG_ERROR, "%s", complaint); return EXIT_USAGE;
    }
    choose_log(&config);
    if (backup != NULL)
        return back_up(&config, backup);
    enum durability durability = DURABILITY_MEMORY;
    status = choose_all(&config, &durability);
    if (status != EXIT_FINE)
        return status;
    if (!journal_is_shared(config.journal))
        config.core.patience_ms = 0; /* a broker with its own disk is never mute */
    tune_memory();
    raise_descriptors();
    ignore_sigpipe();
    return run_broker(&config, durability);
}

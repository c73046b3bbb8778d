/* SPDX-License-Identifier: MPL-2.0 */
/* errbusd_test.c -- the daemon as its operator meets it: how it starts, refuses to, and ends. */
#include "tests/lib/broker.h"
#include "tests/lib/folder.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

/* A bound against hanging. */
#define SOON_MS 20000
/* What errbusd promises for its end. */
#define END_MS 2000

enum { ARGUMENTS_MAX = 16 };

static struct folder folder;

static void set_up(void)
{
    cr_assert(folder_make(&folder));
}

static void tear_down(void)
{
    folder_fini(&folder);
}

TestSuite(errbusd, .init = set_up, .fini = tear_down, .timeout = 60);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* With these arguments, and no journal if they name none, it ends with this code and one line on
 * standard error, which has this in it. */
static void expect_refusal(const char *const *more, int code, const char *words)
{
    struct process process = {.pid = 0};
    const char *argv[ARGUMENTS_MAX] = {"errbusd", "--journal", "none"};
    for (size_t i = 0; more[i] != NULL && i + 4 < ARGUMENTS_MAX; i++) {
        argv[i + 3] = more[i];
    }
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), code, "%s", process_complained(&process));
    const char *complaint = process_complained(&process);
    const char *newline = strchr(complaint, '\n');
    cr_expect_str_empty(process_said(&process));
    cr_expect_not_null(strstr(complaint, words), "'%s' is not in: %s", words, complaint);
    cr_expect(newline != NULL && newline[1] == '\0', "not one line: %s", complaint);
    cr_expect(strncmp(complaint, "errbusd: ", 9) == 0, "%s", complaint);
    process_fini(&process);
}

/* ---- a party that knows just enough ---------------------------------------------------------- */

/* [1 HELLO, 1, 0, "t", b"", "job", "p", 0, 0, 1000, 5000, 1000] */
static const char hello[] = "\x9c\x01\x01\x00\xa1t\xc4\x00\xa3job\xa1p\x00\x00\xcd\x03\xe8\xcd\x13"
                            "\x88\xcd\x03\xe8";
enum { HELLO_BYTES = sizeof hello - 1, WELCOME = 64, BYE = 80 };

/* Reads one message: its number, behind the head of its array, which from 16 elements on is longer
 * (msgpack's array 16). */
static int receive_number(void *socket)
{
    unsigned char bytes[4096];
    int count = zmq_recv(socket, bytes, sizeof bytes, 0);
    cr_assert_gt(count, 1, "%s", zmq_strerror(errno));
    return bytes[bytes[0] == 0xdc ? 3 : 1];
}

static void *dial(void *context, const char *endpoint)
{
    int timeout_ms = SOON_MS;
    int linger_ms = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    cr_assert_not_null(socket);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    cr_assert_eq(zmq_connect(socket, endpoint), 0);
    return socket;
}

/* Says HELLO, is welcomed, and hears BYE when the broker stops; it ends within its bound. */
static void expect_service(struct broker *broker)
{
    void *context = zmq_ctx_new();
    void *socket = dial(context, broker->control);
    cr_assert_eq(zmq_send(socket, hello, HELLO_BYTES, 0), HELLO_BYTES);
    cr_expect_eq(receive_number(socket), WELCOME);
    int64_t began_ms = test_now_ms();
    cr_expect_eq(broker_stop(broker, SOON_MS), 0, "%s", process_complained(&broker->process));
    /* The bound with room for a loaded machine; SOON_MS would be a hang. */
    cr_expect_lt(test_now_ms() - began_ms, 5 * END_MS);
    cr_expect_eq(receive_number(socket), BYE);
    zmq_close(socket);
    zmq_ctx_term(context);
}

Test(errbusd, starts_serves_and_ends_on_sigterm)
{
    struct broker broker;
    cr_assert(broker_start(&broker, NULL), "%s", process_complained(&broker.process));
    cr_expect(strncmp(broker.control, "tcp://127.0.0.1:", 16) == 0, "%s", broker.control);
    cr_expect_str_neq(broker.control, broker.data);
    expect_service(&broker);
    cr_expect_null(strstr(process_complained(&broker.process), "warning"), "%s",
                   process_complained(&broker.process));
    broker_fini(&broker);
}

/* The party does not leave, so the broker gives it a second; the next signal does not wait. */
Test(errbusd, ends_at_once_on_a_second_signal)
{
    struct broker broker;
    char control[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    cr_assert(broker_start(&broker, WORDS("--control", control)));
    void *context = zmq_ctx_new();
    void *socket = dial(context, broker.control);
    cr_assert_eq(zmq_send(socket, hello, HELLO_BYTES, 0), HELLO_BYTES);
    cr_expect_eq(receive_number(socket), WELCOME);
    process_signal(&broker.process, SIGTERM);
    cr_expect_eq(receive_number(socket), BYE);
    process_signal(&broker.process, SIGINT);
    cr_expect_eq(process_wait(&broker.process, SOON_MS), 128 + SIGINT);
    cr_expect_eq(access(control + 6, F_OK), -1);
    broker_fini(&broker);
    zmq_close(socket);
    zmq_ctx_term(context);
}

Test(errbusd, ends_on_sigint_with_nobody_there)
{
    struct broker broker;
    cr_assert(broker_start(&broker, WORDS("--journal", "none")));
    process_signal(&broker.process, SIGINT);
    cr_expect_eq(process_wait(&broker.process, SOON_MS), 0);
    broker_fini(&broker);
}

#ifdef __SANITIZE_ADDRESS__
enum { IDLE_KIB_MAX = 0 }; /* what looks for mistakes takes more than the broker */
#else
enum { IDLE_KIB_MAX = 16 * 1024 };
#endif

Test(errbusd, takes_little_memory_where_there_is_nothing_to_do)
{
    struct broker broker;
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    (void)snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const journals[] = {"none", journal};
    for (size_t i = 0; IDLE_KIB_MAX > 0 && i < sizeof journals / sizeof journals[0]; i++) {
        cr_assert(broker_start(&broker, WORDS("--journal", journals[i])));
        int64_t kib = test_resident_kib(broker.process.pid);
        cr_expect(kib > 0 && kib <= IDLE_KIB_MAX, "%s: %lld KiB", journals[i], (long long)kib);
        broker_fini(&broker);
    }
}

/* Of the process, so far. */
static unsigned long long processor_ticks(const struct process *process)
{
    char path[64];
    unsigned long long user = 0;
    unsigned long long system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process->pid);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%*d (errbusd) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                        &user, &system),
                 2);
    fclose(file);
    return user + system;
}

/* Nobody says a word, and it is at work all the same; it serves as any other. */
Test(errbusd, never_sleeps_if_it_is_to_spin)
{
    struct broker broker;
    int64_t until_ms = test_now_ms() + SOON_MS;
    cr_assert(broker_start(&broker, WORDS("--spin")), "%s", process_complained(&broker.process));
    unsigned long long before = processor_ticks(&broker.process);
    while (processor_ticks(&broker.process) < before + 10 && test_now_ms() < until_ms)
        continue;
    cr_expect_geq(processor_ticks(&broker.process), before + 10, "it sleeps");
    expect_service(&broker);
    broker_fini(&broker);
}

/* The broker's ROUTER sockets give the ids.  A client that chooses an id of its own is not heard,
 * and does not take the place of another client. */
Test(errbusd, ignores_connections_that_choose_their_id)
{
    struct broker broker;
    cr_assert(broker_start(&broker, WORDS("--verbose")));
    void *context = zmq_ctx_new();
    void *sockets[2];
    const char *line = NULL;
    for (int i = 0; i < 2; i++) {
        sockets[i] = zmq_socket(context, ZMQ_DEALER);
        cr_assert_not_null(sockets[i]);
        int linger_ms = 0;
        zmq_setsockopt(sockets[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_setsockopt(sockets[i], ZMQ_ROUTING_ID, "mine", 4);
        cr_assert_eq(zmq_connect(sockets[i], broker.control), 0);
        cr_assert_eq(zmq_send(sockets[i], hello, HELLO_BYTES, 0), HELLO_BYTES);
    }
    do {
        cr_assert(process_complaint(&broker.process, SOON_MS, &line), "%s",
                  process_complained(&broker.process));
    } while (strstr(line, "chose its own id") == NULL);
    expect_service(&broker);
    for (int i = 0; i < 2; i++) {
        char byte;
        cr_expect_eq(zmq_recv(sockets[i], &byte, sizeof byte, ZMQ_DONTWAIT), -1);
        zmq_close(sockets[i]);
    }
    broker_fini(&broker);
    zmq_ctx_term(context);
}

Test(errbusd, serves_over_ipc_and_removes_its_files)
{
    struct broker broker;
    char control[FOLDER_PATH_BYTES_MAX + 16];
    char data[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    cr_assert(broker_start(&broker, WORDS("--control", control, "--data", data)));
    cr_expect_str_eq(broker.control, control);
    cr_expect_str_eq(broker.data, data);
    /* A path that a broker listens on is not taken away from it. */
    expect_refusal(WORDS("--control", control, "--data", "tcp://127.0.0.1:*"), 1, "in use");
    expect_service(&broker);
    broker_fini(&broker);
    cr_expect_eq(access(control + 6, F_OK), -1);
    cr_expect_eq(access(data + 6, F_OK), -1);
}

Test(errbusd, replaces_the_socket_of_a_dead_broker_and_no_other_file)
{
    struct broker broker;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[FOLDER_PATH_BYTES_MAX];
    char control[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/stale", folder.path);
    snprintf(control, sizeof control, "ipc://%s", address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    cr_assert_eq(access(address.sun_path, F_OK), 0);
    cr_assert(broker_start(&broker, WORDS("--control", control)), "%s",
              process_complained(&broker.process));
    expect_service(&broker);
    broker_fini(&broker);

    cr_assert(folder_write(&folder, "precious", "text", path));
    snprintf(control, sizeof control, "ipc://%s", path);
    expect_refusal(WORDS("--control", control), 1, "is not a socket");
    cr_expect_eq(access(path, F_OK), 0);
}

Test(errbusd, listens_at_a_host_and_port_without_a_scheme)
{
    struct broker broker;
    cr_assert(broker_start(&broker, WORDS("--control", "127.0.0.1:*", "--data", "localhost:0")));
    cr_expect_eq(strncmp(broker.control, "tcp://127.0.0.1:", 16), 0, "%s", broker.control);
    cr_expect_eq(strncmp(broker.data, "tcp://127.0.0.1:", 16), 0, "%s", broker.data);
    expect_service(&broker);
    broker_fini(&broker);
}

Test(errbusd, refuses_what_it_cannot_have)
{
    struct broker broker;
    cr_assert(broker_start(&broker, NULL));
    expect_refusal(WORDS("--control", broker.control), 1, "in use");
    expect_refusal(WORDS("--control", "tcp://127.0.0.1:*", "--data", broker.data), 1, "in use");
    broker_fini(&broker);
    expect_refusal(WORDS("--open", "--control", "tcp://192.0.2.1:*"), 1, "no such address");
    expect_refusal(WORDS("--control", "udp://127.0.0.1:1"), 2,
                   "expected HOST:PORT, tcp://HOST:PORT");
    expect_refusal(WORDS("--control", "tcp://127.0.0.1"), 2, "expected HOST:PORT, tcp://HOST:PORT");
    expect_refusal(WORDS("--control", "ipc:///nonexistent/x"), 1, "No such file");
    static const char *const ports[] = {"tcp://127.0.0.1:65536", "tcp://127.0.0.1:-1",
                                        "tcp://127.0.0.1:1x", "tcp://127.0.0.1:"};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        expect_refusal(WORDS("--control", ports[i]), 2, "the port must be 1 to 65535");
    }
    expect_refusal(WORDS("--control", "tcp://localhost:*", "--data", "tcp://127.0.0.1:*",
                         "--advertise", "there:7371x"),
                   2, "--advertise: \'there:7371x\': expected");
}

Test(errbusd, starts_where_others_reach_it_only_if_told_who_may_come)
{
    static const char *const reachable[] = {"tcp://*:*", "*:*", "tcp://0.0.0.0:*", "tcp://[::]:*",
                                            "192.0.2.1:*"};
    for (size_t i = 0; i < sizeof reachable / sizeof reachable[0]; i++) {
        expect_refusal(WORDS("--control", reachable[i]), 2, "errbusd --access FILE");
        expect_refusal(WORDS("--data", reachable[i]), 2, "errbusd --open");
    }
    expect_refusal(WORDS("--open", "--access", "/nonexistent"), 2, "exclude each other");
    expect_refusal(WORDS("--access", "/nonexistent", "--key", "/nonexistent/key"), 1,
                   "cannot read the access file '/nonexistent'");
}

Test(errbusd, refuses_an_access_file_or_a_key_that_is_wrong)
{
    char path[FOLDER_PATH_BYTES_MAX];
    char key[FOLDER_PATH_BYTES_MAX];
    char words[2 * FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, "key", "no key\n", key));
    cr_assert(folder_write(&folder, "access", "uid a 1\nallow a all\n", path));
    snprintf(words, sizeof words, "%s:2: 'all' is no right", path);
    expect_refusal(WORDS("--access", path, "--key", key), 1, words);
    cr_assert(folder_write(&folder, "access", "uid a 1\nallow a admin\n", path));
    cr_assert_eq(chmod(key, 0600), 0);
    expect_refusal(WORDS("--access", path, "--key", key), 1, "is no key of Errbus");
    cr_assert_eq(chmod(key, 0644), 0);
    expect_refusal(WORDS("--access", path, "--key", key), 1, "others can read or write it");
}

Test(errbusd, refuses_what_it_does_not_know)
{
    char path[FOLDER_PATH_BYTES_MAX];
    char words[2 * FOLDER_PATH_BYTES_MAX];
    expect_refusal(WORDS("--frobnicate"), 2, "--frobnicate");
    expect_refusal(WORDS("here"), 2, "here");
    expect_refusal(WORDS("--durability", "hope"), 2, "memory, process, disk or shared");
    expect_refusal(WORDS("--durability", "disk"), 2, "needs a journal: remove --journal none");
    expect_refusal(WORDS("--durability", "process"), 2, "--durability process needs a journal");
    expect_refusal(WORDS("--durability", "memory", "--journal", "/proc/errbus"), 2,
                   "keeps no journal: remove --journal /proc/errbus");
    expect_refusal(WORDS("--journal", "/proc/errbus"), 1, "/proc/errbus");
    cr_assert(folder_write(&folder, "cfg", "# one\nverbose = yes\nfrobnicate = 1\n", path));
    snprintf(words, sizeof words, "%s:3: unknown key 'frobnicate'", path);
    expect_refusal(WORDS("--config", path), 2, words);
}

static void expect_logged(struct broker *broker, const char *text)
{
    cr_expect_not_null(strstr(process_complained(&broker->process), text), "not '%s' in: %s", text,
                       process_complained(&broker->process));
}

Test(errbusd, logs_where_it_listens_what_it_restored_and_why_it_ended)
{
    struct broker broker;
    char text[2048];
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    for (int i = 0; i < 2; i++) {
        cr_assert(broker_start(&broker, WORDS("--journal", journal)));
        snprintf(text, sizeof text, "info: errbusd %s, process %d: control %s, data %s\n",
                 bus_version(), (int)broker.process.pid, broker.control, broker.data);
        expect_service(&broker);
        process_signal(&broker.process, SIGTERM);
        cr_expect_eq(process_wait(&broker.process, SOON_MS), 0);
        expect_logged(&broker, text);
        snprintf(text, sizeof text,
                 i == 0 ? "info: journal %s: new\n" : "info: journal %s: restored; jobs: 1, ",
                 journal);
        expect_logged(&broker, text);
        snprintf(text, sizeof text, "info: stopping: SIGTERM from process %d of user %u\n",
                 (int)getpid(), getuid());
        expect_logged(&broker, text);
        expect_logged(&broker, "info: stopped, as requested; ");
        cr_expect_null(strstr(process_complained(&broker.process), "beyond this machine"), "%s",
                       process_complained(&broker.process));
        broker_fini(&broker);
    }
}

/* On the disk, as du has it. */
static int64_t folder_kib(const char *path)
{
    int64_t blocks = 0;
    struct dirent *entry = NULL;
    DIR *names = opendir(path);
    cr_assert_not_null(names, "%s", path);
    while ((entry = readdir(names)) != NULL) {
        struct stat status;
        cr_assert_eq(fstatat(dirfd(names), entry->d_name, &status, 0), 0);
        blocks += S_ISREG(status.st_mode) ? status.st_blocks : 0;
    }
    closedir(names);
    return blocks / 2;
}

/* A value is let in only when there is room for bad news: so it is there with the first one. */
Test(errbusd, sets_room_aside_in_its_journal_with_the_first_value)
{
    struct broker broker;
    struct bus *bus = NULL;
    struct stat spare;
    char path[FOLDER_PATH_BYTES_MAX + 32];
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    for (int i = 0; i < 2; i++) {
        cr_assert(broker_start(&broker, WORDS("--journal", journal)));
        cr_expect_leq(folder_kib(journal), 512, "%s takes %lld KiB", i == 0 ? "new" : "empty",
                      (long long)folder_kib(journal));
        /* Who cannot have the ports leaves no other journal behind. */
        snprintf(path, sizeof path, "%s/other", folder.path);
        expect_refusal(WORDS("--control", broker.control, "--journal", path), 1, "in use");
        cr_expect_eq(access(path, F_OK), -1);
        cr_expect_eq(broker_stop(&broker, SOON_MS), 0);
        broker_fini(&broker);
    }
    cr_assert(broker_start(&broker, WORDS("--journal", journal)));
    cr_assert_eq(bus_open(broker.control, NULL, SOON_MS, &bus, NULL), BUS_OK);
    cr_assert_eq(bus_publish(bus, "w", "x", 1), BUS_OK);
    cr_assert_eq(bus_close(&bus, SOON_MS), BUS_OK);
    snprintf(path, sizeof path, "%s/spare", journal);
    cr_assert_eq(stat(path, &spare), 0);
    cr_expect_geq((int64_t)spare.st_blocks * 512, 64 * 1024 * 1024);
    broker_fini(&broker);
}

Test(errbusd, warns_when_others_can_reach_it)
{
    static const struct {
        const char *control, *data, *named;
    } rows[] = {
        {"tcp://0.0.0.0:*", "tcp://127.0.0.1:*", "warning: tcp://0.0.0.0:"},
        {"tcp://127.0.0.1:*", "*:0", "warning: tcp://0.0.0.0:"},
        {"tcp://127.0.0.2:*", "tcp://127.0.0.1:*", NULL},
        {"ipc:///tmp/errbus-log-test", "tcp://localhost:*", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct broker broker;
        cr_assert(broker_start(
            &broker, WORDS("--open", "--control", rows[i].control, "--data", rows[i].data)));
        process_signal(&broker.process, SIGTERM);
        cr_expect_eq(process_wait(&broker.process, SOON_MS), 0);
        if (rows[i].named != NULL)
            expect_logged(&broker, rows[i].named);
        else
            cr_expect_null(strstr(process_complained(&broker.process), "warning"), "%s",
                           process_complained(&broker.process));
        broker_fini(&broker);
    }
}

Test(errbusd, checks_its_configuration_and_touches_nothing)
{
    struct process process = {.pid = 0};
    struct broker broker;
    char path[FOLDER_PATH_BYTES_MAX];
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    char text[4 * FOLDER_PATH_BYTES_MAX];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    cr_assert(broker_start(&broker, NULL)); /* its ports are in use, and that is no matter */
    cr_assert(folder_write(&folder, "cfg", "linger = 5s\n", path));
    cr_assert(process_start(&process,
                            WORDS("errbusd", "--config", path, "--check-config", "--control",
                                  broker.control, "--journal", journal),
                            NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    snprintf(text, sizeof text, "control = %s\ndata = tcp://127.0.0.1:7371  # the default\n",
             broker.control);
    cr_expect_not_null(strstr(process_said(&process), text), "%s", process_said(&process));
    snprintf(text, sizeof text, "journal = %s\ndurability = disk\n", journal);
    cr_expect_not_null(strstr(process_said(&process), text), "%s", process_said(&process));
    cr_expect_not_null(strstr(process_said(&process), "\nlinger = 5s\n"), "%s",
                       process_said(&process));
    cr_expect_str_empty(process_complained(&process));
    cr_expect_eq(access(journal, F_OK), -1, "the journal was made");
    process_fini(&process);
    broker_fini(&broker);
    cr_assert(folder_write(&folder, "cfg", "linger = 5s\ncontrol = here\n", path));
    snprintf(text, sizeof text, "%s:2: control: 'here': expected HOST:PORT", path);
    expect_refusal(WORDS("--check-config", "--config", path), 2, text);
}

/* Without a journal, or with a new one, nobody can miss an older key. */
Test(errbusd, warns_of_a_new_key_beside_a_journal_from_before)
{
    static const char warning[] = "was made now, but the journal is from before";
    char path[FOLDER_PATH_BYTES_MAX], text[FOLDER_PATH_BYTES_MAX];
    char journal[FOLDER_PATH_BYTES_MAX + 16], key[FOLDER_PATH_BYTES_MAX + 16];
    char control[FOLDER_PATH_BYTES_MAX + 16], data[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(text, sizeof text, "uid ops %u\nallow ops party in *\n", getuid());
    cr_assert(folder_write(&folder, "access", text, path));
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    snprintf(key, sizeof key, "%s/key", folder.path);
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    for (int i = 0; i < 4; i++) {
        struct broker broker;
        struct bus *bus = NULL;
        struct bus_options options;
        bool is_warned = i == 2;
        bus_options_init(&options);
        options.party = "ops";
        if (i > 1)
            cr_assert(is_warned ? unlink(key) == 0 : access(key, F_OK) == 0);
        cr_assert(broker_start(&broker, WORDS("--access", path, "--key", key, "--journal", journal,
                                              "--control", control, "--data", data)));
        cr_assert_eq(bus_open(broker.control, &options, SOON_MS, &bus, NULL), BUS_OK);
        cr_assert_eq(bus_close(&bus, SOON_MS), BUS_OK);
        cr_expect_eq(broker_stop(&broker, SOON_MS), 0);
        cr_expect_eq(strstr(process_complained(&broker.process), warning) != NULL, is_warned,
                     "start %d: %s", i, process_complained(&broker.process));
        broker_fini(&broker);
    }
}

/* An operator looks at a configuration before the broker is started with it. */
Test(errbusd, refuses_in_its_configuration_what_a_start_refuses)
{
    char path[FOLDER_PATH_BYTES_MAX], wrong[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, "access", "uid ops 1000\n", path));
    cr_assert(folder_write(&folder, "wrong", "uid ops 1000\nallow ops nothing\n", wrong));
    const struct {
        const char *const *options;
        int status; /* of the start */
        const char *words;
    } rows[] = {
        {WORDS("--control", "tcp://*:*", "--data", "tcp://*:*"), 2, "nothing says who may come"},
        {WORDS("--open", "--access", path), 2, "exclude each other"},
        {WORDS("--web", "0.0.0.0:0"), 2, "name a file with --web-token"},
        {WORDS("--durability", "disk"), 2, "needs a journal"},
        {WORDS("--access", wrong), 1, "wrong:2: "},
        {WORDS("--access", "/nowhere/access"), 1, "cannot read the access file '/nowhere/access'"},
    };
    cr_assert_eq(setenv("XDG_STATE_HOME", folder.path, 1), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *more[ARGUMENTS_MAX] = {"--check-config"};
        for (size_t j = 0; rows[i].options[j] != NULL; j++)
            more[j + 1] = rows[i].options[j];
        expect_refusal(rows[i].options, rows[i].status, rows[i].words);
        expect_refusal(more, 2, rows[i].words);
    }
}

/* The key is made, and its place chosen, by the start alone. */
Test(errbusd, makes_and_names_no_key_when_it_checks_its_configuration)
{
    struct process process = {.pid = 0};
    char path[FOLDER_PATH_BYTES_MAX];
    char errbus[FOLDER_PATH_BYTES_MAX + 16];
    char text[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(errbus, sizeof errbus, "%s/errbus", folder.path);
    cr_assert(folder_write(&folder, "access", "uid ops 1000\n", path));
    cr_assert_eq(setenv("XDG_STATE_HOME", folder.path, 1), 0);
    cr_assert(process_start(&process,
                            WORDS("errbusd", "--check-config", "--access", path, "--control",
                                  "tcp://*:*", "--data", "tcp://*:*"),
                            NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    snprintf(text, sizeof text, "\naccess = %s\n", path);
    cr_expect_not_null(strstr(process_said(&process), text), "%s", process_said(&process));
    cr_expect_null(strstr(process_said(&process), "\nkey = "), "%s", process_said(&process));
    cr_expect_eq(access(errbus, F_OK), -1, "something was made");
    process_fini(&process);
}

Test(errbusd, takes_its_options_from_a_file)
{
    struct broker broker;
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(
        folder_write(&folder, "cfg", "linger = 5s\nverbose = yes\ntopic-window = 1M\n", path));
    cr_assert(broker_start(&broker, WORDS("--config", path)));
    expect_service(&broker);
    /* Verbose: it tells who came. */
    cr_expect_not_null(strstr(process_complained(&broker.process), "party.joined job/p/1"));
    broker_fini(&broker);
}

Test(errbusd, says_so_when_no_descriptors_are_left)
{
    struct process process = {.pid = 0};
    /* The limit is the child's: a shell lowers it for errbusd alone. */
    char path[4096];
    char command[4200];
    snprintf(command, sizeof command, "ulimit -n 16; exec '%s' --journal none",
             process_path("errbusd", path, sizeof path));
    cr_assert(process_start(&process, WORDS("/bin/sh", "-c", command), NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 1);
    cr_expect_str_eq(process_complained(&process),
                     "errbusd: cannot start: too few file descriptors: raise the "
                     "limit (ulimit -n)\n");
    process_fini(&process);
}

/* What it logs is not sent to whoever got the descriptor. */
Test(errbusd, gives_no_socket_the_place_of_a_closed_stream)
{
    struct process process = {.pid = 0};
    const char *line = NULL;
    char path[4096];
    char command[4300];
    snprintf(command, sizeof command,
             "exec '%s' --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' --journal none "
             "<&- 2>&-",
             process_path("errbusd", path, sizeof path));
    cr_assert(process_start(&process, WORDS("/bin/sh", "-c", command), NULL));
    cr_assert(process_line(&process, SOON_MS, &line));
    for (int fd = 0; fd <= 2; fd += 2) {
        char link[64];
        char target[64] = "";
        snprintf(link, sizeof link, "/proc/%ld/fd/%d", (long)process.pid, fd);
        cr_assert_gt(readlink(link, target, sizeof target - 1), 0);
        cr_expect_str_eq(target, "/dev/null");
    }
    process_signal(&process, SIGTERM);
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    process_fini(&process);
}

Test(errbusd, prints_version_and_help)
{
    struct process process = {.pid = 0};
    cr_assert(process_start(&process, WORDS("errbusd", "--version"), NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    cr_expect(strncmp(process_said(&process), "errbusd ", 8) == 0);
    process_fini(&process);
    cr_assert(process_start(&process, WORDS("errbusd", "--help"), NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    cr_expect_not_null(strstr(process_said(&process), "--control ENDPOINT"));
    cr_expect_str_empty(process_complained(&process));
    process_fini(&process);
}

/* SPDX-License-Identifier: MPL-2.0 */
/* postgres.c -- a PostgreSQL of one's own; see postgres.h. */
#include "tests/lib/postgres.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAMS "/usr/lib/postgresql/15/bin/"
#define OPENSSL "/usr/bin/openssl" /* postgresql-common needs it, too */
#define STANDBYS "ANY 1 (node0, node1, node2)"
enum {
    SERVER_MS = 60000, /* a bound against hanging */
    ARGS_MAX = 48,
    SETTING_BYTES = POSTGRES_CONNINFO_BYTES + 32,
    POLL_US = 20000,
    LOCK_LINES = 7, /* of its lock file: its process is in the first, its segment in this one */
};

static bool complain(struct postgres *postgres, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool complain(struct postgres *postgres, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(postgres->why, sizeof postgres->why, format, args);
    va_end(args);
    return false;
}

bool postgres_is_installed(void)
{
    bool is_there = access(PROGRAMS "postgres", X_OK) == 0 &&
                    access(PROGRAMS "pg_basebackup", X_OK) == 0 &&
                    access(PROGRAMS "psql", X_OK) == 0;
    const char *required = getenv("ERRBUS_REQUIRE");
    if (is_there || required == NULL || strstr(required, "postgresql") == NULL)
        return is_there;
    fprintf(stderr, "%s, for ERRBUS_REQUIRE asks for it\n", POSTGRES_MISSING);
    abort();
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Starts a program of PostgreSQL, as a user who may run it; NULL behind the arguments. */
static bool start_program(struct process *process, const char *const *arguments)
{
    static const char *const as_nobody[] = {"/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup",
                                            "--clear-groups", "--pdeathsig=KILL"};
    const char *argv[ARGS_MAX] = {NULL};
    size_t count = 0;
    if (geteuid() == 0)
        for (; count < sizeof as_nobody / sizeof as_nobody[0]; count++)
            argv[count] = as_nobody[count];
    for (size_t i = 0; arguments[i] != NULL && count + 1 < ARGS_MAX; i++)
        argv[count++] = arguments[i];
    return process_start(process, argv, NULL);
}

static bool run_program(struct postgres *postgres, const char *const *arguments)
{
    struct process process = {0};
    bool is_started = start_program(&process, arguments);
    int code = is_started ? process_wait(&process, SERVER_MS) : -1;
    if (code != 0)
        (void)complain(postgres, "%s ended with %d: %.300s", arguments[0], code,
                       is_started ? process_complained(&process) : "it did not start");
    process_fini(&process);
    return code == 0;
}

bool postgres_query(struct postgres *postgres, unsigned node, const char *sql, char *out,
                    size_t bytes)
{
    const char *const argv[] = {PROGRAMS "psql",
                                "-XqAt",
                                "-h",
                                postgres->nodes[node].sockets,
                                "-U",
                                "postgres",
                                "-c",
                                sql,
                                NULL};
    struct process process = {0};
    if (!start_program(&process, argv))
        return complain(postgres, "psql did not start");
    int code = process_wait(&process, SERVER_MS);
    snprintf(out, bytes, "%s", process_said(&process));
    out[strcspn(out, "\n")] = '\0';
    if (code != 0)
        (void)complain(postgres, "node%u: %s: %.300s", node, sql, process_complained(&process));
    process_fini(&process);
    return code == 0 && *out != '\0';
}

static bool await_answer(struct postgres *postgres, unsigned node, const char *sql, char *out,
                         size_t bytes)
{
    int64_t end_ms = test_now_ms() + SERVER_MS;
    while (!postgres_query(postgres, node, sql, out, bytes)) {
        if (test_now_ms() >= end_ms)
            return complain(postgres, "node%u has no answer to: %s", node, sql);
        if (postgres->in_vain != NULL)
            postgres->in_vain(postgres->in_vain_arg);
        usleep(POLL_US);
    }
    return true;
}

bool postgres_await(struct postgres *postgres, unsigned node, const char *sql)
{
    char answer[200];
    return await_answer(postgres, node, sql, answer, sizeof answer);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What only a node with TLS has; NULL behind the words. */
struct tls_words {
    char texts[4][SETTING_BYTES];
    const char *argv[9];
};

static void name_tls(const struct postgres *postgres, struct tls_words *out)
{
    const char *folder = postgres->folder.path;
    snprintf(out->texts[0], SETTING_BYTES, "listen_addresses=%s", postgres->address);
    snprintf(out->texts[1], SETTING_BYTES, "ssl=on");
    snprintf(out->texts[2], SETTING_BYTES, "ssl_cert_file=%s/server.pem", folder);
    snprintf(out->texts[3], SETTING_BYTES, "ssl_key_file=%s/server.key", folder);
    for (size_t i = 0; i < 4; i++) {
        out->argv[2 * i] = "-c";
        out->argv[2 * i + 1] = out->texts[i];
    }
    out->argv[8] = NULL;
}

static bool start_node(struct postgres *postgres, unsigned number)
{
    struct postgres_node *node = &postgres->nodes[number];
    char sockets[SETTING_BYTES], log[SETTING_BYTES], name[SETTING_BYTES], primary[SETTING_BYTES];
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", node->sockets);
    snprintf(log, sizeof log, "log_directory=%s", node->sockets);
    snprintf(name, sizeof name, "cluster_name=node%u", number);
    snprintf(primary, sizeof primary, "primary_conninfo=%s", postgres->upstream);
    struct tls_words tls;
    name_tls(postgres, &tls);
    const char *const *more = tls.argv;
    const char *argv[ARGS_MAX] = {PROGRAMS "postgres",
                                  "-D",
                                  node->data,
                                  "-c",
                                  "listen_addresses=",
                                  "-c",
                                  sockets,
                                  "-c",
                                  "logging_collector=on",
                                  "-c",
                                  log,
                                  "-c",
                                  "max_connections=30",
                                  "-c",
                                  "shared_buffers=16MB",
                                  "-c",
                                  "dynamic_shared_memory_type=mmap", /* in the data folder */
                                  "-c",
                                  "wal_keep_size=512MB",
                                  "-c",
                                  "wal_retrieve_retry_interval=100ms",
                                  "-c",
                                  "wal_receiver_timeout=5s",
                                  "-c",
                                  name,
                                  "-c",
                                  primary};
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    while (node->has_tls && *more != NULL && count + 1 < ARGS_MAX)
        argv[count++] = *more++;
    if (!start_program(&node->server, argv))
        return complain(postgres, "node%u did not start", number);
    return postgres_await(postgres, number, "SELECT 1");
}

static bool make_primary(struct postgres *postgres, bool has_standbys)
{
    struct postgres_node *node = &postgres->nodes[0];
    char path[POSTGRES_PATH_BYTES + 32];
    const char *const make[] = {PROGRAMS "initdb", "-D", node->data, "-A", "trust", "-N", "-U",
                                "postgres",        NULL};
    if (!run_program(postgres, make))
        return false;
    snprintf(path, sizeof path, "%s/postgresql.conf", node->data);
    FILE *settings = fopen(path, "ae");
    if (settings == NULL)
        return complain(postgres, "%s cannot be written", path);
    fprintf(settings, "synchronous_standby_names = '%s'\n", has_standbys ? STANDBYS : "");
    if (fclose(settings) != 0)
        return complain(postgres, "%s cannot be written", path);
    return start_node(postgres, 0);
}

static bool copy_node(struct postgres *postgres, unsigned number)
{
    const char *const copy[] = {PROGRAMS "pg_basebackup",
                                "-d",
                                postgres->conninfo,
                                "-D",
                                postgres->nodes[number].data,
                                "-R",
                                "-c",
                                "fast",
                                "--no-sync",
                                NULL};
    return run_program(postgres, copy) && start_node(postgres, number);
}

void postgres_name(const struct postgres *postgres, const char *prefix,
                   char out[POSTGRES_CONNINFO_BYTES])
{
    size_t bytes = (size_t)snprintf(out, POSTGRES_CONNINFO_BYTES, "host=");
    for (unsigned i = 0; i < postgres->count; i++)
        bytes += (size_t)snprintf(out + bytes, POSTGRES_CONNINFO_BYTES - bytes, "%s%s/%s%u",
                                  i > 0 ? "," : "", postgres->folder.path, prefix, i);
    snprintf(out + bytes, POSTGRES_CONNINFO_BYTES - bytes,
             " user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=3");
}

/* The folders of all nodes, and how each of them is reached. */
static bool name_nodes(struct postgres *postgres)
{
    char folder[FOLDER_PATH_BYTES_MAX];
    memcpy(folder, postgres->folder.path, sizeof folder);
    for (unsigned i = 0; i < postgres->count; i++) {
        struct postgres_node *node = &postgres->nodes[i];
        snprintf(node->data, sizeof node->data, "%s/node%u", folder, i);
        snprintf(node->sockets, sizeof node->sockets, "%s/s%u", folder, i);
        if (mkdir(node->sockets, 0777) != 0 || chmod(node->sockets, 0777) != 0)
            return complain(postgres, "%s cannot be made", node->sockets);
    }
    postgres_name(postgres, "s", postgres->conninfo);
    memcpy(postgres->upstream, postgres->conninfo, sizeof postgres->upstream);
    return true;
}

bool postgres_start(struct postgres *postgres, unsigned standbys)
{
    *postgres = (struct postgres){.count = standbys + 1};
    if (!folder_make(&postgres->folder) || chmod(postgres->folder.path, 0777) != 0)
        return complain(postgres, "no folder can be made");
    if (!name_nodes(postgres) || !make_primary(postgres, standbys > 0))
        return false;
    for (unsigned i = 1; i < postgres->count; i++)
        if (!copy_node(postgres, i))
            return false;
    return postgres_await_standbys(postgres, 0, standbys);
}

void postgres_fini(struct postgres *postgres)
{
    for (unsigned i = 0; i < postgres->count; i++)
        postgres_kill(postgres, i);
    folder_fini(&postgres->folder);
}

/* ---- standbys -------------------------------------------------------------------------------- */

bool postgres_await_standbys(struct postgres *postgres, unsigned node, unsigned count)
{
    char sql[200];
    if (count == 0)
        return true;
    snprintf(sql, sizeof sql,
             "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
             " AND sync_state IN ('sync', 'quorum') HAVING count(*) >= %u",
             count);
    return postgres_await(postgres, node, sql);
}

bool postgres_set_standbys(struct postgres *postgres, unsigned node, const char *names)
{
    char sql[200], answer[200];
    snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = '%s'", names);
    (void)postgres_query(postgres, node, sql, answer, sizeof answer); /* it answers nothing */
    if (!postgres_query(postgres, node, "SELECT pg_reload_conf()", answer, sizeof answer))
        return false;
    snprintf(sql, sizeof sql, "SELECT 1 WHERE current_setting('synchronous_standby_names') = '%s'",
             names);
    return postgres_await(postgres, node, sql);
}

bool postgres_cancel_commit(struct postgres *postgres, unsigned node, unsigned long *pid)
{
    char sql[200], answer[200];
    snprintf(sql, sizeof sql,
             "SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity"
             " WHERE wait_event = 'SyncRep' AND pid <> %lu",
             *pid);
    if (!await_answer(postgres, node, sql, answer, sizeof answer))
        return false;
    *pid = strtoul(answer, NULL, 10);
    return true;
}

bool postgres_promote(struct postgres *postgres, unsigned node)
{
    char answer[200];
    if (!postgres_query(postgres, node, "SELECT pg_promote(true, 60)", answer, sizeof answer))
        return false;
    return strcmp(answer, "t") == 0 || complain(postgres, "node%u was not promoted", node);
}

static bool is_up(const struct postgres_node *node)
{
    return node->server.pid > 0 && !node->is_frozen;
}

unsigned postgres_primary(struct postgres *postgres)
{
    unsigned node = 0;
    for (; node < postgres->count; node++) {
        char answer[200];
        if (is_up(&postgres->nodes[node]) &&
            postgres_query(postgres, node, "SELECT pg_is_in_recovery()", answer, sizeof answer) &&
            strcmp(answer, "f") == 0)
            break;
    }
    return node;
}

bool postgres_foremost(struct postgres *postgres, unsigned *out)
{
    uint64_t most = 0;
    *out = 0;
    for (unsigned i = 0; i < postgres->count; i++)
        if (is_up(&postgres->nodes[i]) &&
            !postgres_await(postgres, i,
                            "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"))
            return false;
    for (unsigned i = 0; i < postgres->count; i++) {
        char answer[200];
        if (!is_up(&postgres->nodes[i]) ||
            !postgres_query(postgres, i,
                            "SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(),"
                            " pg_last_wal_replay_lsn()), '0/0')",
                            answer, sizeof answer))
            continue;
        uint64_t has = strtoull(answer, NULL, 10);
        *out = has > most ? i : *out;
        most = has > most ? has : most;
    }
    return most > 0 || complain(postgres, "no standby is up");
}

bool postgres_join(struct postgres *postgres, unsigned node)
{
    const char *const clear[] = {"/bin/rm", "-rf", postgres->nodes[node].data, NULL};
    postgres_kill(postgres, node);
    return run_program(postgres, clear) && copy_node(postgres, node);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

bool postgres_make_certificate(struct postgres *postgres, const char *name)
{
    char key[SETTING_BYTES], certificate[SETTING_BYTES];
    snprintf(key, sizeof key, "%s/%s.key", postgres->folder.path, name);
    snprintf(certificate, sizeof certificate, "%s/%s.pem", postgres->folder.path, name);
    const char *const make[] = {OPENSSL,
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:prime256v1",
                                "-nodes",
                                "-days",
                                "2",
                                "-subj",
                                "/CN=localhost",
                                "-addext",
                                "subjectAltName=DNS:localhost",
                                "-keyout",
                                key,
                                "-out",
                                certificate,
                                NULL};
    return run_program(postgres, make);
}

/* Each process of a test has an address of its own in 127.0.0.0/8, so the port is free. */
bool postgres_serve_tls(struct postgres *postgres, unsigned node)
{
    unsigned own = (unsigned)getpid();
    snprintf(postgres->address, sizeof postgres->address, "127.%u.%u.%u", 1 + (own >> 16) % 254,
             own >> 8 & 255, own & 255);
    postgres_kill(postgres, node);
    postgres->nodes[node].has_tls = true;
    return start_node(postgres, node);
}

/* ---- killing --------------------------------------------------------------------------------- */

/* -1: it is gone. */
static long parent_of(const char *pid)
{
    char path[64];
    long parent = -1;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    /* No program of PostgreSQL has a blank or a bracket in its name. */
    if (file != NULL && fscanf(file, "%*d (%*[^)]) %*c %ld", &parent) != 1)
        parent = -1;
    if (file != NULL)
        fclose(file);
    return parent;
}

static void signal_children(pid_t parent, int number)
{
    DIR *all = opendir("/proc");
    if (all == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == parent)
            (void)kill((pid_t)strtol(entry->d_name, NULL, 10), number); /* or it is gone */
    closedir(all);
}

int postgres_segment(const struct postgres *postgres, unsigned node)
{
    char path[POSTGRES_PATH_BYTES + 32];
    char line[512] = "";
    int segment = -1;
    int count = 0;
    long owner = 0;
    snprintf(path, sizeof path, "%s/postmaster.pid", postgres->nodes[node].data);
    FILE *file = fopen(path, "re");
    while (file != NULL && count < LOCK_LINES && fgets(line, sizeof line, file) != NULL)
        if (++count == 1)
            owner = strtol(line, NULL, 10);
    if (file != NULL)
        fclose(file);
    bool is_own = count == LOCK_LINES && owner == postgres->nodes[node].server.pid;
    return is_own && sscanf(line, "%*u %d", &segment) == 1 ? segment : -1;
}

/* The server is stopped first, so that it starts no more children.  Its lock file tells of the
 * segment that would stay behind: a system has room for 4096 of them. */
void postgres_kill(struct postgres *postgres, unsigned node)
{
    struct process *server = &postgres->nodes[node].server;
    if (server->pid > 0) {
        int segment = postgres_segment(postgres, node);
        process_signal(server, SIGSTOP);
        signal_children(server->pid, SIGKILL);
        process_signal(server, SIGKILL);
        (void)process_wait(server, SERVER_MS);
        if (segment >= 0)
            (void)shmctl(segment, IPC_RMID, NULL); /* or it is gone */
    }
    process_fini(server);
    postgres->nodes[node].is_frozen = false;
}

void postgres_freeze(struct postgres *postgres, unsigned node)
{
    struct process *server = &postgres->nodes[node].server;
    process_signal(server, SIGSTOP);
    signal_children(server->pid, SIGSTOP);
    postgres->nodes[node].is_frozen = true;
}

void postgres_thaw(struct postgres *postgres, unsigned node)
{
    struct process *server = &postgres->nodes[node].server;
    signal_children(server->pid, SIGCONT);
    process_signal(server, SIGCONT);
    postgres->nodes[node].is_frozen = false;
}

bool postgres_revive(struct postgres *postgres, unsigned node)
{
    return start_node(postgres, node);
}

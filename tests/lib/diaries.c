/* SPDX-License-Identifier: MPL-2.0 */
/* diaries.c -- what writers and readers wrote down, held against each other; see diaries.h. */
#include "tests/lib/diaries.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT64_MAX
enum { PROCESSES_MAX = 4096, LINE_BYTES = 1024 };

/* One value or promise of a writer. */
struct work {
    uint64_t seq;   /* of a promise whose number is known; else NOWHERE */
    uint64_t found; /* where it was received, or NOWHERE */
    uint8_t topic;
    bool is_promise;
    char settled;                 /* C, E, or 0: not yet; P of a value */
    bool is_acknowledged;         /* the value, or that it is promised */
    bool is_settled_acknowledged; /* how it was settled */
};
struct outcome {
    char kind; /* V, E, or 0: not received */
    bool is_promised;
    bool is_acknowledged; /* that it is promised */
    char *text;
};
struct topic {
    struct outcome *outcomes; /* by number */
    uint64_t count, room;
    uint64_t unknown; /* promises that were begun, with a number that nobody wrote down */
    uint64_t newest;  /* process << 32 | number of the last that was found, in order, and 1 more */
};
struct writer {
    struct work *works;
    uint64_t count, room;
    uint64_t settled_from;         /* all before is acknowledged, settlements too */
    uint64_t first[PROCESSES_MAX]; /* work of each process */
    unsigned processes;
    uint64_t settled[4096]; /* since the last F */
    unsigned settled_count;
    struct topic topics[DIARIES_TOPICS];
};
struct reading {           /* of a topic by one reader */
    uint64_t next;         /* in this process; NOWHERE: nothing yet */
    uint64_t seen;         /* all before was received, in any process */
    uint64_t acknowledged; /* all before was acknowledged */
};
struct diaries {
    struct writer writers[DIARIES_WRITERS_MAX];
    unsigned writer_count;
    struct diaries_sums sums;
    char *complaint;
    const char *name; /* of the diary that is read */
    uint64_t line;
};

static bool wrong(struct diaries *all, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool wrong(struct diaries *all, const char *format, ...)
{
    char text[DIARIES_COMPLAINT_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(all->complaint, DIARIES_COMPLAINT_BYTES, "%s:%" PRIu64 ": %s", all->name, all->line,
             text);
    return false;
}

/* Room for one more of size bytes. */
static void *grow(void *items, uint64_t count, uint64_t *room, size_t size)
{
    if (count < *room)
        return items;
    uint64_t wanted = *room > 0 ? 2 * *room : 1024;
    void *grown = realloc(items, wanted * size);
    if (grown == NULL)
        abort();
    memset((char *)grown + *room * size, 0, (wanted - *room) * size);
    *room = wanted;
    return grown;
}

/* ---- writers ----------------------------------------------------------------------------------*/

static bool begin_work(struct diaries *all, struct writer *writer, char letter, unsigned topic,
                       uint64_t number)
{
    if (number != writer->count - writer->first[writer->processes - 1])
        return wrong(all, "number %" PRIu64 " is out of turn", number);
    writer->works = grow(writer->works, writer->count, &writer->room, sizeof *writer->works);
    writer->works[writer->count++] = (struct work){.seq = NOWHERE,
                                                   .found = NOWHERE,
                                                   .topic = (uint8_t)topic,
                                                   .is_promise = letter == 'r',
                                                   .settled = letter == 'P' ? 'P' : '\0'};
    writer->topics[topic].unknown += letter == 'r';
    return true;
}

static bool go_on_with_work(struct diaries *all, struct writer *writer, char letter,
                            uint64_t number, uint64_t seq)
{
    uint64_t at = writer->first[writer->processes - 1] + number;
    if (at >= writer->count || !writer->works[at].is_promise)
        return wrong(all, "%c of what is no promise", letter);
    if (letter == 'R') {
        writer->works[at].seq = seq;
        writer->topics[writer->works[at].topic].unknown -= 1;
        all->sums.promises += 1;
        return true;
    }
    writer->works[at].settled = letter;
    if (writer->settled_count == sizeof writer->settled / sizeof writer->settled[0])
        return wrong(all, "too much is settled between two F");
    writer->settled[writer->settled_count++] = at;
    return true;
}

static void acknowledge_work(struct diaries *all, struct writer *writer)
{
    for (; writer->settled_from < writer->count; writer->settled_from++) {
        writer->works[writer->settled_from].is_acknowledged = true;
        all->sums.written += 1;
    }
    while (writer->settled_count > 0)
        writer->works[writer->settled[--writer->settled_count]].is_settled_acknowledged = true;
}

/* Who is killed before the first line of a process has none of that number. */
static bool begin_incarnation(struct diaries *all, struct writer *writer, const char *line)
{
    unsigned process = 0;
    if (sscanf(line, "L %u", &process) != 1 || process < writer->processes)
        return wrong(all, "not the next process: %s", line);
    if (process >= PROCESSES_MAX)
        return wrong(all, "too many processes");
    while (writer->processes <= process)
        writer->first[writer->processes++] = writer->count;
    writer->settled_from = writer->count;
    writer->settled_count = 0;
    return true;
}

static bool read_written(struct diaries *all, void *arg, const char *line)
{
    struct writer *writer = arg;
    char letter = line[0];
    unsigned topic = 0;
    uint64_t number = 0;
    uint64_t seq = 0;
    if (letter == 'L')
        return begin_incarnation(all, writer, line);
    if (letter == 'F') {
        acknowledge_work(all, writer);
        return true;
    }
    int words = sscanf(line + 1, " t%u %" SCNu64 " %" SCNu64, &topic, &number, &seq);
    if (writer->processes == 0 || strchr("PrRCE", letter) == NULL || words < 2 + (letter == 'R') ||
        topic >= DIARIES_TOPICS)
        return wrong(all, "not a line of a writer: %s", line);
    return letter == 'P' || letter == 'r' ? begin_work(all, writer, letter, topic, number)
                                          : go_on_with_work(all, writer, letter, number, seq);
}

/* ---- readers ----------------------------------------------------------------------------------*/

struct reader {
    struct reading readings[DIARIES_WRITERS_MAX][DIARIES_TOPICS];
    struct reading *given; /* of the error on the line above; NULL: it has none */
};

/* The work that a text names: wW.PROCESS.NUMBER.... */
static struct work *find_work(struct diaries *all, unsigned w, const char *text,
                              uint64_t *out_order)
{
    unsigned writer = 0;
    unsigned process = 0;
    uint64_t number = 0;
    if (sscanf(text, "w%u.%u.%" SCNu64, &writer, &process, &number) != 3 || writer != w)
        return NULL;
    struct writer *of = &all->writers[writer];
    if (process >= of->processes)
        return NULL;
    uint64_t end = process + 1 < of->processes ? of->first[process + 1] : of->count;
    *out_order = of->first[process] + number;
    return *out_order < end ? &of->works[*out_order] : NULL;
}

/* A new outcome, of a place where none was received before. */
static bool judge(struct diaries *all, unsigned w, unsigned t, uint64_t seq, char kind,
                  const char *text)
{
    struct topic *topic = &all->writers[w].topics[t];
    uint64_t order = 0;
    all->sums.outcomes += 1;
    if (strcmp(text, "last") == 0)
        return true;
    if (text[0] == '-') {
        all->sums.failures += 1;
        return true;
    }
    struct work *work = find_work(all, w, text, &order);
    if (work == NULL || work->topic != t)
        return wrong(all, "nobody wrote %s here", text);
    if (work->found != NOWHERE)
        return wrong(all, "%s is at %" PRIu64 " and at %" PRIu64, text, work->found, seq);
    if (work->seq != NOWHERE && work->seq != seq)
        return wrong(all, "%s was promised at %" PRIu64, text, work->seq);
    if ((kind == 'E') != (work->settled == 'E') || work->settled == '\0')
        return wrong(all, "%s was not settled so", text);
    if (order < topic->newest)
        return wrong(all, "%s comes behind what was written later", text);
    topic->newest = order + 1;
    work->found = seq;
    return true;
}

static bool meet(struct diaries *all, unsigned w, unsigned t, uint64_t seq, char kind,
                 const char *text)
{
    struct topic *topic = &all->writers[w].topics[t];
    while (topic->count <= seq) {
        topic->outcomes = grow(topic->outcomes, topic->count, &topic->room, sizeof(struct outcome));
        topic->count += 1;
    }
    struct outcome *outcome = &topic->outcomes[seq];
    if (outcome->kind != '\0')
        return (outcome->kind == kind && strcmp(outcome->text, text) == 0) ||
               wrong(all, "another reader, or process, got %c %s", outcome->kind, outcome->text);
    outcome->kind = kind;
    outcome->text = strdup(text);
    if (outcome->text == NULL)
        abort();
    return judge(all, w, t, seq, kind, text);
}

/* Whether a reader may receive this number now. */
static bool take_turn(struct diaries *all, struct reading *reading, uint64_t seq)
{
    if (reading->next != NOWHERE && seq != reading->next)
        return wrong(all, "where %" PRIu64 " was due", reading->next);
    if (seq > reading->seen)
        return wrong(all, "%" PRIu64 " is missing", reading->seen);
    if (seq < reading->acknowledged)
        return wrong(all, "it was acknowledged");
    all->sums.again += seq < reading->seen;
    reading->next = seq + 1;
    if (seq >= reading->seen)
        reading->seen = seq + 1;
    return true;
}

/* f: the error given last was not acknowledged with the rest. */
static void turn_page(struct reader *reader, char letter)
{
    if (letter == 'f')
        reader->given->next -= 1;
    for (unsigned w = 0; w < DIARIES_WRITERS_MAX; w++) {
        for (unsigned t = 0; t < DIARIES_TOPICS; t++) {
            struct reading *reading = &reader->readings[w][t];
            if (letter == 'L')
                reading->next = NOWHERE;
            else if (reading->next != NOWHERE && reading->next > reading->acknowledged)
                reading->acknowledged = reading->next;
        }
    }
    if (letter == 'f')
        reader->given->next += 1;
}

static bool read_received(struct diaries *all, void *arg, const char *line)
{
    struct reader *reader = arg;
    unsigned w = 0;
    unsigned t = 0;
    uint64_t seq = 0;
    char kind[64] = "";
    char text[256] = "";
    char letter = line[0];
    if (letter == 'f' && reader->given == NULL)
        return wrong(all, "no error was given last");
    if (letter == 'L' || letter == 'F' || letter == 'f') {
        turn_page(reader, letter);
        reader->given = letter == 'f' ? reader->given : NULL;
        return true;
    }
    reader->given = NULL;
    if (letter == 'N')
        return true;
    int words = letter == 'V'
                    ? sscanf(line, "V w%u/t%u %" SCNu64 " %255s", &w, &t, &seq, text)
                    : sscanf(line, "E w%u/t%u %" SCNu64 " %63s %255s", &w, &t, &seq, kind, text);
    if (words < (letter == 'V' ? 4 : 5) || w >= all->writer_count || t >= DIARIES_TOPICS)
        return wrong(all, "not a line of a reader: %s", line);
    if (letter == 'E')
        reader->given = &reader->readings[w][t];
    return take_turn(all, &reader->readings[w][t], seq) && meet(all, w, t, seq, letter, text);
}

/* ---- what is missing --------------------------------------------------------------------------*/

static bool check_work(struct diaries *all, const struct writer *writer, const struct work *work)
{
    const struct topic *topic = &writer->topics[work->topic];
    bool is_known =
        work->seq != NOWHERE && work->seq < topic->count && topic->outcomes[work->seq].kind != '\0';
    bool must_be_found = work->is_promise ? work->is_settled_acknowledged : work->is_acknowledged;
    if (must_be_found && work->found == NOWHERE)
        return wrong(all, "t%u, %s %" PRIu64 ": acknowledged, and not received", work->topic,
                     work->is_promise ? "promise" : "value", work->seq);
    if (work->is_promise && work->is_acknowledged && !is_known)
        return wrong(all, "t%u: the promise at %" PRIu64 " has no end", work->topic, work->seq);
    return true;
}

/* A promise that the broker had not accepted when its writer was gone left its number to the next
 * one, which a promise that was acknowledged does not. */
static bool note_promise(struct diaries *all, struct topic *topic, const struct work *work)
{
    if (!work->is_promise || work->seq == NOWHERE || work->seq >= topic->count)
        return true;
    struct outcome *outcome = &topic->outcomes[work->seq];
    if (outcome->is_acknowledged)
        return wrong(all, "t%u: another promise at %" PRIu64 ", where one was acknowledged",
                     work->topic, work->seq);
    outcome->is_promised = true;
    outcome->is_acknowledged = work->is_acknowledged;
    return true;
}

/* Errors that the bus made stand where something was promised: by a reservation, or by the first
 * chunks of a value whose writer did not live to send the rest. */
static bool check_failures(struct diaries *all, struct writer *writer, unsigned t)
{
    struct topic *topic = &writer->topics[t];
    uint64_t failures = 0;
    uint64_t unknown = topic->unknown;
    for (uint64_t i = 0; i < writer->count; i++) {
        const struct work *work = &writer->works[i];
        if (work->topic != t)
            continue;
        if (!note_promise(all, topic, work))
            return false;
        unknown += !work->is_promise && !work->is_acknowledged && work->found == NOWHERE;
    }
    for (uint64_t i = 0; i < topic->count; i++) {
        const struct outcome *outcome = &topic->outcomes[i];
        failures += outcome->kind == 'E' && outcome->text[0] == '-' && !outcome->is_promised;
    }
    return failures <= unknown ||
           wrong(all, "t%u: %" PRIu64 " errors where nothing was promised", t, failures);
}

static bool check_writer(struct diaries *all, struct writer *writer)
{
    for (uint64_t i = 0; i < writer->count; i++) {
        all->line = i;
        if (!check_work(all, writer, &writer->works[i]))
            return false;
    }
    for (unsigned t = 0; t < DIARIES_TOPICS; t++)
        if (!check_failures(all, writer, t))
            return false;
    return true;
}

/* ---- all of it --------------------------------------------------------------------------------*/

static bool read_diary(struct diaries *all, const char *folder, const char *name,
                       bool (*read_line)(struct diaries *all, void *arg, const char *line),
                       void *arg)
{
    char path[512];
    char line[LINE_BYTES];
    bool is_fine = true;
    snprintf(path, sizeof path, "%s/%s.diary", folder, name);
    all->name = name;
    all->line = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return wrong(all, "there is none");
    while (is_fine && fgets(line, sizeof line, file) != NULL) {
        all->line += 1;
        is_fine = read_line(all, arg, line);
    }
    fclose(file);
    return is_fine;
}

/* Each reader has received all that any has. */
static bool check_reader(struct diaries *all, const struct reader *reader)
{
    for (unsigned w = 0; w < all->writer_count; w++)
        for (unsigned t = 0; t < DIARIES_TOPICS; t++)
            if (reader->readings[w][t].seen == 0)
                return wrong(all, "nothing of w%u/t%u", w, t);
    return true;
}

static bool run(struct diaries *all, const char *folder, unsigned readers)
{
    char name[32];
    for (unsigned i = 0; i < all->writer_count; i++) {
        snprintf(name, sizeof name, "w%u", i);
        if (!read_diary(all, folder, name, read_written, &all->writers[i]))
            return false;
    }
    /* Any may have received an outcome first; those who come behind must have gone as far. */
    uint64_t ends[DIARIES_WRITERS_MAX][DIARIES_TOPICS] = {{0}};
    for (unsigned i = 0; i < readers; i++) {
        struct reader reader = {0};
        turn_page(&reader, 'L');
        snprintf(name, sizeof name, "r%u", i);
        if (!read_diary(all, folder, name, read_received, &reader) || !check_reader(all, &reader))
            return false;
        for (unsigned w = 0; w < all->writer_count; w++) {
            for (unsigned t = 0; t < DIARIES_TOPICS; t++) {
                uint64_t seen = reader.readings[w][t].seen;
                if (i > 0 && seen != ends[w][t])
                    return wrong(all, "w%u/t%u ends at %" PRIu64 ", for another at %" PRIu64, w, t,
                                 seen, ends[w][t]);
                ends[w][t] = seen;
            }
        }
    }
    for (unsigned i = 0; i < all->writer_count; i++) {
        snprintf(name, sizeof name, "w%u", i);
        all->name = name;
        if (!check_writer(all, &all->writers[i]))
            return false;
    }
    return true;
}

bool diaries_check(const char *folder, unsigned writers, unsigned readers,
                   struct diaries_sums *out_sums, char complaint[DIARIES_COMPLAINT_BYTES])
{
    struct diaries *all = calloc(1, sizeof *all);
    if (all == NULL || writers > DIARIES_WRITERS_MAX)
        abort();
    all->writer_count = writers;
    all->complaint = complaint;
    complaint[0] = '\0';
    bool is_fine = run(all, folder, readers);
    *out_sums = all->sums;
    for (unsigned i = 0; i < writers; i++) {
        free(all->writers[i].works);
        for (unsigned t = 0; t < DIARIES_TOPICS; t++) {
            struct topic *topic = &all->writers[i].topics[t];
            for (uint64_t k = 0; k < topic->count; k++)
                free(topic->outcomes[k].text);
            free(topic->outcomes);
        }
    }
    free(all);
    return is_fine;
}

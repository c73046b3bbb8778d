/* SPDX-License-Identifier: MPL-2.0 */
/* config.h -- what errbusd was told: options of the command line, over those of a file, over the
 * defaults.
 *
 * One table, options.def, names every key; the same names stand in the file (`topic-window = 64M`)
 * and on the command line (`--topic-window 64M`).  The file is in the format of ZeroMQ's ZPL,
 * flat. */
#ifndef IO_CONFIG_H
#define IO_CONFIG_H

#include "broker/core/core.h"
#include "libbus/base/limits.h"

#include <stdbool.h>
#include <stdio.h>

enum { CONFIG_COMPLAINT_BYTES = 512, CONFIG_TEXT_BYTES = LIMIT_ENDPOINT_BYTES };
/* A file of this many bytes is no configuration of ours. */
enum { CONFIG_FILE_BYTES_MAX = 1024 * 1024 };

struct config {
    char control[CONFIG_TEXT_BYTES]; /* endpoints to bind */
    char data[CONFIG_TEXT_BYTES];
    char advertise[CONFIG_TEXT_BYTES]; /* endpoint or host that clients are told; empty: none */
    char advertise_control[CONFIG_TEXT_BYTES]; /* the same of the control channel */
    char journal[CONFIG_TEXT_BYTES];    /* directory or "none"; empty: as state_folder.h has it */
    char cache[CONFIG_TEXT_BYTES];      /* of a shard; empty: as state_folder.h has it */
    uint32_t shard;                     /* of a journal that has shards */
    uint32_t replicas;                  /* copies that must confirm a commit of it */
    char durability[CONFIG_TEXT_BYTES]; /* empty: what the journal makes possible */
    char access[CONFIG_TEXT_BYTES];     /* access file; empty: none */
    char key[CONFIG_TEXT_BYTES];        /* the broker's key; empty: as state_folder.h has it */
    char web[CONFIG_TEXT_BYTES];        /* where errbus-web listens; empty: it is not started */
    char web_token[CONFIG_TEXT_BYTES];  /* file with its token; empty: none */
    bool is_open;                       /* whoever reaches it may come */
    char log[CONFIG_TEXT_BYTES];        /* text or json */
    uint64_t memory_bytes;              /* of values, with a journal */
    bool is_verbose;
    bool is_spinning;         /* the loop never sleeps */
    struct core_options core; /* its strings are set by whoever starts the core */
};

void config_init(struct config *config);

/* Sets one key as the file or the command line has it.  false: complaint says what is wrong. */
bool config_set(struct config *config, const char *name, const char *value,
                char complaint[CONFIG_COMPLAINT_BYTES]);

/* Reads a file; the complaint begins with its name and the line. */
bool config_read_file(struct config *config, const char *path,
                      char complaint[CONFIG_COMPLAINT_BYTES]);

enum config_outcome {
    CONFIG_RUN,
    CONFIG_CHECK,   /* --check-config */
    CONFIG_HELP,    /* --help */
    CONFIG_VERSION, /* --version */
    CONFIG_WRONG,   /* complaint says what */
};
/* Reads the command line and the file it names. */
enum config_outcome config_read_args(struct config *config, int argc, char **argv,
                                     char complaint[CONFIG_COMPLAINT_BYTES]);

/* The lines of --help that list the options. */
void config_print_options(void);

/* What is in force, as a file of the same form; options for tests are left out. */
void config_print(const struct config *config, FILE *file);

/* What the table says for people of one option. */
struct config_option {
    const char *name;
    const char *argument; /* "": it takes none */
    const char *usual;    /* the default; NULL: none */
    bool is_hidden;       /* for tests alone */
};
/* The options in the order of the table; false: there are not so many. */
bool config_option(size_t index, struct config_option *out_option);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* wait.h -- who waits for whom in a job, as it is collected over one step or several. */
#ifndef CORE_MODEL_WAIT_H
#define CORE_MODEL_WAIT_H

#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"

#include <stdbool.h>
#include <stdint.h>

/* As in WHY_NODE.kind. */
enum wait_node_kind {
    WAIT_NODE_PARTY,    /* id: of the party */
    WAIT_NODE_BARRIER,  /* id: of the job */
    WAIT_NODE_GROUP,    /* id: of the group */
    WAIT_NODE_JOB,      /* id: of the job */
    WAIT_NODE_READER,   /* id: of a durable subscription */
    WAIT_NODE_REQUESTS, /* id: of the topic */
    WAIT_NODE_ROOM,     /* id: of the job */
    WAIT_NODE_SLOT,     /* id: of the topic; with seq */
    WAIT_NODE_RATE,     /* id: of the account */
};

/* As in WHY_EDGE.kind. */
enum wait_kind {
    WAIT_SLOT,
    WAIT_UNPROMISED,
    WAIT_REPLY,
    WAIT_GROUP,
    WAIT_BUSY,
    WAIT_UNSERVED,
    WAIT_BARRIER,
    WAIT_MISSING,
    WAIT_CREDIT,
    WAIT_ROOM,
    WAIT_GATHER,
    WAIT_READ,
    WAIT_OWED,
    WAIT_NEEDED,
    WAIT_MEMBERS,
    WAIT_RATE,
};

struct wait_node {
    enum wait_node_kind kind;
    uint32_t id;
    uint64_t seq;
    uint64_t count;
    bool is_free;   /* whatever it waits for, it may go on */
    uint32_t waits; /* kinds of its waits in which calls are blocked: bits */
};

/* All waits of one kind between two nodes; topic, seq and stamp are those of the longest. */
struct wait_edge {
    uint32_t from, to;
    enum wait_kind kind;
    uint32_t topic; /* 0: none */
    uint64_t seq;
    uint64_t count;
    int64_t since_ns; /* core_clock() */
    uint64_t stamp;   /* another number for another wait */
    bool is_said;     /* a call is blocked in it, as the client says; or no client waits */
    bool is_timed;    /* a deadline ends it */
};

/* As in WAIT_OVER.kind. */
enum wait_over_kind { WAIT_OVER_ROOM, WAIT_OVER_READS };

enum wait_phase {
    WAIT_PHASE_AWAITS,
    WAIT_PHASE_TOPICS,
    WAIT_PHASE_PARTIES,
    WAIT_PHASE_NODES, /* of an answer, as below */
    WAIT_PHASE_EDGES,
};

/* Edges stand in chunks: a large array that grows would be a long step. */
enum { WAIT_CHUNK_EDGES = 512 };

/* A question, or a look for cycles, that is under way. */
struct wait_walk {
    struct list link; /* in core->wait_walks */
    uint32_t job;     /* its id */
    uint32_t session; /* who asked; 0: it is a look */
    uint64_t token;   /* of that session */
    uint64_t request;
    enum wait_phase phase;
    uint32_t cursor; /* id of the last object, or number of the next row */
    uint32_t work;   /* edges added so far, and what was looked at to find them */
    uint64_t left_out;
    bool is_short; /* of memory */
    struct wait_node *nodes;
    uint32_t node_count, node_room;
    struct wait_edge *edge_chunks[LIMIT_WHY_EDGES / WAIT_CHUNK_EDGES];
    uint32_t edge_count;
    struct id_map node_numbers; /* kind and id -> number + 1 */
    struct id_map edge_numbers; /* kind, from and to -> number + 1 */
    struct without *without;    /* owned: what it asks is what would fail; NULL: who waits */
    struct judging *judging;    /* owned: of a look whose waits are collected; or NULL */
};

static inline struct wait_edge *wait_edge_at(const struct wait_walk *walk, uint32_t number)
{
    return &walk->edge_chunks[number / WAIT_CHUNK_EDGES][number % WAIT_CHUNK_EDGES];
}

/* A cycle that the last look found. */
struct wait_cycle {
    uint64_t waits;    /* which waits it is made of */
    uint64_t activity; /* what its members had done */
    bool is_told;
};

#endif

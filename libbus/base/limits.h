/* SPDX-License-Identifier: MPL-2.0 */
/* limits.h -- every limit and its name.  A configurable value has a default and a ceiling here.
 *
 * PROTOCOL.md, "Limits", lists the limits that a peer can meet. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* names and texts */
#define LIMIT_NAME_BYTES 200        /* job, party, topic, durable name; as BUS_NAME_BYTES_MAX */
#define LIMIT_TOPIC_LEVELS 16       /* levels of a topic or pattern */
#define LIMIT_ENDPOINT_BYTES 512    /* one endpoint */
#define LIMIT_ENDPOINTS 8           /* endpoints in one list */
#define LIMIT_CREDENTIAL_BYTES 4096 /* the greeting's field for them */

/* who may do what */
#define LIMIT_ACCESS_BYTES (UINT64_C(1024) * 1024) /* an access file */
#define LIMIT_KEY_FILE_BYTES 4096                  /* a file with a key */
#define LIMIT_KEY_BYTES 32                         /* a public key on the wire */

/* bytes on the wire */
#define LIMIT_VALUE_BYTES UINT64_C(2147483648) /* 2 GiB: one value */
/* A larger value travels in chunks: a connection sends one part to its end before the next begins,
 * so everything behind a large part would wait. */
#define LIMIT_CHUNK_BYTES (UINT64_C(1024) * 1024)
#define DEFAULT_CHUNK_BYTES (UINT64_C(256) * 1024) /* until the link is known to be quick: pace.h */
/* A batch grows to this; but for frames of less than 16 KiB only where many read their topic, to so
 * much for each of them (bench/README.md, "One writer, eight readers"). */
#define LIMIT_BATCH_BYTES (UINT64_C(512) * 1024)
#define DEFAULT_BATCH_BYTES (UINT64_C(128) * 1024)
/* Any part on the data channel: the largest frame, and room for what may stand beside it. */
#define LIMIT_PART_BYTES (UINT64_C(1280) * 1024)
#define LIMIT_CONTROL_BYTES (UINT64_C(160) * 1024) /* any message on the control channel */
#define LIMIT_BATCH_FRAMES 16384                   /* frames in one batch */
#define LIMIT_WALK_DEPTH 8                         /* nesting in anything received */
#define LIMIT_WALK_ITEMS 65536                     /* elements in anything received */

/* the error object */
#define LIMIT_ERROR_BYTES (UINT64_C(64) * 1024) /* encoded, with all causes */
#define LIMIT_ERROR_RECORDS 64 /* failures in one chain; beyond, the middle is left out */
#define LIMIT_ERROR_CAUSES 16  /* direct causes of one failure */
#define LIMIT_ERROR_BLAMES 16  /* parties that one failure suspects */
#define LIMIT_ERROR_GIVEN 1025 /* ... before that: one that is caused by full chains alone */
#define LIMIT_ERROR_MESSAGE_BYTES 4096
#define LIMIT_ERROR_STACK_BYTES 16384
#define LIMIT_ERROR_TYPE_BYTES 200
#define LIMIT_ERROR_SEALED_BYTES 25600 /* a sealed trace: a stacktrace and all texts beside it */
#define LIMIT_ERROR_ID_BYTES 512       /* job/party/incarnation/n */
#define LIMIT_TRACE_ID_BYTES 16        /* of W3C Trace Context */

/* the broker */
#define LIMIT_CONNECTIONS 16384 /* on each channel */
/* Connections of both channels that sent nothing yet, or that the broker no longer reads.  The
 * broker closes the oldest when there are more, and each when its time is over. libzmq 4.3.4 needs
 * 23 KiB for one.  A client greets within some round trips. */
#define LIMIT_NEW_CONNECTIONS 4096
#define LIMIT_NEW_CONNECTION_MS 30000
/* Addresses of them, and of those that failed lately: more than can wait at a time. */
#define LIMIT_NEW_ADDRESSES 8192
/* Handshakes of one address that may fail, in a second and at once.  One with keys costs 1 ms. */
#define LIMIT_HANDSHAKE_FAILURES 20
#define LIMIT_HANDSHAKE_BURST 64
/* ... and those that it may leave in the middle.  A client does so at most twice in a few seconds
 * on each channel while the broker is slow, and a thousand clients may share an address. */
#define LIMIT_HANDSHAKES_UNFINISHED 100
#define LIMIT_UNFINISHED_BURST 4096
/* How long an address may begin no connection when it had more, and how many such addresses there
 * are at a time.  Connections of further ones are closed when they are accepted. */
#define LIMIT_REFUSED_ADDRESS_MS 1000
#define LIMIT_REFUSED_ADDRESSES 64
#define LIMIT_JOBS 4096
#define LIMIT_PARTIES 16384    /* in one job, ended ones included until they are forgotten */
#define LIMIT_TOPICS (1 << 20) /* in one broker; one client may write all of them */
/* Topics that a new party may number itself, and what it may write into each before the broker
 * grants it credit.  That is not looked at again, so it is little: the job may be full by then. */
#define LIMIT_OWN_NUMBERS 16
#define LIMIT_OWN_CREDIT_BYTES (UINT64_C(64) * 1024)
/* The window of a topic while nobody knows whether its writer's link is long: it may be slow, too,
 * and carries this in 0.2 s at 10 Mbit/s. */
#define LIMIT_UNJUDGED_BYTES (UINT64_C(256) * 1024)
#define LIMIT_SUBS 4096                                     /* of one party */
#define LIMIT_SUB_PATTERNS 64                               /* of one subscription */
#define LIMIT_SUB_WINDOW_BYTES (UINT64_C(64) * 1024 * 1024) /* the largest a client may ask for */
#define LIMIT_TRIP_NS_MAX INT64_C(10000000000) /* a longer round trip counts as this one */
/* Windows of readers grow with their links (flow_window.h).  This is what all of them together may
 * have beyond DEFAULT_SUB_WINDOW_BYTES each. */
#define LIMIT_READER_WINDOWS_BYTES (UINT64_C(256) * 1024 * 1024)
/* So much more a window may have where what is sent waits for the disk (sync_round.h).  It counts
 * as a window that has grown. */
#define LIMIT_SYNC_WINDOW_BYTES (UINT64_C(8) * 1024 * 1024)
/* The same for windows of topics: beyond --topic-window each, and of one topic. */
#define LIMIT_TOPIC_WINDOWS_BYTES (UINT64_C(256) * 1024 * 1024)
#define LIMIT_TOPIC_WINDOW_TIMES 16 /* as large as --topic-window */
/* What a writer that sends large batches may have accepted and not be told of: one of the largest,
 * for a topic's window is 16 times as much by default; and a tenth of the shortest beat, for who
 * waits for it. */
#define LIMIT_ACCEPT_BYTES (UINT64_C(512) * 1024)
#define LIMIT_ACCEPT_MS 1
#define LIMIT_NOTICES 64                   /* of one session, read or not */
#define LIMIT_NOTICE_MS 1000               /* a wait that may be in vain, before it is told */
#define LIMIT_AWAITS 65536                 /* of one party at a time */
#define LIMIT_AWAITED_MS 600000            /* a wait timed out: so long its answer is kept */
#define LIMIT_OPEN_SLOTS (1 << 20)         /* in one broker */
#define LIMIT_REFUSAL_SLOTS 4096           /* of which one refusal speaks */
#define LIMIT_ERROR_ATTACHMENTS 16         /* of one error */
#define LIMIT_ATTACHMENT_PIECE_BYTES 65536 /* of an attachment, in one message */
/* Of one, on its way to who fetches it, and to the broker: on one machine, and on the longest link
 * (flow_window.h). */
#define DEFAULT_FETCH_WINDOW_BYTES (UINT64_C(1024) * 1024)
#define LIMIT_FETCH_WINDOW_BYTES (UINT64_C(32) * 1024 * 1024)
#define DEFAULT_BRING_WINDOW_BYTES (UINT64_C(256) * 1024)
#define LIMIT_BRING_WINDOW_BYTES (UINT64_C(32) * 1024 * 1024)
#define LIMIT_BRINGERS 8                                       /* with such a window at a time */
#define LIMIT_ATTACHMENTS 4096                                 /* of one job */
#define DEFAULT_ATTACHMENT_BYTES (UINT64_C(256) * 1024 * 1024) /* of one job */
#define LIMIT_SLOT_NEEDS 1024                                  /* slots that one slot may need */
#define LIMIT_PARKED_OPS 65536 /* of one session: settlements that wait for their data */
/* The errors in them; clients keep to a fourth, for the broker adds to each what it knows. */
#define LIMIT_PARKED_BYTES (UINT64_C(64) * 1024 * 1024)
#define LIMIT_PARKED_SHARES 4                          /* of all sessions: as much as so many */
#define LIMIT_EVENTS 16384                             /* kept of one job for taps */
#define LIMIT_EVENT_BYTES (UINT64_C(16) * 1024 * 1024) /* ... and in bytes */
/* A tap that was at the newest event, and is further behind than this, goes on with what comes next
 * and is told what it missed.  A quarter of what is kept: time enough to ask for the rest. */
#define LIMIT_TAP_BEHIND 4096
#define LIMIT_TAP_BEHIND_BYTES (UINT64_C(4) * 1024 * 1024)
/* At most so often an event tells of a peer that breaks the protocol: at first, and after it went
 * on for minutes.  So 16384 such events take 11 days.  The same holds for a journal whose disk is
 * full and well again all the time. */
#define LIMIT_COMPLAINTS_MS_MIN 1000
#define LIMIT_COMPLAINTS_MS_MAX 60000
/* Like errors of one party in one place: so many are told each, what comes beyond them in a second
 * is told as one.  So many places at a time, the others together: 4352 events a second of one job
 * at most, when all begin at once, and 66 from then on. */
#define LIMIT_STORM_TOLD 64
#define LIMIT_STORM_MS 1000
#define LIMIT_STORMS 64
#define LIMIT_PARTY_ENDS 8 /* earlier incarnations of a party whose ends are remembered */
/* Events in flight to one tap: as many as it has room for, over a link no more bytes than that link
 * carries in a round trip, and on one machine no more than these. */
#define DEFAULT_TAP_WINDOW 512
#define DEFAULT_TAP_WINDOW_BYTES (UINT64_C(128) * 1024)
#define LIMIT_TAP_WINDOW 32768
#define LIMIT_TAP_WINDOW_BYTES (UINT64_C(4) * 1024 * 1024)
#define LIMIT_CONTROL_QUEUE 65536 /* messages waiting for one peer that does not read */

/* the journal */
#define LIMIT_JOURNAL_SEGMENT_BYTES_MIN UINT64_C(4096) /* one file of it */
#define LIMIT_JOURNAL_SEGMENT_BYTES_MAX (UINT64_C(1024) * 1024 * 1024)
#define LIMIT_JOURNAL_BATCH_BYTES (UINT64_C(64) * 1024 * 1024) /* appended at once, heads and all */
#define LIMIT_JOURNAL_SEGMENTS (1 << 20)                       /* files of one journal */
#define LIMIT_FACT_BYTES (UINT64_C(80) * 1024) /* one fact: an error, or an event with its texts */

/* defaults; see errbusd(8) */
#define DEFAULT_JOURNAL_SEGMENT_BYTES (UINT64_C(64) * 1024 * 1024)
#define DEFAULT_TOPIC_WINDOW_BYTES (UINT64_C(8) * 1024 * 1024) /* not yet taken, of one topic */
#define DEFAULT_TOPIC_KEEP_BYTES (UINT64_C(4) * 1024 * 1024)   /* kept for late subscribers */
#define DEFAULT_TOPIC_KEEP_SLOTS 65536
#define DEFAULT_JOB_BYTES (UINT64_C(4) * 1024 * 1024 * 1024) /* kept of one job in all */
#define DEFAULT_MEMORY_BYTES (UINT64_C(256) * 1024 * 1024)   /* of these, not in the journal only */
#define DEFAULT_LINGER_MS 600000
/* For clients to come back after a restart of the broker: ten times its own beat, and what it takes
 * a client to notice that it is there again. */
#define DEFAULT_RESUME_MS 10000
#define DEFAULT_SUB_KEEP_MS 600000
/* In flight to one subscription on one machine, and the least on any link.  An error in the stream
 * waits for what is in flight before it.  Half a MiB keeps full throughput, and cuts that wait to a
 * fifth of what 4 MiB cost. */
#define DEFAULT_SUB_WINDOW_BYTES (UINT64_C(512) * 1024)

/* the verdict of an attempt */
#define LIMIT_VERDICT_ERRORS 16384 /* weighed; beyond, the first in the order of verdict.h stay */
#define LIMIT_VERDICT_BYTES (UINT64_C(16) * 1024 * 1024) /* errors kept to tell of it */
#define LIMIT_VERDICT_ROWS 4096                          /* told in one answer */
#define LIMIT_VERDICT_LOOK_MS 100 /* corrections are looked for once in that time, at most */
#define DEFAULT_LATE_MS 60000     /* so long a party is heard behind the final verdict on it */
#define DEFAULT_SETTLE_MS 2000

/* who waits for whom */
#define LIMIT_WHY_NODES 16384 /* in one answer; with the edges less than LIMIT_CONTROL_QUEUE */
#define LIMIT_WHY_EDGES 45056
#define LIMIT_ANSWER_STEP 512     /* looked at in one step, of answers to operators ... */
#define LIMIT_ANSWER_MS 50        /* ... and as much again for each such time that they take */
#define LIMIT_WHY_STEP 4096       /* ... up to this; and of one object, looked at in one step */
#define LIMIT_WHY_LOOK_MS 2000    /* between two looks for a cycle */
#define LIMIT_WHY_CYCLES 16       /* of one job, remembered from one look to the next */
#define LIMIT_WHY_NEEDS 1024      /* slots told of that one slot needs, directly or not */
#define LIMIT_WITHOUT_SLOTS 49152 /* that one loss would fail, in one answer */
#define LIMIT_WAITING_MS 1000     /* a call waits so long before the client says so */

/* Warnings of the broker about parties that are lost, in its log (event_warnings.h): so many at
 * once, so many a second from then on, and a number of all others in so long. */
#define LIMIT_EVENT_WARNINGS 64
#define LIMIT_EVENT_WARNINGS_A_SECOND 1
#define LIMIT_EVENT_WARNINGS_MS 10000

/* the access file */
#define LIMIT_WHO_ROWS 1024                   /* in one answer */
#define LIMIT_EXPIRING_S (INT64_C(7) * 86400) /* so long before its end, a key is told of */
#define LIMIT_EXPIRING_TOLD 64                /* ... each; beyond, their number */

/* metrics */
#define LIMIT_METRICS_JOBS 200 /* with rows of their own; the others are told as one */
#define LIMIT_METRICS_GROUPS 200

/* jobs that were created */
#define LIMIT_JOB_MS_MAX (366 * LIMIT_PERIOD_MS_MAX) /* its deadline: a year */
#define LIMIT_RESTARTS 1000
/* Long enough for the rest of a cluster to start, short enough to be watched. */
#define DEFAULT_JOIN_WINDOW_MS 30000
#define DEFAULT_JOIN_TIMEOUT_MS 600000 /* ten minutes, as other launchers have it */
#define DEFAULT_PAUSE_MS 1000          /* before the second attempt; each time twice as long ... */
#define LIMIT_PAUSE_MS 60000           /* ... up to this */

/* groups */
#define LIMIT_GROUP_NAME_BYTES 180 /* its dead letters have topics, whose names have it in them */
#define LIMIT_GROUP_CREDIT 1024    /* tasks leased to one member at a time */
#define LIMIT_DELIVER 16           /* times that a task is given to a member: LIMIT_ERROR_CAUSES */
#define LIMIT_DEAD_LETTERS 16384   /* of one group; beyond, the oldest goes */
#define LIMIT_DEAD_PIECE_BYTES (UINT64_C(64) * 1024) /* of the value of one, in one message */
#define LIMIT_DEAD_WINDOW_BYTES (UINT64_C(4) * 1024 * 1024) /* ... and in one answer */
#define DEFAULT_DELIVER 5
#define DEFAULT_UNSERVED_MS 30000 /* a request waits so long for a group that has a member */

/* SUBSCRIBE.from_seq below 0 */
#define FROM_NOW (-1)    /* the next slot to be settled */
#define FROM_OLDEST (-2) /* the oldest that is kept, whatever went before */

/* what a slot costs its writer's credit beside the value: the broker's records of it */
#define COST_SLOT_BYTES 128

/* heartbeats, in ms */
#define LIMIT_HEARTBEAT_MS_MIN 10
/* So long before it joins, a party may have failed in its start-up: an hour. */
#define LIMIT_START_UP_MS INT64_C(3600000)
#define LIMIT_PERIOD_MS_MAX INT64_C(86400000) /* a day: lost_after, grace, keeping time ... */

/* the client */
#define LIMIT_REFUSALS 1024
#define LIMIT_WANTS 65536   /* given to one bus_gather() */
#define LIMIT_RESULTS 65536 /* RETRACT and COMPLETE whose answer was not asked for yet */
/* Of one value, sent and not accepted: on one machine, and on the longest link (flow_window.h). */
#define LIMIT_UPLOAD_BYTES (UINT64_C(2) * 1024 * 1024)
#define LIMIT_UPLOAD_WINDOW_BYTES (UINT64_C(64) * 1024 * 1024)
#define LIMIT_STALE_WANTS 4096 /* given up, but an answer may still be under way */

#endif

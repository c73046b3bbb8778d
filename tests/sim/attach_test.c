/* SPDX-License-Identifier: MPL-2.0 */
/* attach_test.c -- what is attached to an error, brought and fetched while links break, stall and
 * are half open, who brings it dies, and the broker dies and comes back.
 *
 * Held to: whatever is fetched, is the beginning of what was attached, byte for byte; what is said
 * to be whole is all of it; nothing of it is on the control channel (world.c).  When all is quiet,
 * each is whole; or is told to be cut, if who brought it is dead, or not kept, if the job may keep
 * no more; nobody waits for what will not come. */
#include "tests/sim/play.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALICE, COURIER, FETCHER, HOSTS, ATTACHED = 5, SEEDS_DEFAULT = 100, ACTS = 25 };
enum { BUDGET_SHORT = 300000 }; /* less than one of them may have */
enum { ACT_HARM, ACT_CRASH, ACT_FAIL, ACT_FETCH, ACT_COMPACT };

#define ACTIVE_MS 4000
#define HARMED_MS 1800
#define QUIET_MS 12000
#define FETCH_EVERY_MS 50
#define LOOK_EVERY_MS 500 /* when it is quiet */

static struct {
    struct world *world;
    char id[LIMIT_ERROR_ID_BYTES + 1]; /* of the error; "": it is not said yet */
    uint64_t sizes[ATTACHED];
    uint64_t budget;
    bool is_over; /* who brings is dead for good */
    bool is_quiet;
    /* who brings */
    uint32_t at; /* the one under way; ATTACHED: all are brought */
    bool is_begun;
    uint64_t sent; /* of it */
    /* who fetches */
    uint32_t wanted;
    bool is_fetching;
    uint64_t fetched;
    enum attachment_state states[ATTACHED]; /* as told last */
    bool is_told[ATTACHED];
    bool was_whole[ATTACHED];
} play;
static uint64_t seen[ATTACHMENT_STATE_COUNT], resumed;

static struct session_attachment named(uint32_t index, char name[16])
{
    snprintf(name, 16, "a%u", index);
    return (struct session_attachment){
        .job = span_text("job"), .error = span_text(play.id), .name = span_text(name)};
}

static uint8_t byte_at(uint32_t index, uint64_t offset)
{
    return (uint8_t)((offset * 2654435761U >> 7) + index * 77 + offset / 251);
}

/* ---- who fails ------------------------------------------------------------------------------- */

static void fail(void)
{
    static uint8_t bytes[LIMIT_ERROR_BYTES];
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    char names[ATTACHED][16];
    struct error_attached attached[ATTACHED];
    struct error_record record;
    size_t count = 0;
    struct session *session = world_session(play.world, ALICE);
    if (session == NULL || play.id[0] != 0 || session_state(session) != SESSION_UP)
        return;
    for (uint32_t i = 0; i < ATTACHED; i++) {
        (void)named(i, names[i]);
        attached[i] = (struct error_attached){.name = span_text(names[i]), .bytes = play.sizes[i]};
    }
    play.id[session_error_id(session, play.id, sizeof play.id - 1)] = 0;
    error_record_init(&record);
    record.id = span_text(play.id);
    record.type = span_text("app.broken");
    record.attachments = span_of(list, error_attached_write(attached, ATTACHED, list));
    cr_assert_eq(error_encode(&record, 1, bytes, sizeof bytes, &count), WIRE_OK);
    session_fail_party(session, span_of(bytes, count));
    world_line(play.world, "alice fails, %s", play.id);
}

/* ---- the courier, as libbus/api/attach_bring.c ----------------------------------------------- */

static void bring(struct session *session)
{
    static uint8_t piece[LIMIT_ATTACHMENT_PIECE_BYTES];
    char name[16];
    uint64_t offset = 0;
    if (play.id[0] == 0 || play.at == ATTACHED || session_state(session) == SESSION_OVER)
        return;
    struct session_attachment attachment = named(play.at, name);
    if (!play.is_begun)
        session_bring(session, &attachment, play.sizes[play.at]);
    play.is_begun = true;
    enum wire_code code = session_brought(session, NULL);
    if (code != CODE_ETIMEDOUT) { /* the broker knows how it fares */
        play.is_begun = false;
        play.at += code == CODE_OK || code == CODE_EFULL; /* EINVAL: the job is not known yet */
        return;
    }
    if (!session_piece_wanted(session, &offset))
        return;
    uint64_t left = play.sizes[play.at] - offset;
    size_t bytes = left < sizeof piece ? (size_t)left : sizeof piece;
    for (size_t i = 0; i < bytes; i++)
        piece[i] = byte_at(play.at, offset + i);
    resumed += offset > 0 && offset != play.sent;
    play.sent = offset + bytes;
    session_piece(session, span_of(piece, bytes), bytes == left);
}

/* ---- who fetches ----------------------------------------------------------------------------- */

static void take_state(uint32_t index, const struct session_attached *attached)
{
    play.states[index] = attached->state;
    play.is_told[index] = true;
    seen[attached->state] += 1;
    if (attached->state == ATTACHMENT_WHOLE && play.fetched != play.sizes[index])
        world_violate(play.world, "a%u is whole with %" PRIu64 " of %" PRIu64 " bytes", index,
                      play.fetched, play.sizes[index]);
    if (play.was_whole[index] && attached->state != ATTACHMENT_WHOLE &&
        attached->state != ATTACHMENT_DROPPED)
        world_violate(play.world, "a%u was whole, and is %d", index, (int)attached->state);
    play.was_whole[index] |= attached->state == ATTACHMENT_WHOLE;
    if (attached->bytes > play.sizes[index] || play.fetched > attached->bytes)
        world_violate(play.world, "of a%u came %" PRIu64 ", fetched %" PRIu64, index,
                      attached->bytes, play.fetched);
    if (attached->state == ATTACHMENT_CUT && !play.is_over && play.is_quiet)
        world_violate(play.world, "a%u is cut, and its party lives", index);
    if ((attached->state == ATTACHMENT_FULL || attached->state == ATTACHMENT_DROPPED) &&
        play.budget > BUDGET_SHORT)
        world_violate(play.world, "a%u is not kept, and there is room", index);
}

static void fetch(struct session *session)
{
    struct session_attached attached;
    struct span bytes, why;
    if (!play.is_fetching)
        return;
    while (session_fetch_take(session, &bytes)) {
        const uint8_t *data = bytes.data;
        for (size_t i = 0; i < bytes.bytes; i++)
            if (data[i] != byte_at(play.wanted, play.fetched + i)) {
                world_violate(play.world, "another byte of a%u at %" PRIu64, play.wanted,
                              play.fetched + i);
                return;
            }
        play.fetched += bytes.bytes;
    }
    enum wire_code code = session_fetched(session, &attached, &why);
    if (code == CODE_ETIMEDOUT)
        return;
    play.is_fetching = false;
    if (code == CODE_OK)
        take_state(play.wanted, &attached);
}

static void begin_fetch(void)
{
    char name[16];
    struct session *session = world_session(play.world, FETCHER);
    if (session != NULL && session_state(session) == SESSION_OVER)
        world_kill(play.world, FETCHER, true, 0);
    if (world_session(play.world, FETCHER) == NULL) {
        play.is_fetching = false;
        world_start(play.world, FETCHER);
    }
    session = world_session(play.world, FETCHER);
    if (play.id[0] == 0 || play.is_fetching)
        return;
    play.wanted = (play.wanted + 1) % ATTACHED;
    play.fetched = 0;
    play.is_fetching = true;
    struct session_attachment attachment = named(play.wanted, name);
    session_fetch(session, &attachment);
}

/* ---- what is done to them -------------------------------------------------------------------- */

static void harm(uint32_t host)
{
    struct dice *dice = world_dice(play.world);
    unsigned channels = (unsigned)dice_between(dice, 1, 3);
    int64_t soon_ns = dice_between(dice, 0, 300) * WORLD_MS;
    if (play.is_quiet || world_session(play.world, host) == NULL)
        return;
    switch (dice_below(dice, 6)) {
    case 0: world_break(play.world, host, channels, soon_ns, soon_ns); break;
    case 1: world_stall(play.world, host, channels, soon_ns); break;
    case 2:
        world_half_open_one(play.world, host, dice_hits(dice, 500) ? CHANNEL_DATA : CHANNEL_CONTROL,
                            dice_hits(dice, 500) ? WAY_UP : WAY_DOWN);
        break;
    case 3: world_freeze(play.world, host, soon_ns); break;
    case 4: world_break(play.world, host, 3, WORLD_NEVER, soon_ns); break;
    default:
        if (host != COURIER || !dice_hits(dice, 500))
            break;
        world_kill(play.world, COURIER, dice_hits(dice, 500), soon_ns);
        play.is_over = true; /* with its party: what is attached is there no more */
        world_line(play.world, "who brings is killed");
    }
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    (void)value;
    switch (what) {
    case ACT_HARM: harm(who); break;
    case ACT_CRASH:
        world_crash_broker(play.world, dice_between(world_dice(play.world), 0, 800) * WORLD_MS);
        break;
    case ACT_COMPACT: world_compact(play.world); break;
    case ACT_FAIL: fail(); break;
    case ACT_FETCH: begin_fetch(); break;
    default: break;
    }
}

/* A courier that gave up is replaced, as its bus does it. */
static void mend_courier(void)
{
    struct session *session = world_session(play.world, COURIER);
    if (session == NULL || session_state(session) != SESSION_OVER)
        return;
    world_kill(play.world, COURIER, true, 0);
    play.is_begun = false;
    world_start(play.world, COURIER);
}

static void on_turn(void *arg, uint32_t host)
{
    (void)arg;
    if (host == COURIER)
        bring(world_session(play.world, COURIER));
    else if (host == FETCHER)
        fetch(world_session(play.world, FETCHER));
}

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    (void)arg;
    (void)host;
    (void)news;
}

static void open_world(uint64_t seed)
{
    struct world_options options;
    struct host_options host = {
        .heartbeat_ms = 100, .lost_after_ms = 800, .grace_ms = 200, .broker_lost_ms = 5000};
    world_options_init(&options);
    options.seed = seed;
    options.core.has_facts = true;
    options.core.resume_ms = 3000;
    options.log_most_ns = seed % 2 == 0 ? 20 * WORLD_MS : 0;
    options.delay_most_ns[CHANNEL_DATA] = (int64_t)(seed % 5) * 10 * WORLD_MS + WORLD_MS;
    options.lane_parts_max = seed % 3 == 0 ? 2 : 1000;
    options.hooks.on_act = on_act;
    options.hooks.on_news = on_news;
    options.hooks.on_turn = on_turn;
    memset(&play, 0, sizeof play);
    play.budget = seed % 4 == 0 ? BUDGET_SHORT : 64 << 20;
    options.core.attachment_bytes_max = play.budget;
    play.world = world_new(&options);
    for (uint32_t i = 0; i < ATTACHED; i++)
        play.sizes[i] = dice_hits(world_dice(play.world), 300)
                            ? dice_below(world_dice(play.world), 9) * LIMIT_ATTACHMENT_PIECE_BYTES
                            : dice_below(world_dice(play.world), 500000);
    host.job = "job";
    host.party = "alice";
    (void)world_host(play.world, &host);
    host.job = host.party = "";
    host.is_courier = true;
    (void)world_host(play.world, &host);
    (void)world_host(play.world, &host);
    world_start(play.world, ALICE);
    world_start(play.world, COURIER);
}

/* What has become of them, when nothing has happened for long. */
static void check_quiet(uint64_t seed)
{
    for (uint32_t i = 0; i < ATTACHED && play.id[0] != 0; i++) {
        enum attachment_state state = play.states[i];
        bool is_settled = state != ATTACHMENT_COMING && state != ATTACHMENT_AWAY;
        if (world_violation(play.world) != NULL)
            return;
        cr_expect(play.is_told[i], "seed %" PRIu64 ": nobody knows of a%u", seed, i);
        cr_expect(is_settled, "seed %" PRIu64 ": a%u is %d in the end", seed, i, (int)state);
        cr_expect(play.is_over || state != ATTACHMENT_CUT, "seed %" PRIu64 ": a%u", seed, i);
    }
}

static void run(uint64_t seed)
{
    open_world(seed);
    struct world *world = play.world;
    struct dice *dice = world_dice(world);
    world_at(world, dice_between(dice, 50, 300) * WORLD_MS, ACT_FAIL, WORLD_NOBODY, 0);
    for (int act = 0; act < ACTS && seed % 7 != 0; act++)
        world_at(world, dice_between(dice, 100, HARMED_MS) * WORLD_MS, ACT_HARM,
                 (uint32_t)dice_between(dice, COURIER, FETCHER), 0);
    for (uint64_t crash = 0; crash < seed % 4; crash++)
        world_at(world, dice_between(dice, 200, HARMED_MS) * WORLD_MS, ACT_CRASH, WORLD_NOBODY, 0);
    for (int compact = 0; compact < 3; compact++)
        world_at(world, dice_between(dice, 200, HARMED_MS) * WORLD_MS, ACT_COMPACT, WORLD_NOBODY,
                 0);
    for (int64_t ms = 0; ms < ACTIVE_MS + QUIET_MS;
         ms += ms < ACTIVE_MS ? FETCH_EVERY_MS : LOOK_EVERY_MS) {
        world_at(world, ms * WORLD_MS, ACT_FAIL, WORLD_NOBODY, 0);
        world_at(world, ms * WORLD_MS, ACT_FETCH, FETCHER, 0);
    }
    for (int64_t ms = 0; ms < ACTIVE_MS; ms += FETCH_EVERY_MS) {
        world_run(world, ms * WORLD_MS);
        mend_courier();
    }
    play.is_quiet = true;
    world_calm(world, 5 * WORLD_MS);
    for (int64_t ms = 0; ms < QUIET_MS; ms += FETCH_EVERY_MS) {
        world_run(world, (ACTIVE_MS + ms) * WORLD_MS);
        mend_courier();
    }
    check_quiet(seed);
    play_end(&play.world, seed);
}

Test(attach, is_whole_or_told_to_be_cut_or_not_kept, .timeout = 900)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    SEEDS_EACH(seed, count)
        run(seed);
    fprintf(stderr,
            "%" PRIu64 " seeds: told %" PRIu64 " coming, %" PRIu64 " away, %" PRIu64
            " whole, %" PRIu64 " cut, %" PRIu64 " full, %" PRIu64 " dropped; %" PRIu64
            " pieces behind a break\n",
            count, seen[ATTACHMENT_COMING], seen[ATTACHMENT_AWAY], seen[ATTACHMENT_WHOLE],
            seen[ATTACHMENT_CUT], seen[ATTACHMENT_FULL], seen[ATTACHMENT_DROPPED], resumed);
    for (int state = 0; count >= SEEDS_DEFAULT && state < ATTACHMENT_STATE_COUNT; state++)
        cr_expect_gt(seen[state], 0, "state %d was never to be seen", state);
    cr_expect(count < SEEDS_DEFAULT || resumed > 0, "none went on behind a break");
}

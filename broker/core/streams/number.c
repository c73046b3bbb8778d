/* SPDX-License-Identifier: MPL-2.0 */
/* number.c -- see number.h. */
#include "broker/core/streams/number.h"

enum { OWN_BITS = 4, PARTY_BITS = 26 };
#define NUMBERED_REFUSED UINT32_MAX /* in the place of an id */
/* A smaller job would soon be full of what its parties have credit for. */
#define OWN_BYTES_LEAST (8 * LIMIT_OWN_NUMBERS * LIMIT_OWN_CREDIT_BYTES)
_Static_assert(LIMIT_OWN_NUMBERS == 1 << OWN_BITS, "a party has all numbers of its bits");
_Static_assert(LIMIT_TOPICS < NUMBER_OWN_BIT, "no id is a number that a party may give");

static uint32_t first_of(const struct party *party)
{
    return party->id < UINT32_C(1) << PARTY_BITS ? NUMBER_OWN_BIT | party->id << OWN_BITS : 0;
}

static uint32_t *numbered_at(struct party *party, uint32_t number)
{
    return &party->numbered[number % LIMIT_OWN_NUMBERS];
}

/* A topic with such a number has credit before anybody looks, and a place.  Where these are scarce,
 * or counted, the party asks: then it is told before it writes. */
static bool is_scarce(const struct core *core, const struct party *party)
{
    const struct core_options *options = &core->options;
    const uint64_t *limits = party->account->limits;
    return options->topic_window_bytes < LIMIT_OWN_CREDIT_BYTES ||
           options->job_bytes_max < OWN_BYTES_LEAST ||
           party->job->bytes > options->job_bytes_max / 2 ||
           core->topics.used > options->topics_max / 2 ||
           limits[ACCESS_TOPICS] != ACCESS_UNLIMITED || limits[ACCESS_RATE] != ACCESS_UNLIMITED;
}

uint32_t number_first(const struct core *core, const struct session *session)
{
    const struct party *party = session->party;
    if (party == NULL || session->is_guard || is_scarce(core, party))
        return 0;
    LIST_EACH(link, &party->topics)
        if (LIST_OWNER(link, struct topic, party_link)->is_opened)
            return 0;
    return first_of(party);
}

bool number_is_own(const struct party *party, uint32_t number)
{
    uint32_t first = first_of(party);
    return first != 0 && number >= first && number - first < LIMIT_OWN_NUMBERS;
}

bool number_is_free(const struct party *party, uint32_t number)
{
    return number_is_own(party, number) && party->numbered[number % LIMIT_OWN_NUMBERS] == 0;
}

void number_give(struct topic *topic, uint32_t number)
{
    topic->number = number;
    *numbered_at(topic->writer, number) = topic->id;
    LIST_EACH(link, &topic->routes) /* its readers may have heard the old one */
        LIST_OWNER(link, struct route, topic_link)->named_on = 0;
}

void number_take_back(struct topic *topic)
{
    if (topic->number != topic->id)
        *numbered_at(topic->writer, topic->number) = 0;
    topic->number = topic->id;
}

void number_refuse(struct party *party, uint32_t number)
{
    *numbered_at(party, number) = NUMBERED_REFUSED;
}

bool number_is_refused(const struct party *party, uint32_t number)
{
    return number_is_own(party, number) &&
           party->numbered[number % LIMIT_OWN_NUMBERS] == NUMBERED_REFUSED;
}

void number_forget_refused(struct party *party)
{
    for (uint32_t i = 0; i < LIMIT_OWN_NUMBERS; i++)
        if (party->numbered[i] == NUMBERED_REFUSED)
            party->numbered[i] = 0;
}

struct topic *number_find(const struct core *core, uint32_t number)
{
    const struct party *party = pool_find(&core->parties, (number & ~NUMBER_OWN_BIT) >> OWN_BITS);
    return party != NULL ? pool_find(&core->topics, party->numbered[number % LIMIT_OWN_NUMBERS])
                         : NULL;
}

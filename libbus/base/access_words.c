/* SPDX-License-Identifier: MPL-2.0 */
/* access_words.c -- see access_words.h. */
#include "libbus/base/access_words.h"

#include "libbus/base/pattern.h"

#include <string.h>

enum { DAY_S = 86400 };

/* Larger amounts are typing errors, and refused: a million times what a broker can hold. */
#define AMOUNT_MAX (UINT64_C(1) << 56)

bool word_is_name_or_begin(struct span word)
{
    const char *text = word.data;
    if (word.bytes == 1 && text[0] == '*')
        return true;
    if (word.bytes > 0 && text[word.bytes - 1] == '*')
        word.bytes -= 1;
    return party_is_valid(word);
}

bool word_matches_name(struct span word, struct span name)
{
    const char *text = word.data;
    if (word.bytes == 0 || text[word.bytes - 1] != '*')
        return span_equal(word, name);
    size_t bytes = word.bytes - 1;
    return bytes == 0 || (name.bytes >= bytes && memcmp(name.data, text, bytes) == 0);
}

bool word_is_number(struct span word, uint64_t most, uint64_t *out_number)
{
    const char *text = word.data;
    uint64_t number = 0;
    for (size_t i = 0; i < word.bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
        if (number > most)
            return false;
    }
    *out_number = number;
    return word.bytes > 0;
}

bool word_is_amount(struct span word, unsigned thousand, uint64_t *out_amount)
{
    static const char suffixes[] = "KMG";
    static const char small_suffixes[] = "kmg";
    const char *text = word.data;
    uint64_t factor = 1;
    uint64_t number = 0;
    bool is_suffixed = false;
    for (unsigned i = 0; word.bytes > 0 && i < sizeof suffixes - 1 && !is_suffixed; i++) {
        char last = text[word.bytes - 1];
        factor *= thousand;
        is_suffixed = last == suffixes[i] || last == small_suffixes[i];
    }
    if (is_suffixed)
        word.bytes -= 1;
    else
        factor = 1;
    if (!word_is_number(word, AMOUNT_MAX / factor, &number))
        return false;
    *out_amount = number * factor;
    return true;
}

/* ---- dates ----------------------------------------------------------------------------------- */

/* Days since 1970-01-01 in the Gregorian calendar.  A year begins in March here, so that a leap day
 * is its last day. */
static int64_t day_of(int64_t year, int64_t month, int64_t day)
{
    int64_t years = month > 2 ? year : year - 1;
    int64_t months = month > 2 ? month - 3 : month + 9;
    int64_t leap_days = years / 4 - years / 100 + years / 400;
    return 365 * years + leap_days + (153 * months + 2) / 5 + day - 1 - 719468;
}

static bool is_leap(uint64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

bool word_is_date(struct span word, int64_t *out_end_s)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const char *text = word.data;
    uint64_t year, month, day;
    if (word.bytes != 10 || text[4] != '-' || text[7] != '-' ||
        !word_is_number(span_of(text, 4), 9999, &year) ||
        !word_is_number(span_of(text + 5, 2), 12, &month) ||
        !word_is_number(span_of(text + 8, 2), 31, &day) || year < 1970 || month == 0 || day == 0)
        return false;
    if (day > days[month - 1] + (month == 2 && is_leap(year) ? 1U : 0U))
        return false;
    *out_end_s = (day_of((int64_t)year, (int64_t)month, (int64_t)day) + 1) * DAY_S;
    return true;
}

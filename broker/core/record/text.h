/* SPDX-License-Identifier: MPL-2.0 */
/* text.h -- sentences for people, put together without stdio, and cut at a character. */
#ifndef CORE_RECORD_TEXT_H
#define CORE_RECORD_TEXT_H

#include "broker/core/model.h"

void text_init(struct text *text);
void text_add(struct text *text, const char *part);
void text_add_span(struct text *text, struct span part);
void text_add_number(struct text *text, uint64_t number);
/* Begins anew with part and name.  Returns the text. */
const char *text_say(struct text *text, const char *part, struct span name);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* why_text.h -- who waits for whom, as text for people, as JSON, and for dot(1). */
#ifndef CLIENTS_WHY_TEXT_H
#define CLIENTS_WHY_TEXT_H

#include <bus/why.h>
#include <stdio.h>

/* For whom everybody waits: cycles first, then roots, those with the most waiters first. */
void why_text_print(FILE *out, struct bus_why *why);
/* What a node is called: "carol", "the barrier". */
void why_node_print(FILE *out, const struct bus_why_node *node);
/* What one party waits for, and who waits for it. */
void why_party_print(FILE *out, struct bus_why *why, const char *party);
/* Who owes the slot that was asked for, and what it needs. */
void why_slot_print(FILE *out, struct bus_why *why);
/* A line for each node and edge. */
void why_json_print(FILE *out, const struct bus_why *why);
/* What would fail without the party. */
void without_text_print(FILE *out, const struct bus_without *without, const char *party);
void without_json_print(FILE *out, const struct bus_without *without, const char *party);
void why_dot_print(FILE *out, const struct bus_why *why);

#endif

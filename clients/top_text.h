/* SPDX-License-Identifier: MPL-2.0 */
/* top_text.h -- a picture of a broker, as tables for people and as JSON. */
#ifndef CLIENTS_TOP_TEXT_H
#define CLIENTS_TOP_TEXT_H

#include "clients/top_picture.h"

#include <stdio.h>

struct top_style {
    size_t columns; /* of a line; 0: no limit */
    size_t rows;    /* of each table; the others are counted */
};

void top_text_print(FILE *out, const struct top_picture *picture, const struct top_style *style);
void top_json_print(FILE *out, const struct top_picture *picture);

#endif

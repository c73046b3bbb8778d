/* SPDX-License-Identifier: MPL-2.0 */
/* text_table.h -- rows of cells, printed in columns that stand below each other. */
#ifndef CLIENTS_TEXT_TABLE_H
#define CLIENTS_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 8
#define TABLE_CELL_BYTES_MAX 1024

struct table_column {
    const char *title;
    bool is_number; /* printed at the right */
};

/* Writes the cell of a row, counted from 0.  text has room for TABLE_CELL_BYTES_MAX with the
 * NUL. */
typedef void table_cell_fn(const void *rows, size_t row, size_t column, char *text);

struct table {
    const struct table_column *columns;
    size_t column_count; /* TABLE_COLUMNS_MAX at most */
    const void *rows;
    size_t row_count;
    table_cell_fn *cell;
};

/* Prints the table.  Each line begins with two blanks.  width: how many columns a line may have; 0:
 * no limit.  In a wider table the cells of the first column lose their middle, down to
 * TABLE_FIRST_MIN columns. */
#define TABLE_FIRST_MIN 12
void table_print(FILE *out, const struct table *table, size_t width);

/* Prints text in lines of at most width columns; 0: no limit.  first is the column where its first
 * line begins.  A line that goes on is indented by two blanks more.  Line breaks of text stay.  A
 * wider word stands alone. */
void text_print_wrapped(FILE *out, const char *text, size_t first, size_t width);

/* How many columns the terminal of a stream has; 0: it is no terminal. */
size_t text_stream_columns(FILE *stream);

/* How many lines the terminal of a stream has; 0: it is no terminal. */
size_t text_stream_lines(FILE *stream);

/* How many of these bytes of text, which has no control characters, fit in so many columns. */
size_t text_bytes_within(const char *text, size_t bytes, size_t columns);

/* How many columns of a terminal a text of UTF-8 takes. */
size_t text_columns(const char *text);

#endif

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
    bool is_number; /* at the right */
};

/* Writes the cell of a row, 0 and up, as text of TABLE_CELL_BYTES_MAX at most with its NUL. */
typedef void table_cell_fn(const void *rows, size_t row, size_t column, char *text);

struct table {
    const struct table_column *columns;
    size_t column_count; /* TABLE_COLUMNS_MAX at most */
    const void *rows;
    size_t row_count;
    table_cell_fn *cell;
};

/* Each line begins with two blanks.  width: columns that a line may have; what is wider loses the
 * middle of its first column, down to TABLE_FIRST_MIN columns.  0: no limit. */
#define TABLE_FIRST_MIN 12
void table_print(FILE *out, const struct table *table, size_t width);

/* Prints text, whose first line begins in the column first, in lines of at most width columns.
 * What goes on in a new line is indented by two blanks more.  Lines that are there stay.  A word
 * that is wider stands alone.  width 0: no limit. */
void text_print_wrapped(FILE *out, const char *text, size_t first, size_t width);

/* How many columns the terminal has that a stream is written to; 0: it is no terminal. */
size_t text_stream_columns(FILE *stream);

/* How many columns of a terminal a text of UTF-8 takes. */
size_t text_columns(const char *text);

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* text_table.c -- see text_table.h. */
#include "clients/text_table.h"

#include "clients/cli.h"

#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define INDENT 2           /* before a line, and between two columns */
#define LINES_DEFAULT 24   /* the same, and no height */
#define COLUMNS_DEFAULT 80 /* of a terminal that tells no width */

/* ---- how wide a text is -----------------------------------------------------------------------*/

/* Reads the character at *at, and moves *at behind it.  In text that is no UTF-8, each byte is one
 * character. */
static uint32_t next_character(const char **at)
{
    const unsigned char *bytes = (const unsigned char *)*at;
    size_t more = bytes[0] >= 0xf0 ? 3 : bytes[0] >= 0xe0 ? 2 : bytes[0] >= 0xc0 ? 1 : 0;
    uint32_t character = more == 0 ? bytes[0] : bytes[0] & (0x3fU >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            *at += 1;
            return bytes[0];
        }
        character = character << 6 | (bytes[i] & 0x3f);
    }
    *at += more + 1;
    return character;
}

/* How many columns a character takes when cli_print_text() prints it: a control character becomes
 * \x1b or \u009b.  Unicode's East Asian wide characters take two columns, combining marks none.
 * The ranges are those of https://www.unicode.org/reports/tr11/, without single characters in
 * between. */
static size_t columns_of(uint32_t character)
{
    static const struct {
        uint32_t first;
        uint32_t last;
        size_t columns;
    } ranges[] = {
        {'\n', '\n', 2},       {0, 0x1f, 4},          {0x7f, 0x7f, 4},       {0x80, 0x9f, 6},
        {0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},
        {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},
        {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2},
        {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (character >= ranges[i].first && character <= ranges[i].last) {
            return ranges[i].columns;
        }
    }
    return 1;
}

size_t text_columns(const char *text)
{
    size_t columns = 0;
    while (*text != '\0') {
        columns += columns_of(next_character(&text));
    }
    return columns;
}

/* How many bytes of text fit in so many columns. */
static size_t bytes_within(const char *text, size_t columns)
{
    const char *end = text;
    for (const char *at = text; *at != '\0'; end = at) {
        size_t wide = columns_of(next_character(&at));
        if (wide > columns) {
            break;
        }
        columns -= wide;
    }
    return (size_t)(end - text);
}

/* ---- wrapping ---------------------------------------------------------------------------------*/

/* Prints a word and the blanks before it, on this line or the next. */
static void print_word(FILE *out, const char *word, size_t bytes, size_t indent, size_t width,
                       size_t *at)
{
    char piece[TABLE_CELL_BYTES_MAX];
    snprintf(piece, sizeof piece, "%.*s", (int)bytes, word);
    size_t blanks = strspn(piece, " ");
    size_t columns = text_columns(piece);
    bool is_first = blanks == 0; /* the first word of its line */
    if (width > 0 && !is_first && *at + columns > width) {
        fprintf(out, "\n%*s", (int)indent, "");
        *at = indent;
        columns -= blanks;
    } else {
        blanks = 0;
    }
    cli_print_text(out, piece + blanks, "\t");
    *at += columns;
}

void text_print_wrapped(FILE *out, const char *text, size_t first, size_t width)
{
    size_t at = first;
    for (const char *line = text; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        size_t indent = strspn(line, " ") + INDENT;
        for (size_t from = 0, to; from < bytes; from = to) {
            to = from + strspn(line + from, " ");
            to += strcspn(line + to, " \n");
            to = to - from < TABLE_CELL_BYTES_MAX ? to : from + TABLE_CELL_BYTES_MAX - 1;
            print_word(out, line + from, to - from, indent, width, &at);
        }
        line += bytes;
        if (*line == '\n') {
            putc('\n', out);
            line++;
            at = 0;
        }
    }
}

size_t text_stream_columns(FILE *stream)
{
    struct winsize size = {0};
    if (!isatty(fileno(stream))) {
        return 0;
    }
    bool is_known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : COLUMNS_DEFAULT;
}

size_t text_stream_lines(FILE *stream)
{
    struct winsize size = {0};
    if (!isatty(fileno(stream))) {
        return 0;
    }
    bool is_known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    return is_known ? size.ws_row : LINES_DEFAULT;
}

size_t text_bytes_within(const char *text, size_t bytes, size_t columns)
{
    size_t within = bytes_within(text, columns);
    return within < bytes ? within : bytes;
}

/* ---- printing ---------------------------------------------------------------------------------*/

static void print_blanks(FILE *out, size_t count)
{
    fprintf(out, "%*s", (int)count, "");
}

/* Prints text in so many columns.  A wider text loses its middle, because its end tells more. */
static void print_cut(FILE *out, const char *text, size_t columns)
{
    char begin[TABLE_CELL_BYTES_MAX];
    size_t whole = text_columns(text);
    if (whole <= columns) {
        cli_print_text(out, text, "");
        return;
    }
    size_t before = (columns - 3) / 2;
    size_t bytes = bytes_within(text, before);
    memcpy(begin, text, bytes);
    begin[bytes] = '\0';
    cli_print_text(out, begin, "");
    fputs("...", out);
    const char *rest = text;
    while (text_columns(rest) > columns - 3 - before) {
        (void)next_character(&rest);
    }
    cli_print_text(out, rest, "");
    print_blanks(out, columns - 3 - text_columns(begin) - text_columns(rest));
}

static void print_cell(FILE *out, const struct table *table, size_t column, const char *text,
                       size_t width)
{
    size_t columns = text_columns(text);
    size_t left = width > columns ? width - columns : 0;
    bool is_last = column + 1 == table->column_count;
    print_blanks(out, INDENT + (table->columns[column].is_number ? left : 0));
    print_cut(out, text, columns > width ? width : columns);
    if (!table->columns[column].is_number && !is_last) {
        print_blanks(out, left);
    }
}

static void find_widths(const struct table *table, size_t width, size_t *widths)
{
    char text[TABLE_CELL_BYTES_MAX];
    size_t sum = 0;
    for (size_t column = 0; column < table->column_count; column++) {
        widths[column] = text_columns(table->columns[column].title);
        for (size_t row = 0; row < table->row_count; row++) {
            table->cell(table->rows, row, column, text);
            size_t columns = text_columns(text);
            widths[column] = columns > widths[column] ? columns : widths[column];
        }
        sum += INDENT + widths[column];
    }
    if (width > 0 && sum > width) {
        size_t over = sum - width;
        size_t first = widths[0] > over ? widths[0] - over : 0;
        size_t least = widths[0] < TABLE_FIRST_MIN ? widths[0] : TABLE_FIRST_MIN;
        widths[0] = first > least ? first : least;
    }
}

void table_print(FILE *out, const struct table *table, size_t width)
{
    char text[TABLE_CELL_BYTES_MAX];
    size_t widths[TABLE_COLUMNS_MAX];
    find_widths(table, width, widths);
    for (size_t column = 0; column < table->column_count; column++) {
        print_cell(out, table, column, table->columns[column].title, widths[column]);
    }
    putc('\n', out);
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t column = 0; column < table->column_count; column++) {
            table->cell(table->rows, row, column, text);
            print_cell(out, table, column, text, widths[column]);
        }
        putc('\n', out);
    }
}

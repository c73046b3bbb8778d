/* SPDX-License-Identifier: MPL-2.0 */
/* run_trace.c -- the forms of traces, line by line.
 *
 * Each form has a function, which is called at the beginning of a line.  If a trace of its form
 * begins there, it returns where the trace ends.  Otherwise it returns the same place. */
#include "clients/run_trace.h"

#include <string.h>

#define LOOK_LINES_MAX 16 /* how many lines a form looks ahead for its marks */
#define WORD(text) (text), sizeof(text) - 1

struct text {
    const char *bytes;
    size_t count;
};

/* A line without its newline. */
struct line {
    const char *text;
    size_t bytes;
    size_t at;
    size_t next; /* where the next one begins */
};

/* ---- lines ------------------------------------------------------------------------------------*/

static struct line line_at(const struct text *text, size_t at)
{
    size_t left = text->count - at;
    const char *newline = left > 0 ? memchr(text->bytes + at, '\n', left) : NULL;
    size_t bytes = newline != NULL ? (size_t)(newline - text->bytes) - at : left;
    struct line line = {.text = text->bytes + at, .bytes = bytes, .at = at, .next = at + bytes};
    line.next += newline != NULL;
    if (line.bytes > 0 && line.text[line.bytes - 1] == '\r') {
        line.bytes -= 1;
    }
    return line;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool begins(const struct line *line, const char *word, size_t bytes)
{
    return line->bytes >= bytes && memcmp(line->text, word, bytes) == 0;
}

static bool ends(const struct line *line, const char *word, size_t bytes)
{
    return line->bytes >= bytes && memcmp(line->text + line->bytes - bytes, word, bytes) == 0;
}

static bool has(const struct line *line, const char *word, size_t bytes)
{
    return memmem(line->text, line->bytes, word, bytes) != NULL;
}

/* The rest of a line, without its first skip bytes. */
static struct line after(const struct line *line, size_t skip)
{
    struct line rest = *line;
    skip = skip < line->bytes ? skip : line->bytes;
    rest.text += skip;
    rest.at += skip;
    rest.bytes -= skip;
    return rest;
}

static size_t count_blanks(const struct line *line)
{
    size_t count = 0;
    while (count < line->bytes && (line->text[count] == ' ' || line->text[count] == '\t')) {
        count++;
    }
    return count;
}

static size_t count_digits(const struct line *line)
{
    size_t count = 0;
    while (count < line->bytes && is_digit(line->text[count])) {
        count++;
    }
    return count;
}

static bool is_blank(const struct line *line)
{
    return count_blanks(line) == line->bytes;
}

static bool is_indented(const struct line *line)
{
    return count_blanks(line) > 0 && !is_blank(line);
}

/* Returns the place behind the blank lines at this place. */
static size_t skip_blank(const struct text *text, size_t at)
{
    while (at < text->count) {
        struct line line = line_at(text, at);
        if (!is_blank(&line)) {
            break;
        }
        at = line.next;
    }
    return at;
}

static struct run_part part_of(const struct line *line)
{
    return (struct run_part){.at = line->at, .bytes = line->bytes};
}

/* The length of "==123==", by which a tool marks the lines of a process. */
static size_t process_mark(const struct line *line)
{
    struct line rest = after(line, 2);
    size_t digits = count_digits(&rest);
    struct line close = after(&rest, digits);
    return begins(line, WORD("==")) && digits > 0 && begins(&close, WORD("==")) ? digits + 4 : 0;
}

/* ---- frames and source lines ------------------------------------------------------------------*/

/* "FILE", line 7 of Python, perhaps behind the border of a group. */
static bool is_file_frame(const struct line *line)
{
    size_t skip = 0;
    while (skip < line->bytes && (line->text[skip] == ' ' || line->text[skip] == '|')) {
        skip++;
    }
    struct line rest = after(line, skip);
    return skip > 0 && begins(&rest, WORD("File \"")) && has(&rest, WORD("\", line "));
}

/* "at NAME(PLACE)", "at PATH:7:11": Java, Node, .NET, and the second line of a frame of Rust. */
static bool is_at_frame(const struct line *line)
{
    struct line rest = after(line, count_blanks(line));
    if (!is_indented(line) || !begins(&rest, WORD("at "))) {
        return false;
    }
    char last = rest.text[rest.bytes - 1];
    return has(&rest, WORD("(")) || has(&rest, WORD("<anonymous>")) ||
           ((is_digit(last) || last == '{') && has(&rest, WORD(":")));
}

/* "... 7 more", "... 5 lines matching cause stack trace ..." between such frames. */
static bool is_left_out(const struct line *line)
{
    struct line rest = after(line, count_blanks(line));
    return is_indented(line) && begins(&rest, WORD("... ")) && rest.bytes > 4 &&
           is_digit(rest.text[4]);
}

/* "from FILE:7:in `main'" of Ruby. */
static bool is_from_frame(const struct line *line)
{
    struct line rest = after(line, count_blanks(line));
    return is_indented(line) && begins(&rest, WORD("from ")) && has(&rest, WORD(":in "));
}

/* "#0 0x7f... in main FILE:7" of sanitizers and debuggers; "#0 FILE(7): f()" of PHP. */
static bool is_number_frame(const struct line *line)
{
    struct line rest = after(line, count_blanks(line));
    struct line digits = after(&rest, 1);
    size_t count = count_digits(&digits);
    struct line behind = after(&digits, count);
    return begins(&rest, WORD("#")) && count > 0 && begins(&behind, WORD(" "));
}

/* "<tab>/path/file.go:7 +0x1d" of Go. */
static bool is_go_place(const struct line *line)
{
    const char *colon = memrchr(line->text, ':', line->bytes);
    return begins(line, WORD("\t")) && colon != NULL && colon + 1 < line->text + line->bytes &&
           is_digit(colon[1]) && has(line, WORD(".go:"));
}

/* "==123==    at 0x1234: main (FILE:7)" of Valgrind; "PROGRAM(+0x1d) [0x55d0]" of glibc; "<tab>f()
 * called at FILE line 7" of Perl. */
static bool is_other_frame(const struct line *line)
{
    struct line rest = after(line, process_mark(line));
    struct line word = after(&rest, count_blanks(&rest));
    const char *address = line->bytes > 0 ? memrchr(line->text, '[', line->bytes) : NULL;
    struct line tail = after(line, address != NULL ? (size_t)(address - line->text) : line->bytes);
    bool is_valgrind =
        process_mark(line) > 0 && (begins(&word, WORD("at 0x")) || begins(&word, WORD("by 0x")));
    bool is_perl = begins(line, WORD("\t")) && has(line, WORD(" called at "));
    return is_valgrind || is_perl || (begins(&tail, WORD("[0x")) && ends(&tail, WORD("]")));
}

/* A whole traceback in one line, as in a log of JSON. */
static bool is_embedded(const struct line *line)
{
    return has(line, WORD("Traceback (most recent call last)"));
}

/* "[rank0]:     SOURCE": the prefix of a launcher before what is indented. */
static bool is_ranked(const struct line *line)
{
    static const char rank[] = "[rank";
    struct line digits = after(line, sizeof rank - 1);
    struct line close = after(&digits, count_digits(&digits));
    struct line bare = after(&close, 3);
    return begins(line, WORD(rank)) && begins(&close, WORD("]: ")) && is_indented(&bare);
}

static bool is_frame(const struct line *line)
{
    return is_embedded(line) || is_ranked(line) || is_file_frame(line) || is_at_frame(line) ||
           is_from_frame(line) || is_number_frame(line) || is_go_place(line) ||
           is_other_frame(line);
}

/* Carets below a source line: "    ~~^~~", or "   |    ^ expected ;" of a compiler. */
static bool is_caret(const struct line *line)
{
    bool has_border = false;
    bool has_caret = false;
    for (size_t i = 0; i < line->bytes; i++) {
        char byte = line->text[i];
        has_caret |= byte == '^';
        if (byte == '|') {
            has_border = true;
        } else if (byte != ' ' && byte != '\t' && byte != '^' && byte != '~') {
            return has_border && has_caret;
        }
    }
    return has_caret;
}

/* "FILE:7: UserWarning: text" of Python, which shows its source line below. */
static bool is_warning(const struct line *line)
{
    return has(line, WORD("Warning: ")) && has(line, WORD(".py:")) && !is_indented(line);
}

/* ---- Python -----------------------------------------------------------------------------------*/

static const char traceback[] = "Traceback (most recent call last):";

/* The line without the prefix that some launchers add. */
static struct line without(const struct line *line, const struct line *prefix)
{
    bool has_prefix = prefix->bytes > 0 && begins(line, prefix->text, prefix->bytes);
    return after(line, has_prefix ? prefix->bytes : 0);
}

/* "package.module.Error: what happened", or the name alone. */
static bool is_exception(const struct line *line)
{
    size_t i = 0;
    while (i < line->bytes && line->text[i] != ':' && (unsigned char)line->text[i] > ' ' &&
           strchr("()[]{}=,;\"'/", line->text[i]) == NULL) {
        i++;
    }
    struct line rest = after(line, i);
    return i > 0 && !is_digit(line->text[0]) &&
           (rest.bytes == 0 || begins(&rest, WORD(": ")) || rest.bytes == 1);
}

/* Takes frames with their source lines, the line that says what happened, and the lines indented
 * below it. */
static size_t take_frames(const struct text *text, size_t at, const struct line *prefix,
                          struct run_trace *trace)
{
    struct line line = line_at(text, at);
    struct line bare = without(&line, prefix);
    while (at < text->count && is_indented(&bare)) {
        at = line.next;
        line = line_at(text, at);
        bare = without(&line, prefix);
    }
    if (at == text->count || !is_exception(&bare)) {
        return at;
    }
    trace->what = part_of(&bare);
    do {
        at = line.next;
        line = line_at(text, at);
        bare = without(&line, prefix);
    } while (at < text->count && is_indented(&bare));
    return at;
}

/* If the traceback that ends here is only a cause: returns where the next traceback begins.
 * Otherwise returns at. */
static size_t skip_chain(const struct text *text, size_t at, const struct line *prefix)
{
    struct line line = line_at(text, skip_blank(text, at));
    struct line bare = without(&line, prefix);
    while (bare.bytes == 0 && line.next < text->count) {
        line = line_at(text, line.next);
        bare = without(&line, prefix);
    }
    if (begins(&bare, WORD("\"\"\""))) { /* the quoted trace of another process */
        line = line_at(text, skip_blank(text, line.next));
        bare = without(&line, prefix);
    }
    bool is_chain = begins(&bare, WORD("During handling of the above exception")) ||
                    begins(&bare, WORD("The above exception was the direct cause"));
    if (!is_chain) {
        return at;
    }
    do {
        line = line_at(text, line.next);
        bare = without(&line, prefix);
    } while (is_blank(&bare) && line.next < text->count);
    return ends(&bare, WORD(traceback)) ? line.at : at;
}

static size_t take_python(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    struct line prefix = after(&line, line.bytes);
    size_t end = at;
    if (!ends(&line, WORD(traceback))) {
        return is_file_frame(&line) ? take_frames(text, at, &prefix, trace) : at;
    }
    do {
        line = line_at(text, at);
        prefix = (struct line){.text = line.text, .bytes = line.bytes - (sizeof traceback - 1)};
        end = take_frames(text, line.next, &prefix, trace);
        at = skip_chain(text, end, &prefix);
    } while (at > end);
    return end;
}

/* Takes an exception group, which has a border behind the same prefix. */
static size_t take_group(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    struct line prefix = line;
    bool has_what = false;
    const char *group = memmem(line.text, line.bytes, WORD("  + Exception Group "));
    if (group == NULL || !ends(&line, WORD(traceback))) {
        return at;
    }
    prefix.bytes = (size_t)(group - line.text);
    for (line = line_at(text, line.next); line.at < text->count; line = line_at(text, line.next)) {
        struct line bare = without(&line, &prefix);
        struct line border = after(&bare, count_blanks(&bare));
        if (!is_indented(&bare) || !(begins(&border, "|", 1) || begins(&border, "+", 1))) {
            break;
        }
        struct line inner = after(&border, 2);
        if (!has_what && begins(&border, WORD("| ")) && is_exception(&inner)) {
            trace->what = part_of(&inner);
            has_what = true;
        }
    }
    return line.at;
}

/* Takes what faulthandler writes about a signal, or what the interpreter writes about its own
 * end. */
static size_t take_fatal(const struct text *text, size_t at, struct run_trace *trace)
{
    static const char call_first[] = "(most recent call first):";
    struct line line = line_at(text, at);
    if (begins(&line, WORD("Fatal Python error: "))) {
        trace->what = part_of(&line);
    } else if (!ends(&line, WORD(call_first))) {
        return at;
    }
    size_t end = line.next;
    for (line = line_at(text, end); line.at < text->count; line = line_at(text, line.next)) {
        if (is_indented(&line) || ends(&line, WORD(call_first)) ||
            begins(&line, WORD("Python runtime state")) ||
            begins(&line, WORD("Extension modules:"))) {
            end = line.next;
        } else if (!is_blank(&line)) {
            break;
        }
    }
    return end;
}

/* ---- Java, Node, .NET, Ruby -------------------------------------------------------------------*/

static bool is_trail(const struct line *line)
{
    return is_at_frame(line) || is_left_out(line) || is_from_frame(line);
}

/* Whether another trace begins with this line. */
static bool is_beginning(const struct line *line)
{
    return ends(line, WORD(traceback)) || begins(line, WORD("Exception in thread \"")) ||
           begins(line, WORD("thread '")) || begins(line, WORD("panic: ")) ||
           begins(line, WORD("stack backtrace:"));
}

/* Returns where the first frame stands, behind a message of several lines; at: there is none. */
static size_t find_trail(const struct text *text, size_t at)
{
    size_t from = at;
    for (int i = 0; i < LOOK_LINES_MAX && at < text->count; i++) {
        struct line line = line_at(text, at);
        if (is_trail(&line)) {
            return at;
        }
        if (is_blank(&line) || is_beginning(&line)) {
            break;
        }
        at = line.next;
    }
    return from;
}

/* The members of an error that Node shows behind its last frame: up to "}". */
static size_t skip_members(const struct text *text, size_t at)
{
    while (at < text->count) {
        struct line line = line_at(text, at);
        at = line.next;
        if (begins(&line, "}", 1)) {
            break;
        }
    }
    return at;
}

/* Takes frames, causes with their frames, and the last lines of Node. */
static size_t take_trail(const struct text *text, size_t at, struct run_trace *trace)
{
    static const char caused[] = "Caused by: ";
    while (at < text->count) {
        struct line line = line_at(text, at);
        struct line bare = after(&line, count_blanks(&line));
        if (is_trail(&line)) {
            at = ends(&line, WORD(" {")) ? skip_members(text, line.next) : line.next;
        } else if (begins(&bare, WORD(caused)) || begins(&bare, WORD("Suppressed: "))) {
            struct line what = after(&bare, sizeof caused - 1);
            if (begins(&line, WORD(caused))) {
                trace->cause = part_of(&what);
            }
            at = find_trail(text, line.next);
        } else {
            break;
        }
    }
    struct line last = line_at(text, skip_blank(text, at));
    if (begins(&last, WORD("(Use `node "))) {
        at = last.next;
        last = line_at(text, skip_blank(text, at));
    }
    return begins(&last, WORD("Node.js v")) ? last.next : at;
}

/* "Exception in thread "main" java.lang.Error: text"; or any line above a frame. */
static size_t take_thrown(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    struct line next = line_at(text, line.next);
    struct line what = line;
    bool is_java = begins(&line, WORD("Exception in thread \""));
    if (is_trail(&line)) { /* the beginning of the trace is missing */
        return is_at_frame(&line) || is_from_frame(&line) ? take_trail(text, at, trace) : at;
    }
    if (!is_java && (is_blank(&line) || !(is_at_frame(&next) || is_from_frame(&next)))) {
        return at;
    }
    if (is_java) {
        const char *quote = memrchr(line.text, '"', line.bytes);
        const char *close = memmem(line.text + 21, line.bytes - 21, WORD("\" "));
        what = after(&line, close != NULL ? (size_t)(close - line.text) + 2
                                          : (size_t)(quote - line.text) + 1);
    }
    trace->what = part_of(what.bytes > 0 ? &what : &line);
    trace->cause = (struct run_part){0};
    return take_trail(text, find_trail(text, line.next), trace);
}

/* Node shows the source line first: "PATH:7", that line, and carets. */
static size_t take_node(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line place = line_at(text, at);
    struct line source = line_at(text, place.next);
    struct line carets = line_at(text, source.next);
    const char *colon = place.bytes > 0 ? memrchr(place.text, ':', place.bytes) : NULL;
    struct line number = after(&place, colon != NULL ? (size_t)(colon - place.text) + 1 : 0);
    if (colon == NULL || colon == place.text || is_indented(&place) || number.bytes == 0 ||
        count_digits(&number) != number.bytes || !is_caret(&carets)) {
        return at;
    }
    size_t end = skip_blank(text, carets.next);
    if (end == text->count) {
        return carets.next;
    }
    struct line what = line_at(text, end);
    trace->what = part_of(&what);
    trace->cause = (struct run_part){0};
    return take_trail(text, find_trail(text, what.next), trace);
}

/* ---- Go ---------------------------------------------------------------------------------------*/

static bool is_goroutine(const struct line *line)
{
    struct line number = after(line, sizeof "goroutine " - 1);
    return begins(line, WORD("goroutine ")) && count_digits(&number) > 0 && ends(line, WORD("]:"));
}

/* Takes two lines for each frame: the call, and its place behind a tab. */
static size_t take_goroutines(const struct text *text, size_t at)
{
    size_t end = at;
    while (at < text->count) {
        struct line line = line_at(text, at);
        struct line next = line_at(text, line.next);
        bool is_register = line.bytes > 7 && has(&line, WORD("    0x"));
        bool is_part = is_goroutine(&line) || begins(&line, WORD("\t")) ||
                       begins(&line, WORD("created by ")) || is_go_place(&next) || is_register ||
                       begins(&line, WORD("...")) || begins(&line, WORD("exit status ")) ||
                       begins(&line, WORD("runtime stack:"));
        if (!is_part && !is_blank(&line)) {
            break;
        }
        at = line.next;
        end = is_part ? at : end;
    }
    return end;
}

static size_t take_go(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    struct line next = line_at(text, line.next);
    bool is_panic = begins(&line, WORD("panic: ")) || begins(&line, WORD("fatal error: "));
    if (is_go_place(&next)) { /* the beginning of the trace is missing */
        return take_goroutines(text, at);
    }
    struct line seen = line;
    for (int i = 0; is_panic && i < LOOK_LINES_MAX && seen.next < text->count; i++) {
        if (is_goroutine(&seen) || begins(&seen, WORD("runtime stack:"))) {
            break;
        }
        seen = line_at(text, seen.next);
    }
    if (!is_goroutine(&seen) && !begins(&seen, WORD("runtime stack:"))) {
        return at;
    }
    if (is_panic) {
        trace->what = part_of(&line);
    }
    return take_goroutines(text, seen.at);
}

/* ---- Rust -------------------------------------------------------------------------------------*/

/* "   7: NAME" and "      at PLACE". */
static size_t take_rust_frames(const struct text *text, size_t at)
{
    while (at < text->count) {
        struct line line = line_at(text, at);
        struct line bare = after(&line, count_blanks(&line));
        size_t digits = count_digits(&bare);
        struct line behind = after(&bare, digits);
        bool is_number = is_indented(&line) && digits > 0 && begins(&behind, WORD(": "));
        if (!is_number && !is_at_frame(&line) && !begins(&line, WORD("note: "))) {
            break;
        }
        at = line.next;
    }
    return at;
}

/* Takes a message of several lines, and the frames or the note behind it. */
static size_t take_rust(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    if (begins(&line, WORD("stack backtrace:"))) {
        return take_rust_frames(text, line.next);
    }
    const char *panicked = memmem(line.text, line.bytes, WORD(" panicked at "));
    if (!begins(&line, WORD("thread '")) || panicked == NULL) {
        return at;
    }
    struct line what = after(&line, (size_t)(panicked - line.text) + 1);
    size_t end = line.next;
    if (ends(&line, WORD(":")) && end < text->count) { /* only the place: the text stands below */
        what = line_at(text, end);
        end = what.next;
    }
    trace->what = part_of(&what);
    size_t next = end;
    for (int i = 0; i < LOOK_LINES_MAX && next < text->count; i++) {
        struct line seen = line_at(text, next);
        next = seen.next;
        if (begins(&seen, WORD("stack backtrace:")) || begins(&seen, WORD("note: run with "))) {
            return take_rust_frames(text, next);
        }
    }
    return end;
}

/* ---- sanitizers -------------------------------------------------------------------------------*/

/* Skips what AddressSanitizer prints behind its summary: bytes around the place, and a legend. */
static size_t skip_shadow(const struct text *text, size_t at)
{
    size_t end = at;
    while (at < text->count) {
        struct line line = line_at(text, at);
        bool is_part = is_indented(&line) || begins(&line, WORD("=>0x")) ||
                       begins(&line, WORD("Shadow byte")) || begins(&line, WORD("=====")) ||
                       begins(&line, WORD("ThreadSanitizer: reported ")) || process_mark(&line) > 0;
        if (!is_part && !is_blank(&line)) {
            break;
        }
        at = line.next;
        end = is_part ? at : end;
    }
    return end;
}

/* "==7==ERROR: AddressSanitizer: text": where its name begins in the line; 0: it is none. */
static size_t report_text(const struct line *line)
{
    static const char sanitizer[] = "Sanitizer";
    struct line bare = after(line, process_mark(line));
    bool is_error = begins(&bare, WORD("ERROR: "));
    struct line text = after(&bare, is_error ? sizeof "ERROR: " - 1 : sizeof "WARNING: " - 1);
    const char *colon = text.bytes > 0 ? memchr(text.text, ':', text.bytes) : NULL;
    struct line name = text;
    name.bytes = colon != NULL ? (size_t)(colon - text.text) : 0;
    bool is_report = is_error || begins(&bare, WORD("WARNING: "));
    return is_report && ends(&name, WORD(sanitizer)) && !has(&name, WORD(" "))
               ? (size_t)(text.text - line->text)
               : 0;
}

static size_t take_sanitizer(const struct text *text, size_t at, struct run_trace *trace)
{
    static const char summary[] = "SUMMARY: ";
    struct line line = line_at(text, at);
    size_t skip = report_text(&line);
    if (skip == 0) {
        return at;
    }
    struct line what = after(&line, skip);
    size_t end = text->count; /* the process ended before the trace did */
    for (line = line_at(text, line.next); line.at < text->count; line = line_at(text, line.next)) {
        if (begins(&line, WORD(summary))) {
            what = after(&line, sizeof summary - 1);
            end = skip_shadow(text, line.next);
            break;
        }
    }
    trace->what = part_of(&what);
    return end;
}

/* "FILE:7:3: runtime error: text", with or without frames. */
static size_t take_undefined(const struct text *text, size_t at, struct run_trace *trace)
{
    struct line line = line_at(text, at);
    const char *found = memmem(line.text, line.bytes, WORD(": runtime error: "));
    if (found == NULL || found == line.text || !is_digit(found[-1])) {
        return at;
    }
    trace->what = part_of(&line);
    for (line = line_at(text, line.next); line.at < text->count; line = line_at(text, line.next)) {
        if (!is_number_frame(&line) && !begins(&line, WORD("SUMMARY: Undefined"))) {
            break;
        }
    }
    return line.at;
}

/* ---- public -----------------------------------------------------------------------------------*/

static size_t take(const struct text *text, size_t at, struct run_trace *trace)
{
    static size_t (*const forms[])(const struct text *text, size_t at, struct run_trace *trace) = {
        take_group, take_python,    take_fatal,     take_node,   take_go,
        take_rust,  take_sanitizer, take_undefined, take_thrown,
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t end = forms[i](text, at, trace);
        if (end > at) {
            return end;
        }
    }
    return at;
}

/* Takes the rest of Python's frames in a text that was cut, and so may begin with a source line. */
static size_t take_rest_of_frames(const struct text *text, struct run_trace *trace)
{
    struct line line = line_at(text, 0);
    struct line prefix = after(&line, line.bytes);
    return is_indented(&line) ? take_frames(text, 0, &prefix, trace) : 0;
}

void run_trace_find(const char *text, size_t bytes, bool is_cut, struct run_trace *out_trace)
{
    const struct text all = {.bytes = text, .count = bytes};
    struct run_trace trace = {.end = 0};
    size_t at = is_cut && bytes > 0 ? take_rest_of_frames(&all, &trace) : 0;
    trace.end = at;
    trace.whole.bytes = at;
    while (at < bytes) {
        struct run_trace found = {.end = 0};
        size_t end = take(&all, at, &found);
        if (end == at) {
            at = line_at(&all, at).next;
            continue;
        }
        bool is_same = trace.end > 0 && skip_blank(&all, trace.end) >= at;
        found.whole.at = is_same ? trace.whole.at : at;
        if (is_same && found.what.bytes == 0) { /* the rest of the trace before it */
            found.what = trace.what;
            found.cause = trace.cause;
        }
        found.whole.bytes = end - found.whole.at;
        found.end = end;
        trace = found;
        at = end;
    }
    *out_trace = trace;
}

size_t run_trace_strip(const char *text, size_t bytes, char *out)
{
    const struct text all = {.bytes = text, .count = bytes};
    struct run_trace trace = {.end = 0};
    bool is_source = false; /* the line before says that this one is */
    size_t left = 0;
    for (size_t at = 0; at < bytes;) {
        struct line line = line_at(&all, at);
        struct line below = line_at(&all, line.next);
        size_t end = take(&all, at, &trace);
        bool is_shown = is_source && is_indented(&line);
        is_source = is_warning(&line);
        if (end > at) {
            at = end;
            continue;
        }
        if (!is_shown && !is_frame(&line) && !is_caret(&line) && !is_caret(&below)) {
            memmove(out + left, text + at, line.next - at);
            left += line.next - at;
        }
        at = line.next;
    }
    return left;
}

size_t run_trace_last_line(const char *text, size_t bytes, bool is_cut, char *out)
{
    struct run_trace trace;
    run_trace_find(text, bytes, is_cut, &trace);
    size_t left = run_trace_strip(text + trace.end, bytes - trace.end, out);
    while (left > 0 && (out[left - 1] == '\n' || out[left - 1] == '\r')) {
        left -= 1;
    }
    const char *newline = left > 0 ? memrchr(out, '\n', left) : NULL;
    size_t start = newline != NULL ? (size_t)(newline - out) + 1 : 0;
    memmove(out, out + start, left - start);
    return left - start;
}

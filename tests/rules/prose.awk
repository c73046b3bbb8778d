# SPDX-License-Identifier: MPL-2.0
# prose.awk -- what prose.sh looks for.  Its input comes in parts: the files, functions, limits and
# tests of the tree, the words that are not used any more, the allowed numbers of each document, the
# documents, and then the sources, whose comments name files and headings.

BEGIN {
    WORDS_MAX = 35 # in a sentence, before it is counted as a long one
    COLUMNS_MAX = 100
    source_file = "[^.\/][.](c|h|def|md|sh|awk|table|words|waivers|in|py|1|3|8)$"
    top_folder = "^(broker|libbus|clients|schemas|tests|bench)/"
}

function complain(text)
{
    print FILENAME ":" FNR ": " text
    failures++
}

# ---- the tree: each path, and each end of a path behind a slash, is a name that exists -----------
function know(path, folder)
{
    known[path] = 1
    if (!(path in tree)) {
        tree[path] = 1
        folder = path
        if (sub(/\/[^\/]*$/, "", folder))
            know(folder)
    }
    while (sub(/^[^\/]*\//, "", path))
        known[path] = 1
}

part == "files" {
    if ($1 == "file")
        know(substr($0, 6))
    else if ($1 == "function")
        functions[$3 $2] = 1
    else if ($1 == "limit")
        limits[$2] = 1
    else if ($1 == "test") {
        tests[$2 "/" $3] = 1
        suites[$2] = 1
    }
    next
}
part == "words" {
    if ($0 !~ /^#/ && index($0, "\t")) {
        word_count++
        word_pattern[word_count] = substr($0, 1, index($0, "\t") - 1)
        word_instead[word_count] = substr($0, index($0, "\t") + 1)
    }
    next
}
part == "counts" && $1 == "words" {
    old_count++
    old_max[old_count] = $2
    old_folder[old_count] = $3
    next
}
part == "counts" {
    if ($0 !~ /^#/ && NF > 2) {
        row_count++
        row_long[row_count] = $1
        row_wide[row_count] = $2
        row_name[row_count] = $3
        for (i = 3; i <= NF; i++)
            row_of[$i] = row_count
    }
    next
}

# ---- a document: a row of prose.table has its path, or that of its folder; row 0 has all others --
function row_for(path)
{
    if (path in row_of)
        return row_of[path]
    sub(/[^\/]*$/, "", path)
    return path in row_of ? row_of[path] : 0
}

part == "prose" && FNR == 1 {
    finish()
    document = FILENAME
    is_man = document ~ /[.][1-9]$/
    is_code = 0
    is_tag = 0
    row = row_for(document)
}

# Characters, not bytes: the bytes behind the first one of a character are not counted.
function columns(text)
{
    gsub(/[\200-\277]/, "", text)
    return length(text)
}

function wide()
{
    wide_in[row]++
    print FILENAME ":" FNR ": longer than " COLUMNS_MAX " columns"
}

# ---- sentences -----------------------------------------------------------------------------------
function count_long(words, start)
{
    if (words <= WORDS_MAX)
        return
    long_of[document]++
    long_in[row]++
    printf "%s:%d: %d words: %s ...\n", document, paragraph_line, words, start
}

# ends: what ends a sentence; in a table also a semicolon, for cells are lists.
function sentences(text, ends, n, i, words, start, word, parts)
{
    gsub(/``?[^`]*``?/, "code", text)
    gsub(/\]\([^)]*\)/, "]", text)
    n = split(text, parts, /[ \t]+/)
    words = 0
    start = ""
    for (i = 1; i <= n; i++) {
        word = parts[i]
        if (word ~ /[A-Za-z0-9\200-\377]/) {
            words++
            if (words <= 6)
                start = start (start == "" ? "" : " ") word
        }
        if (word ~ ends) {
            count_long(words, start)
            words = 0
            start = ""
        }
    }
    count_long(words, start)
}

function end_paragraph()
{
    if (paragraph != "")
        sentences(paragraph, "[.!?][)*\"'_]*$")
    paragraph = ""
}

function add(text)
{
    if (paragraph == "")
        paragraph_line = FNR
    paragraph = paragraph " " text
}

function cells(text, n, i, parts)
{
    end_paragraph()
    paragraph_line = FNR
    gsub(/``?[^`]*``?/, "code", text)
    n = split(text, parts, /[|]/)
    for (i = 1; i <= n; i++)
        sentences(parts[i], "[.!?;][)*\"'_]*$")
}

# ---- paths, links and words ----------------------------------------------------------------------
function is_there(path, pattern, one)
{
    sub(/\/$/, "", path)
    sub(/^[.][.]?\//, "", path)
    if (path in known)
        return 1
    if (path !~ /[*]/)
        return 0
    pattern = path
    gsub(/[.]/, "[.]", pattern)
    gsub(/[*]/, "[^/]*", pattern)
    for (one in known)
        if (one ~ ("^" pattern "$"))
            return 1
    return 0
}

function paths(text, name)
{
    while (match(text, /`[^`]*`/)) {
        name = substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        if (name ~ /^[A-Za-z0-9_.*\/-]+$/ && (name ~ source_file || name ~ top_folder) &&
            name !~ /^[.\/]*build\// && name !~ /^\// && !is_there(name))
            complain("there is no such file: " name)
        else if (name ~ /^[a-z_][a-z0-9_]*\(\)$/ &&
                 !is_function(substr(name, 1, length(name) - 2)))
            complain("there is no such function: " name)
        else if (name ~ /^(LIMIT|DEFAULT|STEP|COST)_[A-Z0-9_]+$/ && !(name in limits))
            complain("there is no such limit: " name)
        else if (name ~ /^[a-z0-9_]+\/[A-Za-z0-9_]+$/ && !is_test(name))
            complain("there is no such test: " name)
    }
}

# Those of the tests are there for documents that are about the tests.
function is_function(name)
{
    return (name in functions) || document ~ /^(tests\/|CONTRIBUTING)/ && (("tests/" name) in functions)
}

# SUITE/NAME, or LABEL/PROGRAM as ctest names it.  In documents of other folders only a known suite
# or label tells a test from a topic.
function is_test(name, suite)
{
    suite = name
    sub(/\/.*/, "", suite)
    if (suite == "rule")
        sub(/^rule/, "rules", name)
    return (name in tests) ||
        (document !~ /^tests\// && !(suite in suites) && suite != "rule" &&
            !(("tests/" suite) in tree)) ||
        is_there(name) || is_there(name "_test.c") || is_there(name "_fuzz.c") ||
        is_there(name "_race.c") || is_there(name ".c") || is_there(name ".sh")
}

# [words](target): a path from the folder of the document, perhaps with a heading behind `#`.
function links(text, target)
{
    while (match(text, /\]\([^)]*\)/)) {
        target = substr(text, RSTART + 2, RLENGTH - 3)
        text = substr(text, RSTART + RLENGTH)
        if (target ~ /^[a-z]+:/)
            continue
        if (target ~ /#/) {
            link_count++
            link_at[link_count] = FILENAME ":" FNR
            link_to[link_count] = target
            link_from[link_count] = document
        }
        sub(/#.*/, "", target)
        sub(/\/$/, "", target)
        if (target != "" && !(resolved(document, target) in tree))
            complain("a link to no file: " target)
    }
}

function resolved(from, target, folder)
{
    folder = from
    if (!sub(/\/[^\/]*$/, "", folder))
        folder = ""
    while (sub(/^[.][.]\//, "", target))
        if (!sub(/\/[^\/]*$/, "", folder))
            folder = ""
    return folder == "" ? target : folder "/" target
}

# A heading's name in links: small letters, digits, `-` and `_`; a blank is a `-`.
function anchor(text)
{
    sub(/^#+ +/, "", text)
    gsub(/`/, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}

# What stands instead of the first word in a text that is not used any more, or nothing.
function instead(text, i)
{
    for (i = 1; i <= word_count; i++)
        if (word_instead[i] == "-")
            gsub(word_pattern[i], "", text)
    for (i = 1; i <= word_count; i++)
        if (word_instead[i] != "-" && text ~ word_pattern[i])
            return word_instead[i]
    return ""
}

function words(text)
{
    if (instead(text) != "")
        complain("not a word of ours (" instead(text) "): " $0)
}

# ---- lines ---------------------------------------------------------------------------------------
# A line of man or mdoc.  Macros that set a few words in another font are text; all others end a
# paragraph, and the line behind .TP or of .It is a paragraph of its own.
BEGIN {
    fonts = "B|I|R|BR|BI|RB|RI|IB|IR|SM|SB"
    n = split("Ad Ap Aq Ar Bq Brq Cm Dq Dv Em Er Ev Fa Fl Fn Ft Ic Li Lk Ms Mt Nm No Ns Op Ox Pa " \
              "Pf Pq Ql Qq Sq Sx Sy Tn Va Vt Xr", name_list, " ")
    for (i = 1; i <= n; i++)
        inline[name_list[i]] = 1
}

function man_line(text, macro, n, i, parts)
{
    if (text ~ /^[.'](nf|EX|Bd -(literal|unfilled))/)
        is_code = 1
    if (text ~ /^[.'](fi|EE|Ed)/)
        is_code = 0
    if (is_code || text ~ /^[.']\\"/)
        return
    if (columns(text) > COLUMNS_MAX)
        wide()
    gsub(/\\f[A-Z]|\\f\([A-Z][A-Z]|\\&|\\:/, "", text)
    gsub(/\\-/, "-", text)
    gsub(/\\\(..|\\e/, " ", text)
    words(text)
    macro = ""
    if (text ~ /^[.'][A-Za-z]/) {
        macro = substr(text, 2)
        sub(/ .*/, "", macro)
        sub(/^[.'][A-Za-z0-9]+ */, "", text)
    }
    if (macro ~ ("^(" fonts ")$"))
        macro = "No"
    if (macro == "" ? text == "" : !(macro in inline))
        end_paragraph()
    if (macro == "" || (macro in inline) || macro == "It") {
        n = split(text, parts, / +/)
        text = ""
        for (i = 1; i <= n; i++) # a full stop of its own belongs to the word before
            if (!(parts[i] in inline))
                text = text (parts[i] ~ /^[.,;:)!?]+$/ ? "" : " ") parts[i]
        add(text)
        if (is_tag || macro == "It")
            end_paragraph()
    }
    is_tag = macro == "TP"
}

function markdown_line(text)
{
    if (text ~ /^ *```/) {
        end_paragraph()
        is_code = !is_code
        return
    }
    if (is_code || (paragraph == "" && text ~ /^    /))
        return
    if (document != "CHANGELOG.md") # which speaks of what is gone
        paths(text)
    links(text)
    if (columns(text) > COLUMNS_MAX && text !~ /^ *[|]/ &&
        text !~ /^ *([-*] )?[^ ]+$/)
        wide()
    if (text ~ /^#/) {
        end_paragraph()
        headings[document "#" anchor(text)] = 1
    } else if (text ~ /^ *$/)
        end_paragraph()
    else if (text ~ /^ *[|]/)
        cells(text)
    else {
        if (text ~ /^ *([-*+]|[0-9]+[.)]) /) {
            end_paragraph()
            sub(/^ *([-*+]|[0-9]+[.)]) +/, "", text)
        }
        add(text)
    }
    gsub(/`[^`]*`/, "", text)
    words(text)
}

part == "prose" {
    if (is_man)
        man_line($0)
    else
        markdown_line($0)
    next
}

# ---- sources: what their comments cite -----------------------------------------------------------
# Files of the system, which are cited by name.
BEGIN {
    n = split("signal.h stdlib.h sysexits.h input.h", name_list, " ")
    for (i = 1; i <= n; i++)
        of_system[name_list[i]] = 1
}

part == "sources" && FNR == 1 {
    finish()
    old_row = 0
    for (i = 1; i <= old_count; i++)
        if (index(FILENAME, old_folder[i]) == 1)
            old_row = i
}

part == "sources" && instead($0) != "" {
    print FILENAME ":" FNR ": not a word of ours (" instead($0) ")"
    old_in[old_row]++
}

part == "sources" && !/^#include/ {
    text = $0
    while (match(text, /[A-Za-z]+[.]md, "[^"]*"/)) {
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
        cite_count++
        cite_at[cite_count] = FILENAME ":" FNR
        cite_file[cite_count] = substr(name, 1, index(name, ",") - 1)
        cite_name[cite_count] = substr(name, index(name, "\"") + 1)
        sub(/"$/, "", cite_name[cite_count])
    }
    gsub(/"[^"]*"/, "", text)
    gsub(/<[a-z0-9_\/.]*>/, "", text)
    while (match(text, /[A-Za-z0-9_\/.-]*[A-Za-z0-9_][.](c|h|md|sh|def|table)([^A-Za-z0-9_]|$)/)) {
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/[^A-Za-z0-9_]$/, "", name)
        short = name
        sub(/^.*\//, "", short)
        if (!is_there(name) && !(short in of_system))
            complain("there is no such file: " name)
    }
}

function finish()
{
    end_paragraph()
    if (long_of[document] > 0)
        printf "%s: %d sentences above %d words\n", document, long_of[document], WORDS_MAX
    document = ""
}

# What a row of prose.table allows, against what there is.
function weigh(name, what, allowed, found)
{
    allowed += 0
    found += 0
    if (found > allowed) {
        print name ": " found " " what ", allowed are " allowed
        failures++
    } else if (found < allowed)
        print name ": " found " " what " will do, prose.table says " allowed
}

END {
    finish()
    row_name[0] = old_folder[0] = "what prose.table does not name"
    for (i = 0; i <= row_count; i++) {
        weigh(row_name[i], "sentences above " WORDS_MAX " words", row_long[i], long_in[i])
        weigh(row_name[i], "lines above " COLUMNS_MAX " columns", row_wide[i], wide_in[i])
    }
    for (i = 0; i <= old_count; i++)
        weigh(old_folder[i], "lines with old words", old_max[i], old_in[i])
    for (i = 1; i <= link_count; i++) {
        target = link_to[i]
        at = index(target, "#")
        file = at == 1 ? link_from[i] : resolved(link_from[i], substr(target, 1, at - 1))
        if (!((file "#" substr(target, at + 1)) in headings)) {
            print link_at[i] ": a link to no heading: " target
            failures++
        }
    }
    for (i = 1; i <= cite_count; i++) {
        is_heading = 0
        for (heading in headings)
            if (heading ~ ("(^|/)" cite_file[i] "#" anchor(cite_name[i]) "$"))
                is_heading = 1
        if (!is_heading) {
            print cite_at[i] ": no heading of " cite_file[i] ": " cite_name[i]
            failures++
        }
    }
    exit failures > 0
}

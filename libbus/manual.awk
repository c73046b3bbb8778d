# SPDX-License-Identifier: MPL-2.0
# manual.awk -- man pages of section 3 from the public headers.
#
# usage: awk -f manual.awk -v out=DIRECTORY -v version=0.1.0 bus.h admin.h dead.h metrics.h report.h why.h tap.h access.h seal.h
#
# What a header has to look like:
#   - its first comment begins "name.h -- what it is for";
#   - a line "/* ---- PAGE: what the page is about ----...*/" begins a page.  What stands before the
#     first such line of bus.h is the page libbus;
#   - a comment that begins in the first column is about the declarations behind it, as far as the
#     next empty line or the next such comment.
# Each function gets a page of its own name, which shows the page that has it.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# A line of prose: functions in bold.
function styled(text) {
    text = escape(text)
    gsub(/bus_[a-z_]+\(\)/, "\\fB&\\fP", text)
    gsub(/\\fPP/, "\\fP", text)
    return text
}

function emit(line) {
    page_text = page_text line "\n"
}

# ---- pages ------------------------------------------------------------------------------------------

function page_begin(name, about) {
    page_end()
    page = name
    page_about = about
    page_text = ""
    synopsis = ""
    function_count = 0
}

function page_end(    file, i, names) {
    if (page == "")
        return
    file = out "/" page ".3"
    names = page
    for (i = 1; i <= function_count; i++)
        if (functions[i] != page)
            names = names ", " functions[i]
    printf ".\\\" Made from libbus/include/%s by libbus/manual.awk.\n", header > file
    printf ".TH %s 3 \"\" \"errbus %s\" \"Errbus library\"\n", toupper(page), version > file
    printf ".SH NAME\n%s \\- %s\n", names, escape(page_about) > file
    printf ".SH SYNOPSIS\n.nf\n\\fB#include <%s>\\fP\n", header > file
    if (synopsis != "")
        printf ".sp\n%s", synopsis > file
    printf ".fi\n.SH DESCRIPTION\n%s", page_text > file
    printf ".SH SEE ALSO\n" > file
    if (page != "libbus")
        printf ".BR libbus (3),\n" > file
    printf ".BR errbus (1),\n.BR errbusd (8)\n" > file
    close(file)
    for (i = 1; i <= function_count; i++) {
        if (functions[i] == page)
            continue
        file = out "/" functions[i] ".3"
        printf ".so man3/%s.3\n", page > file
        close(file)
    }
    page = ""
}

# ---- prose ------------------------------------------------------------------------------------------

function prose(count,    i, line, indent, in_list, is_bullet, at) {
    emit(".PP")
    in_list = is_bullet = 0
    for (i = 1; i <= count; i++) {
        line = comment[i]
        if (line ~ /^ *$/) {
            emit(".PP")
            in_list = is_bullet = 0
            continue
        }
        match(line, /^ */)
        indent = RLENGTH
        line = substr(line, indent + 1)
        at = match(line, /  +/)
        if (indent >= 1 && line ~ /^- /) {
            emit(".IP \\(bu 2")
            line = substr(line, 3)
            in_list = is_bullet = 1
        } else if (!is_bullet && indent >= 1 && indent <= 4 && at > 1 && at <= 14) {
            emit(".TP 12")
            emit("\\fB" escape(substr(line, 1, at - 1)) "\\fP")
            line = substr(line, at + RLENGTH)
            in_list = 1
        } else if (indent == 0 && in_list) {
            emit(".PP")
            in_list = is_bullet = 0
        }
        if (line ~ /^(Errors|Threads|Wire):/)
            emit(".PP")
        emit(styled(line))
    }
}

# ---- items ------------------------------------------------------------------------------------------

# code[1..code_count]: prototypes go to the synopsis, the rest stands here.
function declarations(    i, text, whole, name, heading, shown, remark, is_function) {
    heading = shown = whole = remark = ""
    is_function = 0
    for (i = 1; i <= code_count; i++) {
        text = code[i]
        if (text ~ /^BUS_API/)
            is_function = 1
        if (!is_function) {
            shown = shown escape(text) "\n"
            continue
        }
        if (match(text, /\/\*.*\*\//)) {
            remark = substr(text, RSTART + 2, RLENGTH - 4)
            text = substr(text, 1, RSTART - 1)
        }
        sub(/ +$/, "", text)
        sub(/^BUS_API /, "", text)
        sub(/^BUS_MUST_USE /, "", text)
        sub(/^ +/, "    ", text)
        whole = whole escape(text) "\n"
        if (text ~ /; *$/) {
            name = whole
            sub(/\(.*/, "", name)
            sub(/.*[ *\n]/, "", name)
            functions[++function_count] = name
            heading = heading (heading == "" ? "" : ", ") name "()"
            if (remark != "")
                remarks[name] = remark
            synopsis = synopsis whole ".sp\n"
            whole = remark = ""
            is_function = 0
        }
    }
    if (heading != "")
        emit(".SS \"" heading "\"")
    if (shown != "") {
        emit(".PP\n.RS 4\n.nf")
        page_text = page_text shown
        emit(".fi\n.RE")
    }
}

function item_end(    i, name, first) {
    if (page == "" || (comment_count == 0 && code_count == 0))
        return
    first = function_count + 1
    if (code_count > 0)
        declarations()
    if (comment_count > 0)
        prose(comment_count)
    for (i = first; i <= function_count; i++)
        if (functions[i] in remarks)
            emit(".PP\n\\fB" functions[i] "\\fP(): " styled(remarks[functions[i]]))
    comment_count = code_count = 0
}

# ---- lines ------------------------------------------------------------------------------------------

FNR == 1 {
    item_end()
    page_end()
    header = FILENAME
    sub(/.*\//, "", header)
    header = "bus/" header
    depth = in_comment = is_begun = is_skipping = 0
}

# Preprocessor lines are shown only if they define something of ours for programs.
is_skipping {
    is_skipping = /\\$/
    next
}
/^#/ && !/^#define (BUS_|bus_)/ { next }
/^#define BUS_(BUS|ADMIN|TAP)_H/ || /^#define BUS_(API|PRINTF|MUST_USE)/ { next }
/^extern "C" {/ || /^}$/ { next }
/^\/\* SPDX/ { next }

/^\/\* ---- [a-z_]+: .*-\*\/$/ {
    item_end()
    head = $0
    sub(/^\/\* ---- /, "", head)
    sub(/ *-+\*\/$/, "", head)
    split(head, part, ": ")
    page_begin(part[1], substr(head, length(part[1]) + 3))
    if (intro_count > 0) {
        for (i = 1; i <= intro_count; i++)
            comment[i] = intro[i]
        prose(intro_count)
        intro_count = 0
    }
    next
}

# The head of the file.
!is_begun && /^\/\* [a-z]+\.h -- / {
    is_begun = 1
    line = $0
    sub(/^\/\* [a-z]+\.h -- /, "", line)
    if (header == "bus/bus.h") {
        sub(/ *\*\/$/, "", line)
        sub(/\.$/, "", line)
        page_begin("libbus", line)
        comment_count = 0
    } else {
        intro_count = 0
    }
    in_head = $0 !~ /\*\/$/
    next
}
in_head {
    in_head = $0 !~ /\*\/$/
    line = $0
    sub(/^ \* ?/, "", line)
    sub(/ *\*\/$/, "", line)
    if (header == "bus/bus.h")
        comment[++comment_count] = line
    else
        intro[++intro_count] = line
    next
}

in_comment || (depth == 0 && /^\/\*/) {
    if (!in_comment && code_count > 0)
        item_end()
    if (!in_comment && comment_count > 0)
        item_end()
    line = $0
    in_comment = line !~ /\*\/ *$/
    sub(/^\/\* /, "", line)
    sub(/^ \*\/$/, "", line)
    sub(/^ \* ?/, "", line)
    sub(/ *\*\/$/, "", line)
    comment[++comment_count] = line
    next
}

/^ *$/ && depth == 0 {
    item_end()
    next
}

page != "" {
    code[++code_count] = $0
    text = $0
    gsub(/\/\*.*\*\//, "", text)
    depth += gsub(/{/, "", text) - gsub(/}/, "", text)
}

END {
    item_end()
    page_end()
}

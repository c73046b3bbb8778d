# SPDX-License-Identifier: MPL-2.0
# functions.awk -- no function has more than 70 lines of code, which fit a screen, and none contains
# an #if: CMake selects files instead. Not counted: blanks, comments, tables, and in a switch the cases of one line. A waiver
# that is not needed any more is reported too.

BEGIN {
    limit = 70
    while ((getline line < waivers) > 0) {
        if (line ~ /^#/ || line ~ /^ *$/)
            continue
        split(line, field, " ")
        if (field[3] == "") {
            print waivers ": a waiver needs a reason: " line
            violations++
        }
        waived[field[1] " " field[2]] = 1
    }
}

FNR == 1 {
    in_function = 0
    head = ""
}

function name_of(head)
{
    if (head ~ /^(Test|ParameterizedTest|Theory)\(/) {
        gsub(/[ ()]/, "", head)
        sub(/^[A-Za-z]*/, "", head)
        return head
    }
    sub(/\(.*/, "", head)
    sub(/ +$/, "", head)
    sub(/.*[ *]/, "", head)
    return head
}

{
    text = code($0)
}

text == "{" && !in_function {
    in_function = 1
    in_table = 0
    lines = 0
    first = FNR
    name = name_of(head)
    next
}

text == "}" && in_function {
    in_function = 0
    counts[++functions] = lines
    if (lines > longest) {
        longest = lines
        longest_name = FILENAME " " name
    }
    if ((FILENAME " " name) in waived) {
        if (lines > limit)
            used[FILENAME " " name] = 1
    } else if (lines > limit) {
        printf "%s:%d: %s has %d lines of code, more than %d\n", FILENAME, first, name, lines, limit
        violations++
    }
    head = ""
    next
}

in_function {
    if (text ~ /^#[ ]*(if|ifdef|ifndef)/)
        report("#if inside " name ": select files in CMake instead")
    if (in_table) {
        if (text ~ /^ *};$/)
            in_table = 0
    } else if (text ~ /^ +static const .*= *\{$/) {
        in_table = 1
    } else if (text !~ /^ *$/ && text !~ /^ +(case [^:]*|default):.*;$/) {
        lines++
    }
    next
}

# Outside: what stands before the brace is the head of the function.
text ~ /[;}]$/ || text ~ /^#/ {
    head = ""
    next
}
{
    head = head text
}

END {
    for (key in waived)
        if (!(key in used)) {
            print waivers ": not needed: " key
            violations++
        }
    if (functions > 0) {
        # The median by counting: functions are few and short.
        for (i = 1; i <= functions; i++)
            tally[counts[i]]++
        seen = 0
        for (median = 0; seen * 2 < functions; median++)
            seen += tally[median]
        printf "%d functions, median %d lines, longest %d (%s)\n", functions, median - 1, longest,
               longest_name
    }
    exit violations > 0
}

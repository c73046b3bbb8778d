# SPDX-License-Identifier: MPL-2.0
# source.awk -- reads C for the rules: code(line) is the line with its comments taken out and its
# strings emptied, over lines and files. Used with a second -f, on lines in order.

function code(line,    out, at, two, quote, c)
{
    if (FNR == 1)
        in_comment = 0
    out = ""
    for (at = 1; at <= length(line); at++) {
        two = substr(line, at, 2)
        c = substr(line, at, 1)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                at++
            }
        } else if (two == "/*") {
            in_comment = 1
            at++
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            quote = c
            out = out quote
            for (at++; at <= length(line); at++) {
                c = substr(line, at, 1)
                if (c == "\\")
                    at++
                else if (c == quote)
                    break
            }
            out = out quote
        } else {
            out = out c
        }
    }
    sub(/[ \t]+$/, "", out)
    return out
}

function report(text)
{
    printf "%s:%d: %s\n", FILENAME, FNR, text
    violations++
}

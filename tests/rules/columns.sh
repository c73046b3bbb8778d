#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: columns.sh ROOT CC
# Each row of schemas/messages.def decides every column: a row with an open or a missing one does
# not compile. The rule opens each column of one row of each direction, in a copy of the table.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
cc=$2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/schemas"
status=0

# compiles: whether libbus/wire/msg.c does, with the table in the copy.
compiles() {
    "$cc" -std=c11 -I"$copy" -I. -fsyntax-only libbus/wire/msg.c 2>"$copy/errors"
}

# planted ROW: the table with this row in front of its first one.
planted() {
    awk -v row="$1" '/^TO_BROKER\(/ && !n++ { print row "\nMESSAGE_END(PLANTED, planted)" } { print }' \
        schemas/messages.def >"$copy/schemas/messages.def"
}

# opened ROW COLUMN: the row with that column empty; with "less" before the number it is left out.
opened() {
    printf '%s\n' "$1" | awk -v column="${2#less}" -v is_less="${2%%[0-9]*}" '{
        open = index($0, "(")
        count = split(substr($0, open + 1, length($0) - open - 1), words, ", *")
        out = substr($0, 1, open)
        for (i = 1; i <= count; i++) {
            if (i == column && is_less == "less")
                continue
            out = out (written++ ? ", " : "") (i == column ? "" : words[i])
        }
        print out ")"
    }'
}

# check ROW COLUMNS: it compiles as it is, and not with one of the columns open or missing.
check() {
    planted "$1"
    compiles || { echo "does not compile as it is: $1"; cat "$copy/errors"; status=1; }
    for column in $2; do
        for way in '' less; do
            planted "$(opened "$1" "$way$column")"
            if compiles; then
                echo "schemas/messages.def: compiles with column $column ${way:-empty}: $1"
                status=1
            fi
        done
    done
}

# What the last column says stands in documents; all others decide.
check 'TO_BROKER(PLANTED, planted, 63, CONTROL, ANYONE, MINE, NO_ID, LIGHT, ECHO, NONE, "a row")' \
    '1 2 3 4 5 6 7 8 9'
check 'TO_CLIENT(PLANTED, planted, 63, CONTROL, SESSION, NO_ID, AT_ONCE, UNASKED, "a row")' \
    '1 2 3 4 5 6 7 8'
exit $status

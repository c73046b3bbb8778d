#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: walks.sh ROOT
# Each row "| `folder/file.c` | `name()`, ... |" of these documents names functions of that file, whose
# path begins in the folder of the document.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"

for top in broker/core libbus; do
    [ -f "$top/README.md" ] || continue # a tree for a test of the rules has one of them
    grep -q '^| `[a-z_]*/[a-z_]*\.c` | `' "$top/README.md" || echo "$top/README.md: names no function"
    sed -n 's/^| `\([a-z_]*\/[a-z_]*\.c\)` | \([^|]*\) |.*/\1 \2/p' "$top/README.md" |
        while read -r file names; do
            for name in $(printf '%s\n' "$names" | grep -o '`[a-z_]*()`' | tr -d '`()'); do
                grep -qE "^[a-z].*[ *]$name\\(" "$top/$file" ||
                    echo "$top/README.md: $file has no $name()"
            done
        done
done | {
    ! grep .
}

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: walks.sh ROOT
# Each row "| `room/file.c` | `name()`, ... |" of broker/core/README.md names functions of that file.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"

sed -n 's/^| `\([a-z_]*\/[a-z_]*\.c\)` | \([^|]*\) |.*/\1 \2/p' broker/core/README.md |
    while read -r file names; do
        for name in $(printf '%s\n' "$names" | grep -o '`[a-z_]*()`' | tr -d '`()'); do
            grep -qE "^[a-z].*[ *]$name\\(" "broker/core/$file" ||
                echo "broker/core/README.md: $file has no $name()"
        done
    done | {
    ! grep .
}

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: names.sh ROOT
# No two files of broker/core have a local function of the same name, nor do two of broker/io and
# broker/journal: who searches for it finds it.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"

# names_once FOLDERS: looks at the files of these folders together.
names_once() {
    # shellcheck disable=SC2046
    awk '
        /^static [^=;]*\(/ && !/^static inline/ {
            name = $0
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            if (name in file && file[name] != FILENAME) {
                print FILENAME ":" FNR ": " name " is a local function of " file[name] ", too"
                violations++
            }
            file[name] = FILENAME
        }
        END { exit violations > 0 }
    ' $(sources | grep -E "^broker/($1)/.*\.c\$") /dev/null
}

status=0
some '^broker/(core|io|journal)/.*\.c$' >/dev/null
names_once core || status=1
names_once 'io|journal' || status=1
exit $status

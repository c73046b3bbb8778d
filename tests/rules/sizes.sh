#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: sizes.sh ROOT
# Length of the files of broker/ and libbus/: 900 lines, a header 400.  Waivers: sizes.waivers.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"

files=$(some '^(broker|libbus)/')
# shellcheck disable=SC2086 # several words
wc -l $files | awk -v waivers=tests/rules/sizes.waivers '
    BEGIN {
        while ((getline line < waivers) > 0) {
            if (line ~ /^#/ || line ~ /^ *$/)
                continue
            count = split(line, field, " ")
            if (count < 3) {
                print waivers ": a waiver needs a number of lines and a reason: " line
                violations++
            }
            waived[field[1]] = field[2]
        }
    }
    $2 == "total" { next }
    {
        most = $2 ~ /\.h$/ ? 400 : 900
        if ($2 in waived) {
            is_needed[$2] = $1 > most
            most = waived[$2]
        }
        if ($1 > most) {
            print $2 ": " $1 " lines, more than " most
            violations++
        }
    }
    END {
        for (path in waived)
            if (!is_needed[path]) {
                print waivers ": not needed: " path
                violations++
            }
        exit violations > 0
    }'

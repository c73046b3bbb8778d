#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: symbols.sh ROOT SHARED STATIC
# Both libraries show bus_* alone, and all that the public headers declare.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
shared=$2
static=$3
status=0

declared=$(cat libbus/include/bus/*.h | awk -f "$rules/source.awk" -f "$rules/declared.awk" |
               LC_ALL=C sort -u)
[ -n "$declared" ] || { echo "the headers declare nothing"; exit 1; }

# check NAME: defined symbols on standard input.
check() {
    defined=$(awk 'NF >= 3 && $2 != "U" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u)
    for symbol in $defined; do
        case $symbol in
        bus_*) ;;
        *) echo "$1: exports $symbol"; status=1 ;;
        esac
    done
    for symbol in $declared; do
        printf '%s\n' "$defined" | grep -qx "$symbol" ||
            { echo "$1: lacks $symbol, which a header declares"; status=1; }
    done
}

check "$shared" <<END
$(nm -D --defined-only "$shared")
END
check "$static" <<END
$(nm -g --defined-only "$static")
END
exit $status

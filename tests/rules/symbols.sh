#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: symbols.sh ROOT SHARED STATIC
# Both libraries show bus_* alone, and exactly what the public headers declare.  In the shared one
# each symbol has the version of libbus/libbus.map.
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
    defined=$(awk 'NF >= 3 && $2 != "U" && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u)
    for symbol in $defined; do
        printf '%s\n' "$declared" | grep -qx "$symbol" ||
            { echo "$1: exports $symbol, which no header declares"; status=1; }
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

# versioned SHARED: every exported symbol has the version, and there is no other version.
versioned() {
    nm -D --defined-only --with-symbol-versions "$1" | awk -v library="$1" -v version="$version" '
        $3 == version { next } # the version itself
        $3 !~ "@@" version "$" { print library ": " $3 " has no version " version; bad = 1 }
        END { exit bad }' || status=1
}

version=$(awk '/^[A-Z][A-Z0-9_]* *{$/ { print $1 }' libbus/libbus.map)
[ -n "$version" ] || { echo "libbus.map names no version"; exit 1; }
versioned "$shared"
exit $status

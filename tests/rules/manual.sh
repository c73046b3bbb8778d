#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: manual.sh ROOT DIRECTORY
# Each function that a public header declares has a man page in DIRECTORY, which names it.  The pages
# render without a warning, where groff is installed.  Each event has its name in the list of tap.h and
# of errbus-tap(1).
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
pages=$2
status=0

declared=$(cat libbus/include/bus/*.h | awk -f "$rules/source.awk" -f "$rules/declared.awk" |
               LC_ALL=C sort -u)
[ -n "$declared" ] || { echo "the headers declare nothing"; exit 1; }

for name in $declared; do
    [ -f "$pages/$name.3" ] || { echo "$name has no man page"; status=1; continue; }
    page=$(sed -n 's/^\.so man3\///p' "$pages/$name.3")
    page=$pages/${page:-$name.3}
    for heading in '^\.SH NAME' '^\.SH DESCRIPTION' "^\.SS .*$name()" "$name(.*"; do
        grep -q "$heading" "$page" ||
            { echo "$name: ${page##*/} has no line as '$heading'"; status=1; }
    done
done

events=$(sed -n 's/^EVENT([A-Z_]*, "\([a-z.]*\)",.*/\1/p' schemas/errors.def 2>/dev/null) || true
[ -n "$events" ] || { echo "errors.def has no events"; status=1; }
for event in $events; do
    for page in libbus/include/bus/tap.h clients/errbus-tap.1; do
        grep -qw "$event" "$page" || { echo "the event $event is not in $page"; status=1; }
    done
done

if command -v groff >/dev/null; then
    for page in "$pages"/*.3; do
        grep -q '^\.so ' "$page" && continue
        said=$(groff -Tutf8 -man -ww -z "$page" 2>&1) && [ -z "$said" ] ||
            { echo "${page##*/}: $said"; status=1; }
    done
fi
exit $status

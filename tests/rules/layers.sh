#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: layers.sh ROOT OBJECT...
# Layers inside folders, by layers.table: what the objects (FOLDER/CMakeFiles/x.dir/PATH.c.o) call of
# each other, and what the files under ROOT include.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# path_of OBJECT: that of its source, without .c
path_of() {
    printf '%s\n' "$1" | sed -n 's|^\(.*/\)*\([^/]*\)/CMakeFiles/[^/]*\.dir/\(.*\)\.c\.o$|\2/\3|p'
}

# One line a fact: "include FILE HEADER", "defines FILE SYMBOL", "needs FILE SYMBOL".
{
    # shellcheck disable=SC2046
    grep -H '^#include "' $(sources) /dev/null | sed 's|^\([^:]*\):#include "\([^"]*\)".*|include \1 \2|'
    for object in "$@"; do
        path=$(path_of "$object")
        [ -n "$path" ] || { echo "what is $object?" >&2; exit 1; }
        nm "$object" | awk -v path="$path" '
            NF == 3 && $2 ~ /[A-Z]/ { print "defines", path, $3 }
            NF == 2 && $1 == "U" { print "needs", path, $2 }'
    done
} >"$work/facts"
awk -v table="$rules/layers.table" -f "$rules/layers.awk" "$work/facts" "$work/facts"

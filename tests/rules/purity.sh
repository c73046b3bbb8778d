#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: purity.sh ROOT MODULE OBJECT... [-- MODULE OBJECT...]...
# What the objects of pure modules leave undefined is defined by a module they may use, or is a
# function of C that neither keeps state nor reaches outside.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
shift

# memory and strings; what the compiler adds; printf-like formatting is stdio's and not here.
from_c='mem(cpy|move|set|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr|str|spn|cspn|pbrk)'
from_compiler='__[a-z]+_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_'
# msgpack-c's inline functions turn bytes around, and take and give back their own memory.
from_msgpack='msgpack_[a-z0-9_]+|malloc|realloc|free|ntoh[sl]|hton[sl]'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One object a line: module, path.
module=
for word in "$@"; do
    if [ "$word" = -- ]; then
        module=
    elif [ -z "$module" ]; then
        module=$word
    else
        echo "$module $word"
    fi
done >"$work/objects"
cut -d' ' -f1 "$work/objects" | sort -u >"$work/modules"
[ -s "$work/objects" ] || { echo "no objects"; exit 1; }

# What each module defines, and what each of its objects leaves undefined: object, symbol.
while read -r module; do
    sed -n "s/^$module //p" "$work/objects" | tr '\n' '\0' >"$work/list"
    xargs -0 nm -A --defined-only <"$work/list" | sed 's/^.*: *//' |
        awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' >"$work/$module.defined"
    xargs -0 nm -A -u <"$work/list" | sed 's/^.*\/\([^\/:]*\)\.o: */\1 /' |
        awk '{ print $1, $NF }' >"$work/$module.undefined"
done <"$work/modules"

# may_use MODULE: the modules whose functions it may call.
may_use() {
    case $1 in
    libbus_base) echo libbus_base ;;
    libbus_wire) echo libbus_base libbus_wire ;;
    libbus_session) echo libbus_base libbus_wire libbus_session ;;
    broker_core) echo libbus_base libbus_wire broker_core ;;
    *) echo "$1 is not known to be pure" >&2; exit 1 ;;
    esac
}

while read -r module; do
    allowed="$from_c|$from_compiler"
    [ "$module" != libbus_wire ] || allowed="$allowed|$from_msgpack"
    used=$(may_use "$module")
    : >"$work/allowed"
    for other in $used; do
        [ ! -f "$work/$other.defined" ] || cat "$work/$other.defined" >>"$work/allowed"
    done
    # Waivers: the heap making of the allocator hook; and must.c, which prints and ends the program.
    awk -v module="$module" -v allowed="^($allowed)\$" '
        NR == FNR { is_defined[$1] = 1; next }
        $1 ~ /_heap\.c$/ || $1 == "must.c" { next }
        !($2 in is_defined) && $2 !~ allowed { print module ": " $1 " uses " $2 }
    ' "$work/allowed" "$work/$module.undefined"
done <"$work/modules" >"$work/violations"
cat "$work/violations"
[ ! -s "$work/violations" ]

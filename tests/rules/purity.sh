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
[ -s "$work/objects" ] || { echo "no objects"; exit 1; }

while read -r module object; do
    nm --defined-only "$object" | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' >>"$work/$module.defined"
done <"$work/objects"

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

while read -r module object; do
    allowed="$from_c|$from_compiler"
    case $module:$object in
    *:*_heap.c.o) continue ;; # the heap making of the allocator hook
    *:*/must.c.o) continue ;; # prints and ends the program
    libbus_wire:*) allowed="$allowed|$from_msgpack" ;;
    esac
    used=$(may_use "$module")
    : >"$work/allowed"
    for other in $used; do
        [ ! -f "$work/$other.defined" ] || cat "$work/$other.defined" >>"$work/allowed"
    done
    nm -u "$object" | awk '{ print $NF }' | grep -vxE "$allowed" | grep -vxFf "$work/allowed" |
        sed "s|^|$module: $(basename "$object" .o) uses |" || :
done <"$work/objects" >"$work/violations"
cat "$work/violations"
[ ! -s "$work/violations" ]

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: headers.sh ROOT CC CXX
# Every header compiles alone; the public ones as C++17 too, in any order with the system headers
# that use the prefix BUS_.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
cc=$2
cxx=$3
status=0
flags="-I. -Ilibbus/include -Wall -Wextra -Wpedantic -Werror -fsyntax-only"

for header in $(sources | grep '\.h$'); do
    case $header in
    libbus/include/*) continue ;;
    libbus/base/* | libbus/wire/* | libbus/session/* | broker/core/*) posix= ;;
    *) posix=-D_GNU_SOURCE ;;
    esac
    # shellcheck disable=SC2086
    printf '#include "%s"\nextern int used;\n' "$header" |
        "$cc" -std=c11 $flags $posix -x c - || { echo "$header does not compile alone"; status=1; }
done

# public LANGUAGE COMPILER HEADER...   (POSIX names are asked for, since they are what could collide)
public() {
    language=$1
    compiler=$2
    shift 2
    # shellcheck disable=SC2086
    printf '#include <%s>\n' "$@" |
        "$compiler" $flags -D_GNU_SOURCE "-std=$language" -x "${language%[0-9][0-9]}" - ||
        { echo "as $language: $*"; status=1; }
}

for header in libbus/include/bus/*.h; do
    header=bus/${header##*/}
    # shellcheck disable=SC2086
    printf '#include <%s>\n' "$header" | "$cc" $flags -std=c11 -x c - ||
        { echo "$header does not compile alone"; status=1; }
    public c11 "$cc" "$header" signal.h linux/input.h
    public c11 "$cc" signal.h linux/input.h "$header"
    public c++17 "$cxx" "$header"
    public c++17 "$cxx" "$header" signal.h linux/input.h
done
exit $status

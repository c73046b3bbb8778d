# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=sh
# files.sh -- sourced by the rules: the tree that is looked at, and how a rule ends.

rules=$(cd "$(dirname "$0")" && pwd)
cd "${1:?usage: $0 ROOT}" || exit # paths are told from the root, and so have no blanks

# The C files of the tree.
sources() {
    find schemas libbus broker clients tests bench -name '*.[ch]' 2>/dev/null | LC_ALL=C sort
}

# A rule that reads nothing finds nothing.
[ -n "$(sources)" ] || { echo "there is no C file in $PWD"; exit 1; }

# some PATTERN: the C files whose paths match; there must be one.
some() {
    sources | grep -E "$1" || { echo "there is no C file as $1" >&2; exit 1; }
}

# over_sources PROGRAM.awk [-v name=value...]: runs it over all C files; it fails if it reported any.
over_sources() {
    program=$1
    shift
    # shellcheck disable=SC2046
    awk "$@" -f "$rules/source.awk" -f "$rules/$program" $(sources)
}

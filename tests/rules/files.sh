# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=sh disable=SC2034
# files.sh -- sourced by the rules: the tree that is looked at, and how a rule ends.

root=${1:?usage: $0 ROOT}
rules=$(cd "$(dirname "$0")" && pwd)

# sources [NAME-PATTERN...]: the C files of the tree.
sources() {
    find "$root"/schemas "$root"/libbus "$root"/broker "$root"/clients "$root"/tests "$root"/bench \
        -name '*.[ch]' 2>/dev/null | LC_ALL=C sort
}

# over_sources PROGRAM.awk [-v name=value...]: runs it over all C files; it fails if it reported any.
over_sources() {
    program=$1
    shift
    # shellcheck disable=SC2046
    set -- "$@" -f "$rules/source.awk" -f "$rules/$program" $(sources)
    awk -v root="$root" "$@"
}

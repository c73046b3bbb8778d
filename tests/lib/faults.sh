# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=sh
# faults.sh -- sourced by the tests that are scripts.  What failed is the last thing that they print, so
# a log that was cut has it.  $work is the folder of the test; $part says which part of it runs, if it
# has parts.

# fault TEXT: an expectation that does not hold. The test goes on.
fault() {
    printf '%s\n' "${part:+$part: }$*" | tee -a "$work/faults" >&2
}

# die TEXT: the same, behind the last lines of the files in $evidence. The test, or its part, ends.
die() {
    # shellcheck disable=SC2086 # several words
    for file in ${evidence-}; do
        [ ! -s "$file" ] || {
            printf -- '---- %s\n' "${file##*/}" >&2
            tail -n 200 "$file" >&2
        }
    done
    fault "$@"
    exit 1
}

# end_with_faults: prints all of them once more, and ends with 1; or does nothing.
end_with_faults() {
    [ -s "$work/faults" ] || return 0
    printf '\n==== what failed in %s\n' "${0##*/}" >&2
    cat "$work/faults" >&2
    exit 1
}

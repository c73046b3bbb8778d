#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: tests/cost/cost.sh PROGRAM EXPECTED COMPILER [--write]
# Counts the instructions of the work in EXPECTED, a row each: name, instructions a value, and words
# for cost.c.  Fails where it costs more than a twentieth above what is written there, or where a row
# that names what lies around it costs a fifth more than the first row of the same work: then the cost
# is not flat; or where an open slot takes more than 128 bytes of the broker's memory.  --write writes
# down what it costs now, for a change that is worth it.
#
# The work "metrics" and "status" is the answer to a question of an operator.  Of it the longest step
# is counted: the broker does nothing else meanwhile.  It has to be done within 2 ms by a processor
# that takes a nanosecond for an instruction, which is a slow one.
#
# Counts are the same on every machine, busy or not, and belong to one compiler: with another one they
# are skipped.

set -eu
program=$1
expected=$2
compiler=$3
is_written=${4:-}
count=2048

version="$("$compiler" -dumpmachine) $("$compiler" -dumpversion)"
wanted=$(sed -n 's/^compiler //p' "$expected")
if [ -z "$is_written" ] && [ "$version" != "$wanted" ]; then
    echo "skipped: counted with '$wanted', and this is '$version'"
    exit 77
fi
if ! command -v valgrind > /dev/null; then
    echo "skipped: valgrind is not installed"
    exit 77
fi

slot_bytes_max=128
step_most=2000000
steps_least=20 # an answer in fewer steps was none to so many topics

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# count_of WORK WORD...: instructions a value.
count_of() {
    work=$1
    shift
    valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$folder/out" \
        "$program" "$work" "$count" "$@" > "$folder/said" 2> "$folder/told" || {
        cat "$folder/said" "$folder/told" >&2
        return 1
    }
    awk -v count="$count" '/^(summary|totals):/ { total = $2 } END { print int(total / count) }' \
        "$folder/out"
}

# longest_of WORK WORD...: instructions of the longest step.
longest_of() {
    work=$1
    shift
    rm -f "$folder"/out*
    valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$folder/out" \
        "$program" "$work" "$steps_least" "$@" > "$folder/said" 2> "$folder/told" || {
        cat "$folder/said" "$folder/told" >&2
        return 1
    }
    awk '/^(summary|totals):/ && $2 > longest { longest = $2 } END { print longest + 0 }' \
        "$folder"/out.*
}

sed '/^[^#]/,$d' "$expected" > "$folder/new"
echo "compiler $version" >> "$folder/new"
printf '%-8s %12s %12s  %s\n' work expected now around
grep -v -e '^#' -e '^compiler' "$expected" > "$folder/rows"
: > "$folder/alone"
while read -r work should around; do
    # shellcheck disable=SC2086 # words for the program
    case $work in
    metrics | status)
        is=$(longest_of "$work" $around < /dev/null)
        if [ "$is" -gt "$step_most" ]; then
            echo "a step of $work costs $is, more than $step_most" >> "$folder/wrong"
        fi
        ;;
    *) is=$(count_of "$work" $around < /dev/null) ;;
    esac
    if [ "$is" -le 0 ]; then
        echo "$work was not counted" >> "$folder/wrong"
    fi
    printf '%-8s %12s %12s  %s\n' "$work" "$should" "$is" "$around"
    echo "$work $is${around:+ }$around" >> "$folder/new"
    alone=$(awk -v work="$work" '$1 == work { print $2 }' "$folder/alone")
    if [ -z "$around" ]; then
        echo "$work $is" >> "$folder/alone"
    elif [ -n "$alone" ] && [ $((is * 5)) -gt $((alone * 6)) ]; then
        echo "$work is not flat: $is with $around, $alone without" >> "$folder/wrong"
    fi
    case $around in slots=*)
        bytes=$(awk -v slots="${around#slots=}" '$1 == "bytes" { print int($2 / slots) }' "$folder/said")
        if [ "${bytes:-0}" -le 0 ]; then
            echo "$program does not say what an open slot takes" >> "$folder/wrong"
            bytes=0
        fi
        echo "an open slot takes $bytes bytes of the broker's memory"
        if [ "$bytes" -gt "$slot_bytes_max" ]; then
            echo "an open slot takes $bytes bytes, more than $slot_bytes_max" >> "$folder/wrong"
        fi
        ;;
    esac
    if [ -z "$is_written" ] && [ $((is * 20)) -gt $((should * 21)) ]; then
        echo "$work costs more than a twentieth above what is written down: $is, $should${around:+ }$around" \
            >> "$folder/wrong"
    fi
done < "$folder/rows"

if [ -n "$is_written" ]; then
    cp "$folder/new" "$expected"
fi
if [ -s "$folder/wrong" ]; then
    cat "$folder/wrong" >&2
    exit 1
fi

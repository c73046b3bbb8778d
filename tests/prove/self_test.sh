#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# self_test.sh -- the short form of prove: that it works, that it notices, and that it says so.
#
#   self_test.sh PROVE      the program
set -eu
prove=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/errbus-prove.XXXXXX")
stopped=
trap '[ -z "$stopped" ] || { kill "$stopped" && wait "$stopped"; } || true; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT PIPE TERM

# shellcheck source=tests/lib/faults.sh
. "$here/../lib/faults.sh"
evidence="$work/*.out"

# A bus that keeps its promises, harmed for some seconds.
"$prove" 6 --watch 6 --soak --seed "${PROVE_SEED-$$}" --results "$work/kept.jsonl" >"$work/kept.out" 2>&1 ||
    die "a promise was not kept"
grep -q 'every promise was kept' "$work/kept.out" || die "it does not say that all is well"
grep -q '"what":"end","ok":true' "$work/kept.jsonl" || die "its result does not"
grep -q '"what":"fault"' "$work/kept.jsonl" || die "nothing was harmed"
grep -q '"what":"end".*"tasks_answered":[1-9]' "$work/kept.jsonl" || die "nobody worked"
grep -q '"slowest_ms":{"p0":[0-9]*,"p1":[0-9]*,"a0":[1-9]' "$work/kept.jsonl" ||
    die "it does not say how long those waited who were not harmed"
"$here/report.sh" "$work/kept.jsonl" >"$work/report.out" 2>&1 || die "there is no report"
grep -q ' slowest p0 .* slowest a0$' "$work/report.out" || die "the report does not, either"
grep -q 'How long each survivor waited' "$work/kept.html" || die "nor does the page"
grep -q 'nothing lost, nothing twice' "$work/report.out" || die "the report does not say so"
grep -q '</table>' "$work/kept.html" || die "there is no page"
plots=$(grep -c '<svg' "$work/kept.html" || true)
none=$(grep -c 'There are no plots' "$work/kept.html" || true)
[ $((plots > 0)) -ne "$none" ] || die "it has $plots plots, and says something else"

# One that lost a value: a line of a reader's diary is struck out.
code=0
"$prove" 1 --watch 5 --no-links --tamper --results "$work/lost.jsonl" >"$work/lost.out" 2>&1 || code=$?
[ "$code" -eq 1 ] || die "a value is missing, and it ended with $code"
# Any other failure of the run would end it with 1, too: what it says must be about this very topic.
topic=$(sed -n "s/^struck out of r0's diary: V \([^ ]*\) .*/\1/p" "$work/lost.out")
[ -n "$topic" ] || die "it does not say which value it struck out"
grep -q "^BROKEN: .*$topic " "$work/lost.out" || die "a value of $topic is missing, and it does not say so"
grep -q '"what":"end","ok":false,"words":"[^"]' "$work/lost.jsonl" || die "nor does its result"
"$here/report.sh" "$work/lost.jsonl" >"$work/report.out" 2>&1 || die "there is no report of it"
grep -q 'BROKEN' "$work/report.out" || die "the report does not say that a value is missing"

# One that is stopped in the middle of it, by its process or by the script that is waited for: all that it
# started ends, nothing stays behind, and it says so.  What it harms may be frozen.
# of_it FOLDER: the processes that have it as TMPDIR. A process that ends meanwhile makes grep fail, so
# what counts is what it prints.
of_it() {
    grep -lsa "TMPDIR=$1" /proc/[0-9]*/environ || true
}
stopped() {
    name=$1
    shift
    mkdir "$work/$name"
    mkfifo "$work/$name.pipe"
    TMPDIR=$work/$name "$@" >"$work/$name.pipe" 2>&1 &
    stopped=$!
    exec 3<"$work/$name.pipe"
    line=
    while [ "${line#* back in }" = "$line" ]; do
        IFS= read -r line <&3 || die "$name: it ended by itself"
        printf '%s\n' "$line" >>"$work/$name.out"
    done
    [ -n "$(of_it "$work/$name")" ] || die "$name: its processes cannot be found"
    kill -TERM "$stopped"
    cat <&3 >>"$work/$name.out" &
    rest=$!
    exec 3<&-
    code=0
    wait "$stopped" || code=$?
    stopped=
    [ "$code" -eq 143 ] || die "$name: it was stopped, and ended with $code"
    [ -z "$(of_it "$work/$name")" ] || die "$name: it was stopped, and left a process"
    wait "$rest" # it has all that was said: nobody is left to say more
    grep -q '^stopped by ' "$work/$name.out" || die "$name: it was stopped, and does not say so"
    [ -z "$(ls -A "$work/$name")" ] || die "$name: it was stopped, and left $(ls -A "$work/$name")"
}
stopped process "$prove" 60 --seed "${PROVE_SEED-$$}"
mkdir -p "$work/build/tests"
ln -s "$prove" "$work/build/tests/prove"
stopped script "$here/run.sh" "$work/build" 60
# What the script waits for heeds ^C all the same, as tests have to that send it.
mkdir -p "$work/heeds/tests"
printf '#!/bin/sh\ngrep SigIgn /proc/self/status\n' >"$work/heeds/tests/prove"
chmod +x "$work/heeds/tests/prove"
"$here/run.sh" "$work/heeds" 1 >"$work/heeds.out" 2>&1 || die "the script fails"
grep -q '^SigIgn:.*[0189]$' "$work/heeds.out" || die "what the script starts ignores ^C"
grep -q 'stopped before its time' "$work/script.out" || die "the report does not say that it was stopped"

cat "$work/kept.out"

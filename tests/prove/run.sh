#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# run.sh -- proves that the bus keeps what it promises, on the machine it is called on.
#
#   run.sh BUILD [SECONDS]           cuts, freezes, kills, delays, corrupts for so long (60)
#   run.sh BUILD soak [SECONDS]      the same but for the broker, for an hour (3600), and judges
#                                    whether its memory, descriptors and latencies stay flat
#   run.sh BUILD long [SECONDS]      all that there is in its long form: every cut, every mutation,
#                                    100,000 seeds, 110 kills of the torture, an hour of soak (3600)
#   run.sh --targets [long]          what has to be built for it
#
# Leaves BUILD/prove.jsonl (soak.jsonl, long.jsonl) and a page of it, and ends with a table.  Exit
# codes: 0 every promise was kept, 1 one was not: it says which.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
targets="errbusd errbusd_failpoints errbus fedavg test_torturer prove prove_asker prove_pulse prove_worker"
if [ "${1-}" = --targets ]; then
    [ "${2-}" = long ] || echo "$targets"
    exit 0
fi
[ $# -ge 1 ] && [ -d "$1" ] || usage
build=$(cd "$1" && pwd)
what=${2-60}
failed=

# step WORDS COMMAND...: what fails is remembered; the others have their turn all the same.
step() {
    words=$1
    shift
    printf '\n== %s\n' "$words"
    code=0
    "$@" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || failed="$failed, $words"
}

case $what in
soak)
    results=$build/soak.jsonl
    rm -f "$results"
    step "a soak" "$build/tests/prove" "${3-3600}" --soak --results "$results"
    ;;
long)
    results=$build/long.jsonl
    rm -f "$results"
    step "every cut of a link" "$build/tests/cut" --results "$results"
    step "the bus, broken on purpose" "$here/../mutation/run.sh" "$here/../.." "$build" \
        --results "$results"
    step "100,000 seeds" env ERRBUS_SIM_FROM=2001 ERRBUS_SIM_SEEDS=100000 \
        "$build/tests/sim_sim" --filter 'sim/keeps_the_promises*'
    step "the torture" env TEST_LONG=1 "$build/tests/system_torture"
    step "all faults" "$build/tests/prove" "${3-3600}" --results "$results.all"
    step "a soak" "$build/tests/prove" "${3-3600}" --soak --results "$results.soak"
    cat "$results.all" "$results.soak" >>"$results"
    rm -f "$results.all" "$results.soak"
    ;;
*)
    case $what in '' | *[!0-9]*) usage ;; esac
    results=$build/prove.jsonl
    rm -f "$results"
    step "all faults" "$build/tests/prove" "$what" --results "$results"
    ;;
esac

printf '\n'
[ ! -s "$results" ] || "$here/report.sh" "$results"
[ -z "$failed" ] || echo "NOT KEPT: ${failed#, }"
[ -z "$failed" ]

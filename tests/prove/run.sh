#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# run.sh -- proves that the bus keeps what it promises, on the machine it is called on.
#
#   run.sh BUILD [SECONDS]           cuts, freezes, kills, delays, corrupts for so long (60)
#   run.sh BUILD soak [SECONDS]      the same but for the broker, for an hour (3600), and judges
#                                    whether its memory, descriptors and latencies stay flat
#   run.sh BUILD long [SECONDS]      all that there is in its long form: every cut, every mutation,
#                                    100,000 seeds, 110 kills of the torture, 370 harms to brokers
#                                    over PostgreSQL, 50 volumes taken away, the system tests at
#                                    length, conversations with a live broker, all fuzz targets for
#                                    a minute each, an hour of all faults, an hour of soak (3600)
#   run.sh --targets [long]          what has to be built for it
#
# Leaves BUILD/prove.jsonl (soak.jsonl, long.jsonl) and a page of it, and ends with a table.  Exit
# codes: 0 every promise was kept, 1 one was not: it says which; 128 + the number of the signal that
# stopped it.  Stopped, it ends what it started, and tells what was seen so far.
#
# Of the long form, ERRBUS_SIM_SEEDS, TORTURE_KILLS, ERRBUS_CONVERSATIONS and ERRBUS_FUZZ_SECONDS (a
# target) say other numbers.
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
stopped=
child=

# stop NUMBER: what is going on is stopped, too, and nothing else begins.
stop() {
    stopped=$1
    [ -z "$child" ] || kill "$child" 2>/dev/null || true
}
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM

# step WORDS COMMAND...: what fails is remembered; the others have their turn all the same.
step() {
    words=$1
    shift
    [ -z "$stopped" ] || return 0
    printf '\n== %s\n' "$words"
    code=0
    began=$(date +%s)
    # Behind, so that the shell hears of a signal in the meantime; it has what is behind ignore ^C,
    # which tests have to do with.
    case $1 in
    fuzz) "$@" & ;;
    *) env --default-signal=INT,QUIT "$@" & ;;
    esac
    child=$!
    wait "$child" || code=$?
    if [ -n "$stopped" ]; then # which ended the wait, and not yet the child
        code=0
        wait "$child" || code=$?
    fi
    child=
    case $code in
    0) end=kept ;;
    77) end='left out' ;; # it said why
    129 | 130 | 143)
        end=stopped
        stopped=$((code - 128))
        ;;
    *)
        end='not kept'
        failed="$failed, $words"
        ;;
    esac
    printf '{"what":"step","name":"%s","end":"%s","seconds":%d}\n' "$words" "$end" \
        $(($(date +%s) - began)) >>"$results"
}

# With clang, which alone has libFuzzer.
fuzz() (
    if ! command -v clang >/dev/null; then
        echo "left out: clang is not installed"
        exit 77
    fi
    cd "$here/../.." &&
        cmake --preset fuzz --log-level=WARNING -DERRBUS_FUZZ_SECONDS="${ERRBUS_FUZZ_SECONDS-60}" &&
        cmake --build --preset fuzz && ctest --preset fuzz
)

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
    seeds=${ERRBUS_SIM_SEEDS-100000}
    step "$seeds seeds" env ERRBUS_SIM_FROM=2001 ERRBUS_SIM_SEEDS="$seeds" \
        "$build/tests/sim_sim" --filter 'sim/keeps_the_promises*'
    step "the torture" env TEST_LONG=1 "$build/tests/system_torture"
    step "PostgreSQL, harmed" env TEST_LONG=1 "$build/tests/system_postgres_harm"
    step "50 volumes, taken away" env ERRBUS_TAKEOVERS=50 "$build/tests/system_takeover"
    step "the system tests, at length" env TEST_LONG=1 ctest --test-dir "$build" -j 2 -L system \
        -E 'torture|broker_memory|postgres_harm' --output-on-failure
    # Longer than a test may take there.
    step "each allocation of the broker failing" env TEST_LONG=1 STATE_DIRECTORY=/dev/null \
        "$build/tests/system_broker_memory"
    step "conversations with a live broker" "$build/tests/fuzz_live" \
        "${ERRBUS_CONVERSATIONS-5000}" 1000
    step "fuzzing" fuzz
    step "all faults" "$build/tests/prove" "${3-3600}" --results "$results.all"
    step "a soak" "$build/tests/prove" "${3-3600}" --soak --results "$results.soak"
    for part in "$results.all" "$results.soak"; do # none if it was stopped before
        [ ! -e "$part" ] || cat "$part" >>"$results"
        rm -f "$part"
    done
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
[ -z "$failed" ] || exit 1
[ -z "$stopped" ] || exit $((128 + stopped))

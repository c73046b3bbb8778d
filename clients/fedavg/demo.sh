#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
#
# usage: demo.sh BUILD_DIR
# A broker, a tap, an aggregator and four silos that learn together; one silo is killed with kill -9
# in the middle of a round. Each line says who printed it. Exits with 0 if the job ended well without
# the dead one.

set -eu
build=${1:?usage: $0 BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
silos=4
killed=2
killed_at=4

work=$(mktemp -d)
pids=()
started=0

die() {
    echo "demo: $*" >&2
    exit 1
}

# has_ended PID: nothing of ours is left of it but perhaps its exit status.
has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

# end_process PID: asks it to end, and ends it if it has not done so in five seconds.
end_process() {
    kill -TERM "$1" 2>/dev/null || return 0
    for _ in $(seq 50); do
        has_ended "$1" && return 0
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
}

end_all() {
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        end_process "${pids[i]}"
        wait "${pids[i]}" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap end_all EXIT

# start NAME COMMAND...: in the background, its lines with its name before them, and in $work/NAME.
# Its process id is in $started.
start() {
    local name=$1
    shift
    "$@" > >(tee "$work/$name" | sed -u "s/^/$(printf '%-10s' "$name") | /") 2>&1 &
    started=$!
    pids+=("$started")
}

# wait_for WHAT SECONDS COMMAND...: until it succeeds.
wait_for() {
    local what=$1 tenths=$(($2 * 10))
    shift 2
    until "$@"; do
        ((tenths-- > 0)) || die "$what did not come"
        sleep 0.1
    done
}

endpoint_of() {
    sed -n 's/^errbusd ready control=\([^ ]*\) data=.*$/\1/p' "$work/errbusd" 2>/dev/null
}

is_ready() {
    [ -n "$(endpoint_of)" ]
}

# has_told COUNT EVENT: the tap has shown so many of it.
has_told() {
    [ "$(grep -c " $2 " "$work/tap")" -ge "$1" ]
}

for program in broker/errbusd clients/errbus clients/fedavg; do
    [ -x "$build/$program" ] || die "$build/$program is not there; build it first"
done
unset ERRBUS_JOB ERRBUS_PARTY

start errbusd "$build/broker/errbusd" --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*'
wait_for "the broker" 10 is_ready
ERRBUS_SERVER=$(endpoint_of)
export ERRBUS_SERVER

start tap "$build/clients/errbus" tap --from oldest
data=$here/breast_cancer.csv
silo_names=()
silo_pids=()
for ((k = 1; k <= silos; k++)); do
    options=(--shard "$k/$silos" --data "$data")
    ((k != killed)) || options+=(--fail-at "$killed_at" --fail-how kill)
    start "silo-$k" "$build/clients/fedavg" silo "${options[@]}"
    silo_names+=("silo-$k")
    silo_pids+=("$started")
done
start aggregator "$build/clients/fedavg" aggregator --data "$data" --min $((silos - 1)) \
    "${silo_names[@]}"
aggregator=$started

wait "$aggregator" 2>/dev/null || die "the aggregator ended with $?"
for ((k = 1; k <= silos; k++)); do
    status=0
    wait "${silo_pids[k - 1]}" 2>/dev/null || status=$?
    expected=$((k == killed ? 137 : 0))
    [ "$status" -eq "$expected" ] || die "silo-$k ended with $status instead of $expected"
done
wait_for "the tap's word of the loss" 5 has_told 1 party.lost
wait_for "the tap's word of the end" 5 has_told "$silos" party.completed
grep -q "^round $killed_at lacks silo-$killed: party_lost" "$work/aggregator" ||
    die "the aggregator has not said whom round $killed_at lacked"

end_all
trap - EXIT
echo "demo: silo-$killed was killed in round $killed_at; the job ended well without it"

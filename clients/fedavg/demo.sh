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
pipes=()
started=0

die() {
    echo "demo: $*" >&2
    exit 1
}

# end_process PID PIPE: asks it to end, and ends it if it has not done so in five seconds.
end_process() {
    local status=0
    kill -TERM "$1" 2>/dev/null || return 0
    read -r -t 5 -u "$2" || status=$?
    ((status <= 128)) || kill -KILL "$1" # 1: it has ended; above 128: the time is over
    wait "$1" 2>/dev/null || true
}

end_all() {
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        end_process "${pids[i]}" "${pipes[i]}"
    done
    rm -rf "$work"
}
trap end_all EXIT

# start NAME COMMAND...: in the background, its lines with its name before them, and in $work/NAME.
# Its process id is in $started. It alone can write to a pipe of its own, so that it ends with it.
start() {
    local name=$1 open pipe
    shift
    : >"$work/$name"
    mkfifo "$work/$name.pipe"
    exec {open}<>"$work/$name.pipe" {pipe}<"$work/$name.pipe"
    "$@" > >(tee -a "$work/$name" | sed -u "s/^/$(printf '%-10s' "$name") | /") 2>&1 &
    started=$!
    exec {open}>&-
    pids+=("$started")
    pipes+=("$pipe")
}

# wait_for WHAT SECONDS COUNT PATTERN NAME: until NAME has printed so many lines that match, which
# are then in $lines.
wait_for() {
    lines=$(timeout "$2" tail -n +1 -f "$work/$5" | grep -E -m "$3" "$4") || die "$1 did not come"
    [ "$(wc -l <<<"$lines")" -eq "$3" ] || die "$1 did not come $3 times"
}

for program in broker/errbusd clients/errbus clients/fedavg; do
    [ -x "$build/$program" ] || die "$build/$program is not there; build it first"
done
unset ERRBUS_JOB ERRBUS_PARTY

start errbusd "$build/broker/errbusd" --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' \
    --journal "$work/journal"
wait_for "the broker" 10 1 '^errbusd ready control=[^ ]* data=' errbusd
ERRBUS_SERVER=${lines#*control=}
ERRBUS_SERVER=${ERRBUS_SERVER%% *}
export ERRBUS_SERVER

start tap "$build/clients/errbus" tap --text --from oldest
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
wait_for "the tap's word of the loss" 5 1 ' party\.lost ' tap
wait_for "the tap's word of the end" 5 "$silos" ' party\.completed ' tap
wait_for "whom round $killed_at lacked" 5 1 "^round $killed_at lacks silo-$killed: party_lost" \
    aggregator

end_all
trap - EXIT
echo "demo: silo-$killed was killed in round $killed_at; the job ended well without it"

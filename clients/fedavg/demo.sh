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

title=demo
# shellcheck source=clients/fedavg/stage.sh
. "$here/stage.sh"

for program in broker/errbusd clients/errbus clients/fedavg; do
    [ -x "$build/$program" ] || die "$build/$program is not there; build it first"
done
unset ERRBUS_JOB ERRBUS_PARTY

start errbusd "$build/broker/errbusd" --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' \
    --journal "$work/journal"
wait_for "the broker" 30 1 '^errbusd ready control=[^ ]* data=' errbusd
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
wait_for "the tap's word of the loss" 30 1 ' party\.lost ' tap
wait_for "the tap's word of the end" 30 "$silos" ' party\.completed ' tap
wait_for "whom round $killed_at lacked" 30 1 "^round $killed_at lacks silo-$killed: party_lost" \
    aggregator

end_all
trap - EXIT
echo "demo: silo-$killed was killed in round $killed_at; the job ended well without it"

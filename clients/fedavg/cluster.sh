#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
#
# usage: cluster.sh BUILD_DIR
# Three PostgreSQL servers, of which one takes writes and one of the others must confirm each commit;
# three brokers, of which two are spares; an aggregator and three silos that learn together. In the
# middle of the job the broker is killed with kill -9, and then the server that takes writes. The
# standby that has most is promoted. Exits with 0 if the job ended well, and says how long it waited.

set -eu
build=$(cd "${1:?usage: $0 BUILD_DIR}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
nodes=3
silos=3
rounds=24
broker_killed_at=5
server_killed_at=14
# So many that a round takes some time, and the job is still at work when all has happened.
steps=${ERRBUS_CLUSTER_STEPS:-20000}
patience_s=60

title=cluster
# shellcheck source=clients/fedavg/stage.sh
. "$here/stage.sh"

for program in broker/errbusd clients/fedavg; do
    [ -x "$build/$program" ] || die "$build/$program is not there; build it first"
done
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
[ -x "$postgres/postgres" ] || die "there is no PostgreSQL: install the package postgresql-15"
"$build/broker/errbusd" --explain-store 'host=/dev/null' 2>&1 | grep -q 'without libpq' &&
    die "errbusd was built without libpq: install the package libpq-dev, and build again"
unset ERRBUS_JOB ERRBUS_PARTY "${!PG@}"

# ---- the servers ---------------------------------------------------------------------------------

# The server refuses root, so there it runs as the user nobody.
as_user=()
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
chmod 0755 "$work"
mkdir "$work/store"
chmod 0777 "$work/store"
cd "$work/store"
hosts=
names=
for ((k = 1; k <= nodes; k++)); do
    mkdir "$work/store/socket-$k"
    chmod 0777 "$work/store/socket-$k"
    hosts=$hosts${hosts:+,}$work/store/socket-$k
    names=$names${names:+,}server_$k
done
conninfo="host=$hosts user=postgres dbname=postgres target_session_attrs=read-write"

# ask K SQL: what server K answers.
ask() {
    "$postgres/psql" -XqAt -h "$work/store/socket-$1" -U postgres -c "$2" 2>/dev/null
}

# until_says K SQL ANSWER
until_says() {
    local end=$((SECONDS + patience_s))
    until [ "$(ask "$1" "$2")" = "$3" ]; do
        ((SECONDS < end)) || die "server-$1 does not answer '$3' to: $2"
        sleep 0.1
    done
}

# serve K: starts server K; its process id is in ${servers[K]}.
serve() {
    start "server-$1" "${as_user[@]}" "$postgres/postgres" -D "$work/store/data-$1" \
        -c listen_addresses= -c "unix_socket_directories=$work/store/socket-$1" \
        -c "cluster_name=server_$1" -c "primary_conninfo=$conninfo" \
        -c "synchronous_standby_names=ANY 1 ($names)" -c log_min_messages=panic \
        -c wal_retrieve_retry_interval=200ms -c wal_keep_size=512MB -c shared_buffers=16MB \
        -c max_connections=30 -c dynamic_shared_memory_type=mmap
    servers[$1]=$started
    until_says "$1" 'SELECT 1' 1
}

echo "cluster: $nodes servers, in $work/store"
servers=()
"${as_user[@]}" "$postgres/initdb" -D "$work/store/data-1" -A trust -U postgres >"$work/initdb" ||
    die "initdb failed"
serve 1
for ((k = 2; k <= nodes; k++)); do
    "${as_user[@]}" "$postgres/pg_basebackup" -d "$conninfo" -D "$work/store/data-$k" -R -c fast ||
        die "server-$k cannot be made"
    serve "$k"
done
until_says 1 "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'" $((nodes - 1))
"$build/broker/errbusd" --explain-store "$conninfo" || die "a broker would refuse this store"

# ---- the brokers, and the job --------------------------------------------------------------------

cd "$work"
brokers=()
ERRBUS_SERVER=
# broker K: starts broker K; its process id is in ${brokers[K]}.
broker() {
    start "errbusd-$1" "$build/broker/errbusd" --control "ipc://$work/control-$1" \
        --data "ipc://$work/data-$1" --cache "$work/cache-$1" --journal "postgres:$conninfo"
    brokers[$1]=$started
    ERRBUS_SERVER=$ERRBUS_SERVER${ERRBUS_SERVER:+,}ipc://$work/control-$1
}

broker 1
wait_for "the broker" 30 1 '^errbusd ready ' errbusd-1
for ((k = 2; k <= nodes; k++)); do
    broker "$k"
    wait_for "a spare" 30 1 'another broker has the shard' "errbusd-$k"
done
export ERRBUS_SERVER
data=$here/breast_cancer.csv
silo_names=()
silo_pids=()
for ((k = 1; k <= silos; k++)); do
    start "silo-$k" "$build/clients/fedavg" silo --shard "$k/$silos" --data "$data" \
        --steps "$steps" --deadline "$patience_s"
    silo_names+=("silo-$k")
    silo_pids+=("$started")
done
start aggregator "$build/clients/fedavg" aggregator --data "$data" --rounds "$rounds" \
    "${silo_names[@]}"
aggregator=$started

# ---- the harms -----------------------------------------------------------------------------------

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# rounds_until N: until the aggregator has printed N rounds.
rounds_until() {
    wait_for "round $1" "$patience_s" "$1" '^round [0-9]+:' aggregator
}

# rounds_shown: how many rounds it has printed.
rounds_shown() {
    grep -c -E '^round [0-9]+:' "$work/aggregator" || true
}

rounds_until "$broker_killed_at"
echo "cluster: kill -9 of the broker"
from_ms=$(now_ms)
kill -KILL "${brokers[1]}"
wait "${brokers[1]}" 2>/dev/null || true # and the shell says nothing of it
rounds_until $(($(rounds_shown) + 2)) # one may have been on its way
broker_ms=$(($(now_ms) - from_ms))
holder=
for ((k = 2; k <= nodes; k++)); do
    ! grep -q '^errbusd ready ' "$work/errbusd-$k" || holder=$k
done
[ -n "$holder" ] || die "no spare took over"

# received K: how many bytes of the log server K has; the one with most is promoted.
received() {
    ask "$1" "SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()),
        '0/0')" || echo 0
}

rounds_until "$server_killed_at"
echo "cluster: kill -9 of the server that takes writes"
from_ms=$(now_ms)
kill -KILL "${servers[1]}"
wait "${servers[1]}" 2>/dev/null || true
# Its segment of System V would stay behind; line 7 of its lock file ends with the number of that.
ipcrm -m "$(sed -n '7s/.* //p' "$work/store/data-1/postmaster.pid")"
# One that still writes what had come would get ahead of the one that is promoted.
for ((k = 2; k <= nodes; k++)); do
    until_says "$k" 'SELECT count(*) FROM pg_stat_wal_receiver' 0
done
foremost=2
for ((k = 3; k <= nodes; k++)); do
    (($(received "$k") <= $(received "$foremost"))) || foremost=$k
done
echo "cluster: server-$foremost has most, and is promoted"
[ "$(ask "$foremost" 'SELECT pg_promote()')" = t ] || die "server-$foremost was not promoted"
rounds_until $(($(rounds_shown) + 2))
server_ms=$(($(now_ms) - from_ms))

wait "$aggregator" 2>/dev/null || die "the aggregator ended with $?"
for ((k = 1; k <= silos; k++)); do
    wait "${silo_pids[k - 1]}" 2>/dev/null || die "silo-$k ended with $?"
done
rounds_until "$rounds"
[ "$(rounds_shown)" -eq "$rounds" ] || die "the aggregator printed $(rounds_shown) rounds"
! grep -E '^round [0-9]+ lacks ' "$work/aggregator" || die "a round lacks a silo"

end_all
trap - EXIT
echo "cluster: two rounds took $broker_ms ms when the broker was killed, errbusd-$holder went on"
echo "cluster: two rounds took $server_ms ms when the server was killed, server-$foremost went on"
echo "cluster: the job ended well; nothing was lost"

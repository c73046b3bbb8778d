#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: two_hosts.sh SOURCE BUILD CMAKE
# README.md takes at most four commands from nothing to a value between two hosts with keys. They are run
# as they stand there, each on the host that its prompt names: two hosts in network namespaces, which a
# cable joins. Only what the commands print is filled in. 77: this machine has no such namespaces.
set -eu
source=$1
build=$2
cmake=$3
limit=90 # seconds, for all of it

if [ -z "${TWO_HOSTS_INSIDE:-}" ]; then
    for tool in ip unshare nsenter; do
        command -v "$tool" >/dev/null || { echo "two_hosts: skipped: there is no $tool"; exit 77; }
    done
    unshare -rn sh -c 'ip link add name cable0 type veth peer name cable1' 2>/dev/null ||
        { echo "two_hosts: skipped: network namespaces cannot be made here"; exit 77; }
    # Whatever was started ends with the first process of its namespace.
    TWO_HOSTS_INSIDE=1 exec timeout "$limit" unshare -rn --pid --fork --mount-proc --kill-child \
        bash "$0" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
    echo "two_hosts: $*" >&2
    tail -n 20 "$work"/*.log >&2 || true
    exit 1
}

# ---- two hosts --------------------------------------------------------------------------------------
unshare -n sleep "$limit" &
other=$!
until [ "$(readlink "/proc/$other/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add name cable0 type veth peer name cable1
ip link set cable1 netns "$other"
ip address add 10.0.0.1/24 dev cable0
ip link set cable0 up
ip link set lo up
nsenter -t "$other" -n ip address add 10.0.0.2/24 dev cable1
nsenter -t "$other" -n ip link set cable1 up
nsenter -t "$other" -n ip link set lo up

# ---- the commands -----------------------------------------------------------------------------------
unset STATE_DIRECTORY XDG_STATE_HOME XDG_CONFIG_HOME ERRBUS_SERVER ERRBUS_KEY ERRBUS_JOB ERRBUS_PARTY
"$cmake" --install "$build" --prefix "$work/usr" >"$work/install.log" 2>&1 || die "cannot install"
export PATH="$work/usr/bin:$PATH"
mkdir "$work/alice" "$work/broker"
awk '/^ *```sh/ { inside = 1; next } /^ *```/ { inside = 0 } inside && /^ *(alice|broker)\$ /' \
    "$source/README.md" >"$work/commands"
count=$(wc -l <"$work/commands")
[ "$count" -ge 3 ] && [ "$count" -le 4 ] || die "README.md has $count commands for two hosts"

# on HOST COMMAND: as a user of that host does.
on() {
    cd "$work/$1"
    if [ "$1" = broker ]; then
        HOME="$work/$1" nsenter -t "$other" -n bash -c "$2"
    else
        HOME="$work/$1" bash -c "$2"
    fi
}

key=
server=
while read -r host command; do
    host=${host%\$}
    command=${command%%  #*}
    case $command in
    errbusd*)
        on "$host" "exec $command" >"$work/ready.log" 2>"$work/errbusd.log" &
        until server=$(sed -n 's/^errbusd ready control=tcp:\/\/\(ebp_[a-z2-7]*\)@.*/\1/p' "$work/ready.log") &&
            [ -n "$server" ]; do
            kill -0 $! 2>/dev/null || die "the broker ended"
            sleep 0.1
        done ;;
    'errbus key new'*)
        key=$(on "$host" "$command" 2>"$work/key.log") || die "no key was made" ;;
    *)
        command=${command//ebp_...@HOST/$server@10.0.0.2}
        command=${command//ebp_.../$key}
        on "$host" "$command" >"$work/said.log" 2>"$work/complained.log" || die "this failed: $command" ;;
    esac
done <"$work/commands"
[ -n "$key" ] && [ -n "$server" ] || die "README.md makes no keys"

# ---- what came of it --------------------------------------------------------------------------------
value=$(on alice "ERRBUS_SERVER=tcp://$server@10.0.0.2:7370 errbus sub -p alice -C 1 -W 20 alice/grads" \
    2>"$work/sub.log") || die "the value cannot be read"
[ "$value" = 0.1 ] || die "the value is '$value'"
! on alice "ERRBUS_SERVER=tcp://10.0.0.2:7370 errbus status -W 20" >"$work/said.log" 2>"$work/open.log" ||
    die "the broker lets somebody in without a key"
grep -q "asks for a key" "$work/open.log" || die "a client without a key is not told so"
echo "a value went between two hosts by the $count commands of README.md"

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: statefulset.sh SOURCE BUILD
# The StatefulSet for Kubernetes: its broker starts with a secret as Kubernetes shows it, and its probes
# pass where the name that it advertises leads nowhere, as the service does until the pod is ready.
# Ports and folders are those of the test.  It is done as this user.  As root, it is done once more as
# a pod whose fsGroup has the secret.
set -eu
source=$1
build=$2
file=$source/broker/service/statefulset.yaml
errbus=$build/clients/errbus
work=$(mktemp -d)
broker=
end() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
unset ERRBUS_SERVER ERRBUS_KEY

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/ready $work/errors $work/log"

# as_pod COMMAND: as a process of the pod.  group: its fsGroup; empty: it is of this user.
as_pod() {
    if [ -n "$group" ]; then
        exec setpriv --reuid="$group" --regid="$group" --clear-groups "$@"
    fi
    exec "$@"
}

# ---- the volumes --------------------------------------------------------------------------------
# A secret is a folder that ..data leads to, and a link to each file of it.  fsGroup gives the group
# what the owner may.
make_volumes() {
    rm -rf "$work/secret" "$work/data"
    secret=$work/secret/..2026_11_29
    mkdir -p "$secret" "$work/data"
    ln -s ..2026_11_29 "$work/secret/..data"
    "$errbus" key new -f "$secret/broker.key" >"$work/broker_key" 2>"$work/log" || die "no key"
    "$errbus" key new -f "$secret/probe.key" >"$work/probe_key" 2>"$work/log" || die "no key"
    printf 'key probe %s\nallow probe status in *\n' "$(cat "$work/probe_key")" >"$secret/access"
    for name in access broker.key probe.key; do
        ln -s "..data/$name" "$work/secret/$name"
        chmod "$(sed -n 's/.*defaultMode: //p' "$file")" "$secret/$name"
    done
    [ -n "$group" ] || return 0
    chgrp -R "$group" "$work/secret" "$work/data"
    chmod g+r "$secret"/*
    chmod 2770 "$work/data"
}

# ---- the broker ---------------------------------------------------------------------------------
# The words of the command, with the ports and folders of the test, one a line.
sed -n '/^          command:$/,/^          ports:$/s/^            - \(-.*\)/\1/p' "$file" |
    sed -e 's|tcp://\*:[0-9]*|tcp://127.0.0.1:*|' -e "s|/etc/errbus-secret|$work/secret|" \
        -e "s|/data/|$work/data/|" >"$work/options"
[ "$(wc -l <"$work/options")" -ge 7 ] || die "the command has too few options"

start_broker() {
    set --
    while read -r option; do
        set -- "$@" "$option"
    done <"$work/options"
    : >"$work/ready" # nothing of the broker before
    (as_pod "$build/broker/errbusd" "$@") >"$work/ready" 2>"$work/errors" &
    broker=$!
    tries=0
    until grep -q '^errbusd ready' "$work/ready"; do
        kill -0 "$broker" 2>/dev/null || die "the broker does not start"
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || die "the broker is not ready"
        sleep 0.1
    done
    control=$(sed -n 's/.* control=[^ ]*:\([0-9]*\) .*/\1/p' "$work/ready")
    data=$(sed -n 's/.* data=[^ ]*:\([0-9]*\)$/\1/p' "$work/ready")
    [ -n "$control" ] && [ -n "$data" ] || die "it does not say its ports"
}

# ---- the probes ---------------------------------------------------------------------------------
sed -n 's/^ *command: \[errbus, \(.*\)\]$/\1/p' "$file" | tr -d , |
    sed "s|/etc/errbus-secret|$work/secret|" >"$work/probes"
[ "$(wc -l <"$work/probes")" = 3 ] || die "there are not three probes"

probe() {
    ERRBUS_SERVER=$(sed -n 's/^ *value: \(tcp:.*\)/\1/p' "$file" |
        sed -e "s|BROKER_KEY|$(cat "$work/broker_key")|" -e "s|:7370|:$control|" -e "s|=7371|=$data|")
    export ERRBUS_SERVER
    while read -r words; do
        # shellcheck disable=SC2086 # several words
        (as_pod "$errbus" $words) >"$work/log" 2>&1 </dev/null || die "this fails: errbus $words"
    done <"$work/probes"
    unset ERRBUS_SERVER
}

# pod GROUP: all of it.
pod() {
    group=$1
    part=${group:+fsGroup $group}
    make_volumes
    start_broker
    probe
    kill "$broker"
    wait "$broker" || die "the broker ends with $?"
    broker=
}

chmod 755 "$work"
pod ''
if [ "$(id -u)" = 0 ] && setpriv --reuid=7370 --regid=7370 --clear-groups "$errbus" -h >"$work/log" 2>&1; then
    pod 7370
    echo "broker and probes of the StatefulSet, as root and as a user with fsGroup"
else
    echo "broker and probes of the StatefulSet, as this user; nobody else can be had here"
fi

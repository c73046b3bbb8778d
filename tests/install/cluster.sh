#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: cluster.sh SOURCE BUILD
# The demonstration of ./quickstart cluster: the broker is killed, then the server that takes writes,
# and the job ends well without a round that lacks anybody. It tells how long the job waited.
set -eu
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/out"

# skip TEXT: not where .ci/run asks for the database.
skip() {
    case " ${ERRBUS_REQUIRE-} " in
    *" postgresql "*) die "$1, for ERRBUS_REQUIRE asks for it" ;;
    esac
    echo "skipped: $1"
    exit 77
}

printf '%s\n' /usr/lib/postgresql/*/bin/postgres | grep -q -v '\*' ||
    skip "there is no PostgreSQL: install the package postgresql-15"
! "$build/broker/errbusd" --explain-store host=/dev/null 2>&1 | grep -q 'without libpq' ||
    skip "errbusd was built without libpq: install the package libpq-dev"
# What else is set for the programs of a user is not meant for these.
unset STATE_DIRECTORY
# In a namespace of its own, where that is allowed, the segments that are left are those it left.
alone=
! unshare --ipc true 2>/dev/null || alone="unshare --ipc"
# shellcheck disable=SC2016,SC2086 # for the shell that is started; two words, or none
$alone bash -c '"$1" "$2" && tail -n +2 /proc/sysvipc/shm >"$3"' - \
    "$source/clients/fedavg/cluster.sh" "$build" "$work/segments" >"$work/out" 2>&1 ||
    die "it ended with $?"
[ -z "$alone" ] || [ ! -s "$work/segments" ] || die "it left segments of shared memory"
for harmed in broker server; do
    grep -q -E "^cluster: two rounds took [0-9]+ ms when the $harmed was killed, .* went on$" \
        "$work/out" || die "it does not say what was waited for the $harmed"
done
tail -n 1 "$work/out" | grep -q 'the job ended well; nothing was lost$' || die "it says no good end"
[ "$(grep -c '^aggregator | round [0-9]*: 3 of 3 silos' "$work/out")" -eq 24 ] ||
    die "not all rounds had all silos"
echo "seen: a broker and a primary killed, and all rounds whole"

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: bench/run.sh BUILD_DIR [--quick] [--runs N] [QUESTION...]
# Asks the questions (throughput, latency, raise, kill; all of them where none is named), prints one
# table, and writes what was measured as JSON lines to bench/results/, by machine and commit.

set -eu
build=${1:?usage: $0 BUILD_DIR [--quick] [--runs N] [QUESTION...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$build" && pwd)

flags=
questions=
is_quick=
while [ $# -gt 0 ]; do
    case $1 in
    --quick)
        flags="$flags --quick"
        is_quick=yes
        ;;
    --runs)
        flags="$flags --runs ${2:?--runs takes a number}"
        shift
        ;;
    *)
        [ -x "$build/bench/$1_bench" ] || {
            echo "bench: there is no question '$1' in $build/bench" >&2
            exit 2
        }
        questions="$questions $1"
        ;;
    esac
    shift
done
[ -n "$questions" ] || questions="throughput latency raise kill journal"

BENCH_COMMIT=$(git -C "$here" describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
export BENCH_COMMIT
unset ERRBUS_SERVER ERRBUS_JOB ERRBUS_PARTY
mkdir -p "$here/results"
file=$here/results/$(uname -n)-$BENCH_COMMIT.jsonl
[ -z "$is_quick" ] || file=$(mktemp)

printf '%-11s %-30s %-18s %9s %-5s %s\n' question what system median unit 'to the peer'
for question in $questions; do
    # shellcheck disable=SC2086
    "$build/bench/${question}_bench" --json "$file" $flags
done
if [ -n "$is_quick" ]; then
    rm -f "$file"
else
    echo "written to bench/results/${file##*/}"
fi

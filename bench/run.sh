#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: bench/run.sh BUILD_DIR [--quick] [--long] [--curve] [--runs N] [--systems NAME,NAME...]
#                     [--only BEGINNING,BEGINNING...] [QUESTION...]
# Asks the questions (throughput, latency, beside, raise, kill, failures, tasks, journal; all of them
# where none is named; disk, link, round, scrape, seal, shared, store and why only where they are
# named).
# Prints one table and one of ratios.  Writes what was measured to bench/results/, by machine and
# commit: lines of JSON, and a page with plots.
# --curve: throughput, latency, beside and raise also measure Errbus with keys, all encrypted.
# --systems: these of those that throughput, latency and beside measure ("errbus,relay,nats socket").
# --only: the points of link and round whose names begin so ("25 ms 10M,100 ms").

set -eu
build=${1:?usage: $0 BUILD_DIR [--quick] [--long] [--curve] [--runs N] [--systems NAME,...] [--only BEGINNING,...] [QUESTION...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$build" && pwd)

flags=
systems=
only=
questions=
is_quick=
while [ $# -gt 0 ]; do
    case $1 in
    --quick)
        flags="$flags --quick"
        is_quick=yes
        ;;
    --long) flags="$flags --long" ;;
    --curve) flags="$flags --curve" ;;
    --systems)
        systems=${2:?--systems takes names with commas between}
        shift
        ;;
    --only)
        only=${2:?--only takes beginnings of names with commas between}
        shift
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
[ -n "$questions" ] || questions="throughput latency beside raise kill failures tasks journal"

BENCH_COMMIT=$(git -C "$here" describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
export BENCH_COMMIT
unset ERRBUS_SERVER ERRBUS_JOB ERRBUS_PARTY
mkdir -p "$here/results"
file=$here/results/$(uname -n)-$BENCH_COMMIT.jsonl
if [ -n "$is_quick" ]; then
    file=$build/bench/quick.jsonl
    rm -f "$file"
fi

# Whatever the servers leave goes, also when we are interrupted.
TMPDIR=$(mktemp -d)
chmod 711 "$TMPDIR" # started by root, PostgreSQL runs as another user
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

printf '%-11s %-30s %-18s %9s %-5s %9s %9s %s\n' question what system median unit '1/4' '3/4' 'errbus to it'
for question in $questions; do
    # shellcheck disable=SC2086
    "$build/bench/${question}_bench" --json "$file" $flags ${systems:+--systems "$systems"} \
        ${only:+--only "$only"}
done
echo
"$here/report.sh" "$file"

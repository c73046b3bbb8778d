#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: tests/bench/question.sh SOURCE_DIR QUESTION PROGRAM [SYSTEMS]
# A question about Errbus alone, quickly asked: the program sees for itself whether what it waits for
# comes.  It tells each figure that targets.table asks it for; with SYSTEMS, but for those that are
# set beside nats.

set -eu
source_dir=$1
question=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$3" --quick --json "$folder/lines" ${4:+--systems "$4"}
[ -s "$folder/lines" ] || {
    echo "$question: nothing was measured" >&2
    exit 1
}
# Nobody set a target for these questions.  For any other one no row is a fault.
case $question in failures | seal) exit 0 ;; esac
grep "| $question;" "$source_dir/bench/targets.table" >"$folder/all" || {
    echo "$question: targets.table asks it for nothing" >&2
    exit 1
}
# Without errbus web nobody looks; the program says so.
[ -x "$(dirname "$3")/../clients/errbus-web" ] || sed -i '/| scrape; /d' "$folder/all"
[ -s "$folder/all" ] || exit 0
if [ -n "${4:-}" ]; then
    sed -i '/to nats/d' "$folder/all"
fi
awk -v table=1 -v targets="$folder/all" -f "$source_dir/tests/lib/json.awk" \
    -f "$source_dir/bench/report.awk" "$folder/lines" >"$folder/table"
[ -s "$folder/table" ] || {
    echo "report.awk makes no table of it" >&2
    exit 1
}
if grep 'not measured' "$folder/table" >&2; then
    exit 1
fi

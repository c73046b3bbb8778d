#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: tests/bench/question.sh SOURCE_DIR QUESTION PROGRAM
# A question about Errbus alone, quickly asked: the program sees for itself whether what it waits for
# comes.  It tells each figure that targets.table asks it for.

set -eu
source_dir=$1
question=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$3" --quick --json "$folder/lines"
grep "| $question;" "$source_dir/bench/targets.table" >"$folder/targets" || exit 0
awk -v table=1 -v targets="$folder/targets" -f "$source_dir/tests/lib/json.awk" \
    -f "$source_dir/bench/report.awk" "$folder/lines" >"$folder/table"
if grep 'not measured' "$folder/table" >&2; then
    exit 1
fi

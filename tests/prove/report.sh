#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# report.sh -- what a run found, for people.
#
#   report.sh FILE.jsonl
#
# Prints the table, and writes FILE.html beside it: the table again, and plots by gnuplot (left out
# where there is none).  Takes the results of tests/prove, tests/cut and tests/mutation, together or
# apart.
set -eu
[ $# -eq 1 ] && [ -f "$1" ] || {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
file=$1
here=$(cd "$(dirname "$0")" && pwd)
page=${file%.jsonl}.html
folder=$(mktemp -d "${TMPDIR:-/tmp}/errbus-report.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT PIPE TERM

# dots NAME ROWS LABEL: a dot for each time, by kind.
dots() {
    lines=$(wc -l <"$folder/$2")
    [ "$lines" -gt 0 ] && [ -s "$folder/$1" ] || return 0
    gnuplot <<END
set terminal svg size 900,$((110 + 24 * lines)) background rgb 'white'
set output '$folder/$1.svg'
set datafile separator "\t"
set xlabel '$3'
set xrange [0:*]
set yrange [$lines+0.6:0.4]
set grid xtics
set lmargin 34
unset key
set ytics ($(awk -F '\t' '{printf "%s\"%s\" %d", (NR > 1 ? ", " : ""), $2, $1}' "$folder/$2"))
plot '$folder/$1' using 1:2 with points pt 7 ps 0.5 lc rgb '#2060a0'
END
}

least() {
    lines=$(wc -l <"$folder/least")
    [ "$lines" -gt 0 ] || return 0
    gnuplot <<END
set terminal svg size 900,$((110 + 24 * lines)) background rgb 'white'
set output '$folder/least.svg'
set datafile separator "\t"
set xlabel 'percent of the frames before: the middle one, and the worst'
set xrange [0:*]
set yrange [$lines-0.4:-0.6]
set grid xtics
set lmargin 34
set key outside top
plot '$folder/least' using 2:0:ytic(1) with points pt 7 ps 0.6 lc rgb '#2060a0' title 'middle', \
    '' using 3:0 with points pt 6 ps 0.6 lc rgb '#b00000' title 'worst'
END
}

# seconds NAME COLUMN LABEL
seconds() {
    [ -s "$folder/seconds" ] || return 0
    gnuplot <<END
set terminal svg size 900,280 background rgb 'white'
set output '$folder/$1.svg'
set datafile separator "\t"
set datafile missing '-'
set xlabel 'seconds'
set ylabel '$3'
set yrange [0:*]
set grid
set key outside top
plot '$folder/faults' using 1:2 with points pt 9 ps 0.6 lc rgb '#b00000' title 'faults', \
    '$folder/seconds' using 1:$2 with lines lc rgb '#2060a0' title '$3'
END
}

awk -v mode=data -v folder="$folder" -f "$here/../lib/json.awk" -f "$here/report.awk" "$file"
if command -v gnuplot >/dev/null; then
    dots detected rows 'ms from the fault until the broker told of it'
    dots waited rows 'ms from the fault until a survivor had been told'
    dots slowest slowest_rows 'ms that the slowest value or task took for each who was not harmed'
    dots recovered recovered_rows 'ms from the end of the fault until all flows again'
    least
    seconds frames 2 'frames a second'
    seconds latency 3 'median latency, ms'
    seconds memory 4 'memory of the broker, MiB'
    seconds descriptors 5 'descriptors of the broker'
else
    echo "plots: left out, gnuplot is not installed (Debian: gnuplot-nox)"
fi
awk -v mode=page -v folder="$folder" -f "$here/../lib/json.awk" \
    -f "$here/report.awk" "$file" >"$page"
awk -v mode=table -f "$here/../lib/json.awk" -f "$here/report.awk" "$file"
echo "the page: $page"

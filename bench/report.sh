#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: bench/report.sh FILE.jsonl
# Prints the table of ratios and that of what is asked for (targets.table), and writes FILE.html beside
# it: both, plots by gnuplot (skipped by name where there is none), and every figure with its
# quartiles.

set -eu
file=${1:?usage: $0 FILE.jsonl}
here=$(cd "$(dirname "$0")" && pwd)
page=${file%.jsonl}.html
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# tics AXIS: of a logarithmic one, at 2 and 5 too; of a long one of x at 1 alone.
tics() {
    [ "$1" = y ] || printf '%s' 'if (STATS_max / low < 2e4) { '
    printf '%s' "set for [e=0:8] ${1}tics add (gprintf('%.0s%c', 2 * 10 ** e) 2 * 10 ** e," \
        " gprintf('%.0s%c', 5 * 10 ** e) 5 * 10 ** e)"
    [ "$1" = y ] || printf ' }'
}

# draw FILE KIND TITLE UNIT
draw() {
    bars=$(wc -l <"$folder/$1")
    case $2 in
    lines | ratios)
        size=1000,680
        commands="set logscale x 2
            set logscale y 10
            set xlabel 'size of a value'
            set xtics ('16 B' 16, '256 B' 256, '4 KiB' 4096, '64 KiB' 65536, '1 MiB' 1048576, \
                '64 MiB' 67108864)
            set xrange [8:*]
            set ylabel '$4'
            set key outside
            set grid
            $([ "$2" = lines ] && echo "set format y '%.0s%c'" || echo "set ytics add (0.25, 0.5, 2, 4)")
            plot $(cat "$folder/$1.curves")"
        ;;
    percentiles)
        size=1000,620
        commands="set logscale y 10
            set xrange [0:4.1]
            set xlabel 'of all, that took no longer'
            set xtics ('50 %%' 0.301, '75 %%' 0.602, '90 %%' 1, '99 %%' 2, '99.9 %%' 3, \
                '99.99 %%' 4)
            set format y '%.0s%c'
            $(tics y)
            set ylabel '$4'
            set key outside
            set grid
            plot $(cat "$folder/$1.curves")"
        ;;
    clusters)
        size=1000,480
        commands="set style data histograms
            set style histogram clustered gap 1
            set style fill solid 0.75 noborder
            set datafile missing '-'
            set logscale y
            set yrange [0.001:2]
            set ytics (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 1)
            set grid ytics
            set xlabel 'values'
            set ylabel '$4'
            set key outside
            plot $(cat "$folder/$1.curves")"
        ;;
    time)
        size=900,420
        commands="stats '$folder/$1' index 0 using 4 nooutput
            set logscale y
            set yrange [*:STATS_max * 20]
            set xlabel 'ms since the cause'
            set format y '%.0s%c'
            set ylabel '$4'
            set key outside
            set grid
            plot '$folder/$1' index 0 using 1:4 with lines lw 1 lc rgb '#2e6da4' title 'most', \
                '' index 0 using 1:3 with lines lw 3 lc rgb '#e67e22' title 'p99', \
                '' index 0 using 1:2 with lines lw 2 lc rgb '#1e8449' title 'p50', \
                '' index 1 using 1:(STATS_max * 20) with impulses lc rgb 'gray' notitle, \
                '' index 1 using 1:(STATS_max * 1.5 * 2 ** \$0):2 with labels left \
                offset 0.5,0 notitle"
        ;;
    *)
        size=900,$((90 + 22 * bars))
        commands="stats '$folder/$1' using 2 nooutput
            low = STATS_min > 0 ? STATS_min / 3 : 0.1
            set logscale x
            set xrange [low:]
            set format x '%.0s%c'
            $(tics x)
            set xlabel '$4'
            set yrange [$bars-0.4:-0.6]
            set grid xtics
            set style fill solid 0.6
            unset key
            plot '$folder/$1' using (low):0:(low):2:(\$0-0.35):(\$0+0.35):5:ytic(1) \
                with boxxyerror lc rgb variable, \
                '' using 2:0:3:4 with xerrorbars pt -1 lc rgb 'black'"
        ;;
    esac
    printf '%s\n' "set terminal svg size $size background rgb 'white'" \
        "set output '$folder/$1.svg'" "set title \"$3\"" "$commands" | gnuplot
}

awk -v page="$folder" -f "$here/../tests/lib/json.awk" -f "$here/report.awk" "$file"
count=$(wc -l <"$folder/plots")
if command -v gnuplot >/dev/null; then
    while IFS="$(printf '\t')" read -r name kind title unit; do
        draw "$name" "$kind" "$title" "$unit"
    done <"$folder/plots"
else
    echo "plots: skipped, gnuplot is not installed (Debian: gnuplot-nox)"
    count=all
fi
awk -v page="$folder" -v targets="$here/targets.table" -v is_drawn="$count" \
    -f "$here/../tests/lib/json.awk" -f "$here/report.awk" \
    "$file" >"$page"
awk -v table=1 -v targets="$here/targets.table" \
    -f "$here/../tests/lib/json.awk" -f "$here/report.awk" "$file"
echo
echo "the page: $page"

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: tests/bench/report.sh SOURCE_DIR
# What bench/report.awk makes of some lines: ratios that were asked for, reached, missed and not
# measured, and the plots.  And that targets.table asks for what the questions tell.

set -eu
source_dir=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
is_wrong=

# expect FILE WORDS: they are a line of it, blanks aside.
expect() {
    tr -s ' ' <"$1" | sed 's/ $//' | grep -qxF -e "$2" || {
        echo "not said: $2" >&2
        is_wrong=yes
    }
}

# row QUESTION WHAT SYSTEM MEDIAN [UNIT]
row() {
    printf '{"question":"%s","what":"%s","system":"%s","unit":"%s","median":%s,"q1":1,"q3":3,"ratio":0,' \
        "$1" "$2" "$3" "${5:-us}" "$4"
    printf '"runs":[1,2,3],"n":9,"machine":"one, two cores, three","commit":"c","at":1}\n'
}

{
    row throughput '16 B' errbus 30
    row throughput '16 B' 'errbus many' 120
    row throughput '16 B' 'errbus disk' 15
    row throughput '16 B' jetstream 5
    row throughput '16 B' 'nats socket' 10
    row latency 'one way' errbus 300
    row kill 'all of it' errbus 4999
    row link '64 KiB' 'errbus to raw' 0.34 x
    row shared 'later by' shared -5.18 syncs
    echo '{"percentiles":"latency","curve":"errbus","percent":50,"us":7}'
    echo '{"percentiles":"latency","curve":"errbus","percent":99,"us":9}'
    echo '{"percentiles":"latency","curve":"relay ipc","percent":50,"us":6}'
    echo '{"timeline":"stop","ms":-50,"p50":1,"p99":2,"max":3}'
    echo '{"timeline":"stop","mark":"raised","ms":500}'
} >"$folder/lines"
cat >"$folder/targets" <<END
# a comment | >= 1 | throughput; 16 B; errbus | throughput; 16 B; nats socket
the better one counts | >= 12 | throughput; 16 B; errbus, errbus many | throughput; 16 B; nats socket
be it the first | <= 3 | throughput; 16 B; errbus, errbus many | throughput; 16 B; nats socket
not enough | >= 12.5 | throughput; 16 B; errbus, errbus many | throughput; 16 B; nats socket
less is better | <= 0.25 | throughput; 16 B; errbus | throughput; 16 B; errbus many
as much is not less | < 0.25 | throughput; 16 B; errbus | throughput; 16 B; errbus many
a time | <= 5000 | kill; all of it; errbus |
too long | <= 4998 | kill; all of it; errbus |
a ratio of its own | >= 0.95 x | link; 64 KiB; errbus to raw |
nobody asked | >= 1 | throughput; 16 B; errbus | throughput; 16 B; relay
nor for this | >= 0.9 x | link; 1 MiB; errbus to raw |
sooner, and not later | <= 1.5 syncs | shared; later by; shared |
END
awk -v table=1 -v targets="$folder/targets" -f "$source_dir/tests/lib/json.awk" \
    -f "$source_dir/bench/report.awk" "$folder/lines" >"$folder/table"
expect "$folder/table" 'What is asked for, and what this run has: medians of 3 runs. a; b: one by one, and many at once.'
expect "$folder/table" 'the better one counts >= 12 3.00; 12.00 reached'
expect "$folder/table" 'be it the first <= 3 3.00; 12.00 reached'
expect "$folder/table" 'not enough >= 12.5 3.00; 12.00 missed'
expect "$folder/table" 'less is better <= 0.25 0.25 reached'
expect "$folder/table" 'as much is not less < 0.25 0.25 missed'
expect "$folder/table" 'a time <= 5.00 ms 5.00 ms reached'
expect "$folder/table" 'too long <= 5.00 ms 5.00 ms missed'
expect "$folder/table" 'a ratio of its own >= 0.95 x 0.34 x missed'
expect "$folder/table" 'nor for this >= 0.90 x not measured'
expect "$folder/table" 'nobody asked >= 1 not measured'
expect "$folder/table" 'sooner, and not later <= 1.50 syncs -5.18 syncs reached'

awk -v page="$folder" -f "$source_dir/tests/lib/json.awk" \
    -f "$source_dir/bench/report.awk" "$folder/lines"
tr '\t' ' ' <"$folder/plots" >"$folder/named"
expect "$folder/named" 'plot1 lines Throughput by size of the values, one reader values a second'
expect "$folder/named" 'plot2 ratios Throughput by size, to that of Errbus one by one to errbus'
expect "$folder/plot2" '16 4 0.0333333 0.1'
[ -s "$folder/plot2.curves" ] || is_wrong=yes
grep -qF '$' "$folder/plot2.curves" && is_wrong=yes
expect "$folder/named" 'plot3 clusters Durability: throughput by what keeps the values, to Errbus without a journal to errbus'
expect "$folder/plot3" '"16 B" - 0.5 0.166667 -'
expect "$folder/named" 'plot4 percentiles Percentiles of latency us'
expect "$folder/plot4" '99 9'
grep -q 'index 1.* dt 2 .*title "relay ipc"' "$folder/plot4.curves" || is_wrong=yes
grep -q 'time failures.*; stop us' "$folder/named" || is_wrong=yes

# Each system and each figure by its name, as the programs have them.
awk -F'|' -v folder="$source_dir/bench/" '
function text_of(file,    line)
{
    if (!(file in texts))
        while ((getline line < (folder file)) > 0)
            texts[file] = texts[file] line "\n"
    return texts[file]
}
function look(row, file, name)
{
    sub(/^ +/, "", name)
    sub(/ +$/, "", name)
    if (index(text_of(file) text_of("systems.c"), "\"" name "\""))
        return
    printf "%s: %s has no \"%s\"\n", row, file, name
    is_wrong = 1
}
/^#/ { next }
{
    for (i = 3; i <= 4; i++) {
        if (split($i, part, ";") != 3)
            continue
        question = part[1]
        gsub(/ /, "", question)
        file = question "_bench.c"
        if (question == "throughput" || question == "latency")
            look($1, file, part[2])
        for (k = split(part[3], systems, ","); k > 0; k--)
            if (question != "kill")
                look($1, file, systems[k])
    }
    rows++
}
END { exit is_wrong || rows < 40 }
' "$source_dir/bench/targets.table" >&2 || is_wrong=yes
[ -z "$is_wrong" ]

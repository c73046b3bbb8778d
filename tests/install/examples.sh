#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: examples.sh BUILD CMAKE CC
# The installed examples are short, compile by pkg-config without a warning, and print what they are
# about: a value and a failure, rounds with N of M, a group of workers, a reader that goes on. They do so
# twice on one broker.
set -eu
build=$1
cmake=$2
cc=$3
work=$(mktemp -d)
pids=

# shellcheck source=tests/install/processes.sh
. "$(dirname "$0")/processes.sh"
# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/*.log"
# shellcheck disable=SC2086 # several words
trap 'stop $pids; rm -rf "$work"' EXIT

unset ERRBUS_PARTY LD_LIBRARY_PATH
tree=$work/tree
"$cmake" --install "$build" --prefix "$tree" >"$work/install.log" 2>&1 || die "cannot install"
lib=$(dirname "$(find "$tree" -name libbus.so)")
PKG_CONFIG_PATH=$lib/pkgconfig
ERRBUS_SERVER=ipc://$work/control
export PKG_CONFIG_PATH ERRBUS_SERVER
flags=$(pkg-config --cflags --libs libbus)

count=0
for source in "$tree"/share/doc/errbus/examples/*.c; do
    name=$(basename "$source" .c)
    [ "$(wc -l <"$source")" -lt 60 ] || die "$name has 60 lines or more"
    # shellcheck disable=SC2086 # several words
    "$cc" -std=gnu11 -Wall -Wextra -Wpedantic -Werror "$source" -o "$work/$name" $flags \
        "-Wl,-rpath,$lib" >"$work/cc.log" 2>&1 || die "$name does not compile"
    sed -n '/^#ifndef BUS_BUS_H/q;p' "$tree/include/bus/bus.h" | grep -q "^ \*   $name\.c  *[a-z]" ||
        die "bus.h does not name $name.c at its head"
    count=$((count + 1))
done
[ "$count" -eq 4 ] || die "$count examples are installed, not 4"
# One that needs nothing of the system it runs on. What ld warns of is libzmq's.
# shellcheck disable=SC2046,SC2086 # several words
"$cc" -static -std=gnu11 "$tree/share/doc/errbus/examples/first.c" -o "$work/first_static" \
    $(pkg-config --cflags --static --libs libbus) 2>"$work/cc.log" || die "first is not linked static"

"$tree/bin/errbusd" --journal none --control "$ERRBUS_SERVER" --data "ipc://$work/data" \
    >"$work/errbusd.log" 2>&1 &
pids=$!

# prints NAME: what is on standard input is what $work/NAME.out has.
prints() {
    cat >"$work/$1.expected"
    cmp -s "$work/$1.expected" "$work/$1.out" ||
        die "$1: expected
$(cat "$work/$1.expected")
but it printed
$(cat "$work/$1.out")"
}

# start NAME WORD...: in the background; its process id is in $!.
start() {
    name=$1
    shift
    timeout 60 "$work/$name" "$@" >>"$work/$name.log" 2>&1 &
    pids="$pids $!"
}

# Each is run twice on the same broker: a second run begins anew, whoever comes first.
play() {
    ERRBUS_JOB=first
    export ERRBUS_JOB
    for first in first first_static; do # two runs: bob may come before alice in each
        start first alice
        timeout 60 "$work/$first" bob >"$work/$first.out" || die "$first bob fails"
        prints "$first" <<'END'
slot 0 has the value 0.25
slot 1 has the error of alice: app.no_memory: 64 GiB asked, 24 are there
END
    done

    ERRBUS_JOB=rounds
    for silo in silo1 silo2 silo3; do
        start rounds "$silo"
    done
    timeout 60 "$work/rounds" mean >"$work/rounds.out" || die "rounds mean fails"
    prints rounds <<'END'
round 0: the mean of 3 models is 20.00
round 1: silo3: no model
round 1: the mean of 2 models is 16.00
round 2: the mean of 3 models is 22.00
END

    ERRBUS_JOB=workers
    start workers one
    start workers one # its name is taken: it ends at once, and the other one works
    timeout 60 "$work/workers" boss >"$work/workers.out" || die "workers boss fails"
    prints workers <<'END'
1 squared is 1
2 squared is 4
3: one: no reason was given
4 squared is 16
END

    ERRBUS_JOB=durable
    "$work/durable" alice one two three four || die "durable alice fails"
    "$work/durable" bob 1 >"$work/durable.out" || die "durable bob fails"
    "$work/durable" bob 3 >>"$work/durable.out" || die "durable bob fails the second time"
    prints durable <<'END'
0 one
1 two
2 three
3 four
END
}

play
play
echo "4 examples compile, and print what they are about"

#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: without_libpq.sh SOURCE CMAKE COMPILER
# errbusd is built where there is no libpq: the build says what is left out and how to have it, the
# broker keeps its journal in files, and a journal in PostgreSQL is refused with the reason.
set -eu
source=$1
cmake=$2
compiler=$3
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker" 2>/dev/null || true; rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence=$work/log

# All that pkg-config knows here, but for libpq.
mkdir "$work/known"
IFS=: read -r -a folders <<<"${PKG_CONFIG_PATH:-}:$(pkg-config --variable pc_path pkg-config)"
for folder in "${folders[@]}"; do
    for file in "$folder"/*.pc; do
        [ ! -e "$file" ] || [ -e "$work/known/${file##*/}" ] || ln -s "$file" "$work/known/"
    done
done
rm -f "$work/known/libpq.pc"
export PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$work/known

"$cmake" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS=-O0 \
    -DBUILD_TESTING=OFF -DERRBUS_BENCH=OFF >"$work/log" 2>&1 || die "cmake ends with $?"
tr -s '\n ' '  ' <"$work/log" >"$work/said"
grep -q 'libpq 15 or newer is missing, and so errbusd cannot keep its journal in PostgreSQL' \
    "$work/said" || die "cmake does not say what is left out"
grep -q 'install the package libpq-dev' "$work/said" || die "cmake does not say how to have it"
"$cmake" --build "$work/build" --target errbusd errbus >"$work/log" 2>&1 || die "it is not built"
errbusd=$work/build/broker/errbusd
! readelf -d "$errbusd" | grep -q 'NEEDED.*libpq' || die "errbusd is linked with libpq"

refusal='this errbusd was built without libpq: install the package libpq-dev, and build again'
expected=1
for words in "--explain-store host=/nowhere" \
    "--journal postgres:host=/nowhere --cache $work/cache --control ipc://$work/c --data ipc://$work/d"; do
    result=0
    # shellcheck disable=SC2086 # several words
    timeout 60 "$errbusd" $words >"$work/log" 2>&1 || result=$?
    [ "$result" -eq "$expected" ] || die "errbusd $words ends with $result"
    grep -q -F "$refusal" "$work/log" || die "errbusd $words does not say what it lacks"
done

# What else it does, it does.
"$errbusd" --control "ipc://$work/control" --data "ipc://$work/data" --journal "$work/journal" \
    >"$work/log" 2>&1 &
broker=$!
"$work/build/clients/errbus" ping -s "ipc://$work/control" --wait 60 >>"$work/log" 2>&1 ||
    die "a broker without libpq does not answer"
kill "$broker"
wait "$broker" || die "it ends with $?"
broker=
"$errbusd" --check "$work/journal" >"$work/log" 2>&1 || die "its journal is not whole"
echo "seen: errbusd without libpq"

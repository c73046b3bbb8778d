#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# run.sh -- breaks the bus on purpose, one promise at a time (mutations.table), and sees whether the
# test that is to notice it does.
#
#   run.sh SOURCE BUILD [--short] [--only TEXT] [--results FILE]
#
# BUILD: a build folder of Ninja's, up to date.  Nothing in it is changed: the broken file is compiled
# beside it and linked before what is whole, or in its place, a second or two each.  The simulation is given 2000 seeds
# to find it (MUTATION_SEEDS).  Prints a line for each mutation, and appends one of JSON to FILE.  Exit
# codes: 0 all caught, 1 one is not, or does not fit any more, 77 skipped: no Ninja here.
set -eu

[ $# -ge 2 ] || {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
shift 2
table=$source/tests/mutation/mutations.table
awk=$source/tests/mutation/mutate.awk
is_short=
only=
results=
while [ $# -gt 0 ]; do
    case $1 in
    --short) is_short=1 ;;
    --only)
        only=$2
        shift
        ;;
    --results)
        results=$2
        shift
        ;;
    *)
        sed -n 's/^#   //p' "$0" >&2
        exit 2
        ;;
    esac
    shift
done

[ -f "$build/build.ninja" ] || {
    echo "skipped: $build is no build folder of Ninja's"
    exit 77
}
work=$(mktemp -d "${TMPDIR:-/tmp}/errbus-mutation.XXXXXX")
# end_strays: ends what broken programs have left behind.
end_strays() {
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in "$work"/bin/*) ;; *) continue ;; esac
        stray=${exe#/proc/}
        kill -KILL "${stray%/exe}" 2>/dev/null || true
    done
    rm -rf "$work/bin"
}
trap 'end_strays; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT PIPE TERM

# object_of FILE: the object that the build makes of it for the tests.
object_of() {
    case $1 in
    broker/* | libbus/*)
        module=${1#*/}
        echo "${1%%/*}/CMakeFiles/${1%%/*}_${module%%/*}.dir/${1#*/}.o"
        ;;
    clients/web/*) echo "clients/CMakeFiles/clients_web.dir/${1#*/}.o" ;;
    esac
}

# make FILE TEST: $work/mutant.c becomes $work/mutant, as the build would make it.
make() {
    object=$(object_of "$1")
    compile=$(ninja -C "$build" -t commands "$object" | tail -n 1 |
        sed -e "s| -M[DTF] [^ ]*| |g" -e "s| -MD | |" -e "s| -o [^ ]* -c .*| -w -o $work/mutant.o -c $work/mutant.c|")
    link=$(ninja -C "$build" -t commands "tests/$2" | tail -n 1 |
        sed "s| -o tests/$2 | $work/mutant.o -o $work/mutant |")
    (cd "$build" && sh -c "$compile" && sh -c "$link") >"$work/made" 2>&1
}

# make_program FILE PROGRAM: the same with a program that the test starts.  It lies in $work/bin beside
# the others, where they look for each other.
make_program() {
    mkdir -p "$work/bin"
    for whole in broker/errbusd clients/errbus clients/errbus-web; do
        [ ! -x "$build/$whole" ] || cp "$build/$whole" "$work/bin"
    done
    compile=$(ninja -C "$build" -t commands "$2" | grep -F -e " -c $source/$1" | tail -n 1)
    object=$(echo "$compile" | sed 's|.* -o \([^ ]*\) -c .*|\1|')
    compile=$(echo "$compile" |
        sed -e "s| -M[DTF] [^ ]*| |g" -e "s| -MD | |" -e "s| -o [^ ]* -c .*| -w -o $work/mutant.o -c $work/mutant.c|")
    link=$(ninja -C "$build" -t commands "$2" | tail -n 1 |
        sed -e "s| $object | $work/mutant.o |" -e "s| -o $2 | -o $work/bin/${2##*/} |")
    (cd "$build" && sh -c "$compile" && sh -c "$link") >"$work/made" 2>&1
}

# stands TEST SEEDS: whether the test passes on the bus as it is, in the same place and time. If it does
# not, its failure says nothing about a mutation.
stands() {
    (cd "$work" && ERRBUS_SIM_SHRINK=0 ERRBUS_SIM_SEEDS="$2" timeout 300 "$build/tests/$1") \
        >"$work/stands" 2>&1
}

# stands_as_far TEST: whether a simulation passes on the bus as it is, too, with as many seeds as it
# took to notice the mutation.  Where that is not said, with all of them.  A seed beyond those has a
# name of its own, and every run has it.
stands_as_far() {
    case $1 in sim_*) ;; *) return 0 ;; esac
    seed=$(sed -n -e 's/.*seed \([0-9][0-9]*\): .*/\1/p' \
        -e 's/.*died in seed \([0-9][0-9]*\).*/\1/p' "$work/said" | head -n 1)
    seed=${seed:-${MUTATION_SEEDS:-2000}}
    [ "$seed" -le "${MUTATION_SEEDS:-2000}" ] || return 0
    [ "$seed" -le "$(cat "$work/stood.$1")" ] && return 0
    stands "$1" "$seed" && echo "$seed" >"$work/stood.$1"
}

# words TEST: what it was noticed by.
words() {
    sed -n -e 's/.*\(seed [0-9]*: .*\)/\1/p' -e 's/.*\(died in seed [0-9]*\).*/\1/p' \
        -e 's/^\[FAIL\] \([^:]*::[a-z_0-9]*\).*/\1/p' -e 's/.*Unexpected signal.*/died of a signal/p' \
        -e 's/.*\(CRASH!\).*/\1/p' "$work/said" | head -n 1 | tr '"\\' "''"
}

caught=0
missed=0
awk -v mode=list -f "$awk" "$table" >"$work/list"
while read -r name file test promise short program; do
    case $name in *"$only"*) ;; *) continue ;; esac
    if [ -n "$is_short" ] && [ "$short" != short ]; then
        # Not tried here; that it cannot be tried any more counts all the same.
        awk -v mode=apply -v name="$name" -f "$awk" "$table" "$source/$file" >/dev/null ||
            missed=$((missed + 1))
        continue
    fi
    outcome=missed
    why="$test passes"
    if ! awk -v mode=apply -v name="$name" -f "$awk" "$table" "$source/$file" >"$work/mutant.c" \
        2>"$work/said"; then
        why=$(cat "$work/said")
    elif { [ "$program" = - ] && ! make "$file" "$test"; } ||
        { [ "$program" != - ] && ! make_program "$file" "$program"; }; then
        why="it cannot be built: $(head -n 1 "$work/made" | tr '"\\' "''")"
    elif [ ! -e "$work/stood.$test" ] && ! stands "$test" 10; then
        why="$test fails on the bus as it is: $(grep -m 1 FAIL "$work/stands" | tr '"\\' "''")"
    else
        [ -e "$work/stood.$test" ] || echo 10 >"$work/stood.$test"
        code=0
        (
            cd "$work"
            mutant=$work/mutant
            if [ "$program" != - ]; then
                mutant=$build/tests/$test
                export ERRBUSD="$work/bin/errbusd" ERRBUS="$work/bin/errbus"
                [ "$program" != tests/errbusd_failpoints ] ||
                    export ERRBUSD_FAILPOINTS="$work/bin/errbusd_failpoints"
            fi
            ERRBUS_SIM_SHRINK=0 ERRBUS_SIM_SEEDS="${MUTATION_SEEDS:-2000}" timeout 300 "$mutant"
        ) >"$work/said" 2>&1 || code=$?
        end_strays
        if [ "$code" -eq 124 ] && ! stands "$test" "${MUTATION_SEEDS:-2000}"; then
            why="$test comes to no end on the bus as it is, either"
        elif [ "$code" -eq 124 ]; then
            outcome=caught
            why="it comes to no end"
        elif [ "$code" -ne 0 ] && ! stands_as_far "$test"; then
            why="$test fails on the bus as it is, too: $(grep -m 1 'seed [0-9]*:' "$work/stands" |
                tr '"\\' "''")"
        elif [ "$code" -ne 0 ]; then
            outcome=caught
            why=$(words)
        fi
    fi
    [ "$outcome" = caught ] && caught=$((caught + 1)) || missed=$((missed + 1))
    printf '%-36s promise %-5s %-6s by %s: %s\n' "$name" "$promise" "$outcome" "$test" "$why"
    [ -z "$results" ] || printf \
        '{"mutation":"%s","promise":"%s","file":"%s","test":"%s","caught":%s,"words":"%s"}\n' \
        "$name" "$promise" "$file" "$test" "$([ "$outcome" = caught ] && echo true || echo false)" \
        "$why" >>"$results"
done <"$work/list"
echo "$caught caught, $missed not"
[ "$caught" -gt 0 ] && [ "$missed" -eq 0 ]

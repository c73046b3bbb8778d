#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: first_hour.sh BUILD CMAKE CC
# What a newcomer meets in the first hour, as a transcript: the installed tree, a shell, and the
# coreutils, and nothing else. Each command must end in time, with the status that its page says, and
# say the words that help. newcomer.c is the newcomer's own program: it forgets checks and
# bus_close(). What other C programs meet is in examples.sh, the sessions of README.md in readme.sh.
set -eu
build=$1
cmake=$2
cc=$3
work=$(mktemp -d)
broker=
pids=

# shellcheck source=tests/install/processes.sh
. "$(dirname "$0")/processes.sh"
# shellcheck disable=SC2086 # several words
trap 'stop $pids $broker; rm -rf "$work"' EXIT

die() {
    echo "first_hour: $*" >&2
    exit 1
}

# ---- the machine of the newcomer ----------------------------------------------------------------------
tree=$work/tree
"$cmake" --install "$build" --prefix "$tree" >"$work/install.log" 2>&1 || die "cannot install"
lib=$(dirname "$(find "$tree" -name libbus.so)")
source=$(dirname "$0")/newcomer.c
# shellcheck disable=SC2046 # several words
"$cc" -std=gnu11 -Wall -Wextra -Wpedantic -Werror "$source" -o "$work/newcomer" \
    $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs libbus) "-Wl,-rpath,$lib" ||
    die "newcomer.c does not compile"
# shellcheck disable=SC2046 # several words
"$cc" -static -std=gnu11 "$source" -o "$work/newcomer_static" \
    $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --static --libs libbus) 2>"$work/cc.log" ||
    die "newcomer.c is not linked static: $(cat "$work/cc.log")" # ld warns of libzmq
mkdir "$work/bin" "$work/home"
for tool in sh cat cp cut date du env head mkdir mktemp rm seq sleep \
    tail timeout tr true wc; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
unset ERRBUS_PARTY ERRBUS_JOB ERRBUS_SERVER LD_LIBRARY_PATH STATE_DIRECTORY XDG_STATE_HOME
PATH=$tree/bin:$work/bin
HOME=$work/home
TMPDIR=$work
export PATH HOME TMPDIR
cd "$HOME"

# meets TITLE: what comes next, in the transcript.
meets() {
    printf '\n==== %s\n' "$*"
}

# says STATUS TEXT... -- COMMAND...: the command ends in time, with STATUS; what it prints, on both
# outputs, has each TEXT. Before a text, '!' means that it must not be there, and that something is.
says() {
    status=$1
    shift
    count=0
    for word; do
        [ "$word" != -- ] || break
        count=$((count + 1))
    done
    texts=$count
    list=
    while [ "$texts" -gt 0 ]; do
        list="$list$1
"
        shift
        texts=$((texts - 1))
    done
    shift
    echo "\$ $*"
    got=0
    timeout -k 5 20 "$@" >"$work/output" 2>&1 </dev/null || got=$?
    cat "$work/output"
    [ "$got" -eq "$status" ] || die "$1 ${2-}: ended with $got, not $status"
    output=$(tr -d '\000' <"$work/output")
    printf '%s' "$list" >"$work/texts"
    while IFS= read -r text; do
        case $text in
        !*)
            [ -n "$output" ] || die "$1 ${2-}: said nothing"
            case $output in *"${text#!}"*) die "$1 ${2-}: said: ${text#!}" ;; esac
            ;;
        *) case $output in *"$text"*) ;; *) die "$1 ${2-}: did not say: $text" ;; esac ;;
        esac
    done <"$work/texts"
}

# within SECONDS STATUS TEXT... -- COMMAND...: the same, and no later.
within() {
    limit=$1
    shift
    begun=$(date +%s)
    says "$@"
    took=$(($(date +%s) - begun))
    [ "$took" -le "$limit" ] || die "took $took s, not $limit"
}

# prints TEXT COMMAND...: exactly that on standard output, and status 0.
prints() {
    text=$1
    shift
    echo "\$ $*"
    got=$(timeout -k 5 20 "$@" </dev/null) || die "$1 ${2-}: fails"
    printf '%s\n' "$got"
    [ "$got" = "$text" ] || die "$1 ${2-}: did not print: $text"
}

# starts COMMAND...: in the background, its output in $work/started; its process id is in $started.
starts() {
    echo "\$ $* &"
    timeout -k 5 50 "$@" >"$work/started" 2>&1 </dev/null &
    started=$!
    pids="$pids $started"
}

# appears TEXT FILE: within some seconds.
appears() {
    tries=0
    until case $(cat "$2") in *"$1"*) ;; *) false ;; esac do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || die "$2 does not say: $1"
        sleep 0.1
    done
}

# runs_broker WORD...: a broker whose control endpoint is in ERRBUS_SERVER.
runs_broker() {
    : >"$work/errbusd.log"
    errbusd --control "${control:-tcp://127.0.0.1:*}" --data 'tcp://127.0.0.1:*' "$@" \
        >"$work/errbusd.log" 2>&1 &
    broker=$!
    appears 'errbusd ready control=' "$work/errbusd.log"
    ready=$(tail -n 1 "$work/errbusd.log")
    ERRBUS_SERVER=${ready#*control=}
    ERRBUS_SERVER=${ERRBUS_SERVER%% *}
    control=$ERRBUS_SERVER
    export ERRBUS_SERVER
}
stops_broker() {
    kill "$broker"
    wait "$broker" || die "errbusd ends with $?"
    broker=
}

# ---- before there is a broker -------------------------------------------------------------------------
control=
runs_broker --journal none
stops_broker # its port is nobody's now
host_port=${ERRBUS_SERVER#tcp://}

meets 'the first words: a list of subcommands, a version, help, a slip of the finger'
says 2 'usage: errbus SUBCOMMAND' 'publish values' -- errbus
says 0 'errbus 0.' -- errbus --version
says 0 'usage: errbus pub' '--reserve-only' '--file' -- errbus help pub
says 2 "did you mean 'status'?" -- errbus stauts
says 2 'did you mean --reserve-only?' -- errbus pub --resrve-only x
says 2 'expected a TOPIC' -- errbus pub

meets 'no broker: questions fail at once, parties say what they wait for'
for question in status errors verdict 'dead list g'; do
    # shellcheck disable=SC2086 # several words
    within 4 5 "$host_port" 'no broker in reach' -- errbus $question
done
within 4 5 "waiting for a broker at" "$host_port" -- errbus pub -W 1.5 -p alice grads x
within 4 5 "waiting for a broker at" "$host_port" -- errbus sub -W 1.5 '#'
within 4 5 'name-of-nobody.invalid does not resolve' -- errbus status -s name-of-nobody.invalid:7370

meets 'a broker, and host:port without tcp://'
runs_broker --journal "$HOME/journal" --topic-keep 4096
[ "$(du -sk "$HOME/journal" | cut -f 1)" -le 1024 ] || die 'an empty journal takes over 1 MiB'
says 0 -- errbus pub -s "$host_port" -p alice grads 'gradients of round 0'
prints 'gradients of round 0' errbus sub -s "$host_port" -C 1 alice/grads

meets 'a second broker on the same port: refused, and it leaves nothing'
says 1 'it is in use by another process' -- errbusd --journal "$HOME/second" \
    --control "$ERRBUS_SERVER" --data 'tcp://127.0.0.1:*'
[ ! -e "$HOME/second" ] || die 'a broker that does not start leaves a journal'

meets 'whole values, as they are'
printf 'one\ntwo\n' >value
says 0 -- errbus pub -p alice whole --file value
errbus pub -p alice whole - <value
errbus sub --raw -C 2 alice/whole >both
[ "$(wc -c <both)" -eq 16 ] || die "sub --raw: $(wc -c <both) bytes, not 16"
says 1 'no-such-file: No such file' -- errbus pub -p alice whole --file no-such-file

meets 'Alice of README.md, played from the shell'
says 0 'reserved alice/rounds 7' -- errbus pub -p alice rounds --reserve-only --seq 7 --hold 0.1
says 3 'alice/rounds 7 failed' 'party_left' -- errbus sub -C 1 --from 7 alice/rounds
says 0 -- errbus pub -p alice rounds --seq 8 'round 8'
says 0 'round 8' -- errbus sub -C 1 --from 8 alice/rounds

meets 'a topic of another party is denied'
says 6 "belongs to another party" 'alice' -- errbus pub -p alice bob/x y

meets 'a topic of one level: what was meant'
says 2 "did you mean '+/hello'?" -- errbus sub hello
says 0 'alice/' '!hello/0' -- errbus status --all

meets 'a party whose name is misspelt: said after a second'
within 6 4 "no party named 'alicf' has ever joined" "did you mean 'alice'?" \
    -- errbus sub -W 3 -C 1 alicf/grads

meets 'processes that share a terminal: lines are whole'
: >"$work/terminal"
for n in 1 2 3 4; do
    timeout -k 5 20 errbus sub -p "reader-$n" -C 1 --from 7 alice/rounds 2>>"$work/terminal" &
    pids="$pids $!"
    readers="${readers-} $!"
done
for reader in $readers; do
    got=0
    wait "$reader" || got=$?
    [ "$got" -eq 3 ] || die "a reader of a failed slot ends with $got, not 3"
done
pids=
count=0
while IFS= read -r line; do
    case $line in
    *'errbus sub: '*'errbus sub: '*) die "two lines are one: $line" ;;
    'errbus sub: alice/rounds 7 failed') count=$((count + 1)) ;;
    'errbus sub: alice'*) ;;
    *) die "a line is not whole: $line" ;;
    esac
done <"$work/terminal"
[ "$count" -eq 4 ] || die "$count of 4 readers print the failed slot"

meets 'a program of the own that exits without a word to the bus'
says 3 -- env ERRBUS_JOB=own ERRBUS_PARTY=dora "$work/newcomer" exit
says 3 'dora: application app.disk_full: no space left' -- errbus sub -j own -C 1 dora/grads
says 4 -- env ERRBUS_JOB=own ERRBUS_PARTY=ed "$work/newcomer" handler
says 3 'ed: application app.disk_full: no space left' -- errbus sub -j own -C 1 ed/grads

meets 'a program of the own that forgets its checks, shared and static'
prints 'all is refused' env ERRBUS_JOB=null "$work/newcomer" null
prints 'all is refused' env ERRBUS_JOB=null "$work/newcomer_static" null

meets 'a program that says why, and takes longer to end than its victim'
says 1 -- errbus run -j late -p w -n 2 --grace 1 -- sh -c '
    if [ "$RANK" -eq 0 ]; then
        trap "sleep 0.5; exit 1" TERM
        printf "{\"message\":{\"message\":\"out of paper\"}}" >"$ERRBUS_ERROR_FILE"
        : >../said
        sleep 1
        exit 1
    fi
    until [ -e ../said ]; do sleep 0.05; done
    sleep 0.1
    echo victim >&2
    exit 1'
says 3 'final verdict' '
  w-0/1: application' 'out of paper' -- errbus verdict -f -j late

for job in own null late; do
    says 0 'forgotten: ' -- errbus job forget "$job"
done

meets 'what is gone is told'
seq 1 2000 | errbus pub -p carol much
says 0 'slots 0 to ' 'of carol/much are gone' -- errbus sub -C 1 --from 0 carol/much
says 0 '!gone' -- errbus sub -C 1 --from oldest carol/much

meets 'a program that fails, with a traceback'
says 3 'ValueError: no such file' 'run.exit_status' -- errbus run -p trainer -- sh -c '
    echo "Traceback (most recent call last):" >&2
    echo "  File \"train.py\", line 12, in <module>" >&2
    echo "    load(SECRET)" >&2
    echo "ValueError: no such file" >&2
    exit 3'
says 0 'trainer: application run.exit_status' 'ValueError: no such file' '!SECRET' -- errbus errors

meets 'an error file that is far too long keeps its facts'
says 1 'out of tokens' -- errbus run -p large -- sh -c '
    { printf "{\"message\":{\"message\":\"out of tokens\",\"extraInfo\":{\"py_callstack\":\""
      head -c 1200000 /dev/zero | tr "\\000" x
      printf "\"}},\"recoverable\":false}"; } >"$ERRBUS_ERROR_FILE"
    exit 1'
says 0 'out of tokens' '!xxxxxxxxxxxxxxxxxxxx' -- errbus errors

meets 'a program that is run twice'
says 0 -- errbus run -j again -p maker -- errbus pub out 'value of run 1'
says 0 -- errbus run -j again -p maker -- errbus pub out 'value of run 2'
prints 'value of run 2' errbus sub -j again -C 1 maker/out

meets 'status: a summary first, columns, people before machines'
for n in 10 2; do
    starts errbus pub -p "worker-$n" out --reserve-only --hold 30
    appears "reserved worker-$n/out 0" "$work/started"
done
timeout -s KILL 0.5 errbus pub -p dave out --reserve-only >/dev/null 2>&1 || true
says 3 'party dave lost' -- errbus sub -C 1 dave/out
says 0 ' running, ' ' lost, ' ' left; ' ' open slots; journal well' 'PARTY ' 'STATE' \
    ' lost ' 'errbus.connection_closed' '!last sign of life' -- errbus status
output=$(cat "$work/output")
case $output in *worker-2/1*worker-10/1*) ;; *) die 'worker-10 comes before worker-2' ;; esac
[ "$(wc -l <"$work/output")" -le 40 ] || die 'status has more than 40 lines'

meets 'verdict: goes on, ended well, failed, unknown'
says 8 'goes on (' 'running' -- errbus verdict
says 1 "no job 'typo'" -- errbus verdict -j typo
says 0 -- errbus pub -j well -p alice grads x
says 0 'no verdict: job well ended well (1 left)' -- errbus verdict -j well
says 3 -- errbus run -j bad -p alice -- sh -c 'exit 3'
says 3 'final verdict' 'alice/1: application run.exit_status' -- errbus verdict -j bad

meets 'Ctrl-C: the same for each subcommand'
for command in 'sub #' tap 'pub w -p x --reserve-only' 'request -p y q 1' 'worker -p z g -- true' \
    'run -p v -- sleep 30' 'status -C 99'; do
    # shellcheck disable=SC2086 # several words
    says 130 -- timeout --preserve-status -s INT 0.7 errbus $command
done

meets 'work that outlives its worker, and a reply that ends its line'
starts errbus worker -p squarer squares -- sh -c 'read n; echo $((n * n))'
prints 49 errbus request -p boss -W 15 squares 7
# shellcheck disable=SC2086 # several words
stop $pids
pids=

meets 'who was terminated, by whom'
starts errbus sub -j doomed -p eve '#'
tries=0
until errbus status -j doomed | tr -d '\000' | head -c 100000 >"$work/doomed" &&
    case $(cat "$work/doomed") in *eve/1*running*) ;; *) false ;; esac do
    tries=$((tries + 1))
    [ "$tries" -le 50 ] || die 'eve does not join'
    sleep 0.1
done
says 0 -- errbus job cancel -j doomed
got=0
wait "$started" || got=$?
[ "$got" -ne 0 ] && [ "$got" -lt 124 ] || die "eve, whose job was cancelled, ended with $got"
appears 'cancelled' "$work/started"
pids=
says 0 'job was cancelled' -- errbus errors -j doomed

meets 'a slip of the finger in the name of a job'
says 2 "there is no job typo" 'default' -- errbus errors -j typo
says 2 "there is no job typo" 'default' -- errbus status -j typo
says 2 'cancel which job?' -- errbus job cancel
says 0 'alice/' -- errbus status # nothing was cancelled

meets 'a job that is forgotten begins anew'
says 0 -- errbus pub -j once -p alice out 'of old'
says 0 -- errbus job forget once
says 2 'there is no job once' -- errbus status -j once
says 0 -- errbus pub -j once -p alice out 'of now'
prints 'of now' errbus sub -j once -C 1 alice/out

meets 'a tunnel that has other ports, or one alone'
data=${ready#*data=}
data=${data%% *}
says 0 -- errbus pub -s "$host_port,data=${data##*:}" -p tunnel grads x
prints x errbus sub -s "$host_port,data=${data##*:}" -C 1 tunnel/grads
within 10 5 'not its data channel at tcp://127.0.0.1:1:' -- errbus pub -s "$host_port,data=1" -W 4 -p tunnel grads y

meets 'a job that nobody fills ends'
says 0 -- errbus job create -j pair --min 2 --join-window 0.2 --join-timeout 1
says 3 '1 of 2 parties joined' 'errbus.too_few_joined' -- errbus run -j pair -p alone -- sleep 30

meets 'back up: a copy of the journal, read and continued'
stops_broker
cp -R "$HOME/journal" "$HOME/copy"
says 0 -- errbusd --check "$HOME/copy"
runs_broker --journal "$HOME/copy" --topic-keep 4096
says 0 'gradients of round 0' -- errbus sub -C 1 alice/grads
says 0 ' lost ' 'errbus.connection_closed' -- errbus status --all
stops_broker

meets 'the log of the broker: what it is, what it restored, why it ended'
says 0 'restored' "$HOME/copy" 'SIGTERM' -- cat "$work/errbusd.log"

meets 'a configuration that is looked at, and not used'
printf 'control = tcp://*:7370\nlingre = 1h\n' >bad.conf
says 2 'bad.conf' 'lingre' '2' -- errbusd --check-config --config bad.conf
says 0 'linger' 'topic-keep' -- errbusd --check-config
printf 'linger = 1h\0\n' >nul.conf
says 2 'nul.conf:1: a NUL byte' -- errbusd --config nul.conf

printf '\nthe first hour is over\n'

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: first_hour.sh BUILD CMAKE CC [ITEM...]
# What a newcomer meets in the first hour, as a transcript: the installed tree, a shell, and the
# coreutils, and nothing else. Each command must end in time, with the status that its page says, and
# say the words that help. newcomer.c has the newcomer's own programs.
#
# There is a function item_ITEM for each thing that is met. Each has an empty home, a port and a broker
# of its own, and so runs alone too. Without ITEM all of them run, in the order of this file, and the
# transcripts of those that fail are printed; with ITEM each one is. What failed stands at the end again,
# with what was expected and what came. An expectation is about what a command says or how it ends: it
# never depends on how fast the machine is.
#
# Four things need the source tree, and are shown elsewhere: how ./quickstart counts the tests that
# were skipped, and how little it builds, by install/quickstart.sh; that the proof runs as root in a
# chroot, and notices a lost value for no other reason, by prove/short; that a line is one write(2), by
# system/cli. What other C programs meet is in examples.sh, the sessions of README.md in readme.sh.
set -eu
[ $# -ge 3 ] || {
    sed -n 's/^# usage: //p' "$0" >&2
    exit 2
}
build=$1
cmake=$2
cc=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
all=$(sed -n 's/^item_\([a-z_]*\)() {$/\1/p' "$here/first_hour.sh" | tr '\n' ' ')
work=$(mktemp -d)
broker=
holder=
pids=
newline='
'

# shellcheck source=tests/install/processes.sh
. "$here/processes.sh"
# shellcheck source=tests/lib/faults.sh
. "$here/../lib/faults.sh"
# shellcheck disable=SC2086 # several words
trap 'rm -rf "$work"' EXIT

# ---- the machine of the newcomer ----------------------------------------------------------------------
tree=$work/tree
"$cmake" --install "$build" --prefix "$tree" >"$work/install.log" 2>&1 || die "cannot install"
lib=$(dirname "$(find "$tree" -name libbus.so)")
mkdir "$work/bin" "$work/own" "$work/home"
# shellcheck disable=SC2046 # several words
"$cc" -std=gnu11 -Wall -Wextra -Wpedantic -Werror "$here/newcomer.c" -o "$work/own/newcomer" \
    $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs libbus) "-Wl,-rpath,$lib" ||
    die "newcomer.c does not compile"
# shellcheck disable=SC2046 # several words
"$cc" -static -std=gnu11 "$here/newcomer.c" -o "$work/own/newcomer_static" \
    $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --static --libs libbus) 2>"$work/cc.log" ||
    die "newcomer.c is not linked static: $(cat "$work/cc.log")" # ld warns of libzmq
for tool in sh cat cp cut date du env head ls mkdir mktemp rm seq sleep \
    tail tee timeout touch tr true wc; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
unset ERRBUS_PARTY ERRBUS_JOB ERRBUS_SERVER ERRBUS_RUN ERRBUS_DISCLOSURE LD_LIBRARY_PATH \
    STATE_DIRECTORY XDG_STATE_HOME NO_COLOR
PATH=$tree/bin:$work/own:$work/bin
TMPDIR=$work
export PATH TMPDIR

# came FILE: what stands there, for a fault.
came() {
    if [ ! -s "$1" ]; then
        echo nothing
    else
        echo
        head -n 40 "$1" | while IFS= read -r line; do printf '    %s\n' "$line"; done
    fi
}

# has TEXT FILE
has() {
    case $(tr -d '\000' <"$2") in *"$1"*) ;; *) return 1 ;; esac
}

# says STATUS TEXT... -- COMMAND...: the command ends in time, with STATUS; what it prints, on both
# outputs, has each TEXT. Before a text, '!' means that it must not be there, and that something is.
says() {
    status=$1
    shift
    : >"$work/texts"
    while [ "$1" != -- ]; do
        printf '%s\n.\n' "$1" >>"$work/texts"
        shift
    done
    shift
    echo "\$ $*"
    got=0
    timeout -k 5 60 "$@" >"$work/output" 2>&1 </dev/null || got=$?
    cat "$work/output"
    [ "$got" -eq "$status" ] ||
        die "$*: expected exit status $status; it was $got, and it printed: $(came "$work/output")"
    text=
    while IFS= read -r line; do
        if [ "$line" != . ]; then
            text=$text$line$newline
            continue
        fi
        text=${text%"$newline"}
        case $text in
        !*)
            [ -s "$work/output" ] || die "$*: expected some words; it printed nothing"
            ! has "${text#!}" "$work/output" ||
                die "$*: expected nothing of '${text#!}'; it printed: $(came "$work/output")"
            ;;
        *)
            has "$text" "$work/output" ||
                die "$*: expected '$text'; it printed: $(came "$work/output")"
            ;;
        esac
        text=
    done <"$work/texts"
}

# at_once STATUS TEXT... -- COMMAND...: the same, and earlier than the 15 s for which parties look for a
# broker.
at_once() {
    begun=$(date +%s)
    says "$@"
    took=$(($(date +%s) - begun))
    [ "$took" -lt 15 ] || die "errbus takes $took s where it should fail at once: $*"
}

# prints TEXT COMMAND...: exactly that on standard output, and status 0.
prints() {
    expected=$1
    shift
    echo "\$ $*"
    got=0
    timeout -k 5 60 "$@" >"$work/output" 2>"$work/complaint" </dev/null || got=$?
    cat "$work/output" "$work/complaint"
    [ "$got" -eq 0 ] ||
        die "$*: expected exit status 0; it was $got, and it complained: $(came "$work/complaint")"
    [ "$(cat "$work/output")" = "$expected" ] ||
        die "$*: expected '$expected' alone; it printed: $(came "$work/output")"
}

# starts COMMAND...: in the background, its output in $work/started; its process id is in $started.
starts() {
    echo "\$ $* &"
    : >"$work/started" # of the one before: the redirection below may come later than what follows
    "$@" >>"$work/started" 2>&1 </dev/null &
    started=$!
    pids="$pids $started"
}

# ends_started [SIGNAL]: what was started last ends; its status is in $got.
ends_started() {
    pids=${pids% *}
    [ $# -eq 0 ] || kill "-$1" "$started"
    got=0
    wait "$started" 2>"$work/complaint" || got=$? # a shell notes who was killed
    cat "$work/started"
}

# appears TEXT FILE: at last.
appears() {
    tries=0
    until has "$1" "$2"; do
        tries=$((tries + 1))
        [ "$tries" -le 300 ] || die "expected '$1'; ${2##*/} has: $(came "$2")"
        sleep 0.1
    done
}

# joined JOB PARTY: waits until it runs.
joined() {
    tries=0
    until timeout 60 errbus status -j "$1" >"$work/joined" 2>&1 &&
        case $(cat "$work/joined") in *"$2/1"*running*) ;; *) false ;; esac do
        tries=$((tries + 1))
        [ "$tries" -le 300 ] || die "expected $2 in $1; errbus status says: $(came "$work/joined")"
        sleep 0.1
    done
}

# takes_port: a port that is the item's: no other process is given it, also while nothing listens there.
takes_port() {
    : >"$work/port"
    newcomer port >>"$work/port" &
    holder=$!
    appears . "$work/port"
    host_port=127.0.0.1:$(cut -d . -f 1 "$work/port")
}

# runs_broker WORD...: a broker whose control endpoint is in ERRBUS_SERVER.
runs_broker() {
    log=$work/errbusd.log
    : >"$log"
    [ -n "$holder" ] || takes_port
    errbusd --control "tcp://$host_port" --data 'tcp://127.0.0.1:*' "$@" >"$log" 2>&1 &
    broker=$!
    appears 'errbusd ready control=' "$log"
    ready=$(tail -n 1 "$log")
    ERRBUS_SERVER=tcp://$host_port
    export ERRBUS_SERVER
}
stops_broker() {
    kill "$broker"
    got=0
    wait "$broker" || got=$?
    broker=
    [ "$got" -eq 0 ] || die "errbusd, told to stop: expected exit status 0; it was $got"
}

# ---- before there is a broker -------------------------------------------------------------------------
item_the_first_words() {
    says 2 'usage: errbus SUBCOMMAND' 'publish values' -- errbus
    says 0 'errbus 0.' -- errbus --version
    says 0 'usage: errbus pub' '--reserve-only' '--file' -- errbus help pub
    says 2 "did you mean 'status'?" -- errbus stauts
    says 2 'did you mean --reserve-only?' -- errbus pub --resrve-only x
    says 2 'expected a TOPIC' -- errbus pub
}

# Questions fail at once, and parties say what they wait for.
item_no_broker() {
    takes_port
    ERRBUS_SERVER=tcp://$host_port
    export ERRBUS_SERVER
    for question in status errors verdict why 'job show' 'dead list g'; do
        # shellcheck disable=SC2086 # several words
        at_once 5 "$host_port" 'no broker in reach' 'is errbusd running?' -- errbus $question
    done
    for command in 'pub -p alice grads x' 'sub #' 'request q 1' 'run -p alice -- true'; do
        # shellcheck disable=SC2086 # several words
        says 5 "waiting for a broker at" "$host_port" -- errbus ${command%% *} -W 1.5 ${command#* }
    done
    set -- "$TMPDIR"/errbus-run-*
    [ ! -e "$1" ] || die "errbus run without a broker: expected no folder of output; there is $1"
    at_once 5 'name-of-nobody.invalid does not resolve' -- errbus status -s name-of-nobody.invalid:7370
    runs_broker --journal none # host:port is taken without tcp://
    says 0 -- errbus pub -s "$host_port" -p alice grads 'gradients of round 0'
    prints 'gradients of round 0' errbus sub -s "$host_port" -C 1 alice/grads
}

item_an_empty_journal() {
    runs_broker --journal "$HOME/journal"
    [ "$(du -sk "$HOME/journal" | cut -f 1)" -le 1024 ] ||
        die "an empty journal: expected at most 1 MiB; it takes $(du -sk "$HOME/journal")"
    says 1 'it is in use by another process' -- errbusd --journal "$HOME/second" \
        --control "$ERRBUS_SERVER" --data 'tcp://127.0.0.1:*'
    [ ! -e "$HOME/second" ] || die 'a broker that does not start: expected no journal; there is one'
}

item_a_configuration_that_is_only_looked_at() {
    printf 'control = tcp://*:7370\nlingre = 1h\n' >bad.conf
    says 2 'bad.conf:2: ' 'lingre' -- errbusd --check-config --config bad.conf
    says 0 'linger = 10min' 'topic-keep' -- errbusd --check-config
    printf 'linger = 1h\0\n' >nul.conf
    says 2 'nul.conf:1: a NUL byte' -- errbusd --config nul.conf
}

item_others_can_reach_the_broker() {
    says 2 'can be reached from other machines' '--access FILE' '--open' -- errbusd --journal none \
        --control 'tcp://*:*' --data 'tcp://*:*'
    starts errbusd --open --journal none --control 'tcp://*:*' --data 'tcp://*:*'
    appears 'errbusd ready' "$work/started"
    ends_started TERM
    says 0 'warning: ' 'can be reached from beyond this machine' -- cat "$work/started"
}

# It says what it is, where it listens, what it restored, and why it ends.
item_the_log() {
    runs_broker --journal "$HOME/journal"
    says 0 -- errbus pub -p alice grads x
    stops_broker
    says 0 "$(errbus --version | cut -d ' ' -f 2)" "${ERRBUS_SERVER}" "$HOME/journal: new" 'SIGTERM' \
        -- cat "$log"
    runs_broker --journal "$HOME/journal"
    says 0 "$HOME/journal: restored" 'values: 1 of' -- cat "$log"
}

# ---- values -------------------------------------------------------------------------------------------
item_whole_values() {
    runs_broker --journal none
    printf 'one\ntwo\n' >value
    says 0 -- errbus pub -p alice whole --file value
    errbus pub -p alice whole - <value
    errbus sub --raw -C 2 alice/whole >both
    [ "$(wc -c <both)" -eq 16 ] || die "errbus sub --raw: expected 16 bytes; $(wc -c <both) came"
    says 1 'no-such-file: No such file' -- errbus pub -p alice whole --file no-such-file
}

item_a_value_that_is_too_large() {
    runs_broker --journal none --value-bytes 1000
    head -c 1001 /dev/zero >value
    says 1 'a value of 1001 bytes' 'the limit is 1000' -- errbus pub -p alice whole --file value
}

item_alice_of_the_first_page() {
    runs_broker --journal none
    says 0 'reserved alice/rounds 7' -- errbus pub -p alice rounds --reserve-only --seq 7 --hold 0.1
    says 3 'alice/rounds 7 failed' 'party_left' -- errbus sub -C 1 --from 7 alice/rounds
    says 0 -- errbus pub -p alice rounds --seq 8 'round 8'
    says 0 'round 8' -- errbus sub -C 1 --from 8 alice/rounds
}

item_a_topic_of_another_party() {
    runs_broker --journal none
    says 6 'belongs to another party' 'alice' -- errbus pub -p alice bob/x y
    says 0 'bus_publish: permission denied' 'a topic of another party' -- env ERRBUS_PARTY=alice newcomer wrong
    says 0 '!bob/x' -- errbus status --all
}

item_a_topic_of_one_level() {
    runs_broker --journal none
    says 0 -- errbus pub hello world
    says 2 "topics are PARTY/NAME; did you mean '+/hello'?" -- errbus sub hello
    says 0 '/1' '!hello/0' -- errbus status --all
}

item_a_misspelt_party() {
    runs_broker --journal none
    says 0 -- errbus pub -p alice grads x
    starts errbus sub alicf/grads
    appears "no party named 'alicf' has ever joined" "$work/started"
    appears "did you mean 'alice'?" "$work/started"
    ends_started TERM
    says 0 'bus_await: timed out' "bus_notice: success: no party named 'alicf' has ever joined" \
        -- env ERRBUS_PARTY=bob newcomer misspell
}

item_values_that_are_gone() {
    runs_broker --journal none --topic-keep 4096
    seq 1 2000 | errbus pub -p carol much
    says 0 'slots 0 to ' 'of carol/much are gone' -- errbus sub -C 1 --from 0 carol/much
    says 0 'slots 1 to ' 'of carol/much are gone' -- errbus sub -C 1 --from 1 carol/much
    says 0 '!gone' -- errbus sub -C 1 --from oldest carol/much
}

item_processes_that_share_a_terminal() {
    runs_broker --journal none
    says 0 -- errbus pub -p alice rounds --fail app.full:'no room'
    : >terminal
    readers=
    for n in 1 2 3 4; do
        timeout -k 5 60 errbus sub -p "reader-$n" -C 1 alice/rounds 2>>terminal &
        readers="$readers $!"
    done
    pids=$readers
    for reader in $readers; do
        got=0
        wait "$reader" || got=$?
        [ "$got" -eq 3 ] || die "a reader of a failed slot: expected exit status 3; it was $got"
    done
    pids=
    count=0
    while IFS= read -r line; do
        case $line in
        *'errbus sub: '*'errbus sub: '*) die "expected whole lines; two are one: $line" ;;
        'errbus sub: alice/rounds 0 failed') count=$((count + 1)) ;;
        'errbus sub: alice'* | 'errbus sub: waiting for a broker at '*) ;; # a busy one is late
        *) die "expected whole lines; this one is not: $line" ;;
        esac
    done <terminal
    [ "$count" -eq 4 ] || die "expected that 4 readers print the failed slot; $count do: $(came terminal)"
}

# ---- a program of the own -----------------------------------------------------------------------------
item_a_program_that_ends_without_a_word() {
    runs_broker --journal none
    for end in 'exit 3' 'handler 4' '_exit 3' 'abort 134'; do
        says "${end#* }" -- env ERRBUS_JOB=own "ERRBUS_PARTY=${end% *}" newcomer "${end% *}"
        says 3 "${end% *}: application app.disk_full: no space left" -- \
            errbus sub -j own -C 1 "${end% *}/grads"
    done
}

item_a_program_that_forgets_its_checks() {
    runs_broker --journal none
    prints 'all is refused' newcomer forget
    prints 'all is refused' newcomer_static forget
}

item_texts_of_codes_and_reasons() {
    runs_broker --journal none
    says 0 "bus_publish: permission denied: alice cannot write 'bob/x'" \
        "bus_slot_reserve: invalid argument: 'a//b' is not a topic" \
        "bus_sub_open: invalid argument: 'hello' matches no topic" "did you mean '+/hello'" \
        'bus_complete: invalid argument: ' 'codes: already settled, timed out' -- \
        env ERRBUS_PARTY=alice newcomer wrong
}

item_examples() {
    for example in first rounds workers durable; do
        [ -s "$tree/share/doc/errbus/examples/$example.c" ] || die "$example.c is not installed"
        [ "$(wc -l <"$tree/share/doc/errbus/examples/$example.c")" -lt 60 ] || die "$example.c is long"
    done
}

# ---- errbus run ---------------------------------------------------------------------------------------
item_a_program_that_is_run_twice() {
    runs_broker --journal none
    says 0 -- errbus run -j again -p maker -- errbus pub out 'value of run 1'
    says 0 -- errbus run -j again -p other -- errbus pub out 'model of run 1'
    says 0 -- errbus run -j again -p maker -- errbus pub out 'value of run 2'
    prints 'value of run 2' errbus sub -j again -C 1 maker/out
    says 0 -- errbus pub -j again -p other out 'model of run 2'
    prints 'model of run 2' errbus sub -j again -C 1 other/out
    # One that is killed goes on where it was.
    starts errbus pub --new-run -j again -p maker out --reserve-only
    appears 'reserved maker/out 0' "$work/started"
    ends_started KILL
    says 0 -- errbus run -j again -p maker -- errbus pub out 'the rest of run 3'
    prints 'the rest of run 3' errbus sub -j again -C 1 --from 1 maker/out
    # A cancelled job begins anew once it is over.
    says 0 -- errbus job cancel -j again
    tries=0
    until timeout -k 5 60 errbus pub -j again -p maker out 'value of run 4' >cancelled 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -le 300 ] || die "expected that a cancelled job begins anew; it says: $(came cancelled)"
        sleep 0.1
    done
    prints 'value of run 4' errbus sub -j again -C 1 maker/out
}

item_a_job_that_is_forgotten() {
    runs_broker --journal none
    says 0 -- errbus pub -j once -p alice out 'of old'
    says 0 'forgotten: 1 party,' -- errbus job forget once
    says 2 'there is no job once' -- errbus status -j once
    says 0 -- errbus pub -j once -p alice out 'of now'
    prints 'of now' errbus sub -j once -C 1 alice/out
}

item_a_program_that_fails_with_a_traceback() {
    runs_broker --journal none
    # shellcheck disable=SC2016 # for the shell of the program
    program='
        echo "Traceback (most recent call last):" >&2
        echo "  File \"train.py\", line 12, in <module>" >&2
        echo "    load(SECRET)" >&2
        echo "ValueError: no such file" >&2
        exit 9'
    says 9 'ValueError: no such file' -- errbus run -p trainer -- sh -c "$program"
    says 0 'trainer: application run.exit_status' 'ValueError: no such file' '!SECRET' -- errbus errors
    says 3 'ValueError: no such file' '!SECRET' -- errbus verdict
    says 9 -- env ERRBUS_DISCLOSURE=full errbus run -j full -p trainer -- sh -c "$program"
    says 0 '"stacktrace":' 'SECRET' -- errbus errors -j full --json
}

item_the_cause_ends_after_its_victim() {
    runs_broker --journal none
    # shellcheck disable=SC2016 # for the shell of the program
    says 1 -- errbus run -j late -p w -n 2 --grace 1 -- sh -c '
        if [ "$RANK" -eq 0 ]; then
            trap "sleep 0.5; exit 1" TERM
            printf "{\"message\":{\"message\":\"out of paper\"}}" >"$ERRBUS_ERROR_FILE"
            : >said
            sleep 1
            exit 1
        fi
        until [ -e said ]; do sleep 0.05; done
        sleep 0.1
        echo victim >&2
        exit 1'
    says 3 'final verdict' '
  w-0/1: application' 'out of paper' -- errbus verdict -f -j late
}

item_an_error_file_that_is_far_too_long() {
    runs_broker --journal none
    says 0 -- errbus job create -j large --min 1 --max 1 --max-restarts 2 --join-window 0.2
    # shellcheck disable=SC2016 # for the shell of the program
    says 1 'app.tokens: out of tokens' -- errbus run -j large -p large -- sh -c '
        echo begun >>begun
        { printf "{\"stacktrace\":\""
          head -c 1200000 /dev/zero | tr "\\000" x
          printf "\",\"type\":\"app.tokens\",\"message\":\"out of tokens\",\"code\":7,"
          printf "\"recoverable\":false}"; } >"$ERRBUS_ERROR_FILE"
        exit 1'
    says 0 'app.tokens: out of tokens' '!xxxxxxxxxxxxxxxxxxxx' -- errbus errors -j large
    says 0 '"recoverable":false' '"code":7' -- errbus errors -j large --json
    [ "$(wc -l <begun)" -eq 1 ] ||
        die "expected one attempt, for another one is pointless; there were $(wc -l <begun)"
}

item_a_job_that_nobody_fills() {
    runs_broker --journal none
    for job in run member; do
        says 0 -- errbus job create -j "$job" --min 2 --join-window 0.2 --join-timeout 1
    done
    says 3 '1 of 2 parties joined' 'errbus.too_few_joined' -- errbus run -j run -p alone -- sleep 30
    says 0 'bus_membership_wait: ' 'bus_verdict: success: ' '1 of 2 parties joined' -- \
        env ERRBUS_JOB=member ERRBUS_PARTY=alone newcomer member
}

# ---- questions ----------------------------------------------------------------------------------------
# A summary first, then columns, parties by name and number.
item_status() {
    runs_broker --journal "$HOME/journal"
    for n in 10 2; do
        starts errbus pub -p "worker-$n" out --reserve-only --hold 30
        appears "reserved worker-$n/out 0" "$work/started"
    done
    starts errbus pub -p dave out --reserve-only
    appears 'reserved dave/out 0' "$work/started"
    ends_started KILL
    says 3 'party dave lost' -- errbus sub -C 1 dave/out
    says 0 ' running, ' ' lost, ' ' left; ' ' open slots; journal well' 'PARTY ' 'STATE' \
        ' lost ' 'errbus.connection_closed' '!last sign of life' -- errbus status
    case $(cat "$work/output") in
    *worker-2/1*worker-10/1*) ;;
    *) die "errbus status: expected worker-2 before worker-10; it printed: $(came "$work/output")" ;;
    esac
    [ "$(wc -l <"$work/output")" -le 40 ] || die 'errbus status: expected at most 40 lines'
}

item_verdict() {
    runs_broker --journal none
    starts errbus sub -p eve '#'
    joined default eve
    says 8 'goes on (' 'running' -- errbus verdict
    says 0 -- errbus pub -j well -p alice grads x
    says 0 'no verdict: job well ended well (1 left)' -- errbus verdict -j well
    says 3 -- errbus run -j bad -p alice -- sh -c 'exit 3'
    says 3 'final verdict' 'alice/1: application run.exit_status' -- errbus verdict -j bad
}

item_a_misspelt_job() {
    runs_broker --journal none
    says 0 -- errbus pub -p alice grads x
    for question in errors status verdict why 'job show' 'job forget typo' 'job cancel'; do
        # shellcheck disable=SC2086 # several words
        says 2 'there is no job typo; the jobs are default' -- errbus $question -j typo
    done
    says 2 'cancel which job?' -- errbus job cancel
    says 0 'alice/' '!cancelled' -- errbus status # nothing was cancelled
}

item_who_was_terminated() {
    runs_broker --journal none
    starts errbus sub -j doomed -p eve '#'
    joined doomed eve
    says 0 -- errbus job cancel -j doomed
    ends_started
    case $got in 0 | 12[4-9] | 1[3-9]?) die "eve, whose job was cancelled: expected an error; got $got" ;; esac
    appears 'cancelled' "$work/started"
    says 0 'job was cancelled' 'eve' -- errbus errors -j doomed
    says 0 -- errbus job create -j made --min 1 --max 1
    says 0 '!of 0' -- errbus job show -j made
}

item_each_end_of_a_party() {
    runs_broker --journal none
    says 0 -- errbus pub -p alice grads 1
    says 0 -- errbus pub -p alice grads 2
    starts errbus sub alice/grads
    appears 'alice/1 ended' "$work/started"
    appears 'alice/2 ended' "$work/started"
    ends_started TERM
}

# ---- habits -------------------------------------------------------------------------------------------
item_control_c() {
    runs_broker --journal none
    # A command that is stopped before it heeds signals leaves a lost party: its job has a verdict.
    starts errbus sub -j calm -p eve '#'
    joined calm eve
    for command in 'sub #' tap 'pub w -p x --reserve-only' 'request -p y q 1' 'worker -p z g -- true' \
        'run -p v -- sleep 30' 'status -C 99' 'verdict -j calm --final'; do
        # shellcheck disable=SC2086 # several words
        says 130 -- timeout --preserve-status -s INT 0.7 errbus $command
    done
}

item_a_terminal() {
    runs_broker --journal none
    escape=$(printf '\033')
    says 0 -- errbus pub -p alice grads x
    says 0 "${escape}[" -- env TERM=xterm newcomer terminal errbus tap --from oldest -C 2
    says 0 "!${escape}[" -- env TERM=xterm NO_COLOR=1 newcomer terminal errbus tap --from oldest -C 2
    says 0 "!${escape}[" -- env TERM=dumb newcomer terminal errbus tap --from oldest -C 2
    # shellcheck disable=SC2016 # for the shell of the worker
    starts errbus worker -p squarer squares -- sh -c 'read n; echo $((n * n))'
    prints 49 errbus request -p boss squares 7
    newcomer terminal errbus request -p boss squares 8 >reply
    [ "$(tail -c 1 reply | wc -l)" -eq 1 ] || die "expected a newline behind the reply: $(came reply)"
    [ "$(tail -n 1 reply | tr -d '\r')" = 64 ] || die "expected the reply 64: $(came reply)"
}

# ---- further machines, and the day after --------------------------------------------------------------
item_a_tunnel() {
    runs_broker --journal none
    data=${ready#*data=}
    data=${data%% *}
    data=${data##*:}
    says 0 -- errbus pub -s "$host_port,data=$data" -p tunnel grads x
    prints x errbus sub -s "$host_port,data=$data" -C 1 tunnel/grads
    at_once 5 'not its data channel at tcp://127.0.0.1:1:' 'data=HOST:PORT' -- \
        errbus pub -s "$host_port,data=1" -W 4 -p tunnel grads y
    for command in 'pub -p tunnel grads x' status 'sub #'; do
        # shellcheck disable=SC2086 # several words
        at_once 2 "127.0.0.1:$data" 'this is the data channel' "$host_port" -- \
            errbus ${command} -s "127.0.0.1:$data"
    done
}

item_back_up() {
    runs_broker --journal "$HOME/journal"
    says 0 -- errbus pub -p alice grads 'gradients of round 0'
    stops_broker
    cp -R "$HOME/journal" "$HOME/copy"
    says 0 "journal in '$HOME/copy' is whole" -- errbusd --check "$HOME/copy"
    runs_broker --journal "$HOME/copy"
    says 0 'gradients of round 0' -- errbus sub -C 1 alice/grads
}

# ---- all of them --------------------------------------------------------------------------------------
# show_log STATUS: that of the broker, if its item failed.
show_log() {
    [ "$1" -eq 0 ] || [ ! -s "$work/errbusd.log" ] || {
        echo "---- the log of errbusd"
        tail -n 40 "$work/errbusd.log"
    }
}

# play ITEM: in a process of its own, so that the next item runs also if this one fails.
play() (
    part=$1
    HOME=$work/home/$part
    mkdir "$HOME"
    export HOME
    cd "$HOME"
    : >"$work/errbusd.log"
    unset ERRBUS_SERVER
    # shellcheck disable=SC2086 # several words
    trap 'code=$?; stop $pids $broker $holder; show_log "$code"' EXIT
    "item_$part"
    [ -z "$broker" ] || stops_broker
)

is_wordy=$#
# shellcheck disable=SC2086 # several words
[ $# -gt 0 ] || set -- $all
: >"$work/faults"
for item; do
    case " $all" in *" $item "*) ;; *) die "there is no item $item" ;; esac
    begun=$(date +%s)
    known=$(wc -l <"$work/faults")
    set +e # in a condition, set -e would not hold in the item either
    play "$item" >"$work/transcript" 2>&1
    code=$?
    set -e
    took=$(($(date +%s) - begun))
    [ "$code" -ne 0 ] || [ "$is_wordy" -gt 0 ] || {
        echo "passed: $item, $took s"
        continue
    }
    printf '\n==== %s, %s s\n' "$item" "$took"
    cat "$work/transcript"
    [ "$code" -eq 0 ] || [ "$(wc -l <"$work/faults")" -gt "$known" ] ||
        fault "$item: expected that each command succeeds; one ended with $code"
done
end_with_faults
printf '\nthe first hour is over\n'

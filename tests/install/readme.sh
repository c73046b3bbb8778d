#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: readme.sh SOURCE BUILD CMAKE
# README.md is true: the tree is installed as it says, and all its console sessions are run, one after
# the other in one shell with a home of its own. They print what stands there, apart from times, event
# numbers and where lines are broken. Only the endpoints differ, so that no other broker is met.
set -eu
source=$1
build=$2
cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/log $work/output $work/home/errbusd.log"

# plain: without what differs each time, a word a line: times, numbers of events, and for how many
# seconds somebody waits. The shell's own notes of killed jobs go too.
plain() {
    sed -E -e 's/^ *[0-9]+ [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{3} /EVENT TIME /' \
        -e 's/(since|last heard) [0-9]+([.][0-9])? s/\1 N s/g' \
        -e '/^.*: line [0-9]+: +[0-9]+ Killed /d' | tr -s ' \n' '\n'
}

# block LANGUAGE: the blocks of README.md in it.
block() {
    awk -v begin="\`\`\`$1" '/^```/ { inside = $0 == begin; next } inside' "$source/README.md"
}

mkdir "$work/home"
: >"$work/log"
: >"$work/output"
unset STATE_DIRECTORY XDG_STATE_HOME ERRBUS_JOB ERRBUS_PARTY LD_LIBRARY_PATH
export HOME="$work/home" ERRBUS_SERVER="ipc://$work/control"
cd "$HOME"

# ---- installed ----------------------------------------------------------------------------------------
block sh | grep -q -F 'cmake --install build/release --prefix ~/.local' || die "no way to install"
"$cmake" --install "$build" --prefix ~/.local >"$work/log" 2>&1 || die "cannot install"
mv ~/.local/bin/errbusd ~/.local/bin/errbusd.real
cat >~/.local/bin/errbusd <<END
#!/bin/sh
exec ~/.local/bin/errbusd.real --control "ipc://$work/control" --data "ipc://$work/data" "\$@"
END
chmod +x ~/.local/bin/errbusd

# ---- run ----------------------------------------------------------------------------------------------
block c >bob.c
block console >"$work/shown"
grep -v '^\$ ' "$work/shown" | plain >"$work/expected"
{
    echo "trap 'kill \$(jobs -p) 2>/dev/null; wait' EXIT"
    block sh | grep '^export '
    # README.md waits for five seconds, and here the wait ends when all three wait for Carol.
    sed -n 's/^\$ //p' "$work/shown" | awk '$0 == "sleep 5" {
        print "until errbus why -j fl 2>&1 | tr -s \"\\n\" \" \" | grep -q " \
            "\"^aggregator, alice and bob wait.*carol/weights#3\"; do sleep 0.2; done"
        next } { print }'
} >"$work/script"
[ "$(grep -c '^until errbus why' "$work/script")" -eq 1 ] || die "README.md shows no round that is stuck"
[ "$(grep -c '^errbus' "$work/script")" -ge 10 ] || die "README.md shows too little"
# play SCRIPT: what it prints is what README.md shows.
play() {
    timeout 300 bash "$1" >"$work/output" 2>&1 </dev/null || [ $? -ne 124 ] || die "a command does not end"
    # On a busy machine a broker may take longer to start than a reader waits in silence.
    grep -v ': waiting for a broker at ' "$work/output" | plain >"$work/came"
    diff "$work/expected" "$work/came" >"$work/difference" ||
        die "README.md has the words '<', and those of '>' came: $(cat "$work/difference")"
}

play "$work/script"
[ -d ~/.local/state/errbus/journal ] || die "the journal is not where README.md says"
# Played again over the same journal: the job has parties and values, and is forgotten first.
awk '{ print } /^errbusd / && !done { print "for job in fl default; do until errbus job forget -W 20 $job >forgotten 2>refused;" \
    " do sleep 1; done; done"; done = 1 }' \
    "$work/script" >"$work/again"
grep -q "errbus job forget" "$work/again" || die "nothing forgets the first session"
rm alice.log # Bob waits until it has a word, and that of the first session would do
play "$work/again"
grep -q '^forgotten: [1-9]' forgotten || die "nothing was forgotten"
# Played on without that, over a broker that starts again: the reader says that value and failure are not
# those of this session. What is new has other numbers.
sed -n '/^trap/p; /^export/p; /^errbusd .*broker=/p' "$work/script" >"$work/on"
sed -n '/^errbusd /d; /^trap/d; /^export/d; p; /^errbus sub .*--from 1 /q' "$work/script" >>"$work/on"
[ "$(grep -c '^errbus \|^timeout ' "$work/on")" -eq 4 ] || die "the first session is another one"
timeout 300 bash "$work/on" >"$work/output" 2>&1 </dev/null || [ $? -eq 3 ] || die "a third session fails"
# meets PATTERN: a line of the output.
meets() {
    grep -q -e "$1" "$work/output" || die "the session does not say: $1"
}
meets '^errbus sub: alice/grads: number 0 is of alice/1, which ended; alice began again with 1$'
meets '^gradients of round 0$'
meets '^reserved alice/grads [2-9][0-9]*$'
meets '^errbus sub: alice/grads: number 1 is of alice/2, which ended; alice began again with 2$'
meets '^errbus sub: alice/grads 1 failed$'
grep -q -F '(default/alice/2/2)' "$work/output" || die "the failure of number 1 is another one"
# The promise of this session fails as that of the first one did, under its own number.
number=$(sed -n 's/^reserved alice.grads //p' "$work/output")
{
    sed -n '/^trap/p; /^export/p; /^errbusd .*broker=/p' "$work/script"
    echo "errbus sub -C 1 --from $number alice/grads"
} >"$work/on"
timeout 300 bash "$work/on" >"$work/output" 2>&1 </dev/null || [ $? -eq 3 ] || die "the new promise is not there"
meets "^errbus sub: alice/grads $number failed"'$'
! grep -q 'which ended; alice began again' "$work/output" || die "the newest Alice is taken for an earlier one"
echo "the commands of README.md print what it shows"

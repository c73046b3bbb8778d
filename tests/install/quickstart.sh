#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: quickstart.sh SOURCE
# Runs the script `quickstart` where all that it calls is made up: what it installs, as whom, with
# what words; that it builds and tests what it says; and that nothing is installed, so nothing asked
# of the network, when nothing is missing.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/calls $work/out"

# fake NAME LINE...: a command that notes how it was called, and then does this.
fake() {
    name=$1
    shift
    {
        printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' "$name" "$work"
        printf '%s\n' "$@"
    } >"$work/bin/$name"
    chmod +x "$work/bin/$name"
}

# The name of the folder has a blank in it, and we are in another one.
clone="$work/a clone"
mkdir "$work/bin" "$clone" "$clone/bench" "$clone/clients" "$clone/clients/fedavg"
cp "$source/quickstart" "$clone"
for tool in sh dirname sed cat rm mkdir; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
fake cmake
fake apt-get '[ -z "${APT_FAILS-}" ] || exit 1' \
    'case " $* " in *" ${APT_LACKS:-nothing} "*) exit 1 ;; esac'
fake dpkg-query 'case " $MISSING " in *" $4 "*) exit 1 ;; esac' 'echo installed'
fake id 'echo "$USER_ID"'
fake demo 'echo shown'
cp "$work/bin/demo" "$clone/clients/fedavg/demo.sh"
cp "$work/bin/demo" "$clone/clients/fedavg/cluster.sh"
cp "$work/bin/demo" "$clone/bench/run.sh"
mkdir "$clone/tests" "$clone/tests/prove"
fake prove '[ "$1" != --targets ] || [ "${2-}" = long ] || echo errbusd prove'
cp "$work/bin/prove" "$clone/tests/prove/run.sh"
mkdir -p "$clone/clients/python/interop"
fake interop
cp "$work/bin/interop" "$clone/clients/python/interop/run.sh"
export NOTES="$work/calls"
fake ctest 'echo "open files: $(ulimit -Sn)" >>"$NOTES"' 'mkdir -p "build/$2/Testing/Temporary"' \
    'if [ -n "${CTEST_4-}" ] && [ "$FAILED" -eq 0 ]; then' \
    '    echo "100% tests passed out of 10" >"$4"' \
    'else' \
    '    echo "90% tests passed, $FAILED tests failed out of 10" >"$4"' \
    'fi' \
    '[ -z "${SKIPS-}" ] || [ "$2" != dev ] || {' \
    '    printf "The following tests did not run:\n\t  4 - rule/format (Skipped)\n" >>"$4"' \
    '    printf "\t  9 - cut/short (Skipped)     cut\n" >>"$4"' \
    '    printf "4/9 Test: rule/format\nskipped: no clang-format here\n<end of output>\n[SKIP] run::a: no b\nSKIPPED [1] a.py:3: no mypy here\n" \' \
    '        >"build/$2/Testing/Temporary/LastTest.log"' \
    '}'
MISSING=
USER_ID=1000
FAILED=0
export MISSING USER_ID FAILED

# run STATUS WORD...: the script, which ends with this.
run() {
    expected=$1
    shift
    : >"$work/calls"
    status=0
    (cd / && PATH=$work/bin "$clone/quickstart" "$@") >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" -eq "$expected" ] || die "quickstart $*: ended with $status, not $expected"
}
called() {
    grep -q -- "^$1" "$work/calls" || die "not called: $1"
}
not_called() {
    [ -f "$work/calls" ] || die "what is called is not written down"
    ! grep -q -- "^$1" "$work/calls" || die "called: $1"
}
said() {
    grep -q -- "$1" "$work/out" || die "not said: $1"
}

# ---- nothing is missing -------------------------------------------------------------------------
run 0
not_called apt-get
called 'cmake --preset release'
called 'cmake --build --preset release --target errbusd errbus fedavg'
said shown
run 0 build
not_called apt-get
called 'cmake --build --preset release --target installed$'

# ---- tests: the last line has the sum -----------------------------------------------------------
last_is() {
    [ "$(tail -n 1 "$work/out")" = "$1" ] || die "the last line is not: $1"
}
run 0 test
called 'ctest --preset dev'
called 'ctest --preset tsan'
last_is '20 passed, 0 failed, 0 skipped'
FAILED=3
run 1 test
last_is '14 passed, 6 failed, 0 skipped'
FAILED=0
CTEST_4=yes
export CTEST_4
run 0 test
last_is '20 passed, 0 failed, 0 skipped'
unset CTEST_4

# A shell with few open files gets as many as tests need, or as it may have.
most=$(ulimit -Hn)
[ "$most" != unlimited ] && [ "$most" -lt 20000 ] || most=20000
(
    ulimit -Sn 1024
    run 0 test
    called "open files: $most$"
    ulimit -Hn 4096
    run 0 test
    called 'open files: 4096$'
    said 'some tests need 20000 open files, and 4096 are allowed'
)
# A test that was skipped has not passed, and the end says why it was skipped.
SKIPS=yes
export SKIPS
run 0 test
last_is '18 passed, 0 failed, 2 skipped'
said '^  rule/format (dev): no clang-format here$'
said '^  cut/short (dev): it gave no reason$'
said '^  in part (dev): run::a: no b$'
said '^  in part (dev): a.py:3: no mypy here$'
unset SKIPS

# ---- what the Python package alone needs keeps nothing away ----------------------------------------
MISSING='python3-cffi'
run 0 build
not_called apt-get
APT_FAILS=yes USER_ID=0
export APT_FAILS
run 0 test
called 'apt-get update$'
said 'the Python package is left out; this failed: .*install -y --no-install-recommends python3-cffi$'
last_is '20 passed, 0 failed, 0 skipped'
MISSING='systemd'
run 0 build
not_called apt-get
run 0 test
called 'apt-get update$'
said 'these tests are skipped; this failed: .*install -y --no-install-recommends systemd$'
unset APT_FAILS
USER_ID=1000

# ---- what is optional keeps nothing away, either --------------------------------------------------
MISSING='libsodium-dev'
run 0 build
not_called apt-get
said 'built without libsodium-dev; run this as root'
called 'cmake --build'
MISSING='libsodium-dev cmake'
run 1 build
not_called 'cmake --build'

# ---- something is missing -----------------------------------------------------------------------
MISSING='libczmq-dev cmake'
words='apt-get update && apt-get install -y --no-install-recommends cmake libczmq-dev'
run 1 build
said "run this as root, then ./quickstart again: $words$"
not_called apt-get
not_called cmake
fake sudo 'exit 1' # who would ask for a password, of whom nobody is there to type it
run 1 test
said "run this as root, then ./quickstart again: $words$"
not_called apt-get
fake sudo 'for word; do case $word in -n | *=*) shift ;; *) break ;; esac; done' '"$@"'
run 0 build
called 'apt-get update$'
called 'apt-get install -y --no-install-recommends cmake libczmq-dev$'
called 'cmake --build'
rm "$work/bin/sudo"
USER_ID=0
run 0 build
called 'apt-get update$'
called 'apt-get install -y --no-install-recommends cmake libczmq-dev$'
APT_FAILS=yes
export APT_FAILS
run 1 build
said "this failed: $words"
not_called cmake

# ---- what only bench asks for -------------------------------------------------------------------
unset APT_FAILS
MISSING='nats-server gnuplot-nox'
run 0 build
not_called apt-get
run 0 bench --quick
called 'apt-get install -y --no-install-recommends gnuplot-nox nats-server$'
called 'cmake --build --preset release --target measured$'
called 'demo build/release --quick$'
APT_FAILS=yes
export APT_FAILS
run 0 bench
said 'measured without gnuplot-nox nats-server; apt-get said why$'
called 'demo build/release$'
APT_LACKS=nats-server
export APT_LACKS
unset APT_FAILS
run 0 bench # the one that is not to be had keeps the other away from nobody
said 'measured without nats-server; apt-get said why$'
called 'apt-get install -y --no-install-recommends gnuplot-nox$'
called 'demo build/release$'
APT_LACKS=
APT_FAILS=yes
export APT_FAILS
USER_ID=1000
run 0 bench
said 'measured without them; run this as root'
not_called apt-get
called 'demo build/release$'

# ---- what prove asks for, and how it goes on without it -----------------------------------------
run 0 prove 30
said 'no plots; run this as root'
called 'cmake --build --preset release --target errbusd prove$'
called 'prove build/release 30$'
MISSING=
run 0 prove long
called 'cmake --build --preset release$'
called 'prove build/release long$'

# ---- what interop asks for, and how it goes on without it ---------------------------------------
MISSING='python3-venv'
run 0 interop --rayfed-source somewhere
said 'tried without; run this as root'
called 'cmake --build --preset release --target errbusd errbus$'
called 'interop build/release --rayfed-source somewhere$'
MISSING=

# ---- the cluster has no sense without a database -------------------------------------------------
MISSING='postgresql-15'
run 1 cluster
said 'run this as root, then ./quickstart again: .* postgresql-15$'
not_called cmake
MISSING=
run 0 cluster
called 'cmake --build --preset release --target errbusd fedavg$'
called 'demo build/release$'

# ---- usage, and what is told of it --------------------------------------------------------------
run 2 nonsense
said './quickstart test'
grep -q '^\./quickstart  ' "$source/README.md" || die "README.md does not show the demonstration"
grep -q '^\./quickstart cluster  ' "$source/README.md" || die "README.md does not show the cluster"
grep -q '^\./quickstart test  ' "$source/README.md" || die "README.md does not show the tests"
grep -q '^\./quickstart prove  ' "$source/README.md" || die "README.md does not show the proof"
grep -q '^\./quickstart interop  ' "$source/README.md" || die "README.md does not show interop"
grep -q '\./quickstart test$' "$source/.ci/run" || die ".ci/run does not run the tests of README.md"
echo "seen with nothing and something missing, as root, by sudo and as nobody in particular"

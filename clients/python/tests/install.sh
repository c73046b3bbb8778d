#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: install.sh SOURCE BUILD CMAKE PYTHON
# The package is installed as its README says, beside an installed Errbus: as a wheel made of the
# source distribution, by pip, into a fresh virtual environment, with nothing asked of a network.
set -eu
source=$1 build=$2 cmake=$3 python=$4
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker"; rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$source/tests/lib/faults.sh"
evidence=$work/log

"$python" -c 'import setuptools, cffi, pip, venv, wheel' 2>"$work/log" || {
    echo "skipped: $(tail -n 1 "$work/log"); install python3-pip python3-venv python3-wheel"
    exit 77
}
unset PYTHONPATH ERRBUS_INCLUDE ERRBUS_LIB LD_LIBRARY_PATH
prefix=$work/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || die "cannot install Errbus"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PIP_FIND_LINKS

# setuptools writes beside the source, which stays as it is.
cp -R "$source/clients/python" "$work/package"
(cd "$work/package" && "$python" setup.py -q sdist -d "$work") >"$work/log" 2>&1 || die "no sdist"
# The environment has the Python of Debian with its cffi and setuptools, and no errbus.
"$python" -m venv --system-site-packages "$work/venv" >"$work/log" 2>&1 || die "no environment"
"$work/venv/bin/pip" wheel --no-build-isolation --no-deps -w "$work" "$work"/errbus-*.tar.gz \
    >"$work/log" 2>&1 || die "the source distribution makes no wheel"
for wheel in "$work"/errbus-*-cp39-abi3-*.whl; do
    [ -e "$wheel" ] || die "the wheel is not for each Python from 3.9 on"
done
"$work/venv/bin/pip" install --no-deps "$wheel" >"$work/log" 2>&1 || die "cannot install the wheel"

: >"$work/ready"
"$prefix/bin/errbusd" --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' --journal none \
    >"$work/ready" 2>"$work/log" &
broker=$!
until grep -q ready "$work/ready"; do
    kill -0 "$broker" || die "no broker"
    sleep 0.05
done
ERRBUS_SERVER=$(sed -n 's/.*control=\([^ ]*\).*/\1/p' "$work/ready")
export ERRBUS_SERVER
cd "$work"
"$work/venv/bin/python" -m errbus >"$work/said" 2>"$work/log" || die "the doctor finds nothing"
grep -q "^package  $work/venv" "$work/said" || die "another package is found: $(cat "$work/said")"
"$work/venv/bin/python" -c '
import errbus
with errbus.open(party="alice") as bus:
    bus.publish("w", b"value")
    assert bytes(bus.get("alice/w", 0, 10)) == b"value"
' >"$work/log" 2>&1 || die "a value does not come"
echo "$(basename "$wheel") is installed, finds the broker and carries a value"

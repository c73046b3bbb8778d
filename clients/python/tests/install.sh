#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: install.sh SOURCE BUILD CMAKE PYTHON
# The package is installed by the lines of its README, beside an installed Errbus: from the source
# distribution, into a fresh virtual environment, with nothing asked of a network.
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
mkdir -p "$work/home" "$work/tree/clients/python"
tar -xzf "$work"/errbus-*.tar.gz -C "$work/tree/clients/python" --strip-components=1

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
# The first block of commands: all but those of apt.
awk '/^```/ { if (is_in) exit; is_in = $0 == "```sh"; next } is_in && !/^sudo apt /' \
    "$work/tree/clients/python/README.md" >"$work/lines"
[ "$(grep -c . "$work/lines")" -eq 4 ] || die "the README has other lines: $(cat "$work/lines")"
(cd "$work/tree" && HOME=$work/home sh -e "$work/lines") >"$work/said" 2>"$work/log" ||
    die "the lines of the README fail: $(cat "$work/said")"
environment=$work/home/errbus-python
grep -q "^package  $environment/" "$work/said" || die "another package: $(cat "$work/said")"
[ "$(tail -n 1 "$work/said")" = well ] || die "the doctor finds something: $(cat "$work/said")"
cat "$environment"/lib/python3*/site-packages/errbus-*.dist-info/WHEEL >"$work/log"
grep -q '^Tag: cp39-abi3-' "$work/log" || die "the wheel is not for each Python from 3.9 on"
cd "$work"
"$environment/bin/python" -c '
import errbus
with errbus.open(party="alice") as bus:
    bus.publish("w", b"value")
    assert bytes(bus.get("alice/w", 0, 10)) == b"value"
' >"$work/log" 2>&1 || die "a value does not come"
echo "the lines of the README install a package that finds the broker and carries a value"

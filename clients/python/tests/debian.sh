#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: debian.sh SOURCE BUILD
# Makes Debian's packages of the library and of the Python package, of the library in BUILD: apt would
# install them beside the packages that are here, and what they hold works where they put it.
set -eu
source=$1 build=$2
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker"; rm -rf "$work"' EXIT

die() {
    echo "debian: $*" >&2
    cat "$work/log" >&2
    exit 1
}

for tool in dh dh_python3 apt-get; do
    command -v $tool >/dev/null || {
        echo "skipped: there is no $tool; install debhelper dh-python"
        exit 77
    }
done
unset PYTHONPATH ERRBUS_INCLUDE ERRBUS_LIB LD_LIBRARY_PATH

# debhelper writes beside the source, which stays as it is; the packages come to the folder above.
mkdir -p "$work/tree/clients" "$work/tree/libbus"
cp -R "$source/debian" "$work/tree"
cp -R "$source/clients/python" "$work/tree/clients"
cp -R "$source/libbus/include" "$work/tree/libbus"
# debian/control says that no root is needed; dpkg-buildpackage(1) passes that on.
(cd "$work/tree" && BUILT=$build DEB_BUILD_OPTIONS=noautodbgsym DEB_RULES_REQUIRES_ROOT=no \
    debian/rules binary) >"$work/log" 2>&1 || die "the packages are not made"
version=$(sed -n 's/^#define BUS_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/libbus/include/bus/bus.h" |
    paste -sd.)
for name in libbus0 python3-errbus; do
    for package in "$work/${name}_${version}_"*.deb; do
        [ -e "$package" ] || die "no $name of version $version"
        dpkg-deb -x "$package" "$work/root"
    done
done

# Alone the Python package lacks the library; both find all else in what is installed here.
wants() {
    apt-get install -s "$@" >"$work/log" 2>&1
}
! wants "$work"/python3-errbus_*.deb || die "the Python package does not need libbus0"
grep -q 'Depends: libbus0' "$work/log" || die "apt-get says nothing of libbus0"
wants "$work"/libbus0_*.deb "$work"/python3-errbus_*.deb || die "apt-get would not install them"
[ "$(grep -c '^Inst ' "$work/log")" = 2 ] || die "they need what is not installed here"

# A folder of the build would be searched for the library on each machine.
module=$work/root/usr/lib/python3/dist-packages
objdump -p "$module"/errbus/_errbus.abi3.so >"$work/log"
! grep -E 'R(UN)?PATH' "$work/log" || die "the extension has a path to a library"
"$build/broker/errbusd" --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' --journal none \
    >"$work/ready" 2>"$work/log" &
broker=$!
until grep -q ready "$work/ready"; do
    kill -0 "$broker" || die "no broker"
    sleep 0.05
done
ERRBUS_SERVER=$(sed -n 's/.*control=\([^ ]*\).*/\1/p' "$work/ready")
export ERRBUS_SERVER PYTHONPATH="$module" PYTHONDONTWRITEBYTECODE=1
LD_LIBRARY_PATH=$(dirname "$work"/root/usr/lib/*/libbus.so.0)
export LD_LIBRARY_PATH
cd "$work"
/usr/bin/python3 -m errbus >"$work/said" 2>"$work/log" || die "the doctor finds something"
grep -q "^package  $module/errbus" "$work/said" || die "another package: $(cat "$work/said")"
/usr/bin/python3 -c '
import errbus
with errbus.open(party="alice") as bus:
    bus.publish("w", b"value")
    assert bytes(bus.get("alice/w", 0, 20)) == b"value"
' >"$work/log" 2>&1 || die "a value does not come"
/usr/bin/python3 -c '
from importlib.metadata import entry_points, version
assert version("errbus") == "'"$version"'"
assert [one.name for one in entry_points(group="torchrun.handlers")] == ["errbus"]
' >"$work/log" 2>&1 || die "its metadata is not found"
echo "libbus0 and python3-errbus $version are made, and carry a value"

#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: packages.sh SOURCE
# Debian's packages are built from a clean copy; lintian finds nothing; unpacked, they carry a first
# value and a first failure, and a page; a function that is gone fails the build; a purge keeps the
# journal.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence=$work/log

for tool in dpkg-buildpackage dh dh_python3 lintian; do
    command -v "$tool" >/dev/null || {
        echo "skipped: there is no $tool; install debhelper dh-python lintian"
        exit 77
    }
done
unset PYTHONPATH ERRBUS_INCLUDE ERRBUS_LIB LD_LIBRARY_PATH STATE_DIRECTORY

mkdir "$work/tree"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/tree" -xf -
cd "$work/tree"
dpkg-checkbuilddeps 2>"$work/log" || {
    echo "skipped: $(cat "$work/log")"
    exit 77
}
# What the page is built with is here.  In a clean chroot there is what debian/control asks for.
for package in $(sed -n "/^web_packages='/,/^'/{/^[a-z]/{/=/!p}}" quickstart); do
    grep -qE "^ $package( |,)" debian/control || die "debian/control builds without $package"
done
dpkg-buildpackage -b -us -uc >"$work/log" 2>&1 || die "the packages are not built"
# What is for use is optimised as a whole; a program linked with libbus.a needs nothing of that.
grep -q -- '-flto=auto .*-o libbus/libbus\.so' "$work/log" || die "libbus.so is not made as a whole"
readelf -SW obj-*/libbus/libbus.a >"$work/sections" || die "there is no libbus.a"
! grep -E '\.gnu\.(debug)?lto_' "$work/sections" || die "libbus.a has code for a linker alone"
set -- "$work"/*.deb
for name in libbus0 libbus-dev errbus errbusd errbus-web python3-errbus; do
    [ -e "$(ls "$work/${name}_"*.deb)" ] || die "there is no package $name"
done

TMPDIR=$work lintian --allow-root --fail-on error,warning "$work"/*.changes >"$work/log" 2>&1 ||
    die "lintian complains"

# ---- what users get -----------------------------------------------------------------------------
for package in "$work"/*.deb; do
    case $package in *-dbgsym_*) ;; *) dpkg-deb -x "$package" "$work/root" ;; esac
done
for file in lib/systemd/system/errbusd.service usr/lib/sysusers.d/errbus.conf \
    etc/errbus/errbusd.conf usr/bin/errbus-web usr/share/man/man8/errbusd.8.gz \
    usr/share/man/man1/errbus-web.1.gz usr/share/man/man3/bus_open.3.gz usr/include/bus/bus.h; do
    [ -e "$work/root/$file" ] || die "no package has /$file"
done
LD_LIBRARY_PATH=$(dirname "$work"/root/usr/lib/*/libbus.so.0)
PYTHONPATH=$work/root/usr/lib/python3/dist-packages
export LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE=1 PATH="$work/root/usr/bin:$PATH"
for test in first-value first-failure python-value; do
    debian/tests/"$test" >"$work/log" 2>&1 || die "debian/tests/$test fails"
done

# ---- the page -----------------------------------------------------------------------------------
mkfifo "$work/ready"
errbus-web --listen 127.0.0.1:0 --server tcp://127.0.0.1:1 >"$work/ready" 2>"$work/log" &
web=$!
trap 'kill "$web" 2>/dev/null || true; rm -rf "$work"' EXIT
read -r line <"$work/ready" || die "errbus-web does not start"
python3 - "${line##* }" >"$work/log" 2>&1 <<'END' || die "errbus-web has no page"
import sys
from urllib.request import urlopen
for path, kind in (("/", "text/html"), ("/d3.js", "text/javascript"), ("/dagre.js", "text/javascript"),
                   ("/licences.txt", "text/plain")):
    with urlopen(sys.argv[1] + path, timeout=60) as answer:
        told = answer.headers.get_content_type()
        assert (answer.status, told) == (200, kind), (path, answer.status, told)
        text = answer.read().decode()
for name in ("libjs-d3", "node-dagre-layout", "node-graphlibrary", "node-lodash"):
    assert f"/{name}/copyright" in text, f"/licences.txt lacks {name}"
END
kill "$web"
wait "$web" || true
dpkg-deb -f "$(ls "$work"/errbus-web_*.deb)" Built-Using >"$work/log"
grep -q 'd3 (= .*node-lodash (= ' "$work/log" || die "errbus-web does not say what it was built with"

# ---- what fails a build -------------------------------------------------------------------------
version=$(dpkg-parsechangelog -S Version)
gensymbols() {
    dpkg-gensymbols -c1 -plibbus0 "-v$version" "-P$work/root" "-I$1" -O/dev/null >"$work/log" 2>&1
}
gensymbols debian/libbus0.symbols || die "debian/libbus0.symbols names a function that is gone"
{
    cat debian/libbus0.symbols
    echo ' bus_that_is_gone@BUS_0 0.1.0~'
} >"$work/symbols"
! gensymbols "$work/symbols" || die "a function that is gone fails no build"

# ---- what a purge leaves ------------------------------------------------------------------------
mkdir -p "$work/root/var/lib/errbus/journal"
DPKG_ROOT=$work/root sh debian/errbusd.postrm purge >"$work/log" || die "a purge fails"
[ -d "$work/root/var/lib/errbus/journal" ] || die "a purge takes the journal"
grep -q '^errbusd: .*/var/lib/errbus stays, with' "$work/log" || die "a purge does not say what stays"
DPKG_ROOT=$work/root sh debian/errbusd.postrm remove >"$work/log"
[ ! -s "$work/log" ] || die "to remove the package is no purge"
echo "$# packages are built, and carry a value and a failure"

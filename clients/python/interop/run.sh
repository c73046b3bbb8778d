#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: run.sh BUILD [--rayfed-source DIR] [NAME ...]
# Runs Errbus under the programs of others, which come from PyPI into virtual environments below
# BUILD, one for each.  Each NAME is the name of a file requirements/NAME.txt, and begins those of
# its tests, test_NAME*.py; default: all.  "package" is the package with its own tests: for a Python
# that may be another than Debian's, with newer packages.  What cannot be installed is skipped by
# name.  --rayfed-source: also RayFed's own tests, from a checkout, with the classes of errbus.rayfed
# in place of its gRPC.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
build=$(cd "$1" && pwd)
shift
work=$build/interop
rayfed=
case ${1-} in
--rayfed-source)
    rayfed=$(cd "$2" && pwd)
    shift 2
    ;;
esac
[ $# -gt 0 ] || set -- package rayfed torch flower

say() {
    printf '\ninterop: %s\n' "$*"
}

# The versions of others are pinned for this Python; another one may lack them.
python=$(command -v python3.11 || command -v python3)
path=$PATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# environment NAME: the virtual environment of NAME is the one in use.
environment() {
    [ -x "$work/$1/bin/python" ] || "$python" -m venv "$work/$1" || {
        say "skipped: all; $python makes no virtual environment: install python3-venv"
        exit 0
    }
    PATH=$work/$1/bin:$path
}

# pip_install NAME WORD...: false if it failed; then $work/NAME.log says why.
pip_install() {
    log=$work/$1.log
    shift
    pip install --quiet --retries 1 "$@" >"$log" 2>&1
}

# Ray and torchrun leave their temporary folders behind.
TMPDIR=$(mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
export TMPDIR

mkdir -p "$work"
environment base
pip_install base -r "$here/requirements/base.txt" || {
    say "skipped: all; pip reaches no registry:" "$(tail -n 1 "$work/base.log")"
    exit 0
}
# The package is built from a copy, for setuptools writes beside its source.
rm -rf "$work/package" "$work/wheel"
cp -R "$source/clients/python" "$work/package"
ERRBUS_INCLUDE=$source/libbus/include ERRBUS_LIB=$build/libbus \
    pip wheel --quiet --no-build-isolation --no-deps -w "$work/wheel" "$work/package" \
    >"$work/errbus.log" 2>&1 || {
    cat "$work/errbus.log" >&2
    exit 1
}

export ERRBUSD="$build/broker/errbusd" ERRBUS="$build/clients/errbus" PYTHONPATH="$here"

# install_program NAME: what it needs, one after the other: a program may need another version than
# the package is built with.  False if something failed.
install_program() {
    # A package whose requirements it names falsely has a line "# --no-deps PACKAGE".
    alone=$(sed -n 's/^# --no-deps //p' "$here/requirements/$1.txt")
    # shellcheck disable=SC2086 # several words
    pip_install "$1" -r "$here/requirements/base.txt" &&
        pip_install "$1" -r "$here/requirements/$1.txt" &&
        { [ -z "$alone" ] || pip_install "$1" --no-deps $alone; }
}

install_errbus() {
    pip_install errbus --no-deps --force-reinstall "$work"/wheel/errbus-*.whl || {
        cat "$work/errbus.log" >&2
        exit 1
    }
}

status=0
for name; do
    if [ "$name" = package ]; then
        environment base
        install_errbus
        say "package, with $(python --version)"
        (cd "$source/clients/python/tests" && PYTHONPATH='' ERRBUS_SOURCE=$source \
            python -m pytest -q -p no:cacheprovider .) || status=1
        continue
    fi
    environment "$name"
    install_program "$name" || {
        say "skipped: $name; pip said: $(tail -n 1 "$work/$name.log")"
        continue
    }
    install_errbus
    say "$name"
    (cd "$here" && python -m pytest -q -p no:cacheprovider "test_$name"*.py) || status=1
    if [ "$name" != rayfed ] || [ -z "$rayfed" ]; then
        continue
    fi
    say "RayFed's own tests, of $rayfed"
    (cd "$rayfed" && PYTHONPATH=$rayfed:$here \
        python -m pytest -p rayfed_swap -p no:cacheprovider -v fed/tests) || status=1
done
exit $status

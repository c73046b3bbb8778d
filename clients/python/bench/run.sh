#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: run.sh BUILD [--runs N] [--quick]
# What a receive and a raise cost in Python: see costs.py.  BUILD is a build of Errbus, best
# build/release; pyzmq and nats-py come from PyPI into a virtual environment below it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
build=$(cd "$1" && pwd)
shift
work=$build/python-bench
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

python=$(command -v python3.11 || command -v python3)
[ -x "$work/bin/python" ] || "$python" -m venv "$work"
PATH=$work/bin:$PATH
pip install --quiet -r "$here/../interop/requirements/base.txt" -r "$here/requirements.txt"
rm -rf "$work/package"
cp -R "$source/clients/python" "$work/package"
ERRBUS_INCLUDE=$source/libbus/include ERRBUS_LIB=$build/libbus \
    pip install --quiet --no-build-isolation --no-deps --force-reinstall "$work/package"
cc -O2 -I "$source/libbus/include" -o "$work/reader" "$here/reader.c" -L "$build/libbus" -lbus \
    -Wl,-rpath,"$build/libbus"

ERRBUSD=$build/broker/errbusd ERRBUS_READER=$work/reader exec python "$here/costs.py" "$@"

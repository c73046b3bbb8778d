# SPDX-License-Identifier: MPL-2.0
"""python3 -m errbus [ENDPOINT]: finds library and broker, and says what is wrong."""
from __future__ import annotations

import os
import sys

import errbus
import errbus.errors
from errbus._errbus import ffi, lib


def main() -> int:
    endpoint = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ERRBUS_SERVER") or ""
    print(f"python   {sys.version.split()[0]} at {sys.executable}")
    print(f"package  {os.path.dirname(os.path.abspath(errbus.__file__))}")
    print(f"library  libbus {errbus.__version__}")
    print(f"broker   {endpoint or 'tcp://127.0.0.1:7370 (the default)'}")
    admin = ffi.new("struct bus_admin **")
    reterr = ffi.new("struct bus_error **")
    address = ffi.new("char[]", endpoint.encode()) if endpoint else ffi.NULL
    try:
        code = lib.bus_admin_open(address, ffi.NULL, 5000, admin, reterr)
        if code != lib.BUS_OK:
            errbus.errors.raise_code(code, reterr)
        status = ffi.new("struct bus_status **")
        code = lib.bus_admin_status_get(admin[0], b"", 5000, status, reterr)
        if code != lib.BUS_OK:
            errbus.errors.raise_code(code, reterr)
    except errbus.Error as error:
        print(f"wrong    {error}", file=sys.stderr)
        print("to do    start errbusd, or set ERRBUS_SERVER to where it listens", file=sys.stderr)
        return 6
    version = ffi.string(lib.bus_status_version(status[0])).decode()
    level = ffi.string(lib.bus_durability_name(lib.bus_status_durability(status[0]))).decode()
    print(f"         errbusd {version}, durability {level}")
    lib.bus_status_free(status)
    lib.bus_admin_close(admin)
    print("well")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MPL-2.0
"""python3 -m errbus [ENDPOINT]: finds library, key and broker, and says what is wrong.

ENDPOINT is the broker's; without it, $ERRBUS_SERVER is, else tcp://127.0.0.1:7370.  The program
ends with 0 if all is well, and else with the status of errbus(1): 2 for a wrong endpoint, 5 if no
broker is in reach, 6 if the broker or the file of the key denies access or if what listens there
speaks no ZeroMQ, 1 for all else.
"""
from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, NoReturn, Optional, Tuple

import errbus
from errbus import _wait, errors
from errbus._errbus import ffi, lib
from errbus.admin import CHANNELS

_ANSWER_S = 5.0  # a broker that takes longer is not well
_PATH_BYTES = 4096
_DEFAULT = "tcp://127.0.0.1:7370"
_JOURNAL = {  # what a broker does not do while its journal is in this state
    "full": "values wait until its disk has room",
    "refused": "all waits until the journal can be written",
    "failed": "the broker ends",
}


class _Advice(NamedTuple):
    status: int  # with which the program ends
    to_do: str


_ADVICE = {
    (errbus.Invalid,): _Advice(
        2, "name the control endpoint of the broker: HOST:PORT, tcp://HOST:PORT or ipc://PATH"
    ),
    (errbus.Denied,): _Advice(
        6, "use a key that the broker knows: ERRBUS_KEY names its file; see errbus-key(1)"
    ),
    (errbus.Lost, errbus.TimedOut): _Advice(
        5,
        "start errbusd, or set ERRBUS_SERVER to where it listens; a firewall must let both of its "
        "ports through",
    ),
    (errbus.Protocol,): _Advice(1, "install the same version of Errbus here and at the broker"),
    (errbus.Error,): _Advice(1, "see the log of errbusd"),
}


def _say(name: str, text: str) -> None:
    print(f"{name:<8} {text}")


def _give_up(wrong: str, advice: _Advice) -> NoReturn:
    sys.stdout.flush()  # what was found comes first
    print(f"wrong    {wrong}\nto do    {advice.to_do}", file=sys.stderr)
    sys.exit(advice.status)


def _advice_for(error: errbus.Error) -> _Advice:
    found = error.error.type if error.error is not None else ""
    if isinstance(error, errbus.Denied) and found == "errbus.unreachable":
        return _Advice(6, "set ERRBUS_SERVER to where errbusd listens")
    if found == "errbus.no_greeting":
        return _Advice(
            5, "see what listens there: let errbusd go on if it is stopped; if it is another program, "
            "set ERRBUS_SERVER to where errbusd listens"
        )
    return next(advice for kinds, advice in _ADVICE.items() if isinstance(error, kinds))


def _file_of_library() -> str:
    """The file that libbus was loaded from, as Linux says it."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = [line.rstrip("\n").split(maxsplit=5)[-1] for line in maps]
    except OSError:
        return "a file that is not known"
    found = [path for path in paths if os.path.basename(path).startswith("libbus.so")]
    return found[0] if found else "the extension itself"


def _check_library() -> None:
    """A library serves packages that were built with its version, or with an older one."""
    built: Tuple[int, ...] = (
        lib.BUS_VERSION_MAJOR, lib.BUS_VERSION_MINOR, lib.BUS_VERSION_PATCH,
    )
    number = lib.bus_version_number()
    found = (number // 1_000_000, number // 1000 % 1000, number % 1000)
    text = ".".join(map(str, built))
    _say("library", f"libbus {errbus.__version__} at {_file_of_library()}")
    if found[0] != built[0] or found < built:
        _give_up(
            f"the package was built with libbus {text}, which libbus {errbus.__version__} does "
            "not replace",
            _Advice(1, "install the package again: pip install ./clients/python of this version"),
        )


def _check_key(endpoint: str) -> None:
    """A client has a key where the endpoint has the key of the broker."""
    if "ebp_" not in endpoint:
        _say("key", "none is used: the endpoint names no key of a broker")
        return
    reterr = ffi.new("struct bus_error **")
    path = ffi.new("char[]", _PATH_BYTES)
    text = ffi.new("char[]", lib.BUS_KEY_TEXT_BYTES)
    code = lib.bus_key_path(path, _PATH_BYTES, reterr)
    if code == lib.BUS_OK:
        code = lib.bus_key_show(path, text, reterr)
    if code != lib.BUS_OK:
        error = errors.failure_of(code, errors.taken(reterr))
        _give_up(
            f"the endpoint names the key of a broker, which asks for one of yours: {error}",
            _Advice(6, "make a key with 'errbus key new', or set ERRBUS_KEY to the file of one"),
        )
    _say("key", f"{ffi.string(text).decode()} of {os.fsdecode(ffi.string(path))}")


def _version_of(admin: errbus.Admin) -> str:
    """Version and durability of the broker, for those who may ask."""
    try:
        found = admin._ask(
            lib.bus_admin_status_get, b"", _wait.to_ms(_ANSWER_S),
            kind="struct bus_status **", free=lib.bus_status_free,
        )
    except errbus.Denied:
        return "errbusd; this key has no right to ask for its status"
    version = ffi.string(lib.bus_status_version(found)).decode()
    level = ffi.string(lib.bus_durability_name(lib.bus_status_durability(found))).decode()
    return f"errbusd {version}, durability {level}"


def _check_broker(endpoint: Optional[str]) -> None:
    channel = ""
    try:
        with errbus.Admin(endpoint, timeout=_ANSWER_S) as admin:
            pong: Any = None
            for channel in CHANNELS:
                pong = admin.ping(channel)
                _say("", f"the {channel} channel answers after {pong.trip * 1e3:.1f} ms")
            channel = ""
            _say("", _version_of(admin))
    except errbus.Error as error:
        advice = _advice_for(error)
        if channel == "data":
            advice = advice._replace(
                to_do="let the port of the data channel through the firewall; behind a tunnel, "
                "name it: HOST:PORT,data=PORT"
            )
        where = f"the {channel} channel does not answer: " if channel else ""
        _give_up(f"{where}{error}", advice)
    if pong.journal != "well":
        _give_up(
            f"the journal of the broker is {pong.journal}: {_JOURNAL.get(pong.journal, '')}",
            _Advice(1, "see what 'errbus status' says of it, and the log of errbusd"),
        )


def main() -> int:
    """Prints what was found, and ends the program at the first thing that is wrong."""
    endpoint = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ERRBUS_SERVER") or ""
    _say("python", f"{sys.version.split()[0]} at {sys.executable}")
    _say("package", os.path.dirname(os.path.abspath(errbus.__file__)))
    _check_library()
    _check_key(endpoint)
    _say("broker", endpoint or f"{_DEFAULT} (the default)")
    _check_broker(endpoint or None)
    print("well")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MPL-2.0
"""Waits in slices.  Python runs its signal handlers between two slices, so Ctrl-C works.

After BUS_ETIMEDOUT a call of the library can be repeated and loses nothing.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Callable, List, Optional

from errbus import errors
from errbus._errbus import ffi, lib

SLICE_MS = 100
_FOREVER_S = 10.0**10


def to_ms(seconds: Optional[float]) -> int:
    """Milliseconds for a call of the library; None: BUS_FOREVER."""
    if seconds is None:
        return int(lib.BUS_FOREVER)
    return max(0, int(min(seconds, _FOREVER_S) * 1000 + 0.5))


def slice_of(timeout: Optional[float]) -> int:
    """A slice of a wait, as timeout_ms.  The broker takes all slices of a wait for one."""
    return int(lib.BUS_SLICE if timeout is None else lib.BUS_SLICE_LIMITED)


def in_slices(
    call: Callable[[int], Any], timeout: Optional[float], again: int = 0, takes_slices: bool = False
) -> int:
    """Repeats call(timeout_ms) while it returns BUS_ETIMEDOUT, or the code `again`, for timeout
    seconds at most.  Returns the last code.  takes_slices: the call knows slice_of()."""
    end = None if timeout is None else time.monotonic() + timeout
    again = again or lib.BUS_ETIMEDOUT
    whole = slice_of(timeout) if takes_slices else SLICE_MS
    while True:
        left_ms = SLICE_MS if end is None else to_ms(end - time.monotonic())
        is_last = end is not None and left_ms <= SLICE_MS
        code = int(call(left_ms if is_last else whole))
        if code != again or is_last:
            return code


def _undo_late(given_up: List[bool], out: Any, undo: Callable[[Any], Any]) -> None:
    """Closes what the call opened after the interrupt.  Both threads call this; one of them does
    it."""
    try:
        given_up.pop()
    except IndexError:
        return
    if out[0] != ffi.NULL:
        undo(out)


def interruptible(
    call: Callable[[Any, Any], Any], kind: str, undo: Callable[[Any], Any], keep: List[Any]
) -> Any:
    """Runs a call that opens something on a thread of its own, so that Ctrl-C ends the wait for
    it.  kind: the C type of the result's pointer.  undo closes a result that comes too late.  keep:
    what must live as long as the call."""
    out = ffi.new(kind)
    reterr = ffi.new("struct bus_error **")
    codes: List[int] = []
    done = threading.Event()
    given_up: List[bool] = []

    def run(kept: List[Any]) -> None:
        codes.append(call(out, reterr))
        done.set()
        _undo_late(given_up, out, undo)

    threading.Thread(target=run, args=(keep,), name="errbus-open", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        given_up.append(True)
        if done.is_set():
            _undo_late(given_up, out, undo)
        raise
    if codes[0] != lib.BUS_OK:
        errors.raise_code(codes[0], reterr)
    return out[0]

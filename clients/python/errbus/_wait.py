# SPDX-License-Identifier: MPL-2.0
"""Waits in slices.  Python runs its signal handlers between two slices, so Ctrl-C works.

After BUS_ETIMEDOUT a call of the library can be repeated and loses nothing.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Callable, List, Optional, TypeVar

from errbus import errors
from errbus._errbus import ffi, lib

SLICE_MS = 100
_FOREVER_S = 10.0**10
_Result = TypeVar("_Result")


class GivenUp(BaseException):
    """Ends a call for whose result nobody waits any more."""


class _Thread(threading.local):
    given_up: Optional[threading.Event] = None  # set: the call of this thread is to end


_thread = _Thread()


def until(given_up: threading.Event, call: Callable[[], _Result]) -> _Result:
    """Runs the call on this thread.  When given_up is set, the wait in it ends within a slice, and
    raises GivenUp."""
    _thread.given_up = given_up
    try:
        return call()
    finally:
        _thread.given_up = None


def _look() -> None:
    given_up = _thread.given_up
    if given_up is not None and given_up.is_set():
        raise GivenUp


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
        _look()


def _wait_for(done: threading.Event) -> None:
    while not done.wait(None if _thread.given_up is None else SLICE_MS / 1000):
        _look()


def on_thread(call: Callable[[], None]) -> None:
    """Runs a call that does not come in slices on a thread of its own, so that Ctrl-C ends the wait
    for it.  The call goes on until its own time is up."""
    raised: List[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)
        done.set()

    threading.Thread(target=run, name="errbus-call", daemon=True).start()
    _wait_for(done)
    if raised:
        raise raised.pop()


def _undo_late(is_late: List[bool], out: Any, undo: Callable[[Any], Any]) -> None:
    """Closes what the call opened after the interrupt.  Both threads call this; one of them does
    it."""
    try:
        is_late.pop()
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
    is_late: List[bool] = []

    def run(kept: List[Any]) -> None:
        codes.append(call(out, reterr))
        done.set()
        _undo_late(is_late, out, undo)

    threading.Thread(target=run, args=(keep,), name="errbus-open", daemon=True).start()
    try:
        _wait_for(done)
    except BaseException:
        is_late.append(True)
        if done.is_set():
            _undo_late(is_late, out, undo)
        raise
    if codes[0] != lib.BUS_OK:
        errors.raise_code(codes[0], reterr)
    return out[0]

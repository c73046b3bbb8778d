# SPDX-License-Identifier: MPL-2.0
"""Waits in slices.  Python runs its signal handlers between two slices, so Ctrl-C works.

After BUS_ETIMEDOUT a call of the library can be repeated and loses nothing.  A handler may also
raise right after a call that had a result.  So results go to a place that outlives the exception.
"""
from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any, Callable, List, Optional, TypeVar

from errbus import errors
from errbus._errbus import ffi, lib

SLICE_MS = 100
_FOREVER_S = 10.0**10
_Result = TypeVar("_Result")

# Objects with handles of this process.  In a forked child each of them is told.
_of_parent: "weakref.WeakSet[Any]" = weakref.WeakSet()


def tell_of_forks(one: Any) -> None:
    """one._in_child() is called in a forked child: threads and locks of the parent are not there."""
    _of_parent.add(one)


def _in_child() -> None:
    for one in list(_of_parent):
        one._in_child()


os.register_at_fork(after_in_child=_in_child)


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
    call: Callable[[int], Any], timeout: Optional[float], takes_slices: bool = False,
    longest_ms: int = SLICE_MS,
) -> int:
    """Repeats call(timeout_ms) while it returns BUS_ETIMEDOUT, for timeout seconds at most.  Returns
    the last code.  takes_slices: the call knows slice_of().  longest_ms: slices double up to this,
    for a call that begins anew with each slice."""
    end = None if timeout is None else time.monotonic() + timeout
    slice_ms = SLICE_MS
    while True:
        left_ms = slice_ms if end is None else to_ms(end - time.monotonic())
        is_last = end is not None and left_ms <= slice_ms
        code = int(call(left_ms if is_last else slice_of(timeout) if takes_slices else slice_ms))
        if code != lib.BUS_ETIMEDOUT or is_last:
            return code
        _look()
        slice_ms = min(2 * slice_ms, longest_ms)


def for_room(
    call: Callable[[], Any], progress: Callable[[], int], timeout: Optional[float]
) -> int:
    """Repeats a call that sends, and comes in slices, while it returns BUS_ETIMEDOUT.  It does so for
    timeout seconds, which begin anew when progress() has another result.  Returns the last code."""
    code = int(call())
    if code != lib.BUS_ETIMEDOUT:
        return code
    seen, end = progress(), time.monotonic() + (timeout or 0) - SLICE_MS / 1000
    while code == lib.BUS_ETIMEDOUT:
        _look()
        if timeout is not None:
            now, seen_now = time.monotonic(), progress()
            if seen_now != seen:
                seen, end = seen_now, now + timeout
            elif now >= end:
                break
        code = int(call())
    return code


def _wait_for(done: threading.Event) -> None:
    while not done.wait(None if _thread.given_up is None else SLICE_MS / 1000):
        _look()


def on_thread(call: Callable[[], None]) -> None:
    """Runs a call that does not come in short slices on a thread of its own, so that Ctrl-C ends the
    wait for it.  The call goes on until its own time is up, or until its next slice."""
    raised: List[BaseException] = []
    done, given_up = threading.Event(), threading.Event()

    def run() -> None:
        try:
            until(given_up, call)
        except BaseException as error:
            raised.append(error)
        done.set()

    try:
        threading.Thread(target=run, name="errbus-call", daemon=True).start()
        _wait_for(done)
    finally:
        given_up.set()
    if raised:
        raise raised.pop()


def _undo_late(is_late: List[bool], out: Any, undo: Callable[[Any], Any]) -> None:
    """Closes what the call opened after the interrupt.  Both threads call this; one of them does
    it."""
    try:
        is_late.pop()
    except IndexError:
        return
    undo(out)


def _nothing(_out: Any) -> None:
    """Closes nothing: the call opened nothing."""


def interruptible(
    call: Callable[[Any, Any], Any],
    kind: str,
    undo: Optional[Callable[[Any], Any]],
    keep: List[Any],
) -> Any:
    """Runs a call that opens something on a thread of its own, so that Ctrl-C ends the wait for
    it.  Returns the place of the result, a pointer of the C type `kind`.

    undo(place) closes the result and empties the place.  It is called for a result that comes too
    late, and when the place is dropped.  keep: what must live as long as the call."""
    close = undo or _nothing
    out = ffi.new(kind) if undo is None else ffi.gc(ffi.new(kind), undo)
    reterr = ffi.new("struct bus_error **")
    codes: List[int] = []
    raised: List[BaseException] = []
    done = threading.Event()
    is_late: List[bool] = []

    def run(kept: List[Any]) -> None:
        try:
            codes.append(call(out, reterr))
        except BaseException as error:  # an argument that C does not take
            raised.append(error)
        done.set()
        _undo_late(is_late, out, close)

    threading.Thread(target=run, args=(keep,), name="errbus-open", daemon=True).start()
    try:
        _wait_for(done)
        if raised:
            raise raised.pop()
        if codes[0] != lib.BUS_OK:
            errors.raise_code(codes[0], reterr)
        return out
    except BaseException:
        is_late.append(True)
        if done.is_set():
            _undo_late(is_late, out, close)
        raise

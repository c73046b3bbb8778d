# SPDX-License-Identifier: MPL-2.0
"""The waits of asyncio: for a call on a thread, for a descriptor, for room to send."""
from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import (
    TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Generator, Generic, List, Optional, Type,
    TypeVar,
)

from errbus import _wait, errors
from errbus._bus import Bus
from errbus._errbus import ffi, lib
from errbus._given import utf8

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    _Words = ParamSpec("_Words")

_Result = TypeVar("_Result")
_NEVER_FITS = "errbus.never_fits"
_LOOK_S = _wait.SLICE_MS / 1000  # tasks share the descriptor for room: one may miss another's news


async def in_thread(call: Callable[[], _Result]) -> _Result:
    """Runs a call that waits on a thread of its own.  If the task that awaits it is cancelled, the
    call ends, too."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[_Result]" = loop.create_future()
    given_up = threading.Event()

    def tell(settle: Callable[[Any], None], what: Any) -> None:
        try:
            loop.call_soon_threadsafe(lambda: None if future.done() else settle(what))
        except RuntimeError:
            pass  # the loop is closed

    def run() -> None:
        try:
            result = _wait.until(given_up, call)
        except BaseException as error:
            tell(future.set_exception, error)
        else:
            tell(future.set_result, result)

    threading.Thread(target=run, name="errbus-aio", daemon=True).start()
    try:
        return await future
    finally:
        given_up.set()


def in_thread_as(
    call: Callable[Concatenate[Any, _Words], _Result]
) -> Callable[Concatenate[Any, _Words], Coroutine[Any, Any, _Result]]:
    """A method of a class of asyncio: it awaits the same call of its `sync`, on a thread."""

    @functools.wraps(call)
    async def awaited(self: Any, /, *words: _Words.args, **named: _Words.kwargs) -> _Result:
        return await in_thread(lambda: call(self.sync, *words, **named))

    awaited.__doc__ = f"As errbus.{call.__qualname__}()."
    return awaited


def at_once_as(
    call: Callable[Concatenate[Any, _Words], _Result]
) -> Callable[Concatenate[Any, _Words], _Result]:
    """A method of a class of asyncio: the same call of its `sync`, which does not wait."""

    @functools.wraps(call)
    def same(self: Any, /, *words: _Words.args, **named: _Words.kwargs) -> _Result:
        return call(self.sync, *words, **named)

    same.__doc__ = f"As errbus.{call.__qualname__}()."
    return same


class Opening(Generic[_Result]):
    """What `async with` enters, or `await` gives."""

    def __init__(self, opening: Callable[[], Awaitable[_Result]]) -> None:
        self._opening = opening
        self._opened: List[Any] = []

    async def _open(self) -> _Result:
        return await self._opening()

    def __await__(self) -> Generator[Any, None, _Result]:
        return self._open().__await__()

    async def __aenter__(self) -> _Result:
        opened = await self._open()
        self._opened.append(opened)
        return opened

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any
    ) -> None:
        await self._opened.pop().__aexit__(kind, error, trace)


class Descriptor:
    """The descriptor of a subscription or a tap.  A loop tells one task alone that it is readable,
    so the tasks that wait for it take turns."""

    def __init__(self, fileno: Callable[[], int], what: str) -> None:
        self._fileno, self._what = fileno, what
        self._lock = asyncio.Lock()
        self._news: Optional["asyncio.Future[None]"] = None  # of the task that waits
        self._fd = -1  # that the loop watches; -1: none
        self._is_closed = False

    async def take(
        self, poll: Callable[[], _Result], timeout: Optional[float],
        late: Callable[[], errors.TimedOut],
    ) -> _Result:
        """What poll() returns, as soon as it does not raise TimedOut.  Raises late() after timeout
        seconds, and Closed after close()."""
        if not self._lock.locked():
            try:
                return poll()
            except errors.TimedOut:
                pass
        if timeout is not None and timeout <= 0:
            raise late()
        try:
            return await asyncio.wait_for(self._take(poll), timeout)
        except asyncio.TimeoutError:
            raise late() from None

    async def _take(self, poll: Callable[[], _Result]) -> _Result:
        async with self._lock:
            while True:
                try:
                    return poll()
                except errors.TimedOut:
                    pass
                if self._is_closed:
                    raise errors.Closed(f"{self._what} was closed during this wait")
                await self._readable()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        news = self._news = loop.create_future()
        fd = self._fileno()
        loop.add_reader(fd, self._tell)
        self._fd = fd
        try:
            await news
        finally:
            self._leave(loop)

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._fd >= 0:
            loop.remove_reader(self._fd)
            self._fd = -1

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def close(self) -> None:
        """Ends the wait.  It comes before the descriptor is closed, whose number may then be that
        of another one."""
        self._is_closed = True
        if self._fd >= 0 and self._news is not None:
            self._leave(self._news.get_loop())
        self._tell()


class Room:
    """The room for what a bus sends, for all tasks of a loop."""

    def __init__(self, bus: Bus, send_timeout: Optional[float]) -> None:
        self._bus, self._timeout = bus, send_timeout
        self._loop = asyncio.get_running_loop()
        self._waiters: List["asyncio.Future[None]"] = []
        self._fd = -1  # that the loop watches; -1: none
        self._is_closed = False

    async def send(self, what: str, topic: Optional[str], call: Callable[[], _Result]) -> _Result:
        """Repeats a call that raises Full, whenever there is room again, for send_timeout seconds,
        which begin anew while the broker takes what the call waits behind.  The call does not wait
        itself: the loop goes on, and with it the readers that make room.  topic: its own; None: it
        is a reply.  Raises Full at once for what waiting makes no room for, and after Bus.stop(): a
        stopped bus waits for no room, and its descriptor for room stays readable."""
        seen, end = -1, 0.0
        while True:
            is_stopped = self._bus._is_stopped
            try:
                return call()
            except errors.Full as full:
                never_fits = full.error is not None and full.error.type == _NEVER_FITS
                if never_fits or (is_stopped and not self._is_closed):
                    raise
                now, progress = time.monotonic(), self._progress(topic)
                if progress != seen:
                    seen, end = progress, now + (self._timeout or 0)
                left = _LOOK_S if self._timeout is None else end - now
                if left <= 0:
                    raise self._late(what, full) from None
            if self._is_closed:
                raise errors.Closed(f"{self._who()} was closed while {what} waited for room")
            await self._wait(min(left, _LOOK_S))

    def _progress(self, topic: Optional[str]) -> int:
        name = ffi.NULL if topic is None else utf8(topic)
        return int(self._bus._call(lambda bus: lib.bus_room_progress(bus, name)))

    def _who(self) -> str:
        return f"the bus of party {self._bus.party} of job {self._bus.job}"

    def _late(self, what: str, full: errors.Full) -> errors.Full:
        made = errors.Full(
            f"{self._who()} has no room for {what} within {self._timeout or 0:g} s: see 'errbus why "
            f"{self._bus.job}'"
        )
        made.error = full.error
        return made

    async def _wait(self, timeout: float) -> None:
        """Until there is room, or the party is over, for timeout seconds at most."""
        news = self._loop.create_future()
        if not self._waiters:
            fd = int(self._bus._call(lib.bus_room_fd))
            self._loop.add_reader(fd, self._tell)
            self._fd = fd
        self._waiters.append(news)
        try:
            await asyncio.wait_for(news, timeout)
        except asyncio.TimeoutError:
            pass  # the caller looks again
        finally:
            if news in self._waiters:
                self._waiters.remove(news)
            if not self._waiters:
                self._leave()

    def _leave(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._fd = -1

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        self._leave()
        for news in waiters:
            if not news.done():
                news.set_result(None)

    def close(self) -> None:
        """Ends all waits, before the bus closes the descriptor."""
        self._is_closed = True
        self._tell()

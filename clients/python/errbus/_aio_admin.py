# SPDX-License-Identifier: MPL-2.0
"""Admin and Tap for asyncio; errbus.aio has them."""
from __future__ import annotations

import asyncio
import threading
import time
from typing import (
    Any, Callable, Generator, Generic, List, Optional, Type, TypeVar, Union, overload,
)

from errbus import _wait, admin, errors
from errbus._why import Why, Without

_Result = TypeVar("_Result")
_Sync = TypeVar("_Sync", admin.Admin, admin.Tap)
_Self = TypeVar("_Self", bound="_Handle[Any]")


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


async def readable(fd: int) -> None:
    """Until the descriptor is readable."""
    loop = asyncio.get_running_loop()
    news: "asyncio.Future[None]" = loop.create_future()
    loop.add_reader(fd, _tell, news)
    try:
        await news
    finally:
        loop.remove_reader(fd)


def _tell(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)


class _Handle(Generic[_Sync]):
    """An object that `async with`, or `await`, opens."""

    sync: _Sync
    _make: Callable[..., _Sync]

    def __init__(self, *words: Any, **options: Any) -> None:
        self._words, self._options = words, options

    async def _open(self: _Self) -> _Self:
        self.sync = await in_thread(lambda: type(self)._make(*self._words, **self._options))
        return self

    def __await__(self: _Self) -> Generator[Any, None, _Self]:
        return self._open().__await__()

    async def __aenter__(self: _Self) -> _Self:
        return await self._open()

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections.  Twice is once."""
        await in_thread(self.sync.close)


class Admin(_Handle[admin.Admin]):
    """As errbus.Admin: `async with errbus.aio.Admin() as admin`, or `await errbus.aio.Admin()`.

    sync is that handle.  Each call waits on a thread of its own."""

    _make = admin.Admin

    async def ping(self, channel: str = "control") -> admin.Pong:
        """As errbus.Admin.ping()."""
        return await in_thread(lambda: self.sync.ping(channel))

    async def job_create(self, job: str, **options: Any) -> None:
        """As errbus.Admin.job_create()."""
        await in_thread(lambda: self.sync.job_create(job, **options))

    async def job_cancel(self, job: str, why: Optional[str] = None) -> None:
        """As errbus.Admin.job_cancel()."""
        await in_thread(lambda: self.sync.job_cancel(job, why))

    async def job_forget(self, job: str) -> None:
        """As errbus.Admin.job_forget()."""
        await in_thread(lambda: self.sync.job_forget(job))

    async def job(self, job: str) -> admin.Job:
        """As errbus.Admin.job()."""
        return await in_thread(lambda: self.sync.job(job))

    async def status(self, job: str = "") -> List[admin.StatusRow]:
        """As errbus.Admin.status()."""
        return await in_thread(lambda: self.sync.status(job))

    async def who(self) -> List[admin.WhoRow]:
        """As errbus.Admin.who()."""
        return await in_thread(self.sync.who)

    async def access_reload(self) -> int:
        """As errbus.Admin.access_reload()."""
        return await in_thread(self.sync.access_reload)

    async def dead(self, job: str, group: str) -> List[admin.Letter]:
        """As errbus.Admin.dead()."""
        return await in_thread(lambda: self.sync.dead(job, group))

    async def dead_show(self, job: str, group: str, number: int) -> admin.Letter:
        """As errbus.Admin.dead_show()."""
        return await in_thread(lambda: self.sync.dead_show(job, group, number))

    async def dead_replay(self, job: str, group: str, number: Optional[int] = None) -> int:
        """As errbus.Admin.dead_replay()."""
        return await in_thread(lambda: self.sync.dead_replay(job, group, number))

    async def dead_drop(self, job: str, group: str, number: Optional[int] = None) -> int:
        """As errbus.Admin.dead_drop()."""
        return await in_thread(lambda: self.sync.dead_drop(job, group, number))

    async def report(self, job: str, wait: bool = False) -> admin.Report:
        """As errbus.Admin.report()."""
        return await in_thread(lambda: self.sync.report(job, wait))

    @overload
    async def why(
        self, job: Optional[str] = None, *, topic: Optional[str] = None, seq: int = 0
    ) -> Why: ...

    @overload
    async def why(self, job: Optional[str] = None, *, without: str) -> Without: ...

    async def why(
        self, job: Optional[str] = None, *, topic: Optional[str] = None, seq: int = 0,
        without: Optional[str] = None,
    ) -> Union[Why, Without]:
        """As errbus.Admin.why()."""
        return await in_thread(lambda: self.sync._why(job, topic, seq, without))

    async def attachments(self, job: str, error_id: str) -> List[admin.Attachment]:
        """As errbus.Admin.attachments()."""
        return await in_thread(lambda: self.sync.attachments(job, error_id))

    async def attachment(self, job: str, error_id: str, name: str) -> bytes:
        """As errbus.Admin.attachment()."""
        return await in_thread(lambda: self.sync.attachment(job, error_id, name))

    async def open_attachment(
        self, job: str, error: errors.RemoteError, name: str, key: str
    ) -> bytes:
        """As errbus.Admin.open_attachment()."""
        return await in_thread(lambda: self.sync.open_attachment(job, error, name, key))


class Tap(_Handle[admin.Tap]):
    """As errbus.Tap: `async with errbus.aio.Tap() as tap`, `async for event in tap`.

    No thread waits for an event."""

    _make = admin.Tap

    async def next(self, timeout: Optional[float] = None) -> admin.Event:
        """As errbus.Tap.next()."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self.sync.next(0)
            except errors.TimedOut:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise
            try:
                await asyncio.wait_for(readable(self.sync.fileno()), left)
            except asyncio.TimeoutError:
                pass  # sync.next(0) says so

    def fileno(self) -> int:
        """As errbus.Tap.fileno()."""
        return self.sync.fileno()

    def __aiter__(self) -> "Tap":
        return self

    async def __anext__(self) -> admin.Event:
        try:
            return await self.next()
        except (errors.Ended, errors.Closed):
            raise StopAsyncIteration from None

# SPDX-License-Identifier: MPL-2.0
"""Admin and Tap for asyncio; errbus.aio has them."""
from __future__ import annotations

from typing import (
    Any, Callable, Generator, Generic, Optional, Type, TypeVar, Union, overload,
)

from errbus import admin, errors
from errbus._aio_wait import Descriptor, in_thread, in_thread_as
from errbus._why import Why, Without

_Sync = TypeVar("_Sync", admin.Admin, admin.Tap)
_Self = TypeVar("_Self", bound="_Handle[Any]")


class _Handle(Generic[_Sync]):
    """An object that `async with`, or `await`, opens."""

    sync: _Sync
    _make: Callable[..., _Sync]

    def __init__(self, *words: Any) -> None:
        self._words = words

    async def _open(self: _Self) -> _Self:
        self.sync = await in_thread(lambda: type(self)._make(*self._words))
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

    def __init__(
        self,
        endpoint: Optional[str] = None,
        job: Optional[str] = None,
        timeout: Optional[float] = 10,
        is_patient: bool = False,
        key: Optional[str] = None,
    ) -> None:
        super().__init__(endpoint, job, timeout, is_patient, key)

    ping = in_thread_as(admin.Admin.ping)
    job_create = in_thread_as(admin.Admin.job_create)
    job_cancel = in_thread_as(admin.Admin.job_cancel)
    job_forget = in_thread_as(admin.Admin.job_forget)
    job = in_thread_as(admin.Admin.job)
    status = in_thread_as(admin.Admin.status)
    broker = in_thread_as(admin.Admin.broker)
    shards = in_thread_as(admin.Admin.shards)
    who = in_thread_as(admin.Admin.who)
    access_reload = in_thread_as(admin.Admin.access_reload)
    dead = in_thread_as(admin.Admin.dead)
    dead_show = in_thread_as(admin.Admin.dead_show)
    dead_replay = in_thread_as(admin.Admin.dead_replay)
    dead_drop = in_thread_as(admin.Admin.dead_drop)
    report = in_thread_as(admin.Admin.report)

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

    attachments = in_thread_as(admin.Admin.attachments)
    attachment = in_thread_as(admin.Admin.attachment)
    open_attachment = in_thread_as(admin.Admin.open_attachment)


class Tap(_Handle[admin.Tap]):
    """As errbus.Tap: `async with errbus.aio.Tap() as tap`, `async for event in tap`.

    No thread waits for an event."""

    _make = admin.Tap

    def __init__(
        self,
        endpoint: Optional[str] = None,
        job: Optional[str] = None,
        from_id: Optional[int] = None,
        until_id: int = 0,
        timeout: Optional[float] = 30,
        key: Optional[str] = None,
    ) -> None:
        super().__init__(endpoint, job, from_id, until_id, timeout, key)

    async def _open(self) -> "Tap":
        await super()._open()
        self._descriptor = Descriptor(self.sync.fileno, "this Tap")
        return self

    async def next(self, timeout: Optional[float] = None) -> admin.Event:
        """As errbus.Tap.next().  Tasks that wait at the same time get the events in turn."""
        return await self._descriptor.take(
            lambda: self.sync.next(0), timeout,
            lambda: errors.late("this tap", "an event", timeout, "errbus status"),
        )

    async def close(self) -> None:
        """As errbus.Tap.close().  Each wait under way raises Closed."""
        self._descriptor.close()
        await super().close()

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

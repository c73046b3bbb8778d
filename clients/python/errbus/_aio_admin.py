# SPDX-License-Identifier: MPL-2.0
"""Admin and Tap for asyncio; errbus.aio has them."""
from __future__ import annotations

from typing import (
    Any, Callable, Generator, Generic, List, Optional, Type, TypeVar, Union, overload,
)

from errbus import admin, errors
from errbus._aio_wait import Descriptor, in_thread
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

    async def ping(self, channel: str = "control") -> admin.Pong:
        """As errbus.Admin.ping()."""
        return await in_thread(lambda: self.sync.ping(channel))

    async def job_create(
        self,
        job: str,
        *,
        min: int = 1,
        max: int = 0,
        join_window: Optional[float] = 30,
        join_timeout: Optional[float] = 600,
        settle: Optional[float] = 2,
        max_restarts: int = 0,
        deadline: Optional[float] = None,
        pending: str = "deliver",
        strategy: str = "causal",
        disclosure: Optional[str] = None,
        deadlock: str = "tell",
        auditor: Optional[str] = None,
    ) -> None:
        """As errbus.Admin.job_create()."""
        await in_thread(lambda: self.sync.job_create(
            job, min=min, max=max, join_window=join_window, join_timeout=join_timeout,
            settle=settle, max_restarts=max_restarts, deadline=deadline, pending=pending,
            strategy=strategy, disclosure=disclosure, deadlock=deadlock, auditor=auditor,
        ))

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

    async def broker(self) -> admin.Broker:
        """As errbus.Admin.broker()."""
        return await in_thread(self.sync.broker)

    async def shards(self) -> List[admin.Shard]:
        """As errbus.Admin.shards()."""
        return await in_thread(self.sync.shards)

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

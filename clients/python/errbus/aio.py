# SPDX-License-Identifier: MPL-2.0
"""The same for asyncio: await bus.get(), async for msg in bus.subscribe().

    async with errbus.aio.open(job="train", party="bob") as bus:
        grads = await bus.get("alice/grads", 7)
        async with bus.slot("model") as slot:
            await slot.commit(train(grads))

No thread waits for a value: the loop polls one descriptor for all awaited slots, and one for each
subscription and each tap.  Another one tells that there is room to send.  These calls send, and
other tasks of the loop go on while they wait for room: publish(), publish_many(), slot(), ask(),
request(), commit() of a slot, and reply() of a message.

These calls have no descriptor, and wait on a thread of their own, as long as somebody awaits them:
open(), close(), stands(), flush(), complete(), retract(), membership(), barrier(), verdict(), and
the calls of Admin.  All other calls do not wait, and are those of errbus.Bus.
"""
from __future__ import annotations

import asyncio
import functools
import time
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Optional, Tuple, Type,
    TypeVar, Union,
)

import errbus
from errbus import errors
from errbus._aio_admin import Admin, Tap
from errbus._aio_wait import Descriptor, Opening, Room, at_once_as, in_thread, in_thread_as
from errbus._bus import (
    PARTY_IS_OVER, SEND_TIMEOUT_S, Gathered, Run, Slots, _settle_with,
)
from errbus._errbus import ffi, lib
from errbus._given import number_of, utf8
from errbus._sub import PartyEnded, ended, value_of

if TYPE_CHECKING:
    from errbus._aio_wait import _Words

__all__ = ["Admin", "Bus", "Message", "Slot", "Subscription", "Tap", "open"]

_Key = Tuple[str, int]
_ROOM = 64  # rows of the table of waits, at first; it doubles


class _Answers:
    """The awaited slots of a bus: a table of wants, as the library reads it."""

    def __init__(self, bus: errbus.Bus) -> None:
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._fd = int(bus._call(lib.bus_answers_fd))
        self._room = _ROOM
        self._wants = ffi.new("struct bus_want[]", _ROOM)
        self._indexes = ffi.new("uint32_t[]", _ROOM)
        self._keys: List[_Key] = []
        self._texts: List[Any] = []  # the topics of the wants, for as long as they are there
        self._at: Dict[_Key, int] = {}
        self._waiters: Dict[_Key, List["asyncio.Future[memoryview]"]] = {}
        self._is_listening = False
        self._is_closed = False

    def wait(self, topic: str, seq: int) -> "asyncio.Future[memoryview]":
        if self._is_closed:
            raise self._closed("before")
        key = (topic, number_of(seq, "seq"))
        future = self._loop.create_future()
        waiters = self._waiters.get(key)
        if waiters is not None:
            waiters.append(future)
            return future
        index = self._add(key)
        self._waiters[key] = [future]
        self._take(index, 1)
        self._listen(bool(self._keys))
        return future

    def forget(self, topic: str, seq: int, future: "asyncio.Future[memoryview]") -> None:
        """Ends a wait that was cancelled.  If it was the last one for its slot, the bus awaits the
        slot no more."""
        key = (topic, seq)
        waiters = self._waiters.get(key)
        if waiters is None or future not in waiters:
            return
        waiters.remove(future)
        if waiters:
            return
        del self._waiters[key]
        self._remove(self._at[key])
        try:
            self._bus._call(lambda bus: lib.bus_unawait(bus, utf8(topic), seq))
        except errors.Closed:
            pass
        self._listen(bool(self._keys))

    def close(self) -> None:
        """Ends all waits, before the bus closes the descriptor: its number may then be that of
        another one."""
        self._listen(False)
        self._is_closed = True
        for waiters in self._waiters.values():
            for future in waiters:
                if not future.done():
                    future.set_exception(self._closed("during"))
        self._waiters.clear()
        self._keys.clear()
        self._texts.clear()
        self._at.clear()

    def _closed(self, when: str) -> errors.Closed:
        return errors.Closed(
            f"the bus of party {self._bus.party} of job {self._bus.job} was closed {when} this wait"
        )

    # ---- the table

    def _add(self, key: _Key) -> int:
        index = len(self._keys)
        if index == self._room:
            self._room *= 2
            wants = ffi.new("struct bus_want[]", self._room)
            ffi.memmove(wants, self._wants, index * ffi.sizeof("struct bus_want"))
            self._wants = wants
            self._indexes = ffi.new("uint32_t[]", self._room)
        text = ffi.new("char[]", utf8(key[0]))
        self._wants[index] = {"topic": text, "seq": key[1], "msg": ffi.NULL, "error": ffi.NULL}
        self._keys.append(key)
        self._texts.append(text)
        self._at[key] = index
        return index

    def _remove(self, index: int) -> None:
        """Removes a row.  The last row moves into its place."""
        key, last = self._keys[index], len(self._keys) - 1
        del self._at[key]
        if index != last:
            self._wants[index] = self._wants[last]
            self._keys[index], self._texts[index] = self._keys[last], self._texts[last]
            self._at[self._keys[index]] = index
        self._keys.pop()
        self._texts.pop()

    # ---- answers

    def _listen(self, is_wanted: bool) -> None:
        if is_wanted == self._is_listening or self._is_closed:
            return
        self._is_listening = is_wanted
        if is_wanted:
            self._loop.add_reader(self._fd, self._on_readable)
        else:
            self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        start = time.monotonic()
        self._take(0, len(self._keys))
        spent = time.monotonic() - start
        self._listen(bool(self._keys))
        if self._is_listening and spent > 0.001:  # many waits: one look serves many answers
            self._listen(False)
            self._loop.call_later(spent, lambda: self._listen(bool(self._keys)))

    def _take(self, first: int, count: int) -> None:
        out_count = ffi.new("size_t *")
        reterr = ffi.new("struct bus_error **")
        wants = self._wants + first
        try:
            code = self._bus._call(
                lambda bus: lib.shim_answers(bus, wants, count, self._indexes, out_count, reterr)
            )
            error = errors.taken(reterr)
        except errors.Closed as closed:
            self._give_up(closed, first, count)
            return
        for i in range(out_count[0] - 1, -1, -1):  # from the last row on: _remove() moves rows
            self._settle(first + self._indexes[i])
        if code not in (lib.BUS_OK, lib.BUS_ETIMEDOUT, lib.BUS_EFAILED):
            self._give_up(errors.failure_of(code, error), first, len(self._keys) - first)

    def _settle(self, index: int) -> None:
        key = self._keys[index]
        want = self._wants[index]
        msg, handle = want.msg, want.error
        value = value_of(ffi.gc(msg, lib.shim_msg_free)) if msg != ffi.NULL else None
        owned = errors.own(handle) if handle != ffi.NULL else None
        self._remove(index)
        for future in self._waiters.pop(key):
            if future.done():
                continue
            if value is not None:
                future.set_result(value)
            else:
                future.set_exception(errors.from_handle(owned))

    def _give_up(self, error: errors.Error, first: int, count: int) -> None:
        for index in range(first + count - 1, first - 1, -1):
            key = self._keys[index]
            self._remove(index)
            for future in self._waiters.pop(key):
                if not future.done():
                    future.set_exception(_again(error))


def _again(error: errors.Error) -> errors.Error:
    """A new exception of the same kind: each raise has an object of its own."""
    if isinstance(error, errors.RemoteError):
        return errors.from_handle(error._handle) if error._handle is not None else error
    made = type(error)(*error.args)
    made.error = error.error
    made.__cause__ = error.__cause__
    return made


class Slot(errbus.Slot):
    """As errbus.Slot, and for `async with`."""

    _room: Room

    async def commit(self, value: Any, copy: bool = True) -> None:  # type: ignore[override]
        """As errbus.Slot.commit()."""
        await self._room.send(
            f"the value of slot {self.seq} of {self.topic}", self.topic,
            lambda: super(Slot, self).commit(value, copy),
        )

    async def __aenter__(self) -> "Slot":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any
    ) -> None:
        self.__exit__(kind, error, trace)


_FIELDS = tuple(name for name in errbus.Message.__slots__ if name != "__weakref__")


class Message(errbus.Message):
    """As errbus.Message."""

    __slots__ = ("_room",)

    def __init__(self, msg: errbus.Message, room: Room) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(msg, name))
        self._room = room

    async def reply(self, value: Any) -> None:  # type: ignore[override]
        """As errbus.Message.reply()."""
        await self._room.send(
            f"the reply to {self.topic}#{self.seq}", None,
            lambda: super(Message, self).reply(value),
        )


Outcome = Union[Message, errors.RemoteError, errors.Overrun, PartyEnded]


class Subscription:
    """As errbus.Subscription: `async for`, await recv(), outcomes().  Tasks that wait at the same
    time get the outcomes in turn."""

    def __init__(self, sub: errbus.Subscription, room: Room) -> None:
        self._sub, self._room = sub, room
        self._descriptor = Descriptor(sub.fileno, "this subscription")

    async def _outcome(self, timeout: Optional[float] = None) -> Outcome:
        outcome = await self._descriptor.take(
            lambda: self._sub._outcome(0), timeout, lambda: self._sub._late(timeout)
        )
        return Message(outcome, self._room) if isinstance(outcome, errbus.Message) else outcome

    async def recv(self, timeout: Optional[float] = None) -> Message:
        """As errbus.Subscription.recv()."""
        outcome = await self._outcome(timeout)
        if isinstance(outcome, PartyEnded):
            raise ended(outcome)
        if isinstance(outcome, errors.Error):
            raise outcome
        return outcome

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        while True:
            try:
                outcome = await self._outcome()
            except (errors.Closed, errors.Ended):
                raise StopAsyncIteration from None
            if isinstance(outcome, errors.Error):
                raise outcome
            if isinstance(outcome, Message):
                self._sub._given = outcome
                return outcome

    async def outcomes(self) -> AsyncIterator[Outcome]:
        """As errbus.Subscription.outcomes(), for `async for`."""
        while True:
            try:
                outcome = await self._outcome()
            except (errors.Closed, errors.Ended):
                return
            if isinstance(outcome, Message):
                self._sub._given = outcome
            yield outcome

    @property
    def slot(self) -> Optional[Tuple[str, int]]:
        """As errbus.Subscription.slot."""
        return self._sub.slot

    def add(self, pattern: str) -> None:
        """As errbus.Subscription.add()."""
        self._sub.add(pattern)

    def drain(self) -> None:
        """As errbus.Subscription.drain()."""
        self._sub.drain()

    def fileno(self) -> int:
        """As errbus.Subscription.fileno()."""
        return self._sub.fileno()

    def close(self) -> None:
        """As errbus.Subscription.close().  Each wait under way raises Closed."""
        self._descriptor.close()
        self._sub.close()

    def drop(self) -> None:
        """As errbus.Subscription.drop().  Each wait under way raises Closed."""
        self._descriptor.close()
        self._sub.drop()

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._descriptor.close()
        self._sub.__exit__(kind, error, trace)


def _own_time(error: BaseException, late: errors.TimedOut) -> BaseException:
    """What a wait raises: TimedOut of the library is a TimeoutError, too."""
    return error if isinstance(error, errors.Error) else late


_Work = TypeVar("_Work", bound=Callable[[Message], Awaitable[Any]])


class Bus:
    """As errbus.Bus, for one event loop.  sync is that errbus.Bus.  If open() made it, its calls
    that send do not wait for room: they raise Full at once."""

    def __init__(self, bus: errbus.Bus, send_timeout: Optional[float] = SEND_TIMEOUT_S) -> None:
        self.sync = bus
        self.party, self.job, self.replies = bus.party, bus.job, bus.replies
        self._answers = _Answers(bus)
        self._room = Room(bus, send_timeout)

    async def get(self, topic: str, seq: int, timeout: Optional[float] = None) -> memoryview:
        """As errbus.Bus.get().  After a cancelled wait, the bus awaits the slot no more."""
        future = self._answers.wait(topic, seq)
        try:
            return await asyncio.wait_for(future, timeout)
        except asyncio.TimeoutError as error:
            what, look = self.sync._awaited(topic, seq)
            raise _own_time(error, self.sync._late(what, timeout, look)) from None
        finally:
            self._answers.forget(topic, seq, future)

    stands = in_thread_as(errbus.Bus.stands)

    async def gather(
        self,
        slots: Slots,
        need: Optional[int] = None,
        enough: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Gathered:
        """As errbus.Bus.gather()."""
        gathered = Gathered(slots, need, enough)
        tasks = {asyncio.ensure_future(self.get(*slot)): slot for slot in gathered.slots}
        end = None if timeout is None else time.monotonic() + timeout
        pending = set(tasks)
        try:
            while pending and not gathered._has_enough() and not gathered._has_failed():
                left = None if end is None else max(0.0, end - time.monotonic())
                done, pending = await asyncio.wait(
                    pending, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    late = self.sync._late(
                        f"the outcomes of {len(tasks)} slots; its gathered.missing has the open ones",
                        timeout,
                    )
                    late.gathered = gathered
                    raise late
                for task in done:
                    error = task.exception()
                    if error is None:
                        gathered.values[tasks[task]] = task.result()
                    elif isinstance(error, errors.RemoteError):
                        gathered.errors[tasks[task]] = error
                    else:
                        raise error
        finally:
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending)
        if gathered._has_failed() and not gathered._has_enough():
            raise _gather_failed(gathered)
        return gathered

    def slot(
        self,
        topic: str,
        deadline: Optional[float] = None,
        seq: Optional[int] = None,
        needs: Slots = (),
        value_bytes_max: int = 0,
    ) -> "Opening[Slot]":
        """As errbus.Bus.slot(): `async with bus.slot("model") as slot`, or `await bus.slot("model")`.
        """
        wanted = list(needs)

        def reserve() -> Slot:
            slot = self.sync.slot(topic, deadline, seq, wanted, value_bytes_max)
            slot.__class__ = Slot
            assert isinstance(slot, Slot)
            slot._room = self._room
            return slot

        return Opening(lambda: self._room.send(f"another slot of {topic}", topic, reserve))

    async def publish(self, topic: str, value: Any) -> None:
        """As errbus.Bus.publish()."""
        await self._room.send(f"a value of {topic}", topic, lambda: self.sync.publish(topic, value))

    async def publish_many(self, topic: str, values: Iterable[Any]) -> None:
        """As errbus.Bus.publish_many()."""
        rows = list(values)
        await self._room.send(
            f"{len(rows)} values of {topic}", topic, lambda: self.sync.publish_many(topic, rows)
        )

    retract = in_thread_as(errbus.Bus.retract)
    refusals = at_once_as(errbus.Bus.refusals)
    notices = at_once_as(errbus.Bus.notices)

    def subscribe(
        self,
        pattern: str,
        *more: str,
        name: Optional[str] = None,
        group: Optional[str] = None,
        from_seq: Union[int, str] = 0,
        gaps: bool = False,
        keep: float = 0,
        credit: int = 0,
        deliver_max: int = 0,
        lease: float = 0,
        pieces: bool = False,
    ) -> Subscription:
        """As errbus.Bus.subscribe()."""
        return Subscription(
            self.sync.subscribe(
                pattern, *more, name=name, group=group, from_seq=from_seq, gaps=gaps, keep=keep,
                credit=credit, deliver_max=deliver_max, lease=lease, pieces=pieces,
            ),
            self._room,
        )

    async def request(
        self,
        topic: str,
        value: Any,
        deadline: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> memoryview:
        """As errbus.Bus.request().  A cancelled wait cancels the request."""
        seq = await self.ask(topic, value, deadline)
        try:
            return await self.get(self.replies, seq, timeout)
        except errors.RemoteError:
            raise
        except BaseException:
            self.sync._forget_request(seq)
            raise

    async def ask(self, topic: str, value: Any, deadline: Optional[float] = None) -> int:
        """As errbus.Bus.ask()."""
        return await self._room.send(
            f"a request of {topic}", topic, lambda: self.sync.ask(topic, value, deadline)
        )

    def worker(
        self,
        pattern: str,
        group: str = "workers",
        threads: int = 1,
        credit: int = 0,
        deliver_max: int = 0,
        lease: float = 0,
    ) -> Callable[[_Work], _Work]:
        """As errbus.Bus.worker(), with a coroutine function.  threads: the number of tasks of the
        loop that call it.  The exception handler of the loop tells of a refused subscription."""

        def decorate(function: _Work) -> _Work:
            for _ in range(threads):
                sub = self.subscribe(
                    pattern, group=group, credit=credit, deliver_max=deliver_max, lease=lease
                )
                self._workers.append(asyncio.ensure_future(_serve(sub, function)))
            return function

        return decorate

    @property
    def _workers(self) -> List[Any]:
        workers: List[Any] = self.__dict__.setdefault("_tasks", [])
        return workers

    flush = in_thread_as(errbus.Bus.flush)
    complete = in_thread_as(errbus.Bus.complete)
    membership = in_thread_as(errbus.Bus.membership)
    barrier = in_thread_as(errbus.Bus.barrier)
    verdict = in_thread_as(errbus.Bus.verdict)
    fail = at_once_as(errbus.Bus.fail)
    progress = at_once_as(errbus.Bus.progress)
    failure_fileno = at_once_as(errbus.Bus.failure_fileno)
    stop = at_once_as(errbus.Bus.stop)

    @property
    def failure(self) -> Optional[errors.RemoteError]:
        """As errbus.Bus.failure."""
        return self.sync.failure

    @property
    def durability(self) -> str:
        """As errbus.Bus.durability."""
        return self.sync.durability

    @property
    def run(self) -> Run:
        """As errbus.Bus.run."""
        return self.sync.run

    @property
    def token(self) -> str:
        """As errbus.Bus.token."""
        return self.sync.token

    async def close(self, timeout: float = 5) -> None:
        """As errbus.Bus.close().  Each wait under way raises Closed."""
        self._end_waits()
        await in_thread(lambda: self.sync.close(timeout))

    def _end_waits(self) -> None:
        for task in self._workers:
            task.cancel()
        self._answers.close()
        self._room.close()

    async def __aenter__(self) -> "Bus":
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._end_waits()
        await in_thread(lambda: self.sync.__exit__(kind, error, trace))


def _gather_failed(gathered: Gathered) -> errors.GatherFailed:
    failed = list(gathered.errors.values())
    count, allowed = len(gathered.slots), gathered._errors_max
    text = f"{len(failed)} of {count} awaited slots failed, and {allowed} may fail"
    handle = errors.own(lib.shim_error_new(b"errbus.gather", ffi.NULL, text.encode()))
    for error in failed:
        lib.bus_error_add_cause(handle, errors.to_handle(error))
    made = errors.from_handle(handle)
    found = errors.GatherFailed(dict(made.__dict__, type="errbus.gather", message=text))
    found.root, found.gathered, found._handle = made.root, gathered, handle
    return found


async def _serve(sub: Subscription, function: Callable[[Message], Awaitable[Any]]) -> None:
    while True:
        try:
            task = await sub.recv()
        except (errors.RemoteError, errors.Overrun):
            continue
        except PARTY_IS_OVER:
            return
        except errors.Error as error:
            told = {"message": f"a worker of {sub._sub._patterns} has ended", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
            return
        try:
            result = await function(task)
            if not task.is_settled:
                if task.is_request:
                    await task.reply(b"" if result is None else result)
                else:
                    task.ack()
        except BaseException as error:
            _settle_with(task, error)
            if not isinstance(error, Exception):
                raise


def _opening(
    join: Callable[_Words, errbus.Bus]
) -> Callable[_Words, Opening[Bus]]:
    """The same call for asyncio, with the same words."""

    @functools.wraps(join)
    def opening(*words: _Words.args, **named: _Words.kwargs) -> Opening[Bus]:
        async def opened() -> Bus:
            send_timeout: Any = named.get("send_timeout", SEND_TIMEOUT_S)
            polls: Any = {**named, "send_timeout": 0}
            return Bus(await in_thread(lambda: join(*words, **polls)), send_timeout)

        return Opening(opened)

    opening.__doc__ = (
        "As errbus.open(): `async with errbus.aio.open() as bus`, or `bus = await "
        "errbus.aio.open()`."
    )
    return opening


open = _opening(errbus.open)

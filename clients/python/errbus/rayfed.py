# SPDX-License-Identifier: MPL-2.0
"""RayFed over Errbus: its values and its errors travel over one broker.

    import errbus.rayfed
    fed.init(addresses=..., party="alice", sender_proxy_cls=errbus.rayfed.Sender,
             receiver_proxy_cls=errbus.rayfed.Receiver)

The broker is $ERRBUS_SERVER, which Ray's workers inherit; the addresses of RayFed are not used.
The actor that sends joins the job as party "alice", the one that receives as "alice.in".  Each
edge of the graph of tasks is a topic with one slot, "alice/fed/bob/12.0/13".  So fed.get() raises
FedRemoteError when alice is killed, hangs or is cut off.  Its _cause is the errbus.RemoteError, with
its root.

With expose_error_trace, RayFed sends the exception of a task that failed.  Its traceback goes with
it, also to parties that are further down the graph.
"""
from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import warnings
import weakref
from typing import Any, Awaitable, Callable, Optional, Tuple, TypeVar

import cloudpickle
import fed.cleanup
import ray
from fed._private import serialization_utils
from fed.config import CrossSiloMessageConfig
from fed.exceptions import FedRemoteError
from fed.proxy import base_proxy
from ray.exceptions import RayTaskError

import errbus
import errbus.aio

_HIDDEN = "rayfed.task_failed"  # the type of an error whose exception RayFed keeps to itself
_LOOK_S = 0.2  # seconds between two attempts to begin a run, at least
_REST = 8  # at most so many times as long as an attempt took, a party is out of the old run
_PING = "ping"  # both ids in RayFed's question whether a party is there
_Found = TypeVar("_Found")


class TaskFailed(Exception):
    """A task failed, and RayFed keeps its exception to itself: expose_error_trace is off."""


TaskFailed.__module__, TaskFailed.__qualname__ = _HIDDEN.rsplit(".", 1)


def _level(text: Any) -> str:
    """One level of a topic: RayFed's "12#0" is "12.0"."""
    name = str(text).replace("#", ".").replace("%", "%25")
    return name.replace("/", "%2F").replace("+", "%2B")


def _with_trace(party: str, cause: Optional[BaseException]) -> FedRemoteError:
    """Stands for FedRemoteError where RayFed makes one of the exception of a task.  Ray keeps the
    traceback of the task apart from that exception; here it becomes a note of the exception."""
    raised = sys.exc_info()[1]
    if isinstance(raised, RayTaskError) and not isinstance(cause, FedRemoteError) and cause:
        setattr(cause, "__notes__", [str(raised)])
    return FedRemoteError(party, cause)


fed.cleanup.FedRemoteError = _with_trace


def _was_started_again() -> bool:
    with warnings.catch_warnings():  # Ray warns of its own code in this call
        warnings.simplefilter("ignore")
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


class _Link:
    """The bus of one actor.  The first call opens it."""

    def __init__(self, job: str, party: str, config: CrossSiloMessageConfig) -> None:
        self._job, self._party = _level(job), _level(party)
        self._timeout = config.timeout_in_ms / 1000
        self._disclosure = "full" if config.expose_error_trace else "message"
        self._bus: Optional[errbus.aio.Bus] = None
        self._lock: Optional[asyncio.Lock] = None
        self._over: "weakref.WeakSet[errbus.aio.Bus]" = weakref.WeakSet()  # their runs are over

    async def bus(self) -> errbus.aio.Bus:
        if self._lock is None:
            self._lock = asyncio.Lock()  # of the loop in which the actor runs
        async with self._lock:
            if self._bus is None:
                self._bus = await self._join()
            return self._bus

    async def _join(self) -> errbus.aio.Bus:
        """Joins a new run, since fed.init() counts all ids from 0 again.  An actor takes no part in
        a run in which its party was before, or whose parties have all ended: it waits for the end
        of that run.  An actor that Ray started again continues in its run.

        An attempt is itself in the old run, and several actors make them.  So an actor rests for a
        random time between two attempts, the longer the longer one takes: at some moment all rest,
        and the old run is over."""
        if _was_started_again():
            return await self._open("continue")
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            begun = time.monotonic()
            bus = await self._open("as_found")
            run = bus.sync.run
            if run.incarnations == 1 and not run.is_continued:
                return bus
            await bus.close()  # when this run is over, as_found begins the next one
            took = time.monotonic() - begun
            await asyncio.sleep(random.uniform(_LOOK_S, _LOOK_S + _REST * took))
        return await self._open("next")  # the error names the parties that have not ended

    async def _open(self, rule: str) -> errbus.aio.Bus:
        return await errbus.aio.open(
            job=self._job, party=self._party, run_rule=rule, timeout=self._timeout,
            disclosure=self._disclosure,
        )

    async def call(self, call: Callable[[errbus.aio.Bus], Awaitable[_Found]]) -> _Found:
        """Calls with the bus.  If another party began the next run of the job meanwhile, it calls
        again with a bus of that run, and closes this one."""
        while True:
            bus = await self.bus()
            try:
                return await call(bus)
            except (errbus.Fenced, errbus.Closed) as error:
                found = error.error.type if error.error is not None else ""
                if found != "errbus.attempt_over" and bus not in self._over:
                    raise
            await self._leave(bus)

    async def _leave(self, bus: errbus.aio.Bus) -> None:
        if bus in self._over:
            return  # another call was here first
        self._over.add(bus)
        if self._bus is bus:
            self._bus = None
        try:
            await bus.close(0)
        except errbus.Error:
            pass  # the broker takes nothing more of that run

    async def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()


class Sender(base_proxy.SenderProxy):  # type: ignore[misc]
    """fed.init(sender_proxy_cls=errbus.rayfed.Sender)"""

    def __init__(
        self, addresses: Any, party: str, job_name: str, tls_config: Any, proxy_config: Any = None
    ) -> None:
        config = CrossSiloMessageConfig.from_dict(proxy_config)
        super().__init__(addresses, party, job_name, tls_config, config)
        self._link = _Link(job_name, party, config)

    async def is_ready(self) -> bool:
        await self._link.bus()
        return True

    async def send(
        self, dest_party: str, data: Any, upstream_seq_id: Any, downstream_seq_id: Any
    ) -> str:
        """Returns when the broker has the value, as durable as its journal makes it."""
        if upstream_seq_id == downstream_seq_id == _PING:
            await self._link.call(lambda bus: bus.get(f"{_level(dest_party)}.in/ready", 0))
            return "OK"
        edge = _edge(self._party, dest_party, upstream_seq_id, downstream_seq_id)
        error = await self._error_of(data) if isinstance(data, FedRemoteError) else None
        value = None if error is not None else cloudpickle.dumps(data)

        async def write(bus: errbus.aio.Bus) -> None:
            async with bus.slot(edge, seq=0) as slot:
                if error is not None:
                    slot.fail(error)
                else:
                    await slot.commit(value)
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(None, bus.sync.stands, edge, 0)
            except errbus.RemoteError:
                if error is None:
                    raise

        await self._link.call(write)
        return "OK"

    async def _error_of(self, data: FedRemoteError) -> BaseException:
        """The exception with which the slot fails."""
        below: Optional[BaseException] = data._cause
        while isinstance(below, FedRemoteError):
            below = below._cause
        if isinstance(below, errbus.RemoteError):
            data.__cause__ = await self._original(below)
            below = data
        if below is not None:
            return below
        return TaskFailed(
            f"a task of {data._src_party} failed, and its exception is not told: set "
            "expose_error_trace in cross_silo_comm to see it"
        )

    async def _original(self, told: errbus.RemoteError) -> errbus.RemoteError:
        """The error of the broker: the exception that came through Ray is a copy of it."""
        if told.topic:
            topic, seq = told.topic, told.seq
            try:
                await self._link.call(lambda bus: bus.get(topic, seq, self._link._timeout))
            except errbus.RemoteError as error:
                return error
            except errbus.TimedOut:
                pass
        return told

    async def stop(self) -> None:
        await self._link.close()


class Receiver(base_proxy.ReceiverProxy):  # type: ignore[misc]
    """fed.init(receiver_proxy_cls=errbus.rayfed.Receiver)"""

    def __init__(
        self, listen_addr: str, party: str, job_name: str, tls_config: Any, proxy_config: Any = None
    ) -> None:
        config = CrossSiloMessageConfig.from_dict(proxy_config)
        super().__init__(listen_addr, party, job_name, tls_config, config)
        self._link = _Link(job_name, f"{party}.in", config)

    async def start(self) -> None:
        """Never returns.  RayFed keeps no handle of the actor, and this task keeps it alive."""
        await self.is_ready()
        await asyncio.get_running_loop().create_future()

    async def is_ready(self) -> Tuple[bool, str]:
        try:
            await self._link.call(self._say_ready)
        except errbus.Error as error:
            return False, f"Errbus, at {os.environ.get('ERRBUS_SERVER', 'the default')}: {error}"
        return True, ""

    async def _say_ready(self, bus: errbus.aio.Bus) -> None:
        try:
            async with bus.slot("ready", seq=0) as slot:
                await slot.commit(b"")
        except errbus.Settled:
            pass  # an earlier call settled the slot

    async def get_data(self, src_party: str, upstream_seq_id: Any, curr_seq_id: Any) -> Any:
        edge = _edge(src_party, self._party, upstream_seq_id, curr_seq_id)
        try:
            value = await self._link.call(lambda bus: bus.get(edge, 0))
        except errbus.RemoteError as error:
            return FedRemoteError(src_party, None if error.type == _HIDDEN else error)
        serialization_utils._apply_loads_function_with_whitelist()
        return cloudpickle.loads(value)

    async def stop(self) -> None:
        await self._link.close()


def _edge(source: str, destination: str, upstream: Any, downstream: Any) -> str:
    names = (source, "fed", destination, upstream, downstream)
    return "/".join(_level(name) for name in names)

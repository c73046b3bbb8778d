# SPDX-License-Identifier: MPL-2.0
"""A rendezvous of torchrun over Errbus: its nodes are the members of a job.

    torchrun --rdzv-backend=errbus --rdzv-endpoint=tcp://broker:7370 --rdzv-id=train \\
        --nnodes=2:4 --nproc-per-node=8 train.py

An empty endpoint is $ERRBUS_SERVER; the id is the name of the job, which the first node creates.

A place is an epoch of the membership and a round in it.  A node that wants a rendezvous says so in
its topic "rendezvous", and waits at the next barrier of the epoch.  The other nodes read that, stop
their workers, and come.  So a node whose workers failed stays a member and keeps its rank.  The loss
of a node, or a new node, begins a new epoch with new rounds.

--rdzv-conf has these words; times are seconds:
    join_window   30    the job waits so long for more nodes: when it begins, and while it has
                        fewer nodes than the least
    timeout       600   for a rendezvous
    read_timeout  60    for a key of a store
    party               the name of this node; without it, a name of host and process
"""
from __future__ import annotations

import json
import os
import socket
import sys
import time
from datetime import timedelta
from typing import Any, Callable, Dict, Optional, Tuple, Type

from torch.distributed import TCPStore
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

import errbus

_TOPIC = "rendezvous"
_LOOK_S = 0.1  # seconds to wait for news of other nodes, before a look for a newer epoch
_LOST_S = 30.0  # seconds until the loss of a node whose store is gone is known
_END_S = 30.0  # seconds for the last words of a node

_Place = Tuple[int, int]  # an epoch, and a round in it


class Rendezvous(RendezvousHandler):  # type: ignore[misc]
    """The rendezvous of one node; the text of the module describes it."""

    def __init__(self, params: RendezvousParameters) -> None:
        self._endpoint: Optional[str] = params.endpoint or None
        self._job: str = params.run_id
        self._party = params.get("party") or f"{socket.gethostname()}-{os.getpid()}"
        self._address: str = params.local_addr or socket.getfqdn()
        self._timeout = float(params.get("timeout", 600))
        self._read = timedelta(seconds=float(params.get("read_timeout", 60)))
        self._bus: Optional[errbus.Bus] = None
        self._sub: Optional[errbus.Subscription] = None
        self._place: _Place = (0, 0)  # of the last rendezvous
        self._wanted: Dict[str, _Place] = {}  # the last place that each node wanted
        self._where: Dict[_Place, Tuple[str, int]] = {}  # the store of a place
        self._stores: Tuple[TCPStore, ...] = ()  # of the agents, and of the workers
        self._is_closed = False
        self._admin = errbus.Admin(self._endpoint)
        self._create(
            min=params.min_nodes, max=params.max_nodes,
            join_window=float(params.get("join_window", 30)), join_timeout=self._timeout,
        )

    def _create(self, **options: Any) -> None:
        """Creates the job.  If a job of this name has just ended, it waits for its last nodes."""
        end = time.monotonic() + _LOST_S
        while True:
            try:
                self._admin.job_create(self._job, **options)
                return
            except errbus.Denied as error:
                is_over = error.error is not None and error.error.type == "errbus.job_over"
                if not is_over or time.monotonic() >= end:
                    raise
            time.sleep(_LOOK_S)

    # ---- what torchrun asks

    def get_backend(self) -> str:
        """The word of --rdzv-backend."""
        return "errbus"

    def get_run_id(self) -> str:
        """The name of the job."""
        return self._job

    @property
    def use_agent_store(self) -> bool:
        """True: the workers meet at a store of the first agent, which holds its port already."""
        return True

    def is_closed(self) -> bool:
        """Whether the job is over: no node may join any more."""
        return self._is_closed

    def set_closed(self) -> None:
        """Ends the job for all nodes."""
        self._cancel("the rendezvous was closed")

    def num_nodes_waiting(self) -> int:
        """The number of nodes that want the next rendezvous.  A newer epoch counts as one node."""
        bus = self._bus
        if bus is None:
            return 0
        try:
            self._hear(0)
            if self._is_newer(bus, self._place[0]):
                return 1
        except errbus.Error as error:
            raise self._over(error) from error
        return sum(wanted > self._place for wanted in self._wanted.values())

    def next_rendezvous(self) -> RendezvousInfo:
        """Waits until all members of an epoch are here.  Raises RendezvousTimeoutError after the
        timeout in seconds, RendezvousClosedError if the job is over, and RendezvousConnectionError
        if the broker, or the first node, is not reached."""
        try:
            bus = self._join()
            epoch = 0  # that is over
            while True:
                member = self._member(bus, epoch)
                found = self._meet(bus, member, time.monotonic() + self._timeout)
                if found is not None:
                    return found
                epoch = member.epoch
        except errbus.TimedOut:
            raise RendezvousTimeoutError(
                f"node {self._party} had no rendezvous of job {self._job} within "
                f"{self._timeout:g} s: 'errbus job show {self._job}' says which nodes came"
            ) from None
        except errbus.Error as error:
            raise self._over(error) from error

    def shutdown(self) -> bool:
        """Ends the part of this node.  The job completes when all nodes have.  If the workers of
        this node failed for the last time, the job ends for all nodes, with their error.  If another
        exception ends this node, the other nodes continue without it."""
        bus, self._bus = self._bus, None
        error = sys.exc_info()[1]
        try:
            if bus is None:
                return True
            if error is None:
                bus.complete(_END_S)
            else:
                bus.fail(error)
                if isinstance(error, ChildFailedError):
                    self._cancel(f"{self._party}: {_first_of(error)}")
            bus.close()
            return True
        except errbus.Error:
            return False  # the job has ended
        finally:
            self._admin.close()
            self._stores = ()

    # ---- a rendezvous

    def _join(self) -> errbus.Bus:
        if self._bus is None:
            self._bus = errbus.open(self._endpoint, job=self._job, party=self._party)
            self._sub = self._bus.subscribe(f"+/{_TOPIC}")
        return self._bus

    def _member(self, bus: errbus.Bus, epoch: int) -> errbus.Membership:
        """The place of this node in a newer epoch.  A job with its most nodes lets further nodes
        wait without a limit."""
        while True:
            try:
                return bus.membership(epoch, self._timeout)
            except errbus.TimedOut:
                job = self._admin.job(self._job)
                if job.state != "running" or not any(
                    one.party == self._party and one.rank is None for one in job.members
                ):
                    raise

    def _meet(self, bus: errbus.Bus, member: errbus.Membership, end: float
              ) -> Optional[RendezvousInfo]:
        """The next round of an epoch; None if the epoch is over."""
        last = self._place
        place = (member.epoch, last[1] + 1 if last[0] == member.epoch else 1)
        stores = self._serve() if member.rank == 0 else ()
        word = {"place": place, "port": stores[0].port if stores else 0, "host": self._address}
        bus.publish(_TOPIC, json.dumps(word))
        try:
            bus.barrier(member.epoch, _left(end))
            where = self._where_of(bus, place, end)
        except errbus.RemoteError as error:
            if error.type != "errbus.epoch":
                raise
            return None
        if where is None:
            return None
        try:
            found = stores or (TCPStore(*where, is_master=False, timeout=self._read),)
            info = RendezvousStoreInfo.build(
                member.rank, found[0], self._address, found[-1].port if stores else None
            )
        except RuntimeError as error:
            self._await_loss(bus, member.epoch, error)
            return None
        self._place, self._stores = place, found
        self._where = {at: store for at, store in self._where.items() if at > place}
        return RendezvousInfo(found[0], member.rank, member.world_size, info)

    def _serve(self) -> Tuple[TCPStore, ...]:
        """The stores of rank 0: one for the agents, one for the workers."""
        return tuple(
            TCPStore(self._address, 0, is_master=True, wait_for_workers=False, timeout=self._read)
            for _ in range(2)
        )

    def _where_of(self, bus: errbus.Bus, place: _Place, end: float) -> Optional[Tuple[str, int]]:
        """Where the store of rank 0 is; None if the epoch is over."""
        while place not in self._where:
            if self._is_newer(bus, place[0]):
                return None
            self._hear(min(_LOOK_S, _left(end)))
            if _left(end) == 0:
                raise errbus.TimedOut(f"the first node of job {self._job} did not name its store")
        return self._where[place]

    def _await_loss(self, bus: errbus.Bus, epoch: int, error: RuntimeError) -> None:
        """Finds out why a store is out of reach: if its node was lost, a newer epoch comes."""
        try:
            bus.membership(epoch, _LOST_S)
        except errbus.TimedOut:
            raise RendezvousConnectionError(
                f"node {self._party} does not reach the store of the first node, which is still "
                f"in job {self._job}: {error}; see --local-addr of that node, and firewalls"
            ) from error

    def _hear(self, timeout: float) -> None:
        """Takes all that the nodes said.  If that is nothing, it waits for timeout seconds."""
        assert self._sub is not None
        while True:
            try:
                msg = self._sub.recv(timeout)
            except errbus.TimedOut:
                return
            except (errbus.RemoteError, errbus.Ended, errbus.Overrun):
                continue  # a node ended; the membership tells that
            timeout = 0
            word = json.loads(bytes(msg))
            place = (word["place"][0], word["place"][1])
            self._wanted[msg.topic] = place
            if word["port"]:
                self._where[place] = (word["host"], word["port"])
            msg.ack()

    @staticmethod
    def _is_newer(bus: errbus.Bus, epoch: int) -> bool:
        try:
            bus.membership(epoch, 0)
        except errbus.TimedOut:
            return False
        return True

    # ---- the end

    def _over(self, error: errbus.Error) -> RendezvousError:
        """The exception of torchrun for an error."""
        kind: Type[RendezvousError] = RendezvousConnectionError
        if isinstance(error, (errbus.Fenced, errbus.Denied, errbus.Closed, errbus.Ended)):
            self._is_closed, kind = True, RendezvousClosedError
        return kind(f"job {self._job}: {error}")

    def _cancel(self, why: str) -> None:
        self._is_closed = True
        try:
            self._admin.job_cancel(self._job, why)
        except errbus.Error:
            pass  # the job has ended


def _first_of(error: ChildFailedError) -> str:
    """The error of the worker that failed first."""
    rank, failure = error.get_first_failure()
    said = failure.message
    if isinstance(said, dict):
        said = said.get("message")
    lines = str(said).strip().splitlines()  # the last one of a traceback is the error
    if not lines or not os.path.isfile(failure.error_file):
        lines = [f"exit code {failure.exitcode}"]
    return f"rank {rank}: {lines[-1]}"


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())


def handler() -> Callable[[RendezvousParameters], Any]:
    """The handler that the entry point torchrun.handlers names."""
    return Rendezvous

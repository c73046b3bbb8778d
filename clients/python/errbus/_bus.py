# SPDX-License-Identifier: MPL-2.0
"""A membership in one attempt of one job: it promises, writes and awaits values."""
from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import weakref
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    Union,
)

from errbus import _slot, _wait, errors
from errbus._errbus import ffi, lib
from errbus._given import number_of, utf8
from errbus._slot import Slot, place_of_slot
from errbus._sub import Message, Subscription, payload, value_in, value_of

DISCLOSURES = {"full": 1, "message": 2, "type": 3, "none": 4}
RUN_RULES = {"as_found": 0, "continue": 1, "follow": 2, "next": 3}
_USERS_WAIT_S = 10.0  # close() waits so long for calls of other threads
_EXIT_S = 1.0
_ASK_MOST_MS = 6400  # a party that is over asks over a new connection in each slice
SEND_TIMEOUT_S = 30.0
_NO_REQUEST = 2**64 - 1
_SEQ_MOST = 2**63 - 1
_INT_MOST = 2**31 - 1
_DEADLINE_MOST_MS = 86400000

# What a worker ends with and says nothing of: all other calls of the party raise it, too.
PARTY_IS_OVER = (errors.Closed, errors.Ended, errors.Fenced, errors.Lost)

Slots = Iterable[Tuple[str, int]]

_open_buses: "weakref.WeakSet[Bus]" = weakref.WeakSet()


class Membership(NamedTuple):
    """A place in an epoch of a created job: this party's rank of 0 to world_size - 1."""

    epoch: int
    attempt: int
    rank: int
    world_size: int


class Run(NamedTuple):
    """The run of a job that this party joined.  A party sees the topics of its own run alone."""

    number: int  # from 1 on in each job; of a created job: its attempt
    incarnations: int  # of this party in this run; this incarnation counts
    is_continued: bool  # all parties of this run had ended before this party joined
    rest: float  # with is_continued: the end of the last one, in seconds since the epoch


class Gathered:
    """The result of Bus.gather().

    slots is a list of (topic, number).  values maps a slot to its bytes, a read-only memoryview.
    errors maps a slot to its RemoteError.
    """

    def __init__(self, slots: Slots, need: Optional[int], enough: Optional[int]) -> None:
        self.slots: List[Tuple[str, int]] = list(slots)
        self.values: Dict[Tuple[str, int], memoryview] = {}
        self.errors: Dict[Tuple[str, int], errors.RemoteError] = {}
        count = len(self.slots)
        least = need if need is not None else enough if enough is not None else count
        if not 0 <= least <= count or not 0 <= (enough or 0) <= count:
            raise errors.Invalid(
                f"gather() of {count} slots: need and enough are from 0 to {count}, not {need!r} and "
                f"{enough!r}"
            )
        self._enough = count if enough is None else enough
        self._errors_max = count - least

    def _has_enough(self) -> bool:
        return len(self.values) >= self._enough

    def _has_failed(self) -> bool:
        return len(self.errors) > self._errors_max

    @property
    def missing(self) -> List[Tuple[str, int]]:
        """The slots without an outcome, in the order of slots."""
        return [s for s in self.slots if s not in self.values and s not in self.errors]

    def __repr__(self) -> str:
        return (
            f"<errbus.Gathered {len(self.values)} values, {len(self.errors)} errors, "
            f"{len(self.missing)} missing>"
        )


def _or_null(text: Optional[str], keep: List[Any]) -> Any:
    if text is None:
        return ffi.NULL
    chars = ffi.new("char[]", utf8(text))
    keep.append(chars)
    return chars


def _one_of(names: Dict[str, int], name: str, what: str) -> int:
    try:
        return names[name]
    except KeyError:
        raise errors.Invalid(f"{what} is one of {', '.join(names)}, not {name!r}") from None


def _deadline_ms(deadline: Optional[float]) -> int:
    ms = _wait.to_ms(deadline)
    if deadline is not None and not 0 < ms <= _DEADLINE_MOST_MS:
        raise errors.Invalid(
            f"deadline is None, or from 0.001 to {_DEADLINE_MOST_MS // 1000} seconds, not {deadline}"
        )
    return ms


class Bus:
    """A membership; errbus.open() makes it.  Any thread may call it at any time.

    Times are in seconds; None stands for no limit.  Ctrl-C ends every wait.  The end of a `with`
    block leaves the job, as close() does.  An exception that leaves the block fails the party.  So
    does an exception that ends the program, but for sys.exit(): outside of the block it leaves,
    whatever its status.
    """

    def __init__(self, place: Any, send_timeout: Optional[float]) -> None:
        """place: a struct bus ** that closes the bus when it is dropped."""
        pointer = place[0]
        self._place = place
        self._users: List[int] = []
        self._left: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # news: the last user left
        self._box = [pointer]  # from here on __del__() closes the bus
        self._send_timeout = send_timeout
        self._is_stopped = False
        self._workers: List[threading.Thread] = []
        self._replies: str = ffi.string(lib.bus_replies(pointer)).decode()
        self.party: str = ffi.string(lib.bus_party(pointer)).decode()
        self.job: str = ffi.string(lib.bus_job(pointer)).decode()
        _open_buses.add(self)
        _wait.tell_of_forks(self)

    # ---- calls: close() frees the handle when none is under way

    def _call(self, call: Callable[[Any], Any]) -> Any:
        self._users.append(1)
        try:
            if not self._box:
                raise errors.Closed(
                    f"the bus of party {self.party} of job {self.job} is closed, or belongs to the "
                    "parent of this process: errbus.open() makes another one"
                )
            return call(self._box[0])
        finally:
            self._users.pop()
            if not self._box and not self._users and self._left.empty():
                self._left.put(None)

    def _check(self, call: Callable[[Any], Any]) -> None:
        code = self._call(call)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def _with_room(self, call: Callable[[], Any], topic: Optional[str]) -> int:
        """A call that sends: it waits for room for send_timeout seconds, which begin anew while the
        broker takes what it waits behind.  topic: its own; None: a reply."""
        name = ffi.NULL if topic is None else utf8(topic)
        code = _wait.for_room(
            call,
            lambda: int(self._call(lambda bus: lib.bus_room_progress(bus, name))),
            self._send_timeout,
        )
        if code == lib.BUS_ETIMEDOUT:
            what = "a reply" if topic is None else f"a value of {topic}"
            raise errors.Full(
                f"party {self.party} of job {self.job} waited {self._send_timeout or 0:g} s for room "
                f"for {what}, and the broker took nothing: call again, or see 'errbus status "
                f"{self.job}'"
            )
        return code

    def _send(self, call: Callable[[Any], Any], topic: str) -> None:
        code = self._with_room(lambda: self._call(call), topic)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def _late(self, what: str, timeout: Optional[float], look: str = "") -> errors.TimedOut:
        """The error of a wait whose time is up.  look: the command that says more."""
        who = f"party {self.party} of job {self.job}"
        return errors.late(who, what, timeout, look or f"errbus why {self.job}")

    def _awaited(self, topic: str, seq: int) -> Tuple[str, str]:
        """The slot of a wait, and the command that says more."""
        what = f"slot {seq} of {topic}, which has no outcome yet"
        return what, f"errbus why -j {self.job} {topic} {seq}"

    def _wait_for(
        self, call: Callable[[Any, int, Any], Any], timeout: Optional[float], what: str,
        look: str = "",
    ) -> int:
        """A call that waits and has a reterr, in slices.  It raises an error for each code but
        BUS_OK.  what, look: as in _late()."""
        reterr = ffi.new("struct bus_error **")

        def one(timeout_ms: int) -> int:
            if reterr[0] != ffi.NULL:
                lib.bus_error_unref(reterr)
            return int(self._call(lambda bus: call(bus, timeout_ms, reterr)))

        code = _wait.in_slices(one, timeout, takes_slices=True)
        if code == lib.BUS_ETIMEDOUT:
            raise self._late(what, timeout, look)
        if code != lib.BUS_OK:
            errors.raise_code(code, reterr)
        return code

    # ---- writing

    def slot(
        self,
        topic: str,
        deadline: Optional[float] = None,
        seq: Optional[int] = None,
        needs: Slots = (),
        value_bytes_max: int = 0,
    ) -> Slot:
        """Reserves a slot of an own topic: others read "model" of alice as "alice/model".

        deadline: seconds after which the slot fails with kind deadline.  seq: its number, above all
        earlier ones; None: the next one.  needs: slots as (topic, number); when one of them fails,
        this slot fails too.  value_bytes_max: the most bytes of its value; commit() raises TooBig
        for more.  0: the limit of the broker.  Raises Denied for a topic of another party, Settled
        for a number that was used, Full after send_timeout, Invalid for a text that is no name.
        """
        options = ffi.new("struct bus_slot_options *")
        lib.shim_slot_options_init(options)
        keep: List[Any] = []
        wanted = list(needs)
        refs = ffi.new("struct bus_slot_ref[]", max(1, len(wanted)))
        for i, (needed, number) in enumerate(wanted):
            refs[i].topic = _or_null(needed, keep)
            refs[i].seq = number_of(number, f"the number of a slot of {needed}")
        options.seq = lib.BUS_NEXT if seq is None else number_of(seq, "seq", _SEQ_MOST)
        options.deadline_ms = _deadline_ms(deadline)
        options.value_bytes_max = number_of(value_bytes_max, "value_bytes_max")
        options.needs = refs
        options.need_count = len(wanted)
        out = place_of_slot()
        name = utf8(topic)
        reterr = ffi.new("struct bus_error **")

        def call(bus: Any) -> int:
            if reterr[0] != ffi.NULL:
                lib.bus_error_unref(reterr)
            return int(lib.bus_slot_reserve_with(bus, name, options, out, reterr))

        whole = topic if "/" in topic else f"{self.party}/{topic}"
        try:
            code = self._with_room(lambda: self._call(call), topic)
            if code != lib.BUS_OK:
                errors.raise_code(code, reterr)
            return Slot(self, out, whole)
        except BaseException as error:
            if out[0] != ffi.NULL:  # promised, and the caller never sees the slot
                lib.bus_slot_fail(out, errors.to_handle(error))
            raise

    def publish(self, topic: str, value: Any) -> None:
        """Publishes one value, which it copies: bytes, a str, or a buffer such as a numpy array.
        Raises as Slot.commit(), and Denied for a topic of another party."""
        name, data = utf8(topic), payload(value)
        self._send(lambda bus: lib.bus_publish(bus, name, data, len(data)), topic)

    def publish_many(self, topic: str, values: Iterable[Any]) -> None:
        """Publishes many values of one topic in one call: all of them, or none if it raises.
        Raises as publish(), and Full at once for more bytes than outbox_bytes."""
        name = utf8(topic)
        keep = [payload(value) for value in values]
        rows = ffi.new("struct bus_value[]", max(1, len(keep)))
        for i, data in enumerate(keep):
            rows[i].data = ffi.cast("void *", data)
            rows[i].bytes = len(data)
        self._send(lambda bus: lib.bus_publish_many(bus, name, rows, len(keep)), topic)

    def retract(
        self,
        topic: str,
        seq: int,
        error: Optional[BaseException] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Replaces the value of an own slot by an error, if the broker has sent it to no subscriber
        yet.  It also settles an open slot, and cancels a request.  Raises Settled if a subscriber
        was sent the value, or if the outcome is an error already.  Raises TimedOut after timeout
        seconds; get() then tells the outcome."""
        name, seq = utf8(topic), number_of(seq, "seq")
        handle, ms = errors.to_handle(error), _wait.to_ms(timeout)

        def call() -> None:
            self._check(lambda bus: lib.bus_retract(bus, name, seq, handle, ms))

        call() if ms == lib.BUS_POLL else _wait.on_thread(call)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until the broker has answered all that this bus sent.  Raises Settled if the broker
        refused something: refusals() has it.  Raises TimedOut after timeout seconds, and Lost if the
        broker is out of reach for too long."""
        code = _wait.in_slices(
            lambda ms: int(self._call(lambda bus: lib.bus_flush(bus, ms))), timeout
        )
        if code != lib.BUS_OK:
            errors.raise_code(code)
        _slot.release_owned()

    def refusals(self) -> List[errors.RemoteError]:
        """Takes the errors of all that the broker refused: values and errors of this party that do
        not stand."""
        return self._take_all(lib.bus_refusal)

    def notices(self) -> List[errors.RemoteError]:
        """Takes the notices that have come: what this party may want to know, and is no failure."""
        return self._take_all(lambda bus, out: lib.bus_notice(bus, lib.BUS_POLL, out))

    def _take_all(self, call: Any) -> List[errors.RemoteError]:
        taken: List[errors.RemoteError] = []
        out = ffi.new("struct bus_error **")
        while self._call(lambda bus: call(bus, out)) == lib.BUS_OK:
            taken.append(errors.from_handle(errors.own(out[0])))
        return taken

    # ---- awaiting

    def get(self, topic: str, seq: int, timeout: Optional[float] = None) -> memoryview:
        """Waits for slot seq of a topic such as "alice/grads".  Returns its bytes without a copy,
        as a memoryview that is read-only and one-dimensional.

        np.frombuffer(value, "f4").reshape(shape) makes an array of it, which keeps the bytes alive.
        Raises the error in the place of the value, as the class of its kind.  Raises TimedOut after
        timeout seconds; another call goes on with the wait.  Raises Fenced, Lost or Closed if this
        party is over.  The call also waits for a party that has not joined yet.
        """
        out = ffi.gc(ffi.new("struct bus_msg **"), lib.bus_msg_free)
        name, seq = utf8(topic), number_of(seq, "seq")
        self._wait_for(
            lambda bus, ms, err: lib.bus_await(bus, name, seq, ms, out, err),
            timeout, *self._awaited(topic, seq),
        )
        return value_in(out)

    def stands(self, topic: str, seq: int, timeout: Optional[float] = None) -> None:
        """Waits for the outcome of a slot without its value.  An own slot is waited for until the
        broker has its outcome, as durable as `durability` says.  Raises as get()."""
        name, seq = utf8(topic), number_of(seq, "seq")
        self._wait_for(
            lambda bus, ms, err: lib.bus_await(bus, name, seq, ms, ffi.NULL, err),
            timeout, *self._awaited(topic, seq),
        )

    def gather(
        self,
        slots: Slots,
        need: Optional[int] = None,
        enough: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Gathered:
        """Waits for many slots, given as (topic, number).

        need: the least number of values; with fewer, the call raises GatherFailed, whose causes are
        all errors.  None: all slots.  enough: with so many values the call returns at once; None:
        it waits for all outcomes.  Raises TimedOut after timeout seconds.  Both exceptions have a
        Gathered in `gathered`.
        """
        gathered = Gathered(slots, need, enough)
        count = len(gathered.slots)
        keep: List[Any] = []
        wants = ffi.new("struct bus_want[]", max(1, count))
        for i, (topic, seq) in enumerate(gathered.slots):
            wants[i].topic = _or_null(topic, keep)
            wants[i].seq = number_of(seq, f"the number of a slot of {topic}")
        try:
            self._wait_for(
                lambda bus, ms, err: lib.bus_gather(
                    bus, wants, count, gathered._enough, gathered._errors_max, ms, err
                ),
                timeout, f"the outcomes of {count} slots; its gathered.missing has the open ones",
            )
        except errors.Error as error:
            self._settle(wants, gathered)
            error.gathered = gathered
            raise
        except BaseException:
            lib.bus_wants_free(wants, count)
            raise
        self._settle(wants, gathered)
        return gathered

    def _settle(self, wants: Any, gathered: Gathered) -> None:
        for i, slot in enumerate(gathered.slots):
            if wants[i].msg != ffi.NULL:
                gathered.values[slot] = value_of(ffi.gc(wants[i].msg, lib.shim_msg_free))
            elif wants[i].error != ffi.NULL:
                gathered.errors[slot] = errors.from_handle(errors.own(wants[i].error))

    # ---- subscribing

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
        """Subscribes to all topics that one of the patterns matches: "alice/grads", "+/grads",
        "alice/#".

        name: the subscription is durable, under this name.  group: each value is a task of one
        member of the group.  from_seq: the first number, or "oldest": the oldest slot that the
        broker keeps, or "now".  gaps: a reader that is too slow loses slots, and Overrun says so;
        without it the writers wait.  keep: seconds for which a durable name without a reader, or a
        group without a member, holds writers back; 0: 600.  credit: tasks that a member holds at a
        time; 0: 1.  deliver_max: deliveries of a task in all; 0: as the group has it, else 5.
        lease: seconds of silence after which the tasks of a member go to others; 0: when the member
        is lost.  pieces: a large value comes in pieces, each when it arrives; see Message.piece.
        Raises Invalid for a text that is no pattern.  The first receive raises what the broker
        refuses.
        """
        texts: List[Any] = []
        options = ffi.new("struct bus_sub_options *")
        lib.shim_sub_options_init(options)
        options.name = _or_null(name, texts)
        options.group = _or_null(group, texts)
        words = {"oldest": lib.BUS_FROM_OLDEST, "now": lib.BUS_FROM_NOW}
        options.from_seq = (
            _one_of(words, from_seq, "from_seq") if isinstance(from_seq, str)
            else number_of(from_seq, "from_seq", _SEQ_MOST)
        )
        options.overflow = lib.BUS_OVERFLOW_GAP if gaps else lib.BUS_OVERFLOW_BLOCK
        options.keep_ms = _wait.to_ms(keep)
        options.credit = number_of(credit, "credit", _INT_MOST)
        options.deliver_max = number_of(deliver_max, "deliver_max", _INT_MOST)
        options.lease_ms = _wait.to_ms(lease)
        options.is_in_pieces = 1 if pieces else 0
        out = ffi.new("struct bus_sub **")
        self._check(lambda bus: lib.bus_sub_open(bus, utf8(pattern), options, out))
        sub = Subscription(self, out[0], " ".join((pattern, *more)))
        for other in more:
            sub.add(other)
        return sub

    # ---- requests

    def request(
        self,
        topic: str,
        value: Any,
        deadline: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> memoryview:
        """Asks a group, and waits for the reply of one member.  Returns bytes as get() does.

        deadline: seconds after which the broker fails the request.  Raises the error of the worker,
        WorkerLost if the last worker that held the request was lost, and TimedOut after timeout
        seconds.  A wait that ends without an answer cancels the request.
        """
        seq = self.ask(topic, value, deadline)
        try:
            return self.get(self._replies, seq, timeout)
        except errors.RemoteError:
            raise
        except BaseException:
            self._forget_request(seq)
            raise

    def ask(self, topic: str, value: Any, deadline: Optional[float] = None) -> int:
        """Asks a group without waiting, and returns a number: get(bus.replies, number) waits for
        the reply.  Raises as publish()."""
        name, data, ms = utf8(topic), payload(value), _deadline_ms(deadline)
        out = ffi.new("uint64_t *", _NO_REQUEST)
        try:
            self._send(lambda bus: lib.bus_request(bus, name, data, len(data), ms, out), topic)
            return int(out[0])
        except BaseException:
            if out[0] != _NO_REQUEST:  # asked, and the caller never sees the number
                self._forget_request(out[0])
            raise

    @property
    def replies(self) -> str:
        """The topic of the replies to this party."""
        return self._replies

    def _forget_request(self, seq: int) -> None:
        try:
            self.retract(self._replies, seq, None, 0)
        except errors.Error:
            pass  # the request or the bus has ended

    def worker(
        self,
        pattern: str,
        group: str = "workers",
        threads: int = 1,
        credit: int = 0,
        deliver_max: int = 0,
        lease: float = 0,
    ) -> Callable[[Callable[[Message], Any]], Callable[[Message], Any]]:
        """Decorates a function: it becomes a member of a group, whose own threads call it with each
        task.

        The result of the function is the reply to a request (None: an empty one), and its exception
        fails the request.  So does a result that is no value.  If a task is no request, an exception
        of the function brings the task back to the group, for deliver_max deliveries in all.
        credit, deliver_max, lease: as in subscribe().  The threads end with the bus.  If the broker
        refuses the subscription, each thread ends with that exception: threading.excepthook()
        prints it.
        """

        def decorate(function: Callable[[Message], Any]) -> Callable[[Message], Any]:
            for number in range(threads):
                sub = self.subscribe(
                    pattern, group=group, credit=credit, deliver_max=deliver_max, lease=lease
                )
                thread = threading.Thread(
                    target=_serve,
                    args=(sub, function),
                    name=f"errbus-{group}-{number}",
                    daemon=True,
                )
                self._workers.append(thread)
                thread.start()
            return function

        return decorate

    # ---- the party and its job

    def complete(self, timeout: Optional[float] = None) -> None:
        """Says that this party has done its work.  Raises Invalid if slots are open, Fenced if the
        party is over, TimedOut after timeout seconds, and else as flush()."""
        code = self._call(lambda bus: lib.bus_complete(bus, lib.BUS_POLL))
        if code not in (lib.BUS_OK, lib.BUS_ETIMEDOUT):  # flush() waits for the answer
            errors.raise_code(code)
        self.flush(timeout)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Says that the whole party failed.  The error settles its open slots, and is one of the
        errors of the job."""
        handle = errors.to_handle(error)
        self._call(lambda bus: lib.bus_fail(bus, handle))

    def progress(self, within: Optional[float], where: Optional[str] = None) -> None:
        """Promises another call within so many seconds.  The broker fails a party that breaks the
        promise, with kind stalled.  None ends the promise.  where: a text such as "round 3, batch
        17", for that error and for `errbus why`."""
        keep: List[Any] = []
        ms = _wait.to_ms(within)
        self._call(lambda bus: lib.bus_progress_at(bus, ms, _or_null(where, keep)))

    def membership(self, after: int = 0, timeout: Optional[float] = None) -> Membership:
        """Waits for a rank in an epoch above `after`.  Raises TimedOut after timeout seconds,
        Invalid if nobody created the job, and Fenced when the job is over."""
        out = ffi.new("struct bus_membership *")
        number_of(after, "after")
        self._wait_for(
            lambda bus, ms, err: lib.bus_membership_wait(bus, after, ms, out, err),
            timeout, f"a rank in an epoch above {after}", f"errbus job show {self.job}",
        )
        return Membership(out.epoch, out.attempt, out.rank, out.world_size)

    def barrier(self, epoch: int, timeout: Optional[float] = None) -> None:
        """Waits until all members of this epoch wait at its next barrier.  Raises TimedOut after
        timeout seconds, a RemoteError of type errbus.epoch if the membership changed, Ended if a
        member completed, and Invalid if this party never was in the epoch."""
        number_of(epoch, "epoch")
        try:
            self._wait_for(
                lambda bus, ms, err: lib.bus_barrier(bus, epoch, ms, err),
                timeout, f"the other members at the barrier of epoch {epoch}",
            )
        except errors.Error:
            raise
        except BaseException:  # between two slices: it is not to be counted there
            self._leave_barrier(epoch)
            raise

    def _leave_barrier(self, epoch: int) -> None:
        try:
            self._call(lambda bus: lib.bus_barrier(bus, epoch, lib.BUS_POLL, ffi.NULL))
        except errors.Closed:
            pass

    def verdict(self, timeout: Optional[float] = None) -> errors.RemoteError:
        """Waits for the final verdict on this attempt.  Returns the root of all errors, which is
        the same at each party.  Raises TimedOut after timeout seconds, and Closed if the job ended
        without a failure."""
        out = ffi.gc(ffi.new("struct bus_error **"), lib.bus_error_unref)

        def call() -> None:
            code = _wait.in_slices(
                lambda ms: int(self._call(lambda bus: lib.bus_verdict(bus, ms, out))),
                timeout, longest_ms=_ASK_MOST_MS,
            )
            if code == lib.BUS_ETIMEDOUT:
                raise self._late("the final verdict", timeout, f"errbus verdict {self.job}")
            if code != lib.BUS_OK:
                errors.raise_code(code)

        call() if timeout is not None and timeout <= 0 else _wait.on_thread(call)
        return errors.from_handle(errors.own(lib.bus_error_ref(out[0])))

    @property
    def failure(self) -> Optional[errors.RemoteError]:
        """The error that ended this party; None: the party is not over."""
        handle = self._call(lib.bus_failure)
        return None if handle == ffi.NULL else errors.from_handle(errors.own(handle))

    def failure_fileno(self) -> int:
        """A descriptor for select(): it becomes readable when this party is over."""
        return int(self._call(lib.bus_failure_fd))

    @property
    def durability(self) -> str:
        """How durable an acknowledged value is: "memory": it is gone with the broker; "process": it
        survives the end of the broker; "disk": it survives the end of the machine, which comes back
        with its disk; "shared": so too where a broker on another machine continues."""
        level = self._call(lib.bus_durability)
        return str(ffi.string(lib.bus_durability_name(level)).decode())

    @property
    def run(self) -> Run:
        """The run that this party joined."""
        out = ffi.new("struct bus_run *")
        self._check(lambda bus: lib.bus_run_get(bus, out))
        return Run(out.number, out.incarnations, out.is_continued == 1, out.rest_ns / 1e9)

    @property
    def token(self) -> str:
        """The token of a guard.  Another process joins as the same party with open(token=)."""
        return str(ffi.string(self._call(lib.bus_token)).decode())

    def stop(self) -> None:
        """Ends all waits of this bus, present and future: they raise Closed.  So does each call that
        promises or writes."""
        self._call(lib.bus_stop)
        self._is_stopped = True  # not before: Room looks at it, and calls the library then

    def close(self, timeout: float = 5) -> None:
        """Leaves the job: open slots fail with kind party_left.  Received values stay valid.  A
        second call does nothing.  Raises TimedOut if the broker did not acknowledge everything
        within timeout seconds, Lost if it is out of reach, and Settled if it refused something that
        no flush() told of.  The party has left then, too."""
        try:
            self.stop()
            code = _wait.in_slices(
                lambda ms: int(self._call(lambda bus: lib.bus_flush(bus, ms))), timeout
            )
            refusal = self._refusal_told() if code == lib.BUS_ESETTLED else None
        except errors.Closed:
            return
        except BaseException:
            self._close_now(0)
            raise
        is_over = timeout == 0 or code == lib.BUS_ETIMEDOUT
        closed = self._close_now(0 if is_over else 1)
        if code == lib.BUS_ETIMEDOUT or closed not in (lib.BUS_OK, lib.BUS_EFENCED):
            errors.raise_code(closed if closed != lib.BUS_OK else code)
        if refusal is not None:
            raise refusal

    def _refusal_told(self) -> errors.Settled:
        """What close() raises for what flush() told it: refusals() has nothing after it."""
        try:
            refused = self.refusals()
        except errors.Closed:
            refused = []  # another thread closed the bus meanwhile
        settled = errors.Settled(
            f"the broker refused something that party {self.party} of job {self.job} sent"
            + (f" ({len(refused)} in all): {refused[-1]}" if refused else "")
        )
        settled.error = settled.__cause__ = refused[-1] if refused else None
        return settled

    def _close_now(self, timeout: float) -> int:
        """Closes the handle when no other thread is in a call."""
        try:
            self._box.pop()
        except IndexError:
            return int(lib.BUS_OK)
        _open_buses.discard(self)
        if self._users:
            try:
                self._left.get(timeout=_USERS_WAIT_S)
            except queue.Empty:
                ffi.gc(self._place, None)  # the handle is never freed
                return int(lib.BUS_ETIMEDOUT)
        code = int(lib.bus_close(self._place, _wait.to_ms(timeout)))
        _slot.release_owned()
        return code

    def __enter__(self) -> "Bus":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
            return
        try:
            try:
                self.fail(error)
            finally:
                self.close()
        except errors.Error:
            pass  # the exception that left the block says more

    def __del__(self) -> None:
        if getattr(self, "_box", None):
            lib.bus_stop(self._box[0])
            self._close_now(0)

    def _in_child(self) -> None:
        """A forked child forgets the handle and does not close it: it belongs to the parent."""
        self._box.clear()
        _open_buses.discard(self)

    def __repr__(self) -> str:
        return f"<errbus.Bus {self.job}/{self.party}{'' if self._box else ' closed'}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the bus of party {self.party} of job {self.job} is a membership of this process and "
            "does not pickle; call errbus.open() in the other process"
        )


def _settle_with(task: Message, error: BaseException) -> None:
    try:
        task.fail(error) if task.is_request else task.reject(error)
    except errors.Settled:
        pass  # the function settled it


def _serve(sub: Subscription, function: Callable[[Message], Any]) -> None:
    while True:
        try:
            task = sub.recv()
        except (errors.RemoteError, errors.Overrun):
            continue
        except PARTY_IS_OVER:
            return
        try:
            result = function(task)
            if not task.is_settled:
                if task.is_request:
                    task.reply(b"" if result is None else result)
                else:
                    task.ack()
        except BaseException as error:
            _settle_with(task, error)


def open(
    endpoint: Optional[str] = None,
    *,
    job: Optional[str] = None,
    party: Optional[str] = None,
    timeout: Optional[float] = 30,
    heartbeat: Optional[float] = None,
    lost_after: Optional[float] = None,
    reconnect_grace: Optional[float] = None,
    broker_lost: Optional[float] = None,
    send_timeout: Optional[float] = SEND_TIMEOUT_S,
    outbox_bytes: int = 0,
    inbox_bytes: int = 0,
    disclosure: Optional[str] = None,
    run: Optional[str] = None,
    run_rule: str = "as_found",
    guard: bool = False,
    token: Optional[str] = None,
    auditor: Optional[str] = None,
    key: Optional[str] = None,
    traceparent: Optional[str] = None,
) -> Bus:
    """Joins a job as a party, and waits up to timeout seconds for the broker.

    endpoint: None is $ERRBUS_SERVER, else tcp://127.0.0.1:7370.  job, party: None is $ERRBUS_JOB
    and $ERRBUS_PARTY, else "default" and a name of host and process.

    Times are seconds.  heartbeat: between two signs of life; None: 1.  lost_after: silence after
    which this party is lost; None: 10.  reconnect_grace: to reconnect after a closed connection;
    None: 1.  broker_lost: for which the broker may be out of reach, or as long as the broker asks
    for if that is more; None: 30.  send_timeout: for which a call waits for room; then it raises
    Full.  outbox_bytes: bytes on their way to the broker; inbox_bytes: bytes received and not taken
    yet; 0 stands for 64 MiB.

    disclosure: how much others see of this party's errors: "full" with tracebacks, "message",
    "type" or "none"; None is $ERRBUS_DISCLOSURE, else "message".  run: the name of the run, None is
    $ERRBUS_RUN; run_rule: the run of the job that this party joins: "as_found", "continue",
    "follow" or "next".  A party that left well, and opens again when no other party is left, begins
    the next run, whose topics are empty.  With "continue" it reads and writes on.

    guard: this bus watches over another process, which joins with its token.  token: that of a
    guard, None is $ERRBUS_TOKEN if job and party are those of the environment.  auditor: the public
    key to which tracebacks and attachments are sealed, None is $ERRBUS_AUDITOR: see
    RemoteError.open().  key: the file of the key for a broker that has one, None is $ERRBUS_KEY,
    else ~/.config/errbus/key.  traceparent: that of W3C Trace Context, None is $TRACEPARENT, ""
    none: errors of this party have its trace_id.

    Raises TimedOut if no broker is in reach within timeout: the type of its error is
    errbus.unreachable, or errbus.no_greeting where something accepts connections and says nothing.
    Raises Lost if only the data channel is out of reach, Protocol for a broker of another version,
    and Invalid for a wrong option.  Raises Denied for a name that is in use, for a key that the
    broker does not know, and with the type errbus.unreachable where what listens is no broker.
    """
    keep: List[Any] = []
    options = ffi.new("struct bus_options *")
    lib.shim_bus_options_init(options)
    options.job = _or_null(job, keep)
    options.party = _or_null(party, keep)
    for field, seconds in (
        ("heartbeat_ms", heartbeat),
        ("lost_after_ms", lost_after),
        ("reconnect_grace_ms", reconnect_grace),
        ("broker_lost_ms", broker_lost),
    ):
        if seconds is not None:
            setattr(options, field, _wait.to_ms(seconds))
    options.send_timeout_ms = (  # Bus._with_room() goes on
        lib.BUS_POLL if send_timeout == 0 else _wait.slice_of(send_timeout)
    )
    if outbox_bytes:
        options.outbox_bytes_max = number_of(outbox_bytes, "outbox_bytes")
    if inbox_bytes:
        options.inbox_bytes_max = number_of(inbox_bytes, "inbox_bytes")
    if disclosure is not None:
        options.disclosure = _one_of(DISCLOSURES, disclosure, "disclosure")
    options.run = _or_null(run, keep)
    options.run_rule = _one_of(RUN_RULES, run_rule, "run_rule")
    options.is_guard = 1 if guard else 0
    options.token = _or_null(token, keep)
    options.auditor = _or_null(auditor, keep)
    options.key = _or_null(key, keep)
    options.traceparent = _or_null(traceparent, keep)
    server = _or_null(endpoint, keep)
    return Bus(
        _wait.interruptible(
            lambda out, reterr: lib.bus_open(server, options, _wait.to_ms(timeout), out, reterr),
            "struct bus **",
            lib.shim_bus_close,
            keep,
        ),
        send_timeout,
    )


def _at_exit() -> None:
    """Closes the buses that are still open.  An exception that ends the program fails their
    parties.  In an interactive session sys.last_value is of any earlier line, and ended nothing."""
    is_interactive = hasattr(sys, "ps1") or sys.flags.interactive
    error = None if is_interactive else getattr(sys, "last_value", None)
    for bus in list(_open_buses):
        try:
            try:
                if error is not None:
                    bus.fail(error)
            finally:
                bus.close(_EXIT_S)
        except errors.Error:
            pass


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_slot.in_child)

# SPDX-License-Identifier: MPL-2.0
"""A membership in one attempt of one job: values are promised, written and awaited."""
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

from errbus import _wait, errors
from errbus._errbus import ffi, lib
from errbus._sub import Message, Subscription, payload, value_of

DISCLOSURES = {"full": 1, "message": 2, "type": 3, "none": 4}
RUN_RULES = {"as_found": 0, "continue": 1, "follow": 2, "next": 3}
_USERS_WAIT_S = 10.0  # close() waits so long for calls of other threads
_EXIT_S = 1.0

Slots = Iterable[Tuple[str, int]]

_open_buses: "weakref.WeakSet[Bus]" = weakref.WeakSet()


class Membership(NamedTuple):
    """A place in an epoch of a created job: this party's rank of 0 to world_size - 1."""

    epoch: int
    attempt: int
    rank: int
    world_size: int


class Run(NamedTuple):
    """The run of a job that this party joined: topics of another run are not seen."""

    number: int  # from 1 in each job; of a created job: its attempt
    incarnations: int  # of this party in this run, with this one
    is_continued: bool  # all parties of this run had ended before this one joined
    rest: float  # with is_continued: when the last of them ended, in seconds since the epoch


class Gathered:
    """What Bus.gather() got.

    slots is a list of (topic, number).  values has the bytes by slot, each a read-only memoryview;
    errors has the RemoteError by slot.
    """

    def __init__(self, slots: Slots, need: Optional[int], enough: Optional[int]) -> None:
        self.slots: List[Tuple[str, int]] = list(slots)
        self.values: Dict[Tuple[str, int], memoryview] = {}
        self.errors: Dict[Tuple[str, int], errors.RemoteError] = {}
        count = len(self.slots)
        least = need if need is not None else enough if enough is not None else count
        if not 0 <= least <= count or not 0 <= (enough or 0) <= count:
            raise errors.Invalid(f"of {count} slots, {least} cannot be needed")
        self._enough = count if enough is None else enough
        self._errors_max = count - least

    def _has_enough(self) -> bool:
        return len(self.values) >= self._enough

    def _has_failed(self) -> bool:
        return len(self.errors) > self._errors_max

    @property
    def missing(self) -> List[Tuple[str, int]]:
        """The slots that are not settled, in the order of slots."""
        return [s for s in self.slots if s not in self.values and s not in self.errors]

    def __repr__(self) -> str:
        return (
            f"<errbus.Gathered {len(self.values)} values, {len(self.errors)} errors, "
            f"{len(self.missing)} missing>"
        )


def _or_null(text: Optional[str], keep: List[Any]) -> Any:
    if text is None:
        return ffi.NULL
    chars = ffi.new("char[]", text.encode())
    keep.append(chars)
    return chars


def _one_of(names: Dict[str, int], name: str, what: str) -> int:
    try:
        return names[name]
    except KeyError:
        raise errors.Invalid(f"{what} is one of {', '.join(names)}, not {name!r}") from None


# Values that the library reads where they are, by number; see _release_owned().
_lent: Dict[int, Any] = {}
_lent_last = 0
_lent_lock = threading.Lock()


def _release_owned() -> None:
    numbers = ffi.new("uint64_t[64]")
    count = 64
    while count == 64:
        count = lib.shim_released(numbers, 64)
        for i in range(count):
            _lent.pop(numbers[i], None)


class Slot:
    """A promise: from now on the absence of its value is a failure.

    `with` settles it in any case: with the value of commit(), with the exception that left the
    block, or as errbus.abandoned.
    """

    def __init__(self, bus: "Bus", slot: Any, topic: str) -> None:
        self._bus = bus
        self._box = [ffi.gc(slot, lib.shim_slot_fail)]
        self.topic = topic
        self.seq: int = lib.bus_slot_seq(slot)

    @property
    def is_settled(self) -> bool:
        """Whether it is settled, as far as this party knows: a value would come too late."""
        return not self._box or lib.bus_slot_is_settled(self._box[0]) == 1

    def _take(self) -> Any:
        try:
            slot = self._box.pop()
        except IndexError:
            raise errors.Settled(f"{self.topic}#{self.seq} is settled already") from None
        ffi.gc(slot, None)  # the call that follows takes it over
        return ffi.new("struct bus_slot **", slot)

    def commit(self, value: Any, copy: bool = True) -> None:
        """Settles the slot with bytes, a str (as UTF-8) or a buffer such as a numpy array.

        The shape and the type of an array do not travel: see errbus.codec.  copy=False, from 64 KiB
        on: the bytes are read where they are, each time they are sent.  They must not change before
        Bus.flush() has returned.  Raises Settled if the slot has an outcome already, TooBig, Full
        after send_timeout, and Fenced or Closed if this party is over.
        """
        data = payload(value)
        if copy or len(data) < 65536:
            self._settle(lambda slot: lib.bus_slot_commit(slot, data, len(data)))
            return
        global _lent_last
        with _lent_lock:
            _lent_last += 1
            number = _lent_last
        _release_owned()
        _lent[number] = data
        pointer = ffi.cast("void *", data)
        try:
            self._settle(lambda slot: lib.shim_commit_owned(slot, pointer, len(data), number))
        except (errors.Invalid, errors.Full, errors.TooBig, errors.OutOfMemory):
            _lent.pop(number, None)
            raise

    def _settle(self, call: Callable[[Any], Any]) -> None:
        slot = self._take()
        code = self._bus._with_room(lambda: call(slot))
        if slot[0] != ffi.NULL:
            self._box.append(ffi.gc(slot[0], lib.shim_slot_fail))
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Settles the slot with an error; an exception goes with its traceback and causes.  None:
        errbus.abandoned.  Raises Settled if the slot has an outcome already."""
        handle = errors.to_handle(error)
        lib.bus_slot_fail(self._take(), handle)

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any
    ) -> None:
        if self._box:
            self.fail(error)

    def __reduce__(self) -> Any:
        raise TypeError("a slot is a promise of this process: it does not pickle")


class Bus:
    """A membership; errbus.open() makes it.  Any thread may call it at any time.

    Times are in seconds; None is without limit.  Every wait can be interrupted by Ctrl-C.  `with`
    leaves the job at its end; an exception that leaves the block fails the party.
    """

    def __init__(self, pointer: Any, send_timeout: Optional[float]) -> None:
        self._box = [pointer]
        self._users: List[int] = []
        self._left: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # the last user, after the end
        self._send_timeout = send_timeout
        self._workers: List[threading.Thread] = []
        self._replies: str = ffi.string(lib.bus_replies(pointer)).decode()
        self.party: str = ffi.string(lib.bus_party(pointer)).decode()
        self.job: str = ffi.string(lib.bus_job(pointer)).decode()
        _open_buses.add(self)

    # ---- calls: none is under way when the handle goes

    def _call(self, call: Callable[[Any], Any]) -> Any:
        self._users.append(1)
        try:
            if not self._box:
                raise errors.Closed("the bus is closed")
            return call(self._box[0])
        finally:
            self._users.pop()
            if not self._box and not self._users and self._left.empty():
                self._left.put(None)

    def _check(self, call: Callable[[Any], Any]) -> None:
        code = self._call(call)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def _with_room(self, call: Callable[[], Any]) -> int:
        """A call that sends: after BUS_EFULL again, within the time for that."""
        return _wait.in_slices(lambda _ms: call(), self._send_timeout, int(lib.BUS_EFULL))

    def _send(self, call: Callable[[Any], Any]) -> None:
        code = self._with_room(lambda: self._call(call))
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def _wait_for(self, call: Callable[[Any, int, Any], Any], timeout: Optional[float]) -> int:
        """A call that waits and has a reterr, in slices; raises all but BUS_OK."""
        reterr = ffi.new("struct bus_error **")

        def one(timeout_ms: int) -> int:
            if reterr[0] != ffi.NULL:
                lib.bus_error_unref(reterr)
            return int(self._call(lambda bus: call(bus, timeout_ms, reterr)))

        code = _wait.in_slices(one, timeout)
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
        """Reserves a slot of an own topic: "model" is "alice/model" for others.

        deadline: seconds after which the slot fails with kind deadline.  seq: its number, above all
        numbers before, or None for the next one.  needs: slots as (topic, number); when one of them
        fails, this one does.  value_bytes_max: bytes; a larger value is TooBig.  Raises Denied for
        a topic of another party, Settled for a number that is used, Full after send_timeout.
        """
        options = ffi.new("struct bus_slot_options *")
        lib.shim_slot_options_init(options)
        keep: List[Any] = []
        wanted = list(needs)
        refs = ffi.new("struct bus_slot_ref[]", max(1, len(wanted)))
        for i, (needed, number) in enumerate(wanted):
            refs[i].topic = _or_null(needed, keep)
            refs[i].seq = number
        options.seq = lib.BUS_NEXT if seq is None else seq
        options.deadline_ms = _wait.to_ms(deadline)
        options.value_bytes_max = value_bytes_max
        options.needs = refs
        options.need_count = len(wanted)
        out = ffi.new("struct bus_slot **")
        name = topic.encode()
        reterr = ffi.new("struct bus_error **")

        def call(bus: Any) -> int:
            if reterr[0] != ffi.NULL:
                lib.bus_error_unref(reterr)
            return int(lib.bus_slot_reserve_with(bus, name, options, out, reterr))

        code = self._with_room(lambda: self._call(call))
        if code != lib.BUS_OK:
            errors.raise_code(code, reterr)
        whole = topic if "/" in topic else f"{self.party}/{topic}"
        return Slot(self, out[0], whole)

    def publish(self, topic: str, value: Any) -> None:
        """Publishes one value: bytes, a str, or a buffer such as a numpy array; it is copied.
        Raises as Slot.commit() does, and Denied for a topic of another party."""
        name, data = topic.encode(), payload(value)
        self._send(lambda bus: lib.bus_publish(bus, name, data, len(data)))

    def publish_many(self, topic: str, values: Iterable[Any]) -> None:
        """Publishes many values of one topic, all or none, for the cost of one call.  Raises as
        publish()."""
        name = topic.encode()
        keep = [payload(value) for value in values]
        rows = ffi.new("struct bus_value[]", max(1, len(keep)))
        for i, data in enumerate(keep):
            rows[i].data = ffi.cast("void *", data)
            rows[i].bytes = len(data)
        self._send(lambda bus: lib.bus_publish_many(bus, name, rows, len(keep)))

    def retract(
        self,
        topic: str,
        seq: int,
        error: Optional[BaseException] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Replaces the outcome of an own slot by an error, if no subscriber was sent it yet.
        Raises Settled if one was, or if it is an error already; TimedOut after timeout seconds, and then
        the outcome is open."""
        name, handle, ms = topic.encode(), errors.to_handle(error), _wait.to_ms(timeout)
        self._check(lambda bus: lib.bus_retract(bus, name, seq, handle, ms))

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until the broker has answered all that was sent.  Raises Settled if it refused
        something: refusals() has it.  Raises TimedOut after timeout seconds, Lost without a broker.
        """
        code = _wait.in_slices(
            lambda ms: int(self._call(lambda bus: lib.bus_flush(bus, ms))), timeout
        )
        if code != lib.BUS_OK:
            errors.raise_code(code)
        _release_owned()

    def refusals(self) -> List[errors.RemoteError]:
        """Takes what the broker refused: values or errors of this party that do not stand."""
        return self._take_all(lib.bus_refusal)

    def notices(self) -> List[errors.RemoteError]:
        """Takes the notices that are here: what this party may want to know, and is no failure."""
        return self._take_all(lambda bus, out: lib.bus_notice(bus, lib.BUS_POLL, out))

    def _take_all(self, call: Any) -> List[errors.RemoteError]:
        taken: List[errors.RemoteError] = []
        out = ffi.new("struct bus_error **")
        while self._call(lambda bus: call(bus, out)) == lib.BUS_OK:
            taken.append(errors.from_handle(errors.own(out[0])))
        return taken

    # ---- awaiting

    def get(self, topic: str, seq: int, timeout: Optional[float] = None) -> memoryview:
        """Waits for slot seq of a topic such as "alice/grads": its bytes, as a memoryview that is
        read-only, one-dimensional and not copied.

        np.frombuffer(value, "f4").reshape(shape) makes an array of it, which keeps the bytes alive.
        Raises the error that took the value's place, as the class of its kind; TimedOut after
        timeout seconds, and then calling again goes on; Fenced, Lost or Closed if this party is
        over.  A party that has not joined yet is waited for.
        """
        out = ffi.new("struct bus_msg **")
        name = topic.encode()
        self._wait_for(lambda bus, ms, err: lib.bus_await(bus, name, seq, ms, out, err), timeout)
        return value_of(ffi.gc(out[0], lib.shim_msg_free))

    def stands(self, topic: str, seq: int, timeout: Optional[float] = None) -> None:
        """Waits until the outcome of a slot stands, without its value; raises as get()."""
        name = topic.encode()
        self._wait_for(
            lambda bus, ms, err: lib.bus_await(bus, name, seq, ms, ffi.NULL, err), timeout
        )

    def gather(
        self,
        slots: Slots,
        need: Optional[int] = None,
        enough: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Gathered:
        """Waits for many slots, given as (topic, number).

        need: so many values must come, or the call raises GatherFailed with all errors as causes;
        None: all.  enough: with so many values it returns at once; None: it waits for all.  Raises
        TimedOut after timeout seconds.  Both exceptions have .gathered.
        """
        gathered = Gathered(slots, need, enough)
        count = len(gathered.slots)
        keep: List[Any] = []
        wants = ffi.new("struct bus_want[]", max(1, count))
        for i, (topic, seq) in enumerate(gathered.slots):
            wants[i].topic = _or_null(topic, keep)
            wants[i].seq = seq
        try:
            self._wait_for(
                lambda bus, ms, err: lib.bus_gather(
                    bus, wants, count, gathered._enough, gathered._errors_max, ms, err
                ),
                timeout,
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
        """Subscribes to topics: "alice/grads", "+/grads", "alice/#".

        name: durable, under this name.  group: each value is a task of one member.  from_seq: a
        number, "oldest" that is kept, or "now".  gaps: when the reader is too slow, slots are
        dropped and Overrun says so; else the writers wait.  keep: seconds that a durable name
        without a reader holds writers back.  credit: tasks that a member holds at a time.
        deliver_max: deliveries of a task in all.  lease: seconds that a member has for a task.
        pieces: large values come in pieces, each as it arrives: see Message.piece.  Raises Invalid
        for what is no pattern; what the broker refuses, the first receive raises.
        """
        texts: List[Any] = []
        options = ffi.new("struct bus_sub_options *")
        lib.shim_sub_options_init(options)
        options.name = _or_null(name, texts)
        options.group = _or_null(group, texts)
        words = {"oldest": lib.BUS_FROM_OLDEST, "now": lib.BUS_FROM_NOW}
        options.from_seq = (
            _one_of(words, from_seq, "from_seq") if isinstance(from_seq, str) else from_seq
        )
        options.overflow = lib.BUS_OVERFLOW_GAP if gaps else lib.BUS_OVERFLOW_BLOCK
        options.keep_ms = _wait.to_ms(keep)
        options.credit = credit
        options.deliver_max = deliver_max
        options.lease_ms = _wait.to_ms(lease)
        options.is_in_pieces = 1 if pieces else 0
        out = ffi.new("struct bus_sub **")
        self._check(lambda bus: lib.bus_sub_open(bus, pattern.encode(), options, out))
        sub = Subscription(self, out[0])
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
        """Asks a group, and waits for the reply of one member: its bytes, as of get().

        deadline: seconds after which the broker fails the request.  Raises the worker's error;
        WorkerLost if the last worker that had it was lost; TimedOut after timeout seconds.  A wait
        that ends otherwise than with an answer cancels the request.
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
        """Asks a group, and does not wait: get(bus.replies, number) is the reply.  Raises as
        publish()."""
        name, data, ms = topic.encode(), payload(value), _wait.to_ms(deadline)
        out = ffi.new("uint64_t *")
        self._send(lambda bus: lib.bus_request(bus, name, data, len(data), ms, out))
        return int(out[0])

    @property
    def replies(self) -> str:
        """The topic of the replies to this party."""
        return self._replies

    def _forget_request(self, seq: int) -> None:
        try:
            self.retract(self._replies, seq, None, 0)
        except errors.Error:
            pass  # it ended, or the bus did

    def worker(
        self,
        pattern: str,
        group: str = "workers",
        threads: int = 1,
        credit: int = 0,
        deliver_max: int = 0,
        lease: float = 0,
    ) -> Callable[[Callable[[Message], Any]], Callable[[Message], Any]]:
        """Makes a function a member of a group: threads of its own call it with each task.

        What it returns is the reply (None: an empty one); what it raises fails the request.  A task
        that is no request and raises goes to another delivery, deliver_max in all.  lease: seconds
        for a task.  The threads end with the bus.
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
        """Says that this party is done, and succeeded.  Raises Invalid if slots are open, Fenced if
        the party is over, and as flush()."""
        code = self._call(lambda bus: lib.bus_complete(bus, lib.BUS_POLL))
        if code not in (lib.BUS_OK, lib.BUS_ETIMEDOUT):  # flush() waits for the answer
            errors.raise_code(code)
        self.flush(timeout)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Says that the whole party failed: its open slots get the error, and so does the job."""
        handle = errors.to_handle(error)
        self._call(lambda bus: lib.bus_fail(bus, handle))

    def progress(self, within: Optional[float], where: Optional[str] = None) -> None:
        """Promises to call again within so many seconds; the broker fails a party that does not.
        None: it promises nothing any more.  where: as "round 3, batch 17"; the error then says it."""
        keep: List[Any] = []
        ms = _wait.to_ms(within)
        self._call(lambda bus: lib.bus_progress_at(bus, ms, _or_null(where, keep)))

    def membership(self, after: int = 0, timeout: Optional[float] = None) -> Membership:
        """Waits for a rank in an epoch above after; of a job that was created.  Raises TimedOut
        after timeout seconds, Invalid if nobody created the job, and Fenced when it is over."""
        out = ffi.new("struct bus_membership *")
        self._wait_for(
            lambda bus, ms, err: lib.bus_membership_wait(bus, after, ms, out, err), timeout
        )
        return Membership(out.epoch, out.attempt, out.rank, out.world_size)

    def barrier(self, epoch: int, timeout: Optional[float] = None) -> None:
        """Waits until all members of this epoch wait at its next barrier.  Raises TimedOut after
        timeout seconds, a RemoteError of type errbus.epoch if the membership changed, Ended if a
        member completed, and Invalid if this party never was in the epoch."""
        self._wait_for(lambda bus, ms, err: lib.bus_barrier(bus, epoch, ms, err), timeout)

    def verdict(self, timeout: Optional[float] = None) -> errors.RemoteError:
        """Waits for the final verdict on this attempt: the root of all errors, the same for all.
        Raises TimedOut after timeout seconds, and Closed if nothing had failed at the end."""
        out = ffi.new("struct bus_error **")
        code = _wait.in_slices(
            lambda ms: int(self._call(lambda bus: lib.bus_verdict(bus, ms, out))), timeout
        )
        if code != lib.BUS_OK:
            errors.raise_code(code)
        return errors.from_handle(errors.own(out[0]))

    @property
    def failure(self) -> Optional[errors.RemoteError]:
        """Why this party is over; None: it is not over."""
        handle = self._call(lib.bus_failure)
        return None if handle == ffi.NULL else errors.from_handle(errors.own(handle))

    def failure_fileno(self) -> int:
        """A descriptor for select() that becomes readable when this party is over."""
        return int(self._call(lib.bus_failure_fd))

    @property
    def durability(self) -> str:
        """What acknowledged values survive: "memory", "process" or "disk"."""
        level = self._call(lib.bus_durability)
        return str(ffi.string(lib.bus_durability_name(level)).decode())

    @property
    def run(self) -> Run:
        """What the broker said of the run when this party joined."""
        out = ffi.new("struct bus_run *")
        self._check(lambda bus: lib.bus_run_get(bus, out))
        return Run(out.number, out.incarnations, out.is_continued == 1, out.rest_ns / 1e9)

    @property
    def token(self) -> str:
        """The token of a guard: open(token=) of another process joins as the same party."""
        return str(ffi.string(self._call(lib.bus_token)).decode())

    def stop(self) -> None:
        """Ends all waits and promises of this bus, present and future, with Closed."""
        self._call(lib.bus_stop)

    def close(self, timeout: float = 5) -> None:
        """Leaves the job: open slots fail as party_left.  Values that were received stay good.
        Twice is once.  Raises TimedOut if the broker did not acknowledge everything within timeout
        seconds, Settled if it refused something, Lost if it is gone."""
        try:
            self._call(lib.bus_stop)
            code = _wait.in_slices(
                lambda ms: int(self._call(lambda bus: lib.bus_flush(bus, ms))), timeout
            )
        except errors.Closed:
            return
        except BaseException:
            self._close_now(0)
            raise
        is_over = timeout == 0 or code == lib.BUS_ETIMEDOUT
        closed = self._close_now(0 if is_over else 1)
        if code == lib.BUS_ETIMEDOUT or closed not in (lib.BUS_OK, lib.BUS_EFENCED):
            errors.raise_code(closed if closed != lib.BUS_OK else code)

    def _close_now(self, timeout: float) -> int:
        """Without a call of another thread under way."""
        try:
            bus = self._box.pop()
        except IndexError:
            return int(lib.BUS_OK)
        _open_buses.discard(self)
        if self._users:
            try:
                self._left.get(timeout=_USERS_WAIT_S)
            except queue.Empty:
                return int(lib.BUS_ETIMEDOUT)  # the handle is never freed
        code = int(lib.bus_close(ffi.new("struct bus **", bus), _wait.to_ms(timeout)))
        _release_owned()
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
            self.fail(error)
            self.close()
        except errors.Error:
            pass  # the exception that goes on says more

    def __del__(self) -> None:
        if self._box:
            lib.bus_stop(self._box[0])
            self._close_now(0)

    def __repr__(self) -> str:
        return f"<errbus.Bus {self.job}/{self.party}{'' if self._box else ' closed'}>"

    def __reduce__(self) -> Any:
        raise TypeError("a bus is a membership of this process: it does not pickle; open another")


def _serve(sub: Subscription, function: Callable[[Message], Any]) -> None:
    while True:
        try:
            task = sub.recv()
        except (errors.RemoteError, errors.Overrun):
            continue
        except errors.Error:
            return
        try:
            result = function(task)
        except BaseException as error:
            if not task.is_settled:
                task.fail(error) if task.is_request else task.reject(error)
            continue
        try:
            if not task.is_settled:
                if task.is_request:
                    task.reply(b"" if result is None else result)
                else:
                    task.ack()
        except (errors.Error, TypeError) as error:
            if not task.is_settled:
                task.fail(error)


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
    send_timeout: Optional[float] = 30,
    outbox_bytes: int = 0,
    inbox_bytes: int = 0,
    disclosure: Optional[str] = None,
    run: Optional[str] = None,
    run_rule: str = "as_found",
    guard: bool = False,
    token: Optional[str] = None,
    auditor: Optional[str] = None,
    key: Optional[str] = None,
) -> Bus:
    """Joins a job as a party, and waits up to timeout seconds for the broker.

    endpoint: None is $ERRBUS_SERVER, else tcp://127.0.0.1:7370.  job, party: None is $ERRBUS_JOB
    and $ERRBUS_PARTY.  heartbeat, lost_after, reconnect_grace, broker_lost: seconds, as in struct
    bus_options.  send_timeout: seconds that a call waits for room.  outbox_bytes, inbox_bytes:
    bytes under way, 0 for 64 MiB.  disclosure: what others see of its errors: "full"
    with tracebacks, "message" (the default), "type" or "none".  run, run_rule: which run of the job
    it joins: "as_found", "continue", "follow" or "next".  A party that left well and opens again,
    when nobody else is left, begins the next run: its topics are empty.  With "continue" it reads
    and writes on.  auditor: the public key to which tracebacks and attachments are sealed, None is
    $ERRBUS_AUDITOR: see RemoteError.open().  key: the file of the key for a broker that has one,
    None is $ERRBUS_KEY, else ~/.config/errbus/key.  Raises TimedOut without a broker, Denied for a name
    that is in use, Protocol for a broker of another version.
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
    options.send_timeout_ms = _wait.SLICE_MS  # Bus._with_room() goes on
    if outbox_bytes:
        options.outbox_bytes_max = outbox_bytes
    if inbox_bytes:
        options.inbox_bytes_max = inbox_bytes
    if disclosure is not None:
        options.disclosure = _one_of(DISCLOSURES, disclosure, "disclosure")
    options.run = _or_null(run, keep)
    options.run_rule = _one_of(RUN_RULES, run_rule, "run_rule")
    options.is_guard = 1 if guard else 0
    options.token = _or_null(token, keep)
    options.auditor = _or_null(auditor, keep)
    options.key = _or_null(key, keep)
    server = _or_null(endpoint, keep)
    return Bus(
        _wait.interruptible(
            lambda out, reterr: lib.bus_open(server, options, _wait.to_ms(timeout), out, reterr),
            "struct bus **",
            lambda out: lib.bus_close(out, 0),
            keep,
        ),
        send_timeout,
    )


def _at_exit() -> None:
    """Buses that are still open: an exception that ends the program fails their parties."""
    error = getattr(sys, "last_value", None)
    for bus in list(_open_buses):
        try:
            if error is not None:
                bus.fail(error)
            bus.close(_EXIT_S)
        except errors.Error:
            pass


def _in_child() -> None:
    """The membership stays the parent's: the handles are forgotten, not closed."""
    global _lent_lock
    _lent_lock = threading.Lock()
    for bus in list(_open_buses):
        bus._box.clear()
        bus._users.clear()
    _open_buses.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)

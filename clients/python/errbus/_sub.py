# SPDX-License-Identifier: MPL-2.0
"""Received values, and subscriptions to topics."""
from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Tuple, Type, Union

from errbus import _wait, errors
from errbus._errbus import ffi, lib
from errbus._given import utf8

if TYPE_CHECKING:
    from errbus._bus import Bus


def _let_go(owner: Any, _pointer: Any) -> None:
    """The destructor of a value: it drops the reference to the owner."""


def view(owner: Any, pointer: Any, size: int) -> memoryview:
    """The bytes as a read-only memoryview, without a copy.  The owner lives as long as the view and
    each array that is made of it."""
    if size == 0:
        return memoryview(b"")
    value = ffi.gc(ffi.cast("char *", pointer), partial(_let_go, owner))
    return memoryview(ffi.buffer(value, size)).toreadonly()


def value_of(msg: Any) -> memoryview:
    """The value of a struct bus_msg * that the garbage collector frees."""
    size = ffi.new("size_t *")
    pointer = lib.bus_msg_value(msg, size)
    return view(msg, pointer, size[0])


def value_in(place: Any) -> memoryview:
    """The value in a struct bus_msg ** that frees it when it is dropped."""
    size = ffi.new("size_t *")
    pointer = lib.bus_msg_value(place[0], size)
    return view(place, pointer, size[0])


def payload(value: Any) -> Any:
    """The bytes of a str, or of an object with a buffer: bytes, an array, a memoryview."""
    if isinstance(value, str):
        value = value.encode()
    try:
        return ffi.from_buffer(value)
    except (BufferError, ValueError):
        return ffi.from_buffer(bytes(memoryview(value)))  # not contiguous
    except TypeError:
        raise TypeError(
            f"a value is bytes, str or a buffer such as a numpy array, not {type(value).__name__}; "
            "errbus.codec makes bytes of other objects"
        ) from None


def place_of_outcome() -> Any:
    """A place for what a receive gives.  If it is dropped, a message in it is given back."""
    return ffi.gc(ffi.new("struct shim_outcome *", [lib.BUS_ETIMEDOUT]), lib.shim_outcome_drop)


def _error_in(came: Any) -> Optional[errors.RemoteError]:
    if came.error == ffi.NULL:
        return None
    return errors.from_handle(errors.own(lib.bus_error_ref(came.error)))


class PartyEnded(NamedTuple):
    """An outcome of a subscription: this incarnation of a party ended, and owed nothing."""

    party: str
    incarnation: int


def ended(end: PartyEnded) -> errors.Ended:
    """The exception for the good end of a party."""
    return errors.Ended(
        f"party {end.party} ended (incarnation {end.incarnation}) and owes nothing: the next call "
        "waits for other parties"
    )


class Piece(NamedTuple):
    """The place of a message's bytes in a value of `total` bytes: they begin at `offset`."""

    offset: int
    total: int
    is_last: bool


class Message:
    """One received value.

    One of ack(), give_back(), reject(), reply() and fail() settles the message, once.  A `for` over
    the subscription acknowledges a message when it takes the next one.  A message that the program
    drops is given back.  `value` stays valid when the message is settled, and after Bus.close().
    """

    __slots__ = (
        "topic", "seq", "delivery", "is_request", "_bus", "_box", "_value", "__weakref__",
    )

    def __init__(self, bus: "Bus", came: Any) -> None:
        """came: a place with a message, from place_of_outcome()."""
        msg = came.msg
        self._bus = bus
        self.topic: str = ffi.string(lib.bus_msg_topic(msg)).decode()
        self.seq: int = lib.bus_msg_seq(msg)
        self.delivery: int = lib.bus_msg_delivery(msg)
        self.is_request: bool = lib.bus_msg_is_request(msg) == 1
        self._value: Optional[memoryview] = None
        self._box: List[Any] = [came]

    @property
    def value(self) -> memoryview:
        """The bytes without a copy, as a memoryview that is read-only and one-dimensional:
        numpy.frombuffer(msg.value, dtype) makes an array of it.  Raises Settled if the program
        settled the message before it read the value."""
        if self._value is None:
            dup = lib.bus_msg_dup(self._own())
            if dup == ffi.NULL:
                raise errors.OutOfMemory(
                    f"no memory for the value of {self.topic}#{self.seq}; drop other messages"
                )
            self._value = value_of(ffi.gc(dup, lib.shim_msg_free))
        return self._value

    @property
    def piece(self) -> Piece:
        """The piece of the value that this message has, of a subscription with pieces.  After a
        piece with offset 0, all earlier pieces of that slot are void."""
        offset, total = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        is_last = lib.bus_msg_piece(self._own(), offset, total) == 1
        return Piece(offset[0], total[0], is_last)

    def __bytes__(self) -> bytes:
        return bytes(self.value)

    def __repr__(self) -> str:
        return f"<errbus.Message {self.topic}#{self.seq}>"

    @property
    def is_settled(self) -> bool:
        """Whether ack(), give_back(), reject(), reply() or fail() has settled the message."""
        return not self._box

    @property
    def is_over(self) -> bool:
        """Whether the lease of the task is over: no party waits for its result any more."""
        return bool(self._box) and lib.bus_msg_is_over(self._box[0].msg, ffi.NULL) == 1

    def _settled(self) -> errors.Settled:
        return errors.Settled(
            f"the message {self.topic}#{self.seq} was settled by this program before: settle it "
            "once, and read its value before"
        )

    def _own(self) -> Any:
        try:
            return self._box[0].msg
        except IndexError:
            raise self._settled() from None

    def _take(self) -> Any:
        try:
            return self._box.pop()
        except IndexError:
            raise self._settled() from None

    def ack(self) -> None:
        """Says that the program has done its work with the value, which stays valid.  Raises
        Settled if the message is settled already."""
        came = self._take()
        lib.bus_msg_free(_msg_in(came))

    def give_back(self) -> None:
        """Says that the program has not done its work.  A group gets the value again at once; a
        durable name gets it when it is opened next.  Raises as ack()."""
        came = self._take()
        lib.bus_msg_return(_msg_in(came))

    def reject(self, why: Optional[BaseException] = None, retry_after: Optional[float] = 0) -> None:
        """Says that this member of a group cannot do the task.  retry_after: seconds until the
        group gets the task again; None: never, and it becomes a dead letter.  Raises as ack()."""
        error = errors.to_handle(why)
        came = self._take()
        lib.bus_msg_reject(_msg_in(came), error, _wait.to_ms(retry_after))

    def reply(self, value: Any) -> None:
        """Answers a request with bytes, a str or a buffer.  Raises Settled if no party waits for the
        reply any more, Invalid for a task that is no request, and Full after send_timeout."""
        data = payload(value)
        came = self._take()
        msg = _msg_in(came)
        try:
            code = self._bus._with_room(lambda: lib.bus_msg_reply(msg, data, len(data)), None)
        finally:
            if came.msg != ffi.NULL:  # it is not settled, also after an interrupt
                self._box.append(came)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Fails a request with an exception.  A task that is no request becomes a dead letter.
        Raises as ack()."""
        handle = errors.to_handle(error)
        came = self._take()
        lib.bus_msg_fail(_msg_in(came), handle)


def _msg_in(came: Any) -> Any:
    """The struct bus_msg ** of a place, for a call that takes the message over."""
    return ffi.addressof(came[0], "msg")


Outcome = Union[Message, errors.RemoteError, errors.Overrun, PartyEnded]


class Subscription:
    """A subscription: an iterator of messages.

    next() raises an error that stands in the place of a value, and the next call continues behind
    it.  So a `for` ends with the first error, and another `for` continues.  outcomes() yields errors
    instead of raising them.  The iterator ends when the subscription or its bus is closed.  Ctrl-C
    loses nothing: what came beside it is what the next call returns.
    """

    def __init__(self, bus: "Bus", sub: Any, patterns: str) -> None:
        self._bus = bus
        self._patterns = patterns
        self._sub = ffi.gc(sub, lib.shim_sub_close)
        self._lock = threading.Lock()
        self._is_closing = False
        self._given: Optional[Message] = None
        self._came: Any = None  # the place of an outcome that no call has returned yet
        self._last_end: Optional[Tuple[str, int]] = None
        _wait.tell_of_forks(self)

    # ---- taking

    def _receive(self, timeout_ms: int, came: Any) -> int:
        if self._is_closing:
            return int(lib.BUS_ECLOSED)
        return int(lib.shim_sub_recv(self._sub, timeout_ms, came))

    def _settle_given(self) -> None:
        given, self._given = self._given, None
        if given is not None and not given.is_settled:
            given.ack()

    def _outcome(self, timeout: Optional[float]) -> Outcome:
        with self._lock:
            self._settle_given()
            if self._came is None:
                self._came = place_of_outcome()
            came = self._came
            code = came.code
            if code == lib.BUS_ETIMEDOUT:
                code = _wait.in_slices(
                    lambda timeout_ms: self._receive(timeout_ms, came), timeout, takes_slices=True
                )
            if code == lib.BUS_ETIMEDOUT:
                raise self._late(timeout)
            outcome, end = self._made(code, came)
            # From here on the outcome is the caller's.  No signal comes between these steps.
            self._last_end = end
            self._came = None
            if outcome is not None:
                return outcome
        raise errors.failure_of(code, _error_in(came) if came.code == code else None)

    def _made(self, code: int, came: Any) -> Tuple[Optional[Outcome], Optional[Tuple[str, int]]]:
        """The outcome in a place, and the last end of a party.  None: the code is about this party
        or this call."""
        if code == lib.BUS_OK:
            return Message(self._bus, came), self._last_end
        if code == lib.BUS_EFAILED:
            return _error_in(came), self._last_end
        if code == lib.BUS_EOVERRUN:
            return self._gap(_error_in(came)), self._last_end
        slot = self.slot if code == lib.BUS_EENDED else None
        if slot is None or "/" in slot[0] or slot == self._last_end:
            return None, self._last_end
        return PartyEnded(*slot), slot

    def _late(self, timeout: Optional[float]) -> errors.TimedOut:
        return self._bus._late(f"a value of {self._patterns}", timeout)

    def _gap(self, error: Optional[errors.RemoteError]) -> errors.Overrun:
        overrun = errors.failure_of(lib.BUS_EOVERRUN, error)
        assert isinstance(overrun, errors.Overrun)
        first = ffi.new("uint64_t *")
        overrun.count = lib.bus_sub_gap(self._sub, first)
        overrun.first = first[0]
        slot = self.slot
        overrun.topic = slot[0] if slot is not None else ""
        return overrun

    @property
    def slot(self) -> Optional[Tuple[str, int]]:
        """Topic and number of the last outcome, a value or an error.  After the end of a party: the
        party and its incarnation."""
        seq = ffi.new("uint64_t *")
        topic = lib.bus_sub_slot(self._sub, seq)
        return None if topic == ffi.NULL else (ffi.string(topic).decode(), seq[0])

    def recv(self, timeout: Optional[float] = None) -> Message:
        """Waits for the next message, which the caller settles.  Raises the error in its place,
        TimedOut after timeout seconds, and Ended when a party ended that owed nothing."""
        outcome = self._outcome(timeout)
        if isinstance(outcome, PartyEnded):
            raise ended(outcome)
        if isinstance(outcome, errors.Error):
            raise outcome
        return outcome

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Message:
        while True:
            try:
                outcome = self._outcome(None)
            except (errors.Closed, errors.Ended):
                raise StopIteration from None
            if isinstance(outcome, errors.Error):
                raise outcome
            if isinstance(outcome, Message):
                self._given = outcome
                return outcome

    def outcomes(self) -> Iterator[Outcome]:
        """All outcomes, in order: messages, errors in the place of values, gaps (errbus.Overrun),
        and the ends of parties that owed nothing."""
        while True:
            try:
                outcome = self._outcome(None)
            except (errors.Closed, errors.Ended):
                return
            if isinstance(outcome, Message):
                self._given = outcome
            yield outcome

    # ---- the rest

    def fileno(self) -> int:
        """A descriptor for select(): it is readable while recv() would not wait."""
        return int(lib.bus_sub_fd(self._sub))

    def add(self, pattern: str) -> None:
        """Adds a pattern to the subscription.  Raises Invalid for a text that is no pattern."""
        code = lib.bus_sub_add(self._sub, utf8(pattern))
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def drain(self) -> None:
        """Takes no more tasks from the group; tasks on their way still come.  Raises Invalid for a
        subscription that is no member of a group."""
        code = lib.bus_sub_drain(self._sub)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def close(self) -> None:
        """Ends the subscription.  A durable name stays at the broker, and the next subscription of
        that name continues behind the last acknowledged value."""
        self._end(lib.bus_sub_close)

    def drop(self) -> None:
        """Ends the subscription, and removes its durable name with all values that wait for it."""
        self._end(lib.bus_sub_drop)

    def _end(self, end: Any) -> None:
        if self._is_closing:
            return
        self._is_closing = True  # a call that waits looks at it after each slice
        with self._lock:
            given, self._given = self._given, None
            if given is not None and not given.is_settled:
                given.give_back()
            self._came = None
            sub, self._sub = self._sub, ffi.NULL
            ffi.gc(sub, None)
            end(ffi.new("struct bus_sub **", sub))

    def _in_child(self) -> None:
        """In a forked child, a thread of the parent may hold the lock for ever."""
        self._lock = threading.Lock()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        if kind is None:
            self._settle_given()
        self.close()

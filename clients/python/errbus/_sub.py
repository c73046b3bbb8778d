# SPDX-License-Identifier: MPL-2.0
"""Received values, and subscriptions to topics."""
from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Tuple, Type, Union

from errbus import _wait, errors
from errbus._errbus import ffi, lib

if TYPE_CHECKING:
    from errbus._bus import Bus


def _let_go(owner: Any, _pointer: Any) -> None:
    """The destructor of a value: with it goes the reference to its owner."""


def view(owner: Any, pointer: Any, size: int) -> memoryview:
    """The bytes as a read-only memoryview, without a copy; owner lives as long as it, or as any
    array that is made of it."""
    if size == 0:
        return memoryview(b"")
    value = ffi.gc(ffi.cast("char *", pointer), partial(_let_go, owner))
    return memoryview(ffi.buffer(value, size)).toreadonly()


def value_of(msg: Any) -> memoryview:
    """The value of a struct bus_msg * that the collector frees."""
    size = ffi.new("size_t *")
    pointer = lib.bus_msg_value(msg, size)
    return view(msg, pointer, size[0])


def payload(value: Any) -> Any:
    """The bytes of a str, or of anything contiguous with a buffer: bytes, an array, a memoryview."""
    if isinstance(value, str):
        value = value.encode()
    try:
        return ffi.from_buffer(value)
    except (BufferError, ValueError):
        return ffi.from_buffer(bytes(memoryview(value)))  # not contiguous
    except TypeError:
        raise TypeError(
            f"a value is bytes, str or a buffer such as a numpy array, not {type(value).__name__}"
        ) from None


class PartyEnded(NamedTuple):
    """An outcome of a subscription: a party ended, and owed nothing."""

    party: str
    incarnation: int


class Piece(NamedTuple):
    """Which bytes of a value a message has: those from offset on, of total in all."""

    offset: int
    total: int
    is_last: bool


class Message:
    """One received value.

    A message ends once, with one of ack(), give_back(), reject(), reply() and fail(); a `for` over
    the subscription acknowledges it when it asks for the next one.  A message that is forgotten is
    given back.  value stays good whatever becomes of the message, and after Bus.close().
    """

    __slots__ = ("topic", "seq", "delivery", "is_request", "_box", "_value", "__weakref__")

    def __init__(self, msg: Any) -> None:
        self.topic: str = ffi.string(lib.bus_msg_topic(msg)).decode()
        self.seq: int = lib.bus_msg_seq(msg)
        self.delivery: int = lib.bus_msg_delivery(msg)
        self.is_request: bool = lib.bus_msg_is_request(msg) == 1
        self._value: Optional[memoryview] = None
        self._box: List[Any] = [ffi.gc(msg, lib.shim_msg_return)]

    @property
    def value(self) -> memoryview:
        """The bytes, as a memoryview that is read-only, one-dimensional and not copied:
        numpy.frombuffer(msg.value, dtype).  Raises Settled if it was not read before ack()."""
        if self._value is None:
            dup = lib.bus_msg_dup(self._own())
            if dup == ffi.NULL:
                raise errors.OutOfMemory("no memory for a message")
            self._value = value_of(ffi.gc(dup, lib.shim_msg_free))
        return self._value

    @property
    def piece(self) -> Piece:
        """Which piece of its value it is, of a subscription with pieces.  A piece with offset 0
        makes all earlier pieces of its slot void."""
        offset, total = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        is_last = lib.bus_msg_piece(self._own(), offset, total) == 1
        return Piece(offset[0], total[0], is_last)

    def __bytes__(self) -> bytes:
        return bytes(self.value)

    def __repr__(self) -> str:
        return f"<errbus.Message {self.topic}#{self.seq}>"

    @property
    def is_settled(self) -> bool:
        """Whether one of the calls below was made."""
        return not self._box

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the result of the task any more."""
        return bool(self._box) and lib.bus_msg_is_over(self._box[0], ffi.NULL) == 1

    def _own(self) -> Any:
        try:
            return self._box[0]
        except IndexError:
            raise errors.Settled(f"{self.topic}#{self.seq} is settled already") from None

    def _take(self) -> Any:
        self._own()
        try:
            msg = self._box.pop()
        except IndexError:
            raise errors.Settled(f"{self.topic}#{self.seq} is settled already") from None
        ffi.gc(msg, None)  # the call below takes the error over
        return ffi.new("struct bus_msg **", msg)

    def ack(self) -> None:
        """Done.  value stays good.  Raises Settled if one of these calls was made before."""
        lib.bus_msg_free(self._take())

    def give_back(self) -> None:
        """Not done: the value comes again, to a group at once, to a durable name when it is opened
        next.  Raises as ack()."""
        lib.bus_msg_return(self._take())

    def reject(self, why: Optional[BaseException] = None, retry_after: Optional[float] = 0) -> None:
        """This member of a group cannot do it.  retry_after: seconds; None: never, it becomes a
        dead letter.  Raises as ack()."""
        error = errors.to_handle(why)
        lib.bus_msg_reject(self._take(), error, _wait.to_ms(retry_after))

    def reply(self, value: Any) -> None:
        """Answers a request with bytes, a str or a buffer.  Raises Settled if nobody waits for the
        reply any more."""
        data = payload(value)
        msg = self._take()
        code = lib.bus_msg_reply(msg, data, len(data))
        if msg[0] != ffi.NULL:
            self._box.append(ffi.gc(msg[0], lib.shim_msg_return))
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Fails a request; a task that is no request becomes a dead letter.  Raises as ack()."""
        handle = errors.to_handle(error)
        lib.bus_msg_fail(self._take(), handle)


Outcome = Union[Message, errors.RemoteError, errors.Overrun, PartyEnded]


class Subscription:
    """A subscription: an iterator of messages.

    next() raises the error that stands in the place of a value, and the next call goes on behind
    it.  So `for` ends with the first error, and another `for` goes on; outcomes() never raises one.
    The iterator ends when the subscription or its bus is closed.
    """

    def __init__(self, bus: "Bus", sub: Any) -> None:
        self._bus = bus
        self._sub = ffi.gc(sub, lib.shim_sub_close)
        self._lock = threading.Lock()
        self._is_closing = False
        self._given: Optional[Message] = None
        self._last_end: Optional[Tuple[str, int]] = None

    # ---- taking

    def _call(self, timeout_ms: int, out_msg: Any, reterr: Any) -> int:
        if self._is_closing:
            return int(lib.BUS_ECLOSED)
        return int(lib.bus_sub_recv(self._sub, timeout_ms, out_msg, reterr))

    def _settle_given(self) -> None:
        given, self._given = self._given, None
        if given is not None and not given.is_settled:
            given.ack()

    def _outcome(self, timeout: Optional[float]) -> Outcome:
        with self._lock:
            self._settle_given()
            out_msg = ffi.new("struct bus_msg **")
            reterr = ffi.new("struct bus_error **")

            def call(timeout_ms: int) -> int:
                if reterr[0] != ffi.NULL:
                    lib.bus_error_unref(reterr)
                return self._call(timeout_ms, out_msg, reterr)

            code = _wait.in_slices(call, timeout)
            if code == lib.BUS_OK:
                return Message(out_msg[0])
            error = errors.taken(reterr)
            if code == lib.BUS_EFAILED and error is not None:
                return error
            if code == lib.BUS_EOVERRUN:
                return self._gap(error)
            if code == lib.BUS_EENDED and self._is_new_end():
                assert self._last_end is not None
                return PartyEnded(*self._last_end)
        raise errors.failure_of(code, error)

    def _gap(self, error: Optional[errors.RemoteError]) -> errors.Overrun:
        overrun = errors.failure_of(lib.BUS_EOVERRUN, error)
        assert isinstance(overrun, errors.Overrun)
        first = ffi.new("uint64_t *")
        overrun.count = lib.bus_sub_gap(self._sub, first)
        overrun.first = first[0]
        slot = self.slot
        overrun.topic = slot[0] if slot is not None else ""
        return overrun

    def _is_new_end(self) -> bool:
        """Whether BUS_EENDED is about another party; else it is about this one."""
        slot = self.slot
        if slot is None or "/" in slot[0] or slot == self._last_end:
            return False
        self._last_end = slot
        return True

    @property
    def slot(self) -> Optional[Tuple[str, int]]:
        """Topic and number of what was taken last, be it a value or an error; of a party's end,
        the party and its incarnation."""
        seq = ffi.new("uint64_t *")
        topic = lib.bus_sub_slot(self._sub, seq)
        return None if topic == ffi.NULL else (ffi.string(topic).decode(), seq[0])

    def recv(self, timeout: Optional[float] = None) -> Message:
        """The next message, which the caller settles.  Raises what stands in its place, TimedOut
        after timeout seconds, and Ended at the good end of a party."""
        outcome = self._outcome(timeout)
        if isinstance(outcome, PartyEnded):
            raise errors.Ended(f"{outcome.party} ended, and owes nothing")
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
        """All that comes: messages, errors in the place of values, gaps, and good ends of parties."""
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
        """A descriptor that is readable while recv() would not wait."""
        return int(lib.bus_sub_fd(self._sub))

    def add(self, pattern: str) -> None:
        """One more pattern for the same subscription.  Raises Invalid if it is none."""
        code = lib.bus_sub_add(self._sub, pattern.encode())
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def drain(self) -> None:
        """A member of a group asks for no more tasks; those on their way still come.  Raises
        Invalid if this is no member of a group."""
        code = lib.bus_sub_drain(self._sub)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def close(self) -> None:
        """Ends the handle; a durable name stays, and goes on behind the last acknowledgement."""
        self._end(lib.bus_sub_close)

    def drop(self) -> None:
        """Ends the handle, and removes a durable name with its backlog."""
        self._end(lib.bus_sub_drop)

    def _end(self, end: Any) -> None:
        if self._is_closing:
            return
        self._is_closing = True  # a waiting call sees it after its slice
        with self._lock:
            given, self._given = self._given, None
            if given is not None and not given.is_settled:
                given.give_back()
            sub, self._sub = self._sub, ffi.NULL
            ffi.gc(sub, None)
            end(ffi.new("struct bus_sub **", sub))

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        if kind is None:
            self._settle_given()
        self.close()

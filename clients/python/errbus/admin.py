# SPDX-License-Identifier: MPL-2.0
"""Operators' calls, and taps: watch and change jobs without taking part in one."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar, Union, overload

from errbus import _wait, errors
from errbus._bus import DISCLOSURES, _one_of, _or_null
from errbus._errbus import ffi, lib
from errbus._why import Why, Without, read_why, read_without
from errbus.errors import _text

_STRATEGIES = {"causal": 0, "earliest": 1, "first": 2}
_PENDING = {"deliver": 0, "replace": 1}
_DEADLOCKS = {"tell": 0, "fail": 1}
CHANNELS = {"control": lib.BUS_CHANNEL_CONTROL, "data": lib.BUS_CHANNEL_DATA}
_Self = TypeVar("_Self", bound="_Handle")


class JobMember(NamedTuple):
    """A party of a job."""

    party: str
    incarnation: int
    state: str
    rank: Optional[int]  # None: it waits for a place


class Job(NamedTuple):
    """A snapshot of a job; error is the root of its verdict, or None."""

    name: str
    state: str
    attempt: int
    epoch: int
    world_size: int
    error: Optional[errors.RemoteError]
    members: List[JobMember]


class StatusRow(NamedTuple):
    """One thing that the broker holds, with counts of slots or tasks: open are promised and not
    settled, pending wait to be read, dead are dead letters."""

    kind: str  # "job", "party", "topic", "sub" or "group"
    job: str
    name: str
    party: str
    state: str
    open: int
    pending: int
    next_seq: int
    dead: int


class WhoRow(NamedTuple):
    """A client of the broker that is connected, or may come back: its name in the access file, and
    the key or uid that it has shown."""

    name: str  # "": the broker has no access file
    job: str
    party: str  # "": an observer
    incarnation: int
    role: str  # "party", "observer" or "guard"
    connections: int  # 0: it may come back
    connected: float  # seconds
    identity: str  # "ebp_...", or "uid 1000"
    address: str
    until: Optional[int]  # seconds since the epoch, when the key ends


class Letter(NamedTuple):
    """A dead letter: a task that no member of its group did, and why."""

    number: int
    topic: str
    seq: int
    deliveries: int
    at: float  # seconds since the epoch, by the broker's clock
    type: str
    message: str
    value: Optional[bytes]  # of Admin.dead_show() alone, as error
    error: Optional[errors.RemoteError]


class ReportRow(NamedTuple):
    """One error of a report, and where it leads."""

    role: str  # "root", "victim": it leads to the root, or "apart"
    number: int  # in the order in which the errors occurred
    next: int  # of a victim: the row that it leads to next
    is_blame: bool  # it leads there by blame, and not by cause
    id: str
    party: str
    incarnation: int
    kind: str
    type: str
    message: str


class Report(NamedTuple):
    """Why a job failed: the verdict and the errors of its parties."""

    state: str  # "none", "provisional" or "final"
    outlook: str  # how the job fares
    reason: str  # why this root
    why: str  # the reason as a sentence about these errors
    attempt: int
    is_complete: bool  # no error is missing that others name
    root: Optional[errors.RemoteError]
    rows: List[ReportRow]


class Attachment(NamedTuple):
    """What the broker has of an attachment of an error.  bytes: its size; arrived: how many of
    them are there."""

    name: str
    bytes: Optional[int]  # when the error was told; None: not known
    arrived: int
    state: str  # "whole", "cut" and others: see errbus-errors(1)


class Pong(NamedTuple):
    """The answer of a broker to Admin.ping()."""

    trip: float  # seconds from the question to the answer
    uptime: float  # seconds that the broker has run
    journal: str  # "well", "full", "refused" or "failed": see errbus-ping(1)


class Event(NamedTuple):
    """Something that happened, as a tap tells it."""

    id: int
    at: float  # seconds since the epoch, by the broker's clock
    job: str
    name: str  # "party.lost", "slot.failed" and others: see errbus-tap(1)
    party: str
    incarnation: int
    topic: str
    seq: int
    times: int  # how many slots or errors it stands for
    text: str
    error: Optional[errors.RemoteError]


@ffi.def_extern(error=1)  # type: ignore[misc]
def errbus_take_bytes(data: Any, count: int, arg: Any) -> int:
    """Called by the thread that fetches, with the next bytes of an attachment."""
    ffi.from_handle(arg).append(bytes(ffi.buffer(data, count)))
    return 0


def _borrowed(error: Any) -> Optional[errors.RemoteError]:
    if error == ffi.NULL:
        return None
    return errors.from_handle(errors.own(lib.bus_error_ref(error)))


def _nothing(_out: Any) -> None:
    """Frees the result of a call that has none."""


class _Handle:
    """A pointer of the library, from its opening call to its closing one."""

    _kind: str  # a pointer to the handle, as C writes it
    _closing: Callable[[Any], Any]

    def __init__(self, opening: Callable[[Any, Any], Any], keep: List[Any]) -> None:
        self._users: List[int] = []
        self._is_closing = False
        self._box = [_wait.interruptible(opening, self._kind, self._closing, keep)]

    def _pointer(self) -> Any:
        if self._is_closing:
            raise errors.Closed("the handle is closed")
        return self._box[0]

    def _enter(self) -> Any:
        """The pointer, for a call.  Of the calls under way and close(), the last one closes it."""
        self._users.append(1)
        try:
            return self._pointer()
        except errors.Closed:
            self._leave()
            raise

    def _leave(self) -> None:
        self._users.pop()
        self._close_unused()

    def _use(self, call: Callable[[Any], Any]) -> Any:
        pointer = self._enter()
        try:
            return call(pointer)
        finally:
            self._leave()

    def _close_unused(self) -> None:
        try:
            if self._is_closing and not self._users:
                self._closing(ffi.new(self._kind, self._box.pop()))
        except IndexError:
            pass  # another thread was here first

    def close(self) -> None:
        """Closes the connections, behind the calls under way.  Twice is once."""
        self._is_closing = True
        self._close_unused()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_box", None):
            self.close()


class Admin(_Handle):
    """A handle on a broker: it joins no job.  job: of calls that name none."""

    _kind = "struct bus_admin **"
    _closing = staticmethod(lib.bus_admin_close)

    def __init__(
        self,
        endpoint: Optional[str] = None,
        job: Optional[str] = None,
        timeout: Optional[float] = 10,
        is_patient: bool = False,
        key: Optional[str] = None,
    ) -> None:
        keep: List[Any] = []
        options = ffi.new("struct bus_admin_options *")
        lib.shim_admin_options_init(options)
        options.job = _or_null(job, keep)
        options.is_patient = 1 if is_patient else 0
        options.key = _or_null(key, keep)
        server = _or_null(endpoint, keep)
        self._timeout_ms = _wait.to_ms(timeout)
        super().__init__(
            lambda out, err: lib.bus_admin_open(server, options, self._timeout_ms, out, err), keep
        )

    def _ask(
        self, call: Callable[..., Any], *words: Any, kind: str = "", free: Any = None
    ) -> Any:
        """Asks the broker on a thread of its own, so that Ctrl-C ends the wait.  kind: a pointer to
        what the call makes, which free() then frees."""
        pointer = self._enter()

        def asking(out: Any, reterr: Any) -> Any:
            try:
                return call(pointer, *words, *((out,) if kind else ()), reterr)
            finally:
                self._leave()

        made = _wait.interruptible(asking, kind or "void **", free or _nothing, list(words))
        return made if free is None else ffi.gc(made, lambda one: free(ffi.new(kind, one)))

    def ping(self, channel: str = "control") -> Pong:
        """Asks the broker for a sign of life over its "control" or its "data" channel.  A broker
        whose journal takes nothing answers, too.  Raises Lost if the data channel is not reached.
        """
        number = _one_of(CHANNELS, channel, "channel")
        pong = self._ask(
            lib.bus_admin_ping, number, self._timeout_ms, kind="struct bus_pong *", free=None
        )
        journal = _text(lib.bus_journal_state_name(pong.journal))
        return Pong(pong.trip_ns / 1e9, pong.uptime_ms / 1e3, journal)

    def job_create(self, job: str, **options: Any) -> None:
        """Creates a job.  Options are those of struct bus_job_options, times in seconds without
        _ms: min, max, join_window, join_timeout, settle, max_restarts, deadline, pending,
        strategy, disclosure, deadlock, auditor (a public key)."""
        keep: List[Any] = []
        made = ffi.new("struct bus_job_options *")
        lib.shim_job_options_init(made)
        words: Dict[str, Dict[str, int]] = {
            "pending": _PENDING, "strategy": _STRATEGIES, "disclosure": DISCLOSURES,
            "deadlock": _DEADLOCKS,
        }
        for name, value in options.items():
            if name in words:
                setattr(made, name, _one_of(words[name], value, name))
            elif name in ("join_window", "join_timeout", "settle", "deadline"):
                setattr(made, name + "_ms", _wait.to_ms(value))
            elif name in ("min", "max", "max_restarts"):
                setattr(made, name, value)
            elif name == "auditor":
                made.auditor = _or_null(value, keep)
            else:
                raise errors.Invalid(f"a job has no option {name}")
        self._ask(lib.bus_admin_job_create, job.encode(), made, self._timeout_ms)

    def job_cancel(self, job: str, why: Optional[str] = None) -> None:
        """Ends a job: each bus of it is over, and its open slots fail as cancelled.  Raises Invalid
        for a job that is not there."""
        keep: List[Any] = []
        text = _or_null(why, keep)
        self._ask(lib.bus_admin_job_cancel, job.encode(), text, self._timeout_ms)

    def job_forget(self, job: str) -> None:
        """Removes a job that no party is in, and all of it.  Raises Denied if one is in it."""
        self._ask(lib.bus_admin_job_forget, job.encode(), self._timeout_ms)

    def job(self, job: str) -> Job:
        """A snapshot of one job.  Raises Invalid for a job that is not there."""
        found = self._ask(
            lib.bus_admin_job_get, job.encode(), self._timeout_ms,
            kind="struct bus_job **", free=lib.bus_job_free,
        )
        info = lib.bus_job_info(found)
        members = []
        for i in range(info.member_count):
            row = lib.bus_job_member_at(found, i)
            state = _text(lib.bus_state_name(row.state))
            rank = row.rank if row.rank >= 0 else None
            members.append(JobMember(_text(row.party), row.incarnation, state, rank))
        return Job(
            _text(info.name), _text(lib.bus_state_name(info.state)), info.attempt, info.epoch,
            info.world_size, _borrowed(info.error), members,
        )

    def status(self, job: str = "") -> List[StatusRow]:
        """What the broker holds: of one job, or of all."""
        found = self._ask(
            lib.bus_admin_status_get, job.encode(), self._timeout_ms,
            kind="struct bus_status **", free=lib.bus_status_free,
        )
        kinds = ("job", "party", "topic", "sub", "group")
        rows = []
        for i in range(lib.bus_status_count(found)):
            row = lib.bus_status_at(found, i)
            rows.append(StatusRow(
                kinds[row.kind], _text(row.job), _text(row.name), _text(row.party),
                _text(lib.bus_state_name(row.state)), row.open, row.pending, row.next_seq, row.dead,
            ))
        return rows

    def who(self) -> List[WhoRow]:
        """Who is connected.  Raises Denied without the right admin."""
        found = self._ask(
            lib.bus_who_get, self._timeout_ms, kind="struct bus_who **", free=lib.bus_who_free
        )
        rows = []
        for i in range(lib.bus_who_count(found)):
            row = lib.bus_who_at(found, i)
            rows.append(WhoRow(
                _text(row.name), _text(row.job), _text(row.party), row.incarnation,
                _text(lib.bus_role_name(row.role)), row.connections, row.connected_ms / 1e3,
                _text(row.identity), _text(row.address), row.until_s or None,
            ))
        return rows

    def access_reload(self) -> int:
        """Has the broker read its access file again; how many parties lost their access.  Raises
        Protocol if the file is wrong, and then what was in force stays."""
        return int(self._ask(lib.bus_access_reload, self._timeout_ms, kind="uint32_t *"))

    def dead(self, job: str, group: str) -> List[Letter]:
        """The dead letters of a group, without their values."""
        return _letters(self._letters(lib.bus_admin_dead_list, job.encode(), group.encode()))

    def dead_show(self, job: str, group: str, number: int) -> Letter:
        """One letter with its value, as bytes, and its error."""
        found = self._letters(lib.bus_admin_dead_show, job.encode(), group.encode(), number)
        size = ffi.new("size_t *")
        pointer = lib.bus_dead_value(found, size)
        value = bytes(ffi.buffer(pointer, size[0]))
        return _letters(found)[0]._replace(value=value, error=_borrowed(lib.bus_dead_error(found)))

    def _letters(self, call: Any, *words: Any) -> Any:
        kind = "struct bus_dead **"
        return self._ask(call, *words, self._timeout_ms, kind=kind, free=lib.bus_dead_free)

    def dead_replay(self, job: str, group: str, number: Optional[int] = None) -> int:
        """Gives a letter to its group again, or all; how many."""
        return self._of_letters(lib.bus_admin_dead_replay, job, group, number)

    def dead_drop(self, job: str, group: str, number: Optional[int] = None) -> int:
        """Forgets a letter, or all; how many."""
        return self._of_letters(lib.bus_admin_dead_drop, job, group, number)

    def _of_letters(self, call: Any, job: str, group: str, number: Optional[int]) -> int:
        words = (job.encode(), group.encode(), lib.BUS_DEAD_ALL if number is None else number)
        return int(self._ask(call, *words, self._timeout_ms, kind="uint64_t *"))

    def report(self, job: str, wait: bool = False) -> Report:
        """Why a job failed: the root of all errors that its parties ended with, and each of them.
        wait: until the verdict is final, and TimedOut behind the timeout of this handle."""
        found = self._ask(
            lib.bus_admin_report_get, job.encode(), 1 if wait else 0, self._timeout_ms,
            kind="struct bus_report **", free=lib.bus_report_free,
        )
        short = lib.bus_report_summary(found)
        rows = []
        for i in range(lib.bus_report_count(found)):
            row = lib.bus_report_at(found, i)
            rows.append(ReportRow(
                _text(lib.bus_report_role_name(row.role)), row.number, row.next, row.is_blame == 1,
                _text(row.id), _text(row.party), row.incarnation, _text(row.kind), _text(row.type),
                _text(row.message),
            ))
        return Report(
            _text(lib.bus_report_state_name(short.state)), _text(lib.bus_outlook_name(short.outlook)),
            _text(lib.bus_report_reason_name(short.reason)), _text(short.why), short.attempt,
            short.is_complete == 1, _borrowed(lib.bus_report_root(found)), rows,
        )

    @overload
    def why(
        self, job: Optional[str] = None, *, topic: Optional[str] = None, seq: int = 0
    ) -> Why: ...

    @overload
    def why(self, job: Optional[str] = None, *, without: str) -> Without: ...

    def why(
        self, job: Optional[str] = None, *, topic: Optional[str] = None, seq: int = 0,
        without: Optional[str] = None,
    ) -> Union[Why, Without]:
        """Who waits for whom in a job, now: its roots are the parties to look at.

        topic and seq: the answer has this slot, who owes it and what it needs.
        without: another question; what would fail if this party were lost now.
        Raises Invalid for a job, party or topic that is not there."""
        return self._why(job, topic, seq, without)

    def _why(
        self, job: Optional[str], topic: Optional[str], seq: int, without: Optional[str]
    ) -> Union[Why, Without]:
        keep: List[Any] = []
        words = [_or_null(job, keep)]
        if without is None:
            words += [_or_null(topic, keep), seq]
            return read_why(self._ask(
                lib.bus_why_get, *words, self._timeout_ms,
                kind="struct bus_why **", free=lib.bus_why_free,
            ))
        if topic is not None:
            raise errors.Invalid("why() takes a topic or without, not both")
        return read_without(self._ask(
            lib.bus_without_get, *words, _or_null(without, keep), self._timeout_ms,
            kind="struct bus_without **", free=lib.bus_without_free,
        ))

    def attachments(self, job: str, error_id: str) -> List[Attachment]:
        """What the broker has of the attachments of an error."""
        found = self._ask(
            lib.bus_admin_attachment_list, job.encode(), error_id.encode(), self._timeout_ms,
            kind="struct bus_attachments **", free=lib.bus_attachments_free,
        )
        rows = []
        for i in range(lib.bus_attachments_count(found)):
            row = lib.bus_attachments_at(found, i)
            size = row.bytes if row.bytes >= 0 else None
            state = _text(lib.bus_attachment_state_name(row.state))
            rows.append(Attachment(_text(row.name), size, row.arrived, state))
        return rows

    def attachment(self, job: str, error_id: str, name: str) -> bytes:
        """One attachment of an error: the "stderr" of errbus run, for example."""
        pieces: List[bytes] = []
        handle = ffi.new_handle(pieces)
        words = (job.encode(), error_id.encode(), name.encode(), self._timeout_ms)
        self._ask(lib.bus_admin_attachment_fetch, *words, lib.errbus_take_bytes, handle)
        return b"".join(pieces)

    def open_attachment(self, job: str, error: errors.RemoteError, name: str, key: str) -> bytes:
        """One attachment that was sealed to the key in this file.  error: the sealed one, or what
        its open() gave; name: as the latter has it."""
        if error._handle is None:
            raise errors.Invalid("an error that was pickled has nothing sealed")
        pieces: List[bytes] = []
        handle = ffi.new_handle(pieces)
        words = (job.encode(), error._handle, name.encode(), os.fsencode(key), self._timeout_ms)
        self._ask(lib.bus_admin_attachment_open, *words, lib.errbus_take_bytes, handle)
        return b"".join(pieces)


def _letters(found: Any) -> List[Letter]:
    letters = []
    for i in range(lib.bus_dead_count(found)):
        row = lib.bus_dead_at(found, i)
        letters.append(Letter(
            row.number, _text(row.topic), row.seq, row.deliveries, row.at_ns / 1e9,
            _text(row.type), _text(row.message), None, None,
        ))
    return letters


class Tap(_Handle):
    """The events of a job, as an iterator: who joins, fails or is lost, and why.

    from_id: the first event wanted; 0: the oldest kept; None: only events to come.  until_id: the
    iterator ends behind it.
    """

    _kind = "struct bus_tap **"
    _closing = staticmethod(lib.bus_tap_close)

    def __init__(
        self,
        endpoint: Optional[str] = None,
        job: Optional[str] = None,
        from_id: Optional[int] = None,
        until_id: int = 0,
        timeout: Optional[float] = 30,
        key: Optional[str] = None,
    ) -> None:
        keep: List[Any] = []
        options = ffi.new("struct bus_tap_options *")
        lib.shim_tap_options_init(options)
        options.job = _or_null(job, keep)
        options.from_id = lib.BUS_TAP_NOW if from_id is None else from_id
        options.until_id = until_id
        options.key = _or_null(key, keep)
        server = _or_null(endpoint, keep)
        ms = _wait.to_ms(timeout)
        super().__init__(
            lambda out, err: lib.bus_tap_open(server, options, ms, out, err), keep
        )

    def next(self, timeout: Optional[float] = None) -> Event:
        """The next event.  Raises TimedOut after timeout seconds; Overrun, which has first and count of the ids missed;
        Ended behind until_id."""
        event: Event = self._use(lambda tap: self._next(tap, timeout))
        return event

    def _next(self, tap: Any, timeout: Optional[float]) -> Event:
        out = ffi.new("const struct bus_event **")
        reterr = ffi.new("struct bus_error **")

        def call(timeout_ms: int) -> Any:
            if reterr[0] != ffi.NULL:
                lib.bus_error_unref(reterr)
            return lib.bus_tap_next(tap, timeout_ms, out, reterr)

        code = _wait.in_slices(call, timeout)
        if code == lib.BUS_EOVERRUN:
            gap = errors.failure_of(code, errors.taken(reterr))
            first, last = ffi.new("uint64_t *"), ffi.new("uint64_t *")
            lib.bus_tap_gap(tap, first, last)
            assert isinstance(gap, errors.Overrun)
            gap.first, gap.count = first[0], last[0] - first[0] + 1
            raise gap
        if code != lib.BUS_OK:
            errors.raise_code(code, reterr)
        event = out[0]
        return Event(
            lib.bus_event_id(event), lib.bus_event_at_ns(event) / 1e9,
            _text(lib.bus_event_job(event)), _text(lib.bus_event_name(event)),
            _text(lib.bus_event_party(event)), lib.bus_event_incarnation(event),
            _text(lib.bus_event_topic(event)), lib.bus_event_seq(event),
            lib.bus_event_count(event), _text(lib.bus_event_text(event)),
            _borrowed(lib.bus_event_error(event)),
        )

    def __iter__(self) -> "Tap":
        return self

    def __next__(self) -> Event:
        try:
            return self.next()
        except (errors.Ended, errors.Closed):
            raise StopIteration from None

    def fileno(self) -> int:
        """A descriptor that is readable while next() would not wait."""
        return int(self._use(lib.bus_tap_fd))

    def close(self) -> None:
        """Closes the connection; next() of another thread ends with Closed.  Twice is once."""
        try:
            self._use(lib.bus_tap_stop)
        except errors.Closed:
            return
        super().close()

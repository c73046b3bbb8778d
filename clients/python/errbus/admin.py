# SPDX-License-Identifier: MPL-2.0
"""The calls of operators, and taps: they watch and change jobs, and join none."""
from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any, Callable, List, NamedTuple, Optional, TypeVar, Union, overload

from errbus import _wait, errors
from errbus._bus import DISCLOSURES, _one_of, _or_null
from errbus._errbus import ffi, lib
from errbus._given import number_of, utf8
from errbus._sub import place_of_outcome
from errbus._why import Why, Without, read_why, read_without
from errbus.errors import _text

_STRATEGIES = {"causal": 0, "earliest": 1, "first": 2}
_PENDING = {"deliver": 0, "replace": 1}
_DEADLOCKS = {"tell": 0, "fail": 1}
CHANNELS = {"control": lib.BUS_CHANNEL_CONTROL, "data": lib.BUS_CHANNEL_DATA}
_COUNT_MAX = 2**32 - 1
_Self = TypeVar("_Self", bound="_Handle")


class JobMember(NamedTuple):
    """A party of a job."""

    party: str
    incarnation: int
    state: str
    rank: Optional[int]  # None: the party waits for a place


class Job(NamedTuple):
    """A snapshot of a job.  error is the root of its verdict; None: no verdict names one."""

    name: str
    state: str  # "free", "gathering", "running" and others: see errbus-job(1)
    attempt: int
    epoch: int
    world_size: int
    error: Optional[errors.RemoteError]
    members: List[JobMember]


class StatusRow(NamedTuple):
    """One thing that the broker holds, with counts of its slots or tasks.  open: they are promised
    and not settled; pending: they wait for a reader; dead: they are dead letters."""

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
    """A client that is connected to the broker, or that may come back to its session."""

    name: str  # in the access file; "": the broker has no access file
    job: str
    party: str  # "": an observer
    incarnation: int
    role: str  # "party", "observer" or "guard"
    connections: int  # 0: the client may come back
    connected: float  # seconds since it connected
    identity: str  # the public key or the user id that it has shown: "ebp_...", "uid 1000"
    address: str
    until: Optional[int]  # the end of the key, in seconds since the epoch; None: it has none


class Letter(NamedTuple):
    """A dead letter: a task that no member of its group did, and the error that says why."""

    number: int
    topic: str
    seq: int
    deliveries: int
    at: float  # seconds since the epoch, by the broker's clock
    type: str
    message: str
    value: Optional[bytes]  # None: Admin.dead() leaves out the value and the error
    error: Optional[errors.RemoteError]


class ReportRow(NamedTuple):
    """One error of a report."""

    role: str  # "root"; "victim": the root led to it; "apart": the root did not
    number: int  # of the row: the rows are in the order in which the errors occurred
    next: int  # of a victim: the number of the row that led to it; else its own
    is_blame: bool  # of a victim: it blames the party of that row; False: that row is its cause
    id: str
    party: str
    incarnation: int
    kind: str
    type: str
    message: str


class Report(NamedTuple):
    """Why a job failed: the verdict and the errors of its parties."""

    state: str  # "none", "provisional" or "final"
    outlook: str  # "unknown": the broker has no such job; "goes_on", "ended_well" or "failed"
    reason: str  # the rule that chose the root, as a word
    why: str  # the same as a sentence about these errors
    attempt: int
    is_complete: bool  # the broker still has all errors that these name as causes
    root: Optional[errors.RemoteError]
    rows: List[ReportRow]


class Attachment(NamedTuple):
    """What the broker has of an attachment of an error."""

    name: str
    bytes: Optional[int]  # its size when the error was raised; None: not known
    arrived: int  # bytes that the broker has
    state: str  # "whole", "cut" and others: see errbus-errors(1)


class Pong(NamedTuple):
    """The answer of a broker to Admin.ping()."""

    trip: float  # seconds from the question to the answer
    uptime: float  # seconds that the broker has run
    journal: str  # "well", "full", "refused" or "failed": see errbus-ping(1)


class Journal(NamedTuple):
    """The journal of a broker.  Positions count bytes from its creation."""

    backend: str  # "folder", "postgres"; "none": there is no journal, and the rest is 0 or ""
    directory: str
    state: str  # "well", "full", "refused" or "failed": see errbus-ping(1)
    reason: str  # a sentence about a state that is not "well"
    bytes: int  # the size of its files
    first: int  # the position of the oldest record that it keeps
    next: int  # the position behind the newest record
    synced: int  # records before this position are on the disk
    spilled: int  # batches and pieces of values whose bytes are in the journal alone
    spilled_bytes: int


class Broker(NamedTuple):
    """A broker itself, as Admin.broker() saw it."""

    version: str
    uptime: float  # seconds that it has run
    cpu: Optional[float]  # seconds of processor time of all its threads; None: it does not tell
    instance: int  # another number: another broker, or one without its old journal
    durability: str  # of what it acknowledges, as Bus.durability
    refused: int  # messages that it refused since it started
    journal: Journal


class Shard(NamedTuple):
    """One of several brokers that are one bus, see errbusd(8)."""

    number: int
    endpoint: str  # of its broker, for Admin() and errbus.open(); nobody may be there
    is_here: bool  # the broker that answers has it


class Event(NamedTuple):
    """An event of a job, as a tap gets it."""

    id: int
    at: float  # seconds since the epoch, by the broker's clock
    job: str
    name: str  # "party.lost", "slot.failed" and others: see errbus-tap(1)
    party: str
    incarnation: int
    topic: str
    seq: int
    times: int  # the number of slots or errors that the event stands for
    text: str
    error: Optional[errors.RemoteError]


@ffi.def_extern(error=1)  # type: ignore[misc]
def errbus_take_bytes(data: Any, count: int, arg: Any) -> int:
    """The thread that fetches an attachment calls it with the next bytes."""
    ffi.from_handle(arg).append(bytes(ffi.buffer(data, count)))
    return 0


def _borrowed(error: Any) -> Optional[errors.RemoteError]:
    if error == ffi.NULL:
        return None
    return errors.from_handle(errors.own(lib.bus_error_ref(error)))


def _let_go(_place: Any, _pointer: Any) -> None:
    """The destructor of an answer: it drops the place that frees the answer."""


class _Handle:
    """An object of the library.  It lives from its opening call to its closing one."""

    _kind: str  # a pointer to the handle, as C writes it
    _closing: Callable[[Any], Any]
    _ended = "is closed"

    def __init__(self, opening: Callable[[Any, Any], Any], keep: List[Any]) -> None:
        self._users: List[int] = []
        self._is_closing = False
        self._box = [_wait.interruptible(opening, self._kind, self._closing, keep)]
        _wait.tell_of_forks(self)

    def _pointer(self) -> Any:
        if self._is_closing:
            raise errors.Closed(f"this {type(self).__name__} {self._ended}: open another one")
        return self._box[0][0]

    def _enter(self) -> Any:
        """The pointer, for a call.  The last of close() and the calls under way closes it."""
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
                self._closing(self._box.pop())
        except IndexError:
            pass  # another thread was here first

    def close(self) -> None:
        """Closes the connections when the calls under way have ended.  A second call does
        nothing."""
        self._is_closing = True
        self._close_unused()

    def _in_child(self) -> None:
        """A forked child forgets the handle and does not close it: it belongs to the parent."""
        self._ended = "belongs to the parent of this process"
        self._is_closing = True
        self._box.clear()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"this {type(self).__name__} is a connection of this process and does not pickle; open "
            "one in the other process"
        )

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_box", None):
            self.close()


class Admin(_Handle):
    """A connection to a broker that joins no job.

    endpoint: None is $ERRBUS_SERVER, else tcp://127.0.0.1:7370.  job: the job of calls that name
    none; None is $ERRBUS_JOB.  timeout: seconds that this call, and each later one, waits at most.
    is_patient: it waits for a broker that does not run yet, until the timeout.  key: the file of
    the key, as in errbus.open().  Each call raises TimedOut after the timeout, Lost if no broker is
    in reach, and Denied if the access file does not allow it.
    """

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
        """Asks the broker on a thread of its own, so that Ctrl-C ends the wait.  kind: the C type
        of the result's pointer; free() frees the result."""
        pointer = self._enter()

        def asking(out: Any, reterr: Any) -> Any:
            try:
                return call(pointer, *words, *((out,) if kind else ()), reterr)
            finally:
                self._leave()

        place = _wait.interruptible(asking, kind or "void **", free, list(words))
        return place[0] if free is None else ffi.gc(place[0], partial(_let_go, place))

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

    def job_create(
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
        """Creates a job, before its first party joins.  Times are seconds.

        min: the job fails if fewer parties remain.  max: others wait for a place; 0: no limit.
        join_window: for which the job waits for more parties than min; 0: min are enough at once,
        and a missing party is not replaced.  join_timeout: for which parties wait for the job to
        begin.  settle: for which the broker waits for reports before a verdict is final.
        max_restarts: attempts after the first.  deadline: for all attempts together.

        pending: what becomes of values that a party committed before it failed: "deliver", or
        "replace": its error takes the place of those that were sent to nobody yet.  strategy: the
        root of a failed job is the error to which the others lead ("causal"), that occurred first
        ("earliest"), or that reached the broker first ("first").  disclosure: the most that parties
        disclose of their errors, as in errbus.open(); None: each party chooses.  deadlock: the
        event job.deadlock tells of parties that wait for each other ("tell"), or the youngest of
        their waits fails ("fail").  auditor: the public key to which errors are sealed.

        A job that was created with the same options is no error.  Raises Settled if the job has
        other options or parties already, Denied if it has ended, and Invalid for an option out of
        its range."""
        keep: List[Any] = []
        made = ffi.new("struct bus_job_options *")
        lib.shim_job_options_init(made)
        for name, count in (("min", min), ("max", max), ("max_restarts", max_restarts)):
            setattr(made, name, number_of(count, name, _COUNT_MAX))
        made.join_window_ms = _wait.to_ms(join_window)
        made.join_timeout_ms = _wait.to_ms(join_timeout)
        made.settle_ms = _wait.to_ms(settle)
        made.deadline_ms = _wait.to_ms(deadline)
        made.pending = _one_of(_PENDING, pending, "pending")
        made.strategy = _one_of(_STRATEGIES, strategy, "strategy")
        if disclosure is not None:
            made.disclosure = _one_of(DISCLOSURES, disclosure, "disclosure")
        made.deadlock = _one_of(_DEADLOCKS, deadlock, "deadlock")
        made.auditor = _or_null(auditor, keep)
        self._ask(lib.bus_admin_job_create, utf8(job), made, self._timeout_ms)

    def job_cancel(self, job: str, why: Optional[str] = None) -> None:
        """Ends a job: each bus of the job is over, and its open slots fail with kind cancelled.
        why: the message of that error.  Raises Invalid for a job that does not exist."""
        keep: List[Any] = []
        text = _or_null(why, keep)
        self._ask(lib.bus_admin_job_cancel, utf8(job), text, self._timeout_ms)

    def job_forget(self, job: str) -> None:
        """Removes a job with its values, durable names and dead letters.  Raises Denied while a
        party is in it, and Invalid for a job that does not exist."""
        self._ask(lib.bus_admin_job_forget, utf8(job), self._timeout_ms)

    def job(self, job: str) -> Job:
        """A snapshot of one job.  Raises Invalid for a job that does not exist."""
        found = self._ask(
            lib.bus_admin_job_get, utf8(job), self._timeout_ms,
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
        """The jobs, parties, topics, subscriptions and groups of a broker.  job: of this job
        alone; "": of all jobs.  A job that does not exist has no rows."""
        found = self._ask(
            lib.bus_admin_status_get, utf8(job), self._timeout_ms,
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

    def broker(self) -> Broker:
        """The broker itself: its version, how long it has run, its processor time, its journal."""
        found = self._ask(
            lib.bus_admin_status_get_some, b"", 1 << lib.BUS_STATUS_JOB, self._timeout_ms,
            kind="struct bus_status **", free=lib.bus_status_free,
        )
        journal = lib.bus_status_journal(found)
        cpu_ms = lib.bus_status_cpu_ms(found)
        return Broker(
            _text(lib.bus_status_version(found)), lib.bus_status_uptime_ms(found) / 1e3,
            cpu_ms / 1e3 if cpu_ms else None, lib.bus_status_instance(found),
            _text(lib.bus_durability_name(lib.bus_status_durability(found))),
            lib.bus_status_refused(found),
            Journal(
                _text(journal.backend), _text(journal.directory),
                _text(lib.bus_journal_state_name(journal.state)), _text(journal.reason),
                journal.bytes, journal.first, journal.next, journal.synced, journal.spilled,
                journal.spilled_bytes,
            ),
        )

    def shards(self) -> List[Shard]:
        """All shards of the store of this broker, by their numbers.  A broker whose store has no
        shards tells of none."""
        found = self._ask(
            lib.bus_shards_get, self._timeout_ms, kind="struct bus_shards **",
            free=lib.bus_shards_free,
        )
        rows = [lib.bus_shards_at(found, i) for i in range(lib.bus_shards_count(found))]
        return [Shard(row.number, _text(row.endpoint), row.is_here == 1) for row in rows]

    def who(self) -> List[WhoRow]:
        """The clients of the broker.  Raises Denied without the right admin."""
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
        """Has the broker read its access file again.  Returns how many parties lost their access.
        Raises Protocol if a line of the file is wrong, and then the old rules stay in force;
        Invalid if the broker has no access file; Denied without the right admin."""
        return int(self._ask(lib.bus_access_reload, self._timeout_ms, kind="uint32_t *"))

    def dead(self, job: str, group: str) -> List[Letter]:
        """The dead letters of a group, without their values and errors.  Raises Invalid for a
        group that does not exist."""
        return _letters(self._letters(lib.bus_admin_dead_list, utf8(job), utf8(group)))

    def dead_show(self, job: str, group: str, number: int) -> Letter:
        """One dead letter with its value, as bytes, and its error.  Raises Invalid for a number
        that no letter has."""
        words = (utf8(job), utf8(group), number_of(number, "number"))
        found = self._letters(lib.bus_admin_dead_show, *words)
        size = ffi.new("size_t *")
        pointer = lib.bus_dead_value(found, size)
        value = bytes(ffi.buffer(pointer, size[0]))
        return _letters(found)[0]._replace(value=value, error=_borrowed(lib.bus_dead_error(found)))

    def _letters(self, call: Any, *words: Any) -> Any:
        kind = "struct bus_dead **"
        return self._ask(call, *words, self._timeout_ms, kind=kind, free=lib.bus_dead_free)

    def dead_replay(self, job: str, group: str, number: Optional[int] = None) -> int:
        """Gives a dead letter to its group again; number None: all letters.  Returns how many it
        gave.  Raises Invalid if no letter has that number, or the group has the task already."""
        return self._of_letters(lib.bus_admin_dead_replay, job, group, number)

    def dead_drop(self, job: str, group: str, number: Optional[int] = None) -> int:
        """Removes a dead letter; number None: all letters.  Returns how many it removed.  Raises as
        dead_replay()."""
        return self._of_letters(lib.bus_admin_dead_drop, job, group, number)

    def _of_letters(self, call: Any, job: str, group: str, number: Optional[int]) -> int:
        which = lib.BUS_DEAD_ALL if number is None else number_of(number, "number")
        words = (utf8(job), utf8(group), which)
        return int(self._ask(call, *words, self._timeout_ms, kind="uint64_t *"))

    def report(self, job: str, wait: bool = False) -> Report:
        """The verdict on a job, with all errors of its parties.  wait: the call waits for the final
        verdict, and raises TimedOut after the timeout of this handle."""
        found = self._ask(
            lib.bus_admin_report_get, utf8(job), 1 if wait else 0, self._timeout_ms,
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
        """The waits of a job, now: which party waits for which.  The roots of the answer are the
        parties to look at.

        topic, seq: the answer has this slot, the party that owes it, and the slots that it needs.
        without: a party; the answer is a Without, and has what would fail if that party were lost
        now.  Raises Invalid for a job, party or topic that does not exist."""
        return self._why(job, topic, seq, without)

    def _why(
        self, job: Optional[str], topic: Optional[str], seq: int, without: Optional[str]
    ) -> Union[Why, Without]:
        keep: List[Any] = []
        words = [_or_null(job, keep)]
        if without is None:
            words += [_or_null(topic, keep), number_of(seq, "seq")]
            return read_why(self._ask(
                lib.bus_why_get, *words, self._timeout_ms,
                kind="struct bus_why **", free=lib.bus_why_free,
            ))
        if topic is not None:
            raise errors.Invalid(
                f"why() was given the topic {topic!r} and without={without!r}: leave one of them out"
            )
        return read_without(self._ask(
            lib.bus_without_get, *words, _or_null(without, keep), self._timeout_ms,
            kind="struct bus_without **", free=lib.bus_without_free,
        ))

    def attachments(self, job: str, error_id: str) -> List[Attachment]:
        """The attachments of an error, and how much of each the broker has.  An error that the
        broker does not keep has none.  Raises Invalid for a job that does not exist."""
        found = self._ask(
            lib.bus_admin_attachment_list, utf8(job), utf8(error_id), self._timeout_ms,
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
        """The bytes of one attachment of an error: the "stderr" of errbus run, for example.  Raises
        Invalid if the broker does not keep it, and Overrun if its end is missing."""
        pieces: List[bytes] = []
        handle = ffi.new_handle(pieces)
        words = (utf8(job), utf8(error_id), utf8(name), self._timeout_ms)
        self._ask(lib.bus_admin_attachment_fetch, *words, lib.errbus_take_bytes, handle)
        return b"".join(pieces)

    def open_attachment(self, job: str, error: errors.RemoteError, name: str, key: str) -> bytes:
        """The bytes of one attachment that was sealed to the key in the file `key`.  error: the
        sealed error, or the result of its open().  name: one of the attachments of that result.
        Raises Denied for another key, and Invalid for an error that was pickled."""
        if error._handle is None:
            raise errors.Invalid(
                f"error {error.id} was pickled, which leaves out what is sealed: open the "
                "attachment in the process that received the error"
            )
        pieces: List[bytes] = []
        handle = ffi.new_handle(pieces)
        words = (utf8(job), error._handle, utf8(name), os.fsencode(key), self._timeout_ms)
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
    """The events of a job, as an iterator: a party joins, fails or is lost, a slot fails.

    endpoint, job: as in errbus.open().  from_id: the first event; 0: the oldest that the broker
    keeps; None: only events to come.  until_id: the last event; 0: no end.  timeout: seconds to
    wait for the broker.  key: the file of the key, as in errbus.open().
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
        options.from_id = lib.BUS_TAP_NOW if from_id is None else number_of(from_id, "from_id")
        options.until_id = number_of(until_id, "until_id")
        options.key = _or_null(key, keep)
        server = _or_null(endpoint, keep)
        ms = _wait.to_ms(timeout)
        self._lock = threading.Lock()  # an event is borrowed until the next call of the library
        self._came = place_of_outcome()
        super().__init__(
            lambda out, err: lib.bus_tap_open(server, options, ms, out, err), keep
        )

    def next(self, timeout: Optional[float] = None) -> Event:
        """Waits for the next event.  Raises TimedOut after timeout seconds, Ended behind until_id,
        and Overrun when the broker has dropped events: its first and count tell their ids."""
        event: Event = self._use(lambda tap: self._next(tap, timeout))
        return event

    def _next(self, tap: Any, timeout: Optional[float]) -> Event:
        with self._lock:
            came = self._came
            code = came.code
            if code == lib.BUS_ETIMEDOUT:
                code = _wait.in_slices(lambda ms: lib.shim_tap_next(tap, ms, came), timeout)
            if code == lib.BUS_ETIMEDOUT:
                raise errors.late("this tap", "an event", timeout, "errbus status")
            if code == lib.BUS_OK:
                event = self._event(came.event)
                came.code = lib.BUS_ETIMEDOUT  # from here on the event is the caller's
                return event
            error = self._failure(tap, code, _borrowed(came.error))
            came.code = lib.BUS_ETIMEDOUT
        raise error

    @staticmethod
    def _failure(tap: Any, code: int, error: Optional[errors.RemoteError]) -> errors.Error:
        made = errors.failure_of(code, error)
        if isinstance(made, errors.Overrun):
            first, last = ffi.new("uint64_t *"), ffi.new("uint64_t *")
            lib.bus_tap_gap(tap, first, last)
            made.first, made.count = first[0], last[0] - first[0] + 1
        return made

    @staticmethod
    def _event(event: Any) -> Event:
        return Event(
            lib.bus_event_id(event), lib.bus_event_at_ns(event) / 1e9,
            _text(lib.bus_event_job(event)), _text(lib.bus_event_name(event)),
            _text(lib.bus_event_party(event)), lib.bus_event_incarnation(event),
            _text(lib.bus_event_topic(event)), lib.bus_event_seq(event),
            lib.bus_event_count(event), _text(lib.bus_event_text(event)),
            _borrowed(lib.bus_event_error(event)),
        )

    def _in_child(self) -> None:
        super()._in_child()
        self._lock = threading.Lock()

    def __iter__(self) -> "Tap":
        return self

    def __next__(self) -> Event:
        try:
            return self.next()
        except (errors.Ended, errors.Closed):
            raise StopIteration from None

    def fileno(self) -> int:
        """A descriptor for select(): it is readable while next() would not wait."""
        return int(self._use(lib.bus_tap_fd))

    def close(self) -> None:
        """Closes the connection.  A next() of another thread raises Closed.  A second call does
        nothing."""
        try:
            self._use(lib.bus_tap_stop)
        except errors.Closed:
            return
        super().close()

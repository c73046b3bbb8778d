# SPDX-License-Identifier: MPL-2.0
"""The exceptions of this package, and errors of the bus that are made of exceptions.

All exceptions are below Error, in two families.  A RemoteError is a failure elsewhere that is raised
here in the place of a value, with its causes and its root.  Each other class is about the call
itself: its time is up, its argument is wrong, this party is over.
"""
from __future__ import annotations

import os
import re
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from errbus._errbus import ffi, lib

_ATTACHED = "__errbus_attached__"
_CAUSES_DEEP = 32  # levels of causes of a local exception that become an error of the bus
_EXIT_CODE_MOST = 2**31 - 1
# The names here of calls of C that texts of the library advise.
_NAMES = {
    "bus_admin_job_create()": "Admin.job_create()",
    "bus_flush()": "Bus.flush()",
    "bus_msg_is_over()": "Message.is_over",
    "bus_refusal()": "Bus.refusals()",
    "bus_token()": "Bus.token",
}


class Error(Exception):
    """The base of all exceptions of this package."""

    #: the error of the bus that has the details, or None
    error: Optional["RemoteError"] = None
    #: of Bus.gather() alone: the errbus.Gathered with the outcomes that had come
    gathered: Any = None


class Invalid(Error, ValueError):
    """An argument is not allowed.  The call changed nothing."""


class OutOfMemory(Error, MemoryError):
    """There is no memory or no descriptor left.  The call changed nothing."""


class TimedOut(Error, TimeoutError):
    """The time that the caller gave is up.  Nothing is lost: another call goes on with the wait."""


class Full(Error):
    """A limit is reached.  The call changed nothing."""


class TooBig(Error):
    """The value is larger than was reserved, or than is allowed.  The call changed nothing."""


class Protocol(Error):
    """The other side has no common version of the protocol, or breaks the protocol."""


class Lost(Error, ConnectionError):
    """The broker is out of reach, or was so for too long."""


class Overrun(Error):
    """Slots are missing here: `count` of them from `first` on, in `topic`.  A tap misses events."""

    topic: str = ""
    first: int = 0
    count: int = 0


class Settled(Error):
    """The slot has another outcome already.  The first outcome stands."""


class Fenced(Error):
    """This incarnation is over: the broker declared it lost, or its job failed or was cancelled."""


class Denied(Error, PermissionError):
    """This party may not do that, or its name or key is refused."""


class Closed(Error):
    """The bus was stopped or closed, or this is a forked child."""


class Ended(Error):
    """This party, or the party that it reads from, completed or left, and owes nothing."""


_BY_CODE: Dict[int, Type[Error]] = {
    lib.BUS_EINVAL: Invalid,
    lib.BUS_ENOMEM: OutOfMemory,
    lib.BUS_ETIMEDOUT: TimedOut,
    lib.BUS_EFULL: Full,
    lib.BUS_ETOOBIG: TooBig,
    lib.BUS_EPROTO: Protocol,
    lib.BUS_ELOST: Lost,
    lib.BUS_EOVERRUN: Overrun,
    lib.BUS_ESETTLED: Settled,
    lib.BUS_EFENCED: Fenced,
    lib.BUS_EDENIED: Denied,
    lib.BUS_ECLOSED: Closed,
    lib.BUS_EENDED: Ended,
}


class RemoteError(Error):
    """A failure elsewhere, in the place of a value.

    Each raise makes a new object, so its traceback is of that raise alone.  __cause__ is the first
    cause, so Python prints the root first.  A field that is not known is "", None or 0.  The object
    that was raised there stays there: to unpickle it would run code that its party chose.
    """

    id: str  # "job/party/incarnation/n": a failure has the same id at each party
    kind: str
    type: str  # a dotted name, for programs
    message: str  # for people
    job: str
    attempt: int
    party: str
    claimed_by: str  # the party that told of it, which the broker could not check; "": its own
    incarnation: int
    host: str
    pid: int
    topic: Optional[str]  # of the slot in which the error began, with seq
    seq: int
    recoverable: Optional[bool]
    retry_after: Optional[float]  # seconds after which a retry may succeed
    code: int  # a number that its program gave
    exit_code: Optional[int]  # of the process that ended
    signal: int  # that ended the process
    blames: Tuple[str, ...]  # parties that its party takes for the origin
    occurred: float  # seconds since the epoch, by the clock of its party
    trace_id: str
    remote_traceback: str  # of Python, or the stack trace of another language
    is_system: bool  # True: its origin is the system; False: it is the user's code
    attachments: Tuple[str, ...]  # names; errbus.Admin.attachment() fetches the bytes
    auditor: str  # the public key to which the traceback is sealed; "": it is not sealed
    causes: Tuple["RemoteError", ...]
    root: "RemoteError"

    def __init__(self, fields: Dict[str, Any]) -> None:
        super().__init__(fields.get("message", ""))
        self._handle: Any = None
        self._description: Optional[str] = None  # of an error that was pickled: it has no handle
        self.__dict__.update(fields)
        self.root = self
        if self.causes:
            self.__cause__ = self.causes[0]
        if self.remote_traceback:
            note = f"the traceback of {self.party}:\n{self.remote_traceback.rstrip()}"
            if hasattr(self, "add_note"):
                self.add_note(note)
            else:
                self.__notes__ = [note]

    def __str__(self) -> str:
        where = f" [{self.topic}#{self.seq}]" if self.topic else ""
        by = f"{self.party}: " if self.party else ""
        known = f" ({self.id})" if self.id else ""
        return f"{by}{self.type}: {self.message}{where}{known}"

    def find(self, kind_or_type: str) -> Optional["RemoteError"]:
        """The first error with this kind or type: this error, its causes, their causes, and so on.
        None: no error has it."""
        row = [self]
        seen = {id(self)}
        while row:
            below: List[RemoteError] = []
            for error in row:
                if kind_or_type in (error.kind, error.type):
                    return error
                for cause in error.causes:
                    if id(cause) not in seen:
                        seen.add(id(cause))
                        below.append(cause)
            row = below
        return None

    def describe(self) -> str:
        """A text for people, with a line for the error and one for each cause."""
        if self._handle is None and self._description is not None:
            return self._description
        handle = self._handle if self._handle is not None else to_handle(self)
        size = lib.bus_error_describe(handle, ffi.NULL, 0) + 1
        text = ffi.new("char[]", size)
        lib.bus_error_describe(handle, text, size)
        return _text(text)

    def open(self, key: str) -> "RemoteError":
        """Opens what is sealed to the key in the file `key`.  Returns the same error with its
        traceback, the names of its attachments, and its full type and message.  Each cause is
        opened that is sealed to this key.  Raises Denied for another key or a file that cannot be
        read, Protocol if the sealed part is cut, and Invalid if nothing is sealed."""
        if self._handle is None:
            raise Invalid(
                f"error {self.id} was pickled, which leaves out what is sealed: open it in the "
                "process that received it"
            )
        out = ffi.new("struct bus_error **")
        reterr = ffi.new("struct bus_error **")
        code = lib.bus_error_open(self._handle, os.fsencode(key), out, reterr)
        if code != lib.BUS_OK:
            raise_code(code, reterr)
        return from_handle(own(out[0]))

    def __reduce__(self) -> Tuple[Any, ...]:
        return _unpickle, (_plain(self),)


_FIELDS = [name for name in RemoteError.__annotations__ if name not in ("causes", "root")]


def _plain(error: RemoteError) -> List[Dict[str, Any]]:
    """The error and all its causes as a list of dicts.  Causes are indexes of that list; the error
    itself is the last row."""
    rows: List[Dict[str, Any]] = []
    index: Dict[int, int] = {}
    stack: List[RemoteError] = [error]
    while stack:
        top = stack[-1]
        left = [cause for cause in top.causes if id(cause) not in index]
        if left:
            stack.extend(left)
            continue
        stack.pop()
        if id(top) in index:
            continue
        row = {name: getattr(top, name) for name in _FIELDS}
        row["_description"] = top.describe()
        row["causes"] = tuple(index[id(cause)] for cause in top.causes)
        index[id(top)] = len(rows)
        row["root"] = index[id(top.root)]
        rows.append(row)
    return rows


def _unpickle(rows: List[Dict[str, Any]]) -> RemoteError:
    made: List[RemoteError] = []
    for row in rows:
        fields = dict(row)
        root = fields.pop("root")
        fields["causes"] = tuple(made[i] for i in row["causes"])
        error = _class_of(fields)(fields)
        made.append(error)
        error.root = made[root]
    return made[-1]


class Application(RemoteError):
    """The party reported a failure of its own."""


class PartyLost(RemoteError):
    """The connection of the party closed and did not come back, or the party fell silent."""


class PartyLeft(RemoteError):
    """The party left, and still owed this slot."""


class Deadline(RemoteError):
    """The deadline of the slot passed.  TimedOut is about the caller's own time."""


class Dependency(RemoteError):
    """A slot that this slot needs failed."""


class Rejected(RemoteError):
    """The broker refused the value: it is too large, over a limit, not allowed, or too late."""


class WorkerLost(RemoteError):
    """The worker that held the request was lost."""


class Cancelled(RemoteError):
    """The slot was retracted, skipped by its writer, or is part of an older attempt."""


class Terminated(RemoteError):
    """The party was told to stop."""


class Stalled(RemoteError):
    """The party sends heartbeats, but made no progress in the time that it promised."""


class BrokerLost(RemoteError):
    """The broker is gone, or lost what it had acknowledged."""


class Local(RemoteError):
    """The error arose in this process, which did not send it."""


class GatherFailed(RemoteError):
    """Too many slots of Bus.gather() failed.  Its causes are their errors."""


class Notice(RemoteError):
    """No failure: something that this party may want to know.  No call raises it."""


for _class in [one for one in vars().values() if isinstance(one, type)]:
    if issubclass(_class, Error):
        _class.__module__ = "errbus"  # in tracebacks and pickles: where programs import it from

KINDS: Dict[str, Type[RemoteError]] = {
    "application": Application,
    "party_lost": PartyLost,
    "party_left": PartyLeft,
    "deadline": Deadline,
    "dependency": Dependency,
    "rejected": Rejected,
    "worker_lost": WorkerLost,
    "cancelled": Cancelled,
    "terminated": Terminated,
    "stalled": Stalled,
    "broker_lost": BrokerLost,
    "local": Local,
    "notice": Notice,
}


def _class_of(fields: Dict[str, Any]) -> Type[RemoteError]:
    if fields["type"] == "errbus.gather":
        return GatherFailed
    return KINDS.get(fields["kind"], RemoteError)


# ---- from the bus ---------------------------------------------------------------------------------


def _text(chars: Any) -> str:
    return "" if chars == ffi.NULL else str(ffi.string(chars).decode("utf-8", "replace"))


def _fields_of(error: Any) -> Dict[str, Any]:
    seq = ffi.new("uint64_t *")
    topic = lib.bus_error_topic(error, seq)
    recoverable = lib.bus_error_recoverable(error)
    retry_after_ms = lib.bus_error_retry_after_ms(error)
    exit_code = lib.bus_error_exit_code(error)
    blames: List[str] = []
    attachments: List[str] = []
    for names, at in (
        (blames, lib.bus_error_blame_at),
        (attachments, lambda e, i: lib.bus_error_attachment_at(e, i, ffi.NULL)),
    ):
        name = at(error, 0)
        while name != ffi.NULL:
            names.append(_text(name))
            name = at(error, len(names))
    return {
        "id": _text(lib.bus_error_id(error)),
        "kind": _text(lib.bus_error_kind(error)),
        "type": _text(lib.bus_error_type(error)),
        "message": _text(lib.bus_error_message(error)),
        "job": _text(lib.bus_error_job(error)),
        "attempt": lib.bus_error_attempt(error),
        "party": _text(lib.bus_error_party(error)),
        "claimed_by": _text(lib.bus_error_claimed_by(error)),
        "incarnation": lib.bus_error_incarnation(error),
        "host": _text(lib.bus_error_host(error)),
        "pid": lib.bus_error_pid(error),
        "topic": None if topic == ffi.NULL else _text(topic),
        "seq": seq[0],
        "recoverable": None if recoverable < 0 else recoverable == 1,
        "retry_after": None if retry_after_ms < 0 else retry_after_ms / 1000,
        "code": lib.bus_error_code(error),
        "exit_code": None if exit_code < 0 else exit_code,
        "signal": lib.bus_error_signal(error),
        "blames": tuple(blames),
        "occurred": lib.bus_error_occurred_ns(error) / 1e9,
        "trace_id": _text(lib.bus_error_trace_id(error)),
        "remote_traceback": _text(lib.bus_error_stacktrace(error)),
        "is_system": lib.bus_error_is_system(error) == 1,
        "attachments": tuple(attachments),
        "auditor": _text(lib.bus_error_auditor(error)),
    }


def _causes_of(error: Any) -> List[Any]:
    causes = []
    cause = lib.bus_error_cause_at(error, 0)
    while cause != ffi.NULL:
        causes.append(cause)
        cause = lib.bus_error_cause_at(error, len(causes))
    return causes


def own(error: Any) -> Any:
    """A reference that Python's collector releases."""
    return ffi.gc(error, lib.shim_error_unref)


def from_handle(handle: Any) -> RemoteError:
    """A new exception for an error of the bus that own() holds."""
    made: Dict[Any, RemoteError] = {}
    stack = [handle]
    while stack:
        top = stack[-1]
        causes = _causes_of(top)
        left = [cause for cause in causes if cause not in made]
        if left:
            stack.extend(left)
            continue
        stack.pop()
        if top in made:
            continue
        fields = _fields_of(top)
        fields["causes"] = tuple(made[cause] for cause in causes)
        error = _class_of(fields)(fields)
        error._handle = own(lib.bus_error_ref(top))
        made[top] = error
        error.root = made[lib.bus_error_root(top)]
    return made[handle]


def taken(reterr: Any) -> Optional[RemoteError]:
    """The error that a call wrote to *reterr; None: the call wrote none."""
    return None if reterr[0] == ffi.NULL else from_handle(own(reterr[0]))


def failure_of(code: int, error: Optional[RemoteError]) -> Error:
    """The exception for a code other than BUS_OK."""
    if code == lib.BUS_EFAILED and error is not None:
        return error
    message = error.message if error is not None else ""
    for name, ours in _NAMES.items():
        message = re.sub(rf"\b{re.escape(name)}", ours, message)
    made = _BY_CODE.get(code, Error)(message or _text(lib.bus_strerror(code)))
    made.error = error
    if error is not None and error.kind != "local":
        made.__cause__ = error
    return made


def late(who: str, what: str, timeout: Optional[float], look: str) -> TimedOut:
    """The error of a wait whose time is up.  look: the command that says more."""
    return TimedOut(
        f"{who} waited {timeout or 0:g} s for {what}: call again to go on with the wait, or see "
        f"'{look}'"
    )


def raise_code(code: int, reterr: Any = None) -> None:
    """Raises the exception for a code.  Its details are in reterr or, without one, in
    bus_last_error()."""
    if reterr is not None:
        raise failure_of(code, taken(reterr))
    last = lib.bus_last_error()
    raise failure_of(code, from_handle(own(last)) if last != ffi.NULL else None)


# ---- to the bus -----------------------------------------------------------------------------------


def _guarded(call: Callable[[Any], Any], of: Any, instead: Any) -> Any:
    """What call(of) returns, or what stands for it where the code of an exception raises."""
    try:
        return call(of)
    except Exception:
        return instead


def _type_of(kind: Type[BaseException]) -> str:
    module = getattr(kind, "__module__", "") or ""
    if module == "builtins" or module.split(".")[0] == "errbus":
        module = "python"
    name = kind.__qualname__.rsplit("<locals>.", 1)[-1]
    return f"{module}.{name}"[-200:]


def _trace_of(error: BaseException) -> str:
    return "".join(
        traceback.format_exception(type(error), error, error.__traceback__, chain=False)
    )


def _causes_here(error: BaseException) -> List[BaseException]:
    below: List[Any] = _guarded(lambda group: list(getattr(group, "exceptions", ())), error, [])
    if isinstance(error, Error) and error.error is not None:
        below.append(error.error)
    if error.__cause__ is not None:
        below.append(error.__cause__)
    elif error.__context__ is not None and not error.__suppress_context__:
        below.append(error.__context__)
    causes = {id(one): one for one in below if isinstance(one, BaseException)}
    return list(causes.values())


def _cancelled() -> Tuple[Type[BaseException], ...]:
    import sys

    asyncio = sys.modules.get("asyncio")
    return (asyncio.CancelledError,) if asyncio is not None else ()


def _check_file(name: str, path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:  # ValueError: no file has such a name
        raise Invalid(f"attachment {name!r}: the file cannot be opened: {error}") from None


def _check_names(name: str, names: List[bytes]) -> None:
    """Whether an error takes attachments with these names, of which the last one is new."""
    trial = own(lib.shim_error_new(b"python.Exception", ffi.NULL, b""))
    codes = [lib.bus_error_add_data(trial, one, ffi.NULL, 0) for one in names]
    if codes[-1] == lib.BUS_EFULL:
        raise Full(
            f"attachment {name!r}: the exception has {len(names) - 1} attachments, and takes no "
            "more: attach several files as one"
        )
    if codes[-1] == lib.BUS_EINVAL:
        raise Invalid(
            f"{name!r} is no name of an attachment: it has 1 to {lib.BUS_NAME_BYTES_MAX} bytes, and "
            "no control characters"
        )
    if codes[-1] != lib.BUS_OK:
        raise_code(codes[-1])


def attach(error: BaseException, name: str, data: Any = None, path: Optional[str] = None) -> None:
    """Attaches bytes or a str, or the file at path, to an exception.  When the exception becomes an
    error of the bus, Admin.attachment() fetches the bytes by this name.  They leave this process
    with disclosure="full" alone.  A second attachment of the same name replaces the first one.
    Raises Full for more than 16 attachments, and Invalid for a file that cannot be opened and for a
    text that is no name.  A file that is gone later is noted in the traceback of the error.  Raises
    Invalid for a RemoteError, which has the attachments of its own party."""
    from errbus._given import utf8  # which imports this module

    if isinstance(error, RemoteError):
        raise Invalid(
            f"attachment {name!r}: the error of party {error.party} takes none; raise an exception "
            "of your own from it, and attach the bytes to that one"
        )
    if (data is None) == (path is None):
        raise Invalid(f"attachment {name!r}: give either data or path, and not both")
    if path is not None:
        _check_file(name, path)
        kept: Tuple[Any, ...] = (utf8(name), os.fsencode(path))
    else:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        kept = (utf8(name), raw, len(raw))
    attached: Dict[str, Tuple[Any, ...]] = error.__dict__.setdefault(_ATTACHED, {})
    others = [one[0] for key, one in attached.items() if key != name]
    _check_names(name, [*others, kept[0]])
    attached[name] = kept


def _add_attachments(error: BaseException, handle: Any) -> str:
    """Adds what attach() kept.  Returns lines about what could not be added: the exception is told
    without it."""
    lost = ""
    for name, kept in error.__dict__.get(_ATTACHED, {}).items():
        is_file = len(kept) == 2
        code = (lib.bus_error_add_file if is_file else lib.bus_error_add_data)(handle, *kept)
        if code != lib.BUS_OK:
            what = os.fsdecode(kept[1]) if is_file else f"its {kept[2]} bytes"
            lost += f"errbus: attachment {name!r} is missing: {what} could not be attached\n"
    return lost


def to_handle(error: Optional[BaseException], _seen: Tuple[int, ...] = ()) -> Any:
    """The error of the bus for an exception, with its causes; NULL for None.  It does not raise: who
    settles a slot with an exception has nothing else to settle it with."""
    if error is None:
        return ffi.NULL
    if isinstance(error, RemoteError) and error._handle is not None:
        return error._handle
    if isinstance(error, RemoteError):
        type_name, message, trace = error.type, error.message, error.remote_traceback
    else:
        type_name = _guarded(_type_of, type(error), "python.Exception")
        message = _guarded(str, error, "its text is not known: its __str__() raises")
        trace = _guarded(_trace_of, error, "")
    handle = own(
        lib.shim_error_new(
            type_name.encode("utf-8", "replace"), ffi.NULL, message.encode("utf-8", "replace")
        )
    )
    trace += _add_attachments(error, handle)
    lib.bus_error_set_stacktrace(handle, trace.encode("utf-8", "replace"))
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        lib.bus_error_set_kind(handle, b"terminated")
        code = error.code if isinstance(error, SystemExit) else None
        if isinstance(code, int) and 0 <= code <= _EXIT_CODE_MOST:
            lib.bus_error_set_exit_code(handle, code)
    elif isinstance(error, _cancelled()):
        lib.bus_error_set_kind(handle, b"cancelled")
    seen = _seen + (id(error),)
    if len(seen) <= _CAUSES_DEEP:
        for cause in _causes_here(error):
            if id(cause) not in seen:
                lib.bus_error_add_cause(handle, to_handle(cause, seen))
    return handle

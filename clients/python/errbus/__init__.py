# SPDX-License-Identifier: MPL-2.0
"""Errbus: a message bus on which an error arrives in the place of the value that it prevented.

    import errbus
    with errbus.open(job="train", party="bob") as bus:
        grads = bus.get("alice/grads", 7)      # raises errbus.PartyLost, errbus.Application ...
        with bus.slot("model") as slot:        # an exception in here fails the slot
            slot.commit(train(grads))

errbus.aio has the same names for asyncio.  Times are seconds.
"""
from errbus import _extension as _extension  # first: it says why the extension does not load
from errbus._bus import Bus, Gathered, Membership, Run, open
from errbus._slot import Slot
from errbus._why import Why, WhyEdge, WhyNode, Without, WithoutRow
from errbus.admin import Admin, Attachment, Event, Report, ReportRow, Tap
from errbus._record import record, write_error_file
from errbus._errbus import ffi as _ffi
from errbus._errbus import lib as _lib
from errbus._sub import Message, Outcome, PartyEnded, Piece, Subscription
from errbus.errors import (
    Application,
    BrokerLost,
    Cancelled,
    Closed,
    Deadline,
    Denied,
    Dependency,
    Ended,
    Error,
    Fenced,
    Full,
    GatherFailed,
    Invalid,
    Local,
    Lost,
    Notice,
    OutOfMemory,
    Overrun,
    PartyLeft,
    PartyLost,
    Protocol,
    Rejected,
    RemoteError,
    Settled,
    Stalled,
    Terminated,
    TimedOut,
    TooBig,
    WorkerLost,
    attach,
)

__version__: str = _ffi.string(_lib.bus_version()).decode()

__all__ = [
    "Admin",
    "Application",
    "Attachment",
    "BrokerLost",
    "Bus",
    "Cancelled",
    "Closed",
    "Deadline",
    "Denied",
    "Dependency",
    "Ended",
    "Error",
    "Event",
    "Fenced",
    "Full",
    "GatherFailed",
    "Gathered",
    "Invalid",
    "Local",
    "Lost",
    "Membership",
    "Message",
    "Notice",
    "OutOfMemory",
    "Outcome",
    "Overrun",
    "PartyEnded",
    "PartyLeft",
    "PartyLost",
    "Piece",
    "Protocol",
    "Rejected",
    "RemoteError",
    "Report",
    "ReportRow",
    "Run",
    "Settled",
    "Slot",
    "Stalled",
    "Subscription",
    "Tap",
    "Terminated",
    "TimedOut",
    "TooBig",
    "Why",
    "WhyEdge",
    "WhyNode",
    "Without",
    "WithoutRow",
    "WorkerLost",
    "attach",
    "open",
    "record",
    "write_error_file",
]

# SPDX-License-Identifier: MPL-2.0
"""The waits of a job, and what would fail without a party, as plain values."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

from errbus._errbus import ffi, lib
from errbus.errors import _text


class WhyNode(NamedTuple):
    """A party or thing that waits, or that a party waits for.  Times are seconds."""

    kind: str  # "party", "barrier", "group" and others: see errbus-why(1)
    name: str
    incarnation: int  # of a party; 0: the party never joined
    state: str  # of a party
    silent: float  # of a party: the time since the broker last heard from it
    where: str  # of a party: the text of its last Bus.progress()
    open: int  # slots that a party owes; of a slot: 1 until it is settled
    amount: int  # members, parties or slots that are missing: see struct bus_why_node
    seq: int  # of a slot
    is_root: bool  # this node waits for no other, and others wait for it
    cycle: int  # the number of its cycle, from 1 on; 0: it is in no cycle
    waiters: int  # parties outside of its cycle that wait for this node, directly or not
    since: float  # the longest wait for this node
    waiting: List[str]  # of a root: the names of its waiters, the nearest first


class WhyEdge(NamedTuple):
    """One node waits for another."""

    waiter: WhyNode
    awaited: WhyNode
    wait: str  # "slot", "barrier", "credit" and others: see errbus-why(1)
    amount: int  # slots, tasks or parties that the edge stands for
    since: float  # seconds of the longest of these waits
    is_blocked: bool  # a call of the waiter has been blocked for a second
    topic: str  # of the slot of the longest wait, with seq; "": the wait is for no slot
    seq: int


class Why(NamedTuple):
    """The waits of a job.  The roots are the first of the nodes, those with the most waiters at the
    front.  The members of each cycle follow, and then all others."""

    nodes: List[WhyNode]
    edges: List[WhyEdge]
    left_out: int  # edges that did not fit in the answer

    @property
    def roots(self) -> List[WhyNode]:
        """The nodes to look at: they wait for no other, and others wait for them."""
        return [node for node in self.nodes if node.is_root]

    @property
    def cycles(self) -> List[List[WhyNode]]:
        """The members of each cycle: no member of a cycle can go on."""
        cycles: Dict[int, List[WhyNode]] = {}
        for node in self.nodes:
            if node.cycle:
                cycles.setdefault(node.cycle, []).append(node)
        return [cycles[number] for number in sorted(cycles)]


class WithoutRow(NamedTuple):
    """One thing that would follow from the loss of a party."""

    kind: str  # "owed", "needs", "party" and others: see errbus-why(1)
    name: str  # of the topic, party, group or durable name
    seq: int  # of slots: the first one
    amount: int  # how many: slots with numbers in a row, tasks, or raises of the error


class Without(NamedTuple):
    """The things that would follow if a party were lost now."""

    rows: List[WithoutRow]
    outlook: str  # of the job: "goes_on", "completes", "waits" or "fails"
    present: int  # parties that would be left
    min: int  # parties that the job needs; 0: nobody created it
    window: float  # seconds for which the job would wait for others
    attempts_left: int  # attempts that may follow if this one fails
    left_out: int  # slots that did not fit in the answer


def _waiting(found: Any, index: int) -> List[str]:
    names: List[str] = []
    while True:
        waiter = lib.bus_why_waiter_at(found, index, len(names))
        if waiter == ffi.NULL:
            return names
        names.append(_text(waiter.name))


def _node(found: Any, index: int) -> WhyNode:
    row = lib.bus_why_node_at(found, index)
    is_party = row.kind == lib.BUS_WHY_PARTY and row.incarnation > 0
    return WhyNode(
        _text(lib.bus_why_kind_name(row.kind)), _text(row.name), row.incarnation,
        _text(lib.bus_state_name(row.state)) if is_party else "", row.silent_ms / 1e3,
        _text(row.where), row.open, row.count, row.seq, row.is_root == 1, row.cycle, row.waiters,
        row.since_ms / 1e3, _waiting(found, index) if row.is_root else [],
    )


def read_why(found: Any) -> Why:
    nodes = [_node(found, i) for i in range(lib.bus_why_node_count(found))]
    edges = []
    for i in range(lib.bus_why_edge_count(found)):
        row = lib.bus_why_edge_at(found, i)
        edges.append(WhyEdge(
            nodes[getattr(row, "from")], nodes[row.to], _text(lib.bus_wait_name(row.wait)),
            row.count, row.since_ms / 1e3, row.is_blocked == 1, _text(row.topic), row.seq,
        ))
    return Why(nodes, edges, lib.bus_why_left_out(found))


def read_without(found: Any) -> Without:
    rows = []
    for i in range(lib.bus_without_count(found)):
        row = lib.bus_without_at(found, i)
        rows.append(WithoutRow(
            _text(lib.bus_without_kind_name(row.kind)), _text(row.name), row.seq, row.count
        ))
    job = lib.bus_without_job(found)
    return Without(
        rows, _text(lib.bus_without_outlook_name(job.outlook)), job.present, job.min,
        job.window_ms / 1e3, job.attempts_left, lib.bus_without_left_out(found),
    )

# SPDX-License-Identifier: MPL-2.0
"""Who waits for whom in a job, and what would fail without a party: answers as plain values."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

from errbus._errbus import ffi, lib
from errbus.errors import _text


class WhyNode(NamedTuple):
    """Somebody or something that waits, or is waited for.  Times are seconds."""

    kind: str  # "party", "barrier", "group" and others: see errbus-why(1)
    name: str
    incarnation: int  # of a party; 0: it never came
    state: str  # of a party
    silent: float  # of a party: since the broker last heard it
    where: str  # of a party: where, as Bus.progress() said last
    open: int  # slots that a party owes; of a slot: 1 until it is settled
    amount: int  # members, parties or slots that are missing: see struct bus_why_node
    seq: int  # of a slot
    is_root: bool  # it waits for nobody, and others wait for it
    cycle: int  # its cycle, from 1 on; 0: it is in none
    waiters: int  # parties that wait for it, directly or not, outside its cycle
    since: float  # the longest wait for it
    waiting: List[str]  # of a root: who its waiters are, the nearest first


class WhyEdge(NamedTuple):
    """One node waits for another."""

    waiter: WhyNode
    awaited: WhyNode
    wait: str  # "slot", "barrier", "credit" and others: see errbus-why(1)
    amount: int  # slots, tasks or parties that it stands for
    since: float  # the longest of these waits
    is_blocked: bool  # a call of the waiter has been blocked for a second
    topic: str
    seq: int


class Why(NamedTuple):
    """Who waits for whom.  Of the nodes the roots come first, those with the most waiters before
    the others, and then the members of each cycle."""

    nodes: List[WhyNode]
    edges: List[WhyEdge]
    left_out: int  # edges that the answer had no room for

    @property
    def roots(self) -> List[WhyNode]:
        """Those to look at: they wait for nobody, and others wait for them."""
        return [node for node in self.nodes if node.is_root]

    @property
    def cycles(self) -> List[List[WhyNode]]:
        """The members of each cycle: none of them can go on."""
        cycles: Dict[int, List[WhyNode]] = {}
        for node in self.nodes:
            if node.cycle:
                cycles.setdefault(node.cycle, []).append(node)
        return [cycles[number] for number in sorted(cycles)]


class WithoutRow(NamedTuple):
    """Something that would follow from the loss of a party."""

    kind: str  # "owed", "needs", "party" and others: see errbus-why(1)
    name: str  # of the topic, party, group or durable name
    seq: int  # of slots: the first one
    amount: int  # slots in a row; tasks; times that the error is raised


class Without(NamedTuple):
    """What would follow if a party were lost now."""

    rows: List[WithoutRow]
    outlook: str  # of the job: "goes_on", "completes", "waits" or "fails"
    present: int  # parties that would be left
    min: int  # parties that the job needs; 0: nobody created it
    window: float  # seconds for which it would wait for others
    attempts_left: int  # that may follow if this attempt fails
    left_out: int  # slots that the answer had no room for


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

# SPDX-License-Identifier: MPL-2.0
"""Jobs with members, status, dead letters, attachments and the tap."""
import inspect
import os
import subprocess
import sys
import threading

import pytest

import errbus
from conftest import Broker, until


def test_a_created_job_has_ranks_and_barriers(broker):
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("train", min=2, max=2, join_window=0)
        a, b = broker.open("a", job="train"), broker.open("b", job="train")
        ranks = [bus.membership(timeout=10) for bus in (a, b)]
        assert sorted(m.rank for m in ranks) == [0, 1] and ranks[0].world_size == 2
        with pytest.raises(errbus.TimedOut):
            a.barrier(ranks[0].epoch, 0.2)
        other = threading.Thread(target=lambda: a.barrier(ranks[0].epoch, 10))
        other.start()
        b.barrier(ranks[0].epoch, 10)
        other.join(10)
        job = admin.job("train")
        assert job.state == "running" and {m.party for m in job.members} == {"a", "b"}
        admin.job_cancel("train", "enough")
        with pytest.raises(errbus.Fenced, match="enough") as caught:
            a.get("b/w", 0, 10)
        assert caught.value.error.type == "errbus.job_cancelled"
        assert a.verdict(10).type == "errbus.job_cancelled"
        assert isinstance(a.failure, errbus.Cancelled)


def test_the_options_of_a_job_are_those_of_the_library(broker):
    """A job that was created with the defaults of C differs in no option from one of Python."""
    subprocess.run([os.environ["ERRBUS"], "job", "create", "train"], check=True, timeout=30,
                   env=dict(os.environ, ERRBUS_SERVER=broker.endpoint))
    others = {"min": 2, "max": 3, "join_window": 1, "join_timeout": None, "settle": 1,
              "max_restarts": 1, "deadline": 60, "pending": "replace", "strategy": "first",
              "disclosure": "full", "deadlock": "fail", "auditor": "ebp_" + "0" * 56}
    names = inspect.signature(errbus.Admin.job_create).parameters
    assert set(others) == set(names) - {"self", "job"}
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("train")
        for name, value in others.items():
            with pytest.raises(errbus.Settled if name != "auditor" else errbus.Error):
                admin.job_create("train", **{name: value})
        for wrong in ({"min": -1}, {"max": 2**32}, {"strategy": "last"}, {"disclosure": "all"}):
            with pytest.raises(errbus.Invalid, match=next(iter(wrong))):
                admin.job_create("train", **wrong)


def test_a_broker_tells_of_itself(broker, tmp_path):
    with errbus.Admin(broker.endpoint) as admin:
        first = admin.broker()
        until(lambda: (admin.broker().cpu or 0) > (first.cpu or 0))
        later = admin.broker()
        assert admin.shards() == []
    assert first.version == errbus.__version__ and later.uptime >= first.uptime >= 0
    assert first.durability == "memory" and first.refused == 0
    assert first.instance == later.instance != 0
    assert (first.journal.backend, first.journal.bytes) == ("none", 0)
    other = Broker(tmp_path / "journal")
    try:
        with errbus.Admin(other.endpoint) as admin:
            other.open("alice").publish("w", b"value")
            journal = admin.broker().journal
            assert journal.backend == "folder" and journal.directory.endswith("journal")
            assert journal.state == "well" and journal.reason == "" and journal.bytes > 0
            until(lambda: admin.broker().journal.synced > 0)
            assert admin.broker().instance != first.instance
    finally:
        other.close()


def test_status_and_dead_letters(broker):
    master, member = broker.open("master"), broker.open("w0")
    sub = member.subscribe("master/tasks", group="team")
    master.publish("tasks", b"task")
    sub.recv(5).reject(ValueError("never"), retry_after=None)
    member.flush(5)
    with errbus.Admin(broker.endpoint) as admin:
        rows = admin.status()
        assert {(r.kind, r.name) for r in rows} >= {("party", "w0"), ("group", "team")}
        letters = admin.dead("default", "team")
        assert [(x.number, x.topic, x.seq) for x in letters] == [(0, "master/tasks", 0)]
        letter = admin.dead_show("default", "team", 0)
        assert letter.value == b"task" and "never" in str(letter.error.root)
        assert admin.dead_replay("default", "team") == 1
        again = sub.recv(5)
        assert bytes(again) == b"task"
        again.ack()


def test_a_tap_tells_who_is_lost_and_the_standard_error_is_attached(broker, tmp_path):
    with errbus.Tap(broker.endpoint) as tap:
        environment = dict(os.environ, ERRBUS_SERVER=broker.endpoint, ERRBUS_DISCLOSURE="full")
        program = "import sys; print('trouble', file=sys.stderr); sys.exit(3)"
        subprocess.run([os.environ["ERRBUS"], "run", "-p", "alice", "--log-dir", tmp_path, "--",
                        sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=30)
        event = tap.next(10)
        while event.name != "party.failed":
            event = tap.next(10)
        assert event.party == "alice" and event.error.exit_code == 3
        assert "stderr" in event.error.attachments
        with errbus.Admin(broker.endpoint) as admin:
            assert b"trouble" in admin.attachment("default", event.error.id, "stderr")


def test_attachments_of_an_exception_are_fetched(broker, tmp_path):
    file = tmp_path / "state"
    file.write_bytes(b"f" * 3_000_000)
    alice, bob = broker.open("alice", disclosure="full"), broker.open("bob")
    error = ValueError("no batch")
    errbus.attach(error, "batch", b"b" * 10)
    errbus.attach(error, "state", path=str(file))
    with pytest.raises(errbus.Invalid):
        errbus.attach(error, "both", b"", path="x")
    alice.slot("w").fail(error)
    alice.flush(10)
    with pytest.raises(errbus.Application) as caught:
        bob.get("alice/w", 0, 10)
    assert set(caught.value.attachments) == {"batch", "state"}
    with pytest.raises(errbus.Invalid):
        errbus.attach(caught.value, "more", b"")
    with errbus.Admin(broker.endpoint) as admin:
        rows = {row.name: row for row in admin.attachments("default", caught.value.id)}
        assert rows["state"] == errbus.Attachment("state", 3_000_000, 3_000_000, "whole")
        assert admin.attachment("default", caught.value.id, "batch") == b"b" * 10
        assert admin.attachment("default", caught.value.id, "state") == file.read_bytes()


@pytest.mark.parametrize("name,given,kind,said", [
    ("file", {"path": "/no/such"}, errbus.Invalid, "No such file"),
    ("file", {"path": "\0"}, errbus.Invalid, "cannot be opened"),
    ("", {"data": b""}, errbus.Invalid, "is no name of an attachment"),
    ("a\nb", {"data": b""}, errbus.Invalid, "is no name of an attachment"),
    ("n" * 201, {"data": b""}, errbus.Invalid, "is no name of an attachment"),
    ("\ud800", {"data": b""}, errbus.Invalid, "is no text"),
    ("another", {"data": b""}, errbus.Full, "has 16 attachments"),
])
def test_what_cannot_be_attached_is_said_at_once(name, given, kind, said):
    error = ValueError("no batch")
    for number in range(16 if kind is errbus.Full else 0):
        errbus.attach(error, str(number), b"")
    with pytest.raises(kind, match=said):
        errbus.attach(error, name, **given)
    errbus.attach(error, "0", b"instead")


def test_a_report_has_the_root_and_who_failed_of_it(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    with errbus.Admin(broker.endpoint) as admin:
        assert admin.report("default").outlook == "goes_on"
        with pytest.raises(ValueError):
            with alice:
                raise ValueError("no batch")
        with pytest.raises(errbus.Application):
            with bob:
                bob.get("alice/w", 0, 10)
        report = admin.report("default", wait=True)
        assert report.state == "final" and report.root.type == "python.ValueError"
        roles = {row.party: row.role for row in report.rows}
        assert roles == {"alice": "root", "bob": "victim"}
        assert report.reason == "alone" and report.why == "no other error could be the root"


def waiting(broker, party, topic, seq=0):
    """A party whose get() waits for a slot of another one; the thread to join."""
    bus = broker.open(party)
    thread = threading.Thread(target=lambda: bus.get(topic, seq, 60))
    thread.start()
    return thread


def test_why_names_the_one_that_others_wait_for(broker):
    carol = broker.open("carol")
    slot = carol.slot("update")
    carol.progress(3600, "round 3, batch 17")
    carol.flush(10)
    threads = [waiting(broker, "alice", "carol/update"), waiting(broker, "bob", "alice/model")]
    with errbus.Admin(broker.endpoint) as admin:
        until(lambda: [root.waiters for root in admin.why().roots] == [2])
        why = admin.why("default")
        (root,) = why.roots
        assert (root.kind, root.name, root.state, root.open) == ("party", "carol", "running", 1)
        assert root.where == "round 3, batch 17" and root.waiting == ["alice", "bob"]
        assert 0 <= root.since < 60 and root.incarnation == 1 and root.silent < 60
        waits = {(e.waiter.name, e.awaited.name, e.wait, e.topic, e.seq) for e in why.edges}
        assert waits == {("alice", "carol", "slot", "carol/update", 0),
                         ("bob", "alice", "unpromised", "alice/model", 0)}
        assert why.cycles == [] and why.left_out == 0
        until(lambda: all(edge.is_blocked for edge in admin.why().edges))
        slots = admin.why(topic="carol/update", seq=0)
        assert [n.open for n in slots.nodes if n.kind == "slot"] == [1]
        without = admin.why(without="carol")
        assert without.rows == [errbus.WithoutRow("owed", "carol/update", 0, 1),
                                errbus.WithoutRow("party", "alice", 0, 1)]
        assert (without.outlook, without.present, without.min) == ("goes_on", 0, 0)
        with pytest.raises(errbus.Invalid):
            admin.why(without="nobody")
        with pytest.raises(errbus.Invalid):
            admin.why("no such job")
        with pytest.raises(errbus.Invalid, match="leave one of them out"):
            admin.why(topic="carol/update", without="carol")
        slot.commit(b"moves")
        until(lambda: not any(root.name == "carol" for root in admin.why().roots))
        broker.buses[1].publish("model", b"moves")
        until(lambda: admin.why() == errbus.Why([], [], 0))
    for thread in threads:
        thread.join(10)


def test_why_shows_a_cycle(broker):
    threads = [waiting(broker, "alice", "bob/x"), waiting(broker, "bob", "alice/x"),
               waiting(broker, "carol", "bob/x")]
    with errbus.Admin(broker.endpoint) as admin:
        until(lambda: len(admin.why().edges) == 3)
        why = admin.why()
        assert why.roots == []
        assert [sorted(node.name for node in cycle) for cycle in why.cycles] == [["alice", "bob"]]
    for bus in broker.buses[:2]:
        bus.publish("x", b"breaks it")
    for thread in threads:
        thread.join(10)


def test_who_is_connected_and_that_there_is_no_access_file(broker):
    broker.open("alice")
    with errbus.Admin(broker.endpoint) as admin:
        rows = {row.party: row for row in admin.who()}
        assert set(rows) == {"alice", ""} and rows[""].role == "observer"
        alice = rows["alice"]
        assert (alice.name, alice.job, alice.incarnation, alice.role) == ("", "default", 1, "party")
        assert alice.address == "127.0.0.1" and alice.connections >= 1 and alice.until is None
        with pytest.raises(errbus.Invalid, match="without an access file"):
            admin.access_reload()


def test_each_channel_of_a_broker_answers(broker):
    with errbus.Admin(broker.endpoint) as admin:
        for channel in "control", "data":
            pong = admin.ping(channel)
            assert 0 < pong.trip < 20 and pong.uptime >= 0 and pong.journal == "well"
        with pytest.raises(errbus.Invalid, match="channel is one of control, data, not 'both'"):
            admin.ping("both")


def test_each_event_goes_to_one_thread(broker):
    """A tap's event is borrowed until its next call: threads take turns."""
    count, told, times = 600, [], []
    alice = broker.open("alice", disclosure="full")
    tap = errbus.Tap(broker.endpoint, job="default")

    def follow():
        for event in tap:
            if event.name == "slot.failed":
                told.append((event.topic, event.error and event.error.message))
                times.append(event.times)

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(count):
        alice.slot(f"w{number}").fail(ValueError(f"alice/w{number}"))
    until(lambda: sum(times) >= count)
    tap.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert sum(times) == count, "beyond the first 64, one event tells of many"
    single = [told[i] for i in range(len(told)) if times[i] == 1]
    assert len(single) >= 64 and len(set(single)) == len(single)
    assert all(topic == message for topic, message in single)

# SPDX-License-Identifier: MPL-2.0
"""Subscriptions, durable names, groups and requests."""
import gc
import threading

import numpy as np
import pytest

import errbus
from conftest import until


def test_an_iterator_goes_on_behind_an_error(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    alice.publish("w", b"0")
    alice.slot("w").fail(ValueError("one"))
    alice.publish("w", b"2")
    sub = bob.subscribe("alice/w")
    assert bytes(next(sub)) == b"0"
    with pytest.raises(errbus.Application, match="one"):
        next(sub)
    assert sub.slot == ("alice/w", 1)
    third = next(sub)
    assert (third.topic, third.seq, bytes(third)) == ("alice/w", 2, b"2")
    alice.publish_many("w", [b"a", b"b"])
    assert [bytes(next(sub)), bytes(next(sub))] == [b"a", b"b"]
    with pytest.raises(errbus.TimedOut):
        sub.recv(0.05)


def test_outcomes_have_errors_and_ends_in_order(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    sub = bob.subscribe("alice/#")
    bob.flush(5)
    alice.publish("w", b"0")
    alice.slot("w").fail(ValueError("one"))
    alice.complete(5)
    alice.close()
    outcomes = sub.outcomes()
    assert bytes(next(outcomes)) == b"0"
    assert isinstance(next(outcomes), errbus.Application)
    assert next(outcomes) == errbus.PartyEnded("alice", 1)
    bob.stop()
    assert list(outcomes) == []


def test_a_gap_is_said(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    alice.publish("w", bytes(3 << 20))
    alice.publish("w", bytes(3 << 20))
    alice.publish("w", b"new")
    alice.flush(20)
    outcome = next(bob.subscribe("alice/w").outcomes())
    assert isinstance(outcome, errbus.Overrun) and (outcome.topic, outcome.first) == ("alice/w", 0)
    assert outcome.count >= 1


def test_a_durable_name_goes_on_where_it_was(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    for i in range(4):
        alice.publish("w", str(i))
    with bob.subscribe("alice/w", name="progress") as sub:
        assert bytes(next(sub)) == b"0"
        kept = next(sub).value
    with pytest.raises(RuntimeError):
        with bob.subscribe("alice/w", name="progress") as sub:
            assert bytes(next(sub)) == b"2"
            raise RuntimeError("in the middle")
    bob.flush(5)
    sub = bob.subscribe("alice/w", name="progress")
    assert bytes(next(sub)) == b"2"
    sub.drop()
    assert bytes(kept) == b"1"


def test_a_worker_answers_fails_and_keeps_values(broker):
    master, member = broker.open("master"), broker.open("w0", disclosure="full")
    seen = []

    @member.worker("master/tasks", group="team", threads=2, deliver_max=2)
    def double(task):
        array = np.frombuffer(task.value, "u4")
        seen.append(array)
        if array[0] == 13:
            raise ValueError("unlucky")
        return array * 2

    reply = master.request("tasks", np.array([1, 2], "u4"), timeout=10)
    assert list(np.frombuffer(reply, "u4")) == [2, 4]
    with pytest.raises(errbus.Application, match="unlucky") as caught:
        master.request("tasks", np.array([13], "u4"), timeout=10)
    assert 'raise ValueError("unlucky")' in caught.value.root.remote_traceback
    gc.collect()
    assert list(seen[0]) == [1, 2], "the bytes outlive the reply"


def released():
    view = memoryview(b"gone")
    view.release()
    return view


@pytest.mark.parametrize("result,kind", [
    ("\ud800", "python.UnicodeEncodeError"), ({}, "python.TypeError"),
    (released(), "python.ValueError"),
])
def test_a_result_that_is_no_value_fails_the_request_and_the_worker_goes_on(broker, result, kind):
    master, member = broker.open("master"), broker.open("w0")

    @member.worker("master/tasks", group="team")
    def answer(task):
        return b"good" if bytes(task) == b"good" else result

    with pytest.raises(errbus.Application) as caught:
        master.request("tasks", b"bad", timeout=20)
    assert caught.value.root.type == kind
    assert bytes(master.request("tasks", b"good", timeout=20)) == b"good"


def test_a_worker_may_settle_its_task_and_raise(broker):
    master, member = broker.open("master"), broker.open("w0")

    @member.worker("master/tasks", group="team")
    def answer(task):
        task.reply(b"done")
        raise ValueError("afterwards")

    for _ in range(2):
        assert bytes(master.request("tasks", b"", timeout=20)) == b"done"


def test_a_refused_worker_is_told_and_one_that_ends_with_its_bus_is_silent(broker, monkeypatch):
    member, told = broker.open("w0"), []
    monkeypatch.setattr(threading, "excepthook", told.append)
    for deliveries in (2, 3):
        member.worker("master/tasks", group="team", deliver_max=deliveries)(lambda task: None)
        member.flush(20)
    threads = member._workers
    threads[1].join(20)
    member.close()
    threads[0].join(20)
    assert [(one.thread, one.exc_type) for one in told] == [(threads[1], errbus.Denied)]
    assert "the group exists with another pattern" in str(told[0].exc_value)


def test_a_task_that_raises_is_a_dead_letter_in_the_end(broker):
    master, member = broker.open("master"), broker.open("w0")
    deliveries = []

    @member.worker("master/tasks", group="team", deliver_max=2)
    def fail(task):
        deliveries.append(task.delivery)
        raise ValueError("never")

    master.publish("tasks", b"x")
    letters = master.subscribe("_groups/team/why").outcomes()
    assert isinstance(next(letters), errbus.RemoteError)
    assert deliveries == [1, 2]


def test_a_request_that_is_given_up_is_over_for_its_worker(broker, monkeypatch):
    master, member = broker.open("master"), broker.open("w0")
    sub = member.subscribe("master/tasks", group="team")
    taken = []

    def get_once_it_is_taken(topic, seq, timeout):
        taken.append(sub.recv(20))
        return errbus.Bus.get(master, topic, seq, timeout)

    monkeypatch.setattr(master, "get", get_once_it_is_taken)
    with pytest.raises(errbus.TimedOut):
        master.request("tasks", b"x", timeout=0.05)
    until(lambda: taken[0].is_over)
    with pytest.raises(errbus.Settled):
        taken[0].reply(b"late")


def test_a_message_ends_once_and_comes_back_when_it_is_forgotten(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    alice.publish("w", b"x")
    sub = bob.subscribe("alice/w", group="team")
    task = sub.recv(5)
    assert task.delivery == 1
    value = task.value
    del task
    gc.collect()
    task = sub.recv(5)
    assert task.delivery == 2 and bytes(value) == b"x"
    task.ack()
    assert task.is_settled and bytes(task.value if task._value else value) == b"x"
    with pytest.raises(errbus.Settled):
        task.ack()


def test_a_large_value_comes_in_pieces(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    sub = bob.subscribe("alice/w", pieces=True)
    sent = np.arange(1 << 20, dtype="u4")
    alice.publish("w", sent)
    got, pieces = bytearray(), 0
    for msg in sub:
        assert msg.piece.offset == len(got) and msg.piece.total == sent.nbytes
        got += msg.value
        pieces += 1
        if msg.piece.is_last:
            break
    assert pieces > 1 and (np.frombuffer(got, "u4") == sent).all()
    alice.publish("w", b"small")
    whole = sub.recv(10)
    assert whole.piece == errbus.Piece(0, 5, True) and bytes(whole) == b"small"
